//! Pull requests are previewed, beside the deployments and never in their way.
//!
//! ```text
//! webhook ─► note ─► store ◄─ claim ─ glance ─ look ─ show ─► record
//! ```
//!
//! Each attempt looks at everything anew. A check run is made once: an attempt that is not the first on a
//! head looks for the check run of the one before, and before anything is shown the claim is asked for again, so
//! that an older head is not shown after a newer one has come.

mod attempt; // one claimed preview
pub mod metrics;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::controller::previews::metrics::Metrics;
use crate::deployments::Deployments;
use crate::store::{Store, StoreError};
use crate::support::clock::Clock;
use crate::support::retry::RetryPolicy;

/// How the loop behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This process, for people who look into the database.
    pub name: String,
    /// After how long without a sign of life another worker takes over.
    pub lease: Duration,
    /// After how long an attempt is ended, whatever it is at.
    pub longest: Duration,
    /// How long a look may take before something is shown in the meantime.
    pub moment: Duration,
    /// How often the loop looks without having been woken.
    pub poll: Duration,
    /// How often it is asked whether previews are out of date.
    pub renewal: Duration,
    /// How long after one check run was written the next may be: GitHub takes 80 writes a minute
    /// from all of us, and most are for deployments.
    pub spacing: Duration,
    /// How often a preview is tried.
    pub patience: RetryPolicy,
}

impl Default for Settings {
    fn default() -> Self {
        let (first, longest) = (Duration::from_secs(2), Duration::from_mins(5));
        Self {
            name: "the-deployer".to_owned(),
            lease: Duration::from_mins(1),
            longest: Duration::from_mins(5),
            moment: Duration::from_secs(5),
            poll: Duration::from_secs(2),
            renewal: Duration::from_secs(30),
            spacing: Duration::from_secs(3),
            // An hour, as for deployments, and with fewer tries: nobody waits for it that urgently.
            patience: RetryPolicy { first, longest, failures: 18 },
        }
    }
}

/// At one go; the rest the next time.
const MOST_RENEWED: u32 = 50;

/// What became of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    /// It is shown.
    Shown,
    /// The same was shown already.
    Same,
    /// There was nothing to show.
    Nothing,
    /// Nobody may show it, or nobody can find it out; it is not tried again.
    Refused,
    /// It is tried again later.
    PutOff,
    /// A newer head has come, or another worker.
    Lost,
}

impl Did {
    fn as_str(self) -> &'static str {
        match self {
            Self::Shown => "shown",
            Self::Same => "same",
            Self::Nothing => "nothing",
            Self::Refused => "refused",
            Self::PutOff => "put_off",
            Self::Lost => "lost",
        }
    }
}

/// The loop. Clones share it.
pub struct Previews(Arc<Parts>);

struct Parts {
    store: Store,
    clock: Clock,
    deployments: Deployments,
    settings: Settings,
    metrics: Metrics,
    /// When the last check run was written, in milliseconds; 0 before that.
    written_at: AtomicI64,
    /// Whether the operator was told that we may not show anything.
    refused: AtomicBool,
}

impl Clone for Previews {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl Previews {
    /// A loop over these use cases; nothing runs before [`Previews::run`].
    pub fn new(deployments: Deployments, settings: Settings, metrics: Metrics) -> Self {
        let (store, clock) = (deployments.store.clone(), deployments.clock.clone());
        let (written_at, refused) = (AtomicI64::new(0), AtomicBool::new(false));
        let parts = Parts { store, clock, deployments, settings, metrics, written_at, refused };
        Self(Arc::new(parts))
    }

    /// Works one after the other until `stop`; the last may end.
    pub async fn run(&self, stop: CancellationToken) {
        let (working, renewing) = (self.0.work(self, &stop), self.0.keep_renewing(self, &stop));
        futures::future::join(working, renewing).await;
    }

    /// When the next preview can be made, if one waits.
    pub async fn due(&self) -> Result<Option<Timestamp>, StoreError> {
        let due = self.0.store.next_preview().await?;
        Ok(due.map(|due| due.max(self.0.may_write_at())))
    }

    /// Claims one preview and makes it; `None` if there was nothing to do, or it is too soon.
    pub async fn step(&self) -> Result<Option<Did>, StoreError> {
        let Parts { store, clock, settings, .. } = &*self.0;
        if self.0.is_too_soon(clock.now()) {
            return Ok(None);
        }
        let claim = store.claim_preview(&settings.name, clock.now(), settings.lease).await?;
        let Some(claim) = claim else { return Ok(None) };
        let span = tracing::info_span!(
            "preview", repository = %claim.request.repository, number = claim.request.number,
            head = claim.request.head.short(), attempt = claim.attempts,
        );
        let did = Box::pin(self.0.attended(&claim)).instrument(span).await?;
        self.0.metrics.attempt(did.as_str());
        Ok(Some(did))
    }

    /// Has previews made again that compare with what is live no more; how many.
    pub async fn renew(&self) -> Result<u64, StoreError> {
        let renewed = self.0.store.renew_previews(self.0.clock.now(), MOST_RENEWED).await?;
        if renewed > 0 {
            self.0.deployments.wake.previews.notify_one();
        }
        self.0.metrics.waiting(self.0.store.previews_waiting().await?);
        Ok(renewed)
    }
}

impl Parts {
    async fn work(&self, this: &Previews, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            match this.step().await {
                Ok(Some(_)) => {}
                Ok(None) => self.wait(stop).await,
                Err(error) => {
                    tracing::error!(%error, "previews could not be read or recorded");
                    self.pause(self.settings.poll, stop).await;
                }
            }
        }
    }

    /// Whether a check run was written just now. One of the future was before the clock was set back.
    fn is_too_soon(&self, now: Timestamp) -> bool {
        let spacing = SignedDuration::try_from(self.settings.spacing).unwrap_or_default();
        let left = self.may_write_at().duration_since(now);
        left > SignedDuration::ZERO && left <= spacing
    }

    /// From when on the next check run may be written.
    fn may_write_at(&self) -> Timestamp {
        let spacing = SignedDuration::try_from(self.settings.spacing).unwrap_or_default();
        let last = Timestamp::from_millisecond(self.written_at.load(Ordering::Relaxed));
        last.unwrap_or_default().saturating_add(spacing).unwrap_or(Timestamp::MIN)
    }

    async fn keep_renewing(&self, this: &Previews, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = this.renew().await {
                tracing::warn!(%error, "previews could not be looked through");
            }
            self.pause(self.settings.renewal, stop).await;
        }
    }

    async fn wait(&self, stop: &CancellationToken) {
        tokio::select! {
            () = self.deployments.wake.previews.notified() => {}
            () = self.pause(self.settings.poll, stop) => {}
        }
    }

    async fn pause(&self, time: Duration, stop: &CancellationToken) {
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = stop.cancelled() => {}
        }
    }
}
