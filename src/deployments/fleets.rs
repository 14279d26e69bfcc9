//! Deployments to fleets: the plan, the write and the recovery over all clusters of one.
//!
//! Each cluster has a part of the deployment, with an id of its own that names the revision there. All parts are planned
//! before one is written, and written in one push: a cluster for which a rule refuses the release stops it for all.

use futures::{FutureExt as _, StreamExt as _, stream};
use jiff::Timestamp;

use crate::deployments::Deployments;
use crate::deployments::app_files::WamlText;
use crate::deployments::outcome::{
    DeployError, PlanError, PlannedDeployment, WritablePlan, WriteOutcome, describe_push,
};
use crate::deployments::stages::Stages;
use crate::git::layout;
use crate::git::writer::{DriftPolicy, ManifestRepository, PushOutcome};
use crate::manifests::files;
use crate::model::claim::Claims;
use crate::model::deployment::{Deployment, Pushed};
use crate::model::fleet::{FleetCluster, FleetPlace};
use crate::model::hand_edit::HandEdit;
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::revision::Digest;
use crate::model::violation::{Rejection, Violation};
use crate::store::{FleetPart, FleetPartPush};
use crate::support::lease::Lease;

/// The number of clusters that are planned at the same time.
const PLANS: usize = 4;

/// A push of an earlier attempt, with its parts.
pub(crate) struct EarlierFleetPush {
    pub(crate) pushed: Pushed,
    pub(crate) hand_edit: Option<HandEdit>,
    pub(crate) parts: Vec<FleetPart>,
    pub(crate) pushes: Vec<FleetPartPush>,
}

impl Deployments {
    /// Returns the clusters of a target: those of a fleet, or the target itself.
    pub(crate) fn clusters_of(&self, target: &TargetName) -> Vec<TargetName> {
        match self.fleets.clusters_of(target) {
            Some(clusters) => clusters.iter().cloned().collect(),
            None => vec![target.clone()],
        }
    }

    /// Returns the place of each cluster of a fleet, for its plan; one of a target that is no fleet.
    pub(super) fn fleet_places(&self, target: &TargetName) -> Vec<Option<FleetPlace>> {
        let Some(clusters) = self.fleets.clusters_of(target) else { return vec![None] };
        let targets = clusters.iter().filter_map(|cluster| self.clusters.find(cluster));
        let all: Vec<FleetCluster> = targets.map(|target| FleetCluster::of(&target)).collect();
        let place = |cluster: &TargetName| {
            Some(FleetPlace { cluster: cluster.clone(), clusters: all.clone() })
        };
        clusters.iter().map(place).collect()
    }

    /// Plans a deployment on each of its clusters, or returns every reason why not.
    pub(crate) async fn plan_attempt(
        &self,
        deployment: &Deployment,
        waml: WamlText,
        stages: &Stages,
    ) -> Result<PlannedDeployment, PlanError> {
        let target = &deployment.request.target;
        let source = self.manifests_of(target)?;
        let pending = source.repository.announce(&deployment.request.release);
        let is_fleet = self.fleets.is_fleet(target);
        let mut former = if is_fleet {
            self.store.fleet_parts(&deployment.id).await.map_err(DeployError::from)?
        } else {
            Vec::new()
        };
        let places = self.fleet_places(target).into_iter().map(|place| {
            let cluster = place.as_ref().map(|place| &place.cluster);
            let is_same = |part: &Deployment| Some(&part.request.target) == cluster;
            // An earlier attempt may have pushed under its ids: what comes late is found by them.
            let id = match former.iter().position(is_same) {
                Some(n) => former.swap_remove(n).id,
                None if place.is_some() => DeployId::of(self.clock.draw()),
                None => deployment.id.clone(),
            };
            (id, place)
        });
        let places: Vec<_> = places.collect();
        let count = places.len();
        let plan = |(id, place): (DeployId, Option<FleetPlace>)| {
            let waml = waml.clone();
            let planning = async move {
                let cluster = place.as_ref().map(|place| place.cluster.clone());
                let plan = self.plan_cluster(deployment, (id, place), waml, stages).await;
                (cluster, plan)
            };
            planning.boxed()
        };
        let plans: Vec<_> = places.into_iter().map(plan).collect();
        let results: Vec<(Option<TargetName>, Result<WritablePlan, PlanError>)> =
            stream::iter(plans).buffered(PLANS).collect().await;
        let (mut plans, mut rejections) = (Vec::new(), Vec::new());
        for (cluster, result) in results {
            match (result, cluster) {
                (Ok(plan), _) => plans.push(plan),
                (Err(error @ PlanError::Rejected { .. }), Some(cluster)) => {
                    rejections.push((cluster, error));
                }
                (Err(error), _) => return Err(error),
            }
        }
        match merge_rejections(rejections, count) {
            Some(error) => Err(error),
            None => Ok(PlannedDeployment { plans, is_fleet, pending }),
        }
    }

    /// Writes the plans to the manifest repository, unless the lease has ended. A deploy id that is
    /// there already is not pushed again. Reports manual edits that it found, whatever the result
    /// of the write.
    pub(crate) async fn write_plan(
        &self,
        deployment: &Deployment,
        PlannedDeployment { plans, is_fleet, pending }: PlannedDeployment,
        at: Timestamp,
        lease: &Lease,
    ) -> WriteOutcome {
        let repository = match self.manifests_of(&deployment.request.target) {
            Ok(manifests) => &manifests.repository,
            Err(problem) => return problem.into(),
        };
        let parts: Vec<WrittenPart> = plans.iter().map(WrittenPart::of).collect();
        let writes = plans.into_iter().map(|plan| *plan.write).collect();
        // A repeat changes nothing: the deploy id shows what was pushed.
        let result = repository.write_together(writes, at, lease, Some(pending)).await;
        if let Ok(pushes) = &result
            && pushes.iter().any(|push| matches!(push, PushOutcome::Pushed { .. }))
        {
            self.facts.note_push();
        }
        let edits: Vec<Option<HandEdit>> =
            parts.iter().map(|part| part.hand_edits.read_hand_edit()).collect();
        for (edit, part) in edits.iter().zip(&parts) {
            let Some(edit) = edit else { continue };
            let (id, replaced) = (&part.id, edit.replaced);
            tracing::warn!(
                deployment = %id, cluster = %part.cluster, replaced, push_failed = edit.push_failed, %edit,
                "manual edit found"
            );
        }
        let hand_edit = edits.iter().flatten().next().cloned();
        match result {
            Ok(pushes) => {
                let pushes = parts.into_iter().zip(pushes).zip(edits);
                let pushes: Vec<FleetPartPush> = pushes
                    .map(|((part, push), hand_edit)| FleetPartPush {
                        is_watched: self.watches.contains_key(&part.cluster),
                        pushed: describe_push(push, part.digest, part.files),
                        id: part.id,
                        cluster: part.cluster,
                        hand_edit,
                    })
                    .collect();
                WriteOutcome::of_parts(pushes, is_fleet, hand_edit)
            }
            Err(error) => WriteOutcome { hand_edit, ..DeployError::from(error).into() },
        }
    }

    /// Returns the push of an earlier attempt at a deployment to a fleet, if there is one. All parts got through with
    /// one of them.
    pub(crate) async fn find_earlier_fleet_push(
        &self,
        deployment: &Deployment,
    ) -> Result<Option<EarlierFleetPush>, DeployError> {
        let records = self.store.fleet_parts(&deployment.id).await?;
        let Some(app) = deployment.app.as_ref().filter(|_| !records.is_empty()) else {
            return Ok(None);
        };
        let repository = &self.manifests_of(&deployment.request.target)?.repository;
        let mut pushes = Vec::with_capacity(records.len());
        for part in &records {
            pushes.push(self.find_part_push(repository, part, app).await?);
        }
        if !pushes.iter().any(|push| push.pushed.changed) {
            return Ok(None);
        }
        let parts = records.into_iter().map(part_of_record).collect();
        let hand_edit = pushes.iter().find_map(|push| push.hand_edit.clone());
        Ok(pushed_fleet(&pushes).map(|pushed| EarlierFleetPush {
            pushed,
            hand_edit,
            parts,
            pushes,
        }))
    }

    /// Finds what became of a part: its revision, or what was there already.
    async fn find_part_push(
        &self,
        repository: &ManifestRepository,
        part: &Deployment,
        app: &AppKey,
    ) -> Result<FleetPartPush, DeployError> {
        let (id, cluster) = (&part.id, &part.request.target);
        let commit = if part.rollback.is_some() {
            repository.commit_of(id).await?
        } else {
            let folder = layout::revision_folder(cluster, app, id).to_string();
            if repository.files(&folder).await?.is_empty() {
                None
            } else {
                repository.commit_of(id).await?.or(repository.tip().await?)
            }
        };
        let latest = repository.files(&layout::latest_folder(cluster, app).to_string()).await?;
        let digest = files::digest_of(&latest).unwrap_or_else(|| Digest("unknown".to_owned()));
        let changed = commit.is_some();
        let commit = match commit {
            Some(commit) => commit,
            None => repository.tip().await?.ok_or_else(|| {
                DeployError::retry("the manifest repository has no commit, and had one before")
            })?,
        };
        let hand_edit =
            if changed { repository.replaced_edit(cluster, app, id).await? } else { None };
        let files = latest.into_iter().map(|file| file.name).collect();
        Ok(FleetPartPush {
            id: id.clone(),
            cluster: cluster.clone(),
            pushed: Pushed { commit, changed, digest, files },
            is_watched: self.watches.contains_key(cluster),
            hand_edit,
        })
    }
}

/// What the record of a write needs of its plan.
struct WrittenPart {
    id: DeployId,
    cluster: TargetName,
    digest: Digest,
    files: Vec<String>,
    hand_edits: DriftPolicy,
}

impl WrittenPart {
    fn of(plan: &WritablePlan) -> Self {
        let (revision, hand_edits) = (&plan.write.revision, plan.write.hand_edits.clone());
        Self {
            id: revision.id.clone(),
            cluster: revision.target.clone(),
            digest: revision.digest.clone(),
            files: revision.files.iter().map(|file| file.name.clone()).collect(),
            hand_edits,
        }
    }
}

impl PlannedDeployment {
    /// Returns the parts that a deployment to a fleet has; none of any other.
    pub(crate) fn parts(&self) -> Vec<FleetPart> {
        let part = |plan: &WritablePlan| FleetPart {
            id: plan.write.revision.id.clone(),
            cluster: plan.write.revision.target.clone(),
            address: plan.address.clone(),
            claims: plan.claims.clone(),
            rollback: None,
        };
        self.plans.iter().filter(|_| self.is_fleet).map(part).collect()
    }
}

impl WriteOutcome {
    /// Returns the outcome of pushes that were made together.
    pub(crate) fn of_parts(
        pushes: Vec<FleetPartPush>,
        is_fleet: bool,
        hand_edit: Option<HandEdit>,
    ) -> Self {
        let fault =
            || DeployError::give_up("nothing was to be written: a fault in the-deployer itself");
        if is_fleet {
            let result = pushed_fleet(&pushes).ok_or_else(fault);
            return Self { result, hand_edit, parts: pushes };
        }
        let only = pushes.into_iter().next().map(|push| push.pushed);
        Self { result: only.ok_or_else(fault), hand_edit, parts: Vec::new() }
    }
}

/// Returns the push of a fleet: the last commit of its parts, and all their files.
fn pushed_fleet(pushes: &[FleetPartPush]) -> Option<Pushed> {
    let changed = pushes.iter().rev().find(|push| push.pushed.changed);
    let last = changed.or(pushes.last())?;
    let digests = pushes.iter().map(|push| (push.cluster.as_str(), &push.pushed.digest));
    let mut names: Vec<String> =
        pushes.iter().flat_map(|push| push.pushed.files.iter().cloned()).collect();
    names.sort();
    names.dedup();
    Some(Pushed {
        commit: last.pushed.commit.clone(),
        changed: changed.is_some(),
        digest: files::digest_of_fleet(digests),
        files: names,
    })
}

/// Returns the part that a record is of, to end it; what it claimed is claimed.
fn part_of_record(part: Deployment) -> FleetPart {
    FleetPart {
        id: part.id,
        cluster: part.request.target,
        address: part.address,
        claims: Claims::default(),
        rollback: part.rollback,
    }
}

/// Returns one rejection for those of several clusters; violations that not all of them have name theirs.
fn merge_rejections(rejections: Vec<(TargetName, PlanError)>, count: usize) -> Option<PlanError> {
    let (mut of_clusters, mut first) = (Vec::new(), None);
    for (cluster, error) in rejections {
        let PlanError::Rejected { rejection, .. } = &error else { continue };
        of_clusters.push((cluster, rejection.violations.clone()));
        first.get_or_insert(error);
    }
    let PlanError::Rejected { app, template, templates_commit, contact, .. } = first? else {
        return None;
    };
    let rejection = Rejection { violations: name_clusters(of_clusters, count) };
    Some(PlanError::Rejected { rejection, app, template, templates_commit, contact })
}

/// Returns the violations of several clusters of so many, each once; those that not all of them have name theirs.
pub(super) fn name_clusters(
    of_clusters: Vec<(TargetName, Vec<Violation>)>,
    count: usize,
) -> Vec<Violation> {
    let mut merged: Vec<(Violation, Vec<TargetName>)> = Vec::new();
    for (cluster, violations) in of_clusters {
        for violation in violations {
            match merged.iter_mut().find(|(other, _)| *other == violation) {
                Some((_, clusters)) if clusters.contains(&cluster) => {}
                Some((_, clusters)) => clusters.push(cluster.clone()),
                None => merged.push((violation, vec![cluster.clone()])),
            }
        }
    }
    let named = merged.into_iter().map(|(violation, clusters)| {
        if clusters.len() == count {
            return violation;
        }
        let names: Vec<&str> = clusters.iter().map(TargetName::as_str).collect();
        let message = format!("on {}: {}", names.join(", "), violation.message);
        Violation { message, ..violation }
    });
    named.collect()
}
