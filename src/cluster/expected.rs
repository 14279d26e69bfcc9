//! Revisions that were pushed and should come to be in a cluster: the other half of what the tracker compares.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::cluster::object::ObjectKey;
use crate::model::id::{AppKey, DeployId};
use crate::model::revision::Digest;

/// A revision that is live in the manifest repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedRevision {
    /// The app.
    pub app: AppKey,
    /// The deployment that pushed it. They sort by time: a greater one is newer.
    pub deploy_id: DeployId,
    /// The digest that each of its workloads carries.
    pub digest: Digest,
    /// The workloads of its files.
    pub workloads: Vec<ExpectedWorkload>,
    /// Its Application: the only sign of a revision without workloads.
    pub application: Option<ObjectKey>,
    /// The commits of the manifest repository that hold it: its own, and those pushed after it.
    pub commits: Vec<String>,
    /// The push made a commit. Without one, Argo CD has had its commit since an earlier push.
    pub changed: bool,
    /// The deployment has no end yet. One that ended is here so that its workloads are known.
    pub awaiting: bool,
    /// The time of the push, by the service's clock.
    pub pushed_at: Timestamp,
}

/// A workload of a revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedWorkload {
    /// Its name in the cluster.
    pub key: ObjectKey,
    /// `spec.replicas`, if the manifest has it: with an autoscaler it has not.
    pub replicas: Option<u32>,
    /// The revision has a Canary of it.
    #[serde(default)]
    pub has_canary: bool,
}

impl ExpectedRevision {
    /// Lists what must be finished: its workloads, or its Application where it has none.
    pub fn parts(&self) -> Vec<&ObjectKey> {
        if self.workloads.is_empty() {
            return self.application.iter().collect();
        }
        self.workloads.iter().map(|one| &one.key).collect()
    }

    /// Lists the objects whose records tell how it stands: its parts, and its Application.
    pub fn watched_objects(&self) -> Vec<&ObjectKey> {
        let application = self.application.iter().filter(|_| !self.workloads.is_empty());
        self.parts().into_iter().chain(application).collect()
    }

    /// Checks that the revision has a Canary of a workload.
    pub fn has_canary(&self, workload: &ObjectKey) -> bool {
        self.workloads.iter().any(|one| one.key == *workload && one.has_canary)
    }

    /// Returns the number of pods that the manifest gives a workload.
    pub fn replicas_of(&self, workload: &ObjectKey) -> Option<u32> {
        self.workloads.iter().find(|one| one.key == *workload)?.replicas
    }
}
