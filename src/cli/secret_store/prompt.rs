//! Reads a secret from a terminal without echo, from a file, or from standard input; never from an argument, which every
//! user of the machine can see.

use std::io::{IsTerminal as _, Read as _};
use std::path::Path;

use secrecy::SecretString;

use super::contents::{MAX_VALUE, StoredValue};
use crate::cli::error::CliError;
use crate::cli::output;

/// Reads a value: of the file as it is, else from standard input without the last line end. A terminal is asked.
pub(in crate::cli) async fn read_value(
    question: &str,
    file: Option<&Path>,
) -> Result<StoredValue, CliError> {
    let bytes = match file {
        Some(file) if file != Path::new("-") => {
            let opened = std::fs::File::open(file).map_err(CliError::file("read", file))?;
            read_bounded(opened).map_err(CliError::file("read", file))?
        }
        _ if std::io::stdin().is_terminal() => read_hidden_line(question).await?.into_bytes(),
        _ => {
            let bytes = read_bounded(std::io::stdin().lock());
            let bytes = bytes.map_err(|_| CliError::io("standard input cannot be read"))?;
            without_line_end(bytes)
        }
    };
    if bytes.len() > MAX_VALUE {
        return Err(CliError::usage("the value is larger than 1 MiB"));
    }
    if bytes.is_empty() {
        return Err(CliError::usage("the value is empty: nothing was written")
            .hint("type it, pipe it in, or name a file with --from-file"));
    }
    Ok(StoredValue::bytes(bytes))
}

/// Asks for a token on the terminal; `None` if there is none.
pub(in crate::cli) async fn read_token(question: &str) -> Result<Option<SecretString>, CliError> {
    if !std::io::stdin().is_terminal() {
        return Ok(None);
    }
    let line = read_hidden_line(question).await?;
    let token = line.trim();
    if token.is_empty() {
        return Err(CliError::usage("no token was typed"));
    }
    Ok(Some(token.into()))
}

fn read_bounded(from: impl std::io::Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_VALUE as u64 + 3).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Removes one line end, which `echo` and editors add.
fn without_line_end(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    bytes
}

/// Reads a line from the terminal, which shows nothing of it. Ctrl-C leaves the terminal as it was.
#[cfg(unix)]
async fn read_hidden_line(question: &str) -> Result<String, CliError> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let failed = |_| CliError::io("the terminal cannot be told not to show what is typed");
    let stdin = std::io::stdin();
    let before = tcgetattr(&stdin).map_err(failed)?;
    let mut hidden = before.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    hidden.local_modes.insert(LocalModes::ECHONL);
    tcsetattr(&stdin, OptionalActions::Flush, &hidden).map_err(failed)?;
    output::note(question);
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line)
    });
    let line = tokio::select! {
        line = read => line.ok().and_then(Result::ok),
        _ = tokio::signal::ctrl_c() => {
            tcsetattr(&stdin, OptionalActions::Flush, &before).map_err(failed)?;
            return Err(CliError::interrupted("nothing was written"));
        }
    };
    tcsetattr(&stdin, OptionalActions::Flush, &before).map_err(failed)?;
    let line = line.ok_or_else(|| CliError::io("the terminal cannot be read as text (UTF-8)"))?;
    let line = without_line_end(line.into_bytes());
    String::from_utf8(line).map_err(|_| CliError::usage("what was typed is not UTF-8"))
}

#[cfg(not(unix))]
#[expect(clippy::unused_async, reason = "it waits for the terminal elsewhere")]
async fn read_hidden_line(_question: &str) -> Result<String, CliError> {
    Err(CliError::usage("bart cannot hide what is typed on this system")
        .hint("pipe the value in, or name a file with --from-file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_end_is_not_part_of_the_value() {
        for (text, expected) in
            [("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("a", "a"), ("\n", "")]
        {
            assert_eq!(without_line_end(text.into()), expected.as_bytes(), "{text:?}");
        }
    }
}
