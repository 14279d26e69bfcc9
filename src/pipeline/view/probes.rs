//! Probes in Kubernetes' own shape.

use serde_json::{Map, Value as Json, json};

use crate::pipeline::view::network::{self, PortRef};
use crate::waml::section_workload::{Probe, Probes};

/// `liveness`, `readiness` and `startup`, each as it stands in a container; null without one.
pub(super) fn of(probes: Option<&Probes>, ports: &[PortRef<'_>]) -> Json {
    let one = |pick: fn(&Probes) -> &Option<Probe>| {
        probes
            .and_then(|probes| pick(probes).as_ref())
            .and_then(|probe| container_probe(probe, ports))
    };
    json!({
        "liveness": one(|p| &p.liveness),
        "readiness": one(|p| &p.readiness),
        "startup": one(|p| &p.startup),
    })
}

/// `None` where there is nothing to probe: no command, and no TCP port in the whole app.
fn container_probe(probe: &Probe, ports: &[PortRef<'_>]) -> Option<Json> {
    let Probe {
        path,
        port,
        command,
        initial_delay_seconds,
        period_seconds,
        timeout_seconds,
        failure_threshold,
        success_threshold,
    } = probe;
    let mut out = Map::new();
    let (key, how) = match command {
        Some(command) => ("exec", json!({"command": command})),
        None => by_port(path.as_deref(), &port_of(port.as_deref(), ports)?),
    };
    out.insert(key.to_owned(), how);
    let numbers = [
        ("initialDelaySeconds", initial_delay_seconds),
        ("periodSeconds", period_seconds),
        ("timeoutSeconds", timeout_seconds),
        ("failureThreshold", failure_threshold),
        ("successThreshold", success_threshold),
    ];
    for (key, number) in numbers {
        if let Some(number) = number {
            out.insert(key.to_owned(), json!(number));
        }
    }
    Some(Json::Object(out))
}

fn by_port(path: Option<&str>, port: &Json) -> (&'static str, Json) {
    match path {
        Some(path) => ("httpGet", json!({"path": path, "port": port})),
        None => ("tcpSocket", json!({"port": port})),
    }
}

/// The port's name where the container knows it by that, its number otherwise: where two services
/// lead to one container port, it has the first one's name.
fn port_of(wanted: Option<&str>, ports: &[PortRef<'_>]) -> Option<Json> {
    let port = network::probed(ports, wanted)?;
    let in_container = network::container_ports(ports);
    let named = in_container.iter().any(|p| p.name == port.name && p.number == port.target);
    let by_number = wanted.is_some_and(|wanted| wanted != port.name);
    Some(if named && !by_number { json!(port.name) } else { json!(port.target) })
}
