//! The runner of `gpg`: with a deadline, without input from its environment but its home, and with only as much of its
//! output as a person reads.

use std::io::{ErrorKind, Read, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use secrecy::zeroize::Zeroizing;

use crate::git::PROGRAMS;
use crate::git::error::SigningError;

/// Ten times what the first use of a key takes whose passphrase is slow to check on purpose.
const LIMIT: Duration = Duration::from_secs(30);
/// The time for a program that has closed its outputs to end.
const GRACE: Duration = Duration::from_secs(1);
/// More than any signature, and more than a person reads.
const LARGEST: u64 = 64 * 1024;

/// The result of the program.
#[derive(Debug)]
pub(super) struct ProgramRun {
    pub(super) status: ExitStatus,
    pub(super) output: Vec<u8>,
    /// The text for people, and between it the lines for programs, `[GNUPG:] …`.
    pub(super) messages: String,
}

/// Runs `program` with that home and those bytes as its standard input.
pub(super) fn run(
    program: &str,
    home: &Path,
    arguments: &[&str],
    input: Zeroizing<Vec<u8>>,
) -> Result<ProgramRun, SigningError> {
    run_within(LIMIT, program, home, arguments, input)
}

/// Runs the program with one time limit for everything.
pub(super) fn run_within(
    limit: Duration,
    program: &str,
    home: &Path,
    arguments: &[&str],
    input: Zeroizing<Vec<u8>>,
) -> Result<ProgramRun, SigningError> {
    let mut child = command(program, home, arguments).spawn().map_err(|e| start_error(&e, home))?;
    let outputs = reader(child.stdout.take(), child.stderr.take());
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends before it has read all says why; that it did not read is no news.
        thread::spawn(move || drop(stdin.write_all(&input)));
    }
    let Ok((output, messages)) = outputs.recv_timeout(limit) else {
        let _ = child.kill().and_then(|()| child.wait());
        return Err(SigningError::TimedOut(limit.as_secs()));
    };
    let Some(status) = wait_for_exit(&mut child)? else {
        let _ = child.kill().and_then(|()| child.wait());
        return Err(SigningError::TimedOut(limit.as_secs()));
    };
    Ok(ProgramRun { status, output, messages: String::from_utf8_lossy(&messages).into_owned() })
}

/// Distinguishes the failed starts: a home that is gone is no missing program, and neither is a machine that can start
/// none just now.
fn start_error(error: &std::io::Error, home: &Path) -> SigningError {
    if error.kind() == ErrorKind::NotFound && home.is_dir() {
        SigningError::NoProgram(error.to_string())
    } else {
        SigningError::NotSigned(format!("it cannot be started now ({error})"))
    }
}

fn command(program: &str, home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", PROGRAMS).env("LC_ALL", "C").env("GNUPGHOME", home);
    command.args(arguments).current_dir(home);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Reads both outputs on a thread of its own, until both have ended.
fn reader(
    output: Option<impl Read + Send + 'static>,
    messages: Option<impl Read + Send + 'static>,
) -> Receiver<(Vec<u8>, Vec<u8>)> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let messages = thread::spawn(move || read_bounded(messages));
        let output = read_bounded(output);
        let _gone = sender.send((output, messages.join().unwrap_or_default()));
    });
    receiver
}

/// Reads to the end. A program that prints too much is cut off, and ends of it.
fn read_bounded(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // The bytes that came before a failure are better than none.
        let _ = pipe.take(LARGEST).read_to_end(&mut bytes);
    }
    bytes
}

/// Waits for the end of a program that has closed its outputs; `None` if it does not end.
fn wait_for_exit(child: &mut Child) -> Result<Option<ExitStatus>, SigningError> {
    let mut waited = Duration::ZERO;
    let mut pause = Duration::from_micros(50);
    while waited <= GRACE {
        let status = child.try_wait().map_err(|e| SigningError::NotSigned(e.to_string()))?;
        if status.is_some() {
            return Ok(status);
        }
        thread::sleep(pause);
        waited += pause;
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    Ok(None)
}
