//! Who holds the branch: a folder of this machine, or a server with our clone of it here.

use std::path::Path;

use git2::{Oid, Repository};

use crate::git::error::Trouble;
use crate::git::fence::Fence;
use crate::git::kept::{Kept, Seen};
use crate::git::local::Local;
use crate::git::outcome::Published;
use crate::git::pack::Load;

/// Who holds the branch.
pub(super) enum Home {
    Local(Local),
    Kept(Kept),
}

impl Home {
    pub(super) fn repo(&self) -> &Repository {
        match self {
            Self::Local(local) => &local.repo,
            Self::Kept(kept) => &kept.repo,
        }
    }

    /// The tip to begin with: the last one seen, where asking costs a request.
    pub(super) fn first_tip(&mut self) -> Result<Tip, Trouble> {
        match self {
            Self::Kept(Kept { tip: Seen::At(at), .. }) => Ok(Tip { at: *at, fresh: false }),
            Self::Local(_) | Self::Kept(_) => Ok(Tip { at: self.look()?, fresh: true }),
        }
    }

    pub(super) fn look(&mut self) -> Result<Option<Oid>, Trouble> {
        match self {
            Self::Local(local) => local.look(),
            Self::Kept(kept) => kept.look(),
        }
    }

    /// Moves the branch from `base` to `tip`, with the objects that it needs, as long as the fence
    /// is open.
    pub(super) fn publish(
        &mut self,
        base: Option<Oid>,
        tip: Oid,
        load: &Load,
        fence: &Fence,
    ) -> Result<Published, Trouble> {
        match self {
            Self::Local(local) => local.publish(base, tip, load, fence),
            Self::Kept(kept) => kept.publish(base, tip, load, fence),
        }
    }

    /// Where on this disk git works.
    pub(super) fn folder(&self) -> &Path {
        self.repo().path()
    }

    pub(super) fn repair(&mut self) -> Result<(), Trouble> {
        match self {
            Self::Local(local) => local.reopen(),
            Self::Kept(kept) => kept.renew(),
        }
    }

    pub(super) fn keep_house(&mut self) {
        match self {
            Self::Local(local) => local.keep_house(),
            Self::Kept(kept) => kept.keep_house(),
        }
    }
}

/// A tip, and whether it was seen in this write.
pub(super) struct Tip {
    pub(super) at: Option<Oid>,
    pub(super) fresh: bool,
}
