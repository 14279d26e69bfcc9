//! The record of a rollout: what is stored of it after each step.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::id::{AppKey, CommitSha, DeployId, RolloutId, TargetName};
use crate::model::release::Release;
use crate::rollout::facts::GateAnswer;
use crate::rollout::plan::{RolloutPlan, RolloutStep, VersionWeights};

pub use crate::model::rollout_words::RolloutTargetStatus;

/// One rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutRecord {
    /// Its id.
    pub id: RolloutId,
    /// The id of its undo, made beforehand.
    pub undo_id: RolloutId,
    /// The release.
    pub release: Release,
    /// The app.
    pub app: AppKey,
    /// The plan.
    pub plan: RolloutPlan,
    /// Its state.
    pub state: RolloutState,
    /// The time at which it came into that state.
    pub since: Timestamp,
    /// The current step; the number of steps where all are complete. It moves one by one.
    pub index: usize,
    /// The time at which the current step began, or the turn of the target that is being undone.
    pub step_since: Timestamp,
    /// The number of failed targets that a person accepted when the rollout was resumed.
    pub accepted_failures: usize,
    /// The targets, in the order of the sequence; a target with several steps is there once for each.
    pub targets: Vec<RolloutTarget>,
    /// What is remembered of gates, by the numbers of their steps.
    pub gates: BTreeMap<usize, GateRecord>,
    /// The commit that the branch or tag of the release names by now, where it is another one: the release stays what it
    /// was at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<CommitSha>,
    /// Counts the changes of this record: who stores it says which one it read.
    pub version: i64,
}

/// The state of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RolloutState {
    /// No target has been begun.
    Created,
    /// It goes on by itself.
    RollingOut,
    /// It begins no target and no gate.
    Paused(Pause),
    /// Changed targets get their former revision back.
    Undoing {
        /// The reason.
        reason: String,
    },
    /// All steps are complete.
    Done,
    /// Each changed target has its former revision, or belongs to another release by now.
    Undone,
    /// A target has not got its former revision back.
    UndoFailed,
    /// A person has ended it where it was.
    Cancelled {
        /// The reason.
        reason: String,
    },
}

/// The reason of a pause, which says how it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pause {
    /// A person paused it, and resumes it.
    Person(String),
    /// Too much has failed; a person decides.
    Failure(String),
    /// A lock or a closed window stops the next target, or the release was withdrawn. It goes on when that is over.
    Blocked(String),
}

/// One target of a rollout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutTarget {
    /// The target.
    pub target: TargetName,
    /// The number of its step.
    pub step: usize,
    /// Its state.
    pub state: RolloutTargetStatus,
    /// The time at which it came into that state.
    pub since: Timestamp,
    /// Its deployment, once there is one.
    pub deployment: Option<DeployId>,
    /// The revision that was live before its deployment; `None` until that was created.
    pub before: Option<FormerRevision>,
    /// How often a deployment to it was created.
    pub attempts: u32,
    /// The reason why it failed.
    pub failure: Option<String>,
    /// The rollback or removal that undoes its deployment.
    pub undo: Option<DeployId>,
    /// What a person should know: why it was skipped, who took it over, what to do where its undo failed.
    pub note: Option<String>,
}

/// The revision of a target before the rollout came there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FormerRevision {
    /// The app was not there.
    Absent,
    /// This revision was live.
    Revision(DeployId),
}

/// What is remembered of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GateRecord {
    /// The last answer.
    pub answer: Option<GateAnswer>,
    /// The approval of a person.
    pub approval: Option<GateApproval>,
    /// The time at which it passed.
    pub passed_at: Option<Timestamp>,
}

/// The approval of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateApproval {
    /// The person.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// The time.
    pub at: Timestamp,
}

impl RolloutRecord {
    /// Checks that it is done, and no more targets are without the release than failures are accepted.
    pub fn is_success(&self) -> bool {
        let others = self.targets.iter().filter(|one| one.state != RolloutTargetStatus::Complete);
        self.state == RolloutState::Done && others.count() <= self.plan.max_failures
    }

    /// Checks that it has ended, and each deployment that was under way when a person cancelled it has, too: another
    /// rollout may have its targets.
    pub fn is_settled(&self) -> bool {
        let is_open = |one: &RolloutTarget| one.state == RolloutTargetStatus::Deploying;
        self.state.is_final() && !self.targets.iter().any(is_open)
    }

    /// Makes the record of a rollout that begins now. The plan must be [checked](RolloutPlan::check).
    pub fn new(
        (id, undo_id): (RolloutId, RolloutId),
        (release, app): (Release, AppKey),
        plan: RolloutPlan,
        now: Timestamp,
    ) -> Self {
        let target = |(step, target): (usize, &TargetName)| RolloutTarget {
            target: target.clone(),
            step,
            state: RolloutTargetStatus::Pending,
            since: now,
            deployment: None,
            before: None,
            attempts: 0,
            failure: None,
            undo: None,
            note: None,
        };
        let targets = plan.sequence().map(target).collect();
        Self {
            id,
            undo_id,
            release,
            app,
            plan,
            state: RolloutState::Created,
            since: now,
            index: 0,
            step_since: now,
            accepted_failures: 0,
            targets,
            gates: BTreeMap::new(),
            moved_to: None,
            version: 0,
        }
    }

    /// Returns the current step; `None` where all are complete.
    pub fn step(&self) -> Option<&RolloutStep> {
        self.plan.steps.get(self.index)
    }

    /// Lists the targets in the order of the sequence, each once.
    pub fn target_names(&self) -> Vec<TargetName> {
        let mut names = BTreeSet::new();
        let names = self.targets.iter().filter(|one| names.insert(&one.target));
        names.map(|one| one.target.clone()).collect()
    }

    /// Returns the weights of the versions that a deployment of the rollout makes live, where its step has some.
    pub fn weights_of(&self, deployment: &DeployId) -> Option<&VersionWeights> {
        let target = self.targets.iter().find(|one| one.deployment.as_ref() == Some(deployment))?;
        match self.plan.steps.get(target.step)? {
            RolloutStep::Deploy { weights, .. } => Some(weights).filter(|one| !one.is_empty()),
            RolloutStep::Gate { .. } => None,
        }
    }

    /// Returns the entry of the same target's step before, which was begun.
    pub(super) fn earlier_step(&self, number: usize) -> Option<&RolloutTarget> {
        let target = &self.targets.get(number)?.target;
        let earlier = self.targets.iter().take(number).rev();
        earlier.into_iter().find(|one| one.target == *target && one.deployment.is_some())
    }

    /// Checks that a later step of the same target was begun, so that this one is not what an undo begins from.
    pub(super) fn has_later_step(&self, number: usize) -> bool {
        let Some(target) = self.targets.get(number).map(|one| &one.target) else { return false };
        let mut later = self.targets.iter().skip(number + 1);
        later.any(|one| one.target == *target && one.deployment.is_some() && one.may_be_undone())
    }

    /// Changes the state.
    pub(super) fn set_state(&mut self, state: RolloutState, now: Timestamp) {
        if self.state != state {
            self.state = state;
            self.since = now;
        }
    }

    /// Counts the targets that failed.
    pub fn failures(&self) -> usize {
        self.targets.iter().filter(|target| target.state == RolloutTargetStatus::Failed).count()
    }
}

impl RolloutState {
    /// Checks that the rollout begins nothing more, unless a person acts.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Done | Self::Undone | Self::UndoFailed | Self::Cancelled { .. } => true,
            Self::Created | Self::RollingOut | Self::Paused(_) | Self::Undoing { .. } => false,
        }
    }

    /// Checks that nothing begins any more by itself, whatever the facts are.
    pub fn is_end(&self) -> bool {
        match self {
            Self::Done
            | Self::Undone
            | Self::UndoFailed
            | Self::Cancelled { .. }
            | Self::Paused(Pause::Person(_) | Pause::Failure(_)) => true,
            Self::Created
            | Self::RollingOut
            | Self::Undoing { .. }
            | Self::Paused(Pause::Blocked(_)) => false,
        }
    }
}

impl RolloutTarget {
    /// Changes the state.
    pub(super) fn set_state(&mut self, state: RolloutTargetStatus, now: Timestamp) {
        if self.state != state {
            self.state = state;
            self.since = now;
        }
    }

    /// Checks that it has the release.
    pub(super) fn is_complete(&self) -> bool {
        self.state == RolloutTargetStatus::Complete
    }

    /// Checks that its deployment may have changed what is live, and no other one took its place.
    pub(super) fn may_be_undone(&self) -> bool {
        match self.state {
            RolloutTargetStatus::Deploying
            | RolloutTargetStatus::Complete
            | RolloutTargetStatus::Failed
            | RolloutTargetStatus::UndoPending
            | RolloutTargetStatus::Undoing
            | RolloutTargetStatus::UndoFailed => true,
            RolloutTargetStatus::Pending => self.awaits_retry(),
            RolloutTargetStatus::Superseded
            | RolloutTargetStatus::Skipped
            | RolloutTargetStatus::Undone
            | RolloutTargetStatus::Unchanged => false,
        }
    }

    /// Checks that a deployment to it has failed, which may have changed what is live, and that another one follows.
    pub(super) fn awaits_retry(&self) -> bool {
        self.state == RolloutTargetStatus::Pending && self.deployment.is_some()
    }

    /// Changes the state, and says why.
    pub(super) fn set_note(
        &mut self,
        state: RolloutTargetStatus,
        note: impl Into<String>,
        now: Timestamp,
    ) {
        self.set_state(state, now);
        self.note = Some(note.into());
    }

    /// Ends its deployment badly.
    pub(super) fn fail(&mut self, reason: impl Into<String>, now: Timestamp) {
        self.set_state(RolloutTargetStatus::Failed, now);
        self.failure = Some(reason.into());
    }
}
