//! Which repository has which name: a forge's number stays when a repository is renamed. What is a
//! repository's is under its name everywhere; when the name changes, it changes here, in one transaction.

use crate::model::event::RepositoryIdentity;
use crate::model::id::RepoName;
use crate::store::row::Row;
use crate::store::{Store, StoreError, Write};

const DOING: &str = "finding out which repository a name stands for";

/// What is remembered of a repository.
struct Known {
    name: RepoName,
    owner: Option<i64>,
}

/// Every table that has a repository's name, but `lanes`: with what keeps a row from its new name.
const RENAMED: [&str; 5] = [
    "UPDATE owners SET repository = $2 WHERE LOWER(repository) = LOWER($1)",
    "UPDATE deployments SET repository = $2 WHERE repository = $1 AND NOT EXISTS \
     (SELECT 1 FROM deployments n WHERE n.repository = $2 AND n.forge_id = deployments.forge_id)",
    "UPDATE claims SET repository = $2 WHERE repository = $1",
    "UPDATE acts SET repository = $2 WHERE repository = $1",
    // The next event of the pull request brings it back under its new name.
    "DELETE FROM previews WHERE repository = $1 AND repository <> $2",
];

/// Takes note of the name that an event gives a repository.
///
/// One that was renamed keeps what it has, under its new name. One that went to another owner does
/// not: whose apps they are now, a person says. A new repository with the name of another one gets nothing
/// of what that one had.
pub(super) async fn recognize(
    store: &Store,
    write: &mut Write,
    identity: Option<RepositoryIdentity>,
    name: &RepoName,
) -> Result<(), StoreError> {
    let Some(RepositoryIdentity { repository, owner }) = identity else { return Ok(()) };
    let known = find(write, repository).await?;
    if known.as_ref().is_some_and(|known| known.name == *name) {
        return Ok(());
    }
    retire_namesakes(store, write, repository, name).await?;
    if let Some(Known { name: former, owner: former_owner }) = &known {
        let same_owner = owner.is_some() && owner == *former_owner;
        if same_owner || former.has_owner_of(name) {
            rename(store, write, former, name).await?;
            tracing::info!(%former, %name, "a repository was renamed, and keeps its apps");
        } else {
            tracing::warn!(
                %former, %name,
                "a repository went to another owner: a person says whose its apps are (`owners move`)"
            );
        }
    }
    note(write, repository, name, owner).await
}

async fn find(write: &mut Write, number: i64) -> Result<Option<Known>, StoreError> {
    let row = sqlx::query("SELECT name AS id, name, owner FROM repositories WHERE number = $1")
        .bind(number)
        .fetch_optional(write.sql())
        .await
        .map_err(StoreError::doing(DOING))?;
    let Some(row) = row.map(Row::new) else { return Ok(None) };
    Ok(Some(Known { name: row.id("name")?, owner: row.maybe_number("owner")? }))
}

/// A name has one repository at a time: whoever had it before has another one by now, or is gone. What
/// was theirs waits under a name that nobody has, until they come with their new one, or a person says
/// whose it is.
async fn retire_namesakes(
    store: &Store,
    write: &mut Write,
    number: i64,
    name: &RepoName,
) -> Result<(), StoreError> {
    let rows = sqlx::query(
        "SELECT name AS id, name, number FROM repositories \
         WHERE LOWER(name) = LOWER($1) AND number <> $2",
    )
    .bind(name.as_str())
    .bind(number)
    .fetch_all(write.sql())
    .await
    .map_err(StoreError::doing(DOING))?;
    for row in rows.into_iter().map(Row::new) {
        let (theirs, other): (RepoName, i64) = (row.id("name")?, row.number("number")?);
        // A name that is as long as one may be has no room for more.
        let retired = RepoName::parse(format!("{theirs}.former-{other}"))
            .or_else(|_| RepoName::parse(format!("{}/former-{other}", theirs.owner())))
            .map_err(|error| row.corrupt("name", &error))?;
        rename(store, write, &theirs, &retired).await?;
        tracing::warn!(%theirs, %retired, "another repository has this name now, and none of its apps");
        note(write, other, &retired, None).await?;
    }
    Ok(())
}

async fn rename(
    store: &Store,
    write: &mut Write,
    from: &RepoName,
    to: &RepoName,
) -> Result<(), StoreError> {
    // Whoever changes a deployment has its lane first.
    sqlx::query(store.locking("SELECT target FROM lanes WHERE repository = $1", "FOR UPDATE"))
        .bind(from.as_str())
        .fetch_all(write.sql())
        .await
        .map_err(StoreError::doing(DOING))?;
    sqlx::query(
        "INSERT INTO lanes (repository, target) SELECT $2, target FROM lanes WHERE repository = $1 \
         ON CONFLICT DO NOTHING",
    )
    .bind(from.as_str())
    .bind(to.as_str())
    .execute(write.sql())
    .await
    .map_err(StoreError::doing(DOING))?;
    for sql in RENAMED {
        sqlx::query(sql)
            .bind(from.as_str())
            .bind(to.as_str())
            .execute(write.sql())
            .await
            .map_err(StoreError::doing(DOING))?;
    }
    Ok(())
}

async fn note(
    write: &mut Write,
    number: i64,
    name: &RepoName,
    owner: Option<i64>,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO repositories (number, name, owner) VALUES ($1, $2, $3) \
         ON CONFLICT (number) DO UPDATE SET name = excluded.name, \
         owner = COALESCE(excluded.owner, repositories.owner)",
    )
    .bind(number)
    .bind(name.as_str())
    .bind(owner)
    .execute(write.sql())
    .await
    .map(drop)
    .map_err(StoreError::doing(DOING))
}
