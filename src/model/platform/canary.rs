//! Canaries: what Flagger works with in a cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::platform::network::IngressKind;

/// Flagger, which shifts the traffic of canaries and measures them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CanaryPlatform {
    /// The program that Flagger shifts traffic with; `none` where there is no Flagger. Default: by `ingress.kind`.
    pub provider: Option<CanaryProvider>,
    /// The Prometheus that measurements with a `query` of one's own ask: `http://prometheus.monitoring:9090`. Default:
    /// none, and such measurements are refused.
    #[schemars(extend("format" = "url"))]
    pub prometheus: Option<String>,
}

/// The program that Flagger shifts traffic with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CanaryProvider {
    /// Istio's `VirtualService`. With `ingress.kind: gateway` or `istio` the gateways are Istio's own, and Flagger
    /// makes the route; with another kind, traffic is shifted inside the mesh.
    Istio,
    /// Traefik's `TraefikService`.
    Traefik,
    /// The canary annotations of ingress-nginx.
    Nginx,
    /// `HTTPRoute` of the Gateway API.
    Gateway,
    /// There is no Flagger.
    None,
}

impl CanaryPlatform {
    /// Returns the provider, by the kind of route where the platform does not say it.
    pub fn provider(&self, kind: IngressKind) -> CanaryProvider {
        self.provider.unwrap_or(match kind {
            IngressKind::Traefik => CanaryProvider::Traefik,
            IngressKind::Kubernetes => CanaryProvider::Nginx,
            IngressKind::Gateway => CanaryProvider::Gateway,
            IngressKind::Istio => CanaryProvider::Istio,
        })
    }
}

impl CanaryProvider {
    /// Returns Flagger's word; `None` where there is no Flagger.
    pub fn as_flagger(self) -> Option<&'static str> {
        match self {
            Self::Istio => Some("istio"),
            Self::Traefik => Some("traefik"),
            Self::Nginx => Some("nginx"),
            Self::Gateway => Some("gatewayapi:v1"),
            Self::None => None,
        }
    }
}
