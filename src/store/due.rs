//! When there is something to do again, for whoever need not look meanwhile.

use jiff::Timestamp;

use crate::store::row::Row;
use crate::store::{Store, StoreError};

const DOING: &str = "looking for what is due next";

impl Store {
    /// The first time after this at which a deployment or a message that waits can be taken: a
    /// retry's time, or the end of a lease.
    pub async fn next_due(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let row = sqlx::query(
            "SELECT '' AS id, MIN(due_at) AS due_at FROM (\
             SELECT due_at FROM deployments WHERE finished_at IS NULL \
             UNION ALL SELECT due_at FROM outbox WHERE outcome IS NULL) waiting \
             WHERE due_at > $1",
        )
        .bind(now.as_millisecond())
        .fetch_one(&self.pool)
        .await
        .map_err(StoreError::doing(DOING))?;
        Row::new(row).maybe_time("due_at")
    }
}
