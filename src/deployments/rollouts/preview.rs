//! Shows what a rollout would do: its sequence, what is live on each target, what is in its way, and how long it takes.

use futures::StreamExt as _;
use futures::stream;

use crate::deployments::rollouts::live::InstanceRecords;
use crate::deployments::rollouts::stops::RolloutStops;
use crate::deployments::rollouts::{PreparedRollout, PreviewTarget, RolloutError, RolloutPreview};
use crate::deployments::{BackendError, Deployments};
use crate::model::app_instance::AppInstance;
use crate::model::id::{ImageTag, TargetName};
use crate::rollout::facts::LiveFact;

/// The number of looks at manifest repositories at the same time.
const AT_ONCE: usize = 8;

impl Deployments {
    /// Computes what a rollout would do. Changes nothing.
    pub async fn preview_rollout(
        &self,
        prepared: &PreparedRollout,
    ) -> Result<RolloutPreview, RolloutError> {
        let PreparedRollout { release, app, plan, .. } = prepared;
        let sequence: Vec<(usize, TargetName)> =
            plan.sequence().map(|(step, target)| (step, target.clone())).collect();
        let names: Vec<&TargetName> = sequence.iter().map(|(_, target)| target).collect();
        let newest = self.store.newest_pushed(app, &names).await.map_err(BackendError::new)?;
        let removed = self.store.last_removals(app, &names, self.clock.now()).await;
        let removed = removed.map_err(BackendError::new)?;
        let stops = self.rollout_stops(app, &prepared.owner).await?;
        let looks = sequence.iter().map(|(step, target)| {
            let records = InstanceRecords {
                newest: newest.iter().find(|one| one.request.target == *target),
                removed_at: removed.get(target).copied(),
            };
            self.preview_rollout_target(prepared, (*step, target), records, &stops)
        });
        let looks: Vec<_> = looks.collect();
        let targets = stream::iter(looks).buffered(AT_ONCE).collect::<Vec<_>>().await;
        let targets = targets.into_iter().collect::<Result<Vec<_>, _>>()?;
        let overlap = self.store.rollout_overlap(&release.repository, app, &names).await;
        let overlap = overlap.map_err(BackendError::new)?;
        Ok(RolloutPreview { targets, duration: plan.duration(), overlap })
    }

    async fn preview_rollout_target(
        &self,
        prepared: &PreparedRollout,
        (step, target): (usize, &TargetName),
        records: InstanceRecords<'_>,
        stops: &RolloutStops,
    ) -> Result<PreviewTarget, RolloutError> {
        let instance = AppInstance { target: target.clone(), app: prepared.app.clone() };
        let live = self.read_live(&instance, records, &|_| false).await.live;
        let tag = self.tag_of(&live).await?;
        let blocked = self.stop_on(stops, target, (&prepared.release, false)).await?;
        let blocked = blocked.or_else(|| self.first_on_fleet(target, &live));
        Ok(PreviewTarget { target: target.clone(), step, live, tag, blocked })
    }

    /// Returns the tag of the live revision, by its record.
    async fn tag_of(&self, live: &LiveFact) -> Result<Option<ImageTag>, BackendError> {
        let LiveFact::Revision { revision, .. } = live else { return Ok(None) };
        let record = self.store.deployment_picture(revision).await.map_err(BackendError::new)?;
        Ok(record.map(|record| record.request.release.tag))
    }
}
