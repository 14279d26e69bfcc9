//! A former revision made live again, and what keeps automation from undoing that.

mod ask; // what is asked for, chosen and judged
mod data; // what is lost goes only when somebody says so
mod hold; // holds by people
mod restore; // what the job does
mod claims; // its namespace, names and routes, which may be another's by now

use jiff::Timestamp;

use crate::deployments::BackendError;
use crate::manifests::diff::Change;
use crate::model::deployment::Deployment;
use crate::model::facts::LiveObject;
use crate::model::id::DeployId;
use crate::model::live_history::RolledBackFrom;
use crate::model::release::Release;

/// What became of a request to roll back.
#[derive(Debug, Clone)]
pub struct RolledBack {
    /// The rollback, which waits for a worker; `None` where it was only asked what would be done.
    pub deployment: Option<Deployment>,
    /// The revision that is live; `None` where somebody edited `latest` by hand.
    pub from: Option<RollbackCandidate>,
    /// The revision that becomes live again.
    pub to: RollbackCandidate,
    /// That the revision was itself rolled back from, if it was.
    pub warning: Option<RolledBackFrom>,
    /// What a person should know, one sentence each.
    pub notes: Vec<String>,
    /// Whether automation is held afterwards.
    pub hold: bool,
    /// What becomes another, object by object; `None` where what is live cannot be read.
    pub changes: Option<Vec<Change>>,
}

/// A revision, and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollbackCandidate {
    /// Its deploy id.
    pub id: DeployId,
    /// What it is of, where that is known.
    pub release: Option<Release>,
    /// Who deployed it, and when, where that is known.
    pub by: Option<(String, Timestamp)>,
}

/// Why nothing was rolled back, or held.
#[derive(Debug, thiserror::Error)]
pub enum NotRolledBack {
    /// There is no such app, or revision.
    #[error("{0}")]
    Unknown(String),
    /// Something speaks against it now.
    #[error("{0}")]
    Against(String),
    /// Objects that keep data would go, and the request does not say that they may.
    #[error("{} keep data", .0.len())]
    KeepsData(Vec<LiveObject>),
    /// It cannot be meant.
    #[error("{0}")]
    NotMeant(String),
    /// The manifest repository cannot be read; for the caller too.
    #[error("{0}")]
    Repository(String),
    /// Something of ours does not work.
    #[error(transparent)]
    Fault(#[from] BackendError),
}
