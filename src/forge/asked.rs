//! What is asked of a code host.
//!
//! Every answer is bounded. Errors are [`ForgeError`]s: what is missing, and by their disposition
//! whether to ask again. The local host sends no events, so that it has lost none.

use jiff::Timestamp;

use crate::forge::Forge;
use crate::forge::branches::Wanted;
use crate::forge::delivery::{Budget, DeliveryContent, HookDelivery, Limited};
use crate::forge::error::ForgeError;
use crate::model::event::NamedRepository;
use crate::model::id::{CommitSha, RepoName};

impl Forge {
    /// Whether the host tells us of deliveries that failed.
    pub fn knows_deliveries(&self) -> bool {
        match self {
            Self::Local(_) => false,
            Self::GitHub(github) => github.knows_deliveries(),
        }
    }

    /// The bytes of a file at a commit, at most `limit` of them.
    ///
    /// # Errors
    /// [`ForgeError`] says what is missing, and by its disposition whether to try again.
    pub async fn file(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        path: &str,
        limit: usize,
    ) -> Result<Vec<u8>, ForgeError> {
        match self {
            Self::Local(local) => local.file(repository, commit, path, limit).await,
            Self::GitHub(github) => github.file(repository, commit, path, limit).await,
        }
    }

    /// The commit that a branch, a tag or a commit's own id stands for now.
    ///
    /// # Errors
    /// [`ForgeError::NoRef`] where there is none of that name.
    pub async fn commit_of(
        &self,
        repository: &RepoName,
        git_ref: &str,
    ) -> Result<CommitSha, ForgeError> {
        match self {
            Self::Local(local) => {
                let found = local.commit_of(repository, git_ref).await?;
                let (repository, git_ref) = (repository.clone(), git_ref.to_owned());
                found.ok_or(ForgeError::NoRef { repository, git_ref })
            }
            Self::GitHub(github) => github.commit_of(repository, git_ref).await,
        }
    }

    /// The branches among those that match the globs that have the commit: one at least, if there
    /// is one. Hosts are asked no longer than until it is found.
    ///
    /// A glob is one of globset's, in which `*` also stands for a slash.
    ///
    /// # Errors
    /// [`ForgeError`] when it cannot be found out.
    pub async fn branches_with(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        globs: &[String],
    ) -> Result<Vec<String>, ForgeError> {
        let wanted = Wanted::of(globs);
        match self {
            Self::Local(local) => local.branches_with(repository, commit, wanted).await,
            Self::GitHub(github) => github.branches_with(repository, commit, &wanted).await,
        }
    }

    /// The newest deployments of a repository, newest first, each as the host sent it.
    pub async fn recent_deployments(
        &self,
        repository: &RepoName,
        most: u32,
    ) -> Result<Vec<serde_json::Value>, ForgeError> {
        match self {
            Self::Local(_) => Ok(Vec::new()),
            Self::GitHub(github) => github.recent_deployments(repository, most).await,
        }
    }

    /// The repository's present name and the host's own numbers, as they are now; none where the host
    /// has no numbers.
    pub async fn named_repository(
        &self,
        repository: &RepoName,
        now: Timestamp,
    ) -> Result<Option<NamedRepository>, ForgeError> {
        match self {
            Self::Local(_) => Ok(None),
            Self::GitHub(github) => github.named_repository(repository, now).await.map(Some),
        }
    }

    /// Events since then of which no attempt arrived, newest first; each event once.
    pub async fn failed_deliveries(
        &self,
        since: Timestamp,
        most: u32,
    ) -> Result<Vec<HookDelivery>, ForgeError> {
        match self {
            Self::Local(_) => Ok(Vec::new()),
            Self::GitHub(github) => github.failed_deliveries(since, most).await,
        }
    }

    /// What was delivered.
    pub async fn delivery(&self, id: i64) -> Result<DeliveryContent, ForgeError> {
        match self {
            Self::Local(_) => Err(ForgeError::NeedsApp { what: "reading a delivery" }),
            Self::GitHub(github) => github.delivery(id).await,
        }
    }

    /// The repositories that our App is installed on; none where we are no App.
    pub async fn installed_repositories(&self, most: u32) -> Result<Vec<RepoName>, ForgeError> {
        match self {
            Self::Local(_) => Ok(Vec::new()),
            Self::GitHub(github) => github.installed_repositories(most).await,
        }
    }

    /// Whether a pull request changes the file of that path, moves it, or takes it away.
    pub async fn pull_request_touches(
        &self,
        repository: &RepoName,
        number: i64,
        path: &str,
    ) -> Result<bool, ForgeError> {
        match self {
            Self::Local(_) => Ok(false),
            Self::GitHub(github) => github.pull_request_touches(repository, number, path).await,
        }
    }

    /// Somebody's public e-mail address, if there is one.
    pub async fn email_of(&self, login: &str) -> Result<Option<String>, ForgeError> {
        match self {
            Self::Local(_) => Ok(None),
            Self::GitHub(github) => github.email_of(login).await,
        }
    }

    /// How many requests are left, as far as is known; asks nobody.
    pub fn budget(&self) -> Option<Budget> {
        match self {
            Self::Local(_) => None,
            Self::GitHub(github) => github.budget(),
        }
    }

    /// Until when the host wants no requests of ours, as far as it said; asks nobody.
    pub fn limited(&self) -> Limited {
        match self {
            Self::Local(_) => Limited::default(),
            Self::GitHub(github) => github.limited(),
        }
    }

    /// Whether the host has named limits.
    pub fn names_limits(&self) -> bool {
        match self {
            Self::Local(_) => false,
            Self::GitHub(github) => github.names_limits(),
        }
    }
}
