//! What the answer to one POST of an event means, whoever it is sent to.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::RequestBuilder;
use reqwest::header::HeaderMap;

use crate::support::cause::innermost_cause;
use crate::support::http::retry_after::retry_after;

/// Why an event was not delivered; says what to do. The receiver is as people call it: `the webhook
/// warehouse`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// No answer: it may have arrived nevertheless.
    #[error("{receiver} cannot be reached: {reason}")]
    Unreachable {
        /// The receiver.
        receiver: String,
        /// Why, without the address.
        reason: String,
    },
    /// It is busy or down, or says that it will take it later.
    #[error("{receiver} is busy or down: it answered {status}")]
    Later {
        /// The receiver.
        receiver: String,
        /// Its answer.
        status: u16,
        /// When it wants to be asked again.
        after: Option<Duration>,
    },
    /// It takes nothing from us, until a person mends that.
    #[error("{receiver} refuses the request with {status}: {hint}")]
    Refused {
        /// The receiver.
        receiver: String,
        /// Its answer.
        status: u16,
        /// What is probably wrong.
        hint: &'static str,
    },
    /// It, or a proxy before it, will not take this event, however often it comes.
    #[error("{receiver} does not take this event: it answered {status}")]
    Unfit {
        /// The receiver.
        receiver: String,
        /// Its answer.
        status: u16,
    },
}

/// What a receiver means by an answer that does not pass by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiverVerdict {
    /// It took the event.
    Delivered,
    /// It will not take this one.
    Unfit,
    /// It takes none until a person does what this says.
    Refused(&'static str),
}

/// Sends the request once; `verdict` knows what the receiver means by the answers that do not pass by themselves.
pub(super) async fn send(
    request: RequestBuilder,
    receiver: String,
    now: Timestamp,
    verdict: impl FnOnce(u16, &HeaderMap) -> ReceiverVerdict,
) -> Result<(), DeliveryError> {
    match request.send().await {
        Ok(answer) => judge(receiver, answer.status().as_u16(), answer.headers(), now, verdict),
        Err(error) => {
            let reason = innermost_cause(&error.without_url()).to_string();
            Err(DeliveryError::Unreachable { receiver, reason })
        }
    }
}

pub(super) fn judge(
    receiver: String,
    status: u16,
    headers: &HeaderMap,
    now: Timestamp,
    verdict: impl FnOnce(u16, &HeaderMap) -> ReceiverVerdict,
) -> Result<(), DeliveryError> {
    if matches!(status, 408 | 425 | 429 | 500..=599) {
        return Err(DeliveryError::Later { receiver, status, after: retry_after(headers, now) });
    }
    match verdict(status, headers) {
        ReceiverVerdict::Delivered => Ok(()),
        ReceiverVerdict::Unfit => Err(DeliveryError::Unfit { receiver, status }),
        ReceiverVerdict::Refused(hint) => Err(DeliveryError::Refused { receiver, status, hint }),
    }
}
