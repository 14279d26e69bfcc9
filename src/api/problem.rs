//! The answer to a request that failed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A problem (RFC 9457).
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub struct ProblemBody {
    /// Stable, for programs: `urn:the-deployer:problem:not-found`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The status of the answer.
    // A proxy may write it in another form, which must not hide the rest.
    #[serde(default, deserialize_with = "super::or_default")]
    pub status: u16,
    /// The mistake, its place and what to do; for people.
    // A proxy before the service may omit it.
    #[schemars(with = "String")]
    pub detail: Option<String>,
}
