//! READING BACK: what manifests in the repository say of hosts, paths and objects.
//!
//! The files may be anybody's: another version of us, another tool, a person with an editor. What
//! cannot be read is left out and named, and never a fault.

pub mod application; // whose an app is
mod rule; // Traefik's rules
pub mod routes; // hosts and paths of routing objects

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use crate::pipeline::reading::rule::fuzz as fuzz_rule;

use crate::model::facts::LiveObject;
use crate::model::revision::ManifestFile;
use crate::waml::node::Node;
use crate::waml::yaml::{self, Budget};

/// Ours have some kilobytes; a dashboard in a `ConfigMap` may have more than a WAML.
const BUDGET: Budget = Budget { bytes: 1 << 20, nodes: 100_000, text: 4 << 20, depth: 64 };

/// What was read, and the names of the files that could not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read<T> {
    /// What was read.
    pub found: Vec<T>,
    /// The files that are no YAML.
    pub unreadable: Vec<String>,
}

/// The objects of an app's files.
pub fn objects(files: &[ManifestFile]) -> Read<LiveObject> {
    read(files, |node, found| {
        let text = |node: Option<&Node>| node.and_then(Node::as_text).map(str::to_owned);
        let name = node.get("metadata").and_then(|metadata| metadata.get("name"));
        let object = (text(node.get("apiVersion")), text(node.get("kind")), text(name));
        if let (Some(api_version), Some(kind), Some(name)) = object {
            found.push(LiveObject { api_version, kind, name });
        }
    })
}

fn read<T>(files: &[ManifestFile], mut take: impl FnMut(&Node, &mut Vec<T>)) -> Read<T> {
    let mut read = Read { found: Vec::new(), unreadable: Vec::new() };
    for file in files {
        let text = std::str::from_utf8(&file.bytes).ok().filter(|t| t.len() <= BUDGET.bytes);
        match text.and_then(|text| yaml::parse_stream(&file.name, text, &BUDGET).ok()) {
            Some(documents) => documents.iter().for_each(|node| take(node, &mut read.found)),
            None => read.unreadable.push(file.name.clone()),
        }
    }
    read
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
        let Read { found, unreadable } = objects(&files);
        let shown: Vec<_> =
            found.iter().map(|o| format!("{} {} {}", o.api_version, o.kind, o.name)).collect();
        assert_eq!(shown, ["apps/v1 StatefulSet db", "v1 Service a"]);
        assert_eq!(unreadable, ["c.yaml", "e.yaml"]);
    }
}
