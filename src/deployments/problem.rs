//! The adapters' errors in a job's words: what it means for the deployment.

use std::time::Duration;

use crate::deployments::outcome::{Problem, Remedy};
use crate::forge::error::ForgeError;
use crate::git::writer::WriteError;
use crate::support::retry::Disposition;

/// So long GitHub's API may not know what its own event tells of.
const BEHIND: Duration = Duration::from_mins(2);
/// Of a file it says that the commit has it not, so the commit is known; another machine of GitHub's
/// may still be behind. Whoever forgot the file is not to wait for the answer.
const FILE_BEHIND: Duration = Duration::from_secs(5);

/// A forge that lacks something is the request's fault, unless it is behind; one that refuses us is
/// not.
pub(super) fn of_forge(error: &ForgeError) -> Problem {
    let late = |what, until| Remedy::Late { what, until };
    let remedy = match (error, error.disposition()) {
        (ForgeError::NoRepository { .. }, Disposition::Stop) => late("the repository", BEHIND),
        (ForgeError::NoCommit { .. }, Disposition::Stop) => late("the commit", BEHIND),
        (ForgeError::NoFile { .. }, Disposition::Stop) => late("the file", FILE_BEHIND),
        (ForgeError::TooLarge { .. } | ForgeError::Renamed { .. }, Disposition::Stop) => {
            Remedy::Reject
        }
        (_, disposition) => remedy(disposition),
    };
    Problem { remedy, message: error.to_string() }
}

/// The same of repositories in a folder: they are never behind.
pub(super) fn of_local(error: &ForgeError) -> Problem {
    let Problem { remedy, message } = of_forge(error);
    let remedy = if matches!(remedy, Remedy::Late { .. }) { Remedy::Reject } else { remedy };
    Problem { remedy, message }
}

pub(super) fn of_write(error: &WriteError) -> Problem {
    Problem { remedy: remedy(error.disposition()), message: error.to_string() }
}

fn remedy(disposition: Disposition) -> Remedy {
    match disposition {
        Disposition::Retry { after } => Remedy::Retry { after },
        Disposition::Doubt => Remedy::Doubt,
        Disposition::Stop => Remedy::GiveUp,
    }
}
