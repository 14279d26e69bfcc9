//! A repository behind ssh: the system's `ssh` as a child, and git's program behind it.
//!
//! ```text
//! options     pure: the command line
//! complaint   pure: what ssh and the server print, read
//! folder      our key, the host keys that are believed, the connection that is kept
//! session     one child: bytes in, bytes out, each with an end
//! push        our own push over it
//! ```
//!
//! So that ssh's own keys, certificates of hosts and ciphers hold, which companies set rules for.
//! Knows bytes only; what a fetch or a push is, others know.

mod complaint;
mod folder;
mod options;
mod push;
mod session;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use secrecy::SecretString;

use crate::git::error::WriteError;
use crate::git::ssh::complaint::Kind;
use crate::git::ssh::folder::Folder;
pub(super) use crate::git::ssh::options::Program;
pub(super) use crate::git::ssh::session::Session;
use crate::git::token::{NoToken, Tokens};
use crate::model::ssh::SshAddress;
use crate::support::retry::Disposition;

/// How to come in over ssh. The private key itself comes from where a token comes from.
#[derive(Debug, Clone)]
pub struct Access {
    /// The file with the host keys that are believed, as `ssh-keyscan` writes it.
    pub known_hosts: PathBuf,
    /// Where ssh runs; made for our eyes only. No other repository may use it.
    pub folder: PathBuf,
}

/// How to reach one repository over ssh.
#[derive(Debug)]
pub(super) struct Ssh {
    pub(super) address: SshAddress,
    keys: Tokens,
    known_hosts: PathBuf,
    /// Locked while it is made ready, so that two children do not both.
    folder: Mutex<Folder>,
    /// The longest silence of a server that we sit through.
    silence: Duration,
    /// The longest a whole exchange may take.
    total: Duration,
    runtime: tokio::runtime::Handle,
}

/// A failed exchange.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
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
    pub(super) fn into_error(self, repository: String, help: &str) -> WriteError {
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

impl Ssh {
    /// Must be called in a runtime, whose threads then wait for the children. The error says what
    /// is missing.
    pub(super) fn new(
        address: SshAddress,
        access: Option<Access>,
        keys: Tokens,
        (silence, total): (Duration, Duration),
    ) -> Result<Self, String> {
        let missing =
            || format!("{address} needs a key and the host keys that are believed: set `ssh`");
        let Access { known_hosts, folder } = access.ok_or_else(missing)?;
        let folder = Mutex::new(Folder::new(folder, address.clone()));
        let runtime = tokio::runtime::Handle::current();
        Ok(Self { address, keys, known_hosts, folder, silence, total, runtime })
    }

    /// Starts a program of git's on the repository.
    pub(super) fn open(self: &Arc<Self>, program: Program) -> Result<Session, Failure> {
        let key = self.key()?;
        let mut folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        folder.prepare(&key, &self.known_hosts).map_err(|error| Failure::OnDisk {
            folder: folder.path.display().to_string(),
            cause: error.to_string(),
        })?;
        Session::start(Arc::clone(self), &folder, program)
    }

    /// What to do about a host that is not believed.
    fn trust(&self) -> String {
        let port = self.address.port().map_or_else(String::new, |port| format!("-p {port} "));
        let (host, file) = (self.address.host(), self.known_hosts.display());
        format!(
            "compare what `ssh-keyscan {port}{host}` shows with what the host makes public, and \
             put it into {file}"
        )
    }

    /// What to do about a key that is not accepted.
    pub(super) fn help(&self) -> &str {
        self.keys.help()
    }

    /// Waits for the source of keys, no longer than for the host itself.
    fn key(&self) -> Result<SecretString, Failure> {
        let bounded = async { tokio::time::timeout(self.silence, self.keys.any()).await };
        let answer = self.runtime.block_on(bounded).unwrap_or_else(|_| {
            let why = format!("no key was to be had for {} s", self.silence.as_secs_f32());
            Err(NoToken { why, next: Disposition::Retry { after: None } })
        });
        let none = || NoToken { why: self.keys.help().to_owned(), next: Disposition::Stop };
        Ok(answer?.ok_or_else(none)?)
    }

    /// Takes the key away from the disk and lets the connection go; the next exchange brings both
    /// back. Blocks for a moment.
    pub(super) fn close(&self) {
        let leaving = self.folder.lock().unwrap_or_else(PoisonError::into_inner).leave();
        if let Some(leaving) = leaving {
            leaving.end();
        }
    }

    /// The next exchange makes a connection of its own.
    fn forget_connection(&self) {
        self.folder.lock().unwrap_or_else(PoisonError::into_inner).forget_connection();
    }
}

/// Neither the key nor a connection is left behind. Nobody waits for the latter.
impl Drop for Ssh {
    fn drop(&mut self) {
        let folder = self.folder.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(leaving) = folder.leave() {
            leaving.end_beside();
        }
    }
}
