//! What a code host is told: statuses, check runs; and whether it has been told.
//!
//! Nothing is written twice by itself: after an error that
//! [may have arrived](ForgeError::may_have_arrived) the caller looks first. The local host has nobody
//! to tell: the store shows the same.

use crate::forge::check::CheckRun;
use crate::forge::error::ForgeError;
use crate::forge::{Begun, CommitStatus, Forge, ListedStatus, Status};
use crate::model::id::{CommitSha, RepoName};

impl Forge {
    /// Tells the host what became of a deployment.
    ///
    /// # Errors
    /// [`ForgeError`]; after [`ForgeError::Unreachable`] the host may know nevertheless.
    pub async fn report(
        &self,
        repository: &RepoName,
        forge_id: i64,
        status: &Status,
    ) -> Result<(), ForgeError> {
        match self {
            Self::Local(_) => Ok(()),
            Self::GitHub(github) => github.report(repository, forge_id, status).await,
        }
    }

    /// Makes a deployment of one that began here; its number. The local host has none.
    ///
    /// # Errors
    /// [`ForgeError`]; after [`ForgeError::Unreachable`] look with [`Forge::find_begun`].
    pub async fn begin(&self, begun: &Begun) -> Result<Option<i64>, ForgeError> {
        match self {
            Self::Local(_) => Ok(None),
            Self::GitHub(github) => github.begin(begun).await.map(Some),
        }
    }

    /// The number of a deployment that was made of one that began here.
    pub async fn find_begun(&self, begun: &Begun) -> Result<Option<i64>, ForgeError> {
        match self {
            Self::Local(_) => Ok(None),
            Self::GitHub(github) => github.find_begun(begun).await,
        }
    }

    /// Whether a deployment has that status: one that says the same and leads to the same page.
    pub async fn has_status(
        &self,
        repository: &RepoName,
        forge_id: i64,
        status: &Status,
    ) -> Result<bool, ForgeError> {
        match self {
            Self::Local(_) => Ok(true),
            Self::GitHub(github) => github.has_status(repository, forge_id, status).await,
        }
    }

    /// The statuses of a deployment, newest first.
    pub async fn statuses(
        &self,
        repository: &RepoName,
        forge_id: i64,
    ) -> Result<Vec<ListedStatus>, ForgeError> {
        match self {
            Self::Local(_) => Ok(Vec::new()),
            Self::GitHub(github) => github.statuses(repository, forge_id).await,
        }
    }

    /// Tells the host how a commit stands.
    ///
    /// # Errors
    /// [`ForgeError`]; after [`ForgeError::Unreachable`] the host may know nevertheless.
    pub async fn commit_status(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        status: &CommitStatus,
    ) -> Result<(), ForgeError> {
        match self {
            Self::Local(_) => Ok(()),
            Self::GitHub(github) => github.commit_status(repository, commit, status).await,
        }
    }

    /// Whether the newest status of that context at the commit says the same.
    pub async fn has_commit_status(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        status: &CommitStatus,
    ) -> Result<bool, ForgeError> {
        match self {
            Self::Local(_) => Ok(true),
            Self::GitHub(github) => github.has_commit_status(repository, commit, status).await,
        }
    }

    /// Makes a check run; its number, by which it is changed.
    ///
    /// # Errors
    /// [`ForgeError`]; after any of them look with [`Forge::find_check`]: it may be there, and lack
    /// annotations, which [`Forge::update_check`] adds.
    pub async fn create_check(
        &self,
        repository: &RepoName,
        check: &CheckRun,
    ) -> Result<i64, ForgeError> {
        match self {
            Self::Local(_) => Ok(0),
            Self::GitHub(github) => github.create_check(repository, check).await,
        }
    }

    /// Makes a check run say something else. May be repeated: annotations that are there are not
    /// added again.
    pub async fn update_check(
        &self,
        repository: &RepoName,
        id: i64,
        check: &CheckRun,
    ) -> Result<(), ForgeError> {
        match self {
            Self::Local(_) => Ok(()),
            Self::GitHub(github) => github.update_check(repository, id, check).await,
        }
    }

    /// The newest check run of that name with our own name for it.
    pub async fn find_check(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        name: &str,
        external_id: &str,
    ) -> Result<Option<i64>, ForgeError> {
        match self {
            Self::Local(_) => Ok(None),
            Self::GitHub(github) => github.find_check(repository, commit, name, external_id).await,
        }
    }
}
