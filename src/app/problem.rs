//! The adapters' errors in a job's words: what it means for the deployment.

use crate::controller::outside::{Problem, Remedy};
use crate::forge::error::{Disposition as ForgeDisposition, ForgeError};
use crate::git::writer::{Disposition, WriteError};

/// A forge that lacks something is the request's fault; one that refuses us is not.
pub(super) fn of_forge(error: &ForgeError) -> Problem {
    let remedy = match (error, error.disposition()) {
        (_, ForgeDisposition::Retry) => Remedy::Retry { after: None },
        (_, ForgeDisposition::RetryAfter(wait)) => Remedy::Retry { after: Some(wait) },
        (
            ForgeError::NoRepository { .. }
            | ForgeError::NoCommit { .. }
            | ForgeError::NoFile { .. }
            | ForgeError::TooLarge { .. },
            ForgeDisposition::Stop,
        ) => Remedy::Reject,
        (_, ForgeDisposition::Stop) => Remedy::GiveUp,
    };
    Problem { remedy, message: error.to_string() }
}

pub(super) fn of_write(error: &WriteError) -> Problem {
    let remedy = match error.disposition() {
        Disposition::Retry { after } => Remedy::Retry { after },
        Disposition::Stop => Remedy::GiveUp,
    };
    Problem { remedy, message: error.to_string() }
}
