//! `/api/v1/locks`: lists, places and removes locks.

use axum::Json;
use axum::http::StatusCode;

use crate::api::locks::{self, LockPage, LockSummary, UnlockRequest};
use crate::deployments::BackendError;
use crate::deployments::locks::{LockError, LockExpiry, NewLock, UnlockError};
use crate::model::callers::Scope;
use crate::model::id::{LockId, TargetName};
use crate::model::lock::{Lock, LockFilter, LockScope};
use crate::model::removal::reason;
use crate::server::auth::Resource;
use crate::server::call::{
    AuthenticatedRequest, PathParam, Payload, QueryPairs, bad, unprocessable,
};
use crate::server::openapi::{Form, Parameter};
use crate::server::problem::{Problem, ProblemKind};
use crate::server::query::{self, Params};
use crate::support::text::find_invisible;

/// The longest owner, in characters: an e-mail address.
const LONGEST_OWNER: usize = 254;

/// The parameters of the list.
pub(super) const QUERY: &[Parameter] = &[
    Parameter::text(
        "target",
        Form::TARGET,
        "Only locks that can stop a deployment to this target.",
    ),
    Parameter::text("owner", Form::OWNER, "Only locks that can stop an app of this owner."),
    Parameter::text("app", Form::APP, "Only locks that can stop this app, `namespace/slug`."),
];

/// Lists the locks that pass the filter. A lock on an app is visible to callers who may see the app.
pub(super) async fn list(
    call: AuthenticatedRequest,
    QueryPairs(pairs): QueryPairs,
) -> Result<Json<LockPage>, Problem> {
    let filter = filter(&pairs).map_err(bad)?;
    let locks = visible_locks(&call, &filter).await?;
    Ok(Json(LockPage { locks: locks.into_iter().map(LockSummary::from).collect() }))
}

/// Returns the locks that pass the filter and that the caller may see, oldest first.
pub(in crate::server) async fn visible_locks(
    call: &AuthenticatedRequest,
    filter: &LockFilter,
) -> Result<Vec<(LockId, Lock)>, Problem> {
    let locks = call.deployments().ledger.locks(filter).await;
    let locks = locks.map_err(|error| unavailable(&error))?;
    let is_apps = |(_, lock): &(LockId, Lock)| matches!(lock.scope, LockScope::App(..));
    let (of_apps, wider): (Vec<_>, Vec<_>) = locks.into_iter().partition(is_apps);
    let of_apps = call.filter_visible(of_apps, |(_, lock)| required_right(&lock.scope).1).await?;
    let mut locks: Vec<_> = of_apps.into_iter().chain(wider).collect();
    locks.sort_by(|(a, lock), (b, other_lock)| (lock.since, a).cmp(&(other_lock.since, b)));
    Ok(locks)
}

/// Places a lock.
pub(super) async fn place(
    call: AuthenticatedRequest,
    Payload(body): Payload<locks::LockRequest>,
) -> Result<(StatusCode, Json<LockSummary>), Problem> {
    let locks::LockRequest { scope, reason: why, until, lasting } = body;
    let scope = read_scope(scope).map_err(unprocessable)?;
    let (needed_scope, resource) = required_right(&scope);
    call.authorize(needed_scope, resource).await?;
    let reason = reason(&why).map_err(unprocessable)?;
    let ends = match (until, lasting) {
        (Some(_), Some(_)) => return Err(unprocessable("say `until` or `for`, and not both")),
        (until, lasting) => until.map(LockExpiry::At).or(lasting.map(LockExpiry::After)),
    };
    let request = NewLock { scope, reason, ends };
    let reply = call.reply::<_, LockSummary, 201>();
    let lock = call.deployments().ledger.lock(request, call.by(), &reply).await?;
    Ok((StatusCode::CREATED, Json(lock.into())))
}

/// Removes a lock.
pub(super) async fn remove(
    call: AuthenticatedRequest,
    PathParam(id): PathParam<LockId>,
    Payload(UnlockRequest { reason: why }): Payload<UnlockRequest>,
) -> Result<Json<LockSummary>, Problem> {
    let ledger = &call.deployments().ledger;
    let lock = ledger.find_lock(&id).await.map_err(|error| unavailable(&error))?;
    let lock = lock.ok_or_else(|| UnlockError::Unknown(id.clone()))?;
    let (needed_scope, resource) = required_right(&lock.scope);
    call.authorize(needed_scope, resource).await?;
    let reason = reason(&why).map_err(unprocessable)?;
    let reply = call.reply::<_, LockSummary, 200>();
    let lock = ledger.unlock(&id, reason, call.by(), &reply).await?;
    Ok(Json((id, lock).into()))
}

/// Returns the permission that is needed to place or remove a lock of that scope: to deploy everything that it stops; a
/// scope of many teams needs an operator.
pub(in crate::server) fn required_right(scope: &LockScope) -> (Scope, Resource) {
    match scope {
        LockScope::App(target, app) => (Scope::Deploy, Resource::App(target.clone(), app.clone())),
        LockScope::Owner(_) => (Scope::Deploy, Resource::Everywhere),
        LockScope::Target(target) => (Scope::Admin, Resource::Target(target.clone())),
        LockScope::Everything => (Scope::Admin, Resource::Everywhere),
    }
}

/// Reads a scope; the message says how one is named.
pub(in crate::server) fn read_scope(scope: locks::LockScope) -> Result<LockScope, String> {
    let locks::LockScope { everything, target, owner, app } = scope;
    let target = target.map(TargetName::parse).transpose().map_err(|error| error.to_string())?;
    match (everything, target, owner, app) {
        (Some(true), None, None, None) => Ok(LockScope::Everything),
        (None, Some(target), None, None) => Ok(LockScope::Target(target)),
        (None, Some(target), None, Some(app)) => Ok(LockScope::App(target, query::app(&app)?)),
        (None, None, Some(text), None) => owner_of(&text).map(LockScope::Owner),
        _ => Err("name the scope as one of {\"everything\": true}, {\"target\": T}, \
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

/// Reads the parameters; the message says which one is wrong.
fn filter(pairs: &[(String, String)]) -> Result<LockFilter, String> {
    let params = Params::of(pairs, QUERY)?;
    Ok(LockFilter {
        target: params.id("target", TargetName::parse)?,
        owner: params.read("owner", owner_of)?,
        app: params.app()?,
    })
}

fn unavailable(error: &BackendError) -> Problem {
    tracing::error!(%error, "locks could not be read or stored");
    Problem::new(ProblemKind::Unavailable, "locks cannot be read or written now; try again later")
}

impl From<LockError> for Problem {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Unmeant(detail) => unprocessable(detail),
            LockError::TooLong => unprocessable(error.to_string()),
            LockError::TooMany => Self::new(ProblemKind::Conflict, error.to_string()),
            LockError::Fault(error) => unavailable(&error),
        }
    }
}

impl From<UnlockError> for Problem {
    fn from(error: UnlockError) -> Self {
        match error {
            UnlockError::Unknown(_) => Self::new(ProblemKind::NotFound, error.to_string()),
            UnlockError::Gone { .. } | UnlockError::RanOut(_) => {
                Self::new(ProblemKind::Conflict, error.to_string())
            }
            UnlockError::Fault(error) => unavailable(&error),
        }
    }
}
