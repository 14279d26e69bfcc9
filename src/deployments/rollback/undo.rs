//! Decides what becomes of a deployment that failed in its cluster, where the target's policy is `on_failure: rollback`:
//! it is rolled back as a person would do it, to the revision whose pods ran last, or it is not, with a reason.
//!
//! The decision stores nothing: the rollback is requested in the transaction that records the failure, and the attempt
//! judges it again. Whatever stops a person's rollback stops it; so does a hold, which is a no to automation.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::deployments::rollback::RollbackError;
use crate::deployments::rollback::ask::{PreparedRollback, entry};
use crate::deployments::{BackendError, Deployments};
use crate::manifests::files;
use crate::model::app_instance::AppInstance;
use crate::model::audit::Principal;
use crate::model::deployment::Deployment;
use crate::model::facts::LiveObject;
use crate::model::id::DeployId;
use crate::model::live_history::DefaultRevision;
use crate::model::removal::REASON_LIMIT;
use crate::model::rollback::{OnCanaryFailure, OnFailure, RollbackOrder};
use crate::model::status::one_line;
use crate::store::{FailureUndo, NewRollback, UndoRequest};

/// The time for the decision: the failure is told without a rollback rather than late.
pub(crate) const UNDO_DEADLINE: Duration = Duration::from_secs(20);

/// A deployment that has just failed in its cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterFailureReport<'a> {
    /// The deployment.
    pub(crate) deployment: &'a DeployId,
    /// The cause, in one sentence.
    pub(crate) cause: &'a str,
    /// True if Flagger took its canary back: the former release serves already.
    pub(crate) is_canary_failure: bool,
}

impl Deployments {
    /// Decides what becomes of a deployment that has just failed in its cluster; `None` where the target
    /// has no such policy.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub(crate) async fn plan_undo(
        &self,
        failure: ClusterFailureReport<'_>,
        until: Instant,
    ) -> Result<Option<FailureUndo>, BackendError> {
        let ClusterFailureReport { deployment, cause, is_canary_failure } = failure;
        let record = self.store.deployment(deployment).await.map_err(BackendError::new)?;
        let Some(failed) = record else { return Ok(None) };
        let policies = self.clusters.find(&failed.request.target).map(|target| target.policies);
        let policies = policies.unwrap_or_default();
        let rolls_back = if is_canary_failure {
            policies.on_canary_failure == OnCanaryFailure::Rollback
        } else {
            policies.on_failure == OnFailure::Rollback
        };
        if !rolls_back {
            return Ok(None);
        }
        if failed.rollout.is_some() {
            let reason = "its rollout decides what follows".to_owned();
            return Ok(Some(FailureUndo::Refused(reason)));
        }
        let decision = async {
            match &failed.fleet {
                Some(fleet) => self.prepare_fleet_undo(fleet, &failed, cause).await,
                None => self.prepare_undo(&failed, cause).await,
            }
        };
        let decision = tokio::time::timeout_at(until, decision).await;
        let late = |_elapsed| {
            let reason =
                "the manifest repository does not answer in time; `bart rollback` asks it again";
            Err(RollbackError::Repository(reason.to_owned()))
        };
        match decision.unwrap_or_else(late) {
            Ok(request) => Ok(Some(FailureUndo::Rollback(Box::new(request)))),
            Err(RollbackError::Fault(error)) => Err(error),
            Err(refusal) => Ok(Some(FailureUndo::Refused(describe(&refusal)))),
        }
    }

    async fn prepare_undo(
        &self,
        failed: &Deployment,
        cause: &str,
    ) -> Result<UndoRequest, RollbackError> {
        let against = |reason: &str| Err(RollbackError::Against(reason.to_owned()));
        if failed.rollback.is_some() {
            return against("a rollback is not rolled back again");
        }
        let (Some(app), Some(pushed)) = (failed.app.clone(), &failed.pushed) else {
            return against("its record names no revision");
        };
        let instance = AppInstance { target: failed.request.target.clone(), app };
        self.check_hold(&instance).await?;
        let reason = format!("deployment {} failed in the cluster: {cause}", failed.id);
        let (by, order) = (Principal::service(), order(instance, &reason));
        let prepared = self.prepare_rollback(&order, DefaultRevision::Proven, &by).await?;
        let PreparedRollback { new, live_files, answer: _ } = prepared;
        if files::digest_of(&live_files).as_ref() != Some(&pushed.digest) {
            return against("it is not live any more: another revision or an edit by hand is");
        }
        Ok(request(new, &failed.id, by, self.clock.now()))
    }

    /// Prepares the rollback of a whole fleet, of which one cluster has failed: all of its clusters go back together.
    async fn prepare_fleet_undo(
        &self,
        fleet: &DeployId,
        part: &Deployment,
        cause: &str,
    ) -> Result<UndoRequest, RollbackError> {
        let against = |reason: &str| Err(RollbackError::Against(reason.to_owned()));
        let failed = self.find_deployment(fleet).await?;
        let Some((failed, app)) = failed.and_then(|failed| Some((failed.clone(), failed.app?)))
        else {
            return against("the record of its fleet's deployment names no app");
        };
        if failed.rollback.is_some() {
            return against("a rollback is not rolled back again");
        }
        if failed.rollout.is_some() {
            return against("its rollout decides what follows");
        }
        let target = failed.request.target.clone();
        let instance = AppInstance { target, app };
        self.check_hold(&instance).await?;
        let cluster = &part.request.target;
        let reason = format!("deployment {} failed on {cluster}: {cause}", failed.id);
        let (by, order) = (Principal::service(), order(instance, &reason));
        let prepared = self.prepare_rollback(&order, DefaultRevision::Proven, &by).await?;
        let PreparedRollback { new, live_files: _, answer: _ } = prepared;
        if new.rollback.from.as_ref() != Some(&failed.id) {
            return against("it is not live any more: another deployment of the fleet is");
        }
        Ok(request(new, &failed.id, by, self.clock.now()))
    }

    /// Refuses where automation is held. A person's rollback would be done.
    async fn check_hold(&self, instance: &AppInstance) -> Result<(), RollbackError> {
        let AppInstance { target, app } = instance;
        if !self.holds_on(target) {
            return Ok(());
        }
        let hold = self.store.hold(target, app).await.map_err(BackendError::new)?;
        match hold {
            Some(hold) => Err(RollbackError::Against(format!(
                "{app} is held by {}: {}; `bart rollback` does it nevertheless",
                hold.by, hold.reason
            ))),
            None => Ok(()),
        }
    }
}

/// Orders the rollback to what ran before. Nothing that a person would have to accept is accepted.
fn order(AppInstance { target, app }: AppInstance, reason: &str) -> RollbackOrder {
    RollbackOrder {
        target,
        app,
        to: None,
        live: None,
        reason: one_line(reason, REASON_LIMIT),
        with_data: false,
        with_fewer_pods: false,
        dry_run: false,
    }
}

/// Makes the request of a rollback that undoes a deployment.
fn request(
    mut rollback: NewRollback,
    undoes: &DeployId,
    by: Principal,
    now: Timestamp,
) -> UndoRequest {
    rollback.rollback.undoes = Some(undoes.clone());
    let entry = entry(&rollback, by, now);
    UndoRequest { rollback, entry }
}

/// Writes the reason as a clause.
fn describe(refusal: &RollbackError) -> String {
    match refusal {
        RollbackError::KeepsData(objects) => {
            let names: Vec<String> = objects.iter().map(LiveObject::to_string).collect();
            format!(
                "it would remove objects that keep data from the manifests: {}; `bart rollback` with `--with-data` \
                 accepts that",
                names.join(", ")
            )
        }
        RollbackError::Unknown(_)
        | RollbackError::Against(_)
        | RollbackError::Outdated(_)
        | RollbackError::NotMeant(_)
        | RollbackError::Repository(_)
        | RollbackError::Fault(_) => refusal.to_string(),
    }
}
