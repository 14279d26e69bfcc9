//! `/api/v1/apps/{target}/{namespace}/{app}/rollback`, `…/hold`, `…/release`, and `/api/v1/holds`.

use std::sync::Arc;

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::{Extension, Json};

use crate::api::rollbacks::{
    self, HoldAnswer, HoldList, HoldRequest, HoldSummary, RollbackAnswer, RollbackVersion,
};
use crate::deployments::Fault;
use crate::deployments::rollback::{NotRolledBack, RolledBack, Version};
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::placed::Spot;
use crate::model::release::Release;
use crate::model::removal::reason;
use crate::model::rollback::{Hold, RollbackRequest};
use crate::server::Shared;
use crate::server::api::apps::{unread, would_lose_data};
use crate::server::api::idempotency::{RequestKey, answer};
use crate::server::api::path::{self, InPath, InQuery, bad};
use crate::server::api::query;
use crate::server::api::view::overview;
use crate::server::auth::{Caller, Scope, Subject};
use crate::server::openapi::{Form, Operation, Parameter};
use crate::server::problem::{Kind, Problem};
use crate::store::StoredAnswer;

type AppPath = InPath<(String, String, String)>;

/// The parameters of the list of holds.
const HOLDS: &[Parameter] = &[Parameter::text("target", Form::TARGET, "Only on this target.")];

/// What is said of [`roll_back`].
pub(super) fn back_operation() -> Operation {
    Operation::acts("rollBack", "Makes a former revision live again, byte for byte.")
        .about(
            "It is a deployment of its own and waits its turn. Where the target says so, automation is \
             held afterwards: only a person deploys over it, or releases the hold.",
        )
        .takes::<rollbacks::RollbackRequest>()
        .gives::<RollbackAnswer>(200, "What would be done; nothing was.")
        .gives::<RollbackAnswer>(202, "It is recorded, and will be done.")
        .fails(&[Kind::NotFound, Kind::Conflict, Kind::WouldLoseData])
}

/// Makes a former revision live again.
pub(super) async fn roll_back(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Extension(key): Extension<RequestKey>,
    path: AppPath,
    ask: Result<Json<rollbacks::RollbackRequest>, JsonRejection>,
) -> Result<(StatusCode, Json<RollbackAnswer>), Problem> {
    let (target, app) = allowed(&shared, &caller, path).await?;
    let Json(rollbacks::RollbackRequest { to, reason: text, with_data, with_fewer_pods, dry_run }) =
        ask.map_err(|error| unread(&error))?;
    let to = to.map(DeployId::parse).transpose();
    let to = to.map_err(|error| bad(format!("to: {error}")))?;
    let reason = why(&text)?;
    let request = RollbackRequest { target, app, to, reason, with_data, with_fewer_pods, dry_run };
    let reply = key.reply(|back: &RolledBack| answer(StatusCode::ACCEPTED, &view(back.clone())));
    let back = shared.state.deployments.roll_back(request, caller.by(), &reply).await;
    let status = if dry_run { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, Json(view(back.map_err(refused)?))))
}

/// What is said of [`hold()`].
pub(super) fn hold_operation() -> Operation {
    Operation::acts("holdApp", "Holds automation off an app on a target.")
        .takes::<HoldRequest>()
        .gives::<HoldAnswer>(200, "The hold.")
        .fails(&[Kind::NotFound, Kind::Conflict])
}

/// Holds automation off an app.
pub(super) async fn hold(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Extension(key): Extension<RequestKey>,
    path: AppPath,
    ask: Result<Json<HoldRequest>, JsonRejection>,
) -> Result<Json<HoldAnswer>, Problem> {
    let (target, app) = allowed(&shared, &caller, path).await?;
    let Json(HoldRequest { reason }) = ask.map_err(|error| unread(&error))?;
    let (reason, reply) = (why(&reason)?, key.reply(hold_answer));
    let held = shared.state.deployments.place_hold(target, app, reason, caller.by(), &reply).await;
    Ok(Json(HoldAnswer::from(held.map_err(refused)?)))
}

/// What is said of [`release`].
pub(super) fn release_operation() -> Operation {
    Operation::acts("releaseApp", "Ends a hold.")
        .takes::<HoldRequest>()
        .gives::<HoldAnswer>(200, "The hold that it was.")
        .fails(&[Kind::NotFound])
}

/// Ends a hold.
pub(super) async fn release(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Extension(key): Extension<RequestKey>,
    path: AppPath,
    ask: Result<Json<HoldRequest>, JsonRejection>,
) -> Result<Json<HoldAnswer>, Problem> {
    let (target, app) = allowed(&shared, &caller, path).await?;
    let Json(HoldRequest { reason }) = ask.map_err(|error| unread(&error))?;
    let nothing = format!("{app} is not held on {target}");
    let (reason, reply) = (why(&reason)?, key.reply(hold_answer));
    let released =
        shared.state.deployments.release_hold(target, app, reason, caller.by(), &reply).await;
    let hold = released.map_err(refused)?.ok_or_else(|| Problem::new(Kind::NotFound, nothing))?;
    Ok(Json(HoldAnswer::from(hold)))
}

/// What is said of [`holds`].
pub(super) fn holds_operation() -> Operation {
    Operation::reads("listHolds", "What automation is held off.")
        .query(HOLDS)
        .gives::<HoldList>(200, "The holds.")
}

/// All holds, or those of a target.
pub(super) async fn holds(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    pairs: InQuery,
) -> Result<Json<HoldList>, Problem> {
    let target = read(&path::pairs(pairs)?).map_err(bad)?;
    let holds = shared.state.deployments.holds(target.as_ref()).await;
    let holds = holds.map_err(|error| unavailable(&error))?;
    let subject = |hold: &Hold| Subject::App(hold.target.clone(), hold.app.clone());
    let holds = shared.seen(&caller, holds, subject).await?;
    Ok(Json(HoldList { holds: holds.into_iter().map(HoldSummary::from).collect() }))
}

fn read(pairs: &[(String, String)]) -> Result<Option<TargetName>, String> {
    query::once(pairs)?;
    let mut target = None;
    for (name, value) in pairs {
        match name.as_str() {
            "target" => target = Some(query::id(name, value, TargetName::parse)?),
            _ => return Err(query::unknown(name, HOLDS)),
        }
    }
    Ok(target)
}

async fn allowed(
    shared: &Shared,
    caller: &Caller,
    path: AppPath,
) -> Result<(TargetName, AppKey), Problem> {
    let Spot { target, app } = path::spot(path)?;
    shared.may(caller, Scope::Deploy, &Subject::App(target.clone(), app.clone())).await?;
    Ok((target, app))
}

fn why(text: &str) -> Result<String, Problem> {
    reason(text).map_err(|error| Problem::new(Kind::Unprocessable, error))
}

fn refused(error: NotRolledBack) -> Problem {
    match error {
        NotRolledBack::Unknown(detail) => Problem::new(Kind::NotFound, detail),
        NotRolledBack::Against(detail) => Problem::new(Kind::Conflict, detail),
        NotRolledBack::KeepsData(objects) => would_lose_data("what is live keeps data", &objects),
        NotRolledBack::NotMeant(detail) => Problem::new(Kind::Unprocessable, detail),
        NotRolledBack::Repository(detail) => Problem::new(Kind::Unavailable, detail),
        NotRolledBack::Fault(error) => unavailable(&error),
    }
}

fn unavailable(error: &Fault) -> Problem {
    tracing::error!(%error, "a rollback or hold could not be recorded or read");
    Problem::new(Kind::Unavailable, "this cannot be recorded now; nothing was done, come again")
}

fn view(back: RolledBack) -> RollbackAnswer {
    let RolledBack { deployment, from, to, warning, notes, hold, changes } = back;
    RollbackAnswer {
        deployment: deployment.map(overview),
        from: from.map(Into::into),
        to: to.into(),
        warning: warning.map(Into::into),
        notes,
        hold,
        changes,
    }
}

impl From<Version> for RollbackVersion {
    fn from(version: Version) -> Self {
        let Version { id, release, by } = version;
        let (repository, commit, tag) = release
            .map(|Release { repository, commit, tag }| (repository, commit, tag))
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

/// What is kept of the answer to who holds or releases.
fn hold_answer(hold: &Hold) -> StoredAnswer {
    answer(StatusCode::OK, &HoldAnswer::from(hold.clone()))
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
            from: away.map(|away| away.tag.into()),
            to: to.map(String::from),
        }
    }
}
