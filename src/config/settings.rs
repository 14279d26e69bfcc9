//! The configuration as the program uses it: complete, and every value of its own type.

pub mod auth; // who may call
pub mod argocd; // Argo CDs that are told of pushes
pub mod slack; // people on Slack
pub mod webhooks; // programs that receive events

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

use crate::config::file::auth::Pages;
use crate::config::settings::argocd::ArgoCdWebhook;
pub use crate::config::settings::auth::{ApiToken, Network, People};
use crate::config::settings::webhooks::EventWebhook;
use crate::forge::github::auth::key::AppKey;
use crate::forge::github::webhook::rules::Rules;
use crate::git::signing::SigningKey;
use crate::git::writer::{CommitIdentity, PushBudget, PushBy};
use crate::model::id::{RepoName, TargetName};
use crate::model::target::Clusters;
use crate::support::globs::Globs;
use crate::support::http::Outbound;

/// Everything that can be set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the server listens.
    pub server: Server,
    /// Where state is kept.
    pub storage: Storage,
    /// The code host.
    pub forge: Forge,
    /// What a webhook must satisfy.
    pub webhook: Webhook,
    /// The developers' file.
    pub waml: Waml,
    /// Where templates come from.
    pub templates: Templates,
    /// The manifest repositories, in the file's order; at least one.
    pub manifests: Vec<Manifests>,
    /// The clusters that may be deployed to.
    pub clusters: Clusters,
    /// How everything outside is reached by HTTP.
    pub outbound: Outbound,
    /// What is looked up outside, and how.
    pub lookups: Lookups,
    /// Slack, if people are told on it.
    pub slack: Option<slack::Slack>,
    /// The programs that receive events.
    pub event_webhooks: Vec<EventWebhook>,
    /// The clusters whose Argo CD is told of pushes.
    pub argocd: BTreeMap<TargetName, ArgoCdWebhook>,
    /// The tokens that may call the API. They or people may where the server listens elsewhere than
    /// on loopback.
    pub tokens: Vec<ApiToken>,
    /// The people who may call it with a GitHub token of their own, if they may.
    pub people: Option<People>,
    /// Who may see the pages.
    pub pages: Pages,
    /// Bounds.
    pub limits: Limits,
}

/// Where the server listens, and under which address people reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Address and port.
    pub listen: SocketAddr,
    /// Begins every link to our pages; without a slash at the end.
    pub external_url: String,
    /// How long open work may take to end.
    pub shutdown_grace: Duration,
    /// Proxies that are believed where a request comes from.
    pub trusted_proxies: Vec<Network>,
}

/// Where state is kept.
#[derive(Debug, Clone)]
pub struct Storage {
    /// The database; may hold a password.
    pub url: SecretString,
    /// The folder for everything that has no other place.
    pub folder: PathBuf,
    /// After how many days deployments are deleted; never where it is absent.
    pub retention_days: Option<u32>,
}

/// The code host.
#[derive(Debug, Clone)]
pub enum Forge {
    /// Bare repositories in a folder.
    Local {
        /// The folder.
        root: PathBuf,
    },
    /// GitHub, or a GitHub Enterprise Server.
    GitHub {
        /// The API's address.
        api_url: String,
        /// Who we are there.
        credentials: Credentials,
        /// The client id that people log in with from a terminal.
        login: Option<String>,
    },
}

/// Who we are to GitHub.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// The owner of a token that may read contents and write deployments.
    Token(Credential),
    /// A GitHub App.
    App(AppKey),
}

/// What a webhook must satisfy.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// What events are signed with.
    pub secret: WebhookSecret,
    /// The secret before that one, which is taken too.
    pub previous: Option<SecretString>,
    /// Which events are for us.
    pub rules: Rules,
    /// How often events that were lost are looked for; never where it is absent.
    pub sweep: Option<Duration>,
}

/// Where the webhook's secret comes from.
#[derive(Debug, Clone)]
pub enum WebhookSecret {
    /// The operator gave it.
    Given(SecretString),
    /// It is in that file, made at first start: see `secret::keep`.
    Kept(PathBuf),
}

/// The file that each service repository describes itself in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waml {
    /// Its path in the repository.
    pub path: String,
    /// Its largest size.
    pub max_bytes: usize,
}

/// Where templates come from.
#[derive(Debug, Clone)]
pub enum Templates {
    /// The program itself.
    BuiltIn,
    /// A folder that has `apps/`.
    Folder(PathBuf),
    /// A branch of a repository.
    Repository(TemplatesRepository),
}

/// A branch of a repository that templates come from.
#[derive(Debug, Clone)]
pub struct TemplatesRepository {
    /// An http or https address without credentials, ssh's, or a path.
    pub url: String,
    /// The branch.
    pub branch: String,
    /// The folder in it that has `apps/`; empty for its root.
    pub path: String,
    /// How often it is looked at without a push event.
    pub refresh: Duration,
    /// Must be allowed to read.
    pub access: GitAccess,
    /// Where its clone is kept.
    pub clone_dir: PathBuf,
}

/// As whom we come to a git repository.
#[derive(Debug, Clone)]
pub enum GitAccess {
    /// Without a token.
    Anybody,
    /// With a token of its own.
    Token(Credential),
    /// As the forge's GitHub App, which is installed on that repository.
    App(RepoName),
    /// Over ssh, with a key.
    Ssh(SshAccess),
}

/// How we come to a git repository over ssh.
#[derive(Debug, Clone)]
pub struct SshAccess {
    /// The private key.
    pub key: Credential,
    /// The file with the host keys that are believed.
    pub known_hosts: PathBuf,
    /// The folder that ssh runs in, of this repository alone.
    pub folder: PathBuf,
}

/// One repository that manifests are pushed to.
#[derive(Debug, Clone)]
pub struct Manifests {
    /// What it is called.
    pub name: String,
    /// An http or https address without credentials, ssh's, or a path.
    pub url: String,
    /// The branch that Argo CD follows.
    pub branch: String,
    /// Which targets' manifests it has.
    pub targets: Globs,
    /// Must be allowed to push.
    pub access: GitAccess,
    /// Who commits: name and e-mail address.
    pub identity: CommitIdentity,
    /// How commits are signed, if they are.
    pub signing: Option<SigningKey>,
    /// Where its clone is kept, if it needs one.
    pub clone_dir: PathBuf,
    /// Whether it is the local one that the program makes itself when it is not there.
    pub embedded: bool,
    /// How often it may be pushed to.
    pub budget: PushBudget,
    /// Who pushes.
    pub push: PushBy,
}

/// What is looked up outside, and how.
#[derive(Debug, Clone, Default)]
pub struct Lookups {
    /// The registries that may be asked; no two of the same host.
    pub registries: Vec<Registry>,
    /// Where secrets are looked up, by cluster; nowhere where it is absent.
    pub secrets: BTreeMap<TargetName, SecretsLookup>,
}

/// A registry that may be asked.
#[derive(Debug, Clone)]
pub struct Registry {
    /// Its host as images name it, or `*`.
    pub host: String,
    /// Name and password.
    pub login: Option<(String, Credential)>,
    /// Whether it is reached by http.
    pub insecure: bool,
}

/// Where a cluster's secrets are looked up.
#[derive(Debug, Clone)]
pub enum SecretsLookup {
    /// In Vault.
    Vault {
        /// Its address.
        address: String,
        /// Where its key-value engine is mounted.
        mount: String,
        /// The namespace.
        namespace: Option<String>,
        /// May read metadata and the names of keys.
        token: Credential,
    },
    /// In the cluster.
    Kubernetes {
        /// The API server's address.
        server: String,
        /// May get secrets.
        token: Credential,
        /// Who signed the server's certificate, as PEM.
        ca: Option<Vec<u8>>,
    },
}

/// A secret that was read once, and the file that it may be read from again.
#[derive(Debug, Clone)]
pub struct Credential {
    /// As it was when the settings were made.
    pub secret: SecretString,
    /// Where it may change.
    pub file: Option<PathBuf>,
}

/// Bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many deployments are worked on at once.
    pub workers: usize,
    /// After how long without a sign of life a worker's deployment is taken over.
    pub lease: Duration,
    /// How long a deployment waits for everything that is looked up for it.
    pub lookups: Duration,
    /// The largest body of a webhook in bytes.
    pub body: usize,
    /// How long a webhook's body may take to arrive.
    pub body_timeout: Duration,
    /// How long the head of a request may.
    pub header_timeout: Duration,
    /// How long a connection may be silent between two requests.
    pub idle_timeout: Duration,
    /// How long a client may take nothing of its answer.
    pub write_timeout: Duration,
    /// How many connections are open at once.
    pub connections: usize,
    /// How many of them one client address has.
    pub connections_per_address: usize,
    /// How many requests a caller may make in a minute.
    pub requests_per_minute: u32,
}

impl Settings {
    /// The repository that a target's manifests go to: the first whose globs match it.
    pub fn manifests_of(&self, target: &TargetName) -> Option<&Manifests> {
        self.manifests.iter().find(|one| one.targets.is_match(target.as_str()))
    }
}
