//! Places and releases holds.

use crate::deployments::rollback::RollbackError;
use crate::deployments::{BackendError, Deployments};
use crate::model::audit::{AuditRecord, Principal};
use crate::model::id::{AppKey, TargetName};
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

    /// Ends a hold and returns it; `None` where there was none.
    pub(crate) async fn release_hold(
        &self,
        target: TargetName,
        app: AppKey,
        reason: String,
        by: Principal,
        reply: &Reply<Hold>,
    ) -> Result<Option<Hold>, RollbackError> {
        let entry = AuditRecord {
            target: Some(target.clone()),
            app: Some(app.clone()),
            outcome: "automation may deploy".to_owned(),
            ..self.ledger.entry("release", reason, by)
        };
        let hold = self.store.release_hold(&target, &app, &entry, reply).await;
        let hold = hold.map_err(BackendError::new)?;
        tracing::info!(%app, %target, by = entry.by.name, "hold released");
        Ok(hold)
    }
}
