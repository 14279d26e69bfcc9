//! Owners of apps on a target: the repository that deployed an app first, until an operator moves
//! it.

use jiff::Timestamp;

use crate::model::audit::{AuditRecord, AuthMethod, Principal};
use crate::model::facts::Ownership;
use crate::model::id::{AppKey, DeployId, RepoName, TargetName};
use crate::store::audit;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::query::{Answer, Query, query, query_of};
use crate::store::row::Row;
use crate::store::write::WriteTransaction;

/// One app on one target, with its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerRecord {
    /// The target.
    pub target: TargetName,
    /// The app.
    pub app: AppKey,
    /// The repository that owns it.
    pub repository: RepoName,
    /// The time since which it does.
    pub since: Timestamp,
    /// The operator's act that gave it to that repository; `None` if that deployed it first.
    pub moved: Option<OwnerMove>,
}

/// An operator's change of an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerMove {
    /// The operator.
    pub by: String,
    /// The reason.
    pub reason: String,
}

const COLUMNS: &str = "target || ' ' || namespace || '/' || slug AS id, target, namespace, slug, \
     repository, since, moved_by, reason";

/// Matches rows of `deployments` that are attempts at another repository's app, or at a new one in
/// a namespace that has apps of other owners only. `RTRIM` removes the name after the slash, and
/// leaves the owner.
macro_rules! foreign {
    () => {
        "deployments.slug IS NOT NULL AND (EXISTS (SELECT 1 FROM owners o \
         WHERE o.target = deployments.target AND o.namespace = deployments.namespace \
         AND o.slug = deployments.slug AND LOWER(o.repository) <> LOWER(deployments.repository)) \
         OR (NOT EXISTS (SELECT 1 FROM owners o WHERE o.target = deployments.target \
         AND o.namespace = deployments.namespace AND o.slug = deployments.slug) \
         AND EXISTS (SELECT 1 FROM owners o WHERE o.target = deployments.target \
         AND o.namespace = deployments.namespace) \
         AND NOT EXISTS (SELECT 1 FROM owners o WHERE o.target = deployments.target \
         AND o.namespace = deployments.namespace \
         AND LOWER(RTRIM(o.repository, REPLACE(o.repository, '/', ''))) = \
         LOWER(RTRIM(deployments.repository, REPLACE(deployments.repository, '/', ''))))))"
    };
}

/// Selects those of a namespace that did not succeed.
const FOREIGN_ATTEMPTS: &str = concat!(
    "SELECT deployments.id FROM deployments WHERE deployments.target = $1 \
     AND deployments.namespace = $2 AND deployments.state IN ('failed', 'superseded', 'cancelled') AND ",
    foreign!()
);

/// Removes the app from a failed deployment whose repository may not deploy it: then it is known by
/// its repository alone, and people who may see the app learn nothing of who tried.
pub(super) fn disown(write: &mut WriteTransaction, deployment: &DeployId) {
    let sql = concat!(
        "UPDATE deployments SET namespace = NULL, slug = NULL WHERE id = $1 AND ",
        foreign!()
    );
    write.later(query(sql, deployment));
}

/// Does the same for all deployments that came before an app got its owner.
fn disown_all(store: &Store, write: &mut WriteTransaction, target: &TargetName, app: &AppKey) {
    let update = "UPDATE deployments SET namespace = NULL, slug = NULL WHERE id IN (";
    write.later(query(store.skipping_locked(update, FOREIGN_ATTEMPTS), (target, &app.namespace)));
}

/// Returns the statement that records the repository of a succeeded deployment as its app's owner,
/// unless it has one.
pub(super) fn claim(deployment: &DeployId, now: Timestamp) -> Query {
    let sql = "INSERT INTO owners (target, namespace, slug, repository, since) \
         SELECT target, namespace, slug, repository, $2 FROM deployments \
         WHERE id = $1 AND namespace IS NOT NULL AND slug IS NOT NULL \
         ON CONFLICT (target, namespace, slug) DO NOTHING \
         RETURNING repository AS id, target, namespace, slug";
    query(sql, (deployment, now))
}

/// Does what must follow that statement, where the app got its owner by it.
pub(super) fn follow_claim(
    store: &Store,
    write: &mut WriteTransaction,
    claim: &Answer,
) -> Result<(), StoreError> {
    let Some(row) = claim.rows.first() else { return Ok(()) };
    disown_all(store, write, &row.id("target")?, &row.app()?);
    Ok(())
}

impl Store {
    /// Returns the owners of the app and its namespace on a target.
    pub async fn ownership(
        &self,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<Ownership, StoreError> {
        let sql = "SELECT DISTINCT repository AS id, repository, slug FROM owners \
             WHERE target = $1 AND namespace = $2 ORDER BY repository, slug";
        let rows = query(sql, (target, &app.namespace))
            .fetch_all(&self.readers, "reading the owner of an app")
            .await?;
        let mut owners = Ownership::default();
        for row in rows {
            let repository: RepoName = row.id("repository")?;
            if row.text("slug")? == app.slug.as_str() {
                owners.app = Some(repository.clone());
            }
            if owners.namespace.last() != Some(&repository) {
                owners.namespace.push(repository);
            }
        }
        Ok(owners)
    }

    /// Returns the apps of a repository and their targets, in order.
    pub async fn list_owned_apps(
        &self,
        repository: &RepoName,
    ) -> Result<Vec<(TargetName, AppKey)>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM owners WHERE repository = $1 ORDER BY target, namespace, slug"
        );
        let rows = query_of(sql, repository)
            .fetch_all(&self.readers, "listing the apps of a repository")
            .await?;
        rows.iter().map(|row| Ok((row.id("target")?, row.app()?))).collect()
    }

    /// Returns every app with its owner, of one target or of all, in order.
    pub async fn owners(
        &self,
        target: Option<&TargetName>,
    ) -> Result<Vec<OwnerRecord>, StoreError> {
        let condition = if target.is_some() { "WHERE target = $1" } else { "" };
        let sql =
            format!("SELECT {COLUMNS} FROM owners {condition} ORDER BY target, namespace, slug");
        let target: Vec<&TargetName> = target.into_iter().collect();
        let rows =
            query_of(sql, target).fetch_all(&self.readers, "listing the owners of apps").await?;
        rows.iter().map(read_owner).collect()
    }

    /// Gives an app to another repository; returns the former owner, `None` if it had none.
    ///
    /// An app that was never deployed can be given, too: it is reserved for that repository. The audit
    /// log has the act under the id of `entry`.
    pub async fn move_owner(
        &self,
        target: &TargetName,
        app: &AppKey,
        new_owner: &RepoName,
        act: &OwnerMove,
        (now, entry): (Timestamp, &DeployId),
    ) -> Result<Option<RepoName>, StoreError> {
        let doing = "moving an app to another repository";
        let mut write = self.begin(doing).await?;
        let sql = self.locking(
            "SELECT repository AS id, repository FROM owners \
             WHERE target = $1 AND namespace = $2 AND slug = $3",
            "FOR UPDATE",
        );
        let former = query(sql, (target, app)).first(write.sql(), doing).await?;
        let former: Option<RepoName> = former.map(|row| row.id("repository")).transpose()?;
        let former_name = former.as_ref().map_or("nobody", RepoName::as_str);
        let record = AuditRecord {
            id: entry.clone(),
            at: now,
            by: Principal {
                name: act.by.clone(),
                via: AuthMethod::Operator,
                from: None,
                request: None,
            },
            act: "move-owner".into(),
            target: Some(target.clone()),
            app: Some(app.clone()),
            subject: new_owner.to_string(),
            reason: act.reason.clone(),
            outcome: format!("it is {new_owner}'s now, and was {former_name}'s"),
        };
        audit::note(&mut write, &record).await?;
        let sql = "INSERT INTO owners (target, namespace, slug, repository, since, moved_by, reason) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) \
             ON CONFLICT (target, namespace, slug) DO UPDATE SET repository = excluded.repository, \
             since = excluded.since, moved_by = excluded.moved_by, reason = excluded.reason";
        query(sql, (target, app, new_owner, now, &act.by, &act.reason))
            .execute(write.sql(), doing)
            .await?;
        disown_all(self, &mut write, target, app);
        write.commit().await?;
        Ok(former)
    }
}

fn read_owner(row: &Row) -> Result<OwnerRecord, StoreError> {
    let act = row.maybe_text("moved_by")?.zip(row.maybe_text("reason")?);
    Ok(OwnerRecord {
        target: row.id("target")?,
        app: row.app()?,
        repository: row.id("repository")?,
        since: row.time("since")?,
        moved: act.map(|(by, reason)| OwnerMove { by, reason }),
    })
}
