//! Traffic, certificates, network policies.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How traffic comes into the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ingress {
    /// The kind of object that makes a route.
    pub kind: IngressKind,
}

/// The kind of object that makes a route.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IngressKind {
    /// Traefik's `IngressRoute`.
    #[default]
    Traefik,
    /// Kubernetes' own `Ingress`.
    Kubernetes,
    /// `HTTPRoute` of the Gateway API.
    Gateway,
}

/// Who makes certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Certificates {
    /// The kind of object that asks for one.
    pub kind: CertificateKind,
}

/// The kind of object that asks for a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CertificateKind {
    /// `Certificate` of cert-manager.
    #[default]
    CertManager,
    /// `CachedCertificate` of cached-certificate-operator.
    CachedCertificate,
    /// None: somebody else sees to it.
    None,
}

/// Whether pods may talk to each other freely.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkPolicy {
    /// Whether each app gets a policy that lets in only what its ports are for.
    pub enabled: bool,
}
