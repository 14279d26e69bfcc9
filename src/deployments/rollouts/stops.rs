//! What stops a deployment to a target now: a lock, a closed window, a hold. The rules of a deployment check the same; a
//! rollout asks before it begins a target, and waits instead of failing.

use jiff::Timestamp;

use crate::deployments::{BackendError, Deployments};
use crate::model::id::{AppKey, LockId, TargetName};
use crate::model::lock::{Lock, LockFilter};
use crate::model::release::Release;
use crate::model::rollback::{Hold, Holds};
use crate::model::target::Target;
use crate::model::window::{self, Opening};

/// The stops of one app, by what was read at one time.
pub(super) struct RolloutStops {
    locks: Vec<(LockId, Lock)>,
    app: AppKey,
    owner: String,
    now: Timestamp,
}

impl Deployments {
    /// Reads the locks that can stop an app of that owner.
    pub(super) async fn rollout_stops(
        &self,
        app: &AppKey,
        owner: &str,
    ) -> Result<RolloutStops, BackendError> {
        let now = self.clock.now();
        let locks = self.store.locks(now).await.map_err(BackendError::new)?;
        Ok(RolloutStops { locks, app: app.clone(), owner: owner.to_owned(), now })
    }

    /// Returns what stops the deployment of a release to a target now: on a fleet, what stops it on one of its clusters.
    pub(super) async fn stop_on(
        &self,
        stops: &RolloutStops,
        target: &TargetName,
        (release, automatic): (&Release, bool),
    ) -> Result<Option<String>, BackendError> {
        if let Some(lock) = self.lock_on(stops, target) {
            return Ok(Some(lock));
        }
        // A cluster's own hold is read with what else stops it.
        let of_fleet = if self.fleets.is_fleet(target) {
            self.store.hold(target, &stops.app).await.map_err(BackendError::new)?
        } else {
            None
        };
        for cluster in self.clusters_of(target) {
            let Some(cluster) = self.clusters.find(&cluster) else { continue };
            let holds = cluster.policies.holds;
            let stop = of_fleet.as_ref().and_then(|hold| held(hold, holds, release, automatic));
            if stop.is_some() {
                return Ok(stop);
            }
            if let Some(stop) = self.stop_of(stops, &cluster, (release, automatic)).await? {
                let is_part = cluster.name != *target;
                return Ok(Some(if is_part { format!("{}: {stop}", cluster.name) } else { stop }));
            }
        }
        Ok(None)
    }

    /// Returns the lock that stops every deployment to a target: its own, or that of a cluster or a fleet that shares one
    /// with it.
    pub(super) fn lock_on(&self, stops: &RolloutStops, target: &TargetName) -> Option<String> {
        self.fleets.overlapping(target).iter().find_map(|target| stops.lock_on(target))
    }

    async fn stop_of(
        &self,
        stops: &RolloutStops,
        target: &Target,
        (release, automatic): (&Release, bool),
    ) -> Result<Option<String>, BackendError> {
        if let Some(stop) = stops.closed(target) {
            return Ok(Some(stop));
        }
        let hold = self.store.hold(&target.name, &stops.app).await.map_err(BackendError::new)?;
        Ok(hold.and_then(|hold| held(&hold, target.policies.holds, release, automatic)))
    }
}

impl RolloutStops {
    /// Returns the lock that stops every deployment to a target, rollbacks as well.
    fn lock_on(&self, target: &TargetName) -> Option<String> {
        let filter = LockFilter {
            target: Some(target.clone()),
            owner: Some(self.owner.clone()),
            app: Some(self.app.clone()),
        };
        let lock =
            self.locks.iter().map(|(_, lock)| lock).find(|lock| filter.takes(&lock.scope))?;
        let Lock { scope, reason, by, until, since: _ } = lock;
        let until = until.map(|until| format!(" until {}", until.strftime("%F %H:%M UTC")));
        let until = until.unwrap_or_default();
        Some(format!("{scope} is locked by {by}{until}: {reason}"))
    }

    /// Returns the window that is closed now.
    fn closed(&self, target: &Target) -> Option<String> {
        // The rule of a deployment refuses a window that cannot be read.
        let opening = window::at_written(&target.policies.windows, self.now).ok()?;
        let Opening::Closed { reason, next } = opening else { return None };
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        let next = next.map(|next| format!(" until {}", next.strftime("%A, %F %H:%M %Z")));
        Some(format!(
            "it takes no deployments{}{reason}",
            next.unwrap_or_else(|| " now".to_owned())
        ))
    }
}

/// Returns the sentence about a hold that stops the release.
fn held(hold: &Hold, holds: Holds, release: &Release, automatic: bool) -> Option<String> {
    let is_bad = hold.away.as_ref() == Some(release);
    let Hold { by, reason, .. } = hold;
    let what = if is_bad { "rolled this release back" } else { "holds it" };
    hold.stops(holds, release, automatic)
        .then(|| format!("{by} {what}: {reason}; `bart unhold` ends the hold"))
}
