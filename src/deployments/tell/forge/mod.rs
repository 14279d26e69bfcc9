//! The forge is told: the deployment's statuses, the commit status beside them, and the check run
//! that shows violations at their lines.
//!
//! What may have arrived before is looked for, and not written a second time. What is to be said is
//! found out when it is said: a commit is told of the newest deployment that it has on a target.

mod check; // the check run of a failure
mod commit; // the commit status
mod status; // the deployment's own statuses
mod words; // every sentence, pure

pub(super) use check::check;
pub(super) use commit::{commit, confirm_commit};
pub(super) use status::{confirm_status, status};

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::deployments::outcome::{Delivered, NotDelivered, Problem, Remedy};
use crate::deployments::{Deployments, problem};
use crate::forge::error::ForgeError;
use crate::store::{Message, StoreError};

/// Our page about a deployment.
fn page(deployments: &Deployments, message: &Message) -> String {
    format!("{}/deployments/{}", deployments.external_url, message.deployment)
}

/// One context and one name a target: they replace each other where the target is the same.
fn context(message: &Message) -> String {
    format!("deploy/{}", message.target)
}

/// Why a commit needs not hear of this deployment: a newer one says how the commit stands.
async fn said_by_a_newer_one(
    deployments: &Deployments,
    message: &Message,
) -> Result<Option<Delivered>, StoreError> {
    let newer = deployments.store.newer_of_commit(message).await?;
    Ok(newer.map(|newer| {
        Delivered::Nothing(format!(
            "deployment {newer} is a newer one of the same commit to {}",
            message.target
        ))
    }))
}

/// What was written.
fn yes() -> Delivered {
    Delivered::Yes { reference: None }
}

/// Why the forge was not told.
#[derive(Debug)]
pub(super) enum ReportError {
    /// The forge did not take it.
    Forge(ForgeError),
    /// Our own database did not say what is to be told: nothing was sent.
    Store(StoreError),
}

impl From<ForgeError> for ReportError {
    fn from(error: ForgeError) -> Self {
        Self::Forge(error)
    }
}

impl From<StoreError> for ReportError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<ReportError> for NotDelivered {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::Forge(error) => trouble(&error),
            ReportError::Store(error) => {
                let message = format!("what is to be told cannot be read: {error}");
                let problem = Problem { remedy: Remedy::Retry { after: None }, message };
                Self { problem, unsure: false }
            }
        }
    }
}

/// What waits for the present name of a repository that was renamed, or for an account, is told later.
///
/// An App has an account at each owner: one of them that GitHub limits holds up no other. The client keeps
/// that account from being asked meanwhile. All else that GitHub refuses holds up every message.
pub(super) fn defer_limited_account<T>(
    deployments: &Deployments,
    outcome: Result<T, ReportError>,
    now: Timestamp,
    later: impl FnOnce(Timestamp) -> T,
) -> Result<T, NotDelivered> {
    match outcome {
        Err(ReportError::Forge(error @ ForgeError::RateLimited { retry_after, .. }))
            if deployments.forge.knows_deliveries() =>
        {
            tracing::debug!(reason = %error, "not told yet");
            let wait = SignedDuration::try_from(retry_after).unwrap_or(SignedDuration::MAX);
            Ok(later(now.checked_add(wait).unwrap_or(Timestamp::MAX)))
        }
        Err(ReportError::Forge(error @ ForgeError::Renamed { .. })) => {
            tracing::debug!(reason = %error, "not told yet");
            Ok(later(now.checked_add(UNTIL_NAMED).unwrap_or(Timestamp::MAX)))
        }
        other => other.map_err(NotDelivered::from),
    }
}

/// The repository's next event says its present name, and brings what waits for it along.
const UNTIL_NAMED: SignedDuration = SignedDuration::from_mins(10);

/// Credentials that are refused are refused for everything: one message asks again after this, and the
/// others wait for it.
const CREDENTIALS: Duration = Duration::from_mins(5);

/// Without an answer nobody knows whether it has arrived. What the forge does not find may come:
/// its own parts agree late, and rights are given late. What it understands and does not take, it will not
/// take the next time.
fn trouble(error: &ForgeError) -> NotDelivered {
    let Problem { remedy, message } = problem::of_forge(error);
    let remedy = match error {
        ForgeError::BadCredentials { .. } => Remedy::Retry { after: Some(CREDENTIALS) },
        ForgeError::Archived { .. } => Remedy::Reject,
        ForgeError::Refused { status, message, .. } if is_for_good(*status, message) => {
            Remedy::Reject
        }
        _ if remedy == Remedy::Reject => Remedy::GiveUp,
        _ => remedy,
    };
    NotDelivered { problem: Problem { remedy, message }, unsure: error.may_have_arrived() }
}

/// A request that is wrong in itself, and not too early: GitHub may not know the commit yet. It answers so
/// to what it takes for spam, too, which passes.
fn is_for_good(status: u16, message: &str) -> bool {
    let passes = ["No commit found", "spammed", "abuse"];
    status == 422 && !passes.iter().any(|words| message.contains(words))
}
