//! The progress of the sweeps: one process at a time, from where the last run stopped, with the
//! items that need no second look.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use crate::model::id::RepoName;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::lease::{LeaseState, end_of};
use crate::store::query::{placeholders, query, query_of};
use crate::store::row::Row;
use crate::store::write::WriteTransaction;

/// A run that this process holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a run that is not ended blocks its sweep until the lease ends"]
pub struct Sweeping {
    /// The name of the sweep.
    pub name: String,
    /// The process that holds it.
    pub holder: String,
    /// The time at which this installation began; older events are not recovered.
    pub since: Timestamp,
    /// The place where the last run stopped; `None` before the first.
    pub position: Option<String>,
    /// The time at which it was due.
    pub due_at: Timestamp,
    lease_end: i64,
}

/// The state that a run leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextSweep {
    /// The place where the next run goes on.
    pub position: Option<String>,
    /// The time at which it is due.
    pub due_at: Timestamp,
    /// The time before which the code host must not be asked.
    pub not_before: Option<Timestamp>,
}

const DOING: &str = "beginning a sweep";

impl Store {
    /// Claims a sweep that is due and has no holder; with `is_requested` it need not be due. While the
    /// code host asks to wait, no process gets it.
    ///
    /// Events older than the installation are history. It began with the first sweep, or with the
    /// first deployment where some had arrived before that sweep.
    pub async fn begin_sweep(
        &self,
        name: &str,
        holder: &str,
        now: Timestamp,
        lease: Duration,
        is_requested: bool,
    ) -> Result<Option<Sweeping>, StoreError> {
        let mut write = self.begin(DOING).await?;
        let sql = "INSERT INTO sweeps (name, since, lease_end, due_at, not_before) \
             SELECT $1, COALESCE((SELECT MIN(since) FROM sweeps), \
             (SELECT MIN(received_at) FROM deployments), $2), 0, 0, 0 \
             WHERE NOT EXISTS (SELECT 1 FROM sweeps WHERE name = $1) ON CONFLICT DO NOTHING";
        query(sql, (name, now)).execute(write.sql(), DOING).await?;
        let lease_end = end_of(now, lease);
        let sql = "UPDATE sweeps SET holder = $2, lease_end = $4 WHERE name = $1 AND lease_end <= $3 \
             AND not_before <= $3 AND (due_at <= $3 OR $5 = 1) \
             RETURNING name AS id, since, position, due_at";
        let row = query(sql, (name, holder, now, lease_end, is_requested))
            .first(write.sql(), DOING)
            .await?;
        let run = row.map(|row| read_sweep(&row, holder, lease_end)).transpose()?;
        write.commit().await?;
        Ok(run)
    }

    /// Ends a run, unless another process has taken over since.
    pub async fn end_sweep(
        &self,
        run: &Sweeping,
        next: &NextSweep,
    ) -> Result<LeaseState, StoreError> {
        let sql = "UPDATE sweeps SET holder = NULL, lease_end = 0, position = $4, due_at = $5, \
             not_before = $6 WHERE name = $1 AND holder = $2 AND lease_end = $3";
        let not_before = next.not_before.map_or(0, Timestamp::as_millisecond);
        let lease = (&run.name, &run.holder, run.lease_end);
        let end = query(sql, (lease, &next.position, next.due_at, not_before));
        self.run(end, "ending a sweep").await.map(LeaseState::by_rows)
    }

    /// Records that an item needs no second look.
    pub async fn settle_swept(
        &self,
        sweep: &str,
        item: &str,
        outcome: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let sql = "INSERT INTO swept (sweep, item, outcome, at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT DO NOTHING";
        let note = query(sql, (sweep, item, outcome, now));
        self.run(note, "recording the items of a sweep").await.map(drop)
    }

    /// Deletes the records from before that time; returns their number.
    pub async fn forget_swept(&self, horizon: Timestamp) -> Result<u64, StoreError> {
        let deletion = query("DELETE FROM swept WHERE at < $1", horizon);
        self.run(deletion, "deleting old items of sweeps").await
    }

    /// Returns those of the items that need no second look.
    pub async fn settled_items(
        &self,
        sweep: &str,
        items: &[String],
    ) -> Result<BTreeSet<String>, StoreError> {
        let sql = "SELECT item AS id FROM swept WHERE sweep = $1 AND item IN";
        self.find_listed(sql, sweep, items).await
    }

    /// Returns those of the deliveries that have become deployments.
    pub async fn find_stored_deliveries(
        &self,
        deliveries: &[String],
    ) -> Result<BTreeSet<String>, StoreError> {
        let sql = "SELECT delivery AS id FROM deployments WHERE $1 = 'known' AND delivery IN";
        self.find_listed(sql, "known", deliveries).await
    }

    /// Returns those of a repository's deployments, by the code host's numbers, that are stored.
    pub async fn find_stored_deployments(
        &self,
        repository: &RepoName,
        forge_ids: &[i64],
    ) -> Result<BTreeSet<i64>, StoreError> {
        if forge_ids.is_empty() {
            return Ok(BTreeSet::new());
        }
        let sql = "SELECT id, forge_id FROM deployments WHERE repository = $1 AND forge_id IN";
        let sql = format!("{sql} ({})", placeholders(2, forge_ids.len()));
        let selection = query_of(sql, (repository, forge_ids.to_vec()));
        let rows = selection.fetch_all(&self.readers, "reading stored deployments").await?;
        rows.into_iter().map(|row| row.number("forge_id")).collect()
    }

    /// Returns every repository that has ever deployed, by name.
    pub async fn repositories(&self) -> Result<Vec<RepoName>, StoreError> {
        let sql = "SELECT DISTINCT repository AS id FROM lanes ORDER BY repository";
        let rows = query(sql, ()).fetch_all(&self.readers, "listing repositories").await?;
        rows.into_iter().map(|row| row.id("id")).collect()
    }

    async fn find_listed(
        &self,
        sql: &str,
        first: &str,
        items: &[String],
    ) -> Result<BTreeSet<String>, StoreError> {
        let mut stored = BTreeSet::new();
        for chunk in items.chunks(MAX_AT_ONCE) {
            let sql = format!("{sql} ({})", placeholders(2, chunk.len()));
            let selection = query_of(sql, (first, chunk.to_vec()));
            for row in selection.fetch_all(&self.readers, "reading the items of a sweep").await? {
                stored.insert(row.text("id")?);
            }
        }
        Ok(stored)
    }
}

/// Ends the runs of processes that are known to be dead.
pub(super) async fn abandon(write: &mut WriteTransaction) -> Result<(), StoreError> {
    let sql = "UPDATE sweeps SET holder = NULL, lease_end = 0 WHERE holder IS NOT NULL";
    let doing = "ending a former process's sweeps";
    query(sql, ()).execute(write.sql(), doing).await.map(drop)
}

/// The most placeholders of a statement: SQLite's oldest limit is 999.
const MAX_AT_ONCE: usize = 500;

fn read_sweep(row: &Row, holder: &str, lease_end: i64) -> Result<Sweeping, StoreError> {
    Ok(Sweeping {
        name: row.text("id")?,
        holder: holder.to_owned(),
        since: row.time("since")?,
        position: row.maybe_text("position")?,
        due_at: row.time("due_at")?,
        lease_end,
    })
}
