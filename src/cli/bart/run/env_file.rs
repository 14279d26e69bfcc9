//! Env files: `NAME=VALUE` a line, as dotenv libraries and Docker Compose read them. Pure.

use secrecy::{ExposeSecret as _, SecretString};

use super::plan::RunVariable;

/// Parses a file; the error has its line, and nothing of its content.
pub(super) fn parse(text: &str) -> Result<Vec<(String, SecretString)>, (usize, &'static str)> {
    let mut variables = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((n, line)) = lines.next() {
        let line = line.trim_start();
        let line = line.strip_prefix("export ").unwrap_or(line);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, rest) = line.split_once('=').ok_or((n + 1, "write NAME=VALUE"))?;
        let name = name.trim();
        if !is_variable(name) {
            return Err((n + 1, "the name of a variable has letters, digits and `_`"));
        }
        let rest = rest.trim_start();
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
        let value = if let Some(quote) = quote {
            // A quoted value may go on in the lines that follow.
            let mut quoted = rest.get(1..).unwrap_or_default().to_owned();
            loop {
                if let Some(value) = unquote(&quoted, quote) {
                    break value;
                }
                let (_, next) = lines.next().ok_or((n + 1, "the quoted value does not end"))?;
                quoted.push('\n');
                quoted.push_str(next);
            }
        } else {
            let end = rest.find(" #").unwrap_or(rest.len());
            rest.get(..end).unwrap_or(rest).trim_end().to_owned()
        };
        if value.contains('\0') {
            return Err((n + 1, "no variable can have a zero byte"));
        }
        variables.push((name.to_owned(), value.into()));
    }
    Ok(variables)
}

/// Returns the value up to the closing quote; `None` if there is none.
fn unquote(text: &str, quote: char) -> Option<String> {
    let mut value = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            c if c == quote => return Some(value),
            '\\' if quote == '"' => match chars.next()? {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                other => value.push(other),
            },
            c => value.push(c),
        }
    }
    None
}

/// Writes variables as such a file.
pub(super) fn write(variables: &[RunVariable]) -> SecretString {
    let mut text = String::new();
    for RunVariable { name, value, .. } in variables {
        let value = value.expose_secret();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./:@%+,-=".contains(c);
        if value.chars().all(is_plain) {
            text += &format!("{name}={value}\n");
        } else {
            let quoted = value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('$', "\\$")
                .replace('\r', "\\r")
                .replace('\n', "\\n");
            text += &format!("{name}=\"{quoted}\"\n");
        }
    }
    text.into()
}

/// Checks that a text can be the name of a variable.
pub(super) fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let variables = parse(text).unwrap().into_iter();
        variables.map(|(name, value)| (name, value.expose_secret().to_owned())).collect()
    }

    #[test]
    fn a_file_is_read_as_people_write_it() {
        let text = "# mine\nA=1\nexport B = two words # why\nC='a # $b'\nD=\"x\\ny\\\"\"\nE=\nF=\"one\ntwo\"\n";
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "a # $b"),
            ("D", "x\ny\""),
            ("E", ""),
            ("F", "one\ntwo"),
        ];
        assert_eq!(pairs(text), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn what_is_wrong_is_told_by_its_line_alone() {
        for (text, line) in [("A=1\nhunter2\n", 2), ("1X=hunter2", 1), ("A=\"hunter2", 1)] {
            let (n, message) = parse(text).unwrap_err();
            assert_eq!(n, line, "{text}");
            assert!(!message.contains("hunter2"));
        }
    }

    #[test]
    fn what_was_written_is_read_back() {
        let value = "a\"b\\c\n$d 'e' #f";
        for value in [value, "plain-1.0", "", "ü"] {
            let variable =
                RunVariable { name: "A".to_owned(), value: value.into(), origin: String::new() };
            let text = write(&[variable]);
            assert_eq!(pairs(text.expose_secret()), [("A".to_owned(), value.to_owned())]);
        }
    }
}
