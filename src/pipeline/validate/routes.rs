//! Two addresses do not take each other's requests, and the target's kind of route can do what
//! the WAML asks of it.

use super::{RuleReport, Subject};
use crate::model::platform::network::IngressKind;
use crate::model::target::Target;
use crate::model::violation::Violation;
use crate::templates::view::ingress;
use crate::templates::view::ingress::{IngressView, host};
use crate::waml::node::{Path, is_from_waml};
use crate::waml::section_network::{Cache, Ingress};

/// The most rules that an `HTTPRoute` takes (`spec.rules`, `maxItems`).
const MAX_RULES: usize = 16;

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let Some(target) = subject.facts.clusters.find(subject.target) else { return };
    report_duplicates(subject.section.ingresses(), &target, report);
    for (path, ingress) in Path::root().each("ingress", &subject.section.ingress) {
        rules(ingress, &target, &path, report);
        for (cache, path) in caches(ingress, &path) {
            report_immutable_without_age(cache, &path, report);
            report_lost_headers(subject, &target, &path, report);
        }
    }
    report_unreachable(subject, &target, report);
    if target.platform.ingress.kind == IngressKind::Kubernetes {
        grpc_by_nginx(subject, &target, report);
    }
}

/// Checks gRPC on Kubernetes' `Ingress`, which has no field for it: its controller reads an annotation, which is
/// ingress-nginx's own and for all paths of the object.
fn grpc_by_nginx(subject: &Subject<'_>, target: &Target, report: &mut RuleReport<'_>) {
    let views = ingress::ingresses(subject.section, subject.waml.app.slug.as_str(), target);
    for (index, view) in views.iter().enumerate() {
        let (grpc, plain): (Vec<_>, Vec<_>) = view.routes.iter().partition(|r| r.grpc);
        let path = Path::root().key("ingress").index(index);
        if grpc.is_empty() {
            continue;
        }
        if !plain.is_empty() {
            let message = format!(
                "`{}` serves gRPC and HTTP at one address, which an `Ingress` cannot",
                target.name
            );
            let violation = Violation::error("routes", message).expected("one too many");
            let help = "give the paths that lead to gRPC a host of their own";
            report.add(&path.key("paths"), violation.help(help));
        }
        for (message, help) in grpc_doubts(view) {
            let violation = Violation::warning("routes", message).expected("may not be answered");
            report.add(&path, violation.help(help));
        }
    }
}

fn grpc_doubts(view: &IngressView) -> Vec<(String, &'static str)> {
    let class = &view.class;
    let stranger = (!class.contains("nginx")).then(|| {
        let message = format!("the-deployer cannot configure gRPC for the ingress class `{class}`");
        (message, "tell the operator: `platform.ingress.annotations` can have the controller's annotation for it")
    });
    let plain = (!view.tls).then(|| {
        let message = "connections to this address are not encrypted; ingress-nginx takes gRPC over TLS alone";
        (message.to_owned(), "tell the operator: `platform.ingress.tls` turns it on")
    });
    stranger.into_iter().chain(plain).collect()
}

/// Reports the same host and path for the same audience: which of the two answers is undefined.
fn report_duplicates(ingresses: &[Ingress], target: &Target, report: &mut RuleReport<'_>) {
    let mut routes: Vec<(bool, String, &str, Path)> = Vec::new();
    for (index, ingress) in ingresses.iter().enumerate() {
        let (public, host) = (ingress.public.unwrap_or(false), host(ingress, target));
        for (way, at) in paths(ingress, &Path::root().key("ingress").index(index)) {
            let is_same =
                |(p, h, w, _): &&(bool, String, &str, Path)| (*p, h, *w) == (public, &host, way);
            if let Some((.., first)) = routes.iter().find(is_same) {
                let message = format!("`{host}{way}` is the address of `{first}` too");
                let violation = Violation::error("routes", message).expected("is repeated here");
                let help = "keep one of the two, or give it another host or path";
                report.add(&at, violation.help(help));
            } else {
                routes.push((public, host.clone(), way, at));
            }
        }
    }
}

/// Lists the paths of an address, each with its place.
pub(super) fn paths<'a>(ingress: &'a Ingress, at: &Path) -> Vec<(&'a str, Path)> {
    match ingress.paths.as_deref() {
        None | Some([]) => vec![("/", at.clone())],
        Some(paths) => paths
            .iter()
            .enumerate()
            .map(|(n, way)| (way.path.as_deref().unwrap_or("/"), at.key("paths").index(n)))
            .collect(),
    }
}

fn rules(ingress: &Ingress, target: &Target, path: &Path, report: &mut RuleReport<'_>) {
    let count = ingress.paths.as_ref().map_or(0, Vec::len);
    if target.platform.ingress.kind == IngressKind::Gateway && count > MAX_RULES {
        let message =
            format!("an address has {count} paths; a route of a gateway takes {MAX_RULES}");
        let violation =
            Violation::error("routes", message).expected(format!("at most {MAX_RULES} paths"));
        report.add(&path.key("paths"), violation.help("put several paths below one"));
    }
}

fn caches(ingress: &Ingress, path: &Path) -> Vec<(Cache, Path)> {
    let own_cache = ingress.cache.map(|cache| (cache, path.key("cache")));
    let paths = ingress.paths.iter().flatten().enumerate();
    let of_paths =
        paths.filter_map(|(n, way)| Some((way.cache?, path.key("paths").index(n).key("cache"))));
    own_cache.into_iter().chain(of_paths).collect()
}

fn report_immutable_without_age(cache: Cache, path: &Path, report: &mut RuleReport<'_>) {
    if cache.immutable == Some(true) && cache.max_age.unwrap_or(0) == 0 {
        let message = "`immutable` is set, but caches may keep the answers for no time";
        let violation = Violation::error("routes", message).expected("needs `maxAge`");
        report.add(&path.key("immutable"), violation.help("add `maxAge: 31536000`, a year"));
    }
}

/// Reports caching on Kubernetes' `Ingress`, which has no field for headers.
fn report_lost_headers(
    subject: &Subject<'_>,
    target: &Target,
    path: &Path,
    report: &mut RuleReport<'_>,
) {
    let is_written = subject.tree.at(path).is_some_and(is_from_waml);
    if target.platform.ingress.kind == IngressKind::Kubernetes && is_written {
        let message = format!("`{}` cannot set the header `Cache-Control`", target.name);
        let violation = Violation::warning("routes", message).expected("without effect");
        report.add(path, violation.help("let the app send the header itself"));
    }
}

/// Reports a network policy that lets in nothing from outside: it leaves every address without an answer.
fn report_unreachable(subject: &Subject<'_>, target: &Target, report: &mut RuleReport<'_>) {
    let policy = &target.platform.network_policy;
    let open = !policy.ingress.namespaces.is_empty() || !policy.ingress.labels.is_empty();
    if policy.enabled && !open && !subject.section.ingresses().is_empty() {
        let message = format!(
            "network policies on `{}` let nothing in from outside the namespace",
            target.name
        );
        let violation = Violation::warning("routes", message).expected("may not be reached");
        let help = "tell the operator: `platform.network_policy.ingress` must name where the ingress controller runs";
        report.add(&Path::root().key("ingress"), violation.help(help));
    }
}
