//! gRPC is served at a port that the app has.

use super::{Report, Subject};
use crate::model::violation::Violation;
use crate::pipeline::view::network;
use crate::waml::node::Path;
use crate::waml::typed::quoted;

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Some(port) = subject.section.grpc.as_ref().and_then(|grpc| grpc.port.as_ref()) else {
        return;
    };
    let slug = subject.waml.app.slug.as_str();
    let ports = network::tcp_ports(subject.section.services(), slug);
    let is_meant = |p: &network::PortRef<'_>| {
        p.name == port || [p.number, p.target].iter().any(|number| number.to_string() == *port)
    };
    if ports.iter().any(is_meant) {
        return;
    }
    let all: Vec<String> = ports.iter().map(|p| format!("`{}` ({})", p.name, p.number)).collect();
    let help = match all.as_slice() {
        [] => "add a service with this port, of TCP".to_owned(),
        all => format!("use one of {}", all.join(", ")),
    };
    let message = format!("no service has the TCP port {} that serves gRPC", quoted(port));
    let violation = Violation::error("grpc", message).expected("no such port").help(help);
    report.add(&Path::root().key("grpc").key("port"), violation);
}
