//! Deployments as callers see them: the API's own words, so that a change of the record is no
//! silent change of the API.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::model::deployment::{Deployment, Pushed, StageTime, State};
use crate::model::event::DeploymentRequest;
use crate::model::hand_edit::HandEdit;
use crate::model::release::Release;
use crate::model::rollback::Rollback;
use crate::model::violation::{Violation, Violations};
use crate::pipeline::diff::Change;
use crate::server::ports::{Page, StatusRecord};

/// Deployments, newest first.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DeploymentPage")]
pub(super) struct ListView {
    /// This page of them.
    deployments: Vec<Overview>,
    /// The `cursor` of the next page.
    next: Option<String>,
}

/// A deployment in a list.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Deployment")]
pub(super) struct Overview {
    /// Its deploy id; names its revision, too.
    id: String,
    /// Where it is in its life.
    state: State,
    /// `namespace/slug`, once the WAML has been read.
    app: Option<String>,
    /// The cluster.
    target: String,
    /// The service's repository, `OWNER/NAME`.
    repository: String,
    /// The commit that its WAML is read at.
    commit: String,
    /// The branch or tag that was asked for, for people.
    #[serde(rename = "ref")]
    git_ref: String,
    /// The image tag.
    tag: String,
    /// Who asked for it, as the forge names them.
    actor: String,
    /// Why, if they said; else empty.
    description: String,
    /// The forge's own number of it; null while the forge does not have it.
    forge_id: Option<i64>,
    /// Whether a program asked, and no person.
    automatic: bool,
    /// What makes it a rollback; null where it is none.
    rollback: Option<RollbackView>,
    /// When its event was stored.
    received_at: Timestamp,
    /// When it ended.
    finished_at: Option<Timestamp>,
    /// How it ended, or what it waits for; one sentence for people.
    summary: String,
    /// The template and its version, `backend-default@latest`.
    template: Option<String>,
    /// Of the repository that the template comes from, if it comes from one.
    templates_commit: Option<String>,
    /// Where the app is reached.
    address: Option<String>,
    /// Whether the forge calls the target a production one.
    production: bool,
    /// How often a worker began on it.
    attempts: u32,
    /// How many violations stop it.
    errors: usize,
    /// How many do not.
    warnings: usize,
    /// What was pushed, if anything was.
    pushed: Option<Pushed>,
}

/// What makes a deployment a rollback.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Rollback")]
pub(super) struct RollbackView {
    /// The revision that becomes live again.
    to: String,
    /// The one that was live; null where somebody had edited it by hand.
    from: Option<String>,
    /// Why.
    reason: String,
    /// Whether automation is held afterwards; one that failed takes no hold.
    hold: bool,
}

impl RollbackView {
    fn of(rollback: Rollback, state: State) -> Self {
        let Rollback { to, from, reason, hold, .. } = rollback;
        let hold = hold
            && match state {
                State::Queued | State::Running | State::Pushing | State::Succeeded => true,
                State::Failed | State::Superseded | State::Cancelled => false,
            };
        Self { to: to.into(), from: from.map(String::from), reason, hold }
    }
}

/// A deployment by itself.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DeploymentDetail")]
pub(in crate::server) struct Detail {
    #[serde(flatten)]
    overview: Overview,
    /// How long each stage took, in order.
    stages: Vec<StageTime>,
    /// Broken rules, and warnings: as many as are kept.
    violations: Vec<Violation>,
    /// How many more there were; `errors` and `warnings` count all.
    violations_left_out: usize,
    /// What somebody had changed by hand in the manifest repository.
    hand_edit: Option<HandEdit>,
    /// What the forge was or will be told, oldest first.
    statuses: Vec<StatusView>,
    /// The page of it.
    log_url: String,
    /// What it changed in what the cluster syncs, object by object; null where nothing was pushed, or it
    /// cannot be told any more.
    changes: Option<Vec<Change>>,
}

/// A deployment as it is now, in a stream of events.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DeploymentPicture")]
pub(super) struct Picture {
    #[serde(flatten)]
    overview: Overview,
    /// How long each stage took, in order.
    stages: Vec<StageTime>,
}

/// What the forge is told.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Status")]
struct StatusView {
    /// GitHub's word.
    state: &'static str,
    /// One sentence.
    description: String,
    /// When it came to be so.
    at: Timestamp,
    /// When the forge took it.
    sent_at: Option<Timestamp>,
    /// Why nobody tries to send it any more.
    parked: Option<String>,
    /// Why there was nothing to say after all: a newer status took its place.
    skipped: Option<String>,
}

impl From<Page> for ListView {
    fn from(page: Page) -> Self {
        let Page { deployments, next } = page;
        let deployments = deployments.into_iter().map(overview);
        Self { deployments: deployments.collect(), next: next.map(String::from) }
    }
}

impl Detail {
    /// The record, what the forge is told of it, its page, and what it changed.
    pub(super) fn new(
        deployment: Deployment,
        statuses: Vec<StatusRecord>,
        log_url: String,
        changes: Option<Vec<Change>>,
    ) -> Self {
        let Whole { overview, stages, violations, hand_edit } = whole(deployment);
        let statuses = statuses.into_iter().map(status).collect();
        Self {
            overview,
            stages,
            violations_left_out: violations.left_out(),
            violations: violations.into(),
            hand_edit,
            statuses,
            log_url,
            changes,
        }
    }
}

impl From<Deployment> for Picture {
    fn from(deployment: Deployment) -> Self {
        let Whole { overview, stages, .. } = whole(deployment);
        Self { overview, stages }
    }
}

/// A deployment as it stands in a list.
pub(super) fn overview(deployment: Deployment) -> Overview {
    whole(deployment).overview
}

/// All that there is to see of a record.
struct Whole {
    overview: Overview,
    stages: Vec<StageTime>,
    violations: Violations,
    hand_edit: Option<HandEdit>,
}

/// Takes the record apart; a new field asks here whether it is to be seen.
fn whole(deployment: Deployment) -> Whole {
    let Deployment {
        id,
        request,
        app,
        state,
        received_at,
        finished_at,
        stages,
        summary,
        violations,
        pushed,
        rollback,
        hand_edit,
        template,
        templates_commit,
        contact: _,
        address,
        attempts,
    } = deployment;
    let number = request.number();
    let DeploymentRequest {
        forge_id: _,
        release,
        target,
        git_ref,
        actor,
        description,
        production,
        automatic,
        recipient: _,
        identity: _,
    } = request;
    let Release { repository, commit, tag } = release;
    let overview = Overview {
        id: id.into(),
        state,
        app: app.map(|app| app.to_string()),
        target: target.into(),
        repository: repository.into(),
        commit: commit.into(),
        git_ref,
        tag: tag.into(),
        actor,
        description,
        forge_id: number,
        automatic,
        rollback: rollback.map(|rollback| RollbackView::of(rollback, state)),
        received_at,
        finished_at,
        summary,
        template,
        templates_commit: templates_commit.map(String::from),
        address,
        production,
        attempts,
        errors: violations.errors(),
        warnings: violations.warnings(),
        pushed,
    };
    Whole { overview, stages, violations, hand_edit }
}

fn status(record: StatusRecord) -> StatusView {
    let StatusRecord { state, description, at, sent_at, parked, skipped } = record;
    StatusView { state: state.as_str(), description, at, sent_at, parked, skipped }
}
