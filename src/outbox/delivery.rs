//! The results of a delivery and of the confirmation of one. Plain values.

use std::time::Duration;

use jiff::Timestamp;

use crate::deployments::outcome::{DeployError, Remedy};
use crate::notify::bigquery::error::BigQueryError;
use crate::notify::delivery::DeliveryError;
use crate::store::StoreError;

/// A delivery without an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Delivered {
    /// The receiver has the message.
    Yes {
        /// The receiver's reference, where it is of use later: a thread, a check run.
        reference: Option<String>,
    },
    /// There was nothing to send, for this reason.
    Nothing(String),
    /// The message was not sent: it may not be sent before that time, whatever holds for others of
    /// its family. This does not count as a failure.
    Later {
        /// The time from which it may be sent.
        at: Timestamp,
    },
}

/// A check of a final status without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndCheck {
    /// People see the final status.
    Shown,
    /// People saw an older status, and the final one was sent again.
    Retold,
    /// The status was not checked: it may not be checked before that time.
    Deferred {
        /// The time from which it may be checked.
        until: Timestamp,
    },
}

/// The reason why a message was not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeliveryFailure {
    /// The problem, with its remedy.
    pub problem: DeployError,
    /// True if it may have arrived nevertheless: it was sent, and no answer came. A doubt that an
    /// earlier attempt left stays in any case.
    pub unsure: bool,
}

impl DeliveryFailure {
    /// Returns the error of a delivery that panicked. The panic's message is in the log, for developers.
    pub(super) fn panicked() -> Self {
        let problem =
            DeployError::give_up("a fault in the-deployer itself; its log has the details");
        Self { problem, unsure: true }
    }

    pub(super) fn never_ended(longest: Duration) -> Self {
        let message = format!("sending took longer than {} s and was stopped", longest.as_secs());
        Self { problem: DeployError::retry(message), unsure: true }
    }
}

impl From<DeployError> for DeliveryFailure {
    fn from(problem: DeployError) -> Self {
        Self { problem, unsure: false }
    }
}

impl From<StoreError> for DeliveryFailure {
    fn from(error: StoreError) -> Self {
        DeployError::from(error).into()
    }
}

/// The time for which BigQuery may not know a table or a column that was made just now; its documentation has no bound
/// for it, and mentions minutes.
const TABLE_LAG: Duration = Duration::from_mins(10);

/// As for the other receivers.
impl From<BigQueryError> for DeliveryFailure {
    fn from(error: BigQueryError) -> Self {
        let (remedy, unsure) = match &error {
            BigQueryError::Unreachable { .. } => (Remedy::Retry { after: None }, true),
            BigQueryError::Busy { after, .. } => (Remedy::Retry { after: *after }, false),
            BigQueryError::NotYet { .. } => {
                (Remedy::Late { what: "the table", until: TABLE_LAG }, false)
            }
            BigQueryError::Refused { .. } | BigQueryError::Key(_) => (Remedy::GiveUp, false),
            BigQueryError::InvalidRow { .. } => (Remedy::Reject, false),
        };
        Self { problem: DeployError { remedy, message: error.to_string() }, unsure }
    }
}

/// A problem that a person must solve first is retried as long as an outage; only what would be
/// refused for ever is parked at once.
impl From<DeliveryError> for DeliveryFailure {
    fn from(error: DeliveryError) -> Self {
        let (remedy, unsure) = match error {
            DeliveryError::Unreachable { .. } => (Remedy::Retry { after: None }, true),
            DeliveryError::Later { after, .. } => (Remedy::Retry { after }, false),
            DeliveryError::Refused { .. } => (Remedy::GiveUp, false),
            DeliveryError::Unfit { .. } => (Remedy::Reject, false),
        };
        Self { problem: DeployError { remedy, message: error.to_string() }, unsure }
    }
}
