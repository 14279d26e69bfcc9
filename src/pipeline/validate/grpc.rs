//! gRPC is served at a port that the app has.

use super::{Report, Subject};
use crate::model::violation::Violation;
use crate::templates::view::network;
use crate::templates::view::network::GrpcPorts;
use crate::waml::node::Path;
use crate::waml::typed::quoted;

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(grpc) = &subject.section.grpc else { return };
    let slug = subject.waml.app.slug.as_str();
    if !GrpcPorts::of(subject.section, slug).is_empty() || subject.is_unsure("service") {
        return;
    }
    let ports = network::tcp_ports(subject.section.services(), slug);
    let all: Vec<String> = ports.iter().map(|p| format!("`{}` ({})", p.name, p.number)).collect();
    let Some(port) = &grpc.port else {
        return unsaid(&all, report);
    };
    let help = match all.as_slice() {
        [] => "add a service with this port, of TCP".to_owned(),
        all => format!("use one of {}", all.join(", ")),
    };
    let message = format!("no service has the TCP port {} that serves gRPC", quoted(port));
    let violation = Violation::error("grpc", message).expected("no such port").help(help);
    report.add(&Path::root().key("grpc").key("port"), violation);
}

/// An app without a service is measured all the same; one with several ports is not probed as it should be.
fn unsaid(all: &[String], report: &mut Report<'_>) {
    if all.is_empty() {
        return;
    }
    let violation = Violation::warning("grpc", "it is not said which port serves gRPC")
        .expected("needs `port`")
        .help(format!(
            "add `port`, one of {}: its probes and routes are then gRPC's",
            all.join(", ")
        ));
    report.add(&Path::root().key("grpc"), violation);
}
