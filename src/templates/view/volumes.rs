//! Volumes: disks, files, empty folders.

use serde_json::{Map, Value as Json, json};
use sha2::{Digest as _, Sha256};

use crate::manifests::OUR_PREFIX;
use crate::templates::view::{naming, pod};
use crate::waml::section::Section;
use crate::waml::section_workload::{AccessMode, Volume};

/// Builds the volumes, each with `claim` where it is a disk and `files` where it is files, and the
/// object's name in it; and after them the folders that stay writable. Null without any.
pub(super) fn build_volumes_view(section: &Section, slug: &str) -> Json {
    let volumes = section.volumes.iter().flatten().map(|volume| view(volume, slug));
    let all: Vec<Json> = volumes.chain(pod::writable_folders(section)).collect();
    if all.is_empty() { Json::Null } else { Json::Array(all) }
}

fn view(volume: &Volume, slug: &str) -> Json {
    let Volume { name, mount_path, size, storage_class, access_mode, files, read_only } = volume;
    let mode = access_mode.unwrap_or_default();
    let object = naming::join_name(slug, name);
    let claim = size.as_ref().map(|size| {
        json!({"name": object, "size": size, "accessMode": mode, "storageClass": storage_class})
    });
    let never_written = files.is_some() || (size.is_some() && mode == AccessMode::ReadOnlyMany);
    json!({
        "name": name,
        "mountPath": mount_path,
        "readOnly": never_written || read_only.unwrap_or(false),
        "claim": claim,
        "files": files.as_ref().map(|files| json!({"name": object, "content": files})),
    })
}

/// Lists the disks for a workload whose pods each have their own; null without any.
pub(super) fn claims(section: &Section) -> Json {
    let disks = section.volumes.iter().flatten().filter_map(|volume| {
        let size = volume.size.as_ref()?;
        Some(json!({
            "name": volume.name,
            "size": size,
            "accessMode": volume.access_mode.unwrap_or_default(),
            "storageClass": volume.storage_class,
        }))
    });
    pod::list(disks.collect())
}

/// Collects the pods' annotations: those of the WAML, and a digest of all files, so that pods are
/// replaced when a file has changed. Null where there are none.
pub(super) fn annotations(section: &Section) -> Json {
    let mut annotation_values: Map<String, Json> = Map::new();
    for (key, value) in section.annotations.iter().flatten() {
        annotation_values.extend(value.as_ref().map(|value| (key.clone(), json!(value))));
    }
    let digest = digest(section.volumes.as_deref().unwrap_or_default());
    annotation_values.extend(digest.map(|digest| (format!("{OUR_PREFIX}files"), json!(digest))));
    if annotation_values.is_empty() { Json::Null } else { Json::Object(annotation_values) }
}

fn digest(volumes: &[Volume]) -> Option<String> {
    let with_files: Vec<_> = volumes.iter().filter(|volume| volume.files.is_some()).collect();
    if with_files.is_empty() {
        return None;
    }
    // JSON keeps names and contents apart, whatever is in them.
    let files: Vec<_> =
        with_files.iter().map(|volume| json!([volume.name, volume.files])).collect();
    Some(format!("sha256:{}", hex::encode(Sha256::digest(json!(files).to_string()))))
}
