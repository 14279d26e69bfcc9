//! Checks that Flagger can take an app over: its Service, its autoscaler, its disk, and the routes to it.

use super::RULE;
use crate::model::platform::canary::CanaryProvider;
use crate::model::target::Target;
use crate::model::violation::Violation;
use crate::pipeline::validate::{RuleReport, Subject, cron};
use crate::templates::view::canary::{LONGEST_SERVICE, LONGEST_SLUG, makes_route};
use crate::templates::view::ingress::{self, IngressView};
use crate::templates::view::network::{GrpcPorts, PortRef, ports_of};
use crate::waml::node::Path;
use crate::waml::section_canary::{Canary, CanaryWebhook};
use crate::waml::section_network::Protocol;
use crate::waml::section_workload::Volume;

pub(super) fn check(
    subject: &Subject<'_>,
    canary: &Canary,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    check_schedule(subject, path, report);
    check_names(subject, path, report);
    check_service(subject, path, report);
    check_pods(subject, path, report);
    check_disk(subject, report);
    let Some(target) = subject.cluster else { return };
    let provider = target.platform.canary.provider(target.platform.ingress.kind);
    if provider == CanaryProvider::None {
        let message = format!("`{}` has no Flagger, which canaries need", target.name);
        let violation = Violation::error(RULE, message).expected("not available");
        let help =
            "take `canary: null` for this target; or an operator sets `platform.canary.provider`";
        return report.add(path, violation.help(help));
    }
    let slug = subject.waml.app.slug.as_str();
    let routing = Routing {
        subject,
        target,
        provider,
        ingresses: ingress::ingresses(subject.section, slug, target),
    };
    routing.check_mirror(canary, path, report);
    routing.check_match(canary, path, report);
    routing.check_ways(report);
    routing.check_traffic(canary, path, report);
}

/// Refuses a canary of something that runs by the clock: it gets no traffic.
pub(super) fn check_schedule(subject: &Subject<'_>, path: &Path, report: &mut RuleReport<'_>) {
    if subject.section.cron.is_none() && !cron::is_for_jobs(subject) {
        return;
    }
    let message = "what runs on a schedule has no traffic that a canary could get a share of";
    let violation = Violation::error(RULE, message).expected("not for a schedule");
    report.add(path, violation.help("remove `canary`, or `cron` and its template"));
}

fn check_names(subject: &Subject<'_>, path: &Path, report: &mut RuleReport<'_>) {
    let slug = subject.waml.app.slug.as_str();
    if slug.len() > LONGEST_SLUG {
        let message = format!(
            "Flagger calls what serves `{slug}-primary`, which is too long for a workload whose pods are known by it"
        );
        let violation = Violation::error(RULE, message).expected("needs a shorter slug");
        let help = format!("an app with a canary has a slug of at most {LONGEST_SLUG} characters");
        report.add(path, violation.help(help));
    }
    let service = subject.section.services().first().and_then(|service| service.name.as_deref());
    if let Some(name) = service.filter(|name| name.len() > LONGEST_SERVICE) {
        let message = format!("Flagger makes a Service `{name}-primary`, whose name is too long");
        let violation = Violation::error(RULE, message).expected("too long");
        let help =
            format!("a Service with a canary has a name of at most {LONGEST_SERVICE} characters");
        report.add(&Path::root().key("service").index(0).key("name"), violation.help(help));
    }
}

/// Checks that there is one Service, with ports that Flagger's own can have: it has one port, and others only where
/// the container's number is the Service's.
fn check_service(subject: &Subject<'_>, path: &Path, report: &mut RuleReport<'_>) {
    let slug = subject.waml.app.slug.as_str();
    let services = subject.section.services();
    let all = Path::root().key("service");
    let Some(first) = services.first() else {
        if !subject.is_unsure("service") {
            let violation =
                Violation::error(RULE, "the app has no Service whose traffic could be shared")
                    .expected("needs a service");
            let help = "add `service: [{ports: [{name: http, number: 8000}]}]`";
            report.add(path, violation.help(help));
        }
        return;
    };
    if services.len() > 1 {
        let message =
            "Flagger shifts the traffic of one Service, and the pods of any other would go to 0";
        let violation = Violation::error(RULE, message).expected("one too many");
        report.add(&all.index(1), violation.help("put the ports of all services into one"));
    }
    let ports = ports_of(first, slug);
    let path = all.index(0);
    if let Some(port) = ports.iter().find(|port| port.protocol != Protocol::Tcp) {
        let message =
            format!("Flagger's Services have TCP ports only, and `{}` is none", port.name);
        let violation = Violation::error(RULE, message).expected("not TCP");
        report.add(&path, violation.help("remove the port, or the canary"));
    }
    let is_discovered = |port: &&PortRef<'_>| port.number == port.target;
    let others = ports.iter().filter(|port| !is_discovered(port)).count();
    if ports.len() > 1 && others > 1 {
        let message = "of a Service with several ports Flagger can give one another number than the container's";
        let violation = Violation::error(RULE, message).expected("too many numbers");
        let help =
            "let `number` and `targetPort` be the same for all but the port with the traffic";
        report.add(&path, violation.help(help));
    }
}

/// Checks that an autoscaler says how many pods there are: Flagger's copy has as many as the app's, and that has none
/// between two releases.
fn check_pods(subject: &Subject<'_>, path: &Path, report: &mut RuleReport<'_>) {
    let section = subject.section;
    let horizontal = section.autoscaling.as_ref().and_then(|a| a.horizontal.as_ref());
    let place = Path::root().key("autoscaling").key("horizontal");
    match horizontal {
        None if subject.is_unsure("autoscaling") => {}
        None => {
            let replicas = section.scaling.as_ref().and_then(|scaling| scaling.replicas);
            let message = match replicas {
                Some(1) => "with `replicas: 1` there is no pod beside the one that serves, and Flagger needs an \
                            autoscaler that it can copy"
                    .to_owned(),
                _ => "Flagger scales the app to 0 between releases: only an autoscaler that it can copy keeps the \
                      number of pods"
                    .to_owned(),
            };
            let violation = Violation::error(RULE, message).expected("needs `autoscaling`");
            let help = "add `autoscaling: {horizontal: {minReplicas: 2, maxReplicas: 10, cpu: {averageUtilization: 75}}}`";
            report.add(path, violation.help(help));
        }
        Some(horizontal) if horizontal.max_replicas == Some(1) => {
            let message =
                "an autoscaler of one pod cannot hold the traffic while the canary takes a share";
            let violation = Violation::error(RULE, message).expected("more than 1");
            report.add(&place.key("maxReplicas"), violation.help("write `maxReplicas: 2` or more"));
        }
        Some(horizontal) if horizontal.min_replicas.unwrap_or(1) <= 1 => {
            let message =
                "one pod may serve alone while a canary is measured, and one pod is measured";
            let violation = Violation::warning(RULE, message).expected("only 1");
            report.add(&place.key("minReplicas"), violation.help("write `minReplicas: 2` or more"));
        }
        Some(_) => {}
    }
}

fn check_disk(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let root = Path::root();
    let mut volumes = root.each("volumes", &subject.section.volumes);
    if let Some((place, _)) = volumes.find(|(_, volume)| Volume::is_for_one(volume)) {
        let message =
            "the pods of the new release would wait for a disk that those which serve have";
        let violation = Violation::error(RULE, message).expected("for one pod");
        let help = "give it an access mode that pods share, or take the canary away";
        report.add(&place, violation.help(help));
    }
}

/// The way of traffic to the app on a target.
struct Routing<'a> {
    subject: &'a Subject<'a>,
    target: &'a Target,
    provider: CanaryProvider,
    ingresses: Vec<IngressView>,
}

impl Routing<'_> {
    fn name(&self) -> &'static str {
        match self.provider {
            CanaryProvider::Istio => "Istio",
            CanaryProvider::Traefik => "Traefik",
            CanaryProvider::Nginx => "ingress-nginx",
            CanaryProvider::Gateway => "the Gateway API",
            CanaryProvider::None => "nothing",
        }
    }

    /// Only two providers can copy requests, and one of them a part of them.
    fn check_mirror(&self, canary: &Canary, path: &Path, report: &mut RuleReport<'_>) {
        let can = matches!(self.provider, CanaryProvider::Istio | CanaryProvider::Gateway);
        if canary.mirror == Some(true) && !can {
            let message = format!("Flagger cannot copy requests with {}", self.name());
            let violation = Violation::error(RULE, message).expected("not possible here");
            report.add(&path.key("mirror"), violation.help("remove `mirror` for this target"));
        }
        if canary.mirror_weight.is_some() && self.provider == CanaryProvider::Gateway {
            let message = "a gateway copies all requests or none";
            let violation = Violation::error(RULE, message).expected("not possible here");
            report.add(&path.key("mirrorWeight"), violation.help("remove `mirrorWeight`"));
        }
    }

    /// Traefik's route has no place for a match.
    fn check_match(&self, canary: &Canary, path: &Path, report: &mut RuleReport<'_>) {
        let has_match = canary.match_.as_ref().is_some_and(|list| !list.is_empty());
        if has_match && self.provider == CanaryProvider::Traefik {
            let message = "Flagger cannot choose requests with Traefik";
            let violation = Violation::error(RULE, message).expected("not possible here");
            let help = "use weights for this target: `stepWeight` and `maxWeight`";
            report.add(&path.key("match"), violation.help(help));
        }
    }

    /// Checks that what Flagger makes of the routes is what the WAML asks.
    fn check_ways(&self, report: &mut RuleReport<'_>) {
        let path = Path::root().key("ingress");
        if self.provider == CanaryProvider::Nginx && self.ingresses.len() > 1 {
            let message = "with ingress-nginx Flagger shares the traffic of one address";
            let violation = Violation::error(RULE, message).expected("one too many");
            let help = "keep one address, or take the canary away on this target";
            report.add(&path.index(1), violation.help(help));
        }
        if self.provider == CanaryProvider::Traefik {
            self.check_grpc(&path, report);
        }
        if !makes_route(self.target) {
            return;
        }
        let Some((first, others)) = self.ingresses.split_first() else { return };
        let ways = |ingress: &IngressView| -> Vec<(String, Option<String>)> {
            let routes = ingress.routes.iter();
            routes.map(|r| (r.path().to_owned(), r.cache_header().map(str::to_owned))).collect()
        };
        for (index, other) in (1..).zip(others) {
            let message = if other.is_public() != first.is_public() {
                "Flagger makes one route for all addresses, and the internet would reach the one that it must not"
            } else if ways(other) != ways(first) {
                "Flagger makes one route for all addresses, so each has the same paths"
            } else {
                continue;
            };
            let violation = Violation::error(RULE, message).expected("differs from the first");
            let help = "let all addresses be alike, or take the canary away on this target";
            report.add(&path.index(index), violation.help(help));
        }
        let caches: Vec<_> = ways(first).into_iter().map(|(_, cache)| cache).collect();
        if caches.windows(2).any(|pair| pair.first() != pair.last()) {
            let message = "Flagger's route has one `Cache-Control` for all paths";
            let violation = Violation::error(RULE, message).expected("paths differ");
            report.add(&path.index(0), violation.help("let `cache` be the same for all paths"));
        }
        self.check_ports(first, &path, report);
    }

    /// Flagger's route leads to one port.
    fn check_ports(&self, first: &IngressView, path: &Path, report: &mut RuleReport<'_>) {
        let slug = self.subject.waml.app.slug.as_str();
        let services = self.subject.section.services();
        let ports = services.first().map(|service| ports_of(service, slug)).unwrap_or_default();
        let leads = |port: &&PortRef<'_>| first.routes.iter().any(|route| route.leads_to(port));
        if ports.iter().filter(leads).count() > 1 {
            let message =
                "Flagger's route leads to one port, and the paths of this address to several";
            let violation = Violation::error(RULE, message).expected("several ports");
            let help = "let all paths lead to one port, or take the canary away on this target";
            report.add(&path.index(0), violation.help(help));
        }
    }

    fn check_grpc(&self, path: &Path, report: &mut RuleReport<'_>) {
        let slug = self.subject.waml.app.slug.as_str();
        let grpc = GrpcPorts::of(self.subject.section, slug);
        if !grpc.is_empty() && self.ingresses.iter().flat_map(|one| &one.routes).any(|r| r.grpc) {
            let message =
                "the `TraefikService` that Flagger makes speaks no HTTP/2, which gRPC needs";
            let violation = Violation::error(RULE, message).expected("not possible here");
            report.add(path, violation.help("take the canary away on this target"));
        }
    }

    /// Checks that something sends traffic: without any there is no value, and every check fails.
    fn check_traffic(&self, canary: &Canary, path: &Path, report: &mut RuleReport<'_>) {
        if self.subject.is_unsure("ingress") || !self.ingresses.is_empty() {
            return;
        }
        let name = self.name();
        if self.provider == CanaryProvider::Nginx || makes_route(self.target) {
            let message = format!(
                "with {name} Flagger shares the traffic of an address, and the app has none"
            );
            let violation = Violation::error(RULE, message).expected("needs `ingress`");
            return report.add(path, violation.help("add `ingress: [{hostPrefix: my-app}]`"));
        }
        let has_load = canary.webhooks().iter().any(CanaryWebhook::is_at_each_check);
        if has_load || canary.skip_analysis == Some(true) {
            return;
        }
        let in_mesh = self.provider == CanaryProvider::Istio && !makes_route(self.target);
        let who = if in_mesh { "only callers in the mesh" } else { "nothing" };
        let message = format!(
            "the app has no address, so {who} will send traffic to a new release: without traffic every check fails"
        );
        let violation = Violation::warning(RULE, message).expected("no traffic");
        let help = "add a load test: `webhooks: [{name: load-test, url: \"http://flagger-loadtester.flagger/\", \
                    metadata: {cmd: \"hey -z 1m -q 10 -c 2 http://APP-canary.NAMESPACE/\"}}]`";
        report.add(path, violation.help(help));
    }
}
