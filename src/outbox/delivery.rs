//! How a delivery, or a second look at one, came out. Plain values.

use std::time::Duration;

use jiff::Timestamp;

use crate::deployments::outcome::{DeployError, Remedy};
use crate::notify::delivery::DeliveryError;
use crate::store::StoreError;

/// A delivery that came out well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Delivered {
    /// The other side has it.
    Yes {
        /// What the other side calls it, where that is of use later: a thread, a check run.
        reference: Option<String>,
    },
    /// There was nothing to say, for this reason.
    Nothing(String),
    /// It was not tried: this one may not be told before that time, whatever holds for others of its
    /// family. No failure.
    Later {
        /// When it may be told.
        at: Timestamp,
    },
}

/// A look at an end that was told, which came out well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndCheck {
    /// People see the end.
    Shown,
    /// They saw something older, and the end was told again.
    Retold,
    /// It was not tried: this one may not be asked about before that time.
    Deferred {
        /// When it may be.
        until: Timestamp,
    },
}

/// Why a message was not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NotDelivered {
    /// What is wrong, and what is to be done about it.
    pub problem: DeployError,
    /// Whether it may have arrived nevertheless: it was sent, and no answer came. What an earlier
    /// attempt left open stays so in any case.
    pub unsure: bool,
}

impl NotDelivered {
    /// The panic's own words are in the log; they are for developers.
    pub(super) fn panicked() -> Self {
        let problem =
            DeployError::give_up("a fault in the-deployer itself; its log has the details");
        Self { problem, unsure: true }
    }

    pub(super) fn never_ended(longest: Duration) -> Self {
        let message = format!("telling took longer than {} s and was stopped", longest.as_secs());
        Self { problem: DeployError::retry(message), unsure: true }
    }
}

impl From<DeployError> for NotDelivered {
    fn from(problem: DeployError) -> Self {
        Self { problem, unsure: false }
    }
}

impl From<StoreError> for NotDelivered {
    fn from(error: StoreError) -> Self {
        DeployError::from(error).into()
    }
}

/// What a person must mend first is waited for like an outage, as long as for everything; only
/// what would be refused for ever is put aside at once.
impl From<DeliveryError> for NotDelivered {
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
