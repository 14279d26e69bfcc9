//! The reader of manifests in the repository: their hosts, paths and objects.
//!
//! The files may come from another version of the service, another program, or a person with an editor. An unreadable
//! file is left out and named, and is never a fault.

pub mod application; // the owner of an app
pub mod names; // the names of an app's objects
mod rule; // Traefik's rules
pub mod workloads; // workloads and their digests
pub mod shares; // shares of requests in routes
pub mod versions; // live versions
pub mod routes; // hosts and paths of routing objects
pub(crate) mod secrets; // Secrets that controllers create from other objects

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use crate::manifests::parse::rule::fuzz as fuzz_rule;

use serde_json::Value as Json;

use crate::manifests::object::live_object;
use crate::manifests::replicas::Workload;
use crate::manifests::{canary, disks, replicas};
use crate::model::facts::{Disk, LiveApp, LiveObject};
use crate::model::revision::ManifestFile;
use crate::waml::node::Node;
use crate::waml::scalar::read_untyped;
use crate::waml::yaml::{self, Budget};

/// The limits of a file: files of the service have some kilobytes; a dashboard in a `ConfigMap` may have more than a
/// WAML.
const BUDGET: Budget = Budget { bytes: 1 << 20, nodes: 100_000, text: 4 << 20, depth: 64 };

/// The result of reading files, with the names of the unreadable ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadFiles<T> {
    /// The result.
    pub found: Vec<T>,
    /// The files that are no YAML.
    pub unreadable: Vec<String>,
}

/// Reads an app's files, and lists the names of the unreadable ones.
pub fn live_app(files: &[ManifestFile]) -> (LiveApp, Vec<String>) {
    let (mut app, mut unreadable) = (LiveApp::default(), Vec::new());
    for file in files {
        if let Some(object) = plain_object(&file.bytes) {
            app.objects.push(object);
            continue;
        }
        let file = std::slice::from_ref(file);
        let read = read(file, |node, list| list.push(read_untyped(node)));
        let documents = read.found;
        let staying = documents.iter().filter(|json| has_sync_option(json, "Prune=false"));
        app.staying.extend(staying.filter_map(live_object));
        app.secrets.extend(documents.iter().flat_map(secrets::created_secrets));
        app.objects.extend(documents.iter().filter_map(live_object));
        app.disks.extend(documents.iter().flat_map(disks::read_disks));
        app.replicas.extend(maps(&documents).filter_map(replicas::number_of));
        let autoscaled = maps(&documents).filter_map(replicas::scaled_by);
        app.autoscaled.extend(autoscaled.map(|Workload { kind, name, .. }| (kind, name)));
        app.canaries.extend(maps(&documents).filter_map(canary::read_canary));
        unreadable.extend(read.unreadable);
    }
    (app, unreadable)
}

/// Reads the object of a file in the service's own form, where nothing else in the file counts; `None`
/// for every other.
fn plain_object(bytes: &[u8]) -> Option<LiveObject> {
    let object = names::first_lines(bytes)?;
    let kind = object.kind.as_str();
    let counts = disks::KINDS.contains(&kind) || replicas::counts(kind);
    let text = std::str::from_utf8(bytes).ok()?;
    (!counts && !text.contains("argocd.argoproj.io/sync-options")).then_some(object)
}

fn maps(documents: &[Json]) -> impl Iterator<Item = &serde_json::Map<String, Json>> {
    documents.iter().filter_map(Json::as_object)
}

/// Checks that an object has that option for Argo CD: `Prune=false`, `Delete=false`.
pub(crate) fn has_sync_option(json: &Json, option: &str) -> bool {
    let options = json.pointer("/metadata/annotations/argocd.argoproj.io~1sync-options");
    let options = options.and_then(Json::as_str).unwrap_or_default();
    options.split(',').any(|item| item.trim() == option)
}

/// Lists the disks of former revisions, the newest first, that Argo CD leaves in the cluster and that are not live:
/// each once, as in its last revision.
pub fn left_over_disks(former: &[Vec<ManifestFile>], live: &LiveApp) -> Vec<Disk> {
    let mut left_over: Vec<Disk> = Vec::new();
    for files in former {
        let LiveApp { disks, staying, .. } = live_app(files).0;
        for disk in disks {
            let is_same = |other: &Disk| other.object.is_same(&disk.object);
            let is_left = staying.iter().any(|object| object.is_same(&disk.object));
            if is_left && !live.disks.iter().any(is_same) && !left_over.iter().any(is_same) {
                left_over.push(disk);
            }
        }
    }
    left_over
}

/// Lists the live disks as the oldest of the former revisions had them that have them without a gap up to now; the
/// newest come first. A disk was created like that: behind a gap it may have been deleted, and created again.
pub fn first_disks(former: &[Vec<ManifestFile>], live: &LiveApp) -> Vec<Disk> {
    let mut open_disks = live.disks.clone();
    let mut first_disks: Vec<Disk> = Vec::new();
    for files in former {
        let disks = live_app(files).0.disks;
        open_disks.retain(|live| disks.iter().any(|disk| disks::is_same(disk, live)));
        let older = disks
            .into_iter()
            .filter(|disk| open_disks.iter().any(|open| disks::is_same(open, disk)));
        for disk in older {
            first_disks.retain(|found_disk| !disks::is_same(found_disk, &disk));
            first_disks.push(disk);
        }
    }
    first_disks
}

fn read<T>(files: &[ManifestFile], mut take: impl FnMut(&Node, &mut Vec<T>)) -> ReadFiles<T> {
    let mut result = ReadFiles { found: Vec::new(), unreadable: Vec::new() };
    for file in files {
        let text = std::str::from_utf8(&file.bytes).ok().filter(|t| t.len() <= BUDGET.bytes);
        match text.and_then(|text| yaml::parse_stream(&file.name, text, &BUDGET).ok()) {
            Some(documents) => documents.iter().for_each(|node| take(node, &mut result.found)),
            None => result.unreadable.push(file.name.clone()),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> ManifestFile {
        ManifestFile { name: name.to_owned(), bytes: text.as_bytes().to_vec() }
    }

    #[test]
    fn objects_are_known_by_version_kind_and_name() {
        let files = [
            file("a.yaml", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\n"),
            file("b.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n---\nkind: X\n"),
            file("c.yaml", "a: [\n"),
            file("d.yaml", ""),
            ManifestFile { name: "e.yaml".to_owned(), bytes: vec![0xff] },
        ];
        let (app, unreadable) = live_app(&files);
        let lines: Vec<_> = app
            .objects
            .iter()
            .map(|o| format!("{} {} {}", o.api_version, o.kind, o.name))
            .collect();
        assert_eq!(lines, ["apps/v1 StatefulSet db", "v1 Service a"]);
        assert_eq!(unreadable, ["c.yaml", "e.yaml"]);
    }

    #[test]
    fn what_counts_beside_the_name_is_read_in_our_files_too() {
        let manifest = |kind: &str, rest: &str| {
            format!("apiVersion: apps/v1\nkind: {kind}\nmetadata:\n  name: shop\n{rest}")
        };
        let options = "  annotations:\n    argocd.argoproj.io/sync-options: Prune=false\n";
        let target = "spec:\n  scaleTargetRef: {name: shop}\n";
        let files = [
            file("a.yaml", &manifest("Service", "spec: {replicas: 3}\n")),
            file("b.yaml", &manifest("Deployment", "spec: {replicas: 3}\n")),
            file("c.yaml", &manifest("ScaledObject", target)),
            file("d.yaml", &manifest("PersistentVolumeClaim", "spec: {}\n")),
            file("e.yaml", &manifest("Job", options)),
        ];
        let (app, unreadable) = live_app(&files);
        assert!(unreadable.is_empty());
        assert_eq!((app.objects.len(), app.replicas.len(), app.disks.len()), (5, 1, 1));
        assert_eq!(app.autoscaled, [("Deployment".to_owned(), "shop".to_owned())]);
        assert_eq!(app.staying.iter().map(|object| &*object.kind).collect::<Vec<_>>(), ["Job"]);
        assert!(plain_object(&files[0].bytes).is_some());
        assert!(files[1..].iter().all(|file| plain_object(&file.bytes).is_none()));
    }
}
