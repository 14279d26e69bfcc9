//! Removes an app from a target: check, record, change the manifest repository, record the end.
//!
//! The record is written before the change, and the commit carries its id: a process that finds a
//! record without an end looks into the repository for the result.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::deployments::{BackendError, Deployments, ServedRepository};
use crate::git::history::app_files::Footprint;
use crate::git::writer::{
    CommitMessage, ConditionalEdit, Edit, ManifestRepository, PushOutcome, RemovalNote, WriteError,
};
use crate::manifests::removal;
use crate::model::audit::Principal;
use crate::model::facts::LiveObject;
use crate::model::id::{AppKey, CommitSha, DeployId, TargetName};
use crate::model::removal::{INTERRUPTED, NewRemoval, RemovalEnd, RemovalOrder, RemovalRecord};
use crate::store::{ActTurn, KeyLease, Reply, StoreError};
use crate::support::lease::Lease;
use crate::support::retry::Disposition;

/// The result of a request to remove an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalResult {
    /// The record.
    pub removal: RemovalRecord,
    /// The meaning of the record.
    pub outcome: RemovalOutcome,
}

/// The meaning of a removal's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalOutcome {
    /// The app was removed now.
    Now,
    /// The app was removed before; there was nothing left to do.
    Before,
    /// A dry run: the app would be removed.
    Would,
}

/// The reason why an app was not removed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RemovalError {
    /// The target has no such app.
    #[error("{0}")]
    Unknown(String),
    /// Another act or a deployment of the app is under way.
    #[error("{0}")]
    Busy(String),
    /// Objects keep data, and the request does not accept the loss.
    #[error("{} keep data", .0.len())]
    KeepsData(Vec<LiveObject>),
    /// Files of another author are in the app's folder.
    #[error("{} files were not written by this service", .0.len())]
    Foreign(Vec<String>),
    /// The app was changed during the check.
    #[error("{0}")]
    Changed(String),
    /// The order of a rollout does not count any more: this deployment is the newest one, or the rollout has moved on.
    #[error("the rollout does not order it any more")]
    Superseded(Option<DeployId>),
    /// The manifest repository does not accept the change; the text is for the caller too.
    #[error("{0}")]
    Repository(String),
    /// A part of the service does not work.
    #[error(transparent)]
    Fault(#[from] BackendError),
}

/// The longest time for which a removal keeps deployments of its app waiting: longer than a push
/// takes. The app's next deployment waits as long if a replica dies in the middle of a removal.
pub(crate) const HOLD: Duration = Duration::from_mins(5);

/// The interval of the search for removals whose process has died.
const INTERVAL: Duration = Duration::from_mins(1);

impl Deployments {
    /// Removes an app from a target. Goes on to its end even if the caller has gone; an idempotency
    /// key of a removal whose process died gets that removal's result.
    pub(crate) async fn remove(
        &self,
        request: NewRemoval,
        reply: Reply<RemovalResult>,
    ) -> Result<RemovalResult, RemovalError> {
        let deployments = self.clone();
        // A task of its own: a caller that stops waiting must not leave it half recorded.
        let task = tokio::spawn(async move { remove(&deployments, request, None, reply).await });
        task.await.unwrap_or_else(|fault| Err(BackendError::new(fault).into()))
    }

    /// Removes an app for a rollout that goes back, as long as its order counts.
    pub(super) async fn remove_as_ordered(
        &self,
        request: NewRemoval,
        order: RemovalOrder,
    ) -> Result<RemovalResult, RemovalError> {
        let (deployments, reply) = (self.clone(), Reply::without_key());
        let task =
            tokio::spawn(async move { remove(&deployments, request, Some(order), reply).await });
        task.await.unwrap_or_else(|fault| Err(BackendError::new(fault).into()))
    }
}

/// Removes an app, or returns the reason why not.
async fn remove(
    deployments: &Deployments,
    request: NewRemoval,
    order: Option<RemovalOrder>,
    reply: Reply<RemovalResult>,
) -> Result<RemovalResult, RemovalError> {
    if let Some(act) = reply.lease().and_then(KeyLease::act)
        && let Some(result) = find_begun_removal(deployments, act).await?
    {
        return Ok(result);
    }
    if deployments.fleets.is_fleet(&request.target) {
        let clusters = deployments.clusters_of(&request.target);
        let clusters: Vec<&str> = clusters.iter().map(TargetName::as_str).collect();
        return Err(RemovalError::Unknown(format!(
            "{} is a fleet: an app is removed from one cluster after the other, by its name: {}",
            request.target,
            clusters.join(", ")
        )));
    }
    let manifests = deployments
        .manifests_of(&request.target)
        .map_err(|problem| RemovalError::Unknown(problem.message))?;
    // The record checks this again; the check here refuses early, instead of waiting for a push that is under way.
    if let Some(deployment) = deployments
        .store
        .deploying(&request.target, &request.app)
        .await
        .map_err(BackendError::new)?
    {
        return Err(busy_error(&deployment, &request.app, &request.target));
    }
    let removals = deployments
        .store
        .removals(&request.target, &request.app)
        .await
        .map_err(BackendError::new)?;
    let now = deployments.clock.now();
    for removal in removals.iter().filter(|removal| removal.ended.is_none()) {
        settle_if_abandoned(deployments, removal, now).await?;
    }
    let footprint = manifests.repository.footprint(&request.target, &request.app).await;
    let footprint = footprint.map_err(write_error)?;
    if footprint.is_empty() {
        return find_past_removal(deployments, &request).await;
    }
    let mut removal = judge(deployments, &request, &footprint)?;
    if request.dry_run {
        return Ok(RemovalResult { removal, outcome: RemovalOutcome::Would });
    }
    if let Some(order) = &order {
        removal.id = order.id.clone();
    }
    let by = (&request.by, order.as_ref());
    carry_out(deployments, manifests, (removal, by, &reply), footprint).await
}

/// Returns the result of a removal that a process which died began under the same key; `None` where
/// it changed nothing.
async fn find_begun_removal(
    deployments: &Deployments,
    act: &DeployId,
) -> Result<Option<RemovalResult>, RemovalError> {
    let read = async || deployments.store.removal(act).await.map_err(BackendError::new);
    if let Some(open) = read().await?.filter(|removal| removal.ended.is_none()) {
        settle_if_abandoned(deployments, &open, deployments.clock.now()).await?;
    }
    let Some(removal) = read().await? else { return Ok(None) };
    match &removal.ended {
        None => Err(RemovalError::Busy(format!("removal {act} of {} is under way", removal.app))),
        Some(end) if end.commit.is_some() => {
            Ok(Some(RemovalResult { removal, outcome: RemovalOutcome::Now }))
        }
        Some(_) => Ok(None),
    }
}

/// Returns the last removal of an app that the repository does not have.
async fn find_past_removal(
    deployments: &Deployments,
    request: &NewRemoval,
) -> Result<RemovalResult, RemovalError> {
    let NewRemoval { target, app, .. } = request;
    let removals = deployments.store.removals(target, app).await.map_err(BackendError::new)?;
    if let Some(open) = removals.iter().find(|removal| removal.ended.is_none()) {
        return Err(RemovalError::Busy(format!("removal {} of {app} is under way", open.id)));
    }
    let last = removals
        .into_iter()
        .find(|removal| removal.ended.as_ref().is_some_and(|e| e.commit.is_some()));
    match last {
        Some(removal) => Ok(RemovalResult { removal, outcome: RemovalOutcome::Before }),
        None => Err(RemovalError::Unknown(format!("there is no {app} on {target}"))),
    }
}

/// Returns the removal to record, if nothing prevents it.
fn judge(
    deployments: &Deployments,
    request: &NewRemoval,
    footprint: &Footprint,
) -> Result<RemovalRecord, RemovalError> {
    if !footprint.others.is_empty() {
        return Err(RemovalError::Foreign(footprint.others.clone()));
    }
    let plan = removal::plan_removal(
        &footprint.latest,
        footprint.application.as_deref(),
        footprint.paths.clone(),
    );
    if !plan.keeps_data.is_empty() && !request.with_data {
        return Err(RemovalError::KeepsData(plan.keeps_data));
    }
    let NewRemoval { target, app, by, reason, with_data: _, dry_run: _ } = request.clone();
    let actor = by.name;
    let (id, asked_at) = (DeployId::of(deployments.clock.draw()), deployments.clock.now());
    Ok(RemovalRecord { id, target, app, actor, reason, taken: plan, asked_at, ended: None })
}

async fn carry_out(
    deployments: &Deployments,
    manifests: &ServedRepository,
    (removal, (by, order), reply): (
        RemovalRecord,
        (&Principal, Option<&RemovalOrder>),
        &Reply<RemovalResult>,
    ),
    footprint: Footprint,
) -> Result<RemovalResult, RemovalError> {
    let RemovalRecord { id, app, target, .. } = &removal;
    let (asked_at, key_lease) = (deployments.clock.moment(), reply.lease());
    let (store, act) = (&deployments.store, (&removal, by));
    let turn = match order {
        None => store.begin_removal(act, key_lease, asked_at.wall, HOLD).await,
        Some(order) => store.begin_ordered_removal(act, order, asked_at.wall, HOLD).await,
    };
    match turn.map_err(BackendError::new)? {
        ActTurn::Yes => {}
        ActTurn::Deploying(other) => return Err(busy_error(&other, app, target)),
        ActTurn::Acting(other) => {
            return Err(RemovalError::Busy(format!("removal {other} of {app} is under way")));
        }
        ActTurn::Superseded(by) => return Err(RemovalError::Superseded(by)),
    }
    tracing::info!(removal = %id, %app, %target, actor = removal.actor, "removal begins");
    let (change, lease) = (build_edit(&removal, footprint), Lease::requested_at(asked_at, HOLD));
    let push = manifests.repository.amend(change, deployments.clock.now(), &lease).await;
    match push {
        Ok(PushOutcome::Pushed { commit } | PushOutcome::AlreadyPushed { commit }) => {
            tracing::info!(removal = %id, commit = commit.short(), "removal pushed");
            deployments.facts.note_push();
            let summary = format!("{app} is removed from {target}, commit {}", commit.short());
            end_removal(deployments, removal, (Some(commit), summary), reply).await
        }
        Ok(PushOutcome::Unchanged { .. }) => {
            let summary = "another commit removed the app at the same moment".to_owned();
            end_removal(deployments, removal, (None, summary), reply).await
        }
        Err(error) => {
            give_up(deployments, &removal, &error).await?;
            Err(write_error(error))
        }
    }
}

fn busy_error(deployment: &DeployId, app: &AppKey, target: &TargetName) -> RemovalError {
    RemovalError::Busy(format!(
        "deployment {deployment} of {app} to {target} is under way or waits: ask again when it has ended"
    ))
}

fn build_edit(removal: &RemovalRecord, footprint: Footprint) -> ConditionalEdit {
    let RemovalRecord { id, target, app, actor, reason, taken: plan, .. } = removal.clone();
    let digest = plan.digest.map(|digest| digest.0).unwrap_or_default();
    let note = RemovalNote { id, app, target, actor, reason, digest };
    let existing = footprint.seen.iter().filter(|(_, precondition)| precondition.is_something());
    ConditionalEdit {
        edits: existing.map(|(path, _)| (path.clone(), Edit::Gone)).collect(),
        message: CommitMessage::of_removal(&note),
        seen: footprint.seen,
    }
}

async fn end_removal(
    deployments: &Deployments,
    removal: RemovalRecord,
    (commit, summary): (Option<CommitSha>, String),
    reply: &Reply<RemovalResult>,
) -> Result<RemovalResult, RemovalError> {
    let end = RemovalEnd { at: deployments.clock.now(), commit, summary };
    let outcome = if end.commit.is_some() { RemovalOutcome::Now } else { RemovalOutcome::Before };
    let removal_result =
        RemovalResult { removal: RemovalRecord { ended: Some(end.clone()), ..removal }, outcome };
    let (id, answer) = (&removal_result.removal.id, reply.answer(&removal_result));
    let result = deployments.store.end_removal(id, &end, answer.as_ref()).await;
    if let Err(error) = result {
        // A repeat need not wait until the record is due: the next request finds the result in the repository.
        if let Err(error) = deployments.store.abandon_removal(id, deployments.clock.now()).await {
            tracing::warn!(removal = %id, %error, "removal could not be released");
        }
        return Err(BackendError::new(error).into());
    }
    tracing::info!(removal = %id, summary = end.summary, "removal recorded");
    Ok(removal_result)
}

/// Releases a removal that was not done. After an error that may hide a push that arrived, only the
/// repository can tell; the next request reads it.
async fn give_up(
    deployments: &Deployments,
    removal: &RemovalRecord,
    error: &WriteError,
) -> Result<(), RemovalError> {
    tracing::warn!(removal = %removal.id, %error, "removal failed");
    let at = deployments.clock.now();
    match error.disposition() {
        Disposition::Retry { .. } => deployments.store.abandon_removal(&removal.id, at).await,
        Disposition::Doubt | Disposition::Stop => {
            let summary = format!("not done: {error}");
            let end = RemovalEnd { at, commit: None, summary };
            deployments.store.end_removal(&removal.id, &end, None).await
        }
    }
    .map_err(|error| BackendError::new(error).into())
}

fn write_error(error: WriteError) -> RemovalError {
    match error {
        WriteError::Moved { .. } => RemovalError::Changed(error.to_string()),
        other => RemovalError::Repository(other.to_string()),
    }
}

/// Completes, at an interval, the records of removals whose process has died.
pub(crate) async fn keep_records(deployments: Deployments, stop: CancellationToken) {
    loop {
        if let Err(error) = keep_records_once(&deployments).await {
            tracing::warn!(%error, "open removals cannot be read");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

/// Completes records once; returns the number of removals that have their end now.
pub(crate) async fn keep_records_once(deployments: &Deployments) -> Result<usize, StoreError> {
    let mut count = 0;
    for removal in &deployments.store.abandoned_removals(deployments.clock.now()).await? {
        match settle(deployments, removal).await {
            Ok(()) => count += 1,
            Err(error) => {
                tracing::warn!(removal = %removal.id, %error, "result of a removal cannot be determined yet");
            }
        }
    }
    Ok(count)
}

/// Records the result of a removal, if its process has died.
pub(super) async fn settle_if_abandoned(
    deployments: &Deployments,
    removal: &RemovalRecord,
    now: jiff::Timestamp,
) -> Result<(), RemovalError> {
    let removals = deployments.store.abandoned_removals(now).await.map_err(BackendError::new)?;
    if removals.iter().any(|other| other.id == removal.id) {
        return settle(deployments, removal).await;
    }
    Ok(())
}

/// Records the result of a removal whose process has died.
async fn settle(deployments: &Deployments, removal: &RemovalRecord) -> Result<(), RemovalError> {
    let manifests = deployments.manifests_of(&removal.target);
    let result = match manifests {
        Err(_) => {
            (None, "not known: its manifest repository is not configured any more".to_owned())
        }
        Ok(manifests) => {
            determine_result(&manifests.repository, removal).await.map_err(write_error)?
        }
    };
    let (commit, summary) = result;
    tracing::info!(removal = %removal.id, summary, "removal recorded for a process that died");
    let end = RemovalEnd { at: deployments.clock.now(), commit, summary };
    deployments
        .store
        .end_removal(&removal.id, &end, None)
        .await
        .map_err(|error| BackendError::new(error).into())
}

async fn determine_result(
    repository: &ManifestRepository,
    removal: &RemovalRecord,
) -> Result<(Option<CommitSha>, String), WriteError> {
    let RemovalRecord { id, target, app, .. } = removal;
    if let Some(commit) = repository.commit_of(id).await? {
        let summary = format!("{app} is removed from {target}, commit {}", commit.short());
        return Ok((Some(commit), summary));
    }
    let summary = if repository.footprint(target, app).await?.is_empty() {
        "the app is gone; the commit that removed it cannot be found any more"
    } else {
        INTERRUPTED
    };
    Ok((None, summary.to_owned()))
}
