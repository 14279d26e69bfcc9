//! Hosts and paths of routing objects, by the service or by others: Traefik's `IngressRoute`, Kubernetes' `Ingress`,
//! the Gateway API's `HTTPRoute`, Istio's `VirtualService` where it is bound to a gateway, and Flagger's `Canary`, of which
//! Flagger makes a route.
//!
//! A path that is compared whole counts as a prefix, too: it leaves no room for another app there. Rules by regular
//! expression are left out: their paths cannot be listed.

use std::collections::BTreeSet;

use crate::manifests::parse::{ReadFiles, read, rule};
use crate::model::id::AppKey;
use crate::model::revision::ManifestFile;
use crate::model::route::{self, Route};
use crate::waml::node::Node;

/// Checks that a file of that name can hold routes: it is called by its kind.
pub fn may_contain_routes(file: &str) -> bool {
    ["ingressroute", "ingress", "httproute", "virtualservice", "canary"].iter().any(|kind| {
        file.to_ascii_lowercase()
            .strip_prefix(kind)
            .is_some_and(|rest| rest.starts_with(['.', '-']))
    })
}

/// Reads the routes of one app's files, each once, in order.
pub fn read_routes(app: &AppKey, files: &[ManifestFile]) -> ReadFiles<Route> {
    let ReadFiles { found: pairs_of_files, unreadable } =
        read(files, |node, list| list.extend(pairs(node)));
    let unique: BTreeSet<(String, String)> = pairs_of_files.into_iter().collect();
    let route = |(host, path)| Route { host, path, app: app.clone(), repository: None };
    ReadFiles { found: unique.into_iter().map(route).collect(), unreadable }
}

type Pair = (String, String);

fn pairs(node: &Node) -> Vec<Pair> {
    let pairs = match node.get("kind").and_then(Node::as_text) {
        Some("IngressRoute") => ingress_route(node),
        Some("Ingress") => ingress(node),
        Some("HTTPRoute") => http_route(node),
        Some("Canary") => canary(node),
        Some("VirtualService") => virtual_service(node),
        _ => Vec::new(),
    };
    pairs
        .into_iter()
        .filter_map(|(host, path)| Some((normal_host(&host)?, normal_path(&path))))
        .collect()
}

/// Reads `spec.routes[].match`.
fn ingress_route(node: &Node) -> Vec<Pair> {
    let rules = list(node.get("spec"), "routes").filter_map(|route| text(route, "match"));
    rules.flat_map(rule::routes).collect()
}

/// Reads `spec.rules[].host` and `http.paths[].path`; without a path it is everything.
fn ingress(node: &Node) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for rule in list(node.get("spec"), "rules") {
        let Some(host) = text(rule, "host") else { continue };
        let paths = list(rule.get("http"), "paths");
        let paths: Vec<&str> = paths.map(|path| text(path, "path").unwrap_or("/")).collect();
        pairs.extend(with_all(host, &paths));
    }
    pairs
}

/// Reads `spec.hostnames[]` with each `spec.rules[].matches[].path`.
fn http_route(node: &Node) -> Vec<Pair> {
    let spec = node.get("spec");
    let hosts = list(spec, "hostnames").filter_map(Node::as_text);
    let mut paths = Vec::new();
    let mut rules = 0;
    for rule in list(spec, "rules") {
        rules += 1;
        let matches: Vec<&Node> = list(Some(rule), "matches").collect();
        if matches.is_empty() {
            paths.push("/");
        }
        paths.extend(matches.into_iter().filter_map(matched_path));
    }
    if rules == 0 {
        paths.push("/");
    }
    hosts.flat_map(|host| with_each(host, &paths)).collect()
}

/// Reads `spec.service.hosts[]` with each `spec.service.match[].uri`; without a match it is everything.
fn canary(node: &Node) -> Vec<Pair> {
    let service = node.get("spec").and_then(|spec| spec.get("service"));
    let uris = list(service, "match").filter_map(|one| one.get("uri"));
    let paths: Vec<&str> =
        uris.filter_map(|uri| text(uri, "prefix").or_else(|| text(uri, "exact"))).collect();
    let paths = if paths.is_empty() { vec!["/"] } else { paths };
    let hosts = list(service, "hosts").filter_map(Node::as_text);
    hosts.flat_map(|host| with_each(host, &paths)).collect()
}

/// Reads `spec.hosts[]` with each `spec.http[].match[].uri`. One without a gateway routes inside its mesh alone.
fn virtual_service(node: &Node) -> Vec<Pair> {
    let spec = node.get("spec");
    let mut gateways = list(spec, "gateways").filter_map(Node::as_text);
    if !gateways.any(|gateway| gateway != "mesh") {
        return Vec::new();
    }
    let mut paths = Vec::new();
    for rule in list(spec, "http") {
        let matches: Vec<&Node> = list(Some(rule), "match").collect();
        if matches.is_empty() {
            paths.push("/");
        }
        for one in matches {
            match one.get("uri") {
                None => paths.push("/"),
                Some(uri) => paths.extend(text(uri, "prefix").or_else(|| text(uri, "exact"))),
            }
        }
    }
    let hosts = list(spec, "hosts").filter_map(Node::as_text);
    hosts.flat_map(|host| with_each(host, &paths)).collect()
}

/// Reads the path of one match; `None` where it is a regular expression.
fn matched_path(matcher: &Node) -> Option<&str> {
    let Some(path) = matcher.get("path") else { return Some("/") };
    let kind = text(path, "type").unwrap_or("PathPrefix");
    matches!(kind, "PathPrefix" | "Exact").then(|| text(path, "value").unwrap_or("/"))
}

/// Pairs the host with each of the paths; with all there are where none is named.
fn with_all(host: &str, paths: &[&str]) -> Vec<Pair> {
    with_each(host, if paths.is_empty() { &["/"] } else { paths })
}

fn with_each(host: &str, paths: &[&str]) -> Vec<Pair> {
    paths.iter().map(|path| (host.to_owned(), (*path).to_owned())).collect()
}

fn list<'n>(node: Option<&'n Node>, key: &str) -> impl Iterator<Item = &'n Node> {
    node.and_then(|node| node.get(key)).and_then(Node::as_list).into_iter().flatten()
}

fn text<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    node.get(key).and_then(Node::as_text)
}

/// Writes a host as it is looked up; `None` where it has no name.
pub fn normal_host(host: &str) -> Option<String> {
    Some(route::normal_host(host)).filter(|host| !host.is_empty())
}

fn normal_path(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format_routes(text: &str) -> Vec<String> {
        let app = AppKey { namespace: "n".parse().unwrap(), slug: "a".parse().unwrap() };
        let file = ManifestFile { name: "f".to_owned(), bytes: text.as_bytes().to_vec() };
        let routes = read_routes(&app, &[file]);
        assert!(routes.unreadable.is_empty(), "{text}");
        routes.found.into_iter().map(|route| format!("{}{}", route.host, route.path)).collect()
    }

    #[test]
    fn an_ingress_route_says_it_in_rules() {
        let text = "
kind: IngressRoute
spec:
  routes:
  - {kind: Rule, match: 'Host(`B.example.com`) && PathPrefix(`/api`)'}
  - {kind: Rule, match: 'Host(`b.example.com`, `a.example.com`)'}
  - {kind: Rule}
  - {kind: Rule, match: 'HostRegexp(`.*`)'}
";
        assert_eq!(format_routes(text), ["a.example.com/", "b.example.com/", "b.example.com/api"]);
    }

    #[test]
    fn a_virtual_service_says_it_where_a_gateway_has_it() {
        let text = "
kind: VirtualService
spec:
  hosts: [b.example.com]
  gateways: [istio-system/public]
  http:
  - match: [{uri: {prefix: /web}, headers: {x: {exact: y}}}, {uri: {exact: /x}}, {uri: {regex: '.*'}}]
  - route: []
";
        assert_eq!(format_routes(text), ["b.example.com/", "b.example.com/web", "b.example.com/x"]);
        assert_eq!(format_routes(&text.replace("istio-system/public", "mesh")), [""; 0]);
    }

    #[test]
    fn an_ingress_says_it_in_a_list() {
        let text = "
kind: Ingress
spec:
  rules:
  - host: a.io
    http: {paths: [{path: /x, pathType: Prefix}, {pathType: ImplementationSpecific}]}
  - host: b.io.
  - http: {paths: [{path: /everybodys}]}
";
        assert_eq!(format_routes(text), ["a.io/", "a.io/x", "b.io/"]);
    }

    #[test]
    fn an_http_route_says_it_in_two_lists() {
        let text = "
kind: HTTPRoute
spec:
  hostnames: [a.io, '*.b.io']
  rules:
  - matches: [{path: {type: PathPrefix, value: /x}}, {path: {type: RegularExpression, value: '/y.*'}}]
  - matches: [{path: {type: Exact, value: /z}, method: GET}, {headers: []}]
";
        let hosts = ["*.b.io", "a.io"];
        let routes = hosts.iter().flat_map(|h| ["/", "/x", "/z"].map(|p| format!("{h}{p}")));
        assert_eq!(format_routes(text), routes.collect::<Vec<_>>());
        assert_eq!(format_routes("kind: HTTPRoute\nspec: {hostnames: [a.io]}\n"), ["a.io/"]);
    }

    #[test]
    fn a_canary_says_it_for_the_route_that_flagger_makes() {
        let canary = "kind: Canary\nspec: {service: {hosts: [B.io, a.io]}}\n";
        assert_eq!(format_routes(canary), ["a.io/", "b.io/"]);
        let canary = "kind: Canary\nspec:\n  service:\n    hosts: [a.io]\n    match: [{uri: {prefix: /b}}, {uri: {exact: /c}}]\n";
        assert_eq!(format_routes(canary), ["a.io/b", "a.io/c"]);
        assert_eq!(
            format_routes("kind: Canary\nspec: {service: {port: 80}}\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn what_is_of_another_shape_has_no_routes() {
        for text in [
            "kind: Service\nspec: {rules: [{host: a.io}]}",
            "kind: Ingress\nspec: [1, 2]",
            "kind: Ingress\nspec: {rules: {host: a.io}}",
            "kind: [Ingress]",
            "- kind: Ingress",
            "just text",
            "kind: IngressRoute\nspec: {routes: [{match: {a: b}}]}",
        ] {
            assert_eq!(format_routes(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn files_are_chosen_by_the_kind_in_their_names() {
        for name in
            ["ingressroute.yaml", "ingress-my-app-2.yaml", "httproute.yaml", "IngressRoute.yml"]
        {
            assert!(may_contain_routes(name), "{name}");
        }
        for name in [
            "ingressroutetcp.yaml",
            "deployment.yaml",
            "my-ingress.yaml",
            "ingress",
            "httproutes.yaml",
        ] {
            assert!(!may_contain_routes(name), "{name}");
        }
    }
}
