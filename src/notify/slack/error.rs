//! The errors of Slack, each with a way out: it ends in a log, or as the reason of a message that was not delivered.

use std::time::Duration;

/// The reason why a call to Slack failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlackError {
    /// Slack cannot be reached, or says that it does nothing at the moment: surely nothing was done.
    #[error("Slack cannot be reached ({0}); it will be tried again")]
    Unreachable(String),
    /// Slack did not answer, or says that it does not know: the call may have been done.
    #[error("Slack did not say whether it took the message ({0})")]
    NoAnswer(String),
    /// The rate limit is reached; surely nothing was done.
    #[error("Slack takes the next message for {what} in {after:?}")]
    Wait {
        /// The channel, or the method.
        what: String,
        /// The time to wait.
        after: Duration,
    },
    /// Slack accepts nothing for that channel or person.
    #[error("{help} ({code})")]
    Place {
        /// Slack's word: `channel_not_found`.
        code: String,
        /// The fault and the way out.
        help: &'static str,
    },
    /// The message to reply to does not exist.
    #[error("the message to reply to is gone ({0})")]
    Thread(String),
    /// Slack does not accept these blocks.
    #[error("Slack does not take the blocks ({0})")]
    Blocks(String),
    /// Slack does not accept the credentials.
    #[error("Slack does not accept the service's credentials ({code}): {help}")]
    Credentials {
        /// Slack's word: `invalid_auth`.
        code: String,
        /// The way out.
        help: &'static str,
    },
    /// The bot lacks a scope.
    #[error(
        "Slack's {method} needs the scope {needed}: add it to the app and install it again (docs/slack.md)"
    )]
    Scope {
        /// The called method.
        method: &'static str,
        /// The missing scope.
        needed: String,
    },
    /// No user has that e-mail address.
    #[error("no Slack user has that e-mail address")]
    Nobody,
    /// Slack refuses for another reason; a repeat would fail again.
    #[error("Slack refuses {method}: {code}")]
    Refused {
        /// The called method.
        method: &'static str,
        /// Slack's own word, cut.
        code: String,
    },
    /// The service cannot look if a message is there.
    #[error("{0}")]
    Blind(String),
}
