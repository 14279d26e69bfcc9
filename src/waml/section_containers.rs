//! The parts of a section that say what runs beside the app's own container: containers before it and with it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::waml::section_network::Protocol;
use crate::waml::section_workload::{EnvVar, Probes, Resources};

/// A container beside the app's own in each of its pods. `security` is for all of a pod's containers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExtraContainer {
    /// The container's name.
    pub name: String,
    /// The whole image, `ghcr.io/acme/proxy:1.2`; absent: the app's own, with the app's environment and all its volumes.
    #[serde(default)]
    pub image: Option<String>,
    /// Replaces the image's entry point.
    #[serde(default)]
    pub command: Option<Vec<String>>,
    /// Replaces the image's arguments.
    #[serde(default)]
    pub args: Option<Vec<String>>,
    /// Environment variables, merged by `name`; with the app's image they are added to the app's.
    #[serde(default)]
    pub env: Option<Vec<EnvVar>>,
    /// CPU and memory of the container.
    #[serde(default)]
    pub resources: Option<Resources>,
    /// The app's volumes that it sees, merged by `name`.
    #[serde(default)]
    pub mounts: Option<Vec<Mount>>,
    /// The ports that it listens on, merged by `name`; of sidecars only.
    #[serde(default)]
    pub ports: Option<Vec<ContainerPort>>,
    /// The probes of its health; of sidecars only.
    #[serde(default)]
    pub probes: Option<Probes>,
}

impl ExtraContainer {
    /// Checks that it runs the app's own image.
    pub fn is_of_app(&self) -> bool {
        self.image.is_none()
    }
}

/// A job that runs to its end before a release replaces pods, such as a migration of a database. It is the app's image with
/// the app's environment, secrets and rights, and runs again with each release: it must bear that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReleaseJob {
    /// The job's name.
    pub name: String,
    /// Replaces the image's entry point.
    #[serde(default)]
    pub command: Option<Vec<String>>,
    /// Replaces the image's arguments.
    #[serde(default)]
    pub args: Option<Vec<String>>,
    /// Environment variables beside the app's, merged by `name`.
    #[serde(default)]
    pub env: Option<Vec<EnvVar>>,
    /// CPU and memory; absent: the app's.
    #[serde(default)]
    pub resources: Option<Resources>,
    /// Seconds until it is stopped and has failed; absent: 600.
    #[serde(default)]
    #[schemars(range(min = 1, max = 86_400))]
    pub active_deadline_seconds: Option<u32>,
    /// Failed tries before it has failed; absent: 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    pub backoff_limit: Option<u32>,
}

/// A volume of the app, seen by another of its containers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mount {
    /// The name of one of the app's `volumes`, or of one of its `secrets` that has a folder.
    pub name: String,
    /// The folder in the container; absent: the same as in the app's.
    #[serde(default)]
    pub mount_path: Option<String>,
    /// True if the container may not write; absent: as the app's.
    #[serde(default)]
    pub read_only: Option<bool>,
}

/// A port that a container listens on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerPort {
    /// The port's name, unique in the app.
    pub name: String,
    /// The number.
    #[schemars(range(min = 1, max = 65_535))]
    pub number: u16,
    /// TCP if absent.
    #[serde(default)]
    pub protocol: Option<Protocol>,
}
