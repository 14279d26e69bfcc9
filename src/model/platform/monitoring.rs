//! Metrics, alerts, and the classes of objectives.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::id::{AppKey, TargetName};
use crate::model::platform::problem::PlatformProblem;

/// Metrics and alerts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Monitoring {
    /// True if each app gets its `PrometheusRule` objects. `false` where the Prometheus operator, which defines that
    /// kind, is not installed. Default: true.
    pub enabled: bool,
    /// The source of the metrics that count HTTP requests.
    pub http: HttpMetrics,
    /// The side of a connection that Istio's metrics are taken from.
    pub istio_reporter: IstioReporter,
    /// The source of the metrics of an app's database.
    pub database: StoreMetrics,
    /// The source of the metrics of an app's Redis.
    pub redis: StoreMetrics,
    /// Labels of every `PrometheusRule`, so that the `ruleSelector` of a Prometheus finds it:
    /// `{release: prometheus}`.
    pub rule_labels: BTreeMap<String, String>,
    /// Labels of every `PodMonitor` and `ServiceMonitor`, so that a Prometheus finds it: `{release: prometheus}`.
    pub monitor_labels: BTreeMap<String, String>,
    /// The values of the label `severity`, by which Alertmanager routes.
    pub severities: Severities,
    /// The runbook of an alert, where the WAML has no link called `Runbook`. `{alert}`,
    /// `{namespace}`, `{slug}` and `{target}` are filled in.
    #[schemars(extend("format" = "url"))]
    pub runbook_url: Option<String>,
    /// The dashboard of an app, where the WAML has no link called `Dashboard`. Filled in likewise.
    #[schemars(extend("format" = "url"))]
    pub dashboard_url: Option<String>,
    /// The bounds of the histograms that latency is read from, where they are not the usual ones.
    pub latency_bounds: LatencyBounds,
    /// The classes of objectives.
    pub slo: Objectives,
}

impl Default for Monitoring {
    fn default() -> Self {
        Self {
            enabled: true,
            http: HttpMetrics::default(),
            istio_reporter: IstioReporter::default(),
            database: StoreMetrics::default(),
            redis: StoreMetrics::default(),
            rule_labels: BTreeMap::new(),
            monitor_labels: BTreeMap::new(),
            severities: Severities::default(),
            runbook_url: None,
            dashboard_url: None,
            latency_bounds: LatencyBounds::default(),
            slo: Objectives::default(),
        }
    }
}

/// The source of the metrics that count HTTP requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HttpMetrics {
    /// `traefik_service_requests_total` and its kin.
    #[default]
    Traefik,
    /// `istio_requests_total` and its kin.
    Istio,
}

/// The side of a connection that reports it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IstioReporter {
    /// The app's own proxy: it counts every request that reached a pod.
    #[default]
    Destination,
    /// The caller's proxy: also what reached no pod, but only from callers in the mesh.
    Source,
}

/// The source of a store's metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StoreMetrics {
    /// The program that measures. Default: `stackdriver` for a database and for Memorystore, and for a Redis in the
    /// cluster its `cloud.redis_exporter`.
    pub source: Option<StoreSource>,
    /// The label matchers that find an app's store among all, with `{namespace}`, `{slug}` and
    /// `{target}` filled in: `namespace="{namespace}", service="{slug}-redis"`. Default: see
    /// `docs/alerts.md`.
    pub selector: Option<String>,
}

/// The program that measures a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StoreSource {
    /// `postgres_exporter`, `mysqld_exporter` or `redis_exporter`, beside the store.
    Exporter,
    /// Google's own monitoring through `stackdriver_exporter`, for Cloud SQL and Memorystore.
    Stackdriver,
}

/// The values of the label `severity`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Severities {
    /// An alert for which a person gets up. Default: `page`.
    pub page: String,
    /// An alert for working hours. Default: `ticket`.
    pub ticket: String,
    /// An alert that is only recorded. Default: `info`.
    pub info: String,
}

impl Default for Severities {
    fn default() -> Self {
        Self { page: "page".to_owned(), ticket: "ticket".to_owned(), info: "info".to_owned() }
    }
}

/// The bounds of histograms in milliseconds. A latency objective can only be one of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LatencyBounds {
    /// The bounds of HTTP histograms: Traefik's `metrics.prometheus.buckets`, or Istio's. Default: the defaults of
    /// these programs.
    pub http: Option<Vec<u32>>,
    /// The bounds of the apps' gRPC servers. Default: the defaults of go-grpc-prometheus.
    pub grpc: Option<Vec<u32>>,
}

/// The classes of objectives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Objectives {
    /// The classes that a WAML's `slo.requestClass` names. A written class replaces the default: `critical` 99.99 %,
    /// `high` 99.9 %, `medium` 99.5 %, `low` 99 %.
    pub classes: BTreeMap<String, SloClass>,
}

impl Default for Objectives {
    fn default() -> Self {
        let class = |(name, availability): (&str, f64)| {
            (name.to_owned(), SloClass { availability, latency: None })
        };
        let classes = [("critical", 99.99), ("high", 99.9), ("medium", 99.5), ("low", 99.0)];
        Self { classes: classes.map(class).into() }
    }
}

/// The objective of one class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SloClass {
    /// Percent of requests that succeed.
    pub availability: f64,
    /// The latency objective.
    #[serde(default)]
    pub latency: Option<SloLatency>,
}

/// A latency objective.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SloLatency {
    /// Milliseconds within which a request is answered.
    #[schemars(range(min = 1, max = 600_000))]
    pub milliseconds: u32,
    /// Percent of requests that are that fast.
    pub objective: f64,
}

impl Monitoring {
    /// Lists the faults that a schema does not see: the path of each wrong value, the fault, and the way out.
    pub fn problems(&self) -> Vec<PlatformProblem> {
        let classes = self.slo.classes.iter().flat_map(|(name, class)| {
            let wrong = class.percentages().filter(|(_, percent)| !is_percent(*percent));
            wrong.map(move |(key, percent)| {
                let message = format!("{percent} percent cannot be promised");
                let help = "write more than 0 and less than 100, as in 99.9";
                PlatformProblem {
                    key: format!("monitoring.slo.classes.{name}.{key}"),
                    message,
                    help,
                }
            })
        });
        let labels = self.rule_labels.iter().filter(|(key, value)| !is_label(key, value));
        let labels = labels.map(|(key, _)| {
            let help = "write it as Kubernetes takes it: `release: prometheus`";
            let message = "this is not a legal label".to_owned();
            PlatformProblem { key: format!("monitoring.rule_labels.{key}"), message, help }
        });
        classes.chain(labels).collect()
    }
}

impl SloClass {
    fn percentages(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let fast = self.latency.map(|latency| ("latency.objective", latency.objective));
        [("availability", self.availability)].into_iter().chain(fast)
    }
}

/// Checks that so many percent can be promised: none are no promise, and all leave no error budget.
pub fn is_percent(percent: f64) -> bool {
    percent > 0.0 && percent < 100.0
}

fn is_label(key: &str, value: &str) -> bool {
    let part = |text: &str| {
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        text.len() <= 63
            && text.chars().all(inner)
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    let (prefix, name) = key.rsplit_once('/').unwrap_or(("a", key));
    prefix.split('.').all(part) && part(name) && (value.is_empty() || part(value))
}

/// Fills in an app's names in a pattern of the operator's.
pub fn fill_pattern(pattern: &str, app: &AppKey, target: &TargetName) -> String {
    pattern
        .replace("{namespace}", app.namespace.as_str())
        .replace("{slug}", app.slug.as_str())
        .replace("{target}", target.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::{Namespace, Slug};

    fn read(json: serde_json::Value) -> Monitoring {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let monitoring = Monitoring::default();
        assert_eq!(read(serde_json::json!({})), monitoring);
        assert!(monitoring.enabled);
        let availabilities: Vec<_> =
            monitoring.slo.classes.iter().map(|(n, c)| (n.as_str(), c.availability)).collect();
        assert_eq!(
            availabilities,
            [("critical", 99.99), ("high", 99.9), ("low", 99.0), ("medium", 99.5)]
        );
        assert_eq!(monitoring.problems(), []);
    }

    #[test]
    fn what_cannot_be_promised_or_labelled_is_a_problem() {
        let monitoring = read(serde_json::json!({
            "slo": {"classes": {"all": {"availability": 100.0},
                "none": {"availability": 99.0, "latency": {"milliseconds": 300, "objective": 0.0}}}},
            "rule_labels": {"release": "a b", "a.b/c": "d"},
        }));
        let paths: Vec<String> =
            monitoring.problems().into_iter().map(|problem| problem.key).collect();
        assert_eq!(
            paths,
            [
                "monitoring.slo.classes.all.availability",
                "monitoring.slo.classes.none.latency.objective",
                "monitoring.rule_labels.release"
            ]
        );
    }

    #[test]
    fn names_are_filled_in() {
        let app = AppKey {
            namespace: Namespace::parse("devx").unwrap(),
            slug: Slug::parse("my-app").unwrap(),
        };
        let target = TargetName::parse("prod").unwrap();
        assert_eq!(
            fill_pattern("{target}/{namespace}/{slug}/{x}", &app, &target),
            "prod/devx/my-app/{x}"
        );
    }
}
