//! What Kubernetes' Pod Security Standards refuse of a pod (Kubernetes, "Pod Security Standards", 1.25 to 1.37). Pure.
//!
//! Each fault names the control of the standard. A container's own security context wins over the pod's.

use serde_json::{Map, Value as Json};

use crate::manifests::pods::{containers, pod_annotations, pod_spec};
use crate::model::kubernetes::KubernetesVersion;
use crate::model::platform::pod_security::PodSecurityLevel;
use crate::waml::quote::quoted_name;

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
const RESTRICTED_VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
/// The sysctls that `baseline` allows, each with the minor version of Kubernetes since which it does.
const SAFE_SYSCTLS: [(&str, u16); 14] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_notsent_lowat", 37),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_slow_start_after_idle", 37),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.tcp_wmem", 32),
];
/// The types of `SELinux` that `baseline` allows, each with the minor version since which it does.
const SELINUX_TYPES: [(&str, u16); 5] = [
    ("", 0),
    ("container_engine_t", 31),
    ("container_init_t", 0),
    ("container_kvm_t", 0),
    ("container_t", 0),
];
/// The minor version since which probes and hooks may ask no other host.
const HOST_PROBES_SINCE: u16 = 34;
/// The minor version since which a pod with users of its own (`hostUsers: false`) may be root in them.
const OWN_USERS_SINCE: u16 = 35;
/// The annotations that name the `AppArmor` profile of a container, without its name.
const APPARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

/// A fault of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PodProblem {
    /// The fault, with the control of the standard in brackets.
    pub(crate) message: String,
    /// The key of the annotation that is refused; `None` for a fault of the specification.
    pub(crate) annotation: Option<String>,
}

/// Lists what the level refuses of the pods that an object makes; nothing is refused by `privileged`.
pub(crate) fn find_problems(
    object: &Map<String, Json>,
    level: PodSecurityLevel,
    version: KubernetesVersion,
) -> Vec<PodProblem> {
    let Some(spec) = pod_spec(object).filter(|_| level != PodSecurityLevel::Privileged) else {
        return Vec::new();
    };
    let annotations = pod_annotations(object).into_iter().flatten().filter_map(annotation_problem);
    let of_spec = spec_problems(spec, level == PodSecurityLevel::Restricted, version.minor());
    let of_spec = of_spec.into_iter().map(|message| PodProblem { message, annotation: None });
    annotations.chain(of_spec).collect()
}

fn annotation_problem((key, value): (&String, &Json)) -> Option<PodProblem> {
    let (container, profile) = (key.strip_prefix(APPARMOR_PREFIX)?, value.as_str()?);
    let is_allowed = matches!(profile, "" | "runtime/default") || profile.starts_with("localhost/");
    let container = quoted_name(container);
    let message =
        format!("an annotation for its container {container} names no allowed profile (AppArmor)");
    (!is_allowed).then(|| PodProblem { message, annotation: Some(key.clone()) })
}

fn spec_problems(spec: &Json, is_restricted: bool, minor: u16) -> Vec<String> {
    let place = PodPlace {
        context: field(spec, "securityContext").unwrap_or(&Json::Null),
        is_restricted,
        is_windows: field(spec, "os").is_some_and(|os| text(os, "name") == "windows"),
        has_own_users: field(spec, "hostUsers") == Some(&Json::Bool(false))
            && minor >= OWN_USERS_SINCE,
        minor,
    };
    let mut problems = Vec::new();
    for key in ["hostNetwork", "hostPID", "hostIPC"] {
        if is_true(field(spec, key)) {
            problems.push(format!("it has `{key}` (Host Namespaces)"));
        }
    }
    for volume in elements(spec, "volumes") {
        problems.extend(volume_problem(volume, is_restricted));
    }
    for sysctl in elements(place.context, "sysctls") {
        let name = text(sysctl, "name");
        if !is_listed(&SAFE_SYSCTLS, name, minor) {
            problems.push(format!("it sets the sysctl `{name}` (Sysctls)"));
        }
    }
    place.add_context_problems("the pod", place.context, &mut problems);
    for container in containers(spec) {
        place.add_container_problems(container, &mut problems);
    }
    problems
}

/// What decides about the containers of a pod.
struct PodPlace<'a> {
    context: &'a Json,
    is_restricted: bool,
    /// Windows has no Linux capabilities, seccomp profiles and escalation: `restricted` asks for none.
    is_windows: bool,
    has_own_users: bool,
    minor: u16,
}

impl PodPlace<'_> {
    fn add_container_problems(&self, container: &Json, problems: &mut Vec<String>) {
        let name = format!("the container `{}`", text(container, "name"));
        let own = field(container, "securityContext").unwrap_or(&Json::Null);
        self.add_context_problems(&name, own, problems);
        for port in elements(container, "ports") {
            if field(port, "hostPort").and_then(Json::as_u64).is_some_and(|port| port != 0) {
                problems.push(format!("{name} has a `hostPort` (Host Ports)"));
            }
        }
        if self.minor >= HOST_PROBES_SINCE && asks_other_host(container) {
            problems.push(format!(
                "a probe of {name} asks another host (Host Probes / Lifecycle Hooks)"
            ));
        }
        let capabilities = field(own, "capabilities").unwrap_or(&Json::Null);
        let is_linux = self.is_restricted && !self.is_windows;
        for added in elements(capabilities, "add").filter_map(Json::as_str) {
            let is_allowed = if is_linux {
                added == "NET_BIND_SERVICE"
            } else {
                self.is_restricted || BASELINE_CAPABILITIES.contains(&added)
            };
            if !is_allowed {
                problems.push(format!("{name} adds the capability {added} (Capabilities)"));
            }
        }
        let is_set = |key: &str| field(own, key).or(field(self.context, key)).is_some();
        if is_linux {
            if !is_set("seccompProfile") {
                problems.push(format!("{name} has no seccomp profile (Seccomp)"));
            }
            if field(own, "allowPrivilegeEscalation") != Some(&Json::Bool(false)) {
                problems.push(format!("{name} may get more privileges (Privilege Escalation)"));
            }
            if !elements(capabilities, "drop").any(|dropped| dropped.as_str() == Some("ALL")) {
                problems.push(format!("{name} does not drop all capabilities (Capabilities)"));
            }
        }
        if self.is_restricted && !self.has_own_users && !is_set("runAsNonRoot") {
            problems.push(format!(
                "{name} may be root: `runAsNonRoot` is not set (Running as Non-root)"
            ));
        }
    }

    /// Adds what a security context says and the level refuses, whatever another one says.
    fn add_context_problems(&self, owner: &str, context: &Json, problems: &mut Vec<String>) {
        if is_true(field(context, "privileged")) {
            problems.push(format!("{owner} is privileged (Privileged Containers)"));
        }
        let has_own_mount = field(context, "procMount").is_some_and(|mount| mount != "Default");
        if has_own_mount && (self.is_restricted || !self.has_own_users) {
            problems.push(format!("{owner} has a `procMount` of its own (/proc Mount Type)"));
        }
        if let Some(options) = field(context, "seLinuxOptions") {
            let is_strange = !is_listed(&SELINUX_TYPES, text(options, "type"), self.minor)
                || !text(options, "user").is_empty()
                || !text(options, "role").is_empty();
            if is_strange {
                problems.push(format!("{owner} has SELinux options of its own (SELinux)"));
            }
        }
        let is_unconfined = |key: &str| {
            field(context, key).is_some_and(|profile| {
                !matches!(text(profile, "type"), "RuntimeDefault" | "Localhost")
            })
        };
        if is_unconfined("appArmorProfile") {
            problems.push(format!("{owner} has no AppArmor profile (AppArmor)"));
        }
        if is_unconfined("seccompProfile") && !(self.is_restricted && self.is_windows) {
            problems.push(format!("{owner} has no seccomp profile (Seccomp)"));
        }
        if is_true(context.pointer("/windowsOptions/hostProcess")) {
            problems.push(format!("{owner} is a process of the host (HostProcess)"));
        }
        if !self.is_restricted || self.has_own_users {
            return;
        }
        if field(context, "runAsNonRoot") == Some(&Json::Bool(false)) {
            problems.push(format!(
                "{owner} may be root: `runAsNonRoot` is false (Running as Non-root)"
            ));
        }
        if field(context, "runAsUser").and_then(Json::as_u64) == Some(0) {
            problems.push(format!("{owner} is root (Running as Non-root user)"));
        }
    }
}

/// Checks that a probe or a hook of a container names a host.
fn asks_other_host(container: &Json) -> bool {
    let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|key| container.get(key));
    let hooks = container.get("lifecycle").and_then(Json::as_object).into_iter().flatten();
    let mut asks = probes.into_iter().flatten().chain(hooks.map(|(_, hook)| hook));
    asks.any(|ask| {
        ["httpGet", "tcpSocket"]
            .iter()
            .any(|way| ask.get(*way).is_some_and(|way| !text(way, "host").is_empty()))
    })
}

/// Finds what is wrong with a volume: `hostPath` for all, another kind than some for `restricted`.
fn volume_problem(volume: &Json, is_restricted: bool) -> Option<String> {
    let name = text(volume, "name");
    let kinds = volume.as_object()?.iter().filter(|(key, kind)| *key != "name" && !kind.is_null());
    let is_refused = |kind: &&String| {
        *kind == "hostPath" || (is_restricted && !RESTRICTED_VOLUMES.contains(&kind.as_str()))
    };
    let kind = kinds.map(|(kind, _)| kind).find(is_refused)?;
    Some(format!("its volume `{name}` is a `{kind}` (Volume Types)"))
}

/// Checks that a word is in a list of those that are allowed since a minor version.
fn is_listed(list: &[(&str, u16)], word: &str, minor: u16) -> bool {
    list.iter().any(|(allowed, since)| *allowed == word && *since <= minor)
}

/// Returns a field that is set: null sets nothing.
fn field<'a>(value: &'a Json, key: &str) -> Option<&'a Json> {
    value.get(key).filter(|value| !value.is_null())
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
    use serde::Deserialize as _;
    use serde_json::json;

    use super::*;

    const LEVELS: [PodSecurityLevel; 2] =
        [PodSecurityLevel::Baseline, PodSecurityLevel::Restricted];
    const NEWEST: KubernetesVersion = KubernetesVersion::NEWEST;

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
        LEVELS.map(|level| found(&json!({"kind": "Pod", "spec": pod}), level, NEWEST))
    }

    /// The controls of all problems.
    fn found(pod: &Json, level: PodSecurityLevel, version: KubernetesVersion) -> Vec<String> {
        let control = |problem: &PodProblem| {
            problem.message.rsplit_once(" (").unwrap().1.trim_end_matches(')').to_owned()
        };
        find_problems(pod.as_object().unwrap(), level, version).iter().map(control).collect()
    }

    #[test]
    fn each_control_of_the_standard_refuses_what_it_names() {
        let good = json!({"kind": "Pod", "spec": good()});
        for level in LEVELS {
            assert_eq!(found(&good, level, NEWEST), [""; 0]);
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
        let worst = json!({"kind": "Pod", "spec": {"hostNetwork": true}});
        assert_eq!(found(&worst, PodSecurityLevel::Privileged, NEWEST), [""; 0]);
    }

    #[test]
    fn an_annotation_names_a_profile_that_is_loaded() {
        let problems = |profile: &str, level| {
            let annotations = json!({format!("{APPARMOR_PREFIX}a"): profile, "team": "unconfined"});
            let template = json!({"metadata": {"annotations": annotations}, "spec": good()});
            let job = json!({"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": template}}}});
            find_problems(job.as_object().unwrap(), level, NEWEST)
        };
        for level in LEVELS {
            for allowed in ["", "runtime/default", "localhost/mine"] {
                assert_eq!(problems(allowed, level), [], "{allowed}");
            }
            for refused in ["unconfined", "runtime/other", "localhost"] {
                let key = format!("{APPARMOR_PREFIX}a");
                let message =
                    "an annotation for its container `a` names no allowed profile (AppArmor)";
                let expected = PodProblem { message: message.to_owned(), annotation: Some(key) };
                assert_eq!(problems(refused, level), [expected], "{refused}");
            }
        }
        assert_eq!(problems("unconfined", PodSecurityLevel::Privileged), []);
    }

    #[test]
    fn each_version_of_kubernetes_has_the_standard_of_its_time() {
        let with = |key: &str, value: Json| {
            let mut spec = good();
            spec[key] = value;
            json!({"kind": "Pod", "spec": spec})
        };
        let context = |context: Json| {
            let mut spec = good();
            spec["securityContext"]
                .as_object_mut()
                .unwrap()
                .extend(context.as_object().unwrap().clone());
            json!({"kind": "Pod", "spec": spec})
        };
        let mut root = context(json!({"runAsUser": 0, "runAsNonRoot": false}));
        root["spec"]["hostUsers"] = json!(false);
        let restricted = PodSecurityLevel::Restricted;
        for (pod, refused_on, allowed_on) in [
            (context(json!({"sysctls": [{"name": "net.ipv4.tcp_rmem"}]})), "1.31", "1.32"),
            (context(json!({"sysctls": [{"name": "net.ipv4.tcp_notsent_lowat"}]})), "1.36", "1.37"),
            (context(json!({"seLinuxOptions": {"type": "container_engine_t"}})), "1.30", "1.31"),
            (root, "1.34", "1.35"),
            (
                with(
                    "ephemeralContainers",
                    json!([{
                        "name": "b", "livenessProbe": {"tcpSocket": {"host": "x"}},
                        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
                    }]),
                ),
                "1.34",
                "1.33",
            ),
        ] {
            let problems =
                |version| found(&pod, restricted, KubernetesVersion::parse(version).unwrap());
            assert_ne!(problems(refused_on), [""; 0], "{refused_on}: {pod}");
            assert_eq!(problems(allowed_on), [""; 0], "{allowed_on}: {pod}");
        }
    }

    /// The controls that upstream's checks are about, by the names of their pods.
    const CONTROLS: [(&str, &str); 15] = [
        ("allowprivilegeescalation", "Privilege Escalation"),
        ("apparmorprofile", "AppArmor"),
        ("capabilities", "Capabilities"),
        ("hostnamespaces", "Host Namespaces"),
        ("hostpathvolumes", "Volume Types"),
        ("hostports", "Host Ports"),
        ("hostprobesandhostlifecycle", "Host Probes / Lifecycle Hooks"),
        ("privileged", "Privileged Containers"),
        ("procmount", "/proc Mount Type"),
        ("restrictedvolumes", "Volume Types"),
        ("runasnonroot", "Running as Non-root"),
        ("runasuser", "Running as Non-root user"),
        ("seccompprofile", "Seccomp"),
        ("selinuxoptions", "SELinux"),
        ("sysctls", "Sysctls"),
    ];

    #[test]
    fn the_pods_of_the_standards_own_tests_are_judged_as_they_are_there() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/facts/pod-security");
        for (level, verdict, count) in [
            (PodSecurityLevel::Baseline, "pass", 15),
            (PodSecurityLevel::Baseline, "fail", 34),
            (PodSecurityLevel::Restricted, "pass", 23),
            (PodSecurityLevel::Restricted, "fail", 76),
        ] {
            let file = format!("{folder}/{}-{verdict}.yaml", level.as_str());
            let file_text = std::fs::read_to_string(file).unwrap();
            let mut judged = 0;
            for document in serde_yaml::Deserializer::from_str(&file_text) {
                let pod = Json::deserialize(document).unwrap();
                let name = pod["metadata"]["name"].as_str().unwrap();
                let controls = found(&pod, level, NEWEST);
                if verdict == "pass" {
                    assert_eq!(controls, [""; 0], "{level:?} takes {name}");
                } else {
                    let check = CONTROLS.iter().find(|(check, _)| name.starts_with(check));
                    let control = check.map_or("HostProcess", |(_, control)| control);
                    assert!(controls.iter().any(|found| found == control), "{name}: {controls:?}");
                }
                judged += 1;
            }
            assert_eq!(judged, count, "{level:?} {verdict}");
        }
    }
}
