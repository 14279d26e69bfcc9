//! The histograms of the deploy clock's intervals, for Prometheus. The store alone knows whether a mark is new, so it
//! observes each interval once: when its second mark was committed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

use crate::model::deploy_clock::{DeployMarks, Lapse};
use crate::model::id::{DeployId, TargetName};
use crate::support::sync::lock;

/// The buckets in seconds: a push takes seconds, a rollout minutes.
const BUCKETS: [f64; 14] =
    [0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 300.0, 600.0, 1800.0];

/// The most targets with series of their own; the others share [`OTHERS`].
const MAX_TARGETS: usize = 200;
const OTHERS: &str = "(others)";

/// The metrics of the intervals. Clones share them.
#[derive(Debug, Clone)]
pub struct IntervalMetrics {
    durations: Family<IntervalLabels, Durations, fn() -> Durations>,
    skewed: Family<IntervalLabels, Counter>,
    targets: Arc<Mutex<BTreeSet<String>>>,
}

type Durations = HistogramWithExemplars<ExemplarLabels>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct IntervalLabels {
    target: String,
    interval: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ExemplarLabels {
    deployment: String,
}

/// New marks of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the intervals are observed once the marks are committed"]
pub(super) struct MarkChange {
    pub(super) deployment: DeployId,
    pub(super) target: TargetName,
    pub(super) before: DeployMarks,
    pub(super) after: DeployMarks,
}

impl Default for IntervalMetrics {
    fn default() -> Self {
        Self {
            durations: Family::new_with_constructor(|| {
                HistogramWithExemplars::new(BUCKETS.into_iter())
            }),
            skewed: Family::default(),
            targets: Arc::default(),
        }
    }
}

impl IntervalMetrics {
    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        let Self { durations, skewed, targets: _ } = self.clone();
        registry.register_with_unit(
            "deploy_interval",
            "How long an interval of the deploy clock took, by target; an exemplar names a deployment",
            Unit::Seconds,
            durations,
        );
        registry.register(
            "deploy_intervals_skewed",
            "Intervals of the deploy clock that have no length, because clocks contradict each other",
            skewed,
        );
    }

    /// Observes the intervals that new marks have completed.
    pub(super) fn observe(&self, change: &MarkChange) {
        let MarkChange { deployment, target, before, after } = change;
        for time in after.intervals() {
            if before.interval(time.interval).is_some() {
                continue;
            }
            let labels =
                IntervalLabels { target: self.label(target), interval: time.interval.as_str() };
            match time.lapse() {
                Lapse::Millis(millis) => {
                    let exemplar = ExemplarLabels { deployment: deployment.to_string() };
                    let seconds = Duration::from_millis(millis).as_secs_f64();
                    self.durations.get_or_create(&labels).observe(seconds, Some(exemplar), None);
                }
                Lapse::Skew(_) => {
                    self.skewed.get_or_create(&labels).inc();
                }
            }
        }
    }

    /// Returns the label of a target: a series stays for as long as the process runs.
    fn label(&self, target: &TargetName) -> String {
        let mut targets = lock(&self.targets);
        if targets.len() < MAX_TARGETS {
            targets.insert(target.to_string());
        }
        if targets.contains(target.as_str()) { target.to_string() } else { OTHERS.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::model::deploy_clock::{DeployMark, MarkClock, MarkTime};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn marks(pushed: Option<i64>) -> DeployMarks {
        let requested = MarkTime::new(DeployMark::Requested, at(0), MarkClock::CodeHost, at(2));
        let received = MarkTime::of_service(DeployMark::Received, at(2));
        let pushed = pushed.map(|seconds| MarkTime::of_service(DeployMark::Pushed, at(seconds)));
        [requested, received].into_iter().chain(pushed).collect()
    }

    fn change(target: &str, before: DeployMarks, after: DeployMarks) -> MarkChange {
        let deployment = DeployId::parse("20261121-054812123-3f9a2c").unwrap();
        MarkChange { deployment, target: TargetName::parse(target).unwrap(), before, after }
    }

    fn encoded(metrics: &IntervalMetrics) -> String {
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    #[test]
    fn an_interval_is_observed_once_with_the_deployment_as_its_exemplar() {
        let metrics = IntervalMetrics::default();
        metrics.observe(&change("prod", marks(None), marks(Some(6))));
        metrics.observe(&change("prod", marks(Some(6)), marks(Some(6))));
        let text = encoded(&metrics);
        let series = "target=\"prod\",interval=\"deployer\"";
        assert!(text.contains(&format!("deploy_interval_seconds_count{{{series}}} 1")), "{text}");
        let bucket = format!("deploy_interval_seconds_bucket{{le=\"5.0\",{series}}} 1");
        let line = text.lines().find(|line| line.starts_with(&bucket));
        let exemplar = "# {deployment=\"20261121-054812123-3f9a2c\"} 4.0";
        assert!(line.is_some_and(|line| line.contains(exemplar)), "{text}");
    }

    #[test]
    fn a_skewed_interval_is_counted_and_not_observed() {
        let metrics = IntervalMetrics::default();
        metrics.observe(&change("prod", marks(None), marks(Some(1))));
        let text = encoded(&metrics);
        let skewed = "deploy_intervals_skewed_total{target=\"prod\",interval=\"deployer\"} 1";
        assert!(text.contains(skewed), "{text}");
        assert!(!text.contains("deploy_interval_seconds_count"), "{text}");
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let metrics = IntervalMetrics::default();
        for n in 0..MAX_TARGETS + 50 {
            metrics.observe(&change(&format!("target-{n}"), marks(None), marks(Some(6))));
        }
        let text = encoded(&metrics);
        let series = text.lines().filter(|line| line.starts_with("deploy_interval_seconds_count"));
        assert_eq!(series.count(), MAX_TARGETS + 1);
        assert!(text.contains("{target=\"(others)\",interval=\"deployer\"} 50"), "{text}");
    }
}
