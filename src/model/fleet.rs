//! Fleets: the clusters over which one app is spread, and the one of them that is rendered.
//!
//! A fleet is a target. Its settings are those under its name in `deploy`; its manifests are made once for each of its
//! clusters, each with that cluster's platform and domain. A target that is no fleet is one of a single cluster.

use std::collections::BTreeMap;

use crate::model::id::TargetName;
use crate::model::target::Target;

/// The label that stands for a cluster's environment, unless the cluster has a label of that name.
const ENVIRONMENT: &str = "environment";

/// A cluster with the labels by which fleets, placements and rollouts select it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FleetCluster {
    /// The cluster's name in the configuration.
    pub name: TargetName,
    /// Its labels, its environment among them.
    pub labels: BTreeMap<String, String>,
}

impl FleetCluster {
    /// Returns what selections see of a configured cluster.
    pub fn of(target: &Target) -> Self {
        let mut labels = target.labels.clone();
        labels
            .entry(ENVIRONMENT.to_owned())
            .or_insert_with(|| target.environment.as_str().to_owned());
        Self { name: target.name.clone(), labels }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::target::Environment;

    #[test]
    fn the_environment_is_a_label_unless_there_is_one_of_that_name() {
        let mut target = Target::unconfigured("eu-1".parse().unwrap());
        target.environment = Environment::Production;
        let has = |target: &Target, value: &str| {
            let labels = [(ENVIRONMENT.to_owned(), value.to_owned())].into();
            FleetCluster::of(target).has_labels(&labels)
        };
        assert!(has(&target, "production") && !has(&target, "development"));
        target.labels.insert(ENVIRONMENT.to_owned(), "staging".to_owned());
        assert!(has(&target, "staging") && !has(&target, "production"));
    }
}
