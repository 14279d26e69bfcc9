//! The index over all apps is built when the program starts, and kept current by each push: nobody
//! who asks has to wait for more than what has changed since.

use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tokio_util::sync::CancellationToken;

use crate::app::facts::Gatherer;
use crate::app::facts::index::{Indexes, TARGETS};
use crate::facts::NotKnown;

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
pub struct Metrics {
    apps: Gauge,
    targets: Gauge,
    build: Gauge<f64, std::sync::atomic::AtomicU64>,
}

impl Metrics {
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

impl Gatherer {
    /// Builds the index over all apps, and keeps it current until `stop`.
    pub async fn keep_index(self, metrics: Metrics, stop: CancellationToken) {
        let keeping = async {
            let mut again = AGAIN;
            while let Err(NotKnown(why)) = self.build_index(&metrics).await {
                tracing::warn!(why, ?again, "the index over all apps cannot be built yet");
                tokio::time::sleep(again).await;
                again = (again * 2).min(SELDOM);
            }
            loop {
                let _timer = tokio::time::timeout(LOOK, self.0.indexes.pushed.notified()).await;
                // Many pushes are one look.
                tokio::time::sleep(PAUSE).await;
                if let Err(NotKnown(why)) = self.update_index(&metrics).await {
                    tracing::warn!(why, "the index over all apps is not current");
                }
            }
        };
        let _stopped = stop.run_until_cancelled(keeping).await;
    }

    /// Something was pushed: the index is brought up to date soon, and nobody waits for it.
    pub fn pushed(&self) {
        self.0.indexes.pushed.notify_one();
    }

    /// Asks servers what is new, and reads it.
    async fn build_index(&self, metrics: &Metrics) -> Result<(), NotKnown> {
        self.0.indexes.freshen_all(self.0.clock.now()).await?;
        let reading = self.0.clock.stopwatch();
        self.update_index(metrics).await?;
        let micros = reading.micros();
        let seconds = Duration::from_micros(micros).as_secs_f64();
        metrics.build.set(seconds);
        tracing::info!(apps = metrics.apps.get(), seconds, "the index over all apps is built");
        Ok(())
    }

    async fn update_index(&self, metrics: &Metrics) -> Result<(), NotKnown> {
        let indexes = &self.0.indexes;
        let (apps, targets) = indexes.update_all().await?;
        metrics.apps.set(i64::try_from(apps).unwrap_or(i64::MAX));
        metrics.targets.set(i64::try_from(targets).unwrap_or(i64::MAX));
        Ok(())
    }
}

impl Indexes {
    /// Reads what has changed on every target; how many apps and targets there are.
    async fn update_all(&self) -> Result<(usize, usize), NotKnown> {
        let targets = self.targets().await?;
        if targets.len() > TARGETS {
            let all = targets.len();
            tracing::warn!(
                all,
                kept = TARGETS,
                "there are more targets than are kept in the index"
            );
        }
        for target in targets.iter().take(TARGETS) {
            self.update(target).await?;
        }
        Ok((self.apps(), targets.len()))
    }
}
