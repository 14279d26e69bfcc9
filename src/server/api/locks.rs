//! `/api/v1/locks`: what people keep back, and why.

use std::sync::Arc;

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::{Extension, Json};

use crate::api::locks::{self, LockPage, LockSummary, UnlockRequest};
use crate::deployments::Fault;
use crate::deployments::locks::{Ends, LockRequest, NotLocked, NotUnlocked};
use crate::model::id::TargetName;
use crate::model::lock::{Lock, LockFilter, LockId, LockScope};
use crate::model::removal::reason;
use crate::server::Shared;
use crate::server::api::apps::unread;
use crate::server::api::idempotency::{RequestKey, answer};
use crate::server::api::path::bad;
use crate::server::api::query;
use crate::server::auth::{Caller, Scope, Subject};
use crate::server::openapi::{Form, Operation, Parameter};
use crate::server::problem::{Kind, Problem};
use crate::support::text::find_invisible;

const KNOWN: &str = "target, owner, app";

/// As long as an e-mail address may be.
const LONGEST_OWNER: usize = 254;

/// What the list may be asked.
const QUERY: &[Parameter] = &[
    Parameter::text("target", Form::TARGET, "Those that can stop a deployment to this cluster."),
    Parameter::text("owner", Form::OWNER, "Those that can stop an app of this team."),
    Parameter::text("app", Form::APP, "Those that can stop this app, `namespace/slug`."),
];

/// What is said of [`list`].
pub(super) fn list_operation() -> Operation {
    Operation::reads("listLocks", "What people keep back now, and why.")
        .query(QUERY)
        .gives::<LockPage>(200, "The locks, oldest first.")
}

/// What is said of [`place`].
pub(super) fn place_operation() -> Operation {
    Operation::acts("placeLock", "Keeps deployments back, with a reason.")
        .about(
            "A lock of an app needs the right to deploy it, one of a team the right to deploy \
             everything, one of a cluster or of everything `admin`.",
        )
        .takes::<locks::LockRequest>()
        .gives::<LockSummary>(201, "The lock.")
        .fails(&[Kind::Conflict])
}

/// What is said of [`remove`].
pub(super) fn remove_operation() -> Operation {
    Operation::acts("removeLock", "Takes a lock away.")
        .takes::<UnlockRequest>()
        .gives::<LockSummary>(200, "The lock that was taken away.")
        .fails(&[Kind::NotFound, Kind::Conflict])
}

/// The locks that can stop what is asked for. One of an app is seen by who may see the app.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    pairs: Result<Query<Vec<(String, String)>>, QueryRejection>,
) -> Result<Json<LockPage>, Problem> {
    let Query(pairs) = pairs.map_err(|_| bad("the query string cannot be read"))?;
    let filter = filter(&pairs).map_err(bad)?;
    let all = shared
        .state
        .deployments
        .ledger
        .locks(&filter)
        .await
        .map_err(|error| unavailable(&error))?;
    let is_apps = |(_, lock): &(LockId, Lock)| matches!(lock.scope, LockScope::App(..));
    let (of_apps, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_apps);
    let of_apps = shared.seen(&caller, of_apps, |(_, lock)| right(&lock.scope).1).await?;
    let mut all: Vec<_> = of_apps.into_iter().chain(others).collect();
    all.sort_by(|(a, one), (b, other)| (one.since, a).cmp(&(other.since, b)));
    Ok(Json(LockPage {
        locks: all.into_iter().map(|(id, lock)| LockSummary::new(&id, lock)).collect(),
    }))
}

/// Places a lock.
pub(super) async fn place(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Extension(key): Extension<RequestKey>,
    ask: Result<Json<locks::LockRequest>, JsonRejection>,
) -> Result<(StatusCode, Json<LockSummary>), Problem> {
    let Json(locks::LockRequest { scope, reason: text, until, lasting }) =
        ask.map_err(|error| unread(&error))?;
    let scope = read(scope).map_err(unmeant)?;
    let (needed, subject) = right(&scope);
    shared.may(&caller, needed, &subject).await?;
    let reason = reason(&text).map_err(unmeant)?;
    let ends = match (until, lasting) {
        (Some(_), Some(_)) => return Err(unmeant("say `until` or `for`, and not both")),
        (until, lasting) => until.map(Ends::At).or(lasting.map(Ends::After)),
    };
    let request = LockRequest { scope, reason, ends };
    let reply = key.reply(|(id, lock): &(LockId, Lock)| {
        answer(StatusCode::CREATED, &LockSummary::new(id, lock.clone()))
    });
    let placed = shared
        .state
        .deployments
        .ledger
        .lock(request, caller.by(), &reply)
        .await
        .map_err(refused)?;
    Ok((StatusCode::CREATED, Json(LockSummary::new(&placed.0, placed.1))))
}

/// Takes a lock away.
pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    Extension(key): Extension<RequestKey>,
    id: Result<Path<String>, PathRejection>,
    ask: Result<Json<UnlockRequest>, JsonRejection>,
) -> Result<Json<LockSummary>, Problem> {
    let Path(id) = id.map_err(|_| bad("the path cannot be read"))?;
    let id = LockId::parse(id).map_err(|error| bad(error.to_string()))?;
    let Json(UnlockRequest { reason: text }) = ask.map_err(|error| unread(&error))?;
    let ledger = &shared.state.deployments.ledger;
    let there = ledger.find_lock(&id).await.map_err(|error| unavailable(&error))?;
    let there = there.ok_or_else(|| kept(NotUnlocked::Unknown(id.clone())))?;
    let (needed, subject) = right(&there.scope);
    shared.may(&caller, needed, &subject).await?;
    let reason = reason(&text).map_err(unmeant)?;
    let reply = key.reply(|(id, lock): &(LockId, Lock)| {
        answer(StatusCode::OK, &LockSummary::new(id, lock.clone()))
    });
    let lock = ledger.unlock(&id, reason, caller.by(), &reply).await.map_err(kept)?;
    Ok(Json(LockSummary::new(&id, lock)))
}

/// What it takes to place a lock of that scope, or to take it away: the right to deploy all that it
/// stops; what many teams share is the operators'.
fn right(scope: &LockScope) -> (Scope, Subject) {
    match scope {
        LockScope::App(target, app) => (Scope::Deploy, Subject::App(target.clone(), app.clone())),
        LockScope::Owner(_) => (Scope::Deploy, Subject::Everywhere),
        LockScope::Target(target) => (Scope::Admin, Subject::Target(target.clone())),
        LockScope::Everything => (Scope::Admin, Subject::Everywhere),
    }
}

fn read(scope: locks::LockScope) -> Result<LockScope, String> {
    let locks::LockScope { everything, target, owner, app } = scope;
    let target = target.map(TargetName::parse).transpose().map_err(|error| error.to_string())?;
    match (everything, target, owner, app) {
        (Some(true), None, None, None) => Ok(LockScope::Everything),
        (None, Some(target), None, None) => Ok(LockScope::Target(target)),
        (None, Some(target), None, Some(app)) => Ok(LockScope::App(target, query::app(&app)?)),
        (None, None, Some(text), None) => owner_of(&text).map(LockScope::Owner),
        _ => Err("say whom it stops, as one of {\"everything\": true}, {\"target\": T}, \
                      {\"owner\": O}, {\"target\": T, \"app\": \"NAMESPACE/SLUG\"}"
            .to_owned()),
    }
}

fn owner_of(text: &str) -> Result<String, String> {
    let owner = text.trim();
    let legal = !owner.is_empty()
        && owner.chars().count() <= LONGEST_OWNER
        && !owner.chars().any(char::is_control)
        && find_invisible(owner).is_none();
    if legal { Ok(owner.to_owned()) } else { Err("owner: write the WAML's `owner`".to_owned()) }
}

/// Reads the parameters, each at most once; the message says which one is wrong.
fn filter(pairs: &[(String, String)]) -> Result<LockFilter, String> {
    query::once(pairs)?;
    let mut filter = LockFilter::default();
    for (name, value) in pairs {
        match name.as_str() {
            "target" => filter.target = Some(query::id(name, value, TargetName::parse)?),
            "owner" => filter.owner = Some(owner_of(value)?),
            "app" => filter.app = Some(query::app(value)?),
            _ => return Err(format!("{} is not known: use {KNOWN}", query::shown(name))),
        }
    }
    Ok(filter)
}

fn unmeant(detail: impl Into<String>) -> Problem {
    Problem::new(Kind::Unprocessable, detail)
}

fn unavailable(error: &Fault) -> Problem {
    tracing::error!(%error, "locks could not be read or written");
    Problem::new(Kind::Unavailable, "locks cannot be read or written now; come again")
}

fn refused(error: NotLocked) -> Problem {
    match error {
        NotLocked::Unmeant(detail) => unmeant(detail),
        NotLocked::TooLong => unmeant(error.to_string()),
        NotLocked::TooMany => Problem::new(Kind::Conflict, error.to_string()),
        NotLocked::Fault(error) => unavailable(&error),
    }
}

fn kept(error: NotUnlocked) -> Problem {
    match error {
        NotUnlocked::Unknown(_) => Problem::new(Kind::NotFound, error.to_string()),
        NotUnlocked::Gone { .. } | NotUnlocked::RanOut(_) => {
            Problem::new(Kind::Conflict, error.to_string())
        }
        NotUnlocked::Fault(error) => unavailable(&error),
    }
}
