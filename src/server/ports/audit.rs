//! The audit log, read; and acts that may be repeated.

use crate::model::audit::{Found, Search};
use crate::server::ports::Fault;
use crate::store::{Begin, IdempotencyKey, KeyLease, StoredAnswer};

/// Who did what.
pub trait AuditLog: Send + Sync + 'static {
    /// The newest entries that are looked for.
    fn audited(&self, search: &Search) -> impl Future<Output = Result<Found, Fault>> + Send;
}

/// Acts that may be repeated.
pub trait IdempotencyKeys: Send + Sync + 'static {
    /// Begins a request, unless it was begun before.
    fn begin(&self, key: &IdempotencyKey) -> impl Future<Output = Result<Begin, Fault>> + Send;

    /// Keeps the answer of a request that found nothing to do; that of an act is kept with it.
    fn keep(
        &self,
        lease: &KeyLease,
        answer: &StoredAnswer,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Lets go of a request that was refused; nothing changes where it was answered, or where another
    /// request has taken it over.
    fn release_key(&self, lease: &KeyLease) -> impl Future<Output = Result<(), Fault>> + Send;
}
