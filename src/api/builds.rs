//! Builds: what could be deployed, and where it is.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::forms;

/// Whose builds are wanted, where the app was perhaps never deployed.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct BuildsRequest {
    /// The service's repository, `OWNER/NAME`.
    #[schemars(with = "forms::OfRepository")]
    pub repository: String,
    /// The text of its WAML, which names the image.
    pub waml: String,
    /// The cluster whose section of the WAML names the image; absent: the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfTarget>")]
    pub target: Option<String>,
    /// At most so many; 20 where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, range(min = 1, max = 100))]
    pub limit: Option<u32>,
    /// The `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfPlace>")]
    pub cursor: Option<String>,
}

/// The newest builds.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Builds")]
pub struct BuildPage {
    /// Without a tag.
    pub image: String,
    /// Newest first. On the first page those that are live are there, however old they are.
    pub builds: Vec<BuildSummary>,
    /// The `cursor` of the next page; null on the last.
    pub next: Option<String>,
    /// How many tags the registry lists.
    pub tags: usize,
    /// Whether all of them were looked at; if not, newer builds may be missing.
    pub complete: bool,
    /// What could not be found out, for people.
    pub notes: Vec<String>,
}

/// One build.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Build")]
pub struct BuildSummary {
    /// The image tag.
    pub tag: String,
    /// Of the image.
    pub digest: Option<String>,
    /// When it was built, as the image says.
    pub created: Option<Timestamp>,
    /// Of which commit, as the image says.
    pub commit: Option<String>,
    /// The targets where it is live.
    pub live: Vec<String>,
}
