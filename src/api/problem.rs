//! An answer that is an error.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What went wrong (RFC 9457).
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct ProblemBody {
    /// Stable, for programs: `urn:the-deployer:problem:not-found`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The status of the answer.
    // A proxy may write it otherwise, and what it says is shown all the same.
    #[serde(default, deserialize_with = "super::or_default")]
    pub status: u16,
    /// What is wrong, where, and what to do; for people.
    // What stands before the service may leave it out.
    #[schemars(with = "String")]
    pub detail: Option<String>,
}
