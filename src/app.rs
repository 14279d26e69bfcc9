//! Builds everything of the settings, and runs it: the only file, with its folder, that
//! builds adapters.

mod admission; // what is asked of callers, and how much is taken
mod audience; // who is told, and how fast
mod access; // as whom we come to git repositories
pub mod backup; // the embedded database, copied and put back
mod code_host; // where service repositories are
mod deployed; // what is deployed where, as the store knows it
pub mod hands; // the program without its loops
mod home; // the storage folder, for one process at a time
pub mod prepare; // manifest repositories before their first deployment
mod previews; // the loop of previews
mod pushes; // what Prometheus may ask about the writers
pub mod rebuild; // the record, made again of what others know
mod repositories; // the manifest repositories, opened as configured
mod retention; // old deployments are deleted
pub mod signing; // whether commits can be signed
mod sweeps; // the search for lost events
mod webhook; // what a webhook must satisfy

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::app::code_host::{forge, forge_url};
use crate::app::home::Home;
use crate::config::settings::Settings;
use crate::controller::metrics::Metrics;
use crate::controller::previews::Previews;
use crate::controller::sweep::Sweeps;
use crate::controller::{self, Controller};
use crate::deployments::facts::Gatherer;
use crate::deployments::health::Health;
use crate::deployments::hints::Hints;
use crate::deployments::ledger::Ledger;
use crate::deployments::planners::Planners;
use crate::deployments::tell::slack::line::Line;
use crate::deployments::templates::{InUse, TemplatesError};
use crate::deployments::{Deployments, Manifests, removal, tell};
use crate::forge::Forge;
use crate::git::writer::ManifestRepository;
use crate::inventory;
use crate::lookups::all::Lookups;
use crate::model::id::DeployId;
use crate::model::violation::Rejection;
use crate::server::auth::Auth;
use crate::server::connections::{ConnectionMetrics, Connections};
use crate::server::deliveries::DeliveryCounter;
use crate::server::{self, State};
use crate::store::Store;
use crate::support::clock::Clock;
use crate::support::telemetry;

pub use crate::app::deployed::{Deployed, deployed};
pub use crate::deployments::templates::at_revision as templates_at_revision;

/// The whole program, built and not yet running.
pub struct App {
    controller: Controller,
    /// None while previews are off.
    previews: Option<Previews>,
    /// Absent where nothing is looked for.
    sweeps: Option<Sweeps>,
    templates: InUse,
    index: inventory::Metrics,
    router: axum::Router,
    connections: Connections,
    closing: CancellationToken,
    listener: TcpListener,
    store: Store,
    deployments: Deployments,
    grace: Duration,
    home: Home,
    retention_days: Option<u32>,
    /// The manifest repositories by name, for who wants to look into them.
    pub manifests: BTreeMap<String, ManifestRepository>,
}

/// Bounds that no configuration has.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// On requests.
    pub requests: server::Limits,
    /// After how long an attempt at a deployment is ended, whatever it is at; absent: the usual time.
    pub attempt: Option<Duration>,
}

/// Why the program cannot start, in one sentence with what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A part cannot be built or reached.
    #[error("cannot use {part}: {cause}")]
    Part {
        /// Which: `the database`, `the templates`.
        part: &'static str,
        /// Why, and what to do.
        cause: String,
    },
    /// The templates are broken.
    #[error("the templates are broken: {0}")]
    Templates(Rejection),
}

impl From<TemplatesError> for StartError {
    fn from(error: TemplatesError) -> Self {
        match error {
            TemplatesError::Unusable(cause) => Self::of("the templates")(cause),
            TemplatesError::Broken(rejection) => Self::Templates(rejection),
        }
    }
}

impl StartError {
    fn of(part: &'static str) -> impl Fn(Box<dyn std::error::Error>) -> Self {
        move |cause| Self::Part { part, cause: chain(cause.as_ref()) }
    }
}

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

type Boxed = Box<dyn std::error::Error>;

/// GitHub's own clients give up after ten seconds; so do we.
const CONNECT: Duration = Duration::from_secs(10);
const FORGE_CALL: Duration = Duration::from_secs(30);

impl App {
    /// Opens the database and the repositories, and binds the listener.
    ///
    /// # Errors
    /// The first part that cannot be built.
    pub async fn build(settings: Settings, clock: Clock) -> Result<Self, StartError> {
        let requests = admission::limits(&settings);
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
        let home = Home::enter(&settings.storage.folder).map_err(boxed("the storage folder"))?;
        let client = settings.outbound.client(CONNECT).map_err(boxed("the HTTP client"))?;
        // Who is told is told at the address that was given, which can be a secret itself.
        let direct = settings.outbound.client_without_redirects(CONNECT);
        let direct = direct.map_err(boxed("the HTTP client"))?;
        let registry = telemetry::Metrics::default();
        let metrics = registry.register(Metrics::new);
        let store = Store::open(&settings.storage.url).await.map_err(boxed("the database"))?;
        let store = store.telling(audience::audience(&settings));
        if home.has(&settings.storage.url) {
            store.end_leases(clock.now()).await.map_err(boxed("the database"))?;
        }
        let forge = forge(&settings, &clock).map_err(StartError::of("the forge"))?;
        crate::waml::document::prepare();
        let git = repositories::templates(&settings.templates, &client, &forge);
        let templates = InUse::start(&settings.templates, git, clock.clone(), &registry).await?;
        let manifests = repositories::open(&settings, &client, &forge, &clock).await?;
        registry.register(|registry| pushes::register(registry, &manifests));
        let listener = bind(settings.server.listen)?;
        let webhook = webhook::of(&settings).map_err(StartError::of("the webhook's secret"))?;
        let by_name =
            manifests.iter().map(|one| (one.name.clone(), one.repository.clone())).collect();
        let gatherer = gatherer(&settings, &clock, &forge, &store, &manifests)?;
        let instance = DeployId::of(clock.draw()).to_string();
        let deployments = Deployments {
            wake: Arc::default(),
            forge,
            code_host: code_host::told(&settings.forge),
            forge_hour: Arc::default(),
            hints: Hints::default(),
            templates: templates.clone(),
            facts: gatherer,
            ledger: Ledger::new(store.clone(), clock.clone(), settings.clusters.clone()),
            store: store.clone(),
            receivers: tell::events::receivers(&settings.event_webhooks, &direct),
            argocd: tell::argocd::hooks::hooks(&settings.argocd, &direct),
            slack: settings.slack.as_ref().map(|one| Line::new(one, &direct)),
            manifests: manifests.into(),
            clusters: settings.clusters.clone(),
            waml: settings.waml.clone(),
            previews: settings.webhook.rules.previews.unwrap_or_default(),
            forge_url: forge_url(&settings.forge),
            external_url: settings.server.external_url.clone(),
            clock,
            planners: Planners::new(),
            health: Arc::new(Health::new(&instance, &settings.storage.folder)),
        };
        let index = registry.register(inventory::Metrics::new);
        let previews = previews::of(&settings, &instance, &deployments, &registry);
        let controller = Controller::new(
            deployments.clone(),
            loops(&settings, &instance, bounds.attempt),
            metrics,
        );
        let sweeps = sweeps::of(&settings, &instance, &deployments, &registry);
        let connections = Connections::new(
            admission::connections(&settings, open_files),
            registry.register(ConnectionMetrics::new),
        );
        let closing = CancellationToken::new();
        let router = server::router(State {
            deployments: deployments.clone(),
            deliveries: registry.register(DeliveryCounter::new),
            metrics: registry,
            webhook,
            auth: Auth::new(admission::of(&settings)?, deployments.clone()),
            pages: settings.pages,
            limits: bounds.requests,
            closing: closing.clone(),
            instance,
        });
        let (manifests, previews) = (by_name, settings.webhook.rules.previews.map(|_| previews));
        Ok(Self {
            controller,
            previews,
            sweeps,
            templates,
            index,
            router,
            connections,
            closing,
            listener,
            store,
            deployments,
            grace: settings.server.shutdown_grace,
            home,
            retention_days: settings.storage.retention_days,
            manifests,
        })
    }

    /// Where the server listens; the real port if any was asked for.
    ///
    /// # Errors
    /// When the operating system does not say.
    pub fn address(&self) -> Result<SocketAddr, StartError> {
        self.listener.local_addr().map_err(boxed("the listener"))
    }

    /// Runs until `stop`, then ends within the grace: open requests are answered, running
    /// deployments end or are given back.
    ///
    /// # Errors
    /// None today: what fails at the end is logged.
    pub async fn run(self, stop: CancellationToken) -> Result<(), StartError> {
        let Self {
            controller,
            previews,
            sweeps,
            templates,
            index,
            router,
            connections,
            closing,
            listener,
            store,
            deployments,
            grace,
            home,
            retention_days,
            manifests,
        } = self;
        let stopping = stop.clone();
        tokio::spawn(async move {
            stopping.cancelled().await;
            closing.cancel();
        });
        let indexing = tokio::spawn(deployments.facts.clone().keep_index(index, stop.clone()));
        let pruning = tokio::spawn({
            let (store, clock) = (store.clone(), deployments.clock.clone());
            retention::keep(store, clock, retention_days, stop.clone())
        });
        let records = tokio::spawn(removal::keep_records(deployments, stop.clone()));
        let loops = tokio::spawn({
            let stop = stop.clone();
            async move { controller.run(stop).await }
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
        let previewing = tokio::spawn(previews::keep(previews, stop.clone()));
        let stopped =
            server::serve::serve(listener, router, connections, stop.clone(), grace).await;
        stop.cancel();
        if loops.await.is_err() || refreshing.await.is_err() {
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
        for repository in manifests.values() {
            repository.close().await;
        }
        drop(home);
        match stopped {
            server::serve::Stopped::Clean => tracing::info!("stopped"),
            server::serve::Stopped::Cut => tracing::warn!("stopped, with requests unanswered"),
        }
        Ok(())
    }
}

fn boxed<E: std::error::Error + 'static>(part: &'static str) -> impl Fn(E) -> StartError {
    move |error| StartError::of(part)(Box::new(error))
}

fn gatherer(
    settings: &Settings,
    clock: &Clock,
    forge: &Forge,
    store: &Store,
    manifests: &[Manifests],
) -> Result<Gatherer, StartError> {
    let repositories = manifests.iter().map(|one| inventory::Repository {
        name: one.name.clone(),
        repository: one.repository.clone(),
        targets: one.targets.clone(),
    });
    let lookups =
        Lookups::new(settings.lookups.clone(), settings.limits.lookups, &settings.outbound)
            .map_err(boxed("what is looked up"))?;
    let repositories = repositories.collect();
    Ok(Gatherer::new(lookups, clock.clone(), forge.clone(), store.clone(), repositories))
}

fn bind(listen: SocketAddr) -> Result<TcpListener, StartError> {
    server::serve::bind(listen).map_err(|error| StartError::Part {
        part: "the address to listen on",
        cause: format!(
            "{listen}: {error}; is another one running? Choose another with server.listen"
        ),
    })
}

fn loops(settings: &Settings, instance: &str, attempt: Option<Duration>) -> controller::Settings {
    let usual = controller::Settings::default();
    controller::Settings {
        longest_job: attempt.unwrap_or(usual.longest_job),
        name: instance.to_owned(),
        workers: settings.limits.workers,
        lease: settings.limits.lease,
        act: removal::HOLD,
        grace: settings.server.shutdown_grace,
        rates: audience::rates(settings),
        ..usual
    }
}
