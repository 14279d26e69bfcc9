//! Where service repositories are, and how people log in there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
