//! The workloads of an app's files: by what a cluster shows that they run.

use serde_json::Value as Json;

use crate::manifests::parse::read;
use crate::model::revision::ManifestFile;
use crate::waml::scalar::read_untyped;

/// A workload in a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestWorkload {
    /// `Deployment`
    pub kind: String,
    /// The namespace, if the manifest has one.
    pub namespace: Option<String>,
    /// `my-app`
    pub name: String,
    /// `spec.replicas`, if the manifest has it.
    pub replicas: Option<u32>,
    /// The digest of its revision, as the service writes it on each workload.
    pub digest: Option<String>,
}

/// The annotation that has the digest.
const DIGEST: &str = "/metadata/annotations/the-deployer.dev~1digest";

/// Lists the workloads that carry a digest. Unreadable files have none.
pub fn read_workloads(files: &[ManifestFile]) -> Vec<ManifestWorkload> {
    let objects = read(files, |node, objects| objects.push(read_untyped(node))).found;
    objects.iter().filter_map(workload).filter(|workload| workload.digest.is_some()).collect()
}

fn workload(object: &Json) -> Option<ManifestWorkload> {
    let text = |pointer: &str| Some(object.pointer(pointer)?.as_str()?.to_owned());
    let replicas = object.pointer("/spec/replicas").and_then(Json::as_u64);
    Some(ManifestWorkload {
        kind: text("/kind")?,
        namespace: text("/metadata/namespace"),
        name: text("/metadata/name")?,
        replicas: replicas.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
        digest: text(DIGEST),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> ManifestFile {
        ManifestFile { name: name.to_owned(), bytes: text.as_bytes().to_vec() }
    }

    #[test]
    fn workloads_are_those_with_a_digest() {
        let web = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  \
                   namespace: devx\n  annotations:\n    the-deployer.dev/digest: sha256:1\n\
                   spec:\n  replicas: 3\n";
        let service = "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n";
        let broken = "{{";
        let files = [file("web.yaml", web), file("service.yaml", service), file("x.yaml", broken)];
        let web = ManifestWorkload {
            kind: "Deployment".to_owned(),
            namespace: Some("devx".to_owned()),
            name: "web".to_owned(),
            replicas: Some(3),
            digest: Some("sha256:1".to_owned()),
        };
        assert_eq!(read_workloads(&files), vec![web]);
    }
}
