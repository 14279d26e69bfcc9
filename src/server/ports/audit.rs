//! The audit log, read; and acts that may be repeated.

use crate::model::audit::{Found, Search};
use crate::server::ports::Fault;
use crate::store::{Answered, Begun, Repeatable};

/// Who did what.
pub trait AuditLog: Send + Sync + 'static {
    /// The newest entries that are looked for.
    fn audited(&self, search: &Search) -> impl Future<Output = Result<Found, Fault>> + Send;
}

/// What was answered to acts that may be repeated.
pub trait Answers: Send + Sync + 'static {
    /// Begins a request, unless it was begun before.
    fn begin(&self, request: &Repeatable) -> impl Future<Output = Result<Begun, Fault>> + Send;

    /// Keeps what was answered.
    fn keep(
        &self,
        request: &Repeatable,
        answer: &Answered,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Lets go of a request that was refused.
    fn forget(&self, request: &Repeatable) -> impl Future<Output = Result<(), Fault>> + Send;
}
