//! How a branch on a server is moved, with the objects that it needs there.
//!
//! ```text
//! pkt       lines of git's protocol, pure
//! request   what is asked of receive-pack, pure
//! report    what it answers, pure
//! direct    our own client: one exchange, exactly the new objects
//! libgit2   the fallback: libgit2 finds out by itself what is new
//! ```

mod direct;
mod libgit2;
mod pkt;
pub(super) mod report;
mod request;

use git2::{Oid, Repository};

use crate::git::fence::Fence;
use crate::git::home::{Published, Trouble};
use crate::git::pack::Load;
use crate::git::push::direct::Direct;
use crate::git::push::libgit2::Libgit2;
use crate::git::refusal::{self, Verdict};
use crate::git::remote::Remote;

/// Who pushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PushBy {
    /// Our own client, which sends exactly what is new.
    #[default]
    Direct,
    /// libgit2, which asks the server for its branches first and walks trees to find what is new.
    Libgit2,
}

/// The branch is to be moved from `base` to `tip`.
pub(super) struct Update<'a> {
    /// Where it must be; `None` where there must be no such branch.
    pub(super) base: Option<Oid>,
    pub(super) tip: Oid,
    /// `refs/heads/main`
    pub(super) reference: &'a str,
    /// What the server has not.
    pub(super) load: &'a Load,
    /// When it closes, what is under way is cut.
    pub(super) fence: &'a Fence,
}

/// A way to move a branch. Never forces: on a branch that is elsewhere it is [`Published::Lost`].
pub(super) trait Push: Send {
    fn push(&mut self, repo: &Repository, update: &Update<'_>) -> Result<Published, Trouble>;
}

/// The one that is configured.
pub(super) fn of(by: PushBy, remote: Remote) -> Box<dyn Push> {
    match by {
        PushBy::Direct => Box::new(Direct::new(remote)),
        PushBy::Libgit2 => Box::new(Libgit2::new(remote)),
    }
}

/// What a server may print beside its report, in bytes.
const PRINTED_LIMIT: usize = 16 * 1024;

/// What a server's no means: its status for the branch, and what it printed beside it.
fn refused(status: &str, printed: &[u8]) -> Published {
    match refusal::classify(status, &String::from_utf8_lossy(printed)) {
        Verdict::LostRace => Published::Lost,
        Verdict::Refused(refusal) => Published::Refused(refusal),
    }
}
