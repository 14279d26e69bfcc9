//! A kubeconfig, read for one connection.
//!
//! The library parses the file, and this code interprets it: the library would read proxies from the environment and
//! run credential plugins in its own way.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Config;
use kube::config::{AuthInfo, Cluster, ExecAuthCluster, Kubeconfig, KubeconfigError};
use secrecy::SecretString;

use crate::cluster::connection::bearer::BearerToken;
use crate::cluster::connection::error::ConnectError;
use crate::cluster::connection::exec_plugin::ExecPlugin;
use crate::cluster::connection::trust;
use crate::support::credential::Credential;
use crate::support::host::is_loopback_authority;

/// The largest kubeconfig, in bytes; a path to something else is a mistake.
const LARGEST: u64 = 4 * 1024 * 1024;

/// A context of a kubeconfig.
pub(super) struct KubeconfigContext {
    /// The server, certificates and proxy, without tokens.
    pub(super) config: Config,
    /// The user's credential beside a certificate.
    pub(super) user: KubeconfigUser,
}

/// The credential of a kubeconfig's user.
pub(super) enum KubeconfigUser {
    /// A certificate, a name with a password, or none: the client library sends it.
    Plain,
    Token(BearerToken),
    Plugin(Box<ExecPlugin>),
}

/// A context of a kubeconfig, as people choose among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextSummary {
    /// Its name.
    pub name: String,
    /// The API server's address; empty where the file has none.
    pub server: String,
    /// The kind of its user's credential.
    pub credential: UserCredential,
}

/// The kind of a user's credential, without the credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserCredential {
    /// A token, or a file with one.
    Token,
    /// A client certificate.
    Certificate,
    /// A program that prints one, by its name.
    Plugin(String),
    /// A name and a password.
    Password,
    /// Nothing that is known.
    None,
}

/// Lists the contexts of a kubeconfig; reads the file on the thread of the caller, and runs no plugin.
///
/// # Errors
/// [`ConnectError`], where the file cannot be read or has no context.
pub fn list_contexts(file: &Path) -> Result<Vec<ContextSummary>, ConnectError> {
    let Kubeconfig { clusters, auth_infos, contexts, .. } = read(file)?;
    let summary = |named: &kube::config::NamedContext| {
        let context = named.context.as_ref()?;
        let cluster = clusters.iter().find(|one| one.name == context.cluster);
        let server = cluster.and_then(|one| one.cluster.as_ref()?.server.clone());
        let user = auth_infos.iter().find(|one| Some(&one.name) == context.user.as_ref());
        let credential = user.and_then(|one| one.auth_info.as_ref()).map(summarize_credential);
        Some(ContextSummary {
            name: named.name.clone(),
            server: server.unwrap_or_default(),
            credential: credential.unwrap_or(UserCredential::None),
        })
    };
    let summaries: Vec<ContextSummary> = contexts.iter().filter_map(summary).collect();
    if summaries.is_empty() {
        return Err(ConnectError::kubeconfig(file, "has no context"));
    }
    Ok(summaries)
}

fn summarize_credential(user: &AuthInfo) -> UserCredential {
    let has_certificate =
        user.client_certificate.is_some() || user.client_certificate_data.is_some();
    match user {
        AuthInfo { token_file: Some(_), .. } | AuthInfo { token: Some(_), .. } => {
            UserCredential::Token
        }
        AuthInfo { exec: Some(exec), .. } => {
            UserCredential::Plugin(exec.command.clone().unwrap_or_default())
        }
        AuthInfo { password: Some(_), .. } => UserCredential::Password,
        _ if has_certificate => UserCredential::Certificate,
        _ => UserCredential::None,
    }
}

/// Reads the file on the thread of the caller.
pub(super) fn load(file: &Path, context: Option<&str>) -> Result<KubeconfigContext, ConnectError> {
    let failed = |problem: String| ConnectError::kubeconfig(file, problem);
    let (cluster, user) = find_context(read(file)?, context).map_err(failed)?;
    let config = connection(&cluster).map_err(failed)?;
    with_user(config, &cluster, user).map_err(|error| match error {
        ConnectError::Settings(problem) => failed(problem),
        other => other,
    })
}

fn read(file: &Path) -> Result<Kubeconfig, ConnectError> {
    let failed = |problem: String| ConnectError::kubeconfig(file, problem);
    let metadata = std::fs::metadata(file);
    let metadata = metadata.map_err(|error| failed(format!("cannot be read: {error}")))?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        return Err(failed("is too large, or no file".to_owned()));
    }
    Kubeconfig::read_from(file).map_err(|error| failed(parse_problem(&error)))
}

/// Describes a parser's error without its message, which can quote the file, and so a secret.
fn parse_problem(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, _) => format!("cannot be read: {error}"),
        _ => "is no YAML of a kubeconfig; `kubectl --kubeconfig FILE config view` says where"
            .to_owned(),
    }
}

fn find_context(config: Kubeconfig, name: Option<&str>) -> Result<(Cluster, AuthInfo), String> {
    let Kubeconfig { clusters, auth_infos, contexts, current_context, .. } = config;
    let name = name.map(str::to_owned).or(current_context.filter(|name| !name.is_empty()));
    let name = name.ok_or("has no `current-context`: name one as `context`")?;
    let names: Vec<String> = contexts.iter().map(|one| one.name.clone()).collect();
    let context = contexts.into_iter().find(|one| one.name == name).and_then(|one| one.context);
    let context =
        context.ok_or_else(|| format!("has no context {name:?}; it has {}", names.join(", ")))?;
    let cluster = clusters.into_iter().find(|one| one.name == context.cluster);
    let cluster = cluster.and_then(|one| one.cluster);
    let cluster = cluster.ok_or_else(|| format!("has no cluster {:?}", context.cluster))?;
    // As with Kubernetes' own client, a user that the file does not have is one without credentials.
    let user = auth_infos.into_iter().find(|one| Some(&one.name) == context.user.as_ref());
    Ok((cluster, user.and_then(|one| one.auth_info).unwrap_or_default()))
}

fn connection(cluster: &Cluster) -> Result<Config, String> {
    let server = cluster.server.as_deref().map(str::trim).filter(|server| !server.is_empty());
    let server = server.ok_or("names no `server` for the cluster")?;
    let address = server.parse::<http::Uri>().ok().filter(|address| address.host().is_some());
    let address = address.ok_or("has a `server` that is no address")?;
    let mut config = Config::new(address);
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or(false);
    config.tls_server_name.clone_from(&cluster.tls_server_name);
    if let Some(data) =
        cluster.certificate_authority_data.as_deref().filter(|data| !data.is_empty())
    {
        let pem = STANDARD.decode(data.trim()).map_err(|_| "has a CA that is no Base64")?;
        config.root_cert = Some(trust::parse_authorities(&pem)?);
    } else if let Some(file) =
        cluster.certificate_authority.as_deref().filter(|file| !file.is_empty())
    {
        trust::follow_file(&mut config, Path::new(file))?;
    }
    if let Some(proxy) = cluster.proxy_url.as_deref().filter(|proxy| !proxy.is_empty()) {
        config.proxy_url = Some(proxy.parse().map_err(|_| "has a `proxy-url` that is no address")?);
    }
    Ok(config)
}

fn with_user(
    mut config: Config,
    cluster: &Cluster,
    mut user: AuthInfo,
) -> Result<KubeconfigContext, ConnectError> {
    if user.auth_provider.take().is_some() {
        let problem = "names an `auth-provider`, which Kubernetes has removed: use `exec`";
        return Err(ConnectError::Settings(problem.to_owned()));
    }
    let (exec, token, file) = (user.exec.take(), user.token.take(), user.token_file.take());
    config.auth_info = user;
    let user = match (file.filter(|file| !file.is_empty()), token, exec) {
        (Some(file), _, _) => {
            let credential =
                Credential { secret: SecretString::default(), file: Some(file.into()) };
            KubeconfigUser::Token(BearerToken::Credential(credential))
        }
        (None, Some(token), _) => KubeconfigUser::Token(BearerToken::inline(&token)),
        (None, None, Some(exec)) => {
            let info = exec.provide_cluster_info.then(|| ExecAuthCluster::try_from(cluster));
            let info = info.transpose().map_err(|_unreadable| {
                ConnectError::Settings("has a CA that cannot be read".to_owned())
            })?;
            KubeconfigUser::Plugin(Box::new(ExecPlugin::new(exec, info)?))
        }
        (None, None, None) => KubeconfigUser::Plain,
    };
    let has_secret = !matches!(user, KubeconfigUser::Plain) || config.auth_info.password.is_some();
    if has_secret && !is_safe(&config.cluster_url) {
        let problem =
            "has credentials for a `server` without https, which would send them in the clear";
        return Err(ConnectError::Settings(problem.to_owned()));
    }
    Ok(KubeconfigContext { config, user })
}

/// Returns true if credentials may go to that address: over https, or to this machine.
fn is_safe(address: &http::Uri) -> bool {
    let is_here = |authority: &http::uri::Authority| is_loopback_authority(authority.as_str());
    address.scheme_str() == Some("https") || address.authority().is_some_and(is_here)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "
apiVersion: v1
kind: Config
current-context: prod
contexts:
- {name: prod, context: {cluster: one, user: me}}
- {name: plain, context: {cluster: two, user: nobody}}
- {name: plugin, context: {cluster: two, user: program}}
- {name: lost, context: {cluster: none}}
clusters:
- name: one
  cluster: {server: 'https://10.0.0.1:6443', proxy-url: 'http://proxy:3128', tls-server-name: api}
- {name: two, cluster: {server: 'https://10.0.0.2', insecure-skip-tls-verify: true}}
users:
- {name: me, user: {token: \"s3cret-token\\n\"}}
- {name: program, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: [token]}}}
";

    fn load_text(text: &str, context: Option<&str>) -> Result<KubeconfigContext, ConnectError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        std::fs::write(&file, text).unwrap();
        load(&file, context)
    }

    #[test]
    fn contexts_are_listed_with_the_kind_of_their_credential_and_without_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        std::fs::write(&file, WHOLE).unwrap();
        let contexts = list_contexts(&file).unwrap();
        let credentials: Vec<(&str, &UserCredential)> =
            contexts.iter().map(|one| (one.name.as_str(), &one.credential)).collect();
        assert_eq!(
            credentials,
            [
                ("prod", &UserCredential::Token),
                ("plain", &UserCredential::None),
                ("plugin", &UserCredential::Plugin("aws".to_owned())),
                ("lost", &UserCredential::None),
            ]
        );
        assert_eq!(contexts[0].server, "https://10.0.0.1:6443");
        assert!(!format!("{contexts:?}").contains("s3cret"), "{contexts:?}");
        std::fs::write(&file, "apiVersion: v1\nkind: Config\n").unwrap();
        assert!(list_contexts(&file).unwrap_err().to_string().contains("has no context"));
    }

    #[test]
    fn the_current_context_counts_unless_another_is_named() {
        let KubeconfigContext { config, user } = load_text(WHOLE, None).unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://10.0.0.1:6443/");
        assert_eq!(config.proxy_url.unwrap().to_string(), "http://proxy:3128/");
        assert_eq!(config.tls_server_name.as_deref(), Some("api"));
        assert!(matches!(user, KubeconfigUser::Token(_)));
        let KubeconfigContext { config, user } = load_text(WHOLE, Some("plain")).unwrap();
        assert_eq!(config.cluster_url.host(), Some("10.0.0.2"));
        assert!(config.accept_invalid_certs && config.proxy_url.is_none());
        assert!(matches!(user, KubeconfigUser::Plain));
        let KubeconfigContext { user, .. } = load_text(WHOLE, Some("plugin")).unwrap();
        assert!(matches!(user, KubeconfigUser::Plugin(_)));
    }

    #[test]
    fn what_cannot_be_used_is_told_without_a_secret() {
        let with = |from: &str, to: &str| WHOLE.replace(from, to);
        for (text, context, expected) in [
            (WHOLE.to_owned(), Some("dev"), "has no context \"dev\"; it has prod, plain"),
            (WHOLE.to_owned(), Some("lost"), "has no cluster \"none\""),
            (with("current-context: prod", ""), None, "has no `current-context`"),
            (with("'https://10.0.0.1:6443'", "''"), None, "names no `server`"),
            (with("'https://10.0.0.1:6443'", "'https://'"), None, "a `server` that is no address"),
            (with("{token:", "{auth-provider: {name: gcp}, token:"), None, "an `auth-provider`"),
            (with("proxy-url", "certificate-authority: /none, proxy-url"), None, "/none"),
            (
                with("proxy-url", "certificate-authority-data: '%', proxy-url"),
                None,
                "a CA that is no Base64",
            ),
            (with("users:\n", "users: [\n"), None, "is no YAML of a kubeconfig"),
            (with("https://10.0.0.1", "http://10.0.0.1"), None, "in the clear"),
            (with("https://10.0.0.2", "http://[::2]:80"), Some("plugin"), "in the clear"),
        ] {
            let reason = load_text(&text, context).err().unwrap().to_string();
            assert!(
                reason.contains(expected) && !reason.contains("s3cret"),
                "{expected}: {reason}"
            );
        }
        for address in ["http://127.0.0.1", "http://[::1]"] {
            assert!(load_text(&with("https://10.0.0.1", address), None).is_ok(), "{address}");
        }
        assert!(load_text(&with("https://10.0.0.2", "http://10.0.0.2"), Some("plain")).is_ok());
        let reason = load(Path::new("/none"), None).err().unwrap().to_string();
        assert!(reason.starts_with("the kubeconfig /none cannot be read"), "{reason}");
        let reason = load(Path::new("/"), None).err().unwrap().to_string();
        assert!(reason.ends_with("is too large, or no file"), "{reason}");
    }
}
