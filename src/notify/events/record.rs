//! The record of a deployment for a data warehouse: `customData`, versioned, bounded.

use jiff::Timestamp;
use serde::Serialize;

use super::StateChange;
use crate::model::deployment::{ClusterPhase, Contact, Deployment, ForgeState, Pushed, StageTime};
use crate::model::event::DeploymentRequest;
use crate::model::id::{
    AppName, CommitSha, DeployId, ImageTag, Namespace, RepoName, Slug, TargetName,
};
use crate::model::release::Release;
use crate::model::revision::Digest;
use crate::model::status::one_line;
use crate::model::violation::{Severity, Violation};

/// The version, raised when a field is removed or changes its meaning; a new field does not change it.
const VERSION: u32 = 1;

/// Texts of people and of rules are cut after so many characters.
const LONGEST_TEXT: usize = 500;
/// The largest size of all violations of an event, in bytes of JSON; the rest of an event is far below the other half
/// of [`super::LARGEST`].
const VIOLATIONS: usize = 32 * 1024;

/// A deployment as it was at the change.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record<'a> {
    version: u32,
    deployment: &'a DeployId,
    /// The change's place among those of the deployment, from 1.
    sequence: i64,
    state: ForgeState,
    /// The outcome, in one sentence.
    sentence: String,
    url: String,
    target: &'a TargetName,
    production: bool,
    repository: &'a RepoName,
    #[serde(skip_serializing_if = "Option::is_none")]
    app_name: Option<&'a AppName>,
    commit: &'a CommitSha,
    #[serde(rename = "ref")]
    git_ref: String,
    tag: &'a ImageTag,
    actor: String,
    description: String,
    /// The forge's number of the deployment.
    forge_id: Option<i64>,
    /// True if a program asked, and no person.
    automatic: bool,
    /// The rollback's data, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    rollback: Option<BackTo<'a>>,
    received_at: Timestamp,
    /// The phase that begins in the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<ClusterPhase>,
    /// The data that only a deployment has with which a worker is done.
    #[serde(flatten)]
    result: Option<PlanResult<'a>>,
    /// The data that only an ended deployment has.
    #[serde(flatten)]
    ended: Option<Ended>,
}

/// The part of the record that is settled at a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordPart {
    /// The request alone.
    Requested,
    /// The push, too.
    Pushed,
    /// All of it.
    Ended,
}

/// The revisions of a rollback: from and to.
#[derive(Debug, Serialize)]
struct BackTo<'a> {
    to: &'a DeployId,
    from: Option<&'a DeployId>,
    reason: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Ended {
    finished_at: Option<Timestamp>,
    summary: String,
}

/// What a worker has found and done; it changes no more.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanResult<'a> {
    pushed_at: Option<Timestamp>,
    app: Option<App<'a>>,
    address: Option<String>,
    template: Option<&'a str>,
    templates_commit: Option<&'a CommitSha>,
    attempts: u32,
    stages: &'a [StageTime],
    errors: usize,
    warnings: usize,
    violations: Vec<Line>,
    /// The number of violations that are not in the list because it would be too long.
    violations_left_out: usize,
    manifests: Option<Manifests<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct App<'a> {
    namespace: &'a Namespace,
    slug: &'a Slug,
    name: Option<String>,
    owner: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the line of a file is called so")]
struct Line {
    rule: String,
    severity: Severity,
    message: String,
    path: String,
    file: Option<String>,
    line: Option<u32>,
    column: Option<u32>,
    expected: Option<String>,
    help: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifests<'a> {
    commit: &'a CommitSha,
    changed: bool,
    digest: &'a Digest,
    files: usize,
}

impl<'a> Record<'a> {
    /// Builds the record from all fields of the deployment, so that a new field must be decided about here.
    pub(super) fn of(change: StateChange<'a>, url: String, part: RecordPart) -> Self {
        let StateChange { deployment, state, phase, open_phase: _, sentence, seq, at: _ } = change;
        let DeploymentRequest {
            forge_id,
            release: Release { repository, app: app_name, commit, tag },
            target,
            git_ref,
            actor,
            description,
            production,
            automatic,
            recipient: _,
            identity: _,
            requested_at: _,
        } = &deployment.request;
        Self {
            version: VERSION,
            deployment: &deployment.id,
            sequence: seq,
            state,
            sentence: text(sentence),
            url,
            target,
            production: *production,
            repository,
            app_name: app_name.as_ref(),
            commit,
            git_ref: text(git_ref),
            tag,
            actor: text(actor),
            description: text(description),
            forge_id: Some(*forge_id).filter(|number| *number > 0),
            automatic: *automatic,
            rollback: deployment.rollback.as_ref().map(|rollback| BackTo {
                to: &rollback.to,
                from: rollback.from.as_ref(),
                reason: text(&rollback.reason),
            }),
            received_at: deployment.received_at,
            phase,
            result: (part != RecordPart::Requested).then(|| PlanResult::of(deployment)),
            ended: (part == RecordPart::Ended).then(|| Ended::of(deployment)),
        }
    }
}

impl Ended {
    fn of(deployment: &Deployment) -> Self {
        Self { finished_at: deployment.finished_at, summary: text(&deployment.summary) }
    }
}

impl<'a> PlanResult<'a> {
    fn of(deployment: &'a Deployment) -> Self {
        let Deployment {
            id: _,
            request: _,
            app,
            state: _,
            received_at: _,
            pushed_at,
            finished_at: _,
            waiting: _,
            log_tail: _,
            stages,
            marks: _,
            summary: _,
            violations,
            pushed,
            rollback: _,
            rollout: _,
            fleet: _,
            all_apps: _,
            parent: _,
            hand_edit: _,
            template,
            templates_commit,
            contact,
            address,
            attempts,
        } = deployment;
        let listed = within(violations);
        Self {
            pushed_at: *pushed_at,
            app: app.as_ref().map(|app| App {
                namespace: &app.namespace,
                slug: &app.slug,
                name: contact.as_ref().map(|Contact { name, .. }| text(name)),
                owner: contact.as_ref().map(|Contact { owner, .. }| text(owner)),
            }),
            address: address.as_deref().map(text),
            template: template.as_deref(),
            templates_commit: templates_commit.as_ref(),
            attempts: *attempts,
            stages,
            errors: violations.errors(),
            warnings: violations.warnings(),
            violations_left_out: violations.errors() + violations.warnings() - listed.len(),
            violations: listed,
            manifests: pushed.as_ref().map(manifests),
        }
    }
}

fn manifests(pushed: &Pushed) -> Manifests<'_> {
    let Pushed { commit, changed, digest, files } = pushed;
    Manifests { commit, changed: *changed, digest, files: files.len() }
}

/// Returns the first violations, up to the limit.
fn within(violations: &[Violation]) -> Vec<Line> {
    let mut left = VIOLATIONS;
    let fits = |line: &Line| {
        let size = serde_json::to_vec(line).map_or(usize::MAX, |json| json.len());
        let rest = left.checked_sub(size);
        left = rest.unwrap_or_default();
        rest.is_some()
    };
    violations.iter().map(line).take_while(fits).collect()
}

fn line(violation: &Violation) -> Line {
    let Violation { rule, severity, message, path, position, expected, help } = violation;
    Line {
        rule: text(rule),
        severity: *severity,
        message: text(message),
        path: text(path),
        file: position.as_ref().map(|at| text(&at.file)),
        line: position.as_ref().map(|at| at.line),
        column: position.as_ref().map(|at| at.column),
        expected: expected.as_deref().map(text),
        help: help.as_deref().map(text),
    }
}

fn text(text: &str) -> String {
    one_line(text, LONGEST_TEXT)
}
