//! Who is told what becomes of deployments, beside the forge.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::file::slack::Slack;
use crate::config::file::webhooks::EventWebhook;

/// Who is told what becomes of deployments, beside the forge.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Notify {
    /// People on Slack: see `docs/slack.md`.
    pub slack: Option<Slack>,
    /// Programs that receive a signed event of every change: see `docs/events.md`.
    pub webhooks: Option<Vec<EventWebhook>>,
}
