//! A branch that is followed and never written: its commit, and the content of a folder at a commit.
//!
//! A bare clone of it is kept on this machine's disk, so that it can be read while its host is down. The clone also
//! keeps one commit by name, for the caller that has accepted it. The module does not know the meaning of the files.

use std::path::Path;
use std::sync::{Arc, Mutex};

use git2::{Oid, Repository};

use crate::git::clone::{BranchLocation, CachedClone};
use crate::git::error::{StepError, WriteError};
use crate::git::objects::tree;
use crate::git::snapshot::{self, FolderError, SnapshotEntry, SnapshotLimits};
pub use crate::git::transport::remote::RemoteSettings;
use crate::git::transport::remote::{Remote, RemoteSource};
use crate::model::id::CommitSha;
use crate::support::disk;
use crate::support::sync::lock;

/// The commit that was judged good last. A reference, so that its objects stay.
const GOOD: &str = "refs/the-deployer/good";

/// The reason why a branch cannot be followed at the moment. Texts hold no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FollowError {
    /// The way to its host.
    #[error(transparent)]
    Remote(WriteError),
    /// The repository does not exist, or the token may not see it.
    #[error(
        "there is no repository at {repository}: create it, correct its address in the configuration, \
         or let the service's token or key see it"
    )]
    NotFound {
        /// The address that was tried.
        repository: String,
    },
    /// The repository is there and the branch is not.
    #[error("{repository} has no branch {branch}: push it, or name another one")]
    NoBranch {
        /// The repository.
        repository: String,
        /// The branch.
        branch: String,
    },
    /// A folder holds more than the limits allow.
    #[error("{repository} has too much in {folder}: at most {files} files of {bytes} bytes each")]
    TooMuch {
        /// The repository.
        repository: String,
        /// The folder that exceeds the limit.
        folder: String,
        /// The limit of files.
        files: usize,
        /// The limit of one file.
        bytes: usize,
    },
    /// The disk of this machine, or the clone on it, fails.
    #[error("the clone of {repository} in {folder} cannot be used: {cause}")]
    OnDisk {
        /// The repository.
        repository: String,
        /// The path of the clone.
        folder: String,
        /// The message of the system.
        cause: String,
    },
    /// A setting cannot be used.
    #[error("{0}")]
    Invalid(String),
}

/// A branch that is followed. Clones share the one clone on disk.
#[derive(Clone)]
pub struct TrackedBranch {
    tracked: Arc<Mutex<Tracked>>,
    remote: Option<Remote>,
}

/// The clone, with the remote that it is fetched from.
struct Tracked {
    source: RemoteSource,
    name: String,
    branch: String,
    reference: String,
    clone: CachedClone,
}

impl TrackedBranch {
    /// Opens the clone or begins one; sends no request to the host yet.
    ///
    /// # Errors
    /// When a setting or the folder cannot be used.
    pub async fn open(settings: RemoteSettings) -> Result<Self, FollowError> {
        let (name, reference, source) = settings.locate().map_err(FollowError::Invalid)?;
        let RemoteSettings { branch, clone_dir, .. } = settings;
        let remote = match &source {
            RemoteSource::Folder(_) => None,
            RemoteSource::Server(remote) => Some(remote.clone()),
        };
        let tracked = blocking(move || {
            let clone = CachedClone::open(&clone_dir, format!("follow {name} {branch}\n"));
            let (clone, _) = clone.map_err(|error| on_disk(&name, &clone_dir, &error))?;
            Ok(Tracked { source, name, branch, reference, clone })
        });
        Ok(Self { tracked: Arc::new(Mutex::new(tracked.await?)), remote })
    }

    /// Takes away the copy of a key on this disk; the next look brings it back. A process that ends
    /// calls it: what it follows may not be dropped any more.
    pub async fn close(&self) {
        let remote = self.remote.clone();
        // Nothing of it can panic; and if the process is faster, the next one does it.
        let _ = tokio::task::spawn_blocking(move || remote.iter().for_each(Remote::close)).await;
    }

    /// Fetches the branch from the host.
    ///
    /// # Errors
    /// The reason of the failure; the state of the last fetch is still there.
    pub async fn fetch_tip(&self) -> Result<CommitSha, FollowError> {
        self.with(Tracked::fetch_tip).await
    }

    /// Returns the commit that was accepted last; it can be read without the host.
    ///
    /// # Errors
    /// When the clone cannot be read.
    pub async fn accepted_commit(&self) -> Result<Option<CommitSha>, FollowError> {
        self.with(|tracked| {
            let good = tree::if_present(tracked.clone.repo.refname_to_id(GOOD));
            Ok(good.map_err(|error| tracked.clone_error(&error))?.map(tree::sha))
        })
        .await
    }

    /// Remembers a commit as good.
    ///
    /// # Errors
    /// When the clone cannot be written.
    pub async fn record_accepted(&self, commit: &CommitSha) -> Result<(), FollowError> {
        let commit = commit.clone();
        self.with(move |tracked| {
            let reference = Oid::from_str(commit.as_str())
                .and_then(|id| tracked.clone.repo.reference(GOOD, id, true, "judged good"));
            reference.map(drop).map_err(|error| tracked.clone_error(&error))
        })
        .await
    }

    /// Reads the entries of a folder at a commit, sorted by path; nothing where there is no such folder. Names that
    /// begin with a dot, and entries deeper than the limit, are left out.
    ///
    /// # Errors
    /// When it is too much, or the clone cannot be read.
    pub async fn folder(
        &self,
        commit: &CommitSha,
        path: &str,
        limits: SnapshotLimits,
    ) -> Result<Vec<SnapshotEntry>, FollowError> {
        let (commit, path) = (commit.clone(), path.to_owned());
        self.with(move |tracked| {
            let id = Oid::from_str(commit.as_str()).map_err(|error| tracked.clone_error(&error))?;
            let content = snapshot::read(&tracked.clone.repo, id, &path, limits);
            content.map_err(|error| match error {
                FolderError::TooMuch => FollowError::TooMuch {
                    repository: tracked.name.clone(),
                    folder: path,
                    files: limits.files,
                    bytes: limits.bytes,
                },
                FolderError::Git(error) => tracked.clone_error(&error),
            })
        })
        .await
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tracked) -> Result<T, FollowError> + Send + 'static,
    ) -> Result<T, FollowError> {
        let tracked = Arc::clone(&self.tracked);
        blocking(move || work(&mut lock(&tracked))).await
    }
}

impl Tracked {
    fn fetch_tip(&mut self) -> Result<CommitSha, FollowError> {
        let location = match self.fetch() {
            // Another clone would fare no better, and this one would be lost.
            Err(FollowError::OnDisk { cause, .. })
                if disk::shortage(&self.clone.folder, &cause).is_none() =>
            {
                tracing::warn!(repository = %self.name, error = cause, "git failed, clone is created again");
                // The reference to the last good commit is lost with the clone.
                let renewed = self.clone.renew();
                renewed.map_err(|error| on_disk(&self.name, &self.clone.folder, &error))?;
                self.fetch()
            }
            other => other,
        }?;
        let tip = location.tip().ok_or_else(|| FollowError::NoBranch {
            repository: self.name.clone(),
            branch: self.branch.clone(),
        })?;
        self.clone.remember(tip).map_err(|error| self.clone_error(&error))?;
        Ok(tree::sha(tip))
    }

    fn fetch(&self) -> Result<BranchLocation, FollowError> {
        let not_found = || FollowError::NotFound { repository: self.name.clone() };
        match &self.source {
            RemoteSource::Folder(path) if Repository::open(path).is_err() => Err(not_found()),
            RemoteSource::Folder(path) => {
                let location = self.clone.fetch_folder(path, &self.reference);
                location.map_err(|error| self.clone_error(&error))
            }
            RemoteSource::Server(remote) => {
                let location = self.clone.fetch(remote, &self.reference);
                location.map_err(|error| match error.into_step_error(remote) {
                    StepError::Damaged(error) => self.clone_error(&error),
                    StepError::Error(WriteError::NotFound { .. }) => not_found(),
                    StepError::Error(error) => FollowError::Remote(error),
                })
            }
        }
    }

    fn clone_error(&self, error: &git2::Error) -> FollowError {
        on_disk(&self.name, &self.clone.folder, &error.message())
    }
}

fn on_disk(name: &str, folder: &Path, cause: &dyn std::fmt::Display) -> FollowError {
    FollowError::OnDisk {
        repository: name.to_owned(),
        folder: folder.display().to_string(),
        cause: cause.to_string(),
    }
}

/// Runs git's blocking work beside the async workers.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FollowError> + Send + 'static,
) -> Result<T, FollowError> {
    let panicked = |_| FollowError::Invalid("git stopped in the middle; it is tried again".into());
    tokio::task::spawn_blocking(work).await.map_err(panicked)?
}
