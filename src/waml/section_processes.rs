//! The part of a section about an app's processes: the same image, started in several ways.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::waml::section_containers::ContainerPort;
use crate::waml::section_operations::{Disruption, MetricsEndpoint};
use crate::waml::section_pod::{Lifecycle, Scheduling};
use crate::waml::section_workload::{Autoscaling, EnvVar, Probes, Resources, Scaling};

/// Processes by name, as a Procfile has them. `web` is the one that the app's Services lead to.
pub type Processes = IndexMap<String, Option<Process>>;

/// The process that the app's Services lead to; what it says is laid over the section.
pub const WEB: &str = "web";

/// One process of an app: pods of their own with the app's image, environment, secrets and files. What it says is laid over
/// what the section says for all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Process {
    /// Replaces the image's entry point.
    pub command: Option<Vec<String>>,
    /// Replaces the image's arguments.
    pub args: Option<Vec<String>>,
    /// Environment variables beside the app's, merged by `name`.
    pub env: Option<Vec<EnvVar>>,
    /// The ports that it listens on, merged by `name`.
    pub ports: Option<Vec<ContainerPort>>,
    /// CPU and memory; absent: the app's.
    pub resources: Option<Resources>,
    /// The number of its pods; absent: one. How they are replaced is the app's.
    pub scaling: Option<Scaling>,
    /// Scaling by load.
    pub autoscaling: Option<Autoscaling>,
    /// The probes of its health; absent: none.
    pub probes: Option<Probes>,
    /// The begin and the end of its pods' life; absent: the app's.
    pub lifecycle: Option<Lifecycle>,
    /// The nodes that its pods run on; absent: the app's.
    pub scheduling: Option<Scheduling>,
    /// Its own metrics, for Prometheus.
    pub monitoring: Option<MetricsEndpoint>,
    /// The number of its pods that may be away at once when nodes are drained.
    pub disruption: Option<Disruption>,
}
