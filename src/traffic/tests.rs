//! Properties of placement, planner and weights.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::model::fleet::FleetCluster;
use crate::model::id::{AppKey, Namespace, Slug, TargetName};
use crate::traffic::placement::{ClusterPlacement, PlacementError, place_version};
use crate::traffic::plan::{TrafficStep, VersionChange, VersionSpec, plan_versions};
use crate::traffic::weights::{WHOLE, scale_to_whole};

fn app(slug: &str) -> AppKey {
    AppKey { namespace: Namespace::parse("n").unwrap(), slug: Slug::parse(slug).unwrap() }
}

fn cluster(name: &str, labels: &[(&str, &str)]) -> FleetCluster {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    FleetCluster { name: TargetName::parse(name).unwrap(), labels: labels.collect() }
}

fn production(count: usize) -> Vec<FleetCluster> {
    (0..count).map(|n| cluster(&format!("prod-{n}"), &[("usage", "production")])).collect()
}

fn by_labels() -> ClusterPlacement {
    let labels = [("usage".to_owned(), "production".to_owned())].into();
    ClusterPlacement { labels, ..ClusterPlacement::default() }
}

fn pick<'f>(slug: &str, fleet: &'f [FleetCluster]) -> &'f str {
    by_labels().clusters(&app(slug), fleet).unwrap()[0].name.as_str()
}

#[test]
fn a_placement_is_by_name_by_labels_or_everywhere() {
    let mut fleet = production(3);
    fleet.push(cluster("stage", &[("usage", "staging")]));
    let named = |name: &str, labels: ClusterPlacement| ClusterPlacement {
        cluster: Some(name.to_owned()),
        ..labels
    };
    let clusters_of = |placement: &ClusterPlacement| {
        let clusters = placement.clusters(&app("a"), &fleet)?;
        Ok(clusters.iter().map(|one| one.name.to_string()).collect::<Vec<_>>())
    };
    let everywhere = ClusterPlacement::default();
    assert_eq!(
        clusters_of(&everywhere),
        Ok(["prod-0", "prod-1", "prod-2", "stage"].map(str::to_owned).to_vec())
    );
    assert_eq!(clusters_of(&named("prod-1", by_labels())), Ok(vec!["prod-1".to_owned()]));
    assert_eq!(clusters_of(&by_labels()).unwrap().len(), 1);
    assert_eq!(
        clusters_of(&named("stage", by_labels())),
        Err(PlacementError::LabelsDiffer("stage".into()))
    );
    assert_eq!(
        clusters_of(&named("other", ClusterPlacement::default())),
        Err(PlacementError::UnknownCluster("other".into()))
    );
    let nowhere = ClusterPlacement {
        labels: [("usage".to_owned(), "none".to_owned())].into(),
        ..ClusterPlacement::default()
    };
    assert_eq!(clusters_of(&nowhere), Err(PlacementError::NoMatch));
    // What is known of the others stays.
    let five = |placement| ClusterPlacement { replicas: Some(5), ..placement };
    let placements =
        [five(named("prod-1", by_labels())), nowhere, five(ClusterPlacement::default())];
    let (pods, errors) = place_version(&app("a"), &placements, &fleet);
    let pods: Vec<_> = pods.iter().map(|(name, pods)| (name.as_str(), pods.unwrap())).collect();
    assert_eq!(pods, [("prod-0", 5), ("prod-1", 10), ("prod-2", 5), ("stage", 5)]);
    assert_eq!(errors, [(1, PlacementError::NoMatch)]);
    // Where no setting says one of the numbers, none says their sum.
    let unknown = named("prod-1", ClusterPlacement::default());
    for placements in [[unknown.clone(), five(unknown.clone())], [five(unknown.clone()), unknown]] {
        let (pods, _) = place_version(&app("a"), &placements, &fleet);
        assert_eq!(pods.into_values().collect::<Vec<_>>(), [None]);
    }
}

/// The expected share is a tenth; with 4,000 apps three standard deviations are 57.
#[test]
fn apps_are_spread_evenly_over_the_clusters_that_match() {
    let fleet = production(10);
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for n in 0..4000 {
        *counts.entry(pick(&format!("app-{n}"), &fleet)).or_default() += 1;
    }
    assert!(counts.len() == 10 && counts.values().all(|n| (330..=470).contains(n)), "{counts:?}");
}

fn spec(name: &str, image: &str, pods: &[(&str, Option<u32>)]) -> VersionSpec {
    let pods = pods.iter().map(|(name, pods)| (TargetName::parse(*name).unwrap(), *pods));
    VersionSpec { name: name.to_owned(), image: image.to_owned(), pods: pods.collect() }
}

fn lines(old: &[VersionSpec], new: &[VersionSpec]) -> Vec<String> {
    plan_versions(old, new).steps.iter().map(ToString::to_string).collect()
}

#[test]
fn what_is_gone_goes_first_then_versions_come_then_they_are_scaled() {
    let old = [
        spec("v1", "i:1", &[("a", Some(2)), ("b", None)]),
        spec("v2", "i:2", &[("a", Some(8))]),
        spec("v3", "i:3", &[("a", Some(0))]),
    ];
    let new = [
        spec("v2", "i:2b", &[("a", Some(2))]),
        spec("v3", "i:3", &[("a", Some(6)), ("b", Some(1))]),
        spec("v4", "i:4", &[("b", None)]),
    ];
    let plan = plan_versions(&old, &new);
    assert_eq!(
        plan.changes,
        [
            (VersionChange::Del, "v1".to_owned()),
            (VersionChange::Mod, "v2".to_owned()),
            (VersionChange::Mod, "v3".to_owned()),
            (VersionChange::Add, "v4".to_owned()),
        ]
    );
    assert_eq!(
        lines(&old, &new),
        [
            "v1 on a: 2 → 0 pods",
            "v1 on a: removed",
            "v1 on b: → 0 pods",
            "v1 on b: removed",
            "v2 on a: i:2 → i:2b",
            "v3 on b: added with i:3",
            "v4 on b: added with i:4",
            "v3 on a: 0 → 2 pods",
            "v2 on a: 8 → 6 pods",
            "v3 on a: 2 → 4 pods",
            "v2 on a: 6 → 4 pods",
            "v3 on a: 4 → 6 pods",
            "v2 on a: 4 → 2 pods",
            "v4 on b: scaled by load",
            "v3 on b: 0 → 1 pods",
        ]
    );
}

#[test]
fn an_older_version_grows_before_a_newer_one_shrinks() {
    let old = [spec("v1", "i:1", &[("a", Some(1))]), spec("v2", "i:2", &[("a", Some(3))])];
    let new = [spec("v1", "i:1", &[("a", Some(3))]), spec("v2", "i:2", &[("a", Some(1))])];
    assert_eq!(lines(&old, &new), ["v1 on a: 1 → 3 pods", "v2 on a: 3 → 1 pods"]);
}

fn any_specs() -> impl Strategy<Value = Vec<VersionSpec>> {
    let pods = proptest::option::weighted(0.9, 0..40u32);
    let clusters = proptest::collection::btree_map("[a-c]", pods, 0..3);
    proptest::collection::btree_map(0..6u32, (0..3u32, clusters), 0..5).prop_map(|versions| {
        let version = |(number, (image, pods)): (u32, (u32, BTreeMap<String, Option<u32>>))| {
            let pods = pods.into_iter().map(|(name, n)| (TargetName::parse(name).unwrap(), n));
            VersionSpec {
                name: format!("v{number}"),
                image: format!("i:{image}"),
                pods: pods.collect(),
            }
        };
        versions.into_iter().map(version).collect()
    })
}

type Pods = BTreeMap<(TargetName, String), (String, Option<u32>)>;

fn pods(specs: &[VersionSpec]) -> Pods {
    let pods_of = |version: &VersionSpec| {
        let pods = version.pods.clone().into_iter();
        let (name, image) = (version.name.clone(), version.image.clone());
        pods.map(move |(cluster, n)| ((cluster, name.clone()), (image.clone(), n)))
            .collect::<Vec<_>>()
    };
    specs.iter().flat_map(pods_of).collect()
}

/// Applies a step, which must fit what is there.
fn apply(state: &mut Pods, step: &TrafficStep) {
    match step.clone() {
        TrafficStep::ScaleToZero { version, cluster, from } => {
            let (_, pods) = state.get_mut(&(cluster, version)).unwrap();
            assert_eq!(*pods, from);
            *pods = Some(0);
        }
        TrafficStep::Remove { version, cluster } => {
            assert_eq!(state.remove(&(cluster, version)).unwrap().1, Some(0));
        }
        TrafficStep::Distribute { version, cluster, image, former } => {
            let entry = state.entry((cluster, version)).or_insert((String::new(), Some(0)));
            assert_eq!(Some(entry.0.clone()).filter(|text| !text.is_empty()), former);
            entry.0 = image;
        }
        TrafficStep::Scale { version, cluster, from, to } => {
            let (_, pods) = state.get_mut(&(cluster, version)).unwrap();
            assert!(pods.is_none() || *pods == Some(from), "{pods:?} is not {from}");
            assert_ne!(from, to);
            *pods = Some(to);
        }
        TrafficStep::Autoscale { version, cluster } => {
            state.get_mut(&(cluster, version)).unwrap().1 = None;
        }
        TrafficStep::Fix { version, cluster, pods } => {
            let former = state.get_mut(&(cluster, version)).unwrap();
            assert_eq!(former.1.replace(pods), None, "it was scaled by load");
        }
    }
}

fn rank(step: &TrafficStep) -> u32 {
    match step {
        TrafficStep::ScaleToZero { .. } | TrafficStep::Remove { .. } => 0,
        TrafficStep::Distribute { .. } => 1,
        TrafficStep::Scale { .. } | TrafficStep::Autoscale { .. } | TrafficStep::Fix { .. } => 2,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_fleet_gives_the_same_pick_whatever_its_order(
        size in 1..30usize, slug in "[a-z]{1,8}", turn in 0..30usize,
    ) {
        let fleet = production(size);
        let mut turned = fleet.clone();
        turned.rotate_left(turn % size);
        prop_assert_eq!(pick(&slug, &fleet), pick(&slug, &turned));
    }

    #[test]
    fn a_cluster_that_comes_or_goes_moves_only_its_share(
        size in 2..30usize, slug in "[a-z]{1,8}", gone in 0..30usize,
    ) {
        let fleet = production(size);
        let mut smaller = fleet.clone();
        let gone = smaller.remove(gone % size);
        // Read from left to right it goes, from right to left it comes.
        let (before, after) = (pick(&slug, &fleet), pick(&slug, &smaller));
        prop_assert!(before == after || before == gone.name.as_str());
    }

    /// Applied in order, the steps lead from what is to what should be; no step is out of turn, and no cluster has too
    /// few pods on the way.
    #[test]
    fn a_plan_leads_to_what_should_be(old in any_specs(), new in any_specs()) {
        let plan = plan_versions(&old, &new);
        prop_assert!(plan.steps.is_sorted_by_key(rank), "{:?}", plan.steps);
        prop_assert_eq!(plan.steps.is_empty(), pods(&old) == pods(&new));
        let mut state = pods(&old);
        let sum = |state: &Pods, cluster: &TargetName| -> u64 {
            let of_cluster = state.iter().filter(|((name, _), _)| name == cluster);
            of_cluster.map(|(_, (_, pods))| u64::from(pods.unwrap_or(0))).sum()
        };
        let mut scaling: BTreeMap<TargetName, u64> = BTreeMap::new();
        for step in &plan.steps {
            if let TrafficStep::Scale { cluster, from, to, .. } = step {
                let before = sum(&state, cluster);
                let floor = scaling.entry(cluster.clone()).or_insert(before);
                *floor = (*floor).min(before).min(sum(&pods(&new), cluster));
                if to < from {
                    prop_assert!(before - u64::from(from - to) >= *floor);
                }
            }
            apply(&mut state, step);
        }
        prop_assert_eq!(state, pods(&new));
    }

    /// Between two steps at most one version is on its way down, and it is older than what grew before it.
    #[test]
    fn one_version_shrinks_while_one_that_is_newer_grows(old in any_specs(), new in any_specs()) {
        let steps = plan_versions(&old, &new).steps;
        let last_growth = |cluster: &TargetName| steps.iter().rposition(|step| {
            matches!(step, TrafficStep::Scale { cluster: one, from, to, .. } if one == cluster && to > from)
        });
        let scaled: BTreeSet<&TargetName> = new.iter().flat_map(|one| one.pods.keys()).collect();
        for cluster in scaled {
            let Some(last) = last_growth(cluster) else { continue };
            let mut grown: Option<&str> = None;
            for step in steps.iter().take(last) {
                let TrafficStep::Scale { version, cluster: one, from, to } = step else { continue };
                if one != cluster { continue }
                if to > from {
                    grown = Some(version);
                } else {
                    // It gives its place to the one that grew just before.
                    prop_assert!(grown.is_some_and(|grown| grown > version.as_str()), "{steps:?}");
                    grown = None;
                }
            }
        }
    }

    #[test]
    fn weights_are_whole_shares_of_all_requests(weights in proptest::collection::vec(0..200u32, 1..12)) {
        match scale_to_whole(&weights) {
            None => prop_assert!(weights.iter().all(|weight| *weight == 0)),
            Some(shares) => {
                prop_assert_eq!(shares.iter().sum::<u32>(), WHOLE);
                prop_assert!(weights.iter().zip(&shares).all(|(weight, share)| *weight > 0 || *share == 0));
                let sum: u32 = weights.iter().sum();
                for (weight, share) in weights.iter().zip(&shares) {
                    prop_assert!((f64::from(*weight) * 100.0 / f64::from(sum) - f64::from(*share)).abs() < 1.0);
                }
                prop_assert_eq!(scale_to_whole(&shares), Some(shares));
            }
        }
    }
}
