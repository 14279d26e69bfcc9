//! The fleets: named sets of clusters that are deployed to as one target.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::manifests::ManifestRepositorySettings;
use crate::config::resolver::Resolver;
use crate::model::fleet::FleetCluster;
use crate::model::fleets::Fleets;
use crate::model::id::TargetName;
use crate::model::target::{Clusters, Target};
use crate::support::globs::Globs;
use crate::waml::suggest;

/// A fleet: clusters that are deployed to as one target.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Fleet {
    /// Its name, as in `deploy` of a WAML and as environment on GitHub. No cluster has it.
    #[schemars(extend("format" = "target"))]
    name: String,
    /// Its clusters: `{labels: {region: eu}}`.
    clusters: FleetSelection,
}

/// The clusters of a fleet: those that `names` and `labels` select, where both are given those that both select, and all of
/// `fleets`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct FleetSelection {
    /// Names of clusters, or globs that match some.
    names: Option<Vec<String>>,
    /// The labels that a cluster must have, all of them; `environment` is that of the cluster.
    labels: Option<BTreeMap<String, String>>,
    /// Other fleets, whose clusters it has, too.
    fleets: Option<Vec<String>>,
}

/// The characters by which a name is a glob.
const GLOB_CHARACTERS: [char; 6] = ['*', '?', '[', ']', '{', '}'];

/// A fleet whose name is legal, with its place in the file.
struct NamedFleet {
    path: String,
    selection: FleetSelection,
}

type NamedFleets = BTreeMap<TargetName, NamedFleet>;

impl Resolver<'_> {
    /// Resolves the fleets to their clusters. A fleet without a cluster, with unknown ones, of itself, or over several
    /// manifest repositories is refused.
    pub(super) fn fleets(
        &mut self,
        fleets: Vec<Fleet>,
        clusters: &Clusters,
        repositories: &[ManifestRepositorySettings],
    ) -> Fleets {
        self.limit_length("fleets", fleets.len());
        if fleets.is_empty() || self.report.is_broken("fleets") || self.report.is_broken("clusters")
        {
            return Fleets::default();
        }
        let Clusters::Known(targets) = clusters else {
            let message = "there are fleets, and no clusters that they could have";
            self.report.error(
                "fleets",
                message,
                "configure the clusters of the fleets: `clusters`",
            );
            return Fleets::default();
        };
        let named = self.named_fleets(fleets, targets);
        let mut resolved = BTreeMap::new();
        for (name, fleet) in &named {
            let violations = self.report.violations.len();
            self.check_selection(fleet, targets);
            let mut members = select_clusters(&fleet.selection, targets);
            self.add_fleets((name, fleet), &named, targets, &mut members);
            if self.report.violations.len() > violations {
                continue;
            }
            if members.is_empty() {
                let message = format!("the fleet {name} has no cluster");
                let help = "select some by `names`, `labels` or `fleets`";
                self.report.error(&format!("{}.clusters", fleet.path), message, help);
                continue;
            }
            self.one_repository((name, fleet), &members, repositories);
            resolved.insert(name.clone(), members);
        }
        Fleets::new(resolved)
    }

    /// Returns the fleets by name; a name that a cluster or another fleet has is reported.
    fn named_fleets(
        &mut self,
        fleets: Vec<Fleet>,
        targets: &BTreeMap<TargetName, Target>,
    ) -> NamedFleets {
        let mut named: NamedFleets = BTreeMap::new();
        for (n, Fleet { name, clusters }) in fleets.into_iter().enumerate() {
            let path = format!("fleets[{n}]");
            // A name that is none violates the schema.
            let Ok(name) = TargetName::parse(name) else { continue };
            let object = name.object_name();
            let is_alike = |other: &&TargetName| other.object_name() == object;
            let kind = if targets.keys().any(|target| is_alike(&target)) {
                "cluster"
            } else if named.keys().any(|fleet| is_alike(&fleet)) {
                "fleet"
            } else {
                named.insert(name, NamedFleet { path, selection: clusters });
                continue;
            };
            let message = format!("there is a {kind} called {name} already");
            let help =
                "give it a name that differs in more than case, `_` and `-`: both are targets";
            self.report.error(&format!("{path}.name"), message, help);
        }
        named
    }

    /// Reports names and labels that select no cluster, each by itself or together.
    fn check_selection(&mut self, fleet: &NamedFleet, targets: &BTreeMap<TargetName, Target>) {
        let path = format!("{}.clusters", fleet.path);
        let FleetSelection { names, labels, fleets: _ } = &fleet.selection;
        let violations = self.report.violations.len();
        if let Some(names) = names {
            self.check_names(&format!("{path}.names"), names, targets);
        }
        if let Some(labels) = labels
            && !targets.values().any(|target| FleetCluster::of(target).has_labels(labels))
        {
            let labels: Vec<String> =
                labels.iter().map(|(key, value)| format!("{key}: {value}")).collect();
            let message = format!("no cluster has the labels {{{}}}", labels.join(", "));
            let help = "these are `labels` of `clusters`; `environment` is a cluster's own";
            self.report.error(&format!("{path}.labels"), message, help);
        }
        if let (Some([_, ..]), Some(_)) = (names.as_deref(), labels)
            && self.report.violations.len() == violations
            && select_clusters(&fleet.selection, targets).is_empty()
        {
            let message = "no cluster of these names has these labels";
            self.report.error(
                &path,
                message,
                "leave one of `names` and `labels` out, or change it",
            );
        }
    }

    /// Reports a name that no cluster has, and a glob that matches none.
    fn check_names(
        &mut self,
        path: &str,
        names: &[String],
        targets: &BTreeMap<TargetName, Target>,
    ) {
        self.limit_length(path, names.len());
        self.check_globs(path, names);
        let clusters: Vec<&str> = targets.keys().map(TargetName::as_str).collect();
        for (n, name) in names.iter().enumerate() {
            let Ok(glob) = Globs::parse([name]) else { continue };
            if clusters.iter().any(|cluster| glob.is_match(cluster)) {
                continue;
            }
            let (message, help) = if name.contains(GLOB_CHARACTERS) {
                let clusters = suggest::list(clusters.iter().copied());
                (format!("`{name}` matches no cluster"), format!("the clusters are {clusters}"))
            } else {
                let message = format!("there is no cluster called {name}");
                (message, suggest::hint(name, clusters.iter().copied()))
            };
            self.report.error(&format!("{path}[{n}]"), message, &help);
        }
    }

    /// Adds the clusters of the other fleets that the fleet has. One that has itself, by whatever way, is reported.
    fn add_fleets(
        &mut self,
        (name, fleet): (&TargetName, &NamedFleet),
        named: &NamedFleets,
        targets: &BTreeMap<TargetName, Target>,
        members: &mut BTreeSet<TargetName>,
    ) {
        let fleets: Vec<&str> = named.keys().map(TargetName::as_str).collect();
        let mut seen = BTreeSet::from([name]);
        for (n, text) in fleet.selection.fleets.iter().flatten().enumerate() {
            let path = format!("{}.clusters.fleets[{n}]", fleet.path);
            let Some((other, other_fleet)) =
                TargetName::parse(text.as_str()).ok().and_then(|other| named.get_key_value(&other))
            else {
                let message = format!("there is no fleet called {text}");
                self.report.error(&path, message, &suggest::hint(text, fleets.iter().copied()));
                continue;
            };
            if let Some(way) = find_cycle(name, other, named) {
                let message = format!("the fleet {name} has itself: {}", way.join(" → "));
                self.report.error(&path, message, "remove one of these from the other");
                continue;
            }
            let mut open = vec![(other, other_fleet)];
            while let Some((other, other_fleet)) = open.pop() {
                if !seen.insert(other) {
                    continue;
                }
                // What is wrong with it is reported at its own place.
                members.extend(select_clusters(&other_fleet.selection, targets));
                open.extend(inner_fleets(other_fleet, named));
            }
        }
    }

    /// Reports a fleet whose clusters have their manifests in several repositories: its deployment is one push.
    fn one_repository(
        &mut self,
        (name, fleet): (&TargetName, &NamedFleet),
        members: &BTreeSet<TargetName>,
        repositories: &[ManifestRepositorySettings],
    ) {
        let mut by_repository: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for cluster in members {
            // A cluster without one is reported.
            let repository = repositories.iter().find(|one| one.targets.is_match(cluster.as_str()));
            let Some(repository) = repository else { return };
            by_repository.entry(&repository.name).or_default().push(cluster.as_str());
        }
        if by_repository.len() > 1 {
            let parts: Vec<String> = by_repository
                .iter()
                .map(|(repository, clusters)| {
                    format!("{} in {repository}", suggest::list(clusters.iter().copied()))
                })
                .collect();
            let message = format!(
                "the clusters of the fleet {name} have their manifests in several repositories: {}",
                parts.join(", ")
            );
            let help = "make a fleet for each repository, or let one repository have all of them: a deployment to a \
                        fleet is one push";
            self.report.error(&format!("{}.clusters", fleet.path), message, help);
        }
    }
}

/// Returns the clusters that the names and labels of a selection select.
fn select_clusters(
    selection: &FleetSelection,
    targets: &BTreeMap<TargetName, Target>,
) -> BTreeSet<TargetName> {
    let FleetSelection { names, labels, fleets: _ } = selection;
    if names.is_none() && labels.is_none() {
        return BTreeSet::new();
    }
    let globs = names.as_ref().map(Globs::parse_readable);
    let is_selected = |target: &&Target| {
        globs.as_ref().is_none_or(|globs| globs.is_match(target.name.as_str()))
            && labels.as_ref().is_none_or(|labels| FleetCluster::of(target).has_labels(labels))
    };
    targets.values().filter(is_selected).map(|target| target.name.clone()).collect()
}

/// Returns the fleets that a fleet has; names of none are left out.
fn inner_fleets<'a>(
    fleet: &'a NamedFleet,
    named: &'a NamedFleets,
) -> impl Iterator<Item = (&'a TargetName, &'a NamedFleet)> {
    let inner = fleet.selection.fleets.iter().flatten();
    inner.filter_map(|text| named.get_key_value(&TargetName::parse(text.as_str()).ok()?))
}

/// Returns the way from a fleet over this inner one back to itself, if there is one.
fn find_cycle<'a>(
    name: &'a TargetName,
    inner: &'a TargetName,
    named: &'a NamedFleets,
) -> Option<Vec<&'a str>> {
    let mut ways = vec![vec![inner]];
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop() {
        let last = *way.last()?;
        if last == name {
            let whole_way = std::iter::once(name).chain(way);
            return Some(whole_way.map(TargetName::as_str).collect());
        }
        if seen.insert(last)
            && let Some(fleet) = named.get(last)
        {
            let next =
                inner_fleets(fleet, named).map(|(next, _)| [way.as_slice(), &[next]].concat());
            ways.extend(next);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{loaded, refused};
    use crate::model::id::TargetName;

    /// Four clusters, and the fleets.
    fn with_clusters(fleets: &str) -> String {
        let cluster = |name: &str, environment: &str, region: &str| {
            format!(
                "- {{name: {name}, environment: {environment}, domain: {name}.example.com, labels: {{region: {region}}}, \
                 server: 'https://{name}'}}\n"
            )
        };
        let clusters = [
            cluster("eu-1", "production", "eu"),
            cluster("eu-2", "production", "eu"),
            cluster("us-1", "production", "us"),
            cluster("dev", "development", "eu"),
        ];
        format!("fleets:\n{fleets}clusters:\n{}", clusters.concat())
    }

    fn clusters_of(text: &str, fleet: &str) -> String {
        let fleets = loaded(&with_clusters(text)).settings.fleets;
        let clusters = fleets.clusters_of(&TargetName::parse(fleet).unwrap()).unwrap();
        clusters.iter().map(TargetName::as_str).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn names_globs_labels_and_other_fleets_select_clusters() {
        let one =
            |selection: &str| clusters_of(&format!("- {{name: f, clusters: {selection}}}\n"), "f");
        assert_eq!(one("{names: [us-1, dev]}"), "dev us-1");
        assert_eq!(one("{names: ['eu-*', us-1]}"), "eu-1 eu-2 us-1");
        assert_eq!(one("{labels: {environment: production}}"), "eu-1 eu-2 us-1");
        assert_eq!(one("{labels: {region: eu, environment: production}}"), "eu-1 eu-2");
        assert_eq!(one("{names: ['*-1'], labels: {region: eu}}"), "eu-1");
        let nested = "- {name: all, clusters: {fleets: [eu, us], names: [dev]}}\n\
             - {name: eu, clusters: {names: ['eu-*']}}\n- {name: us, clusters: {fleets: [west]}}\n\
             - {name: west, clusters: {names: [us-1]}}\n";
        assert_eq!(clusters_of(nested, "all"), "dev eu-1 eu-2 us-1");
        assert_eq!(clusters_of(nested, "us"), "us-1");
    }

    #[test]
    fn a_fleet_that_selects_nothing_or_what_is_not_there_is_refused_at_its_place() {
        for (fleets, expected) in [
            ("- {name: f, clusters: {}}\n", "config.yaml:2:22: the fleet f has no cluster"),
            (
                "- {name: f, clusters: {names: []}}\n",
                "config.yaml:2:22: the fleet f has no cluster",
            ),
            (
                "- {name: f, clusters: {names: [eu-3]}}\n",
                "config.yaml:2:31: there is no cluster called eu-3",
            ),
            (
                "- {name: f, clusters: {names: ['asia-*']}}\n",
                "config.yaml:2:31: `asia-*` matches no cluster",
            ),
            (
                "- {name: f, clusters: {names: ['eu-[']}}\n",
                "config.yaml:2:31: this glob cannot be read",
            ),
            (
                "- {name: f, clusters: {labels: {region: asia}}}\n",
                "config.yaml:2:32: no cluster has the labels {region: asia}",
            ),
            (
                "- {name: f, clusters: {names: [us-1], labels: {region: eu}}}\n",
                "config.yaml:2:22: no cluster of these names has these labels",
            ),
            (
                "- {name: f, clusters: {fleets: [g]}}\n",
                "config.yaml:2:32: there is no fleet called g",
            ),
            (
                "- {name: eu-1, clusters: {names: [dev]}}\n",
                "config.yaml:2:9: there is a cluster called eu-1 already",
            ),
            (
                "- {name: f, clusters: {names: [dev]}}\n- {name: F, clusters: {names: [dev]}}\n",
                "config.yaml:3:9: there is a fleet called F already",
            ),
        ] {
            let message = refused(&with_clusters(fleets));
            // The line and the sentence; the column is that of the nearest key.
            let (place, words) = expected.split_once(": ").unwrap();
            let (line, _) = place.rsplit_once(':').unwrap();
            assert!(
                message.starts_with(&format!("{line}:")) && message.contains(words),
                "{expected}\n{message}"
            );
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }

    #[test]
    fn fleets_that_have_each_other_are_refused_with_the_way() {
        let message = refused(&with_clusters(
            "- {name: a, clusters: {fleets: [b], names: [dev]}}\n- {name: b, clusters: {fleets: [c]}}\n\
             - {name: c, clusters: {fleets: [a]}}\n- {name: d, clusters: {fleets: [d]}}\n",
        ));
        assert!(
            message.contains("config.yaml:2:33: the fleet a has itself: a → b → c → a")
                && message.contains("the fleet d has itself: d → d"),
            "{message}"
        );
    }

    #[test]
    fn a_fleet_over_several_manifest_repositories_is_refused() {
        let text = with_clusters("- {name: all, clusters: {names: ['*']}}\n")
            + "manifests:\n  repositories:\n  - {name: production, url: /srv/p.git, targets: ['*-*']}\n\
               \x20 - {name: rest, url: /srv/rest.git}\n";
        let message = refused(&text);
        assert!(
            message.starts_with(
                "config.yaml:2:15: the clusters of the fleet all have their manifests in several"
            ) && message.contains("in production")
                && message.contains("`dev` in rest"),
            "{message}"
        );
        let without_clusters = refused("fleets: [{name: f, clusters: {names: [a]}}]");
        assert!(
            without_clusters.contains("no clusters that they could have"),
            "{without_clusters}"
        );
    }
}
