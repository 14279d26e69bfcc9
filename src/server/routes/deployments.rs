//! `/api/v1/deployments`: lists deployments, shows one with its log, creates and cancels them.

use axum::Json;
use axum::http::StatusCode;

use crate::api::deployments::{
    AppPart, CancelRequest, ClusterPart, DeployAnswer, DeployRequest, DeploymentDetail,
    DeploymentLog, DeploymentPage, DeploymentPicture, DeploymentSummary, LogLine, RollbackSummary,
    StatusSummary,
};
use crate::deployments::CodeHost;
use crate::deployments::create::{CreateError, CreatedDeployment, DeploymentToCreate};
use crate::deployments::locks::CancelError;
use crate::forge::github::client::personal_deployments::PersonalDeploymentError;
use crate::model::callers::Scope;
use crate::model::change::Change;
use crate::model::deployment::{Deployment, State};
use crate::model::event::DeploymentRequest;
use crate::model::github_deployment::RequiredChecks;
use crate::model::id::{AppName, DeployId, IdError, ImageTag, RepoName, TargetName};
use crate::model::person::IdentityError;
use crate::model::release::Release;
use crate::model::removal::reason;
use crate::model::rollback::Rollback;
use crate::server::auth::{Resource, login_problem};
use crate::server::call::{
    AuthenticatedRequest, PathParam, Payload, QueryPairs, bad, no_deployment, unavailable,
    unprocessable,
};
use crate::server::pages::deployment::DeploymentStory;
use crate::server::pages::timeline::{self, TimelineEntry};
use crate::server::problem::{Problem, ProblemKind};
use crate::server::query;
use crate::store::{Notification, Page};
use crate::support::text::refuse_invisible;

/// The longest description, in characters, as `model::event::DeploymentRequest::description` promises.
const DESCRIPTION_CHARACTERS: usize = 500;
/// The longest ref in bytes: GitHub's limit, with room for `refs/heads/`.
const REF_BYTES: usize = 300;

/// Lists the newest deployments that pass the filters.
pub(super) async fn list(
    call: AuthenticatedRequest,
    QueryPairs(pairs): QueryPairs,
) -> Result<Json<DeploymentPage>, Problem> {
    let query::DeploymentsQuery { filter, before, limit } = query::read(&pairs).map_err(bad)?;
    let page = call.deployments().store.deployments(&filter, before.as_ref(), limit).await;
    let mut page = page.map_err(|error| unavailable(&error))?;
    page.deployments = call
        .filter_visible(page.deployments, |deployment| call.caller.resource_of(deployment))
        .await?;
    Ok(Json(page.into()))
}

/// Shows one deployment with its stages, violations, statuses and changes.
pub(crate) async fn get(
    call: AuthenticatedRequest,
    PathParam(id): PathParam<DeployId>,
) -> Result<Json<DeploymentDetail>, Problem> {
    let deployments = call.deployments();
    let record = deployments.deployment(&id).await.map_err(|error| unavailable(&error))?;
    let (deployment, statuses) = record.ok_or_else(|| no_deployment(&id))?;
    call.authorize(Scope::Read, call.caller.resource_of(&deployment)).await?;
    let changes = deployments.changes(&deployment).await;
    let parts = deployments.store.fleet_parts(&id).await.map_err(|error| unavailable(&error))?;
    let apps = deployments.apps_of(&deployment).await.map_err(|error| unavailable(&error))?;
    let canary =
        deployments.store.canary_samples(&id).await.map_err(|error| unavailable(&error))?;
    let detail = DeploymentDetail::new(deployment, statuses, deployments.page_of(&id), changes);
    let clusters = parts.into_iter().map(Into::into).collect();
    let apps = apps.into_iter().map(Into::into).collect();
    Ok(Json(DeploymentDetail { clusters, apps, canary, ..detail }))
}

/// Shows the log of one deployment, oldest entry first.
pub(super) async fn log(
    call: AuthenticatedRequest,
    PathParam(id): PathParam<DeployId>,
) -> Result<Json<DeploymentLog>, Problem> {
    let story = call.deployments().log(&id).await.map_err(|error| unavailable(&error))?;
    let log = DeploymentStory::new(story.ok_or_else(|| no_deployment(&id))?, call.deployments());
    call.authorize(Scope::Read, call.caller.resource_of(&log.deployment)).await?;
    let line = |TimelineEntry { at, text }| LogLine { at, text };
    Ok(Json(DeploymentLog { lines: timeline::lines(&log).into_iter().map(line).collect() }))
}

/// Creates a deployment: here if the code host is local, and otherwise at GitHub, for people with a token of their own.
pub(super) async fn create(
    call: AuthenticatedRequest,
    Payload(body): Payload<DeployRequest>,
) -> Result<(StatusCode, Json<DeployAnswer>), Problem> {
    let request = read(body, &call.caller.name).map_err(unprocessable)?;
    let (repository, target) = (request.repository.clone(), request.target.clone());
    call.authorize(Scope::Deploy, Resource::Repository(repository, Some(target))).await?;
    let reply = call.reply::<_, DeployAnswer, 202>();
    let deployments = call.deployments();
    let created = match (&deployments.code_host, call.caller.github_token()) {
        (CodeHost::GitHub { .. }, Some(token)) => {
            let by = (call.by(), token);
            deployments.create_personal_deployment(request, by, &reply).await?
        }
        (_, _) => deployments.create_deployment(request, call.by(), &reply).await?,
    };
    Ok((StatusCode::ACCEPTED, Json(created.into())))
}

/// Cancels a deployment that waits, or whose push has not begun.
pub(super) async fn cancel(
    call: AuthenticatedRequest,
    PathParam(id): PathParam<DeployId>,
    Payload(CancelRequest { reason: why }): Payload<CancelRequest>,
) -> Result<Json<DeploymentSummary>, Problem> {
    let deployments = call.deployments();
    let record = deployments.store.deployment(&id).await.map_err(|error| not_cancelled(&error))?;
    let deployment = record.ok_or_else(|| CancelError::Unknown(id.clone()))?;
    call.authorize(Scope::Deploy, call.caller.resource_of(&deployment)).await?;
    let reason = reason(&why).map_err(unprocessable)?;
    let reply = call.reply::<_, DeploymentSummary, 200>();
    Ok(Json(deployments.cancel(&id, reason, call.by(), &reply).await?.into()))
}

/// Refuses what can be no ref.
pub(super) fn check_ref(git_ref: &str) -> Result<(), String> {
    let is_legal =
        !git_ref.is_empty() && git_ref.len() <= REF_BYTES && !git_ref.contains(char::is_control);
    if is_legal { Ok(()) } else { Err("ref: this is not a branch, tag or commit".to_owned()) }
}

fn read(body: DeployRequest, actor: &str) -> Result<DeploymentToCreate, String> {
    let DeployRequest {
        repository,
        git_ref,
        tag,
        target,
        app_name,
        description,
        required_contexts,
        require_all_contexts,
    } = body;
    let id_error = |name: &'static str| move |error: IdError| format!("{name}: {error}");
    check_ref(&git_ref)?;
    let description = description.unwrap_or_default();
    refuse_invisible("description", &description)?;
    let description = description.chars().filter(|c| !c.is_control());
    Ok(DeploymentToCreate {
        repository: RepoName::parse(repository).map_err(id_error("repository"))?,
        app: app_name.map(AppName::parse).transpose().map_err(id_error("app_name"))?,
        git_ref,
        tag: ImageTag::parse(tag).map_err(id_error("tag"))?,
        target: TargetName::parse(target).map_err(id_error("target"))?,
        description: description.take(DESCRIPTION_CHARACTERS).collect(),
        actor: actor.to_owned(),
        checks: RequiredChecks::new(require_all_contexts, required_contexts)?,
    })
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Elsewhere(detail) => Self::new(ProblemKind::Conflict, detail),
            CreateError::Unknown(detail) => Self::new(ProblemKind::Unprocessable, detail),
            CreateError::Refused(error) => personal_problem(error),
            CreateError::Unrecorded { number, cause } => {
                tracing::error!(number, error = %cause, "act could not be recorded");
                let detail = format!(
                    "deployment {number} was created at GitHub, and could not be recorded here; the same request may be \
                     sent again, and creates no other"
                );
                Self::new(ProblemKind::Unavailable, detail)
            }
            CreateError::Fault(error) => {
                tracing::error!(%error, "deployment could not be created");
                Self::new(ProblemKind::Unavailable, "it cannot be deployed now; try again later")
            }
        }
    }
}

/// Makes the problem of a deployment that GitHub did not create.
fn personal_problem(error: PersonalDeploymentError) -> Problem {
    match error {
        PersonalDeploymentError::Identity(IdentityError::RateLimited(wait)) => {
            let detail = "GitHub's rate limit of your token is reached; nothing was created: try again later";
            Problem::new(ProblemKind::Unavailable, detail).after(wait)
        }
        PersonalDeploymentError::Identity(IdentityError::Unavailable(reason)) => {
            let detail =
                format!("GitHub cannot be reached now ({reason}); nothing was created: try again");
            Problem::new(ProblemKind::Unavailable, detail)
        }
        PersonalDeploymentError::Identity(error) => login_problem(error),
        PersonalDeploymentError::Refused { status, message, help } => {
            let (kind, note) = match status {
                403 | 404 => (
                    ProblemKind::Forbidden,
                    "; a token of a GitHub App, such as a sign-in gives, may do what both you and the App may",
                ),
                409 => (ProblemKind::Conflict, ""),
                _ => (ProblemKind::Unprocessable, ""),
            };
            let detail =
                format!("GitHub refuses the deployment ({status}: {message}): {help}{note}");
            Problem::new(kind, detail)
        }
        PersonalDeploymentError::Unanswered(reason) => {
            let detail = format!(
                "GitHub did not answer ({reason}), and may have created the deployment; send the same again, which finds \
                 it and creates no other"
            );
            Problem::new(ProblemKind::Unavailable, detail)
        }
    }
}

impl From<CancelError> for Problem {
    fn from(error: CancelError) -> Self {
        match error {
            CancelError::Unknown(_) => Self::new(ProblemKind::NotFound, error.to_string()),
            CancelError::TooLate(detail) => Self::new(ProblemKind::Conflict, detail),
            CancelError::Fault(error) => not_cancelled(&error),
        }
    }
}

fn not_cancelled(error: &dyn std::error::Error) -> Problem {
    tracing::error!(%error, "deployment could not be cancelled");
    Problem::new(ProblemKind::Unavailable, "it cannot be cancelled now; try again later")
}

impl From<CreatedDeployment> for DeployAnswer {
    fn from(CreatedDeployment { id, forge_id }: CreatedDeployment) -> Self {
        Self { id: id.map(String::from), forge_id }
    }
}

impl From<Page> for DeploymentPage {
    fn from(page: Page) -> Self {
        let Page { deployments, next } = page;
        let deployments = deployments.into_iter().map(Into::into);
        Self { deployments: deployments.collect(), next: next.map(String::from) }
    }
}

impl DeploymentDetail {
    /// Makes the answer from the record, its statuses, its page and its changes.
    fn new(
        deployment: Deployment,
        statuses: Vec<Notification>,
        log_url: String,
        changes: Option<Vec<Change>>,
    ) -> Self {
        let Deployment { stages, marks, violations, log_tail, hand_edit, .. } = deployment.clone();
        Self {
            summary: deployment.into(),
            clusters: Vec::new(),
            apps: Vec::new(),
            stages,
            intervals: marks.intervals(),
            violations_left_out: violations.left_out(),
            violations: violations.into(),
            log_tail,
            canary: Vec::new(),
            hand_edit,
            statuses: statuses.into_iter().map(Into::into).collect(),
            log_url: Some(log_url),
            changes,
        }
    }
}

impl DeploymentPicture {
    /// Makes the picture from the record, those of its parts, and those of its apps.
    pub(super) fn new(
        deployment: Deployment,
        parts: Vec<Deployment>,
        apps: Vec<Deployment>,
    ) -> Self {
        let clusters = parts.into_iter().map(Into::into).collect();
        let apps = apps.into_iter().map(Into::into).collect();
        Self { stages: deployment.stages.clone(), summary: deployment.into(), clusters, apps }
    }
}

impl From<Deployment> for ClusterPart {
    fn from(part: Deployment) -> Self {
        Self {
            cluster: part.request.target.into(),
            deployment: part.id.into(),
            state: part.state,
            summary: part.summary,
            waiting: part.waiting,
            address: part.address,
            commit: part.pushed.map(|pushed| pushed.commit.into()),
        }
    }
}

impl From<Deployment> for AppPart {
    fn from(part: Deployment) -> Self {
        let Deployment { id, request, app, state, summary, address, .. } = part;
        Self {
            app_name: request.release.app.map(String::from).unwrap_or_default(),
            app: app.map(|app| app.to_string()),
            deployment: id.into(),
            state,
            summary,
            address,
        }
    }
}

/// Names every field of the record, so that a new field asks here whether to be shown.
impl From<Deployment> for DeploymentSummary {
    fn from(deployment: Deployment) -> Self {
        let Deployment {
            id,
            request,
            app,
            state,
            received_at,
            pushed_at,
            finished_at,
            waiting,
            log_tail: _,
            stages: _,
            marks,
            summary,
            violations,
            pushed,
            rollback,
            rollout,
            fleet,
            all_apps,
            parent,
            hand_edit: _,
            template,
            templates_commit,
            contact: _,
            address,
            attempts,
        } = deployment;
        let number = request.number();
        let DeploymentRequest {
            forge_id: _,
            release,
            target,
            git_ref,
            actor,
            description,
            production,
            automatic,
            recipient: _,
            identity: _,
            requested_at: _,
        } = request;
        let Release { repository, app: app_name, commit, tag } = release;
        Self {
            id: id.into(),
            state,
            app: app.map(|app| app.to_string()),
            app_name: app_name.map(String::from),
            all_apps,
            parent: parent.map(String::from),
            target: target.into(),
            repository: repository.into(),
            commit: commit.into(),
            git_ref,
            tag: tag.into(),
            actor,
            description,
            forge_id: number,
            automatic,
            rollout: rollout.map(String::from),
            fleet: fleet.map(String::from),
            rollback: rollback.map(|rollback| summarize(rollback, state, pushed.is_some())),
            received_at,
            pushed_at,
            finished_at,
            marks,
            summary,
            waiting,
            template,
            templates_commit: templates_commit.map(String::from),
            address,
            production,
            attempts,
            errors: violations.errors(),
            warnings: violations.warnings(),
            pushed,
        }
    }
}

fn summarize(rollback: Rollback, state: State, is_pushed: bool) -> RollbackSummary {
    let Rollback { to, from, reason, hold, .. } = rollback;
    let hold = hold
        && match state {
            State::Queued
            | State::Running
            | State::Pushing
            | State::Syncing
            | State::Progressing
            | State::Succeeded => true,
            // The push took it, whatever became of the pods.
            State::Failed | State::Superseded | State::Cancelled => is_pushed,
        };
    RollbackSummary { to: to.into(), from: from.map(String::from), reason, hold }
}

impl From<Notification> for StatusSummary {
    fn from(notification: Notification) -> Self {
        let Notification { status, at, sent_at, parked, skipped, .. } = notification;
        let description = status.description().to_owned();
        Self { state: status.state.as_str().to_owned(), description, at, sent_at, parked, skipped }
    }
}
