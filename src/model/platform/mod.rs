//! What a cluster has to offer beyond Kubernetes itself: how traffic comes in, who makes
//! certificates, where secrets and rights come from, what measures. The operator says it once for
//! all clusters and again where one differs; templates and rules go by it.
//!
//! Each part is complete: what the configuration leaves out has a default here.

pub mod problem; // what cannot be so
pub mod network; // traffic, certificates, network policies
pub mod monitoring; // metrics, alerts, objectives
pub mod secrets; // Vault, and how secrets reach a pod
pub mod vault_path; // what in Vault an app may ask for
pub mod cloud; // rights, databases, caches

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::platform::cloud::Cloud;
use crate::model::platform::monitoring::Monitoring;
use crate::model::platform::network::{Certificates, Ingress, NetworkPolicy};
use crate::model::platform::problem::PlatformProblem;
use crate::model::platform::secrets::Secrets;

/// What a cluster has to offer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Platform {
    /// How traffic comes into the cluster.
    pub ingress: Ingress,
    /// Who makes certificates.
    pub certificates: Certificates,
    /// Whether pods may talk to each other freely.
    pub network_policy: NetworkPolicy,
    /// Where secrets are kept, and how they reach a pod.
    pub secrets: Secrets,
    /// The cloud that the cluster runs in.
    pub cloud: Cloud,
    /// What measures, and who is told.
    pub monitoring: Monitoring,
}

impl Platform {
    /// Lists everything that the parts say and that does not go together.
    pub fn problems(&self) -> Vec<PlatformProblem> {
        let monitoring = self.monitoring.problems().into_iter();
        self.secrets.problems().chain(self.cloud.problems()).chain(monitoring).collect()
    }
}
