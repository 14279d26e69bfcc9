//! Events about rollouts: written in the transaction of their change, for every receiver, and sent in the order of the
//! changes, each until it has an outcome.

use std::time::Duration;

use jiff::Timestamp;

use crate::model::announcement::Announcement;
use crate::model::id::RolloutId;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::lease::{LeaseState, end_of};
use crate::store::outbox::DeliveryOutcome;
use crate::store::query::{Bind, BoundValue, query};
use crate::store::row::Row;
use crate::store::write::WriteTransaction;

const CLAIMING: &str = "claiming events about rollouts";
const RECORDING: &str = "recording events about rollouts";

/// An event about a change of a rollout, as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutEvent {
    /// Its id, by which receivers know a repeat.
    pub id: String,
    /// Its kind.
    pub kind: Announcement,
    /// The JSON text.
    pub body: String,
}

/// A sender's claim on the next event for a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a claim that is dropped blocks the event until the lease ends"]
pub struct RolloutEventClaim {
    /// The receiver.
    pub receiver: String,
    /// The rollout.
    pub rollout: RolloutId,
    /// The event.
    pub event: RolloutEvent,
    /// The time of the change.
    pub at: Timestamp,
    /// The number of claims, with this one; fences off slower senders.
    pub attempts: u32,
    /// The number of attempts that failed.
    pub failures: u32,
    /// The version of the record, and the place among the events of the change.
    place: (i64, i64),
}

/// Binds `$1` to `$5`: the key and the fence.
impl Bind for &RolloutEventClaim {
    fn bind(self, values: &mut Vec<BoundValue>) {
        let (version, place) = self.place;
        ((&self.receiver, &self.rollout), (version, place), self.attempts).bind(values);
    }
}

impl Store {
    /// Returns the time from which the next event about a rollout may be sent to that receiver.
    pub async fn next_rollout_event(
        &self,
        receiver: &str,
    ) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT MIN(due_at) AS due_at FROM rollout_events WHERE receiver = $1 AND outcome IS NULL";
        query(sql, receiver).fetch_one(&self.readers, CLAIMING).await?.maybe_time("due_at")
    }

    /// Claims the event for that receiver that has been due for longest, and that no earlier one of its rollout waits
    /// before.
    pub async fn claim_rollout_event(
        &self,
        receiver: &str,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Option<RolloutEventClaim>, StoreError> {
        let mut write = self.begin(CLAIMING).await?;
        let sql = "SELECT e.rollout AS id, e.version, e.place FROM rollout_events e \
             WHERE e.receiver = $1 AND e.outcome IS NULL AND e.due_at <= $2 AND NOT EXISTS \
             (SELECT 1 FROM rollout_events b WHERE b.receiver = e.receiver AND b.rollout = e.rollout \
             AND b.outcome IS NULL AND (b.version < e.version OR (b.version = e.version AND b.place < e.place))) \
             ORDER BY e.due_at, e.at, e.rollout LIMIT 1";
        let sql = self.locking(sql, "FOR UPDATE OF e SKIP LOCKED");
        let Some(row) = query(sql, (receiver, now)).first(write.sql(), CLAIMING).await? else {
            return Ok(None);
        };
        let key = (row.text("id")?, row.number("version")?, row.number("place")?);
        let sql = "UPDATE rollout_events SET attempts = attempts + 1, due_at = $5 \
             WHERE receiver = $1 AND rollout = $2 AND version = $3 AND place = $4 \
             RETURNING rollout AS id, version, place, event, kind, body, at, attempts, failures";
        let claim = query(sql, (receiver, key, end_of(now, lease)));
        let row = claim.fetch_one(write.sql(), CLAIMING).await?;
        let claim = read(receiver, &row)?;
        write.commit().await?;
        Ok(Some(claim))
    }

    /// Records what became of an attempt at an event, unless another sender has claimed it since.
    pub async fn record_rollout_event(
        &self,
        claim: &RolloutEventClaim,
        outcome: &DeliveryOutcome,
        now: Timestamp,
    ) -> Result<LeaseState, StoreError> {
        let done = |word: &'static str, reason: Option<String>| {
            let sql = "UPDATE rollout_events SET outcome = $6, reason = $7, done_at = $8, body = '' \
                 WHERE receiver = $1 AND rollout = $2 AND version = $3 AND place = $4 AND attempts = $5";
            query(sql, (claim, word, &reason, now))
        };
        let record = match outcome {
            DeliveryOutcome::Sent { reference: _ } => done("sent", None),
            DeliveryOutcome::Skipped(reason) => done("skipped", Some(reason.clone())),
            DeliveryOutcome::Parked(reason) => done("parked", Some(reason.clone())),
            DeliveryOutcome::Again { at, unsure: _, failed } => {
                let sql = "UPDATE rollout_events SET due_at = $6, failures = failures + $7 \
                     WHERE receiver = $1 AND rollout = $2 AND version = $3 AND place = $4 AND attempts = $5";
                query(sql, (claim, *at, *failed))
            }
        };
        self.run(record, RECORDING).await.map(LeaseState::by_rows)
    }

    /// Lists what became of the events about a rollout for a receiver, in their order: the kind and the word, which is
    /// `waits` while there is no outcome.
    pub async fn rollout_events(
        &self,
        rollout: &RolloutId,
        receiver: &str,
    ) -> Result<Vec<(Announcement, String)>, StoreError> {
        let sql = "SELECT event AS id, kind, COALESCE(outcome, 'waits') AS word FROM rollout_events \
             WHERE receiver = $1 AND rollout = $2 ORDER BY version, place";
        let rows = query(sql, (receiver, rollout)).fetch_all(&self.readers, CLAIMING).await?;
        rows.iter()
            .map(|row| Ok((row.word("kind", Announcement::parse)?, row.text("word")?)))
            .collect()
    }
}

/// Writes the events of a change for every receiver, in the transaction that stores it.
pub(super) fn enqueue(
    store: &Store,
    write: &mut WriteTransaction,
    (rollout, version): (&RolloutId, i64),
    events: &[RolloutEvent],
    now: Timestamp,
) {
    let sql = "INSERT INTO rollout_events (receiver, rollout, version, place, event, kind, body, at, due_at, attempts, \
         failures) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, 0, 0)";
    for receiver in &store.subscriptions.events {
        for (place, event) in events.iter().enumerate() {
            let place = i64::try_from(place).unwrap_or(i64::MAX);
            let RolloutEvent { id, kind, body } = event;
            let values = ((receiver, rollout), (version, place), (id, kind.as_str(), body), now);
            write.later(query(sql, values));
        }
    }
}

fn read(receiver: &str, row: &Row) -> Result<RolloutEventClaim, StoreError> {
    Ok(RolloutEventClaim {
        receiver: receiver.to_owned(),
        rollout: row.id("id")?,
        event: RolloutEvent {
            id: row.text("event")?,
            kind: row.word("kind", Announcement::parse)?,
            body: row.text("body")?,
        },
        at: row.time("at")?,
        attempts: row.count("attempts")?,
        failures: row.count("failures")?,
        place: (row.number("version")?, row.number("place")?),
    })
}
