//! The change of an app from plain to a canary and back, without a moment in which nothing serves.
//!
//! With a canary the Service is Flagger's, and in no manifest. Argo CD would remove a live one at the next sync, before
//! Flagger has made its own, and on the way back it would lead the Service to pods that Flagger has scaled to 0. So an
//! app changes over in two deployments:
//!
//! ```text
//! plain ─▶ handover ─▶ canary ─▶ handover ─▶ plain
//! ```
//!
//! In the handover the app's own Service and routes stay beside the Canary. Argo CD leaves the Service's selector to
//! Flagger, which changes it when pods are ready: on the way there to those of its copy, and on the way back, when the
//! Canary is gone, to the app's. A Service of a handover stays in the cluster when it leaves git, so it is never
//! Flagger's property, which would go with the Canary. The Canary goes in the background, so that Flagger can bring the
//! app's pods back before Kubernetes removes what Flagger has made.

use serde_json::{Map, Value as Json};

use crate::manifests::canary::read_canary;
use crate::manifests::parse::has_sync_option;
use crate::model::facts::{LiveApp, LiveCanary};

/// A Service and its Canary, in a set of manifests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The manifests have neither.
    Nobody,
    /// The Service is in the manifests, and there is no Canary.
    App,
    /// Both are there. Argo CD keeps the Service when it is removed, or not.
    Both { stays: bool },
    /// The Canary alone: Flagger makes the Service.
    Flagger,
}

/// A change that would leave an app without a Service or without pods behind it, or objects behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandoverFault {
    /// Argo CD would remove the Service before Flagger has made its own.
    ServiceRemoved(String),
    /// The Service would lead to pods that Flagger has scaled to 0.
    NoPods(String),
    /// Flagger would leave the Services of the former name behind.
    Renamed {
        /// The former name.
        from: String,
        /// The name that the Canary would have.
        to: String,
    },
}

/// The way out of a fault, as a sentence for people.
impl HandoverFault {
    /// Describes the fault in one sentence without a full stop.
    pub fn message(&self) -> String {
        match self {
            Self::ServiceRemoved(name) => format!(
                "Argo CD would remove Service `{name}` before Flagger has made its own: the app would have none"
            ),
            Self::NoPods(name) => format!(
                "Service `{name}` would lead to pods that Flagger has scaled to 0, while its copy is removed"
            ),
            Self::Renamed { from, to } => format!(
                "Flagger's Service would be `{to}` instead of `{from}`, and it leaves those of the former name behind"
            ),
        }
    }

    /// Says what to do in the WAML.
    pub fn help(&self) -> &'static str {
        match self {
            Self::ServiceRemoved(_) => {
                "deploy once with `canary: {handover: true}`, and take `handover` away when the Canary is `Initialized`"
            }
            Self::NoPods(_) => {
                "deploy once with `canary: {handover: true}`, and take `canary` away after that"
            }
            Self::Renamed { .. } => {
                "keep the Service's name, or go back to an app without a canary first: `canary: {handover: true}`"
            }
        }
    }
}

/// What manifests say of Services and Canaries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrafficObjects {
    canaries: Vec<LiveCanary>,
    /// The Services, and whether Argo CD keeps each when it is removed.
    services: Vec<(String, bool)>,
    /// The names of the `HTTPRoute` objects.
    http_routes: Vec<String>,
}

/// Fields of an object that Argo CD leaves to Flagger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenOver {
    /// The object's API group; empty for Kubernetes' core.
    pub group: &'static str,
    /// The object's kind.
    pub kind: &'static str,
    /// The object's name.
    pub name: String,
    /// The fields, as JSON pointers.
    pub pointers: &'static [&'static str],
}

/// What Argo CD leaves to Flagger in an app, and how it removes objects there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlaggerShare {
    /// The fields that Flagger sets.
    pub taken_over: Vec<TakenOver>,
    /// True if there is a Canary, or was in the revision before.
    pub has_canary: bool,
}

/// The fields that Flagger changes of a Service, and of a route of the Gateway API.
pub(crate) const SERVICE_FIELDS: &[&str] = &["/spec/selector"];
pub(crate) const ROUTE_FIELDS: &[&str] = &["/spec", "/metadata/labels"];

impl TrafficObjects {
    /// Reads rendered objects.
    pub(crate) fn of_objects<'a>(objects: impl Iterator<Item = &'a Map<String, Json>>) -> Self {
        let mut traffic = Self::default();
        for object in objects {
            let json = Json::Object(object.clone());
            let text = |pointer: &str| json.pointer(pointer).and_then(Json::as_str);
            let Some(name) = text("/metadata/name").map(str::to_owned) else { continue };
            match text("/kind") {
                Some("Canary") => traffic.canaries.extend(read_canary(object)),
                Some("Service") => {
                    let stays = has_sync_option(&json, "Prune=false");
                    traffic.services.push((name, stays));
                }
                Some("HTTPRoute") => traffic.http_routes.push(name),
                Some(_) | None => {}
            }
        }
        traffic
    }

    /// Takes what is known of the live revision.
    pub fn of_live(live: &LiveApp) -> Self {
        let names = |kind: &str| {
            let objects = live.objects.iter().filter(move |object| object.kind == kind);
            objects.map(|object| object.name.clone()).collect::<Vec<_>>()
        };
        let stays = |name: &String| {
            live.staying.iter().any(|object| object.kind == "Service" && object.name == *name)
        };
        Self {
            canaries: live.canaries.clone(),
            services: names("Service")
                .into_iter()
                .map(|name| (name.clone(), stays(&name)))
                .collect(),
            http_routes: names("HTTPRoute"),
        }
    }

    /// Checks that there is a Canary.
    pub fn has_canary(&self) -> bool {
        !self.canaries.is_empty()
    }

    fn owner(&self, service: &str) -> Owner {
        let own = self.services.iter().find(|(name, _)| name == service);
        let has_canary = self.canaries.iter().any(|canary| canary.service == service);
        match (own, has_canary) {
            (None, false) => Owner::Nobody,
            (Some(_), false) => Owner::App,
            (Some((_, stays)), true) => Owner::Both { stays: *stays },
            (None, true) => Owner::Flagger,
        }
    }

    /// Lists the names of the Services that Flagger takes over here or in the other manifests, each once.
    fn taken_services(&self, other: &Self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for canary in self.canaries.iter().chain(&other.canaries) {
            if !names.contains(&canary.service) {
                names.push(canary.service.clone());
            }
        }
        names
    }
}

/// Finds what is wrong with a change from the manifests `before` to those `after`.
pub fn handover_faults(before: &TrafficObjects, after: &TrafficObjects) -> Vec<HandoverFault> {
    let mut faults = Vec::new();
    for canary in &after.canaries {
        let former = before.canaries.iter().find(|former| former.name == canary.name);
        if let Some(former) = former.filter(|former| former.service != canary.service) {
            let (from, to) = (former.service.clone(), canary.service.clone());
            faults.push(HandoverFault::Renamed { from, to });
        }
    }
    for service in after.taken_services(before) {
        match (before.owner(&service), after.owner(&service)) {
            (Owner::App | Owner::Both { stays: false }, Owner::Flagger) => {
                faults.push(HandoverFault::ServiceRemoved(service));
            }
            (Owner::Flagger, Owner::App) => faults.push(HandoverFault::NoPods(service)),
            (
                Owner::Nobody | Owner::App | Owner::Both { .. } | Owner::Flagger,
                Owner::Nobody | Owner::App | Owner::Both { .. } | Owner::Flagger,
            ) => {}
        }
    }
    faults
}

/// Finds what Argo CD leaves to Flagger when the manifests `after` take the place of those `before`. On the way back
/// the selector stays Flagger's, which changes it when the app's pods are ready.
pub fn flagger_share(before: &TrafficObjects, after: &TrafficObjects) -> FlaggerShare {
    let has_service = |name: &String| after.services.iter().any(|(own, _)| own == name);
    let services = after.taken_services(before).into_iter().filter(has_service);
    let services = services.map(|name| TakenOver {
        group: "",
        kind: "Service",
        name,
        pointers: SERVICE_FIELDS,
    });
    let by_gateway = after.canaries.iter().filter(|canary| canary.by_gateway);
    let routes = by_gateway.filter(|canary| after.http_routes.contains(&canary.service));
    let routes = routes.map(|canary| TakenOver {
        group: "gateway.networking.k8s.io",
        kind: "HTTPRoute",
        name: canary.service.clone(),
        pointers: ROUTE_FIELDS,
    });
    FlaggerShare {
        has_canary: after.has_canary() || before.has_canary(),
        taken_over: services.chain(routes).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Makes the manifests of an app in one of the stages.
    fn stage(name: &str) -> TrafficObjects {
        let service = |stays: bool| {
            let annotations = if stays {
                json!({"argocd.argoproj.io/sync-options": "Prune=false"})
            } else {
                json!({})
            };
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "annotations": annotations}})
        };
        let canary = |service: &str| {
            json!({
                "apiVersion": "flagger.app/v1beta1", "kind": "Canary", "metadata": {"name": "a"},
                "spec": {"provider": "gatewayapi:v1", "targetRef": {"name": "a"}, "service": {"name": service}},
            })
        };
        let route = || json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "a"}});
        let objects = match name {
            "plain" => vec![service(false), route()],
            "handover" => vec![service(true), canary("a"), route()],
            "unkept" => vec![service(false), canary("a"), route()],
            "canary" => vec![canary("a")],
            "renamed" => vec![canary("b")],
            _ => Vec::new(),
        };
        TrafficObjects::of_objects(objects.iter().map(|json| json.as_object().unwrap()))
    }

    fn faults(from: &str, to: &str) -> Vec<HandoverFault> {
        handover_faults(&stage(from), &stage(to))
    }

    #[test]
    fn only_by_the_handover_an_app_changes_over() {
        for (from, to) in [
            ("plain", "handover"),
            ("handover", "canary"),
            ("canary", "handover"),
            ("handover", "plain"),
            ("", "canary"),
            ("", "handover"),
            ("", "plain"),
            ("plain", ""),
            ("canary", ""),
        ] {
            assert_eq!(faults(from, to), [], "{from} to {to}");
        }
        for stage in ["plain", "handover", "canary"] {
            assert_eq!(faults(stage, stage), [], "{stage}");
        }
        let a = || "a".to_owned();
        assert_eq!(faults("plain", "canary"), [HandoverFault::ServiceRemoved(a())]);
        assert_eq!(faults("unkept", "canary"), [HandoverFault::ServiceRemoved(a())]);
        assert_eq!(faults("canary", "plain"), [HandoverFault::NoPods(a())]);
        assert_eq!(
            faults("canary", "renamed"),
            [HandoverFault::Renamed { from: a(), to: "b".to_owned() }]
        );
    }

    #[test]
    fn argo_cd_leaves_to_flagger_what_flagger_changes() {
        let share = |from: &str, to: &str| {
            let share = flagger_share(&stage(from), &stage(to));
            let fields = share.taken_over.iter().map(|one| (one.kind, one.pointers));
            (share.has_canary, fields.collect::<Vec<_>>())
        };
        let (service, route) = (("Service", SERVICE_FIELDS), ("HTTPRoute", ROUTE_FIELDS));
        assert_eq!(share("plain", "plain"), (false, vec![]));
        assert_eq!(share("plain", "handover"), (true, vec![service, route]));
        assert_eq!(share("handover", "canary"), (true, vec![]));
        assert_eq!(share("canary", "handover"), (true, vec![service, route]));
        // The route leads to the app's own Service again, whose selector Flagger sets back.
        assert_eq!(share("handover", "plain"), (true, vec![service]));
    }
}
