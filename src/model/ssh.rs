//! The address of a repository behind ssh, as git writes it.
//!
//! No part of an address can be taken for an option by the program that is started with it, and none holds a password.
//! A message never repeats the text before an `@`.

use std::fmt;

const HELP: &str = "write it like git@HOST:OWNER/NAME.git, or ssh://git@HOST:PORT/PATH.git";

/// `USER@HOST:PATH` or `ssh://USER@HOST:PORT/PATH`, checked; shown as people write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshAddress {
    user: String,
    host: String,
    port: Option<u16>,
    path: String,
}

impl SshAddress {
    /// Checks that a text is such an address: by its scheme, or by a colon before its first slash, which is also git's
    /// own test.
    pub fn is_meant(text: &str) -> bool {
        let first = text.split('/').next().unwrap_or_default();
        text.starts_with("ssh://") || (!text.contains("://") && first.contains(':'))
    }

    /// Reads an address.
    ///
    /// # Errors
    /// The fault, and the right form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let address = match text.strip_prefix("ssh://") {
            Some(rest) => of_url(rest),
            None => of_scp(text),
        };
        address.and_then(Self::checked).map_err(|fault| format!("{fault}: {HELP}"))
    }

    fn checked(self) -> Result<Self, &'static str> {
        let Self { user, host, port: _, path } = &self;
        if user.contains(':') {
            return Err("the address holds a password, which ends in logs");
        }
        if !is_word(user, "._+-") {
            return Err("the address does not say as which user to come");
        }
        if !is_word(host, ".-_:") {
            return Err("the address has no host");
        }
        // A program behind ssh would take a path with a dash for an option.
        if path.is_empty() || path == "/" || path.starts_with('-') {
            return Err("the address has no path");
        }
        if path.chars().any(char::is_control) {
            return Err("the path of the address has a control character");
        }
        Ok(self)
    }

    /// Returns the user to log in as: `git`.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Returns the host: a name or an IP address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port where ssh listens, if not on its own port.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns where the repository is on that host; without a slash at its beginning from the
    /// user's home.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Writes the host as a file of known hosts names it: `HOST`, or `[HOST]:PORT`.
    pub fn known_as(&self) -> String {
        match self.port {
            Some(port) if port != 22 => format!("[{}]:{port}", self.host),
            Some(_) | None => self.host.clone(),
        }
    }
}

impl fmt::Display for SshAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, host, port, path } = self;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        match (port, path.strip_prefix('/')) {
            (None, None) => write!(f, "{user}@{host}:{path}"),
            (Some(port), _) => {
                write!(f, "ssh://{user}@{host}:{port}/{}", path.trim_start_matches('/'))
            }
            (None, Some(path)) => write!(f, "ssh://{user}@{host}/{path}"),
        }
    }
}

fn of_url(rest: &str) -> Result<SshAddress, &'static str> {
    let (authority, path) = rest.split_once('/').ok_or("the address has no path")?;
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (host, tail) = host_of(host)?;
    let port = match tail.strip_prefix(':').unwrap_or(tail) {
        "" => None,
        port => Some(port.parse().map_err(|_| "the port of the address is no number")?),
    };
    if path.contains('%') {
        return Err("the path of the address has a `%`, which programs read differently");
    }
    // `/~user/x` is from that user's home, as git reads it.
    let path = if path.starts_with('~') { path.to_owned() } else { format!("/{path}") };
    Ok(SshAddress { user: user.to_owned(), host, port, path })
}

fn of_scp(text: &str) -> Result<SshAddress, &'static str> {
    let first = text.split('/').next().unwrap_or_default();
    let (user, rest) = match first.rfind('@') {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default()),
        None => ("", text),
    };
    let (host, tail) = host_of(rest)?;
    let path = tail.strip_prefix(':').ok_or("the address has no path")?.to_owned();
    Ok(SshAddress { user: user.to_owned(), host, port: None, path })
}

/// Splits off the host, and returns it with the rest of the text; an IPv6 address is in brackets.
fn host_of(text: &str) -> Result<(String, &str), &'static str> {
    if let Some(inner) = text.strip_prefix('[') {
        let (host, tail) = inner.split_once(']').ok_or("a bracket of the address is not closed")?;
        return Ok((host.to_owned(), tail));
    }
    let end = text.find(':').unwrap_or(text.len());
    let (host, tail) = text.split_at(end);
    if host.contains('/') {
        return Err("the address has no host");
    }
    Ok((host.to_owned(), tail))
}

fn is_word(text: &str, beside: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || beside.contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, String, Option<u16>, String) {
        let SshAddress { user, host, port, path } = SshAddress::parse(text).unwrap();
        (user, host, port, path)
    }

    fn own(
        user: &str,
        host: &str,
        port: Option<u16>,
        path: &str,
    ) -> (String, String, Option<u16>, String) {
        (user.into(), host.into(), port, path.into())
    }

    #[test]
    fn both_ways_of_writing_are_read() {
        for (text, expected) in [
            ("git@github.com:o/n.git", own("git", "github.com", None, "o/n.git")),
            ("git@h:/srv/n.git", own("git", "h", None, "/srv/n.git")),
            ("ssh://git@h/srv/n.git", own("git", "h", None, "/srv/n.git")),
            ("ssh://git@h:2222/o/n.git", own("git", "h", Some(2222), "/o/n.git")),
            ("ssh://me@h/~me/n.git", own("me", "h", None, "~me/n.git")),
            ("ssh://git@[::1]:22/n", own("git", "::1", Some(22), "/n")),
            ("git@[::1]:n", own("git", "::1", None, "n")),
        ] {
            assert!(SshAddress::is_meant(text), "{text}");
            assert_eq!(parts(text), expected, "{text}");
            let text_shown = SshAddress::parse(text).unwrap().to_string();
            assert_eq!(parts(&text_shown), expected, "{text} is shown as {text_shown}");
        }
        for text in ["/srv/n.git", "./a:b", "https://h/n.git", "file:///a:b", "n.git"] {
            assert!(!SshAddress::is_meant(text), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_way_out() {
        for (text, words) in [
            ("ssh://github.com/o/n", "as which user"),
            ("github.com:o/n", "as which user"),
            ("ssh://git@h", "no path"),
            ("ssh://git@h/", "no path"),
            ("git@h:", "no path"),
            ("git@h:-oProxyCommand=x", "no path"),
            ("ssh://-oProxyCommand=x@h/n", "as which user"),
            ("ssh://git@-oProxyCommand=x/n", "no host"),
            ("git@h h:n", "no host"),
            ("ssh://git@h:x/n", "port"),
            ("ssh://git@h:70000/n", "port"),
            ("ssh://git@[::1/n", "bracket"),
            ("ssh://git@h/a%20b", "`%`"),
            ("git@h:a\nb", "control character"),
        ] {
            let error = SshAddress::parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
            assert!(error.contains("git@HOST:OWNER/NAME.git"), "{text}: {error}");
        }
    }

    #[test]
    fn a_password_is_refused_and_not_repeated() {
        for text in ["ssh://git:hunter2@h/n", "ssh://hunter2:x@h:y/n"] {
            let error = SshAddress::parse(text).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_host_has_its_name_in_a_file_of_known_hosts() {
        let known = |text| SshAddress::parse(text).unwrap().known_as();
        assert_eq!(known("git@h:n"), "h");
        assert_eq!(known("ssh://git@h:22/n"), "h");
        assert_eq!(known("ssh://git@h:2222/n"), "[h]:2222");
    }
}
