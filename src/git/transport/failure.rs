//! The error of an exchange with a git server, over HTTP or ssh, and its conversion into the writer's error. Plain
//! values.

use std::time::Duration;

use crate::git::error::WriteError;
use crate::git::transport::ssh::complaint::ComplaintKind;
use crate::git::transport::token::TokenError;
use crate::support::cause::innermost_cause;

/// A failed exchange.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::git) enum Failure {
    /// There is no token; over ssh, no key.
    #[error(transparent)]
    NoToken(#[from] TokenError),
    #[error("HTTP {status}: the token is not accepted")]
    Unauthorized { status: u16 },
    #[error("HTTP {status}: no repository there")]
    NotFound { status: u16 },
    #[error("HTTP {status}: the server asks the service to wait")]
    Limited { status: u16, wait: Option<Duration> },
    #[error("the server answers with HTTP {status}")]
    Server { status: u16 },
    #[error("the repository has moved to {to}: write the new address into the configuration")]
    Moved { to: String },
    #[error("the answer is not git's ({0}): is the address a git repository's?")]
    NotGit(String),
    #[error("the answer is larger than {0} bytes")]
    TooLarge(u64),
    #[error("{0}")]
    Broken(String),
    #[error("it was cut off: its lease had ended")]
    LeaseOver,
    #[error("{cause}")]
    OnDisk { folder: String, cause: String },
    #[error("`ssh` cannot be started ({0}): install OpenSSH's client where this service runs")]
    NoSsh(String),
    /// `ssh` or the program behind it complained; `trust` is what to do where the host is not
    /// believed.
    #[error("{words}")]
    Said { kind: ComplaintKind, words: String, trust: String },
}

impl Failure {
    /// Converts the HTTP client's error: the innermost cause says most, and the address is left out.
    pub(in crate::git) fn of(error: &reqwest::Error) -> Self {
        let kind = match error {
            error if error.is_connect() => "no connection",
            error if error.is_timeout() => "no answer in time",
            error if error.is_body() || error.is_decode() => "the connection was cut",
            _ => "the request failed",
        };
        let cause = innermost_cause(error);
        let inner =
            if std::ptr::addr_eq(cause, error) { String::new() } else { format!(" ({cause})") };
        Self::Broken(clean(&format!("{kind}{inner}")))
    }

    pub(in crate::git) fn silent(after: Duration) -> Self {
        Self::Broken(format!("the server said nothing for {} s", after.as_secs_f32()))
    }

    /// Builds the error of an answer to a push without a report.
    pub(in crate::git) fn unreported(words: &str) -> Self {
        Self::Broken(clean(&unreported(words)))
    }

    pub(in crate::git) fn late(after: Duration) -> Self {
        Self::Broken(format!("the exchange was not over after {} s", after.as_secs_f32()))
    }

    /// Returns true if the server surely did nothing with the request.
    pub(in crate::git) fn is_definite(&self) -> bool {
        matches!(
            self,
            Self::NoToken(_)
                | Self::Unauthorized { .. }
                | Self::NotFound { .. }
                | Self::Limited { .. }
        )
    }

    /// Converts it into the writer's error; `help` is the way out for a token or a key that is not accepted.
    pub(in crate::git) fn into_error(self, repository: String, help: &str) -> WriteError {
        let cause = self.to_string();
        match self {
            Self::NoToken(why) => WriteError::NoToken { repository, why },
            Self::Unauthorized { status } => {
                WriteError::Unauthorized { repository, status, help: help.to_owned() }
            }
            Self::NotFound { .. } => WriteError::NotFound { repository },
            Self::LeaseOver => WriteError::LeaseOver { repository },
            Self::OnDisk { folder, cause } => WriteError::Disk { repository, folder, cause },
            Self::Limited { wait, .. } => WriteError::Unreachable { repository, cause, wait },
            Self::Moved { .. } | Self::NotGit(_) | Self::TooLarge(_) | Self::NoSsh(_) => {
                WriteError::Invalid(format!("{repository}: {cause}"))
            }
            Self::Server { .. } | Self::Broken(_) => WriteError::unreachable(repository, cause),
            Self::Said { kind, words, trust } => {
                convert_complaint(kind, words, &trust, repository, help)
            }
        }
    }
}

fn convert_complaint(
    kind: ComplaintKind,
    message: String,
    trust: &str,
    repository: String,
    help: &str,
) -> WriteError {
    let key_refused = |help: &str| WriteError::KeyRefused {
        repository: repository.clone(),
        said: message.clone(),
        help: help.to_owned(),
    };
    let not_trusted = |cause: &str| WriteError::NotTrusted {
        repository: repository.clone(),
        cause: cause.to_owned(),
        help: trust.to_owned(),
    };
    match kind {
        ComplaintKind::HostUnknown => not_trusted("its host key is not among the trusted ones"),
        ComplaintKind::HostChanged => not_trusted("its host key differs from the trusted one"),
        ComplaintKind::KeyRefused => key_refused(help),
        ComplaintKind::ReadOnly => key_refused("give that key the right to write there"),
        ComplaintKind::NoRepository => WriteError::NotFound { repository },
        // An unknown failure may pass: a host under maintenance has many words for it.
        ComplaintKind::NoConnection | ComplaintKind::Other => {
            WriteError::unreachable(repository, message)
        }
    }
}

/// Describes a push whose answer is only these words.
pub(in crate::git) fn unreported(words: &str) -> String {
    let message = words.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("the server did not report what became of the push, but said: {message}")
}

/// Cleans others' text for messages: one line, bounded, and without a NUL that libgit2 would stumble over.
pub(in crate::git) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_of_the_door_is_definite() {
        assert!(Failure::Unauthorized { status: 401 }.is_definite());
        assert!(!Failure::Server { status: 502 }.is_definite());
        assert!(!Failure::silent(Duration::from_secs(1)).is_definite());
    }
}
