//! People on Slack.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::file::Secret;

/// Slack: exactly one of `token` and `webhook`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Slack {
    /// The token of a bot (`xoxb-…`), which writes to each team's channel and to people.
    pub token: Option<Secret>,
    /// The address of an incoming webhook, which is a secret: everything goes into its one channel.
    pub webhook: Option<Secret>,
    /// Where messages go whose WAML names no channel, or one that does not take them: `#deploys`.
    #[schemars(extend("format" = "line"))]
    pub default_channel: Option<String>,
    /// The API's address. Default: Slack's own.
    #[schemars(extend("format" = "url"))]
    pub api_url: Option<String>,
    /// Who somebody is on Slack, by their login: a user id (`U0123456789`) or an e-mail address.
    pub people: Option<BTreeMap<String, String>>,
    /// How logins become e-mail addresses: a text with `{login}` in it, `{login}@example.com`. People
    /// are also looked for by the public address of their profile.
    #[schemars(extend("format" = "line"))]
    pub email: Option<String>,
    /// Whether who started a deployment is written to when it fails. Default: yes.
    pub direct_messages: Option<bool>,
}
