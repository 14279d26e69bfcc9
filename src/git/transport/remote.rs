//! A repository on a server, over HTTP or ssh.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use git2::Oid;

use crate::git::error::WriteError;
use crate::git::transport::address::RepositoryAddress;
use crate::git::transport::failure::Failure;
use crate::git::transport::http::{Exchange, HttpRemote};
use crate::git::transport::push::report::{self, Transfer, TransferError};
use crate::git::transport::ssh::{SshAccess, SshRemote};
use crate::git::transport::token::Tokens;
use crate::git::writer::fence::Fence;

/// The prefix of a branch's reference.
pub(in crate::git) const HEADS: &str = "refs/heads/";

/// The way to one repository. Clones share it.
#[derive(Debug, Clone)]
pub(in crate::git) enum Remote {
    /// Smart HTTP.
    Http(Arc<HttpRemote>),
    /// The system's ssh.
    Ssh(Arc<SshRemote>),
}

/// The location of a repository's branch, and its credentials.
#[derive(Debug, Clone)]
pub struct RemoteSettings {
    /// A path, `file://`, `http://`, `https://` or ssh's, without credentials.
    pub url: String,
    /// The branch: `main`.
    pub branch: String,
    /// The folder of the bare clone; a local path needs none. No other program may use it.
    pub clone_dir: PathBuf,
    /// The source of tokens, asked before each exchange; a token is sent as basic auth of the user `x-access-token`.
    /// For ssh it gives the private key.
    pub tokens: Tokens,
    /// The access over ssh, where the repository is behind ssh.
    pub ssh: Option<SshAccess>,
    /// The HTTP client of the process.
    pub client: reqwest::Client,
    /// The longest silence of the server.
    pub silence: Duration,
    /// The longest that one request may take in all.
    pub total: Duration,
}

/// The location of a repository.
pub(in crate::git) enum RemoteSource {
    Folder(PathBuf),
    Server(Remote),
}

impl RemoteSettings {
    /// Returns the address as people may see it, the branch's reference, and the connection. Must be called in a
    /// runtime; the error says which setting is wrong or missing.
    pub(in crate::git) fn locate(&self) -> Result<(String, String, RemoteSource), String> {
        let address = RepositoryAddress::parse(&self.url)?;
        let (name, reference) = (address.to_string(), reference(&self.branch)?);
        let Self { tokens, client, silence, total, .. } = self.clone();
        let source = match address {
            RepositoryAddress::Local(path) => RemoteSource::Folder(path),
            RepositoryAddress::Http(base) => {
                let (runtime, fence) = (tokio::runtime::Handle::current(), Fence::none());
                let wire = HttpRemote { base, client, tokens, silence, total, runtime, fence };
                RemoteSource::Server(Remote::Http(Arc::new(wire)))
            }
            RepositoryAddress::Ssh(address) => {
                let ssh = SshRemote::new(address, self.ssh.clone(), tokens, (silence, total))?;
                RemoteSource::Server(Remote::Ssh(Arc::new(ssh)))
            }
        };
        Ok((name, reference, source))
    }
}

/// Returns the reference of a branch that an operator named.
pub(in crate::git) fn reference(branch: &str) -> Result<String, String> {
    let reference = format!("{HEADS}{branch}");
    if git2::Reference::is_valid_name(&reference) && !branch.starts_with('-') {
        return Ok(reference);
    }
    let shortened: String = branch.chars().take(60).collect();
    Err(format!("{shortened:?} is not a branch name: write one like `main`"))
}

impl Remote {
    /// Hands a push (commands, then the pack) to the server's `git receive-pack`; `base` is where
    /// the branch must be. When the fence closes, it is cut.
    pub(in crate::git) fn receive_pack(
        &self,
        (base, reference): (Option<Oid>, &str),
        body: Vec<u8>,
        fence: &Fence,
    ) -> Result<Transfer, TransferError> {
        let carried = match self {
            Self::Http(wire) => {
                let answer = wire.within(fence).send_and_read(Exchange::RECEIVE_PACK, body);
                answer
                    .map(Transfer::Answer)
                    .map_err(|failure| TransferError { failure, sent: true })
            }
            Self::Ssh(ssh) => ssh.receive_pack((base, reference), &body, fence),
        }?;
        if let Transfer::Answer(answer) = &carried
            && let Some(words) = report::words_without_a_report(answer, reference)
        {
            return Err(TransferError { failure: Failure::unreported(&words), sent: true });
        }
        Ok(carried)
    }

    /// Removes the key from this machine's disk; another exchange brings it back. Blocks for a moment.
    pub(in crate::git) fn close(&self) {
        match self {
            Self::Http(_) => {}
            Self::Ssh(ssh) => ssh.close(),
        }
    }

    /// Returns the branches of the server, as `git receive-pack` advertises them.
    pub(in crate::git) fn advertisement(&self) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Http(wire) => wire.send_and_read(Exchange::RECEIVE_PACK_REFS, Vec::new()),
            Self::Ssh(ssh) => ssh.read_advertisement(),
        }
    }

    /// Checks that the repository could be pushed to, with one small request.
    pub(in crate::git) fn probe(&self) -> Result<(), Failure> {
        match self {
            Self::Http(wire) => wire.send(Exchange::RECEIVE_PACK_REFS, Vec::new()).map(drop),
            Self::Ssh(ssh) => ssh.read_advertisement().map(drop),
        }
    }

    /// Converts a failure into the writer's error.
    pub(in crate::git) fn error(&self, failure: Failure) -> WriteError {
        let help = match self {
            Self::Http(wire) => wire.tokens.help(),
            Self::Ssh(ssh) => ssh.help(),
        };
        failure.into_error(self.to_string(), help)
    }
}

/// The address, as people may see it.
impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(wire) => f.write_str(wire.base.as_str()),
            Self::Ssh(ssh) => ssh.address.fmt(f),
        }
    }
}
