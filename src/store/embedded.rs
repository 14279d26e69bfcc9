//! The embedded database as a file: backup while a service uses it, and restore.
//!
//! A backup is a copy of one moment, made by SQLite itself beside readers and writers, and checked before
//! it gets its name. A restore puts it in the database's place by a rename: until that last step the old database is
//! in place and whole; after it, the old one lies beside. No table is brought up to date here: a backup is made
//! before an upgrade, by the old version.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use secrecy::SecretString;
use sqlx::{AnyConnection, Connection as _};

use crate::store::connect;
use crate::store::error::StoreError;
use crate::store::query::{query, query_of};
use crate::support::ownership;

/// The file of the embedded database.
#[derive(Debug, Clone)]
pub struct Embedded {
    path: PathBuf,
    /// True if its place depends on the working folder of the service.
    is_relative: bool,
}

/// The contents of such a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// The newest migration of its tables.
    pub migration: i64,
    /// The number of its deployments.
    pub deployments: u64,
    /// The time of the last change: of a deployment, a lock, an owner, or another act.
    pub newest: Option<Timestamp>,
}

/// The reason why a file was not copied or restored. The files are as they were.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// Nothing has been stored yet.
    #[error(
        "there is no database at {path}: nothing was stored yet, or the configuration is another one"
    )]
    NotThere {
        /// The place where it should be.
        path: PathBuf,
    },
    /// The service runs in another working folder.
    #[error(
        "there is no folder {folder}, and its path is relative: name the service's configuration with \
         --config, and start this where the service starts (`WorkingDirectory=` of its unit), or give \
         storage.folder an absolute path"
    )]
    Elsewhere {
        /// The folder that does not exist.
        folder: PathBuf,
    },
    /// A backup replaces no file.
    #[error("{path} is there already, and is not replaced: name a file that is not there")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file is no database of the service.
    #[error("{path} is no backup of the-deployer: {why}")]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// The part that is missing.
        why: String,
    },
    /// SQLite finds errors in it.
    #[error("{path} is damaged: {fault}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The first error.
        fault: String,
    },
    /// A newer version wrote it.
    #[error(
        "{path} was made by a newer the-deployer (migration {migration}, which this version does not \
         know): restore it with that version or a later one"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The migration that this version does not know.
        migration: i64,
    },
    /// A process has the database open.
    #[error("{path} is in use: stop the service that has it open")]
    InUse {
        /// The database.
        path: PathBuf,
    },
    /// Changes after the backup would be lost.
    #[error(
        "the database at {path} has changes that the backup does not have ({present}, the backup {backup}): with \
         --force it is kept beside, and `the-deployer rebuild --merge` brings back what the manifest \
         repositories know of the time since"
    )]
    KnowsMore {
        /// The database.
        path: PathBuf,
        /// The contents of the database.
        present: Contents,
        /// The contents of the backup.
        backup: Contents,
    },
    /// The database cannot be read, so the loss is unknown.
    #[error("the database at {path} cannot be read ({why}): with --force it is kept beside")]
    Unreadable {
        /// The database.
        path: PathBuf,
        /// SQLite's error.
        why: String,
    },
    /// A file operation failed.
    #[error("cannot {doing} {path}: {source}")]
    File {
        /// The operation: `write`, `make`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A database operation failed.
    #[error("{path}: {source}")]
    Database {
        /// The file.
        path: PathBuf,
        /// The driver's error.
        source: sqlx::Error,
    },
}

impl EmbeddedError {
    /// Returns true if the program refused, and did not fail.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Exists { .. }
                | Self::Elsewhere { .. }
                | Self::Newer { .. }
                | Self::InUse { .. }
                | Self::KnowsMore { .. }
                | Self::Unreadable { .. }
        )
    }

    fn file<'p>(doing: &'static str, path: &'p Path) -> impl Fn(std::io::Error) -> Self + 'p {
        move |source| Self::File { doing, path: path.to_owned(), source }
    }

    fn database(path: &Path) -> impl Fn(sqlx::Error) -> Self + '_ {
        move |source| Self::Database { path: path.to_owned(), source }
    }
}

impl std::fmt::Display for Contents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.deployments, self.newest) {
            (0, _) | (_, None) => f.write_str("no deployments"),
            (1, Some(newest)) => write!(f, "1 deployment, the last change at {newest}"),
            (n, Some(newest)) => write!(f, "{n} deployments, the last change at {newest}"),
        }
    }
}

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreResult {
    /// The path of the database.
    pub database: PathBuf,
    /// Its present contents.
    pub contents: Contents,
    /// The path of the database before it; `None` where there was none.
    pub former: Option<PathBuf>,
}

/// The journals that SQLite keeps beside a database in use. They would destroy another database.
const JOURNALS: [&str; 3] = ["-wal", "-shm", "-journal"];

impl Embedded {
    /// Returns the file of a storage URL.
    ///
    /// # Errors
    /// The URL of another database without its secrets: that one has tools of its own.
    pub fn from_url(url: &SecretString) -> Result<Self, String> {
        let is_relative = connect::is_relative(url);
        let file = connect::sqlite_file(url).map(|path| Self { path, is_relative });
        file.ok_or_else(|| connect::shown_url(url))
    }

    /// Refuses a relative place whose folder does not exist: the service runs in another working
    /// folder then.
    ///
    /// # Errors
    /// [`EmbeddedError::Elsewhere`]
    pub fn refuse_elsewhere(&self) -> Result<(), EmbeddedError> {
        let folder = self.path.parent().unwrap_or(&self.path);
        if self.is_relative && !folder.is_dir() {
            return Err(EmbeddedError::Elsewhere { folder: folder.to_owned() });
        }
        Ok(())
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Copies the database into a new file that only its owner can read. A service may be running
    /// on it; the copy is of one moment, and whole.
    ///
    /// # Errors
    /// [`EmbeddedError`]; then there is no file.
    pub async fn backup(&self, file: &Path) -> Result<Contents, EmbeddedError> {
        if !self.path().is_file() {
            return Err(EmbeddedError::NotThere { path: self.path().to_owned() });
        }
        // Reserves the name, so that two backups never write one file.
        drop(create_private(file)?);
        let part = sibling(file, &format!(".part-{}", std::process::id()));
        let result = self.copy_into(&part, file).await;
        if result.is_err() {
            let _nothing_of_it_is_left = (std::fs::remove_file(&part), std::fs::remove_file(file));
        }
        result
    }

    async fn copy_into(&self, part: &Path, file: &Path) -> Result<Contents, EmbeddedError> {
        // SQLite accepts an empty file; this one has its permissions already.
        drop(create_private(part)?);
        let path = part.to_str().ok_or_else(|| EmbeddedError::File {
            doing: "write",
            path: part.to_owned(),
            source: std::io::Error::other("SQLite takes a path in UTF-8 only"),
        })?;
        let to_error = EmbeddedError::database(self.path());
        let mut connection =
            connect::sqlite_connection(self.path(), "mode=rw").await.map_err(&to_error)?;
        let copy = sqlx::query("VACUUM INTO $1").bind(path).execute(&mut connection).await;
        let _unused = connection.close().await;
        copy.map_err(&to_error)?;
        let contents = check_contents(part).await?;
        sync_to_disk(part)?;
        std::fs::rename(part, file).map_err(EmbeddedError::file("write", file))?;
        sync_to_disk(file)?;
        Ok(contents)
    }

    /// Puts a backup in the database's place; the file that was there gets `suffix` behind its name. With
    /// `force` also where that has changes that the backup does not have, or cannot be read.
    ///
    /// Messages that wait in the backup may have been sent since: each is searched for before it is
    /// sent. The caller must hold the storage folder alone.
    ///
    /// # Errors
    /// [`EmbeddedError`]; then the database is what it was.
    pub async fn restore(
        &self,
        file: &Path,
        suffix: &str,
        force: bool,
    ) -> Result<RestoreResult, EmbeddedError> {
        let backup = self.check(file).await?;
        if self.path().exists() {
            match self.contents_at_rest().await {
                Ok(present) if present.knows_more_than(&backup) && !force => {
                    let path = self.path().to_owned();
                    return Err(EmbeddedError::KnowsMore { path, present, backup });
                }
                Err(error @ EmbeddedError::InUse { .. }) => return Err(error),
                Err(error) if !force => {
                    let (path, why) = (self.path().to_owned(), error.to_string());
                    return Err(EmbeddedError::Unreadable { path, why });
                }
                Ok(_) | Err(_) => {}
            }
        }
        let part = sibling(self.path(), &format!(".restoring-{}", std::process::id()));
        let result = self.replace(file, &part, suffix).await;
        if result.is_err() {
            let _not_there = std::fs::remove_file(&part);
        }
        Ok(RestoreResult { database: self.path().to_owned(), contents: backup, former: result? })
    }

    /// Returns the contents of a backup, if this version can use it.
    async fn check(&self, file: &Path) -> Result<Contents, EmbeddedError> {
        if !file.is_file() {
            return Err(EmbeddedError::NotThere { path: file.to_owned() });
        }
        let path = file.to_owned();
        if JOURNALS.iter().any(|journal| sibling(file, journal).exists()) {
            let why = "SQLite's journal lies beside it, so it is a database in use; make a backup of \
                       it with `the-deployer backup`";
            return Err(EmbeddedError::NotOurs { path, why: why.to_owned() });
        }
        let contents = check_contents(file).await?;
        match unknown_migration(file).await? {
            Some(migration) => Err(EmbeddedError::Newer { path, migration }),
            None => Ok(contents),
        }
    }

    /// Returns the contents of the database, after everything is in its one file: that works only
    /// if no other process has it open.
    async fn contents_at_rest(&self) -> Result<Contents, EmbeddedError> {
        let path = self.path();
        let to_error = EmbeddedError::database(path);
        let mut connection =
            connect::sqlite_connection(path, "mode=rw").await.map_err(&to_error)?;
        let rest = sqlx::query("PRAGMA journal_mode = DELETE").fetch_one(&mut connection).await;
        let result = match rest {
            Ok(_) => contents(&mut connection, path).await,
            Err(error) if is_busy(&error) => Err(EmbeddedError::InUse { path: path.to_owned() }),
            Err(error) => Err(to_error(error)),
        };
        let _unused = connection.close().await;
        result
    }

    async fn replace(
        &self,
        file: &Path,
        part: &Path,
        suffix: &str,
    ) -> Result<Option<PathBuf>, EmbeddedError> {
        let path = self.path();
        if let Some(folder) = path.parent() {
            ownership::create_folders(folder).map_err(EmbeddedError::file("make", folder))?;
        }
        let mut copy = create_private(part)?;
        let mut original = std::fs::File::open(file).map_err(EmbeddedError::file("read", file))?;
        std::io::copy(&mut original, &mut copy).map_err(EmbeddedError::file("write", part))?;
        drop(copy);
        copy_ownership(part, path).map_err(EmbeddedError::file("write", part))?;
        mark_messages_unsure(part).await?;
        sync_to_disk(part)?;
        let old_path = if path.exists() { Some(keep_second_name(path, suffix)?) } else { None };
        std::fs::rename(part, path).map_err(EmbeddedError::file("write", path))?;
        sync_to_disk(path)?;
        Ok(old_path)
    }
}

/// Opens a file that no process writes; it and its folder may be read-only.
async fn open_at_rest(path: &Path) -> Result<AnyConnection, EmbeddedError> {
    let connection = connect::sqlite_connection(path, "mode=ro&immutable=1").await;
    connection.map_err(EmbeddedError::database(path))
}

/// Reads the contents of a file in which SQLite finds no error.
async fn check_contents(path: &Path) -> Result<Contents, EmbeddedError> {
    let mut connection = open_at_rest(path).await?;
    let result = check_integrity(&mut connection, path).await;
    let _unused = connection.close().await;
    result
}

async fn check_integrity(
    connection: &mut AnyConnection,
    path: &Path,
) -> Result<Contents, EmbeddedError> {
    // The first row says `ok`, or the first fault.
    let row = sqlx::query_scalar("SELECT integrity_check FROM pragma_integrity_check");
    match row.fetch_one(&mut *connection).await {
        Ok(word) if word == "ok" => contents(connection, path).await,
        Ok(fault) => Err(EmbeddedError::Damaged { path: path.to_owned(), fault }),
        Err(error) => {
            Err(EmbeddedError::Damaged { path: path.to_owned(), fault: error.to_string() })
        }
    }
}

/// The columns with the time of a change; earlier versions do not have every table.
const TIMES: [(&str, &str); 10] = [
    ("deployments", "received_at"),
    ("deployments", "finished_at"),
    ("acts", "asked_at"),
    ("acts", "finished_at"),
    ("locks", "since"),
    ("locks", "removed_at"),
    ("owners", "since"),
    ("holds", "since"),
    ("holds", "ended_at"),
    ("audit", "at"),
];

/// Reads the contents from the tables that every version has.
async fn contents(connection: &mut AnyConnection, path: &Path) -> Result<Contents, EmbeddedError> {
    read(connection)
        .await
        .map_err(|error| EmbeddedError::NotOurs { path: path.to_owned(), why: error.to_string() })
}

async fn read(connection: &mut AnyConnection) -> Result<Contents, StoreError> {
    let sql = "SELECT 'contents' AS id, (SELECT MAX(version) FROM _sqlx_migrations) AS migration, \
         (SELECT COUNT(*) FROM deployments) AS deployments";
    let row = query(sql, ()).fetch_one(&mut *connection, "reading what is in it").await?;
    let (migration, deployments) = (row.number("migration")?, row.count("deployments")?);
    let mut newest = None;
    for (table, column) in TIMES {
        newest = newest.max(last_change(connection, table, column).await?);
    }
    Ok(Contents { migration, deployments, newest })
}

async fn last_change(
    connection: &mut AnyConnection,
    table: &'static str,
    column: &'static str,
) -> Result<Option<Timestamp>, StoreError> {
    let table_row = "SELECT name AS id FROM sqlite_master WHERE type = 'table' AND name = $1";
    let table_row = query(table_row, table).first(&mut *connection, "looking for a table").await?;
    if table_row.is_none() {
        return Ok(None);
    }
    // Both names are constants.
    let sql = format!("SELECT 'newest' AS id, MAX({column}) AS newest FROM {table}");
    let row = query_of(sql, ()).fetch_one(connection, "looking for the last change").await?;
    row.maybe_time("newest")
}

/// Returns the path beside another, with that ending behind its name.
fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// Creates a file that only its owner can read; it must not exist.
fn create_private(path: &Path) -> Result<std::fs::File, EmbeddedError> {
    let mut options = std::fs::OpenOptions::new();
    options.create_new(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::AlreadyExists => EmbeddedError::Exists { path: path.to_owned() },
        _ => EmbeddedError::File { doing: "make", path: path.to_owned(), source },
    })
}

/// Waits until the file and its name are on the disk.
fn sync_to_disk(path: &Path) -> Result<(), EmbeddedError> {
    let sync = || {
        std::fs::File::open(path)?.sync_all()?;
        match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            Some(folder) => std::fs::File::open(folder)?.sync_all(),
            None => std::fs::File::open(".")?.sync_all(),
        }
    };
    sync().map_err(EmbeddedError::file("write", path))
}

/// Gives the new database the owner and the mode of the one before it, or the owner of its folder:
/// the service must be able to open it, whoever restores the backup.
fn copy_ownership(part: &Path, path: &Path) -> std::io::Result<()> {
    match std::fs::metadata(path) {
        Ok(metadata) => {
            std::fs::set_permissions(part, metadata.permissions())?;
            ownership::give_to_owner_of(part, &metadata)
        }
        Err(_none) => ownership::give_to_folder_owner(part),
    }
}

impl Contents {
    /// Returns true if changes would be lost if the other one took its place.
    fn knows_more_than(&self, other: &Self) -> bool {
        self.newest > other.newest || self.deployments > other.deployments
    }
}

/// Gives the old database a second name, so that its own name is never without a database; copies
/// it where the file system has no links. Its journals, if it could not be brought to rest, go with
/// it.
fn keep_second_name(path: &Path, suffix: &str) -> Result<PathBuf, EmbeddedError> {
    let old_path = sibling(path, suffix);
    if std::fs::hard_link(path, &old_path).is_err() {
        drop(create_private(&old_path)?);
        std::fs::copy(path, &old_path).map_err(EmbeddedError::file("write", &old_path))?;
    }
    for journal in JOURNALS {
        let (from, to) = (sibling(path, journal), sibling(&old_path, journal));
        if from.exists() {
            std::fs::rename(&from, &to).map_err(EmbeddedError::file("move", &from))?;
        }
    }
    Ok(old_path)
}

/// Returns the first migration of a file that this version does not know.
async fn unknown_migration(path: &Path) -> Result<Option<i64>, EmbeddedError> {
    let to_error = EmbeddedError::database(path);
    let mut connection = open_at_rest(path).await?;
    let sql = "SELECT version FROM _sqlx_migrations ORDER BY version";
    let versions = sqlx::query_scalar(sql).fetch_all(&mut connection).await;
    let _unused = connection.close().await;
    let versions: Vec<i64> = versions.map_err(to_error)?;
    Ok(versions.into_iter().find(|version| !connect::knows_migration(*version)))
}

/// Marks the waiting messages of the outbox as in doubt: they may have been sent after the backup.
async fn mark_messages_unsure(path: &Path) -> Result<(), EmbeddedError> {
    let to_error = EmbeddedError::database(path);
    let mut connection = connect::sqlite_connection(path, "mode=rw").await.map_err(&to_error)?;
    let result = mark_unsure(&mut connection).await;
    let _unused = connection.close().await;
    result.map_err(to_error)
}

/// Marks messages where the outbox has the column for it; before that version it searched for every
/// message.
async fn mark_unsure(connection: &mut AnyConnection) -> Result<(), sqlx::Error> {
    let column = "SELECT name FROM pragma_table_info('outbox') WHERE name = 'unsure'";
    if sqlx::query(column).fetch_optional(&mut *connection).await?.is_some() {
        let sql = "UPDATE outbox SET unsure = 1 WHERE outcome IS NULL";
        sqlx::query(sql).execute(&mut *connection).await?;
    }
    Ok(())
}

fn is_busy(error: &sqlx::Error) -> bool {
    // SQLITE_BUSY; its variants are in the higher bits.
    let code =
        error.as_database_error().and_then(|error| error.code().map(std::borrow::Cow::into_owned));
    code.and_then(|code| code.parse::<i64>().ok()).is_some_and(|code| code & 0xff == 5)
}
