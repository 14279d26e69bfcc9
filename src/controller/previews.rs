//! The loop of previews: it previews pull requests beside the deployments and does not delay them.
//!
//! ```text
//! webhook ─► note ─► store ◄─ claim ─ glance ─ look ─ show ─► record
//! ```
//!
//! Each attempt computes everything anew. A check run is created once: an attempt that is not the
//! first on a head looks for the check run of the one before. Before anything is shown the attempt
//! verifies its claim again, so that no older head is shown after a newer one.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::controller::outcome;
use crate::deployments::Deployments;
use crate::deployments::outcome::DeployError;
use crate::deployments::preview::{PreviewPlace, PreviewTask};
use crate::model::preview::PreviewText;
use crate::pipeline::preview::text;
use crate::store::{LeaseState, MAX_DEATHS, PostedCheck, PreviewClaim, Store, StoreError};
use crate::support::clock::Clock;
use crate::support::retry::RetryPolicy;

/// The retry policy of a preview: for an hour, as for deployments, with fewer attempts, because
/// previews are less urgent.
const RETRY: RetryPolicy =
    RetryPolicy { first: Duration::from_secs(2), longest: Duration::from_mins(5), failures: 18 };
/// The longest duration of an attempt.
const LONGEST: Duration = Duration::from_mins(5);
/// The time after which a preview that is still being computed is shown as under way.
const UNDER_WAY_DELAY: Duration = Duration::from_secs(5);
/// The poll interval of the loop.
const POLL: Duration = Duration::from_secs(2);
/// The interval of the search for outdated previews.
const RENEWAL: Duration = Duration::from_secs(30);
/// The least time between two writes of check runs: GitHub takes 80 writes a minute from the whole
/// service, and most are for deployments.
const SPACING: SignedDuration = SignedDuration::from_secs(3);
/// The most previews that one search renews; the next search renews the rest.
const MAX_RENEWED: u32 = 50;

/// The outcome of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreviewOutcome {
    /// The preview is shown.
    Shown,
    /// The same preview was shown before.
    Same,
    /// There was nothing to show.
    Nothing,
    /// The preview may not be shown or could not be computed; it is not tried again.
    Refused,
    /// The preview is tried again later.
    PutOff,
    /// A newer head arrived, or another worker took over.
    Lost,
}

impl PreviewOutcome {
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

/// The metrics of previews. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct PreviewMetrics {
    attempts: Family<OutcomeLabel, Counter>,
    waiting: Gauge,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

impl PreviewMetrics {
    /// Creates the metrics and registers them.
    pub fn new(registry: &mut Registry) -> Self {
        let new = Self::default();
        let Self { attempts, waiting } = new.clone();
        registry.register("previews", "Attempts at previews, by how they ended", attempts);
        registry.register("previews_waiting", "Previews that wait or are being made", waiting);
        new
    }
}

/// The loop of previews.
pub struct PreviewLoop {
    store: Store,
    clock: Clock,
    deployments: Deployments,
    /// The name of this process, for people who look into the database.
    name: String,
    /// The lease: another worker takes over after this long without a sign of life.
    lease: Duration,
    metrics: PreviewMetrics,
    /// The time of the last write of a check run, in milliseconds; 0 before the first.
    written_at: AtomicI64,
    /// True once a failure was logged as an error, until a preview succeeds again.
    refused: AtomicBool,
}

impl PreviewLoop {
    /// Creates a loop over these use cases; nothing runs before [`PreviewLoop::run`].
    pub fn new(
        deployments: Deployments,
        name: String,
        lease: Duration,
        metrics: PreviewMetrics,
    ) -> Self {
        let (store, clock) = (deployments.store.clone(), deployments.clock.clone());
        let (written_at, refused) = (AtomicI64::new(0), AtomicBool::new(false));
        Self { store, clock, deployments, name, lease, metrics, written_at, refused }
    }

    /// Computes one preview after the other until `stop`; the last may finish.
    pub async fn run(&self, stop: CancellationToken) {
        tokio::join!(self.work(&stop), self.keep_renewing(&stop));
    }

    /// Returns the time at which the next preview can be computed, if one waits.
    pub async fn due(&self) -> Result<Option<Timestamp>, StoreError> {
        let due = self.store.next_preview().await?;
        Ok(due.map(|due| due.max(self.may_write_at())))
    }

    /// Claims one preview and computes it; `None` if there was nothing to do, or it is too soon.
    pub async fn step(&self) -> Result<Option<PreviewOutcome>, StoreError> {
        let now = self.clock.now();
        // True if a check run was written just now. A time in the future is from before the clock was set back.
        let left = self.may_write_at().duration_since(now);
        if left > SignedDuration::ZERO && left <= SPACING {
            return Ok(None);
        }
        let claim = self.store.claim_preview(&self.name, now, self.lease).await?;
        let Some(claim) = claim else { return Ok(None) };
        let span = tracing::info_span!(
            "preview", repository = %claim.request.repository, number = claim.request.number,
            head = claim.request.head.short(), attempt = claim.attempts,
        );
        let result = Box::pin(self.with_lease(&claim)).instrument(span).await?;
        let outcome = result.as_str();
        self.metrics.attempts.get_or_create(&OutcomeLabel { outcome }).inc();
        Ok(Some(result))
    }

    /// Schedules previews again whose live revision has changed; returns their number.
    pub async fn renew(&self) -> Result<u64, StoreError> {
        let count = self.store.renew_previews(self.clock.now(), MAX_RENEWED).await?;
        if count > 0 {
            self.deployments.wake.previews.notify_one();
        }
        let waiting = self.store.previews_waiting().await?;
        self.metrics.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        Ok(count)
    }

    async fn work(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            match self.step().await {
                Ok(Some(_)) => {}
                Ok(None) => {
                    tokio::select! {
                        () = self.deployments.wake.previews.notified() => {}
                        () = pause(POLL, stop) => {}
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "previews could not be read or recorded");
                    pause(POLL, stop).await;
                }
            }
        }
    }

    /// Returns the time from which the next check run may be written.
    fn may_write_at(&self) -> Timestamp {
        let last = Timestamp::from_millisecond(self.written_at.load(Ordering::Relaxed));
        last.unwrap_or_default().saturating_add(SPACING).unwrap_or(Timestamp::MIN)
    }

    async fn keep_renewing(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            if let Err(error) = self.renew().await {
                tracing::warn!(%error, "outdated previews could not be renewed");
            }
            pause(RENEWAL, stop).await;
        }
    }
}

async fn pause(time: Duration, stop: &CancellationToken) {
    let _elapsed = tokio::time::timeout(time, stop.cancelled()).await;
}

/// The reason why an attempt ends before its last stage.
enum Abort {
    LeaseLost,
    /// The preview could not be computed.
    Unknown(DeployError),
    /// The preview could not be shown.
    Unshown(DeployError),
    Store(StoreError),
}

impl From<StoreError> for Abort {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl PreviewLoop {
    /// Runs the attempt and keeps its lease.
    async fn with_lease(&self, claim: &PreviewClaim) -> Result<PreviewOutcome, StoreError> {
        tokio::select! {
            biased;
            result = self.catch_panic(claim) => result,
            () = self.keep_lease(claim) => Ok(PreviewOutcome::Lost),
        }
    }

    /// Runs the attempt and gives it an end even if it panics or takes too long.
    async fn catch_panic(&self, claim: &PreviewClaim) -> Result<PreviewOutcome, StoreError> {
        if claim.deaths >= MAX_DEATHS {
            return self
                .end(claim, PreviewOutcome::Refused, "given up: the service died at each attempt")
                .await;
        }
        if claim.failures >= RETRY.failures {
            return self
                .end(claim, PreviewOutcome::Refused, "given up: attempts failed or died")
                .await;
        }
        let attempt = AssertUnwindSafe(Box::pin(self.attempt(claim))).catch_unwind();
        match tokio::time::timeout(LONGEST, attempt).await {
            Ok(Ok(result)) => result,
            Ok(Err(_panic)) => {
                self.end(
                    claim,
                    PreviewOutcome::Refused,
                    "a fault in the-deployer itself; its log has the details",
                )
                .await
            }
            Err(_elapsed) => {
                let seconds = LONGEST.as_secs();
                let message = format!("the preview took longer than {seconds} s and was stopped");
                self.handle_failure(claim, &DeployError::retry(message)).await
            }
        }
    }

    async fn attempt(&self, claim: &PreviewClaim) -> Result<PreviewOutcome, StoreError> {
        let mut last_check = claim.last_check.clone();
        match self.run_stages(claim, &mut last_check).await {
            Ok(outcome) => {
                self.refused.store(false, Ordering::Relaxed);
                self.end(claim, outcome, outcome.as_str()).await
            }
            Err(Abort::LeaseLost) => {
                tracing::info!("a newer head arrived, this attempt stops");
                Ok(PreviewOutcome::Lost)
            }
            Err(Abort::Store(error)) => Err(error),
            Err(Abort::Unshown(problem)) => self.handle_failure(claim, &problem).await,
            Err(Abort::Unknown(problem)) => {
                self.retry_or_show_error(claim, &mut last_check, &problem).await
            }
        }
    }

    /// Runs the stages of a preview: glance, compute, show.
    async fn run_stages(
        &self,
        claim: &PreviewClaim,
        last_check: &mut Option<PostedCheck>,
    ) -> Result<PreviewOutcome, Abort> {
        let request = &claim.request;
        let glance = self.deployments.assess_pull_request(request, last_check.is_some()).await;
        let text = match glance.map_err(Abort::Unshown)? {
            PreviewTask::Nothing(reason) => {
                tracing::info!(reason, "preview not needed");
                return Ok(PreviewOutcome::Nothing);
            }
            PreviewTask::Say(text) => text,
            PreviewTask::Look(changed) => self.compute_preview(claim, &changed, last_check).await?,
        };
        self.show(claim, last_check, &text).await
    }

    /// Computes the preview; one that takes longer than a moment is shown as under way.
    async fn compute_preview(
        &self,
        claim: &PreviewClaim,
        changed: &BTreeSet<String>,
        last_check: &mut Option<PostedCheck>,
    ) -> Result<PreviewText, Abort> {
        let preview = self.deployments.preview_pull_request(&claim.request, changed);
        let mut preview = Box::pin(preview);
        let text = match tokio::time::timeout(UNDER_WAY_DELAY, &mut preview).await {
            Ok(text) => text,
            Err(_elapsed) => {
                self.show(claim, last_check, &text::under_way()).await?;
                preview.await
            }
        };
        text.map_err(Abort::Unknown)
    }

    async fn show(
        &self,
        claim: &PreviewClaim,
        last_check: &mut Option<PostedCheck>,
        text: &PreviewText,
    ) -> Result<PreviewOutcome, Abort> {
        let digest = digest(text);
        let current =
            last_check.as_ref().filter(|last_check| last_check.head == claim.request.head);
        if current.is_some_and(|current| current.digest == digest) {
            return Ok(PreviewOutcome::Same);
        }
        let place = match current {
            Some(current) => PreviewPlace::At(current.check),
            // An earlier attempt, also one before the newest event, may have made one.
            None if claim.attempts > 1 || claim.turn > 1 => PreviewPlace::Unsure,
            None => PreviewPlace::New,
        };
        let lease = self.lease;
        if self.store.extend_preview(claim, self.clock.now(), lease).await? == LeaseState::Lost {
            return Err(Abort::LeaseLost);
        }
        self.written_at.store(self.clock.now().as_millisecond(), Ordering::Relaxed);
        let check = self
            .deployments
            .show_preview(&claim.request, text, place)
            .await
            .map_err(Abort::Unshown)?;
        let new_check = PostedCheck { head: claim.request.head.clone(), check, digest };
        self.store.record_shown_preview(claim, &new_check).await?;
        *last_check = Some(new_check);
        Ok(PreviewOutcome::Shown)
    }

    /// Schedules a retry of a preview that could not be computed. After the last attempt the check
    /// run says so: one that stays open would hold up the pull request.
    async fn retry_or_show_error(
        &self,
        claim: &PreviewClaim,
        last_check: &mut Option<PostedCheck>,
        problem: &DeployError,
    ) -> Result<PreviewOutcome, StoreError> {
        if self.next_attempt(claim, problem).is_some() {
            return self.handle_failure(claim, problem).await;
        }
        let text = text::not_known(&problem.message);
        match self.show(claim, last_check, &text).await {
            Ok(_) => self.end(claim, PreviewOutcome::Refused, &problem.message).await,
            Err(Abort::LeaseLost) => Ok(PreviewOutcome::Lost),
            Err(Abort::Store(error)) => Err(error),
            Err(Abort::Unknown(problem) | Abort::Unshown(problem)) => {
                self.handle_failure(claim, &problem).await
            }
        }
    }

    fn next_attempt(&self, claim: &PreviewClaim, problem: &DeployError) -> Option<Timestamp> {
        let now = self.clock.now();
        outcome::preview_retry(problem, claim.received_at, claim.failures, &RETRY, now)
    }

    async fn handle_failure(
        &self,
        claim: &PreviewClaim,
        problem: &DeployError,
    ) -> Result<PreviewOutcome, StoreError> {
        let reason = &problem.message;
        if let Some(at) = self.next_attempt(claim, problem) {
            tracing::warn!(%at, reason, "preview failed, retry scheduled");
            let lease = self.store.retry_preview_at(claim, at, reason).await?;
            return Ok(if lease == LeaseState::Held {
                PreviewOutcome::PutOff
            } else {
                PreviewOutcome::Lost
            });
        }
        // Logged as an error once, until something works again: a missing permission is missing for all.
        if self.refused.swap(true, Ordering::Relaxed) {
            tracing::debug!(reason, "preview failed again");
        } else {
            tracing::error!(reason, "preview failed; further failures are counted, not logged");
        }
        self.end(claim, PreviewOutcome::Refused, reason).await
    }

    async fn end(
        &self,
        claim: &PreviewClaim,
        outcome: PreviewOutcome,
        summary: &str,
    ) -> Result<PreviewOutcome, StoreError> {
        match self.store.end_preview(claim, self.clock.now(), summary).await? {
            LeaseState::Held => {
                tracing::info!(outcome = outcome.as_str(), "preview done");
                Ok(outcome)
            }
            LeaseState::Lost => Ok(PreviewOutcome::Lost),
        }
    }

    /// Ends when the lease is lost.
    async fn keep_lease(&self, claim: &PreviewClaim) {
        let lease = self.lease;
        loop {
            tokio::time::sleep(lease / 3).await;
            match self.store.extend_preview(claim, self.clock.now(), lease).await {
                Ok(LeaseState::Held) => {}
                Ok(LeaseState::Lost) => return,
                Err(error) => tracing::warn!(%error, "lease could not be extended"),
            }
        }
    }
}

/// Returns the digest of everything that a preview shows.
fn digest(text: &PreviewText) -> String {
    hex::encode(Sha256::digest(format!("{text:?}")))
}
