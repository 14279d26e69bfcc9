//! The destination of a message: a channel by its name or id, or a person. Pure.

use crate::notify::message::UserId;

/// A channel: its id, or its name without `#`.
///
/// A person's name or id is none: what a WAML names must not reach a person's own messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Channel(String);

/// A channel or a person to write to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlackAddress {
    /// A channel.
    Channel(Channel),
    /// A person, in their own conversation with the bot.
    Person(UserId),
    /// The one channel of an incoming webhook.
    Hook,
}

/// Slack's own bound for a name.
const LONGEST: usize = 80;

impl Channel {
    /// Parses the channel of a text such as `#squad-devx`, `squad-devx` or `C0123456789`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if is_id(text) {
            return Some(Self(text.to_owned()));
        }
        let name = text.strip_prefix('#').unwrap_or(text).to_lowercase();
        let legal = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        let form = !name.is_empty() && name.chars().count() <= LONGEST && name.chars().all(legal);
        // Whoever writes a person's id meant no channel that happens to be called like it.
        let of_a_person = UserId::parse(text).is_some() && text.len() >= 9;
        (form && !of_a_person).then_some(Self(name))
    }

    /// Returns the form that Slack accepts.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the text is an id already.
    pub fn is_id(&self) -> bool {
        is_id(&self.0)
    }

    /// Formats the channel as people write it: `#squad-devx`.
    pub fn display_name(&self) -> String {
        if self.is_id() { self.0.clone() } else { format!("#{}", self.0) }
    }
}

impl SlackAddress {
    /// Returns the form that Slack accepts.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Channel(channel) => channel.as_str(),
            Self::Person(user) => user.as_str(),
            Self::Hook => "the incoming webhook",
        }
    }

    /// Formats the address as people write it.
    pub fn display_name(&self) -> String {
        match self {
            Self::Channel(channel) => channel.display_name(),
            Self::Person(_) | Self::Hook => self.as_str().to_owned(),
        }
    }
}

/// Checks for the id of a public channel (`C`) or a private one (`G`, in old workspaces).
fn is_id(text: &str) -> bool {
    let legal = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    text.starts_with(['C', 'G']) && (9..=30).contains(&text.len()) && text.chars().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_named_as_people_name_them() {
        for (text, name) in [
            ("#squad-devx", "squad-devx"),
            ("squad_devx", "squad_devx"),
            (" #Squad ", "squad"),
            ("#équipe", "équipe"),
            ("C0123456789", "C0123456789"),
            ("G01234567", "G01234567"),
        ] {
            assert_eq!(Channel::parse(text).map(|c| c.0), Some(name.to_owned()), "{text}");
        }
    }

    #[test]
    fn people_broadcasts_and_junk_are_no_channels() {
        let long = "a".repeat(81);
        for text in [
            "",
            "#",
            "@here",
            "@octocat",
            "U0123456789",
            "W0123456789",
            "<!channel>",
            "a b",
            "a/b",
            "#a,#b",
            "##a",
            "a.b",
            &long,
        ] {
            assert_eq!(Channel::parse(text), None, "{text}");
        }
        // Their own conversations, which begin with D, are names like any other, and there is none.
        assert_eq!(Channel::parse("D0123456789").unwrap().as_str(), "d0123456789");
    }
}
