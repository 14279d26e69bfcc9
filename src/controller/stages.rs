//! How long each stage of one attempt took, and its two log lines.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::{Clock, Stopwatch};
use crate::controller::metrics::Metrics;
use crate::model::deployment::{Stage, StageTime};
use crate::model::id::DeployId;

/// The stages of one attempt at one deployment. Clones share them.
#[derive(Clone)]
pub struct Stages(Arc<Inner>);

struct Inner {
    deployment: DeployId,
    clock: Clock,
    metrics: Metrics,
    times: Mutex<Vec<StageTime>>,
}

/// A stage that is going on; it ends when this is dropped.
#[must_use = "the stage ends when this is dropped"]
pub struct Going {
    stages: Stages,
    stage: Stage,
    since: Stopwatch,
}

impl Stages {
    /// No stage yet.
    pub fn new(deployment: DeployId, clock: Clock, metrics: Metrics) -> Self {
        Self(Arc::new(Inner { deployment, clock, metrics, times: Mutex::default() }))
    }

    /// Begins a stage.
    pub fn begin(&self, stage: Stage) -> Going {
        let Inner { deployment, clock, .. } = &*self.0;
        tracing::info!(
            target: "the_deployer::stage",
            %deployment, stage = stage.as_str(), "{} begins", stage.as_str()
        );
        Going { stages: self.clone(), stage, since: clock.stopwatch() }
    }

    /// Records a stage that has ended.
    pub fn took(&self, stage: Stage, micros: u64) {
        let Inner { deployment, metrics, .. } = &*self.0;
        tracing::info!(
            target: "the_deployer::stage",
            %deployment, stage = stage.as_str(), micros,
            "{} took {}", stage.as_str(), Millis(micros)
        );
        metrics.stage(stage, micros);
        self.lock().push(StageTime { stage, micros });
    }

    /// The stages that have ended, in that order.
    pub fn times(&self) -> Vec<StageTime> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<StageTime>> {
        self.0.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        self.stages.took(self.stage, self.since.micros());
    }
}

/// Microseconds as milliseconds, `12.3 ms`.
struct Millis(u64);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} ms", self.0 / 1000, self.0 % 1000 / 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_recorded_in_the_order_of_their_ends() {
        let id = DeployId::parse("20261121-054812123-3f9a2c").unwrap();
        let stages = Stages::new(id, Clock::system(), Metrics::unregistered());
        stages.took(Stage::Queue, 1500);
        drop(stages.begin(Stage::Fetch));
        let order: Vec<_> = stages.times().into_iter().map(|time| time.stage).collect();
        assert_eq!(order, [Stage::Queue, Stage::Fetch]);
    }

    #[test]
    fn a_time_is_shown_in_milliseconds() {
        assert_eq!(Millis(12_345).to_string(), "12.3 ms");
    }
}
