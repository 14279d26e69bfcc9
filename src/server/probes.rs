//! Is it alive, is it ready, and how is it doing. Open to everybody who can reach the listener.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::api::service::{Readiness, ReadinessCheck};
use crate::deployments::health::HealthCheck;
use crate::server::state::Shared;

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The process runs and answers. Says nothing about what is behind it: a restart mends none of that.
pub(super) async fn healthz() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// Every check with what it is waiting for; 503 while one waits.
pub(super) async fn readyz(State(shared): State<Arc<Shared>>) -> Response {
    let checks = shared.state.deployments.checks().await;
    let ready = checks.iter().all(|check| check.waiting_for.is_none());
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let checks = checks.into_iter().map(line).collect();
    (status, Json(Readiness { ready, checks })).into_response()
}

fn line(check: HealthCheck) -> ReadinessCheck {
    let HealthCheck { name, waiting_for, note } = check;
    ReadinessCheck { name, ready: waiting_for.is_none(), waiting_for, note }
}

/// All metrics.
pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    shared.state.deployments.templates.measure();
    ([(CONTENT_TYPE, METRICS_TYPE)], shared.state.metrics.encode()).into_response()
}
