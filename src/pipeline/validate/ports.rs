//! Every port has a number, no two of the app's ports clash, and gRPC is served at one of them.
//!
//! A port is a number and a protocol: DNS has 53 twice.

use std::collections::HashMap;

use super::{RuleReport, Subject};
use crate::model::violation::Violation;
use crate::templates::view::network;
use crate::templates::view::network::{GrpcPorts, PortRef};
use crate::waml::node::Path;
use crate::waml::quote::quote;
use crate::waml::section_network::{Protocol, Service};

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let slug = subject.waml.app.slug.as_str();
    let mut names: HashMap<&str, (PortRef<'_>, Path)> = HashMap::new();
    for (path, service) in Path::root().each("service", &subject.section.service) {
        has_ports(service, &path, report);
        check_numbers(service, &path, report);
        let mut numbers: HashMap<String, &str> = HashMap::new();
        for port in network::ports_of(service, slug) {
            let path = place(service, &port, &path);
            if let Some(other) = numbers.insert(format_port(port.number, port.protocol), port.name)
            {
                same_number(&port, other, &path, report);
            }
            // A port that its service does not name gets another name where its own is taken.
            let is_listed = service.ports.iter().flatten().next().is_some();
            match names.get(port.name) {
                Some((other, first)) if is_listed && in_container(other) != in_container(&port) => {
                    same_name(&port, other, first, &path, report);
                }
                Some(_) => {}
                None => drop(names.insert(port.name, (port, path))),
            }
        }
    }
}

fn in_container(port: &PortRef<'_>) -> (u16, Protocol) {
    (port.target, port.protocol)
}

/// Finds where the port is listed; the service itself where it lists none.
fn place(service: &Service, port: &PortRef<'_>, path: &Path) -> Path {
    let index = service.ports.iter().flatten().position(|entry| entry.name == port.name);
    index.map_or_else(|| path.clone(), |index| path.key("ports").index(index))
}

fn has_ports(service: &Service, path: &Path, report: &mut RuleReport<'_>) {
    if service.ports.iter().flatten().next().is_none() && service.port.is_none() {
        let violation = Violation::error("ports", format!("`{path}` has no port"))
            .expected("needs `ports` or `port`")
            .help("add `ports: [{name: http, number: 8000}]`");
        report.add(path, violation);
    }
}

fn check_numbers(service: &Service, path: &Path, report: &mut RuleReport<'_>) {
    for (path, port) in path.each("ports", &service.ports) {
        if port.number.or(service.port).is_none() {
            let message = format!("the port `{}` has no number", port.name);
            let violation = Violation::error("ports", message).expected("needs `number`");
            report.add(&path, violation.help("add `number: 8000`, or `port: 8000` to the service"));
        }
    }
}

fn same_number(port: &PortRef<'_>, other: &str, path: &Path, report: &mut RuleReport<'_>) {
    let message = format!(
        "the ports `{other}` and `{}` have the same number {}",
        port.name,
        format_port(port.number, port.protocol)
    );
    let violation = Violation::error("ports", message).expected("is taken");
    report.add(&path.key("number"), violation.help("give each port of a service its own number"));
}

/// Checks services that name the same container port: they must mean the same one.
fn same_name(
    port: &PortRef<'_>,
    other: &PortRef<'_>,
    first: &Path,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    let message = format!(
        "the port `{}` leads to {} of the container, and to {} in `{first}`",
        port.name,
        format_port(port.target, port.protocol),
        format_port(other.target, other.protocol),
    );
    let violation = Violation::error("ports", message).expected("means another port");
    report.add(path, violation.help("give the ports different names"));
}

fn format_port(number: u16, protocol: Protocol) -> String {
    match protocol {
        Protocol::Tcp => number.to_string(),
        Protocol::Udp => format!("{number}/UDP"),
    }
}

/// Checks that gRPC is served at a port that the app has.
pub(super) fn grpc(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(grpc) = &subject.section.grpc else { return };
    let slug = subject.waml.app.slug.as_str();
    if !GrpcPorts::of(subject.section, slug).is_empty() || subject.is_unsure("service") {
        return;
    }
    let ports = network::tcp_ports(subject.section.services(), slug);
    let port_texts: Vec<String> =
        ports.iter().map(|p| format!("`{}` ({})", p.name, p.number)).collect();
    let Some(port) = &grpc.port else {
        return report_missing_port(&port_texts, report);
    };
    let help = match port_texts.as_slice() {
        [] => "add a service with this port, of TCP".to_owned(),
        port_texts => format!("use one of {}", port_texts.join(", ")),
    };
    let message = format!("no service has the TCP port {} that serves gRPC", quote(port));
    let violation = Violation::error("grpc", message).expected("no such port").help(help);
    report.add(&Path::root().key("grpc").key("port"), violation);
}

/// Reports gRPC without a port. An app without a service is measured all the same; one with several ports is not probed
/// as it should be.
fn report_missing_port(port_texts: &[String], report: &mut RuleReport<'_>) {
    if port_texts.is_empty() {
        return;
    }
    let violation = Violation::warning("grpc", "the app does not say which port serves gRPC")
        .expected("needs `port`")
        .help(format!(
            "add `port`, one of {}: its probes and routes are then gRPC's",
            port_texts.join(", ")
        ));
    report.add(&Path::root().key("grpc"), violation);
}
