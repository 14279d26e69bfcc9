//! Reads any object that is watched from the API's JSON, by its kind.

use serde_json::Value as Json;

use crate::cluster::argocd::ArgoApplication;
use crate::cluster::flagger::FlaggerCanary;
use crate::cluster::job::{CronJob, KubeJob};
use crate::cluster::object::{ObjectKey, ObjectMeta, WatchedKind};
use crate::cluster::pod::PodRow;
use crate::cluster::template::TemplateHash;
use crate::cluster::workload::{DaemonSet, KubeDeployment, ReplicaSet, StatefulSet};

/// One object of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchedObject {
    /// Pods that are replaced in steps.
    Deployment(KubeDeployment),
    /// Pods with names and disks of their own.
    StatefulSet(StatefulSet),
    /// A pod on each node.
    DaemonSet(DaemonSet),
    /// The pods of one pod template of a Deployment.
    ReplicaSet(ReplicaSet),
    /// Pods that run to an end.
    Job(KubeJob),
    /// Jobs by the clock.
    CronJob(CronJob),
    /// One pod.
    Pod(PodRow),
    /// Argo CD's Application.
    Application(ArgoApplication),
    /// Flagger's canary.
    Canary(FlaggerCanary),
}

/// An object of a list or a watch that has no name: nothing can be said of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a {0} without a name came from the cluster")]
pub struct UnreadableObject(pub WatchedKind);

impl WatchedObject {
    /// Reads an object of that kind; lists have their items without one.
    ///
    /// # Errors
    /// [`UnreadableObject`] where it has no name. Every other field may be missing or absurd.
    pub fn read(kind: WatchedKind, json: &Json) -> Result<Self, UnreadableObject> {
        let object = match kind {
            WatchedKind::Deployment => KubeDeployment::read(json).map(Self::Deployment),
            WatchedKind::StatefulSet => StatefulSet::read(json).map(Self::StatefulSet),
            WatchedKind::DaemonSet => DaemonSet::read(json).map(Self::DaemonSet),
            WatchedKind::ReplicaSet => ReplicaSet::read(json).map(Self::ReplicaSet),
            WatchedKind::Job => KubeJob::read(json).map(Self::Job),
            WatchedKind::CronJob => CronJob::read(json).map(Self::CronJob),
            WatchedKind::Pod => PodRow::read(json).map(Self::Pod),
            WatchedKind::Application => ArgoApplication::read(json).map(Self::Application),
            WatchedKind::Canary => FlaggerCanary::read(json).map(Self::Canary),
        };
        object.ok_or(UnreadableObject(kind))
    }

    /// Returns its kind.
    pub fn kind(&self) -> WatchedKind {
        match self {
            Self::Deployment(_) => WatchedKind::Deployment,
            Self::StatefulSet(_) => WatchedKind::StatefulSet,
            Self::DaemonSet(_) => WatchedKind::DaemonSet,
            Self::ReplicaSet(_) => WatchedKind::ReplicaSet,
            Self::Job(_) => WatchedKind::Job,
            Self::CronJob(_) => WatchedKind::CronJob,
            Self::Pod(_) => WatchedKind::Pod,
            Self::Application(_) => WatchedKind::Application,
            Self::Canary(_) => WatchedKind::Canary,
        }
    }

    /// Returns its metadata.
    pub fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Deployment(object) => &object.meta,
            Self::StatefulSet(object) => &object.meta,
            Self::DaemonSet(object) => &object.meta,
            Self::ReplicaSet(object) => &object.meta,
            Self::Job(object) => &object.meta,
            Self::CronJob(object) => &object.meta,
            Self::Pod(object) => &object.meta,
            Self::Application(object) => &object.meta,
            Self::Canary(object) => &object.meta,
        }
    }

    /// Makes its key.
    pub fn key(&self) -> ObjectKey {
        self.meta().key(self.kind())
    }

    /// Returns the digest of a workload's pod template; empty for other kinds.
    pub fn template(&self) -> TemplateHash {
        match self {
            Self::Deployment(object) => object.template.clone(),
            Self::StatefulSet(object) => object.template.clone(),
            Self::DaemonSet(object) => object.template.clone(),
            Self::ReplicaSet(object) => object.template.clone(),
            Self::Job(object) => object.template.clone(),
            Self::CronJob(object) => object.template.clone(),
            Self::Pod(_) | Self::Application(_) | Self::Canary(_) => TemplateHash::default(),
        }
    }

    /// Returns the Deployment that it is.
    pub fn deployment(&self) -> Option<&KubeDeployment> {
        if let Self::Deployment(deployment) = self { Some(deployment) } else { None }
    }

    /// Returns the `ReplicaSet` that it is.
    pub fn replica_set(&self) -> Option<&ReplicaSet> {
        if let Self::ReplicaSet(replica_set) = self { Some(replica_set) } else { None }
    }

    /// Returns the pod that it is.
    pub fn pod(&self) -> Option<&PodRow> {
        if let Self::Pod(pod) = self { Some(pod) } else { None }
    }

    /// Returns the Canary that it is.
    pub fn canary(&self) -> Option<&FlaggerCanary> {
        if let Self::Canary(canary) = self { Some(canary) } else { None }
    }

    /// Returns the Application that it is.
    pub fn application(&self) -> Option<&ArgoApplication> {
        if let Self::Application(application) = self { Some(application) } else { None }
    }

    /// Returns the number of pods that a workload is told to have, where a manifest may say so.
    pub fn replicas(&self) -> Option<u32> {
        match self {
            Self::Deployment(object) => Some(object.replicas),
            Self::StatefulSet(object) => Some(object.replicas),
            Self::ReplicaSet(object) => Some(object.replicas),
            Self::DaemonSet(_)
            | Self::Job(_)
            | Self::CronJob(_)
            | Self::Pod(_)
            | Self::Application(_)
            | Self::Canary(_) => None,
        }
    }
}
