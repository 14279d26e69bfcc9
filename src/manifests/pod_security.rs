//! What Kubernetes' Pod Security Standards refuse of a pod (Kubernetes, "Pod Security Standards", v1.34). Pure.
//!
//! Each fault names the control of the standard. A container's own security context wins over the pod's.

use serde_json::Value as Json;

use crate::manifests::pods::containers;
use crate::model::platform::pod_security::PodSecurityLevel;

/// The capabilities that `baseline` lets a container add.
const BASELINE_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// The kinds of volumes that `restricted` allows.
const RESTRICTED_VOLUMES: [&str; 8] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
/// The sysctls that `baseline` allows.
const SAFE_SYSCTLS: [&str; 10] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_syncookies",
];
/// The types of `SELinux` that `baseline` allows.
const SELINUX_TYPES: [&str; 5] =
    ["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];

/// Lists what the level refuses of a pod; nothing is refused by `privileged`.
pub(crate) fn find_problems(spec: &Json, level: PodSecurityLevel) -> Vec<String> {
    if level == PodSecurityLevel::Privileged {
        return Vec::new();
    }
    let is_restricted = level == PodSecurityLevel::Restricted;
    let pod_context = spec.get("securityContext").unwrap_or(&Json::Null);
    let mut problems = Vec::new();
    for key in ["hostNetwork", "hostPID", "hostIPC"] {
        if is_true(spec.get(key)) {
            problems.push(format!("it has `{key}` (Host Namespaces)"));
        }
    }
    for volume in elements(spec, "volumes") {
        problems.extend(volume_problem(volume, is_restricted));
    }
    for sysctl in elements(pod_context, "sysctls") {
        let name = text(sysctl, "name");
        if !SAFE_SYSCTLS.contains(&name) {
            problems.push(format!("it sets the sysctl `{name}` (Sysctls)"));
        }
    }
    problems.extend(context_problems("the pod", pod_context));
    for container in containers(spec) {
        ContainerPlace { container, pod_context, is_restricted }.add_problems(&mut problems);
    }
    problems
}

/// A container with what decides about it.
struct ContainerPlace<'a> {
    container: &'a Json,
    pod_context: &'a Json,
    is_restricted: bool,
}

impl ContainerPlace<'_> {
    fn add_problems(&self, problems: &mut Vec<String>) {
        let Self { container, pod_context, is_restricted } = self;
        let name = format!("the container `{}`", text(container, "name"));
        let own = container.get("securityContext").unwrap_or(&Json::Null);
        let effective = |key: &str| own.get(key).or_else(|| pod_context.get(key));
        problems.extend(context_problems(&name, own));
        for port in elements(container, "ports") {
            if port.get("hostPort").and_then(Json::as_u64).is_some_and(|port| port != 0) {
                problems.push(format!("{name} has a `hostPort` (Host Ports)"));
            }
        }
        let probes =
            ["livenessProbe", "readinessProbe", "startupProbe"].map(|key| container.get(key));
        let hooks = container.get("lifecycle").and_then(Json::as_object).into_iter().flatten();
        let asks = probes.into_iter().flatten().chain(hooks.map(|(_, hook)| hook));
        let has_host = |ask: &Json| {
            ["httpGet", "tcpSocket"]
                .iter()
                .any(|way| ask.get(*way).is_some_and(|way| !text(way, "host").is_empty()))
        };
        if asks.into_iter().any(has_host) {
            problems.push(format!(
                "a probe of {name} asks another host (Host Probes / Lifecycle Hooks)"
            ));
        }
        let capabilities = own.get("capabilities").unwrap_or(&Json::Null);
        for added in elements(capabilities, "add").filter_map(Json::as_str) {
            let is_allowed = if *is_restricted {
                added == "NET_BIND_SERVICE"
            } else {
                BASELINE_CAPABILITIES.contains(&added)
            };
            if !is_allowed {
                problems.push(format!("{name} adds the capability {added} (Capabilities)"));
            }
        }
        let seccomp = effective("seccompProfile").map_or("", |profile| text(profile, "type"));
        if !is_restricted {
            if seccomp == "Unconfined" {
                problems.push(format!("{name} has no seccomp profile (Seccomp)"));
            }
            return;
        }
        if !matches!(seccomp, "RuntimeDefault" | "Localhost") {
            problems.push(format!("{name} has no seccomp profile (Seccomp)"));
        }
        if own.get("allowPrivilegeEscalation").and_then(Json::as_bool) != Some(false) {
            problems.push(format!("{name} may get more privileges (Privilege Escalation)"));
        }
        if !elements(capabilities, "drop").any(|dropped| dropped.as_str() == Some("ALL")) {
            problems.push(format!("{name} does not drop all capabilities (Capabilities)"));
        }
        if !is_true(effective("runAsNonRoot")) {
            problems.push(format!(
                "{name} may be root: `runAsNonRoot` is not set (Running as Non-root)"
            ));
        }
        if effective("runAsUser").and_then(Json::as_u64) == Some(0) {
            problems.push(format!("{name} is root (Running as Non-root user)"));
        }
    }
}

/// Finds what is wrong with a volume: `hostPath` for all, another kind than some for `restricted`.
fn volume_problem(volume: &Json, is_restricted: bool) -> Option<String> {
    let name = text(volume, "name");
    let kinds = volume.as_object()?.keys().filter(|key| *key != "name");
    let is_refused = |kind: &&String| {
        *kind == "hostPath" || (is_restricted && !RESTRICTED_VOLUMES.contains(&kind.as_str()))
    };
    let kind = kinds.into_iter().find(is_refused)?;
    Some(format!("its volume `{name}` is a `{kind}` (Volume Types)"))
}

/// Finds what no level but `privileged` lets a security context say.
fn context_problems(owner: &str, context: &Json) -> Vec<String> {
    let mut problems = Vec::new();
    if is_true(context.get("privileged")) {
        problems.push(format!("{owner} is privileged (Privileged Containers)"));
    }
    if context.get("procMount").and_then(Json::as_str).is_some_and(|mount| mount != "Default") {
        problems.push(format!("{owner} has a `procMount` of its own (/proc Mount Type)"));
    }
    if let Some(options) = context.get("seLinuxOptions") {
        let is_strange = !SELINUX_TYPES.contains(&text(options, "type"))
            || !text(options, "user").is_empty()
            || !text(options, "role").is_empty();
        if is_strange {
            problems.push(format!("{owner} has SELinux options of its own (SELinux)"));
        }
    }
    let profile = context.get("appArmorProfile").map_or("", |profile| text(profile, "type"));
    if !matches!(profile, "" | "RuntimeDefault" | "Localhost") {
        problems.push(format!("{owner} has no AppArmor profile (AppArmor)"));
    }
    if is_true(context.pointer("/windowsOptions/hostProcess")) {
        problems.push(format!("{owner} is a process of the host (HostProcess)"));
    }
    problems
}

fn elements<'a>(value: &'a Json, key: &str) -> impl Iterator<Item = &'a Json> {
    value.get(key).and_then(Json::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Json, key: &str) -> &'a str {
    value.get(key).and_then(Json::as_str).unwrap_or_default()
}

fn is_true(value: Option<&Json>) -> bool {
    value.and_then(Json::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A pod that `restricted` takes.
    fn good() -> Json {
        json!({
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{
                "name": "a", "ports": [{"containerPort": 80}],
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}},
            }],
        })
    }

    fn controls(pointer: &str, value: &Json) -> [Vec<String>; 2] {
        let mut pod = good();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        pod.pointer_mut(parent)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .insert(key.to_owned(), value.clone());
        [PodSecurityLevel::Baseline, PodSecurityLevel::Restricted].map(|level| {
            let problems = find_problems(&pod, level);
            let control = |problem: &String| {
                problem.rsplit_once(" (").unwrap().1.trim_end_matches(')').to_owned()
            };
            problems.iter().map(control).collect()
        })
    }

    #[test]
    fn each_control_of_the_standard_refuses_what_it_names() {
        for level in [PodSecurityLevel::Baseline, PodSecurityLevel::Restricted] {
            assert_eq!(find_problems(&good(), level), Vec::<String>::new());
        }
        let context = "/containers/0/securityContext";
        for (pointer, value, baseline, control) in [
            ("/hostNetwork", json!(true), true, "Host Namespaces"),
            ("/hostPID", json!(true), true, "Host Namespaces"),
            ("/volumes", json!([{"name": "h", "hostPath": {"path": "/"}}]), true, "Volume Types"),
            ("/volumes", json!([{"name": "h", "nfs": {}}]), false, "Volume Types"),
            ("/securityContext/sysctls", json!([{"name": "kernel.x"}]), true, "Sysctls"),
            ("/securityContext/seLinuxOptions", json!({"type": "spc_t"}), true, "SELinux"),
            ("/securityContext/appArmorProfile", json!({"type": "Unconfined"}), true, "AppArmor"),
            ("/securityContext/windowsOptions", json!({"hostProcess": true}), true, "HostProcess"),
            ("/securityContext/seccompProfile", json!({"type": "Unconfined"}), true, "Seccomp"),
            ("/securityContext/seccompProfile", Json::Null, false, "Seccomp"),
            ("/securityContext/runAsNonRoot", json!(false), false, "Running as Non-root"),
            ("/securityContext/runAsUser", json!(0), false, "Running as Non-root user"),
            ("/containers/0/ports", json!([{"hostPort": 80}]), true, "Host Ports"),
            (
                "/containers/0/livenessProbe",
                json!({"httpGet": {"host": "x"}}),
                true,
                "Host Probes / Lifecycle Hooks",
            ),
            (&format!("{context}/privileged"), json!(true), true, "Privileged Containers"),
            (&format!("{context}/procMount"), json!("Unmasked"), true, "/proc Mount Type"),
            (
                &format!("{context}/allowPrivilegeEscalation"),
                Json::Null,
                false,
                "Privilege Escalation",
            ),
            (
                &format!("{context}/capabilities"),
                json!({"drop": ["ALL"], "add": ["CHOWN"]}),
                false,
                "Capabilities",
            ),
            (
                &format!("{context}/capabilities"),
                json!({"drop": ["ALL"], "add": ["SYS_ADMIN"]}),
                true,
                "Capabilities",
            ),
            (&format!("{context}/capabilities"), json!({}), false, "Capabilities"),
        ] {
            let [by_baseline, by_restricted] = controls(pointer, &value);
            assert_eq!(by_restricted, [control], "{pointer}");
            let expected: &[&str] = if baseline { &[control] } else { &[] };
            assert_eq!(by_baseline, expected, "{pointer}");
        }
        let worst = json!({"hostNetwork": true});
        assert_eq!(find_problems(&worst, PodSecurityLevel::Privileged), Vec::<String>::new());
    }
}
