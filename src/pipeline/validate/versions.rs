//! Versions are on clusters that there are, and requests go to versions that have pods.

use std::collections::{BTreeMap, HashSet};

use super::ingress::is_path;
use super::{RuleReport, Subject, version_paths};
use crate::model::platform::network::IngressKind;
use crate::model::target::Clusters;
use crate::model::violation::Violation;
use crate::templates::view::network::PortRef;
use crate::templates::view::{ingress, network, versions};
use crate::traffic::placement::PlacementError;
use crate::traffic::weights::WHOLE;
use crate::waml::node::Path;
use crate::waml::quote::{quote, quoted_host};
use crate::waml::section_traffic::{Traffic, TrafficMatch, TrafficRule, Version};
use crate::waml::section_workload::Volume;
use crate::waml::suggest;

/// The most versions at once. A route of a gateway takes as many backends (`backendRefs`, `maxItems`).
const MAX_VERSIONS: usize = 16;
/// The most rules of an `HTTPRoute` (`spec.rules`, `maxItems`).
const MAX_RULES: usize = 16;
/// The most headers of one match (`headers`, `maxItems`).
const MAX_HEADERS: usize = 16;

/// Checks where versions are, and with how many pods.
pub(super) fn placement(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let (Some(list), Some(fleet)) = (&subject.section.versions, subject.fleet) else { return };
    let at = Path::root().key("versions");
    if list.len() > MAX_VERSIONS {
        let message =
            format!("an app has at most {MAX_VERSIONS} live versions, and this has {}", list.len());
        let violation = Violation::error("placement", message).expected("too many");
        return report
            .add(&at, violation.help("remove the versions that get no requests any more"));
    }
    for (index, version) in list.iter().enumerate() {
        let (_, errors) =
            versions::pods_by_cluster(subject.section, &subject.waml.app, version, fleet);
        for (number, error) in errors {
            report_nowhere(subject, error, &at.index(index).key("placement").index(number), report);
        }
    }
    if subject.section.cron.is_some() {
        let violation = Violation::error("placement", "an app with `cron` has no versions")
            .expected("runs on a schedule")
            .help("remove `versions`: each run uses the tag that was deployed last");
        report.add(&at, violation);
    }
    report_shared_disk(subject, list, report);
    report_useless_replicas(subject, list, report);
    let is_live = !versions::live_versions(subject.section, &subject.waml.app, fleet).is_empty();
    if !is_live && !list.is_empty() {
        let message = format!("no version is on `{}`: the app has no pods there", fleet.cluster);
        let violation = Violation::warning("placement", message).expected("nothing runs there");
        report.add(&at, violation.help("place a version there, or remove the target"));
    }
}

fn report_nowhere(
    subject: &Subject<'_>,
    error: PlacementError,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    let clusters = subject.fleet.map(|fleet| fleet.clusters.as_slice()).unwrap_or_default();
    let names = clusters.iter().map(|cluster| cluster.name.as_str());
    let (key, message, help) = match error {
        PlacementError::UnknownCluster(name) => (
            "cluster",
            format!("{} is no cluster of this target", quote(&name)),
            suggest::hint(&name, names),
        ),
        PlacementError::LabelsDiffer(name) => (
            "labels",
            format!("the cluster {} does not have these labels", quote(&name)),
            "remove `labels`, or name a cluster that has them".to_owned(),
        ),
        PlacementError::NoMatch => (
            "labels",
            "no cluster has these labels".to_owned(),
            "use `labels` of the clusters' configuration, or `environment`".to_owned(),
        ),
    };
    let violation = if knows_clusters(subject) {
        Violation::error("placement", message)
    } else {
        Violation::warning("placement", message)
    };
    report.add(&path.key(key), violation.expected("there is none").help(help));
}

/// Checks that clusters are configured, or known to `bart`: else every name is one, and labels are not known.
fn knows_clusters(subject: &Subject<'_>) -> bool {
    matches!(subject.facts.clusters, Clusters::Known(_))
}

/// Reports a disk that pods of two versions would have to share.
fn report_shared_disk(subject: &Subject<'_>, list: &[Version], report: &mut RuleReport<'_>) {
    if list.len() < 2 {
        return;
    }
    for (path, volume) in Path::root().each("volumes", &subject.section.volumes) {
        if Volume::is_for_one(volume) {
            let message = format!(
                "the disk {} is for one pod, and each version has its own",
                quote(&volume.name)
            );
            let violation = Violation::error("placement", message).expected("cannot be shared");
            report
                .add(&path, violation.help("set `accessMode: ReadWriteMany`, or keep one version"));
        }
    }
}

/// Reports numbers of pods beside an autoscaler.
fn report_useless_replicas(subject: &Subject<'_>, list: &[Version], report: &mut RuleReport<'_>) {
    if subject.section.autoscaling.as_ref().is_none_or(|a| a.horizontal.is_none()) {
        return;
    }
    for (index, version) in list.iter().enumerate() {
        let path = Path::root().key("versions").index(index);
        let own = version.replicas.map(|_| path.key("replicas"));
        let placed = version.placements().iter().enumerate();
        let placed = placed.filter(|(_, placement)| placement.replicas.is_some());
        let placed = placed.map(|(n, _)| path.key("placement").index(n).key("replicas"));
        for path in own.into_iter().chain(placed) {
            let message =
                format!("`{path}` does nothing: the number of replicas is the autoscaler's");
            let violation = Violation::warning("placement", message).expected("without effect");
            report
                .add(&path, violation.help("remove it; each version has an autoscaler of its own"));
        }
    }
}

/// Checks who gets which requests.
pub(super) fn traffic(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let (Some(target), Some(_)) = (subject.cluster, subject.fleet) else { return };
    let kind = target.platform.ingress.kind;
    let at = Path::root().key("traffic");
    let Some(list) = subject.section.versions.as_deref() else {
        if subject.section.traffic.is_some() {
            let violation = Violation::error(
                "traffic",
                "`traffic` shares requests between `versions`, and there are none",
            )
            .expected("needs `versions`")
            .help("add `versions: [{name: v1}]`, or lead requests by `ingress.paths`");
            report.add(&at, violation);
        }
        return;
    };
    let check = TrafficCheck { subject, kind, list, pods: pods_by_version(subject, list) };
    for (index, version) in list.iter().enumerate() {
        if let Some(weight) = version.weight {
            let path = Path::root().key("versions").index(index).key("weight");
            check.weight_of_version(version, weight, &path, report);
        }
    }
    if let Some(traffic) = &subject.section.traffic {
        check.hosts(traffic, &at, report);
        check.rules(traffic, &at, report);
    }
    if kind == IngressKind::Kubernetes {
        version_paths::check(subject, report);
    }
}

/// Sums up the pods of each version over the fleet; `None` where settings or an autoscaler say their number. A version
/// that is nowhere is left out.
fn pods_by_version<'a>(
    subject: &Subject<'_>,
    list: &'a [Version],
) -> BTreeMap<&'a str, Option<u64>> {
    let Some(fleet) = subject.fleet else { return BTreeMap::new() };
    let scaled = subject.section.is_autoscaled();
    let sum = |version: &'a Version| {
        let (pods, errors) =
            versions::pods_by_cluster(subject.section, &subject.waml.app, version, fleet);
        if !errors.is_empty() && !knows_clusters(subject) {
            return Some((version.name.as_str(), None));
        }
        let numbers = pods.values().map(|pods| pods.filter(|_| !scaled));
        let sum = numbers.map(|number| number.map(u64::from)).try_fold(0, |sum, n| Some(sum + n?));
        (!pods.is_empty()).then_some((version.name.as_str(), sum))
    };
    list.iter().filter_map(sum).collect()
}

struct TrafficCheck<'a> {
    subject: &'a Subject<'a>,
    kind: IngressKind,
    list: &'a [Version],
    pods: BTreeMap<&'a str, Option<u64>>,
}

impl TrafficCheck<'_> {
    fn weight_of_version(
        &self,
        version: &Version,
        weight: u32,
        path: &Path,
        report: &mut RuleReport<'_>,
    ) {
        if self.kind == IngressKind::Kubernetes {
            return report.add(path, no_weights(&self.subject.target.to_string()));
        }
        if self.subject.section.traffic.is_some() {
            let violation = Violation::error("traffic", "`traffic` says how requests are shared")
                .expected("one too many")
                .help("remove this weight, or the whole of `traffic`");
            return report.add(path, violation);
        }
        self.pods_for_weight(&version.name, weight, path, report);
    }

    /// Checks that a version with a share of the requests has pods somewhere.
    fn pods_for_weight(
        &self,
        version: &str,
        weight: u32,
        path: &Path,
        report: &mut RuleReport<'_>,
    ) {
        let has_pods = self.pods.get(version).is_some_and(|pods| *pods != Some(0));
        if weight > 0 && !has_pods {
            let message = format!(
                "{} has no pods on any cluster, and gets {weight} % of the requests",
                quote(version)
            );
            let violation = Violation::error("traffic", message).expected("nobody would answer");
            report.add(path, violation.help("give it pods, or `weight: 0`"));
        }
    }

    fn hosts(&self, traffic: &Traffic, at: &Path, report: &mut RuleReport<'_>) {
        let Some(target) = self.subject.cluster else { return };
        let hosts: Vec<String> =
            self.subject.section.ingresses().iter().map(|one| ingress::host(one, target)).collect();
        if hosts.is_empty() && !self.subject.is_unsure("ingress") {
            let violation = Violation::error(
                "traffic",
                "`traffic` is about the addresses of `ingress`, and there are none",
            )
            .expected("needs `ingress`")
            .help("add `ingress: [{hostPrefix: my-app}]`");
            report.add(at, violation);
        }
        for (index, host) in traffic.hosts.iter().flatten().enumerate() {
            if !hosts.is_empty() && !hosts.iter().any(|one| one.eq_ignore_ascii_case(host)) {
                let message = format!("{} is no host of `ingress`", quoted_host(host));
                let violation =
                    Violation::error("traffic", message).expected("there is no such host");
                let help = suggest::hint(host, hosts.iter().map(String::as_str));
                report.add(&at.key("hosts").index(index), violation.help(help));
            }
        }
        for (path, one) in Path::root().each("ingress", &self.subject.section.ingress) {
            let has_paths = one.paths.as_ref().is_some_and(|paths| !paths.is_empty());
            let host = ingress::host(one, target);
            if has_paths && traffic.is_for(&host) {
                let message = format!(
                    "`traffic` routes {}, so its `paths` have no effect",
                    quoted_host(&host)
                );
                let violation = Violation::error("traffic", message).expected("one too many");
                report.add(&path.key("paths"), violation.help("write the paths as `match` of `traffic`, or leave the host out of `traffic.hosts`"));
            }
            if ingress::is_wildcard(&host) && traffic.is_for(&host) && self.needs_rank(traffic) {
                let violation = Violation::error(
                    "traffic",
                    "exact paths and headers cannot be told from prefixes below a wildcard",
                )
                .expected("has no order")
                .help("use `prefix` alone, or a host without `*`");
                report.add(&path.key("host"), violation);
            }
        }
    }

    /// Checks that a rule's place among others is decided by more than its prefix, on a target that ranks them by length.
    fn needs_rank(&self, traffic: &Traffic) -> bool {
        let mut matches = traffic.rules().iter().flat_map(|rule| rule.matches.iter().flatten());
        self.kind == IngressKind::Traefik
            && matches.any(|one| one.exact.is_some() || one.headers.is_some())
    }

    fn rules(&self, traffic: &Traffic, at: &Path, report: &mut RuleReport<'_>) {
        let at = at.key("http");
        if traffic.rules().is_empty() {
            let violation = Violation::error("traffic", "`traffic` has no rule")
                .expected("needs `http`")
                .help("add `http: [{targets: [{version: v1, weight: 100}]}]`");
            return report.add(&at, violation);
        }
        let routes: usize = traffic
            .rules()
            .iter()
            .map(|rule| rule.matches.as_ref().map_or(1, |list| list.len().max(1)))
            .sum();
        if routes > MAX_RULES {
            let message = format!("the rules have {routes} matches; a route takes {MAX_RULES}");
            let violation = Violation::error("traffic", message).expected("too many");
            report.add(&at, violation.help("put several paths below one"));
        }
        let mut matches = HashSet::new();
        for (index, rule) in traffic.rules().iter().enumerate() {
            let path = at.index(index);
            self.targets(rule, &path, report);
            let is_open = rule.matches.as_ref().is_none_or(Vec::is_empty);
            if is_open && !matches.insert(requests(&TrafficMatch::default())) {
                let violation = Violation::error("traffic", "an earlier rule has every request")
                    .expected("is repeated here")
                    .help("keep one of the two");
                report.add(&path, violation);
            }
            for (number, one) in rule.matches.iter().flatten().enumerate() {
                let path = path.key("match").index(number);
                self.matcher(one, &path, report);
                if !matches.insert(requests(one)) {
                    let violation =
                        Violation::error("traffic", "an earlier rule has the same match")
                            .expected("is repeated here")
                            .help("keep one of the two");
                    report.add(&path, violation);
                }
            }
        }
    }

    /// Checks that every address has a port that its rules may leave out.
    fn has_default_port(&self, ports: &[PortRef<'_>]) -> bool {
        let mut addresses = self.subject.section.ingresses().iter();
        addresses.all(|one| ingress::leads_by_default(ports, None, one.port).is_some())
    }

    fn matcher(&self, one: &TrafficMatch, path: &Path, report: &mut RuleReport<'_>) {
        if one.prefix.is_some() && one.exact.is_some() {
            let violation =
                Violation::error("traffic", "a match has a `prefix` or an `exact` path, not both")
                    .expected("one too many")
                    .help("write two matches: they are alternatives");
            report.add(&path.key("exact"), violation);
        }
        for (key, text) in [("prefix", &one.prefix), ("exact", &one.exact)] {
            if let Some(text) = text.as_deref().filter(|text| !is_path(text)) {
                let violation = Violation::error("traffic", format!("{} is not a legal path", quote(text)))
                    .expected("not a legal path")
                    .help("begin with `/`, and use only the characters of a URL's path, without `//`, `..` and `%2f`");
                report.add(&path.key(key), violation);
            }
        }
        let headers = one.headers.iter().flatten();
        let at = path.key("headers");
        if headers.clone().next().is_some() && self.kind == IngressKind::Kubernetes {
            let message = format!(
                "`{}` cannot match headers: an `Ingress` has no word for them",
                self.subject.target
            );
            let violation = Violation::error("traffic", message).expected("cannot be matched");
            return report.add(
                &at,
                violation.help("use paths, or a target with Istio, Traefik or a gateway"),
            );
        }
        if one.headers.as_ref().is_some_and(|headers| headers.len() > MAX_HEADERS) {
            let violation =
                Violation::error("traffic", format!("a match has at most {MAX_HEADERS} headers"))
                    .expected("too many");
            report.add(&at, violation.help("match fewer headers"));
        }
        for (name, value) in headers {
            let is_token = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            let legal_name = !name.is_empty() && name.len() <= 128 && name.chars().all(is_token);
            let value = value.as_deref().unwrap_or_default();
            let is_visible = |c: char| matches!(c, ' '..='~') && c != '`';
            let legal_value =
                !value.is_empty() && value.len() <= 1024 && value.chars().all(is_visible);
            if !legal_name || !legal_value {
                let message = if legal_name {
                    "the value of this header cannot be matched"
                } else {
                    "this is not the name of a header"
                };
                let violation = Violation::error("traffic", message).expected("not legal");
                report.add(&at.key(name), violation.help("use letters, digits, `-`, `_` and `.` in names, and visible characters without backticks in values"));
            }
        }
    }

    fn targets(&self, rule: &TrafficRule, at: &Path, report: &mut RuleReport<'_>) {
        let path = at.key("targets");
        if rule.targets().is_empty() {
            let violation = Violation::error("traffic", "this rule leads to no version")
                .expected("needs `targets`")
                .help("add `targets: [{version: v1, weight: 100}]`");
            return report.add(at, violation);
        }
        let slug = self.subject.waml.app.slug.as_str();
        let ports = network::tcp_ports(self.subject.section.services(), slug);
        let mut listed = HashSet::new();
        for (index, target) in rule.targets().iter().enumerate() {
            let path = path.index(index);
            let names = || self.list.iter().map(|version| version.name.as_str());
            if names().all(|name| name != target.version) {
                let message = format!("there is no version {}", quote(&target.version));
                let violation = Violation::error("traffic", message).expected("no such version");
                report.add(
                    &path.key("version"),
                    violation.help(suggest::hint(&target.version, names())),
                );
                continue;
            }
            if !listed.insert((&target.version, target.port)) {
                let violation = Violation::error("traffic", "this rule has the version already")
                    .expected("is repeated here")
                    .help("add the weights up");
                report.add(&path, violation);
            }
            let has_port = |number: u16| ports.iter().any(|port| port.number == number);
            if let Some(number) = target
                .port
                .filter(|number| !has_port(*number) && !self.subject.is_unsure("service"))
            {
                let violation =
                    Violation::error("traffic", format!("no service has the port {number}"))
                        .expected("there is no such port")
                        .help("use a number of `service[].ports`");
                report.add(&path.key("port"), violation);
            }
            if target.port.is_none() && !self.has_default_port(&ports) {
                let violation =
                    Violation::error("traffic", "this does not say to which port it leads")
                        .expected("needs `port`")
                        .help("add `port`, a number of `service[].ports`");
                report.add(&path, violation);
            }
            if let Some(weight) = target.weight {
                let path = path.key("weight");
                if self.kind == IngressKind::Kubernetes {
                    report.add(&path, no_weights(&self.subject.target.to_string()));
                } else {
                    self.pods_for_weight(&target.version, weight, &path, report);
                }
            }
        }
        if self.kind != IngressKind::Kubernetes {
            sum(rule, &path, report);
        }
    }
}

/// Returns the requests that a match takes, equal for two that take the same: the path, true if that is the whole one, and
/// the headers.
fn requests(one: &TrafficMatch) -> (String, bool, BTreeMap<String, Option<String>>) {
    let (path, exact) = one.path();
    let headers = one.headers.iter().flatten();
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
    (path.to_owned(), exact, headers.collect())
}

/// Checks that the weights of a rule are all of its requests.
fn sum(rule: &TrafficRule, path: &Path, report: &mut RuleReport<'_>) {
    let targets = rule.targets();
    if let Some(index) = targets.iter().position(|target| target.weight.is_none())
        && targets.len() > 1
    {
        let violation =
            Violation::error("traffic", "this target does not say how many requests it gets")
                .expected("needs `weight`")
                .help("add `weight: 0`, and let all weights of the rule be 100 together");
        return report.add(&path.index(index), violation);
    }
    let sum: u64 = targets.iter().map(|target| u64::from(target.weight.unwrap_or(WHOLE))).sum();
    if sum != u64::from(WHOLE) {
        let message = format!("the weights of this rule add up to {sum}, not {WHOLE}");
        let violation = Violation::error("traffic", message).expected(format!("{sum} together"));
        report.add(path, violation.help("a weight is a share of the rule's requests in percent"));
    }
}

/// Refuses a weight where Kubernetes' own `Ingress` routes.
fn no_weights(target: &str) -> Violation {
    let message = format!(
        "`{target}` cannot share requests by weight: an `Ingress` leads a path to one service, whose pods get equal shares"
    );
    Violation::error("traffic", message).expected("cannot be kept").help(
        "remove the weights: each version has a path of its own, and the numbers of pods share the rest; or use a target \
         with Istio, Traefik or a gateway",
    )
}
