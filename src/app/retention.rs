//! Old deployments are deleted from time to time, and what a former version stored without a bound is cut;
//! which, the store decides (`store/retention.rs`).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::store::{PrunedBatch, Store, StoreError};
use crate::support::clock::Clock;

/// How often old deployments are looked for.
const LOOK: Duration = Duration::from_hours(1);
/// So many are deleted at once: whoever writes meanwhile waits no longer than for that.
const BATCH: u32 = 100;
/// So many large records are read and written at once.
const LARGE_BATCH: u32 = 5;
/// Between two batches.
const PAUSE: Duration = Duration::from_millis(200);

/// Deletes what is older than so many days, if there is a number, until the stop.
pub(super) async fn keep(store: Store, clock: Clock, days: Option<u32>, stop: CancellationToken) {
    loop {
        if let Err(error) = bound(&store).await {
            tracing::warn!(%error, "records of a former version cannot be cut now");
        }
        if let Some(days) = days {
            match prune(&store, clock.now(), days).await {
                Ok(0) => {}
                Ok(deleted) => tracing::info!(deleted, days, "old deployments are deleted"),
                Err(error) => tracing::warn!(%error, "old deployments cannot be deleted now"),
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Cuts what a former version stored.
async fn bound(store: &Store) -> Result<(), StoreError> {
    let mut all = 0;
    loop {
        let bounded = store.bound_violations(LARGE_BATCH).await?;
        all += bounded;
        if bounded == 0 {
            if all > 0 {
                tracing::info!(deployments = all, "records of a former version are bounded now");
            }
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Looks once through all that is old; how many were deleted.
async fn prune(store: &Store, now: Timestamp, days: u32) -> Result<u64, StoreError> {
    let age = SignedDuration::from_hours(i64::from(days) * 24);
    let Ok(before) = now.checked_sub(age) else { return Ok(0) };
    let (mut all, mut behind) = (0, None);
    loop {
        let PrunedBatch { deleted, last } =
            store.prune_deployments(before, behind.as_ref(), BATCH).await?;
        all += deleted;
        behind = last;
        if behind.is_none() {
            return Ok(all);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
