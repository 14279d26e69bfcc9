//! Probes use ports that the app has, with values that Kubernetes accepts.

use super::{RuleReport, Subject};
use crate::model::violation::Violation;
use crate::templates::view::network;
use crate::templates::view::network::PortRef;
use crate::templates::view::probes::{KINDS, ProbedApp, number};
use crate::waml::node::{Path, is_from_waml};
use crate::waml::quote::quote;
use crate::waml::section_network::Protocol;
use crate::waml::section_workload::{Probe, ProbeMechanism};

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let slug = subject.waml.app.slug.as_str();
    let probed = ProbedApp::of(subject.section, subject.tree, slug);
    check_container(&probed, "app", subject, report);
    for (path, container) in Path::root().each("sidecars", &subject.section.sidecars) {
        let probed = ProbedApp::of_container(container, subject.tree, &path);
        check_container(&probed, "container", subject, report);
    }
}

/// Checks the probes of one container; `owner` says whose ports they are.
fn check_container(
    probed: &ProbedApp<'_>,
    owner: &str,
    subject: &Subject<'_>,
    report: &mut RuleReport<'_>,
) {
    for kind in KINDS {
        let Some(probe) = probed.get(kind) else { continue };
        let path = probed.path.key(kind);
        check_probe(kind, probe, &path, report);
        if probed.asking(kind, probe).0 != kind {
            continue;
        }
        report_conflicts(kind, probe, probed, &path, report);
        check_port(kind, probe, (probed, owner), &path, subject, report);
    }
}

fn check_probe(kind: &str, probe: &Probe, path: &Path, report: &mut RuleReport<'_>) {
    let mut refuse = |key: &str, message: String, expected: &str, help: &str| {
        let violation = Violation::error("probes", message).expected(expected);
        report.add(&path.key(key), violation.help(help));
    };
    if probe.command.as_ref().is_some_and(Vec::is_empty) {
        let message = format!("the {kind} probe has an empty command");
        refuse("command", message, "needs a program", "write `[/bin/check]`, or `null` for none");
    }
    if probe.path.as_deref() == Some("") {
        let message = format!("the {kind} probe has an empty path");
        refuse("path", message, "needs a path", "write `/health`, or `null` for a TCP connection");
    }
    if kind != "readiness" && probe.success_threshold.is_some_and(|times| times != 1) {
        let message = format!("a {kind} probe passes with its first success");
        refuse("successThreshold", message, "must be 1", "leave it out, or write 1");
    }
}

/// Reports several ways of asking in one probe: Kubernetes takes one. Of those the template's own gives way silently.
fn report_conflicts(
    kind: &str,
    probe: &Probe,
    probed: &ProbedApp<'_>,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    use ProbeMechanism::{Exec, Grpc, Http, Tcp};
    let mut refuse = |key: &str, message: String, expected: &str, help: &str| {
        let violation = Violation::error("probes", message).expected(expected);
        report.add(&path.key(key), violation.help(help));
    };
    let mechanism = probed.mechanism(kind, probe);
    let is_written = |key: &str| probed.is_written(kind, key);
    let name = match mechanism {
        Exec => "a command",
        Http => "HTTP",
        Tcp => "a TCP connection",
        Grpc => "gRPC",
    };
    let too_many = |key: &str| match (mechanism, key) {
        (Exec, "command") | (Http, "path") | (Http | Tcp | Grpc, "port") | (Grpc, "service") => {
            false
        }
        _ => is_written(key),
    };
    for key in ["path", "port", "service", "command"].into_iter().filter(|key| too_many(key)) {
        let message = format!("the {kind} probe asks by {name}, which has no `{key}`");
        let help = match key {
            "command" => "keep `command` alone, or remove it",
            "service" => "add `type: grpc`, or remove `service`",
            _ if mechanism == Exec => "keep `command`, or `path` and `port`",
            _ => "remove `path`, or write `type: http`",
        };
        refuse(key, message, "one too many", help);
    }
    match mechanism {
        Exec if probe.command.is_none() => {
            let message = format!("the {kind} probe has no command");
            refuse("type", message, "needs `command`", "add `command: [/bin/check]`");
        }
        Http if probe.path.is_none() => {
            let message = format!("the {kind} probe has no path");
            refuse("type", message, "needs `path`", "add `path: /health`");
        }
        Http if probe.mechanism.is_none() && probed.asks_grpc_port(probe) => {
            let message = format!("the {kind} probe asks by HTTP at a port that serves gRPC");
            let violation = Violation::warning("probes", message).expected("may never be answered");
            let help = "remove `path`, so that gRPC's health check is asked; `type: http` says that the port answers both";
            report.add(&path.key("path"), violation.help(help));
        }
        Exec | Http | Tcp | Grpc => {}
    }
}

fn check_port(
    kind: &str,
    probe: &Probe,
    (probed, owner): (&ProbedApp<'_>, &str),
    path: &Path,
    subject: &Subject<'_>,
    report: &mut RuleReport<'_>,
) {
    let mut ports: Vec<PortRef<'_>> = probed.ports.clone();
    ports.retain(|port| port.protocol == Protocol::Tcp);
    if probed.mechanism(kind, probe) == ProbeMechanism::Exec || subject.is_unsure("service") {
        return;
    }
    match &probe.port {
        Some(port) => {
            let at = path.key("port");
            let is_written = subject.tree.at(&at).is_some_and(is_from_waml);
            known_port(kind, port, &ports, (&at, is_written), report);
        }
        // A default probe of the template does not apply to an app without ports; one that a
        // person wrote must not vanish.
        None if ports.is_empty() && subject.tree.at(path).is_some_and(is_from_waml) => {
            let message = format!("the {kind} probe has no port, and the {owner} has none of TCP");
            let violation =
                Violation::error("probes", message).expected("needs `port` or `command`");
            let help = match owner {
                "app" => "add a service with a TCP port, or probe with `command`",
                _ => "add `ports`, or probe with `command`",
            };
            report.add(path, violation.help(help));
        }
        None => {}
    }
}

fn known_port(
    kind: &str,
    port: &str,
    ports: &[PortRef<'_>],
    (path, is_written): (&Path, bool),
    report: &mut RuleReport<'_>,
) {
    if network::probed(ports, Some(port)).is_some() {
        return;
    }
    let port_text = quote(port);
    let port_texts: Vec<String> =
        ports.iter().map(|p| format!("`{}` ({})", p.name, p.target)).collect();
    if number(port).is_some() {
        // A container may listen where no service leads; more often the number is a slip.
        if is_written && !port_texts.is_empty() {
            let message =
                format!("the {kind} probe uses the port {port_text}, to which no service leads");
            let violation = Violation::warning("probes", message)
                .expected("no service leads there")
                .help(format!(
                    "write it only if the container listens there; services lead to {}",
                    port_texts.join(", ")
                ));
            report.add(path, violation);
        }
        return;
    }
    let help = if port_texts.is_empty() {
        "write the number that the container listens on, or add a service with this port".to_owned()
    } else {
        format!("use one of {}, or the number that the container listens on", port_texts.join(", "))
    };
    let message = format!(
        "the {kind} probe uses the TCP port {port_text}, which the container does not have"
    );
    report.add(path, Violation::error("probes", message).expected("no such port").help(help));
}
