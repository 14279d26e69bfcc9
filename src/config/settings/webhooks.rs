//! Programs that receive events.

use crate::model::announcement::Announcement;
use crate::notify::signature::Key;

/// A program that receives a signed event of every change.
#[derive(Debug, Clone)]
pub struct EventWebhook {
    /// What it is called; no two are called the same.
    pub name: String,
    /// Where events are sent.
    pub url: String,
    /// What they are signed with.
    pub key: Key,
    /// Which events are sent; at least one.
    pub events: Vec<Announcement>,
}
