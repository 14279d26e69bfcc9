//! Cancels a deployment that has not begun to push.

use crate::model::audit::AuditRecord;
use crate::model::deployment::{Deployment, State};
use crate::model::id::DeployId;
use crate::model::status::ForgeStatus;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::idempotency_keys::Reply;
use crate::store::query::query;
use crate::store::row::{self, deployment_columns};
use crate::store::write::WriteTransaction;
use crate::store::{audit, idempotency_keys, lane};

/// The result of a cancellation.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "it may go on"]
pub enum Cancelled {
    /// The deployment has ended; its present state. One of all apps goes on where an app of it is pushed already: those that
    /// are not have ended, and it ends with the others.
    Yes(Box<Deployment>),
    /// Its push has begun, and may have arrived. Nothing was changed.
    Pushing,
    /// It had ended before. Nothing was changed.
    Ended(Box<Deployment>),
    /// There is no such deployment.
    NotThere,
}

const DOING: &str = "cancelling a deployment";

impl Store {
    /// Ends a deployment that waits, or that a worker has claimed and not begun to push: the worker
    /// loses its claim. The audit log entry names the principal, and gets its subject here; the
    /// answer to an idempotent request is stored with it.
    pub async fn cancel(
        &self,
        id: &DeployId,
        entry: &AuditRecord,
        reply: &Reply<Deployment>,
    ) -> Result<Cancelled, StoreError> {
        let mut write = self.begin_durable(DOING).await?;
        let Some(deployment) = read(&mut write, id).await? else { return Ok(Cancelled::NotThere) };
        let release = &deployment.request.release;
        // With the lane locked, no worker can get the turn to push meanwhile.
        lane::lock(self, &mut write, &release.repository, &deployment.request.target);
        let Some(cancelled) = stop(self, &mut write, id, entry).await? else {
            let current = read(&mut write, id).await?;
            // A dropped transaction releases the lane only some time later.
            write.commit().await?;
            return Ok(match current {
                Some(current) if current.state.is_final() => Cancelled::Ended(Box::new(current)),
                Some(_) => Cancelled::Pushing,
                None => Cancelled::NotThere,
            });
        };
        let record = AuditRecord {
            target: Some(cancelled.request.target.clone()),
            app: cancelled.app.clone(),
            subject: format!("deployment {id} of {}", release.repository),
            ..entry.clone()
        };
        audit::note(&mut write, &record).await?;
        idempotency_keys::keep(&mut write, reply.answer(&cancelled).as_ref()).await?;
        write.wake_followers_of(id, entry.at);
        write.commit().await?;
        Ok(Cancelled::Yes(Box::new(cancelled)))
    }
}

async fn read(
    write: &mut WriteTransaction,
    id: &DeployId,
) -> Result<Option<Deployment>, StoreError> {
    let sql = concat!("SELECT ", deployment_columns!(), " FROM deployments WHERE id = $1");
    query(sql, id).first(write.sql(), DOING).await?.as_ref().map(row::deployment).transpose()
}

/// Ends the deployment, or those of its apps whose pushes have not begun; `None` where it has ended, or it is too late for
/// all of it. The lane is locked: until then it could become one of all apps.
async fn stop(
    store: &Store,
    write: &mut WriteTransaction,
    id: &DeployId,
    entry: &AuditRecord,
) -> Result<Option<Deployment>, StoreError> {
    let Some(deployment) = read(write, id).await? else { return Ok(None) };
    if deployment.all_apps {
        match stop_apps(store, write, id, entry).await? {
            CancelledApps::None => return Ok(None),
            CancelledApps::Some => return Ok(Some(deployment)),
            CancelledApps::All => {}
        }
    }
    end(store, write, id, entry).await
}

/// The apps of a deployment of all that were cancelled with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CancelledApps {
    /// None: it has ended, or each of them has or is being pushed. Nothing was changed.
    None,
    /// Those that waited: others were pushed, and it ends with their sum.
    Some,
    /// Of none of them anything was pushed.
    All,
}

/// Ends the deployments of the apps of one of all, as far as their pushes have not begun. They are locked before that
/// one, as by everyone; the lane is locked already, so that no push begins meanwhile.
async fn stop_apps(
    store: &Store,
    write: &mut WriteTransaction,
    parent: &DeployId,
    entry: &AuditRecord,
) -> Result<CancelledApps, StoreError> {
    let sql = "SELECT id FROM deployments WHERE parent = $1 AND state IN ('queued', 'running') ORDER BY id";
    let apps =
        query(store.locking(sql, "FOR UPDATE"), parent).fetch_all(write.sql(), DOING).await?;
    let sql = "SELECT id FROM deployments WHERE id = $1 AND state IN ('queued', 'running')";
    let open = query(store.locking(sql, "FOR UPDATE"), parent).first(write.sql(), DOING).await?;
    if open.is_none() || apps.is_empty() {
        return Ok(CancelledApps::None);
    }
    for row in apps {
        let id: DeployId = row.id("id")?;
        if end(store, write, &id, entry).await?.is_some() {
            write.wake_followers_of(&id, entry.at);
        }
    }
    let sql = "SELECT id FROM deployments WHERE parent = $1 \
         AND state IN ('pushing', 'syncing', 'progressing', 'succeeded') LIMIT 1";
    let live = query(sql, parent).first(write.sql(), DOING).await?;
    Ok(if live.is_some() { CancelledApps::Some } else { CancelledApps::All })
}

/// Ends the deployment and tells of it, unless its push has begun or it has ended.
async fn end(
    store: &Store,
    write: &mut WriteTransaction,
    id: &DeployId,
    entry: &AuditRecord,
) -> Result<Option<Deployment>, StoreError> {
    let summary = format!("cancelled by {}: {}", entry.by.name, entry.reason);
    let sql = concat!(
        "UPDATE deployments SET state = $2, finished_at = $3, summary = $4, worker = NULL, cluster_state = NULL \
         WHERE id = $1 AND state IN ('queued', 'running') RETURNING ",
        deployment_columns!()
    );
    let values = (id, State::Cancelled.as_str(), entry.at, &summary);
    let Some(row) = query(sql, values).first(write.sql(), DOING).await? else { return Ok(None) };
    let status = ForgeStatus::cancelled(&entry.by.name, &entry.reason);
    store.enqueue_messages(write, id, &status, entry.at);
    row::deployment(&row).map(Some)
}
