//! Programs that receive events.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::file::Secret;
use crate::model::announcement::Announcement;

/// A program that receives a signed event of every change.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EventWebhook {
    /// What it is called in logs and on pages. Messages that wait are kept under this name.
    #[schemars(extend("format" = "slug"))]
    pub name: String,
    /// Where events are sent: an https address without credentials; http on this machine only.
    #[schemars(extend("format" = "url"))]
    pub url: String,
    /// What events are signed with: `whsec_` and the base64 of 24 to 64 random bytes.
    pub secret: Secret,
    /// Which events are sent. Default: all.
    #[serde(default)]
    pub events: Option<Vec<Announcement>>,
}
