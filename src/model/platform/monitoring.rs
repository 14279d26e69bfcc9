//! What measures, who is told, and what the classes of objectives promise.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What measures, and who is told.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Monitoring {
    /// Whose metrics count requests over HTTP.
    pub http: HttpMetrics,
}

/// Whose metrics count requests over HTTP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HttpMetrics {
    /// `traefik_service_requests_total` and its kin.
    #[default]
    Traefik,
    /// `istio_requests_total` and its kin.
    Istio,
}
