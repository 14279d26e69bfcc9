//! The clusters of a service as it sends them to others: `bart` plans with them on another machine.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::fleet::{FleetCluster, FleetPlace};
use crate::model::fleets::Fleets;
use crate::model::id::TargetName;
use crate::model::platform::Platform;
use crate::model::target::{Clusters, Target};

/// The clusters of a service, and the time of that knowledge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ClusterSnapshot")]
pub struct ClusterSnapshot {
    /// The time of the snapshot; absent in the service's answer, which is current.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<Timestamp>,
    /// True if these are all clusters of the service; if not, the caller may not see the others.
    pub complete: bool,
    /// The platform of every target, where no cluster is configured; null where some are.
    #[schemars(with = "Option<serde_json::Value>")]
    pub any: Option<Platform>,
    /// The configured clusters, by name, each with its version of Kubernetes, its platform and its policies.
    #[schemars(with = "Vec<serde_json::Value>")]
    pub targets: Vec<Target>,
    /// The fleets all of whose clusters are here, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Vec<String>>")]
    pub fleets: BTreeMap<TargetName, Vec<TargetName>>,
}

impl ClusterSnapshot {
    /// Records all clusters. The addresses of their API servers are left out: manifests do not
    /// depend on them.
    pub fn new(clusters: &Clusters, fleets: &Fleets) -> Self {
        let (any, targets) = match clusters {
            Clusters::Any(platform) => (Some((**platform).clone()), Vec::new()),
            Clusters::Known(targets) => (None, targets.values().cloned().collect()),
        };
        let without_server = |target| Target { server: Target::IN_CLUSTER.to_owned(), ..target };
        let targets = targets.into_iter().map(without_server).collect();
        let fleet = |name: &TargetName| {
            let clusters = fleets.clusters_of(name)?.iter().cloned().collect();
            Some((name.clone(), clusters))
        };
        let fleets = fleets.names().filter_map(fleet).collect();
        Self { taken_at: None, complete: true, any, targets, fleets }
    }

    /// Leaves only these clusters, and the fleets that have no other.
    pub fn retain(&mut self, targets: Vec<Target>) {
        self.complete = targets.len() == self.targets.len();
        self.targets = targets;
        let is_there =
            |cluster: &TargetName| self.targets.iter().any(|target| target.name == *cluster);
        self.fleets.retain(|_, clusters| clusters.iter().all(is_there));
    }

    /// Returns the place of each cluster of a fleet, for its plan; none where the target is no fleet.
    pub fn fleet_places(&self, target: &TargetName) -> Vec<FleetPlace> {
        let clusters = self.fleets.get(target).map_or(&[][..], Vec::as_slice);
        let targets = self.targets.iter().filter(|target| clusters.contains(&target.name));
        let all: Vec<FleetCluster> = targets.map(FleetCluster::of).collect();
        let place =
            |cluster: &TargetName| FleetPlace { cluster: cluster.clone(), clusters: all.clone() };
        clusters.iter().map(place).collect()
    }

    /// Returns the clusters, as far as they say something of that target; `None` where it may be
    /// one that is left out.
    pub fn clusters_for(&self, target: &TargetName) -> Option<Clusters> {
        if let Some(platform) = &self.any {
            return Some(Clusters::Any(Box::new(platform.clone())));
        }
        let is_known = self.complete || self.targets.iter().any(|own| own.name == *target);
        is_known.then(|| Clusters::from_targets(self.targets.iter().cloned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::kubernetes::KubernetesVersion;

    #[test]
    fn a_fleet_is_planned_on_each_of_its_clusters_and_hidden_with_one_of_them() {
        let target = |name: &str| Target::unconfigured(name.parse().unwrap());
        let clusters = Clusters::from_targets(["a", "b", "c"].map(target));
        let fleet = ["a", "b"].map(|name| name.parse().unwrap());
        let fleets = Fleets::new([("f".parse().unwrap(), fleet.into())].into());
        let mut snapshot = ClusterSnapshot::new(&clusters, &fleets);
        let places = snapshot.fleet_places(&"f".parse().unwrap());
        assert_eq!(places.len(), 2);
        assert!(places.iter().all(|place| place.clusters.len() == 2), "{places:?}");
        assert!(snapshot.fleet_places(&"a".parse().unwrap()).is_empty(), "it is no fleet");
        snapshot.retain(vec![target("a"), target("c")]);
        assert!(snapshot.fleets.is_empty() && !snapshot.complete);
    }

    #[test]
    fn a_snapshot_is_read_as_it_was_written_and_hides_where_clusters_are() {
        let name = TargetName::parse("prod").unwrap();
        let mut prod = Target::unconfigured(name.clone());
        prod.server = "https://10.0.0.1:6443".to_owned();
        prod.domain = "example.com".to_owned();
        prod.version = KubernetesVersion::parse("1.29");
        let clusters = Clusters::from_targets([prod.clone()]);
        let snapshot = ClusterSnapshot::new(&clusters, &Fleets::default());
        let text = serde_json::to_string(&snapshot).unwrap();
        assert!(!text.contains("10.0.0.1"), "{text}");
        let restored: ClusterSnapshot = serde_json::from_str(&text).unwrap();
        assert_eq!(restored, snapshot);
        let target = restored.clusters_for(&name).unwrap().find(&name).unwrap();
        assert_eq!(target, Target { server: Target::IN_CLUSTER.to_owned(), ..prod });
        let other = TargetName::parse("dev").unwrap();
        assert_eq!(restored.clusters_for(&other).unwrap().find(&other), None, "there is none");
        let narrow = ClusterSnapshot { complete: false, ..restored };
        assert_eq!(narrow.clusters_for(&other), None, "it may be one that is not shown");
        let any = ClusterSnapshot::new(&Clusters::any(), &Fleets::default());
        assert_eq!(any.clusters_for(&other), Some(Clusters::any()));
        // One of a service that knows no versions yet, or of a newer one that knows more of them.
        let with_version = |version: &str| text.replace("\"version\":\"1.29\",", version);
        let version = |text: &str| {
            let snapshot_read: ClusterSnapshot = serde_json::from_str(text).unwrap();
            snapshot_read.targets[0].version.map(|version| version.to_string())
        };
        assert_eq!(version(&with_version("")), None);
        assert_eq!(version(&with_version("\"version\":\"1.99\",")).as_deref(), Some("1.99"));
    }
}
