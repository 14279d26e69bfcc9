//! A failed exchange over ssh, and what the writer makes of it. Plain values.

use std::time::Duration;

use crate::git::error::{NoToken, WriteError};
use crate::git::ssh::complaint::Kind;

/// A failed exchange.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::git) enum Failure {
    #[error(transparent)]
    NoKey(#[from] NoToken),
    #[error("{cause}")]
    OnDisk { folder: String, cause: String },
    #[error("`ssh` cannot be started ({0}): install OpenSSH's client where this service runs")]
    NoProgram(String),
    /// `trust` is what to do where the host is not believed.
    #[error("{words}")]
    Said { kind: Kind, words: String, trust: String },
    #[error("the server said nothing for {} s", .0.as_secs_f32())]
    Silent(Duration),
    #[error("the exchange was not over after {} s", .0.as_secs_f32())]
    TooLong(Duration),
    #[error("it was cut off: its lease had ended")]
    LeaseOver,
    #[error("the answer is larger than {0} bytes")]
    TooLarge(u64),
    #[error("the answer is not git's ({0}): is the address a git repository's?")]
    NotGit(String),
}

impl Failure {
    /// The same, as the writer's error; `help` is what to do about a key that is not accepted.
    pub(in crate::git) fn into_error(self, repository: String, help: &str) -> WriteError {
        let cause = self.to_string();
        match self {
            Self::NoKey(why) => WriteError::NoToken { repository, why },
            Self::LeaseOver => WriteError::LeaseOver { repository },
            Self::OnDisk { folder, cause } => WriteError::Disk { repository, folder, cause },
            Self::NoProgram(_) | Self::TooLarge(_) | Self::NotGit(_) => {
                WriteError::Invalid(format!("{repository}: {cause}"))
            }
            Self::Silent(_) | Self::TooLong(_) => {
                WriteError::Unreachable { repository, cause, wait: None }
            }
            Self::Said { kind, words, trust } => said(kind, words, &trust, repository, help),
        }
    }
}

fn said(kind: Kind, said: String, trust: &str, repository: String, help: &str) -> WriteError {
    let refused = |help: &str| WriteError::KeyRefused {
        repository: repository.clone(),
        said: said.clone(),
        help: help.to_owned(),
    };
    let not_trusted = |cause: &str| WriteError::NotTrusted {
        repository: repository.clone(),
        cause: cause.to_owned(),
        help: trust.to_owned(),
    };
    match kind {
        Kind::HostUnknown => not_trusted("its host key is not among those that are believed"),
        Kind::HostChanged => not_trusted("its host key is another one than is believed"),
        Kind::KeyRefused => refused(help),
        Kind::ReadOnly => refused("give that key the right to write there"),
        Kind::NoRepository => WriteError::NotFound { repository },
        // What nobody knows may pass: a host that is being worked on has many words for it.
        Kind::NoConnection | Kind::Other => {
            WriteError::Unreachable { repository, cause: said, wait: None }
        }
    }
}
