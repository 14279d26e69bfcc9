//! Checks that the database accepts writes, by writing.

use std::time::Duration;

use jiff::Timestamp;

use crate::store::connect::DatabaseBackend;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::query::query;
use crate::store::write::WriteTransaction;
use crate::store::writers::{Durability, Sharing};

const DOING: &str = "checking that the database accepts writes";

/// The time limit of the check. A deployment may wait for longer; traffic should not be sent to the
/// service then.
const LONGEST: Duration = Duration::from_secs(3);

/// The size of the check's row in bytes. A file has room left in its journal after its disk has
/// none. So the check writes more than an event needs: a service that reports "ready" can store an
/// event.
const FILLER: usize = 64 << 10;

/// The time after which the row of a replica that is gone is deleted, in milliseconds.
const RETENTION_MILLIS: i64 = 24 * 60 * 60 * 1000;

impl Store {
    /// Checks that the database accepts writes: writes a row as an event does, and one as a worker
    /// does.
    ///
    /// On PostgreSQL each replica has a row of its name: one that hangs in the middle of its write
    /// would keep the others waiting for its row.
    ///
    /// # Errors
    /// The reason why a write fails, within three seconds.
    pub async fn ready(&self, replica: &str, now: Timestamp) -> Result<(), StoreError> {
        let no_answer = Err(StoreError::NoAnswer { limit: LONGEST });
        tokio::time::timeout(LONGEST, self.write_health(replica, now)).await.unwrap_or(no_answer)
    }

    async fn write_health(&self, replica: &str, now: Timestamp) -> Result<(), StoreError> {
        let row = match self.kind {
            DatabaseBackend::Sqlite => "file",
            DatabaseBackend::Postgres => replica,
        };
        let write = self.begin_durable(DOING).await?;
        self.write_row(write, (row, "event"), now).await?;
        // At once, as an event: behind the workers it would measure their load.
        let write = self.begin_as(Durability::Process, Sharing::Alone, true, DOING).await?;
        self.write_row(write, (row, "worker"), now).await
    }

    async fn write_row(
        &self,
        write: WriteTransaction,
        (row, writer): (&str, &str),
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let now = now.as_millisecond();
        // Other bytes than before: SQLite writes nothing where nothing has changed.
        let filler = format!("{writer} {now} ");
        let filler = match self.kind {
            DatabaseBackend::Sqlite => filler.repeat(FILLER / filler.len()),
            // The server manages its journal; a small row shows whether it accepts one.
            DatabaseBackend::Postgres => filler,
        };
        let sql = "INSERT INTO health (name, at, filler) VALUES ($1, $2, $3) \
             ON CONFLICT (name) DO UPDATE SET at = $2, filler = $3";
        let upsert = query(sql, (row, now, filler));
        let horizon = now.saturating_sub(RETENTION_MILLIS);
        let deletion = query("DELETE FROM health WHERE at < $1", horizon);
        write.commit_unannounced(vec![upsert, deletion]).await.map(drop)
    }
}
