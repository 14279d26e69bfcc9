//! Restores deployments to fleets: commits have their parts, one for each cluster, and name the fleet's deployment. Pure.

use std::collections::BTreeMap;

use crate::manifests::files;
use crate::model::commit_record::PastDeployment;
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::rollback::Rollback;
use crate::store::{OwnerRecord, RememberedDeployment};

/// Adds the deployments of fleets before their first parts. A part that changed nothing has no commit, and is not known.
pub(super) fn add_fleets(deployments: &mut Vec<RememberedDeployment>) {
    let mut parts: BTreeMap<DeployId, Vec<PastDeployment>> = BTreeMap::new();
    let mut fleet_of: BTreeMap<DeployId, DeployId> = BTreeMap::new();
    for RememberedDeployment { past, .. } in deployments.iter() {
        if let Some((fleet, _)) = &past.fleet {
            fleet_of.insert(past.id.clone(), fleet.clone());
            parts.entry(fleet.clone()).or_default().push(past.clone());
        }
    }
    let mut all = Vec::with_capacity(deployments.len() + parts.len());
    for deployment in deployments.drain(..) {
        let id = deployment.past.fleet.as_ref().map(|(id, _)| id.clone());
        if let Some(fleet) =
            id.and_then(|id| parts.remove(&id)).and_then(|parts| sum_up(parts, &fleet_of))
        {
            all.push(RememberedDeployment { past: fleet, number: None, newest: false, hold: None });
        }
        all.push(deployment);
    }
    *deployments = all;
}

/// Returns the deployment of a fleet by its parts.
fn sum_up(
    mut parts: Vec<PastDeployment>,
    fleet_of: &BTreeMap<DeployId, DeployId>,
) -> Option<PastDeployment> {
    let digests = parts.iter().map(|part| (part.target.as_str(), &part.pushed.digest));
    let digest = files::digest_of_fleet(digests);
    let last = parts.pop()?;
    let (id, target) = last.fleet.clone()?;
    // The revision of a cluster that had the same files already is of another deployment.
    let of_fleet = |id: &DeployId| fleet_of.get(id).cloned().unwrap_or_else(|| id.clone());
    let rollback = last.rollback.map(|rollback| Rollback {
        to: of_fleet(&rollback.to),
        from: rollback.from.as_ref().map(of_fleet),
        ..rollback
    });
    let mut pushed = last.pushed;
    pushed.digest = digest;
    Some(PastDeployment { id, target, pushed, rollback, fleet: None, ..last })
}

/// Marks the newest deployment of each fleet's app, which the code host shows, and returns the owners of these apps. If it
/// is a rollback, the fleet is held, where one of its clusters takes holds.
pub(super) fn mark_newest_fleets(
    deployments: &mut [RememberedDeployment],
    takes_holds: impl Fn(&TargetName) -> Option<bool>,
) -> Vec<OwnerRecord> {
    let mut newest: BTreeMap<(TargetName, AppKey), usize> = BTreeMap::new();
    for (n, RememberedDeployment { past, .. }) in deployments.iter().enumerate() {
        if takes_holds(&past.target).is_some() {
            newest.insert((past.target.clone(), past.app.clone()), n);
        }
    }
    let mut owners = Vec::new();
    for ((target, app), n) in newest {
        let Some(deployment) = deployments.get_mut(n) else { continue };
        deployment.newest = true;
        if takes_holds(&target).unwrap_or_default() {
            deployment.take_hold();
        }
        let past = &deployment.past;
        owners.push(OwnerRecord {
            target,
            app,
            repository: past.release.repository.clone(),
            since: past.finished_at,
            moved: None,
        });
    }
    owners
}
