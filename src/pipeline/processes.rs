//! The settings of an app's processes: each has the app's, with its own laid over them.
//!
//! `web` is the app itself. Another process has no Service: it keeps what shapes pods (image, environment, secrets, files,
//! rights) and loses what is about requests, about the number of pods, and about the start of the one process.

use crate::pipeline::merge::{lay_over, strip_nulls};
use crate::waml::node::{Node, Value};
use crate::waml::section_processes::WEB;

/// The parts of the app's settings that a process other than `web` has only from itself.
const NOT_SHARED: [&str; 17] = [
    "alerts",
    "args",
    "autoscaling",
    "canary",
    "command",
    "cron",
    "disruption",
    "grpc",
    "ingress",
    "jobs",
    "monitoring",
    "patches",
    "ports",
    "probes",
    "processes",
    "service",
    "slo",
];

/// What a process says, `null`s still in place.
#[derive(Debug, Clone)]
pub struct ProcessLayer {
    /// The name of the process.
    pub name: String,
    /// Its part of the merged settings.
    pub node: Node,
}

/// Lists the processes of merged settings, before `null`s are removed.
pub(super) fn layers(tree: &Node) -> Vec<ProcessLayer> {
    let processes = tree.get("processes").and_then(Node::as_map).into_iter().flatten();
    let present = processes.filter(|(_, entry)| entry.node.as_map().is_some());
    present
        .map(|(name, entry)| ProcessLayer { name: name.clone(), node: entry.node.clone() })
        .collect()
}

/// Lays what the process `web` says over the settings of the app; `None` where it says nothing.
pub(super) fn with_web(tree: &Node, layers: &[ProcessLayer], slug: &str) -> Option<Node> {
    let web = layers.iter().find(|layer| layer.name == WEB)?;
    let mut tree = tree.clone();
    lay_over(&mut tree, &web.node, slug);
    strip_nulls(&mut tree);
    Some(tree)
}

/// Makes the settings of a process other than `web` of those of the app.
pub(super) fn settings_of(tree: &Node, layer: &ProcessLayer, slug: &str) -> Node {
    let mut tree = tree.clone();
    if let Value::Map(map) = &mut tree.value {
        map.retain(|key, _| !NOT_SHARED.contains(&key.as_str()));
        if let Some(Value::Map(scaling)) = map.get_mut("scaling").map(|entry| &mut entry.node.value)
        {
            scaling.retain(|key, _| !matches!(key.as_str(), "replicas" | "keda"));
        }
        // The app's own pods may hold a disk.
        if let Some(Value::List(volumes)) =
            map.get_mut("volumes").map(|entry| &mut entry.node.value)
        {
            volumes.retain(|volume| volume.get("size").is_none());
        }
    }
    lay_over(&mut tree, &layer.node, slug);
    strip_nulls(&mut tree);
    tree
}
