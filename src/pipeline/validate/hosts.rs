//! No other app in the cluster has the host with the same path, and none of another owner's has a path of the same host
//! inside or around it.
//!
//! The same host and path is an error: which app answers would be a matter of luck. Routers send a request to the
//! longest prefix, so a path that contains another app's, or is inside it, takes requests away: a `/login` on another
//! team's shop gets its passwords. Within one owner `/` and `/api` of one host may well be two apps, and each should
//! know of the other: that is a warning. It is also a warning where the app has had that path before the other one was
//! refused for it.

use super::unknown::NeededFact;
use super::{RuleReport, Subject};
use crate::model::facts::Fact;
use crate::model::route::{self, Route, RouteClaim, RouteOverlap};
use crate::model::violation::Violation;
use crate::templates::view::ingress::host;
use crate::waml::node::Path;
use crate::waml::quote::quoted;
use crate::waml::section_network::Ingress;

const RULE: &str = "hosts";

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let path = Path::root().key("ingress");
    let has_address = !subject.section.ingresses().is_empty();
    let Some(target) = subject.cluster.filter(|_| has_address) else { return };
    let what = "whether other apps have these hosts";
    let wanted = NeededFact { rule: RULE, what, path: Some(&path) };
    let Some(routes) = wanted.require_fact(&subject.facts.routes, subject, report) else { return };
    let others: Vec<&Route> = routes.iter().filter(|r| r.app != subject.waml.app).collect();
    for (path, ingress) in Path::root().each("ingress", &subject.section.ingress) {
        let address = Address { subject, host: host(ingress, target), others: &others };
        address.check(ingress, &path, report);
    }
}

/// One host of the app.
struct Address<'a> {
    subject: &'a Subject<'a>,
    host: String,
    others: &'a [&'a Route],
}

impl Address<'_> {
    fn check(&self, ingress: &Ingress, path: &Path, report: &mut RuleReport<'_>) {
        let at_host = path.key(if ingress.host.is_some() { "host" } else { "hostPrefix" });
        if ingress.paths.as_ref().is_none_or(Vec::is_empty) {
            self.clash("/", &at_host, report);
        }
        for (here, way) in path.each("paths", &ingress.paths) {
            let here = if way.path.is_some() { here.key("path") } else { here };
            self.clash(way.path.as_deref().unwrap_or("/"), &here, report);
        }
    }

    fn clash(&self, path: &str, at: &Path, report: &mut RuleReport<'_>) {
        let ours = self.claim(path);
        let us = &self.subject.release.repository;
        let mut told: Vec<(&Route, Violation)> = Vec::new();
        for theirs in self.others.iter().copied() {
            let Some(overlap) = ours.overlap(theirs) else { continue };
            let violation = match overlap {
                RouteOverlap::Same => self.reject_taken_host(&ours, theirs),
                RouteOverlap::Inside | RouteOverlap::Around
                    if ours.is_refused_beside(theirs, us) =>
                {
                    self.foreign(&ours, theirs, overlap)
                }
                RouteOverlap::Inside | RouteOverlap::Around => shared(&ours, theirs, overlap),
            };
            // Many paths of one app beside this one give one violation of each severity.
            let is_told = |(other, v): &(&Route, Violation)| {
                other.app == theirs.app && v.severity == violation.severity
            };
            if !told.iter().any(is_told) {
                told.push((theirs, violation));
            }
        }
        for (_, violation) in told {
            report.add(at, violation);
        }
    }

    /// Claims a path of the host. A live route has been there before. A route without a lookup has not.
    fn claim(&self, path: &str) -> RouteClaim {
        let mut ours = RouteClaim { host: self.host.clone(), path: path.to_owned(), live: false };
        if let Fact::Known { value, .. } = &self.subject.facts.own_routes {
            ours.live = route::is_among(&ours, value);
        }
        ours
    }

    fn reject_taken_host(&self, ours: &RouteClaim, theirs: &Route) -> Violation {
        let (app, target) = (&theirs.app, self.subject.target);
        let message = format!(
            "{} already belongs to `{app}`",
            quoted(&format!("{}{}", ours.host, ours.path))
        );
        Violation::error(RULE, message)
            .expected("is taken")
            .help(format!("choose another host or path, or take it out of the WAML of `{app}` first; if that app no longer exists, `bart remove {target} {app} --reason TEXT`"))
    }

    fn foreign(&self, ours: &RouteClaim, theirs: &Route, overlap: RouteOverlap) -> Violation {
        let lies = if overlap == RouteOverlap::Inside { "inside" } else { "around" };
        let (app, target) = (&theirs.app, self.subject.target);
        let message = format!(
            "{} is {lies} `{}{}`, which belongs to another owner: `{app}`",
            quoted(&format!("{}{}", ours.host, ours.path)),
            theirs.host,
            theirs.path
        );
        let help = match theirs.repository {
            Some(_) => {
                "choose another host: two apps share one where the same owner has their repositories"
                    .to_owned()
            }
            None => format!(
                "choose another host; the repository that `{app}` belongs to is not known: an operator sets it \
                 with `the-deployer owners move {app} --target {target} --to OWNER/REPOSITORY --reason TEXT`"
            ),
        };
        Violation::error(RULE, message).expected("shares a host with another owner").help(help)
    }
}

fn shared(ours: &RouteClaim, theirs: &Route, overlap: RouteOverlap) -> Violation {
    let (inner, outer, what) = match overlap {
        RouteOverlap::Around => ((&theirs.host, &theirs.path), (&ours.host, &ours.path), "gets"),
        RouteOverlap::Inside | RouteOverlap::Same => {
            ((&ours.host, &ours.path), (&theirs.host, &theirs.path), "no longer gets")
        }
    };
    let beside = if inner.0.eq_ignore_ascii_case(outer.0) { "" } else { outer.0.as_str() };
    let message = format!(
        "requests for {} are also under `{beside}{}`: `{}` {what} those",
        quoted(&format!("{}{}", inner.0, inner.1)),
        outer.1,
        theirs.app
    );
    Violation::warning(RULE, message).expected("shares a host with another app").help(
        "routers choose the longest path; use another host if the apps do not belong together",
    )
}
