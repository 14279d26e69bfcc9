//! Acts of people beside deploying: recorded before they are done, and ended after.
//!
//! An act that is under way blocks its app's lane: none of its deployments is claimed. So an act
//! and a deployment never work on one app at the same time; a deployment that is accepted meanwhile
//! comes after.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::model::audit::{AuditRecord, Principal};
use crate::model::id::{AppKey, DeployId, RepoName, RolloutId, TargetName};
use crate::model::removal::{RemovalEnd, RemovalOrder, RemovalRecord};
use crate::model::status::ForgeStatus;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::idempotency_keys::{KeyLease, PendingAnswer};
use crate::store::lane::LaneName;
use crate::store::lease::end_of;
use crate::store::query::{Query, placeholders, query, query_of};
use crate::store::row::{Row, to_json};
use crate::store::write::WriteTransaction;
use crate::store::{audit, claims, idempotency_keys, inactive, lane, waiting_ends};

/// The answer to a request to begin an act.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "nothing may be done without the turn"]
pub enum ActTurn {
    /// It is recorded, and may begin.
    Yes,
    /// A deployment of the app waits or runs.
    Deploying(DeployId),
    /// Another act on the app is under way.
    Acting(DeployId),
    /// The order of the rollout does not count any more: this deployment is the newest one by now, or the rollout has
    /// moved on.
    Superseded(Option<DeployId>),
}

const REMOVAL: &str = "removal";
const DOING: &str = "recording an act";
/// The number of targets in one statement.
const AT_ONCE: usize = 200;

impl Store {
    /// Records a removal before anything is done for it, unless the app is busy.
    ///
    /// The removal has the app to itself for `hold`; the clocks of replicas must agree as for
    /// leases. The key of an idempotent request leads to the record.
    pub async fn begin_removal(
        &self,
        act: (&RemovalRecord, &Principal),
        lease: Option<&KeyLease>,
        now: Timestamp,
        hold: Duration,
    ) -> Result<ActTurn, StoreError> {
        self.begin_act(act, lease, None, now, hold).await
    }

    /// Does the same for a rollout, as long as its order counts.
    pub async fn begin_ordered_removal(
        &self,
        act: (&RemovalRecord, &Principal),
        order: &RemovalOrder,
        now: Timestamp,
        hold: Duration,
    ) -> Result<ActTurn, StoreError> {
        self.begin_act(act, None, Some(order), now, hold).await
    }

    async fn begin_act(
        &self,
        (removal, by): (&RemovalRecord, &Principal),
        lease: Option<&KeyLease>,
        order: Option<&RemovalOrder>,
        now: Timestamp,
        hold: Duration,
    ) -> Result<ActTurn, StoreError> {
        let RemovalRecord { target, app, .. } = removal;
        let mut write = self.begin_durable(DOING).await?;
        let repository = match &removal.taken.repository {
            Some(repository) => Some(repository.clone()),
            None => newest_repository(&mut write, target, app).await?,
        };
        if let Some(repository) = &repository {
            lane::ensure(&mut write, repository, target);
        }
        let app_name = newest_app_name(&mut write, target, app).await?;
        let place = (repository.as_ref(), app_name.as_deref());
        let deploying = find_deploying(&mut write, place, target, app).await?;
        let superseded = match order {
            Some(order) => find_superseding(&mut write, order, target, app).await?,
            None => None,
        };
        let turn = match (superseded, deploying, find_act(&mut write, target, app).await?) {
            (Some(superseded), _, _) => superseded,
            (None, Some(id), _) => ActTurn::Deploying(id),
            (None, None, Some(id)) => ActTurn::Acting(id),
            (None, None, None) => {
                insert(&mut write, removal, place, end_of(now, hold)).await?;
                audit::note(&mut write, &entry(removal, by)).await?;
                idempotency_keys::note_act(&mut write, lease, &removal.id).await?;
                ActTurn::Yes
            }
        };
        // Also where nothing was changed: a dropped transaction releases the lane only some time later.
        write.commit().await?;
        Ok(turn)
    }

    /// Returns a deployment that waits or runs, as far as it is known to be the app's.
    pub async fn deploying(
        &self,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<Option<DeployId>, StoreError> {
        let sql = "SELECT d.id FROM deployments d WHERE d.target = $1 AND d.finished_at IS NULL \
             AND ((d.namespace = $2 AND d.slug = $3) OR (d.slug IS NULL AND EXISTS \
             (SELECT 1 FROM deployments o WHERE o.target = $1 AND o.namespace = $2 AND o.slug = $3 \
             AND o.state = 'succeeded' AND o.repository = d.repository \
             AND d.app_name <> '*' AND (o.app_name = '' OR d.app_name IN (o.app_name, ''))))) ORDER BY d.id LIMIT 1";
        let row = query(sql, (target, app))
            .first(&self.readers, "looking for deployments of an app")
            .await?;
        row.map(|row| row.id("id")).transpose()
    }

    /// Ends a removal; a second end changes nothing. It enqueues `inactive` for the removed
    /// deployments, and the commit for the receivers of pushes. The answer to an idempotent request
    /// is stored with it.
    pub async fn end_removal(
        &self,
        id: &DeployId,
        end: &RemovalEnd,
        answer: Option<&PendingAnswer>,
    ) -> Result<(), StoreError> {
        let RemovalEnd { at, commit, summary } = end;
        let mut write = self.begin_durable(DOING).await?;
        let sql = "UPDATE acts SET finished_at = $2, commit_id = $3, summary = $4 \
             WHERE id = $1 AND finished_at IS NULL RETURNING *";
        let row = query(sql, (id, at, commit, summary)).first(write.sql(), DOING).await?;
        if let Some((row, commit)) = row.zip(commit.as_ref()) {
            let removal = read_removal(&row)?;
            inactive::enqueue_removed(self, &mut write, &removal, commit, *at).await?;
            let status = ForgeStatus::removed(&removal.actor, &removal.reason);
            let place = (&removal.target, &removal.app);
            waiting_ends::end_removed(self, &mut write, place, &status, *at).await?;
            claims::free(&mut write, &removal.target, &removal.app);
        }
        idempotency_keys::keep(&mut write, answer).await?;
        write.commit().await
    }

    /// Releases a removal whose result is unknown: the next request determines it.
    pub async fn abandon_removal(&self, id: &DeployId, now: Timestamp) -> Result<(), StoreError> {
        let sql = "UPDATE acts SET due_at = $2 WHERE id = $1 AND finished_at IS NULL";
        self.run(query(sql, (id, now)), DOING).await.map(drop)
    }

    /// Returns the removal of an id.
    pub async fn removal(&self, id: &DeployId) -> Result<Option<RemovalRecord>, StoreError> {
        let row = query("SELECT * FROM acts WHERE id = $1 AND kind = $2", (id, REMOVAL))
            .first(&self.readers, "reading a removal")
            .await?;
        row.as_ref().map(read_removal).transpose()
    }

    /// Returns the removals of an app on a target, newest first, at most a hundred.
    pub async fn removals(
        &self,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<Vec<RemovalRecord>, StoreError> {
        let sql = "SELECT * FROM acts WHERE kind = $1 AND target = $2 AND namespace = $3 AND slug = $4 \
             ORDER BY id DESC LIMIT 100";
        let rows =
            query(sql, (REMOVAL, target, app)).fetch_all(&self.readers, "reading removals").await?;
        rows.iter().map(read_removal).collect()
    }

    /// Returns the time at which the app was removed last from each of these targets: `now` while the result of a removal is
    /// not known. Targets from which it was never removed are left out.
    pub async fn last_removals(
        &self,
        app: &AppKey,
        targets: &[&TargetName],
        now: Timestamp,
    ) -> Result<BTreeMap<TargetName, Timestamp>, StoreError> {
        let mut last = BTreeMap::new();
        for chunk in targets.chunks(AT_ONCE) {
            let sql = format!(
                "SELECT MAX(id) AS id, target, MAX(COALESCE(finished_at, $3)) AS removed_at FROM acts \
                 WHERE kind = $4 AND namespace = $1 AND slug = $2 AND target IN ({}) \
                 AND (finished_at IS NULL OR commit_id IS NOT NULL) GROUP BY target",
                placeholders(5, chunk.len())
            );
            let values = (app, now, REMOVAL, chunk.to_vec());
            for row in query_of(sql, values).fetch_all(&self.readers, "reading removals").await? {
                last.insert(row.id("target")?, row.time("removed_at")?);
            }
        }
        Ok(last)
    }

    /// Returns the removals whose process has died: their results have to be determined.
    pub async fn abandoned_removals(
        &self,
        now: Timestamp,
    ) -> Result<Vec<RemovalRecord>, StoreError> {
        let sql = "SELECT * FROM acts WHERE kind = $1 AND finished_at IS NULL AND due_at <= $2 \
             ORDER BY id LIMIT 100";
        let rows = query(sql, (REMOVAL, now)).fetch_all(&self.readers, "reading removals").await?;
        rows.iter().map(read_removal).collect()
    }
}

/// Returns the entry of the audit log: the principal that began the removal. Its result is in the
/// record of that id.
fn entry(removal: &RemovalRecord, by: &Principal) -> AuditRecord {
    let RemovalRecord { id, target, app, reason, asked_at, .. } = removal;
    AuditRecord {
        id: id.clone(),
        at: *asked_at,
        by: by.clone(),
        act: "remove".into(),
        target: Some(target.clone()),
        app: Some(app.clone()),
        subject: format!("removal {id}"),
        reason: reason.clone(),
        outcome: "it has begun".to_owned(),
    }
}

/// Returns the query for an act that blocks the lane; its row must be locked. Where the act's app is not known by its file,
/// it blocks those of all apps of the repository.
pub(super) fn select_blocking(lane: &LaneName, now: Timestamp) -> Query {
    let LaneName { repository, target, app } = lane;
    let sql = "SELECT id FROM acts WHERE repository = $1 AND target = $2 AND finished_at IS NULL \
         AND due_at > $3 AND (app_name IS NULL OR app_name = $4) LIMIT 1";
    query(sql, (repository, target, now, app))
}

/// Returns the query for an act on the app, whatever lane its deployments are in.
pub(super) fn select_blocking_app(target: &TargetName, app: &AppKey, now: Timestamp) -> Query {
    let sql = "SELECT id FROM acts WHERE target = $1 AND namespace = $2 AND slug = $3 AND finished_at IS NULL \
         AND due_at > $4 LIMIT 1";
    query(sql, (target, app, now))
}

/// Ends the acts of processes that are known to be dead; see `Store::end_leases`.
pub(super) async fn abandon(
    write: &mut WriteTransaction,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE acts SET due_at = $1 WHERE finished_at IS NULL AND due_at > $1";
    query(sql, now).execute(write.sql(), "ending the acts of a former process").await.map(drop)
}

/// Returns the repository of the app's last success, for a removal whose files name no repository.
async fn newest_repository(
    write: &mut WriteTransaction,
    target: &TargetName,
    app: &AppKey,
) -> Result<Option<RepoName>, StoreError> {
    let sql = "SELECT id, repository FROM deployments WHERE target = $1 AND namespace = $2 \
         AND slug = $3 AND state = 'succeeded' ORDER BY id DESC LIMIT 1";
    let row = query(sql, (target, app)).first(write.sql(), DOING).await?;
    row.map(|row| row.id("repository")).transpose()
}

/// Returns the name of the app in its repository, by its newest deployment; `None` where it has none, or none is known.
async fn newest_app_name(
    write: &mut WriteTransaction,
    target: &TargetName,
    app: &AppKey,
) -> Result<Option<String>, StoreError> {
    let sql = "SELECT id, app_name FROM deployments WHERE target = $1 AND namespace = $2 AND slug = $3 \
         ORDER BY id DESC LIMIT 1";
    let row = query(sql, (target, app)).first(write.sql(), DOING).await?;
    let name = row.map(|row| row.text("app_name")).transpose()?;
    Ok(name.filter(|name| !name.is_empty()))
}

/// Returns a deployment that waits or runs: of the app, or of its repository, where it has not been read yet and may be the
/// app's.
async fn find_deploying(
    write: &mut WriteTransaction,
    (repository, app_name): (Option<&RepoName>, Option<&str>),
    target: &TargetName,
    app: &AppKey,
) -> Result<Option<DeployId>, StoreError> {
    let sql = "SELECT id FROM deployments WHERE target = $1 AND finished_at IS NULL \
         AND ((namespace = $3 AND slug = $4) OR (repository = $2 AND slug IS NULL \
         AND app_name <> '*' AND ($5 = '' OR app_name IN ($5, '')))) ORDER BY id LIMIT 1";
    let values = (target, repository, app, app_name.unwrap_or_default());
    let row = query(sql, values).first(write.sql(), DOING).await?;
    row.map(|row| row.id("id")).transpose()
}

/// Returns why the order of a rollout does not count any more: the deployment that is the newest one by now, or none where
/// the rollout has moved on. The lane is locked, so that no other deployment begins to push meanwhile.
async fn find_superseding(
    write: &mut WriteTransaction,
    order: &RemovalOrder,
    target: &TargetName,
    app: &AppKey,
) -> Result<Option<ActTurn>, StoreError> {
    let current = query(
        "SELECT id FROM rollouts WHERE id = $1 AND version = $2",
        (&order.rollout, order.version),
    );
    let [current, newest] =
        write.ask_all([current, select_newest_pushed(target, app)], DOING).await?;
    if current.rows.is_empty() {
        return Ok(Some(ActTurn::Superseded(None)));
    }
    let Some(newest) = newest.rows.first() else { return Ok(None) };
    let is_ours = newest.maybe_id::<RolloutId>("rollout")?.as_ref() == Some(&order.rollout);
    Ok(if is_ours { None } else { Some(ActTurn::Superseded(Some(newest.id("id")?))) })
}

/// Returns the query for the newest pushed deployment of an app to a target; its lane must be locked.
pub(super) fn select_newest_pushed(target: &TargetName, app: &AppKey) -> Query {
    let sql = "SELECT id, rollout FROM deployments WHERE target = $1 AND namespace = $2 AND slug = $3 \
         AND state = 'succeeded' ORDER BY id DESC LIMIT 1";
    query(sql, (target, app))
}

/// Returns an act that is under way. One whose process died is under way until its result is
/// determined.
async fn find_act(
    write: &mut WriteTransaction,
    target: &TargetName,
    app: &AppKey,
) -> Result<Option<DeployId>, StoreError> {
    let sql = "SELECT id FROM acts WHERE target = $1 AND namespace = $2 AND slug = $3 \
         AND finished_at IS NULL LIMIT 1";
    let row = query(sql, (target, app)).first(write.sql(), DOING).await?;
    row.map(|row| row.id("id")).transpose()
}

async fn insert(
    write: &mut WriteTransaction,
    removal: &RemovalRecord,
    (repository, app_name): (Option<&RepoName>, Option<&str>),
    due_at: i64,
) -> Result<(), StoreError> {
    let RemovalRecord { id, target, app, actor, reason, taken: plan, asked_at, ended: _ } = removal;
    let sql = "INSERT INTO acts (id, kind, target, namespace, slug, repository, actor, reason, details, \
         asked_at, due_at, summary, app_name) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
    let act_columns = (id, REMOVAL, target, app, repository);
    let values =
        (act_columns, actor, reason, to_json(plan), asked_at, due_at, "under way", app_name);
    query(sql, values).execute(write.sql(), DOING).await.map(drop)
}

fn read_removal(row: &Row) -> Result<RemovalRecord, StoreError> {
    let end = row.maybe_time("finished_at")?.map(|at| {
        let commit = row.maybe_id("commit_id")?;
        Ok(RemovalEnd { at, commit, summary: row.text("summary")? })
    });
    Ok(RemovalRecord {
        id: row.id("id")?,
        target: row.id("target")?,
        app: row.app()?,
        actor: row.text("actor")?,
        reason: row.text("reason")?,
        taken: row.json("details")?,
        asked_at: row.time("asked_at")?,
        ended: end.transpose()?,
    })
}
