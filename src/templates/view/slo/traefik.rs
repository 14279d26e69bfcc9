//! The names of services in Traefik's metrics of requests.
//!
//! Its providers build the names, at `pkg/provider/kubernetes/` of its sources, with `@` and the provider's name
//! behind. Most go through `Normalize` of `pkg/provider/configuration.go`.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

use crate::model::platform::network::IngressKind;
use crate::templates::view::ingress::{IngressView, RouteView};
use crate::templates::view::network::PortRef;
use crate::templates::view::observability::ObservedApp;
use crate::templates::view::{ingress, naming, network};

/// Bytes of a rule's hash that are in a name (`crd/kubernetes.go`, `makeServiceKey`).
const HASH: usize = 10;

/// Collects the names of all that the app's addresses lead to, as regular expressions.
pub(super) fn names(watched: &ObservedApp<'_>) -> BTreeSet<String> {
    let (section, slug) = (watched.section, watched.slug());
    let addresses = ingress::ingresses(section, slug, watched.target);
    let ports = network::tcp_ports(section.services(), slug);
    let names_of = |address: &IngressView| {
        let IngressView { name, routes, .. } = address;
        let of_route = |(index, route): (usize, &RouteView)| {
            let port = ports.iter().find(|port| route.leads_to(port))?;
            Some(of_route(watched, &Route { name, index, rule: &route.rule, port }))
        };
        routes.iter().enumerate().filter_map(of_route).collect::<Vec<_>>()
    };
    addresses.iter().flat_map(names_of).collect()
}

/// A route of the object of that name, and the port that it leads to.
struct Route<'a> {
    name: &'a str,
    index: usize,
    rule: &'a str,
    port: &'a PortRef<'a>,
}

fn of_route(watched: &ObservedApp<'_>, route: &Route<'_>) -> String {
    match watched.target.platform.ingress.kind {
        IngressKind::Traefik => of_resource(watched, route),
        IngressKind::Kubernetes => of_ingress(watched, route.port),
        IngressKind::Gateway | IngressKind::Istio => of_gateway(watched, route.port),
    }
}

/// Names the service as `crd/kubernetes_http.go`, `loadIngressRouteConfiguration` does: a route
/// with one service of Kubernetes is a service of Traefik's, called as the route is, by a hash of
/// its rule. With the option `safeNaming` it is called by its place. What a `TraefikService`
/// divides a canary's traffic between is called by service and port (`fullServiceName`).
fn of_resource(watched: &ObservedApp<'_>, route: &Route<'_>) -> String {
    let namespace = watched.namespace();
    let hash = Sha256::digest(route.rule);
    let hash = hex::encode(hash.get(..HASH).unwrap_or_default());
    let by_rule = normalize(&format!("{namespace}-{}-{hash}", route.name));
    let by_place = format!("{namespace}_{}_{}", route.name.replace('.', "[.]"), route.index);
    let canary = watched.section.canary.as_ref().map_or(String::new(), |_| {
        let service = normalize(&format!("{namespace}-{}", route.port.service));
        format!("|{service}(-primary|-canary)?-{}", route.port.number)
    });
    // What a `TraefikService` divides the requests of versions between is called likewise.
    let versions: String = version_services(watched)
        .map(|service| format!("|{}-{}", normalize(&service), route.port.number))
        .collect();
    format!("({by_rule}|{by_place}{canary}{versions})@kubernetescrd")
}

/// Names the service as `ingress/kubernetes.go`, `loadConfiguration` does.
fn of_ingress(watched: &ObservedApp<'_>, port: &PortRef<'_>) -> String {
    let service = normalize(&format!("{}-{}", watched.namespace(), port.service));
    let service = with_versions(watched, service, normalize);
    let (canary, number, name) = (canary(watched), port.number, normalize(port.name));
    format!("{service}{canary}-({number}|{name})@kubernetes")
}

/// Names the service as `gateway/httproute.go`, `loadService` does: first by service and port,
/// later by route, service and its place there.
fn of_gateway(watched: &ObservedApp<'_>, port: &PortRef<'_>) -> String {
    let (canary, number) = (canary(watched), port.number);
    let service = format!("{}-{}", watched.namespace(), port.service);
    let plain = with_versions(watched, normalize(&service), normalize);
    let service = with_versions(watched, service, str::to_owned);
    format!(
        "({plain}{canary}-(http-)?{number}|httproute-.+-svc-{service}{canary}-[0-9]+)@kubernetesgateway"
    )
}

/// Lists the Services of the app's versions, after their namespace.
fn version_services(watched: &ObservedApp<'_>) -> impl Iterator<Item = String> {
    let (namespace, slug) = (watched.namespace(), watched.slug());
    let versions = watched.section.versions.iter().flatten();
    versions.map(move |one| format!("{namespace}-{}", naming::version_workload(slug, &one.name)))
}

/// Writes a pattern for a service's name, and those of the app's versions.
fn with_versions(watched: &ObservedApp<'_>, service: String, write: fn(&str) -> String) -> String {
    let services: String =
        version_services(watched).map(|name| format!("|{}", write(&name))).collect();
    if services.is_empty() { service } else { format!("({service}{services})") }
}

/// Writes the pattern for a canary's names: it has the app's traffic go to two services more.
fn canary(watched: &ObservedApp<'_>) -> &'static str {
    if watched.section.canary.is_some() { "(-primary|-canary)?" } else { "" }
}

/// Writes a name as Traefik does: its names are their letters and digits, with one `-` between.
fn normalize(name: &str) -> String {
    let parts = name.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traefik_keeps_letters_and_digits() {
        assert_eq!(normalize("devx-my--app-"), "devx-my-app");
    }

    /// The name that Traefik's own tests expect for this rule of the route `test.route`.
    #[test]
    fn a_rule_is_hashed_as_traefik_does() {
        let hash = Sha256::digest("Host(`foo.com`) && PathPrefix(`/bar`)");
        assert_eq!(hex::encode(&hash[..HASH]), "6b204d94623b3df4370c");
    }
}
