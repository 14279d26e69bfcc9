//! The state of the API server for tests: objects, their events, and its faults.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use super::TOKEN;
use super::faults::{Fault, FaultRule, Verb};

/// A kind that is served.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) short: &'static [&'static str],
    /// Items of lists say what they are only where they are custom resources.
    pub(super) is_custom: bool,
}

const fn builtin(
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    short: &'static [&'static str],
) -> Resource {
    Resource { group, version: "v1", plural, kind, short, is_custom: false }
}

const BUILTIN: [Resource; 9] = [
    builtin("", "pods", "Pod", &["po"]),
    builtin("", "configmaps", "ConfigMap", &["cm"]),
    builtin("", "events", "Event", &["ev"]),
    builtin("apps", "deployments", "Deployment", &["deploy"]),
    builtin("apps", "replicasets", "ReplicaSet", &["rs"]),
    builtin("apps", "statefulsets", "StatefulSet", &["sts"]),
    builtin("apps", "daemonsets", "DaemonSet", &["ds"]),
    builtin("batch", "jobs", "Job", &[]),
    builtin("batch", "cronjobs", "CronJob", &["cj"]),
];

const CUSTOM: [Resource; 2] = [
    Resource {
        group: "argoproj.io",
        version: "v1alpha1",
        plural: "applications",
        kind: "Application",
        short: &["app", "apps"],
        is_custom: true,
    },
    Resource {
        group: "flagger.app",
        version: "v1beta1",
        plural: "canaries",
        kind: "Canary",
        short: &[],
        is_custom: true,
    },
];

/// Something that happened: the object before, and after.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) version: u64,
    pub(super) kind: &'static str,
    pub(super) before: Option<Json>,
    pub(super) after: Option<Json>,
}

/// A request that came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    /// `pods`; empty where it is about none.
    pub(crate) resource: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) at: std::time::Duration,
}

/// The rest of a list, as it was when its first page was read.
#[derive(Debug, Clone)]
pub(super) struct Pages {
    pub(super) version: u64,
    pub(super) items: Vec<Json>,
}

/// Everything.
pub(crate) struct World {
    pub(super) resources: Vec<Resource>,
    objects: BTreeMap<(&'static str, String, String), Json>,
    pub(super) changes: Vec<Change>,
    pub(crate) version: u64,
    /// Up to this version nothing is known any more.
    pub(crate) compacted: u64,
    /// Whether a watch from a version that is forgotten is refused with a status, or in its stream.
    pub(crate) gone_as_status: bool,
    pub(super) pages: BTreeMap<u64, Pages>,
    pub(crate) faults: Vec<FaultRule>,
    /// Open watches are cut when it is raised.
    pub(crate) epoch: u64,
    /// Tokens that are known; none: anybody may come in.
    pub(crate) tokens: BTreeSet<String>,
    /// What the caller may not do: verb and plural.
    pub(crate) forbidden: BTreeSet<(&'static str, &'static str)>,
    pub(crate) bookmark_every: Option<std::time::Duration>,
    /// By namespace, pod and container.
    pub(crate) logs: BTreeMap<(String, String, String), String>,
    /// Of the containers that ran before these.
    pub(crate) previous_logs: BTreeMap<(String, String, String), String>,
    /// How many readers follow a log now.
    pub(crate) log_readers: usize,
    pub(crate) requests: Vec<Request>,
    pub(crate) open_watches: usize,
    begun: tokio::time::Instant,
    next_uid: u64,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            resources: BUILTIN.to_vec(),
            objects: BTreeMap::new(),
            changes: Vec::new(),
            version: 100,
            compacted: 0,
            gone_as_status: false,
            pages: BTreeMap::new(),
            faults: Vec::new(),
            epoch: 0,
            tokens: BTreeSet::from([TOKEN.to_owned()]),
            forbidden: BTreeSet::new(),
            bookmark_every: None,
            logs: BTreeMap::new(),
            previous_logs: BTreeMap::new(),
            log_readers: 0,
            requests: Vec::new(),
            open_watches: 0,
            begun: tokio::time::Instant::now(),
            next_uid: 0,
        }
    }

    /// Argo CD and Flagger are there.
    pub(crate) fn install_custom_resources(&mut self) {
        self.resources.extend(CUSTOM);
    }

    /// They are not there any more, nor are their objects; watches of them end.
    pub(crate) fn remove_custom_resources(&mut self) {
        self.resources.retain(|resource| !resource.is_custom);
        self.objects.retain(|(kind, ..), _| !CUSTOM.iter().any(|custom| custom.kind == *kind));
        self.epoch += 1;
    }

    pub(super) fn resource_of_kind(&self, kind: &str) -> &Resource {
        let found = self.resources.iter().find(|resource| resource.kind == kind);
        found.unwrap_or_else(|| panic!("no kind {kind}"))
    }

    /// Creates or replaces an object; its new version. What the server sets is set where it is missing.
    pub(crate) fn apply(&mut self, mut object: Json) -> u64 {
        let kind = self.resource_of_kind(object["kind"].as_str().unwrap()).kind;
        self.version += 1;
        let version = self.version;
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let key = (kind, text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        let before = self.objects.get(&key).cloned();
        let meta = object["metadata"].as_object_mut().unwrap();
        meta.insert("resourceVersion".to_owned(), json!(version.to_string()));
        if let Some(before) = &before {
            meta.entry("uid").or_insert_with(|| before["metadata"]["uid"].clone());
        }
        self.next_uid += 1;
        meta.entry("uid").or_insert_with(|| json!(format!("uid-{}", self.next_uid)));
        meta.entry("creationTimestamp").or_insert_with(|| json!("2026-11-21T10:00:00Z"));
        self.objects.insert(key, object.clone());
        self.changes.push(Change { version, kind, before, after: Some(object) });
        version
    }

    /// Deletes an object that is there.
    pub(crate) fn delete(&mut self, kind: &str, namespace: &str, name: &str) {
        let kind = self.resource_of_kind(kind).kind;
        let key = (kind, namespace.to_owned(), name.to_owned());
        let before = self.objects.remove(&key).unwrap_or_else(|| panic!("{key:?} is not there"));
        self.version += 1;
        self.changes.push(Change {
            version: self.version,
            kind,
            before: Some(before),
            after: None,
        });
    }

    /// Loses an object, and tells no watch of it.
    pub(crate) fn forget(&mut self, kind: &str, namespace: &str, name: &str) {
        let kind = self.resource_of_kind(kind).kind;
        self.objects.remove(&(kind, namespace.to_owned(), name.to_owned())).unwrap();
    }

    /// One recorded event of a watch: `{"type": …, "object": …}`.
    pub(crate) fn replay(&mut self, event: &Json) {
        let object = &event["object"];
        if event["type"] == "DELETED" {
            let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
            self.delete(object["kind"].as_str().unwrap(), &text("namespace"), &text("name"));
        } else {
            self.apply(object.clone());
        }
    }

    pub(super) fn get(&self, kind: &'static str, namespace: &str, name: &str) -> Option<&Json> {
        self.objects.get(&(kind, namespace.to_owned(), name.to_owned()))
    }

    pub(super) fn objects_of(&self, kind: &'static str) -> impl Iterator<Item = &Json> {
        self.objects.iter().filter(move |((one, ..), _)| *one == kind).map(|(_, object)| object)
    }

    /// Keeps the request, and finds what is wrong with its answer.
    pub(super) fn take(&mut self, mut request: Request) -> Option<Fault> {
        request.at = self.begun.elapsed();
        let (verb, resource) = (request.verb, request.resource.clone());
        self.requests.push(request);
        self.faults.iter_mut().find_map(|rule| rule.strike(verb, &resource))
    }
}
