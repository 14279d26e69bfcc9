//! One claimed deployment from the claim to its record: the lease is kept while the attempt
//! goes on, and neither a panic nor a shutdown leaves it hanging.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::controller::Parts;
use crate::controller::jobs::deploy::{self, Reached};
use crate::controller::outcome::{self, Next, Trouble};
use crate::controller::outside::{Outside, Problem, Remedy};
use crate::controller::stages::Stages;
use crate::model::deployment::Stage;
use crate::store::{Claim, End, Ending, Held, Known, MOST_DEATHS, StoreError};

/// A deployment whose attempt died is tried again when no other such is at work; so often it is looked
/// whether that is so.
const SUSPECT_WAITS: SignedDuration = SignedDuration::from_secs(5);

/// What became of one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Did {
    /// It is in the manifest repository.
    Succeeded,
    /// It was rejected, or given up.
    Failed,
    /// A newer one took its place.
    Superseded,
    /// It is tried again later.
    PutOff,
    /// Another worker took over.
    Lost,
    /// It was given back, at a shutdown or to let another be tried alone.
    GaveBack,
}

impl Did {
    fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Superseded => "superseded",
            Self::PutOff => "put_off",
            Self::Lost => "lost",
            Self::GaveBack => "gave_back",
        }
    }
}

impl<O: Outside> Parts<O> {
    /// Works on a claim until it is recorded what became of it.
    pub(super) async fn job(
        &self,
        claim: &Claim,
        stop: &CancellationToken,
    ) -> Result<Did, StoreError> {
        let request = &claim.deployment.request;
        let span = tracing::info_span!(
            "deployment", deployment = %claim.deployment.id, target = %request.target,
            repository = %request.release.repository, tag = %request.release.tag,
            attempt = claim.deployment.attempts,
        );
        let did = Box::pin(self.attended(claim, stop)).instrument(span).await?;
        self.metrics.attempt(did.as_str());
        self.wake.outbox.ring();
        Ok(did)
    }

    async fn attended(&self, claim: &Claim, stop: &CancellationToken) -> Result<Did, StoreError> {
        let stages = self.stages(claim);
        tokio::select! {
            biased;
            did = self.guarded(claim, &stages) => did,
            () = self.keep_lease(claim) => {
                tracing::warn!("another worker took over, this attempt stops");
                Ok(Did::Lost)
            }
            () = self.out_of_grace(stop) => {
                tracing::info!("shutting down, the deployment is given back");
                let held = self.store.release(claim, self.clock.now()).await?;
                Ok(if held == Held::Yes { Did::GaveBack } else { Did::Lost })
            }
        }
    }

    /// The attempt, with an end even if it panics or never ends.
    async fn guarded(&self, claim: &Claim, stages: &Stages) -> Result<Did, StoreError> {
        if claim.deaths >= MOST_DEATHS {
            return self.trouble(claim, Trouble::KillsProcess, Known::default()).await;
        }
        if claim.failures >= self.settings.patience.failures {
            return self.trouble(claim, Trouble::DiedTooOften, Known::default()).await;
        }
        let alone = (claim.deaths > 0).then(|| self.suspect.try_acquire());
        if let Some(Err(_taken)) = alone {
            let later = self.clock.now().checked_add(SUSPECT_WAITS).unwrap_or(Timestamp::MAX);
            let held = self.store.release(claim, later).await?;
            return Ok(if held == Held::Yes { Did::GaveBack } else { Did::Lost });
        }
        let attempt = Box::pin(deploy::attempt(self, claim, stages));
        let attempt = AssertUnwindSafe(attempt).catch_unwind();
        let known = || Known { stages: stages.times(), ..Known::default() };
        match tokio::time::timeout(self.settings.longest_job, attempt).await {
            Ok(Ok(reached)) => self.record(claim, reached?).await,
            Ok(Err(_panic)) => self.trouble(claim, panicked(), known()).await,
            Err(_elapsed) => self.trouble(claim, self.never_ended(), known()).await,
        }
    }

    async fn record(&self, claim: &Claim, reached: Reached) -> Result<Did, StoreError> {
        match reached {
            Reached::End(ending) => self.end(claim, &ending, Did::Succeeded).await,
            Reached::Superseded(by) => {
                tracing::info!(%by, "superseded by a newer deployment");
                Ok(Did::Superseded)
            }
            Reached::Lost => {
                tracing::warn!("another worker took over, this attempt stops");
                Ok(Did::Lost)
            }
            Reached::Trouble(trouble, known) => self.trouble(claim, trouble, known).await,
        }
    }

    async fn trouble(
        &self,
        claim: &Claim,
        trouble: Trouble,
        known: Known,
    ) -> Result<Did, StoreError> {
        let (patience, now) = (&self.settings.patience, self.clock.now());
        let received = claim.deployment.received_at;
        match outcome::after(trouble, known, received, claim.failures, patience, now) {
            Next::End(ending) => self.end(claim, &ending, Did::Failed).await,
            Next::Retry { at, summary } => {
                tracing::warn!(%at, reason = summary, "put off");
                let held = self.store.retry_at(claim, at, &summary).await?;
                Ok(if held == Held::Yes { Did::PutOff } else { Did::Lost })
            }
        }
    }

    async fn end(&self, claim: &Claim, ending: &Ending, did: Did) -> Result<Did, StoreError> {
        if self.store.finish(claim, ending, self.clock.now()).await? == Held::Lost {
            tracing::warn!("another worker took over, this attempt's end is not recorded");
            return Ok(Did::Lost);
        }
        let (violations, summary) = (ending.violations.len(), &ending.summary);
        match ending.end {
            End::Succeeded(_) => tracing::info!(violations, summary, "deployment succeeded"),
            End::Failed => tracing::warn!(violations, summary, "deployment failed"),
        }
        Ok(did)
    }

    fn stages(&self, claim: &Claim) -> Stages {
        let deployment = &claim.deployment;
        let stages = Stages::new(deployment.id.clone(), self.clock.clone(), self.metrics.clone());
        let waited = self.clock.now().duration_since(deployment.received_at);
        stages.took(Stage::Queue, u64::try_from(waited.as_micros()).unwrap_or(0));
        stages
    }

    /// Ends when the lease is lost. A database that does not answer is no reason to stop: if
    /// another worker takes over meanwhile, the fence holds.
    async fn keep_lease(&self, claim: &Claim) {
        let lease = self.settings.lease;
        loop {
            tokio::time::sleep(lease / 3).await;
            match self.store.extend(claim, self.clock.now(), lease).await {
                Ok(Held::Yes) => {}
                Ok(Held::Lost) => return,
                Err(error) => tracing::warn!(%error, "the lease could not be extended"),
            }
        }
    }

    async fn out_of_grace(&self, stop: &CancellationToken) {
        stop.cancelled().await;
        tokio::time::sleep(self.settings.grace).await;
    }

    fn never_ended(&self) -> Trouble {
        let seconds = self.settings.longest_job.as_secs();
        let message = format!("it took longer than {seconds} s and was stopped");
        Trouble::Problem(Problem { remedy: Remedy::Retry { after: None }, message })
    }
}

/// The panic's own words are in the log; they are for developers.
fn panicked() -> Trouble {
    let message = "a fault in the-deployer itself; its log has the details".to_owned();
    Trouble::Problem(Problem { remedy: Remedy::GiveUp, message })
}
