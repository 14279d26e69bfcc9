//! Keeps the kinds of a cluster that the service sees and those that it does not, with time and reason: for probes,
//! metrics and pages.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::cluster::object::WatchedKind;
use crate::model::id::TargetName;

/// The state of the watch of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KindSight {
    /// The first list is not complete yet.
    Starting,
    /// Changes arrive.
    Seen,
    /// Changes do not arrive; the service tries again and again.
    Unseen {
        /// The time of the server's last answer; absent before the first one.
        since: Option<Timestamp>,
        /// The reason, `connection refused`, without secrets.
        reason: String,
    },
    /// The cluster does not have the kind: no Argo CD, or no Flagger.
    Absent,
}

/// The state of all watches of one cluster. Clones share it.
#[derive(Debug, Clone)]
pub struct ClusterHealth {
    cluster: TargetName,
    kinds: Arc<Mutex<BTreeMap<WatchedKind, KindSight>>>,
}

/// The kinds of a cluster that are not seen, in one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterUnseen {
    /// The last time at which the cluster was seen whole; absent before the first one.
    pub since: Option<Timestamp>,
    /// The reasons, `pods: the server answers 403: …`, without secrets.
    pub reason: String,
}

impl ClusterHealth {
    /// Makes the state of watches that are starting.
    pub fn new(cluster: TargetName) -> Self {
        let starting = WatchedKind::ALL.into_iter().map(|kind| (kind, KindSight::Starting));
        Self { cluster, kinds: Arc::new(Mutex::new(starting.collect())) }
    }

    /// Returns the name of the cluster.
    pub fn cluster(&self) -> &TargetName {
        &self.cluster
    }

    /// Forgets what was seen: another process watches the cluster, or this one begins anew.
    pub fn reset(&self) {
        for sight in self.lock().values_mut() {
            *sight = KindSight::Starting;
        }
    }

    /// Returns the state of each kind.
    pub fn kinds(&self) -> BTreeMap<WatchedKind, KindSight> {
        self.lock().clone()
    }

    /// Returns true if each kind is seen or absent: an object that is not in the index is not in the cluster.
    pub fn is_complete(&self) -> bool {
        self.lock().values().all(|sight| matches!(sight, KindSight::Seen | KindSight::Absent))
    }

    /// Returns the kinds that are not seen; `None` if there are none, or nothing has failed so far.
    pub fn unseen(&self) -> Option<ClusterUnseen> {
        let kinds = self.lock();
        let mut unseen: BTreeMap<&str, Vec<WatchedKind>> = BTreeMap::new();
        let (mut since, mut never) = (None::<Timestamp>, false);
        for (kind, sight) in &*kinds {
            match sight {
                KindSight::Starting | KindSight::Seen | KindSight::Absent => {}
                KindSight::Unseen { since: last, reason } => {
                    unseen.entry(reason).or_default().push(*kind);
                    never |= last.is_none();
                    since = since.into_iter().chain(*last).min();
                }
            }
        }
        let watched = kinds.values().filter(|sight| **sight != KindSight::Absent).count();
        let reasons = unseen.into_iter().map(|(reason, kinds)| {
            if kinds.len() == watched {
                return reason.to_owned();
            }
            let names: Vec<String> = kinds.into_iter().map(WatchedKind::resource).collect();
            format!("{}: {reason}", names.join(", "))
        });
        let reasons: Vec<String> = reasons.collect();
        let since = since.filter(|_| !never);
        (!reasons.is_empty()).then(|| ClusterUnseen { since, reason: reasons.join("; ") })
    }

    /// Sets the state of a kind; returns true if it is another one. With a new reason the time stays.
    pub(in crate::cluster) fn set(&self, kind: WatchedKind, sight: KindSight) -> bool {
        let mut kinds = self.lock();
        let sight = match (kinds.get(&kind), sight) {
            (Some(KindSight::Unseen { since, .. }), KindSight::Unseen { reason, .. }) => {
                KindSight::Unseen { since: *since, reason }
            }
            (_, sight) => sight,
        };
        if kinds.get(&kind) == Some(&sight) {
            return false;
        }
        log(&self.cluster, kind, kinds.get(&kind), &sight);
        kinds.insert(kind, sight);
        true
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<WatchedKind, KindSight>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs a change. A new reason is logged for debugging only: a cluster that is away has ever new ones.
fn log(cluster: &TargetName, kind: WatchedKind, before: Option<&KindSight>, sight: &KindSight) {
    let (cluster, resource) = (cluster.as_str(), kind.resource());
    match sight {
        KindSight::Starting => {}
        KindSight::Seen => tracing::info!(cluster, resource, "watch established"),
        KindSight::Absent => tracing::info!(cluster, resource, "kind not installed in the cluster"),
        KindSight::Unseen { reason, .. } if matches!(before, Some(KindSight::Unseen { .. })) => {
            tracing::debug!(cluster, resource, reason, "watch still fails");
        }
        KindSight::Unseen { since, reason } => {
            let since = since.map(tracing::field::display);
            tracing::warn!(cluster, resource, since, reason, "watch failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> ClusterHealth {
        ClusterHealth::new(TargetName::parse("prod").unwrap())
    }

    fn unseen(second: i64, reason: &str) -> KindSight {
        let since = Some(Timestamp::from_second(second).unwrap());
        KindSight::Unseen { since, reason: reason.to_owned() }
    }

    #[test]
    fn what_is_not_seen_is_told_with_the_earliest_time_and_each_reason() {
        let health = health();
        assert_eq!((health.unseen(), health.is_complete()), (None, false), "it is starting");
        for kind in WatchedKind::ALL {
            health.set(kind, KindSight::Seen);
        }
        health.set(WatchedKind::Canary, KindSight::Absent);
        assert_eq!((health.unseen(), health.is_complete()), (None, true));
        health.set(WatchedKind::Pod, unseen(20, "no"));
        health.set(WatchedKind::Job, unseen(10, "no"));
        health.set(WatchedKind::Application, unseen(30, "forbidden"));
        let ClusterUnseen { since, reason } = health.unseen().unwrap();
        assert_eq!(since, Some(Timestamp::from_second(10).unwrap()));
        assert_eq!(reason, "applications.argoproj.io: forbidden; jobs.batch, pods: no");
        assert!(!health.is_complete());
    }

    #[test]
    fn a_cluster_that_is_away_has_one_reason() {
        let health = health();
        for kind in WatchedKind::ALL {
            let sight = KindSight::Unseen { since: None, reason: "connection refused".to_owned() };
            health.set(kind, sight);
        }
        let expected = ClusterUnseen { since: None, reason: "connection refused".to_owned() };
        assert_eq!(health.unseen(), Some(expected));
    }

    #[test]
    fn the_time_is_that_of_the_first_failure_and_a_repetition_is_no_news() {
        let health = health();
        assert!(health.set(WatchedKind::Pod, unseen(10, "no")));
        assert!(!health.set(WatchedKind::Pod, unseen(40, "no")));
        assert!(health.set(WatchedKind::Pod, unseen(50, "never")), "another reason");
        assert_eq!(health.kinds()[&WatchedKind::Pod], unseen(10, "never"));
        assert!(health.set(WatchedKind::Pod, KindSight::Seen));
        assert!(health.set(WatchedKind::Pod, unseen(60, "no")));
        assert_eq!(health.kinds()[&WatchedKind::Pod], unseen(60, "no"));
    }
}
