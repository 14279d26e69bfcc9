//! What is looked up outside: registries, and where each cluster's secrets are.

use std::path::Path;

use crate::config::file::{self, SecretsIn};
use crate::config::resolve::Resolver;
use crate::config::secret;
use crate::config::settings::{Credential, Lookups, Registry, SecretsLookup};
use crate::model::id::TargetName;
use crate::model::platform::secrets::Delivery;
use crate::model::target::{Clusters, Target};
use crate::support::host::is_loopback_authority;

const ONE_OF: &str = "give exactly one of `file` and `env`";
/// Every other registry.
const ANY_OTHER: &str = "*";

impl Resolver<'_> {
    pub(super) fn lookups(
        &mut self,
        registries: Vec<file::Registry>,
        clusters: Vec<(String, Option<file::Lookups>)>,
        known: &Clusters,
    ) -> Lookups {
        let mut lookups = Lookups::default();
        for (n, registry) in registries.into_iter().enumerate() {
            let path = format!("registries[{n}]");
            let registry = self.registry(&path, registry);
            if lookups.registries.iter().any(|one| one.host == registry.host) {
                let message = format!("the registry {} is there already", registry.host);
                self.report.wrong(&format!("{path}.host"), message, "remove one of the two");
            }
            lookups.registries.push(registry);
        }
        for (n, (name, asked)) in clusters.into_iter().enumerate() {
            let path = format!("clusters[{n}].lookups");
            let target = TargetName::parse(name).ok().and_then(|name| known.find(&name));
            let (Some(asked), Some(target)) = (asked, target) else { continue };
            if let Some(found) = self.secrets_of(&path, asked, &target) {
                lookups.secrets.insert(target.name, found);
            }
        }
        lookups
    }

    fn registry(&mut self, path: &str, registry: file::Registry) -> Registry {
        let file::Registry { host, username, password, insecure } = registry;
        let insecure = insecure.unwrap_or(false);
        if !is_host(&host) {
            let help =
                "write it as images name it: ghcr.io, docker.io, registry.example.com:5000, or `*`";
            self.report.wrong(&format!("{path}.host"), "this is not a registry's host", help);
        }
        if host == ANY_OTHER && (username.is_some() || password.is_some() || insecure) {
            let message = "every other registry is asked by https and without a login";
            self.report.wrong(path, message, "give a login to a registry with a name");
        }
        let login = match (username, password) {
            (None, None) => None,
            (Some(username), Some(password)) => {
                let password = self.credential(&format!("{path}.password"), password);
                password.map(|password| (username, password))
            }
            (Some(_), None) | (None, Some(_)) => {
                let help = "give both `username` and `password`, or neither";
                self.report.wrong(path, "a login is a name and a password", help);
                None
            }
        };
        if insecure && login.is_some() && !is_loopback_authority(&host) {
            let message = "the password goes over the network in the clear";
            self.report.doubtful(
                &format!("{path}.insecure"),
                message.to_owned(),
                "let the registry speak https",
            );
        }
        Registry { host, login, insecure }
    }

    fn secrets_of(
        &mut self,
        path: &str,
        lookups: file::Lookups,
        target: &Target,
    ) -> Option<SecretsLookup> {
        let file::Lookups { secrets, vault, kubernetes } = lookups;
        match secrets.unwrap_or(SecretsIn::None) {
            SecretsIn::None => None,
            SecretsIn::Vault => self.vault(path, vault, target),
            SecretsIn::Kubernetes => self.kubernetes(path, kubernetes, target),
        }
    }

    fn vault(
        &mut self,
        path: &str,
        access: Option<file::VaultAccess>,
        target: &Target,
    ) -> Option<SecretsLookup> {
        let settings = &target.platform.secrets.vault;
        let Some(address) = settings.address.clone() else {
            let help = "add `secrets: {vault: {address: …}}` to the cluster's `platform`";
            self.report.wrong(path, "there is no Vault to look secrets up in", help);
            return None;
        };
        self.is_reachable(&format!("{path}.secrets"), &address, "platform.secrets.vault.address");
        let Some(file::VaultAccess { token, namespace }) = access else {
            let help = "add `vault: {token: {file: PATH}}` beside `secrets`";
            self.report.wrong(path, "there is no token for Vault", help);
            return None;
        };
        let token = self.credential(&format!("{path}.vault.token"), token)?;
        let namespace = namespace.or_else(|| settings.namespace.clone());
        Some(SecretsLookup::Vault { address, mount: settings.mount.clone(), namespace, token })
    }

    fn kubernetes(
        &mut self,
        path: &str,
        access: Option<file::KubernetesAccess>,
        target: &Target,
    ) -> Option<SecretsLookup> {
        if target.platform.secrets.delivery != Delivery::Kubernetes {
            // A first deployment would be refused for want of what only it brings.
            let message = "the secrets of this cluster come with the apps' own manifests";
            let help = "look them up in Vault: `secrets: vault`; or nowhere: `secrets: none`";
            self.report.wrong(&format!("{path}.secrets"), message, help);
        }
        let Some(file::KubernetesAccess { server, token, ca }) = access else {
            let help = "add `kubernetes: {token: {file: PATH}}` beside `secrets`";
            self.report.wrong(path, "there is no token for the API server", help);
            return None;
        };
        let server = server.unwrap_or_else(|| target.server.clone());
        self.is_reachable(&format!("{path}.kubernetes.server"), &server, "server");
        let ca = ca.and_then(|file| self.certificates(&format!("{path}.kubernetes.ca"), &file));
        let token = self.credential(&format!("{path}.kubernetes.token"), token)?;
        Some(SecretsLookup::Kubernetes { server, token, ca })
    }

    /// A token goes there, so it is https, or this machine.
    fn is_reachable(&mut self, path: &str, address: &str, name: &str) {
        self.without_credentials(path, address);
        let host = address.strip_prefix("http://").map(|rest| rest.split('/').next());
        if host.flatten().is_some_and(|host| !is_loopback_authority(host)) {
            let message = format!("our token would go to `{name}` in the clear");
            self.report.wrong(path, message, "use an address that begins with https://");
        } else if !address.starts_with("https://") && host.is_none() {
            let message = format!("`{name}` is not an address");
            self.report.wrong(path, message, "write it like https://vault.example.com");
        }
    }

    pub(super) fn certificates(&mut self, path: &str, file: &str) -> Option<Vec<u8>> {
        match std::fs::read(file) {
            Ok(pem) if String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") => {
                Some(pem)
            }
            Ok(_) => {
                let help = "name a file with certificates as PEM";
                self.report.wrong(path, format!("{file} holds no certificate"), help);
                None
            }
            Err(error) => {
                let message = format!("{file} cannot be read: {error}");
                self.report.wrong(path, message, "name a file with certificates as PEM");
                None
            }
        }
    }

    pub(super) fn credential(&mut self, path: &str, secret: file::Secret) -> Option<Credential> {
        let file = secret.file.as_deref();
        let file = file.map(|file| secret::locate(Path::new(file), self.variables));
        self.secret(path, secret, ONE_OF).map(|secret| Credential { secret, file })
    }
}

/// As images name it, in lower case; Docker Hub by its one name.
fn is_host(text: &str) -> bool {
    let legal =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-' | b':');
    let other_name = matches!(text, "index.docker.io" | "registry-1.docker.io" | "hub.docker.com");
    let is_one = text == "localhost" || text.contains(['.', ':']);
    text == ANY_OTHER || (is_one && !other_name && text.bytes().all(legal))
}
