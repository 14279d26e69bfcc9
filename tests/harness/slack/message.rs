//! One message: as it was sent, and as its readers see it.

use serde_json::Value as Json;

/// A message as Slack keeps it.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) channel: String,
    pub(super) ts: String,
    pub(super) thread_ts: Option<String>,
    pub(super) broadcast: bool,
    pub(super) text: String,
    pub(super) blocks: Json,
    pub(super) metadata: Json,
    pub(super) read: bool,
    /// How often it was changed.
    pub(super) updates: usize,
}

/// A message as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Read {
    /// Slack's name of it.
    pub(crate) ts: String,
    /// What stands large above it; the text, where there are no blocks.
    pub(crate) title: String,
    /// Everything that can be read, a line for each text.
    pub(crate) text: String,
    /// Who gets a notification because they are named: ids, and `channel` or `here`.
    pub(crate) called: Vec<String>,
    /// Where links and buttons lead, with their texts: `CapturedLog https://…`.
    pub(crate) links: Vec<String>,
    /// The message that it is a reply to.
    pub(crate) thread: Option<String>,
    /// Whether a reply is shown in the channel, too.
    pub(crate) aloud: bool,
    /// How often it was changed.
    pub(crate) updates: usize,
    /// The buttons that act, as they were sent.
    pub(crate) acts: Vec<Json>,
}

impl Message {
    pub(super) fn seen(&self) -> Read {
        let mut texts = Vec::new();
        let mut links = Vec::new();
        match self.blocks.as_array() {
            Some(blocks) => blocks.iter().for_each(|block| look(block, &mut texts, &mut links)),
            None => texts.push((self.text.clone(), true)),
        }
        let mut called = Vec::new();
        let shown = texts.iter().map(|(text, markup)| {
            if *markup { shown(text, &mut called, &mut links) } else { text.clone() }
        });
        let shown: Vec<String> = shown.collect();
        Read {
            ts: self.ts.clone(),
            title: shown.first().cloned().unwrap_or_default(),
            text: shown.join("\n"),
            called,
            links,
            thread: self.thread_ts.clone(),
            aloud: self.broadcast || self.thread_ts.is_none(),
            updates: self.updates,
            acts: self.acts(),
        }
    }

    /// The buttons that act.
    pub(super) fn acts(&self) -> Vec<Json> {
        let blocks = self.blocks.as_array().into_iter().flatten();
        let buttons = blocks.filter_map(|block| block["elements"].as_array()).flatten();
        buttons.filter(|button| !button["value"].is_null()).cloned().collect()
    }

    /// As `conversations.history` gives it.
    pub(super) fn json(&self, metadata: bool) -> Json {
        let mut json = serde_json::json!({
            "type": "message", "ts": self.ts, "text": self.text, "bot_id": "B061EG9R7",
            "app_id": "A061EG9R8",
        });
        if !self.blocks.is_null() {
            json["blocks"] = self.blocks.clone();
        }
        if let Some(thread) = &self.thread_ts {
            json["thread_ts"] = thread.as_str().into();
        }
        if metadata && !self.metadata.is_null() {
            json["metadata"] = self.metadata.clone();
        }
        json
    }
}

/// Every text in the order of reading, and whether it has markup; and buttons.
fn look(json: &Json, texts: &mut Vec<(String, bool)>, links: &mut Vec<String>) {
    match json {
        Json::Object(map) if map.get("type").is_some_and(|kind| kind == "button") => {
            let text = json["text"]["text"].as_str().unwrap();
            if json["url"].is_null() {
                return;
            }
            links.push(format!("{text} {}", json["url"].as_str().unwrap_or_default()));
        }
        Json::Object(map) => {
            if let Some(Json::String(text)) = map.get("text") {
                let markup = json["type"] == "mrkdwn";
                // Slack would make mentions and links of plain words.
                assert!(!markup || json["verbatim"] == true, "not verbatim: {text}");
                texts.push((text.clone(), markup));
            } else {
                map.values().for_each(|value| look(value, texts, links));
            }
        }
        Json::Array(list) => list.iter().for_each(|value| look(value, texts, links)),
        _ => {}
    }
}

/// Markup as it is shown: mentions call, links lead, and what is escaped is only itself.
fn shown(text: &str, called: &mut Vec<String>, links: &mut Vec<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        out += before;
        let (inside, behind) = after.split_once('>').unwrap_or((after, ""));
        let (target, label) = inside.split_once('|').unwrap_or((inside, inside));
        match target.split_at_checked(1) {
            Some(("@" | "!", who)) => {
                called.push(who.to_owned());
                out += &format!("@{who}");
            }
            Some(("#", channel)) => panic!("a channel is named by its id: {channel}"),
            _ => {
                links.push(format!("{label} {target}"));
                out += label;
            }
        }
        rest = behind;
    }
    out += rest;
    out.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}
