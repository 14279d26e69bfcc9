//! The search for a message that may have arrived, at the place where it would be.
//!
//! Slack keeps two things of the service with a message, either of which is enough: the name of its first block, and
//! its metadata.

use jiff::Timestamp;
use serde_json::{Value as Json, json};

use crate::notify::message::Stamp;
use crate::notify::slack::address::SlackAddress;
use crate::notify::slack::error::SlackError;
use crate::notify::slack::{Posted, SlackClient};

/// Pages of a channel that are read at most; a message that is further away is not looked for.
const MAX_PAGES: usize = 10;
/// Slack's own bound for channels on a page; for messages it advises less.
const CHANNELS_A_PAGE: u32 = 1000;
const MESSAGES_A_PAGE: u32 = 200;
/// The largest lag of Slack's clock behind this machine's, in seconds.
const CLOCKS_DIFFER: i64 = 600;

impl SlackClient {
    /// Finds the message, if it is at that place since that time: in a thread, if one is named.
    ///
    /// # Errors
    /// [`SlackError`]; [`SlackError::Blind`] and [`SlackError::Scope`] say that it cannot be found out.
    pub async fn find(
        &self,
        place: &SlackAddress,
        thread: Option<&str>,
        stamp: &Stamp,
        since: Timestamp,
        now: Timestamp,
    ) -> Result<Option<Posted>, SlackError> {
        if !self.is_bot() {
            let why = "an incoming webhook cannot look what is in its channel".to_owned();
            return Err(SlackError::Blind(why));
        }
        let Some(channel) = self.id_of(place, now).await? else { return Ok(None) };
        let oldest = since.as_second().saturating_sub(CLOCKS_DIFFER).max(0);
        let mut arguments = json!({
            "channel": channel, "oldest": oldest.to_string(), "limit": MESSAGES_A_PAGE,
            "include_all_metadata": true,
        });
        let method = if let Some(thread) = thread {
            set(&mut arguments, "ts", thread);
            "conversations.replies"
        } else {
            "conversations.history"
        };
        let mark = stamp.mark();
        let search = self.pages(method, arguments, now, |page| {
            let list = page.get("messages").and_then(Json::as_array);
            let message = list.into_iter().flatten().find(|message| has_mark(message, &mark))?;
            message.get("ts").and_then(Json::as_str).map(str::to_owned)
        });
        match search.await {
            Ok(Some(ts)) => Ok(Some(Posted { channel, ts })),
            // A place that does not exist has no messages.
            Ok(None) | Err(SlackError::Thread(_)) => Ok(None),
            Err(SlackError::Place { code, .. }) if code == "channel_not_found" => Ok(None),
            // Into a public channel one may write without being in it, and not read.
            Err(SlackError::Place { code, help }) => {
                Err(SlackError::Blind(format!("{}: {help} ({code})", place.as_str())))
            }
            Err(other) => Err(other),
        }
    }

    /// Returns the id of a channel or person; `None` where the bot sees none.
    async fn id_of(
        &self,
        place: &SlackAddress,
        now: Timestamp,
    ) -> Result<Option<String>, SlackError> {
        match place {
            SlackAddress::Channel(channel) if channel.is_id() => {
                Ok(Some(channel.as_str().to_owned()))
            }
            SlackAddress::Channel(channel) => match self.channel_id(channel.as_str()) {
                Some(id) => Ok(Some(id)),
                None => self.find_listed(channel.as_str(), now).await,
            },
            SlackAddress::Hook => Ok(None),
            SlackAddress::Person(user) => {
                let method = "conversations.open";
                let reply = self.call(method, method, &json!({"users": user.as_str()}), now).await;
                match reply {
                    Ok(reply) => Ok(text(&reply, "/channel/id")),
                    Err(SlackError::Place { .. }) => Ok(None),
                    Err(error) => Err(error),
                }
            }
        }
    }

    async fn find_listed(&self, name: &str, now: Timestamp) -> Result<Option<String>, SlackError> {
        let arguments = json!({
            "types": "public_channel,private_channel", "limit": CHANNELS_A_PAGE,
            "exclude_archived": true,
        });
        let id = self.pages("conversations.list", arguments, now, |page| {
            let list = page.get("channels").and_then(Json::as_array);
            let called = |channel: &&Json| channel.get("name").and_then(Json::as_str) == Some(name);
            list.into_iter().flatten().find(called).and_then(|channel| text(channel, "/id"))
        });
        let id = id.await?;
        if let Some(id) = &id {
            self.remember_channel(name, id);
        }
        Ok(id)
    }

    /// Reads pages until `find` has a result.
    async fn pages(
        &self,
        method: &'static str,
        mut arguments: Json,
        now: Timestamp,
        find: impl Fn(&Json) -> Option<String>,
    ) -> Result<Option<String>, SlackError> {
        for _ in 0..MAX_PAGES {
            let page = self.call(method, method, &arguments, now).await?;
            if let Some(item) = find(&page) {
                return Ok(Some(item));
            }
            let next = text(&page, "/response_metadata/next_cursor");
            let Some(next) = next.filter(|cursor| !cursor.is_empty()) else { return Ok(None) };
            set(&mut arguments, "cursor", &next);
        }
        Err(SlackError::Blind(format!("{method} has more than {MAX_PAGES} pages to look through")))
    }
}

fn set(arguments: &mut Json, key: &str, value: &str) {
    if let Some(arguments) = arguments.as_object_mut() {
        arguments.insert(key.to_owned(), value.into());
    }
}

fn has_mark(message: &Json, mark: &str) -> bool {
    let blocks = message.get("blocks").and_then(Json::as_array).into_iter().flatten();
    let mut names = blocks.filter_map(|block| block.get("block_id").and_then(Json::as_str));
    let payload_mark = message.pointer("/metadata/event_payload/mark").and_then(Json::as_str);
    names.any(|name| name == mark) || payload_mark == Some(mark)
}

fn text(json: &Json, pointer: &str) -> Option<String> {
    json.pointer(pointer).and_then(Json::as_str).map(str::to_owned)
}
