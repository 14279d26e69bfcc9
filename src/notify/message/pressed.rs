//! The message in which a person has pressed a button, as Slack sends it along: the same message without that button. Pure.

use serde::Deserialize;
use serde_json::Value as Json;

use crate::notify::message::block::{Block, MAX_BLOCKS};

/// The largest message that is written again, in bytes of its JSON: more than this service ever writes.
const LARGEST: usize = 256 * 1024;

/// A message as Slack shows it.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct PressedMessage {
    /// The text for notifications.
    #[serde(default)]
    text: String,
    #[serde(default)]
    blocks: Vec<Json>,
}

/// A button of a message.
#[derive(Debug, Clone, Copy)]
pub struct ButtonName<'a> {
    /// The name of its act.
    pub action_id: &'a str,
    /// Its value.
    pub value: &'a str,
}

/// The new text of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageContent {
    /// The text for notifications.
    pub text: String,
    /// The blocks.
    pub blocks: Vec<Json>,
}

impl PressedMessage {
    /// Writes the message again with a note in the place of the button; `None` where the message has no such button, or is
    /// not of the form in which this service writes one.
    pub fn without(&self, button: ButtonName<'_>, note: &str) -> Option<MessageContent> {
        let size: usize = self.blocks.iter().map(|block| block.to_string().len()).sum();
        if self.blocks.len() > MAX_BLOCKS || size > LARGEST || self.text.is_empty() {
            return None;
        }
        let is_button = |element: &Json| {
            element.get("action_id").and_then(Json::as_str) == Some(button.action_id)
                && element.get("value").and_then(Json::as_str) == Some(button.value)
        };
        let (mut blocks, mut place) = (Vec::with_capacity(self.blocks.len() + 1), None);
        for block in &self.blocks {
            let mut block = block.clone();
            if let Some(Json::Array(elements)) = block.get_mut("elements") {
                let count = elements.len();
                elements.retain(|element| !is_button(element));
                if elements.len() < count {
                    place = Some(blocks.len() + usize::from(!elements.is_empty()));
                }
                if elements.is_empty() {
                    continue;
                }
            }
            blocks.push(block);
        }
        let place = place?;
        if blocks.len() < MAX_BLOCKS {
            let note = serde_json::to_value(Block::context(&[note.to_owned()])).ok()?;
            blocks.insert(place, note);
        }
        Some(MessageContent { text: self.text.clone(), blocks })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const BUTTON: ButtonName<'_> = ButtonName { action_id: "approve", value: "r 1" };

    fn message(blocks: &Json) -> PressedMessage {
        serde_json::from_value(json!({"text": "It waits", "blocks": blocks, "ts": "1.2"})).unwrap()
    }

    fn button(value: &str) -> Json {
        json!({"type": "button", "action_id": "approve", "value": value})
    }

    #[test]
    fn the_button_makes_room_for_a_note_and_nothing_else_changes() {
        let header = json!({"type": "header", "block_id": "r/approval", "text": {"text": "x"}});
        let print = json!({"type": "context", "elements": [{"type": "mrkdwn", "text": "y"}]});
        let actions = |buttons: &[Json]| json!({"type": "actions", "elements": buttons});
        let link = json!({"type": "button", "action_id": "rollout", "url": "https://x"});
        let note = json!({"type": "context", "elements": [{"type": "mrkdwn", "text": "done", "verbatim": true}]});
        let both = actions(&[link.clone(), button("r 1"), button("r 2")]);
        let content = message(&json!([header, both, print])).without(BUTTON, "done").unwrap();
        let rest = actions(&[link, button("r 2")]);
        assert_eq!(content.blocks, [header.clone(), rest, note.clone(), print.clone()]);
        assert_eq!(content.text, "It waits");
        let alone = message(&json!([header, actions(&[button("r 1")]), print]));
        assert_eq!(alone.without(BUTTON, "done").unwrap().blocks, [header, note, print]);
    }

    #[test]
    fn a_message_without_the_button_or_of_another_form_stays() {
        let actions = json!({"type": "actions", "elements": [button("r 1")]});
        let many: Vec<Json> = (0..=MAX_BLOCKS).map(|_| actions.clone()).collect();
        let long = json!({"type": "section", "text": "x".repeat(LARGEST)});
        for blocks in [
            json!([]),
            json!([{"type": "actions", "elements": [button("r 2")]}]),
            json!(["actions", 7, null]),
            json!(many),
            json!([actions, long]),
        ] {
            assert_eq!(message(&blocks).without(BUTTON, "done"), None, "{blocks}");
        }
        assert_eq!(PressedMessage::default().without(BUTTON, "done"), None);
    }
}
