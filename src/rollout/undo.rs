//! The way back: each changed target gets its former revision, the failed ones first, then in reverse order.

use crate::rollout::advance::{LiveOwner, Order, Turn, has_pushed, owner_of, superseded_note};
use crate::rollout::facts::{DeploymentFact, LiveFact, TargetFacts};
use crate::rollout::forward::busy_sentence;
use crate::rollout::record::{
    FormerRevision, RolloutRecord, RolloutState, RolloutTarget, RolloutTargetStatus,
};
use crate::support::time::saturating_add;

/// What becomes of the target whose turn it is.
enum UndoStep {
    /// It has its end; the next one is on.
    Settled(RolloutTargetStatus, String),
    /// It is begun: the order has been made.
    Begun,
    /// It waits for this.
    Waits(String),
}

impl Turn<'_> {
    /// Goes on with the way back: one target at a time.
    pub(super) fn go_back(&mut self) {
        self.cancel_unpushed();
        for number in undo_order(&self.record.targets) {
            let Some(one) = self.record.targets.get(number).cloned() else { continue };
            let limit = self.record.plan.target_timeout;
            let is_late = self.now >= saturating_add(self.record.step_since, limit);
            let step = match one.state {
                RolloutTargetStatus::UndoPending => self.begin_undo_of(number, &one),
                _ => self.observe_undo(number, &one),
            };
            match step {
                UndoStep::Settled(state, note) => self.settle(number, state, &note),
                UndoStep::Begun => return,
                UndoStep::Waits(what) if is_late => {
                    let note = format!("it took longer than {limit:#}: {what}; {}", way_out(&one));
                    self.settle(number, RolloutTargetStatus::UndoFailed, &note);
                }
                UndoStep::Waits(what) => {
                    self.wait(Some(&one.target), what, self.record.step_since, Some(limit));
                    return;
                }
            }
        }
        let has_failed = |one: &RolloutTarget| one.state == RolloutTargetStatus::UndoFailed;
        let end = if self.record.targets.iter().any(has_failed) {
            RolloutState::UndoFailed
        } else {
            RolloutState::Undone
        };
        self.record.set_state(end, self.now);
    }

    /// Cancels the deployments that have pushed nothing yet, all at once.
    fn cancel_unpushed(&mut self) {
        for (number, one) in self.record.targets.iter().enumerate() {
            if one.state == RolloutTargetStatus::UndoPending
                && let Some(facts) = self.facts.targets.get(&number)
                && let Some(DeploymentFact::Open { is_pushed: false, .. }) = facts.deployment
                && let Some(deployment) = one.deployment.clone()
            {
                self.orders.push(Order::Cancel { target: one.target.clone(), deployment });
            }
        }
    }

    fn settle(&mut self, number: usize, state: RolloutTargetStatus, note: &str) {
        let Some(target) = self.record.targets.get(number).map(|one| one.target.clone()) else {
            return;
        };
        // The steps before have the same end: one undo is that of all.
        for (place, one) in self.record.targets.iter_mut().enumerate().take(number + 1) {
            let is_earlier = one.target == target && one.may_be_undone();
            if place == number || is_earlier {
                one.set_note(state, note, self.now);
            }
        }
        self.record.step_since = self.now;
    }

    fn begin_undo_of(&mut self, number: usize, one: &RolloutTarget) -> UndoStep {
        let Some(facts) = self.facts.targets.get(&number) else {
            return UndoStep::Waits("word of what is live there".to_owned());
        };
        let (Some(deployment), Some(before)) = (&one.deployment, &one.before) else {
            return UndoStep::Settled(RolloutTargetStatus::Unchanged, UNCHANGED_NOTE.to_owned());
        };
        if let Some(DeploymentFact::Open { is_pushed: false, .. }) = facts.deployment {
            return UndoStep::Waits("its deployment to be cancelled".to_owned());
        }
        let from = match owner_of(&facts.live, deployment) {
            // Also that of an earlier attempt, where the last one has pushed nothing.
            LiveOwner::Rollout(by) => by,
            LiveOwner::Other(_) | LiveOwner::Older if !has_pushed(facts) => {
                return UndoStep::Settled(
                    RolloutTargetStatus::Unchanged,
                    UNCHANGED_NOTE.to_owned(),
                );
            }
            // Where the app never was, a push that is under way has not been seen either.
            LiveOwner::Other(_) if is_open_push(facts) => {
                return UndoStep::Waits("its push to be seen".to_owned());
            }
            LiveOwner::Other(note) => {
                return UndoStep::Settled(RolloutTargetStatus::Superseded, note);
            }
            LiveOwner::Older => return UndoStep::Waits("its push to be seen".to_owned()),
            LiveOwner::Unknown(reason) => return UndoStep::Waits(reason),
        };
        if !facts.is_configured {
            let note = format!("it is no target of the service any more; {}", way_out(one));
            return UndoStep::Settled(RolloutTargetStatus::UndoFailed, note);
        }
        if let Some(reason) = &facts.unrestorable {
            return fail_undo(one, reason);
        }
        if let Some(reason) = &facts.blocked {
            return UndoStep::Waits(reason.clone());
        }
        if let Some(other) = &facts.busy {
            return UndoStep::Waits(busy_sentence(other));
        }
        let id = (self.draw)();
        let target = one.target.clone();
        self.orders.push(match before {
            FormerRevision::Revision(to) => {
                Order::RollBack { target, id: id.clone(), from, to: to.clone() }
            }
            FormerRevision::Absent => Order::Remove { target, id: id.clone(), from },
        });
        if let Some(one) = self.record.targets.get_mut(number) {
            one.undo = Some(id);
            one.set_state(RolloutTargetStatus::Undoing, self.now);
        }
        UndoStep::Begun
    }

    fn observe_undo(&mut self, number: usize, one: &RolloutTarget) -> UndoStep {
        let Some(facts) = self.facts.targets.get(&number) else {
            return UndoStep::Waits("word of its undo".to_owned());
        };
        match facts.undo.as_ref().unwrap_or(&DeploymentFact::Missing) {
            DeploymentFact::Open { sentence, .. } => UndoStep::Waits(sentence.clone()),
            DeploymentFact::Complete { .. } => {
                UndoStep::Settled(RolloutTargetStatus::Undone, "it is as it was before".to_owned())
            }
            DeploymentFact::Superseded { by } => {
                UndoStep::Settled(RolloutTargetStatus::Superseded, superseded_note(by.as_ref()))
            }
            DeploymentFact::Blocked { reason } => {
                if let Some(one) = self.record.targets.get_mut(number) {
                    one.set_state(RolloutTargetStatus::UndoPending, self.now);
                }
                UndoStep::Waits(reason.clone())
            }
            DeploymentFact::Failed { reason, .. } => fail_undo(one, reason),
            DeploymentFact::Cancelled => fail_undo(one, "it was cancelled"),
            DeploymentFact::Missing => fail_undo(one, "it is not on record any more"),
        }
    }
}

impl RolloutRecord {
    /// Lists the targets that are still to be undone, in the order in which they are.
    pub fn undo_sequence(&self) -> impl Iterator<Item = &RolloutTarget> {
        undo_order(&self.targets).into_iter().filter_map(|number| self.targets.get(number))
    }
}

/// Checks that the app is not there, and a deployment that may have pushed it has not ended.
fn is_open_push(facts: &TargetFacts) -> bool {
    let is_open = matches!(facts.deployment, Some(DeploymentFact::Open { is_pushed: true, .. }));
    is_open && facts.live == LiveFact::Absent
}

const UNCHANGED_NOTE: &str = "nothing was pushed there";

/// Returns the numbers of the targets that are to be undone: the failed ones, then the others, each in reverse order.
fn undo_order(targets: &[RolloutTarget]) -> Vec<usize> {
    let is_open = |one: &RolloutTarget| {
        matches!(one.state, RolloutTargetStatus::UndoPending | RolloutTargetStatus::Undoing)
    };
    let open = targets.iter().enumerate().rev().filter(|(_, one)| is_open(one));
    let (failed, complete): (Vec<_>, Vec<_>) = open.partition(|(_, one)| one.failure.is_some());
    failed.into_iter().chain(complete).map(|(number, _)| number).collect()
}

fn fail_undo(one: &RolloutTarget, reason: &str) -> UndoStep {
    UndoStep::Settled(RolloutTargetStatus::UndoFailed, format!("{reason}; {}", way_out(one)))
}

/// Says what a person must do.
fn way_out(one: &RolloutTarget) -> String {
    let target = &one.target;
    match &one.before {
        Some(FormerRevision::Revision(id)) => {
            format!("`bart rollback {target} --to {id}` makes the revision before live again")
        }
        Some(FormerRevision::Absent) | None => {
            format!("`bart remove {target}` takes the app off the target")
        }
    }
}
