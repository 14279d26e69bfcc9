//! The lookups: images in registries, and each cluster's secrets.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::cluster::connection::settings::{ClusterAccess, ClusterSettings};
use crate::config::credential::Secret;
use crate::config::resolver::Resolver;
use crate::lookups::clients::{LookupSettings, SecretStoreSettings};
use crate::lookups::registry::{self, ANY_OTHER, BasicLogin};
use crate::lookups::{kubernetes, vault};
use crate::model::id::TargetName;
use crate::model::platform::secrets::Delivery;
use crate::model::target::{Clusters, Target};
use crate::support::host::is_loopback_authority;

/// A registry in which the service looks up images.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Registry {
    /// Its host as images name it: `ghcr.io`, `docker.io`, `registry.example.com:5000`; `*` for every other one on the
    /// Internet, without a login.
    #[schemars(extend("format" = "line"))]
    host: String,
    /// The user name. Default: no login.
    #[serde(default)]
    #[schemars(extend("format" = "line"))]
    username: Option<String>,
    /// The password, or a token that may pull.
    #[serde(default)]
    password: Option<Secret>,
    /// Use http, which everybody on the way can read. Default: no.
    #[serde(default)]
    insecure: Option<bool>,
}

/// The lookups of a cluster.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Lookups {
    /// The store in which secrets are looked up: `vault`, `kubernetes` or `none`. Default: `none`.
    secrets: Option<SecretsIn>,
    /// The credentials of the Vault that `platform.secrets.vault` names.
    vault: Option<VaultAccess>,
    /// The credentials of the cluster's API server. Default: address and token of the cluster's `kubernetes`.
    kubernetes: Option<KubernetesAccess>,
}

/// The store in which secrets are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum SecretsIn {
    /// None: secrets are not checked.
    None,
    /// Vault.
    Vault,
    /// The cluster.
    Kubernetes,
}

/// The credentials of a Vault.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct VaultAccess {
    /// A token that may read `metadata/*` and `subkeys/*` of the engine, and no more. A file is read for each lookup,
    /// so that an agent may renew it.
    token: Secret,
    /// The namespace (Vault Enterprise). Default: that of `platform.secrets.vault`.
    #[serde(default)]
    #[schemars(extend("format" = "line"))]
    namespace: Option<String>,
}

/// The credentials of a cluster's API server.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct KubernetesAccess {
    /// The API server's address. Default: the cluster's `server`.
    #[serde(default)]
    #[schemars(extend("format" = "url"))]
    server: Option<String>,
    /// A token that may `get` secrets, externalsecrets and vaultstaticsecrets. A file is read for each lookup, so that
    /// it may be renewed.
    token: Secret,
    /// A file with the certificates of the authority that signed the server's, as PEM. Default: those that the machine
    /// trusts.
    #[serde(default)]
    ca: Option<String>,
}

impl Resolver<'_> {
    pub(super) fn lookups(
        &mut self,
        registries: Vec<Registry>,
        clusters: Vec<(String, Option<Lookups>)>,
        cluster_set: &Clusters,
        kubernetes: &BTreeMap<TargetName, ClusterSettings>,
    ) -> LookupSettings {
        let mut lookups = LookupSettings::default();
        for (n, registry) in registries.into_iter().enumerate() {
            let path = format!("registries[{n}]");
            let host = registry.host.clone();
            let registry = self.registry(&path, registry);
            if lookups.registries.contains_key(&host) {
                let message = format!("the registry {host} is configured twice");
                self.report.error(&format!("{path}.host"), message, "remove one of the two");
            }
            lookups.registries.insert(host, registry);
        }
        for (n, (name, section)) in clusters.into_iter().enumerate() {
            let path = format!("clusters[{n}].lookups");
            let target = TargetName::parse(name).ok().and_then(|name| cluster_set.find(&name));
            let (Some(section), Some(target)) = (section, target) else { continue };
            let kubernetes = kubernetes.get(&target.name).and_then(ClusterSettings::access);
            if let Some(settings) = self.secrets_of(&path, section, &target, kubernetes) {
                lookups.secrets.insert(target.name, settings);
            }
        }
        lookups
    }

    fn registry(&mut self, path: &str, registry: Registry) -> registry::RegistryAccess {
        let Registry { host, username, password, insecure } = registry;
        let insecure = insecure.unwrap_or(false);
        if !is_host(&host) {
            let help =
                "write it as images name it: ghcr.io, docker.io, registry.example.com:5000, or `*`";
            self.report.error(&format!("{path}.host"), "this is not a registry's host", help);
        }
        if host == ANY_OTHER && (username.is_some() || password.is_some() || insecure) {
            let message =
                "`*` means all other registries, which are called by https without a login";
            self.report.error(path, message, "give a login to a registry with a name");
        }
        let login = match (username, password) {
            (None, None) => None,
            (Some(username), Some(password)) => {
                let password = self.credential(&format!("{path}.password"), password);
                password.map(|password| BasicLogin { username, password })
            }
            (Some(_), None) | (None, Some(_)) => {
                let help = "give both `username` and `password`, or neither";
                self.report.error(path, "a login is a name and a password", help);
                None
            }
        };
        if insecure && login.is_some() && !is_loopback_authority(&host) {
            let message = "the password goes over the network in the clear";
            self.report.warning(
                &format!("{path}.insecure"),
                message.to_owned(),
                "let the registry speak https",
            );
        }
        registry::RegistryAccess { login, insecure }
    }

    fn secrets_of(
        &mut self,
        path: &str,
        lookups: Lookups,
        target: &Target,
        reached: Option<&ClusterAccess>,
    ) -> Option<SecretStoreSettings> {
        let Lookups { secrets, vault, kubernetes } = lookups;
        match secrets.unwrap_or(SecretsIn::None) {
            SecretsIn::None => None,
            SecretsIn::Vault => self.vault(path, vault, target),
            SecretsIn::Kubernetes => self.kubernetes(path, kubernetes, target, reached),
        }
    }

    fn vault(
        &mut self,
        path: &str,
        access: Option<VaultAccess>,
        target: &Target,
    ) -> Option<SecretStoreSettings> {
        let settings = &target.platform.secrets.vault;
        let Some(address) = settings.address.clone() else {
            let help = "add `secrets: {vault: {address: …}}` to the cluster's `platform`";
            self.report.error(path, "there is no Vault to look secrets up in", help);
            return None;
        };
        self.is_reachable(&format!("{path}.secrets"), &address, "platform.secrets.vault.address");
        let Some(VaultAccess { token, namespace }) = access else {
            let help = "add `vault: {token: {file: PATH}}` beside `secrets`";
            self.report.error(path, "there is no token for Vault", help);
            return None;
        };
        let token = self.credential(&format!("{path}.vault.token"), token)?;
        let namespace = namespace.or_else(|| settings.namespace.clone());
        let mount = settings.mount.clone();
        Some(SecretStoreSettings::Vault(vault::VaultSettings { address, mount, namespace, token }))
    }

    fn kubernetes(
        &mut self,
        path: &str,
        access: Option<KubernetesAccess>,
        target: &Target,
        reached: Option<&ClusterAccess>,
    ) -> Option<SecretStoreSettings> {
        if target.platform.secrets.delivery != Delivery::Kubernetes {
            // A first deployment would be refused, because it brings the secrets itself.
            let message = "the secrets of this cluster come with the apps' own manifests";
            let help = "look them up in Vault: `secrets: vault`; or nowhere: `secrets: none`";
            self.report.error(&format!("{path}.secrets"), message, help);
        }
        let Some(KubernetesAccess { server, token, ca }) = access else {
            return self.kubernetes_of_cluster(path, reached);
        };
        let server = server.unwrap_or_else(|| target.server.clone());
        self.is_reachable(&format!("{path}.kubernetes.server"), &server, "server");
        let ca = ca.and_then(|file| self.certificates(&format!("{path}.kubernetes.ca"), &file));
        let token = self.credential(&format!("{path}.kubernetes.token"), token)?;
        Some(SecretStoreSettings::Kubernetes(kubernetes::KubernetesSettings { server, token, ca }))
    }

    /// Uses the connection that the cluster is watched over. A kubeconfig can need more than one request has: programs
    /// that create tokens, certificates of a client.
    fn kubernetes_of_cluster(
        &mut self,
        path: &str,
        reached: Option<&ClusterAccess>,
    ) -> Option<SecretStoreSettings> {
        let Some(ClusterAccess::Server { server, token, ca }) = reached else {
            let help = "add `kubernetes: {token: {file: PATH}}` beside `secrets`";
            self.report.error(path, "there is no token for the API server", help);
            return None;
        };
        let ca = ca.as_ref().and_then(|file| self.certificates(path, &file.to_string_lossy()));
        let (server, token) = (server.clone(), token.clone());
        Some(SecretStoreSettings::Kubernetes(kubernetes::KubernetesSettings { server, token, ca }))
    }

    /// Checks an address that gets a token: https, or this machine.
    pub(super) fn is_reachable(&mut self, path: &str, address: &str, name: &str) {
        self.without_credentials(path, address);
        let host = address.strip_prefix("http://").map(|rest| rest.split('/').next());
        if host.flatten().is_some_and(|host| !is_loopback_authority(host)) {
            let message = format!("the service's token would go to `{name}` in the clear");
            self.report.error(path, message, "use an address that begins with https://");
        } else if !address.starts_with("https://") && host.is_none() {
            let message = format!("`{name}` is not an address");
            self.report.error(path, message, "write it like https://vault.example.com");
        }
    }
}

/// Returns whether the text is a host as images name it, in lower case; Docker Hub by one name.
fn is_host(text: &str) -> bool {
    let legal =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-' | b':');
    let other_name = matches!(text, "index.docker.io" | "registry-1.docker.io" | "hub.docker.com");
    let is_one = text == "localhost" || text.contains(['.', ':']);
    text == ANY_OTHER || (is_one && !other_name && text.bytes().all(legal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{SECRETS, loaded, refused, sources};

    #[test]
    fn a_cluster_is_asked_at_its_own_address_unless_another_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let (ca, token) = (folder.path().join("ca.crt"), folder.path().join("token"));
        std::fs::write(&ca, "-----BEGIN CERTIFICATE-----\n").unwrap();
        std::fs::write(&token, "t0ken").unwrap();
        let text = format!(
            "clusters:\n\
             - name: a\n  environment: production\n  domain: a.io\n  server: https://10.0.0.1:6443\n  \
               lookups: {{secrets: kubernetes, kubernetes: {{token: {{file: {}}}, ca: {}}}}}\n\
             - name: b\n  environment: production\n  domain: b.io\n  \
               lookups: {{secrets: kubernetes, kubernetes: {{server: 'https://b:6443', token: {{env: TOKEN}}}}}}\n\
             - {{name: c, environment: production, domain: c.io, lookups: {{secrets: none}}}}\n\
             - name: d\n  environment: production\n  domain: d.io\n  lookups: {{secrets: kubernetes}}\n  \
               kubernetes: {{server: 'https://d:6443', token: {{env: TOKEN}}, ca: {}}}\n",
            token.display(),
            ca.display(),
            ca.display(),
        );
        let secrets = loaded(&text).settings.lookups.secrets;
        let parts_of = |name: &str| match &secrets[&TargetName::parse(name).unwrap()] {
            SecretStoreSettings::Kubernetes(kubernetes::KubernetesSettings {
                server,
                token,
                ca,
            }) => (server.clone(), token.file.clone(), ca.is_some()),
            SecretStoreSettings::Vault(_) => panic!("not Vault"),
        };
        assert_eq!(parts_of("a"), ("https://10.0.0.1:6443".to_owned(), Some(token), true));
        assert_eq!(parts_of("b"), ("https://b:6443".to_owned(), None, false));
        assert_eq!(parts_of("d"), ("https://d:6443".to_owned(), None, true), "as it is watched");
        assert_eq!(secrets.len(), 3);
    }

    #[test]
    fn a_vault_is_asked_in_the_namespace_that_it_has_for_apps_unless_another_is_given() {
        let cluster = |name: &str, lookups: &str| {
            format!(
                "- name: {name}\n  environment: production\n  domain: {name}.io\n  platform: {{secrets: {{vault: \
                 {{address: 'https://v', namespace: team}}}}}}\n  lookups: {{secrets: vault, vault: {{token: {{env: TOKEN}}{lookups}}}}}\n"
            )
        };
        let text = format!("clusters:\n{}{}", cluster("a", ""), cluster("b", ", namespace: other"));
        let secrets = loaded(&text).settings.lookups.secrets;
        for (name, expected) in [("a", "team"), ("b", "other")] {
            let SecretStoreSettings::Vault(vault) = &secrets[&TargetName::parse(name).unwrap()]
            else {
                panic!("Vault is asked");
            };
            assert_eq!(vault.namespace.as_deref(), Some(expected));
        }
    }

    #[test]
    fn what_cannot_be_looked_up_is_told_at_its_place() {
        let lines = refused(
            "registries:\n\
             - {host: 'https://ghcr.io'}\n\
             - {host: ghcr.io, username: me}\n\
             - {host: ghcr.io, password: {env: NONE}, username: me}\n\
             - {host: '*', insecure: true}\n\
             - {host: index.docker.io}\n\
             clusters:\n\
             - {name: a, environment: production, domain: a.io, lookups: {secrets: vault}}\n\
             - name: b\n  environment: production\n  domain: b.io\n  \
               platform: {secrets: {vault: {address: 'http://vault.example.com'}}}\n  \
               lookups: {secrets: vault}\n\
             - {name: c, environment: production, domain: c.io, lookups: {secrets: kubernetes}}\n\
             - name: d\n  environment: production\n  domain: d.io\n  \
               platform: {secrets: {delivery: external-secrets}}\n  \
               lookups: {secrets: kubernetes, kubernetes: {token: {env: TOKEN}, server: nowhere, ca: /none}}\n\
             limits: {lookups: 5m}\n",
        );
        for expected in [
            "config.yaml:2:10: this is not a registry's host",
            "config.yaml:3:3: a login is a name and a password",
            "config.yaml:4:10: the registry ghcr.io is configured twice",
            "config.yaml:4:35: the variable NONE is not set",
            "config.yaml:5:3: `*` means all other registries, which are called by https without a \
             login",
            "config.yaml:6:10: this is not a registry's host",
            "config.yaml:8:52: there is no Vault to look secrets up in",
            "config.yaml:13:22: the service's token would go to `platform.secrets.vault.address` in the clear",
            "config.yaml:13:3: there is no token for Vault",
            "config.yaml:14:52: there is no token for the API server",
            "`clusters[3].lookups.kubernetes.server` must be",
            "/none cannot be read",
            "config.yaml:19:22: the secrets of this cluster come with the apps' own manifests",
            "config.yaml:20:19: the timeout of lookups must be between half a second and a minute",
        ] {
            assert!(lines.contains(expected), "{expected} in\n{lines}");
        }
    }

    #[test]
    fn a_secret_in_the_file_itself_is_refused_and_not_shown() {
        for text in [
            "registries:\n- {host: ghcr.io, username: me, password: s3cret}\n",
            "clusters:\n- name: a\n  environment: production\n  domain: a.io\n  \
             lookups: {secrets: kubernetes, kubernetes: {token: s3cret}}\n",
            "clusters:\n- name: a\n  environment: production\n  domain: a.io\n  \
             lookups: {secrets: vault, vault: {token: s3cret}}\n",
            "templates: {repository: {url: 'https://example.com/t.git', token: s3cret}}\n",
        ] {
            let output = format!("{}{:?}", refused(text), sources(Some(text), &SECRETS).texts());
            assert!(
                output.contains("holds a secret itself") && !output.contains("s3cret"),
                "{output}"
            );
        }
    }

    #[test]
    fn a_password_in_the_clear_is_doubtful() {
        let text = |host: &str| {
            format!(
                "registries: [{{host: '{host}', username: me, password: {{env: TOKEN}}, insecure: true}}]"
            )
        };
        assert_eq!(loaded(&text("127.0.0.1:5000")).warnings, []);
        let warnings = loaded(&text("registry.example.com")).warnings;
        assert!(warnings[0].message.contains("in the clear"), "{warnings:?}");
    }

    #[test]
    fn what_the_apps_bring_themselves_is_not_looked_for_in_the_cluster() {
        for delivery in ["external-secrets", "vault-secrets-operator", "vault-agent"] {
            let text = format!(
                "clusters:\n- name: a\n  environment: production\n  domain: a.io\n  \
                 server: https://10.0.0.1\n  platform: {{secrets: {{delivery: {delivery}}}}}\n  \
                 lookups: {{secrets: kubernetes, kubernetes: {{token: {{env: TOKEN}}}}}}\n"
            );
            let lines = refused(&text);
            let expected =
                "config.yaml:7:22: the secrets of this cluster come with the apps' own manifests";
            assert!(lines.contains(expected), "{lines}");
        }
    }
}
