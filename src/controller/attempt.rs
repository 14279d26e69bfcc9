//! Works on one claimed deployment, from the claim to its record: fetch, plan, push. It keeps the
//! lease while the attempt goes on, and ends the attempt after a panic and at a shutdown.
//!
//! Each attempt recomputes everything from the deployment's id; nothing is remembered from an
//! earlier one. An attempt at a rollback fetches nothing and plans nothing, so it needs neither the
//! code host nor the templates. It checks again whether the routes of its revision belong to
//! another app by now.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::controller::outcome::{self, AttemptError, AttemptOutcome, NextStep};
use crate::controller::worker::{Controller, LeasedClaim};
use crate::deployments::app_files::{RequestedWaml, WamlText};
use crate::deployments::fleets::EarlierFleetPush;
use crate::deployments::outcome::{
    DeployError, PlanError, PlannedDeployment, Remedy, WriteOutcome,
};
use crate::deployments::stages::Stages;
use crate::model::deployment::{Deployment, Pushed, Stage, State};
use crate::model::id::{AppName, DeployId};
use crate::model::lock::Lock;
use crate::model::rollback::{Hold, Rollback};
use crate::model::violation::Violation;
use crate::store::{
    AppsTurn, Claim, Completion, FinalState, Findings, FleetPartPush, LeaseState, MAX_DEATHS,
    PushTurn, StoreError,
};
use crate::support::retry::RetryPolicy;

/// The delay after which a deployment whose attempt died is looked at again, while another such
/// deployment is at work: those are tried one at a time.
const SUSPECT_WAITS: SignedDuration = SignedDuration::from_secs(5);

/// The number of plans of one attempt while others claim what it needs. The rules see claims, so
/// they refuse the second plan; what the rules do not look at is refused after the last plan.
const MAX_PLANS: u32 = 3;

/// The attempts at drawing free ids.
const DRAWS: usize = 3;

/// The wait for another deployment on a cluster of the fleet, which pushes in seconds.
const BUSY_WAITS: Duration = Duration::from_secs(2);

/// The reason why an attempt ends before its last stage.
enum Abort {
    /// A newer deployment superseded this one; that is recorded.
    Superseded(DeployId),
    /// Another worker took over.
    LeaseLost,
    AttemptError(AttemptError),
    Store(StoreError),
    /// Its end is recorded, or others go on with it.
    Recorded(AttemptOutcome),
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
        leased_claim: &LeasedClaim,
        stop: &CancellationToken,
    ) -> Result<AttemptOutcome, StoreError> {
        let claim = &leased_claim.claim;
        let request = &claim.deployment.request;
        let span = tracing::info_span!(
            "deployment", deployment = %claim.deployment.id, target = %request.target,
            repository = %request.release.repository, tag = %request.release.tag,
            attempt = claim.deployment.attempts,
        );
        let outcome = Box::pin(self.with_lease(leased_claim, stop)).instrument(span).await?;
        self.metrics.attempt(outcome);
        self.deployments.wake.outbox();
        Ok(outcome)
    }

    async fn with_lease(
        &self,
        leased_claim: &LeasedClaim,
        stop: &CancellationToken,
    ) -> Result<AttemptOutcome, StoreError> {
        let claim = &leased_claim.claim;
        let stages = self.stages(claim);
        tokio::select! {
            biased;
            outcome = self.catch_panic(leased_claim, &stages) => outcome,
            () = self.keep_lease(leased_claim) => {
                tracing::warn!("another worker took over, this attempt stops");
                Ok(AttemptOutcome::LeaseLost)
            }
            () = self.out_of_grace(stop) => {
                tracing::info!("shutdown, deployment released");
                let lease = self.store.release(claim, self.clock.now()).await?;
                Ok(AttemptOutcome::Released.if_held(lease))
            }
        }
    }

    /// Runs the attempt and gives it an end even if it panics or takes too long.
    async fn catch_panic(
        &self,
        leased_claim: &LeasedClaim,
        stages: &Stages,
    ) -> Result<AttemptOutcome, StoreError> {
        let claim = &leased_claim.claim;
        if claim.deaths >= MAX_DEATHS {
            return self
                .handle_failure(claim, AttemptError::KillsProcess, Findings::default())
                .await;
        }
        if claim.failures >= RetryPolicy::default().failures {
            return self
                .handle_failure(claim, AttemptError::DiedTooOften, Findings::default())
                .await;
        }
        let permit = (claim.deaths > 0).then(|| self.suspect.try_acquire());
        if let Some(Err(_taken)) = permit {
            let retry_at = self.clock.now().checked_add(SUSPECT_WAITS).unwrap_or(Timestamp::MAX);
            let lease = self.store.release(claim, retry_at).await?;
            return Ok(AttemptOutcome::Released.if_held(lease));
        }
        let mut findings = Findings::default();
        let attempt = Box::pin(self.run_stages(leased_claim, stages, &mut findings));
        let attempt = AssertUnwindSafe(attempt).catch_unwind();
        let result = tokio::time::timeout(self.settings.longest_job, attempt).await;
        let problem = match result {
            Ok(Ok(result)) => {
                findings.stages = stages.times();
                return self.record(claim, result, findings).await;
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
        let findings = Findings { stages: stages.times(), ..Findings::default() };
        self.handle_failure(claim, AttemptError::Problem(problem), findings).await
    }

    async fn record(
        &self,
        claim: &Claim,
        result: Result<Completion, Abort>,
        findings: Findings,
    ) -> Result<AttemptOutcome, StoreError> {
        match result {
            Ok(completion) => {
                self.end(claim, &Completion { findings, ..completion }, AttemptOutcome::Succeeded)
                    .await
            }
            Err(Abort::Superseded(by)) => {
                tracing::info!(%by, "superseded by a newer deployment");
                Ok(AttemptOutcome::Superseded)
            }
            Err(Abort::LeaseLost) => {
                tracing::warn!("another worker took over, this attempt stops");
                Ok(AttemptOutcome::LeaseLost)
            }
            Err(Abort::AttemptError(attempt_error)) => {
                self.handle_failure(claim, attempt_error, findings).await
            }
            Err(Abort::Store(error)) => Err(error),
            Err(Abort::Recorded(outcome)) => Ok(outcome),
        }
    }

    async fn handle_failure(
        &self,
        claim: &Claim,
        attempt_error: AttemptError,
        findings: Findings,
    ) -> Result<AttemptOutcome, StoreError> {
        let (policy, now) = (RetryPolicy::default(), self.clock.now());
        if let AttemptError::Problem(DeployError { remedy: Remedy::Doubt, message }) =
            &attempt_error
        {
            let since = claim.refused_since.unwrap_or(now);
            if let Some((at, summary)) = outcome::retry_refusal(message, since, claim.failures, now)
            {
                tracing::warn!(%at, %since, reason = summary, "attempt failed, retry scheduled");
                let lease = self.store.retry_at(claim, at, &summary, Some(since)).await?;
                return Ok(AttemptOutcome::RetryScheduled.if_held(lease));
            }
        }
        let received_at = claim.deployment.received_at;
        match outcome::next_step(attempt_error, findings, received_at, claim.failures, &policy, now)
        {
            NextStep::End(completion) => self.end(claim, &completion, AttemptOutcome::Failed).await,
            NextStep::Retry { at, summary } => {
                tracing::warn!(%at, reason = summary, "attempt failed, retry scheduled");
                let lease = self.store.retry_at(claim, at, &summary, None).await?;
                Ok(AttemptOutcome::RetryScheduled.if_held(lease))
            }
        }
    }

    async fn end(
        &self,
        claim: &Claim,
        completion: &Completion,
        outcome: AttemptOutcome,
    ) -> Result<AttemptOutcome, StoreError> {
        if self.store.finish(claim, completion, self.clock.now()).await? == LeaseState::Lost {
            tracing::warn!("another worker took over, this attempt's end is not recorded");
            return Ok(AttemptOutcome::LeaseLost);
        }
        let (violations, summary) = (completion.violations.len(), &completion.summary);
        match completion.end {
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
        parts: &[FleetPartPush],
    ) -> Completion {
        let is_watched = match parts {
            [] => self.deployments.is_watched(&deployment.request.target),
            parts => parts.iter().any(|part| part.is_watched),
        };
        outcome::completion(deployment, pushed, warnings, is_watched)
    }

    fn stages(&self, claim: &Claim) -> Stages {
        let deployment = &claim.deployment;
        let stages =
            Stages::new(deployment.id.clone(), self.clock.clone(), self.metrics.stages.clone());
        let wait = self.clock.now().duration_since(deployment.received_at);
        stages.record(Stage::Queue, u64::try_from(wait.as_micros()).unwrap_or(0));
        stages
    }

    /// Ends when another worker has taken over. While the database does not answer, the attempt
    /// cannot know whether one has: it goes on, and pushes nothing once its lease has ended. When
    /// the database answers again and no other worker has taken over, the attempt has its lease
    /// again.
    async fn keep_lease(&self, LeasedClaim { claim, lease }: &LeasedClaim) {
        let length = self.settings.lease;
        let mut pause = length / 3;
        loop {
            tokio::time::sleep(pause).await;
            let asked_at = self.clock.moment();
            let extension = self.store.extend(claim, asked_at.wall, length);
            // There is time for another try before it ends.
            pause = length / 10;
            match tokio::time::timeout(length / 3, extension).await {
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
        leased_claim: &LeasedClaim,
        stages: &Stages,
        findings: &mut Findings,
    ) -> Result<Completion, Abort> {
        let claim = &leased_claim.claim;
        if claim.deployment.state == State::Pushing
            && let Some(completion) = self.recover_push(claim, findings).await?
        {
            return Ok(completion);
        }
        if let Some(rollback) = &claim.deployment.rollback {
            return self.run_rollback(leased_claim, rollback, stages, findings).await;
        }
        if claim.deployment.all_apps {
            return Err(Abort::Recorded(self.follow_apps(claim).await?));
        }
        let fetching = stages.begin(Stage::Fetch);
        let request = &claim.deployment.request;
        let waml = match self.deployments.fetch_waml(request).await? {
            RequestedWaml::One(waml) if waml.app == request.release.app => waml,
            RequestedWaml::One(WamlText { app: Some(app), .. }) => {
                return Err(Abort::Recorded(self.hand_on(claim, &[app]).await?));
            }
            RequestedWaml::One(WamlText { app: None, .. }) => return Err(lost_app().into()),
            RequestedWaml::Several(files) => {
                let apps = self.deployments.choose_deployed_apps(request, &files).await;
                let apps = apps.map_err(|error| abort_plan(error, findings))?;
                return Err(Abort::Recorded(self.hand_on(claim, &apps).await?));
            }
        };
        drop(fetching);
        let mut plans = 1;
        loop {
            let planned = self.plan(claim, waml.clone(), stages, findings).await?;
            findings.stages = stages.times();
            return match self.store.begin_push(claim, findings, self.clock.now()).await? {
                PushTurn::Yes => {
                    let (now, lease) = (self.clock.now(), &leased_claim.lease);
                    let warnings = planned.warnings();
                    let pushing = stages.begin(Stage::Push);
                    let write_outcome =
                        self.deployments.write_plan(&claim.deployment, planned, now, lease).await;
                    drop(pushing);
                    let WriteOutcome { result, hand_edit, parts } = write_outcome;
                    (findings.hand_edit, findings.part_pushes) = (hand_edit, parts);
                    let parts = &findings.part_pushes;
                    Ok(self.completion(&claim.deployment, result?, warnings, parts))
                }
                PushTurn::Superseded { by } => Err(Abort::Superseded(by)),
                PushTurn::Locked(lock) => Err(plan_again("locked", &lock.by, &lock.reason).into()),
                PushTurn::HeldBack(hold) => Err(plan_again("held", &hold.by, &hold.reason).into()),
                PushTurn::Claimed(conflict) if plans < MAX_PLANS => {
                    tracing::info!(
                        ?conflict,
                        "claim conflict with another deployment, planning again"
                    );
                    plans += 1;
                    continue;
                }
                PushTurn::Claimed(conflict) => {
                    let plan = planned.plans.first().map(|plan| &plan.write.revision);
                    let target = &claim.deployment.request.target;
                    Err(outcome::claim_error((plan, target), &conflict).into())
                }
                PushTurn::Busy { with } => Err(wait_for(&with).into()),
                PushTurn::Lost => Err(Abort::LeaseLost),
            };
        }
    }

    /// Recovers what an earlier attempt pushed before it died. The plan is not made again for that:
    /// by now the templates may be others, and what is in the repository counts.
    async fn recover_push(
        &self,
        claim: &Claim,
        findings: &mut Findings,
    ) -> Result<Option<Completion>, DeployError> {
        if let Some(earlier) = self.deployments.find_earlier_fleet_push(&claim.deployment).await? {
            let EarlierFleetPush { pushed, hand_edit, parts, pushes } = earlier;
            findings.hand_edit = hand_edit;
            (findings.parts, findings.part_pushes) = (parts, pushes);
            let parts = &findings.part_pushes;
            return Ok(Some(self.completion(&claim.deployment, pushed, vec![], parts)));
        }
        if self.deployments.fleets.is_fleet(&claim.deployment.request.target) {
            return Ok(None);
        }
        let push = self.deployments.find_earlier_push(&claim.deployment).await?;
        Ok(push.map(|(pushed, hand_edit)| {
            findings.hand_edit = hand_edit;
            self.completion(&claim.deployment, pushed, vec![], &[])
        }))
    }

    async fn plan(
        &self,
        claim: &Claim,
        waml: WamlText,
        stages: &Stages,
        findings: &mut Findings,
    ) -> Result<PlannedDeployment, Abort> {
        if self.store.plan_alone(claim).await? == LeaseState::Lost {
            return Err(Abort::LeaseLost);
        }
        match self.deployments.plan_attempt(&claim.deployment, waml, stages).await {
            Ok(planned) => {
                findings.parts = planned.parts();
                if let Some(plan) = planned.plans.first() {
                    findings.app = Some(plan.write.revision.app.clone());
                    findings.template = Some(plan.template.clone());
                    findings.templates_commit.clone_from(&plan.templates_commit);
                    findings.contact.clone_from(&plan.contact);
                    findings.address.clone_from(&plan.address);
                    if !planned.is_fleet {
                        findings.take_claims(plan.claims.clone());
                    }
                }
                findings.planned_at = Some(self.clock.now());
                Ok(planned)
            }
            Err(error) => Err(abort_plan(error, findings)),
        }
    }

    /// Hands a deployment that named no app on to the deployments of the apps, of one or several.
    async fn hand_on(&self, claim: &Claim, apps: &[AppName]) -> Result<AttemptOutcome, StoreError> {
        let lease = self.split(claim, apps).await?;
        self.deployments.wake.notify_all();
        Ok(AttemptOutcome::HandedOn.if_held(lease))
    }

    async fn split(&self, claim: &Claim, apps: &[AppName]) -> Result<LeaseState, StoreError> {
        let mut draw = 1;
        loop {
            let id = |app: &AppName| (DeployId::of(self.clock.draw()), app.clone());
            let ids: Vec<(DeployId, AppName)> = apps.iter().map(id).collect();
            match self.store.split(claim, &ids, self.clock.now()).await {
                Err(StoreError::IdTaken(_)) if draw < DRAWS => draw += 1,
                lease => {
                    if matches!(lease, Ok(LeaseState::Held)) {
                        tracing::info!(
                            apps = apps.len(),
                            "deployment of all apps made one of each"
                        );
                    }
                    return lease;
                }
            }
        }
    }

    /// Sums up the deployments of all apps.
    async fn follow_apps(&self, claim: &Claim) -> Result<AttemptOutcome, StoreError> {
        match self.store.follow_apps(claim, self.clock.now()).await? {
            AppsTurn::Waiting => Ok(AttemptOutcome::HandedOn),
            AppsTurn::Ended(State::Succeeded) => Ok(AttemptOutcome::Succeeded),
            AppsTurn::Ended(_) => Ok(AttemptOutcome::Failed),
            AppsTurn::Lost => Ok(AttemptOutcome::LeaseLost),
        }
    }

    /// Runs the stages of a rollback: take the turn to push, push.
    async fn run_rollback(
        &self,
        LeasedClaim { claim, lease }: &LeasedClaim,
        rollback: &Rollback,
        stages: &Stages,
        findings: &mut Findings,
    ) -> Result<Completion, Abort> {
        let deployment = &claim.deployment;
        if self.deployments.fleets.is_fleet(&deployment.request.target) {
            findings.parts = self.deployments.fleet_restore_parts(deployment, rollback).await?;
        } else {
            findings.take_claims(self.deployments.restore_claims(deployment, rollback).await?);
        }
        findings.planned_at = Some(self.clock.now());
        findings.stages = stages.times();
        match self.store.begin_push(claim, findings, self.clock.now()).await? {
            PushTurn::Yes => {}
            PushTurn::Superseded { by } => return Err(Abort::Superseded(by)),
            // A rollout waits for the end of the lock, and orders its rollback again.
            PushTurn::Locked(lock) if deployment.rollout.is_some() => {
                let message = format!("{} is locked by {}: {}", lock.scope, lock.by, lock.reason);
                let rejection = Violation::error("locks", message).into();
                return Err(Abort::AttemptError(AttemptError::Rejected(rejection)));
            }
            PushTurn::Locked(lock) => return Err(rollback_locked(&lock).into()),
            // Another deployment took one of its routes or objects since they were looked at, and has it for good.
            PushTurn::Claimed(conflict) => {
                return Err(outcome::rollback_claim_error(&conflict).into());
            }
            // Holds stop automation: the service's own rollback, and no person's.
            PushTurn::HeldBack(hold) => return Err(undo_held(&hold).into()),
            PushTurn::Busy { with } => return Err(wait_for(&with).into()),
            PushTurn::Lost => return Err(Abort::LeaseLost),
        }
        let pushing = stages.begin(Stage::Push);
        let now = self.clock.now();
        let write_outcome = if findings.parts.is_empty() {
            self.deployments.restore_revision(deployment, rollback, now, lease).await
        } else {
            self.deployments.restore_fleet(deployment, &findings.parts, now, lease).await
        };
        drop(pushing);
        let WriteOutcome { result, hand_edit, parts } = write_outcome;
        (findings.hand_edit, findings.part_pushes) = (hand_edit, parts);
        Ok(self.completion(deployment, result?, vec![], &findings.part_pushes))
    }
}

/// Returns the end of an attempt that could not plan, with what is known of the app.
fn abort_plan(error: PlanError, findings: &mut Findings) -> Abort {
    match error {
        PlanError::Rejected { rejection, app, template, templates_commit, contact } => {
            *findings =
                Findings { app, template, templates_commit, contact, ..Findings::default() };
            Abort::AttemptError(AttemptError::Rejected(rejection))
        }
        PlanError::Problem(problem) => problem.into(),
    }
}

/// Returns the error for an app that is named and came without its name.
fn lost_app() -> DeployError {
    DeployError::give_up("a fault in the-deployer itself: the WAML is of another app")
}

/// Returns the error for a lock or hold that was placed after planning. The next attempt meets the rule,
/// and ends with its violation.
fn plan_again(act: &str, by: &str, reason: &str) -> DeployError {
    DeployError::retry(format!("{by} {act} it while it was planned: {reason}"))
}

/// Returns the error for a cluster on which another deployment, or a removal of the app, has not ended: the turn comes
/// after it.
fn wait_for(other: &DeployId) -> DeployError {
    let message = format!("{other} is at work on a cluster of it, and comes first");
    DeployError { remedy: Remedy::Retry { after: Some(BUSY_WAITS) }, message }
}

/// Returns the error for the service's own rollback of an app that a person has held since.
fn undo_held(hold: &Hold) -> DeployError {
    DeployError::reject(format!(
        "not rolled back: {} is held by {}: {}; `bart rollback` does it nevertheless",
        hold.app, hold.by, hold.reason
    ))
}

/// Returns the error for a rollback of a locked app. No rule runs for it, so it uses the text of a rollback
/// that is requested too late.
fn rollback_locked(lock: &Lock) -> DeployError {
    DeployError::reject(format!(
        "{} is locked by {}: {}; `bart unlock` takes the lock away, then roll back again",
        lock.scope, lock.by, lock.reason
    ))
}
