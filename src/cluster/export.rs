//! Writes an object in the form of the API, with the fields that the rules read and no others: an agent reports it so,
//! and the service reads it as if its API server had sent it.
//!
//! So versions need not be the same, and what an agent sends is bounded as what a cluster sends: a field that the
//! reader does not know is ignored, and one that is missing or absurd is absent. A pod template is not written, because
//! people write secrets into its variables; its digest goes beside the object.

use jiff::Timestamp;
use serde_json::{Map, Value as Json, json};

use crate::cluster::argocd::{ArgoApplication, SyncOperation, SyncRecord};
use crate::cluster::flagger::{FlaggerCanary, REPORT_KEY};
use crate::cluster::job::{CronJob, JobEnd, KubeJob};
use crate::cluster::object::{ControllerRef, Marks, ObjectKey, ObjectMeta, WatchedKind};
use crate::cluster::pod::{ContainerEnd, ContainerRow, ContainerState, PodPhase, PodRow};
use crate::cluster::template::TemplateHash;
use crate::cluster::watched::{UnreadableObject, WatchedObject};
use crate::cluster::workload::{DaemonSet, KubeDeployment, ReplicaSet, StatefulSet};
use crate::manifests::OUR_PREFIX;

/// The kind of an owner that is not watched: no kind of Kubernetes is called so.
const OTHER_KIND: &str = "Other";

impl WatchedObject {
    /// Writes the object in the form of the API, without its pod template.
    pub fn to_json(&self) -> Json {
        without_blanks(match self {
            Self::Deployment(object) => write_deployment(object),
            Self::StatefulSet(object) => write_stateful_set(object),
            Self::DaemonSet(object) => write_daemon_set(object),
            Self::ReplicaSet(object) => write_replica_set(object),
            Self::Job(object) => write_job(object),
            Self::CronJob(object) => write_cron_job(object),
            Self::Pod(object) => write_pod(object),
            Self::Application(object) => write_application(object),
            Self::Canary(object) => write_canary(object),
        })
    }

    /// Reads an object that [`to_json`](Self::to_json) wrote, with the digest of its pod template beside it.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_reported(
        kind: WatchedKind,
        json: &Json,
        template: &str,
    ) -> Result<Self, UnreadableObject> {
        let mut object = Self::read(kind, json)?;
        let hash = TemplateHash::parse(template).unwrap_or_default();
        match &mut object {
            Self::Deployment(object) => object.template = hash,
            Self::StatefulSet(object) => object.template = hash,
            Self::DaemonSet(object) => object.template = hash,
            Self::ReplicaSet(object) => object.template = hash,
            Self::Job(object) => object.template = hash,
            Self::CronJob(object) => object.template = hash,
            Self::Pod(_) | Self::Application(_) | Self::Canary(_) => {}
        }
        Ok(object)
    }

    /// Makes an object of that key and uid of which nothing else is known: one that is gone.
    pub fn with_key(key: &ObjectKey, uid: &str) -> Result<Self, UnreadableObject> {
        let metadata = json!({"namespace": key.namespace, "name": key.name, "uid": uid});
        Self::read(key.kind, &json!({ "metadata": metadata }))
    }
}

/// Removes what is null or an empty text: a reader has the same without it.
fn without_blanks(json: Json) -> Json {
    match json {
        Json::Object(map) => {
            let is_blank = |value: &Json| value.is_null() || value.as_str() == Some("");
            let map = map.into_iter().filter(|(_, value)| !is_blank(value));
            Json::Object(map.map(|(key, value)| (key, without_blanks(value))).collect())
        }
        Json::Array(list) => Json::Array(list.into_iter().map(without_blanks).collect()),
        other => other,
    }
}

/// Labels and annotations beside those of [`ObjectMeta`].
#[derive(Default)]
struct ExtraMeta {
    labels: Map<String, Json>,
    annotations: Map<String, Json>,
}

fn write_meta(meta: &ObjectMeta) -> Json {
    write_meta_with(meta, ExtraMeta::default())
}

fn write_meta_with(meta: &ObjectMeta, extra: ExtraMeta) -> Json {
    let ExtraMeta { mut labels, mut annotations } = extra;
    let mut annotate = |name: &str, value: &str| {
        annotations.insert(format!("{OUR_PREFIX}{name}"), value.into());
    };
    match &meta.marks {
        Marks::Revision { app, digest } => {
            labels.insert("app.kubernetes.io/managed-by".to_owned(), "the-deployer".into());
            labels.insert("app.kubernetes.io/name".to_owned(), (&**app).into());
            annotate("digest", &digest.0);
        }
        Marks::Commit(commit) => {
            annotate("repository", &commit.repository);
            annotate("commit", &commit.commit);
            for (name, value) in [("pull-request", &commit.pull_request), ("link", &commit.link)] {
                if let Some(value) = value {
                    annotate(name, value);
                }
            }
        }
        Marks::Unmarked => {}
    }
    if let Some(revision) = meta.revision {
        let key = "deployment.kubernetes.io/revision".to_owned();
        annotations.insert(key, revision.to_string().into());
    }
    json!({
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "generation": meta.generation,
        "creationTimestamp": meta.created,
        // That there is one counts, not which.
        "deletionTimestamp": meta.deleting.then_some(Timestamp::UNIX_EPOCH),
        "ownerReferences": meta.controller.as_ref().map(|owner| [write_owner(owner)]),
        "labels": labels,
        "annotations": annotations,
    })
}

fn write_owner(owner: &ControllerRef) -> Json {
    let ControllerRef { kind, name, uid } = owner;
    let kind = kind.map_or(OTHER_KIND, WatchedKind::as_str);
    json!({"controller": true, "kind": kind, "name": name, "uid": uid})
}

fn write_deployment(object: &KubeDeployment) -> Json {
    let progressing = object.progressing.as_ref().map(|condition| {
        json!({
            "type": "Progressing",
            "status": if condition.is_true { "True" } else { "False" },
            "reason": condition.reason,
            "message": condition.message,
            "lastUpdateTime": condition.updated_at,
        })
    });
    let failure = object.replica_failure.as_deref().map(write_replica_failure);
    json!({
        "metadata": write_meta(&object.meta),
        "spec": {
            "replicas": object.replicas,
            "paused": object.paused,
            "progressDeadlineSeconds": object.deadline_seconds,
        },
        "status": {
            "observedGeneration": object.observed_generation,
            "replicas": object.present,
            "updatedReplicas": object.updated,
            "availableReplicas": object.available,
            "conditions": progressing.into_iter().chain(failure).collect::<Vec<_>>(),
        },
    })
}

fn write_replica_failure(message: &str) -> Json {
    json!({"type": "ReplicaFailure", "status": "True", "message": message})
}

fn write_replica_set(object: &ReplicaSet) -> Json {
    let failure = object.replica_failure.as_deref().map(write_replica_failure);
    json!({
        "metadata": write_meta(&object.meta),
        "spec": {"replicas": object.replicas},
        "status": {"replicas": object.present, "conditions": failure.into_iter().collect::<Vec<_>>()},
    })
}

fn write_stateful_set(object: &StatefulSet) -> Json {
    json!({
        "metadata": write_meta(&object.meta),
        "spec": {
            "replicas": object.replicas,
            "updateStrategy": {
                "type": object.on_delete.then_some("OnDelete"),
                "rollingUpdate": {"partition": object.partition},
            },
        },
        "status": {
            "observedGeneration": object.observed_generation,
            "replicas": object.present,
            "updatedReplicas": object.updated,
            "availableReplicas": object.available,
            "currentRevision": object.current_revision,
            "updateRevision": object.update_revision,
        },
    })
}

fn write_daemon_set(object: &DaemonSet) -> Json {
    let mut extra = ExtraMeta::default();
    if let Some(number) = object.template_generation {
        let key = "deprecated.daemonset.template.generation".to_owned();
        extra.annotations.insert(key, number.to_string().into());
    }
    json!({
        "metadata": write_meta_with(&object.meta, extra),
        "spec": {"updateStrategy": {"type": object.on_delete.then_some("OnDelete")}},
        "status": {
            "observedGeneration": object.observed_generation,
            "desiredNumberScheduled": object.desired,
            "updatedNumberScheduled": object.updated,
            "numberAvailable": object.available,
        },
    })
}

fn write_job(object: &KubeJob) -> Json {
    let end = object.end.as_ref().map(|end| match end {
        JobEnd::Complete => json!({"type": "Complete", "status": "True"}),
        JobEnd::Failed { reason, message } => {
            json!({"type": "Failed", "status": "True", "reason": reason, "message": message})
        }
    });
    json!({
        "metadata": write_meta(&object.meta),
        "spec": {"completions": object.completions, "suspend": object.suspended},
        "status": {
            "active": object.active,
            "succeeded": object.succeeded,
            "conditions": end.into_iter().collect::<Vec<_>>(),
        },
    })
}

fn write_cron_job(object: &CronJob) -> Json {
    json!({"metadata": write_meta(&object.meta), "spec": {"suspend": object.suspended}})
}

fn write_pod(object: &PodRow) -> Json {
    let mut extra = ExtraMeta::default();
    let generation = object.template_generation.map(|number| number.to_string());
    for (name, value) in [
        ("pod-template-hash", object.template.as_deref()),
        ("pod-template-generation", generation.as_deref()),
    ] {
        extra.labels.extend(value.map(|value| (name.to_owned(), value.into())));
    }
    let ready = object.ready.then(|| json!({"type": "Ready", "status": "True"}));
    let unschedulable = object.unschedulable.as_deref().map(|message| {
        json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        })
    });
    // A sidecar is written where its status was: before an init container that comes after it.
    let last_init = object.containers.iter().rposition(|row| row.init);
    let (init, others) = object.containers.split_at(last_init.map_or(0, |last| last + 1));
    let sidecars = init.iter().filter(|row| !row.init);
    let sidecars: Vec<Json> =
        sidecars.map(|row| json!({"name": row.name, "restartPolicy": "Always"})).collect();
    // The whole time stands in the delay.
    let probe = json!({"initialDelaySeconds": object.ready_seconds, "periodSeconds": 0});
    json!({
        "metadata": write_meta_with(&object.meta, extra),
        "spec": {"initContainers": sidecars, "containers": [{"readinessProbe": probe}]},
        "status": {
            "phase": phase_word(object.phase),
            "conditions": ready.into_iter().chain(unschedulable).collect::<Vec<_>>(),
            "initContainerStatuses": init.iter().map(write_container).collect::<Vec<_>>(),
            "containerStatuses": others.iter().map(write_container).collect::<Vec<_>>(),
        },
    })
}

fn phase_word(phase: PodPhase) -> &'static str {
    match phase {
        PodPhase::Pending => "Pending",
        PodPhase::Running => "Running",
        PodPhase::Succeeded => "Succeeded",
        PodPhase::Failed => "Failed",
        PodPhase::Unknown => "Unknown",
    }
}

fn write_container(row: &ContainerRow) -> Json {
    let state = match &row.state {
        ContainerState::Waiting { reason, message } => {
            json!({"waiting": {"reason": reason, "message": message}})
        }
        ContainerState::Running => json!({"running": {}}),
        ContainerState::Ended(end) => json!({"terminated": write_end(end)}),
        ContainerState::Unknown => Json::Null,
    };
    let last_end = row.last_end.as_deref().map(|end| json!({"terminated": write_end(end)}));
    json!({
        "name": row.name,
        "image": row.image,
        "ready": row.ready,
        "restartCount": row.restarts,
        "state": state,
        "lastState": last_end,
    })
}

fn write_end(end: &ContainerEnd) -> Json {
    let ContainerEnd { exit_code, reason, message } = end;
    json!({"exitCode": exit_code, "reason": reason, "message": message})
}

fn write_application(object: &ArgoApplication) -> Json {
    let error = object.error.as_deref();
    let error = error.map(|message| json!({"type": "Error", "message": message}));
    json!({
        "metadata": write_meta(&object.meta),
        "status": {
            "sync": {"status": object.sync, "revision": object.revision},
            "health": {"status": object.health},
            "operationState": object.operation.as_ref().map(write_operation),
            "conditions": error.into_iter().collect::<Vec<_>>(),
            "reconciledAt": object.reconciled_at,
            "history": object.history.iter().map(write_sync).collect::<Vec<_>>(),
        },
    })
}

fn write_sync(sync: &SyncRecord) -> Json {
    let SyncRecord { revision, started_at, finished_at } = sync;
    json!({"revision": revision, "deployStartedAt": started_at, "deployedAt": finished_at})
}

fn write_operation(operation: &SyncOperation) -> Json {
    json!({
        "phase": operation.phase,
        "message": operation.message,
        "syncResult": {"revision": operation.revision},
        "startedAt": operation.started_at,
        "finishedAt": operation.finished_at,
    })
}

fn write_canary(object: &FlaggerCanary) -> Json {
    let target = object.target.as_ref();
    let target = target.map(|key| json!({"kind": key.kind.as_str(), "name": key.name}));
    let promoted = json!({
        "type": "Promoted", "status": "False", "message": object.message,
        "lastUpdateTime": object.changed_at,
    });
    let report = object.report.as_ref();
    let report =
        report.map(|report| json!({"reason": report.reason, "failedChecks": report.failed_checks}));
    json!({
        "metadata": write_meta(&object.meta),
        "spec": {"targetRef": target, "analysis": {"threshold": object.threshold}},
        REPORT_KEY: report,
        "status": {
            "phase": object.phase,
            "canaryWeight": object.weight,
            "failedChecks": object.failed_checks,
            "lastAppliedSpec": object.applied,
            "conditions": [promoted],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the object and reads it again.
    fn report(object: &WatchedObject) -> WatchedObject {
        let json = serde_json::to_string(&object.to_json()).unwrap();
        let json = serde_json::from_str(&json).unwrap();
        WatchedObject::read_reported(object.kind(), &json, &object.template().0).unwrap()
    }

    #[test]
    fn a_pod_is_read_as_it_was_with_sidecars_in_their_places_and_without_its_secrets() {
        let status = |name: &str, state: Json| json!({"name": name, "image": "i", "restartCount": 2, "ready": true, "state": state});
        let pod = json!({
            "metadata": {
                "namespace": "n", "name": "a", "uid": "u", "resourceVersion": "7", "generation": 3,
                "creationTimestamp": "2026-11-21T05:48:12.5Z", "deletionTimestamp": "2026-11-21T06:00:00Z",
                "labels": {"controller-revision-hash": "h", "pod-template-generation": "4"},
                "ownerReferences": [{"controller": true, "kind": "Rollout", "name": "r", "uid": "ru"}],
            },
            "spec": {
                "initContainers": [{"name": "mesh", "restartPolicy": "Always"}],
                "containers": [{
                    "env": [{"name": "PASSWORD", "value": "hunter2"}],
                    "readinessProbe": {"initialDelaySeconds": 40, "periodSeconds": 7, "failureThreshold": 2},
                }],
            },
            "status": {
                "phase": "Running",
                "conditions": [
                    {"type": "Ready", "status": "True"},
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
                ],
                "initContainerStatuses": [
                    status("first", json!({"terminated": {"exitCode": 3, "reason": "Error"}})),
                    status("mesh", json!({"running": {}})),
                    status("second", json!({"waiting": {"reason": "PodInitializing"}})),
                ],
                "containerStatuses": [
                    status("main", json!(null)),
                    {"name": "m", "lastState": {"terminated": {"exitCode": 137, "message": "no memory"}}},
                ],
            },
        });
        let pod = WatchedObject::read(WatchedKind::Pod, &pod).unwrap();
        assert_eq!(report(&pod), pod);
        assert!(!pod.to_json().to_string().contains("hunter2"));
        let row = pod.pod().unwrap();
        assert_eq!((row.ready_seconds, row.containers.len()), (54, 5));
    }

    #[test]
    fn a_digest_goes_beside_its_object_and_one_that_is_none_counts_for_nothing() {
        let json = json!({
            "metadata": {"name": "a", "uid": "u"},
            "spec": {"replicas": 0, "template": {"spec": {"containers": [{"image": "a:1"}]}}},
        });
        let workload = WatchedObject::read(WatchedKind::Deployment, &json).unwrap();
        assert!(!workload.template().is_empty());
        assert_eq!(report(&workload), workload);
        for absurd in ["", "x", "ABCD", &"a".repeat(65)] {
            let read =
                WatchedObject::read_reported(WatchedKind::Deployment, &workload.to_json(), absurd);
            assert!(read.unwrap().template().is_empty(), "{absurd}");
        }
    }
}
