//! The way forward: begins the targets of a step, asks gates, and moves to the next step.

use jiff::SignedDuration;

use crate::model::id::DeployId;
use crate::rollout::advance::{LiveOwner, Order, Turn, owner_of};
use crate::rollout::facts::{DeploymentFact, GateOutcome, LiveFact};
use crate::rollout::plan::{Bound, Gate, RolloutFailurePolicy, RolloutStep};
use crate::rollout::record::{
    FormerRevision, Pause, RolloutState, RolloutTarget, RolloutTargetStatus,
};
use crate::support::time::saturating_add;

/// What a target that is next may do.
enum Turnout {
    Begin(FormerRevision),
    Skip(String),
    /// Another deployment took the place of the step before.
    GiveWay(String),
    Blocked(String),
    Waits(String),
}

impl Turn<'_> {
    /// Goes on with the current step; moves to the next one at most once.
    pub(super) fn go_forward(&mut self) {
        if self.record.state == RolloutState::Created {
            self.record.set_state(RolloutState::RollingOut, self.now);
            self.record.step_since = self.now;
        }
        if self.give_way_to_failures() || !self.is_step_complete() {
            return;
        }
        self.record.index += 1;
        self.record.step_since = self.now;
        if self.record.step().is_none() {
            self.record.set_state(RolloutState::Done, self.now);
            self.waits.clear();
        } else {
            // Its deployments are created with the move, or not at all.
            self.is_step_complete();
        }
    }

    /// Ends or pauses the rollout where more has failed than is accepted.
    fn give_way_to_failures(&mut self) -> bool {
        let failures = self.record.failures();
        let accepted = self.record.plan.max_failures.max(self.record.accepted_failures);
        if failures <= accepted {
            return false;
        }
        let failed = self.record.targets.iter();
        let failed = failed.filter(|target| target.state == RolloutTargetStatus::Failed);
        let newest = failed.max_by_key(|target| target.since);
        let describe =
            |one: &RolloutTarget| Some(format!("{}: {}", one.target, one.failure.as_deref()?));
        let reason = newest.and_then(describe).unwrap_or_default();
        match self.record.plan.on_failure {
            RolloutFailurePolicy::Undo => self.record.begin_undo(reason, self.now),
            RolloutFailurePolicy::Pause => {
                let pause = RolloutState::Paused(Pause::Failure(reason));
                self.record.set_state(pause, self.now);
            }
            RolloutFailurePolicy::Continue => return false,
        }
        true
    }

    /// Goes on with the current step; checks whether it is complete.
    fn is_step_complete(&mut self) -> bool {
        match self.record.step().cloned() {
            Some(RolloutStep::Deploy { parallel, .. }) => self.go_on_with_targets(parallel),
            Some(RolloutStep::Gate { gate, timeout }) => self.go_on_with_gate(&gate, timeout),
            None => true,
        }
    }

    fn go_on_with_targets(&mut self, parallel: usize) -> bool {
        let index = self.record.index;
        let of_step: Vec<usize> = (0..self.record.targets.len())
            .filter(|number| self.record.targets.get(*number).is_some_and(|one| one.step == index))
            .collect();
        let mut blocked = None;
        let mut under_way = 0;
        let state_of =
            |turn: &Self, number: usize| turn.record.targets.get(number).map(|one| one.state);
        for number in &of_step {
            if state_of(self, *number) == Some(RolloutTargetStatus::Deploying) {
                under_way += 1;
                self.wait_for_deployment(*number);
            }
        }
        for number in &of_step {
            if state_of(self, *number) != Some(RolloutTargetStatus::Pending) {
                continue;
            }
            if under_way >= parallel {
                return false;
            }
            let Some(target) = self.record.targets.get(*number).map(|one| one.target.clone())
            else {
                continue;
            };
            match self.judge(*number) {
                Turnout::Begin(before) => {
                    self.begin_target(*number, before);
                    under_way += 1;
                }
                Turnout::Skip(reason) => {
                    if let Some(one) = self.record.targets.get_mut(*number) {
                        // One that was deployed to before is not as it was.
                        if one.awaits_retry() {
                            one.fail(reason, self.now);
                        } else {
                            one.set_note(RolloutTargetStatus::Skipped, reason, self.now);
                        }
                    }
                }
                Turnout::GiveWay(note) => {
                    if let Some(one) = self.record.targets.get_mut(*number) {
                        one.set_note(RolloutTargetStatus::Superseded, note, self.now);
                    }
                }
                // The sequence is kept: what comes after it waits, too.
                Turnout::Blocked(reason) => {
                    blocked = Some((target, reason));
                    break;
                }
                Turnout::Waits(reason) => {
                    let since = self.record.step_since;
                    self.wait(Some(&target), reason, since, None);
                    return false;
                }
            }
        }
        if let Some((target, reason)) = blocked {
            if under_way == 0 {
                let reason = format!("{target}: {reason}");
                self.record.set_state(RolloutState::Paused(Pause::Blocked(reason)), self.now);
            }
            self.wait(Some(&target), reason, self.record.step_since, None);
            return false;
        }
        under_way == 0
    }

    /// Judges whether a target may be begun now.
    fn judge(&self, number: usize) -> Turnout {
        if let Some(reason) = &self.facts.withdrawn {
            return Turnout::Blocked(reason.clone());
        }
        let Some(facts) = self.facts.targets.get(&number) else {
            return Turnout::Waits("word of what is live there".to_owned());
        };
        if !facts.is_configured {
            return Turnout::Skip("it is no target of the service any more".to_owned());
        }
        if let Some(reason) = &facts.blocked {
            return Turnout::Blocked(reason.clone());
        }
        if let Some(other) = &facts.busy {
            return Turnout::Waits(busy_sentence(other));
        }
        let earlier = self.record.earlier_step(number);
        if let Some(deployment) = earlier.and_then(|one| one.deployment.as_ref())
            && let LiveOwner::Other(note) = owner_of(&facts.live, deployment)
            && (facts.live != LiveFact::Absent || earlier.is_some_and(RolloutTarget::is_complete))
        {
            return Turnout::GiveWay(note);
        }
        match &facts.live {
            LiveFact::Unknown(reason) => Turnout::Waits(reason.clone()),
            LiveFact::Absent => Turnout::Begin(FormerRevision::Absent),
            LiveFact::Revision { revision, .. } => {
                Turnout::Begin(FormerRevision::Revision(revision.clone()))
            }
            LiveFact::Edited => Turnout::Blocked(
                "the manifests were edited by hand there, and an undo could not restore them: deploy or roll back \
                 there first"
                    .to_owned(),
            ),
        }
    }

    fn begin_target(&mut self, number: usize, before: FormerRevision) {
        let id = (self.draw)();
        // A target that is deployed again keeps the revision that it had before the rollout.
        let earlier = self.record.earlier_step(number).and_then(|one| one.before.clone());
        let before = earlier.unwrap_or(before);
        let Some(one) = self.record.targets.get_mut(number) else { return };
        one.before.get_or_insert(before);
        one.deployment = Some(id.clone());
        one.attempts += 1;
        (one.failure, one.note) = (None, None);
        one.set_state(RolloutTargetStatus::Deploying, self.now);
        let target = one.target.clone();
        self.orders.push(Order::Deploy { target, id });
    }

    fn wait_for_deployment(&mut self, number: usize) {
        let Some(one) = self.record.targets.get(number) else { return };
        let (target, since) = (one.target.clone(), one.since);
        let what = self.sentence_of(number);
        self.wait(Some(&target), what, since, Some(self.record.plan.target_timeout));
    }

    /// Says how the deployment of a target stands.
    fn sentence_of(&self, number: usize) -> String {
        let facts = self.facts.targets.get(&number);
        match facts.and_then(|facts| facts.deployment.as_ref()) {
            Some(DeploymentFact::Open { sentence, .. }) => sentence.clone(),
            _ => "word of its deployment".to_owned(),
        }
    }

    /// Goes on with a gate; checks whether it has passed.
    fn go_on_with_gate(&mut self, gate: &Gate, timeout: Option<SignedDuration>) -> bool {
        let (index, since, now) = (self.record.index, self.record.step_since, self.now);
        let record = self.record.gates.entry(index).or_default();
        let has_passed = match gate {
            Gate::Bake { length } => now >= saturating_add(since, *length),
            Gate::Approval { .. } => record.approval.is_some(),
            Gate::Http { .. }
            | Gate::PromQl { .. }
            | Gate::NoAlert { .. }
            | Gate::Calendar { .. } => {
                let answer = self.facts.gate.as_ref();
                // An answer to an earlier question says nothing about now.
                let answer = answer.filter(|answer| answer.step == index && answer.at >= since);
                if let Some(answer) = answer {
                    record.answer = Some(answer.clone());
                }
                answer.is_some_and(|answer| answer.result == GateOutcome::Passed)
            }
        };
        if has_passed {
            record.passed_at = Some(now);
            return true;
        }
        let what = gate.sentence(record.answer.as_ref().map(|answer| answer.value.as_str()));
        if let Some(timeout) = timeout
            && now >= saturating_add(since, timeout)
        {
            let reason = format!("a gate did not pass within {timeout:#}: {what}");
            match self.record.plan.on_failure {
                RolloutFailurePolicy::Undo => self.record.begin_undo(reason, now),
                RolloutFailurePolicy::Pause | RolloutFailurePolicy::Continue => {
                    let pause = RolloutState::Paused(Pause::Failure(reason));
                    self.record.set_state(pause, now);
                }
            }
            return false;
        }
        let limit = match gate {
            Gate::Bake { .. } => None,
            Gate::Approval { .. } => timeout,
            Gate::Http { .. }
            | Gate::PromQl { .. }
            | Gate::NoAlert { .. }
            | Gate::Calendar { .. } => {
                self.orders.push(Order::AskGate);
                timeout
            }
        };
        self.wait(None, what, since, limit);
        false
    }
}

/// Says for which deployment or removal of others a target waits.
pub fn busy_sentence(other: &DeployId) -> String {
    format!("{other}, which is under way there, to end")
}

impl Gate {
    /// Says what the gate waits for, with its last value.
    pub fn sentence(&self, value: Option<&str>) -> String {
        let what = match self {
            Self::Bake { length } => format!("the bake time of {length:#}"),
            Self::Approval { team: Some(team) } => format!("the approval of a member of {team}"),
            Self::Approval { team: None } => "an approval".to_owned(),
            Self::Http { url } => format!("{url} to answer well"),
            Self::PromQl { query, bound } => format!("`{query}` to be {}", bound.sentence()),
            Self::NoAlert { matchers } => {
                format!("no alert with {} to fire", matchers.join(", "))
            }
            Self::Calendar { .. } => "the calendar to be open".to_owned(),
        };
        match value {
            Some(value) => format!("{what} (now: {value})"),
            None => what,
        }
    }
}

impl Bound {
    fn sentence(&self) -> String {
        match self {
            Self::AtMost(value) => format!("at most {value}"),
            Self::AtLeast(value) => format!("at least {value}"),
        }
    }
}
