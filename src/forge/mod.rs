//! CODE HOSTS: where service repositories are, where events come from and statuses go.
//!
//! ```text
//! github::webhook (pure)  event ─▶ DeploymentRequest
//! Forge::file             a service repository's file at a commit
//! Forge::branches_with    which branches a commit is on
//! Forge::report           what became of the deployment
//! ```
//!
//! Knows nothing of WAMLs, stores or retries: a [`ForgeError`] says what may help, and whoever
//! called decides when.

mod branches; // which branches are meant
pub mod error; // what can go wrong, and what to do next
pub mod github; // GitHub and GitHub Enterprise Server
pub mod local; // bare repositories in a folder

use crate::forge::branches::Wanted;
use crate::forge::error::ForgeError;
use crate::forge::github::client::GitHub;
use crate::forge::local::Local;
use crate::model::deployment::ForgeState;
use crate::model::id::{CommitSha, RepoName};

/// A code host.
#[derive(Debug, Clone)]
pub enum Forge {
    /// Bare repositories in a folder.
    Local(Local),
    /// GitHub, or a GitHub Enterprise Server.
    GitHub(Box<GitHub>),
}

/// What a code host is told of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// How it stands.
    pub state: ForgeState,
    /// One sentence for people; cut to what the host takes.
    pub description: String,
    /// Our page about it.
    pub log_url: Option<String>,
    /// Where the app can be reached.
    pub environment_url: Option<String>,
}

impl Forge {
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

    /// Tells the host what became of a deployment.
    ///
    /// The local host has nobody to tell: the store shows the same.
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
}
