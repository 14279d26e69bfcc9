//! HTTP: events in, answers out.
//!
//! ```text
//! POST /webhooks/github           signature ─▶ event ─▶ Deployments::accept ─▶ 202
//! GET  / /deployments/{id}        pages                  (a token as password)
//! GET  /api/v1/deployments[/{id}] what happened          (bearer token, if one is configured)
//! GET  /api/v1/apps[/…]           what is where          (the same)
//! POST /api/v1/apps/…/remove      what people do         (the same)
//! GET  /api/v1/openapi.json       all of these, for programs
//! GET  /healthz /readyz /metrics  alive? ready? numbers
//! ```
//!
//! Decides who may: beyond that a route reads what it was asked, calls a use case of
//! [`Deployments`] or reads its store, and writes the answer. Every error is an `application/problem+json`; no log line carries a body or a secret.

pub mod auth; // who may call the API
pub mod problem; // errors as callers see them
pub mod serve; // listening and stopping

mod api; // /api/v1
mod openapi; // the contract of the API
pub mod connections; // which connections are open
pub mod descriptors; // how many files may be open

mod conditional; // what callers have already, and compression
mod layers; // what happens around every request
mod pages; // / and /deployments/{id}
mod probes; // /healthz, /readyz, /metrics
mod slots; // how many requests of each kind are worked on
mod socket; // one client's socket
mod body; // the body of a webhook
mod body_budget; // how many bodies are read at once
mod webhook; // /webhooks/github
pub mod deliveries; // what became of webhooks

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use crate::server::api::fuzz_query;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use secrecy::SecretString;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::deployments::Deployments;
use crate::forge::github::webhook::rules::Rules;
use crate::server::auth::{Admission, Gate, Open, Pages, People, Tokens};
use crate::server::body_budget::BodyBudget;
use crate::server::deliveries::{Delivery, DeliveryCounter};
use crate::server::slots::{Class, Slots};
use crate::support::telemetry;

/// Everything that the routes need; `app` builds it.
pub(crate) struct State {
    /// All use cases.
    pub deployments: Deployments,
    /// Counts webhooks.
    pub deliveries: DeliveryCounter,
    /// All metrics of the process.
    pub metrics: telemetry::Metrics,
    /// What a webhook must satisfy.
    pub webhook: Webhook,
    /// Who may call `/api`; nobody named means everybody who can reach the listener.
    pub tokens: Tokens,
    /// Who may see the pages.
    pub pages: Pages,
    /// What else is asked of callers.
    pub admission: Admission,
    /// Bounds.
    pub limits: Limits,
    /// Cancelled when the server stops: then what stays open is closed.
    pub closing: CancellationToken,
    /// Begins every request id: one for each start of the process, so that no id comes twice.
    pub instance: String,
}

/// What a webhook must satisfy.
#[derive(Debug)]
pub struct Webhook {
    /// Shared with GitHub.
    pub secret: SecretString,
    /// The secret before that one, which is taken too while it is being changed.
    pub previous: Option<SecretString>,
    /// Which events are for us.
    pub rules: Rules,
}

/// Bounds of the server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The largest body of a webhook, in bytes. GitHub sends at most 25 MiB.
    pub body_bytes: usize,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// How long anything may take. GitHub waits ten seconds.
    pub request_timeout: Duration,
    /// How many signed webhooks are worked on at once; one more waits for a moment.
    pub webhooks: usize,
    /// How many requests to the API are; one more is told to come again.
    pub api: usize,
    /// The same for the pages.
    pub pages: usize,
    /// The same for `/readyz`.
    pub readiness: usize,
    /// How many bodies of webhooks are read at once that nobody has vouched for.
    pub readers: usize,
    /// How many deployments are followed at once.
    pub streams: usize,
    /// How often a deployment that is followed is looked at though nothing was heard of it: another
    /// replica may be at it.
    pub look: Duration,
    /// For so long at most; who wants to hear more comes again.
    pub open_for: Duration,
    /// How many deployments one caller follows at once.
    pub streams_of_one: usize,
}

impl Limits {
    /// GitHub's own bound: a larger event is not sent.
    pub const LARGEST_BODY: usize = 25 * 1024 * 1024;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 1024 * 1024,
            body_timeout: Duration::from_secs(7),
            request_timeout: Duration::from_secs(9),
            webhooks: 1024,
            api: 256,
            pages: 64,
            readiness: 32,
            readers: 1024,
            streams: 100,
            look: Duration::from_secs(1),
            open_for: Duration::from_hours(1),
            streams_of_one: 20,
        }
    }
}

/// What the handlers share.
struct Shared {
    state: State,
    slots: Slots,
    bodies: Arc<BodyBudget>,
    streams: Arc<Semaphore>,
    open: Open,
    requests: AtomicU64,
    people: People,
    gate: Gate,
}

impl Shared {
    fn count(&self, delivery: Delivery) {
        self.state.deliveries.count(delivery);
    }
}

/// All routes.
pub(crate) fn router(state: State) -> Router {
    let slots = Slots::new(&state.limits);
    let bodies = Arc::new(BodyBudget::new(&state.limits));
    let streams = Arc::new(Semaphore::new(state.limits.streams));
    let gate = Gate::new(state.admission.requests_per_minute);
    let (requests, people) = (AtomicU64::new(0), People::new());
    let open = Open::default();
    let shared = Arc::new(Shared { state, slots, bodies, streams, open, requests, people, gate });
    let webhooks = Router::new().route("/webhooks/github", post(webhook::github));
    let api = Router::new().nest(api::BASE, api::routes(&shared));
    let ready = Router::new().route("/readyz", get(probes::readyz));
    let working = layers::timed(webhooks, &shared)
        .merge(layers::bounded(api, &shared, Class::Api))
        .merge(layers::bounded(pages::routes(&shared), &shared, Class::Page))
        .merge(layers::bounded(ready, &shared, Class::Readiness));
    let routes = Router::new()
        .route("/healthz", get(probes::healthz))
        .route("/metrics", get(probes::metrics))
        .merge(working)
        .nest(api::BASE, api::streams(&shared))
        .fallback(problem::unknown_route)
        .method_not_allowed_fallback(problem::unknown_method)
        .with_state(shared.clone());
    layers::around(routes, &shared)
}
