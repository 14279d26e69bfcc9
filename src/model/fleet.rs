//! Fleets: the clusters over which one app is spread, and the one of them that is rendered.
//!
//! A fleet is a target. Its settings are those under its name in `deploy`; its manifests are made once for each of its
//! clusters, each with that cluster's platform and domain. A target that is no fleet is one of a single cluster.

use std::collections::BTreeMap;

use crate::model::id::TargetName;
use crate::model::target::Target;

/// A cluster of a fleet, as the placement of versions sees it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FleetCluster {
    /// The cluster's name in the configuration.
    pub name: TargetName,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

impl FleetCluster {
    /// Returns what placement sees of a configured cluster.
    pub fn of(target: &Target) -> Self {
        Self { name: target.name.clone(), labels: target.labels.clone() }
    }

    /// Checks that the cluster has all these labels.
    pub fn has_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.iter().all(|(key, value)| self.labels.get(key) == Some(value))
    }
}

/// The place of one plan: the cluster that is rendered, among those of its fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetPlace {
    /// The cluster that the manifests are for; one of `clusters`.
    pub cluster: TargetName,
    /// Every cluster of the fleet.
    pub clusters: Vec<FleetCluster>,
}

impl FleetPlace {
    /// Returns the place of a target that is no fleet.
    pub fn of_target(target: &Target) -> Self {
        Self { cluster: target.name.clone(), clusters: vec![FleetCluster::of(target)] }
    }
}
