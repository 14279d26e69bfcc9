//! Whether the database takes writes: found out by writing.

use std::time::Duration;

use jiff::Timestamp;

use crate::store::connect::DatabaseBackend;
use crate::store::db::{Durability, Store};
use crate::store::error::StoreError;
use crate::store::query::query;
use crate::store::write::WriteTransaction;

const DOING: &str = "trying whether the database takes writes";

/// How long the writes may take. A deployment may wait for longer; traffic should not be sent here.
const LONGEST: Duration = Duration::from_secs(3);

/// A file has room left in its journal after its disk has none. So what is written here is more than
/// what an event needs, in bytes: whoever is told "ready" can have an event stored.
const FILLER: usize = 64 << 10;

/// The row of a replica that is gone is deleted after so long, in milliseconds.
const KEPT_MILLIS: i64 = 24 * 60 * 60 * 1000;

impl Store {
    /// Checks that the database takes writes: writes a row of its own as events do, and one as
    /// workers do.
    ///
    /// On PostgreSQL each replica has a row of its name: one that stands still in the middle of its
    /// write would keep the others waiting for its row.
    ///
    /// # Errors
    /// What keeps it from writing, within three seconds.
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
        // At once, as an event: behind the workers it would measure how much there is to do.
        let write = self.begin_as(Durability::Process, true, DOING).await?;
        self.write_row(write, (row, "worker"), now).await
    }

    async fn write_row(
        &self,
        mut write: WriteTransaction,
        (row, by): (&str, &str),
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let now = now.as_millisecond();
        // Other bytes than before: SQLite writes nothing where nothing has changed.
        let filler = format!("{by} {now} ");
        let filler = match self.kind {
            DatabaseBackend::Sqlite => filler.repeat(FILLER / filler.len()),
            // The server's journal is not ours; a small row shows whether it takes one.
            DatabaseBackend::Postgres => filler,
        };
        let sql = "INSERT INTO health (name, at, filler) VALUES ($1, $2, $3) \
             ON CONFLICT (name) DO UPDATE SET at = $2, filler = $3";
        query(sql, (row, now, filler)).execute(write.sql(), DOING).await?;
        query("DELETE FROM health WHERE at < $1", now.saturating_sub(KEPT_MILLIS))
            .execute(write.sql(), DOING)
            .await?;
        write.commit_unannounced().await
    }
}
