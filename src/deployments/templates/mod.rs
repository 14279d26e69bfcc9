//! The templates in use: one set at a time, swapped whole or not at all.
//!
//! Where they come from a repository, its branch is read on a timer and after push events. A broken
//! set is refused and the old one stays; so it does while the host is down. A deployment uses the
//! set of one moment, and renders with nothing else.

mod source; // loads a set from its place

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::deployments::health::HealthCheck;
use crate::model::event::BranchPush;
use crate::model::id::CommitSha;
use crate::support::clock::Clock;
use crate::support::sync::lock;
use crate::support::telemetry;
use crate::templates::set::TemplateSet;

use source::{LoadError, Repository};

pub(crate) use source::TemplatesSource;
pub use source::{TemplatesError, at_revision};

/// The delay after a push event: it may arrive before every replica of the host has the commit.
const PUSH_DELAY: Duration = Duration::from_secs(5);
/// The time for which the start waits for the host, if there is a set to start with.
const FIRST_LOOK: Duration = Duration::from_secs(10);
/// The most violations of one refusal that are logged.
const MAX_LOGGED: usize = 50;

/// The templates in use, and the means to keep them current. Clones share them.
#[derive(Clone)]
pub(crate) struct InUse(Arc<Inner>);

struct Inner {
    now: RwLock<Arc<TemplateSet>>,
    health: Mutex<TemplatesHealth>,
    repository: Option<Repository>,
    wake: Notify,
    clock: Clock,
    metrics: Metrics,
}

/// The relation of the set in use to the branch.
#[derive(Debug, Clone)]
struct TemplatesHealth {
    /// The time at which the set in use was last seen to be that of the branch.
    current_at: Timestamp,
    /// The reason why the set in use may not be that of the branch.
    trouble: Option<String>,
    /// The commit that was refused last and the reason, so that it is compiled once.
    refused: Option<(CommitSha, String)>,
}

impl InUse {
    /// Loads the first set.
    ///
    /// # Errors
    /// When there is no usable set: from a repository, neither that of its branch nor the one that
    /// was used before.
    pub(crate) async fn start(
        source: TemplatesSource,
        clock: Clock,
        registry: &telemetry::Metrics,
    ) -> Result<Self, TemplatesError> {
        let (templates, trouble, repository) = match source {
            TemplatesSource::BuiltIn => (source::built_in().await?, None, None),
            TemplatesSource::Folder(folder) => (source::load_folder(&folder).await?, None, None),
            TemplatesSource::Repository { git, path, refresh } => {
                let repository = Repository::open(*git, path, refresh).await?;
                let (templates, trouble) = load_first(&repository).await?;
                (Arc::new(templates), trouble, Some(repository))
            }
        };
        let metrics = registry.register(|registry| Metrics::new(registry, repository.is_some()));
        metrics.set_in_use(&templates.origin, templates.commit.as_ref());
        let health = TemplatesHealth { current_at: clock.now(), trouble, refused: None };
        if health.trouble.is_none() {
            metrics.current.set(health.current_at.as_second());
        }
        let (now, health) = (RwLock::new(templates), Mutex::new(health));
        let wake = Notify::new();
        Ok(Self(Arc::new(Inner { now, health, repository, wake, clock, metrics })))
    }

    /// Returns the set of this moment.
    pub(crate) fn now(&self) -> Arc<TemplateSet> {
        Arc::clone(&self.0.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the templates in use, `backend-default@latest` and so on, for people.
    pub(crate) fn list_names(&self) -> Vec<String> {
        self.now().iter().map(|template| template.id()).collect()
    }

    /// Polls the branch until `stop`.
    pub(crate) async fn keep_current(&self, stop: CancellationToken) {
        let Some(repository) = &self.0.repository else { return };
        self.poll_until(stop, repository).await;
        repository.close().await;
    }

    async fn poll_until(&self, stop: CancellationToken, repository: &Repository) {
        let mut wait =
            if self.health().trouble.is_some() { PUSH_DELAY } else { repository.refresh };
        loop {
            let has_push = tokio::select! {
                () = stop.cancelled() => return,
                () = self.0.wake.notified() => true,
                () = tokio::time::sleep(wait) => false,
            };
            let has_moved = tokio::select! {
                () = stop.cancelled() => return,
                has_moved = self.refresh(repository) => has_moved,
            };
            wait = repository.refresh;
            if has_push && !has_moved {
                wait = wait.min(PUSH_DELAY);
            }
        }
    }

    /// Returns true if the push is to the followed branch; then it is read soon.
    pub(crate) fn notice_push(&self, push: &BranchPush) -> bool {
        let is_ours = self.0.repository.as_ref().is_some_and(|repository| repository.is_of(push));
        if is_ours {
            self.0.wake.notify_one();
        }
        is_ours
    }

    /// Returns the check of the templates. An older set is usable, so the service is ready.
    pub(crate) fn check(&self) -> HealthCheck {
        let templates = self.now();
        let commit = templates.commit.as_ref().map_or("", CommitSha::short);
        let mut note = format!("{} {commit}", templates.origin).trim_end().to_owned();
        if let Some(trouble) = self.health().trouble.as_ref() {
            note = format!("{note} is in use, but {trouble}");
        }
        HealthCheck { name: "templates".to_owned(), waiting_for: None, note: Some(note) }
    }

    /// Updates the metrics that grow with time.
    pub(crate) fn measure(&self) {
        let age = self.0.clock.now().duration_since(self.health().current_at);
        self.0.metrics.age.set(age.as_secs().max(0));
    }

    /// Reads the branch once; returns true if it has moved.
    async fn refresh(&self, repository: &Repository) -> bool {
        let tip = match repository.fetch_tip().await {
            Ok(tip) => tip,
            Err(error) => {
                tracing::warn!(%error, "templates cannot be refreshed, the old ones stay in use");
                self.0.metrics.unreachable.inc();
                self.health().trouble = Some(error.to_string());
                return false;
            }
        };
        if self.now().commit.as_ref() == Some(&tip) {
            self.mark_current();
            return false;
        }
        if self.is_refused(&tip) {
            return false;
        }
        match repository.load(&tip).await {
            Ok(templates) => self.swap(repository, templates).await,
            Err(error) => self.refuse(tip, &error),
        }
        true
    }

    async fn swap(&self, repository: &Repository, templates: TemplateSet) {
        let commit = templates.commit.as_ref().map_or("", CommitSha::as_str).to_owned();
        tracing::info!(commit, "templates refreshed");
        self.0.metrics.set_in_use(&templates.origin, templates.commit.as_ref());
        let templates = Arc::new(templates);
        *self.0.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&templates);
        self.mark_current();
        repository.remember(&templates).await;
    }

    fn mark_current(&self) {
        let now = self.0.clock.now();
        *self.health() = TemplatesHealth { current_at: now, trouble: None, refused: None };
        self.0.metrics.current.set(now.as_second());
    }

    fn refuse(&self, commit: CommitSha, error: &LoadError) {
        log_refusal(&commit, error);
        self.0.metrics.refused.inc();
        let reason = refusal_text(&commit, error);
        let mut health = self.health();
        health.trouble = Some(reason.clone());
        health.refused = Some((commit, reason));
    }

    /// Returns true if that commit was refused before. Then the refusal is the trouble again,
    /// whatever happened meanwhile.
    fn is_refused(&self, tip: &CommitSha) -> bool {
        let mut health = self.health();
        let reason = health.refused.as_ref().filter(|(commit, _)| commit == tip);
        let reason = reason.map(|(_, reason)| reason.clone());
        let is_refused = reason.is_some();
        health.trouble = reason.or(health.trouble.take());
        is_refused
    }

    fn health(&self) -> MutexGuard<'_, TemplatesHealth> {
        lock(&self.0.health)
    }
}

/// The metrics of the templates. Clones share them.
#[derive(Debug, Clone, Default)]
struct Metrics {
    info: Family<Info, Gauge>,
    current: Gauge,
    age: Gauge,
    refused: Counter,
    unreachable: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Info {
    origin: String,
    commit: String,
}

impl Metrics {
    /// Creates the metrics and registers them; those of a repository only where there is one.
    fn new(registry: &mut Registry, has_repository: bool) -> Self {
        let new = Self::default();
        let Self { info, current, age, refused, unreachable } = new.clone();
        registry.register("templates_info", "The templates in use; always 1", info);
        if !has_repository {
            return new;
        }
        registry.register_with_unit(
            "templates_current_timestamp",
            "Time at which the templates in use were last seen to be those of their branch",
            Unit::Seconds,
            current,
        );
        let help = "Seconds since the templates in use were last seen to be those of their branch";
        registry.register_with_unit("templates_age", help, Unit::Seconds, age);
        let help = "Commits of the templates that were refused because they are broken";
        registry.register("templates_refused", help, refused);
        let help = "Reads of the templates' repository that failed";
        registry.register("templates_unreachable", help, unreachable);
        new
    }

    fn set_in_use(&self, origin: &str, commit: Option<&CommitSha>) {
        self.info.clear();
        let commit = commit.map(ToString::to_string).unwrap_or_default();
        self.info.get_or_create(&Info { origin: origin.to_owned(), commit }).set(1);
    }
}

/// Loads the set of the branch; otherwise the one used before, with the reason.
async fn load_first(
    repository: &Repository,
) -> Result<(TemplateSet, Option<String>), TemplatesError> {
    let Some(last_good) = repository.load_last_good().await else {
        // There is no set to start with, so the start waits for the host.
        return load_newest(repository, None).await.map(|templates| (templates, None)).map_err(
            |cause| {
                let cause = format!("{cause}; and there is no set that was used before");
                TemplatesError::Unusable(cause.into())
            },
        );
    };
    let commit = last_good.commit.clone();
    let trouble = match tokio::time::timeout(FIRST_LOOK, load_newest(repository, commit)).await {
        Ok(Ok(templates)) => return Ok((templates, None)),
        Ok(Err(trouble)) => trouble,
        Err(_elapsed) => format!("the host did not answer within {} s", FIRST_LOOK.as_secs()),
    };
    tracing::warn!(reason = trouble, "templates cannot be loaded, the last good set is used");
    Ok((last_good, Some(trouble)))
}

/// Loads the set of the branch and remembers it as good.
async fn load_newest(
    repository: &Repository,
    last_commit: Option<CommitSha>,
) -> Result<TemplateSet, String> {
    let tip = repository.fetch_tip().await.map_err(|error| error.to_string())?;
    match repository.load(&tip).await {
        Ok(templates) => {
            if last_commit.as_ref() != Some(&tip) {
                repository.remember(&templates).await;
            }
            Ok(templates)
        }
        Err(error) => {
            log_refusal(&tip, &error);
            Err(refusal_text(&tip, &error))
        }
    }
}

fn refusal_text(commit: &CommitSha, error: &LoadError) -> String {
    format!("{} is refused: {error}", commit.short())
}

fn log_refusal(commit: &CommitSha, error: &LoadError) {
    tracing::error!(%commit, %error, "templates refused");
    let LoadError::Broken(rejection) = error else { return };
    for violation in rejection.violations.iter().take(MAX_LOGGED) {
        tracing::error!(%commit, "{violation}");
    }
}
