//! Holds that people place and release.

use crate::deployments::rollback::NotRolledBack;
use crate::deployments::{Deployments, Fault};
use crate::model::audit::{By, Entry};
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::rollback::Hold;
use crate::store::Reply;

impl Deployments {
    /// Holds automation off an app on a target.
    pub(crate) async fn place_hold(
        &self,
        target: TargetName,
        app: AppKey,
        reason: String,
        by: By,
        reply: &Reply<Hold>,
    ) -> Result<Hold, NotRolledBack> {
        if self.lane(&target, &app).await?.is_none() {
            return Err(NotRolledBack::Unknown(format!("{app} was never deployed to {target}")));
        }
        if !self.holds_on(&target) {
            return Err(NotRolledBack::Against(format!(
                "{target} takes no holds: its `policies.holds` is off; use `bart lock`"
            )));
        }
        let entry = self.entry("hold", (&target, &app), reason, by, "automation is held");
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
        let placed = self.store.place_hold(&hold, &entry, reply).await;
        let hold = placed.map_err(Fault::new)?;
        tracing::info!(app = %hold.app, target = %hold.target, by = hold.by, "a hold is placed");
        Ok(hold)
    }

    /// Ends a hold; what it was, or `None` where there was none.
    pub(crate) async fn release_hold(
        &self,
        target: TargetName,
        app: AppKey,
        reason: String,
        by: By,
        reply: &Reply<Hold>,
    ) -> Result<Option<Hold>, NotRolledBack> {
        let entry = self.entry("release", (&target, &app), reason, by, "automation may deploy");
        let released = self.store.release_hold(&target, &app, &entry, reply).await;
        let released = released.map_err(Fault::new)?;
        tracing::info!(%app, %target, by = entry.by.name, "a hold is released");
        Ok(released)
    }

    fn entry(
        &self,
        act: &'static str,
        (target, app): (&TargetName, &AppKey),
        reason: String,
        by: By,
        outcome: &str,
    ) -> Entry {
        Entry {
            id: DeployId::of(self.clock.draw()),
            at: self.clock.now(),
            by,
            act,
            target: Some(target.clone()),
            app: Some(app.clone()),
            subject: String::new(),
            reason,
            outcome: outcome.to_owned(),
        }
    }
}
