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
use crate::deployments::outcome::{Problem, Remedy};
use crate::deployments::stages::Stages;
use crate::model::deployment::Stage;
use crate::store::{Claim, End, Ending, Findings, Held, MOST_DEATHS, StoreError};
use crate::support::lease::Lease;

/// A deployment whose attempt died is tried again when no other such is at work; so often it is looked
/// whether that is so.
const SUSPECT_WAITS: SignedDuration = SignedDuration::from_secs(5);

/// A claim, and until when this process may act on it.
pub(super) struct Leased {
    pub(super) claim: Claim,
    pub(super) lease: Lease,
}

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

impl Parts {
    /// Works on a claim until it is recorded what became of it.
    pub(super) async fn job(
        &self,
        leased: &Leased,
        stop: &CancellationToken,
    ) -> Result<Did, StoreError> {
        let claim = &leased.claim;
        let request = &claim.deployment.request;
        let span = tracing::info_span!(
            "deployment", deployment = %claim.deployment.id, target = %request.target,
            repository = %request.release.repository, tag = %request.release.tag,
            attempt = claim.deployment.attempts,
        );
        let did = Box::pin(self.attended(leased, stop)).instrument(span).await?;
        self.metrics.attempt(did.as_str());
        self.deployments.wake.outbox();
        Ok(did)
    }

    async fn attended(&self, leased: &Leased, stop: &CancellationToken) -> Result<Did, StoreError> {
        let claim = &leased.claim;
        let stages = self.stages(claim);
        tokio::select! {
            biased;
            did = self.guarded(leased, &stages) => did,
            () = self.keep_lease(leased) => {
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
    async fn guarded(&self, leased: &Leased, stages: &Stages) -> Result<Did, StoreError> {
        let claim = &leased.claim;
        if claim.deaths >= MOST_DEATHS {
            return self.trouble(claim, Trouble::KillsProcess, Findings::default()).await;
        }
        if claim.failures >= self.settings.patience.failures {
            return self.trouble(claim, Trouble::DiedTooOften, Findings::default()).await;
        }
        let alone = (claim.deaths > 0).then(|| self.suspect.try_acquire());
        if let Some(Err(_taken)) = alone {
            let later = self.clock.now().checked_add(SUSPECT_WAITS).unwrap_or(Timestamp::MAX);
            let held = self.store.release(claim, later).await?;
            return Ok(if held == Held::Yes { Did::GaveBack } else { Did::Lost });
        }
        let attempt = Box::pin(deploy::attempt(self, leased, stages));
        let attempt = AssertUnwindSafe(attempt).catch_unwind();
        let known = || Findings { stages: stages.times(), ..Findings::default() };
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
        known: Findings,
    ) -> Result<Did, StoreError> {
        let (patience, now) = (&self.settings.patience, self.clock.now());
        if let Trouble::Problem(Problem { remedy: Remedy::Doubt, message }) = &trouble {
            let since = claim.refused_since.unwrap_or(now);
            if let Some((at, summary)) = outcome::doubted(message, since, claim.failures, now) {
                tracing::warn!(%at, %since, reason = summary, "put off");
                let held = self.store.retry_at(claim, at, &summary, Some(since)).await?;
                return Ok(if held == Held::Yes { Did::PutOff } else { Did::Lost });
            }
        }
        let received = claim.deployment.received_at;
        match outcome::after(trouble, known, received, claim.failures, patience, now) {
            Next::End(ending) => self.end(claim, &ending, Did::Failed).await,
            Next::Retry { at, summary } => {
                tracing::warn!(%at, reason = summary, "put off");
                let held = self.store.retry_at(claim, at, &summary, None).await?;
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
        let stages =
            Stages::new(deployment.id.clone(), self.clock.clone(), self.metrics.stages.clone());
        let waited = self.clock.now().duration_since(deployment.received_at);
        stages.took(Stage::Queue, u64::try_from(waited.as_micros()).unwrap_or(0));
        stages
    }

    /// Ends when another worker has taken over. While the database does not answer, nobody knows
    /// whether one has: the attempt goes on, and pushes nothing once its lease has ended. When the
    /// database answers again and nobody has, it has its lease again.
    async fn keep_lease(&self, Leased { claim, lease }: &Leased) {
        let length = self.settings.lease;
        let mut pause = length / 3;
        loop {
            tokio::time::sleep(pause).await;
            let asked_at = self.clock.moment();
            let extending = self.store.extend(claim, asked_at.wall, length);
            // There is time for another try before it ends.
            pause = length / 10;
            match tokio::time::timeout(length / 3, extending).await {
                Ok(Ok(Held::Yes)) => {
                    lease.extend(asked_at, length);
                    pause = length / 3;
                }
                Ok(Ok(Held::Lost)) => return,
                Ok(Err(error)) => tracing::warn!(%error, "the lease could not be extended"),
                Err(_silent) => tracing::warn!("the database is silent: no lease is extended"),
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
