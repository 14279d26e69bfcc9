//! The outbox: a message for each sink, written in the transaction of its change, sent in order,
//! each once. Final statuses after a message in doubt are checked again: a call without an answer
//! may be applied after them.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::model::deploy_clock::{DeployMark, MarkTime};
use crate::model::deployment::{ClusterPhase, ForgeState};
use crate::model::id::{CommitSha, DeployId, RepoName, TargetName};
use crate::model::notice::{Sink, SinkFamily};
use crate::model::status::ForgeStatus;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::lease::{LeaseState, end_of};
use crate::store::query::{Bind, Query, query, query_of};
use crate::store::row::Row;
use crate::store::write::WriteTransaction;

/// One message that a sender has claimed, with the data that it needs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a claimed message without an outcome waits until its lease ends"]
pub struct OutboxMessage {
    /// The deployment.
    pub deployment: DeployId,
    /// The receiver.
    pub sink: Sink,
    /// Its place among the deployment's messages for that sink, from 1.
    pub seq: i64,
    /// The deployment's repository.
    pub repository: RepoName,
    /// Its commit.
    pub commit: CommitSha,
    /// Its target.
    pub target: TargetName,
    /// The app by the name of its file; empty for the only one of its repository, and `*` for all of them.
    pub app_name: String,
    /// The code host's number of the deployment; below zero while the code host does not have it.
    pub forge_id: i64,
    /// Its place in the order of its lane, before its id.
    pub place: i64,
    /// The status to send.
    pub status: ForgeStatus,
    /// The time since which the status holds.
    pub at: Timestamp,
    /// The time from which it could be claimed: its place among the others.
    pub due_at: Timestamp,
    /// The number of times that it was claimed, with this one; fences off slower senders.
    pub attempts: u32,
    /// The number of attempts that failed.
    pub failures: u32,
    /// True if an earlier attempt may have arrived: the sender searches before it sends again.
    pub unsure: bool,
    /// True if a later message of its deployment waits behind it, for the same sink.
    pub followed: bool,
    /// True if an earlier message of its deployment was sent to the same sink.
    pub continues: bool,
    /// The address of the app, where it is known: that of the deployment once it is live; before, that of
    /// the newest success of the lane before it.
    pub address: Option<String>,
}

impl OutboxMessage {
    /// Returns true if the code host does not have the deployment yet, and must create it for this
    /// message.
    pub fn begins_there(&self) -> bool {
        self.sink == Sink::Forge && self.forge_id <= 0
    }
}

/// The outcome of an attempt at a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The receiver accepted it.
    Sent {
        /// The receiver's reference, where it is of use later.
        reference: Option<String>,
    },
    /// There was nothing to send, for this reason.
    Skipped(String),
    /// The receiver does not have it; later messages of its deployment and sink wait behind it.
    Again {
        /// The time of the next attempt.
        at: Timestamp,
        /// True if it may have arrived nevertheless.
        unsure: bool,
        /// True if the attempt failed. False where no call was made, or the receiver asked to wait.
        failed: bool,
    },
    /// The message is not tried any more, for this reason; the next of its deployment has its turn.
    Parked(String),
}

/// A final status to check again, claimed by one sender for the length of its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a confirmation without an answer is checked again when its lease ends"]
pub struct Confirmation {
    /// The message that was sent.
    pub message: OutboxMessage,
    /// The time at which the receiver accepted it.
    pub told_at: Timestamp,
}

const DOING: &str = "claiming messages to send";
const LOOKING: &str = "claiming final statuses to check";

/// The order of messages to the code host, where it takes fewer than wait: first those that a newer
/// message has overtaken, which cost nothing, and ends; then `inactive`; then commits; then
/// transient states.
const WORTH: &str = "CASE WHEN EXISTS (SELECT 1 FROM outbox f WHERE f.deployment = o.deployment \
     AND f.sink = o.sink AND f.seq > o.seq) THEN 0 \
     WHEN o.state IN ('queued', 'in_progress') THEN 3 \
     WHEN o.sink = 'commit' THEN 2 WHEN o.state = 'inactive' THEN 1 ELSE 0 END";

/// The columns of a message's deployment.
macro_rules! message_columns {
    () => {
        "d.repository, d.target, d.app_name, d.commit_id, d.forge_id, d.place, \
         CASE WHEN o.state = 'success' THEN SUBSTR(d.address, 1, 4000) \
         ELSE COALESCE(CASE WHEN o.state = 'inactive' THEN SUBSTR(d.address, 1, 4000) END, \
         (SELECT SUBSTR(p.address, 1, 4000) FROM deployments p WHERE p.repository = d.repository \
         AND p.target = d.target AND p.app_name = d.app_name AND (p.place < d.place OR (p.place = d.place AND p.id < d.id)) \
         AND p.state = 'succeeded' ORDER BY p.place DESC, p.id DESC LIMIT 1)) END AS address"
    };
}

impl Store {
    /// Claims messages of a family that may be sent now, at most one of each deployment and sink:
    /// first those that could be claimed first, or the oldest where the family is in order. For the
    /// code host the most important ones come first.
    ///
    /// They belong to this sender for the length of the lease; a sender that dies leaves them to
    /// another, marked as in doubt.
    pub async fn take_messages(
        &self,
        family: &SinkFamily,
        now: Timestamp,
        lease: Duration,
        limit: u32,
    ) -> Result<Vec<OutboxMessage>, StoreError> {
        // This query runs all the time, and often in vain, so it takes no turn to write.
        let sql = "SELECT deployment AS id FROM outbox \
             WHERE outcome IS NULL AND family = $1 AND due_at <= $2 LIMIT 1";
        if query(sql, (family, now)).first(&self.readers, DOING).await?.is_none() {
            return Ok(Vec::new());
        }
        let mut write = self.begin(DOING).await?;
        let columns = concat!(
            "SELECT o.deployment AS id, o.sink, o.seq, o.unsure, o.due_at, ",
            message_columns!(),
            ", (SELECT COUNT(*) FROM outbox n \
             WHERE n.deployment = o.deployment AND n.sink = o.sink AND n.seq > o.seq) AS followers, \
             (SELECT COUNT(*) FROM outbox t WHERE t.deployment = o.deployment AND t.sink = o.sink \
             AND t.seq < o.seq AND t.outcome = 'sent') AS told"
        );
        let (worth, order) = match family {
            SinkFamily::ArgoCd(_) => ("0", "o.at, o.deployment"),
            SinkFamily::Forge => (WORTH, "worth, o.due_at, o.at"),
            SinkFamily::Slack | SinkFamily::Events(_) | SinkFamily::BigQuery => {
                ("0", "o.due_at, o.at")
            }
        };
        // The other columns are read only for the claimed messages: very many may wait.
        let selection = format!(
            "SELECT o.deployment, o.sink, o.seq, o.state, o.unsure, o.due_at, o.at, {worth} AS worth \
             FROM outbox o WHERE o.outcome IS NULL AND o.family = $1 AND o.due_at <= $2 \
             AND NOT EXISTS (SELECT 1 FROM outbox e WHERE e.deployment = o.deployment \
             AND e.sink = o.sink AND e.seq < o.seq AND e.outcome IS NULL) \
             ORDER BY {order} LIMIT $3"
        );
        let selection = self.locking(&selection, "FOR UPDATE OF o SKIP LOCKED");
        let sql = format!(
            "{columns} FROM ({}) o JOIN deployments d ON d.id = o.deployment ORDER BY {order}",
            selection.0
        );
        let rows = query_of(sql, (family, now, limit)).fetch_all(write.sql(), DOING).await?;
        // One by one: as a part of the update, PostgreSQL may run the query again and
        // again, and claim more than the limit.
        let claims = rows.iter().map(|row| take(row, now, lease));
        let answers = write.commit_with(claims.collect::<Result<_, _>>()?).await?;
        // A message that another sender has claimed has no row.
        let messages = rows
            .iter()
            .zip(&answers)
            .filter_map(|(row, answer)| answer.rows.first().map(|claim| message(row, claim)));
        messages.collect()
    }

    /// Records the outcomes of messages, each unless another sender has claimed it since. An event that Argo CD has
    /// accepted is a mark of its deployment, whoever sent it.
    pub async fn record_outcomes(
        &self,
        answers: &[(OutboxMessage, DeliveryOutcome)],
        now: Timestamp,
    ) -> Result<Vec<LeaseState>, StoreError> {
        let mut write = self.begin("recording the outcomes of messages").await?;
        let is_accepted = |(message, answer): &&(OutboxMessage, DeliveryOutcome)| {
            // The push of a removal is an event of a deployment that ended long ago.
            matches!(message.sink, Sink::ArgoCd(_))
                && message.status.state == ForgeState::Success
                && matches!(answer, DeliveryOutcome::Sent { .. })
        };
        // Deployments are locked before messages, and in their order, as everywhere.
        let notified: BTreeSet<_> =
            answers.iter().filter(is_accepted).map(|(message, _)| &message.deployment).collect();
        let mut changes = Vec::new();
        for id in notified {
            let notified = MarkTime::of_service(DeployMark::ArgocdNotified, now);
            changes.extend(self.add_marks(&mut write, id, &[notified]).await?);
        }
        let records = answers.iter().map(|(message, answer)| record(message, answer, now));
        let results = write.commit_with(records.collect()).await?;
        for change in &changes {
            self.intervals.observe(change);
        }
        Ok(results.iter().map(|answer| LeaseState::by_rows(answer.changed)).collect())
    }

    /// Claims final statuses that are due for a check. One that is not the last any more is
    /// dropped: its successor is checked.
    pub async fn take_confirmations(
        &self,
        now: Timestamp,
        lease: Duration,
        limit: u32,
    ) -> Result<Vec<Confirmation>, StoreError> {
        if !self.has_confirmations(now).await? {
            return Ok(Vec::new());
        }
        let mut write = self.begin(LOOKING).await?;
        let sql = concat!(
            "SELECT o.deployment AS id, o.sink, o.seq, o.state, o.description, o.phase, o.at, \
             o.due_at, o.done_at, o.attempts, o.failures, o.unsure, ",
            message_columns!(),
            ", (SELECT COUNT(*) FROM outbox n WHERE n.deployment = o.deployment \
             AND n.sink = o.sink AND n.seq > o.seq AND (n.outcome IS NULL OR n.outcome = 'sent')) \
             AS followers, CAST(1 AS BIGINT) AS told \
             FROM outbox o JOIN deployments d ON d.id = o.deployment \
             WHERE o.confirm_at IS NOT NULL AND o.confirm_at <= $1 ORDER BY o.confirm_at LIMIT $2"
        );
        let rows = query(self.locking(sql, "FOR UPDATE OF o SKIP LOCKED"), (now, limit))
            .fetch_all(write.sql(), LOOKING)
            .await?;
        let lease_end = end_of(now, lease);
        let mut confirmations = Vec::with_capacity(rows.len());
        for row in rows {
            let message = message(&row, &row)?;
            let next_check = (!message.followed).then_some(lease_end);
            set_next_check(&mut write, &message, next_check);
            if next_check.is_some() {
                confirmations.push(Confirmation { message, told_at: row.time("done_at")? });
            }
        }
        write.commit().await?;
        Ok(confirmations)
    }

    /// Returns true if a check is due. It is called all the time, and mostly in vain, so it takes
    /// no turn to write.
    async fn has_confirmations(&self, now: Timestamp) -> Result<bool, StoreError> {
        let sql = "SELECT deployment AS id FROM outbox \
             WHERE confirm_at IS NOT NULL AND confirm_at <= $1 LIMIT 1";
        Ok(query(sql, now).first(&self.readers, LOOKING).await?.is_some())
    }

    /// Records the time of the next check of a final status, or that there is none; and that it was
    /// sent again.
    pub async fn record_confirmation(
        &self,
        confirmation: &Confirmation,
        next_check: Option<Timestamp>,
        retold_at: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let mut write = self.begin("recording a check of a final status").await?;
        set_next_check(
            &mut write,
            &confirmation.message,
            next_check.map(Timestamp::as_millisecond),
        );
        if let Some(at) = retold_at {
            let OutboxMessage { deployment, sink, seq, .. } = &confirmation.message;
            let sql =
                "UPDATE outbox SET retold_at = $4 WHERE deployment = $1 AND sink = $2 AND seq = $3";
            write.later(query(sql, (deployment, sink, seq, at)));
        }
        write.commit().await
    }

    /// Enqueues a message for every sink that subscribes to that state; the deployment's row must
    /// have been written in the same transaction, so that two never draw the same number.
    pub(super) fn enqueue_messages(
        &self,
        write: &mut WriteTransaction,
        id: &DeployId,
        status: &ForgeStatus,
        now: Timestamp,
    ) {
        for sink in self.subscriptions.sinks_for(status.state) {
            enqueue(write, id, &sink, status, now);
        }
    }

    /// Enqueues a further message about the same deployment. Of one that goes on in its cluster the code host gets
    /// each change, and programs get each phase once, however often it begins.
    pub(super) fn enqueue_change(
        &self,
        write: &mut WriteTransaction,
        id: &DeployId,
        status: &ForgeStatus,
        now: Timestamp,
    ) {
        if status.state == ForgeState::InProgress {
            for sink in self.subscriptions.progress_sinks() {
                match (&sink, status.phase) {
                    (Sink::Events(_), Some(phase)) => {
                        enqueue_phase(write, id, &sink, (status, phase), now);
                    }
                    (Sink::Events(_), None) => {}
                    _ => enqueue(write, id, &sink, status, now),
                }
            }
        } else {
            self.enqueue_messages(write, id, status, now);
            self.enqueue_end_of_canary(write, id, status, now);
        }
    }

    /// Enqueues a message about a canary that ended without a result, where people have got, or will get, one about its
    /// steps: they hear of no other such end.
    fn enqueue_end_of_canary(
        &self,
        write: &mut WriteTransaction,
        id: &DeployId,
        status: &ForgeStatus,
        now: Timestamp,
    ) {
        if status.state == ForgeState::Inactive
            && let Some(sink) = self.subscriptions.canary_sink()
        {
            enqueue_after_progress(write, id, &sink, status, now);
        }
    }

    /// Enqueues a message about a canary that goes on, for people; its end has one of [`Store::enqueue_change`].
    pub(super) fn enqueue_canary(
        &self,
        write: &mut WriteTransaction,
        id: &DeployId,
        status: &ForgeStatus,
        now: Timestamp,
    ) {
        if status.state == ForgeState::InProgress
            && let Some(sink) = self.subscriptions.canary_sink()
        {
            enqueue(write, id, &sink, status, now);
        }
    }

    /// Enqueues a message for the receivers of pushes to a target; the same conditions hold as for
    /// [`Store::enqueue_messages`].
    pub(super) fn tell_of_push(
        &self,
        write: &mut WriteTransaction,
        id: &DeployId,
        target: &TargetName,
        (state, commit): (ForgeState, &CommitSha),
        now: Timestamp,
    ) {
        if let Some(sink) = self.subscriptions.of_push(target) {
            enqueue(write, id, &sink, &ForgeStatus::of_commit(state, commit), now);
        }
    }
}

/// Inserts a message behind the earlier ones of its deployment and sink; `$1` to `$7`.
macro_rules! insert {
    () => {
        "INSERT INTO outbox (deployment, sink, seq, family, state, description, at, due_at, \
         attempts, unsure, phase) \
         SELECT $1, $2, COALESCE(MAX(seq), 0) + 1, $3, $4, $5, $6, $6, 0, 0, $7 FROM outbox \
         WHERE deployment = $1 AND sink = $2"
    };
}

/// Enqueues a message for one sink.
pub(super) fn enqueue(
    write: &mut WriteTransaction,
    id: &DeployId,
    sink: &Sink,
    status: &ForgeStatus,
    now: Timestamp,
) {
    write.later(query(insert!(), message_values(id, sink, status, now)));
}

/// Enqueues a message for one sink, unless an earlier one was about the same phase.
fn enqueue_phase(
    write: &mut WriteTransaction,
    id: &DeployId,
    sink: &Sink,
    (status, phase): (&ForgeStatus, ClusterPhase),
    now: Timestamp,
) {
    let sql = concat!(insert!(), " HAVING COUNT(CASE WHEN phase = $8 THEN 1 END) = 0");
    write.later(query(sql, (message_values(id, sink, status, now), phase.as_str())));
}

/// Enqueues a message for one sink, if there is one about progress.
fn enqueue_after_progress(
    write: &mut WriteTransaction,
    id: &DeployId,
    sink: &Sink,
    status: &ForgeStatus,
    now: Timestamp,
) {
    let sql = concat!(insert!(), " HAVING COUNT(CASE WHEN state = 'in_progress' THEN 1 END) > 0");
    write.later(query(sql, message_values(id, sink, status, now)));
}

fn message_values(id: &DeployId, sink: &Sink, status: &ForgeStatus, now: Timestamp) -> impl Bind {
    let status_columns = (status.state.as_str(), status.description());
    ((id, sink, sink.family()), status_columns, now, status.phase.map(ClusterPhase::as_str))
}

/// Makes messages that a dead process was sending due at once; see `Store::end_leases`.
pub(super) async fn abandon(
    write: &mut WriteTransaction,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE outbox SET due_at = $1 WHERE outcome IS NULL AND unsure = 1 AND due_at > $1";
    query(sql, now).execute(write.sql(), "ending the leases of a former process").await.map(drop)
}

fn record(message: &OutboxMessage, answer: &DeliveryOutcome, now: Timestamp) -> Query {
    let (mut due_at, mut unsure, mut failed, mut reference) = (None, false, false, None);
    let (outcome, reason) = match answer {
        DeliveryOutcome::Sent { reference: reference_id } => {
            reference = reference_id.as_ref();
            (Some("sent"), None)
        }
        DeliveryOutcome::Skipped(reason) => (Some("skipped"), Some(reason)),
        DeliveryOutcome::Parked(reason) => (Some("parked"), Some(reason)),
        DeliveryOutcome::Again { at, unsure: is_unsure, failed: has_failed } => {
            (due_at, unsure, failed) = (Some(*at), *is_unsure, *has_failed);
            (None, None)
        }
    };
    let sql = "UPDATE outbox SET outcome = $5, reason = $6, reference = $7, unsure = $8, \
         due_at = COALESCE($9, due_at), done_at = CASE WHEN $9 IS NULL THEN $10 END, \
         failures = failures + $11, confirm_at = CASE WHEN EXISTS (SELECT 1 FROM outbox e \
         WHERE e.deployment = $1 AND e.sink = $2 AND e.seq <= $3 AND e.doubted = 1) THEN $12 END \
         WHERE deployment = $1 AND sink = $2 AND seq = $3 AND attempts = $4 AND outcome IS NULL";
    let key = (&message.deployment, &message.sink, message.seq, message.attempts);
    let values = (outcome, reason, reference, unsure, due_at, now, failed);
    query(sql, (key, values, first_look(message, answer, now)))
}

/// The delay before the first check: a call without an answer is applied within seconds, if at all.
const FIRST_LOOK: SignedDuration = SignedDuration::from_mins(1);

/// Returns the time of the first check whether a final status is still the newest, in case a
/// message before it was in doubt.
fn first_look(
    message: &OutboxMessage,
    answer: &DeliveryOutcome,
    now: Timestamp,
) -> Option<Timestamp> {
    let is_visible = matches!(message.sink, Sink::Forge | Sink::Commit);
    let is_final = !matches!(message.status.state, ForgeState::Queued | ForgeState::InProgress);
    let is_sent = matches!(answer, DeliveryOutcome::Sent { .. });
    (is_visible && is_final && is_sent)
        .then(|| now.checked_add(FIRST_LOOK).unwrap_or(Timestamp::MAX))
}

/// Sets the time of the next check of a sent message.
fn set_next_check(write: &mut WriteTransaction, message: &OutboxMessage, at: Option<i64>) {
    let sql = "UPDATE outbox SET confirm_at = $4 WHERE deployment = $1 AND sink = $2 AND seq = $3 \
         AND confirm_at IS NOT NULL";
    write.later(query(sql, (&message.deployment, &message.sink, message.seq, at)));
}

/// Returns the statement that claims a message. From here on it may have arrived: a sender that dies
/// records nothing. One that is claimed while in doubt stays marked as doubted, whatever a search
/// finds: it may be applied late, too.
fn take(row: &Row, now: Timestamp, lease: Duration) -> Result<Query, StoreError> {
    let sql = "UPDATE outbox SET due_at = $5, attempts = attempts + 1, \
         doubted = CASE WHEN unsure = 1 THEN 1 ELSE doubted END, unsure = 1 \
         WHERE deployment = $1 AND sink = $2 AND seq = $3 AND due_at <= $4 AND outcome IS NULL \
         RETURNING deployment AS id, sink, seq, state, description, phase, at, attempts, failures";
    let key = (row.text("id")?, row.text("sink")?, row.number("seq")?);
    Ok(query(sql, (key, now, end_of(now, lease))))
}

/// Reads a message from the row as it was found, and the row as it is after the claim.
fn message(found_row: &Row, row: &Row) -> Result<OutboxMessage, StoreError> {
    Ok(OutboxMessage {
        deployment: row.id("id")?,
        sink: sink(row)?,
        seq: row.number("seq")?,
        repository: found_row.id("repository")?,
        commit: found_row.id("commit_id")?,
        target: found_row.id("target")?,
        app_name: found_row.text("app_name")?,
        forge_id: found_row.number("forge_id")?,
        place: found_row.number("place")?,
        status: status(row)?,
        at: row.time("at")?,
        due_at: found_row.time("due_at")?,
        attempts: row.count("attempts")?,
        failures: row.count("failures")?,
        unsure: found_row.flag("unsure")?,
        followed: found_row.number("followers")? > 0,
        continues: found_row.number("told")? > 0,
        address: found_row.maybe_text("address")?,
    })
}

pub(super) fn sink(row: &Row) -> Result<Sink, StoreError> {
    row.word("sink", Sink::parse)
}

pub(super) fn status(row: &Row) -> Result<ForgeStatus, StoreError> {
    let mut status = ForgeStatus::new(state(row)?, &row.text("description")?);
    let word = row.maybe_text("phase")?;
    let parse = |word: &str| ClusterPhase::parse(word).ok_or_else(|| row.corrupt("phase", &word));
    status.phase = word.as_deref().map(parse).transpose()?;
    Ok(status)
}

pub(super) fn state(row: &Row) -> Result<ForgeState, StoreError> {
    row.word("state", ForgeState::parse)
}
