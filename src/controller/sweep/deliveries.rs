//! Replays the deliveries that failed by the code host's own account.

use std::collections::BTreeSet;

use tokio_util::sync::CancellationToken;

use crate::controller::sweep::decide;
use crate::controller::sweep::{
    IngestResult, LONGEST_RUN_MICROS, MAX_REFUSED, Progress, SweepKind, Sweeps,
};
use crate::deployments::outcome::DeployError;
use crate::forge::delivery::HookDelivery;
use crate::forge::github::webhook::{self, ContentType, naming};
use crate::model::id::DeliveryId;
use crate::store::{StoreError, Sweeping};

/// The most failed deliveries that are listed; ten of GitHub's pages.
const LIST_LIMIT: u32 = 1000;
/// The most deliveries that one run replays; two requests each.
const REPLAY_LIMIT: usize = 100;

const NAME: &str = SweepKind::Deliveries.as_str();

impl Sweeps {
    pub(super) async fn deliveries(
        &self,
        run: &Sweeping,
        stop: &CancellationToken,
    ) -> Result<Progress, StoreError> {
        let (now, stopwatch) = (self.clock.now(), self.clock.stopwatch());
        let mut progress = Progress::new(run);
        let since = decide::deliveries_since(run.position.as_deref(), run.since, now);
        let failed = match self.deployments.forge.failed_deliveries(since, LIST_LIMIT).await {
            Ok(failed) => failed,
            Err(error) => return Ok(progress.stopped(error.into())),
        };
        if failed.len() >= LIST_LIMIT as usize {
            tracing::warn!(
                most = LIST_LIMIT,
                "too many failed deliveries to list, the sweep of repositories finds the older deployments"
            );
        }
        let guids = self.find_known_guids(&failed).await?;
        let replays = decide::plan_replays(failed, &guids, REPLAY_LIMIT, now);
        progress.waiting = replays.now.len() + replays.remaining;
        for delivery in &replays.now {
            let is_late = stopwatch.micros() > LONGEST_RUN_MICROS;
            if stop.is_cancelled() || is_late || progress.refused >= MAX_REFUSED {
                return Ok(progress);
            }
            if let Some(problem) = self.replay(delivery, &mut progress).await? {
                return Ok(progress.stopped(problem));
            }
            progress.waiting -= 1;
        }
        progress.position = Some(replays.next_since.as_millisecond().to_string());
        self.store.forget_swept(decide::forget_before(now)).await?;
        Ok(progress)
    }

    async fn find_known_guids(
        &self,
        failed: &[HookDelivery],
    ) -> Result<BTreeSet<String>, StoreError> {
        let guids: Vec<_> = failed.iter().map(|delivery| delivery.guid.clone()).collect();
        let mut stored_guids = self.store.find_stored_deliveries(&guids).await?;
        stored_guids.extend(self.store.settled_items(NAME, &guids).await?);
        Ok(stored_guids)
    }

    /// Replays one delivery; returns the problem that ends the run, if there is one.
    async fn replay(
        &self,
        delivery: &HookDelivery,
        progress: &mut Progress,
    ) -> Result<Option<DeployError>, StoreError> {
        let content = self.deployments.forge.delivery(delivery.id).await;
        let outcome = match content.map_err(DeployError::from) {
            Ok(content) => {
                let (event, payload) = (&content.event, &content.payload);
                let rules = &self.settings.rules;
                if let Some(repository) = naming::read(event, ContentType::Json, payload, rules) {
                    let (identity, now) = (repository.identity, self.clock.now());
                    self.store.recognize_repository(identity, &repository.name, now).await?;
                }
                let event = webhook::parse(event, ContentType::Json, payload, rules);
                match (DeliveryId::parse(delivery.guid.as_str()), event) {
                    (Ok(guid), Ok(event)) => match self.ingest(&guid, &event, progress).await? {
                        IngestResult::Settled(outcome) => outcome,
                        IngestResult::Deferred(problem) => return Ok(Some(problem)),
                    },
                    (Err(_), _) | (_, Err(_)) => "malformed",
                }
            }
            Err(problem) if problem.remedy.may_pass() => return Ok(Some(problem)),
            Err(_) => "gone",
        };
        let HookDelivery { guid, event, status_code, .. } = delivery;
        tracing::info!(delivery = ?guid, ?event, answered = status_code, outcome, "failed delivery processed");
        self.store.settle_swept(NAME, guid, outcome, self.clock.now()).await?;
        Ok(None)
    }
}
