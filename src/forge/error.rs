//! The errors of a code host, each with a way out.
//!
//! Each message says what to do, because it ends in a deployment's status where the person who deployed reads it.

use std::time::Duration;

use crate::model::id::{CommitSha, RepoName};
use crate::support::retry::Disposition;

/// The reason why a request to a code host failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ForgeError {
    /// The repository does not exist, or the service may not see it.
    #[error("repository {repository} is not there: {help}")]
    NoRepository {
        /// The repository.
        repository: RepoName,
        /// The way out, for this kind of host.
        help: String,
    },
    /// The repository had this name once, and its present one is not known yet.
    #[error(
        "the repository was renamed, and its present name is not known yet ({repository} stands for it): push to \
         it or deploy it again"
    )]
    Renamed {
        /// The name in place of the present one.
        repository: RepoName,
    },
    /// The repository has no such commit.
    #[error("repository {repository} has no commit {commit}: push it, then deploy again")]
    NoCommit {
        /// The repository.
        repository: RepoName,
        /// The requested commit.
        commit: CommitSha,
    },
    /// The repository has no such branch or tag.
    #[error("repository {repository} has no branch, tag or commit {git_ref:?}: push it first")]
    NoRef {
        /// The repository.
        repository: RepoName,
        /// The requested name.
        git_ref: String,
    },
    /// The commit has no such file.
    #[error(
        "repository {repository} has no file {path} at commit {}: add it, then deploy that commit",
        commit.short()
    )]
    NoFile {
        /// The repository.
        repository: RepoName,
        /// The commit that was read.
        commit: CommitSha,
        /// The file's path.
        path: String,
    },
    /// The file is larger than the service reads.
    #[error("{path} of {repository} is larger than {limit} bytes: make it smaller")]
    TooLarge {
        /// The repository.
        repository: RepoName,
        /// The file's path.
        path: String,
        /// The largest number of bytes that are read.
        limit: usize,
    },
    /// The host does not accept the service's credentials, or not for this.
    #[error("{host} refuses the service's credentials for {about}: {help}")]
    Unauthorized {
        /// The host that refuses.
        host: String,
        /// The subject of the request: a repository mostly.
        about: String,
        /// The way out.
        help: String,
    },
    /// The host does not accept the service's token or signature at all.
    #[error("{host} refuses the service's credentials for {about}: {help}")]
    BadCredentials {
        /// The host that refuses.
        host: String,
        /// The subject of the request: a repository mostly.
        about: String,
        /// The way out.
        help: String,
    },
    /// The repository is archived: it can be read, and nothing can be written.
    #[error(
        "repository {repository} is archived, and takes no statuses: unarchive it on {host} to see them there"
    )]
    Archived {
        /// The host that refuses.
        host: String,
        /// The repository.
        repository: RepoName,
    },
    /// The service's GitHub App is not installed where it is needed.
    #[error("the GitHub App is not installed on {about}: {help}")]
    NotInstalled {
        /// The subject of the request: a repository mostly.
        about: String,
        /// The way out, with the page.
        help: String,
    },
    /// A person has suspended the installation of the service's GitHub App.
    #[error("the GitHub App's installation for {about} is suspended: {help}")]
    Suspended {
        /// The subject of the request: a repository mostly.
        about: String,
        /// The way out, with the page.
        help: String,
    },
    /// The service's GitHub App lacks a permission.
    #[error("the GitHub App lacks the permission `{permission}` for {about}: {help}")]
    MissingPermission {
        /// The subject of the request: a repository mostly.
        about: String,
        /// The permission as GitHub writes it: `checks: write`.
        permission: String,
        /// The way out, with the page.
        help: String,
    },
    /// The rate limit of the host is reached.
    #[error("{host} asks the service to wait before the next request; it will be tried again")]
    RateLimited {
        /// The host.
        host: String,
        /// The time to wait.
        retry_after: Duration,
    },
    /// The request was never sent: the host does not listen, its name does not exist, or its certificate is not
    /// trusted. Nothing was written.
    #[error("{host} cannot be reached ({problem}); it will be tried again")]
    NotSent {
        /// The host.
        host: String,
        /// The fault.
        problem: String,
    },
    /// The host gave no answer, or one that a fault of the host or the network explains. A write may have arrived
    /// nevertheless: look before writing again.
    #[error("{host} cannot be reached ({problem}); it will be tried again")]
    Unreachable {
        /// The host.
        host: String,
        /// The fault.
        problem: String,
    },
    /// The host understood and says no; the same request would fail again.
    #[error("{host} refuses the request for {about} ({status}): {message}")]
    Refused {
        /// The host.
        host: String,
        /// The subject of the request: a repository mostly.
        about: String,
        /// The HTTP status.
        status: u16,
        /// The host's own words, cut.
        message: String,
    },
    /// Only a GitHub App can do this.
    #[error("{what} needs a GitHub App: set forge.github.app in place of a token")]
    NeedsApp {
        /// The request: `reading failed deliveries`.
        what: &'static str,
    },
    /// There are more branches than the service asks about.
    #[error(
        "more than {most} branches of {repository} on {host} {what}: write the names of the allowed ones in full"
    )]
    TooManyBranches {
        /// The host that has them.
        host: String,
        /// The repository.
        repository: RepoName,
        /// The condition on the branches.
        what: String,
        /// The largest number of branches that are asked about.
        most: usize,
    },
    /// This process may open no more files. It passes.
    #[error(
        "repository {repository} cannot be read now ({problem}): raise the limit of open files, if it \
         stays so"
    )]
    OpenFiles {
        /// The repository.
        repository: RepoName,
        /// The message of the reader.
        problem: String,
    },
    /// The repository can be opened and not read.
    #[error("repository {repository} cannot be read ({problem}): run `git fsck` in it")]
    Corrupt {
        /// The repository.
        repository: RepoName,
        /// The message of the reader.
        problem: String,
    },
}

impl ForgeError {
    /// Returns true if a write may have arrived although there was an error.
    pub fn may_have_arrived(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// Converts the error of a step before the request: nothing was sent.
    pub(super) fn before_sending(self) -> Self {
        match self {
            Self::Unreachable { host, problem } => Self::NotSent { host, problem },
            other => other,
        }
    }

    /// Says whether to try again, and when.
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::RateLimited { retry_after, .. } => {
                Disposition::Retry { after: Some(*retry_after) }
            }
            Self::NotSent { .. } | Self::Unreachable { .. } | Self::OpenFiles { .. } => {
                Disposition::Retry { after: None }
            }
            Self::NoRepository { .. }
            | Self::Renamed { .. }
            | Self::NoCommit { .. }
            | Self::NoRef { .. }
            | Self::NoFile { .. }
            | Self::TooLarge { .. }
            | Self::Unauthorized { .. }
            | Self::BadCredentials { .. }
            | Self::Archived { .. }
            | Self::NotInstalled { .. }
            | Self::Suspended { .. }
            | Self::MissingPermission { .. }
            | Self::Refused { .. }
            | Self::NeedsApp { .. }
            | Self::TooManyBranches { .. }
            | Self::Corrupt { .. } => Disposition::Stop,
        }
    }
}
