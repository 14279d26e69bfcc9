//! Who we are to GitHub.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::file::Secret;

/// A GitHub App.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct App {
    /// Its number or its client id, from the App's settings.
    pub id: String,
    /// A private key that was generated there: the PEM file as it was downloaded.
    pub private_key: Secret,
}

/// With what people log in from a terminal: GitHub's device flow.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// The client id of an App that has `Enable Device Flow` ticked in its settings; it is no secret.
    #[schemars(extend("format" = "line"))]
    pub client_id: String,
}
