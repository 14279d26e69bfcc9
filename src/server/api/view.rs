//! Records of deployments become answers of the API: a change of the record is no silent change of those.

use crate::api::deployments::{
    DeploymentDetail, DeploymentPage, DeploymentPicture, DeploymentSummary, RollbackSummary,
    StatusSummary,
};
use crate::model::change::Change;
use crate::model::deployment::{Deployment, StageTime, State};
use crate::model::event::DeploymentRequest;
use crate::model::hand_edit::HandEdit;
use crate::model::release::Release;
use crate::model::rollback::Rollback;
use crate::model::violation::Violations;
use crate::store::{Page, Told};

fn rollback_summary(rollback: Rollback, state: State) -> RollbackSummary {
    let Rollback { to, from, reason, hold, .. } = rollback;
    let hold = hold
        && match state {
            State::Queued | State::Running | State::Pushing | State::Succeeded => true,
            State::Failed | State::Superseded | State::Cancelled => false,
        };
    RollbackSummary { to: to.into(), from: from.map(String::from), reason, hold }
}

impl From<Page> for DeploymentPage {
    fn from(page: Page) -> Self {
        let Page { deployments, next } = page;
        let deployments = deployments.into_iter().map(overview);
        Self { deployments: deployments.collect(), next: next.map(String::from) }
    }
}

impl DeploymentDetail {
    /// The record, what the forge is told of it, its page, and what it changed.
    pub(super) fn new(
        deployment: Deployment,
        statuses: Vec<Told>,
        log_url: String,
        changes: Option<Vec<Change>>,
    ) -> Self {
        let Whole { overview, stages, violations, hand_edit } = whole(deployment);
        let statuses = statuses.into_iter().map(status).collect();
        Self {
            summary: overview,
            stages,
            violations_left_out: violations.left_out(),
            violations: violations.into(),
            hand_edit,
            statuses,
            log_url: Some(log_url),
            changes,
        }
    }
}

impl From<Deployment> for DeploymentPicture {
    fn from(deployment: Deployment) -> Self {
        let Whole { overview, stages, .. } = whole(deployment);
        Self { summary: overview, stages }
    }
}

/// A deployment as it stands in a list.
pub(super) fn overview(deployment: Deployment) -> DeploymentSummary {
    whole(deployment).overview
}

/// All that there is to see of a record.
struct Whole {
    overview: DeploymentSummary,
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
    let overview = DeploymentSummary {
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
        rollback: rollback.map(|rollback| rollback_summary(rollback, state)),
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

fn status(told: Told) -> StatusSummary {
    let Told { status, at, sent_at, parked, skipped, .. } = told;
    let description = status.description().to_owned();
    StatusSummary {
        state: status.state.as_str().to_owned(),
        description,
        at,
        sent_at,
        parked,
        skipped,
    }
}
