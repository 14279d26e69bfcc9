//! Builds the service of the settings, and runs it: the only file, with its folder, that builds
//! adapters.

mod access; // credentials for git repositories
pub mod backup; // backup and restore of the embedded database
pub mod clusters; // checks that clusters can be watched
pub mod gates; // checks that the servers of gates can be asked
mod code_host; // the code host
mod deployed; // lists what is deployed where
pub mod stepped; // the service without its loops, for tests
mod home; // the lock of the storage folder
pub mod prepare; // prepares manifest repositories for their first deployment
mod pushes; // metrics of the writers
pub mod rebuild; // rebuilds the record from the manifest repositories
pub mod receivers; // checks that receivers can be reached
mod repositories; // opens the manifest repositories
mod retention; // deletes old deployments
pub mod signing; // tests the signing keys
mod start_error; // the error of a start
mod wiring; // assembles the parts

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::app::home::DataDirLock;
use crate::app::start_error::cannot_use;
use crate::app::wiring::Loops;
use crate::config::settings::Settings;
use crate::controller::unwatched::keep_unwatched_ended;
use crate::deployments::cpu_pool::CpuPool;
use crate::deployments::facts::FactCollector;
use crate::deployments::health::Health;
use crate::deployments::ledger::Ledger;
use crate::deployments::rollouts::gate_clients::{GateMetrics, RolloutGates};
use crate::deployments::rollouts::metrics::RolloutProgressMetrics;
use crate::deployments::templates::InUse;
use crate::deployments::{Deployments, ServedRepository, WamlFile, removal, signals};
use crate::forge::Forge;
use crate::git::writer::ManifestRepository;
use crate::inventory;
use crate::lookups::clients::LookupClients;
use crate::lookups::gates::clients::GateClients;
use crate::model::id::DeployId;
use crate::server::auth::Authenticator;
use crate::server::connections::{ConnectionMetrics, Connections};
use crate::server::deliveries::DeliveryCounter;
use crate::server::{self, ServerState};
use crate::store::Store;
use crate::support::clock::Clock;
use crate::support::telemetry;
use crate::waml::yaml::Budget;

pub use crate::app::deployed::{Deployed, list_deployed};
pub use crate::app::start_error::StartError;
pub use crate::deployments::templates::at_revision as templates_at_revision;

/// The whole service, built and not yet running.
pub struct App {
    loops: Loops,
    index: inventory::keep::IndexMetrics,
    router: axum::Router,
    connections: Connections,
    closing: CancellationToken,
    listener: TcpListener,
    grace: Duration,
    home: DataDirLock,
    retention_days: Option<u32>,
    session_idle: SignedDuration,
    /// The manifest repositories by name, for callers that inspect them.
    pub manifests: BTreeMap<String, ManifestRepository>,
}

/// Bounds that the configuration does not have.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The limits on requests.
    pub requests: server::ServerLimits,
    /// The longest duration of an attempt at a deployment; `None` means the usual one.
    pub attempt: Option<Duration>,
}

impl App {
    /// Opens the database and the repositories, and binds the listener.
    ///
    /// # Errors
    /// The first part that cannot be built.
    pub async fn build(settings: Settings, clock: Clock) -> Result<Self, StartError> {
        let requests = wiring::limits(&settings);
        Self::build_within(settings, clock, Bounds { requests, attempt: None }).await
    }

    /// Does the same with bounds of the caller's choice, for tests that cannot wait for the usual
    /// ones.
    ///
    /// # Errors
    /// As [`App::build`].
    pub async fn build_within(
        settings: Settings,
        clock: Clock,
        bounds: Bounds,
    ) -> Result<Self, StartError> {
        crate::support::http::install_tls_provider();
        let open_files = server::descriptors::raise();
        let home = DataDirLock::enter(&settings.storage.folder)
            .map_err(cannot_use("the storage folder"))?;
        let client =
            settings.outbound.client(code_host::CONNECT).map_err(cannot_use("the HTTP client"))?;
        // Messages go to the configured address and no other: the address can be a secret itself.
        let direct = settings.outbound.client_without_redirects(code_host::CONNECT);
        let direct = direct.map_err(cannot_use("the HTTP client"))?;
        let unproxied = settings.outbound.client_without_proxy(code_host::CONNECT);
        let unproxied = unproxied.map_err(cannot_use("the HTTP client"))?;
        let registry = telemetry::Metrics::default();
        let store = Box::pin(Store::open(&settings.storage.url))
            .await
            .map_err(cannot_use("the database"))?;
        let store = store.with_subscriptions(wiring::subscriptions(&settings));
        let store = store.with_fleets(settings.fleets.clone());
        if home.contains_database(&settings.storage.url) {
            store.end_leases(clock.now()).await.map_err(cannot_use("the database"))?;
        }
        let forge = code_host::forge(&settings, &clock).map_err(cannot_use("the forge"))?;
        crate::waml::document::prepare();
        let templates = repositories::templates(&settings.templates, &client, &forge);
        let templates = Box::pin(InUse::start(templates, clock.clone(), &registry)).await?;
        let manifests = Box::pin(repositories::open(&settings, &client, &forge, &clock)).await?;
        registry.register(|registry| pushes::register(registry, &manifests));
        let listener = bind(settings.server.listen)?;
        let webhook = wiring::webhook(&settings).map_err(cannot_use("the webhook's secret"))?;
        let by_name = manifests
            .iter()
            .map(|served| (served.name.clone(), served.repository.clone()))
            .collect();
        let facts = fact_collector(&settings, &clock, &forge, &store, &manifests)?;
        let instance = DeployId::of(clock.draw()).to_string();
        let deployments = Deployments {
            wake: Arc::default(),
            forge,
            code_host: code_host::describe_code_host(&settings.forge),
            forge_hour: Arc::default(),
            hints: signals::SweepHints::default(),
            templates,
            facts,
            ledger: Ledger::new(store.clone(), clock.clone(), settings.clusters.clone())
                .with_fleets(settings.fleets.clone()),
            store,
            manifests: manifests.into(),
            clusters: settings.clusters.clone(),
            fleets: Arc::new(settings.fleets.clone()),
            waml: WamlFile {
                path: settings.waml.path.clone(),
                budget: Budget { bytes: settings.waml.max_bytes, ..Budget::default() },
            },
            previews: settings.webhook.rules.previews.unwrap_or_default(),
            environments: settings.webhook.rules.environments.clone(),
            forge_url: code_host::forge_url(&settings.forge),
            external_url: settings.server.external_url.clone(),
            rollout_metrics: RolloutProgressMetrics::default(),
            gates: Arc::new(rollout_gates(&settings, &registry)?),
            watches: wiring::watches(&settings, &clock),
            clock,
            cpu_pool: CpuPool::new(),
            health: Arc::new(Health::new(&instance, &settings.storage.folder)),
        };
        let index = registry.register(inventory::keep::IndexMetrics::new);
        let (clients, observed) = ((&direct, &unproxied), (&registry, bounds.attempt));
        let loops = wiring::loops(&settings, &instance, deployments.clone(), clients, observed);
        let connections = Connections::new(
            wiring::connections(&settings, open_files),
            registry.register(ConnectionMetrics::new),
        );
        let closing = CancellationToken::new();
        let cookie_key = wiring::cookie_key(&deployments.store, &deployments.clock).await?;
        let admission = wiring::admission(&settings, cookie_key)?;
        let auth = Authenticator::new(admission, deployments.clone());
        let router = server::router(ServerState {
            deployments,
            deliveries: registry.register(DeliveryCounter::new),
            metrics: registry,
            webhook,
            slack: wiring::slack_buttons(&settings, &direct),
            auth,
            pages: settings.pages,
            limits: bounds.requests,
            closing: closing.clone(),
            instance,
        });
        Ok(Self {
            loops,
            index,
            router,
            connections,
            closing,
            listener,
            grace: settings.server.shutdown_grace,
            home,
            retention_days: settings.storage.retention_days,
            session_idle: settings.sessions.idle,
            manifests: by_name,
        })
    }

    /// Returns the listener's address; the real port if the system chose it.
    ///
    /// # Errors
    /// When the operating system does not tell it.
    pub fn address(&self) -> Result<SocketAddr, StartError> {
        self.listener.local_addr().map_err(cannot_use("the listener"))
    }

    /// Runs until `stop`, then ends within the grace period: open requests are answered, and
    /// running deployments finish or are released.
    ///
    /// # Errors
    /// None at present: a failure at the end is logged.
    pub async fn run(self, stop: CancellationToken) -> Result<(), StartError> {
        let Self { loops, index, router, connections, closing, listener, grace, .. } = self;
        let Loops { controller, outbox, previews, sweeps, rollouts, followers, deployments } =
            loops;
        let (store, templates) = (deployments.store.clone(), deployments.templates.clone());
        let stopping = stop.clone();
        tokio::spawn(async move {
            stopping.cancelled().await;
            closing.cancel();
        });
        let indexing = tokio::spawn(deployments.facts.clone().keep_index(index, stop.clone()));
        let pruning = tokio::spawn({
            let (store, clock) = (store.clone(), deployments.clock.clone());
            let age =
                retention::Ages { days: self.retention_days, session_idle: self.session_idle };
            retention::run_pruning(store, clock, age, stop.clone())
        });
        let records = tokio::spawn(removal::keep_records(deployments.clone(), stop.clone()));
        let workers_done = CancellationToken::new();
        let telling = tokio::spawn(outbox.run(workers_done.clone()));
        let working = tokio::spawn({
            let stop = stop.clone();
            async move {
                // The outbox stops after the workers, to send the messages of the last deployments.
                let _done = workers_done.drop_guard();
                controller.run(stop).await;
            }
        });
        let sweeping = tokio::spawn({
            let stop = stop.clone();
            async move {
                if let Some(sweeps) = sweeps {
                    sweeps.run(stop).await;
                }
            }
        });
        let rolling = tokio::spawn(rollouts.run(stop.clone()));
        let ending = tokio::spawn(keep_unwatched_ended(deployments.clone(), stop.clone()));
        let following: Vec<_> =
            followers.into_iter().map(|one| tokio::spawn(one.run(stop.clone()))).collect();
        let refreshing = tokio::spawn({
            let stop = stop.clone();
            async move { templates.keep_current(stop).await }
        });
        let previewing = tokio::spawn({
            let stop = stop.clone();
            async move {
                if let Some(previews) = previews {
                    previews.run(stop).await;
                }
            }
        });
        let stopped =
            server::serve::serve(listener, router, connections, stop.clone(), grace).await;
        stop.cancel();
        let results = [working.await, telling.await, refreshing.await];
        if results.iter().any(Result::is_err) {
            tracing::error!("a loop panicked");
        }
        // A preview that is cut off is computed by the next process, which searches for its check run.
        previewing.abort();
        // These loops may wait for a server that does not answer; nothing of their work is lost.
        records.abort();
        ending.abort();
        pruning.abort();
        indexing.abort();
        let _elapsed = tokio::time::timeout(grace, sweeping).await;
        // A turn that is cut off has changed nothing: another process takes it when its lease ends.
        let _elapsed = tokio::time::timeout(grace, rolling).await;
        let following = futures::future::join_all(following);
        let _elapsed = tokio::time::timeout(grace, following).await;
        store.close().await;
        for repository in self.manifests.values() {
            repository.close().await;
        }
        drop(self.home);
        match stopped {
            server::serve::ShutdownResult::Clean => tracing::info!("stopped"),
            server::serve::ShutdownResult::Cut => {
                tracing::warn!("stopped, with requests unanswered");
            }
        }
        Ok(())
    }
}

fn fact_collector(
    settings: &Settings,
    clock: &Clock,
    forge: &Forge,
    store: &Store,
    manifests: &[ServedRepository],
) -> Result<FactCollector, StartError> {
    let repositories = manifests.iter().map(|served| inventory::IndexedRepository {
        name: served.name.clone(),
        repository: served.repository.clone(),
        targets: served.targets.clone(),
    });
    let lookups =
        LookupClients::new(settings.lookups.clone(), settings.limits.lookups, &settings.outbound)
            .map_err(cannot_use("the lookups"))?;
    let repositories = repositories.collect();
    Ok(FactCollector::new(lookups, clock.clone(), forge.clone(), store.clone(), repositories))
}

fn rollout_gates(
    settings: &Settings,
    registry: &telemetry::Metrics,
) -> Result<RolloutGates, StartError> {
    let clients = GateClients::new(settings.gates.clone(), &settings.outbound);
    let clients = clients.map_err(cannot_use("the gates of rollouts"))?;
    Ok(RolloutGates { clients, metrics: registry.register(GateMetrics::new) })
}

fn bind(listen: SocketAddr) -> Result<TcpListener, StartError> {
    server::serve::bind(listen).map_err(|error| StartError::Part {
        part: "the address to listen on",
        cause: format!(
            "{listen}: {error}; is another one running? Choose another with server.listen"
        ),
    })
}
