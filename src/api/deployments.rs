//! Deployments: the list, one deployment, its log, and the requests to create and cancel one.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::forms;
use crate::model::canary::CanarySample;
use crate::model::change::Change;
use crate::model::deploy_clock::{DeployMarks, IntervalTime};
use crate::model::deployment::{Pushed, StageTime, State};
use crate::model::hand_edit::HandEdit;
use crate::model::violation::Violation;
use crate::model::waiting::WaitingOn;

/// Deployments, newest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DeploymentPage")]
pub struct DeploymentPage<D = DeploymentSummary> {
    /// The deployments of this page.
    pub deployments: Vec<D>,
    /// The `cursor` of the next page.
    pub next: Option<String>,
}

/// A deployment in a list.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Deployment")]
pub struct DeploymentSummary {
    /// Its deploy id, which also names its revision.
    pub id: String,
    /// Its state.
    pub state: State,
    /// `namespace/slug`, once the WAML has been read.
    pub app: Option<String>,
    /// The app by the name of its file, where the repository has several; null for the only one, and for all of them.
    #[serde(default)]
    pub app_name: Option<String>,
    /// True if it deploys all apps of the repository: it has a deployment for each, and says how those go.
    #[serde(default)]
    pub all_apps: bool,
    /// The deployment of all apps that this one belongs to; null if it is none.
    #[serde(default)]
    pub parent: Option<String>,
    /// The target.
    pub target: String,
    /// The service repository, `OWNER/NAME`.
    pub repository: String,
    /// The commit of its WAML.
    #[serde(default)]
    pub commit: String,
    /// The branch or tag of the request, for people.
    #[serde(rename = "ref", default)]
    pub git_ref: String,
    /// The image tag.
    pub tag: String,
    /// The actor, by the login at the code host.
    pub actor: String,
    /// The actor's description; empty if there is none.
    #[serde(default)]
    pub description: String,
    /// The code host's number of it; null while the code host does not have it.
    pub forge_id: Option<i64>,
    /// True if a program created it, not a person.
    #[serde(default)]
    pub automatic: bool,
    /// The rollback, if it is one; otherwise null.
    #[serde(default, deserialize_with = "super::or_default")]
    pub rollback: Option<RollbackSummary>,
    /// The rollout that made it, or the undo of one; null if none did.
    #[serde(default)]
    pub rollout: Option<String>,
    /// The deployment to a fleet that this one is a part of, on one cluster of the fleet; null if it is none.
    #[serde(default)]
    pub fleet: Option<String>,
    /// The time when its event was stored.
    pub received_at: Timestamp,
    /// The time when its revision was in the manifest repository.
    #[serde(default)]
    pub pushed_at: Option<Timestamp>,
    /// The time when it ended.
    pub finished_at: Option<Timestamp>,
    /// The deploy clock: the first time of each step, with the clock that showed it, in the order of the steps.
    #[serde(default, deserialize_with = "super::or_default")]
    pub marks: DeployMarks,
    /// The result, or what it waits for; one sentence for people.
    pub summary: String,
    /// The condition that it waits for in its cluster, after the push; null before that, and once it has ended.
    #[serde(default, deserialize_with = "super::or_default")]
    pub waiting: Option<WaitingOn>,
    /// The template and its version, `backend-default@latest`.
    pub template: Option<String>,
    /// The commit of the templates' repository, if they come from one.
    pub templates_commit: Option<String>,
    /// The address of the app.
    pub address: Option<String>,
    /// True if the code host calls the target a production environment.
    #[serde(default)]
    pub production: bool,
    /// The number of attempts.
    #[serde(default)]
    pub attempts: u32,
    /// The number of violations that stop it.
    pub errors: usize,
    /// The number of warnings.
    pub warnings: usize,
    /// The push; null if nothing was pushed.
    #[serde(default, deserialize_with = "super::or_default")]
    pub pushed: Option<Pushed>,
}

/// A deployment to a fleet on one of its clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterPart {
    /// The cluster.
    pub cluster: String,
    /// The id of the part, which names the revision on the cluster and has a record of its own.
    pub deployment: String,
    /// The state on the cluster.
    pub state: State,
    /// The result, or what it waits for; one sentence for people.
    pub summary: String,
    /// The condition that it waits for; null before the push, and once it has ended.
    #[serde(default, deserialize_with = "super::or_default")]
    pub waiting: Option<WaitingOn>,
    /// The address of the app on the cluster.
    #[serde(default)]
    pub address: Option<String>,
    /// The commit in the manifest repository; null if nothing was pushed.
    #[serde(default)]
    pub commit: Option<String>,
}

/// The deployment of one of several apps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppPart {
    /// The app by the name of its file.
    pub app_name: String,
    /// `namespace/slug`, once the WAML has been read.
    #[serde(default)]
    pub app: Option<String>,
    /// The id of its deployment, which has a record of its own.
    pub deployment: String,
    /// Its state.
    pub state: State,
    /// The result, or what it waits for; one sentence for people.
    pub summary: String,
    /// The address of the app.
    #[serde(default)]
    pub address: Option<String>,
}

/// A deployment that is a rollback.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Rollback")]
pub struct RollbackSummary {
    /// The revision that becomes live again.
    pub to: String,
    /// The revision that was live; null if `latest` was edited by hand.
    pub from: Option<String>,
    /// The reason.
    pub reason: String,
    /// True if it takes a hold when it succeeds.
    pub hold: bool,
}

/// One deployment.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DeploymentDetail")]
pub struct DeploymentDetail {
    /// The same keys as in a list.
    #[serde(flatten)]
    pub summary: DeploymentSummary,
    /// The clusters of a fleet, in the order of their names, once the push has begun; empty for any other target.
    #[serde(default, deserialize_with = "super::or_default")]
    pub clusters: Vec<ClusterPart>,
    /// The deployments of the apps, in the order of their names, of one that deploys all; empty for any other.
    #[serde(default, deserialize_with = "super::or_default")]
    pub apps: Vec<AppPart>,
    /// The duration of each stage, in order.
    pub stages: Vec<StageTime>,
    /// The intervals of the deploy clock whose begin and end are known.
    #[serde(default, deserialize_with = "super::or_default")]
    pub intervals: Vec<IntervalTime>,
    /// The violations and warnings that were stored.
    pub violations: Vec<Violation>,
    /// The number of further ones; `errors` and `warnings` count all.
    #[serde(default)]
    pub violations_left_out: usize,
    /// The last lines of the log of the container that made it fail; empty if there are none.
    #[serde(default)]
    pub log_tail: Vec<String>,
    /// How far its canaries were, oldest first: an entry for each change of phase, weight or failed checks, at most the
    /// newest 100.
    #[serde(default, deserialize_with = "super::or_default")]
    pub canary: Vec<CanarySample>,
    /// The manual edit that the deployment found in the manifest repository.
    pub hand_edit: Option<HandEdit>,
    /// The statuses for the code host, sent or not, oldest first.
    pub statuses: Vec<StatusSummary>,
    /// The address of its page.
    #[schemars(with = "String")]
    pub log_url: Option<String>,
    /// The changes of the files that the cluster syncs, object by object; null if nothing was pushed, or they cannot be
    /// determined any more.
    pub changes: Option<Vec<Change>>,
}

/// The current state of a deployment, in a stream of events.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DeploymentPicture")]
pub struct DeploymentPicture<D = DeploymentSummary> {
    /// The same keys as in a list.
    #[serde(flatten)]
    pub summary: D,
    /// The clusters of a fleet, in the order of their names, once the push has begun; empty for any other target.
    #[serde(default, deserialize_with = "super::or_default")]
    pub clusters: Vec<ClusterPart>,
    /// The deployments of the apps, in the order of their names, of one that deploys all; empty for any other.
    #[serde(default, deserialize_with = "super::or_default")]
    pub apps: Vec<AppPart>,
    /// The duration of each stage, in order.
    #[serde(default)]
    pub stages: Vec<StageTime>,
}

/// A status for the code host.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Status")]
pub struct StatusSummary {
    /// GitHub's name of the state.
    pub state: String,
    /// One sentence.
    pub description: String,
    /// The time of the state.
    pub at: Timestamp,
    /// The time when the code host accepted the status.
    pub sent_at: Option<Timestamp>,
    /// The reason why the status is parked: the service does not try to send it any more.
    pub parked: Option<String>,
    /// The reason why the status was skipped: a newer one replaced it.
    pub skipped: Option<String>,
}

/// The log of a deployment.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DeploymentLog")]
pub struct DeploymentLog<L = LogLine> {
    /// The entries, oldest first.
    pub lines: Vec<L>,
}

/// One entry of the log.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct LogLine {
    /// The time.
    pub at: Timestamp,
    /// The entry for people; one sentence. Names and code stand between backticks.
    pub text: String,
}

/// The request to create a deployment.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct DeployRequest {
    /// The service repository, `OWNER/NAME`.
    #[schemars(with = "forms::OfRepository")]
    pub repository: String,
    /// The whole name of a branch or tag, or a commit's id.
    #[serde(rename = "ref")]
    #[schemars(with = "forms::OfRef")]
    pub git_ref: String,
    /// The image tag.
    #[schemars(with = "forms::OfTag")]
    pub tag: String,
    /// The target.
    #[schemars(with = "forms::OfTarget")]
    pub target: String,
    /// The app, where the repository has several: the name of its file under `.weave/` without the ending, or
    /// `.weave.yaml`. Without it all of them are deployed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(!skip_serializing_if, with = "Option<forms::OfAppName>")]
    pub app_name: Option<String>,
    /// A description for people.
    #[serde(default)]
    #[schemars(with = "Option<forms::OfReason>")]
    pub description: Option<String>,
    /// The checks of the commit that must have succeeded at GitHub, by their names; none where it is absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if, with = "Vec<forms::OfCheck>", length(max = 50))]
    pub required_contexts: Vec<String>,
    /// Require every check of the commit at GitHub, also this service's of an earlier deployment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(!skip_serializing_if)]
    pub require_all_contexts: bool,
}

/// A deployment that was created.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Deploying")]
pub struct DeployAnswer {
    /// Its deploy id; null where it was created at GitHub, whose event brings it here.
    #[serde(default)]
    pub id: Option<String>,
    /// The code host's number of it, or one in its place.
    pub forge_id: i64,
}

/// The request to cancel a deployment.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(expecting = "a map", deny_unknown_fields)]
pub struct CancelRequest {
    /// The reason, for people who read the record later.
    #[schemars(with = "forms::OfReason")]
    pub reason: String,
}
