//! What a job needs of the world, in a job's words. `app` makes it of the forge, the templates,
//! the pipeline and the manifest repository; the tests make it of a world in memory.

use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;

use crate::controller::stages::Stages;
use crate::forge::delivery::Limited;
use crate::model::claim::Claims;
use crate::model::deployment::{Contact, Deployment, Pushed};
use crate::model::event::DeploymentRequest;
use crate::model::hand_edit::HandEdit;
use crate::model::id::{AppKey, CommitSha};
use crate::model::revision::Revision;
use crate::model::rollback::Rollback;
use crate::model::violation::{Rejection, Violation};
use crate::store::Message;
use crate::support::lease::Lease;

/// The world outside. Every call must end by itself, with a timeout of its own.
pub trait Outside: Send + Sync + 'static {
    /// What a planner hands to the writer beside the revision; nobody here looks into it.
    type Extra: Send;

    /// The bytes of the WAML at the release's commit, not longer than the configured limit.
    fn waml(
        &self,
        request: &DeploymentRequest,
    ) -> impl Future<Output = Result<Vec<u8>, Problem>> + Send;

    /// What would be deployed, or why not. Begins and ends its stages in `stages`.
    fn plan(
        &self,
        deployment: &Deployment,
        waml: Vec<u8>,
        stages: &Stages,
    ) -> impl Future<Output = Result<Planned<Self::Extra>, NotPlanned>> + Send;

    /// Puts the plan into the manifest repository, unless the lease has ended. A deploy id that is
    /// there already is not pushed again. What somebody had edited by hand there is told, whatever became of the write.
    fn write(
        &self,
        deployment: &Deployment,
        planned: Planned<Self::Extra>,
        at: Timestamp,
        lease: &Lease,
    ) -> impl Future<Output = Wrote> + Send;

    /// What a former revision makes live again; an error where it is other apps' by now, or no app's.
    fn rollback_claims(
        &self,
        deployment: &Deployment,
        rollback: &Rollback,
    ) -> impl Future<Output = Result<Claims, Problem>> + Send;

    /// Makes a former revision live again, in the manifest repository, unless the lease has ended. One that is live already is not
    /// pushed again.
    fn roll_back(
        &self,
        deployment: &Deployment,
        rollback: &Rollback,
        at: Timestamp,
        lease: &Lease,
    ) -> impl Future<Output = Restored> + Send;

    /// What an earlier attempt has pushed for this deployment, if it has. Asked where a push
    /// was begun and nobody knows how it ended.
    fn pushed(
        &self,
        deployment: &Deployment,
    ) -> impl Future<Output = Result<Option<Earlier>, Problem>> + Send;

    /// Tells somebody what became of a deployment. One that may have arrived before
    /// ([`Message::unsure`]) is looked for first, and not sent a second time.
    fn tell(
        &self,
        message: &Message,
        now: Timestamp,
    ) -> impl Future<Output = Result<Delivered, NotDelivered>> + Send;

    /// Looks whether an end that was told is what people see, and tells it again where something before it
    /// was applied late.
    fn confirm(
        &self,
        _message: &Message,
        _now: Timestamp,
    ) -> impl Future<Output = Result<EndCheck, NotDelivered>> + Send {
        async { Ok(EndCheck::Shown) }
    }

    /// Until when the forge wants no requests, as far as it said.
    fn limited(&self) -> Limited {
        Limited::default()
    }

    /// Whether the forge has limits at all.
    fn has_limits(&self) -> bool {
        true
    }
}

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

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned<Extra> {
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
    pub extra: Extra,
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

/// How a write ended well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// It is a new commit.
    Pushed {
        /// The commit.
        commit: CommitSha,
    },
    /// The same is there already; no commit was made.
    Unchanged {
        /// The tip that has it.
        commit: CommitSha,
    },
    /// An earlier attempt at this deployment had pushed it.
    AlreadyPushed {
        /// The commit it made.
        commit: CommitSha,
    },
}

/// Something in the world went wrong.
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
