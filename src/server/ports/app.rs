//! One app on one target: what is live, what goes on, what stands in its way, and its history.

use jiff::Timestamp;

use crate::model::deployment::Deployment;
use crate::model::id::{CommitSha, DeployId, ImageTag, RepoName};
use crate::model::live_history::RolledBackFrom;
use crate::model::lock::{Lock, LockId};
use crate::model::placed::{Placed, Spot};
use crate::model::revision::{Digest, ManifestFile};
use crate::model::rollback::Hold;
use crate::pipeline::diff::Change;
use crate::server::ports::Fault;

/// An app on a target, now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppNow {
    /// What the manifest repository has of it; `None` where it has nothing yet.
    pub placed: Option<Placed>,
    /// The revision that is live.
    pub live: Option<Revision>,
    /// The rollback that made it live, if one did.
    pub rollback: Option<Deployment>,
    /// Whether somebody edited `latest` by hand.
    pub hand_edited: bool,
    /// Deployments that have not ended, newest first. One whose WAML has not been read counts if it
    /// is of the app's repository.
    pub under_way: Vec<Deployment>,
    /// The newest deployment.
    pub last: Option<Deployment>,
    /// The locks that stop it, oldest first.
    pub locks: Vec<(LockId, Lock)>,
    /// What keeps automation off it.
    pub hold: Option<Hold>,
    /// Whether the cluster's Argo CD knows of the newest push.
    pub sync: Synced,
}

/// Whether a cluster's Argo CD knows of the newest push to an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Synced {
    /// It was told then.
    Told(Timestamp),
    /// It is to be told.
    Waiting,
    /// It could not be told, for this reason; it looks by itself every few minutes.
    GivenUp(String),
    /// Nobody tells it: it looks by itself every few minutes.
    ByItself,
}

/// An entry of an app's history. What neither the database nor the commit says is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// Its deploy id.
    pub id: DeployId,
    /// The id of its tree in git.
    pub tree: String,
    /// Whether it is live.
    pub live: bool,
    /// What was deployed.
    pub tag: Option<ImageTag>,
    /// The commit that its WAML was read at.
    pub commit: Option<CommitSha>,
    /// The service's repository.
    pub repository: Option<RepoName>,
    /// Who asked for it.
    pub actor: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// When it was made.
    pub at: Option<Timestamp>,
    /// The template and its version.
    pub template: Option<String>,
    /// The digest of its files.
    pub digest: Option<Digest>,
    /// That it was rolled back from, and is not live again since.
    pub rolled_back: Option<RolledBackFrom>,
}

/// An app's history on a target.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    /// The revisions that are kept, newest first.
    pub revisions: Vec<Revision>,
    /// Whether somebody edited `latest` by hand, so that none of them is live.
    pub hand_edited: bool,
}

/// One revision with what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionFiles {
    /// The revision.
    pub revision: Revision,
    /// Its files, by name.
    pub files: Vec<ManifestFile>,
    /// What would change if it were live; `None` where files are not such as we write.
    pub changes: Option<Vec<Change>>,
}

/// Why an app cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum NotShown {
    /// The manifest repository cannot be read now; the text is for callers.
    #[error("{0}")]
    Repository(String),
    /// Something of ours does not work.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// One app.
pub trait App: Send + Sync + 'static {
    /// How it is now; `None` if nobody ever heard of it there.
    fn app(&self, spot: &Spot) -> impl Future<Output = Result<Option<AppNow>, NotShown>> + Send;

    /// Its history; `None` if the manifest repository has nothing of it.
    fn history(
        &self,
        spot: &Spot,
    ) -> impl Future<Output = Result<Option<History>, NotShown>> + Send;

    /// One revision; `None` if it is not kept.
    fn revision(
        &self,
        spot: &Spot,
        id: &DeployId,
    ) -> impl Future<Output = Result<Option<RevisionFiles>, NotShown>> + Send;
}
