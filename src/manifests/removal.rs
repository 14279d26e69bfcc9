//! The effects of a removal of an app from a target, or of a rollback, read from the existing files.
//!
//! It decides nothing: it lists the objects that keep data, and an object that it cannot read counts as one.

use serde_json::Value as Json;

use crate::manifests::argocd::application::FINALIZER;
use crate::manifests::handover::{HandoverFault, TrafficObjects, handover_faults};
use crate::manifests::parse::application::AppOwner;
use crate::manifests::untyped::parse_documents;
use crate::manifests::{disks, files, parse};
use crate::model::facts::{Disk, LiveApp, LiveObject, LiveReplicas};
use crate::model::removal::RemovedObjects;
use crate::model::revision::ManifestFile;
use crate::model::stateful;

/// Says of an unknown kind that it keeps data: a claim's template, or a size of storage.
const STORAGE: [&str; 3] = ["storage", "volumeClaimTemplate", "volumeClaimTemplates"];

/// Plans the removal of these files: `latest`, the Application, and every path of the app.
pub fn plan_removal(
    latest: &[ManifestFile],
    application: Option<&[u8]>,
    files: Vec<String>,
) -> RemovedObjects {
    let mut contents =
        RemovedObjects { files, digest: files::digest_of(latest), ..RemovedObjects::default() };
    for file in latest {
        for (object, keeps_data) in objects(file) {
            contents.keeps_data.extend(keeps_data.then(|| object.clone()));
            contents.objects.push(object);
        }
    }
    contents.notes.extend(describe_kept_objects(&list_kept_objects(latest)));
    let application = application.and_then(|bytes| parse_documents(bytes)?.pop());
    contents.repository =
        application.as_ref().and_then(|application| AppOwner::read(application).repository);
    contents.notes.extend(note(application.as_ref()));
    contents
}

/// The losses and conflicts when other files take the place of `latest`, as in a rollback.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replacement {
    /// Objects that keep data, or may keep data, and that the other files do not have.
    pub loses: Vec<LiveObject>,
    /// The reasons why disks of the other files cannot take the place of the live ones, one sentence each.
    pub refused: Vec<String>,
    /// Changes between plain and a canary that would leave the app without a Service or pods for a while.
    pub handovers: Vec<HandoverFault>,
    /// Workloads that would go down to one pod, one sentence each.
    pub fewer_pods: Vec<String>,
    /// The notes for a person, one sentence each.
    pub notes: Vec<String>,
}

/// Finds the effects of `then` in the place of `latest`. The former revisions, the newest first, show how disks were
/// created.
pub fn replacement(
    latest: &[ManifestFile],
    then: &[ManifestFile],
    former: &[Vec<ManifestFile>],
) -> Replacement {
    let (target_state, _) = parse::live_app(then);
    let stays = |object: &LiveObject| {
        target_state.objects.iter().any(|object_kept| object_kept.is_same(object))
    };
    // A file that is the same to the byte loses nothing, even if it cannot be read.
    let changed_files = latest.iter().filter(|file| !then.contains(file));
    let lost_objects =
        changed_files.flat_map(objects).filter(|(object, keeps)| *keeps && !stays(object));
    let loses = lost_objects.map(|(object, _)| object).collect();
    let (live, _) = parse::live_app(latest);
    let first = parse::first_disks(former, &live);
    let conflicts = disks::conflicts(&live.disks, &first, &target_state.disks).into_iter();
    let certain = conflicts.filter(|(_, conflict)| !conflict.may_be_same);
    let refused = certain.map(|(_, conflict)| conflict.message).collect();
    let traffic = TrafficObjects::of_live;
    let handovers = handover_faults(&traffic(&live), &traffic(&target_state));
    let is_flaggers = |object: &LiveObject| {
        matches!(object.kind.as_str(), "Service" | "HTTPRoute")
            && target_state.canaries.iter().any(|canary| canary.service == object.name)
    };
    let staying_objects =
        live.staying.iter().filter(|object| !stays(object) && !is_flaggers(object));
    let mut notes: Vec<String> = describe_kept_objects(staying_objects).into_iter().collect();
    notes.extend(list_returning_disks(&live, &target_state));
    let fewer_pods = fewer_pods(&live, &target_state);
    Replacement { loses, refused, handovers, fewer_pods, notes }
}

/// Lists disks that are not live and come back: Argo CD left them in the cluster.
fn list_returning_disks(live: &LiveApp, target_state: &LiveApp) -> Vec<String> {
    let is_left = |disk: &&Disk| {
        let is_it = |object: &LiveObject| object.is_same(&disk.object);
        target_state.staying.iter().any(is_it) && !live.objects.iter().any(is_it)
    };
    let note = |disk: &Disk| {
        format!(
            "{} comes back with {}: if it is still in the cluster, it is mounted with the data that it has; if \
             it is larger there, Kubernetes refuses to make it smaller and the app does not sync",
            disks::describe_disk(disk),
            disk.size
        )
    };
    target_state.disks.iter().filter(is_left).map(note).collect()
}

/// Lists workloads that have a number of pods and would have none: Kubernetes goes down to one. A former revision's
/// files are never edited.
fn fewer_pods(live: &LiveApp, then: &LiveApp) -> Vec<String> {
    let is_new = |replicas: &&LiveReplicas| {
        let workload = (replicas.kind.clone(), replicas.name.clone());
        replicas.number > 1
            && then.autoscaled.contains(&workload)
            && !live.autoscaled.contains(&workload)
            && !then
                .replicas
                .iter()
                .any(|then| (&then.kind, &then.name) == (&replicas.kind, &replicas.name))
    };
    let fewer = live.replicas.iter().filter(is_new);
    fewer
        .map(|LiveReplicas { kind, name, number }| {
            format!(
                "{kind} {name} has {number} pods now, and the revision leaves the number to its autoscaler: \
                 Kubernetes may go down to 1 until that counts"
            )
        })
        .collect()
}

/// Lists the objects of a file, and of each whether it keeps data.
fn objects(file: &ManifestFile) -> Vec<(LiveObject, bool)> {
    let Some(documents) = parse_documents(&file.bytes) else {
        let unread = LiveObject {
            api_version: "?".to_owned(),
            kind: "unreadable".to_owned(),
            name: file.name.clone(),
        };
        return vec![(unread, true)];
    };
    let objects = documents.iter().filter(|document| !document.is_null());
    objects.map(|json| (read_live_object(json), keeps_data(json))).collect()
}

fn read_live_object(json: &Json) -> LiveObject {
    let text =
        |pointer: &str| json.pointer(pointer).and_then(Json::as_str).unwrap_or_default().to_owned();
    LiveObject {
        api_version: text("/apiVersion"),
        kind: text("/kind"),
        name: text("/metadata/name"),
    }
}

fn keeps_data(json: &Json) -> bool {
    let object = read_live_object(json);
    object.kind.is_empty()
        || stateful::keeps_data(&object.api_version, &object.kind)
        || json.get("spec").is_some_and(has_storage)
}

fn has_storage(json: &Json) -> bool {
    match json {
        Json::Object(map) => {
            map.iter().any(|(key, value)| STORAGE.contains(&key.as_str()) || has_storage(value))
        }
        Json::Array(list) => list.iter().any(has_storage),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => false,
    }
}

/// Lists objects that Argo CD leaves in the cluster when their app is deleted.
fn list_kept_objects(latest: &[ManifestFile]) -> Vec<LiveObject> {
    let documents = latest.iter().filter_map(|file| parse_documents(&file.bytes)).flatten();
    let kept_objects = documents.filter(|json| parse::has_sync_option(json, "Delete=false"));
    kept_objects.map(|json| read_live_object(&json)).collect()
}

/// Says that these objects stay in the cluster; `None` of none.
fn describe_kept_objects<'a>(objects: impl IntoIterator<Item = &'a LiveObject>) -> Option<String> {
    let names: Vec<String> = objects.into_iter().map(ToString::to_string).collect();
    (!names.is_empty()).then(|| {
        format!(
            "Argo CD leaves these in the cluster, with their data: {}; delete them there if they are to go",
            names.join(", ")
        )
    })
}

fn note(application: Option<&Json>) -> Option<String> {
    let finalizers = application?.pointer("/metadata/finalizers").and_then(Json::as_array);
    let deletes = finalizers
        .is_some_and(|finalizers| finalizers.iter().any(|finalizer| finalizer == FINALIZER));
    (!deletes).then(|| {
        "its Application has no finalizer (an older version wrote it): Argo CD will leave its \
         objects running in the cluster; delete them there, or deploy it once more before removing it"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    fn file(name: &str, text: &str) -> ManifestFile {
        ManifestFile { name: name.to_owned(), bytes: text.as_bytes().to_vec() }
    }

    fn list_kept_kinds(text: &str) -> Vec<String> {
        let removal = plan_removal(&[file("a.yaml", text)], None, Vec::new());
        removal.keeps_data.into_iter().map(|object| object.kind).collect()
    }

    #[test]
    fn what_keeps_data_is_named() {
        let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n";
        assert_eq!(list_kept_kinds(claim), ["PersistentVolumeClaim"]);
        let service = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: []}\n";
        assert!(list_kept_kinds(service).is_empty());
        assert_eq!(list_kept_kinds(&format!("{service}---\n{claim}")), ["PersistentVolumeClaim"]);
    }

    #[test]
    fn an_unknown_kind_with_storage_in_it_keeps_data() {
        let unknown = "apiVersion: db.example.com/v1\nkind: Db\nmetadata: {name: a}\n";
        assert_eq!(
            list_kept_kinds(&format!("{unknown}spec: {{nodes: [{{storage: 1Gi}}]}}\n")),
            ["Db"]
        );
        assert!(list_kept_kinds(&format!("{unknown}spec: {{nodes: 3}}\n")).is_empty());
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {storage: x}\n";
        assert!(list_kept_kinds(map).is_empty(), "its data is not its shape");
    }

    #[test]
    fn a_rollback_takes_out_a_class_that_was_set_later_and_sets_none() {
        let claim = |class: &str| {
            let text = format!(
                "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: data}}\nspec: {{{class}resources: {{requests: {{storage: 1Gi}}}}}}\n"
            );
            file("persistentvolumeclaim.yaml", &text)
        };
        let (bare, fast) = (claim(""), claim("storageClassName: fast, "));
        let refusals = |now, then, former: &[&ManifestFile]| {
            let former: Vec<_> = former.iter().map(|file| vec![(*file).clone()]).collect();
            replacement(from_ref(now), from_ref(then), &former).refused
        };
        assert_eq!(refusals(&fast, &bare, &[&fast, &bare]), Vec::<String>::new());
        let messages = refusals(&bare, &fast, &[&fast, &bare]);
        assert!(
            messages.len() == 1 && messages[0].contains("it was made without one"),
            "{messages:?}"
        );
        // It was taken away, and made anew with the class.
        let gap = file("service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n");
        let messages = refusals(&fast, &bare, &[&fast, &gap, &bare]);
        assert!(messages.len() == 1 && messages[0].contains("from `fast`"), "{messages:?}");
    }

    #[test]
    fn what_other_files_lose_is_named() {
        let claim = |size: &str| {
            let text = format!(
                "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: data}}\nspec: {{resources: {{requests: {{storage: {size}}}}}}}\n"
            );
            file("persistentvolumeclaim.yaml", &text)
        };
        let service = file("service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n");
        let unreadable = file("x.yaml", "a: [");
        let lost_and_refused = |latest: &[ManifestFile], then: &[ManifestFile]| {
            let Replacement { loses, refused, .. } = replacement(latest, then, &[]);
            (loses.iter().map(ToString::to_string).collect::<Vec<_>>(), refused.len())
        };
        let none_lost = Vec::<String>::new;
        let data = || vec!["PersistentVolumeClaim data".to_owned()];
        assert_eq!(
            lost_and_refused(&[claim("1Gi"), service.clone()], from_ref(&service)),
            (data(), 0)
        );
        assert_eq!(lost_and_refused(&[claim("1Gi")], &[claim("2Gi")]), (none_lost(), 0));
        assert_eq!(lost_and_refused(&[claim("2Gi")], &[claim("1Gi")]), (none_lost(), 1));
        assert_eq!(lost_and_refused(from_ref(&service), &[claim("1Gi")]), (none_lost(), 0));
        assert_eq!(
            lost_and_refused(from_ref(&unreadable), &[unreadable.clone(), service.clone()]),
            (none_lost(), 0)
        );
        assert_eq!(
            lost_and_refused(&[unreadable], &[service]),
            (vec!["unreadable x.yaml".to_owned()], 0)
        );
    }

    #[test]
    fn what_a_rollback_leaves_in_the_cluster_and_what_comes_back_is_told() {
        let claim = |options: &str| {
            let text = format!(
                "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: data, annotations: {{argocd.argoproj.io/sync-options: '{options}'}}}}\nspec: {{resources: {{requests: {{storage: 5Gi}}}}}}\n"
            );
            file("a.yaml", &text)
        };
        let service = file("s.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n");
        let notes =
            |latest: &[ManifestFile], then: &[ManifestFile]| replacement(latest, then, &[]).notes;
        let annotated = claim("Prune=false,Delete=false");
        let messages = notes(&[annotated.clone(), service.clone()], from_ref(&service));
        assert!(messages[0].starts_with("Argo CD leaves these in the cluster"), "{messages:?}");
        assert!(notes(&[claim("Delete=false"), service.clone()], from_ref(&service)).is_empty());
        let messages = notes(from_ref(&service), &[annotated.clone(), service.clone()]);
        assert!(
            messages[0].contains("`data` comes back with 5Gi: if it is still in the"),
            "{messages:?}"
        );
        assert!(notes(from_ref(&annotated), from_ref(&annotated)).is_empty());
    }

    #[test]
    fn a_number_of_pods_that_goes_is_told() {
        let deployment = |replicas: &str| {
            let text = format!(
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a}}\nspec: {{{replicas}}}\n"
            );
            file("d.yaml", &text)
        };
        let scaler = file(
            "h.yaml",
            "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: a}\nspec: {scaleTargetRef: {kind: Deployment, name: a}}\n",
        );
        let fewer =
            |now: &[ManifestFile], then: &[ManifestFile]| replacement(now, then, &[]).fewer_pods;
        let then = [deployment(""), scaler.clone()];
        assert!(fewer(&[deployment("replicas: 10")], &then)[0].contains("has 10 pods now"));
        for number in ["replicas: 1", "replicas: 0", ""] {
            assert!(fewer(&[deployment(number)], &then).is_empty(), "{number} goes up, or stays");
        }
        let with_replicas = [deployment("replicas: 10"), scaler.clone()];
        assert!(
            fewer(&[deployment("replicas: 10")], &with_replicas).is_empty(),
            "it has the number"
        );
        assert!(fewer(&with_replicas, &then).is_empty(), "it is the autoscaler's already");
    }

    #[test]
    fn what_argocd_leaves_is_told() {
        let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, annotations: {argocd.argoproj.io/sync-options: 'Prune=false,Delete=false'}}\n";
        let notes = plan_removal(&[file("a.yaml", claim)], None, Vec::new()).notes;
        assert!(
            notes[0].contains(
                "leaves these in the cluster, with their data: PersistentVolumeClaim data"
            ),
            "{notes:?}"
        );
    }

    #[test]
    fn what_cannot_be_read_may_keep_data() {
        for text in ["a: [", "\u{0}", "just text", "a: 1"] {
            assert_eq!(list_kept_kinds(text).len(), 1, "{text:?}");
        }
        let unreadable = ManifestFile { name: "a.yaml".into(), bytes: vec![0xff, 0xfe] };
        assert_eq!(plan_removal(&[unreadable], None, Vec::new()).keeps_data[0].kind, "unreadable");
    }

    #[test]
    fn the_application_says_whose_it_is_and_whether_the_cluster_is_cleared() {
        let removal_with = |finalizers: &str| {
            let text = format!(
                "metadata: {{name: a{finalizers}}}\nspec: {{info: [{{name: Owner, value: a}}, {{name: Repository, value: o/r}}]}}\n"
            );
            plan_removal(&[], Some(text.as_bytes()), Vec::new())
        };
        let with_finalizer = removal_with(&format!(", finalizers: [{FINALIZER}]"));
        assert_eq!(with_finalizer.repository.unwrap().as_str(), "o/r");
        assert!(with_finalizer.notes.is_empty());
        assert!(removal_with("").notes[0].contains("has no finalizer"));
        assert_eq!(plan_removal(&[], None, Vec::new()), RemovedObjects::default());
    }
}
