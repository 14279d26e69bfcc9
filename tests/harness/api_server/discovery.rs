//! Which kinds there are, as a client asks before it names one.

use serde_json::{Value as Json, json};

use super::state::{Resource, World};

/// `/version`, `/api`, `/apis`, `/api/v1`, `/apis/GROUP` and `/apis/GROUP/VERSION`; `None` for other paths.
pub(super) fn answer(world: &World, path: &str) -> Option<Json> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["version"] => Some(json!({
            "major": "1", "minor": "33", "gitVersion": "v1.33.0", "gitCommit": "", "gitTreeState": "clean",
            "buildDate": "2026-01-01T00:00:00Z", "goVersion": "go1.24", "compiler": "gc", "platform": "linux/amd64",
        })),
        ["api"] => Some(
            json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
        ),
        ["apis"] => {
            let mut groups: Vec<&Resource> = Vec::new();
            for one in world.resources.iter().filter(|one| !one.group.is_empty()) {
                if !groups.iter().any(|other| other.group == one.group) {
                    groups.push(one);
                }
            }
            let groups: Vec<Json> = groups.into_iter().map(group).collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        ["api", "v1"] => resources(world, "", "v1"),
        ["apis", group, version] => resources(world, group, version),
        _ => None,
    }
}

fn group(one: &Resource) -> Json {
    let version =
        json!({"groupVersion": format!("{}/{}", one.group, one.version), "version": one.version});
    json!({"name": one.group, "versions": [version], "preferredVersion": version})
}

fn resources(world: &World, group: &str, version: &str) -> Option<Json> {
    let of_group =
        world.resources.iter().filter(|one| one.group == group && one.version == version);
    let mut listed: Vec<Json> = of_group
        .map(|one| {
            json!({
                "name": one.plural, "singularName": one.kind.to_lowercase(), "namespaced": true, "kind": one.kind,
                "verbs": ["get", "list", "watch"], "shortNames": one.short,
            })
        })
        .collect();
    if group.is_empty() {
        listed.push(json!({
            "name": "pods/log", "singularName": "", "namespaced": true, "kind": "Pod", "verbs": ["get"],
        }));
    }
    let name = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let list = json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": listed,
    });
    (!listed.is_empty()).then_some(list)
}
