//! Metrics of rollouts, for Prometheus: how many are open, how long steps and gates take, and how targets end.

use jiff::{SignedDuration, Timestamp};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::model::rollout_words::RolloutStatus;
use crate::rollout::plan::RolloutStep;
use crate::rollout::record::{RolloutRecord, RolloutState, RolloutTargetStatus};
use crate::support::telemetry::export_zeros;

/// The metrics of rollouts. Clones share them.
#[derive(Debug, Clone)]
pub struct RolloutProgressMetrics {
    open: Family<StateLabel, Gauge>,
    ends: Family<StateLabel, Counter>,
    undos: Counter,
    targets: Family<EndLabel, Counter>,
    steps: Histogram,
    gates: Family<GateLabel, Histogram, fn() -> Histogram>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabel {
    end: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GateLabel {
    gate: &'static str,
}

/// The states of an open rollout.
const OPEN_STATES: [&str; 4] = ["created", "rolling_out", "paused", "undoing"];
/// The buckets in seconds: a push takes seconds, a cluster minutes, a bake time hours.
const BUCKETS: [f64; 12] =
    [1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 10_800.0, 43_200.0, 86_400.0, 604_800.0];

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

impl Default for RolloutProgressMetrics {
    fn default() -> Self {
        Self {
            open: Family::default(),
            ends: Family::default(),
            undos: Counter::default(),
            targets: Family::default(),
            steps: histogram(),
            gates: Family::new_with_constructor(histogram),
        }
    }
}

impl RolloutProgressMetrics {
    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        let Self { open, ends, undos, targets, steps, gates } = self.clone();
        let end_states = RolloutStatus::ALL.into_iter().filter(|state| state.is_end());
        export_zeros(&ends, end_states.map(|state| StateLabel { state: state.as_str() }));
        registry.register("rollouts_open", "Rollouts that have not ended, by state", open);
        registry.register("rollouts", "Rollouts that have ended, by state", ends);
        registry.register("rollout_undos", "Rollouts whose way back has begun", undos);
        registry.register("rollout_targets", "Targets of rollouts, by how they ended", targets);
        let seconds = Unit::Seconds;
        registry.register_with_unit(
            "rollout_step_duration",
            "How long a step took that deploys",
            seconds.clone(),
            steps,
        );
        let help = "How long a rollout waited for a gate that has passed";
        registry.register_with_unit("rollout_gate_wait", help, seconds, gates);
    }

    /// Records the number of open rollouts by the words of their states.
    pub(crate) fn record_open(&self, counts: &[(String, u64)]) {
        for state in OPEN_STATES {
            let count =
                counts.iter().find(|(word, _)| word == state).map_or(0, |(_, count)| *count);
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.open.get_or_create(&StateLabel { state }).set(count);
        }
    }

    /// Counts what one turn has changed, once it is stored.
    pub(crate) fn observe(&self, before: &RolloutRecord, after: &RolloutRecord) {
        if after.index > before.index {
            self.observe_step(before, after.step_since);
        }
        if after.state.is_final() && before.state != after.state {
            let state = after.state.as_str();
            self.ends.get_or_create(&StateLabel { state }).inc();
        }
        let is_undoing =
            |record: &RolloutRecord| matches!(record.state, RolloutState::Undoing { .. });
        if is_undoing(after) && !is_undoing(before) {
            self.undos.inc();
        }
        for (earlier, later) in before.targets.iter().zip(&after.targets) {
            if let Some(end) = target_end(later.state).filter(|_| earlier.state != later.state) {
                self.targets.get_or_create(&EndLabel { end }).inc();
            }
        }
    }

    fn observe_step(&self, before: &RolloutRecord, end: Timestamp) {
        let length = end.duration_since(before.step_since).max(SignedDuration::ZERO).as_secs_f64();
        match before.step() {
            Some(RolloutStep::Deploy { .. }) => self.steps.observe(length),
            Some(RolloutStep::Gate { gate, .. }) => {
                self.gates.get_or_create(&GateLabel { gate: gate.kind() }).observe(length);
            }
            None => {}
        }
    }
}

fn target_end(state: RolloutTargetStatus) -> Option<&'static str> {
    match state {
        RolloutTargetStatus::Complete => Some("complete"),
        RolloutTargetStatus::Failed => Some("failed"),
        RolloutTargetStatus::Superseded => Some("superseded"),
        RolloutTargetStatus::Skipped => Some("skipped"),
        RolloutTargetStatus::Undone => Some("undone"),
        RolloutTargetStatus::Unchanged => Some("unchanged"),
        RolloutTargetStatus::UndoFailed => Some("undo_failed"),
        RolloutTargetStatus::Pending
        | RolloutTargetStatus::Deploying
        | RolloutTargetStatus::UndoPending
        | RolloutTargetStatus::Undoing => None,
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use std::collections::BTreeMap;

    use super::*;
    use crate::model::id::{AppKey, CommitSha, ImageTag, RepoName, RolloutId, TargetName};
    use crate::model::release::Release;
    use crate::rollout::plan::{Gate, RolloutFailurePolicy, RolloutPlan};

    fn record() -> RolloutRecord {
        let deploy = |name: &str| RolloutStep::Deploy {
            targets: vec![TargetName::parse(name).unwrap()],
            parallel: 1,
            weights: BTreeMap::new(),
        };
        let gate = RolloutStep::Gate { gate: Gate::Approval { team: None }, timeout: None };
        let plan = RolloutPlan {
            steps: vec![deploy("a"), gate, deploy("b")],
            on_failure: RolloutFailurePolicy::Undo,
            max_failures: 0,
            target_timeout: SignedDuration::from_mins(15),
        };
        let id = |text: &str| RolloutId::parse(text).unwrap();
        let ids = (id("r-20261121-054812123-0a1b2c"), id("r-20261121-054812123-0a1b2d"));
        let release = Release {
            repository: RepoName::parse("acme/web").unwrap(),
            app: None,
            commit: CommitSha::parse("ab".repeat(20)).unwrap(),
            tag: ImageTag::parse("v2").unwrap(),
        };
        let app = AppKey { namespace: "devx".parse().unwrap(), slug: "web".parse().unwrap() };
        RolloutRecord::new(ids, (release, app), plan, Timestamp::UNIX_EPOCH)
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn steps_gates_targets_and_ends_are_counted_once() {
        let mut registry = Registry::default();
        let metrics = RolloutProgressMetrics::default();
        metrics.register(&mut registry);
        let mut turns = vec![record()];
        let mut turn = |change: &dyn Fn(&mut RolloutRecord)| {
            let mut next = turns.last().unwrap().clone();
            change(&mut next);
            turns.push(next);
        };
        turn(&|next| next.state = RolloutState::RollingOut);
        turn(&|next| {
            next.targets[0].state = RolloutTargetStatus::Complete;
            (next.index, next.step_since) = (1, at(40));
        });
        turn(&|next| (next.index, next.step_since) = (2, at(100)));
        turn(&|next| {
            next.targets[1].state = RolloutTargetStatus::Failed;
            next.state = RolloutState::Undoing { reason: "b: no image".to_owned() };
        });
        turn(&|next| next.targets[1].state = RolloutTargetStatus::Undone);
        turn(&|_| {});
        turn(&|next| next.state = RolloutState::Undone);
        for two in turns.windows(2) {
            metrics.observe(&two[0], &two[1]);
        }
        metrics.record_open(&[("paused".to_owned(), 2)]);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "rollouts_open{state=\"paused\"} 2\n",
            "rollouts_open{state=\"undoing\"} 0\n",
            "rollouts_total{state=\"undone\"} 1\n",
            "rollouts_total{state=\"undo_failed\"} 0\n",
            "rollout_undos_total 1\n",
            "rollout_targets_total{end=\"complete\"} 1\n",
            "rollout_targets_total{end=\"failed\"} 1\n",
            "rollout_targets_total{end=\"undone\"} 1\n",
            "rollout_step_duration_seconds_sum 40.0\n",
            "rollout_gate_wait_seconds_sum{gate=\"approval\"} 60.0\n",
            "rollout_gate_wait_seconds_count{gate=\"approval\"} 1\n",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
