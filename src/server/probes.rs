//! The probes of the service: liveness, readiness and metrics. Public for everybody who can reach the listener.

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

/// Answers that the process runs. It checks no dependency: a restart repairs none of them.
pub(super) async fn healthz() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

/// Answers with every check and what it is waiting for; 503 while one waits.
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

/// Answers with all metrics.
pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    shared.state.deployments.templates.measure();
    ([(CONTENT_TYPE, METRICS_TYPE)], shared.state.metrics.encode()).into_response()
}
