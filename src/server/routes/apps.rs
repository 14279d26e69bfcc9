//! `/api/v1/apps`: lists apps from the manifest repositories, shows one with its revisions, and removes it.

use axum::Json;

use crate::api::apps::{
    self, AppDetail, AppPage, AppSummary, FailedDeployment, LiveRevision, LiveRollback,
    MissingRepository, RemovalAnswer, SyncSummary,
};
use crate::api::locks::LockSummary;
use crate::api::revisions::{
    RevisionDetail, RevisionFailure, RevisionFile, RevisionList, RevisionRollback, RevisionSummary,
};
use crate::api::rollbacks::HoldSummary;
use crate::deployments::app_state::{AppNow, SyncNotice};
use crate::deployments::apps::{AppLine, AppState, AppsPage, AppsQuery};
use crate::deployments::history::{History, HistoryEntry, HistoryError, RevisionFiles};
use crate::deployments::removal::{RemovalError, RemovalOutcome, RemovalResult};
use crate::manifests::diff;
use crate::model::app_instance::{AppInstance, InstanceState};
use crate::model::callers::Scope;
use crate::model::deployment::Deployment;
use crate::model::facts::LiveObject;
use crate::model::id::{DeployId, TargetName};
use crate::model::live_history::{ClusterFailure, RollbackMark};
use crate::model::removal::{NewRemoval, RemovalEnd, RemovalRecord, RemovedObjects, reason};
use crate::model::revision::ManifestFile;
use crate::model::rollback::Rollback;
use crate::server::auth::Resource;
use crate::server::call::{
    AuthenticatedRequest, PathParam, Payload, QueryPairs, bad, unprocessable,
};
use crate::server::openapi::{Form, Parameter, ParameterForm};
use crate::server::problem::{Problem, ProblemKind};
use crate::server::query::{self, Params};

/// The number of names that a message lists.
const MAX_NAMES: usize = 20;

/// The parameters of the list of apps.
pub(super) const QUERY: &[Parameter] = &[
    Parameter::text("target", Form::TARGET, "Only apps on this target."),
    Parameter::text("app", Form::APP, "Only this app: `NAMESPACE/SLUG`."),
    Parameter::text(
        "owner",
        Form::OWNER,
        "Only apps of this owner: an e-mail address, as in the app's Application.",
    ),
    Parameter::new(
        "state",
        ParameterForm::Words(&["live", "edited", "locked", "held"]),
        "Only apps in this state: `edited` means a manual edit.",
    ),
    query::LIMIT,
    Parameter::text("cursor", Form::APP_INSTANCE, "The `next` of the page before."),
];

/// Lists the apps that pass the filter, by target, namespace and name.
pub(super) async fn list(
    call: AuthenticatedRequest,
    QueryPairs(pairs): QueryPairs,
) -> Result<Json<AppPage>, Problem> {
    let query = read(&pairs).map_err(bad)?;
    let page = call.deployments().apps(&query).await;
    let mut page = page.map_err(|detail| Problem::new(ProblemKind::Unavailable, detail))?;
    page.apps = call.filter_visible(page.apps, |line| Resource::from(&line.state.instance)).await?;
    Ok(Json(page.into()))
}

/// Shows one app on one target.
pub(super) async fn get(
    call: AuthenticatedRequest,
    PathParam(instance): PathParam<AppInstance>,
) -> Result<Json<AppDetail>, Problem> {
    call.authorize(Scope::Read, &instance).await?;
    let app_now = call.deployments().find_app(&instance).await?;
    let app = app_now.ok_or_else(|| no_such_app(&instance))?;
    Ok(Json(AppDetail::new(instance, app)))
}

/// Lists the revisions of an app.
pub(super) async fn revisions(
    call: AuthenticatedRequest,
    PathParam(instance): PathParam<AppInstance>,
) -> Result<Json<RevisionList>, Problem> {
    call.authorize(Scope::Read, &instance).await?;
    let history = call.deployments().find_history(&instance).await?;
    Ok(Json(history.ok_or_else(|| no_such_app(&instance))?.into()))
}

/// Shows one revision.
pub(super) async fn revision(
    call: AuthenticatedRequest,
    PathParam((instance, id)): PathParam<(AppInstance, DeployId)>,
) -> Result<Json<RevisionDetail>, Problem> {
    call.authorize(Scope::Read, &instance).await?;
    let files = call.deployments().find_revision(&instance, &id).await?;
    let revision = files.ok_or_else(|| {
        let AppInstance { target, app } = &instance;
        let detail = format!("{app} has no revision {id} on {target}: five are kept of each app");
        Problem::new(ProblemKind::NotFound, detail)
    })?;
    Ok(Json(revision.into()))
}

/// Takes an app off a target.
pub(super) async fn remove(
    call: AuthenticatedRequest,
    PathParam(instance): PathParam<AppInstance>,
    body: Result<Payload<apps::RemovalRequest>, Problem>,
) -> Result<Json<RemovalAnswer>, Problem> {
    call.authorize(Scope::Deploy, &instance).await?;
    let Payload(apps::RemovalRequest { reason: text, with_data, dry_run }) = body?;
    let reason = reason(&text).map_err(unprocessable)?;
    let (AppInstance { target, app }, by) = (instance, call.by());
    let request = NewRemoval { target, app, by, reason, with_data, dry_run };
    let reply = call.reply::<RemovalResult, RemovalAnswer, 200>();
    Ok(Json(call.deployments().remove(request, reply).await?.into()))
}

/// Reads the parameters; the message says which one is wrong.
fn read(pairs: &[(String, String)]) -> Result<AppsQuery, String> {
    let params = Params::of(pairs, QUERY)?;
    Ok(AppsQuery {
        target: params.id("target", TargetName::parse)?,
        app: params.app()?,
        owner: params.text("owner"),
        state: params.read("state", state)?,
        after: params.read("cursor", cursor)?,
        limit: params.limit()?,
    })
}

fn state(value: &str) -> Result<AppState, String> {
    let app_state = AppState::ALL.into_iter().find(|state| state.as_str() == value);
    app_state.ok_or_else(|| {
        let words = AppState::ALL.map(AppState::as_str).join(", ");
        format!("state: {} is not a state of an app: use {words}", query::quote_value(value))
    })
}

fn cursor(value: &str) -> Result<AppInstance, String> {
    let wrong = || format!("cursor: {} is not the `next` of a page", query::quote_value(value));
    AppInstance::parse(value).ok_or_else(wrong)
}

fn no_such_app(instance: &AppInstance) -> Problem {
    Problem::new(
        ProblemKind::NotFound,
        format!("there is no {} on {}", instance.app, instance.target),
    )
}

impl From<HistoryError> for Problem {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Repository(detail) => Self::new(ProblemKind::Unavailable, detail),
            HistoryError::Fault(error) => {
                tracing::error!(%error, "app could not be read");
                Self::new(ProblemKind::Unavailable, "the app cannot be read now; try again later")
            }
        }
    }
}

impl From<RemovalError> for Problem {
    fn from(error: RemovalError) -> Self {
        match error {
            RemovalError::Unknown(detail) => Self::new(ProblemKind::NotFound, detail),
            RemovalError::Busy(detail) | RemovalError::Changed(detail) => {
                Self::new(ProblemKind::Conflict, detail)
            }
            RemovalError::KeepsData(objects) => would_lose_data("the app keeps data", &objects),
            RemovalError::Foreign(paths) => Self::new(
                ProblemKind::Conflict,
                format!(
                    "these files in its folder are not the service's: {}; move them away first",
                    enumerate(paths.into_iter())
                ),
            ),
            // Of rollouts alone, which make no request here.
            error @ RemovalError::Superseded(_) => {
                Self::new(ProblemKind::Conflict, error.to_string())
            }
            RemovalError::Repository(detail) => Self::new(ProblemKind::Unavailable, detail),
            RemovalError::Fault(error) => {
                tracing::error!(%error, "app could not be removed");
                Self::new(
                    ProblemKind::Unavailable,
                    "the app cannot be removed now; try again later",
                )
            }
        }
    }
}

/// Makes the problem of an act that would lose data, in the same words for each act.
pub(super) fn would_lose_data(beginning: &str, objects: &[LiveObject]) -> Problem {
    let objects = enumerate(objects.iter().map(ToString::to_string));
    let detail = format!("{beginning}: {objects}; set `with_data` to allow the loss");
    Problem::new(ProblemKind::WouldLoseData, detail)
}

fn enumerate(names: impl ExactSizeIterator<Item = String>) -> String {
    let hidden = names.len().saturating_sub(MAX_NAMES);
    let mut names: Vec<String> = names.take(MAX_NAMES).collect();
    names.extend((hidden > 0).then(|| format!("{hidden} more")));
    names.join(", ")
}

impl From<AppsPage> for AppPage {
    fn from(page: AppsPage) -> Self {
        let AppsPage { apps, next, missing } = page;
        let summary = |AppLine { state, locked, held, tag, at, failed }: AppLine| {
            let InstanceState {
                instance: AppInstance { target, app },
                live,
                hosts,
                owner,
                repository,
            } = state;
            AppSummary {
                target: target.into(),
                namespace: app.namespace.into(),
                app: app.slug.into(),
                live_revision: live.map(String::from),
                tag: tag.map(String::from),
                at,
                hosts: hosts.into_iter().collect(),
                owner,
                repository: repository.map(String::from),
                locked,
                held,
                failed: failed.map(|(id, tag)| FailedDeployment { id: id.into(), tag: tag.into() }),
            }
        };
        let missing =
            missing.into_iter().map(|(repository, why)| MissingRepository { repository, why });
        Self {
            apps: apps.into_iter().map(summary).collect(),
            next: next.map(|instance| instance.to_string()),
            missing: missing.collect(),
        }
    }
}

impl AppDetail {
    /// Makes the answer. It names every field, so that a new field asks here whether to be shown.
    pub(super) fn new(instance: AppInstance, now: AppNow) -> Self {
        let AppNow {
            state,
            live,
            rollback,
            hand_edited,
            under_way,
            last,
            unread,
            locks,
            hold,
            sync,
        } = now;
        let of_last = |last: &Deployment| {
            let owner = last.contact.as_ref().map(|contact| contact.owner.clone());
            (Some(last.request.release.repository.clone()), owner)
        };
        let (said_repository, said_owner) = last.as_ref().map(of_last).unwrap_or_default();
        let (hosts, owner, repository) =
            state.map(|state| (state.hosts, state.owner, state.repository)).unwrap_or_default();
        Self {
            target: instance.target.into(),
            namespace: instance.app.namespace.into(),
            app: instance.app.slug.into(),
            repository: repository.or(said_repository).map(String::from),
            owner: owner.or(said_owner),
            hosts: hosts.into_iter().collect(),
            live: live.map(|live| LiveRevision::new(live, rollback)),
            hand_edited,
            under_way: under_way.into_iter().map(Into::into).collect(),
            last: unread.or(last).map(Into::into),
            locks: locks.into_iter().map(LockSummary::from).collect(),
            hold: hold.map(HoldSummary::from),
            sync: sync.into(),
        }
    }
}

impl LiveRevision {
    fn new(revision: HistoryEntry, rollback: Option<Deployment>) -> Self {
        let HistoryEntry { id, app_name, tag, commit, at, actor, .. } = revision;
        Self {
            revision: id.into(),
            app_name: app_name.map(String::from),
            tag: tag.map(String::from),
            commit: commit.map(String::from),
            at,
            actor,
            rollback: rollback.and_then(LiveRollback::from_deployment),
        }
    }
}

impl LiveRollback {
    /// Makes the part about a rollback; `None` for a deployment that is none.
    fn from_deployment(deployment: Deployment) -> Option<Self> {
        let Deployment { id, request, rollback, finished_at, .. } = deployment;
        let Rollback { from, reason, .. } = rollback?;
        let from = from.map(String::from);
        Some(Self { id: id.into(), from, by: request.actor, reason, at: finished_at })
    }
}

impl From<SyncNotice> for SyncSummary {
    fn from(sync: SyncNotice) -> Self {
        let (state, why, told_at) = match sync {
            SyncNotice::Delivered(at) => ("told", None, Some(at)),
            SyncNotice::Waiting => ("waiting", None, None),
            SyncNotice::GivenUp(why) => ("given-up", Some(why), None),
            SyncNotice::ByItself => ("by-itself", None, None),
        };
        Self { state: state.to_owned(), why, told_at }
    }
}

impl From<History> for RevisionList {
    fn from(history: History) -> Self {
        let History { revisions, hand_edited } = history;
        Self { revisions: revisions.into_iter().map(Into::into).collect(), hand_edited }
    }
}

impl From<HistoryEntry> for RevisionSummary {
    fn from(revision: HistoryEntry) -> Self {
        let HistoryEntry {
            id,
            tree,
            live,
            app_name: _,
            tag,
            commit,
            repository,
            actor,
            reason,
            at,
            template,
            digest,
            rolled_back,
            failure,
        } = revision;
        Self {
            id: id.into(),
            tree,
            live,
            tag: tag.map(String::from),
            commit: commit.map(String::from),
            repository: repository.map(String::from),
            actor,
            reason,
            at,
            template,
            digest: digest.map(|digest| digest.0),
            rolled_back: rolled_back.map(Into::into),
            failed: failure.map(Into::into),
        }
    }
}

impl From<RevisionFiles> for RevisionDetail {
    fn from(revision: RevisionFiles) -> Self {
        let RevisionFiles { revision, files, changes } = revision;
        let files = files.into_iter().map(Into::into).collect();
        Self { summary: revision.into(), files, changes }
    }
}

impl From<ManifestFile> for RevisionFile {
    fn from(file: ManifestFile) -> Self {
        let text = diff::masked_text(&file);
        Self { name: file.name, text }
    }
}

impl From<ClusterFailure> for RevisionFailure {
    fn from(failure: ClusterFailure) -> Self {
        let ClusterFailure { revision: _, deployment, summary, at } = failure;
        Self { deployment: deployment.into(), summary, at }
    }
}

impl From<RollbackMark> for RevisionRollback {
    fn from(from: RollbackMark) -> Self {
        let RollbackMark { revision: _, rollback, by, reason, at } = from;
        Self { rollback: rollback.into(), by, reason, at }
    }
}

/// Names every field of the record, so that a new field asks here whether to be shown.
impl From<RemovalResult> for RemovalAnswer {
    fn from(removal: RemovalResult) -> Self {
        let RemovalRecord { id, target, app, actor, reason, taken, asked_at, ended } =
            removal.removal;
        let RemovedObjects { files, objects, keeps_data, digest, repository: _, notes } = taken;
        let (commit, summary) = match ended {
            Some(RemovalEnd { at: _, commit, summary }) => (commit, Some(summary)),
            None => (None, None),
        };
        Self {
            outcome: match removal.outcome {
                RemovalOutcome::Now => "removed",
                RemovalOutcome::Before => "already-removed",
                RemovalOutcome::Would => "would-remove",
            }
            .to_owned(),
            id: (removal.outcome != RemovalOutcome::Would).then(|| id.into()),
            target: target.into(),
            app: app.to_string(),
            actor,
            reason,
            asked_at,
            commit: commit.map(String::from),
            summary,
            digest: digest.map(|digest| digest.0),
            files,
            objects,
            keeps_data,
            notes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &[(&str, &str)]) -> Result<AppsQuery, String> {
        let to_owned_pair =
            |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        read(&text.iter().map(to_owned_pair).collect::<Vec<_>>())
    }

    #[test]
    fn all_parameters_are_read() {
        let query = pairs(&[
            ("target", "prod"),
            ("app", "devx/shop"),
            ("owner", "squad@example.com"),
            ("state", "held"),
            ("limit", "7"),
            ("cursor", "prod/devx/shop"),
        ]);
        let AppsQuery { target, app, owner, state, after, limit } = query.unwrap();
        assert_eq!((owner.as_deref(), state), (Some("squad@example.com"), Some(AppState::Held)));
        assert_eq!(app.unwrap().to_string(), "devx/shop");
        assert_eq!((target.unwrap().as_str(), limit), ("prod", 7));
        assert_eq!(after, AppInstance::parse("prod/devx/shop"));
        assert_eq!(pairs(&[]).unwrap().limit, query::DEFAULT_LIMIT);
    }

    #[test]
    fn the_contract_has_every_state() {
        let state = QUERY.iter().find(|parameter| parameter.name == "state").unwrap();
        let ParameterForm::Words(words) = state.kind else { panic!("{state:?}") };
        assert_eq!(words, AppState::ALL.map(AppState::as_str));
    }

    #[test]
    fn a_wrong_parameter_is_named_with_what_is_right() {
        for (name, value, message) in [
            ("limit", "0", "limit: \"0\" is not a number from 1 to 200"),
            ("cursor", "../x", "cursor: \"../x\" is not the `next` of a page"),
            (
                "state",
                "failed",
                "state: \"failed\" is not a state of an app: use live, edited, locked, held",
            ),
            ("stat", "live", "\"stat\" is not known: use target, app, owner, state, limit, cursor"),
        ] {
            assert_eq!(pairs(&[(name, value)]).unwrap_err(), message);
        }
        assert!(pairs(&[("target", "a/b")]).unwrap_err().starts_with("target: "));
        let twice = pairs(&[("limit", "1"), ("limit", "2")]).unwrap_err();
        assert_eq!(twice, "\"limit\" is given twice");
    }
}
