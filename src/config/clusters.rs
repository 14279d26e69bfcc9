//! The clusters that the service deploys to.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Json;

use crate::cluster::connection::settings::ClusterSettings;
use crate::config::argocd::{ArgoCd, ArgoCdWebhookSettings, argocd_of};
use crate::config::cluster_agent::AgentCredentials;
use crate::config::kubernetes::{KubernetesApi, ProgressPolicy};
use crate::config::lookups::Lookups;
use crate::config::resolver::Resolver;
use crate::model::id::{TargetName, is_rfc1123_label};
use crate::model::kubernetes::KubernetesVersion;
use crate::model::lock::Policies;
use crate::model::namespace_globs;
use crate::model::platform::Platform;
use crate::model::platform::problem::PlatformProblem;
use crate::model::rollback::OnFailure;
use crate::model::target::{Clusters, Environment, Target};

/// The longest domain of DNS, in bytes.
const DOMAIN_BYTES: usize = 253;

/// A cluster that the service deploys to.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Cluster {
    /// Its name, as in `deploy` of a WAML and as environment on GitHub.
    #[schemars(extend("format" = "target"))]
    pub(super) name: String,
    /// Its kind: `production` or `development`.
    environment: Environment,
    /// The domain of the apps' hosts: `prod.example.com`.
    domain: String,
    /// The API server's address as Argo CD knows it. Default: the cluster that Argo CD runs in.
    #[serde(default)]
    #[schemars(extend("format" = "url"))]
    server: Option<String>,
    /// Its version of Kubernetes, from `1.25` to `1.37`: manifests are checked against that version. Default: the
    /// newest, 1.37.
    #[serde(default)]
    #[schemars(extend("format" = "line"))]
    version: Option<String>,
    /// Free labels, `region: eu`: templates and policies see them, and rollouts select targets by them.
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    /// Its own offers, if they differ from the `platform` of all.
    #[serde(default)]
    #[schemars(with = "Option<Platform>")]
    platform: Option<Json>,
    /// The rules on the apps and releases that it accepts, and on the times.
    #[serde(default)]
    policies: Option<Policies>,
    /// The connection to its API server, to see when a deployment is finished there. Default: none, and a deployment
    /// ends when it is pushed.
    #[serde(default)]
    pub(super) kubernetes: Option<KubernetesApi>,
    /// The agent inside the cluster that reports what happens there, where the service does not reach its API server:
    /// `the-deployer agent`. Default: none.
    #[serde(default)]
    pub(super) agent: Option<AgentCredentials>,
    /// The limits on the progress of a deployment there.
    #[serde(default)]
    pub(super) progress: Option<ProgressPolicy>,
    /// The cluster in Argo CD.
    #[serde(default)]
    pub(super) argocd: Option<ArgoCd>,
    /// The cluster's lookups: where rules check for secrets.
    #[serde(default)]
    pub(super) lookups: Option<Lookups>,
}

impl Resolver<'_> {
    pub(super) fn clusters(&mut self, clusters: Vec<Cluster>, platform: Option<&Json>) -> Clusters {
        if clusters.is_empty() {
            return Clusters::Any(Box::new(self.platform("platform", platform, None)));
        }
        let mut targets = BTreeMap::new();
        let mut servers = Vec::new();
        for (n, cluster) in clusters.into_iter().enumerate() {
            let path = format!("clusters[{n}]");
            let is_written = cluster.server.is_some();
            let Some(target) = self.cluster(&path, cluster, platform) else { continue };
            if targets.contains_key(&target.name) {
                let message = format!("there is a cluster called {} already", target.name);
                self.report.error(&format!("{path}.name"), message, "give it another name");
                continue;
            }
            let object = target.name.object_name();
            let alike = |other: &&TargetName| other.object_name() == object;
            if let Some(other) = targets.keys().find(alike) {
                let message = format!(
                    "{other} and {} would both be called {object} in Kubernetes",
                    target.name
                );
                let help = "give it a name that differs in more than case, `_` and `-`";
                self.report.error(&format!("{path}.name"), message, help);
                continue;
            }
            servers.push((n, is_written, target.clone()));
            targets.insert(target.name.clone(), target);
        }
        self.clusters_apart(&servers);
        Clusters::Known(targets.into())
    }

    /// Reports two targets with one API server: they would manage the same objects, each undoing the other's changes.
    fn clusters_apart(&mut self, entries: &[(usize, bool, Target)]) {
        for (index, (n, is_written, target)) in entries.iter().enumerate() {
            let earlier_entries = entries.iter().take(index);
            let mut same_server = earlier_entries
                .filter(|(_, _, earlier)| is_same_server(&earlier.server, &target.server));
            let Some((_, first_is_written, first)) =
                same_server.find(|(_, _, earlier)| !are_apart(earlier, target))
            else {
                continue;
            };
            let (name, other, server) = (&target.name, &first.name, &target.server);
            if *is_written || *first_is_written {
                let message = format!(
                    "{name} and {other} are one cluster, {server}: the same app on both would be the same objects"
                );
                let help = "give each the address of its own cluster; or keep their apps apart, with \
                            `policies.namespaces.allow` of each that no namespace is in twice";
                self.report.error(&format!("clusters[{n}].server"), message, help);
            } else {
                let message = format!(
                    "{name} and {other} have no `server`: if one Argo CD serves both, the same app on both would be \
                     the same objects"
                );
                let help = "write `server` for those that Argo CD does not run in; ignore this if \
                            each has an Argo CD of its own";
                self.report.warning(&format!("clusters[{n}].name"), message, help);
            }
        }
    }

    /// Reads the webhook of each cluster that has one.
    pub(super) fn argocd_webhooks(
        &mut self,
        clusters: &[Cluster],
    ) -> BTreeMap<TargetName, ArgoCdWebhookSettings> {
        let mut webhooks = BTreeMap::new();
        for (n, cluster) in clusters.iter().enumerate() {
            let webhook = cluster.argocd.as_ref().and_then(|argocd| argocd.webhook.clone());
            // An invalid name is reported already.
            let Ok(name) = TargetName::parse(cluster.name.as_str()) else { continue };
            let Some(webhook) = webhook else { continue };
            let path = format!("clusters[{n}].argocd.webhook");
            webhooks.extend(self.argocd_webhook(&path, webhook).map(|webhook| (name, webhook)));
        }
        webhooks
    }

    /// Resolves the source of the changes of each cluster that has one.
    pub(super) fn kubernetes_clusters(
        &mut self,
        clusters: &[Cluster],
    ) -> BTreeMap<TargetName, ClusterSettings> {
        let mut reached = BTreeMap::new();
        for (n, cluster) in clusters.iter().enumerate() {
            let path = format!("clusters[{n}]");
            let (api, progress) = (cluster.kubernetes.clone(), cluster.progress.clone());
            let (has_agent, server) = (cluster.agent.is_some(), cluster.server.as_deref());
            let settings = self.cluster_settings(&path, (api, has_agent), progress, server);
            // That a name is none has been told.
            let name = TargetName::parse(cluster.name.as_str());
            reached.extend(settings.and_then(|settings| Some((name.ok()?, settings))));
        }
        reached
    }

    fn cluster(&mut self, path: &str, cluster: Cluster, platform: Option<&Json>) -> Option<Target> {
        let Cluster {
            name,
            environment,
            domain,
            server,
            version,
            labels,
            platform: own,
            policies,
            kubernetes,
            agent,
            progress: _,
            argocd,
            lookups: _,
        } = cluster;
        let legal = domain.len() <= DOMAIN_BYTES && domain.split('.').all(is_rfc1123_label);
        if !legal {
            let message = "this is not a domain";
            let help = "write it like prod.example.com: lower-case letters, digits, `-` and `.`";
            self.report.error(&format!("{path}.domain"), message, help);
        }
        let server = server.unwrap_or_else(|| Target::IN_CLUSTER.to_owned());
        self.without_credentials(&format!("{path}.server"), &server);
        let policies = self.policies(&format!("{path}.policies"), policies);
        if policies.on_failure == OnFailure::Rollback && kubernetes.is_none() && agent.is_none() {
            let message = "this has no effect: without `kubernetes` or `agent` the service does not watch the cluster, and \
                           no deployment fails there";
            let help = "add `kubernetes`, which says how its API server is reached, or remove this";
            self.report.warning(&format!("{path}.policies.on_failure"), message, help);
        }
        let name = TargetName::parse(name).ok()?;
        Some(Target {
            name,
            domain,
            environment,
            server,
            version: version
                .and_then(|text| self.kubernetes_version(&format!("{path}.version"), &text)),
            labels: labels.unwrap_or_default(),
            platform: self.platform(&format!("{path}.platform"), platform, own.as_ref()),
            policies,
            argocd: argocd_of(argocd.unwrap_or_default())?,
        })
    }

    /// Reads a cluster's version of Kubernetes.
    fn kubernetes_version(&mut self, path: &str, text: &str) -> Option<KubernetesVersion> {
        let (oldest, newest) = (KubernetesVersion::OLDEST, KubernetesVersion::NEWEST);
        let Some(version) = KubernetesVersion::parse(text) else {
            let help = format!("write it like \"{newest}\"; {oldest} to {newest} are known");
            self.report.error(path, "this is not a version of Kubernetes", &help);
            return None;
        };
        if !version.is_known() {
            let message = format!(
                "the fields of Kubernetes {version} are not known: those of {oldest} to {newest} are"
            );
            let nearest = version.nearest_known();
            let subject = if version < oldest { "the cluster" } else { "the-deployer" };
            let help = format!("upgrade {subject}; until then write \"{nearest}\", the nearest");
            self.report.error(path, message, &help);
        }
        Some(version)
    }

    /// Merges a cluster's own platform over that of all; keys that neither has get their defaults.
    fn platform(&mut self, path: &str, shared: Option<&Json>, specific: Option<&Json>) -> Platform {
        let mut merged = Json::Object(serde_json::Map::new());
        for layer in [shared, specific].into_iter().flatten() {
            lay_over(&mut merged, layer);
        }
        let platform: Platform = serde_json::from_value(merged).unwrap_or_else(|error| {
            self.report.error(path, format!("this cannot be read: {error}"), "see `config schema`");
            Platform::default()
        });
        for PlatformProblem { key, message, help } in platform.problems() {
            self.report.error(&format!("{path}.{key}"), message, help);
        }
        platform
    }
}

/// Returns whether two addresses are the same to Argo CD.
fn is_same_server(first: &str, second: &str) -> bool {
    let normal = |url: &str| {
        let url = url.trim_end_matches('/').to_ascii_lowercase();
        url.strip_suffix(":443").map_or(url.clone(), str::to_owned)
    };
    normal(first) == normal(second)
}

/// Returns whether no namespace can have apps of both.
fn are_apart(first: &Target, second: &Target) -> bool {
    let [allowed, other_allowed] =
        [first, second].map(|target| target.policies.namespaces.allow.as_deref());
    let (Some(allowed), Some(other_allowed)) = (allowed, other_allowed) else { return false };
    allowed
        .iter()
        .all(|one| other_allowed.iter().all(|other| namespace_globs::are_disjoint(one, other)))
}

/// Merges maps deeply, and replaces anything else.
fn lay_over(base: &mut Json, layer: &Json) {
    match (base, layer) {
        (Json::Object(base), Json::Object(layer)) => {
            for (key, value) in layer {
                lay_over(base.entry(key.as_str()).or_insert(Json::Null), value);
            }
        }
        (base, layer) => *base = layer.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{loaded, refused};
    use crate::model::platform::network::IngressKind;

    #[test]
    fn a_clusters_platform_is_laid_over_that_of_all() {
        let text = "
platform: {ingress: {kind: gateway}, network_policy: {enabled: true}}
clusters:
- {name: a, environment: production, domain: a.io}
- {name: b, environment: development, domain: b.io, platform: {ingress: {kind: kubernetes}}}
";
        let clusters = loaded(text).settings.clusters;
        let platform_of =
            |name: &str| clusters.find(&TargetName::parse(name).unwrap()).unwrap().platform;
        assert_eq!(platform_of("a").ingress.kind, IngressKind::Gateway);
        assert_eq!(platform_of("b").ingress.kind, IngressKind::Kubernetes);
        assert!(platform_of("a").network_policy.enabled && platform_of("b").network_policy.enabled);
        let message = refused("platform: {ingres: {kind: traefik}}");
        assert!(message.contains("did you mean `ingress`"), "{message}");
    }

    #[test]
    fn a_platform_whose_parts_do_not_go_together_is_refused() {
        let message = refused("platform:\n  cloud: {database: cloudsql}");
        assert!(message.contains("cloudsql is Google's") && message.contains(":2:"), "{message}");
        let message = refused("platform: {secrets: {vault: {shared: [\"a/../b\"]}}}");
        assert!(message.contains("not a path in Vault"), "{message}");
    }

    #[test]
    fn what_cannot_be_promised_is_refused_at_its_place() {
        let message = refused(
            "platform:\n  monitoring:\n    slo:\n      classes:\n        all: {availability: 100}\n",
        );
        assert_eq!(
            message,
            "config.yaml:5:29: 100 percent cannot be promised [configuration]; write more than 0 and less than 100, as in 99.9\n"
        );
    }

    #[test]
    fn a_clusters_version_is_one_whose_fields_are_known() {
        let clusters = |version: &str| {
            format!(
                "clusters:\n- name: a\n  environment: production\n  domain: a.example.com\n  version: {version}\n"
            )
        };
        let version = |text: &str| {
            let clusters = loaded(&clusters(text)).settings.clusters;
            clusters.find(&"a".parse().unwrap()).unwrap().version.map(|version| version.to_string())
        };
        // Without quotes, too: 1.30 is not 1.3.
        for (text, expected) in [("'1.29'", "1.29"), ("1.30", "1.30"), ("v1.37.2-gke.1", "1.37")] {
            assert_eq!(version(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(version("null"), None);
        let cases = [
            (
                "latest",
                "this is not a version of Kubernetes [configuration]; write it like \"1.37\"; 1.25 to 1.37 are known",
            ),
            (
                "1.24",
                "the fields of Kubernetes 1.24 are not known: those of 1.25 to 1.37 are [configuration]; upgrade the cluster; until then write \"1.25\", the nearest",
            ),
            (
                "1.38",
                "the fields of Kubernetes 1.38 are not known: those of 1.25 to 1.37 are [configuration]; upgrade the-deployer; until then write \"1.37\", the nearest",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(refused(&clusters(text)), format!("config.yaml:5:12: {expected}\n"));
        }
        let description = crate::config::schema().to_value();
        let description = &description["$defs"]["Cluster"]["properties"]["version"]["description"];
        assert!(description.as_str().unwrap().contains("from `1.25` to `1.37`"), "{description}");
    }

    #[test]
    fn two_targets_are_two_clusters_or_have_namespaces_of_their_own() {
        let clusters = |first: &str, second: &str| {
            format!(
                "clusters:\n- {{name: a, environment: production, domain: a.example.com{first}}}\n\
                 - {{name: b, environment: production, domain: b.example.com{second}}}\n"
            )
        };
        let server = ", server: 'https://10.0.0.1:6443'";
        let message = refused(&clusters(server, ", server: 'https://10.0.0.1:6443/'"));
        assert!(
            message
                .starts_with("config.yaml:3:69: b and a are one cluster, https://10.0.0.1:6443/"),
            "{message}"
        );
        let allow =
            |glob: &str| format!("{server}, policies: {{namespaces: {{allow: ['{glob}']}}}}");
        assert!(loaded(&clusters(&allow("a-*"), &allow("b-*"))).warnings.is_empty());
        assert!(!refused(&clusters(&allow("a-*"), &allow("a-b-*"))).is_empty());
        assert!(loaded(&clusters(server, ", server: 'https://10.0.0.2:6443'")).warnings.is_empty());
        // The default, written out.
        let in_cluster = ", server: 'https://kubernetes.default.svc'";
        assert!(refused(&clusters("", in_cluster)).contains("b and a are one cluster"));
        let warnings = loaded(&clusters("", "")).warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].message.contains("b and a have no `server`"), "{warnings:?}");
    }

    #[test]
    fn two_clusters_that_kubernetes_would_call_alike_are_refused() {
        let cluster =
            |name| format!("- {{name: {name}, environment: development, domain: d.io}}\n");
        let refuse_pair =
            |other| refused(&format!("clusters:\n{}{}", cluster("prod-eu"), cluster(other)));
        for other in ["Prod-EU", "prod_eu"] {
            let expected =
                format!("prod-eu and {other} would both be called prod-eu in Kubernetes");
            assert!(refuse_pair(other).contains(&expected), "{}", refuse_pair(other));
        }
    }
}
