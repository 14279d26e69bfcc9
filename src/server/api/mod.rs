//! `/api/v1`: what happened, and what people do, as JSON.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use crate::server::api::query::fuzz as fuzz_query;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;

use crate::server::Shared;
use crate::server::auth::{Door, admitted};
use crate::server::conditional::conditional;
use crate::server::openapi::{self, Routes};

use crate::server::problem::{Kind, Problem};

mod app; // one app, and its revisions
mod app_view; // as callers see them
mod apps; // what people do with an app
mod placed; // what is where
mod targets; // which clusters there are
pub(super) mod deployments; // what happened
mod events; // what happens
mod path; // what stands in a path
mod audit; // who did what
mod idempotency; // acts, each done once
mod whoami; // who calls
mod cancel; // a deployment is stopped
mod locks; // what people keep back
mod plan; // what a deployment would do
pub(super) mod query; // the list's parameters
mod host; // which code host, and deployments where it has none
mod builds; // what could be deployed
mod rollback; // a former revision made live again, and holds
mod view; // deployments as callers see them

/// Where all of it is.
pub(super) const BASE: &str = "/api/v1";

/// All routes that answer in time, behind the API's tokens; and the document of all routes, which
/// everybody may read.
pub(super) fn routes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    let (router, mut described) = working().apart();
    described.extend(open().apart().1);
    let (free, of_free) = free().apart();
    described.extend(of_free);
    router
        .layer(from_fn_with_state(shared.clone(), idempotency::idempotent))
        .layer(from_fn_with_state(shared.clone(), authenticated))
        .merge(free)
        .merge(openapi::served(BASE, described))
        .layer(from_fn(conditional))
}

/// Those that stay open, which have bounds of their own.
pub(super) fn streams(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    open().apart().0.layer(from_fn_with_state(shared.clone(), authenticated))
}

fn working() -> Routes<Arc<Shared>> {
    const APP: &str = "/apps/{target}/{namespace}/{app}";
    Routes::new()
        .get("/deployments", deployments::list, deployments::list_operation())
        .get("/deployments/{id}", deployments::one, deployments::one_operation())
        .get("/deployments/{id}/log", deployments::log, deployments::log_operation())
        .get("/apps", placed::list, placed::operation())
        .get("/targets", targets::list, targets::operation())
        .get("/platform", targets::platform, targets::platform_operation())
        .get(APP, app::one, app::one_operation())
        .get(&format!("{APP}/revisions"), app::revisions, app::revisions_operation())
        .get(&format!("{APP}/revisions/{{revision}}"), app::revision, app::revision_operation())
        .post(&format!("{APP}/remove"), apps::remove, apps::remove_operation())
        .post(&format!("{APP}/rollback"), rollback::roll_back, rollback::back_operation())
        .post(&format!("{APP}/hold"), rollback::hold, rollback::hold_operation())
        .post(&format!("{APP}/release"), rollback::release, rollback::release_operation())
        .post("/deployments", host::create, host::create_operation())
        .get("/builds", builds::list, builds::operation())
        .post("/builds", builds::of_waml, builds::of_waml_operation())
        .post("/deployments/{id}/cancel", cancel::cancel, cancel::operation())
        .get("/locks", locks::list, locks::list_operation())
        .post("/locks", locks::place, locks::place_operation())
        .post("/locks/{id}/remove", locks::remove, locks::remove_operation())
        .post("/plan", plan::plan, plan::operation())
        .get("/holds", rollback::holds, rollback::holds_operation())
        .get("/audit", audit::list, audit::operation())
        .get("/whoami", whoami::whoami, whoami::operation())
}

/// Those that need no token: whoever wants to log in must know where.
fn free() -> Routes<Arc<Shared>> {
    Routes::new().get("/forge", host::forge, host::forge_operation())
}

fn open() -> Routes<Arc<Shared>> {
    Routes::new().get("/deployments/{id}/events", events::follow, events::operation())
}

async fn authenticated(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    // Streams have no bound on time around them, and GitHub may be slow.
    let limit = shared.state.limits.request_timeout;
    let admitted = tokio::time::timeout(limit, admitted(&shared, request, Door::Api)).await;
    let request = admitted.unwrap_or_else(|_| {
        let detail = "it could not be found out in time who you are; come again";
        Err(Problem::new(Kind::TookTooLong, detail))
    })?;
    Ok(next.run(request).await)
}
