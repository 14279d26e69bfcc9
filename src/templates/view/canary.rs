//! A canary as Flagger wants it, and what it takes out of the app's own hands.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use crate::model::platform::canary::CanaryProvider;
use crate::model::platform::monitoring::{HttpMetrics, IstioReporter, Monitoring};
use crate::model::platform::network::IngressKind;
use crate::model::target::Target;
use crate::templates::view::ingress::{IngressView, RouteView};
use crate::templates::view::naming;
use crate::templates::view::network::{GrpcPorts, PortRef, ports_of};
use crate::waml::canary_plan::write_time;
use crate::waml::section::Section;
use crate::waml::section_canary::{
    Canary, CanaryMatch, CanaryMetric, CanaryWebhook, HeaderMatch, SUCCESS_RATE, ThresholdRange,
    WebhookType,
};

/// What Flagger puts behind the names of what serves, and of the Service for the new release.
const PRIMARY: &str = "-primary";
/// The longest slug of an app with a canary: Flagger's copy of the workload is called `SLUG-primary`, and its pods
/// must still be known by that name.
pub(crate) const LONGEST_SLUG: usize = naming::LONGEST_WORKLOAD - PRIMARY.len();
/// The longest name of its Service, likewise.
pub(crate) const LONGEST_SERVICE: usize = 63 - PRIMARY.len();

/// A canary as templates see it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CanaryView {
    /// Flagger's word for what shifts the traffic.
    provider: &'static str,
    /// The name of the Service that Flagger makes or takes over.
    pub(crate) service_name: String,
    /// True while the app's own Service and routes stay beside the Canary.
    pub(crate) handover: bool,
    /// True if Flagger makes the route, so that none of the app's own is rendered.
    pub(crate) makes_route: bool,
    /// The port that Traefik's routes lead to by the `TraefikService` that Flagger makes; null elsewhere.
    traefik_port: Option<u16>,
    progress_deadline_seconds: Option<u32>,
    skip_analysis: bool,
    /// The labels of the pods: of the new release, and of what serves.
    pod_labels: [String; 2],
    /// The name of the autoscaler that Flagger copies; null without one.
    autoscaler: Option<String>,
    /// The name of the `Ingress` that Flagger copies; null elsewhere.
    ingress: Option<String>,
    /// `spec.service`.
    service: Json,
    /// `spec.analysis`.
    analysis: Json,
    /// The measurements that are no built-in ones.
    metric_templates: Vec<MetricTemplateView>,
}

/// A measurement of the app's own.
#[derive(Debug, Serialize)]
struct MetricTemplateView {
    name: String,
    address: String,
    query: String,
}

/// The app that a canary is of.
#[derive(Clone, Copy)]
pub(crate) struct CanaryApp<'a> {
    pub(crate) section: &'a Section,
    pub(crate) slug: &'a str,
    pub(crate) target: &'a Target,
    /// The app's addresses.
    pub(crate) ingresses: &'a [IngressView],
    /// True if nothing of the app is live on the target yet.
    pub(crate) is_new: bool,
}

impl<'a> CanaryApp<'a> {
    fn provider(self) -> CanaryProvider {
        let platform = &self.target.platform;
        platform.canary.provider(platform.ingress.kind)
    }

    /// Returns the ports of the app's only Service.
    fn ports(self) -> Vec<PortRef<'a>> {
        let services = self.section.services();
        services.first().map(|service| ports_of(service, self.slug)).unwrap_or_default()
    }

    /// Returns the port that Flagger shifts: the one that routes lead to, else the first.
    fn shifted_port(self) -> Option<PortRef<'a>> {
        let ports = self.ports();
        let is_routed = |port: &PortRef<'_>| {
            self.ingresses.iter().flat_map(|ingress| &ingress.routes).any(|r| r.leads_to(port))
        };
        let routed = ports.iter().position(is_routed);
        ports.into_iter().nth(routed.unwrap_or(0))
    }
}

/// Shows the canary; null where there is none, or nothing that Flagger could shift.
pub(crate) fn build_canary_view(app: CanaryApp<'_>) -> Option<CanaryView> {
    let canary = app.section.canary.as_ref()?;
    let provider = app.provider();
    let port = app.shifted_port()?;
    let handover = canary.handover.unwrap_or(app.is_new);
    let makes_route = makes_route(app.target);
    let templates = metric_templates(canary, app, &port);
    Some(CanaryView {
        provider: provider.as_flagger()?,
        service_name: port.service.to_owned(),
        handover,
        makes_route: makes_route && !handover,
        traefik_port: (provider == CanaryProvider::Traefik && !handover).then_some(port.number),
        progress_deadline_seconds: canary.progress_deadline_seconds,
        skip_analysis: canary.skip_analysis.unwrap_or(false),
        pod_labels: [app.slug.to_owned(), format!("{}{PRIMARY}", app.slug)],
        autoscaler: app
            .section
            .autoscaling
            .as_ref()
            .is_some_and(|autoscaling| autoscaling.horizontal.is_some())
            .then(|| app.slug.to_owned()),
        ingress: (provider == CanaryProvider::Nginx)
            .then(|| app.ingresses.first().map(|ingress| ingress.name.clone()))
            .flatten(),
        service: service(app, &port, makes_route),
        analysis: analysis(canary, app, &templates),
        metric_templates: templates,
    })
}

impl CanaryView {
    /// Has Argo CD keep the route that Flagger takes over, because its own has the same name.
    pub(crate) fn keep_routes(&self, ingresses: &mut [IngressView]) {
        if !self.handover || !self.provider.starts_with("gatewayapi") {
            return;
        }
        for ingress in ingresses.iter_mut().filter(|ingress| ingress.name == self.service_name) {
            ingress.annotate(KEEP_ANNOTATIONS);
        }
    }
}

/// Has Argo CD leave an object in the cluster when it is removed from git, and not mind it there.
const KEEP_ANNOTATIONS: [(&str, &str); 2] = [
    ("argocd.argoproj.io/sync-options", "Prune=false"),
    ("argocd.argoproj.io/compare-options", "IgnoreExtraneous"),
];

/// Checks that Flagger makes the route from outside on a target, so that it has to know hosts, paths and gateways.
pub(crate) fn makes_route(target: &Target) -> bool {
    let platform = &target.platform;
    match platform.canary.provider(platform.ingress.kind) {
        CanaryProvider::Gateway => true,
        CanaryProvider::Istio => {
            matches!(platform.ingress.kind, IngressKind::Gateway | IngressKind::Istio)
        }
        CanaryProvider::Traefik | CanaryProvider::Nginx | CanaryProvider::None => false,
    }
}

/// Writes `spec.service`.
fn service(app: CanaryApp<'_>, port: &PortRef<'_>, makes_route: bool) -> Json {
    let grpc = GrpcPorts::of(app.section, app.slug);
    let mut service = Map::new();
    let mut set = |key: &str, value: Json| drop(service.insert(key.to_owned(), value));
    set("name", json!(port.service));
    set("port", json!(port.number));
    set("portName", json!(port.name));
    set("targetPort", json!(port.target));
    if grpc.serves_grpc(port) {
        set("appProtocol", json!("kubernetes.io/h2c"));
    }
    if app.ports().len() > 1 {
        set("portDiscovery", json!(true));
    }
    if makes_route && let Some(first) = app.ingresses.first() {
        match app.provider() {
            CanaryProvider::Istio => set("gateways", json!(istio_gateways(app.ingresses))),
            _ => set("gatewayRefs", json!(gateway_refs(app.ingresses))),
        }
        set("hosts", json!(app.ingresses.iter().map(IngressView::host).collect::<Vec<_>>()));
        let paths: Vec<&str> = first.routes.iter().map(RouteView::path).collect();
        if paths != ["/"] {
            let matches = paths.iter().map(|path| json!({"uri": {"prefix": path}}));
            set("match", Json::Array(matches.collect()));
        }
        if let Some(header) = first.routes.iter().find_map(|route| route.cache_header()) {
            set("headers", json!({"response": {"set": {"Cache-Control": header}}}));
        }
        if !first.annotations().is_empty() {
            set("apex", json!({"annotations": first.annotations()}));
        }
    }
    Json::Object(service)
}

/// Lists the gateways as Istio names them, `NAMESPACE/NAME`, each once.
fn istio_gateways(ingresses: &[IngressView]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for gateway in ingresses.iter().map(IngressView::gateway) {
        let name = format!("{}/{}", gateway.namespace, gateway.name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Lists the gateways as the Gateway API refers to them, each once.
fn gateway_refs(ingresses: &[IngressView]) -> Vec<Json> {
    let mut refs: Vec<Json> = Vec::new();
    for gateway in ingresses.iter().map(IngressView::gateway) {
        let mut reference = json!({"name": gateway.name, "namespace": gateway.namespace});
        if let (Some(section), Some(map)) = (&gateway.section, reference.as_object_mut()) {
            map.insert("sectionName".to_owned(), json!(section));
        }
        if !refs.contains(&reference) {
            refs.push(reference);
        }
    }
    refs
}

/// Writes `spec.analysis`. Iterations come before weights, and a list of weights before even ones, as Flagger reads them.
fn analysis(canary: &Canary, app: CanaryApp<'_>, templates: &[MetricTemplateView]) -> Json {
    let mut analysis = Map::new();
    let mut set = |key: &str, value: Option<Json>| {
        if let Some(value) = value {
            analysis.insert(key.to_owned(), value);
        }
    };
    set("interval", canary.interval.as_deref().map(|text| json!(write_time(text))));
    set("threshold", canary.threshold.map(Json::from));
    if let Some(iterations) = canary.iterations {
        set("iterations", Some(iterations.into()));
        set("match", canary.match_.as_ref().map(|list| list.iter().map(header_match).collect()));
    } else if let Some(weights) = &canary.step_weights {
        set("stepWeights", Some(json!(weights)));
    } else {
        set("maxWeight", canary.max_weight.map(Json::from));
        set("stepWeight", canary.step_weight.map(Json::from));
    }
    set("stepWeightPromotion", canary.step_weight_promotion.map(Json::from));
    set("mirror", canary.mirror.filter(|mirror| *mirror).map(Json::from));
    set("mirrorWeight", canary.mirror_weight.map(Json::from));
    let metric = |metric: &CanaryMetric| metric_view(metric, canary, app.slug, templates);
    let metrics: Vec<Json> = canary.metrics().iter().map(metric).collect();
    set("metrics", (!metrics.is_empty()).then_some(Json::Array(metrics)));
    let webhooks: Vec<Json> = canary.webhooks().iter().map(webhook_view).collect();
    set("webhooks", (!webhooks.is_empty()).then_some(Json::Array(webhooks)));
    Json::Object(analysis)
}

fn header_match(one: &CanaryMatch) -> Json {
    let value = |value: &HeaderMatch| {
        let HeaderMatch { exact, prefix, regex } = value;
        let words = [("exact", exact), ("prefix", prefix), ("regex", regex)];
        let set = words.into_iter().filter_map(|(key, text)| Some((key, text.as_ref()?)));
        json!(set.collect::<BTreeMap<_, _>>())
    };
    let headers = one.headers.iter().flatten();
    let headers: Map<String, Json> = headers
        .filter_map(|(name, header)| Some((name.clone(), value(header.as_ref()?))))
        .collect();
    json!({"headers": headers})
}

fn metric_view(
    metric: &CanaryMetric,
    canary: &Canary,
    slug: &str,
    templates: &[MetricTemplateView],
) -> Json {
    let mut view = Map::new();
    view.insert("name".to_owned(), json!(metric.name));
    let interval = metric.interval.as_deref().or(canary.interval.as_deref());
    if let Some(interval) = interval {
        view.insert("interval".to_owned(), json!(write_time(interval)));
    }
    let range = |range: &ThresholdRange| {
        let ends = [("min", range.min), ("max", range.max)];
        let set = ends.into_iter().filter_map(|(key, end)| Some((key.to_owned(), number(end?))));
        Json::Object(set.collect())
    };
    if let Some(threshold_range) = &metric.threshold_range {
        view.insert("thresholdRange".to_owned(), range(threshold_range));
    }
    let name = template_name(slug, &metric.name);
    if templates.iter().any(|template| template.name == name) {
        view.insert("templateRef".to_owned(), json!({"name": name}));
    }
    Json::Object(view)
}

/// Writes a whole number without a point.
#[expect(clippy::cast_possible_truncation, reason = "only whole numbers that an i64 has")]
fn number(value: f64) -> Json {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT { json!(value as i64) } else { json!(value) }
}

fn webhook_view(webhook: &CanaryWebhook) -> Json {
    let CanaryWebhook { name, type_, url, timeout, retries, mute_alert, metadata } = webhook;
    let mut view = Map::new();
    let mut set = |key: &str, value: Option<Json>| {
        if let Some(value) = value {
            view.insert(key.to_owned(), value);
        }
    };
    set("name", Some(json!(name)));
    set("type", Some(json!(type_.unwrap_or(WebhookType::Rollout))));
    set("url", url.as_ref().map(|url| json!(url)));
    set("timeout", timeout.as_deref().map(|text| json!(write_time(text))));
    set("retries", retries.map(Json::from));
    set("muteAlert", mute_alert.map(Json::from));
    let texts: Map<String, Json> = metadata
        .iter()
        .flatten()
        .filter_map(|(key, text)| Some((key.clone(), json!(text.as_ref()?))))
        .collect();
    set("metadata", (!texts.is_empty()).then_some(Json::Object(texts)));
    Json::Object(view)
}

fn template_name(slug: &str, metric: &str) -> String {
    naming::join_name(slug, metric)
}

/// Lists the measurements that Flagger needs a template for: the app's own, and with the Gateway API the built-in
/// ones, too. Flagger's own queries for it read what the app counts itself; what the gateway counts is known better.
fn metric_templates(
    canary: &Canary,
    app: CanaryApp<'_>,
    port: &PortRef<'_>,
) -> Vec<MetricTemplateView> {
    let platform = &app.target.platform;
    let Some(address) = &platform.canary.prometheus else { return Vec::new() };
    let by_gateway = app.provider() == CanaryProvider::Gateway;
    let query = |metric: &CanaryMetric| match &metric.query {
        Some(query) => Some(query.clone()),
        None if by_gateway && metric.is_built_in() => {
            Some(gateway_query(&platform.monitoring, &metric.name, port))
        }
        None => None,
    };
    let template = |metric: &CanaryMetric| {
        let name = template_name(app.slug, &metric.name);
        Some(MetricTemplateView { name, address: address.clone(), query: query(metric)? })
    };
    canary.metrics().iter().filter_map(template).collect()
}

/// Writes a built-in measurement by what the gateway's own program counts. Traefik names its services as
/// `gateway/httproute.go`, `loadService` does, see the view of objectives.
fn gateway_query(monitoring: &Monitoring, metric: &str, port: &PortRef<'_>) -> String {
    let (count, bucket, labels, errors, scale) = match monitoring.http {
        HttpMetrics::Traefik => (
            "traefik_service_requests_total",
            "traefik_service_request_duration_seconds_bucket",
            format!(
                r#"service=~"({SERVICE}-canary-(http-)?{}|httproute-.+-svc-{SERVICE}-canary-[0-9]+)@kubernetesgateway""#,
                port.number
            ),
            r#"code!~"5..""#,
            " * 1000",
        ),
        HttpMetrics::Istio => (
            "istio_requests_total",
            "istio_request_duration_milliseconds_bucket",
            istio_labels(monitoring.istio_reporter).to_owned(),
            r#"response_code!~"5..""#,
            "",
        ),
    };
    if metric == SUCCESS_RATE {
        format!(
            "sum(rate({count}{{{labels}, {errors}}}[{INTERVAL}]))\n/\nsum(rate({count}{{{labels}}}[{INTERVAL}])) * 100"
        )
    } else {
        format!(
            "histogram_quantile(0.99, sum by (le) (rate({bucket}{{{labels}}}[{INTERVAL}]))){scale}"
        )
    }
}

/// The places that Flagger fills in.
const SERVICE: &str = "{{ namespace }}-{{ service }}";
const INTERVAL: &str = "{{ interval }}";

fn istio_labels(reporter: IstioReporter) -> &'static str {
    match reporter {
        IstioReporter::Destination => {
            r#"reporter="destination", destination_workload_namespace="{{ namespace }}", destination_workload="{{ target }}""#
        }
        IstioReporter::Source => {
            r#"reporter="source", destination_service_namespace="{{ namespace }}", destination_service_name="{{ service }}-canary""#
        }
    }
}
