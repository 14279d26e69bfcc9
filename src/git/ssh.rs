//! A repository behind ssh: the system's `ssh` as a child, and git's program behind it.
//!
//! ```text
//! options     pure: the command line
//! complaint   pure: what ssh and the server print, read
//! folder      our key, the host keys that are believed, the connection that is kept
//! session     one child: bytes in, bytes out, each with an end
//! smart       the same as a transport of libgit2
//! ```
//!
//! So that ssh's own keys, certificates of hosts and ciphers hold, which companies set rules for.
//! Knows bytes only; what a fetch or a push is, others know.

mod complaint;
mod folder;
mod options;
mod session;
pub(super) mod smart;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use secrecy::SecretString;

use crate::git::error::{Disposition, WriteError};
use crate::git::ssh::complaint::Kind;
use crate::git::ssh::folder::Folder;
pub(super) use crate::git::ssh::options::Program;
pub(super) use crate::git::ssh::session::Session;
use crate::git::token::{NoToken, Tokens};
use crate::model::ssh::SshAddress;

/// How to come in over ssh. The private key itself comes from where a token comes from.
#[derive(Debug, Clone)]
pub struct Access {
    /// The file with the host keys that are believed, as `ssh-keyscan` writes it.
    pub known_hosts: PathBuf,
    /// Where ssh runs; made for our eyes only. No other repository may use it.
    pub folder: PathBuf,
}

/// What to say where an address is ssh's and nothing says how to come in.
pub(super) fn no_access(address: &SshAddress) -> String {
    format!("{address} needs a key and the host keys that are believed: set `ssh` beside it")
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
    #[error("{0}")]
    OnDisk(String),
    #[error("`ssh` cannot be started ({0}): install OpenSSH's client where this service runs")]
    NoProgram(String),
    #[error("{words}")]
    Said { kind: Kind, words: String },
    #[error("the server said nothing for {} s", .0.as_secs_f32())]
    Silent(Duration),
    #[error("the exchange was not over after {} s", .0.as_secs_f32())]
    TooLong(Duration),
    #[error("the answer is larger than {0} bytes")]
    TooLarge(u64),
    #[error("the answer is not git's ({0}): is the address a git repository's?")]
    NotGit(String),
}

impl Ssh {
    /// Must be called in a runtime, whose threads then wait for the children.
    pub(super) fn new(
        address: SshAddress,
        access: Access,
        keys: Tokens,
        (silence, total): (Duration, Duration),
    ) -> Self {
        let Access { known_hosts, folder } = access;
        let folder = Mutex::new(Folder(folder));
        let runtime = tokio::runtime::Handle::current();
        Self { address, keys, known_hosts, folder, silence, total, runtime }
    }

    /// Starts a program of git's on the repository.
    pub(super) fn open(self: &Arc<Self>, program: Program) -> Result<Session, Failure> {
        let key = self.key()?;
        let folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        folder
            .prepare(&key, &self.known_hosts)
            .map_err(|error| Failure::OnDisk(error.to_string()))?;
        Session::start(Arc::clone(self), &folder, program)
    }

    /// Asks whether the branch could be pushed to: as far as the list of branches.
    pub(super) fn probe(self: &Arc<Self>) -> Result<(), Failure> {
        let mut session = self.open(Program::ReceivePack)?;
        session.advertisement()?;
        session.say_goodbye();
        Ok(())
    }

    /// A failure in the writer's words.
    pub(super) fn error(&self, failure: Failure) -> WriteError {
        let repository = self.address.to_string();
        let cause = failure.to_string();
        match failure {
            Failure::NoKey(why) => WriteError::NoToken { repository, why },
            Failure::OnDisk(_) => {
                let folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
                let folder = folder.0.display().to_string();
                WriteError::Disk { repository, folder, cause }
            }
            Failure::NoProgram(_) | Failure::TooLarge(_) | Failure::NotGit(_) => {
                WriteError::Invalid(format!("{repository}: {cause}"))
            }
            Failure::Silent(_) | Failure::TooLong(_) => {
                WriteError::Unreachable { repository, cause, wait: None }
            }
            Failure::Said { kind, words } => self.said(kind, words),
        }
    }

    fn said(&self, kind: Kind, words: String) -> WriteError {
        let repository = self.address.to_string();
        let help = match kind {
            Kind::HostUnknown | Kind::HostChanged => self.trust(),
            Kind::KeyRefused => self.keys.help().to_owned(),
            Kind::ReadOnly => "give that key the right to write there".to_owned(),
            Kind::Other => "settle it on the server, then redeploy".to_owned(),
            Kind::NoRepository => return WriteError::NotFound { repository },
            Kind::NoConnection => {
                return WriteError::Unreachable { repository, cause: words, wait: None };
            }
        };
        match kind {
            Kind::HostUnknown => {
                let cause = "its host key is not among those that are believed".to_owned();
                WriteError::NotTrusted { repository, cause, help }
            }
            Kind::HostChanged => {
                let cause = "its host key is another one than is believed".to_owned();
                WriteError::NotTrusted { repository, cause, help }
            }
            _ => WriteError::KeyRefused { repository, said: words, help },
        }
    }

    fn trust(&self) -> String {
        let port = self.address.port().map_or_else(String::new, |port| format!("-p {port} "));
        let (host, file) = (self.address.host(), self.known_hosts.display());
        format!(
            "compare what `ssh-keyscan {port}{host}` shows with what the host makes public, and \
             put it into {file}"
        )
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

    /// The next exchange makes a connection of its own.
    fn forget_connection(&self) {
        self.folder.lock().unwrap_or_else(PoisonError::into_inner).forget_connection();
    }
}
