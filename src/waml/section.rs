//! The settings in one section of a WAML: a `defaults` entry, a `deploy.<target>` value, and, with lists written as
//! maps, a template's `defaults.yaml`.
//!
//! Everything is optional, because a section is one layer of several. Rules check that the result is complete. `null`
//! removes what earlier layers and the template set.

use std::sync::LazyLock;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::model::id::TargetName;
use crate::support::globs::Globs;
use crate::waml::checked_reader::Reader;
use crate::waml::duplicates::ElementPlace;
use crate::waml::node::{Node, Path};
use crate::waml::section_canary::Canary;
use crate::waml::section_containers::{ContainerPort, ExtraContainer, ReleaseJob};
use crate::waml::section_network::{Ingress, Service};
use crate::waml::section_operations::{
    Alerts, Cron, Database, Disruption, Grpc, Iam, MetricsEndpoint, Redis, Slo, Vault,
};
use crate::waml::section_patches::ObjectPatch;
use crate::waml::section_pod::{Lifecycle, Scheduling, Security};
use crate::waml::section_processes::{Process, Processes, WEB};
use crate::waml::section_traffic::{Traffic, Version};
use crate::waml::section_workload::{
    Autoscaling, ConfigMapSource, EnvVar, Image, Keda, Probes, Resources, Scaling, Secret, Volume,
};

/// One layer of deployment settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Section {
    /// The template to render, NAME or NAME@VERSION.
    #[schemars(extend("format" = "template"))]
    pub template: Option<String>,
    /// The container image.
    pub image: Option<Image>,
    /// Replaces the image's entry point.
    pub command: Option<Vec<String>>,
    /// Replaces the image's arguments.
    pub args: Option<Vec<String>>,
    /// Environment variables, merged by `name`.
    pub env: Option<Vec<EnvVar>>,
    /// `ConfigMap`s whose keys are environment variables, merged by `name`.
    pub config_maps: Option<Vec<ConfigMapSource>>,
    /// Secrets that the app needs, merged by `name`.
    pub secrets: Option<Vec<Secret>>,
    /// Services, merged by `name` (the slug where there is none).
    pub service: Option<Vec<Service>>,
    /// Addresses under which the app is reached, merged by `host` or `hostPrefix`.
    pub ingress: Option<Vec<Ingress>>,
    /// Ports of the app's container that no service leads to, such as that of its metrics; merged by `name`.
    pub ports: Option<Vec<ContainerPort>>,
    /// CPU and memory of the app's container.
    pub resources: Option<Resources>,
    /// The number of pods, and how they are replaced.
    pub scaling: Option<Scaling>,
    /// Scaling by load; then the number of replicas is the autoscaler's.
    pub autoscaling: Option<Autoscaling>,
    /// The probes with which Kubernetes checks that a pod lives and can serve.
    pub probes: Option<Probes>,
    /// The rights of the pods.
    pub security: Option<Security>,
    /// The begin and the end of a pod's life.
    pub lifecycle: Option<Lifecycle>,
    /// The nodes that the pods run on.
    pub scheduling: Option<Scheduling>,
    /// The app's own metrics, for Prometheus.
    pub monitoring: Option<MetricsEndpoint>,
    /// The service level objective.
    pub slo: Option<Slo>,
    /// Alerts beyond and instead of the default ones.
    pub alerts: Option<Alerts>,
    /// Rights in the cloud.
    pub iam: Option<Iam>,
    /// Rights in Vault.
    pub vault: Option<Vault>,
    /// The app speaks gRPC.
    pub grpc: Option<Grpc>,
    /// A database of the app's own.
    pub database: Option<Database>,
    /// A Redis of the app's own.
    pub redis: Option<Redis>,
    /// Runs on a schedule instead of always.
    pub cron: Option<Cron>,
    /// Containers that run before the app's own, each until it ends, in their order; merged by `name`.
    pub init_containers: Option<Vec<ExtraContainer>>,
    /// Containers that run beside the app's own, and begin before it and before `initContainers`; merged by `name`.
    pub sidecars: Option<Vec<ExtraContainer>>,
    /// Jobs that run before a release replaces pods, all at once; merged by `name`.
    pub jobs: Option<Vec<ReleaseJob>>,
    /// Several processes of the one image: `web`, which the Services lead to, and others without a Service.
    pub processes: Option<Processes>,
    /// Files and disks, merged by `name`.
    pub volumes: Option<Vec<Volume>>,
    /// The number of pods that may be away at once when nodes are drained.
    pub disruption: Option<Disruption>,
    /// Labels for every object.
    pub labels: Option<IndexMap<String, Option<String>>>,
    /// Annotations for the pods.
    pub annotations: Option<IndexMap<String, Option<String>>>,
    /// New releases get traffic step by step.
    pub canary: Option<Canary>,
    /// Several releases live at once, with shares of the traffic.
    pub versions: Option<Vec<Version>>,
    /// How requests are shared between the versions, by path and header.
    pub traffic: Option<Traffic>,
    /// Objects that this deployment may take away: such as keep data, and many at once.
    pub removes: Option<Vec<Removal>>,
    /// Changes of rendered objects, merged by `kind` and `name`.
    pub patches: Option<Vec<ObjectPatch>>,
    /// Files with further objects, as paths from the folder of the WAML: `k8s/dashboard.yaml`. They are applied as they
    /// are, without templating; a later layer's list is in the place of an earlier one's.
    pub manifests: Option<Vec<String>>,
    /// Values for the parameters that the template declares.
    pub parameters: Option<IndexMap<String, Json>>,
}

/// An object with data in it that may be taken away: without an entry, a deployment that would
/// remove it is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Removal {
    /// The object's kind: `PersistentVolumeClaim`.
    pub kind: String,
    /// The object's name.
    pub name: String,
}

static READER: LazyLock<Reader<Section>> = LazyLock::new(Reader::new);

impl Section {
    /// Returns the reader of sections. The first call builds it, which takes milliseconds: a service calls it at the
    /// start.
    pub fn reader() -> &'static Reader<Self> {
        &READER
    }

    /// Returns the place of a whole section, for who walks one.
    pub fn place() -> ElementPlace<'static> {
        READER.place()
    }

    /// Returns the services, none where there is no list.
    pub fn services(&self) -> &[Service] {
        self.service.as_deref().unwrap_or_default()
    }

    /// Returns true if the number of pods is an autoscaler's, which changes it by load or by events.
    pub fn is_autoscaled(&self) -> bool {
        let horizontal = self.autoscaling.as_ref().and_then(|a| a.horizontal.as_ref());
        horizontal.is_some() || self.keda().is_some()
    }

    /// Returns the scaling by events.
    pub fn keda(&self) -> Option<&Keda> {
        self.scaling.as_ref()?.keda.as_ref()
    }

    /// Lists the containers beside the app's own, each with its place: those that run before it, then the sidecars.
    pub fn extra_containers(&self) -> impl Iterator<Item = (Path, &ExtraContainer)> {
        let root = Path::root();
        root.each("initContainers", &self.init_containers)
            .chain(root.each("sidecars", &self.sidecars))
    }

    /// Lists the processes, each with its place.
    pub fn present_processes(&self) -> impl Iterator<Item = (Path, &Process)> {
        let place = Path::root().key("processes");
        let processes = self.processes.iter().flatten();
        processes.filter_map(move |(name, process)| Some((place.key(name), process.as_ref()?)))
    }

    /// Lists the processes beside `web`, each with its name.
    pub fn other_processes(&self) -> impl Iterator<Item = (&str, &Process)> {
        let processes = self.processes.iter().flatten().filter(|(name, _)| *name != WEB);
        processes.filter_map(|(name, process)| Some((name.as_str(), process.as_ref()?)))
    }

    /// Lists the environment variables of all containers, jobs and processes, each with its place.
    pub fn variables(&self) -> impl Iterator<Item = (Path, &EnvVar)> {
        let of_extra =
            self.extra_containers().flat_map(|(path, container)| path.each("env", &container.env));
        let jobs = Path::root().each("jobs", &self.jobs);
        let of_jobs = jobs.flat_map(|(path, job)| path.each("env", &job.env));
        let of_processes = self.present_processes();
        let of_processes = of_processes.flat_map(|(path, process)| path.each("env", &process.env));
        Path::root().each("env", &self.env).chain(of_extra).chain(of_jobs).chain(of_processes)
    }

    /// Lists the resources of all containers, jobs and processes, each with its place.
    pub fn all_resources(&self) -> impl Iterator<Item = (Path, &Resources)> {
        let of_extra = self.extra_containers().map(|(path, one)| (path, one.resources.as_ref()));
        let jobs = Path::root().each("jobs", &self.jobs);
        let of_jobs = jobs.map(|(path, job)| (path, job.resources.as_ref()));
        let all = std::iter::once((Path::root(), self.resources.as_ref()));
        let of_processes =
            self.present_processes().map(|(path, process)| (path, process.resources.as_ref()));
        all.chain(of_extra)
            .chain(of_jobs)
            .chain(of_processes)
            .filter_map(|(path, resources)| Some((path.key("resources"), resources?)))
    }

    /// Returns the addresses, none where there is no list.
    pub fn ingresses(&self) -> &[Ingress] {
        self.ingress.as_deref().unwrap_or_default()
    }
}

/// One entry of `defaults`.
#[derive(Debug, Clone)]
pub struct Defaults {
    /// The index of the entry in the file, from 0.
    pub index: usize,
    /// The targets of the entry.
    pub matcher: Globs,
    /// The settings, without `match`.
    pub section: Node,
}

impl Defaults {
    /// Checks that one of the targets is one that it is for.
    pub fn is_for_any(&self, targets: &[&TargetName]) -> bool {
        targets.iter().any(|target| self.matcher.is_match(target.as_str()))
    }
}

/// Checks that a key only refines its element of a list: removing such a key leaves the element what it is.
pub fn refines(key: &str) -> bool {
    matches!(
        key,
        "cache"
            | "public"
            | "readOnly"
            | "headless"
            | "optional"
            | "protocol"
            | "targetPort"
            | "storageClass"
            | "accessMode"
            | "plain"
    )
}

/// Checks that every app has this part, so that the template's defaults for it always apply.
///
/// The others are optional things: a default fills holes in them where the WAML has them, and
/// never calls them into being.
pub fn always_exists(part: &str) -> bool {
    matches!(
        part,
        "template"
            | "image"
            | "command"
            | "args"
            | "env"
            | "resources"
            | "scaling"
            | "probes"
            | "security"
            | "lifecycle"
            | "scheduling"
            | "alerts"
            | "disruption"
            | "labels"
            | "annotations"
            | "parameters"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waml::schema::unknown_keywords;

    #[test]
    fn every_keyword_of_the_schema_is_one_that_is_checked() {
        assert_eq!(unknown_keywords(&schemars::schema_for!(Section)), Vec::<String>::new());
    }
}
