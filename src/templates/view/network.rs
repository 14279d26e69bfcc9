//! Services and ports, with all parts that the WAML may leave out.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::waml::section::Section;
use crate::waml::section_containers::ContainerPort;
use crate::waml::section_network::{Port, Protocol, Service};
use crate::waml::section_operations::Grpc;

/// A port that a service offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PortRef<'a> {
    pub(crate) service: &'a str,
    pub(crate) name: &'a str,
    pub(crate) number: u16,
    /// The number in the container.
    pub(crate) target: u16,
    pub(crate) protocol: Protocol,
}

/// The name of a service's port where it lists none.
const ONLY_PORT: &str = "http";

/// Lists all ports of all services.
pub(crate) fn service_ports<'a>(services: &'a [Service], slug: &'a str) -> Vec<PortRef<'a>> {
    services.iter().flat_map(|service| ports_of(service, slug)).collect()
}

/// Lists the ports of the app's container: those of its services, and those that only the container has.
pub(crate) fn app_ports<'a>(section: &'a Section, slug: &'a str) -> Vec<PortRef<'a>> {
    let own = section.ports.iter().flatten().map(PortRef::of_container);
    service_ports(section.services(), slug).into_iter().chain(own).collect()
}

/// Lists the ports of one service that have a number.
pub(crate) fn ports_of<'a>(service: &'a Service, slug: &'a str) -> Vec<PortRef<'a>> {
    let name = service.name.as_deref().unwrap_or(slug);
    let declared = service.ports.as_deref().unwrap_or_default();
    let only = service.port.filter(|_| declared.is_empty()).map(|number| PortRef {
        service: name,
        name: ONLY_PORT,
        number,
        target: number,
        protocol: Protocol::Tcp,
    });
    let port_of = |port: &'a Port| {
        let number = port.number.or(service.port)?;
        let target = port.target_port.unwrap_or(number);
        let protocol = port.protocol.unwrap_or(Protocol::Tcp);
        Some(PortRef { service: name, name: &port.name, number, target, protocol })
    };
    declared.iter().filter_map(port_of).chain(only).collect()
}

/// A service as templates see it.
#[derive(Debug, Serialize)]
pub(crate) struct ServiceView {
    name: String,
    headless: bool,
    ports: Vec<PortView>,
}

/// A port as templates see it.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PortView {
    pub(crate) name: String,
    pub(crate) number: u16,
    target: u16,
    pub(crate) protocol: Protocol,
    /// The protocol of the port, for routers; none where nothing needs to be said.
    app_protocol: Option<&'static str>,
}

/// HTTP/2 without TLS, which gRPC is spoken over: the name that Kubernetes gives it.
const H2C: &str = "kubernetes.io/h2c";

pub(crate) fn services(section: &Section, slug: &str) -> Vec<ServiceView> {
    let grpc = GrpcPorts::of(section, slug);
    let port = |port: &PortRef<'_>| PortView {
        app_protocol: grpc.serves_grpc(port).then_some(H2C),
        ..PortView::of(port)
    };
    let view = |service: &Service| ServiceView {
        name: service.name.clone().unwrap_or_else(|| slug.to_owned()),
        headless: service.headless.unwrap_or_default(),
        ports: ports_of(service, slug).iter().map(port).collect(),
    };
    section.services().iter().map(view).collect()
}

/// Lists all ports of all services for the Service of a version, each number once.
pub(crate) fn version_ports(section: &Section, slug: &str) -> Vec<PortView> {
    let grpc = GrpcPorts::of(section, slug);
    let mut ports: Vec<PortView> = Vec::new();
    for port in service_ports(section.services(), slug) {
        let view = PortView {
            app_protocol: grpc.serves_grpc(&port).then_some(H2C),
            ..PortView::of(&port)
        };
        add_port(&mut ports, view);
    }
    ports
}

/// The ports of the container that serve gRPC.
#[derive(Debug, Default)]
pub(crate) struct GrpcPorts(BTreeSet<u16>);

impl GrpcPorts {
    /// Finds those that `grpc.port` means. Where it says none: those that are called `grpc` or
    /// `grpc-…`, as service meshes read names, or else the only one that an app with `grpc` has.
    pub(crate) fn of(section: &Section, slug: &str) -> Self {
        let ports = tcp_ports(section.services(), slug);
        let targets = |is_meant: &dyn Fn(&PortRef<'_>) -> bool| -> BTreeSet<u16> {
            ports.iter().filter(|port| is_meant(port)).map(|port| port.target).collect()
        };
        let wanted_port = section.grpc.as_ref().and_then(|Grpc { port }| port.as_deref());
        let named_targets = targets(&|port| match wanted_port {
            Some(name_or_number) => port.has_name_or_number(name_or_number),
            None => port.name == "grpc" || port.name.starts_with("grpc-"),
        });
        let all_targets = targets(&|_| true);
        let is_only = wanted_port.is_none() && section.grpc.is_some() && all_targets.len() == 1;
        Self(if named_targets.is_empty() && is_only { all_targets } else { named_targets })
    }

    /// Returns whether the port serves gRPC.
    pub(crate) fn serves_grpc(&self, port: &PortRef<'_>) -> bool {
        port.protocol == Protocol::Tcp && self.0.contains(&port.target)
    }

    /// Checks that it is known of no port.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> PortRef<'a> {
    /// Takes a port that no service leads to.
    pub(crate) fn of_container(port: &'a ContainerPort) -> Self {
        let ContainerPort { name, number, protocol } = port;
        let protocol = protocol.unwrap_or(Protocol::Tcp);
        Self { service: "", name, number: *number, target: *number, protocol }
    }
    /// Checks that it has that name, or that number, in its service or in the container.
    pub(crate) fn has_name_or_number(&self, name_or_number: &str) -> bool {
        self.name == name_or_number
            || [self.number, self.target].iter().any(|n| n.to_string() == name_or_number)
    }
}

/// Lists the ports that take connections: routes and probes lead to no others.
pub(crate) fn tcp_ports<'a>(services: &'a [Service], slug: &'a str) -> Vec<PortRef<'a>> {
    let mut ports = service_ports(services, slug);
    ports.retain(|port| port.protocol == Protocol::Tcp);
    ports
}

/// Finds the TCP port that a probe means by a name or a number; the first where it says neither. A
/// number is the container's, and that of a service where no container's port has it: there it
/// leads to the container's.
pub(crate) fn probed<'p, 'a>(
    ports: &'p [PortRef<'a>],
    name_or_number: Option<&str>,
) -> Option<&'p PortRef<'a>> {
    let mut tcp = ports.iter().filter(|port| port.protocol == Protocol::Tcp);
    let Some(name_or_number) = name_or_number else { return tcp.next() };
    let is_number = |number: u16| number.to_string() == name_or_number;
    let in_container = |port: &&PortRef<'_>| port.name == name_or_number || is_number(port.target);
    tcp.clone().find(in_container).or_else(|| tcp.find(|port| is_number(port.number)))
}

/// Adds a port that is not there yet. Only one that its service does not name can meet its name here: the rule `ports`
/// refuses the others.
fn add_port(ports: &mut Vec<PortView>, mut view: PortView) {
    if ports.iter().any(|p| (p.number, p.protocol) == (view.number, view.protocol)) {
        return;
    }
    if ports.iter().any(|p| p.name == view.name) {
        view.name = format!("port-{}", view.number);
    }
    ports.push(view);
}

/// Lists the container's ports, each once: under the name that the first service gives it.
pub(crate) fn container_ports(of_services: &[PortRef<'_>]) -> Vec<PortView> {
    let mut ports: Vec<PortView> = Vec::new();
    for port in of_services {
        let view = PortView { number: port.target, ..PortView::of(port) };
        add_port(&mut ports, view);
    }
    ports
}

impl PortView {
    fn of(port: &PortRef<'_>) -> Self {
        let PortRef { service: _, name, number, target, protocol } = *port;
        Self { name: name.to_owned(), number, target, protocol, app_protocol: None }
    }
}
