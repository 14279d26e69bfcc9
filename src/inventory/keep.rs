//! The index over all apps is built when the program starts, and kept current by each push: nobody
//! who asks has to wait for more than what has changed since.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tokio_util::sync::CancellationToken;

use crate::inventory::target::Index;
use crate::inventory::{FRESH, Inventory, TARGETS, blocking};
use crate::model::app_instance::Missing;
use crate::model::facts::FactUnavailable;
use crate::support::clock::Clock;

/// Commits of others that the writer has fetched are seen within this, also if nobody asks.
const LOOK: Duration = Duration::from_secs(30);
/// Under load nobody looks more often: who asks sees what is new anyway.
const PAUSE: Duration = Duration::from_secs(1);
/// A repository that cannot be read at the start is tried again after this, then twice as long,
const AGAIN: Duration = Duration::from_secs(5);
/// up to this.
const SELDOM: Duration = Duration::from_mins(5);

/// What is measured of the index. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct IndexMetrics {
    apps: Gauge,
    targets: Gauge,
    build: Gauge<f64, std::sync::atomic::AtomicU64>,
}

impl IndexMetrics {
    /// Metrics that the registry knows.
    pub fn new(registry: &mut Registry) -> Self {
        let new = Self::default();
        let Self { apps, targets, build } = new.clone();
        registry.register("index_apps", "Apps in the manifest repositories, on all targets", apps);
        registry.register("index_targets", "Targets that have manifests", targets);
        let about = "How long it took to read all apps when the program started; 0 until it has";
        registry.register_with_unit("index_build", about, Unit::Seconds, build);
        new
    }
}

impl Inventory {
    /// Builds the index over all apps, and keeps it current until `stop`. A repository that is down
    /// keeps no other one from being read.
    pub(crate) async fn keep(
        &self,
        clock: &Clock,
        metrics: &IndexMetrics,
        stop: &CancellationToken,
    ) {
        let keeping = async { tokio::join!(self.build_all(clock, metrics), self.look_on(metrics)) };
        let _stopped = stop.run_until_cancelled(keeping).await;
    }

    /// Something was pushed: the index is brought up to date soon, and nobody waits for it.
    pub(crate) fn pushed(&self) {
        self.pushed.notify_one();
    }

    /// Until every repository has been read once.
    async fn build_all(&self, clock: &Clock, metrics: &IndexMetrics) {
        let mut again = AGAIN;
        while !self.build_index(clock, metrics).await {
            tokio::time::sleep(again).await;
            again = (again * 2).min(SELDOM);
        }
    }

    async fn look_on(&self, metrics: &IndexMetrics) {
        loop {
            let _timer = tokio::time::timeout(LOOK, self.pushed.notified()).await;
            // Many pushes are one look.
            tokio::time::sleep(PAUSE).await;
            for (repository, why) in self.update_index(metrics).await {
                tracing::warn!(repository, why, "the index over all apps is not current");
            }
        }
    }

    /// Asks servers what is new, and reads it; whether that is all.
    async fn build_index(&self, clock: &Clock, metrics: &IndexMetrics) -> bool {
        let unread = self.freshen_all(clock.now()).await;
        let reading = clock.stopwatch();
        let mut missing = self.update_index(metrics).await;
        let seconds = Duration::from_micros(reading.micros()).as_secs_f64();
        let some = missing.len() < self.places.len();
        missing.extend(unread);
        for (repository, why) in &missing {
            tracing::warn!(repository, why, "the apps of a repository cannot be read yet");
        }
        if some {
            metrics.build.inc_by(seconds);
            let (apps, missing) = (metrics.apps.get(), missing.len());
            tracing::info!(apps, seconds, missing, "the index over all apps is built");
        }
        missing.is_empty()
    }

    /// Reads what is new here; what cannot be read.
    async fn update_index(&self, metrics: &IndexMetrics) -> Missing {
        let (targets, missing) = self.update_all().await;
        metrics.apps.set(i64::try_from(self.apps()).unwrap_or(i64::MAX));
        metrics.targets.set(i64::try_from(targets).unwrap_or(i64::MAX));
        missing
    }

    /// Asks every server what is new that was not asked just now, side by side; those that did not
    /// say.
    async fn freshen_all(&self, now: Timestamp) -> Missing {
        let asking = self.places.iter().map(|place| place.freshen(now, FRESH));
        let asked = futures::future::join_all(asking).await;
        let unread = self.places.iter().zip(asked).filter_map(|(place, asked)| {
            let FactUnavailable(why) = asked.err()?;
            Some((place.name().to_owned(), why))
        });
        unread.collect()
    }

    /// Reads what has changed on every target; how many targets there are, and the repositories of
    /// which something cannot be read.
    async fn update_all(&self) -> (usize, Missing) {
        let (mut targets, mut missing) = (BTreeSet::new(), Missing::new());
        for place in &self.places {
            match self.targets_of(place).await {
                Ok(found) => targets.extend(found),
                Err(FactUnavailable(why)) => drop(missing.insert(place.name().to_owned(), why)),
            }
        }
        if targets.len() > TARGETS {
            let all = targets.len();
            tracing::warn!(
                all,
                kept = TARGETS,
                "there are more targets than are kept in the index"
            );
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
