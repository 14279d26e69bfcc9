//! Reads `Deployment`, `ReplicaSet`, `StatefulSet` and `DaemonSet` objects: the part of each that the rules need.
//!
//! Nothing is judged here. A counter that is missing is 0, because the API leaves zeros out; `spec.replicas` that is
//! missing is 1, because that is Kubernetes' default.

use jiff::Timestamp;
use serde_json::Value as Json;

use crate::cluster::fields::{
    MESSAGE_BYTES, condition_at, count_at, counter, flag_at, generation_at, is_word,
    message_of_true, text_at, time_at,
};
use crate::cluster::object::ObjectMeta;
use crate::cluster::pod::PodRow;
use crate::cluster::template::TemplateHash;

/// Kubernetes' default for `spec.progressDeadlineSeconds`.
pub const PROGRESS_DEADLINE_SECONDS: u32 = 600;

const TEMPLATE_GENERATION: [&str; 3] =
    ["metadata", "annotations", "deprecated.daemonset.template.generation"];

/// Kubernetes' Deployment; the model's deployment is another thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeDeployment {
    /// Its metadata.
    pub meta: ObjectMeta,
    /// `spec.replicas`
    pub replicas: u32,
    /// `spec.paused`: the controller changes nothing until somebody resumes it.
    pub paused: bool,
    /// `spec.progressDeadlineSeconds`
    pub deadline_seconds: u32,
    /// The digest of `spec.template`.
    pub template: TemplateHash,
    /// `status.observedGeneration`: the counters are about this generation.
    pub observed_generation: i64,
    /// `status.replicas`
    pub present: u32,
    /// `status.updatedReplicas`
    pub updated: u32,
    /// `status.availableReplicas`
    pub available: u32,
    /// The condition `Progressing`.
    pub progressing: Option<ProgressingCondition>,
    /// The reason for which no pods can be created, while the condition `ReplicaFailure` stands.
    pub replica_failure: Option<Box<str>>,
}

/// The condition `Progressing` of a Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgressingCondition {
    /// `status` is `True`.
    pub is_true: bool,
    /// `NewReplicaSetAvailable`, `ProgressDeadlineExceeded` …
    pub reason: Box<str>,
    /// It names the `ReplicaSet` that it is about.
    pub message: Box<str>,
    /// The time of its last change, by the cluster's clock.
    pub updated_at: Option<Timestamp>,
}

impl KubeDeployment {
    /// Reads a Deployment; `None` where it has no name.
    pub fn read(json: &Json) -> Option<Self> {
        Some(Self {
            meta: ObjectMeta::read(json)?,
            replicas: count_at(json, &["spec", "replicas"]).unwrap_or(1),
            paused: flag_at(json, &["spec", "paused"]),
            deadline_seconds: count_at(json, &["spec", "progressDeadlineSeconds"])
                .unwrap_or(PROGRESS_DEADLINE_SECONDS),
            template: TemplateHash::read(json, &["spec", "template"]),
            observed_generation: generation_at(json, &["status", "observedGeneration"]),
            present: counter(json, &["status", "replicas"]),
            updated: counter(json, &["status", "updatedReplicas"]),
            available: counter(json, &["status", "availableReplicas"]),
            progressing: condition_at(json, "Progressing").map(ProgressingCondition::read),
            replica_failure: message_of_true(json, "ReplicaFailure"),
        })
    }

    /// Checks that the status is about the present specification.
    ///
    /// Before that it still shows the counters of the release before, all of them as wanted.
    pub fn is_observed(&self) -> bool {
        is_observed(&self.meta, self.observed_generation)
    }

    /// Checks that the controller reports no progress for longer than the deadline. It takes that back as soon as
    /// there is progress again.
    pub fn is_past_deadline(&self) -> bool {
        self.is_observed()
            && self.progressing.as_ref().is_some_and(|condition| {
                !condition.is_true && &*condition.reason == "ProgressDeadlineExceeded"
            })
    }

    /// Checks that the controller has seen the rollout of this `ReplicaSet` complete.
    pub fn has_completed(&self, replica_set: &str) -> bool {
        self.progressing.as_ref().is_some_and(|condition| condition.has_completed(replica_set))
    }
}

impl ProgressingCondition {
    fn read(condition: &Json) -> Self {
        Self {
            is_true: is_word(condition, &["status"], "True"),
            reason: text_at(condition, &["reason"], MESSAGE_BYTES).unwrap_or_default(),
            message: text_at(condition, &["message"], MESSAGE_BYTES).unwrap_or_default(),
            updated_at: time_at(condition, &["lastUpdateTime"]),
        }
    }

    /// Checks that the controller has seen the rollout of this `ReplicaSet` complete.
    pub fn has_completed(&self, replica_set: &str) -> bool {
        self.is_true
            && &*self.reason == "NewReplicaSetAvailable"
            && self.message.split('"').any(|word| word == replica_set)
    }
}

/// The pods of one pod template of a Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaSet {
    /// Its metadata.
    pub meta: ObjectMeta,
    /// `spec.replicas`
    pub replicas: u32,
    /// `status.replicas`: pods that are there and were not told to go.
    pub present: u32,
    /// The digest of `spec.template`; the same as that of the Deployment it was made of.
    pub template: TemplateHash,
    /// The reason for which no pods can be created, while the condition `ReplicaFailure` stands.
    pub replica_failure: Option<Box<str>>,
}

impl ReplicaSet {
    /// Reads a `ReplicaSet`; `None` where it has no name.
    pub fn read(json: &Json) -> Option<Self> {
        Some(Self {
            meta: ObjectMeta::read(json)?,
            replicas: count_at(json, &["spec", "replicas"]).unwrap_or(1),
            present: counter(json, &["status", "replicas"]),
            template: TemplateHash::read(json, &["spec", "template"]),
            replica_failure: message_of_true(json, "ReplicaFailure"),
        })
    }

    /// Checks that it has no pods and is to have none.
    pub fn is_empty(&self) -> bool {
        self.replicas == 0 && self.present == 0
    }
}

/// Pods with names and disks of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatefulSet {
    /// Its metadata.
    pub meta: ObjectMeta,
    /// `spec.replicas`
    pub replicas: u32,
    /// `spec.updateStrategy.rollingUpdate.partition`: pods with lower numbers keep the former template.
    pub partition: u32,
    /// The strategy `OnDelete`: pods are replaced when somebody deletes them.
    pub on_delete: bool,
    /// The digest of `spec.template`.
    pub template: TemplateHash,
    /// `status.observedGeneration`
    pub observed_generation: i64,
    /// `status.replicas`
    pub present: u32,
    /// `status.updatedReplicas`
    pub updated: u32,
    /// `status.availableReplicas`, or `status.readyReplicas` where the server is too old to have it.
    pub available: u32,
    /// `status.currentRevision`
    pub current_revision: Box<str>,
    /// `status.updateRevision`: pods of the present template carry it as `controller-revision-hash`.
    pub update_revision: Box<str>,
}

impl StatefulSet {
    /// Reads a `StatefulSet`; `None` where it has no name.
    pub fn read(json: &Json) -> Option<Self> {
        let partition = ["spec", "updateStrategy", "rollingUpdate", "partition"];
        let revision = |name: &str| text_at(json, &["status", name], MESSAGE_BYTES);
        Some(Self {
            meta: ObjectMeta::read(json)?,
            replicas: count_at(json, &["spec", "replicas"]).unwrap_or(1),
            partition: counter(json, &partition),
            on_delete: is_word(json, &["spec", "updateStrategy", "type"], "OnDelete"),
            template: TemplateHash::read(json, &["spec", "template"]),
            observed_generation: generation_at(json, &["status", "observedGeneration"]),
            present: counter(json, &["status", "replicas"]),
            updated: counter(json, &["status", "updatedReplicas"]),
            available: count_at(json, &["status", "availableReplicas"])
                .unwrap_or_else(|| counter(json, &["status", "readyReplicas"])),
            current_revision: revision("currentRevision").unwrap_or_default(),
            update_revision: revision("updateRevision").unwrap_or_default(),
        })
    }

    /// Checks that the status is about the present specification.
    pub fn is_observed(&self) -> bool {
        is_observed(&self.meta, self.observed_generation)
    }
}

/// A pod on each node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonSet {
    /// Its metadata.
    pub meta: ObjectMeta,
    /// The strategy `OnDelete`: pods are replaced when somebody deletes them.
    pub on_delete: bool,
    /// The digest of `spec.template`.
    pub template: TemplateHash,
    /// `deprecated.daemonset.template.generation`: raised by each change of the template, and written on its pods. The
    /// hash that its pods carry as well is written nowhere else.
    pub template_generation: Option<u32>,
    /// `status.observedGeneration`
    pub observed_generation: i64,
    /// `status.desiredNumberScheduled`: nodes that should have a pod.
    pub desired: u32,
    /// `status.updatedNumberScheduled`
    pub updated: u32,
    /// `status.numberAvailable`
    pub available: u32,
}

impl DaemonSet {
    /// Reads a `DaemonSet`; `None` where it has no name.
    pub fn read(json: &Json) -> Option<Self> {
        Some(Self {
            meta: ObjectMeta::read(json)?,
            on_delete: is_word(json, &["spec", "updateStrategy", "type"], "OnDelete"),
            template: TemplateHash::read(json, &["spec", "template"]),
            template_generation: text_at(json, &TEMPLATE_GENERATION, 20)
                .and_then(|text| text.parse().ok()),
            observed_generation: generation_at(json, &["status", "observedGeneration"]),
            desired: counter(json, &["status", "desiredNumberScheduled"]),
            updated: counter(json, &["status", "updatedNumberScheduled"]),
            available: counter(json, &["status", "numberAvailable"]),
        })
    }

    /// Checks that the status is about the present specification.
    pub fn is_observed(&self) -> bool {
        is_observed(&self.meta, self.observed_generation)
    }

    /// Checks that a pod is of the present template, by the number that both carry. Without it a pod counts once all of
    /// them are of that template.
    pub fn has_made(&self, pod: &PodRow) -> bool {
        match self.template_generation {
            Some(number) => pod.template_generation == Some(number),
            None => self.updated >= self.desired,
        }
    }
}

/// A generation begins with 1, so an object that shows neither has not been looked at by its controller.
fn is_observed(meta: &ObjectMeta, observed: i64) -> bool {
    observed >= 1 && observed >= meta.generation
}
