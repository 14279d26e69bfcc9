//! Rollouts that a deployment of the code host starts: its task is `rollout`, and its payload names one of the WAML, or
//! describes one. The request is stored before the event is answered; the loop reads the WAML, starts the rollout, and tells that
//! deployment how it goes.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::deployments::outcome::DeployError;
use crate::deployments::rollouts::view::read_record;
use crate::deployments::rollouts::{
    OverlapPolicy, PreparedRollout, RolloutError, RolloutRequest, RolloutSteps,
};
use crate::deployments::{BackendError, Deployments};
use crate::forge::DeploymentStatus;
use crate::model::audit::{AuthMethod, Principal};
use crate::model::deployment::ForgeState;
use crate::model::event::{RequestedRollout, RequestedTargets, RolloutTrigger};
use crate::model::id::{RolloutId, TargetName};
use crate::model::release::Release;
use crate::pipeline::rollout_plan::{RolloutOptions, RolloutSelection, TargetFilter};
use crate::store::{
    Reply, RolloutOrigin, RolloutRequestClaim, RolloutRequestUpdate, StoreError, StoredRollout,
};
use crate::support::retry::RetryPolicy;
use crate::support::time::saturating_add;

/// The lease of a request: another replica takes it over after this.
const LEASE: Duration = Duration::from_mins(2);
/// The longest time without a look at a request whose rollout goes on: its end wakes it.
const REST: SignedDuration = SignedDuration::from_mins(10);
/// The retries of a status: about two days, as for other messages.
const STATUS_RETRY: RetryPolicy =
    RetryPolicy { first: Duration::from_secs(1), longest: Duration::from_mins(5), failures: 600 };

/// What the code host is to be told of a request.
struct Answer {
    state: ForgeState,
    description: String,
    is_final: bool,
}

impl Deployments {
    /// Stores a request for a rollout durably; returns false where it was stored before.
    pub(crate) async fn accept_rollout(
        &self,
        trigger: &RolloutTrigger,
    ) -> Result<bool, StoreError> {
        let is_new = self.store.accept_rollout_request(trigger, self.clock.now()).await?;
        let RolloutTrigger { forge_id, release, rollout, actor, .. } = trigger;
        let Release { repository, tag, .. } = release;
        tracing::info!(%repository, forge_id, %rollout, %tag, actor, is_new, "rollout requested");
        if is_new {
            self.wake.rollouts.notify_one();
        }
        Ok(is_new)
    }

    /// Works on the next request that is due; returns false if there was none.
    pub(crate) async fn answer_rollout_request(&self) -> Result<bool, StoreError> {
        let claim = self.store.claim_rollout_request(self.clock.now(), LEASE).await?;
        let Some(claim) = claim else { return Ok(false) };
        let now = self.clock.now();
        let update = match (&claim.rollout, &claim.error) {
            (None, None) => self.start_requested(&claim, now).await,
            (Some(_), _) | (None, Some(_)) => self.tell_requester(&claim, now).await?,
        };
        self.store.record_rollout_request(&claim, &update, self.clock.now()).await?;
        Ok(true)
    }

    /// Starts the rollout of a request.
    async fn start_requested(
        &self,
        claim: &RolloutRequestClaim,
        now: Timestamp,
    ) -> RolloutRequestUpdate {
        let RolloutRequestClaim { trigger, reported, failures, .. } = claim;
        let reported = reported.clone();
        let update = |error: Option<String>, failures: u32, due_at: Timestamp| {
            RolloutRequestUpdate { error, reported, failures, due_at: Some(due_at) }
        };
        match self.start_requested_rollout(trigger).await {
            Ok(()) => update(None, 0, now),
            Err(error @ (RolloutError::Unavailable(_) | RolloutError::Fault(_))) => {
                let (repository, forge_id) = (&trigger.release.repository, trigger.forge_id);
                tracing::warn!(%repository, forge_id, %error, "rollout not started yet");
                match RetryPolicy::default().next_attempt(*failures, None, now) {
                    Some(at) => update(None, failures + 1, at),
                    None => update(Some(format!("given up: {error}")), 0, now),
                }
            }
            Err(error) => update(Some(error.to_string()), 0, now),
        }
    }

    async fn start_requested_rollout(&self, trigger: &RolloutTrigger) -> Result<(), RolloutError> {
        let RolloutTrigger { release, rollout, description, actor, .. } = trigger;
        let Release { repository, app, commit, tag } = release.clone();
        let reason = match description.trim() {
            "" => format!("deployment {} of {repository} asks for it", trigger.forge_id),
            text => text.to_owned(),
        };
        let request = RolloutRequest {
            repository,
            app,
            git_ref: commit.to_string(),
            tag,
            steps: steps_of(rollout.clone()),
            on_overlap: OverlapPolicy::Queue,
            reason,
        };
        let prepared = self.prepare_rollout(request).await?;
        self.check_environments(&prepared)?;
        let by =
            Principal { name: actor.clone(), via: AuthMethod::GitHub, from: None, request: None };
        let origin = RolloutOrigin {
            git_ref: trigger.git_ref.clone(),
            owner: prepared.owner.clone(),
            automatic: trigger.automatic,
            recipient: trigger.recipient.clone(),
            event: Some(trigger.forge_id),
        };
        let git_ref = trigger.git_ref.clone();
        let prepared = PreparedRollout { git_ref, ..prepared };
        self.store_rollout(prepared, (by, origin), &Reply::without_key()).await.map(drop)
    }

    /// Refuses targets that the operator does not let events deploy to.
    fn check_environments(&self, prepared: &PreparedRollout) -> Result<(), RolloutError> {
        let targets = prepared.plan.sequence().map(|(_, target)| target);
        let refused: Vec<TargetName> =
            targets.filter(|target| !self.environments.allow(target)).cloned().collect();
        if refused.is_empty() {
            return Ok(());
        }
        let refused: Vec<&str> = refused.iter().map(TargetName::as_str).collect();
        Err(RolloutError::Unknown(format!(
            "the service takes no deployments to {} from events: see `webhook.environments` of its configuration",
            refused.join(", ")
        )))
    }

    /// Tells the deployment of the code host how its rollout goes, or why there is none.
    async fn tell_requester(
        &self,
        claim: &RolloutRequestClaim,
        now: Timestamp,
    ) -> Result<RolloutRequestUpdate, StoreError> {
        let RolloutRequestClaim { trigger, rollout, error, reported, failures, .. } = claim;
        let update = |reported: Option<String>, failures: u32, due_at: Option<Timestamp>| {
            RolloutRequestUpdate { error: error.clone(), reported, failures, due_at }
        };
        let answer = match (rollout, error) {
            (Some(rollout), _) => self.answer_of(rollout).await?,
            (None, Some(error)) => Some(Answer {
                state: ForgeState::Error,
                description: error.clone(),
                is_final: true,
            }),
            (None, None) => None,
        };
        // Its record is old, and deleted.
        let Some(answer) = answer else { return Ok(update(reported.clone(), 0, None)) };
        let due_at = (!answer.is_final).then(|| saturating_add(now, REST));
        let word = answer.state.as_str();
        if reported.as_deref() == Some(word) {
            return Ok(update(reported.clone(), 0, due_at));
        }
        let status = DeploymentStatus {
            state: answer.state,
            description: answer.description,
            // By this link the next sweep knows that the service has answered.
            log_url: Some(self.external_url.clone()),
            environment_url: None,
        };
        let (repository, forge_id) = (&trigger.release.repository, trigger.forge_id);
        match self.forge.report(repository, forge_id, &status).await {
            Ok(()) => Ok(update(Some(word.to_owned()), 0, due_at)),
            Err(error) => {
                tracing::warn!(%repository, forge_id, %error, "deployment of a rollout got no status");
                let may_pass = DeployError::from(error).remedy.may_pass();
                let next = STATUS_RETRY.next_attempt(*failures, None, now).filter(|_| may_pass);
                let failures = if next.is_some() { failures + 1 } else { 0 };
                // The end of a rollout that goes on is reported all the same.
                Ok(update(reported.clone(), failures, next.or(due_at)))
            }
        }
    }

    /// Returns what there is to tell of a rollout; `None` where its record is deleted.
    async fn answer_of(&self, id: &RolloutId) -> Result<Option<Answer>, StoreError> {
        let Some(rollout) = self.store.rollout(id).await? else { return Ok(None) };
        let StoredRollout { progress, targets, .. } = &rollout;
        let is_final = progress.ended_at.is_some();
        let state = match read_record(&rollout) {
            _ if !is_final => ForgeState::InProgress,
            Ok(record) if record.is_success() => ForgeState::Success,
            Ok(_) | Err(_) => ForgeState::Failure,
        };
        let word = progress.state.replace('_', " ");
        let description = if is_final {
            format!("rollout {id} to {} targets is {word}", targets.len())
        } else {
            format!("rollout {id} to {} targets goes on", targets.len())
        };
        Ok(Some(Answer { state, description, is_final }))
    }
}

fn steps_of(rollout: RequestedRollout) -> RolloutSteps {
    let targets = match rollout {
        RequestedRollout::Name(name) => {
            let (selection, options) =
                (RolloutSelection::Definition(name), RolloutOptions::default());
            return RolloutSteps::Selection { selection, options };
        }
        RequestedRollout::Targets(targets) => targets,
    };
    let RequestedTargets { patterns, regex, labels, parallel, max_failures, .. } = targets;
    let RequestedTargets { on_failure, timeout, bake, .. } = targets;
    let selection = RolloutSelection::Targets(TargetFilter { patterns, regex, labels });
    let options = RolloutOptions {
        parallel,
        max_failures,
        on_failure,
        timeout,
        bake,
        ..RolloutOptions::default()
    };
    RolloutSteps::Selection { selection, options }
}

impl From<StoreError> for RolloutError {
    fn from(error: StoreError) -> Self {
        Self::Fault(BackendError::new(error))
    }
}
