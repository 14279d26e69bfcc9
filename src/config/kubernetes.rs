//! Reads the connection to a cluster's API server, and the rules for the progress of deployments there. `lookups` uses
//! the same connection unless it has its own.
//!
//! It reads no kubeconfig: the client does, anew for each connection, because its contents change.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::cluster::connection::settings::{ClusterAccess, ClusterSettings, ClusterSource};
use crate::config::credential::Secret;
use crate::config::resolver::Resolver;
use crate::config::secret::{self, SecretSource};
use crate::forge::github::webhook::rules::Repositories;
use crate::model::environment::{EnvironmentRules, LinkTemplate};
use crate::model::target::Target;
use crate::support::credential::Credential;

/// The folder in which Kubernetes puts the credentials of a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The default patience after the deadline of the workload itself, which is ten minutes unless the WAML says otherwise.
const PATIENCE_SECONDS: u64 = 120;

/// The connection to a cluster's API server: by a kubeconfig, by address and token, or from inside. With it the service
/// watches the cluster; without it a deployment ends when it is pushed.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct KubernetesApi {
    /// The kubeconfig, with its credentials; it is read again when it may have changed.
    kubeconfig: Option<KubeconfigFile>,
    /// The context of the kubeconfig. Default: its `current-context`.
    #[schemars(extend("format" = "line"))]
    context: Option<String>,
    /// The API server's address. Default: the cluster's `server`.
    #[schemars(extend("format" = "url"))]
    server: Option<String>,
    /// The token of a service account that may `list` and `watch` workloads, pods and Applications. A file is read
    /// again for each request, so that it may be renewed.
    token: Option<Secret>,
    /// A file with the authorities that sign the server's certificate, as PEM. Default: those that the machine trusts,
    /// and those of `outbound.ca`.
    ca: Option<String>,
    /// True if the service runs in that cluster: it uses its pod's service account. Default: no.
    in_cluster: Option<bool>,
    /// True if everyone who may read an app may also read the logs of its pods through the service; `false` refuses it.
    /// Default: yes.
    pod_logs: Option<bool>,
}

/// A kubeconfig.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct KubeconfigFile {
    /// The file.
    file: String,
}

/// The rules for the progress of deployments in a cluster that the service watches: it needs `kubernetes` or `agent`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ProgressPolicy {
    /// The time that a rollout may be stuck after its own deadline before the deployment fails. Default: `2m`.
    patience: Option<String>,
    /// Preview environments: `true`, or their rules, if the service also watches workloads of others that carry the
    /// annotations `the-deployer.dev/repository` and `the-deployer.dev/commit`, and tells their commits and pull
    /// requests how they stand. It reads every workload and pod of the cluster for it. Default: no.
    previews: Option<PreviewEnvironments>,
}

/// The rules for preview environments: `true`, or which repositories they may be of.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum PreviewEnvironments {
    /// True for those of every repository that the service may use, `false` for none.
    Enabled(bool),
    /// Those of some repositories, or with links.
    Restricted(PreviewEnvironmentRules),
}

/// The preview environments of some repositories, or with links.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PreviewEnvironmentRules {
    /// The repositories whose commits workloads may name, as globs over `owner/name`: `acme/*`. They must be among
    /// those of `forge.github` too. Default: all of those.
    repositories: Option<Vec<String>>,
    /// The address of an environment, for workloads without the annotation `the-deployer.dev/link`:
    /// `https://{namespace}.preview.example.com`. `{cluster}`, `{namespace}`, `{name}`, `{pull_request}` and
    /// `{commit}` are filled in. Default: none.
    #[schemars(extend("format" = "line"))]
    link: Option<String>,
}

impl Resolver<'_> {
    /// Resolves the settings of a cluster that the service watches.
    pub(super) fn cluster_settings(
        &mut self,
        path: &str,
        (kubernetes, has_agent): (Option<KubernetesApi>, bool),
        progress: Option<ProgressPolicy>,
        server: Option<&str>,
    ) -> Option<ClusterSettings> {
        let is_written = progress.is_some();
        let ProgressPolicy { patience, previews } = progress.unwrap_or_default();
        let patience =
            self.duration(&format!("{path}.progress.patience"), patience, PATIENCE_SECONDS);
        let previews = self.preview_environments(&format!("{path}.progress.previews"), previews);
        let (source, pod_logs) = match (kubernetes, has_agent) {
            (Some(_), true) => {
                let message = "a cluster has an agent or a connection, not both";
                let help = "remove `kubernetes`, and the service does not reach its API server; or \
                            remove `agent`";
                self.report.error(&format!("{path}.agent"), message, help);
                return None;
            }
            (Some(api), false) => {
                let pod_logs = api.pod_logs.unwrap_or(true);
                let path = format!("{path}.kubernetes");
                let access = self.cluster_access(&path, api, server)?;
                (ClusterSource::ApiServer(access), pod_logs)
            }
            // Its own command line says whether it sends any.
            (None, true) => (ClusterSource::Agent, true),
            (None, false) => {
                if is_written {
                    let message = "this has no effect: without `kubernetes` or `agent` the service does not watch the \
                                   cluster, and a deployment ends when it is pushed";
                    let help = "add `kubernetes`, which says how its API server is reached, or remove this";
                    self.report.warning(&format!("{path}.progress"), message, help);
                }
                return None;
            }
        };
        Some(ClusterSettings { source, patience, previews, pod_logs })
    }

    /// Reads the rules for workloads of others; `None` where they are not watched.
    fn preview_environments(
        &mut self,
        path: &str,
        previews: Option<PreviewEnvironments>,
    ) -> Option<EnvironmentRules> {
        let PreviewEnvironmentRules { repositories, link } = match previews? {
            PreviewEnvironments::Enabled(false) => return None,
            PreviewEnvironments::Enabled(true) => PreviewEnvironmentRules::default(),
            PreviewEnvironments::Restricted(rules) => rules,
        };
        let mut rules = EnvironmentRules::default();
        if let Some(globs) = repositories {
            let path = format!("{path}.repositories");
            if globs.is_empty() {
                let message = "with no repository, no workload of others is reported";
                self.report.error(&path, message, "name one, or write `previews: false`");
            }
            self.limit_length(&path, globs.len());
            match Repositories::matching(globs.iter().map(String::as_str)) {
                Ok(repositories) => rules = rules.also(repositories.globs().clone()),
                Err(error) => {
                    self.report.error(&path, error.to_string(), "write them like acme/*");
                }
            }
        }
        let link = link.and_then(|text| match LinkTemplate::parse(&text) {
            Ok(template) => Some(template),
            Err(error) => {
                let help = "write it like https://{namespace}.preview.example.com";
                self.report.error(&format!("{path}.link"), error.to_string(), help);
                None
            }
        });
        Some(rules.with_link(link))
    }

    fn cluster_access(
        &mut self,
        path: &str,
        api: KubernetesApi,
        default_server: Option<&str>,
    ) -> Option<ClusterAccess> {
        const WAYS: &str = "give one of `kubeconfig: {file: PATH}`, `token: {file: PATH}` with `server`, and \
                            `in_cluster: true`";
        let KubernetesApi { kubeconfig, context, server, token, ca, in_cluster, pod_logs: _ } = api;
        let in_cluster = in_cluster.unwrap_or(false);
        let with_token = server.is_some() || token.is_some() || ca.is_some();
        match (kubeconfig, with_token, in_cluster) {
            (Some(KubeconfigFile { file }), false, false) => {
                self.is_readable(&format!("{path}.kubeconfig.file"), &file)?;
                Some(ClusterAccess::Kubeconfig { file: file.into(), context })
            }
            (None, true, false) => {
                self.without_context(path, context.is_some());
                let Some(token) = token else {
                    self.report.error(path, "there is no token for the API server", WAYS);
                    return None;
                };
                let server = server.as_deref().or(default_server).unwrap_or(Target::IN_CLUSTER);
                self.is_reachable(&format!("{path}.server"), server, "server");
                if let Some(file) = &ca {
                    self.certificates(&format!("{path}.ca"), file)?;
                }
                let token = self.credential(&format!("{path}.token"), token)?;
                let ca = ca.map(PathBuf::from);
                Some(ClusterAccess::Server { server: server.to_owned(), token, ca })
            }
            (None, false, true) => {
                self.without_context(path, context.is_some());
                self.service_account(&format!("{path}.in_cluster"))
            }
            (None, false, false) => {
                self.report.error(path, "this does not say how the API server is reached", WAYS);
                None
            }
            _ => {
                let message = "this says in more than one way how the API server is reached";
                self.report.error(path, message, WAYS);
                None
            }
        }
    }

    /// Reads the variables and files by which a pod reaches the API server of its own cluster.
    fn service_account(&mut self, path: &str) -> Option<ClusterAccess> {
        match find_service_account(self.variables) {
            Ok(access) => Some(access),
            Err(MissingAccount { message, help }) => {
                self.report.error(path, message, help);
                None
            }
        }
    }

    fn without_context(&mut self, path: &str, is_given: bool) {
        if is_given {
            let help = "add `kubeconfig: {file: PATH}`, or remove it";
            let message = "a context is one of a kubeconfig";
            self.report.error(&format!("{path}.context"), message, help);
        }
    }

    fn is_readable(&mut self, path: &str, file: &str) -> Option<()> {
        match std::fs::File::open(Path::new(file)) {
            Ok(_) => Some(()),
            Err(error) => {
                let message = format!("{file} cannot be read: {error}");
                self.report.error(path, message, "name a kubeconfig that the service can read");
                None
            }
        }
    }
}

/// The reason why a process cannot use the service account of its pod.
pub(super) struct MissingAccount {
    /// The reason.
    pub(super) message: String,
    help: &'static str,
}

/// Reads the variables and files by which a pod reaches the API server of its own cluster. Kubernetes sets the
/// permissions of the token's file, so that they cause no warning.
pub(super) fn find_service_account(
    variables: &BTreeMap<String, String>,
) -> Result<ClusterAccess, MissingAccount> {
    let variable = |name: &str| variables.get(name).filter(|value| !value.is_empty());
    let port = variable("KUBERNETES_SERVICE_PORT").cloned().unwrap_or_else(|| "443".to_owned());
    let Some(host) = variable("KUBERNETES_SERVICE_HOST") else {
        return Err(MissingAccount {
            message: "this process does not run in a cluster: KUBERNETES_SERVICE_HOST is not set"
                .to_owned(),
            help: "give `kubeconfig: {file: PATH}`, or `server` and `token: {file: PATH}`",
        });
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let missing = |message: String| MissingAccount {
        message,
        help: "let Kubernetes mount the token: `automountServiceAccountToken: true`",
    };
    let file = |name: &str| PathBuf::from(format!("{SERVICE_ACCOUNT}/{name}"));
    let (token, ca) = (file("token"), file("ca.crt"));
    let source = SecretSource::File(token.clone());
    let content = secret::read(&source, variables).map_err(|error| missing(error.to_string()))?;
    match std::fs::read_to_string(&ca) {
        Ok(pem) if pem.contains("-----BEGIN CERTIFICATE-----") => {}
        Ok(_) => return Err(missing(format!("{} holds no certificate", ca.display()))),
        Err(error) => return Err(missing(format!("{} cannot be read: {error}", ca.display()))),
    }
    let token = Credential { secret: content.secret, file: Some(token) };
    Ok(ClusterAccess::Server { server: format!("https://{host}:{port}"), token, ca: Some(ca) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{loaded, refused, sources};
    use crate::model::environment::{EnvironmentAnnotations, WorkloadName};
    use crate::model::id::TargetName;

    const CA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/facts/tls/ca.pem");

    fn cluster(rest: &str) -> String {
        format!("clusters:\n- name: a\n  environment: production\n  domain: a.io\n{rest}")
    }

    fn only(text: &str) -> ClusterSettings {
        let settings = loaded(text).settings.kubernetes;
        let [(name, entry)] = &settings.into_iter().collect::<Vec<_>>()[..] else { panic!("one") };
        assert_eq!(name.as_str(), "a");
        entry.clone()
    }

    #[test]
    fn a_cluster_is_reached_by_a_kubeconfig_or_by_address_and_token() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubeconfig");
        std::fs::write(&file, "{}").unwrap();
        let text = cluster(&format!(
            "  kubernetes: {{kubeconfig: {{file: {}}}, context: prod}}\n  progress: {{patience: 5m, previews: true}}\n",
            file.display()
        ));
        let ClusterSettings { source, patience, previews, pod_logs } = only(&text);
        assert_eq!((patience.as_secs(), previews.is_some(), pod_logs), (300, true, true));
        let ClusterSource::ApiServer(ClusterAccess::Kubeconfig { file: kubeconfig, context }) =
            source
        else {
            panic!("{text}")
        };
        assert_eq!((kubeconfig, context.as_deref()), (file, Some("prod")));

        let text = cluster(&format!(
            "  server: https://10.0.0.1:6443\n  kubernetes: {{token: {{env: TOKEN}}, ca: '{CA}', pod_logs: false}}\n"
        ));
        let ClusterSettings { source, patience, previews, pod_logs } = only(&text);
        assert_eq!((patience.as_secs(), previews.is_some(), pod_logs), (120, false, false));
        let ClusterSource::ApiServer(ClusterAccess::Server { server, token, ca }) = source else {
            panic!("{text}")
        };
        assert_eq!((server.as_str(), ca), ("https://10.0.0.1:6443", Some(CA.into())));
        assert!(token.file.is_none() && !format!("{token:?}").contains("t0ken"));
    }

    #[test]
    fn a_connection_that_cannot_be_meant_is_told_at_its_place() {
        for (rest, expected) in [
            ("{}", "config.yaml:5:3: this does not say how the API server is reached"),
            ("{in_cluster: false}", "this does not say how the API server is reached"),
            ("{server: 'https://b'}", "there is no token for the API server"),
            ("{kubeconfig: {file: /none}}", "config.yaml:5:35: /none cannot be read"),
            ("{kubeconfig: {file: /x}, in_cluster: true}", "in more than one way"),
            ("{token: {env: TOKEN}, in_cluster: true}", "in more than one way"),
            (
                "{token: {env: TOKEN}, server: 'http://b'}",
                "the service's token would go to `server`",
            ),
            ("{token: {env: TOKEN}, server: 'https://u:p@b'}", "which logs would show"),
            ("{token: {env: TOKEN}, ca: /none}", "/none cannot be read"),
            ("{token: {env: NONE}}", "the variable NONE is not set"),
            ("{token: {env: TOKEN}, context: x}", "a context is one of a kubeconfig"),
            ("{token: s3cret}", "`clusters[0].kubernetes.token` holds a secret itself"),
            ("{in_cluster: true}", "KUBERNETES_SERVICE_HOST is not set"),
        ] {
            let message = refused(&cluster(&format!("  kubernetes: {rest}\n")));
            assert!(message.contains(expected) && !message.contains("s3cret"), "{rest}: {message}");
        }
        let message = refused(&cluster("  progress: {patience: soon}\n"));
        assert!(message.contains("config.yaml:5:24: this is not a duration"), "{message}");
    }

    #[test]
    fn progress_of_a_cluster_that_is_not_watched_is_doubtful() {
        let warnings = loaded(&cluster("  progress: {patience: 1m}\n")).warnings;
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].message.starts_with("this has no effect"), "{warnings:?}");
    }

    #[test]
    fn preview_environments_may_be_of_some_repositories_and_have_links() {
        let previews = |previews: &str| {
            cluster(&format!(
                "  server: https://10.0.0.1:6443\n  kubernetes: {{token: {{env: TOKEN}}}}\n  progress: {{previews: {previews}}}\n"
            ))
        };
        assert!(only(&previews("false")).previews.is_none());
        let rules = only(&previews(
            "{repositories: ['acme/*'], link: 'https://{namespace}.preview.example.com'}",
        ));
        let rules = rules.previews.unwrap();
        let commit = "ab".repeat(20);
        let read = |repository: &str| {
            let annotations = EnvironmentAnnotations {
                repository,
                commit: &commit,
                pull_request: None,
                link: None,
            };
            let name = WorkloadName::parse("Deployment/pr-1/web").unwrap();
            rules.read(&TargetName::parse("a").unwrap(), &name, annotations)
        };
        let link = read("acme/web").unwrap().link;
        assert_eq!(link.as_deref(), Some("https://pr-1.preview.example.com"));
        assert!(read("evil/web").is_err());
        for (text, expected) in [
            ("{repositories: []}", "with no repository"),
            ("{repositories: ['acme/[']}", "acme/["),
            ("{link: 'https://{ns}.io'}", "`{ns}` is not known"),
            ("{link: 'javascript:x'}", "not an address"),
        ] {
            let message = refused(&previews(text));
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn in_a_cluster_the_service_account_of_the_pod_is_looked_for() {
        let text = cluster("  kubernetes: {in_cluster: true}\n");
        let inside = [("KUBERNETES_SERVICE_HOST", "fd00::1")];
        let rejection = sources(Some(&text), &inside).load().expect_err("there is no pod");
        let message = format!("{rejection:?}");
        assert!(message.contains("serviceaccount/token cannot be read"), "{message}");
    }
}
