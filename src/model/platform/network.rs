//! Traffic, certificates, network policies.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The way of traffic into the cluster. Each part with two values has one for addresses that are reached from the
/// internet (`public: true` in a WAML) and one for all others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ingress {
    /// The kind of object that makes a route.
    pub kind: IngressKind,
    /// The entry points of Traefik. Default: `websecure` and `internal`.
    pub entry_points: EntryPoints,
    /// The classes of Kubernetes' `Ingress`. Default: `nginx` and `nginx-internal`.
    pub classes: Classes,
    /// The gateways of the Gateway API or of Istio. Default: `public` and `internal` in the namespace
    /// `gateways`, each with the listener `https`.
    pub gateways: Gateways,
    /// The encryption of connections. Default: encrypted for both kinds of addresses. An address without encryption
    /// gets no certificate. With a gateway, its listener decides about encryption, and this only says whether there is
    /// a certificate.
    pub tls: Tls,
    /// Annotations of every route, for what else reads them: `external-dns`, a controller's own.
    pub annotations: Annotations,
}

impl Ingress {
    /// Returns the entry points for an address.
    pub fn entry_points(&self, public: bool) -> &[String] {
        if public { &self.entry_points.public } else { &self.entry_points.internal }
    }

    /// Returns the class for an address.
    pub fn class(&self, public: bool) -> &str {
        if public { &self.classes.public } else { &self.classes.internal }
    }

    /// Returns the gateway for an address.
    pub fn gateway(&self, public: bool) -> &Gateway {
        if public { &self.gateways.public } else { &self.gateways.internal }
    }

    /// Checks that connections to an address are encrypted.
    pub fn tls(&self, public: bool) -> bool {
        if public { self.tls.public } else { self.tls.internal }
    }

    /// Returns the annotations of a route to an address.
    pub fn annotations(&self, public: bool) -> &BTreeMap<String, String> {
        if public { &self.annotations.public } else { &self.annotations.internal }
    }
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
    /// Istio's `VirtualService`, bound to one of Istio's own gateways.
    Istio,
}

/// The entry points of Traefik.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EntryPoints {
    /// For addresses that are reached from the internet.
    pub public: Vec<String>,
    /// For all others.
    pub internal: Vec<String>,
}

impl Default for EntryPoints {
    fn default() -> Self {
        Self { public: vec!["websecure".to_owned()], internal: vec!["internal".to_owned()] }
    }
}

/// The classes of Kubernetes' `Ingress`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Classes {
    /// For addresses that are reached from the internet.
    pub public: String,
    /// For all others.
    pub internal: String,
}

impl Default for Classes {
    fn default() -> Self {
        Self { public: "nginx".to_owned(), internal: "nginx-internal".to_owned() }
    }
}

/// The gateways of the Gateway API, or of Istio.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Gateways {
    /// For addresses that are reached from the internet.
    pub public: Gateway,
    /// For all others.
    pub internal: Gateway,
}

impl Default for Gateways {
    fn default() -> Self {
        let gateway = |name: &str| Gateway {
            name: name.to_owned(),
            namespace: "gateways".to_owned(),
            section: Some("https".to_owned()),
        };
        Self { public: gateway("public"), internal: gateway("internal") }
    }
}

/// A gateway that routes are attached to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The name of one of its listeners. Default: all that take the host. Istio's have none.
    #[serde(default)]
    pub section: Option<String>,
}

/// The encryption of connections, by kind of address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// Encryption for addresses that are reached from the internet.
    pub public: bool,
    /// Encryption for all other addresses.
    pub internal: bool,
}

impl Default for Tls {
    fn default() -> Self {
        Self { public: true, internal: true }
    }
}

/// Annotations of routes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Annotations {
    /// To addresses that are reached from the internet.
    pub public: BTreeMap<String, String>,
    /// To all others.
    pub internal: BTreeMap<String, String>,
}

/// The issuer of certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Certificates {
    /// The kind of object that requests a certificate.
    pub kind: CertificateKind,
    /// The issuer that signs them.
    pub issuer: Issuer,
}

/// The kind of object that requests a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CertificateKind {
    /// `Certificate` of cert-manager.
    #[default]
    CertManager,
    /// `CachedCertificate` of cached-certificate-operator.
    CachedCertificate,
    /// No certificate: another program takes care of it.
    None,
}

/// The issuer that signs certificates. Default: the `ClusterIssuer` of cert-manager called `letsencrypt`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Issuer {
    /// The issuer's name.
    pub name: String,
    /// Its kind: `ClusterIssuer`, or `Issuer` for one in the app's namespace.
    pub kind: String,
    /// Its API group.
    pub group: String,
}

impl Default for Issuer {
    fn default() -> Self {
        Self {
            name: "letsencrypt".to_owned(),
            kind: "ClusterIssuer".to_owned(),
            group: "cert-manager.io".to_owned(),
        }
    }
}

/// Network policies: the traffic between pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkPolicy {
    /// True if each app gets a policy that lets in only the traffic for its ports.
    pub enabled: bool,
    /// The sources, beside the app's own namespace, that reach its ports.
    pub ingress: Sources,
    /// The destinations, beside its own namespace and DNS, that the app may connect to. Default: everywhere.
    pub egress: Option<Destinations>,
}

/// Namespaces that traffic comes from: those of the ingress controller, of Prometheus.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sources {
    /// Namespaces by their names.
    pub namespaces: Vec<String>,
    /// Namespaces by labels, all of which a namespace has.
    pub labels: BTreeMap<String, String>,
}

/// The destinations that an app may connect to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Destinations {
    /// Namespaces, by their names.
    pub namespaces: Vec<String>,
    /// Networks: `10.0.0.0/8`.
    pub cidrs: Vec<String>,
}
