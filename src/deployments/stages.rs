//! Measures the stages of one attempt, and logs their begin and end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use crate::model::deployment::{Stage, StageTime};
use crate::model::id::DeployId;
use crate::support::clock::{Clock, Stopwatch};
use crate::support::sync::lock;

/// The histogram of stage durations, for Prometheus. Clones share it.
#[derive(Debug, Clone)]
pub struct StageDurations(pub(crate) Family<StageLabel, Histogram, fn() -> Histogram>);

/// The label with the stage's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StageLabel {
    stage: &'static str,
}

/// The buckets in seconds: merging takes microseconds, a push some seconds, a queue any time.
const BUCKETS: [f64; 14] =
    [0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 10.0, 60.0];

impl Default for StageDurations {
    fn default() -> Self {
        Self(Family::new_with_constructor(|| Histogram::new(BUCKETS)))
    }
}

/// The stages of one attempt at one deployment. Clones share them.
#[derive(Clone)]
pub struct Stages(Arc<Inner>);

struct Inner {
    deployment: DeployId,
    clock: Clock,
    durations: StageDurations,
    times: Mutex<Vec<StageTime>>,
}

/// A stage that runs; it ends when this is dropped.
#[must_use = "the stage ends when this is dropped"]
pub struct StageTimer {
    stages: Stages,
    stage: Stage,
    since: Stopwatch,
}

impl Stages {
    /// Creates an empty list of stages.
    pub fn new(deployment: DeployId, clock: Clock, durations: StageDurations) -> Self {
        Self(Arc::new(Inner { deployment, clock, durations, times: Mutex::default() }))
    }

    /// Begins a stage.
    pub fn begin(&self, stage: Stage) -> StageTimer {
        let Inner { deployment, clock, .. } = &*self.0;
        tracing::info!(
            target: "the_deployer::stage",
            %deployment, stage = stage.as_str(), "{} begins", stage.as_str()
        );
        StageTimer { stages: self.clone(), stage, since: clock.stopwatch() }
    }

    /// Records a stage that has ended.
    pub fn record(&self, stage: Stage, micros: u64) {
        let Inner { deployment, durations, .. } = &*self.0;
        tracing::info!(
            target: "the_deployer::stage",
            %deployment, stage = stage.as_str(), micros,
            "{} took {}", stage.as_str(), millis(micros)
        );
        let seconds = Duration::from_micros(micros).as_secs_f64();
        durations.0.get_or_create(&StageLabel { stage: stage.as_str() }).observe(seconds);
        lock(&self.0.times).push(StageTime { stage, micros });
    }

    /// Returns the stages that have ended, in that order.
    pub fn times(&self) -> Vec<StageTime> {
        lock(&self.0.times).clone()
    }
}

impl Drop for StageTimer {
    fn drop(&mut self) {
        self.stages.record(self.stage, self.since.micros());
    }
}

/// Formats microseconds as milliseconds, `12.3 ms`.
fn millis(micros: u64) -> String {
    format!("{}.{} ms", micros / 1000, micros % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_recorded_in_the_order_of_their_ends() {
        let id = DeployId::parse("20261121-054812123-3f9a2c").unwrap();
        let stages = Stages::new(id, Clock::system(), StageDurations::default());
        stages.record(Stage::Queue, 1500);
        drop(stages.begin(Stage::Fetch));
        let order: Vec<_> = stages.times().into_iter().map(|time| time.stage).collect();
        assert_eq!(order, [Stage::Queue, Stage::Fetch]);
    }

    #[test]
    fn a_time_is_shown_in_milliseconds() {
        assert_eq!(millis(12_345), "12.3 ms");
    }
}
