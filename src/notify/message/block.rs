//! Block Kit, as far as it is used: values that Slack accepts, because each is built within its limit.
//!
//! Limits: <https://docs.slack.dev/reference/block-kit/blocks>.

use serde::Serialize;

use crate::notify::message::escape::{cut, length};

/// Blocks of one message.
pub const MAX_BLOCKS: usize = 50;
/// A section's text.
pub const LONGEST_SECTION: usize = 3000;
/// The texts of a section in two columns.
pub const MAX_FIELDS: usize = 10;
/// Each of them.
pub const LONGEST_FIELD: usize = 2000;
/// A header's text.
pub const LONGEST_HEADER: usize = 150;
/// The texts of a context.
pub const MAX_CONTEXT: usize = 10;
/// Buttons of one row.
pub const MAX_BUTTONS: usize = 25;
/// A button's text.
pub const LONGEST_BUTTON: usize = 75;
/// A button's value.
pub const LONGEST_VALUE: usize = 2000;
/// The text of a confirmation.
pub const LONGEST_CONFIRMATION: usize = 300;
/// The words of a confirmation's two buttons.
pub const LONGEST_ANSWER: usize = 30;
/// A button's address.
pub const LONGEST_URL: usize = 3000;
/// The limit of all blocks together, as [`size`] counts. Slack refuses a message from about 13,200 characters on, which
/// is documented nowhere (slackapi/bolt-js#2509); how it counts is not known either, so there is room, and [`size`]
/// counts as much as can be counted.
pub const MAX_TOGETHER: usize = 12_000;

/// One block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Large, and plain text.
    Header {
        /// The text.
        text: PlainText,
        /// A name that Slack keeps with the message.
        block_id: String,
    },
    /// Text.
    Section {
        /// The text.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<Markup>,
        /// Texts in two columns.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        fields: Vec<Markup>,
    },
    /// Small print.
    Context {
        /// The texts.
        elements: Vec<Markup>,
    },
    /// A row of buttons.
    Actions {
        /// The buttons.
        elements: Vec<Button>,
    },
}

/// Plain text: no markup, no emoji by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "plain_text")]
pub struct PlainText {
    text: String,
    emoji: bool,
}

/// Text in Slack's markup; what looks like a name or an address in it stays text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "mrkdwn")]
pub struct Markup {
    text: String,
    verbatim: bool,
}

/// A button that leads somewhere, or acts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "button")]
pub struct Button {
    text: PlainText,
    action_id: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    confirm: Option<ButtonConfirmation>,
}

/// What Slack asks before it sends a button's act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ButtonConfirmation {
    title: PlainText,
    text: PlainText,
    confirm: PlainText,
    deny: PlainText,
}

impl Block {
    /// Builds a header; its name is cut to Slack's limit.
    pub fn header(text: &str, block_id: &str) -> Self {
        Self::Header { text: PlainText::new(text, LONGEST_HEADER), block_id: cut(block_id, 255) }
    }

    /// Builds a section of markup. Markup that may be too long must have been cut before, where it was still text.
    pub fn section(text: &str) -> Self {
        Self::Section { text: Some(Markup::new(text, LONGEST_SECTION)), fields: vec![] }
    }

    /// Builds a section in two columns, of the first ten fields.
    pub fn fields(fields: &[String]) -> Self {
        let fields = fields.iter().take(MAX_FIELDS).map(|text| Markup::new(text, LONGEST_FIELD));
        Self::Section { text: None, fields: fields.collect() }
    }

    /// Builds small print, of the first ten texts.
    pub fn context(texts: &[String]) -> Self {
        let elements = texts.iter().take(MAX_CONTEXT).map(|text| Markup::new(text, LONGEST_FIELD));
        Self::Context { elements: elements.collect() }
    }

    /// Builds a row of the first twenty-five buttons.
    pub fn actions(buttons: Vec<Button>) -> Self {
        Self::Actions { elements: buttons.into_iter().take(MAX_BUTTONS).collect() }
    }

    /// Returns the text of the block.
    pub fn plain(&self) -> String {
        let lines: Vec<String> = match self {
            Self::Header { text, .. } => vec![text.text.clone()],
            Self::Section { text, fields } => {
                text.iter().chain(fields).map(|part| part.text.clone()).collect()
            }
            Self::Context { elements } => elements.iter().map(|part| part.text.clone()).collect(),
            Self::Actions { elements } => elements
                .iter()
                .filter_map(|button| {
                    Some(format!("{}: {}", button.text.text, button.url.as_ref()?))
                })
                .collect(),
        };
        lines.join("\n")
    }
}

impl PlainText {
    fn new(text: &str, most: usize) -> Self {
        Self { text: cut(text, most), emoji: false }
    }
}

impl Markup {
    fn new(text: &str, most: usize) -> Self {
        Self { text: cut(text, most), verbatim: true }
    }
}

impl Button {
    /// Builds a button; none where its address exceeds Slack's limit.
    pub fn new(action_id: &'static str, text: &str, url: String) -> Option<Self> {
        let fits = length(&url) <= LONGEST_URL;
        let text = PlainText::new(text, LONGEST_BUTTON);
        fits.then_some(Self { text, action_id, url: Some(url), value: None, confirm: None })
    }

    /// Builds a button that acts, after a confirmation that says what happens; none where its value exceeds Slack's
    /// limit.
    pub fn acting(
        action_id: &'static str,
        text: &str,
        value: String,
        effect: &str,
    ) -> Option<Self> {
        let fits = length(&value) <= LONGEST_VALUE;
        let confirmation = ButtonConfirmation {
            title: PlainText::new(text, LONGEST_BUTTON),
            text: PlainText::new(effect, LONGEST_CONFIRMATION),
            confirm: PlainText::new(text, LONGEST_ANSWER),
            deny: PlainText::new("Do nothing", LONGEST_ANSWER),
        };
        let (text, confirm) = (PlainText::new(text, LONGEST_BUTTON), Some(confirmation));
        fits.then_some(Self { text, action_id, url: None, value: Some(value), confirm })
    }
}

/// Returns the size of the blocks: the length of their JSON with everything but ASCII escaped.
pub fn size(blocks: &[Block]) -> usize {
    let json = serde_json::to_string(blocks).unwrap_or_default();
    json.chars().map(|c| if c.is_ascii() { 1 } else { 6 * c.len_utf16() }).sum()
}
