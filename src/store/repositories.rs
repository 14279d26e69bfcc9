//! Names of repositories: the code host's number stays when a repository is renamed. All records of
//! a repository are under its name; when the name changes, this file changes the records in one
//! transaction.

use jiff::{SignedDuration, Timestamp};

use crate::model::event::RepositoryIdentity;
use crate::model::id::RepoName;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::query::{Query, query};
use crate::store::row::Row;
use crate::store::write::WriteTransaction;

const DOING: &str = "reading the names of repositories";

/// The time for which a recorded name need not be recorded again.
const RECORD_INTERVAL: SignedDuration = SignedDuration::from_hours(1);

/// The record of a repository.
struct RememberedRepository {
    number: i64,
    name: RepoName,
    owner: Option<i64>,
    /// The time of the event that gave it this name, or took another one away; `None` in records of
    /// earlier versions.
    seen_at: Option<Timestamp>,
}

/// The statement that renames the owner of apps.
const OWNERS: &str = "UPDATE owners SET repository = $2 WHERE LOWER(repository) = LOWER($1)";

/// The statements that rename every other table with a repository's name, but `lanes`: with the
/// condition that keeps a row from its new name.
const RECORDS: [&str; 7] = [
    "UPDATE deployments SET repository = $2 WHERE repository = $1 AND NOT EXISTS \
     (SELECT 1 FROM deployments n WHERE n.repository = $2 AND n.forge_id = deployments.forge_id)",
    "UPDATE claims SET repository = $2 WHERE repository = $1",
    "UPDATE acts SET repository = $2 WHERE repository = $1",
    "UPDATE rollout_claims SET repository = $2 WHERE repository = $1 AND NOT EXISTS \
     (SELECT 1 FROM rollout_claims n WHERE n.repository = $2 AND n.namespace = rollout_claims.namespace \
     AND n.slug = rollout_claims.slug AND n.target = rollout_claims.target)",
    "UPDATE rollouts SET repository = $2 WHERE repository = $1",
    "UPDATE rollout_requests SET repository = $2 WHERE repository = $1 AND NOT EXISTS \
     (SELECT 1 FROM rollout_requests n WHERE n.repository = $2 AND n.forge_id = rollout_requests.forge_id)",
    // The next event of the pull request brings it back under its new name.
    "DELETE FROM previews WHERE repository = $1 AND repository <> $2",
];

impl Store {
    /// Records the name that an event gives a repository.
    pub async fn recognize_repository(
        &self,
        identity: RepositoryIdentity,
        name: &RepoName,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        // In most cases it is known: that takes no turn to write.
        let record = query(BY_NUMBER, identity.repository).first(&self.readers, DOING).await?;
        let record = record.as_ref().map(read_repository).transpose()?;
        let is_fresh = |record: &RememberedRepository| {
            let at = identity.at.unwrap_or(now);
            record.name == *name
                && record
                    .seen_at
                    .is_some_and(|last_seen| at.duration_since(last_seen) < RECORD_INTERVAL)
        };
        if record.as_ref().is_some_and(is_fresh) {
            return Ok(());
        }
        let mut write = self.begin(DOING).await?;
        recognize(self, &mut write, Some(identity), name, now).await?;
        write.commit().await
    }

    /// Returns the code host's numbers of the repository that has a name; `None` where no event had
    /// them.
    pub async fn repository_identity(
        &self,
        name: &RepoName,
    ) -> Result<Option<RepositoryIdentity>, StoreError> {
        let row = select_identity(name).first(&self.readers, DOING).await?;
        row.as_ref().map(read_identity).transpose()
    }
}

/// Returns the query for the repository that has a name.
pub(super) fn select_identity(name: &RepoName) -> Query {
    query(BY_NAME, name)
}

pub(super) fn read_identity(row: &Row) -> Result<RepositoryIdentity, StoreError> {
    let RememberedRepository { number, owner, seen_at, .. } = read_repository(row)?;
    Ok(RepositoryIdentity { repository: number, owner, at: seen_at })
}

/// Records the name that an event gives a repository; returns its present name, which is another
/// one if the event is from before a change.
///
/// A renamed repository keeps its records, under its new name. One that went to another owner takes
/// its history with it, and no app: an operator decides about those. A new repository with the name
/// of another one gets none of that one's records.
pub(super) async fn recognize(
    store: &Store,
    write: &mut WriteTransaction,
    identity: Option<RepositoryIdentity>,
    name: &RepoName,
    now: Timestamp,
) -> Result<RepoName, StoreError> {
    let Some(RepositoryIdentity { repository: number, owner, at }) = identity else {
        return Ok(name.clone());
    };
    let at = at.unwrap_or(now);
    let record = find(write, number).await?;
    match &record {
        // A late event from before the rename.
        Some(record)
            if record.name != *name && record.seen_at.is_some_and(|last_seen| at < last_seen) =>
        {
            return Ok(record.name.clone());
        }
        Some(record) if record.name == *name => {
            note(write, number, name, owner, record.seen_at.max(Some(at))).await?;
            return Ok(name.clone());
        }
        Some(_) | None => {}
    }
    let mut name = name.clone();
    for other in namesakes(write, number, &name).await? {
        if other.seen_at.is_some_and(|last_seen| at < last_seen) {
            // By now another repository has the name, and this event is from before.
            name = retired_name(&name, number)?;
            break;
        }
        retire(store, write, &other, at).await?;
    }
    if let Some(RememberedRepository { name: former, owner: former_owner, .. }) = &record {
        let is_same_owner = owner.is_some() && owner == *former_owner;
        if is_same_owner || former.had_owner_of(&name) {
            rename(store, write, former, &name).await?;
            tracing::info!(repository = %name, %former, "repository renamed, it keeps its apps");
        } else {
            // Otherwise a new repository of the former name would have them.
            let retired = retired_name(former, number)?;
            execute(write, OWNERS, former, &retired).await?;
            rename_records(store, write, former, &name).await?;
            tracing::warn!(
                repository = %name, %former, %retired,
                "repository transferred to another owner, its apps need `the-deployer owners move`"
            );
        }
    }
    note(write, number, &name, owner, Some(at)).await?;
    Ok(name)
}

const BY_NUMBER: &str =
    "SELECT name AS id, name, number, owner, seen_at FROM repositories WHERE number = $1";

const BY_NAME: &str = "SELECT name AS id, name, number, owner, seen_at FROM repositories \
     WHERE LOWER(name) = LOWER($1) ORDER BY seen_at DESC";

async fn find(
    write: &mut WriteTransaction,
    number: i64,
) -> Result<Option<RememberedRepository>, StoreError> {
    let row = query(BY_NUMBER, number).first(write.sql(), DOING).await?;
    row.as_ref().map(read_repository).transpose()
}

fn read_repository(row: &Row) -> Result<RememberedRepository, StoreError> {
    Ok(RememberedRepository {
        number: row.number("number")?,
        name: row.id("name")?,
        owner: row.maybe_number("owner")?,
        seen_at: row.maybe_time("seen_at")?,
    })
}

/// Returns other repositories that had the name by their last event.
async fn namesakes(
    write: &mut WriteTransaction,
    number: i64,
    name: &RepoName,
) -> Result<Vec<RememberedRepository>, StoreError> {
    let sql = "SELECT name AS id, name, number, owner, seen_at FROM repositories \
         WHERE LOWER(name) = LOWER($1) AND number <> $2";
    let rows = query(sql, (name, number)).fetch_all(write.sql(), DOING).await?;
    rows.iter().map(read_repository).collect()
}

/// Retires the name of another repository. A name has one repository at a time: one that had it
/// before has another name by now, or is gone. Its records wait under a name that no repository can
/// have, until its next event comes, or an operator moves them.
async fn retire(
    store: &Store,
    write: &mut WriteTransaction,
    other: &RememberedRepository,
    at: Timestamp,
) -> Result<(), StoreError> {
    let RememberedRepository { number, name, .. } = other;
    let retired = retired_name(name, *number)?;
    rename(store, write, name, &retired).await?;
    tracing::warn!(repository = %name, %retired, "name reused by another repository, which gets none of the apps");
    note(write, *number, &retired, None, Some(at)).await
}

fn retired_name(name: &RepoName, number: i64) -> Result<RepoName, StoreError> {
    name.retired(number).map_err(|error| StoreError::Corrupt {
        row: name.to_string(),
        column: "name",
        reason: error.to_string(),
    })
}

async fn rename(
    store: &Store,
    write: &mut WriteTransaction,
    from: &RepoName,
    to: &RepoName,
) -> Result<(), StoreError> {
    execute(write, OWNERS, from, to).await?;
    rename_records(store, write, from, to).await
}

async fn rename_records(
    store: &Store,
    write: &mut WriteTransaction,
    from: &RepoName,
    to: &RepoName,
) -> Result<(), StoreError> {
    // A transaction that changes a deployment locks its lane first.
    let sql = store.locking("SELECT target FROM lanes WHERE repository = $1", "FOR UPDATE");
    query(sql, from).fetch_all(write.sql(), DOING).await?;
    let lanes = "INSERT INTO lanes (repository, target) SELECT $2, target FROM lanes \
         WHERE repository = $1 ON CONFLICT DO NOTHING";
    execute(write, lanes, from, to).await?;
    for sql in RECORDS {
        execute(write, sql, from, to).await?;
    }
    Ok(())
}

async fn execute(
    write: &mut WriteTransaction,
    sql: &'static str,
    from: &RepoName,
    to: &RepoName,
) -> Result<(), StoreError> {
    query(sql, (from, to)).execute(write.sql(), DOING).await.map(drop)
}

/// Records the name in a commit, unless the number or the name is known.
pub(super) async fn remember(
    write: &mut WriteTransaction,
    number: i64,
    name: &RepoName,
    at: Timestamp,
) -> Result<(), StoreError> {
    if find(write, number).await?.is_some() || !namesakes(write, number, name).await?.is_empty() {
        return Ok(());
    }
    note(write, number, name, None, Some(at)).await
}

async fn note(
    write: &mut WriteTransaction,
    number: i64,
    name: &RepoName,
    owner: Option<i64>,
    seen_at: Option<Timestamp>,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO repositories (number, name, owner, seen_at) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (number) DO UPDATE SET name = excluded.name, seen_at = excluded.seen_at, \
         owner = COALESCE(excluded.owner, repositories.owner)";
    query(sql, (number, name, owner, seen_at)).execute(write.sql(), DOING).await.map(drop)
}
