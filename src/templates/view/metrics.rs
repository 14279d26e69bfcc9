//! The place of an app's own metrics, for Prometheus.

use serde_json::{Value as Json, json};

use crate::model::target::Target;
use crate::templates::view::network::{self, PortRef};
use crate::waml::section::Section;
use crate::waml::section_network::Protocol;
use crate::waml::section_operations::MetricsEndpoint;

/// The name of the port that metrics are at, where there is one of that name.
const USUAL_PORT: &str = "metrics";

/// Lists the TCP ports that Prometheus can ask, by name: those of the app, and those of its sidecars.
pub(crate) fn ports<'a>(section: &'a Section, slug: &'a str) -> Vec<PortRef<'a>> {
    let of_sidecars = section.sidecars.iter().flatten().flat_map(|sidecar| sidecar.ports.iter());
    let of_sidecars = of_sidecars.flatten().map(PortRef::of_container);
    let mut ports = network::app_ports(section, slug);
    ports.extend(of_sidecars);
    ports.retain(|port| port.protocol == Protocol::Tcp);
    ports
}

/// Finds the port of the metrics.
pub(crate) fn port<'a>(endpoint: &MetricsEndpoint, ports: &[PortRef<'a>]) -> Option<PortRef<'a>> {
    let has_name = |name: &str| ports.iter().find(|port| port.name == name).cloned();
    match &endpoint.port {
        Some(name) => has_name(name),
        None => has_name(USUAL_PORT).or_else(|| ports.first().cloned()),
    }
}

/// Shows what Prometheus is to ask; null where the app says nothing of metrics, or nothing measures on the target.
pub(super) fn build_metrics_view(section: &Section, slug: &str, target: &Target) -> Json {
    let monitoring = &target.platform.monitoring;
    let Some(endpoint) = section.monitoring.as_ref().filter(|_| monitoring.enabled) else {
        return Json::Null;
    };
    let Some(port) = port(endpoint, &ports(section, slug)) else { return Json::Null };
    let interval = endpoint.interval_seconds.map(|seconds| format!("{seconds}s"));
    json!({
        "kind": endpoint.kind.unwrap_or_default(),
        "port": port.name,
        "path": endpoint.path.as_deref().unwrap_or("/metrics"),
        "interval": interval,
        "labels": monitoring.monitor_labels,
    })
}
