//! How pods run: their rights, the begin and the end of their life, and the nodes that they run on.

use super::{RuleReport, Subject, labels};
use crate::model::id::is_rfc1123_subdomain;
use crate::model::violation::Violation;
use crate::templates::view::network;
use crate::templates::view::pod::{SLEEP_SINCE_MINOR, folder_name};
use crate::templates::view::probes::number;
use crate::waml::node::{Path, is_from_waml};
use crate::waml::quote::quote;
use crate::waml::section_pod::{
    Capabilities, LifecycleHook, NodeAffinity, TaintEffect, Toleration,
};

pub(super) fn security(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(security) = &subject.section.security else { return };
    let path = Path::root().key("security");
    if security.run_as_non_root == Some(true) && security.run_as_user == Some(0) {
        let message = "the user 0 is root, which `runAsNonRoot` refuses";
        let violation = Violation::error("security", message).expected("is root");
        let help = "give the user that the image has, or set `runAsNonRoot: false`";
        report.add(&path.key("runAsUser"), violation.help(help));
    }
    if let Some(capabilities) = &security.capabilities {
        let no_escalation = security.allow_privilege_escalation == Some(false);
        check_capabilities(capabilities, no_escalation, &path.key("capabilities"), report);
    }
    let mut names: Vec<String> = Vec::new();
    for (path, folder) in path.each("writable", &security.writable) {
        let name = folder_name(folder);
        if names.contains(&name) {
            let message = format!("{} gets the same volume as another folder", quote(folder));
            let violation = Violation::error("security", message).expected("is taken");
            let help = "leave one out, or make it a volume of its own name under `volumes`";
            report.add(&path, violation.help(help));
        }
        names.push(name);
    }
}

fn check_capabilities(
    capabilities: &Capabilities,
    no_escalation: bool,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    let lists = [("drop", &capabilities.drop), ("add", &capabilities.add)];
    for (list, names) in lists {
        for (path, name) in path.each(list, names) {
            let is_name =
                name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_' || b.is_ascii_digit());
            if name.is_empty() || !is_name || name.starts_with("CAP_") {
                let message = format!("{} is not the name of a capability", quote(name));
                let violation = Violation::error("security", message).expected("not a name");
                let help = "write Linux' name in capitals, without `CAP_`: `NET_BIND_SERVICE`";
                report.add(&path, violation.help(help));
            } else if list == "add" && name == "SYS_ADMIN" && no_escalation {
                let message = "`SYS_ADMIN` is a way to more rights, which `allowPrivilegeEscalation: false` refuses";
                let violation = Violation::error("security", message).expected("is refused");
                report.add(
                    &path,
                    violation.help("leave it out; Kubernetes takes only one of the two"),
                );
            } else if list == "add" && name == "ALL" {
                let violation =
                    Violation::warning("security", "the container gets every right of root");
                let help = "add only what the app needs: `[NET_BIND_SERVICE]`";
                report.add(&path, violation.expected("very broad").help(help));
            }
        }
    }
}

pub(super) fn lifecycle(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(lifecycle) = &subject.section.lifecycle else { return };
    let path = Path::root().key("lifecycle");
    for (name, hook) in [("preStop", &lifecycle.pre_stop), ("postStart", &lifecycle.post_start)] {
        let Some(hook) = hook else { continue };
        check_hook(name, hook, &path.key(name), subject, report);
    }
    let pause =
        lifecycle.pre_stop.as_ref().filter(|hook| hook.command.is_none() && hook.path.is_none());
    let pause = pause.and_then(|hook| hook.sleep_seconds);
    let grace = lifecycle.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE_SECONDS);
    if let Some(pause) = pause.filter(|pause| *pause >= grace) {
        let message = format!(
            "a pause of {pause} s leaves the app no time to end: it is killed after {grace} s"
        );
        let violation = Violation::error("lifecycle", message).expected("no time is left");
        let help = format!(
            "set `terminationGracePeriodSeconds: {}`, or pause for less",
            pause.saturating_add(30)
        );
        let at = path.key("preStop").key("sleepSeconds");
        let grace_path = path.key("terminationGracePeriodSeconds");
        let grace_is_written = subject.tree.at(&grace_path).is_some_and(is_from_waml);
        let pause_is_written = subject.tree.at(&at).is_some_and(is_from_waml);
        let at = if grace_is_written && !pause_is_written { grace_path } else { at };
        report.add(&at, violation.help(help));
    }
}

/// Kubernetes' own grace period, where a pod does not say it.
const DEFAULT_GRACE_SECONDS: u32 = 30;

fn check_hook(
    name: &str,
    hook: &LifecycleHook,
    path: &Path,
    subject: &Subject<'_>,
    report: &mut RuleReport<'_>,
) {
    let is_written = |key: &str| subject.tree.at(&path.key(key)).is_some_and(is_from_waml);
    let ways: Vec<&str> =
        ["command", "path", "sleepSeconds"].into_iter().filter(|key| is_written(key)).collect();
    if let [first, second, ..] = ways.as_slice() {
        let message = format!("`{name}` has both `{first}` and `{second}`");
        let violation = Violation::error("lifecycle", message).expected("one too many");
        report.add(&path.key(second), violation.help("keep one; Kubernetes takes only one"));
    }
    if hook.command.as_ref().is_some_and(Vec::is_empty) {
        let violation = Violation::error("lifecycle", format!("`{name}` has an empty command"));
        let help = "write `[/bin/drain]`, or `null` for none";
        report.add(&path.key("command"), violation.expected("needs a program").help(help));
    }
    let slug = subject.waml.app.slug.as_str();
    if hook.path.is_some()
        && hook.command.is_none()
        && !subject.is_unsure("service")
        && !subject.is_unsure("ports")
    {
        let ports = network::app_ports(subject.section, slug);
        let is_number = hook.port.as_deref().is_some_and(|port| number(port).is_some());
        if !is_number && network::probed(&ports, hook.port.as_deref()).is_none() {
            let message = match &hook.port {
                Some(port) => {
                    format!("`{name}` asks the port {}, which the app does not have", quote(port))
                }
                None => format!("`{name}` has no port, and the app has none of TCP"),
            };
            let violation = Violation::error("lifecycle", message).expected("no such port");
            let help = "write the number that the container listens on";
            let at = if hook.port.is_some() { path.key("port") } else { path.key("path") };
            report.add(&at, violation.help(help));
        }
    }
    if is_written("sleepSeconds")
        && let Some(cluster) = subject.cluster
        && cluster.kubernetes().minor() < SLEEP_SINCE_MINOR
    {
        let message = format!(
            "`{}` has Kubernetes {}, where a container cannot pause without a program",
            cluster.name,
            cluster.kubernetes()
        );
        let violation = Violation::warning("lifecycle", message).expected("left out");
        let help = "use `command: [sleep, \"10\"]`, if the image has `sleep`";
        report.add(&path.key("sleepSeconds"), violation.help(help));
    }
}

pub(super) fn scheduling(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(scheduling) = &subject.section.scheduling else { return };
    let path = Path::root().key("scheduling");
    for (key, value) in scheduling.node_selector.iter().flatten() {
        let path = path.key("nodeSelector").key(key);
        check_label_key(key, &path, report);
        check_label_value(value.as_deref().unwrap_or_default(), &path, report);
    }
    for (path, toleration) in path.each("tolerations", &scheduling.tolerations) {
        check_toleration(toleration, &path, report);
    }
    for (path, node) in path.each("nodeAffinity", &scheduling.node_affinity) {
        let NodeAffinity { key, values, avoid: _, weight: _ } = node;
        check_label_key(key, &path.key("key"), report);
        if values.as_ref().is_some_and(Vec::is_empty) {
            let violation = Violation::error("scheduling", "no node can have one of no values");
            let help = "list the values, or leave `values` out for any";
            report.add(&path.key("values"), violation.expected("is empty").help(help));
        }
        for (path, value) in path.each("values", values) {
            check_label_value(value, &path, report);
        }
    }
    if let Some(class) =
        scheduling.priority_class.as_deref().filter(|class| !is_rfc1123_subdomain(class))
    {
        let message = format!("{} is not a legal name of a priority class", quote(class));
        let violation = Violation::error("scheduling", message).expected("not a legal name");
        let help = "use lower-case letters, digits, `-` and `.`";
        report.add(&path.key("priorityClass"), violation.help(help));
    }
}

fn check_toleration(toleration: &Toleration, path: &Path, report: &mut RuleReport<'_>) {
    let Toleration { key, value, effect, seconds } = toleration;
    if let Some(key) = key {
        check_label_key(key, &path.key("key"), report);
    }
    if let Some(value) = value {
        check_label_value(value, &path.key("value"), report);
        if key.is_none() {
            let violation =
                Violation::error("scheduling", "a taint's value says nothing without its key");
            report
                .add(path, violation.expected("needs `key`").help("add `key`, or remove `value`"));
        }
    }
    if seconds.is_some() && *effect != Some(TaintEffect::NoExecute) {
        let message = "only a taint `NoExecute` ends pods after some seconds";
        let violation =
            Violation::error("scheduling", message).expected("needs `effect: NoExecute`");
        let help = "add `effect: NoExecute`, or remove `seconds`";
        report.add(&path.key("seconds"), violation.help(help));
    }
}

fn check_label_key(key: &str, path: &Path, report: &mut RuleReport<'_>) {
    if !labels::is_qualified_name(key) {
        let violation =
            Violation::error("scheduling", format!("{} is not a legal key", quote(key)));
        let help =
            "use up to 63 letters, digits, `-`, `_` and `.`, with an optional DNS prefix and `/`";
        report.add(path, violation.expected("not a legal key").help(help));
    }
}

fn check_label_value(value: &str, path: &Path, report: &mut RuleReport<'_>) {
    if !value.is_empty() && !labels::is_name_part(value) {
        let violation =
            Violation::error("scheduling", format!("{} is not a legal label value", quote(value)));
        let help = "use up to 63 letters, digits, `-`, `_` and `.`";
        report.add(path, violation.expected("not a legal value").help(help));
    }
}
