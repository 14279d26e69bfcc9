//! The parts that every watched object has: its kind, its key, and the metadata that the rules need.
//!
//! Knows nothing of replicas and pods.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::cluster::fields::{
    flag_at, generation_at, list_at, name_at, text_at, time_at, value_at,
};
use crate::manifests::OUR_PREFIX;
use crate::model::environment::LINK_BYTES;
use crate::model::revision::Digest;
use crate::model::words::words;

/// The longest label or annotation of ours, in bytes; none that the service writes is half as long.
const VALUE_BYTES: usize = 256;

words! {
    /// A kind of object that is watched.
    pub enum WatchedKind {
        /// Pods that are replaced in steps.
        Deployment = "Deployment",
        /// Pods with names and disks of their own.
        StatefulSet = "StatefulSet",
        /// A pod on each node.
        DaemonSet = "DaemonSet",
        /// The pods of one pod template of a Deployment.
        ReplicaSet = "ReplicaSet",
        /// Pods that run to an end.
        Job = "Job",
        /// Jobs by the clock.
        CronJob = "CronJob",
        /// One pod.
        Pod = "Pod",
        /// Argo CD's Application.
        Application = "Application",
        /// Flagger's canary.
        Canary = "Canary",
    }
}

impl WatchedKind {
    /// Checks that a revision's files may hold such an object, and that its pods are waited for.
    pub fn is_workload(self) -> bool {
        match self {
            Self::Deployment | Self::StatefulSet | Self::DaemonSet | Self::Job | Self::CronJob => {
                true
            }
            Self::ReplicaSet | Self::Pod | Self::Application | Self::Canary => false,
        }
    }

    /// Lists the other kinds that the rules read to judge an object of this kind.
    pub fn inputs(self) -> &'static [Self] {
        match self {
            Self::Deployment => &[Self::ReplicaSet, Self::Pod, Self::Canary],
            Self::DaemonSet => &[Self::Pod, Self::Canary],
            Self::StatefulSet | Self::Job => &[Self::Pod],
            Self::CronJob | Self::ReplicaSet | Self::Pod | Self::Application | Self::Canary => &[],
        }
    }
}

impl fmt::Display for WatchedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Names one object of a cluster, whichever uid it has at the moment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// `Deployment`
    pub kind: WatchedKind,
    /// `devx`
    pub namespace: Box<str>,
    /// `my-app`
    pub name: Box<str>,
}

impl ObjectKey {
    /// Makes the key of a kind, a namespace and a name.
    pub fn new(kind: WatchedKind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// The object that controls another one: the `ReplicaSet` of a pod, the Deployment of a `ReplicaSet`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerRef {
    /// `None` for a kind that is not watched.
    pub kind: Option<WatchedKind>,
    /// Its name, in the namespace of the object.
    pub name: Box<str>,
    /// A later object of that name is another owner.
    pub uid: Box<str>,
}

/// Annotations by which anybody's workload gets commit statuses (preview environments).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitAnnotations {
    /// `the-deployer.dev/repository`
    pub repository: Box<str>,
    /// `the-deployer.dev/commit`
    pub commit: Box<str>,
    /// `the-deployer.dev/pull-request`
    pub pull_request: Option<Box<str>>,
    /// `the-deployer.dev/link`
    #[serde(default)]
    pub link: Option<Box<str>>,
}

/// The marks by which a workload is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Marks {
    /// It carries the digest of a revision that the service rendered.
    Revision {
        /// `app.kubernetes.io/name`: the app's slug.
        app: Box<str>,
        /// `the-deployer.dev/digest`
        digest: Digest,
    },
    /// The object is another program's, and names a commit.
    Commit(Box<CommitAnnotations>),
    /// Nothing of ours.
    Unmarked,
}

/// The metadata that the rules need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Empty for an object without a namespace.
    pub namespace: Box<str>,
    /// Never empty.
    pub name: Box<str>,
    /// Another one for each object that has had the name.
    pub uid: Box<str>,
    /// Opaque: two that are equal are the same state of an object.
    pub resource_version: Box<str>,
    /// The number that each change of the specification raises; 0 where there is none.
    pub generation: i64,
    /// The time at which it was created, by the cluster's clock.
    pub created: Option<Timestamp>,
    /// It was told to go, and may still be there for a while.
    pub deleting: bool,
    /// The object that controls it.
    pub controller: Option<ControllerRef>,
    /// The marks by which it is followed.
    pub marks: Marks,
    /// `deployment.kubernetes.io/revision`, of a Deployment and of its `ReplicaSet` objects.
    pub revision: Option<u64>,
}

impl ObjectMeta {
    /// Reads the metadata of an object; `None` where it has no name.
    pub fn read(object: &Json) -> Option<Self> {
        let meta = value_at(object, &["metadata"])?;
        let name = name_at(meta, &["name"]);
        let revision = text_at(meta, &["annotations", "deployment.kubernetes.io/revision"], 20);
        (!name.is_empty()).then(|| Self {
            namespace: name_at(meta, &["namespace"]),
            name,
            uid: name_at(meta, &["uid"]),
            resource_version: text_at(meta, &["resourceVersion"], 64).unwrap_or_default(),
            generation: generation_at(meta, &["generation"]),
            created: time_at(meta, &["creationTimestamp"]),
            deleting: value_at(meta, &["deletionTimestamp"]).is_some(),
            controller: read_controller(meta),
            marks: Marks::read(meta),
            revision: revision.and_then(|text| text.parse().ok()),
        })
    }

    /// Makes the object's key.
    pub fn key(&self, kind: WatchedKind) -> ObjectKey {
        ObjectKey { kind, namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

impl Marks {
    fn read(meta: &Json) -> Self {
        let annotation = |name: &str| {
            text_at(meta, &["annotations", &format!("{OUR_PREFIX}{name}")], VALUE_BYTES)
        };
        let label = |name: &str| {
            text_at(meta, &["labels", &format!("app.kubernetes.io/{name}")], VALUE_BYTES)
        };
        let is_ours = label("managed-by").as_deref() == Some("the-deployer");
        if let Some(digest) = annotation("digest").filter(|_| is_ours) {
            let app = label("name").unwrap_or_default();
            return Self::Revision { app, digest: Digest(digest.into()) };
        }
        match (annotation("repository"), annotation("commit")) {
            (Some(repository), Some(commit)) if !is_ours => {
                let pull_request = annotation("pull-request");
                // A longer one is cut, and is no address any more.
                let path = ["annotations", &format!("{OUR_PREFIX}link")];
                let link = text_at(meta, &path, LINK_BYTES);
                Self::Commit(Box::new(CommitAnnotations { repository, commit, pull_request, link }))
            }
            _ => Self::Unmarked,
        }
    }
}

/// Finds the owner that controls the object: the one marked so. An object has at most one.
fn read_controller(meta: &Json) -> Option<ControllerRef> {
    let owners = list_at(meta, &["ownerReferences"]);
    let owner = owners.iter().find(|owner| flag_at(owner, &["controller"]))?;
    let kind = text_at(owner, &["kind"], VALUE_BYTES)?;
    Some(ControllerRef {
        kind: WatchedKind::parse(&kind),
        name: name_at(owner, &["name"]),
        uid: text_at(owner, &["uid"], VALUE_BYTES)?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meta(metadata: &Json) -> Option<ObjectMeta> {
        ObjectMeta::read(&json!({ "metadata": metadata }))
    }

    #[test]
    fn a_workload_of_ours_is_known_by_label_and_digest() {
        let labels = json!({"app.kubernetes.io/managed-by": "the-deployer", "app.kubernetes.io/name": "my-app"});
        let ours = meta(&json!({
            "name": "my-app", "labels": labels, "annotations": {"the-deployer.dev/digest": "sha256:1"},
        }));
        let digest = Digest("sha256:1".to_owned());
        assert_eq!(ours.unwrap().marks, Marks::Revision { app: "my-app".into(), digest });
        // The annotation alone may have been copied with an object.
        let copied =
            meta(&json!({"name": "a", "annotations": {"the-deployer.dev/digest": "sha256:1"}}));
        assert_eq!(copied.unwrap().marks, Marks::Unmarked);
    }

    #[test]
    fn anybody_may_name_a_commit() {
        let annotations =
            json!({"the-deployer.dev/repository": "o/r", "the-deployer.dev/commit": "c"});
        let marks = meta(&json!({"name": "a", "annotations": annotations})).unwrap().marks;
        let Marks::Commit(commit) = marks else { panic!("{marks:?}") };
        assert_eq!((&*commit.repository, &*commit.commit), ("o/r", "c"));
        let half = json!({"the-deployer.dev/commit": "c"});
        assert_eq!(
            meta(&json!({"name": "a", "annotations": half})).unwrap().marks,
            Marks::Unmarked
        );
    }

    #[test]
    fn metadata_that_is_absurd_is_read_as_far_as_it_goes() {
        assert_eq!(meta(&json!({})), None);
        assert_eq!(meta(&json!("x")), None);
        let odd = meta(&json!({
            "name": "a", "generation": "two", "ownerReferences": [null, {"controller": true}], "labels": [],
            "annotations": "x", "creationTimestamp": 5, "uid": {}, "deletionTimestamp": null,
        }));
        let odd = odd.unwrap();
        assert_eq!((odd.generation, odd.controller, odd.created), (0, None, None));
        assert!(!odd.deleting);
    }
}
