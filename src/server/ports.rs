//! What the server needs of the rest of the program, as narrow as it gets. `app` has the adapters.

use jiff::Timestamp;

use crate::dashboard::deployment::Log;
use crate::model::deployment::{Deployment, ForgeState, State};
use crate::model::event::{DeploymentRequest, PullRequest, Push, Refusal, Unused};
use crate::model::facts::LiveObject;
use crate::model::id::{DeliveryId, DeployId, RepoName, TargetName};
use crate::model::placed::{Missing, Placed, Spot};
use crate::model::removal::{Removal, RemovalRequest};

/// Something behind the server does not work now. Its text is for the log; callers are told to
/// come again.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Fault(Box<dyn std::error::Error + Send + Sync>);

impl Fault {
    /// A fault for that cause.
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}

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
}

/// Which deployments to list; what is absent does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// To this target.
    pub target: Option<TargetName>,
    /// Of this repository.
    pub repository: Option<RepoName>,
    /// In this state.
    pub state: Option<State>,
    /// Older than this one.
    pub before: Option<DeployId>,
    /// At most so many; at least 1.
    pub limit: u32,
}

/// One page of a list, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The deployments.
    pub deployments: Vec<Deployment>,
    /// The `before` of the next page, if there is one.
    pub next: Option<DeployId>,
}

/// A status of a deployment, as the forge is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusRecord {
    /// GitHub's word.
    pub state: ForgeState,
    /// The sentence.
    pub description: String,
    /// When it came to be so.
    pub at: Timestamp,
    /// When the forge took it.
    pub sent_at: Option<Timestamp>,
    /// Why nobody tries to send it any more.
    pub parked: Option<String>,
    /// Why there was nothing to say after all.
    pub skipped: Option<String>,
}

/// What happened.
pub trait Records: Send + Sync + 'static {
    /// One page of deployments, newest first.
    fn deployments(&self, query: &Query) -> impl Future<Output = Result<Page, Fault>> + Send;

    /// One deployment with its statuses, oldest first.
    fn deployment(
        &self,
        id: &DeployId,
    ) -> impl Future<Output = Result<Option<(Deployment, Vec<StatusRecord>)>, Fault>> + Send;
}

/// Which apps to list; what is absent does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppsQuery {
    /// On this target.
    pub target: Option<TargetName>,
    /// After this one, in the order of their spots.
    pub after: Option<Spot>,
    /// At most so many; at least 1.
    pub limit: u32,
}

/// One page of apps, in the order of their spots.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppsPage {
    /// The apps.
    pub apps: Vec<Placed>,
    /// The `after` of the next page, if there is one.
    pub next: Option<Spot>,
    /// Where there may be more apps: repositories that cannot be read now.
    pub missing: Missing,
}

/// What is where.
pub trait Apps: Send + Sync + 'static {
    /// One page of apps, as the manifest repositories have them. The error's text is for callers.
    fn apps(&self, query: &AppsQuery) -> impl Future<Output = Result<AppsPage, String>> + Send;
}

/// What pages show.
pub trait Logs: Send + Sync + 'static {
    /// One deployment with everything that anybody was or will be told of it.
    fn log(&self, id: &DeployId) -> impl Future<Output = Result<Option<Log>, Fault>> + Send;
}

/// One thing that must work before traffic makes sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its name: `database`, `manifests`.
    pub name: String,
    /// What it is waiting for; `None` when it works. Shown to anybody: no secrets.
    pub waiting_for: Option<String>,
    /// What else there is to say, in both cases.
    pub note: Option<String>,
}

/// How the program is.
pub trait Condition: Send + Sync + 'static {
    /// All checks, made now; each bounds itself.
    fn checks(&self) -> impl Future<Output = Vec<Check>> + Send;

    /// All metrics in the text format that Prometheus reads.
    fn metrics(&self) -> String;
}

/// What became of a request to remove an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// The record.
    pub removal: Removal,
    /// What the record is of.
    pub outcome: Outcome,
}

/// What a removal's record is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was done now.
    Now,
    /// It was done before; nothing is left to do.
    Before,
    /// It was only asked what would be done.
    Would,
}

/// Why an app was not removed. Nothing of it was done.
#[derive(Debug, thiserror::Error)]
pub enum NotRemoved {
    /// There is no such app there.
    #[error("{0}")]
    Unknown(String),
    /// Something is under way with it.
    #[error("{0}")]
    Busy(String),
    /// Objects keep data, and the request does not say that it may go.
    #[error("{} keep data", .0.len())]
    KeepsData(Vec<LiveObject>),
    /// Somebody else's files are in its folder.
    #[error("{} files are not ours", .0.len())]
    Foreign(Vec<String>),
    /// It was changed while we looked.
    #[error("{0}")]
    Changed(String),
    /// The manifest repository does not take the change; for the caller too.
    #[error("{0}")]
    Repository(String),
    /// Something of ours does not work.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// What people do on purpose beside deploying.
pub trait Acts: Send + Sync + 'static {
    /// Takes an app off a target. Goes on to its end even if nobody waits for the answer.
    fn remove(
        &self,
        request: RemovalRequest,
    ) -> impl Future<Output = Result<Gone, NotRemoved>> + Send;
}

/// All of it.
pub trait Backend:
    Inbox + Intake + Pushes + PullRequests + Records + Apps + Logs + Condition + Acts
{
}

impl<T: Inbox + Intake + Pushes + PullRequests + Records + Apps + Logs + Condition + Acts> Backend
    for T
{
}
