//! The parts of a section about several releases at once: versions, their clusters, and the requests between them.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One of several live releases. Older ones come first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Version {
    /// The name of the version, part of its resources' names.
    pub name: String,
    /// The image tag of the version; absent: that of the deployment.
    #[serde(default)]
    #[schemars(extend("format" = "image-tag"))]
    pub tag: Option<String>,
    /// Percent of the traffic of every address; `traffic` can say it for each path instead.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    pub weight: Option<u32>,
    /// The number of pods, instead of `scaling.replicas`.
    #[serde(default)]
    #[schemars(range(min = 0, max = 10_000))]
    pub replicas: Option<u32>,
    /// The clusters of the version; absent: every cluster of the fleet, or the target.
    #[serde(default)]
    pub placement: Option<Vec<Placement>>,
}

/// Clusters of a version: one by its name, one of those with the labels, or all where neither is set. Placements on the
/// same cluster add up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Placement {
    /// The cluster's name.
    pub cluster: Option<String>,
    /// Labels that the cluster has, all of them; `environment` is its environment, unless it has a label of that name.
    /// Where several do, one is picked: always the same, and the same for every version.
    pub labels: Option<IndexMap<String, Option<String>>>,
    /// The number of pods there, instead of the version's.
    #[schemars(range(min = 0, max = 10_000))]
    pub replicas: Option<u32>,
}

/// How the requests of the app's addresses are shared between versions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Traffic {
    /// Hosts of `ingress`, whole names; absent: all of them.
    pub hosts: Option<Vec<String>>,
    /// The rules, instead of the `paths` of these addresses. Of those that match, the most specific one counts.
    pub http: Option<Vec<TrafficRule>>,
}

/// One rule: the requests that it is for, and where they go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TrafficRule {
    /// The requests, each entry an alternative; absent: all.
    #[serde(rename = "match")]
    pub matches: Option<Vec<TrafficMatch>>,
    /// The versions that get them.
    pub targets: Option<Vec<WeightedTarget>>,
}

/// What a request must have, all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TrafficMatch {
    /// The beginning of its path.
    pub prefix: Option<String>,
    /// Its whole path.
    pub exact: Option<String>,
    /// Headers with exactly these values.
    pub headers: Option<IndexMap<String, Option<String>>>,
}

/// A version that gets a share of the requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WeightedTarget {
    /// The version's name.
    pub version: String,
    /// The number of a port of a service; absent: the address's.
    #[serde(default)]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<u16>,
    /// Percent of the rule's requests; the weights of a rule sum to 100.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    pub weight: Option<u32>,
}

impl Version {
    /// Returns the placements, none where there is no list.
    pub fn placements(&self) -> &[Placement] {
        self.placement.as_deref().unwrap_or_default()
    }
}

impl TrafficMatch {
    /// Returns its path, and true if that is the whole one and no prefix.
    pub fn path(&self) -> (&str, bool) {
        match (&self.exact, &self.prefix) {
            (Some(path), _) => (path, true),
            (None, prefix) => (prefix.as_deref().unwrap_or("/"), false),
        }
    }
}

impl Traffic {
    /// Returns the rules, none where there is no list.
    pub fn rules(&self) -> &[TrafficRule] {
        self.http.as_deref().unwrap_or_default()
    }

    /// Checks that the rules are for the host.
    pub fn is_for(&self, host: &str) -> bool {
        self.hosts
            .as_ref()
            .is_none_or(|hosts| hosts.iter().any(|one| one.eq_ignore_ascii_case(host)))
    }
}

impl TrafficRule {
    /// Returns the targets, none where there is no list.
    pub fn targets(&self) -> &[WeightedTarget] {
        self.targets.as_deref().unwrap_or_default()
    }
}
