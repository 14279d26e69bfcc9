//! HTTP: events in, answers out.
//!
//! ```text
//! POST /webhooks/github           signature ─▶ event ─▶ Deployments::accept ─▶ 202
//! POST /webhooks/slack            buttons                (Slack's signature; only if configured)
//! GET  / /deployments/{id}        pages                  (a session, or a token as password)
//! POST /apps/…/rollback, …        acts from pages        (a session)
//! GET  /api/v1/deployments[/{id}] deployments            (bearer token, if one is configured)
//! GET  /api/v1/apps[/…]           apps and revisions     (the same)
//! POST /api/v1/apps/…/remove      acts of people         (the same)
//! POST /api/v1/clusters/{name}/observations  reports of agents  (each by a token of its own)
//! GET  /api/v1/clusters/{name}/log-requests, POST …/logs/{id}  logs that callers read through them
//! GET  /api/v1/openapi.json       all of these, for programs
//! GET  /healthz /readyz /metrics  alive? ready? numbers
//! ```
//!
//! The server authenticates and authorizes; beyond that a route parses the request, calls a use case of
//! [`Deployments`](crate::deployments::Deployments) or reads its store, and writes the answer. Every error is an
//! `application/problem+json`; no log line has a body or a secret.
//!
//! Read [`serve`] for listening and stopping, `middleware` for what surrounds each request, [`auth`] for callers and
//! permissions, `webhook` for events, `routes` for the API with the file of each noun, and `pages` for browsers.

pub mod problem; // errors as callers see them
mod limits; // limits of concurrent work
pub mod auth; // authentication and authorization
pub mod deliveries; // counts of webhooks by outcome
mod body_budget; // memory of unverified bodies
mod state; // the state of the routes

pub mod serve; // listens and stops
mod socket; // one client's socket
pub mod connections; // the open connections
pub mod descriptors; // the limit of open files
mod middleware; // the layers around every request

mod webhook; // /webhooks/github
mod signed_body; // reads a signed body
mod slack; // /webhooks/slack
mod slack_buttons; // the secret, and who is who
mod act_api; // requests to the API's routes, in this process
mod routes; // /api/v1
mod call; // extractors: the caller, and the values of path, query and body
mod query; // the parameters of lists
mod idempotency; // Idempotency-Key: each act is executed once
mod conditional; // ETags and compression
mod openapi; // the contract of the API
mod pages; // the pages for people
mod probes; // /healthz, /readyz, /metrics

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::server::limits::Class;
pub use crate::server::limits::ServerLimits;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use crate::server::query::fuzz as fuzz_query;
pub use crate::server::slack_buttons::SlackButtons;
pub(crate) use crate::server::state::ServerState;
use crate::server::state::Shared;
pub use crate::server::state::Webhook;

/// Builds all routes.
pub(crate) fn router(state: ServerState) -> Router {
    let shared = Arc::new(Shared::new(state));
    let webhooks = Router::new().route("/webhooks/github", post(webhook::github));
    let webhooks = webhooks.merge(slack::routes(&shared));
    let api = Router::new().nest(routes::BASE, routes::routes(&shared));
    let reports = Router::new().nest(routes::BASE, routes::reports());
    let ready = Router::new().route("/readyz", get(probes::readyz));
    let limiting_themselves = webhooks.merge(reports).merge(pages::sign_in::routes(&shared));
    let working = middleware::with_timeout(limiting_themselves, &shared)
        .merge(middleware::with_limits(api, &shared, Class::Api))
        .merge(middleware::with_limits(pages::routes(&shared), &shared, Class::Page))
        .merge(middleware::with_limits(ready, &shared, Class::Readiness));
    let routes = Router::new()
        .route("/healthz", get(probes::healthz))
        .route("/metrics", get(probes::metrics))
        .merge(working)
        .nest(routes::BASE, routes::streams(&shared))
        .merge(pages::streams(&shared))
        .fallback(problem::unknown_route)
        .method_not_allowed_fallback(problem::unknown_method)
        .with_state(shared.clone());
    middleware::wrap_all(routes, &shared)
}
