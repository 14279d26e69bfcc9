//! The workspace: who is there, which channels, what was said.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value as Json;
use the_deployer::support::clock::Clock;

use crate::harness::slack::faults::Faults;
use crate::harness::slack::message::{Message, Read};

/// How many messages a channel takes at once; after that, one a second.
const BURST: i64 = 4;

pub(super) struct State {
    clock: Clock,
    pub(super) channels: BTreeMap<String, Channel>,
    pub(super) users: BTreeMap<String, User>,
    pub(super) scopes: BTreeSet<String>,
    pub(super) revoked: bool,
    /// The channel of the incoming webhook.
    pub(super) hook: Option<String>,
    pub(super) messages: Vec<Message>,
    pub(super) faults: Faults,
    pub(super) called: Vec<String>,
    /// The answers to people who pressed buttons.
    pub(super) answers: Vec<String>,
    /// Requests that came although Slack had asked to wait.
    pub(super) pressed: Vec<String>,
    /// Until when a channel takes nothing.
    waits: BTreeMap<String, Timestamp>,
    /// When the next message of a channel would be due at one a second.
    due: BTreeMap<String, Timestamp>,
}

/// A channel.
#[derive(Debug, Clone)]
pub(crate) struct Channel {
    pub(crate) name: String,
    pub(crate) private: bool,
    pub(crate) archived: bool,
    /// Whether our bot is in it.
    pub(crate) member: bool,
}

/// Somebody.
pub(super) struct User {
    pub(super) email: String,
    pub(super) disabled: bool,
}

impl Channel {
    pub(super) fn new(name: &str) -> Self {
        let name = name.trim_start_matches('#').to_owned();
        Self { name, private: false, archived: false, member: true }
    }
}

impl State {
    pub(super) fn new(clock: Clock) -> Self {
        let scopes = the_scopes_of_the_manifest();
        Self {
            clock,
            channels: BTreeMap::new(),
            users: BTreeMap::new(),
            scopes,
            revoked: false,
            hook: None,
            messages: Vec::new(),
            faults: Faults::default(),
            called: Vec::new(),
            answers: Vec::new(),
            pressed: Vec::new(),
            waits: BTreeMap::new(),
            due: BTreeMap::new(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn add(&mut self, channel: Channel) -> String {
        let id = format!("C0{:07}", self.channels.len() + 1);
        self.channels.insert(id.clone(), channel);
        id
    }

    /// The id of a channel by its name or id, or of a person's conversation with the bot.
    pub(super) fn id_of(&self, place: &str) -> Option<String> {
        if self.channels.contains_key(place) || place.starts_with("D0") {
            return Some(place.to_owned());
        }
        if self.users.contains_key(place) {
            return Some(place.replacen('U', "D", 1));
        }
        let name = place.trim_start_matches('#');
        self.channels.iter().find(|(_, one)| one.name == name).map(|(id, _)| id.clone())
    }

    /// Whether that channel takes another message now; otherwise after how many seconds.
    pub(super) fn pace(&mut self, channel: &str) -> Result<(), u64> {
        let now = self.now();
        if let Some(until) = self.waits.get(channel).filter(|until| now < **until) {
            let left = until.duration_since(now);
            self.pressed.push(format!("{channel}, {left:#} too early"));
            return Err(left.as_secs().unsigned_abs() + 1);
        }
        let due = self.due.get(channel).copied().unwrap_or(now).max(now);
        if due.duration_since(now) > SignedDuration::from_secs(BURST - 1) {
            self.asks_to_wait(channel, 1);
            return Err(1);
        }
        self.due.insert(channel.to_owned(), due + SignedDuration::from_secs(1));
        Ok(())
    }

    pub(super) fn asks_to_wait(&mut self, channel: &str, seconds: u64) {
        let until = self.now() + SignedDuration::from_secs(i64::try_from(seconds).unwrap());
        self.waits.insert(channel.to_owned(), until);
    }

    /// A new message's name: the time, and a number.
    pub(super) fn ts(&self) -> String {
        format!("{}.{:06}", self.now().as_second(), self.called.len())
    }

    pub(super) fn read(&mut self, place: &str) -> Vec<Read> {
        let id = self.id_of(place).unwrap_or_else(|| panic!("there is no {place}"));
        let here = self.messages.iter_mut().filter(|message| message.channel == id);
        here.map(|message| {
            message.read = true;
            message.seen()
        })
        .collect()
    }

    /// The newest message with that button, with the names that Slack gives to blocks without one.
    pub(super) fn message_with(&self, button: &Json) -> Option<Json> {
        let mut messages = self.messages.iter().rev();
        let message = messages.find(|message| message.acts().contains(button))?;
        let mut json = message.json(false);
        for (number, block) in json["blocks"].as_array_mut().unwrap().iter_mut().enumerate() {
            if block["block_id"].is_null() {
                block["block_id"] = format!("b{number}").into();
            }
        }
        Some(json)
    }

    pub(super) fn unread(&self) -> Vec<String> {
        let unread = self.messages.iter().filter(|message| !message.read);
        unread.map(|message| format!("{}: {}", message.channel, message.text)).collect()
    }
}

/// What an app has that was made of our manifest.
fn the_scopes_of_the_manifest() -> BTreeSet<String> {
    let text = include_str!("../../../deploy/slack-app.yaml");
    let manifest: serde_json::Value = serde_yaml::from_str(text).unwrap();
    let scopes = manifest["oauth_config"]["scopes"]["bot"].as_array().unwrap();
    scopes.iter().map(|scope| scope.as_str().unwrap().to_owned()).collect()
}
