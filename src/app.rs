//! Builds everything of the settings, and runs it: the only file, with its folder, that names
//! concrete adapters.

mod admission; // who may call, and see the pages
mod audience; // who is told, and how fast
mod access; // as whom we come to git repositories
mod backend; // what the server asks of the program
mod builds; // what could be deployed
pub mod backup; // the embedded database, copied and put back
mod code_host; // where service repositories are
mod deployed; // what is deployed where, as the store knows it
pub mod facts; // what rules must know of the world, asked at once
pub mod hands; // the program without its loops
mod health; // whether what the service writes to takes writes
mod home; // the storage folder, for one process at a time
pub mod operator; // what an operator does to the database by hand
mod intake; // what comes in is counted, and some of it is a hint
mod limits; // what people are told while the code host limits us
mod outside; // what a job asks of the world
mod plan; // what a deployment would do
mod planning; // what deployments, previews and dry runs share
pub mod prepare; // manifest repositories before their first deployment
mod preview; // what a pull request would change
mod pushes; // what Prometheus may ask about the writers
mod problem; // adapters' errors in a job's words
pub mod rebuild; // the record, made again of what others know
mod repositories; // the manifest repositories, opened as configured
mod readiness; // whether something is ready, not asked too often
mod removal; // an app taken off a target
mod retention; // old deployments are deleted
mod rollback; // a former revision made live again
pub mod signing; // whether commits can be signed
mod sweeps; // what the search for lost events asks of the forge
mod tell; // who is told what became of a deployment
mod templates; // the templates in use, kept current

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::app::backend::Backend;
use crate::app::code_host::{forge, forge_url};
pub use crate::app::deployed::{Deployed, deployed};
use crate::app::facts::Gatherer;
use crate::app::health::Health;
use crate::app::home::Home;
use crate::app::intake::Intake;
use crate::app::outside::{Manifests, World};
use crate::app::planning::Planners;
use crate::app::tell::slack::Line;
use crate::app::templates::InUse;
pub use crate::app::templates::at_revision as templates_at_revision;
use crate::clock::Clock;
use crate::config::settings::Settings;
use crate::controller::metrics::Metrics;
use crate::controller::previews::Previews;
use crate::controller::sweep::{Hints, Sweeps};
use crate::controller::{self, Controller};
use crate::forge::Forge;
use crate::git::writer::ManifestRepository;
use crate::model::violation::Rejection;
use crate::server::connections::{ConnectionMetrics, Connections};
use crate::server::{self, State};
use crate::store::Store;
use crate::telemetry;

/// The whole program, built and not yet running.
pub struct App {
    controller: Controller<World>,
    /// None while previews are off.
    previews: Option<Previews<World>>,
    /// Absent where nothing is looked for.
    sweeps: Option<Sweeps<World>>,
    templates: InUse,
    index: facts::IndexMetrics,
    router: axum::Router,
    connections: Connections,
    closing: CancellationToken,
    listener: TcpListener,
    store: Store,
    world: World,
    grace: Duration,
    home: Home,
    retention_days: Option<u32>,
    /// The manifest repositories by name, for who wants to look into them.
    pub manifests: BTreeMap<String, ManifestRepository>,
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
        let limits = admission::limits(&settings);
        Self::build_within(settings, clock, limits).await
    }

    /// The same, with bounds on requests of the caller's choice: nobody waits for the usual ones.
    ///
    /// # Errors
    /// As [`App::build`].
    pub async fn build_within(
        settings: Settings,
        clock: Clock,
        limits: server::Limits,
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
        let templates =
            InUse::start(&settings.templates, (&client, &forge), clock.clone(), &registry).await?;
        let manifests = repositories::open(&settings, &client, &forge, &clock).await?;
        registry.register(|registry| pushes::register(registry, &manifests));
        let listener = bind(settings.server.listen)?;
        let webhook = intake::webhook(&settings).map_err(StartError::of("the webhook's secret"))?;
        let by_name =
            manifests.iter().map(|one| (one.name.clone(), one.repository.clone())).collect();
        let gatherer = gatherer(&settings, &clock, &forge, &store, &manifests)?;
        let world = World {
            forge,
            templates: templates.clone(),
            facts: gatherer,
            store: store.clone(),
            receivers: tell::events::receivers(&settings.event_webhooks, &direct),
            argocd: tell::argocd::hooks(&settings.argocd, &direct),
            slack: settings.slack.as_ref().map(|one| Line::new(one, &direct)),
            manifests: manifests.into(),
            clusters: settings.clusters.clone(),
            waml: settings.waml.clone(),
            previews: settings.webhook.rules.previews.unwrap_or_default(),
            forge_url: forge_url(&settings.forge),
            external_url: settings.server.external_url.clone(),
            clock: clock.clone(),
            planners: Planners::new(),
        };
        let index = registry.register(facts::IndexMetrics::new);
        let instance = clock.deploy_id().to_string();
        let previews = preview::all(&settings, &instance, &world, &registry);
        let controller = Controller::new(
            store.clone(),
            clock,
            world.clone(),
            loops(&settings, &instance),
            metrics,
        );
        let hints = Hints::default();
        let sweeps =
            sweeps::of(&settings, &instance, &world, controller.inbox(), &registry, &hints);
        let backend = Backend {
            inbox: controller.inbox(),
            controller: controller.clone(),
            previews: previews.clone(),
            store: store.clone(),
            world: world.clone(),
            health: Health::new(&instance, &settings.storage.folder),
            intake: registry.register(|registry| Intake::new(registry, hints.clone())),
            registry,
            code_host: code_host::told(&settings.forge),
        };
        let connections = Connections::new(
            admission::connections(&settings, open_files),
            backend.registry.register(ConnectionMetrics::new),
        );
        let closing = CancellationToken::new();
        let router = server::router(State {
            backend,
            webhook,
            tokens: admission::tokens(&settings)?,
            pages: admission::pages(&settings),
            admission: admission::others(&settings)?,
            limits,
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
            world,
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
            world,
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
        let indexing = tokio::spawn(world.facts.clone().keep_index(index, stop.clone()));
        let pruning = tokio::spawn({
            let (store, clock) = (store.clone(), world.clock.clone());
            retention::keep(store, clock, retention_days, stop.clone())
        });
        let records = tokio::spawn(removal::keep_records(world, store.clone(), stop.clone()));
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
        let previewing = tokio::spawn(preview::keep(previews, stop.clone()));
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
    let repositories = manifests.iter().map(|one| facts::Repository {
        name: one.name.clone(),
        repository: one.repository.clone(),
        targets: one.targets.clone(),
    });
    let repositories = repositories.collect();
    Gatherer::new(settings, clock.clone(), forge.clone(), store.clone(), repositories)
        .map_err(boxed("what is looked up"))
}

fn bind(listen: SocketAddr) -> Result<TcpListener, StartError> {
    server::serve::bind(listen).map_err(|error| StartError::Part {
        part: "the address to listen on",
        cause: format!(
            "{listen}: {error}; is another one running? Choose another with server.listen"
        ),
    })
}

fn loops(settings: &Settings, instance: &str) -> controller::Settings {
    controller::Settings {
        name: instance.to_owned(),
        workers: settings.limits.workers,
        lease: settings.limits.lease,
        act: removal::HOLD,
        grace: settings.server.shutdown_grace,
        rates: audience::rates(settings),
        ..controller::Settings::default()
    }
}
