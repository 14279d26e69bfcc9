//! Places and releases holds.

use crate::deployments::rollback::RollbackError;
use crate::deployments::{BackendError, Deployments};
use crate::model::app_instance::AppInstance;
use crate::model::audit::{AuditRecord, Principal};
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::rollback::Hold;
use crate::store::Reply;

impl Deployments {
    /// Returns the holds of a target, or all.
    pub(crate) async fn holds(
        &self,
        target: Option<&TargetName>,
    ) -> Result<Vec<Hold>, BackendError> {
        self.store.holds(target).await.map_err(BackendError::new)
    }

    /// Returns the holds that concern an app on a target, oldest first: also those of the clusters and fleets that the
    /// target shares a cluster with.
    pub(crate) async fn holds_that_concern(
        &self,
        AppInstance { target, app }: &AppInstance,
    ) -> Result<Vec<Hold>, BackendError> {
        let holds = self.store.holds_that_concern(Some(target)).await.map_err(BackendError::new)?;
        Ok(holds.into_iter().filter(|hold| hold.app == *app).collect())
    }

    /// Places a hold: automation may not deploy the app to the target.
    pub(crate) async fn place_hold(
        &self,
        target: TargetName,
        app: AppKey,
        reason: String,
        by: Principal,
        reply: &Reply<Hold>,
    ) -> Result<Hold, RollbackError> {
        if self.lane(&target, &app).await?.is_none() {
            return Err(RollbackError::Unknown(format!("{app} was never deployed to {target}")));
        }
        if !self.holds_on(&target) {
            return Err(RollbackError::Against(format!(
                "{target} takes no holds: its `policies.holds` is off; use `bart lock`"
            )));
        }
        let entry = AuditRecord {
            target: Some(target.clone()),
            app: Some(app.clone()),
            outcome: "automation is held".to_owned(),
            ..self.ledger.entry("hold", reason, by)
        };
        let hold = Hold {
            target,
            app,
            by: entry.by.name.clone(),
            reason: entry.reason.clone(),
            since: entry.at,
            rollback: None,
            away: None,
            to: None,
        };
        let result = self.store.place_hold(&hold, &entry, reply).await;
        let hold = result.map_err(BackendError::new)?;
        tracing::info!(app = %hold.app, target = %hold.target, by = hold.by, "hold placed");
        Ok(hold)
    }

    /// Ends a hold and returns it; `None` where there was none. With a rollback only the hold that it took is ended.
    pub(crate) async fn release_hold(
        &self,
        instance: &AppInstance,
        (rollback, reason): (Option<&DeployId>, String),
        by: Principal,
        reply: &Reply<Hold>,
    ) -> Result<Option<Hold>, RollbackError> {
        let AppInstance { target, app } = instance;
        let entry = AuditRecord {
            target: Some(target.clone()),
            app: Some(app.clone()),
            outcome: "automation may deploy".to_owned(),
            ..self.ledger.entry("release", reason, by)
        };
        let hold = self.store.release_hold(instance, rollback, &entry, reply).await;
        let hold = hold.map_err(BackendError::new)?;
        match (&hold, rollback) {
            (Some(_), _) => {
                tracing::info!(%app, %target, by = entry.by.name, "hold released");
            }
            (None, Some(rollback)) => return Err(self.hold_has_ended(instance, rollback).await?),
            (None, None) => {}
        }
        Ok(hold)
    }

    /// Says what is so now, where a rollback's hold has ended.
    async fn hold_has_ended(
        &self,
        AppInstance { target, app }: &AppInstance,
        rollback: &DeployId,
    ) -> Result<RollbackError, BackendError> {
        let holds = self.store.holds(Some(target)).await.map_err(BackendError::new)?;
        let now = holds.into_iter().find(|hold| hold.app == *app);
        let now = now.map_or_else(
            || "it is not held now".to_owned(),
            |Hold { by, reason, .. }| format!("it is held by {by} now: {reason}"),
        );
        Ok(RollbackError::Outdated(format!(
            "the hold of rollback {rollback} on {app} on {target} has ended already: {now}"
        )))
    }
}
