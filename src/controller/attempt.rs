//! Works on one claimed deployment, from the claim to its record: fetch, plan, push. It keeps the
//! lease while the attempt goes on, and ends the attempt after a panic and at a shutdown.
//!
//! Each attempt recomputes everything from the deployment's id; nothing is remembered from an
//! earlier one. An attempt at a rollback fetches nothing and plans nothing, so it needs neither the
//! code host nor the templates. It checks again whether the routes of its revision belong to
//! another app by now.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::controller::outcome::{self, AttemptError, AttemptOutcome, Next};
use crate::controller::worker::{Controller, Leased};
use crate::deployments::outcome::{DeployError, PlanError, Planned, Remedy, WriteOutcome};
use crate::deployments::stages::Stages;
use crate::model::deployment::{Deployment, Pushed, Stage, State};
use crate::model::id::DeployId;
use crate::model::lock::Lock;
use crate::model::rollback::Rollback;
use crate::model::violation::Violation;
use crate::store::{
    Claim, Completion, FinalState, Findings, LeaseState, MOST_DEATHS, PushTurn, StoreError,
};
use crate::support::retry::RetryPolicy;

/// The delay after which a deployment whose attempt died is looked at again, while another such
/// deployment is at work: those are tried one at a time.
const SUSPECT_WAITS: SignedDuration = SignedDuration::from_secs(5);

/// The number of plans of one attempt while others claim what it needs. The rules see claims, so
/// they refuse the second plan; what the rules do not look at is refused after the last plan.
const MOST_PLANS: u32 = 3;

/// The reason why an attempt ends before its last stage.
enum Abort {
    /// A newer deployment superseded this one; that is recorded.
    Superseded(DeployId),
    /// Another worker took over.
    LeaseLost,
    AttemptError(AttemptError),
    Store(StoreError),
}

impl From<DeployError> for Abort {
    fn from(problem: DeployError) -> Self {
        Self::AttemptError(AttemptError::Problem(problem))
    }
}

impl From<StoreError> for Abort {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Controller {
    /// Works on a claim until its outcome is recorded.
    pub(super) async fn job(
        &self,
        leased: &Leased,
        stop: &CancellationToken,
    ) -> Result<AttemptOutcome, StoreError> {
        let claim = &leased.claim;
        let request = &claim.deployment.request;
        let span = tracing::info_span!(
            "deployment", deployment = %claim.deployment.id, target = %request.target,
            repository = %request.release.repository, tag = %request.release.tag,
            attempt = claim.deployment.attempts,
        );
        let outcome = Box::pin(self.with_lease(leased, stop)).instrument(span).await?;
        self.metrics.attempt(outcome.as_str());
        self.deployments.wake.outbox();
        Ok(outcome)
    }

    async fn with_lease(
        &self,
        leased: &Leased,
        stop: &CancellationToken,
    ) -> Result<AttemptOutcome, StoreError> {
        let claim = &leased.claim;
        let stages = self.stages(claim);
        tokio::select! {
            biased;
            outcome = self.catch_panic(leased, &stages) => outcome,
            () = self.keep_lease(leased) => {
                tracing::warn!("another worker took over, this attempt stops");
                Ok(AttemptOutcome::LeaseLost)
            }
            () = self.out_of_grace(stop) => {
                tracing::info!("shutdown, deployment released");
                let held = self.store.release(claim, self.clock.now()).await?;
                Ok(AttemptOutcome::Released.if_held(held))
            }
        }
    }

    /// Runs the attempt and gives it an end even if it panics or takes too long.
    async fn catch_panic(
        &self,
        leased: &Leased,
        stages: &Stages,
    ) -> Result<AttemptOutcome, StoreError> {
        let claim = &leased.claim;
        if claim.deaths >= MOST_DEATHS {
            return self
                .handle_failure(claim, AttemptError::KillsProcess, Findings::default())
                .await;
        }
        if claim.failures >= RetryPolicy::default().failures {
            return self
                .handle_failure(claim, AttemptError::DiedTooOften, Findings::default())
                .await;
        }
        let alone = (claim.deaths > 0).then(|| self.suspect.try_acquire());
        if let Some(Err(_taken)) = alone {
            let later = self.clock.now().checked_add(SUSPECT_WAITS).unwrap_or(Timestamp::MAX);
            let held = self.store.release(claim, later).await?;
            return Ok(AttemptOutcome::Released.if_held(held));
        }
        let mut known = Findings::default();
        let attempt = Box::pin(self.run_stages(leased, stages, &mut known));
        let attempt = AssertUnwindSafe(attempt).catch_unwind();
        let ended = tokio::time::timeout(self.settings.longest_job, attempt).await;
        let problem = match ended {
            Ok(Ok(ended)) => {
                known.stages = stages.times();
                return self.record(claim, ended, known).await;
            }
            // The panic's own words are in the log; they are for developers.
            Ok(Err(_panic)) => {
                DeployError::give_up("a fault in the-deployer itself; its log has the details")
            }
            Err(_elapsed) => {
                let seconds = self.settings.longest_job.as_secs();
                DeployError::retry(format!(
                    "the attempt took longer than {seconds} s and was stopped"
                ))
            }
        };
        let known = Findings { stages: stages.times(), ..Findings::default() };
        self.handle_failure(claim, AttemptError::Problem(problem), known).await
    }

    async fn record(
        &self,
        claim: &Claim,
        ended: Result<Completion, Abort>,
        known: Findings,
    ) -> Result<AttemptOutcome, StoreError> {
        match ended {
            Ok(ending) => {
                self.end(claim, &Completion { known, ..ending }, AttemptOutcome::Succeeded).await
            }
            Err(Abort::Superseded(by)) => {
                tracing::info!(%by, "superseded by a newer deployment");
                Ok(AttemptOutcome::Superseded)
            }
            Err(Abort::LeaseLost) => {
                tracing::warn!("another worker took over, this attempt stops");
                Ok(AttemptOutcome::LeaseLost)
            }
            Err(Abort::AttemptError(trouble)) => self.handle_failure(claim, trouble, known).await,
            Err(Abort::Store(error)) => Err(error),
        }
    }

    async fn handle_failure(
        &self,
        claim: &Claim,
        trouble: AttemptError,
        known: Findings,
    ) -> Result<AttemptOutcome, StoreError> {
        let (policy, now) = (RetryPolicy::default(), self.clock.now());
        if let AttemptError::Problem(DeployError { remedy: Remedy::Doubt, message }) = &trouble {
            let since = claim.refused_since.unwrap_or(now);
            if let Some((at, summary)) = outcome::retry_refusal(message, since, claim.failures, now)
            {
                tracing::warn!(%at, %since, reason = summary, "attempt failed, retry scheduled");
                let held = self.store.retry_at(claim, at, &summary, Some(since)).await?;
                return Ok(AttemptOutcome::RetryScheduled.if_held(held));
            }
        }
        let received = claim.deployment.received_at;
        match outcome::next_step(trouble, known, received, claim.failures, &policy, now) {
            Next::End(ending) => self.end(claim, &ending, AttemptOutcome::Failed).await,
            Next::Retry { at, summary } => {
                tracing::warn!(%at, reason = summary, "attempt failed, retry scheduled");
                let held = self.store.retry_at(claim, at, &summary, None).await?;
                Ok(AttemptOutcome::RetryScheduled.if_held(held))
            }
        }
    }

    async fn end(
        &self,
        claim: &Claim,
        ending: &Completion,
        outcome: AttemptOutcome,
    ) -> Result<AttemptOutcome, StoreError> {
        if self.store.finish(claim, ending, self.clock.now()).await? == LeaseState::Lost {
            tracing::warn!("another worker took over, this attempt's end is not recorded");
            return Ok(AttemptOutcome::LeaseLost);
        }
        let (violations, summary) = (ending.violations.len(), &ending.summary);
        match ending.end {
            FinalState::Succeeded(_) => tracing::info!(violations, summary, "deployment succeeded"),
            FinalState::Syncing(_) => tracing::info!(violations, summary, "deployment pushed"),
            FinalState::Failed => tracing::warn!(violations, summary, "deployment failed"),
        }
        Ok(outcome)
    }

    fn completion(
        &self,
        deployment: &Deployment,
        pushed: Pushed,
        warnings: Vec<Violation>,
    ) -> Completion {
        let is_watched = self.deployments.is_watched(&deployment.request.target);
        outcome::completion(deployment, pushed, warnings, is_watched)
    }

    fn stages(&self, claim: &Claim) -> Stages {
        let deployment = &claim.deployment;
        let stages =
            Stages::new(deployment.id.clone(), self.clock.clone(), self.metrics.stages.clone());
        let waited = self.clock.now().duration_since(deployment.received_at);
        stages.took(Stage::Queue, u64::try_from(waited.as_micros()).unwrap_or(0));
        stages
    }

    /// Ends when another worker has taken over. While the database does not answer, the attempt
    /// cannot know whether one has: it goes on, and pushes nothing once its lease has ended. When
    /// the database answers again and no other worker has taken over, the attempt has its lease
    /// again.
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
                Ok(Ok(LeaseState::Held)) => {
                    lease.extend(asked_at, length);
                    pause = length / 3;
                }
                Ok(Ok(LeaseState::Lost)) => return,
                Ok(Err(error)) => tracing::warn!(%error, "lease could not be extended"),
                Err(_silent) => {
                    tracing::warn!("database does not answer, lease is not extended");
                }
            }
        }
    }

    async fn out_of_grace(&self, stop: &CancellationToken) {
        stop.cancelled().await;
        tokio::time::sleep(self.settings.grace).await;
    }
}

impl Controller {
    /// Runs the stages of a deployment: fetch, plan, take the turn to push, push.
    async fn run_stages(
        &self,
        leased: &Leased,
        stages: &Stages,
        known: &mut Findings,
    ) -> Result<Completion, Abort> {
        let claim = &leased.claim;
        if claim.deployment.state == State::Pushing
            && let Some(ending) = self.recover_push(claim, known).await?
        {
            return Ok(ending);
        }
        if let Some(rollback) = &claim.deployment.rollback {
            return self.run_rollback(leased, rollback, stages, known).await;
        }
        let fetching = stages.begin(Stage::Fetch);
        let waml = self.deployments.fetch_waml(&claim.deployment.request).await?;
        drop(fetching);
        let mut plans = 1;
        loop {
            let planned = self.plan(claim, waml.clone(), stages, known).await?;
            known.stages = stages.times();
            return match self.store.begin_push(claim, known, self.clock.now()).await? {
                PushTurn::Yes => {
                    let (now, lease) = (self.clock.now(), &leased.lease);
                    let warnings = planned.warnings.clone();
                    let pushing = stages.begin(Stage::Push);
                    let wrote =
                        self.deployments.write_plan(&claim.deployment, planned, now, lease).await;
                    drop(pushing);
                    let WriteOutcome { ended, hand_edit } = wrote;
                    known.hand_edit = hand_edit;
                    Ok(self.completion(&claim.deployment, ended?, warnings))
                }
                PushTurn::Superseded { by } => Err(Abort::Superseded(by)),
                PushTurn::Locked(lock) => Err(plan_again("locked", &lock.by, &lock.reason).into()),
                PushTurn::HeldBack(hold) => Err(plan_again("held", &hold.by, &hold.reason).into()),
                PushTurn::Claimed(conflict) if plans < MOST_PLANS => {
                    tracing::info!(
                        ?conflict,
                        "claim conflict with another deployment, planning again"
                    );
                    plans += 1;
                    continue;
                }
                PushTurn::Claimed(conflict) => {
                    Err(outcome::claim_error(&planned.write.revision, &conflict).into())
                }
                PushTurn::Lost => Err(Abort::LeaseLost),
            };
        }
    }

    /// Recovers what an earlier attempt pushed before it died. The plan is not made again for that:
    /// by now the templates may be others, and what is in the repository counts.
    async fn recover_push(
        &self,
        claim: &Claim,
        known: &mut Findings,
    ) -> Result<Option<Completion>, DeployError> {
        let earlier = self.deployments.find_earlier_push(&claim.deployment).await?;
        Ok(earlier.map(|(pushed, hand_edit)| {
            known.hand_edit = hand_edit;
            self.completion(&claim.deployment, pushed, vec![])
        }))
    }

    async fn plan(
        &self,
        claim: &Claim,
        waml: Vec<u8>,
        stages: &Stages,
        known: &mut Findings,
    ) -> Result<Planned, Abort> {
        if self.store.plan_alone(claim).await? == LeaseState::Lost {
            return Err(Abort::LeaseLost);
        }
        match self.deployments.plan_attempt(&claim.deployment, waml, stages).await {
            Ok(planned) => {
                known.app = Some(planned.write.revision.app.clone());
                known.template = Some(planned.template.clone());
                known.templates_commit.clone_from(&planned.templates_commit);
                known.contact.clone_from(&planned.contact);
                known.address.clone_from(&planned.address);
                known.take_claims(planned.claims.clone());
                Ok(planned)
            }
            Err(PlanError::Rejected { rejection, app, template, templates_commit, contact }) => {
                *known =
                    Findings { app, template, templates_commit, contact, ..Findings::default() };
                Err(Abort::AttemptError(AttemptError::Rejected(rejection)))
            }
            Err(PlanError::Problem(problem)) => Err(problem.into()),
        }
    }

    /// Runs the stages of a rollback: take the turn to push, push.
    async fn run_rollback(
        &self,
        Leased { claim, lease }: &Leased,
        rollback: &Rollback,
        stages: &Stages,
        known: &mut Findings,
    ) -> Result<Completion, Abort> {
        let deployment = &claim.deployment;
        known.take_claims(self.deployments.restore_claims(deployment, rollback).await?);
        known.stages = stages.times();
        match self.store.begin_push(claim, known, self.clock.now()).await? {
            PushTurn::Yes => {}
            PushTurn::Superseded { by } => return Err(Abort::Superseded(by)),
            PushTurn::Locked(lock) => return Err(rollback_locked(&lock).into()),
            // Another deployment took one of its routes or objects since they were looked at, and has it for good.
            PushTurn::Claimed(conflict) => {
                return Err(outcome::rollback_claim_error(&conflict).into());
            }
            // Holds stop automation, and a rollback is none.
            PushTurn::Lost | PushTurn::HeldBack(_) => return Err(Abort::LeaseLost),
        }
        let pushing = stages.begin(Stage::Push);
        let now = self.clock.now();
        let WriteOutcome { ended, hand_edit } =
            self.deployments.restore_revision(deployment, rollback, now, lease).await;
        drop(pushing);
        known.hand_edit = hand_edit;
        Ok(self.completion(deployment, ended?, vec![]))
    }
}

/// Returns the error for a lock or hold that was placed after planning. The next attempt meets the rule,
/// and ends with its violation.
fn plan_again(what: &str, by: &str, reason: &str) -> DeployError {
    DeployError::retry(format!("{by} {what} it while it was planned: {reason}"))
}

/// Returns the error for a rollback of a locked app. No rule runs for it, so it uses the text of a rollback
/// that is requested too late.
fn rollback_locked(lock: &Lock) -> DeployError {
    DeployError::reject(format!(
        "{} is locked by {}: {}; `bart unlock` takes the lock away, then roll back again",
        lock.scope, lock.by, lock.reason
    ))
}
