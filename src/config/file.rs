//! The configuration file as an operator writes it. Its JSON Schema, which editors use and the
//! reader checks by, is made from these types. What is left out is filled in by `resolve`.

pub mod auth; // who may call, and see the pages
pub mod notify; // who is told
pub mod slack; // people on Slack
pub mod webhooks; // programs that receive events

pub mod manifests; // where manifests are pushed to
pub mod argocd; // how Argo CD sees a cluster
pub mod access; // as whom a git repository is reached
pub mod github; // who we are to GitHub
pub mod outbound; // how we get out
pub mod signing; // how commits are signed
mod previews; // what pull requests are shown
mod templates; // where templates come from

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Json;

use crate::config::file::auth::Auth;
use crate::config::file::manifests::Manifests;
use crate::config::file::notify::Notify;
pub use crate::config::file::previews::Previews;
pub use crate::config::file::templates::{Templates, TemplatesRepository};
use crate::model::lock::Policies;
use crate::model::platform::Platform;
use crate::model::target::Environment;

/// The configuration of the-deployer.
///
/// Every part may be left out. A variable `THE_DEPLOYER_` and the path in capitals sets a single
/// value over the file's: `THE_DEPLOYER_SERVER_LISTEN` for `server.listen`; lists of texts are
/// separated by commas.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "the-deployer's configuration")]
pub struct File {
    /// Where it listens, and under which address people reach it.
    pub server: Option<Server>,
    /// Where its state is kept.
    pub storage: Option<Storage>,
    /// Where service repositories are and events come from: `github` or `local`.
    pub forge: Option<Forge>,
    /// The file that each service repository describes itself in.
    pub waml: Option<Waml>,
    /// The templates that manifests are rendered from.
    pub templates: Option<Templates>,
    /// The repositories that manifests are pushed to.
    pub manifests: Option<Manifests>,
    /// The clusters that may be deployed to; while there are none, every target is accepted.
    pub clusters: Option<Vec<Cluster>>,
    /// What every cluster has to offer; a cluster's own `platform` is laid over it.
    #[schemars(with = "Option<Platform>")]
    pub platform: Option<Json>,
    /// How everything outside is reached by HTTP: through a proxy, with an authority of one's own.
    pub outbound: Option<outbound::Outbound>,
    /// The registries that are asked whether an image's tag exists.
    pub registries: Option<Vec<Registry>>,
    /// Who is told what becomes of deployments, beside the forge.
    pub notify: Option<Notify>,
    /// Who may call the API, and see the pages.
    pub auth: Option<Auth>,
    /// Bounds.
    pub limits: Option<Limits>,
}

/// Where the server listens, and under which address people reach it.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// Address and port: 127.0.0.1:8080. Another than loopback needs `auth.tokens` or `auth.github`.
    pub listen: Option<String>,
    /// The address that people use; links to our pages begin with it. Default: `http://` and `listen`.
    #[schemars(extend("format" = "url"))]
    pub external_url: Option<String>,
    /// How long open work may take to end when the process is told to stop: `25s`.
    pub shutdown_grace: Option<String>,
    /// Proxies whose `X-Forwarded-For` is believed, as addresses or networks: `10.0.0.0/8`.
    /// Default: none.
    pub trusted_proxies: Option<Vec<String>>,
}

/// Where state is kept.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Storage {
    /// `sqlite:PATH` or `postgres://USER@HOST/DATABASE`. Default: a SQLite file in `folder`.
    pub url: Option<String>,
    /// The folder for everything that has no other place: clones, and what is made at first start.
    pub folder: Option<String>,
    /// After how many days a deployment that ended is deleted from the database, unless it is live, a
    /// rollback can go back to it, or something is still to be told of it. At least 30; 0 keeps all.
    /// Default: 400.
    #[schemars(range(min = 0, max = 36_500))]
    pub retention_days: Option<u32>,
}

/// A code host: exactly one of the two.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Forge {
    /// GitHub, or a GitHub Enterprise Server.
    pub github: Option<GitHub>,
    /// Bare git repositories in a folder.
    pub local: Option<Local>,
}

/// GitHub, or a GitHub Enterprise Server.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GitHub {
    /// The API's address; for an Enterprise Server `https://HOST/api/v3`.
    #[serde(default)]
    #[schemars(extend("format" = "url"))]
    pub api_url: Option<String>,
    /// A token that may read contents and write deployments; a file is read for each request, so
    /// that it may be renewed. Exactly one of `token` and `app`.
    #[serde(default)]
    pub token: Option<Secret>,
    /// A GitHub App. It alone can write check runs and look for lost events.
    #[serde(default)]
    pub app: Option<github::App>,
    /// With what people log in from a terminal (`bart login`).
    #[serde(default)]
    pub login: Option<github::Login>,
    /// The secret that the webhook is set up with.
    pub webhook_secret: Secret,
    /// The secret before that one: taken too, while it is being changed.
    #[serde(default)]
    pub previous_webhook_secret: Option<Secret>,
    /// Repositories that may deploy, as globs over `owner/name`. Default: all.
    #[serde(default)]
    pub repositories: Option<Vec<String>>,
    /// Organizations all of whose repositories may deploy, beside `repositories`.
    #[serde(default)]
    pub organizations: Option<Vec<String>>,
    /// Environments that are for us, as globs over their names; letter case does not count.
    /// Default: all that can be targets.
    #[serde(default)]
    pub environments: Option<Vec<String>>,
    /// How often events that were lost are looked for, `1s` to a day, or `off`. Default: `5m`.
    #[serde(default)]
    pub sweep: Option<String>,
    /// The `task` of deployments that are for us. Default: `deploy`.
    #[serde(default)]
    pub tasks: Option<Vec<String>>,
    /// The image tag of a deployment whose payload names none: a text with `{ref}`, `{sha}` or
    /// `{short_sha}` in it. Default: `{sha}`.
    #[serde(default)]
    pub tag: Option<String>,
    /// Previews of pull requests.
    #[serde(default)]
    pub previews: Option<Previews>,
}

/// Bare git repositories `OWNER/NAME.git` in a folder.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Local {
    /// The folder. Default: `repos` in the storage folder.
    pub root: Option<String>,
    /// The secret that events are signed with. Default: made at first start.
    pub webhook_secret: Option<Secret>,
}

/// A secret: exactly one of the two.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Secret {
    /// A file that holds it, and nothing else.
    pub file: Option<String>,
    /// An environment variable that holds it.
    pub env: Option<String>,
}

/// The file that each service repository describes itself in.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Waml {
    /// Its path in the repository. Default: `.weave.yaml`.
    pub path: Option<String>,
    /// Its largest size in bytes. Default: 262144.
    #[schemars(range(min = 1, max = 262_144))]
    pub max_bytes: Option<u32>,
}

/// The committer of the commits. Their author is the person who asked.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Identity {
    /// A name. Default: `the-deployer`.
    #[schemars(extend("format" = "line"))]
    pub name: Option<String>,
    /// An e-mail address. Default: `the-deployer@localhost`.
    #[schemars(extend("format" = "email"))]
    pub email: Option<String>,
}

/// One cluster that may be deployed to.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Its name, as in `deploy` of a WAML and as environment on GitHub.
    #[schemars(extend("format" = "target"))]
    pub name: String,
    /// How careful one must be with it.
    pub environment: Environment,
    /// The domain under which apps are reached: `prod.example.com`.
    pub domain: String,
    /// The API server's address as Argo CD knows it. Default: the cluster that Argo CD runs in.
    #[serde(default)]
    #[schemars(extend("format" = "url"))]
    pub server: Option<String>,
    /// The version of Kubernetes that it has, from `1.25` to `1.37`: manifests are judged by what that version knows.
    /// Default: the newest, 1.37.
    #[serde(default)]
    #[schemars(extend("format" = "line"))]
    pub version: Option<String>,
    /// Free labels, for selecting.
    #[serde(default)]
    pub labels: Option<BTreeMap<String, String>>,
    /// What it has to offer, where that differs from the `platform` of all.
    #[serde(default)]
    #[schemars(with = "Option<Platform>")]
    pub platform: Option<Json>,
    /// What may be deployed there, and when.
    #[serde(default)]
    pub policies: Option<Policies>,
    /// How Argo CD sees it.
    #[serde(default)]
    pub argocd: Option<argocd::ArgoCd>,
    /// Where to look things up that rules must know of the cluster.
    #[serde(default)]
    pub lookups: Option<Lookups>,
}

/// Where to look things up that rules must know of a cluster.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Lookups {
    /// Where to look whether secrets exist: `vault`, `kubernetes` or `none`. Default: `none`.
    pub secrets: Option<SecretsIn>,
    /// How to come into the Vault that `platform.secrets.vault` names.
    pub vault: Option<VaultAccess>,
    /// How to come to the cluster's API server.
    pub kubernetes: Option<KubernetesAccess>,
}

/// Where to look whether secrets exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SecretsIn {
    /// Nowhere: it is not checked.
    None,
    /// In Vault.
    Vault,
    /// In the cluster.
    Kubernetes,
}

/// How to come into a Vault.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VaultAccess {
    /// A token that may read `metadata/*` and `subkeys/*` of the engine, and no more. A file is
    /// read anew for each question, so that an agent may renew it.
    pub token: Secret,
    /// The namespace (Vault Enterprise). Default: that of `platform.secrets.vault`.
    #[serde(default)]
    #[schemars(extend("format" = "line"))]
    pub namespace: Option<String>,
}

/// How to come to a cluster's API server.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KubernetesAccess {
    /// The API server's address. Default: the cluster's `server`.
    #[serde(default)]
    #[schemars(extend("format" = "url"))]
    pub server: Option<String>,
    /// A token that may `get` secrets, externalsecrets and vaultstaticsecrets. A file is read
    /// anew for each question, so that it may be renewed.
    pub token: Secret,
    /// A file with the certificates of who signed the server's, as PEM. Default: those that the
    /// machine trusts.
    #[serde(default)]
    pub ca: Option<String>,
}

/// A registry that is asked whether an image's tag exists.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Registry {
    /// Its host as images name it: `ghcr.io`, `docker.io`, `registry.example.com:5000`; `*` for
    /// every other one on the Internet, without a login.
    #[schemars(extend("format" = "line"))]
    pub host: String,
    /// Who we are there. Default: anybody.
    #[serde(default)]
    #[schemars(extend("format" = "line"))]
    pub username: Option<String>,
    /// The password, or a token that may pull.
    #[serde(default)]
    pub password: Option<Secret>,
    /// Whether it is reached by http, where everybody on the way can listen. Default: no.
    #[serde(default)]
    pub insecure: Option<bool>,
}

/// Bounds.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// How many deployments are worked on at once. Most of the time they wait, for the code host
    /// and for the push they go along with: this also bounds how many go in one push. Default: 128.
    #[schemars(range(min = 1, max = 256))]
    pub workers: Option<u32>,
    /// After how long without a sign of life a worker's deployment is taken over: `30s`.
    pub lease: Option<String>,
    /// How long a deployment waits for everything that is looked up for it: `10s`.
    pub lookups: Option<String>,
    /// The largest body of a webhook in bytes. Default: 1048576; GitHub sends at most 26214400.
    #[schemars(range(min = 1024, max = 26_214_400))]
    pub body: Option<u32>,
    /// How long the body of a webhook may take to arrive: `7s`. One that comes slower than 16 KiB a
    /// second is not waited for so long.
    pub body_timeout: Option<String>,
    /// How long the head of a request may take to arrive: `10s`.
    pub header_timeout: Option<String>,
    /// How long a connection may be silent between two requests: `90s`. Longer than proxies keep theirs.
    pub idle_timeout: Option<String>,
    /// How long a client may take nothing of its answer: `10s`.
    pub write_timeout: Option<String>,
    /// How many connections are open at once. Default: 2048, and fewer where the limit on open
    /// files asks for it.
    #[schemars(range(min = 16, max = 65_536))]
    pub connections: Option<u32>,
    /// How many of them one client address has; of IPv6, one network of 64 bits. Those of
    /// `server.trusted_proxies` are not counted. Default: half of `connections`.
    #[schemars(range(min = 8, max = 65_536))]
    pub connections_per_address: Option<u32>,
    /// How many requests to the API and the pages a caller may make in a minute. Default: 1200.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub requests_per_minute: Option<u32>,
}
