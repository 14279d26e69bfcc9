//! The result of one POST of an event, for any receiver.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::RequestBuilder;
use reqwest::header::HeaderMap;

use crate::support::cause::innermost_cause;
use crate::support::http::retry_after::retry_after;

/// The reason why an event was not delivered, with a way out. The receiver is named as people call it: `the webhook
/// warehouse`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// There was no answer: the event may have arrived nevertheless.
    #[error("{receiver} cannot be reached: {reason}")]
    Unreachable {
        /// The receiver.
        receiver: String,
        /// The fault, without the address.
        reason: String,
    },
    /// The receiver is busy or down, or will accept the event later.
    #[error("{receiver} is busy or down: it answered {status}")]
    Later {
        /// The receiver.
        receiver: String,
        /// The status of its answer.
        status: u16,
        /// The time after which it wants the event again.
        after: Option<Duration>,
    },
    /// The receiver accepts nothing from the service, until a person fixes that.
    #[error("{receiver} refuses the request with {status}: {hint}")]
    Refused {
        /// The receiver.
        receiver: String,
        /// The status of its answer.
        status: u16,
        /// The probable fault.
        hint: &'static str,
    },
    /// The receiver, or a proxy before it, will never accept this event.
    #[error("{receiver} does not take this event: it answered {status}")]
    Unfit {
        /// The receiver.
        receiver: String,
        /// The status of its answer.
        status: u16,
    },
}

/// The meaning of an answer that will not change by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiverVerdict {
    /// The receiver accepted the event.
    Delivered,
    /// The receiver will not accept this event.
    Unfit,
    /// The receiver accepts none until a person does what this says.
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
