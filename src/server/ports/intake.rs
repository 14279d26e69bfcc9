//! What comes in from the forge.

use crate::model::event::{
    CheckRerun, DeploymentRequest, NamedRepository, PullRequest, Push, Refusal, Unused,
};
use crate::model::id::{DeliveryId, DeployId};
use crate::server::ports::Fault;

/// What became of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    /// It is stored now.
    New(DeployId),
    /// It was stored before, as this deployment.
    Duplicate(DeployId),
}

/// Where events are stored before they are answered.
pub trait Inbox: Send + Sync + 'static {
    /// Stores a request durably; a second one of the same delivery or deployment changes nothing.
    fn accept(
        &self,
        delivery: DeliveryId,
        request: DeploymentRequest,
    ) -> impl Future<Output = Result<Accepted, Fault>> + Send;

    /// Takes note of the name that a repository has. A hint, as every event gives it: one that is lost costs
    /// the time until the next.
    fn recognize(&self, named: &NamedRepository) -> impl Future<Output = ()> + Send;
}

/// What became of one delivery, for who counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// It is a new deployment.
    Accepted,
    /// It was known.
    Duplicate,
    /// It is a hint that was taken.
    Hint,
    /// It asked whether we are there.
    Ping,
    /// It is not for us.
    Ignored(Unused),
    /// It is for us, and nothing can be made of it.
    Refused,
    /// It cannot be read.
    Malformed,
    /// It is not the forge's.
    Unsigned,
    /// It could not be stored; the forge has it as failed.
    NotStored,
    /// Its body came too slowly, or there was no room for it.
    NotRead,
}

/// Who follows what comes in.
pub trait Intake: Send + Sync + 'static {
    /// Somebody should be told at the forge why nothing can be made of a deployment. A hint:
    /// nothing is stored, and one that is lost costs the time until the next sweep.
    fn refused(&self, refusal: &Refusal);

    /// Counts a delivery.
    fn count(&self, delivery: Delivery);
}

/// Who wants to know of a branch that has moved.
pub trait Pushes: Send + Sync + 'static {
    /// Whether somebody follows that branch; then it is looked at soon. The event itself is not
    /// needed any more: one that is lost costs the time until the next look.
    fn pushed(&self, push: &Push) -> bool;
}

/// What became of a pull request that was heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noted {
    /// It is stored, and its preview is to be made.
    New,
    /// The same, or something newer, was stored before.
    Known,
    /// It is closed; nothing is kept of it.
    Forgotten,
    /// Too many wait already.
    Full,
}

/// Where pull requests are stored before they are answered.
pub trait PullRequests: Send + Sync + 'static {
    /// Stores durably that a pull request is to be previewed, or forgets one that is closed.
    fn note(&self, request: PullRequest) -> impl Future<Output = Result<Noted, Fault>> + Send;

    /// Stores durably that previews are to be made again; whether there are such.
    fn make_again(&self, rerun: CheckRerun) -> impl Future<Output = Result<bool, Fault>> + Send;
}
