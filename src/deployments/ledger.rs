//! Use cases that need only the database: locks, owners and the audit log. The service uses it, and
//! so do the operator's commands, with or without a running service.

use secrecy::SecretString;

use crate::deployments::fault::AUDIT;
use crate::model::audit::{AuditRecord, AuditRecords, Principal, Search};
use crate::model::fleets::Fleets;
use crate::model::id::{AppKey, DeployId, RepoName, TargetName};
use crate::model::target::Clusters;
use crate::store::{OwnerMove, OwnerRecord, Store, StoreError};
use crate::support::clock::Clock;
use crate::waml::suggest;

/// Locks, owners and the audit log over the database. Clones share it.
#[derive(Clone)]
pub struct Ledger {
    pub(super) store: Store,
    pub(super) clock: Clock,
    clusters: Clusters,
    fleets: Fleets,
}

impl Ledger {
    /// Creates a ledger over a database, and the clusters of its configuration.
    pub(crate) fn new(store: Store, clock: Clock, clusters: Clusters) -> Self {
        Self { store, clock, clusters, fleets: Fleets::default() }
    }

    /// Returns the same, with these fleets.
    #[must_use]
    pub(crate) fn with_fleets(self, fleets: Fleets) -> Self {
        Self { fleets, ..self }
    }

    /// Opens the database, also beside a service that runs on it.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub async fn open(
        url: &SecretString,
        clock: Clock,
        clusters: Clusters,
    ) -> Result<Self, StoreError> {
        Ok(Self::new(Store::open(url).await?, clock, clusters))
    }

    /// Closes the database.
    pub async fn close(self) {
        self.store.close().await;
    }

    /// Returns every app with its owner.
    ///
    /// # Errors
    /// When the database fails; the same holds for all functions that follow.
    pub async fn owners(
        &self,
        target: Option<&TargetName>,
    ) -> Result<Vec<OwnerRecord>, StoreError> {
        self.store.owners(target).await
    }

    /// Gives an app to another repository; returns the former owner.
    pub async fn move_owner(
        &self,
        target: &TargetName,
        app: &AppKey,
        to: &RepoName,
        act: &OwnerMove,
    ) -> Result<Option<RepoName>, StoreError> {
        let entry = (self.clock.now(), &DeployId::of(self.clock.draw()));
        let from = self.store.move_owner(target, app, to, act, entry).await?;
        let (OwnerMove { by, reason }, former_owner) =
            (act, from.as_ref().map_or("nobody", RepoName::as_str));
        tracing::info!(
            target: AUDIT,
            %app, target = %target, from = former_owner, %to, by, reason, "app owner changed"
        );
        Ok(from)
    }

    /// Returns the records of the audit log that the search matches, newest first.
    pub async fn audit_records(&self, search: &Search) -> Result<AuditRecords, StoreError> {
        self.store.audit_records(search).await
    }

    pub(super) fn check_target(&self, target: &TargetName) -> Result<(), (String, String)> {
        check_target((&self.clusters, &self.fleets), target)
    }

    /// Returns the audit log entry for an act; the store adds its subject.
    pub(super) fn entry(&self, act: &'static str, reason: String, by: Principal) -> AuditRecord {
        let (id, at) = (DeployId::of(self.clock.draw()), self.clock.now());
        let (subject, outcome) = (String::new(), "done".to_owned());
        let act = act.into();
        AuditRecord { id, at, by, act, target: None, app: None, subject, reason, outcome }
    }
}

/// Checks that the configuration has a target: an act on a mistyped one would do nothing and look
/// as if it did.
///
/// # Errors
/// A sentence that there is no target of that name, and a hint at those that exist.
pub fn check_target(
    (clusters, fleets): (&Clusters, &Fleets),
    target: &TargetName,
) -> Result<(), (String, String)> {
    if clusters.find(target).is_some() || fleets.is_fleet(target) {
        return Ok(());
    }
    let names = clusters.names().into_iter().chain(fleets.names());
    let names = names.map(TargetName::as_str).collect::<Vec<_>>();
    let hint = suggest::hint(target.as_str(), names);
    Err((format!("the configuration has no cluster `{target}`"), hint))
}
