//! What people do on purpose beside deploying.

use crate::model::facts::LiveObject;
use crate::model::removal::{Removal, RemovalRequest};
use crate::server::ports::Fault;

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

/// What people do on purpose beside deploying.
pub trait Acts: Send + Sync + 'static {
    /// Takes an app off a target. Goes on to its end even if nobody waits for the answer.
    fn remove(
        &self,
        request: RemovalRequest,
    ) -> impl Future<Output = Result<Gone, NotRemoved>> + Send;
}
