//! Hosts and paths are legal, and every path leads to a port of a service.

use super::{Report, Subject};
use crate::model::id::is_rfc1123_label;
use crate::model::target::Target;
use crate::model::violation::Violation;
use crate::pipeline::view::network::{self, PortRef};
use crate::waml::node::Path;
use crate::waml::section_network::Ingress;
use crate::waml::typed::quoted;

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let ports = network::tcp_ports(subject.section.services(), subject.waml.app.slug.as_str());
    let target = subject.facts.clusters.find(subject.target);
    for (index, ingress) in subject.section.ingress.iter().flatten().enumerate() {
        let path = Path::root().key("ingress").index(index);
        host(ingress, target.as_ref(), &path, report);
        leads(ingress, &ports, &path, report);
    }
}

fn host(ingress: &Ingress, target: Option<&Target>, path: &Path, report: &mut Report<'_>) {
    let key = if ingress.host.is_some() { "host" } else { "hostPrefix" };
    let violation = match (&ingress.host, &ingress.host_prefix) {
        (Some(_), Some(_)) => {
            Violation::error("ingress", "an ingress has a `host` or a `hostPrefix`, not both")
                .expected("one too many")
                .help(
                    "keep `hostPrefix` for a name below the target's domain, `host` for any other",
                )
        }
        (None, None) => Violation::error("ingress", "an ingress has no host")
            .expected("needs `hostPrefix`")
            .help("add `hostPrefix: my-app` for a name below the target's domain"),
        (host, prefix) => {
            let name = host.clone().or_else(|| {
                prefix.as_ref().map(|p| format!("{p}.{}", target.map_or("x", |t| &t.domain)))
            });
            match name.filter(|name| !is_host(name)) {
                None => return,
                Some(name) => Violation::error("ingress", format!("{} is not a legal host name", quoted(&name)))
                    .expected("not a legal host name")
                    .help("use parts of lower-case letters, digits and `-`, at most 63 characters each and 253 in all; `*.` before them stands for every name one level below"),
            }
        }
    };
    report.add(&path.key(key), violation);
}

fn leads(ingress: &Ingress, ports: &[PortRef<'_>], path: &Path, report: &mut Report<'_>) {
    let paths = ingress.paths.as_deref().unwrap_or_default();
    for (index, way) in paths.iter().enumerate() {
        let here = path.key("paths").index(index);
        if let Some(text) = way.path.as_deref().filter(|text| !is_path(text)) {
            let violation =
                Violation::error("ingress", format!("{} is not a legal path", quoted(text)))
                    .expected("not a legal path")
                    .help("begin with `/`, and use only the characters of a URL's path, without `//`, `..` and `%2f`");
            report.add(&here.key("path"), violation);
        }
        let (number, at) = match way.service_port {
            Some(number) => (Some(number), here.key("servicePort")),
            None => (ingress.port, here.clone()),
        };
        leads_to(number, way.service.as_deref(), ports, &at, report);
    }
    if paths.is_empty() {
        leads_to(ingress.port, None, ports, &path.key("port"), report);
    }
}

fn leads_to(
    number: Option<u16>,
    service: Option<&str>,
    ports: &[PortRef<'_>],
    at: &Path,
    report: &mut Report<'_>,
) {
    let Some(number) = number else {
        let violation = Violation::error("ingress", "it is not said to which port this leads")
            .expected("needs `servicePort`")
            .help("add `servicePort: 8000`");
        return report.add(at, violation);
    };
    let of_service = |port: &&PortRef<'_>| service.is_none_or(|name| port.service == name);
    if ports.iter().filter(of_service).any(|port| port.number == number) {
        return;
    }
    let all: Vec<String> =
        ports.iter().map(|p| format!("{}:{} ({})", p.service, p.number, p.name)).collect();
    let message = match service {
        Some(name) => format!("the service `{name}` has no port {number}"),
        None => format!("no service has the port {number}"),
    };
    let help = if all.is_empty() {
        format!("add `service: [{{ports: [{{name: http, number: {number}}}]}}]`")
    } else {
        format!("use one of {}", all.join(", "))
    };
    report.add(at, Violation::error("ingress", message).expected("no such port").help(help));
}

/// A name, or all names one level below one.
pub(super) fn is_host(text: &str) -> bool {
    let name = text.strip_prefix("*.").unwrap_or(text);
    text.len() <= 253 && name.contains('.') && name.split('.').all(is_rfc1123_label)
}

/// The characters of RFC 3986's `path-absolute`, without quotes of any kind: a path becomes part
/// of a routing rule. Without what Kubernetes and the Gateway API refuse because a server may
/// understand it in two ways: empty parts, `.` and `..`, an encoded slash.
fn is_path(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"/-._~!$&()*+,;=:@%".contains(&b);
    let is_encoded = |code: &str| {
        let hex = code.get(..2).is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
        hex && !code.to_ascii_lowercase().starts_with("2f")
    };
    text.starts_with('/')
        && text.len() <= 1000
        && text.bytes().all(legal)
        && !text.contains("//")
        && !text.split('/').any(|part| matches!(part, "." | ".."))
        && text.split('%').skip(1).all(is_encoded)
}
