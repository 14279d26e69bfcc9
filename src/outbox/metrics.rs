//! Metrics of the outbox, for Prometheus.

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::forge::delivery::RateLimited;
use crate::store::OutboxBacklog;

/// The metrics of the outbox. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct OutboxMetrics {
    reports: Family<ReportLabel, Counter>,
    waiting: Family<FamilyLabel, Gauge>,
    parked: Family<FamilyLabel, Gauge>,
    oldest: Family<FamilyLabel, Gauge>,
    closed: Family<FamilyLabel, Gauge>,
    limited: Family<RequestsLabel, Gauge>,
    environments: Family<StateReportLabel, Counter>,
    environments_waiting: Gauge,
    rollouts: Family<StateReportLabel, Counter>,
    rollouts_waiting: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FamilyLabel {
    family: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestsLabel {
    requests: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReportLabel {
    family: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateReportLabel {
    report: &'static str,
    outcome: &'static str,
}

impl OutboxMetrics {
    /// Creates the metrics and registers them.
    pub fn new(registry: &mut Registry) -> Self {
        let new = Self::default();
        let Self {
            reports,
            waiting,
            parked,
            oldest,
            closed,
            limited,
            environments,
            environments_waiting,
            rollouts,
            rollouts_waiting,
        } = new.clone();
        registry.register(
            "environment_reports",
            "Statuses and comments about preview environments, by outcome",
            environments,
        );
        registry.register(
            "environment_reports_waiting",
            "Statuses and comments about preview environments that wait",
            environments_waiting,
        );
        registry.register(
            "rollout_reports",
            "Statuses and messages about rollouts, by outcome",
            rollouts,
        );
        registry.register(
            "rollout_reports_waiting",
            "Statuses and messages about rollouts that wait",
            rollouts_waiting,
        );
        registry.register("reports", "Messages, by family of receivers and outcome", reports);
        registry.register("outbox_waiting", "Messages that wait, by family of receivers", waiting);
        registry.register("outbox_parked", "Parked messages, which are not tried any more", parked);
        let mut in_seconds = |name, help, gauge| {
            registry.register_with_unit(name, help, Unit::Seconds, gauge);
        };
        in_seconds("outbox_oldest", "Since when the oldest message waits", oldest);
        in_seconds(
            "outbox_closed_until_timestamp",
            "Time until which the circuit breaker is open, since the epoch; 0 while it is closed",
            closed,
        );
        registry.register_with_unit(
            "forge_limited_until_timestamp",
            "Time until which the code host takes no such requests, since the epoch; 0 while it takes them",
            Unit::Seconds,
            limited,
        );
        new
    }

    pub(super) fn report(&self, family: &str, outcome: &'static str) {
        let family = family.to_owned();
        self.reports.get_or_create(&ReportLabel { family, outcome }).inc();
    }

    /// Records the state of one family: its waiting messages, and the time until which its breaker
    /// is open.
    pub(super) fn family(
        &self,
        family: &str,
        backlog: Option<&OutboxBacklog>,
        open_until: Option<Timestamp>,
        now: Timestamp,
    ) {
        let label = FamilyLabel { family: family.to_owned() };
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let since = backlog.and_then(|backlog| backlog.oldest);
        let age = since.map_or(0, |since| now.duration_since(since).as_secs().max(0));
        self.waiting
            .get_or_create(&label)
            .set(backlog.map_or(0, |backlog| number(backlog.waiting)));
        self.parked.get_or_create(&label).set(backlog.map_or(0, |backlog| number(backlog.parked)));
        self.oldest.get_or_create(&label).set(age);
        self.closed.get_or_create(&label).set(open_until.map_or(0, Timestamp::as_second));
    }

    /// Counts an attempt to tell of a preview environment.
    pub(super) fn environment_report(&self, report: &'static str, outcome: &'static str) {
        self.environments.get_or_create(&StateReportLabel { report, outcome }).inc();
    }

    /// Records the number of reports about preview environments that wait.
    pub(super) fn environments_waiting(&self, count: u64) {
        self.environments_waiting.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts an attempt to tell of a rollout.
    pub(super) fn rollout_report(&self, report: &'static str, outcome: &'static str) {
        self.rollouts.get_or_create(&StateReportLabel { report, outcome }).inc();
    }

    /// Records the number of reports about rollouts that wait.
    pub(super) fn rollouts_waiting(&self, count: u64) {
        self.rollouts_waiting.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Records the times until which the code host takes no requests, no writes, and has no hourly
    /// quota.
    pub(super) fn record_limits(&self, limited: RateLimited, hour_used_up: Option<Timestamp>) {
        let RateLimited { everything, writes } = limited;
        for (requests, until) in [("all", everything), ("writes", writes), ("hour", hour_used_up)] {
            let until = until.map_or(0, Timestamp::as_second);
            self.limited.get_or_create(&RequestsLabel { requests }).set(until);
        }
    }
}
