//! Builds that can be deployed, and where each is live.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::forms;

/// The request for the builds of an app that may never have been deployed.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct BuildsRequest {
    /// The service repository, `OWNER/NAME`.
    #[schemars(with = "forms::OfRepository")]
    pub repository: String,
    /// The text of its WAML, which names the image.
    pub waml: String,
    /// The target whose section of the WAML names the image; the first by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfTarget>")]
    pub target: Option<String>,
    /// The largest number of builds; 20 by default.
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
    /// The image, without a tag.
    pub image: String,
    /// The builds, newest first. The first page has all live builds, however old they are.
    pub builds: Vec<BuildSummary>,
    /// The `cursor` of the next page; null on the last.
    pub next: Option<String>,
    /// The number of tags in the registry.
    pub tags: usize,
    /// True if the service looked at all tags; otherwise newer builds may be missing.
    pub complete: bool,
    /// Notes for people on what could not be determined.
    pub notes: Vec<String>,
}

/// One build.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Build")]
pub struct BuildSummary {
    /// The image tag.
    pub tag: String,
    /// The digest of the image.
    pub digest: Option<String>,
    /// The time of the build, from the image.
    pub created: Option<Timestamp>,
    /// The commit of the build, from the image.
    pub commit: Option<String>,
    /// The targets where it is live.
    pub live: Vec<String>,
}
