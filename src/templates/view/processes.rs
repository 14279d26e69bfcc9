//! Processes beside the one that the app's Services lead to: pods of their own with the app's image.
//!
//! Their pods have a name label of their own, `SLUG.PROCESS`, as those of jobs have: what selects the app's pods does not
//! find them.

use serde_json::{Map, Value as Json, json};

use crate::manifests::APP_LABEL;
use crate::templates::view::pod::{self, list};
use crate::templates::view::{ProcessSettings, ViewInput, build_context, labels_with, naming};

/// The parts of an app's view that each process has too, made of the settings of the process.
const PARTS: [&str; 19] = [
    "annotations",
    "args",
    "autoscaling",
    "command",
    "configMaps",
    "disruption",
    "env",
    "image",
    "initContainers",
    "lifecycle",
    "monitoring",
    "ports",
    "probes",
    "resources",
    "scaledObject",
    "secrets",
    "security",
    "sidecars",
    "volumes",
];

/// Shows the processes of an app; null without any.
pub(super) fn build_processes_view(input: ViewInput<'_>, app: &Json) -> Json {
    list(input.processes.iter().map(|process| show(process, input, app)).collect())
}

fn show(process: &ProcessSettings, input: ViewInput<'_>, app: &Json) -> Json {
    let ProcessSettings { name, section, tree } = process;
    let slug = input.waml.app.slug.as_str();
    let mut whole = build_context(ViewInput { section, tree, processes: &[], ..input });
    let mut view: Map<String, Json> =
        PARTS.iter().filter_map(|part| Some(((*part).to_owned(), whole.remove(*part)?))).collect();
    let mut scaling = whole.remove("scaling").unwrap_or_default();
    if let Some(scaling) = scaling.as_object_mut()
        && !section.is_autoscaled()
        && scaling.get("replicas").is_none_or(Json::is_null)
    {
        scaling.insert("replicas".to_owned(), json!(1));
    }
    let label = naming::join_name(slug, name);
    let mut app = app.clone();
    if let Some(app) = app.as_object_mut() {
        app.insert("slug".to_owned(), json!(label));
        app.insert("workload".to_owned(), json!(naming::version_workload(slug, name)));
    }
    for (key, value) in [
        ("name", json!(name)),
        ("app", app),
        ("labels", labels_with(section, APP_LABEL, slug)),
        ("scaling", scaling),
        ("scheduling", pod::scheduling(section, &label, input.target)),
    ] {
        view.insert(key.to_owned(), value);
    }
    Json::Object(view)
}
