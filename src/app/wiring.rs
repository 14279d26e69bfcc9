//! Assembles the parts by the settings: sinks and their limits, the loops, and the authentication
//! of callers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::app::start_error::{Boxed, StartError, cannot_use};
use crate::cluster::connection::client::ClusterConnection;
use crate::cluster::connection::settings::{ClusterSettings, ClusterSource};
use crate::cluster::watch::health::ClusterHealth;
use crate::cluster::watch::metrics::WatchMetrics;
use crate::cluster::watch::schedule::WatchLimits;
use crate::config::forge::{ForgeSettings, GitHubCredentials, LoginSettings};
use crate::config::limits::LimitSettings;
use crate::config::secret;
use crate::config::settings::Settings;
use crate::config::slack::SlackSettings;
use crate::config::webhook::{WebhookSecret, WebhookSettings};
use crate::controller::clusters::{ClusterFollower, FollowerSettings};
use crate::controller::previews::{self, PreviewLoop};
use crate::controller::rollouts::{RolloutLoop, RolloutMetrics};
use crate::controller::sweep::{self, Sweeps};
use crate::controller::{self, Controller};
use crate::deployments::watched_cluster::{ClusterLink, WatchedCluster};
use crate::deployments::{Deployments, removal};
use crate::forge::Forge;
use crate::forge::github::client::sign_in::OAuthClient;
use crate::model::id::{TargetName, TeamName};
use crate::model::notice::Subscriptions;
use crate::model::target::Clusters;
use crate::notify::argocd::Hook;
use crate::notify::bigquery::BigQueryTable;
use crate::notify::slack::people::PeopleDirectory;
use crate::notify::slack::{self, SlackClient};
use crate::notify::webhook::Receiver;
use crate::outbox::quota::Hourly;
use crate::outbox::sinks::{
    LONGEST_BIGQUERY_CALL, LONGEST_CALL, LONGEST_SLACK_CALL, Sinks, SlackSink,
};
use crate::outbox::{self, Outbox};
use crate::server::auth::{
    Admission, AllowedHosts, CookieKey, FingerprintKey, Proxies, SessionSettings,
};
use crate::server::connections::ConnectionLimits;
use crate::server::descriptors::room_for_connections;
use crate::server::{ServerLimits, SlackButtons, Webhook};
use crate::store::Store;
use crate::support::clock::Clock;
use crate::support::random::random_bytes;
use crate::support::rate_limit::Rate;
use crate::support::telemetry;

/// The rate limit of statuses to GitHub. GitHub wants a second between writes, accepts bursts, and
/// no more than 80 calls a minute that create content:
/// <https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api>. An Enterprise
/// Server may have the same limits, and outdated statuses are skipped anyway. Two of the eighty are
/// left for rollbacks, which take one call more than was counted.
const GITHUB: Rate = Rate { burst: 18, every: Duration::from_secs(1) };
/// The hourly quota of the same page: 500. Twenty are left for previews and repeated calls.
const GITHUB_HOURLY: u32 = 480;
/// BigQuery takes many more requests; one service that has waited for it must not use up what a project may do.
const BIGQUERY: Rate = Rate { burst: 50, every: Duration::from_millis(50) };
/// The longest duration of an attempt at a deployment.
const LONGEST_ATTEMPT: Duration = Duration::from_mins(10);

/// The loops beside the server, and the parts that they work with.
pub(super) struct Loops {
    pub(super) controller: Arc<Controller>,
    pub(super) outbox: Arc<Outbox>,
    /// `None` while previews are off.
    pub(super) previews: Option<PreviewLoop>,
    /// `None` where sweeps are off.
    pub(super) sweeps: Option<Sweeps>,
    pub(super) rollouts: Arc<RolloutLoop>,
    /// The watches of clusters.
    pub(super) followers: Vec<Arc<ClusterFollower>>,
    pub(super) deployments: Deployments,
}

/// Returns the subscriptions of the settings. The local code host has no place to show a commit's
/// status; check runs are for Apps.
pub(super) fn subscriptions(settings: &Settings) -> Subscriptions {
    let (commits, checks) = match &settings.forge {
        ForgeSettings::Local { .. } => (false, false),
        ForgeSettings::GitHub { credentials: GitHubCredentials::Token(_), .. } => (true, false),
        ForgeSettings::GitHub { credentials: GitHubCredentials::App(_), .. } => (true, true),
    };
    let events = settings.event_webhooks.iter().map(|webhook| webhook.name.clone()).collect();
    let argocd = settings.argocd.keys().cloned().collect();
    let (slack, bigquery) = (settings.slack.is_some(), settings.bigquery.is_some());
    Subscriptions { commits, checks, slack, events, argocd, bigquery }
}

/// Builds the loops that work beside the server. All receivers share the client, which must follow
/// no redirects; one of them also needs a client without a proxy.
pub(super) fn loops(
    settings: &Settings,
    instance: &str,
    deployments: Deployments,
    (client, unproxied): (&reqwest::Client, &reqwest::Client),
    (registry, longest_attempt): (&telemetry::Metrics, Option<Duration>),
) -> Loops {
    let (lease, grace) = (settings.limits.lease, settings.server.shutdown_grace);
    let workers = controller::WorkerSettings {
        name: instance.to_owned(),
        workers: settings.limits.workers,
        lease,
        act: removal::HOLD,
        longest_job: longest_attempt.unwrap_or(LONGEST_ATTEMPT),
        grace,
    };
    let (forge, forge_hourly) = match &settings.forge {
        ForgeSettings::Local { .. } => (Rate::FREE, None),
        ForgeSettings::GitHub { credentials, .. } => {
            let by_owner = matches!(credentials, GitHubCredentials::App(_));
            (GITHUB, Some(Hourly { most: GITHUB_HOURLY, by_owner }))
        }
    };
    let outbox = outbox::OutboxSettings { lease, grace, forge, bigquery: BIGQUERY, forge_hourly };
    let metrics = registry.register(controller::metrics::WorkerMetrics::new);
    let controller = Arc::new(Controller::new(deployments.clone(), workers, metrics));
    registry.register(|registry| deployments.store.interval_metrics().register(registry));
    registry.register(|registry| deployments.rollout_metrics.register(registry));
    let metrics = registry.register(outbox::metrics::OutboxMetrics::new);
    let sinks = sinks(settings, deployments.clone(), client, unproxied);
    let outbox = Arc::new(Outbox::new(sinks, outbox, metrics));
    let metrics = registry.register(previews::PreviewMetrics::new);
    let previews = PreviewLoop::new(deployments.clone(), instance.to_owned(), lease, metrics);
    let previews = settings.webhook.rules.previews.map(|_| previews);
    let sweeps = sweeps(settings, instance, &deployments, registry);
    let followers = followers(settings, instance, &deployments, registry);
    let metrics = registry.register(RolloutMetrics::new);
    let rollouts = Arc::new(RolloutLoop::new(deployments.clone(), metrics));
    Loops { controller, outbox, previews, sweeps, rollouts, followers, deployments }
}

/// Builds the clusters that are watched: those that have a connection, or an agent.
pub(super) fn watches(
    settings: &Settings,
    clock: &Clock,
) -> Arc<BTreeMap<TargetName, WatchedCluster>> {
    let clusters = settings.kubernetes.iter().map(|(name, cluster)| {
        let link = match &cluster.source {
            ClusterSource::ApiServer(access) => {
                let (access, outbound) = (access.clone(), settings.outbound.clone());
                let connection = ClusterConnection::new(access, outbound, clock.clone());
                ClusterLink::Connection(Arc::new(connection))
            }
            ClusterSource::Agent => ClusterLink::Agent(Arc::default()),
        };
        let health = ClusterHealth::new(name.clone());
        (name.clone(), WatchedCluster::new(health, link, cluster.pod_logs))
    });
    Arc::new(clusters.collect())
}

/// Builds the loops that follow deployments in the clusters that are watched.
fn followers(
    settings: &Settings,
    instance: &str,
    deployments: &Deployments,
    registry: &telemetry::Metrics,
) -> Vec<Arc<ClusterFollower>> {
    let metrics = registry.register(WatchMetrics::new);
    let followers = deployments.watches.iter().filter_map(|(name, cluster)| {
        let ClusterSettings { patience, previews, source: _, pod_logs: _ } =
            settings.kubernetes.get(name)?;
        let repositories = settings.webhook.rules.repositories.globs();
        let previews = previews.clone().map(|rules| rules.also(repositories.clone()));
        Some(Arc::new(ClusterFollower {
            deployments: deployments.clone(),
            link: cluster.link.clone(),
            health: cluster.health.clone(),
            metrics: metrics.clone(),
            settings: FollowerSettings {
                holder: instance.to_owned(),
                patience: *patience,
                previews,
                limits: WatchLimits::default(),
            },
        }))
    });
    followers.collect()
}

fn sinks(
    settings: &Settings,
    deployments: Deployments,
    client: &reqwest::Client,
    unproxied: &reqwest::Client,
) -> Sinks {
    let receivers = settings.event_webhooks.iter().map(|webhook| Receiver {
        name: webhook.name.clone(),
        url: webhook.url.clone(),
        key: webhook.key.clone(),
        wants: webhook.events.clone(),
        client: client.clone(),
        timeout: LONGEST_CALL,
    });
    let argocd = settings.argocd.iter().map(|(cluster, webhook)| {
        let hook = Hook {
            cluster: cluster.clone(),
            url: webhook.url.clone(),
            secret: webhook.secret.clone(),
            client: client.clone(),
            timeout: LONGEST_CALL,
        };
        (cluster.clone(), hook)
    });
    let slack = settings.slack.as_ref().map(|slack| {
        let SlackSettings { door, default_channel, people, direct_messages, signing_secret } =
            slack.clone();
        let slack = slack::SlackClientSettings { door, timeout: LONGEST_SLACK_CALL };
        let slack = SlackClient::new(slack, client.clone());
        let people = PeopleDirectory::new(people, slack.clone());
        let acts = signing_secret.is_some();
        SlackSink { slack, people, default_channel, direct_messages, acts }
    });
    let bigquery = settings.bigquery.as_ref().map(|table| {
        let (client, unproxied) = (client.clone(), unproxied.clone());
        BigQueryTable::new(table.clone(), client, unproxied, LONGEST_BIGQUERY_CALL)
    });
    let (receivers, argocd) = (receivers.collect(), argocd.collect());
    Sinks { deployments, receivers, argocd, slack, bigquery }
}

/// Builds the sweeps for missed events, if the code host can have some and the operator wants them.
fn sweeps(
    settings: &Settings,
    instance: &str,
    deployments: &Deployments,
    registry: &telemetry::Metrics,
) -> Option<Sweeps> {
    let interval = settings.webhook.sweep?;
    let kinds = match &deployments.forge {
        Forge::Local(_) => return None,
        forge if forge.knows_deliveries() => {
            vec![sweep::SweepKind::Deliveries, sweep::SweepKind::Deployments]
        }
        Forge::GitHub(_) => vec![sweep::SweepKind::Deployments],
    };
    let settings = sweep::SweepSettings {
        name: instance.to_owned(),
        kinds,
        every: interval,
        rules: settings.webhook.rules.clone(),
        our_address: settings.server.external_url.clone(),
    };
    let metrics = registry.register(|registry| sweep::SweepMetrics::new(registry, &settings.kinds));
    Some(Sweeps::new(deployments.clone(), settings, metrics))
}

/// Returns the conditions that a delivery must satisfy.
pub(super) fn webhook(settings: &Settings) -> Result<Webhook, Boxed> {
    let WebhookSettings { secret, previous, rules, sweep: _ } = settings.webhook.clone();
    let secret = match secret {
        WebhookSecret::Given(secret) => secret,
        WebhookSecret::Kept(path) => {
            let file_secret = secret::load_or_create(&path)?;
            if let Some(warning) = file_secret.warning {
                tracing::warn!("{warning}");
            }
            file_secret.secret
        }
    };
    Ok(Webhook { secret, previous, rules })
}

/// Returns what the requests of Slack's buttons need, if buttons act.
pub(super) fn slack_buttons(settings: &Settings, client: &reqwest::Client) -> Option<SlackButtons> {
    let SlackSettings { door, people, signing_secret, .. } = settings.slack.clone()?;
    let client_settings = slack::SlackClientSettings { door, timeout: LONGEST_SLACK_CALL };
    let slack = SlackClient::new(client_settings, client.clone());
    Some(SlackButtons::new(signing_secret?, slack, &people))
}

/// Returns the authentication of callers.
pub(super) fn admission(
    settings: &Settings,
    cookie_key: CookieKey,
) -> Result<Admission, StartError> {
    let external_url = settings.server.external_url.clone();
    Ok(Admission {
        tokens: settings.tokens.clone(),
        agents: settings.agents.clone(),
        github: settings.people.clone(),
        deploy_teams: deploy_teams(&settings.clusters),
        repositories: settings.webhook.rules.repositories.clone(),
        proxies: Proxies(settings.server.trusted_proxies.clone()),
        site: AllowedHosts::of(&settings.server.external_url),
        requests_per_minute: settings.limits.requests_per_minute,
        key: FingerprintKey::new(
            random_bytes().map_err(cannot_use("the system's random numbers"))?,
        ),
        sessions: SessionSettings {
            key: cookie_key,
            times: settings.sessions,
            client: oauth_client(&settings.forge, &external_url),
            external_url,
        },
    })
}

/// Returns the key of cookies, which all replicas share and every start finds again.
pub(super) async fn cookie_key(store: &Store, clock: &Clock) -> Result<CookieKey, StartError> {
    let failure = |cause: String| StartError::Part { part: "the key of cookies", cause };
    let new_key = random_bytes().map_err(|error| failure(error.to_string()))?;
    let key = store.cookie_key(&hex::encode(new_key), clock.now()).await;
    let key = key.map_err(|error| failure(error.to_string()))?;
    let mut bytes = [0; 32];
    hex::decode_to_slice(&key, &mut bytes).map_err(|error| failure(error.to_string()))?;
    Ok(CookieKey::new(bytes))
}

/// Returns the service as an OAuth client of its code host, if it has a client secret.
fn oauth_client(forge: &ForgeSettings, external_url: &str) -> Option<OAuthClient> {
    let ForgeSettings::GitHub { login, .. } = forge else { return None };
    let LoginSettings { client_id, client_secret } = login.clone()?;
    let callback_url = format!("{external_url}/sign-in/callback");
    Some(OAuthClient { client_id, client_secret: client_secret?, callback_url })
}

/// Returns the limits on requests.
pub(super) fn limits(settings: &Settings) -> ServerLimits {
    let LimitSettings { body, body_timeout, .. } = settings.limits;
    ServerLimits { body_bytes: body, body_timeout, ..ServerLimits::default() }
}

/// Returns the limits on connections, of which each is an open file.
pub(super) fn connections(settings: &Settings, open_files: Option<u64>) -> ConnectionLimits {
    let limits = &settings.limits;
    ConnectionLimits {
        most: room_for_connections(limits.connections, open_files),
        per_address: limits.connections_per_address,
        header_timeout: limits.header_timeout,
        idle_timeout: limits.idle_timeout,
        write_timeout: limits.write_timeout,
        proxies: Proxies(settings.server.trusted_proxies.clone()),
    }
}

/// Returns the targets that ask for teams; the settings have only valid names.
fn deploy_teams(clusters: &Clusters) -> BTreeMap<TargetName, Vec<TeamName>> {
    let Clusters::Known(targets) = clusters else { return BTreeMap::new() };
    let asking = targets.iter().filter_map(|(name, target)| {
        let teams = target.policies.parse_deploy_teams();
        (!teams.is_empty()).then(|| (name.clone(), teams))
    });
    asking.collect()
}
