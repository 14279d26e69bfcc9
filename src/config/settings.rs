//! The whole configuration: the file as an operator writes it, the settings that the program uses, and the conversion
//! from one to the other. Each area has a file of its own, with the same three parts. The file's JSON Schema, which
//! editors and the parser use, is made from the types as written.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Json;

use crate::cluster::connection::settings::ClusterSettings;
use crate::config::access::RepositoryApp;
use crate::config::argocd::ArgoCdWebhookSettings;
use crate::config::auth::Auth;
use crate::config::bigquery::BigQuery;
use crate::config::clusters::Cluster;
use crate::config::event_webhooks::{EventWebhook, EventWebhookSettings};
use crate::config::fleets::Fleet;
use crate::config::forge::{Forge, ForgeSettings};
use crate::config::gates::Gates;
use crate::config::limits::{LimitSettings, Limits};
use crate::config::lookups::Registry;
use crate::config::manifests::{ManifestRepositorySettings, Manifests};
use crate::config::outbound::Outbound;
use crate::config::resolver::Resolver;
use crate::config::server::{Server, ServerSettings};
use crate::config::slack::{Slack, SlackSettings};
use crate::config::storage::{Storage, StorageSettings};
use crate::config::templates::{Templates, TemplatesSettings};
use crate::config::waml::{Waml, WamlSettings};
use crate::config::webhook::WebhookSettings;
use crate::lookups::clients::LookupSettings;
use crate::lookups::gates::GateSettings;
use crate::model::callers::{AgentToken, ApiToken, GitHubTeams, Pages, SessionTimes};
use crate::model::fleets::Fleets;
use crate::model::id::TargetName;
use crate::model::platform::Platform;
use crate::model::target::Clusters;
use crate::notify::bigquery::BigQuerySettings;
use crate::support::http;

/// The configuration of the-deployer.
///
/// Every part may be left out. A variable `THE_DEPLOYER_` and the path in capitals sets a single
/// value over the file's: `THE_DEPLOYER_SERVER_LISTEN` for `server.listen`; lists of texts are
/// separated by commas.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "the-deployer's configuration")]
pub(super) struct File {
    /// The listener and the public address.
    pub(super) server: Option<Server>,
    /// The database and the data folder.
    pub(super) storage: Option<Storage>,
    /// The code host, which has the service repositories and sends events: `github` or `local`.
    pub(super) forge: Option<Forge>,
    /// The WAML: the file in which a service repository describes its app.
    pub(super) waml: Option<Waml>,
    /// The source of templates.
    pub(super) templates: Option<Templates>,
    /// The manifest repositories.
    pub(super) manifests: Option<Manifests>,
    /// The clusters that the service deploys to; without clusters every target is accepted.
    pub(super) clusters: Option<Vec<Cluster>>,
    /// The fleets: sets of clusters that are deployed to as one target, see `docs/fleets.md`.
    pub(super) fleets: Option<Vec<Fleet>>,
    /// The offers of every cluster; a cluster's own `platform` is merged over it.
    #[schemars(with = "Option<Platform>")]
    pub(super) platform: Option<Json>,
    /// Outgoing HTTP: the proxy and the trusted certificates.
    pub(super) outbound: Option<Outbound>,
    /// The registries in which the service looks up images.
    pub(super) registries: Option<Vec<Registry>>,
    /// The servers that the gates of rollouts ask: see `docs/rollouts.md`.
    pub(super) gates: Option<Gates>,
    /// The receivers of messages about deployments, beside the code host.
    pub(super) notify: Option<Notify>,
    /// The callers of the API and the readers of the pages.
    pub(super) auth: Option<Auth>,
    /// Limits.
    pub(super) limits: Option<Limits>,
}

/// The receivers of messages about deployments, beside the code host.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Notify {
    /// Slack: see `docs/slack.md`.
    slack: Option<Slack>,
    /// Programs that receive a signed event for every change: see `docs/cloudevents.md`.
    webhooks: Option<Vec<EventWebhook>>,
    /// A table in BigQuery with a row for each deployment that has ended: see `docs/bigquery.md`.
    bigquery: Option<BigQuery>,
}

/// All settings of the service.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The listener of the server.
    pub server: ServerSettings,
    /// The database and the data folder.
    pub storage: StorageSettings,
    /// The code host.
    pub forge: ForgeSettings,
    /// The webhook's secret and the filter of events.
    pub webhook: WebhookSettings,
    /// The WAML's path and size.
    pub waml: WamlSettings,
    /// The source of templates.
    pub templates: TemplatesSettings,
    /// The manifest repositories, in the file's order; at least one.
    pub manifests: Vec<ManifestRepositorySettings>,
    /// The clusters that the service deploys to.
    pub clusters: Clusters,
    /// The fleets, sets of these clusters.
    pub fleets: Fleets,
    /// The proxy and the trusted certificates of outgoing HTTP.
    pub outbound: http::OutboundHttp,
    /// The registries and secret stores for lookups.
    pub lookups: LookupSettings,
    /// The servers that the gates of rollouts ask.
    pub gates: GateSettings,
    /// Slack, if messages go there.
    pub slack: Option<SlackSettings>,
    /// The programs that receive events.
    pub event_webhooks: Vec<EventWebhookSettings>,
    /// The table for deployments that have ended, if there is one.
    pub bigquery: Option<BigQuerySettings>,
    /// The clusters whose Argo CD is notified of pushes.
    pub argocd: BTreeMap<TargetName, ArgoCdWebhookSettings>,
    /// The watched clusters, with their connections.
    pub kubernetes: BTreeMap<TargetName, ClusterSettings>,
    /// The tokens of the agents of clusters.
    pub agents: Vec<AgentToken>,
    /// The tokens that may call the API. A listener beyond loopback needs tokens or people.
    pub tokens: Vec<ApiToken>,
    /// The people who may call the API with a GitHub token of their own, if any may.
    pub people: Option<GitHubTeams>,
    /// The readers of the pages.
    pub pages: Pages,
    /// The time for which people stay signed in on the pages.
    pub sessions: SessionTimes,
    /// Limits.
    pub limits: LimitSettings,
}

impl Resolver<'_> {
    /// Makes the settings; they may only be used if there was no violation.
    pub(super) fn settings(&mut self, file: File) -> Option<Settings> {
        let File {
            server,
            storage,
            forge,
            waml,
            templates,
            manifests,
            clusters,
            fleets,
            platform,
            outbound,
            registries,
            gates,
            notify,
            auth,
            limits,
        } = file;
        let storage = self.storage(storage.unwrap_or_default());
        let auth = auth.unwrap_or_default();
        let pages = auth.pages.unwrap_or_default();
        let sessions = self.sessions(auth.sessions.unwrap_or_default());
        let tokens = self.tokens(auth.tokens.unwrap_or_default());
        let people = auth.github.map(|github| self.callers(github, forge.as_ref()));
        let open = tokens.is_empty() && people.is_none() && !self.report.is_broken("auth");
        let server = self.server(server.unwrap_or_default(), open);
        let host = self.forge(forge.unwrap_or_default(), &storage.folder);
        let app = RepositoryApp::of(host.as_ref().map(|(forge, _)| forge));
        let clusters = clusters.unwrap_or_default();
        let lookups_of = |cluster: &Cluster| (cluster.name.clone(), cluster.lookups.clone());
        let cluster_lookups = clusters.iter().map(lookups_of).collect();
        let argocd = self.argocd_webhooks(&clusters);
        let kubernetes = self.kubernetes_clusters(&clusters);
        let agents = clusters
            .iter()
            .enumerate()
            .filter_map(|(n, cluster)| Some((n, cluster.name.clone(), cluster.agent.clone()?)));
        let agents = self.agent_tokens(agents.collect(), &tokens);
        let clusters = self.clusters(clusters, platform.as_ref());
        let outbound = self.outbound(outbound.unwrap_or_default());
        let lookups =
            self.lookups(registries.unwrap_or_default(), cluster_lookups, &clusters, &kubernetes);
        let gates = self.gates(gates.unwrap_or_default());
        let manifests = manifests.and_then(|manifests| manifests.repositories);
        let notify = notify.unwrap_or_default();
        let slack = notify.slack.and_then(|slack| self.slack(slack));
        self.warn_of_idle_buttons(slack.as_ref(), people.is_some());
        let event_webhooks = self.event_webhooks(notify.webhooks.unwrap_or_default());
        let bigquery = notify.bigquery.map(|bigquery| self.bigquery(bigquery));
        let manifests =
            self.manifests(manifests.unwrap_or_default(), &clusters, &storage.folder, &app);
        let fleets = self.fleets(fleets.unwrap_or_default(), &clusters, &manifests);
        let waml = self.waml(waml.unwrap_or_default());
        let limits = self.limits(limits.unwrap_or_default());
        let templates = self.templates(templates.unwrap_or_default(), &storage.folder, &app);
        let (forge, mut webhook) = host?;
        let environments = std::mem::take(&mut webhook.rules.environments);
        webhook.rules.environments =
            environments.with_targets(clusters.names().into_iter().chain(fleets.names()));
        Some(Settings {
            server: server?,
            storage,
            forge,
            webhook,
            waml,
            templates,
            manifests,
            clusters,
            fleets,
            outbound,
            lookups,
            gates,
            slack,
            event_webhooks,
            bigquery: bigquery.flatten(),
            argocd,
            kubernetes,
            agents,
            tokens,
            people,
            pages,
            sessions,
            limits,
        })
    }
}

impl Settings {
    /// Finds the repository of a target's manifests: the first whose globs match it.
    pub fn manifests_of(&self, target: &TargetName) -> Option<&ManifestRepositorySettings> {
        self.manifests.iter().find(|repository| repository.targets.is_match(target.as_str()))
    }
}
