//! The service itself: its callers, code host, targets and readiness.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::target::Environment;

/// The caller.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Caller")]
pub struct Identity {
    /// The GitHub login, or the token's name.
    pub name: String,
    /// The authentication method: `token`, `github`, `loopback`.
    pub via: String,
    /// The rights of an API token; null if GitHub decides, or no token is needed.
    pub rights: Option<[TokenRights; 1]>,
}

/// The rights of a token.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Rights")]
pub struct TokenRights {
    /// `read`, `deploy` or `admin`; each includes those before it.
    pub scope: String,
    /// Globs over targets; all if empty.
    pub targets: Vec<String>,
    /// Globs over `namespace/slug`; all if empty.
    pub apps: Vec<String>,
}

/// The code host.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CodeHost")]
pub struct CodeHostAnswer {
    /// `github` or `local`.
    pub kind: String,
    /// The API on which deployments are created; null if that is this service.
    pub api_url: Option<String>,
    /// The address of repositories for browsers.
    pub web_url: Option<String>,
    /// The login from a terminal; null if it is not configured.
    pub login: Option<DeviceLogin>,
}

/// The settings of GitHub's device flow.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Login")]
pub struct DeviceLogin {
    /// The client id of the OAuth or GitHub App with the device flow; it is no secret.
    pub client_id: String,
}

/// The targets of the service.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TargetList {
    /// The configured clusters that the caller may see, by name, and then the fleets.
    pub targets: Vec<TargetSummary>,
    /// True if any other name is a target as well, because no cluster is configured.
    pub any: bool,
    /// True if these are all; otherwise the caller may not see the others.
    pub complete: bool,
}

/// A target.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TargetOverview")]
pub struct TargetSummary {
    /// Its name, as in `deploy` of the WAML.
    pub name: String,
    /// `production` or `development`.
    // A text, because a newer service may have more environments.
    #[serde(default)]
    #[schemars(with = "Environment")]
    pub environment: String,
    /// The clusters of a fleet; empty for a cluster.
    #[serde(default)]
    pub clusters: Vec<String>,
}

/// The answer of `/readyz`, which is no part of the API's document: whether the service is ready, and what it waits
/// for.
#[derive(Debug, Serialize, Deserialize)]
pub struct Readiness {
    /// True if every check passes.
    pub ready: bool,
    /// The checks.
    pub checks: Vec<ReadinessCheck>,
}

/// One check of a dependency.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReadinessCheck {
    /// The dependency.
    pub name: String,
    /// True if it works.
    pub ready: bool,
    /// The dependency's problem that the service waits for, if it does not work.
    pub waiting_for: Option<String>,
    /// A further note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
