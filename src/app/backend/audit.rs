//! The audit log and what was answered, in the store.

use crate::app::backend::Backend;
use crate::model::audit::{Found, Search};
use crate::server::ports::{self, Fault};
use crate::store::{Begin, IdempotencyKey, KeyLease, StoredAnswer};

impl ports::AuditLog for Backend {
    async fn audited(&self, search: &Search) -> Result<Found, Fault> {
        self.store.audited(search).await.map_err(Fault::new)
    }
}

impl ports::IdempotencyKeys for Backend {
    async fn begin(&self, key: &IdempotencyKey) -> Result<Begin, Fault> {
        self.store.begin_idempotent(key, self.world.clock.now()).await.map_err(Fault::new)
    }

    async fn keep(&self, lease: &KeyLease, answer: &StoredAnswer) -> Result<(), Fault> {
        self.store.keep_answer(lease, answer).await.map_err(Fault::new)
    }

    async fn release_key(&self, lease: &KeyLease) -> Result<(), Fault> {
        self.store.release_key(lease, self.world.clock.now()).await.map_err(Fault::new)
    }
}
