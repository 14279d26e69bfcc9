//! The records of an app on a target that the rules need, read at once.

use jiff::Timestamp;

use crate::model::facts::{ClaimedObject, Ownership};
use crate::model::id::{AppKey, TargetName};
use crate::model::lock::Lock;
use crate::model::rollback::Hold;
use crate::model::route::Route;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::{claims, holds, locks};

/// The records of an app on a target that the rules need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedFacts {
    /// The owners of the app and its namespace, also those that a deployment that pushes is about to
    /// make.
    pub owners: Ownership,
    /// The locks that stop a deployment, oldest first.
    pub locks: Vec<Lock>,
    /// The hold that stops automation.
    pub hold: Option<Hold>,
    /// The routes that deployments of other apps have claimed and that may take requests of its
    /// hosts.
    pub routes: Vec<Route>,
    /// The objects that deployments of other apps of its namespace have claimed.
    pub objects: Vec<ClaimedObject>,
}

impl Store {
    /// Returns the records of an app of that owner, with these hosts.
    pub async fn recorded_facts(
        &self,
        target: &TargetName,
        app: &AppKey,
        owner: Option<&str>,
        hosts: &[String],
        now: Timestamp,
    ) -> Result<RecordedFacts, StoreError> {
        let queries = [
            claims::ownership(target, app),
            locks::select_stopping(self, (target, app), owner, now),
            holds::select_hold(self, target, app),
            claims::claimed_routes((target, app), hosts, now),
            claims::claimed_objects((target, app), None, now),
        ];
        let [owners, locks, hold, routes, objects] =
            self.read_all(queries, "reading the records of an app").await?;
        Ok(RecordedFacts {
            owners: claims::read_ownership(&owners)?,
            locks: locks::read_locks(&locks.rows)?,
            hold: hold.rows.first().map(holds::read_hold).transpose()?,
            routes: claims::read_claimed_routes(&routes.rows)?,
            objects: claims::read_claimed_objects(&objects.rows)?,
        })
    }
}
