//! Builds everything of the settings, and runs it: the only file, with its folder, that
//! builds adapters.

mod access; // as whom we come to git repositories
pub mod backup; // the embedded database, copied and put back
pub mod clusters; // whether clusters can be watched
mod code_host; // where service repositories are
mod deployed; // what is deployed where, as the store knows it
pub mod stepped; // the program without its loops
mod home; // the storage folder, for one process at a time
pub mod prepare; // manifest repositories before their first deployment
mod pushes; // what Prometheus may ask about the writers
pub mod rebuild; // the record, made again of what others know
mod repositories; // the manifest repositories, opened as configured
mod retention; // old deployments are deleted
pub mod signing; // whether commits can be signed
mod start_error; // why the program cannot start
mod wiring; // what the parts are made of

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::app::home::DataDirLock;
use crate::app::start_error::cannot_use;
use crate::app::wiring::Loops;
use crate::config::settings::Settings;
use crate::deployments::facts::FactCollector;
use crate::deployments::health::Health;
use crate::deployments::ledger::Ledger;
use crate::deployments::planners::Planners;
use crate::deployments::templates::InUse;
use crate::deployments::{Deployments, ServedRepository, WamlFile, removal, signals};
use crate::forge::Forge;
use crate::git::writer::ManifestRepository;
use crate::inventory;
use crate::lookups::clients::LookupClients;
use crate::model::id::DeployId;
use crate::server::auth::Authenticator;
use crate::server::connections::{ConnectionMetrics, Connections};
use crate::server::deliveries::DeliveryCounter;
use crate::server::{self, ServerState};
use crate::store::Store;
use crate::support::clock::Clock;
use crate::support::telemetry;
use crate::waml::yaml::Budget;

pub use crate::app::deployed::{Deployed, deployed};
pub use crate::app::start_error::StartError;
pub use crate::deployments::templates::at_revision as templates_at_revision;

/// The whole program, built and not yet running.
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
    /// The manifest repositories by name, for who wants to look into them.
    pub manifests: BTreeMap<String, ManifestRepository>,
}

/// Bounds that no configuration has.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// On requests.
    pub requests: server::ServerLimits,
    /// After how long an attempt at a deployment is ended, whatever it is at; absent: the usual time.
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

    /// The same, with bounds of the caller's choice: nobody waits for the usual ones.
    ///
    /// # Errors
    /// As [`App::build`].
    pub async fn build_within(
        settings: Settings,
        clock: Clock,
        bounds: Bounds,
    ) -> Result<Self, StartError> {
        // A second call finds the provider in place, which is as good.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let open_files = server::descriptors::raise();
        let home = DataDirLock::enter(&settings.storage.folder)
            .map_err(cannot_use("the storage folder"))?;
        let client =
            settings.outbound.client(code_host::CONNECT).map_err(cannot_use("the HTTP client"))?;
        // Who is told is told at the address that was given, which can be a secret itself.
        let direct = settings.outbound.client_without_redirects(code_host::CONNECT);
        let direct = direct.map_err(cannot_use("the HTTP client"))?;
        let registry = telemetry::Metrics::default();
        let store = Box::pin(Store::open(&settings.storage.url))
            .await
            .map_err(cannot_use("the database"))?;
        let store = store.telling(wiring::audience(&settings));
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
        let by_name =
            manifests.iter().map(|one| (one.name.clone(), one.repository.clone())).collect();
        let gatherer = gatherer(&settings, &clock, &forge, &store, &manifests)?;
        let instance = DeployId::of(clock.draw()).to_string();
        let deployments = Deployments {
            wake: Arc::default(),
            forge,
            code_host: code_host::describe_code_host(&settings.forge),
            forge_hour: Arc::default(),
            hints: signals::Hints::default(),
            templates,
            facts: gatherer,
            ledger: Ledger::new(store.clone(), clock.clone(), settings.clusters.clone()),
            store,
            manifests: manifests.into(),
            clusters: settings.clusters.clone(),
            waml: WamlFile {
                path: settings.waml.path.clone(),
                budget: Budget { bytes: settings.waml.max_bytes, ..Budget::default() },
            },
            previews: settings.webhook.rules.previews.unwrap_or_default(),
            forge_url: code_host::forge_url(&settings.forge),
            external_url: settings.server.external_url.clone(),
            clock,
            planners: Planners::new(),
            health: Arc::new(Health::new(&instance, &settings.storage.folder)),
        };
        let index = registry.register(inventory::keep::IndexMetrics::new);
        let observed = (&registry, bounds.attempt);
        let loops = wiring::loops(&settings, &instance, deployments.clone(), &direct, observed);
        let connections = Connections::new(
            wiring::connections(&settings, open_files),
            registry.register(ConnectionMetrics::new),
        );
        let closing = CancellationToken::new();
        let auth = Authenticator::new(wiring::admission(&settings)?, deployments.clone());
        let router = server::router(ServerState {
            deployments,
            deliveries: registry.register(DeliveryCounter::new),
            metrics: registry,
            webhook,
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
            manifests: by_name,
        })
    }

    /// Returns where the server listens; the real port if any was asked for.
    ///
    /// # Errors
    /// When the operating system does not say.
    pub fn address(&self) -> Result<SocketAddr, StartError> {
        self.listener.local_addr().map_err(cannot_use("the listener"))
    }

    /// Runs until `stop`, then ends within the grace: open requests are answered, running
    /// deployments end or are given back.
    ///
    /// # Errors
    /// None today: what fails at the end is logged.
    pub async fn run(self, stop: CancellationToken) -> Result<(), StartError> {
        let Self { loops, index, router, connections, closing, listener, grace, .. } = self;
        let Loops { controller, outbox, previews, sweeps, deployments } = loops;
        let (store, templates) = (deployments.store.clone(), deployments.templates.clone());
        let stopping = stop.clone();
        tokio::spawn(async move {
            stopping.cancelled().await;
            closing.cancel();
        });
        let indexing = tokio::spawn(deployments.facts.clone().keep_index(index, stop.clone()));
        let pruning = tokio::spawn({
            let (store, clock) = (store.clone(), deployments.clock.clone());
            retention::keep(store, clock, self.retention_days, stop.clone())
        });
        let records = tokio::spawn(removal::keep_records(deployments, stop.clone()));
        let workers_done = CancellationToken::new();
        let telling = tokio::spawn(outbox.run(workers_done.clone()));
        let working = tokio::spawn({
            let stop = stop.clone();
            async move {
                // What the last deployments have to say is told after them.
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
        let ended = [working.await, telling.await, refreshing.await];
        if ended.iter().any(Result::is_err) {
            tracing::error!("a loop ended by a fault");
        }
        // One that is cut off is made by the next process, which looks for its check run.
        previewing.abort();
        // They may be asking somebody who does not answer; nothing of it is lost.
        records.abort();
        pruning.abort();
        indexing.abort();
        let _elapsed = tokio::time::timeout(grace, sweeping).await;
        store.close().await;
        for repository in self.manifests.values() {
            repository.close().await;
        }
        drop(self.home);
        match stopped {
            server::serve::Stopped::Clean => tracing::info!("stopped"),
            server::serve::Stopped::Cut => tracing::warn!("stopped, with requests unanswered"),
        }
        Ok(())
    }
}

fn gatherer(
    settings: &Settings,
    clock: &Clock,
    forge: &Forge,
    store: &Store,
    manifests: &[ServedRepository],
) -> Result<FactCollector, StartError> {
    let repositories = manifests.iter().map(|one| inventory::IndexedRepository {
        name: one.name.clone(),
        repository: one.repository.clone(),
        targets: one.targets.clone(),
    });
    let lookups =
        LookupClients::new(settings.lookups.clone(), settings.limits.lookups, &settings.outbound)
            .map_err(cannot_use("what is looked up"))?;
    let repositories = repositories.collect();
    Ok(FactCollector::new(lookups, clock.clone(), forge.clone(), store.clone(), repositories))
}

fn bind(listen: SocketAddr) -> Result<TcpListener, StartError> {
    server::serve::bind(listen).map_err(|error| StartError::Part {
        part: "the address to listen on",
        cause: format!(
            "{listen}: {error}; is another one running? Choose another with server.listen"
        ),
    })
}
