//! The lane that an operation is about: locked, read, and cleared of what is superseded.
//!
//! Every operation that moves deployments of a lane locks its row first, then reads: two that
//! overlap would otherwise each decide on a picture without the other's change.

use jiff::Timestamp;

use crate::model::deployment::State;
use crate::model::id::{DeployId, RepoName, TargetName};
use crate::model::lane::{Entry, Lane, Place};
use crate::model::status::ForgeStatus;
use crate::store::connect::Kind;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::row::Row;
use crate::store::write::Write;

const DOING: &str = "looking at a lane";

/// Makes the lane's row if need be, and locks it.
pub(super) async fn ensure(
    write: &mut Write,
    repository: &RepoName,
    target: &TargetName,
) -> Result<(), StoreError> {
    // The update changes nothing; PostgreSQL locks the row for it.
    sqlx::query(
        "INSERT INTO lanes (repository, target) VALUES ($1, $2) \
         ON CONFLICT (repository, target) DO UPDATE SET target = excluded.target",
    )
    .bind(repository.as_str())
    .bind(target.as_str())
    .execute(write.sql())
    .await
    .map(drop)
    .map_err(StoreError::doing(DOING))
}

/// Locks the lane's row. On SQLite whoever writes has locked everything.
pub(super) async fn lock(
    store: &Store,
    write: &mut Write,
    repository: &RepoName,
    target: &TargetName,
) -> Result<(), StoreError> {
    if store.kind == Kind::Sqlite {
        return Ok(());
    }
    let sql = "SELECT target FROM lanes WHERE repository = $1 AND target = $2";
    sqlx::query(store.locking(sql, "FOR UPDATE"))
        .bind(repository.as_str())
        .bind(target.as_str())
        .fetch_optional(write.sql())
        .await
        .map(drop)
        .map_err(StoreError::doing(DOING))
}

/// Locks the rows of all lanes, or those of a target, in an order: what is said then is seen by whoever
/// asks for a turn in one of them after it, and by nobody before.
pub(super) async fn lock_all(
    store: &Store,
    write: &mut Write,
    target: Option<&TargetName>,
) -> Result<(), StoreError> {
    if store.kind == Kind::Sqlite {
        return Ok(());
    }
    let sql = "SELECT target FROM lanes WHERE $1 = '' OR target = $1 ORDER BY repository, target";
    sqlx::query(store.locking(sql, "FOR UPDATE"))
        .bind(target.map(ToString::to_string).unwrap_or_default())
        .fetch_all(write.sql())
        .await
        .map(drop)
        .map_err(StoreError::doing(DOING))
}

/// What is in the lane; its row must be locked.
pub(super) async fn read(
    write: &mut Write,
    repository: &RepoName,
    target: &TargetName,
) -> Result<Lane, StoreError> {
    // Both in one: every question costs a way to the database and back.
    let rows = sqlx::query(
        "SELECT id, place, state, due_at, rollback FROM deployments \
         WHERE repository = $1 AND target = $2 AND finished_at IS NULL \
         UNION ALL SELECT id, place, state, due_at, rollback FROM \
         (SELECT id, place, state, due_at, rollback FROM deployments \
         WHERE repository = $1 AND target = $2 AND state IN ('succeeded', 'failed') \
         ORDER BY place DESC, id DESC LIMIT 1) AS newest",
    )
    .bind(repository.as_str())
    .bind(target.as_str())
    .fetch_all(write.sql())
    .await
    .map_err(StoreError::doing(DOING))?;
    let entries = rows.into_iter().map(|row| entry(&Row::new(row)));
    let entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
    let has_ended = |entry: &Entry| matches!(entry.state, State::Succeeded | State::Failed);
    let (ended, open): (Vec<_>, Vec<_>) = entries.into_iter().partition(has_ended);
    Ok(Lane { open, newest_ended: ended.into_iter().next().map(|entry| entry.place) })
}

fn entry(row: &Row) -> Result<Entry, StoreError> {
    let rollback = row.maybe_text("rollback")?.is_some();
    Ok(Entry { place: place(row)?, state: row.state()?, rollback, due_at: row.time("due_at")? })
}

fn place(row: &Row) -> Result<Place, StoreError> {
    Ok(Place { number: row.number("place")?, id: row.id("id")? })
}

/// Ends each of these in favour of the newer one beside it.
pub(super) async fn supersede(
    store: &Store,
    write: &mut Write,
    lane: &Lane,
    superseded: &[(DeployId, DeployId)],
    now: Timestamp,
) -> Result<(), StoreError> {
    for (id, by) in superseded {
        end(store, write, id, &superseded_by(lane, by), now).await?;
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

/// Ends one, unless its worker ended it or began to push since the lane was read.
async fn end(
    store: &Store,
    write: &mut Write,
    id: &DeployId,
    status: &ForgeStatus,
    now: Timestamp,
) -> Result<(), StoreError> {
    let done = sqlx::query(
        "UPDATE deployments SET state = $2, finished_at = $3, summary = $4, worker = NULL \
         WHERE id = $1 AND state IN ('queued', 'running')",
    )
    .bind(id.as_str())
    .bind(State::Superseded.as_str())
    .bind(now.as_millisecond())
    .bind(status.description())
    .execute(write.sql())
    .await
    .map_err(StoreError::doing("superseding a deployment"))?;
    if done.rows_affected() == 1 {
        store.tell(write, id, status, now).await?;
    }
    Ok(())
}
