//! What people stop: deployments by a lock, and one that waits.

use jiff::{SignedDuration, Timestamp};

use crate::model::audit::By;
use crate::model::deployment::Deployment;
use crate::model::id::DeployId;
use crate::model::lock::{Lock, LockFilter, LockId, LockScope};
use crate::server::ports::Fault;
use crate::store::Reply;

/// A lock that somebody wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRequest {
    /// Whom it is to stop.
    pub scope: LockScope,
    /// Why; not empty.
    pub reason: String,
    /// Until when; absent: until somebody takes it away.
    pub ends: Option<Ends>,
}

/// When a lock ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Then.
    At(Timestamp),
    /// So long after it was placed.
    After(SignedDuration),
}

/// Why a lock was not placed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum NotLocked {
    /// What was asked for cannot be meant.
    #[error("{0}")]
    Unmeant(String),
    /// So many are placed that nobody looks through them any more.
    #[error("so many locks are placed that nobody looks through them any more: take some away")]
    TooMany,
    /// Something of ours does not work.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Why a lock was not taken away. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum NotUnlocked {
    /// There never was one of that id.
    #[error("there is no lock {0}")]
    Unknown(LockId),
    /// It is no more.
    #[error("{0}")]
    Gone(String),
    /// Something of ours does not work.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Why a deployment was not cancelled. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum NotCancelled {
    /// There is no such deployment.
    #[error("there is no deployment {0}")]
    Unknown(DeployId),
    /// Its push has begun, or it has ended.
    #[error("{0}")]
    TooLate(String),
    /// Something of ours does not work.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// What people keep back.
pub trait Locks: Send + Sync + 'static {
    /// The locks that are placed now and that the filter takes, oldest first.
    fn locks(
        &self,
        filter: &LockFilter,
    ) -> impl Future<Output = Result<Vec<(LockId, Lock)>, Fault>> + Send;

    /// A lock as it was placed, also one that is no more.
    fn placed(&self, id: &LockId) -> impl Future<Output = Result<Option<Lock>, Fault>> + Send;

    /// Places a lock. From when it is answered on, nothing that it is for begins to push.
    fn lock(
        &self,
        request: LockRequest,
        by: By,
        reply: &Reply<(LockId, Lock)>,
    ) -> impl Future<Output = Result<(LockId, Lock), NotLocked>> + Send;

    /// Takes a lock away; what it was.
    fn unlock(
        &self,
        id: &LockId,
        reason: String,
        by: By,
        reply: &Reply<(LockId, Lock)>,
    ) -> impl Future<Output = Result<Lock, NotUnlocked>> + Send;

    /// Ends a deployment that has not begun to push; what it is now.
    fn cancel(
        &self,
        id: &DeployId,
        reason: String,
        by: By,
        reply: &Reply<Deployment>,
    ) -> impl Future<Output = Result<Deployment, NotCancelled>> + Send;
}
