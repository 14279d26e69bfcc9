//! Fleets: named sets of clusters. A fleet is a target: one deployment to it writes to all its clusters.
//!
//! Pure. The clusters of a fleet are resolved by the configuration; here they are names.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::id::TargetName;

/// The fleets of the configuration, by name, each with its clusters in order. Fleets may share clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fleets(BTreeMap<TargetName, BTreeSet<TargetName>>);

impl Fleets {
    /// Makes the fleets; each has at least one cluster.
    pub fn new(fleets: BTreeMap<TargetName, BTreeSet<TargetName>>) -> Self {
        Self(fleets)
    }

    /// Returns the clusters of a fleet, in the order of their names; `None` where the target is no fleet.
    pub fn clusters_of(&self, target: &TargetName) -> Option<&BTreeSet<TargetName>> {
        self.0.get(target)
    }

    /// Returns whether the target is a fleet.
    pub fn is_fleet(&self, target: &TargetName) -> bool {
        self.0.contains_key(target)
    }

    /// Lists the names of all fleets.
    pub fn names(&self) -> impl Iterator<Item = &TargetName> {
        self.0.keys()
    }

    /// Lists the fleets that have the cluster.
    pub fn with_cluster<'a>(
        &'a self,
        cluster: &'a TargetName,
    ) -> impl Iterator<Item = &'a TargetName> {
        self.0.iter().filter(|(_, clusters)| clusters.contains(cluster)).map(|(name, _)| name)
    }

    /// Lists the targets whose locks and holds concern a deployment to this one, itself first: the clusters of a fleet, and
    /// the fleets that share a cluster with it.
    pub fn overlapping(&self, target: &TargetName) -> Vec<TargetName> {
        let own: BTreeSet<&TargetName> = match self.0.get(target) {
            Some(clusters) => clusters.iter().collect(),
            None => BTreeSet::from([target]),
        };
        let fleets = self
            .0
            .iter()
            .filter(|(_, clusters)| clusters.iter().any(|cluster| own.contains(cluster)))
            .map(|(name, _)| name);
        let others: BTreeSet<&TargetName> = own.iter().copied().chain(fleets).collect();
        let others = others.into_iter().filter(|other| *other != target);
        std::iter::once(target).chain(others).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleets(fleets: &[(&str, &[&str])]) -> Fleets {
        let name = |text: &&str| TargetName::parse(*text).unwrap();
        let fleet = |(fleet, clusters): &(&str, &[&str])| {
            (name(fleet), clusters.iter().map(name).collect())
        };
        Fleets::new(fleets.iter().map(fleet).collect())
    }

    #[test]
    fn locks_of_a_fleets_clusters_and_of_fleets_that_share_one_concern_it() {
        let fleets =
            fleets(&[("eu", &["eu-1", "eu-2"]), ("prod", &["eu-1", "us-1"]), ("us", &["us-1"])]);
        let overlapping = |target: &str| {
            let names = fleets.overlapping(&target.parse().unwrap());
            names.iter().map(TargetName::as_str).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(overlapping("prod"), "prod eu eu-1 us us-1");
        assert_eq!(overlapping("eu"), "eu eu-1 eu-2 prod");
        assert_eq!(overlapping("eu-2"), "eu-2 eu");
        assert_eq!(overlapping("eu-1"), "eu-1 eu prod");
        assert_eq!(overlapping("dev"), "dev");
    }
}
