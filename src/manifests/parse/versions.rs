//! The live versions of an app, as its Deployments show them.

use serde_json::Value as Json;

use crate::manifests::parse::read;
use crate::model::revision::ManifestFile;
use crate::waml::scalar::read_untyped;

/// A version in a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveVersionManifest {
    /// The name of the Deployment, and of the version's Service.
    pub name: String,
    /// The name of the version.
    pub version: String,
    /// The image of its first container.
    pub image: String,
    /// `spec.replicas`, if the manifest has it.
    pub replicas: Option<u32>,
}

/// Lists the Deployments that carry the label of a version. Unreadable files have none.
pub fn read_versions(files: &[ManifestFile]) -> Vec<LiveVersionManifest> {
    let objects = read(files, |node, objects| objects.push(read_untyped(node))).found;
    objects.iter().filter_map(version).collect()
}

fn version(object: &Json) -> Option<LiveVersionManifest> {
    let text = |pointer: &str| Some(object.pointer(pointer)?.as_str()?.to_owned());
    if text("/kind")? != "Deployment" {
        return None;
    }
    let replicas = object.pointer("/spec/replicas").and_then(Json::as_u64);
    Some(LiveVersionManifest {
        name: text("/metadata/name")?,
        version: text("/metadata/labels/the-deployer.dev~1version")?,
        image: text("/spec/template/spec/containers/0/image").unwrap_or_default(),
        replicas: replicas.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_deployments_with_the_label() {
        let file =
            |text: &str| ManifestFile { name: "f".to_owned(), bytes: text.as_bytes().to_vec() };
        let version = "kind: Deployment\nmetadata: {name: a-v1, labels: {the-deployer.dev/version: v1}}\n\
                       spec: {replicas: 3, template: {spec: {containers: [{image: 'i:1'}]}}}\n";
        let plain = "kind: Deployment\nmetadata: {name: a}\nspec: {replicas: 3}\n";
        let service =
            "kind: Service\nmetadata: {name: a-v1, labels: {the-deployer.dev/version: v1}}\n";
        let versions = read_versions(&[file(version), file(plain), file(service), file("{{")]);
        let expected = LiveVersionManifest {
            name: "a-v1".to_owned(),
            version: "v1".to_owned(),
            image: "i:1".to_owned(),
            replicas: Some(3),
        };
        assert_eq!(versions, [expected]);
    }
}
