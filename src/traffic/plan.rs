//! The planner: from the live versions to those that should be.
//!
//! Versions that are gone are scaled to 0 and removed; then new and changed ones are distributed; then pods are scaled,
//! one cluster after the other. Scaling is rolling: at a time at most one version shrinks, while at most one grows that is
//! newer, and it grows first, so that the pods of a cluster never fall below what it has and should have.
//!
//! The steps are for a person to read: a deployment pushes the state after the last one, and Argo CD applies it in one sync.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::id::TargetName;

/// One version over a fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionSpec {
    /// The version's name.
    pub name: String,
    /// Its whole image.
    pub image: String,
    /// Its pods by cluster; `None` where their number is an autoscaler's.
    pub pods: BTreeMap<TargetName, Option<u32>>,
}

/// The kind of a change to a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum VersionChange {
    /// It was, and should not be.
    Del,
    /// It was and should be, and differs.
    Mod,
    /// It should be, and was not.
    Add,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrafficStep {
    /// A version that is to go has no pods on a cluster any more.
    ScaleToZero {
        /// The version.
        version: String,
        /// The cluster.
        cluster: TargetName,
        /// Its pods there until now; `None` where their number is an autoscaler's.
        from: Option<u32>,
    },
    /// A version leaves a cluster.
    Remove {
        /// The version.
        version: String,
        /// The cluster.
        cluster: TargetName,
    },
    /// A version comes to a cluster, without pods, or its image there changes.
    Distribute {
        /// The version.
        version: String,
        /// The cluster.
        cluster: TargetName,
        /// The image.
        image: String,
        /// The image until now; `None` where the version is new there.
        former: Option<String>,
    },
    /// The pods of a version on a cluster change.
    Scale {
        /// The version.
        version: String,
        /// The cluster.
        cluster: TargetName,
        /// Its pods there until now.
        from: u32,
        /// Its pods there from then on.
        to: u32,
    },
    /// From now on an autoscaler decides about the pods of a version on a cluster.
    Autoscale {
        /// The version.
        version: String,
        /// The cluster.
        cluster: TargetName,
    },
    /// From now on no autoscaler decides about the pods of a version on a cluster.
    Fix {
        /// The version.
        version: String,
        /// The cluster.
        cluster: TargetName,
        /// Its pods there from then on.
        pods: u32,
    },
}

/// The plan: what changes, and the steps in order; both empty where nothing does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrafficPlan {
    /// Each version that changes: first those to go, then changed ones, then new ones.
    pub changes: Vec<(VersionChange, String)>,
    /// The steps, in order.
    pub steps: Vec<TrafficStep>,
}

/// The parts in which the pods of a cluster are replaced: a step moves at most this part of those that it should have.
const BATCHES: u32 = 4;

/// Plans the way from the live versions to those that should be; both lists have older versions first.
pub fn plan_versions(old: &[VersionSpec], new: &[VersionSpec]) -> TrafficPlan {
    let mut plan = TrafficPlan::default();
    let find = |list: &'_ [VersionSpec], name: &str| list.iter().position(|one| one.name == name);
    for version in old {
        match find(new, &version.name).and_then(|index| new.get(index)) {
            None => plan.changes.push((VersionChange::Del, version.name.clone())),
            Some(next) if next != version => {
                plan.changes.push((VersionChange::Mod, version.name.clone()));
            }
            Some(_) => {}
        }
    }
    let additions = new.iter().filter(|version| find(old, &version.name).is_none());
    plan.changes.extend(additions.map(|one| (VersionChange::Add, one.name.clone())));
    plan.changes.sort_by_key(|(change, _)| *change);
    for version in old {
        let next = find(new, &version.name).and_then(|index| new.get(index));
        remove(version, next, &mut plan.steps);
    }
    for version in new {
        let former = find(old, &version.name).and_then(|index| old.get(index));
        distribute(version, former, &mut plan.steps);
    }
    let clusters: BTreeSet<&TargetName> =
        new.iter().flat_map(|version| version.pods.keys()).collect();
    for cluster in clusters {
        scale(cluster, old, new, &mut plan.steps);
    }
    plan
}

/// Takes a version from the clusters on which it should not be.
fn remove(old: &VersionSpec, new: Option<&VersionSpec>, steps: &mut Vec<TrafficStep>) {
    for (cluster, pods) in &old.pods {
        if new.is_some_and(|new| new.pods.contains_key(cluster)) {
            continue;
        }
        let (version, cluster) = (old.name.clone(), cluster.clone());
        if *pods != Some(0) {
            let (version, cluster) = (version.clone(), cluster.clone());
            steps.push(TrafficStep::ScaleToZero { version, cluster, from: *pods });
        }
        steps.push(TrafficStep::Remove { version, cluster });
    }
}

/// Brings a version to the clusters on which it should be.
fn distribute(new: &VersionSpec, old: Option<&VersionSpec>, steps: &mut Vec<TrafficStep>) {
    for cluster in new.pods.keys() {
        let former = old.filter(|old| old.pods.contains_key(cluster)).map(|old| &old.image);
        if former != Some(&new.image) {
            steps.push(TrafficStep::Distribute {
                version: new.name.clone(),
                cluster: cluster.clone(),
                image: new.image.clone(),
                former: former.cloned(),
            });
        }
    }
}

/// A version whose number of pods on a cluster is not an autoscaler's.
struct PodCount<'a> {
    version: &'a str,
    is: u32,
    should: u32,
}

/// Scales the versions of one cluster.
fn scale(
    cluster: &TargetName,
    old: &[VersionSpec],
    new: &[VersionSpec],
    steps: &mut Vec<TrafficStep>,
) {
    let pods_before = |name: &str| {
        let version = old.iter().find(|version| version.name == name);
        version.and_then(|version| version.pods.get(cluster).copied())
    };
    let mut counts = Vec::new();
    for version in new {
        match (version.pods.get(cluster), pods_before(&version.name)) {
            (Some(Some(should)), before) => {
                if before == Some(None) {
                    let (version, cluster) = (version.name.clone(), cluster.clone());
                    steps.push(TrafficStep::Fix { version, cluster, pods: *should });
                }
                // What an autoscaler had is not known; it counts as what should be.
                let is = before.map_or(0, |pods| pods.unwrap_or(*should));
                counts.push(PodCount { version: &version.name, is, should: *should });
            }
            (Some(None), Some(None)) | (None, _) => {}
            (Some(None), Some(Some(_)) | None) => steps.push(TrafficStep::Autoscale {
                version: version.name.clone(),
                cluster: cluster.clone(),
            }),
        }
    }
    let batch = counts.iter().map(|count| u64::from(count.should)).sum::<u64>();
    let batch = u32::try_from(batch.div_ceil(u64::from(BATCHES))).unwrap_or(u32::MAX).max(1);
    roll(cluster, &mut counts, batch, steps);
}

/// Replaces pods batch by batch: the newest version that must grow grows, then the oldest one that is older and must
/// shrink gives as many away. What has no partner grows at once, and shrinks last.
fn roll(
    cluster: &TargetName,
    counts: &mut [PodCount<'_>],
    batch: u32,
    steps: &mut Vec<TrafficStep>,
) {
    let mut change = |count: &mut PodCount<'_>, to: u32| {
        let (version, cluster) = (count.version.to_owned(), cluster.clone());
        steps.push(TrafficStep::Scale { version, cluster, from: count.is, to });
        count.is = to;
    };
    while let Some(grower) = counts.iter().rposition(|count| count.is < count.should) {
        let shrinker = counts.iter().take(grower).position(|count| count.is > count.should);
        let Some(growing) = counts.get_mut(grower) else { return };
        let Some(shrinker) = shrinker else {
            let should = growing.should;
            change(growing, should);
            continue;
        };
        let more = (growing.should - growing.is).min(batch);
        let to = growing.is + more;
        change(growing, to);
        if let Some(shrinking) = counts.get_mut(shrinker) {
            let less = (shrinking.is - shrinking.should).min(more);
            let to = shrinking.is - less;
            change(shrinking, to);
        }
    }
    for count in counts.iter_mut().filter(|count| count.is > count.should) {
        let should = count.should;
        change(count, should);
    }
}

/// `v1 on prod-1: 10 → 7 pods`
impl std::fmt::Display for TrafficStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ScaleToZero { version, cluster, from: Some(from) } => {
                write!(f, "{version} on {cluster}: {from} → 0 pods")
            }
            Self::ScaleToZero { version, cluster, from: None } => {
                write!(f, "{version} on {cluster}: → 0 pods")
            }
            Self::Remove { version, cluster } => write!(f, "{version} on {cluster}: removed"),
            Self::Distribute { version, cluster, image, former: None } => {
                write!(f, "{version} on {cluster}: added with {image}")
            }
            Self::Distribute { version, cluster, image, former: Some(former) } => {
                write!(f, "{version} on {cluster}: {former} → {image}")
            }
            Self::Scale { version, cluster, from, to } => {
                write!(f, "{version} on {cluster}: {from} → {to} pods")
            }
            Self::Autoscale { version, cluster } => {
                write!(f, "{version} on {cluster}: scaled by load")
            }
            Self::Fix { version, cluster, pods } => {
                write!(f, "{version} on {cluster}: {pods} pods, not scaled by load any more")
            }
        }
    }
}
