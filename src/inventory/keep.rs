//! Builds the index over all apps when the service starts, and brings it up to date after each
//! push: a reader waits only for the changes since then.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tokio_util::sync::CancellationToken;

use crate::inventory::target::Index;
use crate::inventory::{FRESH, Inventory, TARGETS, blocking};
use crate::model::app_instance::UnreadableRepositories;
use crate::model::facts::FactUnavailable;
use crate::support::clock::Clock;

/// The poll interval: commits of others that the writer has fetched are read within this time, also
/// without a reader.
const INTERVAL: Duration = Duration::from_secs(30);
/// The least time between two updates under load: readers see what is new anyway.
const PAUSE: Duration = Duration::from_secs(1);
/// The first delay before a repository that could not be read at the start is tried again; each
/// further delay is twice as long.
const AGAIN: Duration = Duration::from_secs(5);
/// The longest of these delays.
const SELDOM: Duration = Duration::from_mins(5);

/// Metrics of the index. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct IndexMetrics {
    apps: Gauge,
    targets: Gauge,
    build: Gauge<f64, std::sync::atomic::AtomicU64>,
}

impl IndexMetrics {
    /// Creates the metrics and registers them.
    pub fn new(registry: &mut Registry) -> Self {
        let new = Self::default();
        let Self { apps, targets, build } = new.clone();
        registry.register("index_apps", "Apps in the manifest repositories, on all targets", apps);
        registry.register("index_targets", "Targets that have manifests", targets);
        let help = "Time to read all apps at the start; 0 until it is over";
        registry.register_with_unit("index_build", help, Unit::Seconds, build);
        new
    }
}

impl Inventory {
    /// Builds the index over all apps, and keeps it current until `stop`. A repository that is down
    /// does not delay the others.
    pub(crate) async fn run_updates(
        &self,
        clock: &Clock,
        metrics: &IndexMetrics,
        stop: &CancellationToken,
    ) {
        let keeping = async { tokio::join!(self.build_all(clock, metrics), self.look_on(metrics)) };
        let _stopped = stop.run_until_cancelled(keeping).await;
    }

    /// Brings the index up to date soon, after a push; the caller does not wait.
    pub(crate) fn note_push(&self) {
        self.pushed.notify_one();
    }

    /// Retries until every repository has been read once.
    async fn build_all(&self, clock: &Clock, metrics: &IndexMetrics) {
        let mut pause = AGAIN;
        while !self.build_index(clock, metrics).await {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(SELDOM);
        }
    }

    async fn look_on(&self, metrics: &IndexMetrics) {
        loop {
            let _timer = tokio::time::timeout(INTERVAL, self.pushed.notified()).await;
            // Many pushes cause one update.
            tokio::time::sleep(PAUSE).await;
            for (repository, why) in self.update_index(metrics).await {
                tracing::warn!(repository, reason = why, "index over all apps is not current");
            }
        }
    }

    /// Fetches from the servers and updates the index; returns true if every repository was read.
    async fn build_index(&self, clock: &Clock, metrics: &IndexMetrics) -> bool {
        let unread = self.freshen_all(clock.now()).await;
        let reading = clock.stopwatch();
        let mut missing = self.update_index(metrics).await;
        let seconds = Duration::from_micros(reading.micros()).as_secs_f64();
        let has_some = missing.len() < self.places.len();
        missing.extend(unread);
        for (repository, why) in &missing {
            tracing::warn!(repository, reason = why, "apps of a repository cannot be read yet");
        }
        if has_some {
            metrics.build.inc_by(seconds);
            let (apps, missing) = (metrics.apps.get(), missing.len());
            tracing::info!(apps, seconds, missing, "index over all apps built");
        }
        missing.is_empty()
    }

    /// Updates the index from the clones; returns the repositories that could not be read.
    async fn update_index(&self, metrics: &IndexMetrics) -> UnreadableRepositories {
        let (targets, missing) = self.update_all().await;
        metrics.apps.set(i64::try_from(self.apps()).unwrap_or(i64::MAX));
        metrics.targets.set(i64::try_from(targets).unwrap_or(i64::MAX));
        missing
    }

    /// Fetches from every server that was not asked just now, at the same time; returns those that
    /// did not answer.
    async fn freshen_all(&self, now: Timestamp) -> UnreadableRepositories {
        let asking = self.places.iter().map(|place| place.freshen(now, FRESH));
        let results = futures::future::join_all(asking).await;
        let unread = self.places.iter().zip(results).filter_map(|(place, result)| {
            let FactUnavailable(why) = result.err()?;
            Some((place.name().to_owned(), why))
        });
        unread.collect()
    }

    /// Updates every target; returns the number of targets, and the repositories of which a part
    /// could not be read.
    async fn update_all(&self) -> (usize, UnreadableRepositories) {
        let (mut targets, mut missing) = (BTreeSet::new(), UnreadableRepositories::new());
        for place in &self.places {
            match self.targets_of(place).await {
                Ok(known_targets) => targets.extend(known_targets),
                Err(FactUnavailable(why)) => drop(missing.insert(place.name().to_owned(), why)),
            }
        }
        if targets.len() > TARGETS {
            let count = targets.len();
            tracing::warn!(all = count, kept = TARGETS, "more targets than the index may hold");
        }
        for target in targets.iter().take(TARGETS) {
            let Some((place, index)) = self.indexed(target) else { continue };
            if let Err(FactUnavailable(why)) = blocking(&index, Index::update).await {
                missing.insert(place.name().to_owned(), why);
            }
        }
        (targets.len(), missing)
    }
}
