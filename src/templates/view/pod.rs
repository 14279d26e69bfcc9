//! How pods run, in Kubernetes' own shape: for each part the keys of the pod's `spec` and those of its container.

use serde_json::{Map, Value as Json, json};

use crate::model::platform::secrets::Delivery;
use crate::model::target::Target;
use crate::templates::view::network::PortRef;
use crate::templates::view::{naming, probes};
use crate::waml::section::Section;
use crate::waml::section_pod::{
    Lifecycle, LifecycleHook, NodeAffinity, Scheduling, Security, Spread, SpreadWish, Toleration,
};

/// The first Kubernetes whose containers can wait without a program: the lifecycle handler `sleep` is on by default.
pub(crate) const SLEEP_SINCE_MINOR: u16 = 30;
/// The first Kubernetes whose spread counts the pods of each revision by themselves: `matchLabelKeys` is on by default.
const MATCH_LABEL_KEYS_SINCE_MINOR: u16 = 27;

/// Shows the rights: `pod` and `container`, each a map of keys; null without any.
///
/// A pod gets no token for Kubernetes' API, but where the Vault agent logs in with it.
pub(super) fn security(section: &Section, target: &Target) -> Json {
    let Some(security) = &section.security else { return Json::Null };
    let Security {
        run_as_non_root,
        run_as_user,
        run_as_group,
        fs_group,
        allow_privilege_escalation,
        capabilities,
        seccomp,
        read_only_root_filesystem,
        writable: _,
        service_account_token,
    } = security;
    let of_pod = set_only([
        ("runAsNonRoot", json!(run_as_non_root)),
        ("runAsUser", json!(run_as_user)),
        ("runAsGroup", json!(run_as_group)),
        ("fsGroup", json!(fs_group)),
        ("seccompProfile", seccomp.map_or(Json::Null, |seccomp| json!({"type": seccomp}))),
    ]);
    let capabilities = capabilities.as_ref().map_or(Json::Null, |capabilities| {
        let list = |names: &Option<Vec<String>>| {
            names.as_ref().filter(|names| !names.is_empty()).map_or(Json::Null, |n| json!(n))
        };
        set_only([("drop", list(&capabilities.drop)), ("add", list(&capabilities.add))])
    });
    let of_container = set_only([
        ("allowPrivilegeEscalation", json!(allow_privilege_escalation)),
        ("capabilities", capabilities),
        ("readOnlyRootFilesystem", json!(read_only_root_filesystem)),
    ]);
    let by_agent = target.platform.secrets.delivery == Delivery::VaultAgent;
    let token = service_account_token.unwrap_or(by_agent);
    json!({
        "pod": or_empty(set_only([
            ("automountServiceAccountToken", json!(token)),
            ("securityContext", of_pod),
        ])),
        "container": or_empty(set_only([("securityContext", of_container)])),
    })
}

/// Collects the folders that stay writable as volumes, in the shape of [`super::volumes`].
pub(super) fn writable_folders(section: &Section) -> Vec<Json> {
    let folders = section.security.iter().flat_map(|security| security.writable.iter().flatten());
    folders
        .map(|folder| {
            let name = naming::of_two("writable", &folder_name(folder));
            json!({"name": name, "mountPath": folder, "readOnly": false, "claim": null, "files": null})
        })
        .collect()
}

/// Makes a name of a folder: `/var/cache/nginx` is `var-cache-nginx`. What has no letters gives `root`.
pub(crate) fn folder_name(folder: &str) -> String {
    let words = folder.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let name = words.collect::<Vec<_>>().join("-").to_ascii_lowercase();
    if name.is_empty() { "root".to_owned() } else { name }
}

/// Shows the begin and the end: `pod` and `container`, each a map of keys; null without any.
pub(super) fn lifecycle(section: &Section, ports: &[PortRef<'_>], target: &Target) -> Json {
    let Some(lifecycle) = &section.lifecycle else { return Json::Null };
    let Lifecycle { termination_grace_period_seconds, pre_stop, post_start } = lifecycle;
    let sleeps = target.kubernetes().minor() >= SLEEP_SINCE_MINOR;
    let show = |hook: &Option<LifecycleHook>| {
        hook.as_ref().map_or(Json::Null, |h| handler(h, ports, sleeps))
    };
    let hooks = set_only([("preStop", show(pre_stop)), ("postStart", show(post_start))]);
    json!({
        "pod": or_empty(set_only([
            ("terminationGracePeriodSeconds", json!(termination_grace_period_seconds)),
        ])),
        "container": or_empty(set_only([("lifecycle", hooks)])),
    })
}

fn handler(hook: &LifecycleHook, ports: &[PortRef<'_>], sleeps: bool) -> Json {
    match hook {
        LifecycleHook { command: Some(command), .. } => json!({"exec": {"command": command}}),
        LifecycleHook { path: Some(path), port, .. } => {
            match probes::port_of(port.as_deref(), ports) {
                Some(port) => json!({"httpGet": {"path": path, "port": port}}),
                None => Json::Null,
            }
        }
        LifecycleHook { sleep_seconds: Some(seconds), .. } if sleeps => {
            json!({"sleep": {"seconds": seconds}})
        }
        _ => Json::Null,
    }
}

/// Shows the nodes as keys of a pod's `spec`; null without any.
pub(super) fn scheduling(section: &Section, slug: &str, target: &Target) -> Json {
    let Some(scheduling) = &section.scheduling else { return Json::Null };
    let Scheduling { node_selector, tolerations, node_affinity, priority_class, spread } =
        scheduling;
    let labels: Map<String, Json> = node_selector
        .iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), json!(value.as_ref()?))))
        .collect();
    let affinity = affinity(node_affinity.as_deref().unwrap_or_default());
    let by_revision = target.kubernetes().minor() >= MATCH_LABEL_KEYS_SINCE_MINOR;
    set_only([
        ("nodeSelector", if labels.is_empty() { Json::Null } else { Json::Object(labels) }),
        ("tolerations", list(tolerations.iter().flatten().map(toleration).collect())),
        ("affinity", affinity),
        ("priorityClassName", json!(priority_class)),
        ("topologySpreadConstraints", list(constraints(spread.as_ref(), slug, by_revision))),
    ])
}

fn toleration(toleration: &Toleration) -> Json {
    let Toleration { key, value, effect, seconds } = toleration;
    let operator = if value.is_some() { "Equal" } else { "Exists" };
    set_only([
        ("key", json!(key)),
        ("operator", json!(operator)),
        ("value", json!(value)),
        ("effect", json!(effect)),
        ("tolerationSeconds", json!(seconds)),
    ])
}

fn affinity(nodes: &[NodeAffinity]) -> Json {
    let expression = |node: &NodeAffinity| {
        let avoid = node.avoid.unwrap_or(false);
        let operator = match (&node.values, avoid) {
            (Some(_), false) => "In",
            (Some(_), true) => "NotIn",
            (None, false) => "Exists",
            (None, true) => "DoesNotExist",
        };
        set_only([
            ("key", json!(node.key)),
            ("operator", json!(operator)),
            ("values", json!(node.values)),
        ])
    };
    let required: Vec<Json> =
        nodes.iter().filter(|node| node.weight.is_none()).map(expression).collect();
    let preferred = nodes.iter().filter_map(|node| {
        let preference = json!({"matchExpressions": [expression(node)]});
        Some(json!({"weight": node.weight?, "preference": preference}))
    });
    let required = if required.is_empty() {
        Json::Null
    } else {
        json!({"nodeSelectorTerms": [{"matchExpressions": required}]})
    };
    let node_affinity = set_only([
        ("requiredDuringSchedulingIgnoredDuringExecution", required),
        ("preferredDuringSchedulingIgnoredDuringExecution", list(preferred.collect())),
    ]);
    set_only([("nodeAffinity", node_affinity)])
}

fn constraints(spread: Option<&Spread>, slug: &str, by_revision: bool) -> Vec<Json> {
    let Some(Spread { zones, nodes }) = spread else { return Vec::new() };
    [("topology.kubernetes.io/zone", zones), ("kubernetes.io/hostname", nodes)]
        .into_iter()
        .filter_map(|(key, wish)| {
            let unsatisfiable = match wish.as_ref()? {
                SpreadWish::Preferred => "ScheduleAnyway",
                SpreadWish::Required => "DoNotSchedule",
            };
            let label_keys = if by_revision { json!(["pod-template-hash"]) } else { Json::Null };
            Some(set_only([
                ("maxSkew", json!(1)),
                ("topologyKey", json!(key)),
                ("whenUnsatisfiable", json!(unsatisfiable)),
                ("labelSelector", json!({"matchLabels": {"app.kubernetes.io/name": slug}})),
                ("matchLabelKeys", label_keys),
            ]))
        })
        .collect()
}

pub(super) fn list(elements: Vec<Json>) -> Json {
    if elements.is_empty() { Json::Null } else { Json::Array(elements) }
}

/// Collects the keys that have a value; null where none has.
pub(super) fn set_only<const N: usize>(entries: [(&str, Json); N]) -> Json {
    let map: Map<String, Json> = entries
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    if map.is_empty() { Json::Null } else { Json::Object(map) }
}

fn or_empty(value: Json) -> Json {
    if value.is_null() { Json::Object(Map::new()) } else { value }
}
