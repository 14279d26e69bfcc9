//! `/api/v1/apps/{target}/{namespace}/{app}/rollback`, `…/hold`, `…/release`, and `/api/v1/holds`: rollbacks and holds.

use axum::Json;
use axum::http::StatusCode;

use crate::api::rollbacks::{
    self, HoldAnswer, HoldList, HoldRequest, HoldSummary, ReleaseRequest, RollbackAnswer,
    RollbackVersion,
};
use crate::deployments::BackendError;
use crate::deployments::rollback::{RollbackCandidate, RollbackError, RollbackResult};
use crate::model::app_instance::AppInstance;
use crate::model::callers::Scope;
use crate::model::id::{DeployId, TargetName};
use crate::model::release::Release;
use crate::model::removal::reason;
use crate::model::rollback::{Hold, RollbackOrder};
use crate::server::auth::Resource;
use crate::server::call::{
    AuthenticatedRequest, PathParam, Payload, QueryPairs, bad, unprocessable,
};
use crate::server::openapi::{Form, Parameter};
use crate::server::problem::{Problem, ProblemKind};
use crate::server::query::Params;
use crate::server::routes::apps::would_lose_data;

type Body<T> = Result<Payload<T>, Problem>;

/// The parameters of the list of holds.
pub(super) const HOLDS: &[Parameter] =
    &[Parameter::text("target", Form::TARGET, "Only holds on this target.")];

/// Makes a former revision live again.
pub(super) async fn roll_back(
    call: AuthenticatedRequest,
    PathParam(instance): PathParam<AppInstance>,
    body: Body<rollbacks::RollbackRequest>,
) -> Result<(StatusCode, Json<RollbackAnswer>), Problem> {
    call.authorize(Scope::Deploy, &instance).await?;
    let Payload(body) = body?;
    let rollbacks::RollbackRequest { to, live, reason: why, with_data, with_fewer_pods, dry_run } =
        body;
    let to = to.map(DeployId::parse).transpose();
    let to = to.map_err(|error| bad(format!("to: {error}")))?;
    let live = live.map(DeployId::parse).transpose();
    let live = live.map_err(|error| bad(format!("live: {error}")))?;
    let reason = reason(&why).map_err(unprocessable)?;
    let AppInstance { target, app } = instance;
    let request =
        RollbackOrder { target, app, to, live, reason, with_data, with_fewer_pods, dry_run };
    let reply = call.reply::<_, RollbackAnswer, 202>();
    let back = call.deployments().roll_back(request, call.by(), &reply).await?;
    let status = if dry_run { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(back.into())))
}

/// Holds automation off an app.
pub(super) async fn hold(
    call: AuthenticatedRequest,
    PathParam(instance): PathParam<AppInstance>,
    body: Body<HoldRequest>,
) -> Result<Json<HoldAnswer>, Problem> {
    call.authorize(Scope::Deploy, &instance).await?;
    let Payload(HoldRequest { reason: why }) = body?;
    let reason = reason(&why).map_err(unprocessable)?;
    let AppInstance { target, app } = instance;
    let reply = call.reply::<_, HoldAnswer, 200>();
    let hold = call.deployments().place_hold(target, app, reason, call.by(), &reply).await?;
    Ok(Json(hold.into()))
}

/// Ends a hold.
pub(super) async fn release(
    call: AuthenticatedRequest,
    PathParam(instance): PathParam<AppInstance>,
    body: Body<ReleaseRequest>,
) -> Result<Json<HoldAnswer>, Problem> {
    call.authorize(Scope::Deploy, &instance).await?;
    let Payload(ReleaseRequest { reason: why, rollback }) = body?;
    let rollback = rollback.map(DeployId::parse).transpose();
    let rollback = rollback.map_err(|error| bad(format!("rollback: {error}")))?;
    let reason = reason(&why).map_err(unprocessable)?;
    let AppInstance { target, app } = &instance;
    let reply = call.reply::<_, HoldAnswer, 200>();
    let release = (rollback.as_ref(), reason);
    let hold = call.deployments().release_hold(&instance, release, call.by(), &reply).await?;
    if let Some(hold) = hold {
        return Ok(Json(hold.into()));
    }
    // The hold that stops it may be of a fleet that has the cluster, or of a cluster of the fleet.
    let other = call.deployments().store.hold(target, app).await.unwrap_or_default();
    let place = other.map(|hold| format!(" itself: release the hold on {}", hold.target));
    let detail = format!("{app} is not held on {target}{}", place.unwrap_or_default());
    Err(Problem::new(ProblemKind::NotFound, detail))
}

/// Lists all holds, or those of a target.
pub(super) async fn holds(
    call: AuthenticatedRequest,
    QueryPairs(pairs): QueryPairs,
) -> Result<Json<HoldList>, Problem> {
    let params = Params::of(&pairs, HOLDS).map_err(bad)?;
    let target = params.id("target", TargetName::parse).map_err(bad)?;
    let holds = visible_holds(&call, target.as_ref()).await?;
    Ok(Json(HoldList { holds: holds.into_iter().map(HoldSummary::from).collect() }))
}

/// Returns the holds that the caller may see, on all targets or on one.
pub(in crate::server) async fn visible_holds(
    call: &AuthenticatedRequest,
    target: Option<&TargetName>,
) -> Result<Vec<Hold>, Problem> {
    let holds = call.deployments().holds(target).await.map_err(|error| unavailable(&error))?;
    let resource = |hold: &Hold| Resource::App(hold.target.clone(), hold.app.clone());
    call.filter_visible(holds, resource).await
}

impl From<RollbackError> for Problem {
    fn from(error: RollbackError) -> Self {
        match error {
            RollbackError::Unknown(detail) => Self::new(ProblemKind::NotFound, detail),
            RollbackError::Against(detail) => Self::new(ProblemKind::Conflict, detail),
            RollbackError::Outdated(detail) => Self::new(ProblemKind::Outdated, detail),
            RollbackError::KeepsData(objects) => {
                would_lose_data("the live revision keeps data", &objects)
            }
            RollbackError::NotMeant(detail) => Self::new(ProblemKind::Unprocessable, detail),
            RollbackError::Repository(detail) => Self::new(ProblemKind::Unavailable, detail),
            RollbackError::Fault(error) => unavailable(&error),
        }
    }
}

fn unavailable(error: &BackendError) -> Problem {
    tracing::error!(%error, "rollback or hold could not be read or stored");
    Problem::new(
        ProblemKind::Unavailable,
        "this cannot be recorded now; nothing was done, try again later",
    )
}

impl From<RollbackResult> for RollbackAnswer {
    fn from(back: RollbackResult) -> Self {
        let RollbackResult { deployment, from, to, warning, notes, hold, changes } = back;
        Self {
            deployment: deployment.map(Into::into),
            from: from.map(Into::into),
            to: to.into(),
            warning: warning.map(Into::into),
            notes,
            hold,
            changes,
        }
    }
}

impl From<RollbackCandidate> for RollbackVersion {
    fn from(version: RollbackCandidate) -> Self {
        let RollbackCandidate { id, release, by } = version;
        let (repository, commit, tag) = release
            .map(|Release { repository, app: _, commit, tag }| (repository, commit, tag))
            .map_or((None, None, None), |(a, b, c)| (Some(a), Some(b), Some(c)));
        let (actor, at) = by.map_or((None, None), |(actor, at)| (Some(actor), Some(at)));
        Self {
            id: id.into(),
            tag: tag.map(String::from),
            commit: commit.map(String::from),
            repository: repository.map(String::from),
            actor,
            at,
        }
    }
}

impl From<Hold> for HoldAnswer {
    fn from(hold: Hold) -> Self {
        Self { hold: hold.into() }
    }
}

impl From<Hold> for HoldSummary {
    fn from(hold: Hold) -> Self {
        let Hold { target, app, by, reason, since, rollback, away, to } = hold;
        Self {
            target: target.into(),
            app: app.to_string(),
            by,
            reason,
            since,
            rollback: rollback.map(String::from),
            from: away.map(|candidate| candidate.tag.into()),
            to: to.map(String::from),
        }
    }
}
