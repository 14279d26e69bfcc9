//! Reads an `ApplicationDeployment` and writes the section of a WAML that means the same. Pure.
//!
//! The document is that of the `kubevela` design "Multi-Version, Multi-Cluster Application Deployment". A revision becomes
//! a version whose name is the revision's without the app's, so that its Service keeps the revision's name.

use serde_json::{Map, Value as Json, json};

use crate::model::violation::Violation;
use crate::waml::node::{Node, Path};
use crate::waml::quote::quote;
use crate::waml::yaml::{self, Budget};

/// The section of a document, and what of it means something else now.
#[derive(Debug)]
pub(super) struct ImportedSection {
    pub(super) section: Json,
    pub(super) warnings: Vec<Violation>,
}

const RULE: &str = "import";

/// Converts a document. Revisions' names begin with the slug; without one, with what they have in common.
///
/// # Errors
/// A violation where the text is no YAML, or has no `ApplicationDeployment`.
pub(super) fn convert(
    file: &str,
    text: &str,
    slug: Option<&str>,
) -> Result<ImportedSection, Box<Violation>> {
    let documents = yaml::parse_stream(file, text, &Budget::default())?;
    let kind = |node: &Node| node.get("kind").and_then(Node::as_text).map(str::to_owned);
    let is_deployment = |node: &&Node| kind(node).as_deref() == Some("ApplicationDeployment");
    let Some(document) = documents.iter().find(is_deployment) else {
        let violation =
            Violation::error(RULE, format!("{file} has no `kind: ApplicationDeployment`"));
        return Err(Box::new(
            violation.help("give the file in which it is; other kinds are not imported"),
        ));
    };
    let mut conversion = Conversion { warnings: Vec::new(), prefix: String::new() };
    for other in documents.iter().filter(|node| !node.is_null() && !std::ptr::eq(*node, document)) {
        match kind(other).as_deref() {
            Some("Cluster") => conversion.cluster(other),
            _ => conversion.warn(
                other,
                "this document is left out",
                "only an ApplicationDeployment is imported, the first of the file",
            ),
        }
    }
    conversion.report_others(document, &["apiVersion", "kind", "name", "metadata", "spec"]);
    let spec = document.get("spec");
    if let Some(spec) = spec {
        conversion.report_others(spec, &["traffic", "appRevisions"]);
    }
    let revisions = list(spec, "appRevisions");
    let names: Vec<&str> =
        revisions.iter().filter_map(|one| text_of(one, "revisionName")).collect();
    conversion.prefix = match slug {
        Some(slug) => format!("{slug}-"),
        None => common_prefix(&names),
    };
    let mut section = Map::new();
    let traffic = spec.and_then(|spec| spec.get("traffic"));
    if let Some(traffic) = traffic {
        conversion.traffic(traffic, &mut section);
    }
    let versions: Vec<Json> = revisions.iter().filter_map(|one| conversion.version(one)).collect();
    section.insert("versions".to_owned(), Json::Array(versions));
    // The versions before the traffic that leads to them.
    if let Some(traffic) = section.shift_remove("traffic") {
        section.insert("traffic".to_owned(), traffic);
    }
    Ok(ImportedSection { section: Json::Object(section), warnings: conversion.warnings })
}

fn list<'n>(node: Option<&'n Node>, key: &str) -> &'n [Node] {
    node.and_then(|node| node.get(key)).and_then(Node::as_list).unwrap_or_default()
}

fn text_of<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    node.get(key).and_then(Node::as_text)
}

/// Finds what all names begin with, up to a `-`, and leave something behind.
fn common_prefix(names: &[&str]) -> String {
    let Some((first, rest)) = names.split_first() else { return String::new() };
    let ends = first.match_indices('-').map(|(index, _)| index + 1).rev();
    let is_common = |end: &usize| {
        let prefix = first.get(..*end).unwrap_or_default();
        names.iter().all(|name| name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()))
    };
    // Of a single revision nothing is known to be the app's.
    if rest.is_empty() {
        return first
            .rfind('-')
            .map_or_else(String::new, |end| first.get(..=end).unwrap_or_default().to_owned());
    }
    let mut ends = ends.filter(is_common);
    let end = ends.next().unwrap_or_default();
    first.get(..end).unwrap_or_default().to_owned()
}

struct Conversion {
    warnings: Vec<Violation>,
    /// What the names of revisions begin with.
    prefix: String,
}

impl Conversion {
    fn warn(&mut self, node: &Node, message: impl Into<String>, help: impl Into<String>) {
        let violation = Violation::warning(RULE, message).expected("means something else");
        let place = node.origin.position.clone();
        self.warnings.push(violation.help(help).at(Path::root().to_string(), Some(place)));
    }

    /// Reports the keys of a map that have no counterpart.
    fn report_others(&mut self, node: &Node, keys: &[&str]) {
        for (key, entry) in node.as_map().into_iter().flatten() {
            if !keys.contains(&key.as_str()) {
                let violation = Violation::warning(RULE, format!("{} is left out", quote(key)))
                    .expected("has no counterpart")
                    .help("nothing in a WAML means this");
                self.warnings.push(violation.at("", Some(entry.key.clone())));
            }
        }
    }

    fn version_name(&self, revision: &str) -> String {
        let name = revision.strip_prefix(&self.prefix).filter(|rest| !rest.is_empty());
        name.unwrap_or(revision).to_owned()
    }

    fn cluster(&mut self, node: &Node) {
        let metadata = node.get("metadata");
        let name = metadata.and_then(|metadata| text_of(metadata, "name")).unwrap_or_default();
        let labels = metadata.and_then(|metadata| metadata.get("labels")).and_then(Node::as_map);
        let labels: Vec<String> = labels
            .into_iter()
            .flatten()
            .map(|(key, entry)| format!("{key}: {}", entry.node.as_text().unwrap_or_default()))
            .collect();
        let message =
            format!("the cluster {} is a matter of the service's configuration", quote(name));
        let help = format!(
            "its operators add `clusters: [{{name: {name}, labels: {{{}}}}}]`; the kubeconfig is `kubernetes.kubeconfig.file` there",
            labels.join(", ")
        );
        self.warn(node, message, help);
    }

    fn traffic(&mut self, traffic: &Node, section: &mut Map<String, Json>) {
        self.report_others(traffic, &["hosts", "http"]);
        let hosts: Vec<&str> =
            list(Some(traffic), "hosts").iter().filter_map(Node::as_text).collect();
        let mut components: Vec<(String, Vec<u64>)> = Vec::new();
        let rules: Vec<Json> = list(Some(traffic), "http")
            .iter()
            .map(|rule| self.rule(rule, &mut components))
            .collect();
        let service = |(name, ports): &(String, Vec<u64>)| {
            let port = |number: &u64| json!({"name": format!("port-{number}"), "number": number});
            json!({"name": name, "ports": ports.iter().map(port).collect::<Vec<_>>()})
        };
        if !components.is_empty() {
            let services: Vec<Json> = components.iter().map(service).collect();
            section.insert("service".to_owned(), Json::Array(services));
        }
        if !hosts.is_empty() {
            let addresses: Vec<Json> =
                hosts.iter().map(|host| json!({"host": host, "public": true})).collect();
            section.insert("ingress".to_owned(), Json::Array(addresses));
            self.warn(
                traffic,
                "the hosts are taken for public addresses",
                "set `ingress[].public: false` where they are not",
            );
        }
        section.insert("traffic".to_owned(), json!({"hosts": hosts, "http": rules}));
    }

    fn rule(&mut self, rule: &Node, components: &mut Vec<(String, Vec<u64>)>) -> Json {
        self.report_others(rule, &["match", "weightedTargets"]);
        let matches: Vec<Json> =
            list(Some(rule), "match").iter().filter_map(|one| self.matcher(one)).collect();
        let targets: Vec<Json> = list(Some(rule), "weightedTargets")
            .iter()
            .filter_map(|target| self.target(target, components))
            .collect();
        if matches.is_empty() {
            json!({"targets": targets})
        } else {
            json!({"match": matches, "targets": targets})
        }
    }

    fn matcher(&mut self, node: &Node) -> Option<Json> {
        self.report_others(node, &["uri", "headers"]);
        let mut one = Map::new();
        if let Some(uri) = node.get("uri") {
            self.report_others(uri, &["prefix", "exact"]);
            for key in ["prefix", "exact"] {
                if let Some(path) = text_of(uri, key) {
                    one.insert(key.to_owned(), path.into());
                }
            }
        }
        let mut headers = Map::new();
        for (name, entry) in node.get("headers").and_then(Node::as_map).into_iter().flatten() {
            let exact = entry.node.as_text().or_else(|| text_of(&entry.node, "exact"));
            match exact {
                Some(value) => drop(headers.insert(name.clone(), value.into())),
                None => self.warn(
                    &entry.node,
                    "a header is matched by its exact value alone",
                    "write the value",
                ),
            }
        }
        if !headers.is_empty() {
            one.insert("headers".to_owned(), Json::Object(headers));
        }
        if one.is_empty() {
            self.warn(
                node,
                "nothing is left of this match, and it is left out",
                "write a `prefix`, an `exact` path or headers",
            );
            return None;
        }
        Some(Json::Object(one))
    }

    fn target(&mut self, node: &Node, components: &mut Vec<(String, Vec<u64>)>) -> Option<Json> {
        self.report_others(node, &["revisionName", "componentName", "port", "weight"]);
        let Some(revision) = text_of(node, "revisionName") else {
            self.warn(node, "a target without `revisionName` is left out", "name its revision");
            return None;
        };
        let number = |key: &str| text_of(node, key).and_then(|text| text.parse::<u64>().ok());
        let mut target = Map::new();
        target.insert("version".to_owned(), self.version_name(revision).into());
        if let Some(port) = number("port") {
            target.insert("port".to_owned(), port.into());
            let component = text_of(node, "componentName").unwrap_or_default().to_owned();
            if !component.is_empty() {
                let index = components.iter().position(|(name, _)| *name == component);
                let index = index.unwrap_or_else(|| {
                    components.push((component, Vec::new()));
                    components.len() - 1
                });
                if let Some((_, ports)) = components.get_mut(index)
                    && !ports.contains(&port)
                {
                    ports.push(port);
                }
            }
        }
        match (node.get("weight"), number("weight")) {
            (None, _) => {}
            (Some(_), Some(weight)) => drop(target.insert("weight".to_owned(), weight.into())),
            (Some(weight), None) => self.warn(
                weight,
                "this weight is no number, and is left out",
                "write whole percents",
            ),
        }
        Some(Json::Object(target))
    }

    fn version(&mut self, revision: &Node) -> Option<Json> {
        self.report_others(revision, &["revisionName", "placement"]);
        let Some(name) = text_of(revision, "revisionName") else {
            self.warn(revision, "a revision without `revisionName` is left out", "name it");
            return None;
        };
        let version = self.version_name(name);
        self.warn(
            revision,
            format!("the image of the revision {} is not in this document", quote(name)),
            format!(
                "add `tag` to the version `{version}`; without one it has the tag that is deployed"
            ),
        );
        let placement: Vec<Json> =
            list(Some(revision), "placement").iter().map(|one| self.placement(one)).collect();
        if placement.is_empty() {
            return Some(json!({"name": version}));
        }
        Some(json!({"name": version, "placement": placement}))
    }

    fn placement(&mut self, node: &Node) -> Json {
        self.report_others(node, &["clusterSelector", "distribution"]);
        let mut placement = Map::new();
        if let Some(selector) = node.get("clusterSelector").filter(|node| !node.is_null()) {
            self.report_others(selector, &["labels", "name"]);
            if let Some(name) = text_of(selector, "name") {
                placement.insert("cluster".to_owned(), name.into());
            }
            let labels = selector.get("labels").and_then(Node::as_map).into_iter().flatten();
            let labels: Map<String, Json> = labels
                .filter_map(|(key, entry)| Some((key.clone(), entry.node.as_text()?.into())))
                .collect();
            if !labels.is_empty() {
                placement.insert("labels".to_owned(), Json::Object(labels));
            }
        } else {
            self.warn(
                node,
                "a placement without a selector is on every cluster of the target here, and was on the one of the document",
                "add `cluster: NAME` if it is meant for one",
            );
        }
        if let Some(distribution) = node.get("distribution") {
            self.report_others(distribution, &["replicas"]);
            let replicas = text_of(distribution, "replicas");
            match replicas.and_then(|text| text.parse::<u64>().ok()) {
                Some(replicas) => drop(placement.insert("replicas".to_owned(), replicas.into())),
                None => {
                    self.warn(
                        distribution,
                        "the number of replicas is missing",
                        "write `replicas`",
                    );
                }
            }
        }
        Json::Object(placement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(text: &str) -> Vec<String> {
        let imported = convert("f.yaml", text, None).unwrap();
        imported.warnings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn versions_are_called_by_what_sets_them_apart() {
        assert_eq!(common_prefix(&["shop-web-v1", "shop-web-v2"]), "shop-web-");
        assert_eq!(common_prefix(&["shop-web-v1", "shop-api-v2"]), "shop-");
        assert_eq!(common_prefix(&["shop-", "shop-v2"]), "");
        assert_eq!(common_prefix(&["shop-v1"]), "shop-");
        assert_eq!(common_prefix(&["v1", "v2"]), "");
        assert_eq!(common_prefix(&[]), "");
    }

    #[test]
    fn what_has_no_counterpart_is_told_at_its_place() {
        let text = "kind: ApplicationDeployment\nspec:\n  rollout: {}\n  traffic:\n    http:\n    - match: [{uri: {regex: x}}]\n      weightedTargets: [{revisionName: a-v1, weight: half}, {port: 80}]\n---\nkind: Service\n";
        assert_eq!(
            warned(text),
            [
                "f.yaml:9:1: this document is left out [import]",
                "f.yaml:3:3: `rollout` is left out [import]",
                "f.yaml:6:22: `regex` is left out [import]",
                "f.yaml:6:15: nothing is left of this match, and it is left out [import]",
                "f.yaml:7:54: this weight is no number, and is left out [import]",
                "f.yaml:7:61: a target without `revisionName` is left out [import]",
            ]
        );
    }

    #[test]
    fn another_document_is_refused() {
        let error = convert("f.yaml", "kind: Deployment\n", None).unwrap_err();
        assert_eq!(error.message, "f.yaml has no `kind: ApplicationDeployment`");
        assert!(convert("f.yaml", "a: [", None).is_err());
    }
}
