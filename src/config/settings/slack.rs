//! People on Slack.

use crate::notify::slack::address::Channel;
use crate::notify::slack::{Door, people};

/// Slack, as people are told on it.
#[derive(Debug, Clone)]
pub struct Slack {
    /// By which way.
    pub door: Door,
    /// Where messages go that have no channel, or whose channel does not take them.
    pub default_channel: Option<Channel>,
    /// Who somebody is.
    pub people: people::Settings,
    /// Whether who started a deployment is written to.
    pub direct_messages: bool,
}
