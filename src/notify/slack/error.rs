//! What can go wrong at Slack, and what may help. Each message says what to do: it ends in a log, or
//! as the reason of a message that was not told.

use std::time::Duration;

/// Why Slack did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlackError {
    /// It cannot be reached, or says that it does nothing at the moment: surely nothing was done.
    #[error("Slack cannot be reached ({0}); it will be tried again")]
    Unreachable(String),
    /// It was asked and did not answer, or says that it does not know: it may have been done.
    #[error("Slack did not say whether it took the message ({0})")]
    NoAnswer(String),
    /// It is too early for another one; surely nothing was done.
    #[error("Slack takes the next message for {what} in {after:?}")]
    Wait {
        /// The channel, or the method.
        what: String,
        /// How long to wait.
        after: Duration,
    },
    /// It takes nothing for that channel or person.
    #[error("{help} ({code})")]
    Place {
        /// Slack's word: `channel_not_found`.
        code: String,
        /// Why, and what to do.
        help: &'static str,
    },
    /// There is no message to reply to.
    #[error("the message to reply to is gone ({0})")]
    Thread(String),
    /// It does not take these blocks.
    #[error("Slack does not take the blocks ({0})")]
    Blocks(String),
    /// It does not take our credentials.
    #[error("Slack does not accept the service's credentials ({code}): {help}")]
    Credentials {
        /// Slack's word: `invalid_auth`.
        code: String,
        /// What to do.
        help: &'static str,
    },
    /// Our bot lacks a right.
    #[error(
        "Slack's {method} needs the scope {needed}: add it to the app and install it again (docs/slack.md)"
    )]
    Scope {
        /// What was called.
        method: &'static str,
        /// What it needs.
        needed: String,
    },
    /// It knows nobody of that e-mail address.
    #[error("no Slack user has that e-mail address")]
    Nobody,
    /// It says no for another reason; the same would fail again.
    #[error("Slack refuses {method}: {code}")]
    Refused {
        /// What was called.
        method: &'static str,
        /// Slack's own word, cut.
        code: String,
    },
    /// Nobody can find out whether a message is there.
    #[error("{0}")]
    Blind(String),
}
