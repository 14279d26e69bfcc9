//! The disks in manifests, and the changes of a live disk that are impossible.
//!
//! Kubernetes lets a claim grow and refuses every other change of it, and so does a cloud with its databases. Argo CD
//! would then fail with each sync of the app, whatever is deployed next. The plans of deployments and rollbacks compare
//! disks here.

use serde_json::Value as Json;

use crate::manifests::object::live_object;
use crate::manifests::quantity::Quantity;
use crate::model::facts::Disk;

/// The kinds of objects that ask for disks.
pub(crate) const KINDS: [&str; 3] = ["PersistentVolumeClaim", "StatefulSet", "SQLInstance"];

/// Checks that a file of that name can have an object with a disk, by the service's names of files. A person put a file
/// of any other name there.
pub(crate) fn may_contain_disks(file: &str) -> bool {
    KINDS.iter().any(|kind| file.starts_with(kind.to_ascii_lowercase().as_str()))
}

/// The reason why a live disk cannot become the wanted one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// The key of the disk that conflicts.
    pub(crate) field: DiskField,
    /// The change and the reason of the refusal.
    pub(crate) message: String,
    /// True if nothing live changes, and the disk in the cluster may be the wanted one.
    pub(crate) may_be_same: bool,
}

/// The compared part of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiskField {
    /// The size.
    Size,
    /// The storage class.
    Class,
    /// The access modes.
    AccessModes,
}

/// Reads the disks of an object; none for a kind without disks.
pub(crate) fn read_disks(json: &Json) -> Vec<Disk> {
    let Some(object) = live_object(json) else { return Vec::new() };
    let claim = |template: Option<String>, spec: &Json| {
        let size = spec.pointer("/resources/requests/storage").map(text).unwrap_or_default();
        let class = spec.get("storageClassName").and_then(Json::as_str).map(str::to_owned);
        let modes = spec.get("accessModes").and_then(Json::as_array).into_iter().flatten();
        let mut access_modes: Vec<String> = modes.map(text).collect();
        access_modes.sort_unstable();
        Disk { object: object.clone(), template, size, class, access_modes }
    };
    match (object.kind.as_str(), json.get("spec")) {
        ("PersistentVolumeClaim", Some(spec)) => vec![claim(None, spec)],
        ("StatefulSet", Some(spec)) => {
            let templates = spec.get("volumeClaimTemplates").and_then(Json::as_array);
            let templates_as_disks = templates.into_iter().flatten().filter_map(|template| {
                let name = template.pointer("/metadata/name")?.as_str()?.to_owned();
                Some(claim(Some(name), template.get("spec")?))
            });
            templates_as_disks.collect()
        }
        ("SQLInstance", Some(spec)) => {
            let gigabytes = spec.pointer("/settings/diskSize").and_then(Json::as_u64);
            let size = gigabytes.map(|size| format!("{size}G"));
            let disk = |size| Disk {
                object: object.clone(),
                template: None,
                size,
                class: None,
                access_modes: Vec::new(),
            };
            size.map(disk).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn text(json: &Json) -> String {
    json.as_str().map_or_else(|| json.to_string(), str::to_owned)
}

/// Checks that two are one disk in a cluster.
pub(crate) fn is_same(one: &Disk, other: &Disk) -> bool {
    let (object, of) = (&one.object, &other.object);
    (&object.kind, &object.name, &one.template) == (&of.kind, &of.name, &other.template)
}

/// Lists everything that speaks against the wanted disks in the place of the live ones, each with
/// the wanted disk. A disk that is new or gone is no conflict. `first` has disks as they were made,
/// where that is known: a class that was set later Kubernetes has refused, and taking it out again
/// is no change.
pub(crate) fn conflicts<'a>(
    live: &[Disk],
    first: &[Disk],
    planned: &'a [Disk],
) -> Vec<(&'a Disk, Conflict)> {
    let conflicts_of = |new: &'a Disk| {
        let old = live.iter().find(|disk| is_same(disk, new));
        let created = first.iter().find(|disk| is_same(disk, new));
        let conflicts = old.map_or(Vec::new(), |old| compare(old, created.unwrap_or(old), new));
        conflicts.into_iter().map(move |conflict| (new, conflict))
    };
    planned.iter().flat_map(conflicts_of).collect()
}

fn compare(live: &Disk, created: &Disk, planned: &Disk) -> Vec<Conflict> {
    let mut conflicts = Vec::new();
    let mut add = |field, change: String, why: &str, may_be_same| {
        let message = format!("{} {change}: {why}", describe_disk(planned));
        conflicts.push(Conflict { field, message, may_be_same });
    };
    let sizes = (Quantity::parse(&live.size), Quantity::parse(&planned.size));
    if let (Some(old), Some(new)) = sizes {
        let resized = format!("from {} to {}", live.size, planned.size);
        if new < old {
            add(DiskField::Size, format!("would shrink {resized}"), shrink_advice(live), false);
        } else if new > old && live.template.is_some() {
            add(DiskField::Size, format!("would grow {resized}"), TEMPLATE, false);
        }
    }
    let class_of = |disk: &Disk| {
        disk.class.as_ref().map_or("the cluster's own".to_owned(), |class| format!("`{class}`"))
    };
    if planned.class == created.class {
        // As it is in the cluster, whatever the last deployment asked for.
    } else if planned.class == live.class {
        let change = format!(
            "asks for the storage class {}, and was made with {}",
            class_of(planned),
            class_of(created)
        );
        add(DiskField::Class, change, "unless both are the same, the app does not sync", true);
    } else if created.class.is_none() {
        let change = format!("would get the storage class {}", class_of(planned));
        add(DiskField::Class, change, DEFAULT_CLASS, false);
    } else {
        let change = format!(
            "would change its storage class from {} to {}",
            class_of(created),
            class_of(planned)
        );
        add(DiskField::Class, change, NEVER, false);
    }
    if live.access_modes != planned.access_modes {
        let (old, new) = (live.access_modes.join(", "), planned.access_modes.join(", "));
        let change = format!("would change its access mode from {old} to {new}");
        add(DiskField::AccessModes, change, NEVER, false);
    }
    conflicts
}

const NEVER: &str =
    "Kubernetes never changes that of an existing disk, and the app would not sync again";
const DEFAULT_CLASS: &str = "it was made without one, so it has the cluster's default for good; Kubernetes refuses to \
     set it, and the app would not sync again";
const TEMPLATE: &str =
    "Kubernetes never changes a StatefulSet's claim templates, and the app would not sync again";

fn shrink_advice(disk: &Disk) -> &'static str {
    if disk.object.kind == "SQLInstance" {
        "a database's disk never gets smaller, and the app would not sync again"
    } else {
        "Kubernetes never makes a disk smaller, and the app would not sync again"
    }
}

/// Describes the disk by its object, and by the claim template where it is one of several.
pub(crate) fn describe_disk(disk: &Disk) -> String {
    let Disk { object, template, .. } = disk;
    let part =
        template.as_ref().map_or(String::new(), |name| format!(", claim template `{name}`,"));
    format!("{} `{}`{part}", object.kind, object.name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(size: &str, class: Option<&str>, mode: &str) -> Vec<Disk> {
        let mut spec = json!({"accessModes": [mode], "resources": {"requests": {"storage": size}}});
        if let Some(class) = class {
            spec["storageClassName"] = class.into();
        }
        read_disks(&json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
            "spec": spec,
        }))
    }

    fn list_conflicts(live: &[Disk], planned: &[Disk]) -> Vec<String> {
        conflicts(live, &[], planned).into_iter().map(|(_, conflict)| conflict.message).collect()
    }

    #[test]
    fn a_claim_grows_and_nothing_else() {
        let live = claim("10Gi", Some("fast"), "ReadWriteOnce");
        assert!(list_conflicts(&live, &claim("10240Mi", Some("fast"), "ReadWriteOnce")).is_empty());
        assert!(list_conflicts(&live, &claim("20Gi", Some("fast"), "ReadWriteOnce")).is_empty());
        let messages = list_conflicts(&live, &claim("5Gi", None, "ReadWriteMany"));
        assert_eq!(
            messages,
            [
                "PersistentVolumeClaim `data` would shrink from 10Gi to 5Gi: Kubernetes never makes a disk smaller, and the app would not sync again",
                "PersistentVolumeClaim `data` would change its storage class from `fast` to the cluster's own: Kubernetes never changes that of an existing disk, and the app would not sync again",
                "PersistentVolumeClaim `data` would change its access mode from ReadWriteOnce to ReadWriteMany: Kubernetes never changes that of an existing disk, and the app would not sync again",
            ]
        );
    }

    #[test]
    fn a_class_is_not_set_later_and_taking_it_out_again_is_no_change() {
        let with = |class: Option<&str>| claim("1Gi", class, "ReadWriteOnce");
        let list = |live: Option<&str>, first: Option<Option<&str>>, planned: Option<&str>| {
            let first = first.map_or(Vec::new(), with);
            let planned = with(planned);
            let conflicts = conflicts(&with(live), &first, &planned).into_iter();
            conflicts
                .map(|(_, conflict)| (conflict.may_be_same, conflict.message))
                .collect::<Vec<_>>()
        };
        let conflicts = list(None, None, Some("fast"));
        assert!(conflicts.len() == 1 && !conflicts[0].0, "{conflicts:?}");
        assert!(
            conflicts[0].1.contains("would get the storage class `fast`: it was made without one"),
            "{conflicts:?}"
        );
        // It was set later, by an older version or by hand: the app does not sync until it is out again.
        assert_eq!(list(Some("fast"), Some(None), None), []);
        let conflicts = list(Some("fast"), Some(None), Some("fast"));
        assert!(conflicts.len() == 1 && conflicts[0].0, "{conflicts:?}");
        assert!(!list(Some("fast"), Some(None), Some("slow"))[0].0);
        // Made with it: only that one is right.
        assert_eq!(list(Some("fast"), Some(Some("fast")), Some("fast")), []);
        assert!(!list(Some("fast"), Some(Some("fast")), None)[0].0);
        assert_eq!(list(None, Some(Some("fast")), Some("fast")), []);
    }

    #[test]
    fn claim_templates_stay_and_databases_only_grow() {
        let set = |size: &str| {
            read_disks(&json!({
                "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
                "spec": {"volumeClaimTemplates": [{
                    "metadata": {"name": "data"},
                    "spec": {"resources": {"requests": {"storage": size}}},
                }]},
            }))
        };
        assert!(
            list_conflicts(&set("1Gi"), &set("2Gi"))[0]
                .contains("claim template `data`, would grow")
        );
        assert!(list_conflicts(&set("1Gi"), &set("1024Mi")).is_empty());
        let sql = |size: u64| {
            read_disks(&json!({
                "apiVersion": "sql.cnrm.cloud.google.com/v1beta1", "kind": "SQLInstance",
                "metadata": {"name": "db"}, "spec": {"settings": {"diskSize": size}},
            }))
        };
        assert!(list_conflicts(&sql(20), &sql(10))[0].contains("never gets smaller"));
        assert!(list_conflicts(&sql(10), &sql(20)).is_empty());
    }

    #[test]
    fn another_disk_is_no_conflict() {
        let live = claim("10Gi", None, "ReadWriteOnce");
        let mut other = claim("1Gi", None, "ReadWriteOnce");
        other[0].object.name = "other".to_owned();
        assert!(list_conflicts(&live, &other).is_empty());
        assert!(
            read_disks(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}))
                .is_empty()
        );
    }
}
