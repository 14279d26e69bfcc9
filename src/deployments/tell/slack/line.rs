//! Slack as this installation uses it.

use std::time::Duration;

use crate::config::slack::SlackSettings;
use crate::notify::slack::address::Channel;
use crate::notify::slack::people::People;
use crate::notify::slack::{self, Slack};

/// Slack as this installation uses it. Clones share what is known of it.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) slack: Slack,
    pub(crate) people: People,
    pub(crate) default_channel: Option<Channel>,
    pub(crate) direct_messages: bool,
}

/// Slack answers within a second. A message takes two calls or three, together less than half a lease.
const CALL: Duration = Duration::from_secs(4);

impl Line {
    /// As the settings say.
    pub(crate) fn new(settings: &SlackSettings, client: &reqwest::Client) -> Self {
        let SlackSettings { door, default_channel, people, direct_messages } = settings;
        let door = slack::Settings { door: door.clone(), timeout: CALL };
        let slack = Slack::new(door, client.clone());
        Self {
            people: People::new(people.clone(), slack.clone()),
            slack,
            default_channel: default_channel.clone(),
            direct_messages: *direct_messages,
        }
    }
}
