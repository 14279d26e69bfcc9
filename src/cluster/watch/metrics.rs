//! Metrics of the watches for Prometheus.

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::cluster::object::WatchedKind;
use crate::cluster::watch::health::{ClusterHealth, KindSight};
use crate::model::id::TargetName;

/// The metrics of all clusters. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct WatchMetrics {
    seen: Family<KindLabels, Gauge>,
    events: Family<KindLabels, Counter>,
    lists: Family<KindLabels, Counter>,
    watches: Family<KindLabels, Counter>,
    unreadable: Family<KindLabels, Counter>,
    unseen: Family<ClusterLabel, Gauge>,
    reports: Family<ReportLabels, Counter>,
}

/// What has become of a report of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportResult {
    /// It was taken, or had been.
    Accepted,
    /// The agent was asked for everything.
    Resync,
    /// Another agent reports for the cluster, or a later session of the same.
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReportLabels {
    cluster: String,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    cluster: String,
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClusterLabel {
    cluster: String,
}

/// The metrics of one cluster.
#[derive(Debug, Clone)]
pub struct KindMetrics {
    all: WatchMetrics,
    cluster: String,
}

impl WatchMetrics {
    /// Makes the metrics and registers them.
    pub fn new(registry: &mut Registry) -> Self {
        let new = Self::default();
        let Self { seen, events, lists, watches, unreadable, unseen, reports } = new.clone();
        registry.register("cluster_watch_seen", "1 while changes of a kind arrive", seen);
        registry.register("cluster_watch_events", "Changes of objects that arrived", events);
        registry.register("cluster_watch_lists", "Lists of all objects of a kind", lists);
        registry.register("cluster_watch_connections", "Watches that were opened", watches);
        let help = "Objects that could not be read";
        registry.register("cluster_watch_unreadable", help, unreadable);
        registry.register_with_unit(
            "cluster_unseen",
            "For how long a cluster has not been seen whole; 0 while it is",
            Unit::Seconds,
            unseen,
        );
        registry.register("cluster_agent_reports", "Reports of agents, by result", reports);
        new
    }

    /// Returns the metrics of one cluster.
    pub fn of_cluster(&self, cluster: &TargetName) -> KindMetrics {
        KindMetrics { all: self.clone(), cluster: cluster.as_str().to_owned() }
    }

    /// Removes what was seen of a cluster: another process watches it.
    pub fn forget(&self, cluster: &TargetName) {
        let cluster = cluster.as_str().to_owned();
        for kind in WatchedKind::ALL {
            let labels = KindLabels { cluster: cluster.clone(), kind: kind.as_str() };
            self.seen.remove(&labels);
        }
        self.unseen.remove(&ClusterLabel { cluster });
    }

    /// Sets the time for which the cluster has not been seen whole. One that was never seen counts from the start.
    pub fn observe(&self, health: &ClusterHealth, start: Timestamp, now: Timestamp) {
        let seconds = health
            .unseen()
            .map_or(0, |unseen| now.duration_since(unseen.since.unwrap_or(start)).as_secs().max(0));
        let cluster = health.cluster().as_str().to_owned();
        self.unseen.get_or_create(&ClusterLabel { cluster }).set(seconds);
    }
}

impl KindMetrics {
    pub(super) fn set_seen(&self, kind: WatchedKind, seen: bool) {
        self.all.seen.get_or_create(&self.labels(kind)).set(i64::from(seen));
    }

    /// Counts a change of an object.
    pub fn count_event(&self, kind: WatchedKind) {
        self.all.events.get_or_create(&self.labels(kind)).inc();
    }

    /// Counts a list.
    pub fn count_list(&self, kind: WatchedKind) {
        self.all.lists.get_or_create(&self.labels(kind)).inc();
    }

    pub(super) fn count_watch(&self, kind: WatchedKind) {
        self.all.watches.get_or_create(&self.labels(kind)).inc();
    }

    pub(super) fn count_unreadable(&self, kind: WatchedKind) {
        self.all.unreadable.get_or_create(&self.labels(kind)).inc();
    }

    /// Counts a report of the cluster's agent.
    pub fn count_report(&self, result: ReportResult) {
        let result = match result {
            ReportResult::Accepted => "accepted",
            ReportResult::Resync => "resync",
            ReportResult::Refused => "refused",
        };
        let labels = ReportLabels { cluster: self.cluster.clone(), result };
        self.all.reports.get_or_create(&labels).inc();
    }

    /// Sets which kinds are seen.
    pub fn set_sights(&self, health: &ClusterHealth) {
        for (kind, sight) in health.kinds() {
            if sight != KindSight::Starting {
                self.set_seen(kind, sight == KindSight::Seen);
            }
        }
    }

    fn labels(&self, kind: WatchedKind) -> KindLabels {
        KindLabels { cluster: self.cluster.clone(), kind: kind.as_str() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::telemetry::Metrics;

    #[test]
    fn a_cluster_that_is_not_seen_is_measured_from_when_it_was_heard_last() {
        let metrics = Metrics::default();
        let watches = metrics.register(WatchMetrics::new);
        let cluster = TargetName::parse("prod-1").unwrap();
        let health = ClusterHealth::new(cluster.clone());
        let at = |second| Timestamp::from_second(second).unwrap();
        let unseen = |since| KindSight::Unseen { since, reason: "no".to_owned() };
        let seconds = || {
            watches.observe(&health, at(100), at(190));
            let text = metrics.encode();
            let name = "the_deployer_cluster_unseen_seconds{cluster=\"prod-1\"} ";
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.parse::<u64>().unwrap()
        };
        assert_eq!(seconds(), 0);
        health.set(WatchedKind::Pod, unseen(Some(at(150))));
        assert_eq!(seconds(), 40);
        health.set(WatchedKind::Job, unseen(None));
        assert_eq!(seconds(), 90, "never: from the start");
        watches.of_cluster(&cluster).count_event(WatchedKind::Pod);
        let line = "the_deployer_cluster_watch_events_total{cluster=\"prod-1\",kind=\"Pod\"} 1";
        assert!(metrics.encode().contains(line), "{}", metrics.encode());
    }
}
