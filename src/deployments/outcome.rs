//! What the steps of an attempt come to, and what is to be done about it. Plain values.

use std::time::Duration;

use jiff::Timestamp;

use crate::deployments::push::Change;
use crate::git::writer::{OnItsWay, Written};
use crate::model::claim::Claims;
use crate::model::deployment::{Contact, Pushed};
use crate::model::facts::ObjectName;
use crate::model::hand_edit::HandEdit;
use crate::model::id::{AppKey, CommitSha};
use crate::model::revision::Revision;
use crate::model::route::Route;
use crate::model::violation::{Rejection, Violation};

/// How telling ended well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivered {
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

/// How a look at an end that was told ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndCheck {
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

/// Why somebody was not told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotDelivered {
    /// What is wrong, and what is to be done about it.
    pub problem: Problem,
    /// Whether it may have arrived nevertheless: it was sent, and no answer came. What an earlier
    /// attempt left open stays so in any case.
    pub unsure: bool,
}

/// A change that was planned, and which its repository awaits.
pub(super) struct Ready {
    pub(super) change: Change,
    pub(super) on_its_way: OnItsWay,
}

/// What is to be written.
pub struct Planned {
    /// The rendered files.
    pub revision: Revision,
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
    pub(super) extra: Box<Ready>,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotPlanned {
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
    Problem(Problem),
}

/// What an earlier attempt has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Earlier {
    /// What it pushed.
    pub pushed: Pushed,
    /// What it replaced of somebody's hand.
    pub hand_edit: Option<Box<HandEdit>>,
}

/// How a write ended, and what was found on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrote {
    /// How it ended.
    pub ended: Result<Written, Problem>,
    /// What somebody had changed by hand there.
    pub hand_edit: Option<Box<HandEdit>>,
}

/// How a rollback's write ended, and what was found on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// What is live now.
    pub ended: Result<Pushed, Problem>,
    /// What somebody had changed by hand there.
    pub hand_edit: Option<Box<HandEdit>>,
}

/// Something went wrong outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
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
