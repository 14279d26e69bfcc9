//! The rollback of a fleet: the revision that a former deployment of the fleet made live becomes live again on every
//! cluster, each tree exactly, in one push.
//!
//! The former deployment has a part on each cluster of its time. A cluster that has joined since has none, and stays as it
//! is; one that has left is no longer the fleet's. Both are told before the rollback is done.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::deployments::outcome::{DeployError, WriteOutcome};
use crate::deployments::rollback::ask::{
    PreparedRollback, against, candidate, changes, check_live, no_record_error, read_files,
};
use crate::deployments::rollback::claims::{check_reserved_names, revision_claims};
use crate::deployments::rollback::data::{AcceptedLoss, Judgement, refusal_error};
use crate::deployments::rollback::restore::{LOOKS, build_note, read_pushed};
use crate::deployments::rollback::{RollbackError, RollbackResult, data};
use crate::deployments::{BackendError, Deployments};
use crate::git::layout;
use crate::git::writer::{DriftPolicy, ManifestRepository, Restore, WriteError};
use crate::manifests::files;
use crate::model::audit::Principal;
use crate::model::deployment::{Deployment, State};
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::live_history::{DefaultRevision, RevisionChoice};
use crate::model::rollback::{Rollback, RollbackOrder, TreeId};
use crate::store::{Filter, FleetPart, FleetPartPush};
use crate::support::lease::Lease;

/// The number of deployments of a fleet among which a rollback without a revision chooses.
const SEARCHED: u32 = 50;

/// The revision of one cluster that becomes live again.
struct ClusterRevision {
    cluster: TargetName,
    to: DeployId,
    tree: TreeId,
}

impl Deployments {
    /// Chooses the deployment of a fleet to go back to, and judges the revision of each cluster.
    pub(super) async fn prepare_fleet_rollback(
        &self,
        request: &RollbackOrder,
        default: DefaultRevision,
        by: &Principal,
    ) -> Result<PreparedRollback, RollbackError> {
        let RollbackOrder { target, app, .. } = request;
        let repository = &self.manifests(target)?.repository;
        let (from, to) = self.choose_fleet_deployment(request, default).await?;
        check_live(request, Some(&from))?;
        let revision = self.find_deployment(&to).await?.ok_or_else(|| no_record_error(&to))?;
        let live_record = self.find_deployment(&from).await?;
        self.check_locks(target, app, &revision).await?;
        let lane = self.lane(target, app).await?;
        let lane = lane.unwrap_or_else(|| revision.request.release.repository.clone());
        let parts = self.store.fleet_parts(&to).await.map_err(BackendError::new)?;
        let revisions = self.cluster_revisions(repository, (target, app), &parts).await;
        let revisions = revisions.map_err(|problem| RollbackError::Against(problem.message))?;
        let mut notes = membership_notes(target, &self.clusters_of(target), &parts);
        let (mut all_changes, mut first_live) = (Some(Vec::new()), None);
        for ClusterRevision { cluster, to, .. } in &revisions {
            let place = (cluster, app);
            let error = |error: WriteError| RollbackError::Repository(error.to_string());
            let folders = repository.read_history_beside(cluster, app).await.map_err(error)?;
            let files = read_files(repository, place, to, &folders).await.map_err(error)?;
            let (live_files, revision_files, former_files) = files;
            check_reserved_names(self, cluster, app, &revision_files)
                .map_err(|problem| RollbackError::Against(problem.message))?;
            let loss = AcceptedLoss::by(request);
            let remarks = data::judge(&live_files, &revision_files, &former_files, loss)?;
            notes.extend(remarks.into_iter().map(|remark| format!("{cluster}: {remark}")));
            all_changes = all_changes.zip(changes(&live_files, &revision_files)).map(
                |(mut all_changes, cluster_changes)| {
                    all_changes.extend(cluster_changes);
                    all_changes
                },
            );
            first_live.get_or_insert(live_files);
        }
        let hold = self.holds_on(target);
        let answer = RollbackResult {
            deployment: None,
            from: Some(candidate(from.clone(), live_record.as_ref())),
            to: candidate(to.clone(), Some(&revision)),
            warning: None,
            notes,
            hold,
            changes: all_changes,
        };
        let choice = RevisionChoice {
            to,
            tree: TreeId(String::new()),
            from: Some(from),
            warning: None,
            failure: None,
        };
        let away = live_record.map(|record| record.request.release);
        let new = self.new_rollback(request, &choice, revision, (away, lane, hold), by);
        Ok(PreparedRollback { answer, new, live_files: first_live.unwrap_or_default() })
    }

    /// Returns the deployment whose revisions are live, and the one to go back to: the named one, or the newest good one
    /// before the live one.
    async fn choose_fleet_deployment(
        &self,
        request: &RollbackOrder,
        default: DefaultRevision,
    ) -> Result<(DeployId, DeployId), RollbackError> {
        let RollbackOrder { target, app, to, .. } = request;
        let filter = Filter::pushed(target, app);
        let page = self.store.deployments(&filter, None, SEARCHED).await;
        let past = page.map_err(BackendError::new)?.deployments;
        let origin = |deployment: &Deployment| match &deployment.rollback {
            Some(rollback) => rollback.to.clone(),
            None => deployment.id.clone(),
        };
        let Some(live) = past.first().map(origin) else {
            return Err(RollbackError::Unknown(format!("there is no {app} on {target}")));
        };
        if let Some(to) = to {
            let named = self.find_deployment(to).await?.filter(|deployment| {
                deployment.request.target == *target && deployment.app.as_ref() == Some(app)
            });
            let Some(named) = named else {
                let message = format!("there is no deployment {to} of {app} on the fleet {target}");
                return Err(RollbackError::Unknown(message));
            };
            if named.pushed.is_none() {
                let state = named.state.as_str();
                let message = format!("deployment {to} made no revision: it is {state}");
                return Err(RollbackError::NotMeant(message));
            }
            let to = origin(&named);
            if to == live {
                let message = format!("deployment {to} of {app} is live on {target} already");
                return Err(against(request, message));
            }
            return Ok((live, to));
        }
        let rolled_back: BTreeSet<&DeployId> = past
            .iter()
            .filter_map(|deployment| deployment.rollback.as_ref()?.from.as_ref())
            .collect();
        let is_good = |deployment: &&Deployment| {
            let has_run = match default {
                DefaultRevision::Proven => deployment.state == State::Succeeded,
                DefaultRevision::NotBad => deployment.state != State::Failed,
            };
            deployment.rollback.is_none()
                && has_run
                && deployment.id < live
                && !rolled_back.contains(&deployment.id)
        };
        let good = past.iter().find(is_good).map(|deployment| deployment.id.clone());
        let none_good = || {
            RollbackError::Against(format!(
                "no older deployment of {app} on the fleet {target} is a good one; name one with `--to`, or deploy an \
                 older tag"
            ))
        };
        Ok((live.clone(), good.ok_or_else(none_good)?))
    }

    /// Finds the revision of each cluster that has a part of a former deployment and is still of the fleet.
    async fn cluster_revisions(
        &self,
        repository: &ManifestRepository,
        (target, app): (&TargetName, &AppKey),
        parts: &[Deployment],
    ) -> Result<Vec<ClusterRevision>, DeployError> {
        let clusters = self.clusters_of(target);
        let mut revisions = Vec::new();
        for part in parts.iter().filter(|part| clusters.contains(&part.request.target)) {
            revisions.push(cluster_revision(repository, app, part).await?);
        }
        if revisions.is_empty() {
            let message = format!("no cluster of the fleet {target} had a part in that deployment");
            return Err(refusal_error(&message));
        }
        Ok(revisions)
    }

    /// Returns the parts of a rollback of a fleet, with what each claims, unless a revision is not allowed any more or
    /// another app is in its way.
    pub(crate) async fn fleet_restore_parts(
        &self,
        deployment: &Deployment,
        rollback: &Rollback,
    ) -> Result<Vec<FleetPart>, DeployError> {
        let (target, release) = (&deployment.request.target, &deployment.request.release);
        let Some(app) = &deployment.app else {
            return Err(DeployError::give_up(
                "the rollback's record names no app: a fault in the-deployer itself",
            ));
        };
        if rollback.only_from {
            self.check_fleet_from(deployment, app, rollback).await?;
        }
        let repository = &self.manifests_of(target)?.repository;
        let former = self.store.fleet_parts(&deployment.id).await?;
        let parts = self.store.fleet_parts(&rollback.to).await?;
        let replaced = match &rollback.from {
            Some(from) => self.store.fleet_parts(from).await?,
            None => Vec::new(),
        };
        let part_of = |parts: &[Deployment], cluster: &TargetName| {
            parts.iter().find(|part| part.request.target == *cluster).map(|part| part.id.clone())
        };
        let mut restores = Vec::new();
        for revision in self.cluster_revisions(repository, (target, app), &parts).await? {
            let ClusterRevision { cluster, to, tree } = revision;
            let claims = revision_claims(self, (&cluster, app), &to, &release.repository).await?;
            let id = part_of(&former, &cluster);
            let part_rollback = Rollback {
                to,
                tree,
                from: part_of(&replaced, &cluster),
                // The fleet's own record says what it takes back.
                undoes: None,
                replaces: None,
                only_from: false,
                ..rollback.clone()
            };
            restores.push(FleetPart {
                id: id.unwrap_or_else(|| DeployId::of(self.clock.draw())),
                cluster,
                address: deployment.address.clone(),
                claims,
                rollback: Some(part_rollback),
            });
        }
        Ok(restores)
    }

    /// Refuses where another deployment of the fleet is live by now. The rollback has the turn of its lane, so that none
    /// becomes live after this.
    async fn check_fleet_from(
        &self,
        deployment: &Deployment,
        app: &AppKey,
        rollback: &Rollback,
    ) -> Result<(), DeployError> {
        let filter = Filter::pushed(&deployment.request.target, app);
        let page = self.store.deployments(&filter, None, 1).await?;
        let live = page.deployments.first().map(|newest| match &newest.rollback {
            Some(_) if newest.id == deployment.id => rollback.from.as_ref(),
            Some(former) => Some(&former.to),
            None => Some(&newest.id),
        });
        if live.flatten() == rollback.from.as_ref() {
            return Ok(());
        }
        Err(refusal_error("the deployment that it takes back is not live any more: another one is"))
    }

    /// Makes the revisions of all parts live again in one push, unless the lease has ended.
    pub(crate) async fn restore_fleet(
        &self,
        deployment: &Deployment,
        parts: &[FleetPart],
        at: Timestamp,
        lease: &Lease,
    ) -> WriteOutcome {
        let target = &deployment.request.target;
        let (repository, app) = match self.rollback_place(deployment) {
            Ok(place) => place,
            Err(problem) => return problem.into(),
        };
        let records: Vec<(Deployment, &Rollback, DriftPolicy)> = parts
            .iter()
            .filter_map(|part| {
                let policy = self.clusters.find(&part.cluster).map(|one| one.policies.hand_edits);
                let record = part.record_of(deployment);
                Some((
                    record,
                    part.rollback.as_ref()?,
                    DriftPolicy::new(policy.unwrap_or_default()),
                ))
            })
            .collect();
        let mut look = 1;
        let result = loop {
            let mut restores = Vec::with_capacity(records.len());
            for (record, rollback, watch) in &records {
                let judgement = data::judge_again(repository, (record, app), rollback).await;
                let Judgement { latest, application } = match judgement {
                    Ok(judgement) => judgement,
                    Err(problem) => return problem.into(),
                };
                let number = deployment.request.identity.map(|identity| identity.repository);
                let fleet = Some((deployment.id.clone(), target.clone()));
                let note = build_note(record, app, rollback, (number, fleet));
                let restore = Restore::new(&note, rollback.tree.clone(), watch.clone());
                restores.push(restore.expecting_latest(latest).with_application(application));
            }
            match repository.roll_back_together(restores, at, lease).await {
                Err(WriteError::Moved { .. }) if look < LOOKS => look += 1,
                result => break result,
            }
        };
        let edit = records.iter().find_map(|(_, _, watch)| watch.read_hand_edit());
        let written = match result {
            Ok(written) => written,
            Err(error) => {
                return WriteOutcome { hand_edit: edit, ..DeployError::from(error).into() };
            }
        };
        self.facts.note_push();
        let mut part_pushes = Vec::with_capacity(written.len());
        for ((record, rollback, watch), push) in records.iter().zip(written) {
            let pushed = match read_pushed(repository, record, app, rollback, push).await {
                Ok(pushed) => pushed,
                Err(problem) => return problem.into(),
            };
            let cluster = record.request.target.clone();
            part_pushes.push(FleetPartPush {
                id: record.id.clone(),
                is_watched: self.watches.contains_key(&cluster),
                cluster,
                pushed,
                hand_edit: watch.read_hand_edit(),
            });
        }
        WriteOutcome::of_parts(part_pushes, true, edit)
    }
}

/// Finds the revision that a part made live: its own, or the one that had the same files already.
async fn cluster_revision(
    repository: &ManifestRepository,
    app: &AppKey,
    part: &Deployment,
) -> Result<ClusterRevision, DeployError> {
    let cluster = &part.request.target;
    let folders = repository.read_history_beside(cluster, app).await?;
    let revision = |(id, tree): &(DeployId, TreeId)| ClusterRevision {
        cluster: cluster.clone(),
        to: id.clone(),
        tree: tree.clone(),
    };
    if let Some(own) = folders.revisions.iter().find(|(id, _)| *id == part.id) {
        return Ok(revision(own));
    }
    let pushed = part.pushed.as_ref().filter(|pushed| !pushed.changed);
    let mut older: Vec<_> = folders.revisions.iter().filter(|(id, _)| *id < part.id).collect();
    older.sort_by(|a, b| b.0.cmp(&a.0));
    for entry in older.into_iter().filter(|_| pushed.is_some()) {
        let folder = layout::revision_folder(cluster, app, &entry.0).to_string();
        let digest = files::digest_of(&repository.files_beside(&folder).await?);
        if digest.as_ref() == pushed.map(|pushed| &pushed.digest) {
            return Ok(revision(entry));
        }
    }
    let tag = &part.request.release.tag;
    let message = format!(
        "{cluster} does not keep the revision {} of {app} any more: it keeps the newest five; deploy {tag} again",
        part.id
    );
    Err(refusal_error(&message))
}

/// Names the clusters that have joined the fleet or left it since a deployment.
fn membership_notes(
    fleet: &TargetName,
    clusters: &[TargetName],
    parts: &[Deployment],
) -> Vec<String> {
    let had_part =
        |cluster: &&TargetName| parts.iter().any(|part| part.request.target == **cluster);
    let joined = clusters.iter().filter(|cluster| !had_part(cluster)).map(|cluster| {
        format!("{cluster} has joined {fleet} since and stays as it is: that deployment had no part there")
    });
    let left = parts.iter().map(|part| &part.request.target);
    let left = left.filter(|cluster| !clusters.contains(cluster)).map(|cluster| {
        format!("{cluster} has left {fleet} since and stays as it is: roll it back by its own name")
    });
    joined.chain(left).collect()
}
