//! The lane of an operation: locks it, reads it, and ends superseded deployments.
//!
//! Every operation that moves deployments of a lane locks its row first, then reads: two that
//! overlap would otherwise each decide without the other's change. All apps of a repository share
//! the row of a target, which is locked for a moment, and each has a lane of its own.

use jiff::Timestamp;

use crate::model::deployment::State;
use crate::model::event::DeploymentRequest;
use crate::model::id::{AppKey, AppName, DeployId, RepoName, TargetName};
use crate::model::lane::{Lane, LaneEntry, LanePlace};
use crate::model::release::Release;
use crate::model::status::ForgeStatus;
use crate::store::connect::DatabaseBackend;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::query::{Query, query};
use crate::store::row::Row;
use crate::store::write::WriteTransaction;

const DOING: &str = "reading a lane";

/// Inserts the lane's row if it is missing, and locks it.
pub(super) fn ensure(write: &mut WriteTransaction, repository: &RepoName, target: &TargetName) {
    // The update changes nothing; PostgreSQL locks the row for it.
    let sql = "INSERT INTO lanes (repository, target) VALUES ($1, $2) \
         ON CONFLICT (repository, target) DO UPDATE SET target = excluded.target";
    write.later(query(sql, (repository, target)));
}

/// Locks the lane's row. On SQLite the writer has locked everything.
pub(super) fn lock(
    store: &Store,
    write: &mut WriteTransaction,
    repository: &RepoName,
    target: &TargetName,
) {
    if store.kind == DatabaseBackend::Postgres {
        let sql = "SELECT target FROM lanes WHERE repository = $1 AND target = $2";
        write.later(query(store.locking(sql, "FOR UPDATE"), (repository, target)));
    }
}

/// Locks the rows of all lanes, or those of a target, in a fixed order: a change made then is seen
/// by every later request for a turn in one of them, and by none before.
pub(super) async fn lock_all(
    store: &Store,
    write: &mut WriteTransaction,
    target: Option<&TargetName>,
) -> Result<(), StoreError> {
    if store.kind == DatabaseBackend::Sqlite {
        return Ok(());
    }
    // In the order of bytes, whatever the collation of the database is: as `undo::lock_lanes` takes them.
    let sql = "SELECT target FROM lanes WHERE $1 = '' OR target = $1 \
         ORDER BY repository COLLATE \"C\", target COLLATE \"C\"";
    query(store.locking(sql, "FOR UPDATE"), target.map_or("", TargetName::as_str))
        .fetch_all(write.sql(), DOING)
        .await
        .map(drop)
}

/// Names a lane: the deployments of one app of a repository to a target.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LaneName {
    pub(super) repository: RepoName,
    pub(super) target: TargetName,
    /// The app, as the column `app_name` has it.
    pub(super) app: String,
}

impl LaneName {
    /// Returns the lane of a request, before it may turn out to be for all apps.
    pub(super) fn of(request: &DeploymentRequest) -> Self {
        let Release { repository, app, .. } = &request.release;
        let (repository, target) = (repository.clone(), request.target.clone());
        Self { repository, target, app: app_word(app.as_ref()).to_owned() }
    }
}

/// Returns the name of an app as the column `app_name` has it.
pub(super) fn app_word(app: Option<&AppName>) -> &str {
    app.map_or("", AppName::as_str)
}

/// Reads the deployments of the lane; its row must be locked.
pub(super) async fn read(
    write: &mut WriteTransaction,
    lane: &LaneName,
) -> Result<Lane, StoreError> {
    from_rows(&entries(lane).fetch_all(write.sql(), DOING).await?)
}

/// Reads the deployments of the lane with those of the app in other lanes; its row must be locked.
pub(super) async fn read_app(
    write: &mut WriteTransaction,
    lane: &LaneName,
    app: &AppKey,
) -> Result<Lane, StoreError> {
    let queries = [entries(lane), entries_elsewhere(lane, app)];
    let [own, elsewhere] = write.ask_all(queries, DOING).await?;
    Ok(from_rows(&own.rows)?.joined(from_rows(&elsewhere.rows)?))
}

/// Returns the query for the deployments of the lane; its row must be locked.
pub(super) fn entries(lane: &LaneName) -> Query {
    // Both in one query, to save a round trip.
    let sql = "SELECT id, place, state, due_at, rollback FROM deployments \
         WHERE repository = $1 AND target = $2 AND app_name = $3 AND finished_at IS NULL \
         UNION ALL SELECT id, place, state, due_at, rollback FROM \
         (SELECT id, place, state, due_at, rollback FROM deployments \
         WHERE repository = $1 AND target = $2 AND app_name = $3 AND state IN ('succeeded', 'failed') \
         ORDER BY place DESC, id DESC LIMIT 1) AS newest";
    query(sql, (&lane.repository, &lane.target, &lane.app))
}

/// Returns the query for the deployments of the app in other lanes: its file may have had another name, or none. Those that
/// wait there have not told yet what app they are of, and the rules of their own attempts are the same.
pub(super) fn entries_elsewhere(lane: &LaneName, app: &AppKey) -> Query {
    let sql = "SELECT id, place, state, due_at, rollback FROM deployments \
         WHERE repository = $1 AND target = $2 AND app_name <> $3 AND namespace = $4 AND slug = $5 \
         AND finished_at IS NULL \
         UNION ALL SELECT id, place, state, due_at, rollback FROM \
         (SELECT id, place, state, due_at, rollback FROM deployments \
         WHERE repository = $1 AND target = $2 AND app_name <> $3 AND namespace = $4 AND slug = $5 \
         AND state = 'succeeded' ORDER BY place DESC, id DESC LIMIT 1) AS newest";
    query(sql, (&lane.repository, &lane.target, &lane.app, app))
}

pub(super) fn from_rows(rows: &[Row]) -> Result<Lane, StoreError> {
    let entries = rows.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
    let has_ended = |entry: &LaneEntry| matches!(entry.state, State::Succeeded | State::Failed);
    let (ended_entries, open): (Vec<_>, Vec<_>) = entries.into_iter().partition(has_ended);
    Ok(Lane { open, newest_ended: ended_entries.into_iter().next().map(|entry| entry.place) })
}

fn entry(row: &Row) -> Result<LaneEntry, StoreError> {
    Ok(LaneEntry {
        place: LanePlace { number: row.number("place")?, id: row.id("id")? },
        state: row.word("state", State::parse)?,
        rollback: row.maybe_text("rollback")?.is_some(),
        due_at: row.time("due_at")?,
    })
}

/// Ends each of these deployments in favour of the newer one beside it.
pub(super) async fn supersede(
    store: &Store,
    write: &mut WriteTransaction,
    lane: &Lane,
    superseded: &[(DeployId, DeployId)],
    now: Timestamp,
) -> Result<(), StoreError> {
    for (id, by) in superseded {
        end(store, write, id, &superseded_by(lane, by), now).await?;
    }
    for (id, _) in superseded {
        write.wake_followers_of(id, now);
    }
    Ok(())
}

fn superseded_by(lane: &Lane, by: &DeployId) -> ForgeStatus {
    if lane.open.iter().any(|entry| entry.rollback && entry.place.id == *by) {
        return ForgeStatus::superseded_by_rollback(by);
    }
    let places = lane.open.iter().map(|entry| &entry.place).chain(&lane.newest_ended);
    let number = places.filter(|place| place.id == *by).map(|place| place.number).next();
    ForgeStatus::superseded(by, number.unwrap_or(0))
}

/// Ends one deployment, unless its worker ended it or began to push since the lane was read.
async fn end(
    store: &Store,
    write: &mut WriteTransaction,
    id: &DeployId,
    status: &ForgeStatus,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE deployments SET state = $2, finished_at = $3, summary = $4, worker = NULL, \
         cluster_state = NULL WHERE id = $1 AND state IN ('queued', 'running')";
    let count = query(sql, (id, State::Superseded.as_str(), now, status.description()))
        .execute(write.sql(), "superseding a deployment")
        .await?;
    if count == 1 {
        store.enqueue_messages(write, id, status, now);
    }
    Ok(())
}
