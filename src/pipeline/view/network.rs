//! Services, ports and routes, with everything resolved that the WAML may leave out.

use serde::Serialize;

use crate::model::target::Target;
use crate::waml::section_network::{Ingress, Port, Protocol, Service};

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

/// All ports of all services.
pub(crate) fn service_ports<'a>(services: &'a [Service], slug: &'a str) -> Vec<PortRef<'a>> {
    services.iter().flat_map(|service| ports_of(service, slug)).collect()
}

/// The ports of one service that have a number.
pub(crate) fn ports_of<'a>(service: &'a Service, slug: &'a str) -> Vec<PortRef<'a>> {
    let name = service.name.as_deref().unwrap_or(slug);
    let listed = service.ports.as_deref().unwrap_or_default();
    let only = service.port.filter(|_| listed.is_empty()).map(|number| PortRef {
        service: name,
        name: ONLY_PORT,
        number,
        target: number,
        protocol: Protocol::Tcp,
    });
    let of = |port: &'a Port| {
        let number = port.number.or(service.port)?;
        let target = port.target_port.unwrap_or(number);
        let protocol = port.protocol.unwrap_or(Protocol::Tcp);
        Some(PortRef { service: name, name: &port.name, number, target, protocol })
    };
    listed.iter().filter_map(of).chain(only).collect()
}

/// A service as templates see it.
#[derive(Debug, Serialize)]
pub(crate) struct ServiceView {
    name: String,
    ports: Vec<PortView>,
}

/// A port as templates see it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PortView {
    pub(crate) name: String,
    pub(crate) number: u16,
    target: u16,
    protocol: Protocol,
}

/// An address as templates see it.
#[derive(Debug, Serialize)]
pub(crate) struct IngressView {
    /// The object's name: the slug for the first, and a number for each further one.
    name: String,
    host: String,
    public: bool,
    routes: Vec<RouteView>,
}

/// A path that leads to a service's port.
#[derive(Debug, Serialize)]
pub(crate) struct RouteView {
    path: String,
    service: String,
    port: u16,
}

pub(crate) fn services(services: &[Service], slug: &str) -> Vec<ServiceView> {
    let view = |service: &Service| ServiceView {
        name: service.name.clone().unwrap_or_else(|| slug.to_owned()),
        ports: ports_of(service, slug).iter().map(PortView::of).collect(),
    };
    services.iter().map(view).collect()
}

/// The ports that take connections: routes and probes lead to no others.
pub(crate) fn tcp_ports<'a>(services: &'a [Service], slug: &'a str) -> Vec<PortRef<'a>> {
    let mut ports = service_ports(services, slug);
    ports.retain(|port| port.protocol == Protocol::Tcp);
    ports
}

/// The TCP port that a probe means by a name or a number; the first where it says neither.
pub(crate) fn probed<'p, 'a>(
    ports: &'p [PortRef<'a>],
    wanted: Option<&str>,
) -> Option<&'p PortRef<'a>> {
    let is_meant = |port: &&PortRef<'_>| {
        wanted.is_none_or(|wanted| port.name == wanted || port.target.to_string() == wanted)
    };
    ports.iter().filter(|port| port.protocol == Protocol::Tcp).find(is_meant)
}

/// The container's ports, each once: under the name that the first service gives it.
pub(crate) fn container_ports(of_services: &[PortRef<'_>]) -> Vec<PortView> {
    let mut ports: Vec<PortView> = Vec::new();
    for port in of_services {
        let mut view = PortView { number: port.target, ..PortView::of(port) };
        if ports.iter().any(|p| (p.number, p.protocol) == (view.number, view.protocol)) {
            continue;
        }
        // Only a port that its service does not name can meet its name here: the rule `ports`
        // refuses the others.
        if ports.iter().any(|p| p.name == view.name) {
            view.name = format!("port-{}", view.number);
        }
        ports.push(view);
    }
    ports
}

impl PortView {
    fn of(port: &PortRef<'_>) -> Self {
        let PortRef { service: _, name, number, target, protocol } = *port;
        Self { name: name.to_owned(), number, target, protocol }
    }
}

pub(crate) fn ingresses(
    ingresses: &[Ingress],
    services: &[Service],
    slug: &str,
    target: &Target,
) -> Vec<IngressView> {
    let ports = tcp_ports(services, slug);
    let view = |(index, ingress): (usize, &Ingress)| IngressView {
        name: if index == 0 { slug.to_owned() } else { format!("{slug}-{}", index + 1) },
        host: host(ingress, target),
        public: ingress.public.unwrap_or(false),
        routes: routes(ingress, &ports),
    };
    ingresses.iter().enumerate().map(view).collect()
}

/// The whole host name of an ingress.
pub(crate) fn host(ingress: &Ingress, target: &Target) -> String {
    match (&ingress.host, &ingress.host_prefix) {
        (Some(host), _) => host.clone(),
        (None, Some(prefix)) => format!("{prefix}.{}", target.domain),
        (None, None) => target.domain.clone(),
    }
}

fn routes(ingress: &Ingress, ports: &[PortRef<'_>]) -> Vec<RouteView> {
    let route = |path: Option<&str>, number: Option<u16>, service: Option<&str>| {
        let number = number.or(ingress.port)?;
        let leads = |port: &&PortRef<'_>| {
            port.number == number && service.is_none_or(|service| port.service == service)
        };
        let port = ports.iter().find(leads)?;
        let path = path.unwrap_or("/").to_owned();
        Some(RouteView { path, service: port.service.to_owned(), port: port.number })
    };
    match ingress.paths.as_deref() {
        None | Some([]) => route(None, None, None).into_iter().collect(),
        Some(paths) => paths
            .iter()
            .filter_map(|p| route(p.path.as_deref(), p.service_port, p.service.as_deref()))
            .collect(),
    }
}
