//! Probes use ports that the app has, and what Kubernetes takes.

use super::{Report, Subject, is_from_waml};
use crate::model::violation::Violation;
use crate::pipeline::view::network::{self, PortRef};
use crate::waml::node::{Node, Path};
use crate::waml::section_workload::Probe;

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(probes) = &subject.section.probes else { return };
    let ports = network::tcp_ports(subject.section.services(), subject.waml.app.slug.as_str());
    for (kind, probe) in [
        ("liveness", &probes.liveness),
        ("readiness", &probes.readiness),
        ("startup", &probes.startup),
    ] {
        if let Some(probe) = probe {
            let path = Path::root().key("probes").key(kind);
            legal(kind, probe, &path, report);
            check_probe(kind, probe, &ports, &path, subject.tree, report);
        }
    }
}

fn legal(kind: &str, probe: &Probe, path: &Path, report: &mut Report<'_>) {
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
        let message = format!("a {kind} probe succeeds at the first time");
        refuse("successThreshold", message, "must be 1", "leave it out, or write 1");
    }
}

fn check_probe(
    kind: &str,
    probe: &Probe,
    ports: &[PortRef<'_>],
    path: &Path,
    tree: &Node,
    report: &mut Report<'_>,
) {
    if probe.command.is_some() {
        if probe.path.is_some() && tree.at(&path.key("path")).is_some_and(is_from_waml)
            || probe.port.is_some()
        {
            let violation = Violation::error(
                "probes",
                format!("the {kind} probe has a command and a port or path"),
            )
            .expected("one too many")
            .help("keep `command`, or `path` and `port`");
            report.add(path, violation);
        }
        return;
    }
    match &probe.port {
        Some(port) => known_port(kind, port, ports, &path.key("port"), report),
        // A default probe of the template does not apply to an app without ports; one that a
        // person wrote must not vanish.
        None if ports.is_empty() && tree.at(path).is_some_and(is_from_waml) => {
            let violation = Violation::error(
                "probes",
                format!("the {kind} probe has no port, and the app has none of TCP"),
            )
            .expected("needs `port` or `command`")
            .help("add a service with a TCP port, or probe with `command`");
            report.add(path, violation);
        }
        None => {}
    }
}

fn known_port(kind: &str, port: &str, ports: &[PortRef<'_>], path: &Path, report: &mut Report<'_>) {
    if network::probed(ports, Some(port)).is_some() {
        return;
    }
    let shown = crate::waml::typed::quoted(port);
    let all: Vec<String> = ports.iter().map(|p| format!("`{}` ({})", p.name, p.target)).collect();
    let help = if all.is_empty() {
        "add a service with this port, of TCP".to_owned()
    } else {
        format!("use one of {}", all.join(", "))
    };
    let message =
        format!("the {kind} probe uses the TCP port {shown}, which the container does not have");
    report.add(path, Violation::error("probes", message).expected("no such port").help(help));
}
