//! The platform of a cluster, which is everything beyond Kubernetes itself: ingress, certificates, secrets, cloud,
//! monitoring. The operator sets it once for all clusters and again where one differs; templates and rules read it.
//!
//! Each part is complete: a key that the configuration leaves out has a default here.

pub mod problem; // what cannot be so
pub mod network; // traffic, certificates, network policies
pub mod monitoring; // metrics, alerts, objectives
pub mod secrets; // Vault, and how secrets reach a pod
pub mod vault_path; // what in Vault an app may ask for
pub mod images; // pull secrets
pub mod pod_security; // the levels of namespaces
pub mod extra_manifests; // the kinds of extra objects
pub mod cloud; // rights, databases, caches
pub mod canary; // what shifts the traffic of canaries

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::platform::canary::CanaryPlatform;
use crate::model::platform::cloud::Cloud;
use crate::model::platform::extra_manifests::ExtraManifests;
use crate::model::platform::images::Images;
use crate::model::platform::monitoring::Monitoring;
use crate::model::platform::network::{Certificates, Ingress, NetworkPolicy};
use crate::model::platform::pod_security::PodSecurity;
use crate::model::platform::problem::PlatformProblem;
use crate::model::platform::secrets::Secrets;

/// The platform of a cluster: everything beyond Kubernetes itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Platform {
    /// The way of traffic into the cluster.
    pub ingress: Ingress,
    /// The issuer of certificates.
    pub certificates: Certificates,
    /// Network policies: the traffic between pods.
    pub network_policy: NetworkPolicy,
    /// The store of secrets, and their way to a pod.
    pub secrets: Secrets,
    /// The images of pods.
    pub images: Images,
    /// The Pod Security levels that namespaces enforce.
    pub pod_security: PodSecurity,
    /// The extra objects that WAMLs may bring along in files.
    pub manifests: ExtraManifests,
    /// The cloud that the cluster runs in.
    pub cloud: Cloud,
    /// Metrics and alerts.
    pub monitoring: Monitoring,
    /// What shifts the traffic of canaries, and measures them.
    pub canary: CanaryPlatform,
}

impl Platform {
    /// Lists everything that the parts say and that does not go together.
    pub fn problems(&self) -> Vec<PlatformProblem> {
        let monitoring = self.monitoring.problems().into_iter();
        let parts = self.secrets.problems().chain(self.images.problems());
        let parts = parts.chain(self.pod_security.problems()).chain(self.manifests.problems());
        parts.chain(self.cloud.problems()).chain(monitoring).collect()
    }
}
