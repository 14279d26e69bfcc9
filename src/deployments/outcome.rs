//! What the steps of an attempt come to, and what is to be done about it. Plain values.

use std::time::Duration;

use crate::forge::error::ForgeError;
use crate::git::writer::{DeploymentChange, PendingRelease, PushOutcome, WriteError};
use crate::model::claim::Claims;
use crate::model::deployment::{Contact, Pushed};
use crate::model::facts::ObjectName;
use crate::model::hand_edit::HandEdit;
use crate::model::id::{AppKey, CommitSha};
use crate::model::revision::Digest;
use crate::model::route::Route;
use crate::model::violation::{Rejection, Violation};
use crate::store::StoreError;
use crate::support::retry::Disposition;

/// What is to be written.
pub struct Planned {
    /// The template and its version: `backend-default@latest`.
    pub template: String,
    /// The commit of the templates, where they come from a repository.
    pub templates_commit: Option<CommitSha>,
    /// Where the people of the app are reached.
    pub contact: Option<Contact>,
    /// Where the app will be reached, if it has a host.
    pub address: Option<String>,
    /// What it makes live.
    pub claims: Claims,
    /// What does not stop the deployment.
    pub warnings: Vec<Violation>,
    /// For the writer.
    pub(crate) write: Box<DeploymentChange>,
    /// Its repository awaits it.
    pub(super) pending: PendingRelease,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanError {
    /// The WAML breaks rules.
    Rejected {
        /// Which ones.
        rejection: Rejection,
        /// The app, where the WAML could be read so far.
        app: Option<AppKey>,
        /// The template, where it was found.
        template: Option<String>,
        /// The commit of the templates, where they come from a repository.
        templates_commit: Option<CommitSha>,
        /// Where the people of the app are reached, where the WAML could be read so far.
        contact: Option<Contact>,
    },
    /// Planning could not be done.
    Problem(DeployError),
}

impl From<DeployError> for PlanError {
    fn from(problem: DeployError) -> Self {
        Self::Problem(problem)
    }
}

/// How a write ended, and what was found on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOutcome {
    /// What is live now.
    pub ended: Result<Pushed, DeployError>,
    /// What somebody had changed by hand there.
    pub hand_edit: Option<HandEdit>,
}

impl From<DeployError> for WriteOutcome {
    fn from(problem: DeployError) -> Self {
        Self { ended: Err(problem), hand_edit: None }
    }
}

/// Returns what a write left behind.
pub(crate) fn pushed(written: PushOutcome, digest: Digest, files: Vec<String>) -> Pushed {
    let (commit, changed) = match written {
        PushOutcome::Pushed { commit } | PushOutcome::AlreadyPushed { commit } => (commit, true),
        PushOutcome::Unchanged { commit } => (commit, false),
    };
    Pushed { commit, changed, digest, files }
}

/// Something went wrong outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeployError {
    /// What is to be done about it.
    pub remedy: Remedy,
    /// What is wrong, where, and what to do; for the person who deploys. One line, no secret.
    pub message: String,
}

/// What is to be done about a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// The request is at fault, and will be the next time: the deployment fails.
    Reject,
    /// It may pass: try again, after this time if one is named. Of a message: nothing else of its
    /// family is tried meanwhile, and a named time is no failure.
    Retry {
        /// What the other side asked for.
        after: Option<Duration>,
    },
    /// The other side does not know what its own event tells of. It may be behind: try again while
    /// the event is young; after that, the request is at fault.
    Late {
        /// What it does not know, in words: `the commit`.
        what: &'static str,
        /// So long after the event it is no longer believed to be behind.
        until: Duration,
    },
    /// The other side refuses us, and may do so only while it is not itself: try again for some
    /// minutes, then as [`Remedy::GiveUp`].
    Doubt,
    /// It will not pass by itself, and the request is not at fault: give up until a person acts.
    GiveUp,
}

/// So long GitHub's API may not know what its own event tells of.
const BEHIND: Duration = Duration::from_mins(2);
/// Of a file it says that the commit has it not, so the commit is known; another machine of GitHub's
/// may still be behind. Whoever forgot the file is not to wait for the answer.
const FILE_BEHIND: Duration = Duration::from_secs(5);

impl DeployError {
    /// One that may pass.
    pub(crate) fn retry(message: impl Into<String>) -> Self {
        Self { remedy: Remedy::Retry { after: None }, message: message.into() }
    }

    /// One that is the request's fault.
    pub(crate) fn reject(message: impl Into<String>) -> Self {
        Self { remedy: Remedy::Reject, message: message.into() }
    }

    /// One that will not pass by itself.
    pub(crate) fn give_up(message: impl Into<String>) -> Self {
        Self { remedy: Remedy::GiveUp, message: message.into() }
    }
}

impl Remedy {
    /// Returns whether the same call may go well later.
    pub(crate) fn may_pass(self) -> bool {
        match self {
            Self::Retry { .. } => true,
            Self::Reject | Self::Late { .. } | Self::Doubt | Self::GiveUp => false,
        }
    }
}

impl From<Disposition> for Remedy {
    fn from(disposition: Disposition) -> Self {
        match disposition {
            Disposition::Retry { after } => Self::Retry { after },
            Disposition::Doubt => Self::Doubt,
            Disposition::Stop => Self::GiveUp,
        }
    }
}

/// A forge that lacks something is the request's fault, unless it is behind; one that refuses us is
/// not.
impl From<&ForgeError> for DeployError {
    fn from(error: &ForgeError) -> Self {
        let late = |what, until| Remedy::Late { what, until };
        let remedy = match (error, error.disposition()) {
            (ForgeError::NoRepository { .. }, Disposition::Stop) => late("the repository", BEHIND),
            (ForgeError::NoCommit { .. }, Disposition::Stop) => late("the commit", BEHIND),
            (ForgeError::NoFile { .. }, Disposition::Stop) => late("the file", FILE_BEHIND),
            (ForgeError::TooLarge { .. } | ForgeError::Renamed { .. }, Disposition::Stop) => {
                Remedy::Reject
            }
            (_, disposition) => disposition.into(),
        };
        Self { remedy, message: error.to_string() }
    }
}

impl From<ForgeError> for DeployError {
    fn from(error: ForgeError) -> Self {
        Self::from(&error)
    }
}

impl From<WriteError> for DeployError {
    fn from(error: WriteError) -> Self {
        Self { remedy: error.disposition().into(), message: error.to_string() }
    }
}

impl From<StoreError> for DeployError {
    fn from(error: StoreError) -> Self {
        Self::retry(error.to_string())
    }
}

/// Another app's route is in the way of one that the manifests make live.
pub(crate) fn route_taken(route: &Route) -> String {
    let Route { host, path, app, .. } = route;
    format!(
        "`{app}` has `{host}{path}` by now, and both cannot be live: take it out of one of them first"
    )
}

/// Another app of the namespace has an object of that name.
pub(crate) fn object_taken(object: &ObjectName, app: &AppKey) -> String {
    format!("{object} is `{app}`'s by now, and only one of them can have it: choose another name")
}
