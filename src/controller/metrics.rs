//! What Prometheus may ask the loops.

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::deployments::stages::StageDurations;
use crate::forge::delivery::Limited;
use crate::store::{Depth, Waiting};

/// The metrics of the loops. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    pub(super) stages: StageDurations,
    attempts: Family<OutcomeLabel, Counter>,
    reports: Family<ReportLabel, Counter>,
    queue: Family<StateLabel, Gauge>,
    outbox: Family<StateLabel, Gauge>,
    oldest: Gauge,
    senders: Senders,
    limited: Family<RequestsLabel, Gauge>,
}

/// How it stands with each family that is told.
#[derive(Debug, Clone, Default)]
struct Senders {
    waiting: Family<FamilyLabel, Gauge>,
    parked: Family<FamilyLabel, Gauge>,
    oldest: Family<FamilyLabel, Gauge>,
    closed: Family<FamilyLabel, Gauge>,
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
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

impl Metrics {
    /// Metrics that the registry knows.
    pub fn new(registry: &mut Registry) -> Self {
        let new = Self::unregistered();
        let Self { stages, attempts, reports, queue, outbox, oldest, senders, limited } =
            new.clone();
        registry.register_with_unit(
            "stage_duration",
            "How long a stage of a deployment took",
            Unit::Seconds,
            stages.0,
        );
        registry.register("attempts", "Attempts at deployments, by how they ended", attempts);
        registry.register("reports", "Messages, by who was told and what became of it", reports);
        registry.register("queue_depth", "Deployments that are not finished", queue);
        registry.register("outbox_depth", "Messages that nobody was told", outbox);
        registry.register_with_unit(
            "queue_oldest",
            "Since when the oldest unfinished deployment waits",
            Unit::Seconds,
            oldest,
        );
        senders.register(registry);
        registry.register_with_unit(
            "forge_limited_until_timestamp",
            "Until when the forge wants no such requests, since the epoch; 0 while it takes them",
            Unit::Seconds,
            limited,
        );
        new
    }

    fn unregistered() -> Self {
        Self {
            stages: StageDurations::default(),
            attempts: Family::default(),
            reports: Family::default(),
            queue: Family::default(),
            outbox: Family::default(),
            oldest: Gauge::default(),
            senders: Senders::default(),
            limited: Family::default(),
        }
    }

    pub(super) fn attempt(&self, outcome: &'static str) {
        self.attempts.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    pub(super) fn report(&self, family: &str, outcome: &'static str) {
        let family = family.to_owned();
        self.reports.get_or_create(&ReportLabel { family, outcome }).inc();
    }

    /// How it stands with one family: what waits for it, and until when its door is closed.
    pub(super) fn outbox(
        &self,
        family: &str,
        waiting: Option<&Waiting>,
        closed_until: Option<Timestamp>,
        now: Timestamp,
    ) {
        let label = FamilyLabel { family: family.to_owned() };
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let Senders { waiting: waits, parked, oldest, closed } = &self.senders;
        waits.get_or_create(&label).set(waiting.map_or(0, |one| number(one.waiting)));
        parked.get_or_create(&label).set(waiting.map_or(0, |one| number(one.parked)));
        let since = waiting.and_then(|one| one.oldest);
        oldest.get_or_create(&label).set(since.map_or(0, |since| seconds(since, now)));
        closed.get_or_create(&label).set(closed_until.map_or(0, Timestamp::as_second));
    }

    /// Until when the forge wants no requests, no writes, and until when its hour is used up.
    pub(super) fn limited(&self, limited: Limited, hour_used_up: Option<Timestamp>) {
        let Limited { everything, writes } = limited;
        for (requests, until) in [("all", everything), ("writes", writes), ("hour", hour_used_up)] {
            let until = until.map_or(0, Timestamp::as_second);
            self.limited.get_or_create(&RequestsLabel { requests }).set(until);
        }
    }

    pub(super) fn depth(&self, depth: &Depth, now: Timestamp) {
        let Depth { queued, running, oldest, unsent, parked } = *depth;
        let set = |family: &Family<StateLabel, Gauge>, state, n: u64| {
            family.get_or_create(&StateLabel { state }).set(i64::try_from(n).unwrap_or(i64::MAX));
        };
        set(&self.queue, "queued", queued);
        set(&self.queue, "running", running);
        set(&self.outbox, "unsent", unsent);
        set(&self.outbox, "parked", parked);
        self.oldest.set(oldest.map_or(0, |since| seconds(since, now)));
    }
}

impl Senders {
    fn register(self, registry: &mut Registry) {
        let Self { waiting, parked, oldest, closed } = self;
        registry.register("outbox_waiting", "Messages that wait, by who is to be told", waiting);
        registry.register("outbox_parked", "Messages that nobody tries any more", parked);
        registry.register_with_unit(
            "outbox_oldest",
            "Since when the oldest message waits",
            Unit::Seconds,
            oldest,
        );
        registry.register_with_unit(
            "outbox_closed_until_timestamp",
            "Until when nothing is tried, since the epoch; 0 while it is",
            Unit::Seconds,
            closed,
        );
    }
}

fn seconds(since: Timestamp, now: Timestamp) -> i64 {
    now.duration_since(since).as_secs().max(0)
}
