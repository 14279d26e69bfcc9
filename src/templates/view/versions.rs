//! Live versions: those on the cluster that is rendered, each with its workload, its Service and its share of the
//! requests.

use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::model::fleet::FleetPlace;
use crate::model::id::{AppKey, ImageTag};
use crate::model::platform::network::IngressKind;
use crate::model::release::Release;
use crate::model::target::Target;
use crate::templates::view::ingress::{
    BackendView, HeaderView, IngressView, RouteView, is_wildcard, rank_last, sort_by_precision,
};
use crate::templates::view::{self, naming, network};
use crate::traffic::placement::{ClusterPlacement, VersionPods, place_version};
use crate::traffic::weights::{WHOLE, scale_to_whole};
use crate::waml::section::Section;
use crate::waml::section_traffic::{Placement, TrafficMatch, TrafficRule, Version, WeightedTarget};

/// The label by which the pods of a version are told from those of the others.
pub(crate) const VERSION_LABEL: &str = "the-deployer.dev/version";

/// A version on the cluster that is rendered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiveVersion<'a> {
    pub(crate) version: &'a Version,
    /// Its pods; `None` where no setting says their number. An autoscaler, where there is one, changes it.
    pub(crate) replicas: Option<u32>,
}

/// Places a version of the WAML on the clusters of a fleet. A placement without a number has the version's, and a
/// version without one that of the app.
pub(crate) fn pods_by_cluster(
    section: &Section,
    app: &AppKey,
    version: &Version,
    fleet: &FleetPlace,
) -> VersionPods {
    let of_app = section.scaling.as_ref().and_then(|scaling| scaling.replicas);
    let of_version = version.replicas.or(of_app);
    let placement = |placement: &Placement| {
        let labels = placement.labels.iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
        ClusterPlacement {
            cluster: placement.cluster.clone(),
            labels: labels.collect(),
            replicas: placement.replicas.or(of_version),
        }
    };
    let mut placements: Vec<ClusterPlacement> =
        version.placements().iter().map(placement).collect();
    if placements.is_empty() {
        placements.push(ClusterPlacement { replicas: of_version, ..ClusterPlacement::default() });
    }
    place_version(app, &placements, &fleet.clusters)
}

/// Lists the versions on the cluster that is rendered, in the order of the WAML.
pub(crate) fn live_versions<'a>(
    section: &'a Section,
    app: &AppKey,
    fleet: &FleetPlace,
) -> Vec<LiveVersion<'a>> {
    let versions = section.versions.iter().flatten();
    let live = versions.filter_map(|version| {
        let (pods, _) = pods_by_cluster(section, app, version, fleet);
        pods.get(&fleet.cluster).map(|replicas| LiveVersion { version, replicas: *replicas })
    });
    live.collect()
}

/// Writes the whole image of a version.
pub(crate) fn image_of(version: &Version, section: &Section, release: &Release) -> String {
    view::reference(section.image.as_ref(), &release_of(version, release))
}

fn release_of(version: &Version, release: &Release) -> Release {
    let tag = version.tag.as_deref().and_then(|tag| ImageTag::parse(tag).ok());
    Release { tag: tag.unwrap_or_else(|| release.tag.clone()), ..release.clone() }
}

/// Shows the versions on the cluster; null where the app has none, or an empty list.
pub(crate) fn build_versions_view(
    section: &Section,
    app: &AppKey,
    release: &Release,
    place: (&FleetPlace, &Target),
) -> Json {
    let (fleet, target) = place;
    if section.versions.as_ref().is_none_or(Vec::is_empty) {
        return Json::Null;
    }
    let slug = app.slug.as_str();
    let ports = network::version_ports(section, slug);
    let is_autoscaled = section.is_autoscaled();
    let view = |live: LiveVersion<'_>| {
        let version = live.version;
        let workload = naming::version_workload(slug, &version.name);
        let mut scaling = view::scaling(section);
        if let (Json::Object(map), Some(replicas)) = (&mut scaling, live.replicas)
            && !is_autoscaled
        {
            map.insert("replicas".to_owned(), json!(replicas));
        }
        json!({
            "name": version.name,
            "tag": release_of(version, release).tag,
            "weight": version.weight,
            "workload": workload,
            "image": view::image(section.image.as_ref(), &release_of(version, release), target),
            "labels": view::labels_with(section, VERSION_LABEL, &version.name),
            "scaling": scaling,
            "ports": ports,
        })
    };
    Json::Array(live_versions(section, app, fleet).into_iter().map(view).collect())
}

/// Shares of requests that several routes have alike: an object of its own in Traefik.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct SplitView {
    name: String,
    grpc: bool,
    backends: Vec<BackendView>,
}

/// Leads the routes of an app with versions to the versions on this cluster: by `traffic`, or by the versions' own
/// weights. An address without a route is left out.
pub(crate) fn split_routes(
    ingresses: &mut Vec<IngressView>,
    section: &Section,
    app: &AppKey,
    target: &Target,
    fleet: &FleetPlace,
) {
    if section.versions.as_ref().is_none_or(Vec::is_empty) {
        return;
    }
    let split = RouteSplit {
        section,
        slug: app.slug.as_str(),
        kind: target.platform.ingress.kind,
        live: live_versions(section, app, fleet),
    };
    for (ingress, view) in section.ingresses().iter().zip(ingresses.iter_mut()) {
        let traffic = section.traffic.as_ref().filter(|traffic| traffic.is_for(&view.host));
        let former = std::mem::take(&mut view.routes);
        view.routes = match traffic {
            Some(traffic) => {
                let rules = traffic.rules().iter();
                rules.flat_map(|rule| split.by_rule(rule, ingress.port, &view.host)).collect()
            }
            None => former.iter().flat_map(|route| split.by_version_weights(route)).collect(),
        };
        if is_wildcard(&view.host) {
            view.routes = rank_last(std::mem::take(&mut view.routes));
        } else if view.routes.iter().any(RouteView::is_narrowed) {
            rank_by_precision(&mut view.routes, &view.host);
        }
        if split.kind == IngressKind::Istio {
            sort_by_precision(&mut view.routes);
        }
    }
    ingresses.retain(|view| !view.routes.is_empty());
    name_splits(ingresses, split.slug);
}

/// Names what Traefik splits requests by: equal shares have one object.
fn name_splits(ingresses: &mut [IngressView], slug: &str) {
    let mut splits: Vec<Vec<BackendView>> = Vec::new();
    for route in ingresses.iter_mut().flat_map(|ingress| &mut ingress.routes) {
        if route.backends.len() < 2 {
            continue;
        }
        let index = splits.iter().position(|split| *split == route.backends).unwrap_or_else(|| {
            splits.push(route.backends.clone());
            splits.len() - 1
        });
        let part = if index == 0 { "split".to_owned() } else { format!("split-{}", index + 1) };
        route.split = Some(naming::join_name(slug, &part));
    }
}

/// Lists each split once.
pub(crate) fn splits(ingresses: &[IngressView]) -> Vec<SplitView> {
    let mut splits: Vec<SplitView> = Vec::new();
    for route in ingresses.iter().flat_map(|ingress| &ingress.routes) {
        if let Some(name) = &route.split
            && splits.iter().all(|split| split.name != *name)
        {
            let (grpc, backends) = (route.grpc, route.backends.clone());
            splits.push(SplitView { name: name.clone(), grpc, backends });
        }
    }
    splits
}

struct RouteSplit<'a> {
    section: &'a Section,
    slug: &'a str,
    kind: IngressKind,
    live: Vec<LiveVersion<'a>>,
}

impl RouteSplit<'_> {
    fn service(&self, version: &str) -> String {
        naming::version_workload(self.slug, version)
    }

    /// Splits a route of `ingress`. An `Ingress` has no shares: each version gets a path below, and the path itself
    /// leads to all pods.
    fn by_version_weights(&self, route: &RouteView) -> Vec<RouteView> {
        let port = route.port;
        if self.kind == IngressKind::Kubernetes {
            let mut routes = vec![route.clone()];
            routes.extend(self.live.iter().map(|live| {
                let path = below(&route.path, &live.version.name);
                RouteView::lead_to(route, path, vec![self.backend(&live.version.name, port, None)])
            }));
            return routes;
        }
        // The only version has no weight to say.
        let weight = |live: &LiveVersion<'_>| live.version.weight.unwrap_or(WHOLE);
        let weights: Vec<u32> = self.live.iter().map(weight).collect();
        let names = self.live.iter().map(|live| (live.version.name.as_str(), port));
        let backends = self.share(&names.collect::<Vec<_>>(), &weights);
        backends
            .map(|backends| RouteView::lead_to(route, route.path.clone(), backends))
            .into_iter()
            .collect()
    }

    /// Makes the routes of a rule: one for each alternative, and with an `Ingress` one for each version of each.
    fn by_rule(&self, rule: &TrafficRule, port: Option<u16>, host: &str) -> Vec<RouteView> {
        let ports = network::tcp_ports(self.section.services(), self.slug);
        let default = view::ingress::leads_by_default(&ports, None, port).map(|port| port.number);
        let is_live = |target: &&WeightedTarget| {
            self.live.iter().any(|live| live.version.name == target.version)
        };
        let targets: Vec<&WeightedTarget> = rule.targets().iter().filter(is_live).collect();
        let places: Vec<(&str, u16)> = targets
            .iter()
            .filter_map(|target| Some((target.version.as_str(), target.port.or(default)?)))
            .collect();
        let weights: Vec<u32> =
            targets.iter().map(|target| target.weight.unwrap_or(WHOLE)).collect();
        let everything = [TrafficMatch::default()];
        let matches =
            rule.matches.as_deref().filter(|list| !list.is_empty()).unwrap_or(&everything);
        let Some(backends) =
            self.share(&places, &weights).filter(|_| places.len() == targets.len())
        else {
            return Vec::new();
        };
        let grpc = network::GrpcPorts::of(self.section, self.slug);
        let serves_grpc =
            |number: u16| ports.iter().any(|port| port.number == number && grpc.serves_grpc(port));
        let is_grpc = places.iter().all(|(_, port)| serves_grpc(*port));
        let mut routes = Vec::new();
        for one in matches {
            let route = RouteView::by_match(one, host, is_grpc);
            if self.kind == IngressKind::Kubernetes {
                routes.extend(places.iter().map(|(version, port)| {
                    let path = below(&route.path, version);
                    RouteView::lead_to(&route, path, vec![self.backend(version, *port, None)])
                }));
            } else {
                routes.push(RouteView::lead_to(&route, route.path.clone(), backends.clone()));
            }
        }
        routes
    }

    fn backend(&self, version: &str, port: u16, weight: Option<u32>) -> BackendView {
        BackendView { service: self.service(version), port, weight }
    }

    /// Shares all requests between versions of this cluster; `None` where none of them gets any.
    fn share(&self, places: &[(&str, u16)], weights: &[u32]) -> Option<Vec<BackendView>> {
        let shares = scale_to_whole(weights)?;
        if let [(version, port)] = places {
            return Some(vec![self.backend(version, *port, None)]);
        }
        let backends = places.iter().zip(shares);
        Some(
            backends
                .map(|((version, port), share)| self.backend(version, *port, Some(share)))
                .collect(),
        )
    }
}

/// Ranks the routes of an address as the Gateway API does, for Traefik, which asks the route of the highest priority first,
/// and gives one without a priority the length of its rule, by which headers would lift a shorter path above a longer one.
///
/// A route has the priority that its prefix alone would have by its length, and only a little more where that one is taken:
/// other apps below the same host are ranked by length. Several rules for one path can go before the route of another app
/// whose path is a few characters longer; the page says so.
fn rank_by_precision(routes: &mut [RouteView], host: &str) {
    // From the last one to the first: of two that are as precise, the first one counts.
    let mut order: Vec<&mut RouteView> = routes.iter_mut().rev().collect();
    order.sort_by(|a, b| {
        let precision = |route: &RouteView| (route.exact, route.headers.len());
        let by_path = a.path.len().cmp(&b.path.len()).then_with(|| a.path.cmp(&b.path));
        by_path.then_with(|| precision(a).cmp(&precision(b)))
    });
    let mut free = 0;
    for same_length in order.chunk_by_mut(|a, b| a.path.len() == b.path.len()) {
        let base = same_length
            .first()
            .map_or(free, |route| free.max(view::ingress::prefix_rule(host, &route.path).len()));
        for same_path in same_length.chunk_by_mut(|a, b| a.path == b.path) {
            // The place of the prefix alone stays free.
            let first =
                base + usize::from(same_path.first().is_some_and(|route| route.is_narrowed()));
            for (priority, route) in (first..).zip(same_path) {
                route.priority = Some(priority);
                free = free.max(priority + 1);
            }
        }
    }
}

/// The path of a version below another one, where an `Ingress` cannot share requests.
pub(crate) fn below(path: &str, version: &str) -> String {
    format!("{}/{version}", path.trim_end_matches('/'))
}

impl RouteView {
    /// Leads a copy of the route elsewhere.
    fn lead_to(route: &Self, path: String, backends: Vec<BackendView>) -> Self {
        let (service, port) = backends.first().map_or_else(
            || (route.service.clone(), route.port),
            |one| (one.service.clone(), one.port),
        );
        Self { path, service, port, backends, ..route.clone() }
    }

    /// Checks that the route asks for more than the beginning of the path.
    fn is_narrowed(&self) -> bool {
        self.exact || !self.headers.is_empty()
    }

    /// Makes the route of a match, which leads nowhere yet.
    fn by_match(one: &TrafficMatch, host: &str, grpc: bool) -> Self {
        let (path, exact) = one.path();
        let headers: Vec<HeaderView> = one
            .headers
            .iter()
            .flatten()
            .filter_map(|(name, value)| {
                Some(HeaderView { name: name.clone(), value: value.clone()? })
            })
            .collect();
        let mut rule = view::ingress::prefix_rule(host, path);
        if exact {
            rule = rule.replace("PathPrefix(", "Path(");
        }
        for HeaderView { name, value } in &headers {
            rule = format!("{rule} && Header(`{name}`, `{value}`)");
        }
        Self {
            path: path.to_owned(),
            priority: None,
            rule,
            service: String::new(),
            port: 0,
            grpc,
            cache: None,
            exact,
            headers,
            backends: Vec::new(),
            split: None,
        }
    }
}
