//! The message about a canary that goes on: what the channel has of it, and its new text.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::model::canary::{CanarySample, CanaryStatus};
use crate::model::deployment::{Deployment, ForgeState};
use crate::notify::message::{self, MessageAudience, News, NewsKind};
use crate::notify::threading::{MessageRef, ToldCanary};
use crate::outbox::sinks::slack::{SlackOutcome, error_outcome, update};
use crate::outbox::sinks::{Sinks, SlackSink};
use crate::store::{OutboxMessage, StoreError};

impl Sinks {
    /// Changes the message about a canary to what is so now.
    pub(super) async fn update_canary(
        &self,
        sink: &SlackSink,
        message: &OutboxMessage,
        (deployment, canaries): (&Deployment, Vec<CanaryStatus>),
        posted: &MessageRef,
        now: Timestamp,
    ) -> SlackOutcome {
        let person = match self.find_person(sink, deployment, now).await {
            Ok(person) => person,
            Err(error) => return error_outcome(&error, now),
        };
        let news = (NewsKind::Canary, MessageAudience::Team(None), person);
        let undeliverable = posted.undeliverable.clone();
        let waml = self.deployments.waml_path(deployment.request.release.app.as_ref());
        let news =
            News { canaries, undeliverable, ..self.news(message, deployment, news, &waml).await? };
        update(sink, posted, &message::compose_message(&news), now).await
    }

    /// Returns what the channel has of the deployment's canary. An incoming webhook changes no message, also none that a
    /// bot has posted before.
    pub(super) async fn told_canary(
        &self,
        sink: &SlackSink,
        message: &OutboxMessage,
    ) -> Result<ToldCanary, StoreError> {
        if message.seq <= 1 {
            return Ok(ToldCanary::default());
        }
        let mut sent = self.deployments.store.messages(&message.deployment).await?;
        sent.retain(|one| {
            one.sink == message.sink
                && one.seq < message.seq
                && one.status.state == ForgeState::InProgress
                && one.sent_at.is_some()
        });
        let mut references = sent.iter().filter_map(|one| one.reference.as_deref());
        if !sink.slack.is_bot() {
            return Ok(ToldCanary { count: sent.len(), message: None });
        }
        Ok(ToldCanary { count: sent.len(), message: references.find_map(MessageRef::parse) })
    }

    /// Returns how far the canaries of a deployment are now, by their workloads; of a fleet, those of each cluster where it
    /// goes on.
    pub(super) async fn canaries(
        &self,
        deployment: &Deployment,
    ) -> Result<Vec<CanaryStatus>, StoreError> {
        let store = &self.deployments.store;
        if !self.deployments.fleets.is_fleet(&deployment.request.target) {
            return Ok(newest_canaries(store.canary_samples(&deployment.id).await?));
        }
        let mut canaries = Vec::new();
        for part in store.fleet_parts(&deployment.id).await? {
            if part.state.is_final() {
                continue;
            }
            let cluster = &part.request.target;
            let statuses = newest_canaries(store.canary_samples(&part.id).await?);
            canaries.extend(statuses.into_iter().map(|status| CanaryStatus {
                workload: format!("{cluster}: {}", status.workload),
                ..status
            }));
        }
        Ok(canaries)
    }
}

/// Returns the newest status of each workload.
fn newest_canaries(samples: Vec<CanarySample>) -> Vec<CanaryStatus> {
    let newest: BTreeMap<_, _> =
        samples.into_iter().map(|sample| (sample.status.workload.clone(), sample.status)).collect();
    newest.into_values().collect()
}
