//! Shares of requests in routing objects: how each route divides them between Services.

use serde_json::Value as Json;

use crate::manifests::parse::read;
use crate::model::revision::ManifestFile;
use crate::waml::scalar::read_untyped;

/// A route of an app, and the Services that get its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteShares {
    /// The route, for people: `shop.example.com/web`, or Traefik's rule.
    pub route: String,
    /// Each Service with its share in percent; none where the object says none.
    pub shares: Vec<(String, Option<u64>)>,
}

/// Lists the routes of an app's files. Unreadable files have none.
pub fn read_shares(files: &[ManifestFile]) -> Vec<RouteShares> {
    let objects = read(files, |node, objects| objects.push(read_untyped(node))).found;
    let of_object = |object: &Json| match object["kind"].as_str() {
        Some("VirtualService") => virtual_service(object),
        Some("HTTPRoute") => http_route(object),
        Some("IngressRoute") => ingress_route(object, &objects),
        Some("Ingress") => ingress(object),
        _ => Vec::new(),
    };
    objects.iter().flat_map(of_object).collect()
}

fn list<'j>(json: &'j Json, key: &str) -> impl Iterator<Item = &'j Json> {
    json[key].as_array().into_iter().flatten()
}

fn text(json: &Json) -> String {
    json.as_str().unwrap_or_default().to_owned()
}

fn joined(json: &Json, key: &str) -> String {
    list(json, key).map(text).collect::<Vec<_>>().join(", ")
}

fn at<'a>(json: &'a Json, path: &str) -> &'a Json {
    json.pointer(path).unwrap_or(&Json::Null)
}

/// Writes a route: its hosts, its path, and what else a request must have.
fn format_route(hosts: &str, path: &str, is_exact: bool, headers: &[(String, String)]) -> String {
    let exact = if is_exact { " (exact)" } else { "" };
    let headers: String =
        headers.iter().map(|(name, value)| format!(" with {name}: {value}")).collect();
    format!("{hosts}{path}{exact}{headers}")
}

fn virtual_service(object: &Json) -> Vec<RouteShares> {
    let spec = &object["spec"];
    let hosts = joined(spec, "hosts");
    let rule = |rule: &Json| {
        let share = |one: &Json| (text(at(one, "/destination/host")), one["weight"].as_u64());
        let shares: Vec<_> = list(rule, "route").map(share).collect();
        let route = |one: &Json| {
            let uri = &one["uri"];
            let path = uri["exact"].as_str().or_else(|| uri["prefix"].as_str()).unwrap_or("/");
            let headers = one["headers"].as_object().into_iter().flatten();
            let headers: Vec<_> =
                headers.map(|(name, value)| (name.clone(), text(&value["exact"]))).collect();
            let route = format_route(&hosts, path, !uri["exact"].is_null(), &headers);
            RouteShares { route, shares: shares.clone() }
        };
        list(rule, "match").map(route).collect::<Vec<_>>()
    };
    list(spec, "http").flat_map(rule).collect()
}

fn http_route(object: &Json) -> Vec<RouteShares> {
    let spec = &object["spec"];
    let hosts = joined(spec, "hostnames");
    let rule = |rule: &Json| {
        let share = |one: &Json| (text(&one["name"]), one["weight"].as_u64());
        let shares: Vec<_> = list(rule, "backendRefs").map(share).collect();
        let route = |one: &Json| {
            let path = at(one, "/path/value").as_str().unwrap_or("/");
            let headers: Vec<_> = list(one, "headers")
                .map(|header| (text(&header["name"]), text(&header["value"])))
                .collect();
            let route = format_route(&hosts, path, at(one, "/path/type") == "Exact", &headers);
            RouteShares { route, shares: shares.clone() }
        };
        list(rule, "matches").map(route).collect::<Vec<_>>()
    };
    list(spec, "rules").flat_map(rule).collect()
}

/// Reads the rules, with what a `TraefikService` of the same files divides.
fn ingress_route(object: &Json, objects: &[Json]) -> Vec<RouteShares> {
    let split = |name: &str| {
        objects
            .iter()
            .find(|one| one["kind"] == "TraefikService" && at(one, "/metadata/name") == name)
    };
    let share = |one: &Json| (text(&one["name"]), one["weight"].as_u64());
    let route = |one: &Json| {
        let shares = list(one, "services").flat_map(|service| {
            let name = text(&service["name"]);
            match split(&name).filter(|_| service["kind"] == "TraefikService") {
                Some(split) => list(at(split, "/spec/weighted"), "services").map(share).collect(),
                None => vec![share(service)],
            }
        });
        RouteShares { route: text(&one["match"]), shares: shares.collect() }
    };
    list(&object["spec"], "routes").map(route).collect()
}

fn ingress(object: &Json) -> Vec<RouteShares> {
    let rule = |rule: &Json| {
        let host = text(&rule["host"]);
        let route = |one: &Json| {
            let path = one["path"].as_str().unwrap_or("/");
            let route = format_route(&host, path, one["pathType"] == "Exact", &[]);
            RouteShares { route, shares: vec![(text(at(one, "/backend/service/name")), None)] }
        };
        list(&rule["http"], "paths").map(route).collect::<Vec<_>>()
    };
    list(&object["spec"], "rules").flat_map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        let file = ManifestFile { name: "f".to_owned(), bytes: text.as_bytes().to_vec() };
        let line = |one: RouteShares| {
            let share = |(name, share): &(String, Option<u64>)| format!("{name} {share:?}");
            format!(
                "{}: {}",
                one.route,
                one.shares.iter().map(share).collect::<Vec<_>>().join(", ")
            )
        };
        read_shares(&[file]).into_iter().map(line).collect()
    }

    #[test]
    fn each_kind_of_route_says_its_shares() {
        let text = "
kind: VirtualService
spec:
  hosts: [a.io]
  http:
  - match: [{uri: {exact: /x}, headers: {h: {exact: v}}}]
    route: [{destination: {host: s-v1}, weight: 90}, {destination: {host: s-v2}, weight: 10}]
---
kind: HTTPRoute
spec:
  hostnames: [b.io]
  rules:
  - matches: [{path: {type: PathPrefix, value: /}, headers: [{name: h, value: v}]}]
    backendRefs: [{name: s-v1}]
---
kind: IngressRoute
spec:
  routes: [{match: 'Host(`c.io`)', services: [{name: s.split, kind: TraefikService}]}]
---
kind: TraefikService
metadata: {name: s.split}
spec: {weighted: {services: [{name: s-v1, weight: 50}, {name: s-v2, weight: 50}]}}
---
kind: Ingress
spec: {rules: [{host: d.io, http: {paths: [{path: /v1, pathType: Prefix, backend: {service: {name: s-v1}}}]}}]}
";
        assert_eq!(
            lines(text),
            [
                "a.io/x (exact) with h: v: s-v1 Some(90), s-v2 Some(10)",
                "b.io/ with h: v: s-v1 None",
                "Host(`c.io`): s-v1 Some(50), s-v2 Some(50)",
                "d.io/v1: s-v1 None",
            ]
        );
    }
}
