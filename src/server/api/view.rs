//! Deployments as callers see them: the API's own words, so that a change of the record is no
//! silent change of the API.

use jiff::Timestamp;
use serde::Serialize;

use crate::model::deployment::{Deployment, Pushed, StageTime, State};
use crate::model::event::DeploymentRequest;
use crate::model::hand_edit::HandEdit;
use crate::model::release::Release;
use crate::model::rollback::Rollback;
use crate::model::violation::{Severity, Violation};
use crate::server::ports::{Page, StatusRecord};

/// One page.
#[derive(Serialize)]
pub(super) struct ListView {
    deployments: Vec<Overview>,
    /// The `cursor` of the next page.
    next: Option<String>,
}

/// A deployment in a list.
#[derive(Serialize)]
pub(super) struct Overview {
    id: String,
    state: State,
    /// `namespace/slug`, once the WAML has been read.
    app: Option<String>,
    target: String,
    repository: String,
    commit: String,
    #[serde(rename = "ref")]
    git_ref: String,
    tag: String,
    actor: String,
    description: String,
    /// The forge's number; null while the forge does not have it.
    forge_id: Option<i64>,
    /// Whether a program asked, and no person.
    automatic: bool,
    rollback: Option<RollbackView>,
    received_at: Timestamp,
    finished_at: Option<Timestamp>,
    summary: String,
    template: Option<String>,
    /// Of the repository that the template comes from, if it comes from one.
    templates_commit: Option<String>,
    address: Option<String>,
    production: bool,
    attempts: u32,
    errors: usize,
    warnings: usize,
    pushed: Option<Pushed>,
}

/// What makes a deployment a rollback.
#[derive(Serialize)]
pub(super) struct RollbackView {
    /// The revision that becomes live again.
    to: String,
    /// The one that was live; null where somebody had edited it by hand.
    from: Option<String>,
    reason: String,
    hold: bool,
}

impl RollbackView {
    fn of(rollback: Rollback) -> Self {
        let Rollback { to, from, away: _, tree: _, reason, hold } = rollback;
        Self { to: to.into(), from: from.map(String::from), reason, hold }
    }
}

/// A deployment by itself.
#[derive(Serialize)]
pub(super) struct Detail {
    #[serde(flatten)]
    overview: Overview,
    stages: Vec<StageTime>,
    violations: Vec<Violation>,
    /// What somebody had changed by hand in the manifest repository.
    hand_edit: Option<HandEdit>,
    statuses: Vec<StatusView>,
}

/// What the forge is told.
#[derive(Serialize)]
struct StatusView {
    state: &'static str,
    description: String,
    at: Timestamp,
    sent_at: Option<Timestamp>,
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

/// A deployment as lists have it.
pub(super) fn overview(deployment: Deployment) -> Overview {
    detail(deployment, Vec::new()).overview
}

/// Takes the record apart; a new field asks here whether it is to be seen.
pub(super) fn detail(deployment: Deployment, statuses: Vec<StatusRecord>) -> Detail {
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
    } = request;
    let Release { repository, commit, tag } = release;
    let count = |severity| violations.iter().filter(|v| v.severity == severity).count();
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
        rollback: rollback.map(RollbackView::of),
        received_at,
        finished_at,
        summary,
        template,
        templates_commit: templates_commit.map(String::from),
        address,
        production,
        attempts,
        errors: count(Severity::Error),
        warnings: count(Severity::Warning),
        pushed,
    };
    let statuses = statuses.into_iter().map(status).collect();
    Detail { overview, stages, violations, hand_edit, statuses }
}

fn status(record: StatusRecord) -> StatusView {
    let StatusRecord { state, description, at, sent_at, parked, skipped } = record;
    StatusView { state: state.as_str(), description, at, sent_at, parked, skipped }
}
