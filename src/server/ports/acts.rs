//! What people do on purpose beside deploying.

use jiff::Timestamp;

use crate::model::audit::By;
use crate::model::deployment::Deployment;
use crate::model::facts::LiveObject;
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::live_history::RolledBackFrom;
use crate::model::release::Release;
use crate::model::removal::{Removal, RemovalRequest};
use crate::model::rollback::{Hold, RollbackRequest};
use crate::pipeline::diff::Change;
use crate::server::ports::Fault;
use crate::store::Reply;

/// What became of a request to remove an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// The record.
    pub removal: Removal,
    /// What the record is of.
    pub outcome: Outcome,
}

/// What a removal's record is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was done now.
    Now,
    /// It was done before; nothing is left to do.
    Before,
    /// It was only asked what would be done.
    Would,
}

/// Why an app was not removed. Nothing of it was done.
#[derive(Debug, thiserror::Error)]
pub enum NotRemoved {
    /// There is no such app there.
    #[error("{0}")]
    Unknown(String),
    /// Something is under way with it.
    #[error("{0}")]
    Busy(String),
    /// Objects keep data, and the request does not say that it may go.
    #[error("{} keep data", .0.len())]
    KeepsData(Vec<LiveObject>),
    /// Somebody else's files are in its folder.
    #[error("{} files are not ours", .0.len())]
    Foreign(Vec<String>),
    /// It was changed while we looked.
    #[error("{0}")]
    Changed(String),
    /// The manifest repository does not take the change; for the caller too.
    #[error("{0}")]
    Repository(String),
    /// Something of ours does not work.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// What became of a request to roll back.
#[derive(Debug, Clone)]
pub struct RolledBack {
    /// The rollback, which waits for a worker; `None` where it was only asked what would be done.
    pub deployment: Option<Deployment>,
    /// The revision that is live; `None` where somebody edited `latest` by hand.
    pub from: Option<Version>,
    /// The revision that becomes live again.
    pub to: Version,
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
pub struct Version {
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
    Fault(#[from] Fault),
}

/// Former revisions made live again, and what keeps automation from undoing that.
pub trait Rollbacks: Send + Sync + 'static {
    /// Asks for a rollback: what it will change, and its deployment.
    fn roll_back(
        &self,
        request: RollbackRequest,
        by: By,
        reply: &Reply<RolledBack>,
    ) -> impl Future<Output = Result<RolledBack, NotRolledBack>> + Send;

    /// Holds automation off an app on a target.
    fn hold(
        &self,
        target: TargetName,
        app: AppKey,
        reason: String,
        by: By,
        reply: &Reply<Hold>,
    ) -> impl Future<Output = Result<Hold, NotRolledBack>> + Send;

    /// Ends a hold; what it was, or `None` where there was none.
    fn release(
        &self,
        target: TargetName,
        app: AppKey,
        reason: String,
        by: By,
        reply: &Reply<Hold>,
    ) -> impl Future<Output = Result<Option<Hold>, NotRolledBack>> + Send;

    /// The holds of a target, or all.
    fn holds(
        &self,
        target: Option<&TargetName>,
    ) -> impl Future<Output = Result<Vec<Hold>, Fault>> + Send;
}

/// What people do on purpose beside deploying.
pub trait Acts: Send + Sync + 'static {
    /// Takes an app off a target. Goes on to its end even if nobody waits for the answer; where the key
    /// leads to a removal whose process died, that one is answered.
    fn remove(
        &self,
        request: RemovalRequest,
        reply: Reply<Gone>,
    ) -> impl Future<Output = Result<Gone, NotRemoved>> + Send;
}
