//! Results and errors of the steps of an attempt, and the remedy for each error. Plain values.

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
use crate::store::{FleetPartPush, StoreError};
use crate::support::retry::Disposition;

/// A plan that can be written.
pub struct WritablePlan {
    /// The template and its version: `backend-default@latest`.
    pub template: String,
    /// The commit of the templates, where they come from a repository.
    pub templates_commit: Option<CommitSha>,
    /// The contact of the app's team.
    pub contact: Option<Contact>,
    /// The address of the app, if it has a host.
    pub address: Option<String>,
    /// The routes and objects that it makes live.
    pub claims: Claims,
    /// Violations that do not stop the deployment.
    pub warnings: Vec<Violation>,
    /// The change for the writer.
    pub(crate) write: Box<DeploymentChange>,
}

/// The plans of a deployment: one for each cluster of a fleet, else a single one.
pub struct PlannedDeployment {
    /// The plans, in the order of the clusters; at least one.
    pub plans: Vec<WritablePlan>,
    /// True if the target is a fleet.
    pub is_fleet: bool,
    /// The announcement of this change to the writer of its repository.
    pub(super) pending: PendingRelease,
}

impl PlannedDeployment {
    /// Returns the warnings of all plans, each once.
    pub(crate) fn warnings(&self) -> Vec<Violation> {
        let mut warnings: Vec<Violation> = Vec::new();
        for warning in self.plans.iter().flat_map(|plan| &plan.warnings) {
            if !warnings.contains(warning) {
                warnings.push(warning.clone());
            }
        }
        warnings
    }
}

/// The reason why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanError {
    /// The WAML breaks rules.
    Rejected {
        /// The violations.
        rejection: Rejection,
        /// The app, where the WAML could be read so far.
        app: Option<AppKey>,
        /// The template, where it was found.
        template: Option<String>,
        /// The commit of the templates, where they come from a repository.
        templates_commit: Option<CommitSha>,
        /// The contact of the app's team, where the WAML could be read so far.
        contact: Option<Contact>,
    },
    /// Planning failed for another reason.
    Problem(DeployError),
}

impl From<DeployError> for PlanError {
    fn from(problem: DeployError) -> Self {
        Self::Problem(problem)
    }
}

/// The result of a write, with the manual edit that it found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteOutcome {
    /// The push, or the error.
    pub result: Result<Pushed, DeployError>,
    /// The manual edit that the write found; the first of several clusters'.
    pub hand_edit: Option<HandEdit>,
    /// The pushes of a fleet's clusters, after a success.
    pub parts: Vec<FleetPartPush>,
}

impl From<DeployError> for WriteOutcome {
    fn from(problem: DeployError) -> Self {
        Self { result: Err(problem), hand_edit: None, parts: Vec::new() }
    }
}

/// Returns the record of a push.
pub(crate) fn describe_push(push: PushOutcome, digest: Digest, files: Vec<String>) -> Pushed {
    let (commit, changed) = match push {
        PushOutcome::Pushed { commit } | PushOutcome::AlreadyPushed { commit } => (commit, true),
        PushOutcome::Unchanged { commit } => (commit, false),
    };
    Pushed { commit, changed, digest, files }
}

/// A problem of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeployError {
    /// The remedy.
    pub remedy: Remedy,
    /// The fault, its place and the way out, for the person who deploys. One line, no secret.
    pub message: String,
}

/// The step that follows a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Reject: the request is at fault, and will be the next time, so the deployment fails.
    Reject,
    /// Retry, after this time if one is named: the problem may pass. For a message: no other
    /// message of its family is sent meanwhile, and a named time does not count as a failure.
    Retry {
        /// The wait that the other side asked for.
        after: Option<Duration>,
    },
    /// The other side does not know what its own event names, and may lag behind: retry while the
    /// event is young; after that, the request is at fault.
    Late {
        /// The thing that it does not know: `the commit`.
        what: &'static str,
        /// The age of the event after which the other side is not considered behind any more.
        until: Duration,
    },
    /// The other side refuses the service, which may be temporary: retry for some minutes, then as
    /// [`Remedy::GiveUp`].
    Doubt,
    /// Give up until a person acts: the problem does not pass by itself, and the request is not at
    /// fault.
    GiveUp,
}

/// The time for which GitHub's API may lag behind its own event.
const API_LAG: Duration = Duration::from_mins(2);
/// The same for a file. An answer that the commit does not have the file shows that the commit is
/// known, though another machine of GitHub's may still lag behind. An author who forgot the file
/// should not wait long for the answer.
const FILE_LAG: Duration = Duration::from_secs(5);

impl DeployError {
    /// Creates a problem that may pass.
    pub(crate) fn retry(message: impl Into<String>) -> Self {
        Self { remedy: Remedy::Retry { after: None }, message: message.into() }
    }

    /// Creates a problem that the request caused.
    pub(crate) fn reject(message: impl Into<String>) -> Self {
        Self { remedy: Remedy::Reject, message: message.into() }
    }

    /// Creates a problem that does not pass by itself.
    pub(crate) fn give_up(message: impl Into<String>) -> Self {
        Self { remedy: Remedy::GiveUp, message: message.into() }
    }
}

impl Remedy {
    /// Returns true if the same call may succeed later.
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

/// An error that something is missing is the request's fault, unless the code host lags behind; a
/// refusal of the service is not.
impl From<&ForgeError> for DeployError {
    fn from(error: &ForgeError) -> Self {
        let late = |what, until| Remedy::Late { what, until };
        let remedy = match (error, error.disposition()) {
            (ForgeError::NoRepository { .. }, Disposition::Stop) => late("the repository", API_LAG),
            (ForgeError::NoCommit { .. }, Disposition::Stop) => late("the commit", API_LAG),
            (ForgeError::NoFile { .. }, Disposition::Stop) => late("the file", FILE_LAG),
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

/// Returns the text for a route of the manifests that another app has.
pub(crate) fn route_taken(route: &Route) -> String {
    let Route { host, path, app, .. } = route;
    format!(
        "`{app}` already has `{host}{path}`, and both cannot be live: take it out of one of them first"
    )
}

/// Returns the text for an object that another app of the namespace has.
pub(crate) fn object_taken(object: &ObjectName, app: &AppKey) -> String {
    format!(
        "{object} already belongs to `{app}`, and only one app can have it: choose another name"
    )
}
