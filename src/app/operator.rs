//! What an operator does to the database by hand: whose apps are, and locks. Each act leaves a
//! line in the log and its reason in the database.

use jiff::Timestamp;

use crate::app::{StartError, boxed};
use crate::clock::{self, Clock};
use crate::config::settings::Storage;
use crate::model::audit::{By, Entry, Found, Search, Via};
use crate::model::id::{AppKey, RepoName, TargetName};
use crate::model::lock::{Lock, LockId, LockScope};
use crate::store::{Locked, Moved, Store};
pub use crate::store::{Owned, Unlocked};

/// The database, for who has the right to change it by hand: that is whoever can open it.
pub struct Operator {
    store: Store,
    clock: Clock,
}

/// Who acts, and why.
#[derive(Debug, Clone)]
pub struct OperatorAction {
    /// Who.
    pub by: String,
    /// Why; shown to whoever is concerned.
    pub reason: String,
}

impl Operator {
    /// Opens the database, beside a service that may be running on it.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub async fn open(storage: &Storage, clock: Clock) -> Result<Self, StartError> {
        let store = Store::open(&storage.url).await.map_err(boxed("the database"))?;
        Ok(Self { store, clock })
    }

    /// Closes the database.
    pub async fn close(self) {
        self.store.close().await;
    }

    /// Every app and whose it is.
    ///
    /// # Errors
    /// When the database fails; so for all that follow.
    pub async fn owners(&self, target: Option<&TargetName>) -> Result<Vec<Owned>, StartError> {
        self.store.owners(target).await.map_err(boxed("the database"))
    }

    /// Gives an app to another repository; whose it was.
    pub async fn move_owner(
        &self,
        target: &TargetName,
        app: &AppKey,
        to: &RepoName,
        act: &OperatorAction,
    ) -> Result<Option<RepoName>, StartError> {
        let OperatorAction { by, reason } = act;
        let moved = Moved { by: by.clone(), reason: reason.clone() };
        let entry = (self.clock.now(), &self.clock.deploy_id());
        let from = self.store.move_owner(target, app, to, &moved, entry).await;
        let from = from.map_err(boxed("the database"))?;
        let was = from.as_ref().map_or("nobody", RepoName::as_str);
        tracing::info!(
            target: AUDIT,
            %app, cluster = %target, from = was, %to, by, reason, "an app has a new owner"
        );
        Ok(from)
    }

    /// Places a lock; its id.
    pub async fn lock(
        &self,
        scope: LockScope,
        act: &OperatorAction,
        until: Option<Timestamp>,
    ) -> Result<LockId, StartError> {
        let OperatorAction { by, reason } = act;
        let (id, since) = (clock::lock_id(), self.clock.now());
        let lock = Lock { scope, reason: reason.clone(), by: by.clone(), since, until };
        let placed = self.store.add_lock(&id, &lock, &self.entry("lock", act)).await;
        if placed.map_err(boxed("the database"))? == Locked::TooMany {
            let cause =
                "so many locks are placed that nobody looks through them any more: take some away"
                    .to_owned();
            return Err(StartError::Part { part: "another lock", cause });
        }
        let scope = &lock.scope;
        tracing::info!(target: AUDIT, %id, %scope, by, reason, "a lock is placed");
        Ok(id)
    }

    /// Takes a lock away.
    pub async fn unlock(&self, id: &LockId, act: &OperatorAction) -> Result<Unlocked, StartError> {
        let OperatorAction { by, reason } = act;
        let unlocked = self.store.remove_lock(id, &self.entry("unlock", act)).await;
        let unlocked = unlocked.map_err(boxed("the database"))?;
        if let Unlocked::Yes(Lock { scope, .. }) = &unlocked {
            tracing::info!(target: AUDIT, %id, %scope, by, reason, "a lock is taken away");
        }
        Ok(unlocked)
    }

    /// What the audit log gets of an act; what it is about comes from the lock.
    fn entry(&self, what: &'static str, act: &OperatorAction) -> Entry {
        let OperatorAction { by, reason } = act.clone();
        let by = By { name: by, via: Via::Operator, from: None, request: None };
        Entry {
            id: self.clock.deploy_id(),
            at: self.clock.now(),
            by,
            act: what,
            target: None,
            app: None,
            subject: String::new(),
            reason,
            outcome: "done".to_owned(),
        }
    }

    /// The locks that are placed now, oldest first.
    pub async fn locks(&self) -> Result<Vec<(LockId, Lock)>, StartError> {
        self.store.locks(self.clock.now()).await.map_err(boxed("the database"))
    }

    /// What the audit log has of what is looked for, newest first.
    pub async fn audited(&self, search: &Search) -> Result<Found, StartError> {
        self.store.audited(search).await.map_err(boxed("the database"))
    }

    /// The time so long from now.
    pub fn after(&self, wait: jiff::SignedDuration) -> Option<Timestamp> {
        self.clock.now().checked_add(wait).ok()
    }
}

/// Under this name all such acts are in the log.
pub const AUDIT: &str = "the_deployer::audit";
