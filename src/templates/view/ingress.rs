//! Addresses, with their routes and certificates, and the caching of answers.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::platform::network::{CertificateKind, Gateway, IngressKind};
use crate::model::target::Target;
use crate::templates::view::naming;
use crate::templates::view::network::{GrpcPorts, PortRef, tcp_ports};
use crate::waml::section::Section;
use crate::waml::section_network::{Cache, Ingress};

/// An address as templates see it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IngressView {
    /// The object's name: the slug for the first, and a number for each further one.
    pub(crate) name: String,
    pub(crate) host: String,
    public: bool,
    pub(crate) tls: bool,
    /// The certificate, and the Secret in which it is; none where connections are not encrypted, or another program
    /// creates it.
    certificate: Option<String>,
    entry_points: Vec<String>,
    pub(crate) class: String,
    gateway: Gateway,
    annotations: BTreeMap<String, String>,
    pub(crate) routes: Vec<RouteView>,
}

/// A path that leads to a service's port.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RouteView {
    pub(crate) path: String,
    /// True if the path is the whole one, and no prefix.
    pub(crate) exact: bool,
    /// The headers that a request must have.
    pub(crate) headers: Vec<HeaderView>,
    /// The route in Traefik's words. Traefik's metrics have it as a label.
    pub(crate) rule: String,
    /// The priority among Traefik's routes, where its own order, by the rule's length, is wrong.
    pub(crate) priority: Option<usize>,
    pub(crate) service: String,
    pub(crate) port: u16,
    /// True if gRPC is served there, which needs HTTP/2 all the way.
    pub(crate) grpc: bool,
    pub(crate) cache: Option<CacheView>,
    /// Everything that it leads to: the service, or versions with their shares.
    pub(crate) backends: Vec<BackendView>,
    /// The name of the object by which Traefik shares requests; none where there is one backend.
    pub(crate) split: Option<String>,
}

/// A port of a service with its share of the requests; none where it has all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct BackendView {
    pub(crate) service: String,
    pub(crate) port: u16,
    pub(crate) weight: Option<u32>,
}

/// A header with the value that it must have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct HeaderView {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// The caching of answers, and the name of the object for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CacheView {
    name: String,
    header: String,
}

/// A certificate, and the one host that it is for.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CertificateView {
    name: String,
    host: String,
}

/// The annotation of ingress-nginx for a gRPC server; it holds for a whole `Ingress`.
const NGINX_GRPC: (&str, &str) = ("nginx.ingress.kubernetes.io/backend-protocol", "GRPC");

pub(crate) fn ingresses(section: &Section, slug: &str, target: &Target) -> Vec<IngressView> {
    let ports = tcp_ports(section.services(), slug);
    let grpc = GrpcPorts::of(section, slug);
    let platform = &target.platform.ingress;
    let by_us = target.platform.certificates.kind != CertificateKind::None;
    let view = |(index, ingress): (usize, &Ingress)| {
        let public = ingress.public.unwrap_or(false);
        let (host, tls) = (host(ingress, target), platform.tls(public));
        let mut routes = routes(ingress, &host, &ports, &grpc, slug);
        if platform.kind == IngressKind::Istio {
            sort_by_precision(&mut routes);
        }
        let mut annotations = platform.annotations(public).clone();
        if platform.kind == IngressKind::Kubernetes && routes.iter().any(|route| route.grpc) {
            // The operator's annotation wins: `GRPCS`, or another controller's value.
            let key = NGINX_GRPC.0.to_owned();
            annotations.entry(key).or_insert_with(|| NGINX_GRPC.1.to_owned());
        }
        IngressView {
            name: name(slug, index),
            public,
            tls,
            certificate: (tls && by_us).then(|| naming::join_name(slug, &naming::host_part(&host))),
            host,
            entry_points: platform.entry_points(public).to_vec(),
            class: platform.class(public).to_owned(),
            gateway: platform.gateway(public).clone(),
            annotations,
            routes,
        }
    };
    section.ingresses().iter().enumerate().map(view).collect()
}

fn name(slug: &str, index: usize) -> String {
    match index {
        0 => slug.to_owned(),
        _ => naming::join_name(slug, &(index + 1).to_string()),
    }
}

/// Lists one certificate for each host, however many addresses have it.
pub(crate) fn certificates(ingresses: &[IngressView]) -> Vec<CertificateView> {
    let certificate_of = |ingress: &IngressView| {
        Some(CertificateView { name: ingress.certificate.clone()?, host: ingress.host.clone() })
    };
    distinct_values(ingresses.iter().filter_map(certificate_of))
}

/// Lists all ways of caching that routes name.
pub(crate) fn caching(ingresses: &[IngressView]) -> Vec<CacheView> {
    let routes = ingresses.iter().flat_map(|ingress| &ingress.routes);
    distinct_values(routes.filter_map(|route| route.cache.clone()))
}

fn distinct_values<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

/// Writes the whole host name.
pub(crate) fn host(ingress: &Ingress, target: &Target) -> String {
    match (&ingress.host, &ingress.host_prefix) {
        (Some(host), _) => host.clone(),
        (None, Some(prefix)) => format!("{prefix}.{}", target.domain),
        (None, None) => target.domain.clone(),
    }
}

impl IngressView {
    /// Returns the whole host name.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Returns the gateway that the address is attached to.
    pub(crate) fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Returns the annotations of its object.
    pub(crate) fn annotations(&self) -> &BTreeMap<String, String> {
        &self.annotations
    }

    /// Adds annotations to those of its object.
    pub(crate) fn annotate<const N: usize>(&mut self, annotations: [(&str, &str); N]) {
        let texts = annotations.map(|(key, text)| (key.to_owned(), text.to_owned()));
        self.annotations.extend(texts);
    }

    /// Checks that it is reached from the internet.
    pub(crate) fn is_public(&self) -> bool {
        self.public
    }
}

impl RouteView {
    /// Returns the prefix.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the header `Cache-Control`, where the route sets one.
    pub(crate) fn cache_header(&self) -> Option<&str> {
        self.cache.as_ref().map(|cache| &*cache.header)
    }

    /// Checks that the route leads to a service's port.
    pub(crate) fn leads_to(&self, port: &PortRef<'_>) -> bool {
        self.service == port.service && self.port == port.number
    }
}

fn routes(
    ingress: &Ingress,
    host: &str,
    ports: &[PortRef<'_>],
    grpc: &GrpcPorts,
    slug: &str,
) -> Vec<RouteView> {
    let route =
        |path: Option<&str>, number: Option<u16>, service: Option<&str>, cache: Option<Cache>| {
            let port = match number {
                Some(number) => leads(ports, service, number)?,
                None => leads_by_default(ports, service, ingress.port)?,
            };
            let path = path.unwrap_or("/");
            Some(RouteView {
                path: path.to_owned(),
                exact: false,
                headers: Vec::new(),
                rule: prefix_rule(host, path),
                priority: None,
                service: port.service.to_owned(),
                port: port.number,
                grpc: grpc.serves_grpc(port),
                cache: cache.map(|cache| cache_view(cache, slug)),
                backends: vec![BackendView {
                    service: port.service.to_owned(),
                    port: port.number,
                    weight: None,
                }],
                split: None,
            })
        };
    let routes = match ingress.paths.as_deref() {
        None | Some([]) => route(None, None, None, ingress.cache).into_iter().collect(),
        Some(paths) => paths
            .iter()
            .filter_map(|p| route(p.path.as_deref(), p.service_port, p.service.as_deref(), p.cache))
            .collect(),
    };
    if is_wildcard(host) { rank_last(routes) } else { routes }
}

/// Finds the port of that number, of the service that is named or the first that has it.
pub(crate) fn leads<'p, 'a>(
    ports: &'p [PortRef<'a>],
    service: Option<&str>,
    number: u16,
) -> Option<&'p PortRef<'a>> {
    let mut of_service =
        ports.iter().filter(|port| service.is_none_or(|service| port.service == service));
    of_service.find(|port| port.number == number)
}

/// Finds where a path leads that names no port: to the address's own, or else to the only one that
/// there is.
pub(crate) fn leads_by_default<'p, 'a>(
    ports: &'p [PortRef<'a>],
    service: Option<&str>,
    number: Option<u16>,
) -> Option<&'p PortRef<'a>> {
    let mut candidates =
        ports.iter().filter(|port| service.is_none_or(|name| port.service == name));
    let only = || candidates.next().filter(|_| candidates.next().is_none());
    number.and_then(|number| leads(ports, service, number)).or_else(only)
}

/// Checks that the host is a wildcard.
pub(crate) fn is_wildcard(host: &str) -> bool {
    host.starts_with("*.")
}

/// Sorts routes as the Gateway API ranks them: Istio takes the first one that matches.
pub(crate) fn sort_by_precision(routes: &mut [RouteView]) {
    routes.sort_by_key(|route| {
        std::cmp::Reverse((route.exact, route.path.len(), route.headers.len()))
    });
}

/// Writes Traefik's rule for a host and the beginning of a path.
pub(crate) fn prefix_rule(host: &str, path: &str) -> String {
    format!("{} && PathPrefix(`{path}`)", host_rule(host))
}

/// Writes the rule for a host, where `*` is one label, as Kubernetes' `Ingress`, gateways and
/// certificates understand it.
fn host_rule(host: &str) -> String {
    match host.strip_prefix("*.") {
        None => format!("Host(`{host}`)"),
        Some(rest) => format!("HostRegexp(`^[^.]+\\.{}$`)", rest.replace('.', "\\.")),
    }
}

/// The length of ``PathPrefix(`/`)``, the rule of an operator's route for everything.
const CATCH_ALL: usize = 15;
/// The length of the shortest rule of a plain host: ``Host(`a.b`) && PathPrefix(`/`)``.
const SHORTEST_RULE: usize = 30;

/// Ranks wildcard routes behind all others: Traefik asks the longest rule first, which an expression would be: it would
/// take the requests of every plain host. Among themselves longer paths come first; and all of them before a route for
/// everything, as far as there is room for so many between the two.
pub(crate) fn rank_last(mut routes: Vec<RouteView>) -> Vec<RouteView> {
    let mut lengths: Vec<usize> = routes.iter().map(|route| route.path.len()).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let base = CATCH_ALL.min((SHORTEST_RULE - 1).saturating_sub(lengths.len()));
    for route in &mut routes {
        let rank = lengths.iter().position(|length| *length == route.path.len());
        route.priority = rank.map(|rank| base + rank + 1);
    }
    routes
}

/// Writes the caching of a route in the words of RFC 9111 and, for `immutable`, RFC 8246. Without `public`: an answer
/// to a logged-in user stays out of shared caches.
fn cache_view(cache: Cache, slug: &str) -> CacheView {
    let (name, header) = match (cache.max_age.unwrap_or(0), cache.immutable.unwrap_or(false)) {
        (0, _) => ("no-cache".to_owned(), "no-cache".to_owned()),
        (age, false) => (format!("cache-{age}"), format!("max-age={age}")),
        (age, true) => (format!("cache-{age}-immutable"), format!("max-age={age}, immutable")),
    };
    CacheView { name: naming::join_name(slug, &name), header }
}
