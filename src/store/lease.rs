//! The claim of a worker on a deployment, its lease, and the findings of an attempt.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::model::claim::{Claims, ObjectClaim};
use crate::model::deployment::{Contact, Deployment, Pushed, StageTime};
use crate::model::hand_edit::HandEdit;
use crate::model::id::{AppKey, CommitSha, DeployId, TargetName};
use crate::model::rollback::Rollback;
use crate::model::route::RouteClaim;
use crate::store::query::{Bind, BoundValue};
use crate::support::time::saturating_add;

/// A worker's claim on one deployment. Only its holder can move the deployment on, and only until
/// another worker has taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a claim that is dropped blocks its lane until the lease ends"]
pub struct Claim {
    /// The deployment at the time of the claim: `Running`, or `Pushing` where an earlier worker, or
    /// an earlier attempt, may have pushed already.
    pub deployment: Deployment,
    /// The number of attempts that failed or died before this one.
    pub failures: u32,
    /// The time since which the attempts before this one were refused, if they were.
    pub refused_since: Option<Timestamp>,
    /// The number of those that died one after the other, just before this one: the first at any
    /// work, the others when the deployment was planned alone.
    pub deaths: u32,
    /// The time of the claim: facts of this attempt are not older.
    pub at: Timestamp,
}

/// Binds the id and the number of the attempt: `$1` and `$2` of a fenced statement.
impl Bind for &Claim {
    fn bind(self, values: &mut Vec<BoundValue>) {
        (&self.deployment.id, self.deployment.attempts).bind(values);
    }
}

/// The part of a deployment to a fleet on one of its clusters, as it is about to be pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetPart {
    /// Its own id, which names the revision on the cluster.
    pub id: DeployId,
    /// The cluster.
    pub cluster: TargetName,
    /// The address of the app there.
    pub address: Option<String>,
    /// The routes and objects that it makes live there.
    pub claims: Claims,
    /// The revision that becomes live again there, if the deployment is a rollback.
    pub rollback: Option<Rollback>,
}

impl FleetPart {
    /// Returns the record of the fleet's deployment as that of this part.
    pub fn record_of(&self, fleet: &Deployment) -> Deployment {
        let mut record = fleet.clone();
        record.fleet = Some(std::mem::replace(&mut record.id, self.id.clone()));
        record.request.target = self.cluster.clone();
        record.rollback.clone_from(&self.rollback);
        record
    }
}

/// The push of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetPartPush {
    /// The part.
    pub id: DeployId,
    /// Its cluster.
    pub cluster: TargetName,
    /// The push.
    pub pushed: Pushed,
    /// True if it ends when its cluster runs it.
    pub is_watched: bool,
    /// The manual edit that it found.
    pub hand_edit: Option<HandEdit>,
}

/// The findings of a worker so far. A field that is `None` or empty leaves the stored value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    /// The app that the WAML describes.
    pub app: Option<AppKey>,
    /// The template and its version.
    pub template: Option<String>,
    /// The commit of the templates.
    pub templates_commit: Option<CommitSha>,
    /// The contact of the app's team.
    pub contact: Option<Contact>,
    /// The address of the app.
    pub address: Option<String>,
    /// The manual edit in the manifest repository.
    pub hand_edit: Option<HandEdit>,
    /// The routes that it makes live.
    pub routes: Vec<RouteClaim>,
    /// The objects that it makes live.
    pub objects: Vec<ObjectClaim>,
    /// The stages of this attempt.
    pub stages: Vec<StageTime>,
    /// The time at which the manifests were there, if they are.
    pub planned_at: Option<Timestamp>,
    /// The parts of a deployment to a fleet, one for each cluster.
    pub parts: Vec<FleetPart>,
    /// Their pushes.
    pub part_pushes: Vec<FleetPartPush>,
}

impl Findings {
    /// Returns findings that are claims alone.
    pub(super) fn of_claims(Claims { routes, objects }: &Claims) -> Self {
        Self { routes: routes.clone(), objects: objects.clone(), ..Self::default() }
    }

    /// Replaces the claims by those of the deployment's plan.
    pub fn take_claims(&mut self, claims: Claims) {
        let Claims { routes, objects } = claims;
        (self.routes, self.objects) = (routes, objects);
    }
}

/// The result of a fenced statement: the state of the lease that it needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a worker that lost its claim must stop"]
pub enum LeaseState {
    /// The claim holds, and the statement was carried out.
    Held,
    /// Another worker took over, or the deployment has ended. Nothing was changed.
    Lost,
}

impl LeaseState {
    /// Returns the result by the changed rows: fenced statements change one row, or none after the
    /// claim was lost.
    pub(super) fn by_rows(rows: u64) -> Self {
        if rows == 0 { Self::Lost } else { Self::Held }
    }
}

/// Returns the end of a lease that begins now, in milliseconds.
pub(super) fn end_of(now: Timestamp, lease: Duration) -> i64 {
    let lease = SignedDuration::try_from(lease).unwrap_or(SignedDuration::MAX);
    saturating_add(now, lease).as_millisecond()
}
