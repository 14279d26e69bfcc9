//! The web pages `/` and `/deployments/{id}`, and every error as a page for browsers.
//!
//! ```text
//! record ─▶ view (pure: words, times, links) ─▶ html/*.html (askama, escaped)
//! ```
//!
//! A page is one answer: no script, no picture, no foreign font, and its one style sheet in it.
//!
//! Pages only show. So they accept the password of HTTP Basic, which browsers send by themselves; the API, which acts,
//! does not.

pub(crate) mod deployment; // the page of one deployment
mod document; // styles, security policy, escaping
mod list; // the newest deployments
pub(crate) mod timeline; // the log of a deployment, in sentences
mod words; // states, times and durations for people

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, VARY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::model::callers::{Pages, Scope};
use crate::model::id::DeployId;
use crate::server::auth::{Caller, CallerSurface};
use crate::server::call::{
    AuthenticatedRequest, PathParam, QueryPairs, bad, no_deployment, unavailable,
};
use crate::server::pages::deployment::DeploymentStory;
use crate::server::pages::document::PageError;
use crate::server::problem::{Problem, ProblemKind, ProblemText};
use crate::server::query;
use crate::server::routes::deployments;
use crate::server::state::Shared;

/// The challenge by which a browser asks for a password.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"the-deployer\"");

/// Builds the routes of all pages.
pub(super) fn routes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    // The API's answer, for people whose browser has sent their password, which the API does not accept. If the pages
    // are public these are not: they have more than a page.
    let data = Router::new()
        .route("/deployments/{id}/json", get(deployments::get))
        .layer(from_fn_with_state(shared.clone(), signed_in));
    Router::new()
        .route("/", get(newest))
        .route("/deployments/{id}", get(log))
        .layer(from_fn_with_state(shared.clone(), entered))
        .merge(data)
}

/// Shows the newest deployments, filtered as in the API's list.
async fn newest(
    call: AuthenticatedRequest,
    QueryPairs(pairs): QueryPairs,
) -> Result<Response, Problem> {
    let query::DeploymentsQuery { filter, before, limit } = query::read(&pairs).map_err(bad)?;
    let page = call.deployments().store.deployments(&filter, before.as_ref(), limit).await;
    let page = page.map_err(|error| unavailable(&error))?;
    let deployments = call
        .filter_visible(page.deployments, |deployment| call.caller.resource_of(deployment))
        .await?;
    let older = page.next.map(|next| query::from(&pairs, &next));
    html(StatusCode::OK, list::page(deployments, older, call.deployments().notices(None)))
}

/// Shows one deployment.
async fn log(
    call: AuthenticatedRequest,
    PathParam(id): PathParam<DeployId>,
    QueryPairs(pairs): QueryPairs,
) -> Result<Response, Problem> {
    let story = call.deployments().log(&id).await.map_err(|error| unavailable(&error))?;
    let log = DeploymentStory::new(story.ok_or_else(|| no_deployment(&id))?, call.deployments());
    call.authorize(Scope::Read, call.caller.resource_of(&log.deployment)).await?;
    let is_paused = pairs.iter().any(|(name, value)| name == "refresh" && value == "off");
    let notices = call.deployments().notices(Some(&log.deployment.request.target));
    html(StatusCode::OK, deployment::page(log, is_paused, notices))
}

async fn entered(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let admitted = match shared.state.pages {
        Pages::Open => shared.state.auth.is_for_us(&request).map(|()| {
            request.extensions_mut().insert(Caller::anonymous("anybody"));
            request
        }),
        Pages::Token => shared.state.auth.admit(request, CallerSurface::Page).await,
    };
    answer(admitted, next).await
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
    let Ok(page) = html(response.status(), page) else { return response };
    let (mut parts, _) = response.into_parts();
    let (page, body) = page.into_parts();
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

/// Answers with a page and its security headers. It shows who deploys what, so that nothing may cache it.
fn html(status: StatusCode, page: Result<String, PageError>) -> Result<Response, Problem> {
    let page = page.map_err(|error| {
        tracing::error!(%error, "page could not be rendered");
        Problem::new(
            ProblemKind::Internal,
            "the page could not be rendered; the service's log has more",
        )
    })?;
    let mut response = (status, page).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    if let Ok(policy) = HeaderValue::from_str(&document::policy()) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    Ok(response)
}
