//! From the file to settings: defaults are filled in, every value becomes its own type, and what
//! contradicts itself is told at its place. Reads secrets, and nothing else from outside.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;

use crate::config::file::{self, File};
use crate::config::offline::Purpose;
use crate::config::report::Report;
use crate::config::resolve::access::App;
use crate::config::secret::{self, Source};
use crate::config::settings::{Limits, Server, Settings, Storage, Waml};

mod auth; // who may call
mod access; // as whom we come to git repositories
mod ssh; // the same over ssh: keys and known hosts
mod fleet; // clusters, and the repositories of their manifests
mod lookups; // registries, and where secrets are looked up
mod previews; // which pull requests are previewed
mod policies; // what a cluster asks of what is deployed to it
mod host; // the code host and its webhooks
mod intake; // whose events are for us, and what looks for lost ones
mod outbound; // how everything outside is reached
mod signing; // how commits are signed
mod templates; // where templates come from
mod slack; // people on Slack
mod webhooks; // programs that receive events
mod argocd; // Argo CDs that are told of pushes

/// What happened a month ago is asked for every day.
const SHORTEST_RETENTION: u32 = 30;

/// The longest time that may be set; a longer one is a mistake.
const LONGEST: Duration = Duration::from_hours(24);

/// Two tries with a pause between them must fit in.
const SHORTEST_LOOKUP: Duration = Duration::from_millis(500);
/// A worker that waits for longer is one less.
const LONGEST_LOOKUP: Duration = Duration::from_mins(1);

/// Twenty a second: more than anybody asks who waits for the answers.
const REQUESTS_PER_MINUTE: u32 = 1200;

/// What settings are made with.
pub(super) struct Resolver<'a> {
    /// Where violations go.
    pub(super) report: Report<'a>,
    /// For secrets.
    pub(super) variables: &'a BTreeMap<String, String>,
    /// The storage folder where none is configured.
    pub(super) home: &'a Path,
    /// What the settings are for.
    pub(super) purpose: Purpose,
}

impl Resolver<'_> {
    /// The settings; of use only if there was no violation.
    pub(super) fn settings(&mut self, file: File) -> Option<Settings> {
        let File {
            server,
            storage,
            forge,
            waml,
            templates,
            manifests,
            clusters,
            platform,
            outbound,
            registries,
            notify,
            auth,
            limits,
        } = file;
        let storage = self.storage(storage.unwrap_or_default());
        let auth = auth.unwrap_or_default();
        let pages = auth.pages.unwrap_or_default();
        let tokens = self.tokens(auth.tokens.unwrap_or_default());
        let people = auth.github.map(|github| self.callers(github, forge.as_ref()));
        let open = tokens.is_empty() && people.is_none() && !self.report.is_broken("auth");
        let server = self.server(server.unwrap_or_default(), open);
        let host = self.forge(forge.unwrap_or_default(), &storage.folder);
        let app = App::of(host.as_ref().map(|(forge, _)| forge));
        let clusters = clusters.unwrap_or_default();
        let asked = clusters.iter().map(|one| (one.name.clone(), one.lookups.clone())).collect();
        let argocd = self.argocd_webhooks(&clusters);
        let clusters = self.clusters(clusters, platform.as_ref());
        let outbound = self.outbound(outbound.unwrap_or_default());
        let lookups = self.lookups(registries.unwrap_or_default(), asked, &clusters);
        let manifests = manifests.and_then(|manifests| manifests.repositories);
        let notify = notify.unwrap_or_default();
        let slack = notify.slack.map(|slack| self.slack(slack));
        let event_webhooks = self.event_webhooks(notify.webhooks.unwrap_or_default());
        let manifests =
            self.manifests(manifests.unwrap_or_default(), &clusters, &storage.folder, &app);
        let waml = self.waml(waml.unwrap_or_default());
        let limits = self.limits(limits.unwrap_or_default());
        let templates = self.templates(templates.unwrap_or_default(), &storage.folder, &app);
        let (forge, mut webhook) = host?;
        let environments = std::mem::take(&mut webhook.rules.environments);
        webhook.rules.environments = environments.with_targets(clusters.names());
        Some(Settings {
            server: server?,
            storage,
            forge,
            webhook,
            waml,
            templates,
            manifests,
            clusters,
            outbound,
            lookups,
            slack: slack.flatten(),
            event_webhooks,
            argocd,
            tokens,
            people,
            pages,
            limits,
        })
    }

    fn server(&mut self, server: file::Server, open: bool) -> Option<Server> {
        let file::Server { listen, external_url, shutdown_grace, trusted_proxies } = server;
        let trusted_proxies = self.trusted_proxies(&trusted_proxies.unwrap_or_default());
        let listen = listen.as_deref().unwrap_or("127.0.0.1:8080");
        let grace = self.duration("server.shutdown_grace", shutdown_grace, 25);
        let Ok(listen) = listen.parse::<SocketAddr>() else {
            let help = "write it like 127.0.0.1:8080 or [::1]:8080";
            self.report.wrong("server.listen", "this is not an address and a port", help);
            return None;
        };
        if open && !listen.ip().to_canonical().is_loopback() {
            let message = format!("{listen} can be reached from other machines without a token");
            let help = "add a token under `auth.tokens`, set `auth.github`, or listen on 127.0.0.1";
            self.report.wrong("server.listen", message, help);
        }
        let external_url = external_url.unwrap_or_else(|| format!("http://{listen}"));
        let external_url = external_url.trim_end_matches('/').to_owned();
        Some(Server { listen, external_url, shutdown_grace: grace, trusted_proxies })
    }

    pub(super) fn storage(&mut self, storage: file::Storage) -> Storage {
        let file::Storage { url, folder, retention_days } = storage;
        let folder = folder.map_or_else(|| self.home.to_owned(), PathBuf::from);
        let own = || format!("sqlite:{}", folder.join("state.db").display());
        let url = url.unwrap_or_else(own);
        let known = ["sqlite:", "postgres://", "postgresql://"];
        if !known.iter().any(|scheme| url.starts_with(scheme)) {
            let help = "write sqlite:PATH or postgres://USER@HOST/DATABASE";
            self.report.wrong("storage.url", "this names no database that is known", help);
        }
        let retention_days = retention_days.unwrap_or(400);
        if (1..SHORTEST_RETENTION).contains(&retention_days) {
            let message = "people and reports look back further than that";
            let help = "write at least 30, or 0 to keep all deployments";
            self.report.wrong("storage.retention_days", message, help);
        }
        let retention_days = Some(retention_days).filter(|days| *days > 0);
        Storage { url: url.into(), folder, retention_days }
    }

    fn waml(&mut self, waml: file::Waml) -> Waml {
        let file::Waml { path, max_bytes } = waml;
        let path = path.unwrap_or_else(|| ".weave.yaml".to_owned());
        let inside = |part: &str| !matches!(part, "" | "." | "..");
        if !path.split('/').all(inside) || path.chars().any(char::is_control) {
            let help = "write it like .weave.yaml or deploy/weave.yaml";
            self.report.wrong("waml.path", "this is not a path inside a repository", help);
        }
        Waml { path, max_bytes: max_bytes.unwrap_or(262_144) as usize }
    }

    fn limits(&mut self, limits: file::Limits) -> Limits {
        let file::Limits {
            workers,
            lease,
            lookups,
            body,
            body_timeout,
            header_timeout,
            idle_timeout,
            write_timeout,
            connections,
            connections_per_address,
            requests_per_minute,
        } = limits;
        let connections = connections.unwrap_or(2048);
        let lease = self.duration("limits.lease", lease, 30);
        let lookups = self.duration("limits.lookups", lookups, 10);
        if !(SHORTEST_LOOKUP..=LONGEST_LOOKUP).contains(&lookups) {
            let message = "looking things up takes a second and no more than a minute";
            self.report.wrong("limits.lookups", message, "write `10s`");
        }
        if lease < Duration::from_secs(1) {
            self.report.wrong("limits.lease", "a lease this short is lost at once", "write `30s`");
        }
        Limits {
            workers: workers.unwrap_or(128) as usize,
            lease,
            lookups,
            body: body.unwrap_or(1024 * 1024) as usize,
            body_timeout: self.patience("limits.body_timeout", body_timeout, 7),
            header_timeout: self.patience("limits.header_timeout", header_timeout, 10),
            idle_timeout: self.patience("limits.idle_timeout", idle_timeout, 90),
            write_timeout: self.patience("limits.write_timeout", write_timeout, 10),
            connections: connections as usize,
            connections_per_address: connections_per_address.unwrap_or(connections / 2) as usize,
            requests_per_minute: requests_per_minute.unwrap_or(REQUESTS_PER_MINUTE),
        }
    }

    /// The secret that is meant, read.
    fn secret(&mut self, path: &str, secret: file::Secret, help: &str) -> Option<SecretString> {
        let file::Secret { file, env } = secret;
        let (source, key) = match (file, env) {
            (Some(file), None) => {
                (Source::File(secret::locate(Path::new(&file), self.variables)), "file")
            }
            (None, Some(name)) => (Source::Variable(name), "env"),
            (Some(_), Some(_)) => {
                self.report.wrong(path, "this secret is given twice", help);
                return None;
            }
            (None, None) => {
                self.report.wrong(path, "this secret is not given", help);
                return None;
            }
        };
        let path = format!("{path}.{key}");
        match secret::read(&source, self.variables) {
            Ok(found) => {
                if let Some(warning) = found.warning {
                    self.report.doubtful(&path, warning, "a secret is for its owner only");
                }
                Some(found.secret)
            }
            Err(error) => {
                let help = "put the secret there, or name another place";
                self.report.wrong(&path, error.to_string(), help);
                None
            }
        }
    }

    /// A time such as `30s`; the default where none is set or it cannot be read.
    /// How long a client is waited for.
    fn patience(&mut self, path: &str, text: Option<String>, default: u64) -> Duration {
        let patience = self.duration(path, text, default);
        if !(Duration::from_millis(100)..=Duration::from_mins(5)).contains(&patience) {
            let message = "clients are waited for at least 100 ms and no more than five minutes";
            self.report.wrong(path, message, &format!("write `{default}s`"));
        }
        patience
    }

    fn duration(&mut self, path: &str, text: Option<String>, default: u64) -> Duration {
        let default = Duration::from_secs(default);
        let Some(text) = text else { return default };
        let read = text.parse::<jiff::SignedDuration>().ok();
        match read.and_then(|signed| Duration::try_from(signed).ok()) {
            Some(duration) if duration <= LONGEST => duration,
            Some(_) | None => {
                let message = "this is not a time of at most a day";
                self.report.wrong(path, message, "write it like `30s` or `5m`");
                default
            }
        }
    }
}
