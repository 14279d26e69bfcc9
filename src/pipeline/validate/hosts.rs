//! No other app in the cluster has the host with the same path.
//!
//! The same host and path is an error: both would answer, by luck. A path that swallows, or is
//! swallowed by, another app's is a warning: routers send a request to the longest prefix, so
//! `/` and `/api` of one host may well be two apps, but each should know of the other. Prefixes
//! are compared by whole segments, as Ingress and Gateway API do: `/api` does not hold `/apis`.

use super::unknown::{self, Wanted};
use super::{Report, Subject};
use crate::model::facts::Route;
use crate::model::target::Target;
use crate::model::violation::Violation;
use crate::pipeline::view::ingress::host;
use crate::waml::node::Path;
use crate::waml::section_network::Ingress;
use crate::waml::typed::quoted;

const RULE: &str = "hosts";

pub(super) fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let path = Path::root().key("ingress");
    let ingresses = subject.section.ingresses();
    let Some(target) = subject.cluster.filter(|_| !ingresses.is_empty()) else { return };
    let what = "whether other apps have these hosts";
    let wanted = Wanted { rule: RULE, what, path: Some(&path) };
    let Some(routes) = unknown::known(&subject.facts.routes, &wanted, subject, report) else {
        return;
    };
    let others: Vec<&Route> = routes.iter().filter(|r| r.app != subject.waml.app).collect();
    for (index, ingress) in ingresses.iter().enumerate() {
        one(ingress, target, &others, &path.index(index), report);
    }
}

fn one(
    ingress: &Ingress,
    target: &Target,
    others: &[&Route],
    path: &Path,
    report: &mut Report<'_>,
) {
    let host = host(ingress, target);
    let same = others.iter().filter(|route| route.host.eq_ignore_ascii_case(&host));
    let same: Vec<&Route> = same.copied().collect();
    let paths = ingress.paths.as_deref().unwrap_or_default();
    let at_host = path.key(if ingress.host.is_some() { "host" } else { "hostPrefix" });
    if paths.is_empty() {
        clash((&host, "/"), target, &same, &at_host, report);
    }
    for (index, way) in paths.iter().enumerate() {
        let here = path.key("paths").index(index);
        let here = if way.path.is_some() { here.key("path") } else { here };
        clash((&host, way.path.as_deref().unwrap_or("/")), target, &same, &here, report);
    }
}

fn clash(
    (host, own): (&str, &str),
    target: &Target,
    others: &[&Route],
    at: &Path,
    report: &mut Report<'_>,
) {
    let mine = segments(own);
    let theirs = others.iter().map(|route| (route, segments(&route.path)));
    let mut told: Vec<(&Route, Violation)> = Vec::new();
    for (route, theirs) in theirs {
        let violation = if theirs == mine {
            taken(host, own, route, target)
        } else if theirs.starts_with(&mine) {
            shared(host, &route.path, own, &format!("`{}` gets those", route.app))
        } else if mine.starts_with(&theirs) {
            shared(host, own, &route.path, &format!("`{}` no longer gets those", route.app))
        } else {
            continue;
        };
        // One app's many paths under ours are one thing to know.
        if !told.iter().any(|(other, v)| other.app == route.app && v.severity == violation.severity)
        {
            told.push((route, violation));
        }
    }
    for (_, violation) in told {
        report.add(at, violation);
    }
}

fn taken(host: &str, path: &str, route: &Route, target: &Target) -> Violation {
    let message =
        format!("{} already belongs to `{}`", quoted(&format!("{host}{path}")), route.app);
    Violation::error(RULE, message)
        .expected("is taken")
        .help(format!("choose another host or path, or take it out of the WAML of `{0}` first; if that app is no more, `bart remove {1} {0} --reason TEXT`", route.app, target.name))
}

fn shared(host: &str, inner: &str, outer: &str, who: &str) -> Violation {
    let message = format!(
        "requests for {} are also under `{outer}`: {who}",
        quoted(&format!("{host}{inner}"))
    );
    Violation::warning(RULE, message).expected("shares a host with another app").help(
        "routers choose the longest path; use another host if the apps do not belong together",
    )
}

/// `/a//b/` is `a`, `b`.
fn segments(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}
