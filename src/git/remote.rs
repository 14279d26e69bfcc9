//! A repository on a server, whatever the way to it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use git2::Oid;

use crate::git::error::WriteError;
use crate::git::fence::Fence;
use crate::git::http::{Exchange, Wire};
use crate::git::push::report;
use crate::git::ssh::{self, Ssh};
use crate::git::token::Tokens;
use crate::git::wire::Failure;
use crate::model::ssh::SshAddress;

/// The way to one repository. Clones share it.
#[derive(Debug, Clone)]
pub(super) enum Remote {
    /// Smart HTTP.
    Http(Arc<Wire>),
    /// The system's ssh.
    Ssh(Arc<Ssh>),
}

/// How to come to a server, as the settings of a repository say.
pub(super) struct Way<'a> {
    pub(super) tokens: &'a Tokens,
    pub(super) ssh: &'a Option<ssh::Access>,
    pub(super) client: &'a reqwest::Client,
    pub(super) silence: Duration,
    pub(super) total: Duration,
}

impl Way<'_> {
    /// Over smart HTTP. Must be called in a runtime.
    pub(super) fn http(&self, base: reqwest::Url) -> Remote {
        let Self { tokens, ssh: _, client, silence, total } = *self;
        let (client, tokens) = (client.clone(), tokens.clone());
        let runtime = tokio::runtime::Handle::current();
        let fence = Fence::none();
        Remote::Http(Arc::new(Wire { base, client, tokens, silence, total, runtime, fence }))
    }

    /// Over ssh. Must be called in a runtime; the error says what is missing.
    pub(super) fn ssh(&self, address: SshAddress) -> Result<Remote, String> {
        let Self { tokens, ssh, client: _, silence, total } = *self;
        let ssh = Ssh::new(address, ssh.clone(), tokens.clone(), (silence, total))?;
        Ok(Remote::Ssh(Arc::new(ssh)))
    }
}

/// What came of a push that was carried to the server.
#[derive(Debug)]
pub(super) enum Carried {
    /// The server's answer, from its first byte.
    Answer(Vec<u8>),
    /// The server said before anything was sent that the branch is elsewhere. Only a server that
    /// speaks first can say so.
    Moved,
}

impl Carried {
    fn words_without_a_report(&self, reference: &str) -> Option<String> {
        match self {
            Self::Answer(answer) => report::words_without_a_report(answer, reference),
            Self::Moved => None,
        }
    }
}

/// A push that did not come to an answer.
#[derive(Debug)]
pub(super) struct NotCarried {
    pub(super) failure: Failure,
    /// Whether the pack had begun to go out: the server may have taken it.
    pub(super) sent: bool,
}

impl Remote {
    /// Hands a push (commands, then the pack) to the server's `git receive-pack`; `base` is where
    /// the branch must be. When the fence closes, it is cut.
    pub(super) fn receive_pack(
        &self,
        (base, reference): (Option<Oid>, &str),
        body: Vec<u8>,
        fence: &Fence,
    ) -> Result<Carried, NotCarried> {
        let carried = match self {
            Self::Http(wire) => {
                let answer = wire.within(fence).whole(Exchange::RECEIVE_PACK, body);
                answer.map(Carried::Answer).map_err(|failure| NotCarried { failure, sent: true })
            }
            Self::Ssh(ssh) => ssh.receive_pack((base, reference), &body, fence),
        }?;
        match carried.words_without_a_report(reference) {
            Some(words) => Err(NotCarried { failure: Failure::unreported(&words), sent: true }),
            None => Ok(carried),
        }
    }

    /// Takes away what lies on this disk to come in with; another exchange brings it back. Blocks for
    /// a moment.
    pub(super) fn close(&self) {
        match self {
            Self::Http(_) => {}
            Self::Ssh(ssh) => ssh.close(),
        }
    }

    /// The branches of the server, as `git receive-pack` advertises them.
    pub(super) fn advertisement(&self) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Http(wire) => wire.whole(Exchange::RECEIVE_PACK_REFS, Vec::new()),
            Self::Ssh(ssh) => Ok(ssh.advertised()?),
        }
    }

    /// Asks whether the repository could be pushed to: one small request.
    pub(super) fn probe(&self) -> Result<(), Failure> {
        match self {
            Self::Http(wire) => wire.send(Exchange::RECEIVE_PACK_REFS, Vec::new()).map(drop),
            Self::Ssh(ssh) => Ok(ssh.advertised().map(drop)?),
        }
    }

    /// What libgit2 is told to be the host.
    pub(super) fn host(&self) -> &str {
        match self {
            Self::Http(wire) => wire.base.host_str().unwrap_or_default(),
            Self::Ssh(_) => "ssh",
        }
    }

    /// A failure in the writer's words.
    pub(super) fn error(&self, failure: Failure) -> WriteError {
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
