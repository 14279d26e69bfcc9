//! Who calls, and what a token is good for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
