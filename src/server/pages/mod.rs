//! The web pages, and every error as a page for browsers.
//!
//! ```text
//! record ─▶ view (pure: words, times, links) ─▶ html/*.html (askama, escaped)
//! ```
//!
//! A page is complete without a script. Its style sheet and its script are files of the service (`assets.rs`); nothing
//! comes from elsewhere, and nothing is inline.
//!
//! Pages that show something accept a session, and the password of HTTP Basic, which browsers send by themselves. Acts
//! have pages of their own (`acts/`), which need a session and a form of this service; the API accepts neither.

mod assets; // the style sheet, the script and the icons
mod document; // frame, security policy, escaping
mod views; // from a request to a page
pub(super) mod live; // pages that change in place
pub(crate) mod grid; // apps × targets
mod app; // an app on a target
pub(crate) mod acts; // acts: what will happen, and the form that does it
pub(crate) mod deployment; // the page of one deployment
mod steps; // the timeline of a deployment
mod changes; // the difference between two sets of manifests
mod pods; // an app in its cluster
mod canary; // the canaries of a deployment
mod rollouts; // rollouts
mod insights; // figures and plots of a window
mod plot; // curves and bars as SVG
mod locks; // locks, holds and windows
mod audit; // the audit log
mod system; // the state of the service
mod list; // the newest deployments
pub(super) mod sign_in; // signing in and out
pub(crate) mod timeline; // the log of a deployment, in sentences
mod words; // states, times and durations for people

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
    VARY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::model::app_instance::AppInstance;
use crate::model::callers::Pages;
use crate::model::id::{DeployId, RolloutId};
use crate::server::auth::CallerSurface;
use crate::server::call::{AuthenticatedRequest, PathParam, QueryPairs};
use crate::server::conditional;
use crate::server::pages::document::{POLICY, PageError, RenderedPage};
use crate::server::problem::{Problem, ProblemKind, ProblemText};
use crate::server::routes::deployments;
use crate::server::state::Shared;

/// The challenge by which a browser asks for a password.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"the-deployer\"");

/// Builds the routes of all pages.
pub(super) fn routes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    // The API's answer, for people whose browser has sent their password, which the API does not accept; and who did
    // what. If the pages are public these are not: they have more than other pages.
    let data = Router::new()
        .route("/deployments/{id}/json", get(deployments::get))
        .route("/audit", get(audit_log))
        .layer(from_fn_with_state(shared.clone(), signed_in));
    Router::new()
        .route("/", get(grid))
        .route("/deployments", get(newest))
        .route("/deployments/{id}", get(log))
        .route("/apps/{target}/{namespace}/{app}", get(app))
        .route("/rollouts", get(rollout_list))
        .route("/rollouts/{id}", get(rollout))
        .route("/insights", get(insights))
        .route("/locks", get(lock_list))
        .route("/system", get(service_state))
        .layer(from_fn_with_state(shared.clone(), entered))
        .merge(data)
        .layer(from_fn(conditional::compressed))
        // Not compressed: the length of an answer must say nothing of the token in its form.
        .merge(acts::routes(shared))
        .route("/assets/{name}", get(assets::get))
}

/// Builds the routes of the streams by which open pages change.
pub(super) fn streams(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    Router::new()
        .route("/live/", get(live::follow_grid))
        .route("/live/deployments", get(live::follow_deployments))
        .route("/live/deployments/{id}", get(live::follow_deployment))
        .route("/live/apps/{target}/{namespace}/{app}", get(live::follow_app))
        .route("/live/rollouts", get(live::follow_rollouts))
        .route("/live/rollouts/{id}", get(live::follow_rollout))
        .layer(from_fn_with_state(shared.clone(), entered))
}

/// Shows the grid of apps on targets.
async fn grid(
    call: AuthenticatedRequest,
    QueryPairs(pairs): QueryPairs,
) -> Result<Response, Problem> {
    page(views::grid(&call, &pairs).await)
}

/// Shows the newest deployments, filtered as in the API's list.
async fn newest(
    call: AuthenticatedRequest,
    QueryPairs(pairs): QueryPairs,
) -> Result<Response, Problem> {
    page(views::deployments(&call, pairs).await)
}

/// Shows one deployment.
async fn log(
    call: AuthenticatedRequest,
    PathParam(id): PathParam<DeployId>,
    QueryPairs(pairs): QueryPairs,
) -> Result<Response, Problem> {
    page(views::deployment(&call, &id, &pairs).await)
}

/// Shows an app on a target.
async fn app(
    call: AuthenticatedRequest,
    PathParam(instance): PathParam<AppInstance>,
    QueryPairs(pairs): QueryPairs,
) -> Result<Response, Problem> {
    page(views::app(&call, &instance, &pairs).await)
}

/// Shows the newest rollouts, filtered as in the API's list.
async fn rollout_list(
    call: AuthenticatedRequest,
    QueryPairs(pairs): QueryPairs,
) -> Result<Response, Problem> {
    page(views::rollouts(&call, pairs).await)
}

/// Shows one rollout.
async fn rollout(
    call: AuthenticatedRequest,
    PathParam(id): PathParam<RolloutId>,
    QueryPairs(pairs): QueryPairs,
) -> Result<Response, Problem> {
    page(views::rollout(&call, &id, &pairs).await)
}

/// Shows how long the deployments of a window took, and how they ended.
async fn insights(
    call: AuthenticatedRequest,
    QueryPairs(pairs): QueryPairs,
) -> Result<Response, Problem> {
    page(views::insights(&call, pairs).await)
}

/// Shows locks, holds and windows.
async fn lock_list(call: AuthenticatedRequest) -> Result<Response, Problem> {
    page(views::locks(&call).await)
}

/// Shows the acts of people and programs.
async fn audit_log(
    call: AuthenticatedRequest,
    QueryPairs(pairs): QueryPairs,
) -> Result<Response, Problem> {
    page(views::audit(&call, pairs).await)
}

/// Shows the state of the service.
async fn service_state(call: AuthenticatedRequest) -> Result<Response, Problem> {
    page(views::system(&call).await)
}

fn page(page: Result<RenderedPage, Problem>) -> Result<Response, Problem> {
    Ok(html(StatusCode::OK, page?.html))
}

async fn entered(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let auth = &shared.state.auth;
    let sign_in = sign_in::sign_in_page_for(request.uri());
    // A browser without a password is asked to sign in; one with a wrong password, for another.
    let is_asked = !request.headers().contains_key(AUTHORIZATION)
        && wants_a_page(request.uri().path(), request.headers());
    let admitted = match shared.state.pages {
        Pages::Open => auth.admit_anybody(request).await,
        Pages::Token => auth.admit(request, CallerSurface::Page).await,
    };
    match admitted {
        Err(problem) if is_asked && problem.kind() == ProblemKind::Unauthorized => {
            sign_in::see_other(&sign_in)
        }
        Err(problem) => answer(Err(problem), next).await,
        Ok(request) => {
            let session = request.extensions().get().cloned();
            sign_in::unless_revoked(&shared, session, &sign_in, next.run(request).await).await
        }
    }
}

async fn signed_in(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let mut response =
        answer(shared.state.auth.admit(request, CallerSurface::Page).await, next).await;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn answer(admitted: Result<Request, Problem>, next: Next) -> Response {
    match admitted {
        Ok(request) => next.run(request).await,
        Err(problem) => {
            let is_unauthorized = problem.kind() == ProblemKind::Unauthorized;
            let mut response = problem.into_response();
            if is_unauthorized {
                response.headers_mut().insert(WWW_AUTHENTICATE, CHALLENGE);
            }
            response
        }
    }
}

/// Turns a problem into a page for browsers; programs get it unchanged.
pub(super) async fn readable(request: Request, next: Next) -> Response {
    let is_browser = wants_a_page(request.uri().path(), request.headers());
    let response = next.run(request).await;
    let Some(problem) = response.extensions().get::<ProblemText>().filter(|_| is_browser) else {
        return response;
    };
    let page = document::problem(response.status().as_u16(), problem.title, &problem.detail);
    let Ok(page) = page else { return response };
    let (mut parts, _) = response.into_parts();
    let (page, body) = html(parts.status, page).into_parts();
    for (name, value) in page.headers {
        if let Some(name) = name {
            parts.headers.insert(name, value);
        }
    }
    Response::from_parts(parts, body)
}

/// Returns whether the client is a browser: browsers name HTML; programs name JSON, anything, or nothing.
fn wants_a_page(path: &str, headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let for_programs = ["/api/", "/webhooks/", "/healthz", "/readyz", "/metrics"];
    !for_programs.iter().any(|begin| path.starts_with(begin)) && accept.contains("text/html")
}

/// Makes the problem of a page that could not be rendered.
#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
fn fault(error: PageError) -> Problem {
    tracing::error!(%error, "page could not be rendered");
    Problem::new(
        ProblemKind::Internal,
        "the page could not be rendered; the service's log has more",
    )
}

/// Lets the browser say where the forms of a page come from: from a page without any referrer it says `null` (Fetch
/// standard, "append a request `Origin` header").
fn with_forms(mut page: Response) -> Response {
    page.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    page
}

/// Answers with a page and its security headers. It shows who deploys what, so that nothing may cache it.
fn html(status: StatusCode, page: String) -> Response {
    let mut response = (status, page).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}
