//! Routes: the host and the path prefix where an app is reached, and when two of them take each
//! other's requests.
//!
//! Prefixes are compared by whole segments, as Ingress and Gateway API do: `/api` does not hold
//! `/apis`. A host with a star stands for every name below it.

use crate::model::id::{AppKey, RepoName};

/// A route of some app: a host and a path prefix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// The whole host name; it may begin with `*.`.
    pub host: String,
    /// The path prefix.
    pub path: String,
    /// The app that the route belongs to.
    pub app: AppKey,
    /// The repository that the app belongs to, where that is known.
    pub repository: Option<RepoName>,
}

/// A route that a deployment is about to make live.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteClaim {
    /// The whole host name; it may begin with `*.`.
    pub host: String,
    /// The path prefix.
    pub path: String,
    /// True if the app has the route already: no other app can have come first.
    pub live: bool,
}

/// The relation of a route's requests to those of another route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteOverlap {
    /// Both take the same requests: which of the two answers is luck.
    Same,
    /// The route takes some of the other one's requests.
    Inside,
    /// The other one takes some of it.
    Around,
}

impl RouteClaim {
    /// Finds how its requests lie to those of another route; `None` where they have none in common.
    pub fn overlap(&self, other: &Route) -> Option<RouteOverlap> {
        let (own_host, other_host) = (normal_host(&self.host), normal_host(&other.host));
        let by_host = match (
            own_host == other_host,
            covers(&other_host, &own_host),
            covers(&own_host, &other_host),
        ) {
            (true, _, _) => None,
            (_, true, _) => Some(RouteOverlap::Inside),
            (_, _, true) => Some(RouteOverlap::Around),
            _ => return None,
        };
        let (own_path, other_path) = (segments(&self.path), segments(&other.path));
        let by_path = match (
            own_path == other_path,
            own_path.starts_with(&other_path),
            other_path.starts_with(&own_path),
        ) {
            (true, _, _) => RouteOverlap::Same,
            (_, true, _) => RouteOverlap::Inside,
            (_, _, true) => RouteOverlap::Around,
            _ => return None,
        };
        // Routers choose by the host first.
        Some(by_host.unwrap_or(by_path))
    }

    /// Checks that an app of that repository may not have it beside the other app's route: both would take the same
    /// requests, or it would take requests from another owner's app, or give it some. A route that is live
    /// already is refused only for the same requests.
    pub fn is_refused_beside(&self, other: &Route, repository: &RepoName) -> bool {
        match self.overlap(other) {
            None => false,
            Some(RouteOverlap::Same) => true,
            Some(RouteOverlap::Inside | RouteOverlap::Around) => {
                !self.live && !other.is_of_owner_of(repository)
            }
        }
    }
}

impl Route {
    /// Checks that its app belongs to a repository of the same owner; false where the owner is not known.
    pub fn is_of_owner_of(&self, repository: &RepoName) -> bool {
        self.repository
            .as_ref()
            .is_some_and(|other_repository| other_repository.has_owner_of(repository))
    }
}

/// Checks that the same host and path is among these.
pub fn is_among(claim: &RouteClaim, routes: &[Route]) -> bool {
    routes.iter().any(|route| claim.overlap(route) == Some(RouteOverlap::Same))
}

/// Lists the hosts under which routes can be that have requests in common with a host, itself
/// first; for a host with a star these are not all.
pub fn hosts_over(host: &str) -> Vec<String> {
    let host = normal_host(host);
    let mut hosts = vec![host.clone()];
    let mut rest = host.strip_prefix("*.").unwrap_or(&host);
    while let Some((_, parent)) = rest.split_once('.') {
        hosts.push(format!("*.{parent}"));
        rest = parent;
    }
    hosts
}

/// Checks that a host with a star covers that host.
pub fn covers(wild: &str, host: &str) -> bool {
    let Some(parent) = wild.strip_prefix('*').filter(|parent| parent.starts_with('.')) else {
        return false;
    };
    wild != host && host.strip_prefix('*').unwrap_or(host).ends_with(parent)
}

/// Writes a host name as it is compared: they are alike in either case, and with a dot at their
/// end.
pub fn normal_host(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// Splits a path into its segments: `/a//b/` is `a`, `b`.
fn segments(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(address: &str, repository: Option<&str>) -> Route {
        let (host, path) = address.split_once('/').unwrap();
        Route {
            host: host.to_owned(),
            path: format!("/{path}"),
            app: AppKey { namespace: "n".parse().unwrap(), slug: "b".parse().unwrap() },
            repository: repository.map(|name| RepoName::parse(name).unwrap()),
        }
    }

    fn claim(address: &str, live: bool) -> RouteClaim {
        let Route { host, path, .. } = route(address, None);
        RouteClaim { host, path, live }
    }

    #[test]
    fn routes_have_requests_in_common_by_whole_labels_and_segments() {
        use RouteOverlap::{Around, Inside, Same};
        for (ours, theirs, overlap) in [
            ("a.io/", "a.io/", Some(Same)),
            ("a.io/x/", "A.io./x", Some(Same)),
            ("a.io/x", "b.io/x", None),
            ("a.io/x", "a.io/", Some(Inside)),
            ("a.io/", "a.io/x", Some(Around)),
            ("a.io/api", "a.io/apis", None),
            ("x.a.io/", "*.a.io/", Some(Inside)),
            ("x.y.a.io/", "*.a.io/", Some(Inside)),
            ("*.a.io/", "x.a.io/", Some(Around)),
            ("*.a.io/", "*.a.io/", Some(Same)),
            ("*.x.a.io/", "*.a.io/", Some(Inside)),
            ("*.a.io/", "*.x.a.io/", Some(Around)),
            ("x.a.io/", "*.a.io/login", Some(Inside)),
            ("x.a.io/shop", "*.a.io/login", None),
            ("a.io/", "*.a.io/", None),
            ("xa.io/", "*.a.io/", None),
            ("x.a.io/", "*a.io/", None),
        ] {
            assert_eq!(
                claim(ours, false).overlap(&route(theirs, None)),
                overlap,
                "{ours} {theirs}"
            );
        }
    }

    #[test]
    fn another_owners_requests_are_refused_but_to_who_has_them_already() {
        let us = RepoName::parse("Acme/shop").unwrap();
        for (theirs, live, refused) in [
            (Some("acme/login"), false, false),
            (Some("other/login"), false, true),
            (Some("other/login"), true, false),
            (None, false, true),
            (None, true, false),
        ] {
            for (ours, other) in [("a.io/", "a.io/login"), ("a.io/login", "a.io/")] {
                let is_refused = claim(ours, live).is_refused_beside(&route(other, theirs), &us);
                assert_eq!(
                    is_refused, refused,
                    "{ours} beside {other} of {theirs:?}, live: {live}"
                );
            }
            let is_same_refused =
                claim("a.io/", live).is_refused_beside(&route("a.io/", theirs), &us);
            assert!(is_same_refused, "the same is luck for one owner, too");
        }
    }

    #[test]
    fn stars_over_a_host_are_those_of_its_parents() {
        assert_eq!(hosts_over("A.b.c."), ["a.b.c", "*.b.c", "*.c"]);
        assert_eq!(hosts_over("*.b.c"), ["*.b.c", "*.c"]);
    }
}
