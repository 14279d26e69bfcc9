//! What is decided with the database alone: locks, owners, and who did what. The service decides it here, and
//! so do the operator's commands, beside the service or without it.

use secrecy::SecretString;

use crate::deployments::fault::AUDIT;
use crate::model::audit::{AuditRecord, AuditRecords, Principal, Search};
use crate::model::id::{AppKey, DeployId, RepoName, TargetName};
use crate::model::target::Clusters;
use crate::store::{Moved, Owned, Store, StoreError};
use crate::support::clock::Clock;
use crate::waml::suggest;

/// The database, for who has the right to change it. Clones share it.
#[derive(Clone)]
pub struct Ledger {
    pub(super) store: Store,
    pub(super) clock: Clock,
    clusters: Clusters,
}

impl Ledger {
    /// Over a database, and the clusters of its configuration.
    pub(crate) fn new(store: Store, clock: Clock, clusters: Clusters) -> Self {
        Self { store, clock, clusters }
    }

    /// Opens the database, beside a service that may be running on it.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub async fn open(
        url: &SecretString,
        clock: Clock,
        clusters: Clusters,
    ) -> Result<Self, StoreError> {
        Ok(Self { store: Store::open(url).await?, clock, clusters })
    }

    /// Closes the database.
    pub async fn close(self) {
        self.store.close().await;
    }

    /// Every app and whose it is.
    ///
    /// # Errors
    /// When the database fails; so for all that follow.
    pub async fn owners(&self, target: Option<&TargetName>) -> Result<Vec<Owned>, StoreError> {
        self.store.owners(target).await
    }

    /// Gives an app to another repository; whose it was.
    pub async fn move_owner(
        &self,
        target: &TargetName,
        app: &AppKey,
        to: &RepoName,
        moved: &Moved,
    ) -> Result<Option<RepoName>, StoreError> {
        let entry = (self.clock.now(), &DeployId::of(self.clock.draw()));
        let from = self.store.move_owner(target, app, to, moved, entry).await?;
        let (Moved { by, reason }, was) = (moved, from.as_ref().map_or("nobody", RepoName::as_str));
        tracing::info!(
            target: AUDIT,
            %app, cluster = %target, from = was, %to, by, reason, "an app has a new owner"
        );
        Ok(from)
    }

    /// Reads what the audit log has of what is looked for, newest first.
    pub async fn audited(&self, search: &Search) -> Result<AuditRecords, StoreError> {
        self.store.audited(search).await
    }

    pub(super) fn check_target(&self, target: &TargetName) -> Result<(), (String, String)> {
        check_target(&self.clusters, target)
    }

    /// Returns the entry of the audit log for an act; what it is about comes with what it is done
    /// to.
    pub(super) fn entry(&self, act: &'static str, reason: String, by: Principal) -> AuditRecord {
        let (id, at) = (DeployId::of(self.clock.draw()), self.clock.now());
        let (subject, outcome) = (String::new(), "done".to_owned());
        let act = act.into();
        AuditRecord { id, at, by, act, target: None, app: None, subject, reason, outcome }
    }
}

/// Checks that the configuration has a target: an act on a mistyped one would do nothing, and look as if it
/// did.
///
/// # Errors
/// That it has none of that name, and a hint at those that it has.
pub fn check_target(clusters: &Clusters, target: &TargetName) -> Result<(), (String, String)> {
    if clusters.find(target).is_some() {
        return Ok(());
    }
    let known = clusters.names().iter().map(|name| name.as_str()).collect::<Vec<_>>();
    let hint = suggest::hint(target.as_str(), known);
    Err((format!("the configuration has no cluster `{target}`"), hint))
}
