//! What happened.

use jiff::Timestamp;
use tokio::sync::watch;

use crate::dashboard::deployment::Log;
use crate::model::deployment::{Deployment, ForgeState, State};
use crate::model::id::{AppKey, DeployId, ImageTag, RepoName, TargetName};
use crate::pipeline::diff::Change;
use crate::server::ports::Fault;

/// Which deployments to list; what is absent does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// To this target.
    pub target: Option<TargetName>,
    /// Of this repository.
    pub repository: Option<RepoName>,
    /// In this state.
    pub state: Option<State>,
    /// Of this app; it is known once the WAML has been read.
    pub app: Option<AppKey>,
    /// Asked for by this one.
    pub actor: Option<String>,
    /// Of this image tag.
    pub tag: Option<ImageTag>,
    /// The forge's own number of it.
    pub forge_id: Option<i64>,
    /// Received at this time or later.
    pub since: Option<Timestamp>,
    /// Received before this time.
    pub until: Option<Timestamp>,
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

    /// One deployment by itself, without what takes room: its violations are counted and not listed.
    fn picture(
        &self,
        id: &DeployId,
    ) -> impl Future<Output = Result<Option<Deployment>, Fault>> + Send;

    /// What is another whenever the picture of a deployment is another; costs less to ask for.
    fn version(&self, id: &DeployId) -> impl Future<Output = Result<Option<String>, Fault>> + Send;

    /// What a deployment changed in its app's `latest`; `None` where nobody can tell it (any more).
    fn changes(&self, deployment: &Deployment) -> impl Future<Output = Option<Vec<Change>>> + Send;

    /// The page of a deployment.
    fn page_of(&self, id: &DeployId) -> String;

    /// Rings after each change of this process's. Other replicas' are not heard of.
    fn bell(&self) -> watch::Receiver<()>;
}

/// What pages show.
pub trait Logs: Send + Sync + 'static {
    /// One deployment with everything that anybody was or will be told of it.
    fn log(&self, id: &DeployId) -> impl Future<Output = Result<Option<Log>, Fault>> + Send;
}
