//! Sums up a rollout for people who look at a commit or a channel.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::model::announcement::Announcement;
use crate::model::id::{RolloutName, TargetName};
use crate::model::rollout_news::{RolloutNews, RolloutPhase, RolloutTargetNews, TargetProgress};
use crate::rollout::plan::{Gate, RolloutStep};
use crate::rollout::record::{
    Pause, RolloutRecord, RolloutState, RolloutTarget, RolloutTargetStatus,
};
use crate::support::time::saturating_add;

impl RolloutRecord {
    /// Sums it up: `name` is its name in the WAML, `starter` the person or token that started it.
    pub fn news(&self, name: Option<&RolloutName>, starter: &str) -> RolloutNews {
        let (phase, since) = self.phase();
        RolloutNews {
            id: self.id.clone(),
            name: name.cloned(),
            app: self.app.clone(),
            repository: self.release.repository.clone(),
            commit: self.release.commit.clone(),
            tag: self.release.tag.clone(),
            starter: starter.to_owned(),
            wait: self.gate_wait().filter(|_| !phase.is_end()),
            phase,
            since,
            index: self.index,
            steps: self.plan.steps.len(),
            next_targets: self.next_targets().cloned().unwrap_or_default(),
            targets: self.targets.iter().map(RolloutTarget::news).collect(),
        }
    }

    fn next_targets(&self) -> Option<&Vec<TargetName>> {
        let mut steps = self.plan.steps.iter().skip(self.index + 1);
        steps.find_map(|step| match step {
            RolloutStep::Deploy { targets, .. } => Some(targets),
            RolloutStep::Gate { .. } => None,
        })
    }

    /// Lists the kinds of events about the change from an earlier record, in their order.
    pub fn announcements_since(&self, before: &Self) -> Vec<Announcement> {
        let (old, new) = (&before.state, &self.state);
        let is_undoing = |state: &RolloutState| matches!(state, RolloutState::Undoing { .. });
        let has_begun = *old == RolloutState::Created
            && !matches!(new, RolloutState::Created | RolloutState::Cancelled { .. });
        let is_paused = matches!(new, RolloutState::Paused(_)) && old != new;
        [
            (has_begun, Announcement::RolloutStarted),
            (self.index > before.index, Announcement::RolloutStep),
            (is_paused, Announcement::RolloutPaused),
            (is_undoing(new) && !is_undoing(old), Announcement::RolloutUndoing),
            (new.is_final() && !old.is_final(), Announcement::RolloutFinished),
        ]
        .into_iter()
        .filter_map(|(happened, kind)| happened.then_some(kind))
        .collect()
    }

    /// Returns the phase, and the time at which it came into it.
    fn phase(&self) -> (RolloutPhase, Timestamp) {
        let phase = match &self.state {
            RolloutState::Created | RolloutState::RollingOut => match self.step() {
                Some(RolloutStep::Gate { gate: Gate::Approval { team }, .. })
                    if self.gates.get(&self.index).is_none_or(|gate| gate.approval.is_none())
                        && self.state == RolloutState::RollingOut =>
                {
                    return (RolloutPhase::Approval(team.clone()), self.step_since);
                }
                _ => RolloutPhase::UnderWay,
            },
            RolloutState::Paused(Pause::Blocked(reason)) => RolloutPhase::Blocked(reason.clone()),
            RolloutState::Paused(Pause::Person(reason)) => RolloutPhase::Paused(reason.clone()),
            RolloutState::Paused(Pause::Failure(reason)) => RolloutPhase::Stopped(reason.clone()),
            RolloutState::Undoing { reason } => RolloutPhase::Undoing(reason.clone()),
            RolloutState::Done => RolloutPhase::Done,
            RolloutState::Undone => RolloutPhase::Undone,
            RolloutState::UndoFailed => RolloutPhase::UndoFailed,
            RolloutState::Cancelled { reason } => RolloutPhase::Cancelled(reason.clone()),
        };
        (phase, self.since)
    }

    /// Returns the condition of the gate that it stands at, without the gate's last value: that changes with each answer.
    fn gate_wait(&self) -> Option<String> {
        match (self.step()?, &self.state) {
            (RolloutStep::Gate { gate, .. }, RolloutState::RollingOut) => Some(match gate {
                Gate::Bake { length } => {
                    let end = saturating_add(self.step_since, *length);
                    format!("the bake time until {}", clock_time(end, self.step_since))
                }
                Gate::Approval { .. }
                | Gate::Http { .. }
                | Gate::PromQl { .. }
                | Gate::NoAlert { .. }
                | Gate::Calendar { .. } => gate.sentence(None),
            }),
            (RolloutStep::Gate { .. } | RolloutStep::Deploy { .. }, _) => None,
        }
    }
}

impl RolloutTarget {
    fn news(&self) -> RolloutTargetNews {
        let progress = match self.state {
            RolloutTargetStatus::Pending | RolloutTargetStatus::UndoPending => {
                TargetProgress::Pending
            }
            RolloutTargetStatus::Deploying | RolloutTargetStatus::Undoing => {
                TargetProgress::UnderWay
            }
            RolloutTargetStatus::Complete => TargetProgress::Complete,
            RolloutTargetStatus::Failed => TargetProgress::Failed,
            RolloutTargetStatus::Undone | RolloutTargetStatus::Unchanged => TargetProgress::Undone,
            RolloutTargetStatus::UndoFailed => TargetProgress::UndoFailed,
            RolloutTargetStatus::Superseded | RolloutTargetStatus::Skipped => {
                TargetProgress::Dropped
            }
        };
        let reason = match progress {
            TargetProgress::UndoFailed => self.note.as_ref().or(self.failure.as_ref()),
            TargetProgress::Dropped => self.note.as_ref(),
            TargetProgress::Complete
            | TargetProgress::UnderWay
            | TargetProgress::Pending
            | TargetProgress::Failed
            | TargetProgress::Undone => self.failure.as_ref(),
        };
        RolloutTargetNews { target: self.target.clone(), progress, reason: reason.cloned() }
    }
}

/// Formats a time of the same day as `10:40 UTC`, and another one with its date.
fn clock_time(time: Timestamp, day: Timestamp) -> String {
    let (time, day) = (time.to_zoned(TimeZone::UTC), day.to_zoned(TimeZone::UTC));
    let format = if time.date() == day.date() { "%H:%M UTC" } else { "%Y-%m-%d %H:%M UTC" };
    time.strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::rollout::acts::RolloutAct;
    use crate::rollout::facts::GateOutcome;
    use crate::rollout::plan::RolloutFailurePolicy;
    use crate::rollout::simulation::{Simulation, deploy, plan};

    fn begin(gate: Gate, on_failure: RolloutFailurePolicy) -> Simulation {
        let gate = RolloutStep::Gate { gate, timeout: None };
        let steps = vec![deploy(&["a"], 1), gate, deploy(&["b", "c"], 2)];
        let mut world = Simulation::new(plan(steps, on_failure));
        world.advance();
        world
    }

    fn news(world: &Simulation) -> RolloutNews {
        world.record.news(None, "ann")
    }

    #[test]
    fn a_bake_time_has_its_end_and_another_day_its_date() {
        let bake = |minutes| {
            let length = SignedDuration::from_mins(minutes);
            let mut world = begin(Gate::Bake { length }, RolloutFailurePolicy::Undo);
            world.succeeds("a");
            news(&world)
        };
        let soon = bake(40);
        assert_eq!((soon.phase, soon.index, soon.steps), (RolloutPhase::UnderWay, 1, 3));
        let wait = soon.wait.unwrap();
        assert!(wait.starts_with("the bake time until 10:4") && wait.ends_with(" UTC"), "{wait}");
        let wait = bake(24 * 60).wait.unwrap();
        assert!(wait.starts_with("the bake time until 2026-11-22 10:0"), "{wait}");
    }

    #[test]
    fn an_approval_is_a_phase_until_it_is_given() {
        let mut world = begin(Gate::Approval { team: None }, RolloutFailurePolicy::Undo);
        world.succeeds("a");
        let waiting = news(&world);
        assert_eq!(waiting.phase, RolloutPhase::Approval(None));
        assert_eq!(waiting.wait.as_deref(), Some("an approval"));
        assert_eq!(waiting.since, world.record.step_since);
        let (by, reason) = ("bob".to_owned(), "looks well".to_owned());
        let act = RolloutAct::Approve { step: 1, by, reason };
        world.act(act).unwrap();
        world.advance();
        let approved = news(&world);
        assert_eq!((approved.phase, approved.wait), (RolloutPhase::UnderWay, None));
        assert_eq!(approved.targets[1].progress, TargetProgress::UnderWay);
    }

    #[test]
    fn each_change_that_programs_are_told_of_has_its_kinds() {
        let mut told = Vec::new();
        let gate = Gate::Approval { team: None };
        let steps =
            vec![deploy(&["a"], 1), RolloutStep::Gate { gate, timeout: None }, deploy(&["b"], 1)];
        let mut world = Simulation::new(plan(steps, RolloutFailurePolicy::Undo));
        let mut before = world.record.clone();
        let mut note = |world: &Simulation| {
            let kinds = world.record.announcements_since(&before);
            told.extend(kinds.into_iter().map(Announcement::as_str));
            before = world.record.clone();
        };
        world.advance();
        note(&world);
        world.act(RolloutAct::Pause { reason: "lunch".to_owned() }).unwrap();
        note(&world);
        world.act(RolloutAct::Resume { reason: "on".to_owned() }).unwrap();
        note(&world);
        world.succeeds("a");
        note(&world);
        let act = RolloutAct::Approve { step: 1, by: "bob".to_owned(), reason: String::new() };
        world.act(act).unwrap();
        world.advance();
        note(&world);
        world.fails("b", "crashes");
        note(&world);
        for name in ["b", "a"] {
            world.succeeds(name);
            world.advance();
            note(&world);
        }
        assert_eq!(world.record.state, RolloutState::Undone);
        assert_eq!(
            told,
            [
                "rollout.started",
                "rollout.paused",
                "rollout.step",
                "rollout.step",
                "rollout.undoing",
                "rollout.finished"
            ]
        );
        assert!(world.record.announcements_since(&world.record).is_empty());
    }

    #[test]
    fn a_gate_is_told_without_its_value_which_changes_all_the_time() {
        let url = "https://shop.example.com/health".to_owned();
        let mut world = begin(Gate::Http { url }, RolloutFailurePolicy::Undo);
        world.gate = GateOutcome::NotPassed;
        world.succeeds("a");
        world.advance();
        let wait = news(&world).wait.unwrap();
        assert_eq!(wait, "https://shop.example.com/health to answer well");
    }

    #[test]
    fn a_failure_stays_with_its_target_until_the_end() {
        let mut world = begin(Gate::Approval { team: None }, RolloutFailurePolicy::Undo);
        world.fails("a", "cannot pull the image");
        let undoing = news(&world);
        assert_eq!(undoing.phase, RolloutPhase::Undoing("a: cannot pull the image".to_owned()));
        world.succeeds("a");
        let undone = news(&world);
        assert_eq!((&undone.phase, &undone.wait), (&RolloutPhase::Undone, &None));
        let (target, reason) = undone.first_reason().unwrap();
        assert_eq!((target.as_str(), reason), ("a", "cannot pull the image"));
        assert_eq!(undone.count(TargetProgress::Undone), 1);
        assert_eq!(undone.count(TargetProgress::Pending), 2);
        let mut paused = begin(Gate::Approval { team: None }, RolloutFailurePolicy::Pause);
        paused.fails("a", "crashes");
        assert_eq!(news(&paused).phase, RolloutPhase::Stopped("a: crashes".to_owned()));
    }
}
