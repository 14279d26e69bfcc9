//! The indicators of an objective: requests per second in all, and those that missed the objective.
//!
//! - Traefik counts by its own services, whose names `traefik` works out.
//! - Istio counts by workload, or by service where the caller's proxy reports.
//! - gRPC servers count themselves (go-grpc-prometheus and its likes in other languages).

use std::collections::BTreeSet;

use crate::model::platform::monitoring::{HttpMetrics, IstioReporter};
use crate::templates::view::alerts::GRPC_FAILED;
use crate::templates::view::network;
use crate::templates::view::observability::ObservedApp;
use crate::templates::view::slo::{ObjectiveView, traefik};

/// One objective with its two numbers of requests.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Indicator {
    /// `http-availability`: the label `slo`.
    pub(crate) name: &'static str,
    /// The objective, in percent.
    pub(crate) percent: f64,
    /// Requests per second, over the last 5 minutes.
    pub(crate) all: String,
    /// The failed requests; never more than `all`.
    pub(crate) failed: String,
    /// The fault of a failed request, for people: `failed`, `took longer than 300 ms`.
    pub(crate) fault: String,
}

/// Metrics of one kind of requests.
struct Requests {
    counter: &'static str,
    histogram: &'static str,
    /// Matchers for the app's requests.
    own: String,
    /// The matcher for those that failed.
    failed: &'static str,
    /// The matcher for those whose latency counts: a fast failure is no fast answer.
    timed: &'static str,
    /// The milliseconds of the histogram's unit.
    unit: f64,
}

/// Lists all that is promised and can be measured.
pub(crate) fn indicators(watched: &ObservedApp<'_>, promise: &ObjectiveView) -> Vec<Indicator> {
    let kinds = [
        (http(watched), "http-availability", "http-latency"),
        (grpc(watched), "grpc-availability", "grpc-latency"),
    ];
    let indicators_of = |(requests, availability, latency): (Option<Requests>, _, _)| {
        let requests = requests?;
        let available = promise.availability.map(|p| requests.availability(availability, p));
        let fast = promise.milliseconds.zip(promise.fast);
        let fast = fast.map(|(milliseconds, p)| requests.latency(latency, milliseconds, p));
        Some(available.into_iter().chain(fast))
    };
    kinds.into_iter().filter_map(indicators_of).flatten().collect()
}

impl ObservedApp<'_> {
    /// Checks that requests of that kind, `http` or `grpc`, are counted.
    pub(crate) fn measures(&self, kind: &str) -> bool {
        if kind == "http" { http(self).is_some() } else { grpc(self).is_some() }
    }
}

/// Finds the part that the app lacks for any objective to be measured, with the way out.
pub(crate) fn find_missing_part(watched: &ObservedApp<'_>) -> Option<(&'static str, &'static str)> {
    if watched.measures("http") || watched.measures("grpc") {
        return None;
    }
    Some(match watched.monitoring().http {
        HttpMetrics::Traefik => (
            "no request to the app would be counted: it has no ingress that leads to a port, and no `grpc`",
            "add an `ingress`, or `grpc` where the app serves gRPC; or remove `slo`",
        ),
        HttpMetrics::Istio => (
            "no request to the app would be counted: it has no service with a TCP port, and no `grpc`",
            "add a `service`, or `grpc` where the app serves gRPC; or remove `slo`",
        ),
    })
}

/// Returns the bounds of histograms that are usual for what measures, in milliseconds: HTTP, then
/// gRPC.
///
/// Traefik: `metrics.prometheus.buckets`; Istio: Envoy's `stats_config.histogram_bucket_settings`;
/// gRPC: the default buckets of Prometheus' Go client, those below a millisecond left out.
pub(crate) fn usual_bounds(http: HttpMetrics) -> (&'static [u32], &'static [u32]) {
    const GRPC: &[u32] = &[5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000];
    const ISTIO: &[u32] = &[
        1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000, 600_000,
    ];
    match http {
        HttpMetrics::Traefik => (&[100, 300, 1200, 5000], GRPC),
        HttpMetrics::Istio => (ISTIO, GRPC),
    }
}

impl Requests {
    fn rate(&self, metric: &str, suffix: &str, extra: &str) -> String {
        let comma = if extra.is_empty() { "" } else { ", " };
        format!("sum(rate({metric}{suffix}{{{}{comma}{extra}}}[5m]))", self.own)
    }

    /// Makes the indicator of availability: without a single failure there is no series of
    /// failures: then there are none.
    fn availability(&self, name: &'static str, percent: f64) -> Indicator {
        Indicator {
            name,
            percent,
            all: self.rate(self.counter, "", ""),
            failed: format!("{}\nor vector(0)", self.rate(self.counter, "", self.failed)),
            fault: "failed".to_owned(),
        }
    }

    fn latency(&self, name: &'static str, milliseconds: u32, percent: f64) -> Indicator {
        let fast = format!("{}, le=~\"{}\"", self.timed, bound(milliseconds, self.unit));
        let total = self.rate(self.histogram, "_count", self.timed);
        let fast = self.rate(self.histogram, "_bucket", &fast);
        Indicator {
            name,
            percent,
            failed: format!("clamp_min(\n  {total}\n  - {fast},\n  0\n)"),
            all: total,
            fault: format!("took longer than {milliseconds} ms"),
        }
    }
}

/// Writes the label of a bucket, in all spellings: a bound of 5 is `5` or, from Prometheus 3 on,
/// `5.0`.
fn bound(milliseconds: u32, unit: f64) -> String {
    let bound = f64::from(milliseconds) / unit;
    let text = bound.to_string().replace('.', "\\\\.");
    if bound.fract() == 0.0 { format!("{text}(\\\\.0)?") } else { text }
}

fn http(watched: &ObservedApp<'_>) -> Option<Requests> {
    match watched.monitoring().http {
        HttpMetrics::Traefik => traefik(watched),
        HttpMetrics::Istio => istio(watched),
    }
}

fn grpc(watched: &ObservedApp<'_>) -> Option<Requests> {
    watched.section.grpc.as_ref()?;
    Some(Requests {
        counter: "grpc_server_handled_total",
        histogram: "grpc_server_handling_seconds",
        own: watched.container(),
        failed: GRPC_FAILED,
        // A stream takes as long as it is needed.
        timed: "grpc_type=\"unary\"",
        unit: 1000.0,
    })
}

fn traefik(watched: &ObservedApp<'_>) -> Option<Requests> {
    let names: Vec<String> = traefik::names(watched).into_iter().collect();
    (!names.is_empty()).then(|| Requests {
        counter: "traefik_service_requests_total",
        histogram: "traefik_service_request_duration_seconds",
        own: format!("service=~\"{}\"", names.join("|")),
        failed: "code=~\"5..\"",
        timed: "code!~\"5..\"",
        unit: 1000.0,
    })
}

fn istio(watched: &ObservedApp<'_>) -> Option<Requests> {
    let (section, slug) = (watched.section, watched.slug());
    let ports = network::tcp_ports(section.services(), slug);
    let services: BTreeSet<&str> = ports.iter().map(|port| port.service).collect();
    if services.is_empty() {
        return None;
    }
    // Requests that the app's gRPC server counts itself are not counted twice.
    let protocol = if section.grpc.is_some() { r#", request_protocol="http""# } else { "" };
    Some(Requests {
        counter: "istio_requests_total",
        histogram: "istio_request_duration_milliseconds",
        own: istio_names(watched, &services) + protocol,
        failed: "response_code=~\"5..\"",
        timed: "response_code!~\"5..\"",
        unit: 1.0,
    })
}

/// Writes the matchers of Istio's names: a canary has a second workload, and the app's traffic go
/// to two services more.
fn istio_names(watched: &ObservedApp<'_>, services: &BTreeSet<&str>) -> String {
    let namespace = watched.namespace();
    let canary = |names: &'static str| if watched.section.canary.is_some() { names } else { "" };
    let versions = watched.version_workloads();
    let workload = match versions.as_slice() {
        [] => watched.workload(),
        versions => format!("({}|{})", watched.workload(), versions.join("|")),
    };
    let services = services.iter().copied().chain(versions.iter().map(String::as_str));
    match watched.monitoring().istio_reporter {
        IstioReporter::Destination => format!(
            r#"reporter="destination", destination_workload_namespace="{namespace}", destination_workload=~"{}{}""#,
            workload,
            canary("(-primary)?"),
        ),
        IstioReporter::Source => format!(
            r#"reporter="source", destination_service_namespace="{namespace}", destination_service_name=~"({}){}""#,
            services.collect::<Vec<_>>().join("|"),
            canary("(-primary|-canary)?"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_spelled_as_any_prometheus_has_them() {
        assert_eq!(bound(300, 1000.0), "0\\\\.3");
        assert_eq!(bound(5000, 1000.0), "5(\\\\.0)?");
        assert_eq!(bound(1200, 1000.0), "1\\\\.2");
        assert_eq!(bound(250, 1.0), "250(\\\\.0)?");
    }
}
