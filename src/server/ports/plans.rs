//! What a deployment would do.

use crate::model::id::{AppKey, CommitSha, ImageTag, RepoName, TargetName};
use crate::pipeline::dry_run::DryRun;
use crate::server::ports::Fault;

/// A deployment that somebody thinks of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRequest {
    /// Whose.
    pub repository: RepoName,
    /// Where to.
    pub target: TargetName,
    /// Which image; absent: the one that is live there.
    pub tag: Option<ImageTag>,
    /// At which commit; absent only with a WAML.
    pub at: Option<At>,
    /// The WAML's text; absent: as it is at the commit.
    pub waml: Option<String>,
}

/// How somebody names a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum At {
    /// By its id.
    Commit(CommitSha),
    /// By a branch or a tag.
    Ref(String),
}

/// What would come of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What it would come to.
    pub run: DryRun,
    /// Of which app, once the WAML could be read.
    pub app: Option<AppKey>,
    /// Where to.
    pub target: TargetName,
    /// Which image.
    pub tag: Option<ImageTag>,
    /// At which commit, if one was named.
    pub commit: Option<CommitSha>,
    /// What else there is to know, one sentence each.
    pub notes: Vec<String>,
}

/// Why nobody can tell what would come of a deployment.
#[derive(Debug, thiserror::Error)]
pub enum NotPlanned {
    /// As many as may be are being made.
    #[error("as many plans as may be are being made: ask again in a moment")]
    Busy,
    /// The WAML is of this app, which may not be seen.
    #[error("{0} may not be seen")]
    Hidden(AppKey),
    /// There is no such repository, commit or file.
    #[error("{0}")]
    Missing(String),
    /// What was asked for cannot be meant.
    #[error("{0}")]
    Unmeant(String),
    /// Somebody who must be asked does not answer now; for the caller too.
    #[error("{0}")]
    Unavailable(String),
    /// Something of ours does not work.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// What deployments would do.
pub trait Plans: Send + Sync + 'static {
    /// What would come of a deployment now, of an app that may be seen. Changes nothing anywhere.
    fn plan(
        &self,
        request: PlanRequest,
        seen: impl Fn(&AppKey) -> bool + Send + Sync,
    ) -> impl Future<Output = Result<Plan, NotPlanned>> + Send;
}
