//! Pods that run and do not become ready: since when, by the service's own clock, because a cluster's may be a day off.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};

use crate::cluster::failure::{FailureCause, workload_cause};
use crate::cluster::object::ObjectKey;
use crate::cluster::pod::PodRow;
use crate::cluster::transition::WorkloadView;
use crate::cluster::watched::WatchedObject;
use crate::support::time::saturating_add;

/// The pods of each workload that run and are not ready.
#[derive(Debug, Default)]
pub(super) struct UnreadyPods {
    /// The time at which each was first seen so, by workload and uid.
    since: HashMap<ObjectKey, HashMap<Box<str>, Timestamp>>,
}

impl UnreadyPods {
    /// Returns the workloads that have such pods.
    pub(super) fn workloads(&self) -> impl Iterator<Item = &ObjectKey> {
        self.since.keys()
    }

    /// Forgets the pods of a workload.
    pub(super) fn forget(&mut self, workload: &ObjectKey) {
        self.since.remove(workload);
    }

    /// Leaves out the time in which the workload was not seen.
    pub(super) fn leave_out(&mut self, workload: &ObjectKey, unseen: SignedDuration) {
        for since in self.since.get_mut(workload).into_iter().flat_map(HashMap::values_mut) {
            *since = saturating_add(*since, unseen);
        }
    }

    /// Finds what is wrong with the workload's pods. One that runs is overdue after the time of its probes, or when the
    /// controller sees no progress.
    pub(super) fn find_cause(
        &mut self,
        object: &WatchedObject,
        is_past_deadline: bool,
        look: WorkloadView<'_>,
    ) -> Option<FailureCause> {
        let key = object.key();
        let before = self.since.remove(&key).unwrap_or_default();
        let since = |pod: &PodRow| before.get(&pod.meta.uid).copied().unwrap_or(look.now);
        let pods = look.index.pods_of(object);
        let unready: HashMap<Box<str>, Timestamp> = pods
            .into_iter()
            .filter(|pod| pod.is_running_unready())
            .map(|pod| (pod.meta.uid.clone(), since(pod)))
            .collect();
        let is_overdue = |pod: &PodRow| {
            let seconds = SignedDuration::from_secs(i64::from(pod.ready_seconds));
            is_past_deadline
                || unready
                    .get(&pod.meta.uid)
                    .is_some_and(|at| look.now >= saturating_add(*at, seconds))
        };
        let cause = workload_cause(object, look.index, &is_overdue);
        if !unready.is_empty() {
            self.since.insert(key, unready);
        }
        cause
    }
}
