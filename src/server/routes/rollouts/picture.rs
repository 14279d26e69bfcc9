//! Rollouts as callers see them: the answer from the record, and what a person can do now.

use jiff::Timestamp;

use crate::api::rollouts::{
    ApprovalSummary, GateReading, GateReadings, LiveKind, PlannedTarget, RolloutCommand,
    RolloutDetail, RolloutGateState, RolloutPlanAnswer, RolloutStepState, RolloutSummary,
    RolloutTargetSummary, RolloutWaitSummary,
};
use crate::deployments::rollouts::{PreparedRollout, PreviewTarget, RolloutPreview, RolloutView};
use crate::model::id::{DeployId, RolloutId};
use crate::model::release::Release;
use crate::rollout::advance::RolloutWait;
use crate::rollout::facts::{GateAnswer, LiveFact};
use crate::rollout::plan::{Gate, RolloutPlan, RolloutStep, VersionWeights};
use crate::rollout::record::{
    FormerRevision, GateApproval, GateRecord, Pause, RolloutRecord, RolloutState, RolloutTarget,
    RolloutTargetStatus,
};
use crate::store::GateAnswers;
use crate::support::time::saturating_add;

impl From<&RolloutView> for RolloutSummary {
    fn from(rollout: &RolloutView) -> Self {
        let record = &rollout.record;
        let Release { repository, app: _, commit, tag } = &record.release;
        let count = |state: RolloutTargetStatus| {
            record.targets.iter().filter(|target| target.state == state).count()
        };
        let failures = record.targets.iter().filter(|target| target.failure.is_some()).count();
        Self {
            id: record.id.to_string(),
            undo_id: record.undo_id.to_string(),
            app: record.app.to_string(),
            repository: repository.to_string(),
            commit: commit.to_string(),
            tag: tag.to_string(),
            name: rollout.name.as_ref().map(ToString::to_string),
            state: record.state.status(),
            reason: reason(rollout),
            since: record.since,
            needs_person: needs_person(&record.state),
            created_by: rollout.created_by.clone(),
            created_at: rollout.created_at,
            index: record.index,
            steps_count: record.plan.steps.len(),
            targets_count: record.targets.len(),
            complete: count(RolloutTargetStatus::Complete),
            failed: failures,
            version: record.version,
        }
    }
}

impl From<RolloutView> for RolloutSummary {
    fn from(rollout: RolloutView) -> Self {
        Self::from(&rollout)
    }
}

impl From<RolloutView> for RolloutDetail {
    fn from(rollout: RolloutView) -> Self {
        let summary = RolloutSummary::from(&rollout);
        let commands = commands(&rollout.record);
        let RolloutView { record, origin, reason, waits, .. } = rollout;
        let plan = &record.plan;
        let mut steps =
            steps(plan, &|number| record.gates.get(&number).cloned().unwrap_or_default());
        if let Some(gate) = steps.get_mut(record.index).and_then(|step| step.gate.as_mut()) {
            gate.passes_at = bake_end(&record);
        }
        let (on_failure, max_failures) = (plan.on_failure, plan.max_failures);
        let timeout_seconds = plan.target_timeout.as_secs();
        Self {
            summary,
            description: reason,
            git_ref: origin.git_ref,
            moved_to: record.moved_to.map(String::from),
            on_failure,
            max_failures,
            timeout_seconds,
            steps,
            targets: record.targets.into_iter().map(Into::into).collect(),
            waits: waits.into_iter().map(Into::into).collect(),
            commands,
        }
    }
}

/// Returns the end of the bake time at which a rollout is.
fn bake_end(record: &RolloutRecord) -> Option<Timestamp> {
    match (&record.state, record.step()) {
        (
            RolloutState::Created | RolloutState::RollingOut,
            Some(RolloutStep::Gate { gate: Gate::Bake { length }, .. }),
        ) => Some(saturating_add(record.step_since, *length)),
        _ => None,
    }
}

/// Shows a rollout with all answers of its gates.
pub(super) fn detail(rollout: RolloutView, answers: Vec<GateAnswers>) -> RolloutDetail {
    let mut detail = RolloutDetail::from(rollout);
    for GateAnswers { step, first_at, last_at, asked, result, value } in answers {
        if let Some(gate) = detail.steps.get_mut(step).and_then(|step| step.gate.as_mut()) {
            gate.answers.push(GateReadings { first_at, last_at, asked, result, value });
        }
    }
    detail
}

/// Returns the reason of the state. One that is queued says behind which it waits.
fn reason(rollout: &RolloutView) -> Option<String> {
    match &rollout.record.state {
        RolloutState::Created | RolloutState::RollingOut => rollout
            .is_queued
            .then(|| "it waits until another rollout with one of its targets has ended".to_owned()),
        RolloutState::Paused(
            Pause::Person(reason) | Pause::Failure(reason) | Pause::Blocked(reason),
        )
        | RolloutState::Undoing { reason }
        | RolloutState::Cancelled { reason } => Some(reason.clone()),
        RolloutState::Done | RolloutState::Undone | RolloutState::UndoFailed => None,
    }
}

fn needs_person(state: &RolloutState) -> bool {
    match state {
        RolloutState::Paused(Pause::Person(_) | Pause::Failure(_)) | RolloutState::UndoFailed => {
            true
        }
        RolloutState::Created
        | RolloutState::RollingOut
        | RolloutState::Paused(Pause::Blocked(_))
        | RolloutState::Undoing { .. }
        | RolloutState::Done
        | RolloutState::Undone
        | RolloutState::Cancelled { .. } => false,
    }
}

/// Returns the commands by which a person can act in that state.
fn commands(record: &RolloutRecord) -> Vec<RolloutCommand> {
    let command = |(act, effect): (&str, &str)| command(act, &record.id, effect);
    possible_acts(record).into_iter().map(command).collect()
}

/// Returns the acts that are possible in that state, each with its effect.
pub(in crate::server) fn possible_acts(
    record: &RolloutRecord,
) -> Vec<(&'static str, &'static str)> {
    let (approve, resume, retry, pause, undo, cancel) = (
        ("approve", "lets it pass the gate"),
        ("resume", "lets it go on, also past targets that have failed"),
        ("retry", "tries the failed targets of this step again"),
        ("pause", "stops it before its next target"),
        ("undo", "gives every changed target its former revision back"),
        ("cancel", "ends it: every target keeps what it has"),
    );
    let is_approval =
        matches!(record.step(), Some(RolloutStep::Gate { gate: Gate::Approval { .. }, .. }));
    match &record.state {
        RolloutState::Created => vec![pause, cancel],
        RolloutState::RollingOut if is_approval => vec![approve, pause, undo, cancel],
        RolloutState::RollingOut => vec![pause, undo, cancel],
        RolloutState::Paused(Pause::Failure(_)) if record.failures() > 0 => {
            vec![retry, resume, undo, cancel]
        }
        RolloutState::Paused(Pause::Person(_) | Pause::Failure(_)) => vec![resume, undo, cancel],
        RolloutState::Paused(Pause::Blocked(_)) => vec![undo, cancel],
        RolloutState::Done | RolloutState::Cancelled { .. } => vec![undo],
        RolloutState::UndoFailed => vec![("retry", "tries the undos that failed again")],
        RolloutState::Undoing { .. } | RolloutState::Undone => Vec::new(),
    }
}

fn command(act: &str, id: &RolloutId, effect: &str) -> RolloutCommand {
    RolloutCommand {
        command: format!("bart rollout {act} {id} --reason TEXT"),
        effect: effect.to_owned(),
    }
}

fn steps(plan: &RolloutPlan, gate_record: &dyn Fn(usize) -> GateRecord) -> Vec<RolloutStepState> {
    let step = |(number, step): (usize, &RolloutStep)| match step {
        RolloutStep::Deploy { targets, parallel, weights } => RolloutStepState {
            targets: targets.iter().map(ToString::to_string).collect(),
            parallel: Some(*parallel),
            weights: weights.clone(),
            gate: None,
        },
        RolloutStep::Gate { gate, timeout } => {
            let GateRecord { answer, approval, passed_at } = gate_record(number);
            let team = match gate {
                Gate::Approval { team } => team.as_ref().map(ToString::to_string),
                Gate::Bake { .. }
                | Gate::Http { .. }
                | Gate::PromQl { .. }
                | Gate::NoAlert { .. }
                | Gate::Calendar { .. } => None,
            };
            let gate = RolloutGateState {
                kind: gate.kind().to_owned(),
                condition: gate.sentence(None),
                team,
                timeout_seconds: timeout.map(|timeout| timeout.as_secs()),
                answer: answer.map(Into::into),
                answers: Vec::new(),
                passes_at: None,
                passed_at,
                approval: approval.map(Into::into),
            };
            RolloutStepState {
                targets: Vec::new(),
                parallel: None,
                weights: VersionWeights::new(),
                gate: Some(gate),
            }
        }
    };
    plan.steps.iter().enumerate().map(step).collect()
}

/// Makes the answer about a rollout that was not started.
pub(super) fn plan(prepared: PreparedRollout, preview: RolloutPreview) -> RolloutPlanAnswer {
    let PreparedRollout { release, app, name, plan, .. } = prepared;
    let Release { repository, app: _, commit, tag } = release;
    let RolloutPreview { targets, duration, overlap } = preview;
    RolloutPlanAnswer {
        app: app.to_string(),
        repository: repository.into(),
        commit: commit.into(),
        tag: tag.into(),
        name: name.map(String::from),
        on_failure: plan.on_failure,
        max_failures: plan.max_failures,
        timeout_seconds: plan.target_timeout.as_secs(),
        steps: steps(&plan, &|_| GateRecord::default()),
        targets: targets.into_iter().map(Into::into).collect(),
        shortest_seconds: duration.shortest.as_secs(),
        longest_seconds: duration.longest.map(|longest| longest.as_secs()),
        overlap: overlap.map(String::from),
    }
}

impl From<PreviewTarget> for PlannedTarget {
    fn from(target: PreviewTarget) -> Self {
        let PreviewTarget { target, step, live, tag, blocked } = target;
        let (live, revision, unknown) = match live {
            LiveFact::Revision { revision, .. } => (LiveKind::Revision, Some(revision), None),
            LiveFact::Absent => (LiveKind::Absent, None, None),
            LiveFact::Edited => (LiveKind::Edited, None, None),
            LiveFact::Unknown(reason) => (LiveKind::Unknown, None, Some(reason)),
        };
        Self {
            target: target.into(),
            step,
            live,
            revision: revision.map(String::from),
            tag: tag.map(String::from),
            blocked: blocked.or(unknown),
        }
    }
}

/// Names every field of the record, so that a new field asks here whether to be shown.
impl From<RolloutTarget> for RolloutTargetSummary {
    fn from(target: RolloutTarget) -> Self {
        let RolloutTarget {
            target,
            step,
            state,
            since,
            deployment,
            before,
            attempts,
            failure,
            undo,
            note,
        } = target;
        let before = match before {
            Some(FormerRevision::Revision(revision)) => Some(revision),
            Some(FormerRevision::Absent) | None => None,
        };
        Self {
            target: target.into(),
            step,
            state,
            since,
            started_at: deployment.as_ref().and_then(DeployId::time),
            deployment: deployment.map(String::from),
            undo: undo.map(String::from),
            before: before.map(String::from),
            attempts,
            failure,
            note,
        }
    }
}

impl From<GateAnswer> for GateReading {
    fn from(answer: GateAnswer) -> Self {
        let GateAnswer { step: _, at, result, value } = answer;
        Self { at, result, value }
    }
}

impl From<GateApproval> for ApprovalSummary {
    fn from(approval: GateApproval) -> Self {
        let GateApproval { by, reason, at } = approval;
        Self { by, reason, at }
    }
}

impl From<RolloutWait> for RolloutWaitSummary {
    fn from(wait: RolloutWait) -> Self {
        let RolloutWait { target, waiting } = wait;
        Self { target: target.map(String::from), waiting }
    }
}
