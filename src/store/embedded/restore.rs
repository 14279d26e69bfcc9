//! A backup takes the database's place. Until the last step, a rename, the old one is in place and
//! whole; after it, it lies beside.

use std::path::{Path, PathBuf};

use sqlx::{AnyConnection, Connection as _};

use crate::store::connect;
use crate::store::embedded::file::{
    Contents, Embedded, EmbeddedError, at_rest, beside, contents, make, proved, settle,
};
use crate::store::row::Row;
use crate::support::ownership;

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Where the database is.
    pub database: PathBuf,
    /// What it has now.
    pub contents: Contents,
    /// Where the one before it lies; `None` where there was none.
    pub kept: Option<PathBuf>,
}

/// SQLite keeps these beside a database in use. Of another database, they would be its ruin.
const JOURNALS: [&str; 3] = ["-wal", "-shm", "-journal"];

impl Embedded {
    /// Puts a backup in the database's place; what was there gets `suffix` behind its name. With
    /// `force` also where it knows more than the backup, or cannot be read.
    ///
    /// Messages that wait in the backup may have been sent since: each is looked for before it is
    /// sent. Whoever calls has the storage folder to themselves.
    ///
    /// # Errors
    /// [`EmbeddedError`]; then the database is what it was.
    pub async fn restore(
        &self,
        file: &Path,
        suffix: &str,
        force: bool,
    ) -> Result<Restored, EmbeddedError> {
        let theirs = self.checked(file).await?;
        if self.path().exists() {
            match self.at_rest().await {
                Ok(ours) if ours.knows_more_than(&theirs) && !force => {
                    let path = self.path().to_owned();
                    return Err(EmbeddedError::KnowsMore { path, ours, theirs });
                }
                Err(error @ EmbeddedError::InUse { .. }) => return Err(error),
                Err(error) if !force => {
                    let (path, why) = (self.path().to_owned(), error.to_string());
                    return Err(EmbeddedError::Unreadable { path, why });
                }
                Ok(_) | Err(_) => {}
            }
        }
        let part = beside(self.path(), &format!(".restoring-{}", std::process::id()));
        let placed = self.placed(file, &part, suffix).await;
        if placed.is_err() {
            let _not_there = std::fs::remove_file(&part);
        }
        Ok(Restored { database: self.path().to_owned(), contents: theirs, kept: placed? })
    }

    /// What a backup has, if it is one that this version can use.
    async fn checked(&self, file: &Path) -> Result<Contents, EmbeddedError> {
        if !file.is_file() {
            return Err(EmbeddedError::NotThere { path: file.to_owned() });
        }
        let path = file.to_owned();
        if JOURNALS.iter().any(|journal| beside(file, journal).exists()) {
            let why = "SQLite's journal lies beside it, so it is a database in use; make a backup of \
                       it with `the-deployer backup`";
            return Err(EmbeddedError::NotOurs { path, why: why.to_owned() });
        }
        let contents = proved(file).await?;
        match unknown(file).await? {
            Some(migration) => Err(EmbeddedError::Newer { path, migration }),
            None => Ok(contents),
        }
    }

    /// What the database has, once everything is in its one file: that works only if nobody else
    /// has it open.
    async fn at_rest(&self) -> Result<Contents, EmbeddedError> {
        let path = self.path();
        let failed = EmbeddedError::database(path);
        let mut connection = connect::sqlite_connection(path, "mode=rw").await.map_err(&failed)?;
        let rest = sqlx::query("PRAGMA journal_mode = DELETE").fetch_one(&mut connection).await;
        let looked = match rest {
            Ok(_) => contents(&mut connection, path).await,
            Err(error) if is_busy(&error) => Err(EmbeddedError::InUse { path: path.to_owned() }),
            Err(error) => Err(failed(error)),
        };
        let _unused = connection.close().await;
        looked
    }

    async fn placed(
        &self,
        file: &Path,
        part: &Path,
        suffix: &str,
    ) -> Result<Option<PathBuf>, EmbeddedError> {
        let path = self.path();
        if let Some(folder) = path.parent() {
            ownership::create_folders(folder).map_err(EmbeddedError::file("make", folder))?;
        }
        let mut copy = make(part)?;
        let mut original = std::fs::File::open(file).map_err(EmbeddedError::file("read", file))?;
        std::io::copy(&mut original, &mut copy).map_err(EmbeddedError::file("write", part))?;
        drop(copy);
        as_before(part, path).map_err(EmbeddedError::file("write", part))?;
        unsure(part).await?;
        settle(part)?;
        let kept = if path.exists() { Some(keep(path, suffix)?) } else { None };
        std::fs::rename(part, path).map_err(EmbeddedError::file("write", path))?;
        settle(path)?;
        Ok(kept)
    }
}

/// Gives the new database the owner and the mode of the one before it, or the owner of its folder: the
/// service has to come in again, whoever puts the backup back.
fn as_before(part: &Path, path: &Path) -> std::io::Result<()> {
    match std::fs::metadata(path) {
        Ok(before) => {
            std::fs::set_permissions(part, before.permissions())?;
            ownership::give_to_owner_of(part, &before)
        }
        Err(_none) => ownership::give_to_folder_owner(part),
    }
}

impl Contents {
    /// Whether something would be lost if the other one took its place.
    fn knows_more_than(&self, other: &Self) -> bool {
        self.newest > other.newest || self.deployments > other.deployments
    }
}

/// A second name for what is there, so that its own name is never without a database; a copy where
/// the disk knows no second names. Its journals, if it could not be brought to rest, go with it.
fn keep(path: &Path, suffix: &str) -> Result<PathBuf, EmbeddedError> {
    let kept = beside(path, suffix);
    if std::fs::hard_link(path, &kept).is_err() {
        drop(make(&kept)?);
        std::fs::copy(path, &kept).map_err(EmbeddedError::file("write", &kept))?;
    }
    for journal in JOURNALS {
        let (from, to) = (beside(path, journal), beside(&kept, journal));
        if from.exists() {
            std::fs::rename(&from, &to).map_err(EmbeddedError::file("move", &from))?;
        }
    }
    Ok(kept)
}

/// The first migration of a file that this version does not know.
async fn unknown(path: &Path) -> Result<Option<i64>, EmbeddedError> {
    let failed = EmbeddedError::database(path);
    let mut connection = at_rest(path).await?;
    let sql = "SELECT version AS id, version FROM _sqlx_migrations ORDER BY version";
    let rows = sqlx::query(sql).fetch_all(&mut connection).await;
    let _unused = connection.close().await;
    let versions = rows.map_err(failed)?.into_iter().map(|row| Row::new(row).number("version"));
    let versions: Result<Vec<i64>, _> = versions.collect();
    let versions = versions.map_err(|error| EmbeddedError::NotOurs {
        path: path.to_owned(),
        why: error.to_string(),
    })?;
    Ok(versions.into_iter().find(|version| !connect::knows_migration(*version)))
}

/// What waits in the outbox may have been sent after the backup.
async fn unsure(path: &Path) -> Result<(), EmbeddedError> {
    let failed = EmbeddedError::database(path);
    let mut connection = connect::sqlite_connection(path, "mode=rw").await.map_err(&failed)?;
    let marked = mark(&mut connection).await;
    let _unused = connection.close().await;
    marked.map_err(failed)
}

/// Before the outbox knew who may have got what, it asked about everything.
async fn mark(connection: &mut AnyConnection) -> Result<(), sqlx::Error> {
    let knows = "SELECT name FROM pragma_table_info('outbox') WHERE name = 'unsure'";
    if sqlx::query(knows).fetch_optional(&mut *connection).await?.is_some() {
        let sql = "UPDATE outbox SET unsure = 1 WHERE outcome IS NULL";
        sqlx::query(sql).execute(&mut *connection).await?;
    }
    Ok(())
}

fn is_busy(error: &sqlx::Error) -> bool {
    // SQLITE_BUSY; what comes with it is in the higher bits.
    let code =
        error.as_database_error().and_then(|error| error.code().map(std::borrow::Cow::into_owned));
    code.and_then(|code| code.parse::<i64>().ok()).is_some_and(|code| code & 0xff == 5)
}
