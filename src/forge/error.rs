//! What can go wrong at a code host, and what may help.
//!
//! Each message says what to do, because it ends in a deployment's status where the person who
//! deployed reads it.

use std::time::Duration;

use crate::model::id::{CommitSha, RepoName};
use crate::support::retry::Disposition;

/// Why a code host did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ForgeError {
    /// The repository is not there, or not for us.
    #[error("repository {repository} is not there: {help}")]
    NoRepository {
        /// The repository.
        repository: RepoName,
        /// What to do, as this kind of host needs it.
        help: String,
    },
    /// The repository had this name once, and its present one is not known yet.
    #[error(
        "the repository was renamed, and its present name is not known yet ({repository} stands for it): push to \
         it or deploy it again"
    )]
    Renamed {
        /// The name that stands for it.
        repository: RepoName,
    },
    /// The repository has no such commit.
    #[error("repository {repository} has no commit {commit}: push it, then deploy again")]
    NoCommit {
        /// The repository.
        repository: RepoName,
        /// The commit that was asked for.
        commit: CommitSha,
    },
    /// The repository has no such branch or tag.
    #[error("repository {repository} has no branch, tag or commit {git_ref:?}: push it first")]
    NoRef {
        /// The repository.
        repository: RepoName,
        /// What was asked for.
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
    /// The file is larger than we read.
    #[error("{path} of {repository} is larger than {limit} bytes: make it smaller")]
    TooLarge {
        /// The repository.
        repository: RepoName,
        /// The file's path.
        path: String,
        /// How many bytes are read at most.
        limit: usize,
    },
    /// The host does not take our credentials, or not for this.
    #[error("{host} refuses the service's credentials for {about}: {help}")]
    Unauthorized {
        /// Who refuses.
        host: String,
        /// What was asked about: a repository mostly.
        about: String,
        /// What to do.
        help: String,
    },
    /// The host does not take our token or signature at all.
    #[error("{host} refuses the service's credentials for {about}: {help}")]
    BadCredentials {
        /// Who refuses.
        host: String,
        /// What was asked about: a repository mostly.
        about: String,
        /// What to do.
        help: String,
    },
    /// The repository is archived: it can be read, and nothing can be written.
    #[error(
        "repository {repository} is archived, and takes no statuses: unarchive it on {host} to see them there"
    )]
    Archived {
        /// Who says so.
        host: String,
        /// The repository.
        repository: RepoName,
    },
    /// Our GitHub App is not installed where it is needed.
    #[error("the GitHub App is not installed on {about}: {help}")]
    NotInstalled {
        /// What was asked about: a repository mostly.
        about: String,
        /// What to do, and where.
        help: String,
    },
    /// Somebody has stopped our GitHub App's installation.
    #[error("the GitHub App's installation for {about} is suspended: {help}")]
    Suspended {
        /// What was asked about: a repository mostly.
        about: String,
        /// What to do, and where.
        help: String,
    },
    /// Our GitHub App was not granted what is needed.
    #[error("the GitHub App lacks the permission `{permission}` for {about}: {help}")]
    MissingPermission {
        /// What was asked about: a repository mostly.
        about: String,
        /// The permission as GitHub writes it: `checks: write`.
        permission: String,
        /// What to do, and where.
        help: String,
    },
    /// We asked too often.
    #[error("{host} asks the service to wait before the next request; it will be tried again")]
    RateLimited {
        /// Who asks.
        host: String,
        /// How long to wait.
        retry_after: Duration,
    },
    /// The request was never sent: nobody listens, there is no such name, no trust. What was to be
    /// written is surely not there.
    #[error("{host} cannot be reached ({problem}); it will be tried again")]
    NotSent {
        /// Who.
        host: String,
        /// What happened.
        problem: String,
    },
    /// No answer, or one that a fault of the host or the network explains. What was to be written
    /// may be there nevertheless: look before writing again.
    #[error("{host} cannot be reached ({problem}); it will be tried again")]
    Unreachable {
        /// Who.
        host: String,
        /// What happened.
        problem: String,
    },
    /// The host understood and says no; the same request would fail again.
    #[error("{host} refuses the request for {about} ({status}): {message}")]
    Refused {
        /// Who.
        host: String,
        /// What was asked about: a repository mostly.
        about: String,
        /// The HTTP status.
        status: u16,
        /// The host's own words, cut.
        message: String,
    },
    /// Only a GitHub App can do this.
    #[error("{what} needs a GitHub App: set forge.github.app in place of a token")]
    NeedsApp {
        /// What was asked for: `reading failed deliveries`.
        what: &'static str,
    },
    /// More branches than can be asked about.
    #[error(
        "more than {most} branches of {repository} on {host} {what}: write the names of the allowed ones in full"
    )]
    TooManyBranches {
        /// Who has them.
        host: String,
        /// The repository.
        repository: RepoName,
        /// Which branches.
        what: String,
        /// How many can be asked about.
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
        /// What the reader says.
        problem: String,
    },
    /// The repository can be opened and not read.
    #[error("repository {repository} cannot be read ({problem}): run `git fsck` in it")]
    Corrupt {
        /// The repository.
        repository: RepoName,
        /// What the reader says.
        problem: String,
    },
}

impl ForgeError {
    /// Returns whether what was to be written may be there although there was an error.
    pub fn may_have_arrived(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// The same, where it kept a request from being made at all.
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
