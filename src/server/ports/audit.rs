//! The audit log, read; and acts that may be repeated.

use crate::model::audit::{Found, Search};
use crate::server::ports::Fault;
use crate::store::{AnswerTurn, Answered, Begun, Repeatable};

/// Who did what.
pub trait AuditLog: Send + Sync + 'static {
    /// The newest entries that are looked for.
    fn audited(&self, search: &Search) -> impl Future<Output = Result<Found, Fault>> + Send;
}

/// What was answered to acts that may be repeated.
pub trait Answers: Send + Sync + 'static {
    /// Begins a request, unless it was begun before.
    fn begin(&self, request: &Repeatable) -> impl Future<Output = Result<Begun, Fault>> + Send;

    /// Keeps what was answered; nothing changes where somebody else has taken the request over.
    fn keep(
        &self,
        request: &Repeatable,
        turn: AnswerTurn,
        answer: &Answered,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Lets go of a request that was refused; nothing changes where somebody else has taken it over.
    fn forget(
        &self,
        request: &Repeatable,
        turn: AnswerTurn,
    ) -> impl Future<Output = Result<(), Fault>> + Send;
}
