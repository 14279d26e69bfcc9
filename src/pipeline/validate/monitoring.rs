//! The app's own metrics are at a port that Prometheus can ask.

use super::{RuleReport, Subject};
use crate::model::violation::Violation;
use crate::templates::view::{metrics, network};
use crate::waml::node::Path;
use crate::waml::quote::quote;
use crate::waml::section_operations::MonitorKind;
use crate::waml::suggest;

const RULE: &str = "monitoring";

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(endpoint) = &subject.section.monitoring else { return };
    let (path, slug) = (Path::root().key("monitoring"), subject.waml.app.slug.as_str());
    let mut refuse = |path: &Path, message: String, expected: &str, help: &str| {
        report.add(path, Violation::error(RULE, message).expected(expected).help(help));
    };
    if let Some(way) = endpoint.path.as_deref().filter(|way| !is_http_path(way)) {
        let message = format!("{} is not the path of a page", quote(way));
        refuse(&path.key("path"), message, "not a path", "write `/metrics`");
    }
    let unsure = ["service", "ports", "sidecars"].into_iter().any(|part| subject.is_unsure(part));
    if unsure {
        return;
    }
    let ports = metrics::ports(subject.section, slug);
    let Some(port) = metrics::port(endpoint, &ports) else {
        if let Some(name) = &endpoint.port {
            let message = format!("no container has a TCP port {}", quote(name));
            let help = suggest::hint(name, ports.iter().map(|port| port.name));
            refuse(&path.key("port"), message, "no such port", &help);
        } else {
            let message = "no container has a TCP port to ask".to_owned();
            let help = "add `ports: [{name: metrics, number: 9090}]`";
            refuse(&path, message, "needs a port", help);
        }
        return;
    };
    let of_services = network::service_ports(subject.section.services(), slug);
    let is_offered = of_services.iter().any(|one| one.name == port.name);
    if endpoint.kind == Some(MonitorKind::ServiceMonitor) && !is_offered {
        let message = format!("no Service offers the port {}", quote(port.name));
        let help = "write `kind: PodMonitor`, which asks the pods, or add the port to a service";
        refuse(&path.key("kind"), message, "finds nothing", help);
    }
    if let Some(cluster) = subject.cluster.filter(|one| !one.platform.monitoring.enabled) {
        let message =
            format!("nothing on `{}` reads metrics by the operator's objects", cluster.name);
        let violation = Violation::warning(RULE, message).expected("left out");
        let help = "it begins when the target's `platform.monitoring.enabled` is true";
        report.add(&path, violation.help(help));
    }
}

fn is_http_path(text: &str) -> bool {
    text.starts_with('/')
        && text.len() <= 1000
        && text.chars().all(|c| !c.is_control() && !c.is_whitespace())
}
