//! The files of a set of manifests: one object each, named by kind, with the digest over all of them.

use serde_json::{Map, Value as Json};
use sha2::{Digest as _, Sha256};

use crate::manifests::OUR_PREFIX;
use crate::manifests::object::{BUDGET, Object, map_or_insert, read_object};
use crate::model::id::AppKey;
use crate::model::revision::{Digest, ManifestFile};
use crate::waml::{emit, yaml};

/// Kinds that run pods: they carry the digest.
const WORKLOADS: [&str; 6] =
    ["Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job", "Rollout"];

/// Gives each object one file, named by its kind; where a kind is there more than once, the one
/// that has the app's name keeps the short name.
pub(crate) fn name_files(objects: Vec<Object>, app: &AppKey) -> Vec<(String, Object)> {
    let short_names = name_by_kind(&objects, app);
    let names = disambiguate(&short_names, &objects);
    let mut named_objects: Vec<_> =
        short_names.into_iter().zip(names.into_iter().zip(objects)).collect();
    named_objects.sort_by(|(a, _), (b, _)| a.cmp(b));
    named_objects.into_iter().map(|(_, named_object)| named_object).collect()
}

/// Returns the names of the objects' files, in the order of the objects.
pub(crate) fn file_names(objects: &[Object], app: &AppKey) -> Vec<String> {
    disambiguate(&name_by_kind(objects, app), objects)
}

fn name_by_kind(objects: &[Object], app: &AppKey) -> Vec<String> {
    let kinds: Vec<String> =
        objects.iter().map(|object| object.kind().to_ascii_lowercase()).collect();
    let is_only = |kind: &str| kinds.iter().filter(|other| *other == kind).count() == 1;
    let name = |(object, kind): (&Object, &String)| {
        let short = is_only(kind) || object.name() == app.slug.as_str();
        if short { format!("{kind}.yaml") } else { format!("{kind}-{}.yaml", object.name()) }
    };
    objects.iter().zip(&kinds).map(name).collect()
}

/// Distinguishes the files of objects of the same kind and name in two API groups by the group.
fn disambiguate(names: &[String], objects: &[Object]) -> Vec<String> {
    let full_name = |(name, object): (&String, &Object)| {
        let group = object.text(["apiVersion", ""]).split('/').next().unwrap_or_default();
        if names.iter().filter(|other| *other == name).count() > 1 {
            format!("{}.{group}.yaml", name.trim_end_matches(".yaml"))
        } else {
            name.clone()
        }
    };
    names.iter().zip(objects).map(full_name).collect()
}

/// Makes the digest over names, lengths and bytes, so that no two sets of files look alike.
pub(crate) fn digest<'a>(files: impl Iterator<Item = (&'a str, &'a String)>) -> Digest {
    let mut hash = Sha256::new();
    for (name, text) in files {
        hash.update(name.as_bytes());
        hash.update([0]);
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    }
    Digest(format!("sha256:{}", hex::encode(hash.finalize())))
}

/// Computes the digest of a fleet: over the names of its clusters and their digests.
pub fn digest_of_fleet<'a>(clusters: impl Iterator<Item = (&'a str, &'a Digest)>) -> Digest {
    let mut hash = Sha256::new();
    for (cluster, digest) in clusters {
        hash.update(format!("{cluster} {digest}\n"));
    }
    Digest(format!("sha256:{}", hex::encode(hash.finalize())))
}

/// Computes the digest of files that were read back from a manifest repository: the same as at rendering. `None` when
/// there are none, or the service did not write them.
pub fn digest_of(files: &[ManifestFile]) -> Option<Digest> {
    let named_objects = read_back(files)?;
    let texts: Vec<String> =
        named_objects.iter().map(|(_, object)| emit::map(&object.json)).collect();
    let files = named_objects.iter().map(|(name, _)| name.as_str()).zip(&texts);
    (!named_objects.is_empty()).then(|| digest(files))
}

/// Reads the objects of rendered files, without the digest; `None` when the service did not write them.
pub(crate) fn read_back(files: &[ManifestFile]) -> Option<Vec<(String, Object)>> {
    let mut named_objects = Vec::new();
    for file in files {
        let text = std::str::from_utf8(&file.bytes).ok()?;
        let documents = yaml::parse_stream(&file.name, text, &BUDGET).ok()?;
        let mut object = read_object(&file.name, documents.first()?).ok()?;
        remove_digest(&mut object);
        named_objects.push((file.name.clone(), object));
    }
    Some(named_objects)
}

/// Removes the digest, so that the rest is the digest's input.
fn remove_digest(object: &mut Object) {
    let Some(metadata) = object.json.get_mut("metadata").and_then(Json::as_object_mut) else {
        return;
    };
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Json::as_object_mut) {
        annotations.shift_remove(&format!("{OUR_PREFIX}digest"));
    }
    drop_empty_annotations(metadata);
}

/// Takes annotations away that have nothing in them.
pub(crate) fn drop_empty_annotations(metadata: &mut Map<String, Json>) {
    let empty = |annotations: &Json| annotations.as_object().is_some_and(Map::is_empty);
    if metadata.get("annotations").is_some_and(empty) {
        metadata.shift_remove("annotations");
    }
}

/// Writes the file of an object that reads `text`. A workload gets the digest, on its own metadata:
/// on the pod template it would restart pods.
pub(crate) fn write_file(
    name: String,
    mut object: Object,
    text: String,
    digest: &Digest,
) -> ManifestFile {
    if !WORKLOADS.contains(&object.kind()) {
        return ManifestFile { name, bytes: text.into_bytes() };
    }
    let annotations = map_or_insert(map_or_insert(&mut object.json, "metadata"), "annotations");
    annotations.insert(format!("{OUR_PREFIX}digest"), digest.to_string().into());
    ManifestFile { name, bytes: emit::map(&object.json).into_bytes() }
}
