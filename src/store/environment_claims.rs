//! The claims of those who tell the code host of preview environments.

use jiff::Timestamp;

use crate::model::environment::{EnvironmentCommit, EnvironmentWorkload};
use crate::model::id::{CommitSha, RepoName};
use crate::store::query::{Bind, BoundValue};

/// A sender's claim on one commit status.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a claim that is dropped blocks the status until the lease ends"]
pub struct EnvironmentStatusClaim {
    /// The commit and the workload, as they stand now.
    pub workload: EnvironmentWorkload,
    /// What people are to be told.
    pub news: Option<String>,
    /// What they were told last.
    pub told: Option<String>,
    /// Since when there is that news.
    pub changed_at: Timestamp,
    /// True if an earlier attempt may have arrived.
    pub unsure: bool,
    /// True if an earlier status may be applied after the one that was sent.
    pub doubted: bool,
    /// True if the code host takes no status for this commit.
    pub refused: bool,
    /// The number of attempts that failed.
    pub failures: u32,
    /// The number of the news: a later report has a higher one.
    pub turn: i64,
    /// The number of the claim, which fences off earlier holders.
    pub claims: i64,
}

/// A sender's claim on the comment of one pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a claim that is dropped blocks the comment until the lease ends"]
pub struct EnvironmentCommentClaim {
    /// The repository.
    pub repository: RepoName,
    /// The pull request.
    pub number: i64,
    /// The comment as it was written last.
    pub shown: ShownComment,
    /// The number of attempts that failed.
    pub failures: u32,
    /// The number of the news: a later report has a higher one.
    pub turn: i64,
    /// The number of the claim, which fences off earlier holders.
    pub claims: i64,
}

/// The comment of a pull request as it was written last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShownComment {
    /// Its number at the code host; `None` before it was written, and after a person deleted it.
    pub comment: Option<i64>,
    /// The commit that it is about.
    pub commit: Option<CommitSha>,
    /// The digest of its text.
    pub digest: Option<String>,
    /// The commit whose comment a person deleted: it gets no other one.
    pub dismissed: Option<CommitSha>,
}

/// Binds `$1` to `$4`: the key and the fence.
impl Bind for &EnvironmentStatusClaim {
    fn bind(self, values: &mut Vec<BoundValue>) {
        let EnvironmentCommit { repository, commit, .. } = &self.workload.commit;
        (repository, commit, &self.workload.context, self.claims).bind(values);
    }
}

/// Binds `$1` to `$3`: the key and the fence.
impl Bind for &EnvironmentCommentClaim {
    fn bind(self, values: &mut Vec<BoundValue>) {
        (&self.repository, self.number, self.claims).bind(values);
    }
}
