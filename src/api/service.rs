//! The service itself: who calls, where repositories are, which clusters there are, and whether it works.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::target::Environment;

/// Who calls.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Caller")]
pub struct Identity {
    /// A GitHub login, or a token's name.
    pub name: String,
    /// How we know: `token`, `github`, `loopback`.
    pub via: String,
    /// Of a token of the configuration; null where GitHub decides, and where nobody is asked.
    pub rights: Option<[TokenRights; 1]>,
}

/// What a token is good for.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Rights")]
pub struct TokenRights {
    /// `read`, `deploy` or `admin`; each holds those before it.
    pub scope: String,
    /// Globs; no limit where there is none.
    pub targets: Vec<String>,
    /// Globs over `namespace/slug`; no limit where there is none.
    pub apps: Vec<String>,
}

/// Where service repositories are.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CodeHost")]
pub struct CodeHostAnswer {
    /// `github` or `local`.
    pub kind: String,
    /// Where deployments are created; null where that is here.
    pub api_url: Option<String>,
    /// Where people look at repositories.
    pub web_url: Option<String>,
    /// How people log in from a terminal; null where that was not set up.
    pub login: Option<DeviceLogin>,
}

/// What GitHub's device flow needs.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Login")]
pub struct DeviceLogin {
    /// Of the OAuth or GitHub App whose device flow is used; no secret.
    pub client_id: String,
}

/// The targets of the service.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TargetList {
    /// The configured clusters that the caller's token is for, by name.
    pub targets: Vec<TargetSummary>,
    /// Whether any other name is a target as well: no cluster is configured.
    pub any: bool,
    /// Whether these are all; if not, the token is not for the others.
    pub complete: bool,
}

/// A cluster.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TargetOverview")]
pub struct TargetSummary {
    /// Its name, as in `deploy` of the WAML.
    pub name: String,
    /// `production` or `development`.
    // A text: a newer service may know more of them.
    #[serde(default)]
    #[schemars(with = "Environment")]
    pub environment: String,
}

/// What `/readyz` answers, which is no part of the API's document: whether the service is ready, and what it waits for.
#[derive(Debug, Serialize, Deserialize)]
pub struct Readiness {
    /// Whether every check is.
    pub ready: bool,
    /// All of them.
    pub checks: Vec<ReadinessCheck>,
}

/// One thing that must work.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReadinessCheck {
    /// What is looked at.
    pub name: String,
    /// Whether it works.
    pub ready: bool,
    /// What it waits for, if it does not.
    pub waiting_for: Option<String>,
    /// What else there is to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
