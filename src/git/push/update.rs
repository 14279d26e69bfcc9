//! What is asked of a server, and what its no means.

use git2::{Oid, Repository};

use crate::git::error::Trouble;
use crate::git::fence::Fence;
use crate::git::outcome::Published;
use crate::git::pack::Load;
use crate::git::refusal::{self, Verdict};

/// The branch is to be moved from `base` to `tip`.
pub(in crate::git) struct Update<'a> {
    /// Where it must be; `None` where there must be no such branch.
    pub(in crate::git) base: Option<Oid>,
    pub(in crate::git) tip: Oid,
    /// `refs/heads/main`
    pub(in crate::git) reference: &'a str,
    /// What the server has not.
    pub(in crate::git) load: &'a Load,
    /// When it closes, what is under way is cut.
    pub(in crate::git) fence: &'a Fence,
}

/// A way to move a branch. Never forces: on a branch that is elsewhere it is [`Published::Lost`].
pub(in crate::git) trait Push: Send {
    fn push(&mut self, repo: &Repository, update: &Update<'_>) -> Result<Published, Trouble>;
}

/// What a server's no means: its status for the branch, and what it printed beside it.
pub(super) fn refused(status: &str, printed: &[u8]) -> Published {
    match refusal::classify(status, &String::from_utf8_lossy(printed)) {
        Verdict::LostRace => Published::Lost,
        Verdict::Refused(refusal) => Published::Refused(refusal),
    }
}
