//! Two sets of manifests, compared object by object: what would be added, changed and removed.
//!
//! Objects are equal by what they say, not by how they are written. The digest does not count.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value as Json;
use similar::TextDiff;

use crate::model::revision::ManifestFile;
use crate::pipeline::render::{Object, read_back};
use crate::waml::emit;

/// Nobody reads a comparison of more lines; and comparing takes the time of their number's square.
const LONGEST: usize = 5_000;

/// One object that would not be the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Change {
    /// `Deployment`
    pub kind: String,
    /// `my-app`
    pub name: String,
    /// What would happen to it.
    pub how: How,
    /// The lines that differ, with two around them.
    pub diff: String,
}

/// What would happen to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// It would be new.
    Added,
    /// It would be another.
    Changed,
    /// It would be gone.
    Removed,
}

impl How {
    /// In a table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }
}

/// By kind, API group and name: the version of an API may change, and files be named otherwise.
pub(crate) type Objects = BTreeMap<(String, String, String), Object>;

/// The objects of files; `None` when a file is not one that we wrote.
pub(crate) fn objects(files: &[ManifestFile]) -> Option<Objects> {
    let all = read_back(files)?;
    let key = |object: &Object| {
        let version = object.text(["apiVersion", ""]);
        let group = version.rsplit_once('/').map_or("", |(group, _)| group);
        (object.kind().to_owned(), group.to_owned(), object.name().to_owned())
    };
    Some(all.into_iter().map(|(_, object)| (key(&object), object)).collect())
}

/// Whether people may read a file: it is one that we wrote, and has no Secret in it.
pub(crate) fn may_be_shown(file: &ManifestFile) -> bool {
    let objects = objects(std::slice::from_ref(file));
    objects.is_some_and(|all| all.keys().all(|(kind, _, _)| kind != "Secret"))
}

/// What would not be the same, in order, and the workloads whose pods would be replaced; the lines that
/// differ with `context` lines around them.
pub(crate) fn changes(
    before: &Objects,
    after: &Objects,
    context: usize,
) -> (Vec<Change>, Vec<String>) {
    let mut changes = Vec::new();
    let mut restarts = Vec::new();
    let keys: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    for key in keys {
        let (old, new) = (before.get(key), after.get(key));
        let how = match (old, new) {
            (None, _) => How::Added,
            (_, None) => How::Removed,
            (Some(old), Some(new)) if old.json == new.json => continue,
            _ => How::Changed,
        };
        let (kind, _, name) = key.clone();
        if let (Some(old), Some(new)) = (old, new)
            && pods(old) != pods(new)
        {
            restarts.push(format!("{kind} {name}"));
        }
        changes.push(Change { kind, name, how, diff: diff(old, new, context) });
    }
    (changes, restarts)
}

/// What makes the controller of a workload replace its pods when it changes. The pods of a
/// `CronJob` are others from the next run on.
fn pods(object: &Object) -> Option<&Json> {
    let spec = object.json.get("spec")?;
    match object.kind() {
        "Deployment" | "StatefulSet" | "DaemonSet" | "Rollout" => spec.get("template"),
        "CronJob" => spec.get("jobTemplate")?.get("spec")?.get("template"),
        _ => None,
    }
}

fn diff(old: Option<&Object>, new: Option<&Object>, context: usize) -> String {
    let text = |object: Option<&Object>| object.map_or_else(String::new, |o| emit::map(&o.json));
    let (old, new) = (text(old), text(new));
    text_diff(&old, &new, context)
}

/// The lines that differ, with `context` lines around them.
pub(crate) fn text_diff(old: &str, new: &str, context: usize) -> String {
    let lines = old.lines().count().max(new.lines().count());
    if lines > LONGEST {
        return format!("@@ too long to compare: {lines} lines @@\n");
    }
    TextDiff::from_lines(old, new).unified_diff().context_radius(context).to_string()
}
