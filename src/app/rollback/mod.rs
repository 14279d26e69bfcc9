//! A former revision made live again, and what keeps automation from undoing that.

mod ask; // what is asked for, chosen and judged
mod data; // what is lost goes only when somebody says so
mod hold; // holds by people
mod restore; // what the job does
mod claims; // its namespace, names and routes, which may be another's by now

pub(super) use claims::of_revision as claims;
pub(super) use restore::{pushed, restore};

use crate::app::backend::Backend;
use crate::model::audit::By;
use crate::model::id::{AppKey, TargetName};
use crate::model::rollback::{Hold, RollbackRequest};
use crate::server::ports::{self, Fault, NotRolledBack, RolledBack};
use crate::store::Reply;

impl ports::Rollbacks for Backend {
    async fn roll_back(
        &self,
        request: RollbackRequest,
        by: By,
        reply: &Reply<RolledBack>,
    ) -> Result<RolledBack, NotRolledBack> {
        self.ask_for_rollback(request, by, reply).await
    }

    async fn hold(
        &self,
        target: TargetName,
        app: AppKey,
        reason: String,
        by: By,
        reply: &Reply<Hold>,
    ) -> Result<Hold, NotRolledBack> {
        self.place_hold(target, app, reason, by, reply).await
    }

    async fn release(
        &self,
        target: TargetName,
        app: AppKey,
        reason: String,
        by: By,
        reply: &Reply<Hold>,
    ) -> Result<Option<Hold>, NotRolledBack> {
        self.release_hold(target, app, reason, by, reply).await
    }

    async fn holds(&self, target: Option<&TargetName>) -> Result<Vec<Hold>, Fault> {
        self.store.holds(target).await.map_err(Fault::new)
    }
}
