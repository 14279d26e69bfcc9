//! Probes in Kubernetes' own shape.

use serde_json::{Map, Value as Json, json};

use crate::templates::view::network;
use crate::templates::view::network::{GrpcPorts, PortRef};
use crate::waml::node::{Node, Path, is_from_waml};
use crate::waml::section::Section;
use crate::waml::section_containers::ExtraContainer;
use crate::waml::section_workload::{Probe, ProbeMechanism, Probes};

/// The kinds of probes, as a WAML names them.
pub(crate) const KINDS: [&str; 3] = ["liveness", "readiness", "startup"];

/// The probes of a container with what decides how they ask.
pub(crate) struct ProbedApp<'a> {
    tree: &'a Node,
    /// The place of the probes.
    pub(crate) path: Path,
    probes: Option<&'a Probes>,
    pub(crate) ports: Vec<PortRef<'a>>,
    grpc: GrpcPorts,
}

impl<'a> ProbedApp<'a> {
    /// Takes the complete settings, and the tree that they were read from.
    pub(crate) fn of(section: &'a Section, tree: &'a Node, slug: &'a str) -> Self {
        Self {
            tree,
            path: Path::root().key("probes"),
            probes: section.probes.as_ref(),
            ports: network::app_ports(section, slug),
            grpc: GrpcPorts::of(section, slug),
        }
    }

    /// Takes a container beside the app's own, and its place.
    pub(crate) fn of_container(container: &'a ExtraContainer, tree: &'a Node, path: &Path) -> Self {
        let ports = container.ports.iter().flatten().map(PortRef::of_container);
        Self {
            tree,
            path: path.key("probes"),
            probes: container.probes.as_ref(),
            ports: ports.collect(),
            grpc: GrpcPorts::default(),
        }
    }

    /// Returns the probe of that kind.
    pub(crate) fn get(&self, kind: &str) -> Option<&'a Probe> {
        let Probes { liveness, readiness, startup } = self.probes?;
        match kind {
            "liveness" => liveness.as_ref(),
            "readiness" => readiness.as_ref(),
            _ => startup.as_ref(),
        }
    }

    /// Checks that the WAML has that key of the probe: the template's value does not count.
    pub(crate) fn is_written(&self, kind: &str, key: &str) -> bool {
        let path = self.path.key(kind).key(key);
        self.tree.at(&path).is_some_and(is_from_waml)
    }

    /// Checks that the probe's port serves gRPC.
    pub(crate) fn asks_grpc_port(&self, probe: &Probe) -> bool {
        network::probed(&self.ports, probe.port.as_deref())
            .is_some_and(|p| self.grpc.serves_grpc(p))
    }

    /// Finds the probe that says how this one asks, with its kind: a startup probe that says nothing about it asks as
    /// liveness does, or else readiness.
    pub(crate) fn asking<'p>(&'p self, kind: &'p str, probe: &'p Probe) -> (&'p str, &'p Probe) {
        let Probe { mechanism, path, port, service, command, .. } = probe;
        let says_how = mechanism.is_some()
            || [path, port, service].iter().any(|text| text.is_some())
            || command.is_some();
        if kind != "startup" || says_how {
            return (kind, probe);
        }
        ["liveness", "readiness"]
            .into_iter()
            .find_map(|kind| Some((kind, self.get(kind)?)))
            .unwrap_or((kind, probe))
    }

    /// Returns the kind of the probe. A template's path is for apps that speak HTTP: a port that serves gRPC would
    /// never answer it, and the app would never become ready.
    pub(crate) fn mechanism(&self, kind: &str, probe: &Probe) -> ProbeMechanism {
        let (kind, probe) = self.asking(kind, probe);
        match probe {
            Probe { mechanism: Some(mechanism), .. } => *mechanism,
            Probe { command: Some(_), .. } => ProbeMechanism::Exec,
            Probe { path: None, .. } => ProbeMechanism::Tcp,
            _ if self.asks_grpc_port(probe) && !self.is_written(kind, "path") => {
                ProbeMechanism::Grpc
            }
            _ => ProbeMechanism::Http,
        }
    }

    /// Shows `liveness`, `readiness` and `startup`, each in the form of a container's; null without one.
    pub(super) fn view(&self) -> Json {
        let probe_of = |kind: &str| {
            let probe = self.get(kind).and_then(|probe| self.container_probe(kind, probe));
            (kind.to_owned(), probe.unwrap_or(Json::Null))
        };
        Json::Object(KINDS.into_iter().map(probe_of).collect())
    }

    /// Shows a probe in the form of a container's; `None` where there is nothing to probe: no command, and no TCP port
    /// in the whole app.
    fn container_probe(&self, kind: &str, probe: &Probe) -> Option<Json> {
        let (_, Probe { path, port, service, command, .. }) = self.asking(kind, probe);
        let Probe {
            initial_delay_seconds,
            period_seconds,
            timeout_seconds,
            failure_threshold,
            success_threshold,
            ..
        } = probe;
        let mut out = Map::new();
        let port_of = || port_of(port.as_deref(), &self.ports);
        let (key, handler) = match self.mechanism(kind, probe) {
            ProbeMechanism::Exec => ("exec", json!({"command": command})),
            ProbeMechanism::Http => {
                ("httpGet", json!({"path": path.as_deref().unwrap_or("/"), "port": port_of()?}))
            }
            ProbeMechanism::Tcp => ("tcpSocket", json!({"port": port_of()?})),
            // Kubernetes takes no name here.
            ProbeMechanism::Grpc => {
                let of_service = network::probed(&self.ports, port.as_deref()).map(|p| p.target);
                let port = of_service.or_else(|| number(port.as_deref()?))?;
                ("grpc", with_service(port, service.as_deref()))
            }
        };
        out.insert(key.to_owned(), handler);
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
}

fn with_service(port: u16, service: Option<&str>) -> Json {
    match service {
        Some(service) => json!({"port": port, "service": service}),
        None => json!({"port": port}),
    }
}

/// Returns the port's name where the container knows it by that, its number otherwise: where two
/// services lead to one container port, it has the first one's name. A container may listen where
/// no service leads, so any number will do.
pub(super) fn port_of(port_name: Option<&str>, ports: &[PortRef<'_>]) -> Option<Json> {
    let Some(port) = network::probed(ports, port_name) else {
        return port_name.and_then(number).map(|number| json!(number));
    };
    let in_container = network::container_ports(ports);
    let is_named = in_container.iter().any(|p| p.name == port.name && p.number == port.target);
    let by_number = port_name.is_some_and(|name| name != port.name);
    Some(if is_named && !by_number { json!(port.name) } else { json!(port.target) })
}

/// Parses the number of a port, if the text is one.
pub(crate) fn number(text: &str) -> Option<u16> {
    text.parse().ok().filter(|number| *number > 0 && text.bytes().all(|b| b.is_ascii_digit()))
}
