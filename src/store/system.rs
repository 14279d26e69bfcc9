//! Queries about the service itself: its replicas, the clusters that each follows, and messages that were given up.
//! Read-only.

use jiff::Timestamp;

use crate::model::deployment::ForgeState;
use crate::model::id::DeployId;
use crate::model::notice::Sink;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::outbox;
use crate::store::query::{query, query_of};
use crate::store::row::Row;

/// A message that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The deployment that it is about.
    pub deployment: DeployId,
    /// The receiver.
    pub sink: Sink,
    /// The state that it tells of.
    pub state: ForgeState,
    /// The time since which that state holds.
    pub at: Timestamp,
    /// The reason why it was given up.
    pub reason: String,
}

const READING: &str = "reading the state of the service";
/// The most rows of a list; a service has a handful of replicas.
const MAX: u32 = 500;

impl Store {
    /// Returns the replicas that have checked the database within the last day, each with the time of its last check.
    /// With SQLite there is one, and it is not named.
    pub async fn replicas(&self) -> Result<Vec<(String, Timestamp)>, StoreError> {
        let sql = format!("SELECT name AS id, at FROM health ORDER BY name LIMIT {MAX}");
        let rows = query_of(sql, ()).fetch_all(&self.readers, READING).await?;
        rows.iter().map(|row| Ok((row.text("id")?, row.time("at")?))).collect()
    }

    /// Returns the clusters that are followed now, each with the replica that follows it.
    pub async fn cluster_holders(
        &self,
        now: Timestamp,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let sql = "SELECT cluster AS id, holder FROM cluster_leases WHERE lease_end > $1 ORDER BY cluster";
        let rows = query(sql, now).fetch_all(&self.readers, READING).await?;
        rows.iter().map(|row| Ok((row.text("id")?, row.text("holder")?))).collect()
    }

    /// Returns the messages that were given up, at most so many, the newest.
    pub async fn dead_letters(&self, limit: u32) -> Result<Vec<DeadLetter>, StoreError> {
        let sql = format!(
            "SELECT deployment AS id, sink, state, at, reason FROM outbox WHERE outcome = 'parked' \
             ORDER BY at DESC LIMIT {limit}"
        );
        let rows = query_of(sql, ()).fetch_all(&self.readers, READING).await?;
        rows.iter().map(read_dead_letter).collect()
    }
}

fn read_dead_letter(row: &Row) -> Result<DeadLetter, StoreError> {
    Ok(DeadLetter {
        deployment: row.id("id")?,
        sink: outbox::sink(row)?,
        state: row.word("state", ForgeState::parse)?,
        at: row.time("at")?,
        reason: row.maybe_text("reason")?.unwrap_or_default(),
    })
}
