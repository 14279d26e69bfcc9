//! The parts of a section about the way to the app: services, ingresses, paths, caching.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A service: a stable name in the cluster for the app's ports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Service {
    /// The service's name; absent: the slug.
    pub name: Option<String>,
    /// The ports, merged by `name`.
    pub ports: Option<Vec<Port>>,
    /// The number of a port that has none.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<u16>,
    /// True if its name leads to each pod by itself, not to one address for all. Kubernetes refuses to change it.
    pub headless: Option<bool>,
}

/// One port of a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Port {
    /// The port's name, unique in the app.
    pub name: String,
    /// The number that others use.
    #[serde(default)]
    #[schemars(range(min = 1, max = 65_535))]
    pub number: Option<u16>,
    /// The number that the container listens on; absent: the same.
    #[serde(default)]
    #[schemars(range(min = 1, max = 65_535))]
    pub target_port: Option<u16>,
    /// TCP if absent.
    #[serde(default)]
    pub protocol: Option<Protocol>,
}

/// A transport protocol.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// TCP
    Tcp,
    /// UDP
    Udp,
}

/// An address under which the app is reached from outside its cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Ingress {
    /// The whole host name.
    pub host: Option<String>,
    /// The host name without the target's domain.
    pub host_prefix: Option<String>,
    /// True if it is reached from the internet; absent or `false`: from inside only.
    pub public: Option<bool>,
    /// The paths, merged by `path`; absent: `/`.
    pub paths: Option<Vec<IngressPath>>,
    /// The service's port, for paths that name none; absent: the only one that there is.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<u16>,
    /// Caching of answers, for paths without their own; absent: as the app says.
    pub cache: Option<Cache>,
}

/// A path prefix, and where it leads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct IngressPath {
    /// The prefix; absent: `/`.
    pub path: Option<String>,
    /// The number of a port of the service.
    #[schemars(range(min = 1, max = 65_535))]
    pub service_port: Option<u16>,
    /// The service's name; absent: the first service that has the port.
    pub service: Option<String>,
    /// Caching of answers, instead of the ingress's.
    pub cache: Option<Cache>,
}

/// Caching of answers in browsers: the header `Cache-Control`, set over the app's own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Cache {
    /// Seconds; 0 or absent: kept, but asked for each time (`no-cache`).
    #[schemars(range(min = 0, max = 31_536_000))]
    pub max_age: Option<u32>,
    /// True if the answer never changes under its path, so that browsers do not ask before the time is over.
    pub immutable: Option<bool>,
}
