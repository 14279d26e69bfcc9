//! Deletes old deployments at an interval, and cuts records that a former version stored without a
//! bound. `store/retention.rs` decides which.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::store::{PrunedBatch, Store, StoreError};
use crate::support::clock::Clock;

/// The interval of the search for old deployments.
const INTERVAL: Duration = Duration::from_hours(1);
/// The number of deployments that one transaction deletes: a writer waits no longer than for that.
const BATCH: u32 = 100;
/// The number of large records that one transaction cuts.
const LARGE_BATCH: u32 = 5;
/// The number of deployments of which only a few short texts are read and written, at a time.
const NARROW_BATCH: u32 = 500;
/// The pause between two batches.
const PAUSE: Duration = Duration::from_millis(200);

/// The ages after which records are deleted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ages {
    /// The age of deployments; `None` if they are kept.
    pub(super) days: Option<u32>,
    /// The time for which sessions of browsers may be unused.
    pub(super) session_idle: SignedDuration,
}

/// Deletes sessions that are over and, if their age is set, deployments, until `stop`.
pub(super) async fn run_pruning(
    store: Store,
    clock: Clock,
    Ages { days, session_idle }: Ages,
    stop: CancellationToken,
) {
    loop {
        if let Err(error) = store.prune_sessions(clock.now(), session_idle).await {
            tracing::warn!(%error, "sessions that are over could not be deleted");
        }
        if let Err(error) = bound(&store).await {
            tracing::warn!(%error, "records of a former version could not be cut");
        }
        if let Some(days) = days {
            match prune(&store, clock.now(), days).await {
                Ok(0) => {}
                Ok(deleted) => tracing::info!(deleted, days, "old deployments deleted"),
                Err(error) => tracing::warn!(%error, "old deployments could not be deleted"),
            }
            if let Err(error) = prune_rollouts(&store, clock.now(), days).await {
                tracing::warn!(%error, "old rollouts could not be deleted");
            }
            if let Err(error) = prune_foreign(&store, clock.now(), days).await {
                tracing::warn!(%error, "old records of clusters could not be deleted");
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

/// Completes and cuts the records of a former version.
async fn bound(store: &Store) -> Result<(), StoreError> {
    let count = repeat(|| store.measure_lapses(NARROW_BATCH)).await?;
    if count > 0 {
        tracing::info!(deployments = count, "records of a former version measured");
    }
    let count = repeat(|| store.bound_violations(LARGE_BATCH)).await?;
    if count > 0 {
        tracing::info!(deployments = count, "records of a former version cut");
    }
    Ok(())
}

/// Does one batch after the other until one is empty; returns their sum.
async fn repeat<F>(batch: impl Fn() -> F) -> Result<u64, StoreError>
where
    F: Future<Output = Result<u64, StoreError>>,
{
    let mut sum = 0;
    loop {
        match batch().await? {
            0 => return Ok(sum),
            count => sum += count,
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Deletes all old rollouts, and the requests that started them.
async fn prune_rollouts(store: &Store, now: Timestamp, days: u32) -> Result<(), StoreError> {
    let Some(before) = end_of_age(now, days) else { return Ok(()) };
    repeat(|| store.prune_rollouts(before, BATCH)).await.map(drop)
}

/// Deletes all old records of other people's workloads in clusters.
async fn prune_foreign(store: &Store, now: Timestamp, days: u32) -> Result<(), StoreError> {
    let Some(before) = end_of_age(now, days) else { return Ok(()) };
    repeat(|| store.prune_foreign_progress(before, BATCH)).await.map(drop)
}

/// Returns the time before which everything is older than so many days.
fn end_of_age(now: Timestamp, days: u32) -> Option<Timestamp> {
    now.checked_sub(SignedDuration::from_hours(i64::from(days) * 24)).ok()
}

/// Deletes all old deployments; returns their number.
async fn prune(store: &Store, now: Timestamp, days: u32) -> Result<u64, StoreError> {
    let Some(before) = end_of_age(now, days) else { return Ok(0) };
    let (mut count, mut cursor) = (0, None);
    loop {
        let PrunedBatch { deleted, last } =
            store.prune_deployments(before, cursor.as_ref(), BATCH).await?;
        count += deleted;
        cursor = last;
        if cursor.is_none() {
            return Ok(count);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
