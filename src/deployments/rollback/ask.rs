//! Accepts a rollback: reads the history, chooses the revision, judges it, and stores the
//! deployment. A worker does the rest. The service's own rollbacks are prepared here, too.

use std::time::Duration;

use crate::deployments::outcome::{DeployError, Remedy};
use crate::deployments::rollback::claims::{check_reserved_names, revision_claims};
use crate::deployments::rollback::data::AcceptedLoss;
use crate::deployments::rollback::{RollbackCandidate, RollbackError, RollbackResult, data};
use crate::deployments::{BackendError, Deployments, ServedRepository};
use crate::git::layout;
use crate::git::writer::{ManifestRepository, WriteError};
use crate::manifests::diff;
use crate::manifests::diff::Change;
use crate::model::audit::{AuditRecord, Principal};
use crate::model::deployment::Deployment;
use crate::model::event::DeploymentRequest;
use crate::model::id::{AppKey, DeployId, RepoName, TargetName};
use crate::model::live_history::{
    AppFolders, ClusterFailure, DefaultRevision, RevisionChoice, RevisionChoiceError,
    RevisionFault, RollbackMark,
};
use crate::model::release::Release;
use crate::model::revision::ManifestFile;
use crate::model::rollback::{Holds, Rollback, RollbackOrder, provisional_number};
use crate::model::target::Environment;
use crate::pipeline::validate::unavailable_kinds;
use crate::store::{Filter, NewRollback, PendingAnswer, Reply, RollbackTurn};
use crate::support::text::truncate_chars;

/// The time for the search for the routes and objects of other apps, while the caller waits.
const LONGEST_LOOK: Duration = Duration::from_secs(2);
/// The unchanged lines shown around a change.
const CONTEXT: usize = 3;
/// The longest cause of a failure in a sentence about a revision, in characters.
const LONGEST_CAUSE: usize = 200;

/// A rollback that may be done, and is not stored yet.
pub(super) struct PreparedRollback {
    /// The answer for a caller, without the deployment.
    pub(super) answer: RollbackResult,
    /// The deployment.
    pub(super) new: NewRollback,
    /// The live files, by which it was judged.
    pub(super) live_files: Vec<ManifestFile>,
}

impl Deployments {
    /// Requests a rollback: returns its changes and its deployment.
    pub(crate) async fn roll_back(
        &self,
        request: RollbackOrder,
        by: Principal,
        reply: &Reply<RollbackResult>,
    ) -> Result<RollbackResult, RollbackError> {
        let prepared = self.prepare_rollback(&request, DefaultRevision::NotBad, &by).await?;
        let PreparedRollback { mut answer, new, .. } = prepared;
        if !request.dry_run {
            answer.deployment = Some(new.deployment(self.clock.now()));
            self.record_new(&new, by, reply.answer(&answer).as_ref()).await?;
        }
        Ok(answer)
    }

    /// Chooses the revision of a rollback and judges it.
    pub(super) async fn prepare_rollback(
        &self,
        request: &RollbackOrder,
        default: DefaultRevision,
        by: &Principal,
    ) -> Result<PreparedRollback, RollbackError> {
        let RollbackOrder { target, app, .. } = request;
        if self.fleets.is_fleet(target) {
            return self.prepare_fleet_rollback(request, default, by).await;
        }
        let manifests = self.manifests(target)?;
        let folders = manifests.repository.read_history_beside(target, app).await;
        let folders = folders.map_err(|error| RollbackError::Repository(error.to_string()))?;
        let choice = self.choose_revision(&folders, request, default).await?;
        check_live(request, choice.from.as_ref())?;
        let revision =
            self.find_deployment(&choice.to).await?.ok_or_else(|| no_record_error(&choice.to))?;
        let live_record = match &choice.from {
            Some(id) => self.find_deployment(id).await?,
            None => None,
        };
        self.check_locks(target, app, &revision).await?;
        let lane = self.lane(target, app).await?;
        let lane = lane.unwrap_or_else(|| revision.request.release.repository.clone());
        // The attempt checks again, so a manifest host that is slow or down refuses no request.
        let claims = revision_claims(self, (target, app), &choice.to, &lane);
        if let Ok(Err(DeployError { remedy: Remedy::Reject, message })) =
            tokio::time::timeout(LONGEST_LOOK, claims).await
        {
            return Err(RollbackError::Against(message));
        }
        let files = read_files(&manifests.repository, (target, app), &choice.to, &folders).await;
        let (live_files, revision_files, former_files) =
            files.map_err(|error| RollbackError::Repository(error.to_string()))?;
        check_reserved_names(self, target, app, &revision_files)
            .map_err(|problem| RollbackError::Against(problem.message))?;
        let notes =
            data::judge(&live_files, &revision_files, &former_files, AcceptedLoss::by(request))?;
        let cluster = self.clusters.find(target);
        let unavailable =
            cluster.map(|cluster| unavailable_kinds(&revision_files, &cluster)).unwrap_or_default();
        let failure = choice.failure.as_ref().map(failure_note);
        let notes = [failure.into_iter().collect(), notes, unavailable].concat();
        let changes = changes(&live_files, &revision_files);
        let hold = self.holds_on(target);
        let answer = RollbackResult {
            deployment: None,
            from: choice.from.clone().map(|id| candidate(id, live_record.as_ref())),
            to: candidate(choice.to.clone(), Some(&revision)),
            warning: choice.warning.clone(),
            notes,
            hold,
            changes,
        };
        let away = live_record.map(|live_record| live_record.request.release);
        let new = self.new_rollback(request, &choice, revision, (away, lane, hold), by);
        Ok(PreparedRollback { answer, new, live_files })
    }

    pub(super) fn manifests(
        &self,
        target: &TargetName,
    ) -> Result<&ServedRepository, RollbackError> {
        let result = self.manifests_of(target);
        result.map_err(|problem| RollbackError::Unknown(problem.message))
    }

    /// Returns the revision to make live. A rollback's own id stands for the revision that it made
    /// live.
    async fn choose_revision(
        &self,
        folders: &AppFolders,
        request: &RollbackOrder,
        default: DefaultRevision,
    ) -> Result<RevisionChoice, RollbackError> {
        let RollbackOrder { target, app, to, .. } = request;
        let past = self.live_history(target, app).await?;
        let requested_deployment = match to {
            Some(to) => self.find_deployment(to).await?,
            None => None,
        };
        let rollback =
            requested_deployment.as_ref().and_then(|deployment| deployment.rollback.as_ref());
        let restored_id = rollback.map(|rollback| &rollback.to);
        folders
            .choose(restored_id.or(to.as_ref()), &past, default)
            .map_err(|no_choice| refusal(no_choice, request, requested_deployment.as_ref()))
    }

    pub(super) async fn find_deployment(
        &self,
        id: &DeployId,
    ) -> Result<Option<Deployment>, BackendError> {
        self.store.deployment(id).await.map_err(BackendError::new)
    }

    pub(super) async fn check_locks(
        &self,
        target: &TargetName,
        app: &AppKey,
        revision: &Deployment,
    ) -> Result<(), RollbackError> {
        let owner = revision.contact.as_ref().map(|contact| contact.owner.as_str());
        let now = self.clock.now();
        let locks =
            self.store.locks_that_stop(target, app, owner, now).await.map_err(BackendError::new)?;
        let Some(lock) = locks.first() else { return Ok(()) };
        Err(RollbackError::Against(format!(
            "{} is locked by {}: {}; `bart unlock` takes the lock away",
            lock.scope, lock.by, lock.reason
        )))
    }

    pub(in crate::deployments) fn holds_on(&self, target: &TargetName) -> bool {
        let holds = |cluster: &TargetName| {
            let policies = self.clusters.find(cluster).map(|cluster| cluster.policies);
            policies.unwrap_or_default().holds != Holds::Off
        };
        self.clusters_of(target).iter().any(holds)
    }

    /// Returns the lane of the app's deployments: it may belong to another repository by now.
    pub(super) async fn lane(
        &self,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<Option<RepoName>, RollbackError> {
        let filter = Filter::pushed(target, app);
        let page = self.store.deployments(&filter, None, 1).await.map_err(BackendError::new)?;
        Ok(page
            .deployments
            .into_iter()
            .next()
            .map(|deployment| deployment.request.release.repository))
    }

    pub(super) fn new_rollback(
        &self,
        request: &RollbackOrder,
        choice: &RevisionChoice,
        revision: Deployment,
        (away, repository, hold): (Option<Release>, RepoName, bool),
        by: &Principal,
    ) -> NewRollback {
        let id = DeployId::of(self.clock.draw());
        let release = Release { repository, ..revision.request.release };
        let deployment_request = DeploymentRequest {
            forge_id: provisional_number(&id),
            release,
            target: request.target.clone(),
            git_ref: revision.request.git_ref,
            actor: by.name.clone(),
            description: request.reason.clone(),
            production: revision.request.production || self.is_production(&request.target),
            automatic: false,
            recipient: by.recipient(),
            identity: None,
            requested_at: None,
        };
        let RevisionChoice { to, tree, from, warning: _, failure: _ } = choice.clone();
        let RollbackOrder { with_data, with_fewer_pods, .. } = *request;
        let reason = request.reason.clone();
        NewRollback {
            id,
            request: deployment_request,
            app: request.app.clone(),
            rollback: Rollback {
                to,
                from,
                away,
                tree,
                reason,
                hold,
                with_data,
                with_fewer_pods,
                undoes: None,
                replaces: None,
                only_from: request.live.is_some(),
            },
            template: revision.template,
            contact: revision.contact,
            address: revision.address,
            rollout: None,
        }
    }

    /// Returns true if the configuration calls the target a production one: GitHub may not know it
    /// from the deployment of the revision.
    pub(crate) fn is_production(&self, target: &TargetName) -> bool {
        let mut clusters =
            self.clusters_of(target).into_iter().filter_map(|cluster| self.clusters.find(&cluster));
        clusters.any(|cluster| cluster.environment == Environment::Production)
    }

    async fn record_new(
        &self,
        new: &NewRollback,
        by: Principal,
        answer: Option<&PendingAnswer>,
    ) -> Result<(), RollbackError> {
        let app = &new.app;
        let entry = entry(new, by, self.clock.now());
        match self.record_rollback(new, (&entry, answer)).await {
            Ok(RollbackTurn::Yes) => Ok(()),
            Ok(RollbackTurn::RollingBack(id)) => Err(RollbackError::Against(format!(
                "rollback {id} of {app} is under way: ask again when it has ended"
            ))),
            Ok(RollbackTurn::Removing) => Err(RollbackError::Against(format!(
                "a removal of {app} is under way: ask again when it has ended"
            ))),
            Err(error) => Err(BackendError::new(error).into()),
        }
    }
}

/// Refuses a rollback of a revision that is not live any more.
pub(super) fn check_live(
    RollbackOrder { target, app, live, .. }: &RollbackOrder,
    is_live: Option<&DeployId>,
) -> Result<(), RollbackError> {
    let Some(live) = live.as_ref().filter(|live| is_live != Some(live)) else { return Ok(()) };
    let now = is_live.map_or_else(|| "hand-edited files are".to_owned(), |id| format!("{id} is"));
    Err(RollbackError::Outdated(format!("{live} of {app} is not live on {target} any more: {now}")))
}

/// Returns the entry of the audit log for a rollback.
pub(super) fn entry(new: &NewRollback, by: Principal, at: jiff::Timestamp) -> AuditRecord {
    let Rollback { to, from, reason, .. } = &new.rollback;
    let from = from.as_ref().map_or("hand-edited files".to_owned(), ToString::to_string);
    AuditRecord {
        id: new.id.clone(),
        at,
        by,
        act: "rollback".into(),
        target: Some(new.request.target.clone()),
        app: Some(new.app.clone()),
        subject: format!("from {from} to {to} ({})", new.request.release.tag),
        reason: reason.clone(),
        outcome: format!("deployment {} was asked for", new.id),
    }
}

/// Makes the refusal by a state that does not return: outdated, where the request names what was live before.
pub(super) fn against(request: &RollbackOrder, problem: String) -> RollbackError {
    match request.live {
        Some(_) => RollbackError::Outdated(problem),
        None => RollbackError::Against(problem),
    }
}

/// Words each refusal, with the way out.
fn refusal(
    no_choice: RevisionChoiceError,
    request: &RollbackOrder,
    deployment: Option<&Deployment>,
) -> RollbackError {
    let RollbackOrder { target, app, live, .. } = request;
    match (no_choice, deployment) {
        // The caller has named what is live: something that can be rolled back to was there.
        (RevisionChoiceError::NoApp, _) if live.is_some() => {
            RollbackError::Outdated(format!("there is no {app} on {target} any more"))
        }
        (RevisionChoiceError::NoApp, _) => {
            RollbackError::Unknown(format!("there is no {app} on {target}"))
        }
        (RevisionChoiceError::Live(id), _) => {
            against(request, format!("revision {id} of {app} is live on {target} already"))
        }
        (RevisionChoiceError::NoneBefore(id), _) => RollbackError::Against(format!(
            "revision {id} of {app} is the oldest that {target} keeps: there is none before it; \
             name a newer one, or deploy an older tag"
        )),
        (RevisionChoiceError::NoneGood(fault), _) => {
            let newest = match fault {
                RevisionFault::RolledBack(RollbackMark { revision, by, reason, .. }) => {
                    format!("{revision} was rolled back from by {by}: {reason}")
                }
                RevisionFault::Failed(ClusterFailure { revision, summary, .. }) => {
                    let summary = truncate_chars(&summary, LONGEST_CAUSE);
                    format!("{revision} failed in the cluster: {summary}")
                }
                RevisionFault::Unproven(id) => format!("{id} was replaced before its pods ran"),
            };
            RollbackError::Against(format!(
                "no older revision of {app} that {target} keeps is a good one: {newest}; name one with `--to` to \
                 take it all the same, or deploy an older tag"
            ))
        }
        (RevisionChoiceError::NotKept(id), None) => {
            RollbackError::Unknown(format!("there is no revision {id} of {app} on {target}"))
        }
        (RevisionChoiceError::NotKept(id), Some(deployment)) => not_kept(&id, deployment, request),
    }
}

fn not_kept(id: &DeployId, deployment: &Deployment, request: &RollbackOrder) -> RollbackError {
    let RollbackOrder { target, app, .. } = request;
    let (recorded_request, tag) = (&deployment.request, &deployment.request.release.tag);
    if deployment.app.as_ref() != Some(app) || recorded_request.target != *target {
        let owner = deployment
            .app
            .as_ref()
            .map_or(recorded_request.release.repository.to_string(), ToString::to_string);
        return RollbackError::NotMeant(format!(
            "revision {id} is of {owner} on {}, not of {app} on {target}",
            recorded_request.target
        ));
    }
    match &deployment.pushed {
        Some(pushed) if !pushed.changed => RollbackError::NotMeant(format!(
            "deployment {id} made no revision: it changed nothing; name the one before it that has {tag}"
        )),
        Some(_) => {
            let problem = format!(
                "revision {id} is not kept any more: {target} keeps the newest five of {app}; deploy {tag} \
                 again"
            );
            against(request, problem)
        }
        None => RollbackError::NotMeant(format!(
            "deployment {id} made no revision: it is {}",
            deployment.state.as_str()
        )),
    }
}

pub(super) fn no_record_error(id: &DeployId) -> RollbackError {
    RollbackError::Against(format!(
        "the database has no record of revision {id}: `the-deployer rebuild` restores it from the \
         manifest repository"
    ))
}

/// Warns of a revision that failed in the cluster.
fn failure_note(failure: &ClusterFailure) -> String {
    let ClusterFailure { revision, deployment: _, summary, at } = failure;
    let (day, summary) = (at.strftime("%F"), truncate_chars(summary, LONGEST_CAUSE));
    format!("revision {revision} failed in the cluster on {day}: {summary}")
}

pub(super) fn candidate(id: DeployId, record: Option<&Deployment>) -> RollbackCandidate {
    RollbackCandidate {
        id,
        release: record.map(|deployment| deployment.request.release.clone()),
        by: record.map(|deployment| (deployment.request.actor.clone(), deployment.received_at)),
    }
}

/// Reads the files of `latest` and of the revision, and the disks of the former revisions.
pub(super) async fn read_files(
    repository: &ManifestRepository,
    (target, app): (&TargetName, &AppKey),
    to: &DeployId,
    folders: &AppFolders,
) -> Result<(Vec<ManifestFile>, Vec<ManifestFile>, Vec<Vec<ManifestFile>>), WriteError> {
    let latest = layout::latest_folder(target, app).to_string();
    let folder = layout::revision_folder(target, app, to).to_string();
    let live_files = repository.files_beside(&latest).await?;
    let revision_files = repository.files_beside(&folder).await?;
    let former_files = data::former_disks(repository, (target, app), folders, &live_files).await?;
    Ok((live_files, revision_files, former_files))
}

/// Returns the changes; `None` where files are not in the form that the service writes.
pub(super) fn changes(live: &[ManifestFile], revision: &[ManifestFile]) -> Option<Vec<Change>> {
    let (live, revision) = (diff::objects(live)?, diff::objects(revision)?);
    Some(diff::changes(&live, &revision, CONTEXT).0)
}
