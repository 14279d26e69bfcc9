//! Hosts and paths are legal, and every path leads to a port of a service.

use super::{RuleReport, Subject};
use crate::model::id::is_rfc1123_label;
use crate::model::target::Target;
use crate::model::violation::Violation;
use crate::templates::view::network::PortRef;
use crate::templates::view::{ingress, network};
use crate::waml::node::{Path, is_from_waml};
use crate::waml::quote::{quote, quoted_host};
use crate::waml::section_network::Ingress;

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let ports = network::tcp_ports(subject.section.services(), subject.waml.app.slug.as_str());
    let target = subject.facts.clusters.find(subject.target);
    for (path, ingress) in Path::root().each("ingress", &subject.section.ingress) {
        host(ingress, target.as_ref(), &path, report);
        paths(ingress, &path, report);
        // The ports are not known where a service is broken.
        if !subject.is_unsure("service") && !has_traffic(subject, ingress) {
            Address { subject, ingress, ports: &ports, path: &path }.leads(report);
        }
    }
}

/// Checks that rules of `traffic` say where an address leads; the rule `traffic` judges them.
fn has_traffic(subject: &Subject<'_>, address: &Ingress) -> bool {
    let traffic = subject.section.traffic.as_ref().filter(|_| subject.section.versions.is_some());
    traffic
        .zip(subject.cluster)
        .is_some_and(|(traffic, target)| traffic.is_for(&ingress::host(address, target)))
}

fn host(ingress: &Ingress, target: Option<&Target>, path: &Path, report: &mut RuleReport<'_>) {
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
                // With the domain added it would be a legal name, but not one that was meant.
                None => match prefix.as_deref().filter(|prefix| is_ip(prefix)) {
                    None => return,
                    Some(prefix) => Violation::error("ingress", format!("{} is an address, not the beginning of a host name", quote(prefix)))
                        .expected("not a host name")
                        .help("write a name, such as `hostPrefix: my-app`; the target's domain is added to it"),
                },
                Some(name) if is_address(&name) => {
                    Violation::error("ingress", format!("{} is an address, not a host name", quote(&name)))
                        .expected("not a host name")
                        .help("write the name by which people reach it; routes and certificates go by names")
                }
                Some(name) => Violation::error("ingress", format!("{} is not a legal host name", quoted_host(&name)))
                    .expected("not a legal host name")
                    .help("use parts of lower-case letters, digits and `-`, at most 63 characters each and 253 in all; `*.` before them stands for every name one level below"),
            }
        }
    };
    report.add(&path.key(key), violation);
}

fn paths(ingress: &Ingress, path: &Path, report: &mut RuleReport<'_>) {
    for (path, way) in path.each("paths", &ingress.paths) {
        if let Some(text) = way.path.as_deref().filter(|text| !is_path(text)) {
            let violation =
                Violation::error("ingress", format!("{} is not a legal path", quote(text)))
                    .expected("not a legal path")
                    .help("begin with `/`, and use only the characters of a URL's path, without `//`, `..` and `%2f`");
            report.add(&path.key("path"), violation);
        }
    }
}

/// An address, with the ports that it may lead to.
struct Address<'a> {
    subject: &'a Subject<'a>,
    ingress: &'a Ingress,
    ports: &'a [PortRef<'a>],
    path: &'a Path,
}

impl Address<'_> {
    fn leads(&self, report: &mut RuleReport<'_>) {
        for (way_path, way) in self.path.each("paths", &self.ingress.paths) {
            match way.service_port {
                Some(number) => {
                    self.leads_to(
                        number,
                        way.service.as_deref(),
                        &way_path.key("servicePort"),
                        report,
                    );
                }
                None => self.leads_by_default(way.service.as_deref(), &way_path, report),
            }
        }
        if self.ingress.paths.as_ref().is_none_or(Vec::is_empty) {
            self.leads_by_default(None, &self.path.key("port"), report);
        }
    }

    /// Checks the port of a path that names none: the address's own if it was written, else the template's, or the only
    /// port.
    fn leads_by_default(&self, service: Option<&str>, at: &Path, report: &mut RuleReport<'_>) {
        let own_path = self.path.key("port");
        let is_written = self.subject.tree.at(&own_path).is_some_and(is_from_waml);
        match self.ingress.port {
            Some(number) if is_written => self.leads_to(number, service, at, report),
            default if ingress::leads_by_default(self.ports, service, default).is_some() => {}
            Some(number) => self.leads_to(number, service, at, report),
            None => {
                let violation =
                    Violation::error("ingress", "this does not say to which port it leads")
                        .expected("needs `servicePort`")
                        .help(self.ways_out(None));
                report.add(at, violation);
            }
        }
    }

    fn leads_to(&self, number: u16, service: Option<&str>, at: &Path, report: &mut RuleReport<'_>) {
        if ingress::leads(self.ports, service, number).is_some() {
            return;
        }
        let default = match at.0.last() {
            Some(step) if step.is_key("servicePort") => String::new(),
            _ => self.subject.default_of(&self.path.key("port")),
        };
        let message = match service {
            Some(name) => format!("the service `{name}` has no port {number}{default}"),
            None => format!("no service has the port {number}{default}"),
        };
        let violation = Violation::error("ingress", message).expected("there is no such port");
        report.add(at, violation.help(self.ways_out(Some(number))));
    }

    fn ways_out(&self, number: Option<u16>) -> String {
        let port_line = |p: &PortRef<'_>| {
            format!("`servicePort: {}` for `{}` of {}", p.number, p.name, p.service)
        };
        let port_lines: Vec<String> = self.ports.iter().map(port_line).collect();
        match (port_lines.as_slice(), number) {
            ([], number) => {
                let number = number.unwrap_or(8000);
                format!("add `service: [{{ports: [{{name: http, number: {number}}}]}}]`")
            }
            (lines, _) => format!("write {}", lines.join(" or ")),
        }
    }
}

/// Checks for a name, or all names one level below one.
pub(crate) fn is_host(text: &str) -> bool {
    let name = text.strip_prefix("*.").unwrap_or(text);
    text.len() <= 253
        && !is_address(name)
        && name.contains('.')
        && name.split('.').all(is_rfc1123_label)
}

/// Checks for numbers with dots, as IPv4 has them: no domain ends in a number (RFC 1123, 2.1).
fn is_address(text: &str) -> bool {
    text.contains('.')
        && text
            .rsplit('.')
            .next()
            .is_some_and(|last| !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()))
}

/// Checks for the whole address of a machine: four bytes.
fn is_ip(text: &str) -> bool {
    let parts: Vec<&str> = text.strip_prefix("*.").unwrap_or(text).split('.').collect();
    parts.len() == 4 && parts.iter().all(|part| part.parse::<u8>().is_ok())
}

/// Checks for the characters of RFC 3986's `path-absolute`, without quotes of any kind: a path
/// becomes part of a routing rule. Without what Kubernetes and the Gateway API refuse because a
/// server may understand it in two ways: empty parts, `.` and `..`, an encoded slash.
pub(super) fn is_path(text: &str) -> bool {
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
