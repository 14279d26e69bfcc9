//! Advances a rollout: from its record, the facts and the time to its next record and the orders that bring it about.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::model::id::{DeployId, TargetName};
use crate::model::waiting::WaitingOn;
use crate::rollout::facts::{DeploymentFact, LiveFact, RolloutFacts, TargetFacts};
use crate::rollout::record::{
    Pause, RolloutRecord, RolloutState, RolloutTarget, RolloutTargetStatus,
};
use crate::support::time::saturating_add;

/// The most deployments to one target that locks may refuse before the target counts as failed.
const MAX_ATTEMPTS: u32 = 5;

/// The decision: store the record and carry out the orders, both or neither.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a decision has an effect once its record and its orders are stored"]
pub struct Decision {
    /// The next record; its version is one more where anything has changed.
    pub record: RolloutRecord,
    /// The orders.
    pub orders: Vec<Order>,
    /// What the rollout waits for.
    pub waits: Vec<RolloutWait>,
}

/// An order. Those that create a deployment come with a record in which its id stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Creates the deployment of the release to a target.
    Deploy {
        /// The target.
        target: TargetName,
        /// The id of the deployment.
        id: DeployId,
    },
    /// Creates the rollback of a target to a revision, with a hold.
    RollBack {
        /// The target.
        target: TargetName,
        /// The id of the rollback.
        id: DeployId,
        /// The rollout's deployment. The rollback ends as superseded where another one is live by then.
        from: DeployId,
        /// The revision.
        to: DeployId,
    },
    /// Creates the removal of the app from a target, where it was not before.
    Remove {
        /// The target.
        target: TargetName,
        /// The id of the removal.
        id: DeployId,
        /// The rollout's deployment. The removal ends as superseded where another one is live by then.
        from: DeployId,
    },
    /// Cancels a deployment that has pushed nothing. It may be given several times.
    Cancel {
        /// The target.
        target: TargetName,
        /// The deployment.
        deployment: DeployId,
    },
    /// Asks the gate of the current step. It may be given several times.
    AskGate,
}

/// What a rollout waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutWait {
    /// The target that waits; `None` where a gate or the whole does.
    pub target: Option<TargetName>,
    /// The condition.
    pub waiting: WaitingOn,
}

/// Advances a rollout by at most one step; `draw` makes the ids of new deployments.
///
/// Called again with the stored record and facts of that time, it goes on; a decision that is dropped changes nothing.
pub fn advance(
    record: &RolloutRecord,
    facts: &RolloutFacts,
    now: Timestamp,
    draw: &mut dyn FnMut() -> DeployId,
) -> Decision {
    let (orders, waits) = (Vec::new(), Vec::new());
    let mut turn = Turn { record: record.clone(), facts, now, draw, orders, waits };
    turn.observe();
    match &turn.record.state {
        RolloutState::Created | RolloutState::RollingOut => turn.go_forward(),
        RolloutState::Paused(Pause::Blocked(_)) => turn.go_on_when_free(),
        RolloutState::Undoing { .. } => turn.go_back(),
        RolloutState::Paused(Pause::Person(_) | Pause::Failure(_))
        | RolloutState::Done
        | RolloutState::Undone
        | RolloutState::UndoFailed
        | RolloutState::Cancelled { .. } => {}
    }
    let Turn { record: mut next, orders, waits, .. } = turn;
    if next != *record {
        next.version += 1;
    }
    Decision { record: next, orders, waits }
}

/// One turn: the record as it becomes, and what comes out beside it.
pub(super) struct Turn<'a> {
    pub(super) record: RolloutRecord,
    pub(super) facts: &'a RolloutFacts,
    pub(super) now: Timestamp,
    pub(super) draw: &'a mut dyn FnMut() -> DeployId,
    pub(super) orders: Vec<Order>,
    pub(super) waits: Vec<RolloutWait>,
}

impl Turn<'_> {
    /// Takes over how the deployments of the rollout stand, also while it is paused.
    fn observe(&mut self) {
        let (now, timeout) = (self.now, self.record.plan.target_timeout);
        if let Some(commit) = &self.facts.ref_commit {
            let has_moved = *commit != self.record.release.commit;
            self.record.moved_to = has_moved.then(|| commit.clone());
        }
        // On the way back, what is live says nothing of the steps before the last one.
        let is_undoing = matches!(self.record.state, RolloutState::Undoing { .. });
        for (number, target) in self.record.targets.iter_mut().enumerate() {
            let Some(facts) = self.facts.targets.get(&number) else { continue };
            match target.state {
                RolloutTargetStatus::Deploying => observe_deployment(target, facts, timeout, now),
                RolloutTargetStatus::Complete
                | RolloutTargetStatus::Pending
                | RolloutTargetStatus::Failed
                    if is_undoing => {}
                RolloutTargetStatus::Complete => observe_takeover(target, facts, now),
                RolloutTargetStatus::Pending | RolloutTargetStatus::Failed => {
                    observe_former_deployment(target, facts, now);
                }
                RolloutTargetStatus::Superseded
                | RolloutTargetStatus::Skipped
                | RolloutTargetStatus::UndoPending
                | RolloutTargetStatus::Undoing
                | RolloutTargetStatus::Undone
                | RolloutTargetStatus::Unchanged
                | RolloutTargetStatus::UndoFailed => {}
            }
        }
        self.end_later_steps();
    }

    /// Ends the steps of a target that was taken over, or skipped, before they begin: they would overwrite what is there.
    fn end_later_steps(&mut self) {
        let mut ended: BTreeMap<TargetName, (RolloutTargetStatus, Option<String>)> =
            BTreeMap::new();
        for target in &mut self.record.targets {
            match target.state {
                RolloutTargetStatus::Superseded | RolloutTargetStatus::Skipped => {
                    let end = (target.state, target.note.clone());
                    ended.insert(target.target.clone(), end);
                }
                RolloutTargetStatus::Pending if target.deployment.is_none() => {
                    if let Some((state, note)) = ended.get(&target.target) {
                        target.set_state(*state, self.now);
                        target.note.clone_from(note);
                    }
                }
                RolloutTargetStatus::Pending
                | RolloutTargetStatus::Deploying
                | RolloutTargetStatus::Complete
                | RolloutTargetStatus::Failed
                | RolloutTargetStatus::UndoPending
                | RolloutTargetStatus::Undoing
                | RolloutTargetStatus::Undone
                | RolloutTargetStatus::Unchanged
                | RolloutTargetStatus::UndoFailed => {}
            }
        }
    }

    /// Goes on where a lock or a window stopped the rollout, once nothing does.
    fn go_on_when_free(&mut self) {
        let since = self.record.since;
        self.record.set_state(RolloutState::RollingOut, self.now);
        self.go_forward();
        if let RolloutState::Paused(Pause::Blocked(_)) = self.record.state {
            self.record.since = since;
        }
    }

    /// Notes what a target waits for.
    pub(super) fn wait(
        &mut self,
        target: Option<&TargetName>,
        what: impl Into<String>,
        since: Timestamp,
        limit: Option<SignedDuration>,
    ) {
        let gives_up_at = limit.map(|limit| saturating_add(since, limit));
        let waiting = WaitingOn { what: what.into(), since, last_event: None, gives_up_at };
        self.waits.push(RolloutWait { target: target.cloned(), waiting });
    }
}

fn observe_deployment(
    target: &mut RolloutTarget,
    facts: &TargetFacts,
    timeout: SignedDuration,
    now: Timestamp,
) {
    match facts.deployment.as_ref().unwrap_or(&DeploymentFact::Missing) {
        DeploymentFact::Open { sentence, .. } => {
            if now >= saturating_add(target.since, timeout) {
                target.fail(format!("it took longer than {timeout:#}: {sentence}"), now);
            }
        }
        DeploymentFact::Complete { .. } => {
            target.note = None;
            target.set_state(RolloutTargetStatus::Complete, now);
        }
        DeploymentFact::Blocked { reason } if target.attempts < MAX_ATTEMPTS => {
            // Its id stays: an earlier attempt may have changed what is live.
            target.set_note(RolloutTargetStatus::Pending, reason, now);
        }
        DeploymentFact::Blocked { reason } | DeploymentFact::Failed { reason, .. } => {
            target.fail(reason, now);
        }
        DeploymentFact::Superseded { by } => {
            target.set_note(RolloutTargetStatus::Superseded, superseded_note(by.as_ref()), now);
        }
        DeploymentFact::Cancelled => target.fail("its deployment was cancelled", now),
        DeploymentFact::Missing => target.fail("its deployment is not on record any more", now),
    }
}

/// Notes what became of a deployment whose time was over, or that a person wants to try again: it may have come to its end
/// after all, be under way still, or have given way to another release.
fn observe_former_deployment(target: &mut RolloutTarget, facts: &TargetFacts, now: Timestamp) {
    let Some(deployment) = &target.deployment else { return };
    let is_ours = matches!(facts.live, LiveFact::Revision { is_ours: true, .. });
    match &facts.deployment {
        Some(DeploymentFact::Complete { .. }) if is_ours => {
            (target.failure, target.note) = (None, None);
            target.set_state(RolloutTargetStatus::Complete, now);
        }
        // It has its whole time again; a second one beside it would only take its place.
        Some(DeploymentFact::Open { .. }) if target.state == RolloutTargetStatus::Pending => {
            target.set_state(RolloutTargetStatus::Deploying, now);
        }
        // It was not begun: what was edited or removed is judged at its turn.
        Some(DeploymentFact::Blocked { .. })
            if !matches!(facts.live, LiveFact::Revision { .. }) => {}
        // Nobody removed what was never there.
        _ if facts.live == LiveFact::Absent && !has_pushed(facts) => {}
        _ => {
            if let LiveOwner::Other(note) = owner_of(&facts.live, deployment) {
                target.set_note(RolloutTargetStatus::Superseded, note, now);
            }
        }
    }
}

/// Notes that a person has deployed another release to a target that was complete.
fn observe_takeover(target: &mut RolloutTarget, facts: &TargetFacts, now: Timestamp) {
    if let Some(deployment) = &target.deployment
        && let LiveOwner::Other(note) = owner_of(&facts.live, deployment)
    {
        target.set_note(RolloutTargetStatus::Superseded, note, now);
    }
}

/// To whom the live revision of a target belongs.
pub(super) enum LiveOwner {
    /// To this deployment or undo of the rollout.
    Rollout(DeployId),
    /// To a later deployment, a manual edit or a removal; the sentence says which.
    Other(String),
    /// To something older: what was read is not up to date, or the deployment has pushed nothing.
    Older,
    /// It could not be read.
    Unknown(String),
}

/// Finds to whom the live revision belongs. Ids are in the order of time.
pub(super) fn owner_of(live: &LiveFact, deployment: &DeployId) -> LiveOwner {
    match live {
        LiveFact::Unknown(reason) => LiveOwner::Unknown(reason.clone()),
        LiveFact::Revision { by, is_ours: true, .. } => LiveOwner::Rollout(by.clone()),
        LiveFact::Revision { by, .. } if by > deployment => {
            LiveOwner::Other(superseded_note(Some(by)))
        }
        LiveFact::Revision { .. } => LiveOwner::Older,
        LiveFact::Absent => LiveOwner::Other("the app was removed there".to_owned()),
        LiveFact::Edited => LiveOwner::Other("the manifests were edited by hand there".to_owned()),
    }
}

/// Checks that the rollout's deployment has changed what is live, or may have.
pub(super) fn has_pushed(facts: &TargetFacts) -> bool {
    match &facts.deployment {
        Some(DeploymentFact::Open { is_pushed, .. } | DeploymentFact::Failed { is_pushed, .. }) => {
            *is_pushed
        }
        Some(DeploymentFact::Blocked { .. } | DeploymentFact::Cancelled) => false,
        // Of a record that is missing, what is live says it.
        Some(
            DeploymentFact::Complete { .. }
            | DeploymentFact::Superseded { .. }
            | DeploymentFact::Missing,
        )
        | None => true,
    }
}

pub(super) fn superseded_note(by: Option<&DeployId>) -> String {
    match by {
        Some(id) => format!("deployment {id} took its place"),
        None => "another deployment took its place".to_owned(),
    }
}
