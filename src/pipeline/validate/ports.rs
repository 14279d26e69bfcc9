//! Every port has a number, and no two of the app's ports clash.

use std::collections::HashMap;

use super::{Report, Subject};
use crate::model::violation::Violation;
use crate::waml::node::Path;
use crate::waml::section_network::{Port, Service};

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let mut names: HashMap<&str, (u16, Path)> = HashMap::new();
    for (index, service) in subject.section.service.iter().flatten().enumerate() {
        let path = Path::root().key("service").index(index);
        has_ports(service, &path, report);
        let mut numbers: HashMap<u16, &str> = HashMap::new();
        for (index, port) in service.ports.iter().flatten().enumerate() {
            let path = path.key("ports").index(index);
            let Some(number) = port.number.or(service.port) else {
                no_number(port, &path, report);
                continue;
            };
            if let Some(other) = numbers.insert(number, &port.name) {
                same_number(port, number, other, &path, report);
            }
            let target = port.target_port.unwrap_or(number);
            match names.get(port.name.as_str()) {
                Some((other, first)) if *other != target => {
                    same_name(port, target, *other, first, &path, report);
                }
                _ => drop(names.insert(&port.name, (target, path))),
            }
        }
    }
}

fn has_ports(service: &Service, path: &Path, report: &mut Report<'_>) {
    if service.ports.iter().flatten().next().is_none() && service.port.is_none() {
        let violation = Violation::error("ports", format!("`{path}` has no port"))
            .expected("needs `ports` or `port`")
            .help("add `ports: [{name: http, number: 8000}]`");
        report.add(path, violation);
    }
}

fn no_number(port: &Port, path: &Path, report: &mut Report<'_>) {
    let violation = Violation::error("ports", format!("the port `{}` has no number", port.name))
        .expected("needs `number`")
        .help("add `number: 8000`, or `port: 8000` to the service");
    report.add(path, violation);
}

fn same_number(port: &Port, number: u16, other: &str, path: &Path, report: &mut Report<'_>) {
    let message = format!("the ports `{other}` and `{}` have the same number {number}", port.name);
    let violation = Violation::error("ports", message).expected("is taken");
    report.add(&path.key("number"), violation.help("give each port of a service its own number"));
}

/// Two services may name the same container port; then they must mean the same one.
fn same_name(
    port: &Port,
    target: u16,
    other: u16,
    first: &Path,
    path: &Path,
    report: &mut Report<'_>,
) {
    let message = format!(
        "the port `{}` leads to {target} of the container, and to {other} in `{first}`",
        port.name
    );
    let violation = Violation::error("ports", message).expected("means another port");
    report.add(path, violation.help("give the ports different names"));
}
