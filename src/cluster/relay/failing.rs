//! The containers whose logs say why a workload does not run, for the agent: by the rules by which the service finds the
//! cause of the same failure, so that both name the same container. Pure.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;

use crate::cluster::failure::FailureCause;
use crate::cluster::index::ClusterIndex;
use crate::cluster::object::{Marks, ObjectKey};
use crate::cluster::transition::WorkloadView;
use crate::cluster::unready::UnreadyPods;

/// A container that fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailingContainer {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod.
    pub pod: String,
    /// The container; `None` where the pod does not tell which one.
    pub container: Option<String>,
    /// The number of times that it was started again: each run has a log of its own.
    pub restarts: u32,
}

/// The search for containers that fail, over the workloads that the service deployed. Logs of others are nobody's
/// business here.
#[derive(Debug, Default)]
pub(super) struct FailureSearch {
    unready: UnreadyPods,
    changed: BTreeSet<ObjectKey>,
    /// The container that was returned last, by workload.
    latest: HashMap<ObjectKey, FailingContainer>,
}

impl FailureSearch {
    /// Notes that an object of the workload has changed.
    pub(super) fn note(&mut self, workload: ObjectKey) {
        self.changed.insert(workload);
    }

    /// Notes that pods which ran and were not ready may be overdue by now.
    pub(super) fn note_time(&mut self) {
        self.changed.extend(self.unready.workloads().cloned());
    }

    /// Returns the containers that fail since the last call: at most one of each workload.
    pub(super) fn run(&mut self, index: &ClusterIndex, now: Timestamp) -> Vec<FailingContainer> {
        let mut containers = Vec::new();
        for key in std::mem::take(&mut self.changed) {
            let object = index.get(&key);
            let is_ours = |marks: &Marks| matches!(marks, Marks::Revision { .. });
            let Some(object) = object.filter(|object| is_ours(&object.meta().marks)) else {
                self.unready.forget(&key);
                self.latest.remove(&key);
                continue;
            };
            let look = WorkloadView { index, now, first: false };
            let cause = self.unready.find_cause(object, false, look);
            let container = cause.and_then(|cause| container_of(&key, cause));
            match container {
                Some(container) if self.latest.get(&key) != Some(&container) => {
                    self.latest.insert(key, container.clone());
                    containers.push(container);
                }
                Some(_) => {}
                None => {
                    self.latest.remove(&key);
                }
            }
        }
        containers
    }
}

/// Returns the container whose log says more about the cause.
fn container_of(workload: &ObjectKey, cause: FailureCause) -> Option<FailingContainer> {
    let has_log = cause.has_log();
    let FailureCause { pod, container, restarts, .. } = cause;
    let namespace = workload.namespace.to_string();
    pod.filter(|_| has_log).map(|pod| FailingContainer { namespace, pod, container, restarts })
}
