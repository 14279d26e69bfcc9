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
use crate::waml::quote::quote;
use crate::waml::section_network::Ingress;

const RULE: &str = "hosts";

pub(super) fn check(subject: &Subject<'_>, report: &mut RuleReport<'_>) {
    let path = Path::root().key("ingress");
    let has_address = !subject.section.ingresses().is_empty();
    let Some(target) = subject.cluster.filter(|_| has_address) else { return };
    let what = "whether other apps have these hosts";
    let needed = NeededFact { rule: RULE, what, path: Some(&path) };
    let Some(routes) = needed.require_fact(&subject.facts.routes, subject, report) else { return };
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
        for (way_path, way) in path.each("paths", &ingress.paths) {
            let way_path = if way.path.is_some() { way_path.key("path") } else { way_path };
            self.clash(way.path.as_deref().unwrap_or("/"), &way_path, report);
        }
    }

    fn clash(&self, path: &str, at: &Path, report: &mut RuleReport<'_>) {
        let claim = self.claim(path);
        let us = &self.subject.release.repository;
        let mut reports: Vec<(&Route, Violation)> = Vec::new();
        for route in self.others.iter().copied() {
            let Some(overlap) = claim.overlap(route) else { continue };
            let violation = match overlap {
                RouteOverlap::Same => self.reject_taken_host(&claim, route),
                RouteOverlap::Inside | RouteOverlap::Around
                    if claim.is_refused_beside(route, us) =>
                {
                    self.reject_foreign_route(&claim, route, overlap)
                }
                RouteOverlap::Inside | RouteOverlap::Around => {
                    warn_of_overlap(&claim, route, overlap)
                }
            };
            // Many paths of one app beside this one give one violation of each severity.
            let is_told = |(other, v): &(&Route, Violation)| {
                other.app == route.app && v.severity == violation.severity
            };
            if !reports.iter().any(is_told) {
                reports.push((route, violation));
            }
        }
        for (_, violation) in reports {
            report.add(at, violation);
        }
    }

    /// Claims a path of the host. A live route has been there before. A route without a lookup has not.
    fn claim(&self, path: &str) -> RouteClaim {
        let mut claim = RouteClaim { host: self.host.clone(), path: path.to_owned(), live: false };
        if let Fact::Known { value, .. } = &self.subject.facts.own_routes {
            claim.live = route::is_among(&claim, value);
        }
        claim
    }

    fn reject_taken_host(&self, claim: &RouteClaim, route: &Route) -> Violation {
        let (app, target) = (&route.app, self.subject.target);
        let message = format!(
            "{} already belongs to `{app}`",
            quote(&format!("{}{}", claim.host, claim.path))
        );
        Violation::error(RULE, message)
            .expected("is taken")
            .help(format!("choose another host or path, or take it out of the WAML of `{app}` first; if that app no longer exists, `bart remove {target} {app} --reason TEXT`"))
    }

    fn reject_foreign_route(
        &self,
        claim: &RouteClaim,
        route: &Route,
        overlap: RouteOverlap,
    ) -> Violation {
        let lies = if overlap == RouteOverlap::Inside { "inside" } else { "around" };
        let (app, target) = (&route.app, self.subject.target);
        let message = format!(
            "{} is {lies} `{}{}`, which belongs to another owner: `{app}`",
            quote(&format!("{}{}", claim.host, claim.path)),
            route.host,
            route.path
        );
        let help = match route.repository {
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

fn warn_of_overlap(claim: &RouteClaim, route: &Route, overlap: RouteOverlap) -> Violation {
    let (inner, outer, verb) = match overlap {
        RouteOverlap::Around => ((&route.host, &route.path), (&claim.host, &claim.path), "gets"),
        RouteOverlap::Inside | RouteOverlap::Same => {
            ((&claim.host, &claim.path), (&route.host, &route.path), "no longer gets")
        }
    };
    let outer_host = if inner.0.eq_ignore_ascii_case(outer.0) { "" } else { outer.0.as_str() };
    let message = format!(
        "requests for {} are also under `{outer_host}{}`: `{}` {verb} those",
        quote(&format!("{}{}", inner.0, inner.1)),
        outer.1,
        route.app
    );
    Violation::warning(RULE, message).expected("shares a host with another app").help(
        "routers choose the longest path; use another host if the apps do not belong together",
    )
}
