//! A cluster, the process that watches it, and the store beside it: all of them values, moved by hand.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value as Json, json};
use the_deployer::cluster::expected::{ExpectedRevision, ExpectedWorkload};
use the_deployer::cluster::index::ClusterIndex;
use the_deployer::cluster::object::{ObjectKey, WatchedKind};
use the_deployer::cluster::observation::{ProgressEvent, ProgressObservation};
use the_deployer::cluster::record::{ClusterDrift, ProgressKey, ProgressRecord};
use the_deployer::cluster::summary::{DeploymentProgress, summarize};
use the_deployer::cluster::tracker::{ProgressPatience, ProgressTracker};
use the_deployer::cluster::watched::WatchedObject;
use the_deployer::model::id::{AppKey, DeployId, Namespace, Slug, TargetName};
use the_deployer::model::revision::Digest;

/// What is watched, and what was told and stored of it.
pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) index: ClusterIndex,
    pub(super) tracker: ProgressTracker,
    pub(super) store: BTreeMap<ProgressKey, ProgressRecord>,
    pub(super) present: BTreeMap<ObjectKey, WatchedObject>,
    pub(super) expected: Vec<ExpectedRevision>,
    /// Kinds that the cluster lacks.
    pub(super) unavailable: Vec<WatchedKind>,
    /// Kinds that may not be seen.
    pub(super) hidden: Vec<WatchedKind>,
    told: Vec<String>,
    last: Option<(ProgressEvent, ProgressRecord)>,
}

pub(super) fn time(seconds: i64) -> Timestamp {
    let start: Timestamp = "2026-11-21T01:00:00Z".parse().unwrap();
    start + SignedDuration::from_secs(seconds)
}

fn cluster() -> TargetName {
    TargetName::parse("prod-cluster-1").unwrap()
}

fn tracker(records: Vec<ProgressRecord>) -> ProgressTracker {
    ProgressTracker::new(cluster(), ProgressPatience::default(), records)
}

/// The n-th deployment: later ones have greater ids.
pub(super) fn deploy_id(n: u32) -> DeployId {
    DeployId::parse(format!("20261121-01000000{n}-3f9a2c")).unwrap()
}

pub(super) fn key(kind: WatchedKind, name: &str) -> ObjectKey {
    ObjectKey::new(kind, "devx", name)
}

/// What was pushed by the n-th deployment, for Deployments of these names.
pub(super) fn revision(n: u32, tag: &str, names: &[&str]) -> ExpectedRevision {
    let workload = |name: &&str| ExpectedWorkload {
        key: key(WatchedKind::Deployment, name),
        replicas: None,
        has_canary: false,
    };
    ExpectedRevision {
        app: AppKey {
            namespace: Namespace::parse("devx").unwrap(),
            slug: Slug::parse("web").unwrap(),
        },
        deploy_id: deploy_id(n),
        digest: Digest(format!("sha256:{tag}")),
        workloads: names.iter().map(workload).collect(),
        application: Some(ObjectKey::new(WatchedKind::Application, "argocd", "devx.web")),
        commits: vec![format!("commit-{n}")],
        changed: true,
        awaiting: true,
        pushed_at: time(0),
    }
}

impl World {
    /// A process that has listed an empty cluster.
    pub(super) fn new() -> Self {
        let mut world = Self::unlisted();
        world.list_everything();
        world
    }

    /// A process that has listed nothing yet.
    pub(super) fn unlisted() -> Self {
        Self {
            now: time(0),
            index: ClusterIndex::new(),
            tracker: tracker(Vec::new()),
            store: BTreeMap::new(),
            present: BTreeMap::new(),
            expected: Vec::new(),
            unavailable: Vec::new(),
            hidden: Vec::new(),
            told: Vec::new(),
            last: None,
        }
    }

    /// The process dies and is started anew: an empty index, and the records of the store.
    pub(super) fn restart(&mut self) {
        self.index = ClusterIndex::new();
        self.tracker = tracker(self.store.values().cloned().collect());
        for revision in self.expected.clone() {
            let observations = self.tracker.expect(revision, &self.index, self.now);
            self.take(observations);
        }
        self.list_everything();
    }

    /// Lists every kind, as at the start of a process or after 410 Gone.
    pub(super) fn list_everything(&mut self) {
        for kind in WatchedKind::ALL {
            self.list(kind);
        }
    }

    pub(super) fn list(&mut self, kind: WatchedKind) {
        if self.unavailable.contains(&kind) {
            let changes = self.index.give_up(kind);
            self.follow(changes);
        } else if self.hidden.contains(&kind) {
            let changes = self.index.hide(kind);
            self.follow(changes);
        } else {
            self.index.begin_list(kind);
            let objects: Vec<WatchedObject> =
                self.present.values().filter(|one| one.kind() == kind).cloned().collect();
            for object in objects {
                let change = self.index.apply(object);
                self.follow(change);
            }
            let changes = self.index.end_list(kind);
            self.follow(changes);
        }
        let observations = self.tracker.tick(&self.index, self.now);
        self.take(observations);
    }

    fn follow(
        &mut self,
        changes: impl IntoIterator<Item = the_deployer::cluster::index::IndexChange>,
    ) {
        for change in changes {
            let observations = self.tracker.follow(&change, &self.index, self.now);
            self.take(observations);
        }
    }

    /// Word of a revision that was pushed.
    pub(super) fn expect(&mut self, revision: ExpectedRevision) {
        self.expected.retain(|one| one.deploy_id != revision.deploy_id);
        self.expected.push(revision.clone());
        let observations = self.tracker.expect(revision, &self.index, self.now);
        self.take(observations);
    }

    pub(super) fn apply(&mut self, kind: WatchedKind, json: &Json) {
        self.bring(WatchedObject::read(kind, json).unwrap());
    }

    /// An event of a watch.
    pub(super) fn bring(&mut self, object: WatchedObject) {
        self.present.insert(object.key(), object.clone());
        self.repeat(object);
    }

    /// An event that changes nothing in the cluster: it came already.
    pub(super) fn repeat(&mut self, object: WatchedObject) {
        let change = self.index.apply(object);
        self.follow(change);
    }

    pub(super) fn delete(&mut self, object: &WatchedObject) {
        self.present.remove(&object.key());
        let change = self.index.delete_object(object);
        self.follow(change);
    }

    /// Deletes what is there under that key.
    pub(super) fn delete_key(&mut self, key: &ObjectKey) {
        let object = self.present[key].clone();
        self.delete(&object);
    }

    /// Time goes by, and the service looks all the while.
    pub(super) fn pass(&mut self, seconds: i64) {
        let mut left = seconds;
        while left > 5 {
            self.pause(5);
            left -= 5;
        }
        self.pause(left);
    }

    /// Time goes by, and the service looks at the end of it.
    pub(super) fn pause(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
        let observations = self.tracker.tick(&self.index, self.now);
        self.take(observations);
    }

    fn take(&mut self, observations: Vec<ProgressObservation>) {
        for observation in observations {
            let ProgressObservation { event, record } = observation;
            if let Some(words) = words(&event) {
                let name = &record.key.workload.name;
                let at = if &**name == "web" { String::new() } else { format!(" on {name}") };
                self.told.push(format!("{words} {}{at}", tag(&record.key.digest)));
            }
            let observed = (event, record);
            let is_repeated = self.last.as_ref() == Some(&observed);
            assert!(!is_repeated, "told twice: {observed:?}");
            self.store.insert(observed.1.key.clone(), observed.1.clone());
            self.last = Some(observed);
        }
    }

    /// What was told since the last call.
    pub(super) fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told)
    }

    /// How many things were told and not looked at.
    pub(super) fn told_count(&self) -> usize {
        self.told.len()
    }

    pub(super) fn told_since(&self, count: usize) -> &[String] {
        &self.told[count..]
    }

    /// The newest record of a Deployment.
    pub(super) fn record(&self, name: &str) -> ProgressRecord {
        self.tracker.records_of(&key(WatchedKind::Deployment, name)).last().unwrap().clone()
    }

    /// How a deployment is shown: by the records that the process has, stored or not.
    pub(super) fn shown(&self, n: u32) -> DeploymentProgress {
        let expected = self.expected.iter().find(|one| one.deploy_id == deploy_id(n)).unwrap();
        let of_workload = |key| self.tracker.records_of(key);
        let records: Vec<&ProgressRecord> =
            expected.watched_objects().into_iter().flat_map(of_workload).collect();
        summarize(expected, &records, self.tracker.sync_wait(expected))
    }

    /// How a deployment stands, by what is stored.
    pub(super) fn summary(&self, n: u32) -> DeploymentProgress {
        let expected = self.expected.iter().find(|one| one.deploy_id == deploy_id(n)).unwrap();
        let records: Vec<&ProgressRecord> = self.store.values().collect();
        summarize(expected, &records, self.tracker.sync_wait(expected))
    }
}

fn words(event: &ProgressEvent) -> Option<String> {
    Some(match event {
        ProgressEvent::Started { .. } => "started".to_owned(),
        ProgressEvent::Finished { .. } => "finished".to_owned(),
        ProgressEvent::Superseded => "superseded".to_owned(),
        ProgressEvent::Failing { cause } => format!("failing {}", cause.kind.as_str()),
        ProgressEvent::Failed { cause } => format!("failed {}", cause.kind.as_str()),
        ProgressEvent::Drifted { drift: ClusterDrift::Template } => "edited".to_owned(),
        ProgressEvent::Drifted { drift: ClusterDrift::Replicas { manifest, cluster } } => {
            format!("scaled {manifest} to {cluster}")
        }
        ProgressEvent::Drifted { drift: ClusterDrift::Revision { digest } } => {
            format!("put back to {}", tag(digest))
        }
        ProgressEvent::Repaired => "repaired".to_owned(),
        ProgressEvent::Removed => "removed".to_owned(),
        ProgressEvent::Progressed { .. } | ProgressEvent::Recorded => return None,
    })
}

/// `v2` of `sha256:v2`, and of `commit:v2 template:…`.
fn tag(digest: &str) -> &str {
    digest.split([':', ' ']).nth(1).unwrap_or(digest)
}

/// A Deployment as the API would show it; every change of it gets a new version.
#[derive(Clone)]
pub(super) struct Workload {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) tag: String,
    pub(super) image: String,
    pub(super) replicas: Json,
    pub(super) generation: i64,
    pub(super) observed: i64,
    /// Present, updated, available.
    pub(super) counts: [u32; 3],
    pub(super) revision: u32,
    pub(super) paused: bool,
    pub(super) progressing: Option<(bool, String, String)>,
    pub(super) version: u32,
}

impl Workload {
    /// `web` with 3 replicas of a release, all of it done.
    pub(super) fn finished(tag: &str) -> Self {
        Self {
            name: "web".to_owned(),
            uid: "uid-web".to_owned(),
            tag: tag.to_owned(),
            image: format!("registry.local/web:{tag}"),
            replicas: json!(3),
            generation: 1,
            observed: 1,
            counts: [3, 3, 3],
            revision: 1,
            paused: false,
            progressing: None,
            version: 100,
        }
    }

    pub(super) fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), uid: format!("uid-{name}"), ..self }
    }

    /// Another release is applied; the controller has not seen it.
    pub(super) fn release(&mut self, tag: &str) -> &mut Self {
        tag.clone_into(&mut self.tag);
        self.image = format!("registry.local/web:{tag}");
        self.generation += 1;
        self
    }

    /// The controller has seen it, and counts so many.
    pub(super) fn counted(&mut self, counts: [u32; 3]) -> &mut Self {
        self.observed = self.generation;
        self.counts = counts;
        self
    }

    pub(super) fn json(&mut self) -> Json {
        self.version += 1;
        let [present, updated, available] = self.counts;
        let condition = self.progressing.as_ref().map(|(is_true, reason, message)| {
            let status = if *is_true { "True" } else { "False" };
            json!({"type": "Progressing", "status": status, "reason": reason, "message": message})
        });
        let conditions: Vec<Json> = condition.into_iter().collect();
        json!({
            "metadata": {
                "name": self.name, "namespace": "devx", "uid": self.uid,
                "generation": self.generation, "resourceVersion": self.version.to_string(),
                "creationTimestamp": "2026-11-21T00:59:00Z",
                "labels": {
                    "app.kubernetes.io/managed-by": "the-deployer", "app.kubernetes.io/name": "web",
                },
                "annotations": {
                    "the-deployer.dev/digest": format!("sha256:{}", self.tag),
                    "deployment.kubernetes.io/revision": self.revision.to_string(),
                },
            },
            "spec": {
                "replicas": self.replicas, "paused": self.paused, "progressDeadlineSeconds": 60,
                "template": template(&self.image),
            },
            "status": {
                "observedGeneration": self.observed, "replicas": present,
                "updatedReplicas": updated, "availableReplicas": available,
                "conditions": conditions,
            },
        })
    }

    /// The `ReplicaSet` of an image, with so many pods.
    pub(super) fn replica_set(&mut self, image: &str, revision: u32, replicas: u32) -> Json {
        self.version += 1;
        let tag = image.rsplit(':').next().unwrap();
        json!({
            "metadata": {
                "name": format!("{}-{tag}", self.name), "namespace": "devx",
                "uid": format!("uid-{}-{tag}", self.name),
                "resourceVersion": self.version.to_string(),
                "creationTimestamp": "2026-11-21T00:59:30Z",
                "annotations": {"deployment.kubernetes.io/revision": revision.to_string()},
                "ownerReferences": [
                    {"kind": "Deployment", "name": self.name, "uid": self.uid, "controller": true},
                ],
            },
            "spec": {"replicas": replicas, "template": template(image)},
            "status": {"replicas": replicas},
        })
    }

    /// A pod of the `ReplicaSet` of an image.
    pub(super) fn pod(&mut self, image: &str, name: &str, status: &Json) -> Json {
        self.version += 1;
        let tag = image.rsplit(':').next().unwrap();
        let owner = format!("{}-{tag}", self.name);
        json!({
            "metadata": {
                "name": format!("{owner}-{name}"), "namespace": "devx",
                "uid": format!("uid-{owner}-{name}"), "resourceVersion": self.version.to_string(),
                "ownerReferences": [
                    {"kind": "ReplicaSet", "name": owner, "uid": format!("uid-{owner}"), "controller": true},
                ],
            },
            "spec": {"containers": [{"name": "web", "image": image}]},
            "status": status,
        })
    }
}

fn template(image: &str) -> Json {
    json!({"spec": {"containers": [{"name": "web", "image": image}]}})
}
