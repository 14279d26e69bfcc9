//! Checks what a rollback would lose. It removes no object that keeps data, and no pods, unless the
//! caller accepts it, as a deployment and a removal do not; and it applies nothing that Kubernetes
//! refuses.

use crate::deployments::outcome::DeployError;
use crate::deployments::rollback::RollbackError;
use crate::git::layout;
use crate::git::writer::{ManifestRepository, Precondition, WriteError};
use crate::manifests::argocd::application;
use crate::manifests::handover::{HandoverFault, TrafficObjects};
use crate::manifests::removal::Replacement;
use crate::manifests::{disks, handover, parse, removal, replicas};
use crate::model::deployment::Deployment;
use crate::model::facts::LiveObject;
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::live_history::AppFolders;
use crate::model::revision::ManifestFile;
use crate::model::rollback::{Rollback, RollbackOrder, TreeId};

/// The losses that the caller of a rollback accepts.
#[derive(Debug, Clone, Copy)]
pub(super) struct AcceptedLoss {
    data: bool,
    fewer_pods: bool,
}

impl AcceptedLoss {
    pub(super) fn by(request: &RollbackOrder) -> Self {
        Self { data: request.with_data, fewer_pods: request.with_fewer_pods }
    }
}

/// The state that a rollback was judged by; if the repository has another state at the push, the
/// judgement is void.
pub(super) struct Judgement {
    /// The tree of `latest`.
    pub(super) latest: Option<TreeId>,
    /// The Application as it was read, and as the revision needs it; `None` where it is right
    /// already, or cannot be read.
    pub(super) application: Option<(Precondition, Vec<u8>)>,
}

/// Checks that `revision` may take the place of `live`; returns remarks for people.
pub(super) fn judge(
    live: &[ManifestFile],
    revision: &[ManifestFile],
    former_files: &[Vec<ManifestFile>],
    accepted_loss: AcceptedLoss,
) -> Result<Vec<String>, RollbackError> {
    let Replacement { loses, refused, handovers, fewer_pods, mut notes } =
        removal::replacement(live, revision, former_files);
    if let Some(first) = handovers.first().filter(|_| !accepted_loss.fewer_pods) {
        return Err(RollbackError::Against(format!(
            "{}; {}, or accept a moment without pods: `--with-fewer-pods`, or `with_fewer_pods` by HTTP",
            first.message(),
            first.help()
        )));
    }
    if let Some(first) = refused.into_iter().next() {
        return Err(RollbackError::Against(format!(
            "{first}; deploy the former tag instead, with the disk as it is"
        )));
    }
    if !loses.is_empty() && !accepted_loss.data {
        return Err(RollbackError::KeepsData(loses));
    }
    if let Some(first) = fewer_pods.first().filter(|_| !accepted_loss.fewer_pods) {
        return Err(RollbackError::Against(format!(
            "{first}; deploy the former tag instead, which keeps the number, or accept fewer pods: \
             `--with-fewer-pods`, or `with_fewer_pods` by HTTP"
        )));
    }
    notes.extend(handovers.iter().map(HandoverFault::message));
    notes.extend(fewer_pods);
    Ok(notes)
}

/// Returns the files of all kept revisions that can request disks, newest first; none for an app
/// without a disk.
pub(super) async fn former_disks(
    repository: &ManifestRepository,
    (target, app): (&TargetName, &AppKey),
    folders: &AppFolders,
    live: &[ManifestFile],
) -> Result<Vec<Vec<ManifestFile>>, WriteError> {
    let mut disk_files = Vec::new();
    if parse::live_app(live).0.disks.is_empty() {
        return Ok(disk_files);
    }
    for (id, _) in &folders.revisions {
        let folder = layout::revision_folder(target, app, id).to_string();
        let mut files = repository.files_beside(&folder).await?;
        files.retain(|file| disks::may_contain_disks(&file.name));
        disk_files.push(files);
    }
    Ok(disk_files)
}

/// Returns the error for an app or a revision that is gone since the rollback was requested.
fn describe_gone(
    folders: &AppFolders,
    (target, app): (&TargetName, &AppKey),
    to: &DeployId,
) -> Option<String> {
    let AppFolders { revisions, latest } = folders;
    if revisions.iter().any(|(id, _)| id == to) {
        return None;
    }
    Some(if revisions.is_empty() && latest.is_none() {
        format!(
            "{app} is not on {target} any more: it was removed since the rollback was requested"
        )
    } else {
        format!(
            "the revision {to} of {app} on {target} is gone: newer ones took its place since the rollback was \
             requested; `bart history {target}` lists those that are left"
        )
    })
}

/// Checks that neither the revision that is to be rolled back from is live, nor already the one to go to.
fn is_overtaken(folders: &AppFolders, rollback: &Rollback) -> bool {
    let from = rollback.from.as_ref();
    let from = folders.revisions.iter().find(|(id, _)| Some(id) == from).map(|(_, tree)| tree);
    let latest = folders.latest.as_ref();
    latest != Some(&rollback.tree) && (from.is_none() || latest != from)
}

/// Judges a rollback again before the push: deployments and edits while it waited count.
pub(super) async fn judge_again(
    repository: &ManifestRepository,
    (deployment, app): (&Deployment, &AppKey),
    rollback: &Rollback,
) -> Result<Judgement, DeployError> {
    let target = &deployment.request.target;
    // The tree is read first: if the files change after that, the push finds it out.
    let folders = repository.read_history_beside(target, app).await?;
    if let Some(message) = describe_gone(&folders, (target, app), &rollback.to) {
        return Err(refusal_error(&message));
    }
    let takes_back = rollback.undoes.is_some() || rollback.replaces.is_some() || rollback.only_from;
    if takes_back && is_overtaken(&folders, rollback) {
        let message = "the revision that it takes back is not live any more: another one or an edit by hand is";
        return Err(refusal_error(message));
    }
    let live = repository.files(&layout::latest_folder(target, app).to_string()).await;
    let live = live?;
    let former_files = former_disks(repository, (target, app), &folders, &live).await?;
    let revision = layout::revision_folder(target, app, &rollback.to).to_string();
    let revision = repository.files(&revision).await?;
    let accepted_loss =
        AcceptedLoss { data: rollback.with_data, fewer_pods: rollback.with_fewer_pods };
    match judge(&live, &revision, &former_files, accepted_loss) {
        Ok(_notes) => {}
        Err(RollbackError::KeepsData(objects)) => {
            return Err(refusal_error(&data_refusal(&objects)));
        }
        Err(other) => return Err(refusal_error(&other.to_string())),
    }
    let file = layout::application_file(target, app);
    let (_, states) = repository.read_paths(vec![file]).await?;
    let application = states.into_iter().next().and_then(|file| {
        let bytes = rewrite_application(&file.bytes?, &live, &revision)?;
        Some((file.seen, bytes))
    });
    Ok(Judgement { latest: folders.latest, application })
}

/// Returns the Application with the fields that the revision's objects leave to autoscalers and to Flagger; `None`
/// where that changes nothing.
fn rewrite_application(
    application: &[u8],
    live: &[ManifestFile],
    revision: &[ManifestFile],
) -> Option<Vec<u8>> {
    let (live, _) = parse::live_app(live);
    let (revision, _) = parse::live_app(revision);
    let workloads = replicas::beside_live(replicas::workloads(&revision), &live);
    let traffic = TrafficObjects::of_live;
    let flagger = handover::flagger_share(&traffic(&live), &traffic(&revision));
    application::with_shares(application, &workloads, &flagger)
}

fn data_refusal(objects: &[LiveObject]) -> String {
    let objects: Vec<String> = objects.iter().map(ToString::to_string).collect();
    format!(
        "it would remove objects that keep data from the manifests: {}; `--with-data` accepts that",
        objects.join(", ")
    )
}

pub(super) fn refusal_error(why: &str) -> DeployError {
    DeployError::reject(format!("not rolled back: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_while_a_rollback_waited_is_named() {
        let id = |n: u8| DeployId::parse(format!("20261121-054812123-00000{n}")).unwrap();
        let app = AppKey { namespace: "devx".parse().unwrap(), slug: "shop".parse().unwrap() };
        let target = "prod".parse().unwrap();
        let describe = |revisions: &[u8], latest: bool| {
            let tree = || TreeId("0".to_owned());
            let revisions = revisions.iter().map(|n| (id(*n), tree())).collect();
            describe_gone(
                &AppFolders { revisions, latest: latest.then(tree) },
                (&target, &app),
                &id(1),
            )
        };
        assert_eq!(describe(&[2, 1], true), None);
        let revision = describe(&[3, 2], true).unwrap();
        assert!(
            revision.contains("the revision 20261121-054812123-000001")
                && revision.contains("is gone")
        );
        let app = describe(&[], false).unwrap();
        assert!(app.starts_with("devx/shop is not on prod any more: it was removed"), "{app}");
    }
}
