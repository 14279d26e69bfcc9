//! A manifest repository in a folder of this machine: written in place.
//!
//! There is no clone and no push. libgit2's own push to a folder moves the branch without comparing it to the base of
//! the push, so a commit that came in between would be lost. Here the branch is compared and moved under git's own lock
//! on it, which every other git respects too.

use std::cell::Cell;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::{ErrorCode, Oid, Repository, RepositoryInitOptions};

use crate::git::clone::{FEW, bare};
use crate::git::error::{StepError, WriteError};
use crate::git::writer::fence::Fence;

use crate::git::clone::gc::GcState;
use crate::git::clone::stale_locks;
use crate::git::objects::pack::NewObjects;
use crate::git::transport::remote::HEADS;
use crate::git::writer::outcome::BranchMove;
use crate::support::disk;

/// An opened bare repository of this machine.
pub(in crate::git) struct LocalBranch {
    path: PathBuf,
    reference: String,
    /// The age from which a lock has no owner.
    stale: Duration,
    tidying: GcState,
    /// True if the branch existed once, since this was opened.
    seen: Cell<bool>,
    pub(in crate::git) repo: Repository,
}

impl LocalBranch {
    /// Opens the folder. `alone` says that no other process writes there.
    pub(in crate::git) fn open(
        path: &Path,
        reference: &str,
        alone: bool,
    ) -> Result<Self, StepError> {
        let repo = Repository::open_bare(path).map_err(|error| not_open(path, &error))?;
        let stale = if alone { stale_locks::ALONE } else { stale_locks::AMONG_OTHERS };
        let (path, reference) = (path.to_owned(), reference.to_owned());
        let (tidying, seen) = (GcState::default(), Cell::new(false));
        Ok(Self { path, reference, stale, tidying, seen, repo })
    }

    pub(in crate::git) fn reopen(&mut self) -> Result<(), StepError> {
        self.repo = Repository::open_bare(&self.path).map_err(|e| not_open(&self.path, &e))?;
        Ok(())
    }

    /// Reads the commit that the branch is at now; `None` in an empty repository.
    pub(in crate::git) fn read_tip(&self) -> Result<Option<Oid>, StepError> {
        if !self.path.exists() {
            return Err(WriteError::NotFound { repository: self.path.display().to_string() }.into());
        }
        match self.tip()? {
            None => self.without_branch(),
            tip => Ok(tip),
        }
    }

    fn tip(&self) -> Result<Option<Oid>, git2::Error> {
        match self.repo.refname_to_id(&self.reference) {
            Ok(id) => {
                self.seen.set(true);
                Ok(Some(id))
            }
            Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Checks that a write could begin. Objects are written there: that the branch can be read does
    /// not show that they can.
    pub(in crate::git) fn ready(&self) -> Result<(), StepError> {
        self.read_tip()?;
        disk::try_write(&self.path)
            .map_err(|error| WriteError::disk(self.path.display(), &self.path, error).into())
    }

    /// Decides about a missing branch. A branch with one app in it, begun beside others or in place of a lost one,
    /// would be all that Argo CD sees: it would remove every other app.
    fn without_branch(&self) -> Result<Option<Oid>, StepError> {
        let (repository, branch) = (self.path.display().to_string(), self.branch().to_owned());
        let mut references = self.repo.references_glob(&format!("{HEADS}*"))?;
        let names =
            references.names().filter_map(|name| Some(name.ok()?.strip_prefix(HEADS)?.to_owned()));
        let branches: Vec<String> = names.take(FEW).collect();
        if !branches.is_empty() {
            // Whoever pushed first may have made it between the two looks.
            if let Some(tip) = self.tip()? {
                return Ok(Some(tip));
            }
            let branches = branches.join(", ");
            return Err(WriteError::NoBranch { repository, branch, others: branches }.into());
        }
        if self.seen.get() {
            let anew = "restart the-deployer".to_owned();
            return Err(WriteError::Emptied { repository, branch, anew }.into());
        }
        Ok(None)
    }

    fn branch(&self) -> &str {
        self.reference.strip_prefix(HEADS).unwrap_or(&self.reference)
    }

    /// Writes the objects, and moves the branch from `base` to `tip`, if it is at `base`.
    ///
    /// Another process may hold the lock, or have moved the branch first: both are tried again. Between the comparison
    /// and the move the lock keeps every other process out.
    pub(in crate::git) fn publish(
        &self,
        base: Option<Oid>,
        tip: Oid,
        load: &NewObjects,
        fence: &Fence,
    ) -> Result<BranchMove, StepError> {
        load.save_to(&self.repo)?;
        let mut transaction = self.repo.transaction()?;
        match transaction.lock_ref(&self.reference) {
            Ok(()) => {}
            Err(error) if error.code() == ErrorCode::Locked => {
                return Ok(self.handle_locked_branch());
            }
            Err(error) => return Err(error.into()),
        }
        if self.read_tip()? != base {
            return Ok(BranchMove::Lost);
        }
        if fence.is_closed() {
            return Ok(BranchMove::Late);
        }
        let commit = self.repo.find_commit(tip)?;
        transaction.set_target(&self.reference, tip, Some(&commit.committer()), "deploy")?;
        transaction.commit()?;
        self.seen.set(true);
        Ok(BranchMove::Done)
    }

    /// Starts git's housekeeping every now and then, beside the writer; git decides if it is worth it.
    pub(in crate::git) fn run_maintenance(&mut self) {
        self.tidying.run_if_due(&self.path);
    }

    /// Handles a locked branch: another process moves it now, or a git that was killed has left its lock behind. Such a
    /// lock is removed when it is old enough, and the next try gets through.
    fn handle_locked_branch(&self) -> BranchMove {
        let lock = self.path.join(format!("{}.lock", self.reference));
        match stale_locks::clear(&self.path, &lock, self.stale) {
            Ok(true) => {
                tracing::warn!(lock = %lock.display(), "stale git lock removed");
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(lock = %lock.display(), %error, "git lock could not be read");
            }
        }
        let cause = format!("another git holds {}", lock.display());
        BranchMove::Locked(WriteError::unreachable(self.path.display(), cause))
    }
}

/// Makes an empty bare repository whose first branch will be `branch`; leaves an existing one alone.
pub(in crate::git) fn create(path: &Path, branch: &str) -> Result<(), WriteError> {
    if Repository::open_bare(path).is_ok() {
        return Ok(());
    }
    let mut options = RepositoryInitOptions::new();
    options.initial_head(branch);
    let result = bare::make(path, &mut options, &[], |new| {
        if Repository::open_bare(path).is_ok() {
            // Another process was faster.
            return fs::remove_dir_all(new);
        }
        if bare::is_half_made(path) {
            bare::move_aside(path, "it is an unfinished repository")?;
        }
        // Onto nothing, or onto an empty folder.
        fs::rename(new, path)
    });
    result.map_err(|error| match error.kind() {
        ErrorKind::DirectoryNotEmpty => {
            let cause = "it is no bare repository, and not empty: move it away";
            WriteError::disk(path.display(), path, cause)
        }
        _ => WriteError::disk(path.display(), path, error),
    })
}

fn not_open(path: &Path, error: &git2::Error) -> StepError {
    let repository = path.display().to_string();
    if error.code() == ErrorCode::NotFound && !path.join(".git").exists() {
        return WriteError::NotFound { repository }.into();
    }
    if let Some(cause) = disk::shortage_of_files(path, error.message()) {
        return WriteError::disk(repository, path, cause).into();
    }
    let help = "name a bare repository (`git init --bare`)";
    WriteError::Invalid(format!("{repository} is no bare repository: {help}")).into()
}
