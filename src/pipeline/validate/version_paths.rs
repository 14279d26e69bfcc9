//! Where Kubernetes' own `Ingress` routes, each version has a path below every path of an address: no path is two.

use std::collections::{BTreeMap, HashSet};

use super::{RuleReport, Subject, routes};
use crate::model::violation::Violation;
use crate::templates::view::ingress;
use crate::templates::view::versions::{below, live_versions};
use crate::waml::node::Path;
use crate::waml::quote::quote;
use crate::waml::section_traffic::{Traffic, TrafficMatch, TrafficRule};

/// Checks the addresses of an app with versions on a target with an `Ingress`.
pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let (Some(target), Some(fleet)) = (subject.cluster, subject.fleet) else { return };
    let live = live_versions(subject.section, &subject.waml.app, fleet);
    let live: Vec<&str> = live.iter().map(|live| live.version.name.as_str()).collect();
    let traffic = subject.section.traffic.as_ref();
    let mut addresses: BTreeMap<(bool, String), PathOwners> = BTreeMap::new();
    for (at, address) in Path::root().each("ingress", &subject.section.ingress) {
        let host = ingress::host(address, target);
        if traffic.is_none_or(|traffic| !traffic.is_for(&host)) {
            let key = (address.public.unwrap_or(false), host.clone());
            let owners = addresses.entry(key).or_default();
            for (path, at) in routes::paths(address, &at) {
                owners.address(&host, path, &at, &live, report);
            }
        }
    }
    if let Some(traffic) = traffic {
        PathOwners::default().rules(traffic, &live, report);
    }
}

/// The paths of one address, as its `Ingress` would have them.
#[derive(Default)]
struct PathOwners {
    /// By path, and true if that is the whole one: the first part of the WAML that leads there, in words.
    owners: BTreeMap<(String, bool), String>,
    /// The paths that the WAML has: what is there twice has its violation already.
    written: HashSet<(String, bool)>,
}

impl PathOwners {
    /// Takes a path of `ingress`, and those of the versions below it.
    fn address(
        &mut self,
        host: &str,
        path: &str,
        at: &Path,
        live: &[&str],
        report: &mut RuleReport<'_>,
    ) {
        if !self.written.insert((path.to_owned(), false)) {
            return;
        }
        let help = "with an `Ingress` each version has a path below each of the others: change this path, or the \
                    version's name";
        if let Some(first) = self.take((path.to_owned(), false), format!("`{at}`")) {
            let message = format!("`{host}{path}` is the path of {first} too");
            report.add(at, repeated(message, help));
        }
        for version in live {
            let below = below(path, version);
            let owner = format!("the version {} below `{at}`", quote(version));
            if let Some(first) = self.take((below.clone(), false), owner) {
                let version = quote(version);
                let message = format!(
                    "`{host}{below}`, where the version {version} would be, is the path of {first} too"
                );
                report.add(at, repeated(message, help));
            }
        }
    }

    /// Takes the paths of the versions to which rules lead.
    fn rules(&mut self, traffic: &Traffic, live: &[&str], report: &mut RuleReport<'_>) {
        let everything = [TrafficMatch::default()];
        for (index, rule) in traffic.rules().iter().enumerate() {
            let at = Path::root().key("traffic").key("http").index(index).key("targets");
            let matches = rule.matches.as_deref().filter(|list| !list.is_empty());
            for one in matches.unwrap_or(&everything) {
                let (path, exact) = one.path();
                if self.written.insert((path.to_owned(), exact)) {
                    self.targets(rule, (path, exact), &at, live, report);
                }
            }
        }
    }

    fn targets(
        &mut self,
        rule: &TrafficRule,
        (path, exact): (&str, bool),
        at: &Path,
        live: &[&str],
        report: &mut RuleReport<'_>,
    ) {
        let mut listed = HashSet::new();
        for (number, target) in rule.targets().iter().enumerate() {
            let is_live = live.contains(&target.version.as_str());
            // The same version with the same port has its violation already.
            if !is_live || !listed.insert((&target.version, target.port)) {
                continue;
            }
            let at = at.index(number);
            let below = below(path, &target.version);
            if let Some(first) = self.take((below.clone(), exact), format!("`{at}`")) {
                let message = format!("`{below}` is the path of {first} too");
                let help = "with an `Ingress` a version has one path below that of its rule, which leads to one port: \
                            keep one of the two";
                report.add(&at, repeated(message, help));
            }
        }
    }

    /// Notes the owner of a path, or returns the one that it has.
    fn take(&mut self, path: (String, bool), owner: String) -> Option<String> {
        if let Some(first) = self.owners.get(&path) {
            return Some(first.clone());
        }
        self.owners.insert(path, owner);
        None
    }
}

fn repeated(message: String, help: &str) -> Violation {
    Violation::error("traffic", message).expected("is repeated here").help(help)
}
