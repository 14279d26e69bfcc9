//! What people were last told of each rollout: a row for its commit status, and one for its Slack thread.
//!
//! A row is no queue of messages: what was overtaken before it could be sent is never sent. Each change of a record
//! raises `turn`, in the transaction that stores the record; each claim raises `claims`. So a change that comes while a
//! report is sent leaves the row open, and a sender that lost its claim records nothing.

use std::time::Duration;

use jiff::Timestamp;

use crate::model::id::{DeployId, RepoName, RolloutId};
use crate::model::rollout_news::RolloutNews;
use crate::model::words::words;
use crate::store::db::Store;
use crate::store::environments::count_calls;
use crate::store::error::StoreError;
use crate::store::lease::{LeaseState, end_of};
use crate::store::query::{Bind, BoundValue, query};
use crate::store::reports::{Ending, StateOutcome, ending};
use crate::store::row::Row;
use crate::store::write::WriteTransaction;

const CLAIMING: &str = "claiming reports about rollouts";
const RECORDING: &str = "recording reports about rollouts";
const READING: &str = "reading reports about rollouts";

words! {
    /// The receiver of reports about a rollout.
    pub enum RolloutSink {
        /// The commit status of the release's commit.
        Commit = "commit",
        /// The thread in the team's channel.
        Channel = "channel",
    }
}

/// A sender's claim on the report of one rollout to one receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a claim that is dropped blocks the report until the lease ends"]
pub struct RolloutReportClaim {
    /// The rollout.
    pub rollout: RolloutId,
    /// The receiver.
    pub sink: RolloutSink,
    /// What it has.
    pub told: RolloutTold,
    /// The time at which the rollout began: no message about it is older.
    pub begun_at: Timestamp,
    /// Since when there is something to look at.
    pub changed_at: Timestamp,
    /// True if an earlier attempt may have arrived.
    pub unsure: bool,
    /// True if an earlier report may be applied after the one that was sent.
    pub doubted: bool,
    /// The number of attempts that failed.
    pub failures: u32,
    /// The number of the change: a later one has a higher number.
    pub turn: i64,
    /// The number of the claim, which fences off earlier holders.
    pub claims: i64,
}

/// What a receiver has of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RolloutTold {
    /// The status, or the digest of the thread's first message; `None` before it was sent.
    pub content: Option<String>,
    /// The time at which it was sent.
    pub at: Option<Timestamp>,
    /// The name of the last message about a change.
    pub notice: Option<String>,
    /// The place of the thread's first message.
    pub reference: Option<String>,
}

/// Binds `$1` to `$3`: the key and the fence.
impl Bind for &RolloutReportClaim {
    fn bind(self, values: &mut Vec<BoundValue>) {
        (&self.rollout, self.sink.as_str(), self.claims).bind(values);
    }
}

impl Store {
    /// Returns the time at which the next report about a rollout to that receiver is due.
    pub async fn next_rollout_report(
        &self,
        sink: RolloutSink,
    ) -> Result<Option<Timestamp>, StoreError> {
        let sql =
            "SELECT MIN(due_at) AS due_at FROM rollout_reports WHERE sink = $1 AND done_at IS NULL";
        query(sql, sink.as_str()).fetch_one(&self.readers, READING).await?.maybe_time("due_at")
    }

    /// Counts the reports about rollouts that wait.
    pub async fn rollout_reports_waiting(&self) -> Result<u64, StoreError> {
        let sql = "SELECT COUNT(*) AS n FROM rollout_reports WHERE done_at IS NULL";
        query(sql, ()).fetch_one(&self.readers, READING).await?.count("n")
    }

    /// Counts the rollouts that have not ended by the words of their states.
    pub async fn open_rollouts(&self) -> Result<Vec<(String, u64)>, StoreError> {
        let sql =
            "SELECT state AS id, COUNT(*) AS n FROM rollouts WHERE ended_at IS NULL GROUP BY state";
        let rows = query(sql, ()).fetch_all(&self.readers, READING).await?;
        rows.iter().map(|row| Ok((row.text("id")?, row.count("n")?))).collect()
    }

    /// Claims the report to that receiver that has been due for longest.
    pub async fn claim_rollout_report(
        &self,
        sink: RolloutSink,
        worker: &str,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Option<RolloutReportClaim>, StoreError> {
        let mut write = self.begin(CLAIMING).await?;
        let sql = "SELECT rollout, unsure FROM rollout_reports \
             WHERE sink = $1 AND done_at IS NULL AND due_at <= $2 ORDER BY due_at, rollout LIMIT 1";
        let sql = self.locking(sql, "FOR UPDATE SKIP LOCKED");
        let Some(row) = query(sql, (sink.as_str(), now)).first(write.sql(), CLAIMING).await? else {
            return Ok(None);
        };
        let unsure = row.flag("unsure")?;
        let sql = "UPDATE rollout_reports SET claims = claims + 1, unsure = 1, \
             failures = failures + CASE WHEN worker IS NULL THEN 0 ELSE 1 END, worker = $3, \
             due_at = $4 WHERE rollout = $1 AND sink = $2 RETURNING *";
        let values = (row.text("rollout")?, sink.as_str(), worker, end_of(now, lease));
        let row = query(sql, values).fetch_one(write.sql(), CLAIMING).await?;
        let claim = RolloutReportClaim {
            rollout: row.id("rollout")?,
            sink,
            told: read_told(&row)?,
            begun_at: row.time("begun_at")?,
            changed_at: row.time("changed_at")?,
            unsure,
            doubted: row.flag("doubted")?,
            failures: row.count("failures")?,
            turn: row.number("turn")?,
            claims: row.number("claims")?,
        };
        write.commit().await?;
        Ok(Some(claim))
    }

    /// Records the outcome of an attempt at a report, and what the receiver has now. Where `is_open`, there is more to
    /// send at once. `calls` are those to the repository's code host that create content.
    pub async fn record_rollout_report(
        &self,
        claim: &RolloutReportClaim,
        (outcome, told, is_open): (&StateOutcome, &RolloutTold, bool),
        calls: Option<(&RepoName, u32)>,
        now: Timestamp,
    ) -> Result<LeaseState, StoreError> {
        let mut write = self.begin(RECORDING).await?;
        let Ending { due_at, done_at, unsure, failures, summary, refused: _ } =
            ending(outcome, claim.failures, claim.unsure, now);
        let (due_at, done_at) = if is_open { (now, None) } else { (due_at, done_at) };
        let doubted = match outcome {
            StateOutcome::Sent { doubted, .. } => *doubted,
            StateOutcome::Nothing(_) | StateOutcome::Later { .. } | StateOutcome::Refused(_) => {
                claim.doubted
            }
        };
        let sql = "UPDATE rollout_reports SET worker = NULL, unsure = $5, doubted = $6, \
             failures = $7, summary = $8, due_at = CASE WHEN turn = $4 THEN $9 ELSE $11 END, \
             done_at = CASE WHEN turn = $4 THEN $10 END, told = $12, told_at = $13, notice = $14, \
             reference = $15 WHERE rollout = $1 AND sink = $2 AND claims = $3";
        let RolloutTold { content, at, notice, reference } = told;
        let values = (unsure, doubted, failures, summary, (due_at, done_at, now));
        let columns = (content, *at, notice, reference);
        let update = query(sql, (claim, claim.turn, values, columns));
        let count = update.execute(write.sql(), RECORDING).await?;
        if let Some((repository, calls)) = calls {
            count_calls(&mut write, "rollout_calls", repository, calls, now);
        }
        write.commit().await?;
        Ok(LeaseState::by_rows(count))
    }

    /// Returns the newest rollout of the same name and commit, if it is newer: the commit has its status.
    pub async fn newer_rollout_of_commit(
        &self,
        news: &RolloutNews,
    ) -> Result<Option<RolloutId>, StoreError> {
        let RolloutNews { id, name: Some(name), app, repository, commit, .. } = news else {
            return Ok(None);
        };
        let sql = "SELECT id FROM rollouts WHERE namespace = $1 AND slug = $2 AND id > $3 \
             AND repository = $4 AND name = $5 AND record <> REPLACE(record, $6, '') \
             ORDER BY id DESC LIMIT 1";
        // As it stands in the record.
        let commit = format!("\"commit\":\"{commit}\"");
        let row = query(sql, ((app, id), (repository, name, commit))).first(&self.readers, READING);
        row.await?.map(|row| row.id("id")).transpose()
    }

    /// Returns what the channel has of the rollout that a deployment, or an undo of one, belongs to; `None` where it
    /// belongs to none.
    pub async fn rollout_thread(
        &self,
        deployment: &DeployId,
    ) -> Result<Option<RolloutTold>, StoreError> {
        let sql = "SELECT r.* FROM deployments d JOIN rollouts o ON d.rollout IN (o.id, o.undo_id) \
             JOIN rollout_reports r ON r.rollout = o.id WHERE d.id = $1 AND r.sink = $2";
        let sink = RolloutSink::Channel.as_str();
        let row = query(sql, (deployment, sink)).first(&self.readers, READING).await?;
        row.as_ref().map(read_told).transpose()
    }
}

/// Makes the reports about a rollout due, in the transaction that stores its record.
pub(super) fn announce(write: &mut WriteTransaction, rollout: &RolloutId, now: Timestamp) {
    let sql = "INSERT INTO rollout_reports (rollout, sink, turn, claims, due_at, begun_at, \
         changed_at, unsure, doubted, failures, summary) VALUES ($1, $2, 1, 0, $3, $3, $3, 0, 0, 0, '') \
         ON CONFLICT (rollout, sink) DO UPDATE SET turn = rollout_reports.turn + 1, done_at = NULL, \
         failures = 0, \
         changed_at = CASE WHEN rollout_reports.done_at IS NULL THEN rollout_reports.changed_at ELSE $3 END, \
         due_at = CASE WHEN rollout_reports.worker IS NULL THEN $3 ELSE rollout_reports.due_at END";
    for sink in [RolloutSink::Commit, RolloutSink::Channel] {
        write.later(query(sql, (rollout, sink.as_str(), now)));
    }
}

fn read_told(row: &Row) -> Result<RolloutTold, StoreError> {
    Ok(RolloutTold {
        content: row.maybe_text("told")?,
        at: row.maybe_time("told_at")?,
        notice: row.maybe_text("notice")?,
        reference: row.maybe_text("reference")?,
    })
}
