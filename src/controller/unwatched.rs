//! Ends deployments that wait for a cluster which nothing watches any more, because the configuration has changed.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use tokio_util::sync::CancellationToken;

use crate::controller::clusters::LEASE;
use crate::deployments::Deployments;
use crate::model::deployment::{ForgeState, State};
use crate::model::id::TargetName;
use crate::model::status::ForgeStatus;
use crate::store::{ClusterChange, LeaseState, StoreError};

/// The interval at which deployments of clusters that are no longer watched are looked for.
const UNWATCHED_INTERVAL: Duration = Duration::from_mins(1);
/// The time without a watch after which they end. A replica with the new configuration has taken the lease by then.
const UNWATCHED_PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// Ends deployments of clusters that are no longer watched, now and again until `stop`.
pub async fn keep_unwatched_ended(deployments: Deployments, stop: CancellationToken) {
    loop {
        if let Err(error) = end_unwatched(&deployments).await {
            tracing::warn!(%error, "deployments of clusters that are no longer watched not ended");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(UNWATCHED_INTERVAL) => {}
        }
    }
}

/// Ends deployments of clusters that no process has watched for ten minutes, and that this one does not watch: the
/// configuration has changed, and their push was their end. Returns their number.
pub async fn end_unwatched(deployments: &Deployments) -> Result<usize, StoreError> {
    let (store, now) = (&deployments.store, deployments.clock.now());
    let before = now.saturating_sub(UNWATCHED_PATIENCE).unwrap_or(now);
    let watched: Vec<&TargetName> = deployments.watches.keys().collect();
    let mut count = 0;
    for (cluster, deployment) in store.waiting_unwatched(&watched, before).await? {
        // Whoever begins to watch the cluster now is first.
        let Some(lease) = store.lease_cluster(&cluster, "unwatched", now, LEASE).await? else {
            continue;
        };
        tracing::warn!(%cluster, %deployment, "deployment ended at its push, its cluster is not watched");
        let sentence = "it is pushed; its cluster is no longer watched";
        let status = ForgeStatus::new(ForgeState::Success, sentence);
        let change = ClusterChange::end(deployment, State::Succeeded, status);
        if store.record_cluster_progress(&lease, &[], &[change], &BTreeMap::new(), now).await?
            == LeaseState::Held
        {
            count += 1;
        }
        // As if nobody had watched it since: the others are due, too.
        let _state = store.end_cluster_lease(&lease, before).await?;
    }
    if count > 0 {
        deployments.wake.outbox();
    }
    Ok(count)
}
