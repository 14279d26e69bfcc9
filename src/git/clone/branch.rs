//! The branch that is written: in a folder of this machine (`local`), or on a server, with a clone of it here.
//!
//! The clone is a cache: the server has the truth. A clone that is damaged, or of another repository, is created again;
//! a clone with too many objects is replaced by a new one, which is created beside it while the old one is in use.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use git2::{ErrorCode, Oid, Repository, Tree};

use crate::git::clone::bare::with_suffix;
use crate::git::clone::local::LocalBranch;
use crate::git::clone::{self, BranchLocation, CachedClone, TRACKING};
use crate::git::error::{StepError, WriteError};
use crate::git::objects::pack::NewObjects;
use crate::git::objects::tree;
use crate::git::transport::push::{self, Push, PushBy, Update};
use crate::git::transport::remote::{HEADS, Remote};
use crate::git::writer::fence::Fence;
use crate::git::writer::outcome::BranchMove;

/// The number of writes after a failed attempt to replace a full clone, before the next attempt.
const REST: u32 = 100;

/// The location of the branch. It shows if the repository exists while the writer is busy.
#[derive(Clone)]
pub(in crate::git) enum Location {
    Local { path: PathBuf, reference: String, alone: bool },
    Server { remote: Remote, clone: PathBuf },
}

impl Location {
    pub(in crate::git) fn open(
        self,
        reference: &str,
        by: PushBy,
    ) -> Result<BranchBackend, StepError> {
        Ok(match self {
            Self::Local { path, alone, .. } => {
                BranchBackend::Local(LocalBranch::open(&path, reference, alone)?)
            }
            Self::Server { remote, clone } => {
                BranchBackend::Remote(RemoteBranch::open(&clone, reference, remote, by)?)
            }
        })
    }

    /// Returns the place where the branch can be read beside the writer.
    pub(in crate::git) fn place(&self) -> BranchPlace {
        match self {
            Self::Local { path, reference, .. } => {
                BranchPlace { folder: path.clone(), reference: reference.clone(), live: true }
            }
            Self::Server { clone, .. } => {
                BranchPlace { folder: clone.clone(), reference: TRACKING.to_owned(), live: false }
            }
        }
    }

    /// Checks that a write could begin: one small request.
    pub(in crate::git) fn ready(&self) -> Result<(), StepError> {
        match self {
            Self::Local { path, reference, alone } => {
                LocalBranch::open(path, reference, *alone)?.ready()
            }
            Self::Server { remote, .. } => {
                remote.probe().map_err(|failure| remote.error(failure).into())
            }
        }
    }
}

/// The place where the branch can be read beside the writer, as far as it is known here.
#[derive(Debug, Clone)]
pub(in crate::git) struct BranchPlace {
    pub(in crate::git) folder: PathBuf,
    pub(in crate::git) reference: String,
    /// True if others' pushes are here as soon as they happen.
    live: bool,
}

impl BranchPlace {
    /// Returns the commit of the branch; `None` where a folder of this machine has no such branch.
    ///
    /// A clone without it is an error: it may be a new one that does not know the branch yet.
    pub(in crate::git) fn tip(&self, repo: &Repository) -> Result<Option<Oid>, git2::Error> {
        match repo.refname_to_id(&self.reference) {
            Err(error)
                if self.live && error.code() == ErrorCode::NotFound && self.folder.exists() =>
            {
                Ok(None)
            }
            tip => tip.map(Some),
        }
    }

    /// Returns the tree that the branch is at.
    pub(in crate::git) fn root<'r>(
        &self,
        repo: &'r Repository,
    ) -> Result<Option<Tree<'r>>, git2::Error> {
        tree::root(repo, self.tip(repo)?)
    }

    pub(in crate::git) fn to_write_error(&self, error: &git2::Error) -> WriteError {
        WriteError::of_git(self.folder.display().to_string(), &self.folder, error)
    }
}

/// The place of the branch: a server or a folder.
pub(in crate::git) enum BranchBackend {
    Local(LocalBranch),
    Remote(RemoteBranch),
}

/// A tip, and whether it was seen in this write.
pub(in crate::git) struct Tip {
    pub(in crate::git) at: Option<Oid>,
    pub(in crate::git) fresh: bool,
}

impl BranchBackend {
    pub(in crate::git) fn repo(&self) -> &Repository {
        match self {
            Self::Local(local) => &local.repo,
            Self::Remote(remote) => &remote.clone.repo,
        }
    }

    /// Returns the tip to begin with: the last one seen, where asking costs a request.
    pub(in crate::git) fn first_tip(&mut self) -> Result<Tip, StepError> {
        match self {
            Self::Remote(RemoteBranch { tip: KnownTip::At(at), .. }) => {
                Ok(Tip { at: *at, fresh: false })
            }
            Self::Local(_) | Self::Remote(_) => Ok(Tip { at: self.fetch_tip()?, fresh: true }),
        }
    }

    pub(in crate::git) fn fetch_tip(&mut self) -> Result<Option<Oid>, StepError> {
        match self {
            Self::Local(local) => local.read_tip(),
            Self::Remote(remote) => remote.fetch_tip(),
        }
    }

    /// Moves the branch from `base` to `tip`, with the objects that it needs, as long as the fence
    /// is open.
    pub(in crate::git) fn publish(
        &mut self,
        base: Option<Oid>,
        tip: Oid,
        load: &NewObjects,
        fence: &Fence,
    ) -> Result<BranchMove, StepError> {
        match self {
            Self::Local(local) => local.publish(base, tip, load, fence),
            Self::Remote(remote) => remote.publish(base, tip, load, fence),
        }
    }

    pub(in crate::git) fn repair(&mut self) -> Result<(), StepError> {
        match self {
            Self::Local(local) => local.reopen(),
            Self::Remote(remote) => remote.renew(),
        }
    }

    pub(in crate::git) fn run_maintenance(&mut self) {
        match self {
            Self::Local(local) => local.run_maintenance(),
            Self::Remote(remote) => remote.run_maintenance(),
        }
    }
}

/// A branch on a server.
pub(in crate::git) struct RemoteBranch {
    clone: CachedClone,
    reference: String,
    remote: Remote,
    by: PushBy,
    push: Box<dyn Push>,
    /// The server's branch as last seen.
    tip: KnownTip,
    next: Next,
}

/// The last known state of the server's branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KnownTip {
    /// The server was not asked yet.
    NotYet,
    /// The state of the last fetch; `None` when there was no such branch.
    At(Option<Oid>),
}

/// The clone that takes this one's place when too much has piled up in it.
enum Next {
    /// No replacement is under way, and for so many writes none is considered.
    None(u32),
    /// A replacement is being created, beside this clone.
    Making(JoinHandle<bool>),
}

impl RemoteBranch {
    /// Opens the clone in `folder`, or begins one there. Sends no request to the server yet.
    fn open(folder: &Path, reference: &str, remote: Remote, by: PushBy) -> Result<Self, StepError> {
        let (clone, tip) = CachedClone::open(folder, format!("{remote} {reference}\n"))
            .map_err(|error| WriteError::disk(&remote, folder, error))?;
        let tip = tip.map_or(KnownTip::NotYet, |tip| KnownTip::At(Some(tip)));
        let (reference, push) = (reference.to_owned(), push::build_push(by, remote.clone()));
        Ok(Self { clone, reference, remote, by, push, tip, next: Next::None(0) })
    }

    /// Throws the clone away and begins another.
    fn renew(&mut self) -> Result<(), StepError> {
        self.clone
            .renew()
            .map_err(|error| WriteError::disk(&self.remote, &self.clone.folder, error))?;
        self.tip = KnownTip::NotYet;
        Ok(())
    }

    /// Fetches the branch and its new objects from the server.
    ///
    /// A branch with one app in it, begun beside a renamed one, would be all that Argo CD sees: it would remove every
    /// other app.
    fn fetch_tip(&mut self) -> Result<Option<Oid>, StepError> {
        let location = self.clone.fetch(&self.remote, &self.reference);
        let location = location.map_err(|error| error.into_step_error(&self.remote))?;
        let (repository, branch) = (self.remote.to_string(), self.branch());
        let tip = match location {
            BranchLocation::At(tip) => {
                self.remember(tip)?;
                Some(tip)
            }
            BranchLocation::Empty if !self.had_branch() => None,
            BranchLocation::Empty => {
                self.tip = KnownTip::NotYet;
                let note = self.note();
                let anew = format!("remove {} where the-deployer runs", note.display());
                return Err(WriteError::Emptied { repository, branch, anew }.into());
            }
            BranchLocation::Others(branches) => {
                self.tip = KnownTip::NotYet;
                let branches = branches.join(", ");
                return Err(WriteError::NoBranch { repository, branch, others: branches }.into());
            }
        };
        self.tip = KnownTip::At(tip);
        Ok(tip)
    }

    /// Pushes, if the server's branch is at `base`; then the clone has what the server has.
    fn publish(
        &mut self,
        base: Option<Oid>,
        tip: Oid,
        load: &NewObjects,
        fence: &Fence,
    ) -> Result<BranchMove, StepError> {
        let update = Update { base, tip, reference: &self.reference, load, fence };
        let published = self.push.push(&self.clone.repo, &update)?;
        match published {
            BranchMove::Done => {
                load.save_to(&self.clone.repo)?;
                self.remember(tip)?;
                self.tip = KnownTip::At(Some(tip));
            }
            BranchMove::Lost => self.tip = KnownTip::NotYet,
            BranchMove::Late
            | BranchMove::Locked(_)
            | BranchMove::Refused(_)
            | BranchMove::Unclear(_) => {}
        }
        Ok(published)
    }

    /// Returns true if there was a branch at this address, as far as this service knows. The clone itself does not say:
    /// it may be a new one.
    fn had_branch(&self) -> bool {
        fs::read_to_string(self.note()).is_ok_and(|marker| marker == self.clone.marker)
    }

    fn note(&self) -> PathBuf {
        with_suffix(&self.clone.folder, "seen")
    }

    fn branch(&self) -> String {
        self.reference.strip_prefix(HEADS).unwrap_or(&self.reference).to_owned()
    }

    fn remember(&self, tip: Oid) -> Result<(), StepError> {
        self.clone.remember(tip)?;
        if !self.had_branch() {
            let result = fs::write(self.note(), &self.clone.marker);
            result.map_err(|error| WriteError::disk(&self.remote, &self.clone.folder, error))?;
        }
        Ok(())
    }

    /// Replaces a clone in which too much has piled up. The new one is made on a thread of its own;
    /// a failure leaves the old one in use.
    fn run_maintenance(&mut self) {
        self.next = match std::mem::replace(&mut self.next, Next::None(0)) {
            Next::None(0) if self.clone.is_full() => Next::Making(self.make_next()),
            Next::None(rest) => Next::None(rest.saturating_sub(1)),
            Next::Making(making) if !making.is_finished() => Next::Making(making),
            Next::Making(making) => {
                if making.join().unwrap_or(false) && self.swap().is_ok() {
                    Next::None(0)
                } else {
                    tracing::warn!(clone = %self.clone.folder.display(), "clone is full and could not be replaced; it stays in use");
                    Next::None(REST)
                }
            }
        };
    }

    fn make_next(&self) -> JoinHandle<bool> {
        let next_folder = with_suffix(&self.clone.folder, "next");
        let (reference, remote, by) = (self.reference.clone(), self.remote.clone(), self.by);
        std::thread::spawn(move || {
            let next = Self::open(&next_folder, &reference, remote, by);
            next.and_then(|mut next| next.fetch_tip()).is_ok()
        })
    }

    /// Replaces the clone by the new one, which first gets later pushes: readers go by the clone's branch, and it must
    /// not fall back.
    fn swap(&mut self) -> Result<(), StepError> {
        let folder = self.clone.folder.clone();
        let next_folder = with_suffix(&folder, "next");
        let open = |at: &Path| Self::open(at, &self.reference, self.remote.clone(), self.by);
        open(&next_folder)?.fetch_tip()?;
        clone::replace(&folder, &next_folder)
            .map_err(|error| WriteError::disk(&self.remote, &folder, error))?;
        *self = open(&folder)?;
        Ok(())
    }
}
