//! Places versions on the clusters of a fleet, by name, by labels, or on all of them.
//!
//! Where labels match several clusters, one is picked by rendezvous hashing: each cluster gets a score from its name and
//! the key, and the highest wins. The same input gives the same pick, and a cluster that comes or goes moves only what it
//! wins or had. The version is no part of the key: versions that share requests must share a cluster.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::model::fleet::FleetCluster;
use crate::model::id::{AppKey, TargetName};

/// One placement of a version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterPlacement {
    /// The cluster's name.
    pub cluster: Option<String>,
    /// Labels that the cluster has, all of them.
    pub labels: BTreeMap<String, String>,
    /// The pods there; `None` where no setting says their number.
    pub replicas: Option<u32>,
}

/// The reason why a placement names no cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlacementError {
    /// No cluster of the fleet has that name.
    UnknownCluster(String),
    /// The named cluster lacks one of the labels.
    LabelsDiffer(String),
    /// No cluster of the fleet has all the labels.
    NoMatch,
}

impl ClusterPlacement {
    /// Finds the clusters of the placement: the named one, the one that is picked of those with the labels, or all where
    /// it has neither.
    ///
    /// # Errors
    /// [`PlacementError`] where there is none.
    pub fn clusters<'f>(
        &self,
        app: &AppKey,
        fleet: &'f [FleetCluster],
    ) -> Result<Vec<&'f FleetCluster>, PlacementError> {
        if let Some(name) = &self.cluster {
            let Some(cluster) = fleet.iter().find(|cluster| cluster.name.as_str() == name) else {
                return Err(PlacementError::UnknownCluster(name.clone()));
            };
            return if cluster.has_labels(&self.labels) {
                Ok(vec![cluster])
            } else {
                Err(PlacementError::LabelsDiffer(name.clone()))
            };
        }
        if self.labels.is_empty() {
            return Ok(fleet.iter().collect());
        }
        let matching = fleet.iter().filter(|cluster| cluster.has_labels(&self.labels));
        let winner = matching.max_by_key(|cluster| (self.score(app, &cluster.name), &cluster.name));
        winner.map(|cluster| vec![cluster]).ok_or(PlacementError::NoMatch)
    }

    /// Computes the score of a cluster: uniform, and independent for each name and key.
    fn score(&self, app: &AppKey, cluster: &TargetName) -> [u8; 32] {
        let mut hash = Sha256::new();
        let AppKey { namespace, slug } = app;
        // With lengths, so that no two keys read alike.
        let mut add = |text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        };
        add(namespace.as_str());
        add(slug.as_str());
        for (key, value) in &self.labels {
            add(key);
            add(value);
        }
        add(cluster.as_str());
        hash.finalize().into()
    }
}

/// The pods of a version by cluster, and the placements that name no cluster, by index. `None` stands for a number that
/// no setting says.
pub type VersionPods = (BTreeMap<TargetName, Option<u32>>, Vec<(usize, PlacementError)>);

/// Places a version. Without any placement it is on every cluster; placements on the same cluster add up, and their sum
/// is not known where one of them has no number.
pub fn place_version(
    app: &AppKey,
    placements: &[ClusterPlacement],
    fleet: &[FleetCluster],
) -> VersionPods {
    let everywhere = [ClusterPlacement::default()];
    let placements = if placements.is_empty() { &everywhere[..] } else { placements };
    let mut pods: BTreeMap<TargetName, Option<u32>> = BTreeMap::new();
    let mut errors = Vec::new();
    for (index, placement) in placements.iter().enumerate() {
        match placement.clusters(app, fleet) {
            Ok(clusters) => {
                for cluster in clusters {
                    let sum = pods.entry(cluster.name.clone()).or_insert(Some(0));
                    let both = sum.zip(placement.replicas);
                    *sum = both.map(|(sum, more)| sum.saturating_add(more));
                }
            }
            Err(error) => errors.push((index, error)),
        }
    }
    (pods, errors)
}
