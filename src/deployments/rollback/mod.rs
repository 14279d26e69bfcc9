//! Rollbacks, which make a former revision live again, and the holds that keep automation from
//! undoing them.
//!
//! `ask.rs` accepts the request, `data.rs` and `claims.rs` judge it, `restore.rs` is the attempt,
//! `fleet.rs` does all of it for the clusters of a fleet, `hold.rs` has the holds that people place, and `undo.rs` takes back what fails in its cluster.

mod ask; // accepts a request, chooses and judges the revision
mod data; // refuses the loss of data that the caller does not accept
mod hold; // holds that people place and release
mod restore; // the attempt
mod fleet; // the same over all clusters of a fleet
pub(crate) mod undo; // the rollback of a deployment that failed in its cluster
mod claims; // namespace, names and routes, which may be another app's by now

use jiff::Timestamp;

use crate::deployments::BackendError;
use crate::manifests::diff::Change;
use crate::model::deployment::Deployment;
use crate::model::facts::LiveObject;
use crate::model::id::DeployId;
use crate::model::live_history::RollbackMark;
use crate::model::release::Release;

/// The result of a request to roll back.
#[derive(Debug, Clone)]
pub struct RollbackResult {
    /// The rollback, which waits for a worker; `None` for a dry run.
    pub deployment: Option<Deployment>,
    /// The live revision; `None` where `latest` has manual edits.
    pub from: Option<RollbackCandidate>,
    /// The revision that becomes live again.
    pub to: RollbackCandidate,
    /// The rollback away from that revision, if there was one.
    pub warning: Option<RollbackMark>,
    /// Remarks for people, one sentence each.
    pub notes: Vec<String>,
    /// True if automation is held afterwards.
    pub hold: bool,
    /// The changes, object by object; `None` where the live files cannot be read.
    pub changes: Option<Vec<Change>>,
}

/// A revision and its record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollbackCandidate {
    /// Its deploy id.
    pub id: DeployId,
    /// The release of it, where it is known.
    pub release: Option<Release>,
    /// The actor and the time, where they are known.
    pub by: Option<(String, Timestamp)>,
}

/// The reason why a rollback or a hold was refused.
#[derive(Debug, thiserror::Error)]
pub enum RollbackError {
    /// There is no such app, or revision.
    #[error("{0}")]
    Unknown(String),
    /// The present state does not allow it.
    #[error("{0}")]
    Against(String),
    /// The request names as present what is no longer so; it will not be done.
    #[error("{0}")]
    Outdated(String),
    /// Objects that keep data would be removed, and the request does not accept that.
    #[error("{} keep data", .0.len())]
    KeepsData(Vec<LiveObject>),
    /// The request cannot be carried out as it stands.
    #[error("{0}")]
    NotMeant(String),
    /// The manifest repository cannot be read; the text is for the caller too.
    #[error("{0}")]
    Repository(String),
    /// A part of the service does not work.
    #[error(transparent)]
    Fault(#[from] BackendError),
}
