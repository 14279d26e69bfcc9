//! The kinds of objects that WAMLs may bring along in files of their own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::platform::problem::PlatformProblem;

/// The extra objects that a cluster takes from files beside WAMLs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExtraManifests {
    /// The kinds, each with its API group as kubectl writes it: `ConfigMap`, `PodMonitor.monitoring.coreos.com`. An empty
    /// list: none. Default: `ConfigMap` and `PrometheusRule`.
    pub kinds: Vec<String>,
}

/// Configuration and rules of alerts: they run no code, give no rights, and make no other program send requests. Monitors
/// and Grafana's dashboards are not among them, because Prometheus and the operator of Grafana act by them with their own
/// rights: they read files and Secrets, and send what they read to an address in the object.
const DEFAULT_KINDS: [&str; 2] = ["ConfigMap", "PrometheusRule.monitoring.coreos.com"];

/// What no configuration allows, by API group and kinds (none: all of the group), with what to do instead. The rules
/// about these judge the settings of a WAML, which say nothing of a file.
const REFUSED: [(&str, &[&str], &str); 23] = [
    ("", &["Secret"], SECRETS),
    ("", &["Pod", "PodTemplate", "ReplicationController"], PODS),
    ("", &["ServiceAccount"], "set `iam` in the WAML"),
    ("", &["Service", "Endpoints"], "set `service` in the WAML"),
    ("", &["Namespace", "Node", "PersistentVolume"], OPERATORS),
    ("apps", &[], PODS),
    ("batch", &[], PODS),
    ("serving.knative.dev", &[], PODS),
    ("discovery.k8s.io", &[], "set `service` in the WAML"),
    ("networking.k8s.io", &["Ingress", "IngressClass"], ROUTES),
    ("gateway.networking.k8s.io", &[], ROUTES),
    ("networking.istio.io", &[], ROUTES),
    (
        "traefik.io",
        &["IngressRoute", "IngressRouteTCP", "IngressRouteUDP", "TraefikService"],
        ROUTES,
    ),
    ("traefik.containo.us", &[], ROUTES),
    ("flagger.app", &[], "set `canary` in the WAML"),
    ("argoproj.io", &[], OPERATORS),
    ("external-secrets.io", &[], SECRETS),
    ("secrets.hashicorp.com", &[], SECRETS),
    ("bitnami.com", &[], SECRETS),
    ("rbac.authorization.k8s.io", &[], OPERATORS),
    ("admissionregistration.k8s.io", &[], OPERATORS),
    ("apiextensions.k8s.io", &[], OPERATORS),
    ("apiregistration.k8s.io", &[], OPERATORS),
];

const SECRETS: &str = "set `secrets` in the WAML: manifests are read by many";
const PODS: &str =
    "what runs pods comes from the template: use `processes`, `jobs` or `sidecars` in the WAML";
const ROUTES: &str = "set `ingress` in the WAML, so that no two apps have one address";
const OPERATORS: &str = "leave it to the cluster's operators";

impl Default for ExtraManifests {
    fn default() -> Self {
        Self { kinds: DEFAULT_KINDS.map(str::to_owned).to_vec() }
    }
}

impl ExtraManifests {
    /// Checks that the cluster takes extra objects of a kind.
    pub fn allows(&self, group: &str, kind: &str) -> bool {
        self.kinds.iter().any(|name| split(name) == (kind, group))
            && Self::refusal(group, kind).is_none()
    }

    /// Says what to do instead of an extra object of a kind that no configuration allows.
    pub fn refusal(group: &str, kind: &str) -> Option<&'static str> {
        let is_meant = |kinds: &[&str]| kinds.is_empty() || kinds.contains(&kind);
        let (_, _, instead) =
            REFUSED.iter().find(|(of, kinds, _)| *of == group && is_meant(kinds))?;
        Some(instead)
    }

    pub(super) fn problems(&self) -> impl Iterator<Item = PlatformProblem> {
        self.kinds.iter().enumerate().filter_map(|(at, name)| {
            let (kind, group) = split(name);
            let is_kind = kind.starts_with(|c: char| c.is_ascii_uppercase())
                && kind.bytes().all(|b| b.is_ascii_alphanumeric());
            let is_group =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
            let (message, help) = if !is_kind || !group.chars().all(is_group) {
                let help =
                    "write it as kubectl does: `ConfigMap`, `PodMonitor.monitoring.coreos.com`";
                (format!("{name:?} is no kind"), help)
            } else {
                (format!("{name} cannot be an extra object"), Self::refusal(group, kind)?)
            };
            Some(PlatformProblem { key: format!("manifests.kinds[{at}]"), message, help })
        })
    }
}

/// Splits a name as kubectl writes it into kind and group.
fn split(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or((name, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_configuration_allows_is_by_group_and_never_what_rules_judge_elsewhere() {
        let manifests = ExtraManifests::default();
        assert!(manifests.allows("", "ConfigMap"));
        assert!(manifests.allows("monitoring.coreos.com", "PrometheusRule"));
        for (group, kind) in [
            ("monitoring.coreos.com", "PodMonitor"),
            ("monitoring.coreos.com", "ServiceMonitor"),
            ("grafana.integreatly.org", "GrafanaDashboard"),
        ] {
            assert!(!manifests.allows(group, kind), "{kind} acts with another program's rights");
            let named = ExtraManifests { kinds: vec![format!("{kind}.{group}")] };
            assert!(named.allows(group, kind) && named.problems().count() == 0, "{kind}");
        }
        assert!(!manifests.allows("example.com", "ConfigMap"));
        assert!(!manifests.allows("networking.k8s.io", "NetworkPolicy"), "policies add up");
        let names = [
            "NetworkPolicy.networking.k8s.io",
            "Secret",
            "Job.batch",
            "config",
            "Application.argoproj.io",
        ];
        let wide = ExtraManifests { kinds: names.map(str::to_owned).to_vec() };
        assert!(wide.allows("networking.k8s.io", "NetworkPolicy"));
        assert!(!wide.allows("", "Secret") && !wide.allows("batch", "Job"));
        let keys: Vec<String> = wide.problems().map(|problem| problem.key).collect();
        let expected = [1, 2, 3, 4].map(|at| format!("manifests.kinds[{at}]"));
        assert_eq!(keys, expected);
        assert_eq!(ExtraManifests::default().problems().count(), 0);
    }
}
