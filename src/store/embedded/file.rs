//! The file of the embedded database: where it is, what is in it, and what may go wrong with it.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use secrecy::SecretString;
use sqlx::{AnyConnection, AssertSqlSafe, Connection as _};

use crate::store::connect;
use crate::store::error::StoreError;
use crate::store::row::Row;

/// The file of the embedded database.
#[derive(Debug, Clone)]
pub struct Embedded {
    pub(super) path: PathBuf,
    /// Whether its place depends on where the program was started.
    pub(super) is_relative: bool,
}

/// What is in such a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// The newest migration that its tables had.
    pub migration: i64,
    /// How many deployments it knows.
    pub deployments: u64,
    /// When something of it changed last: a deployment, a lock, an owner, another act.
    pub newest: Option<Timestamp>,
}

/// Why a file was not copied or put back. What was there is as it was.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// Nothing has been stored yet.
    #[error(
        "there is no database at {path}: nothing was stored yet, or the configuration is another one"
    )]
    NotThere {
        /// Where it should be.
        path: PathBuf,
    },
    /// The service runs in another folder.
    #[error(
        "there is no folder {folder}, and its path is relative: name the service's configuration with \
         --config, and start this where the service starts (`WorkingDirectory=` of its unit), or give \
         storage.folder an absolute path"
    )]
    Elsewhere {
        /// Where the folder would be.
        folder: PathBuf,
    },
    /// A backup replaces nothing.
    #[error("{path} is there already, and is not replaced: name a file that is not there")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// It is no database of ours.
    #[error("{path} is no backup of the-deployer: {why}")]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        why: String,
    },
    /// SQLite finds faults in it.
    #[error("{path} is damaged: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The first fault.
        what: String,
    },
    /// A newer version made it.
    #[error(
        "{path} was made by a newer the-deployer (migration {migration}, which this version does not \
         know): restore it with that version or a later one"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// What is not known here.
        migration: i64,
    },
    /// A process has the database open.
    #[error("{path} is in use: stop the service that has it open")]
    InUse {
        /// The database.
        path: PathBuf,
    },
    /// What happened after the backup would be lost.
    #[error(
        "the database at {path} knows more than the backup ({ours}, the backup {theirs}): with \
         --force it is kept beside, and `the-deployer rebuild --merge` brings back what the manifest \
         repositories know of the time since"
    )]
    KnowsMore {
        /// The database.
        path: PathBuf,
        /// What it has.
        ours: Contents,
        /// What the backup has.
        theirs: Contents,
    },
    /// Nobody can tell what would be lost.
    #[error("the database at {path} cannot be read ({why}): with --force it is kept beside")]
    Unreadable {
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        why: String,
    },
    /// The system did not do its part.
    #[error("cannot {doing} {path}: {source}")]
    File {
        /// What we were at: `write`, `make`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// SQLite did not do its part.
    #[error("{path}: {source}")]
    Database {
        /// The file.
        path: PathBuf,
        /// What the driver said.
        source: sqlx::Error,
    },
}

impl EmbeddedError {
    /// Whether we would not, and not could not.
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

    pub(super) fn file<'p>(
        doing: &'static str,
        path: &'p Path,
    ) -> impl Fn(std::io::Error) -> Self + 'p {
        move |source| Self::File { doing, path: path.to_owned(), source }
    }

    pub(super) fn database(path: &Path) -> impl Fn(sqlx::Error) -> Self + '_ {
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

impl Embedded {
    /// The file of a storage URL.
    ///
    /// # Errors
    /// The URL of another database without what is secret in it: that one has tools of its own.
    pub fn of(url: &SecretString) -> Result<Self, String> {
        let is_relative = connect::is_relative(url);
        let found = connect::sqlite_file(url).map(|path| Self { path, is_relative });
        found.ok_or_else(|| connect::shown_url(url))
    }

    /// Refuses a place that depends on where the program was started and where no folder is: the service has
    /// its folder elsewhere then.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Reads a file that nobody writes; it and its folder may be read-only.
pub(super) async fn at_rest(path: &Path) -> Result<AnyConnection, EmbeddedError> {
    let opened = connect::sqlite_connection(path, "mode=ro&immutable=1").await;
    opened.map_err(EmbeddedError::database(path))
}

/// What is in a file at rest that SQLite finds no fault in.
pub(super) async fn proved(path: &Path) -> Result<Contents, EmbeddedError> {
    let mut connection = at_rest(path).await?;
    let looked = look(&mut connection, path).await;
    let _unused = connection.close().await;
    looked
}

pub(super) async fn look(
    connection: &mut AnyConnection,
    path: &Path,
) -> Result<Contents, EmbeddedError> {
    let damaged = |error: sqlx::Error| EmbeddedError::Damaged {
        path: path.to_owned(),
        what: error.to_string(),
    };
    // The first row says `ok`, or the first fault.
    let row = sqlx::query("SELECT integrity_check AS id FROM pragma_integrity_check");
    let row = Row::new(row.fetch_one(&mut *connection).await.map_err(damaged)?);
    match row.text("id") {
        Ok(word) if word == "ok" => contents(connection, path).await,
        Ok(what) => Err(EmbeddedError::Damaged { path: path.to_owned(), what }),
        Err(error) => {
            Err(EmbeddedError::Damaged { path: path.to_owned(), what: error.to_string() })
        }
    }
}

/// Where the time of a change is; earlier versions do not have every table.
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

/// By what every version's tables have.
pub(super) async fn contents(
    connection: &mut AnyConnection,
    path: &Path,
) -> Result<Contents, EmbeddedError> {
    read(connection)
        .await
        .map_err(|error| EmbeddedError::NotOurs { path: path.to_owned(), why: error.to_string() })
}

async fn read(connection: &mut AnyConnection) -> Result<Contents, StoreError> {
    let sql = "SELECT 'contents' AS id, (SELECT MAX(version) FROM _sqlx_migrations) AS migration, \
         (SELECT COUNT(*) FROM deployments) AS deployments";
    let doing = StoreError::doing("reading what is in it");
    let row = Row::new(sqlx::query(sql).fetch_one(&mut *connection).await.map_err(doing)?);
    let (migration, deployments) = (row.number("migration")?, row.count("deployments")?);
    let mut newest = None;
    for (table, column) in TIMES {
        newest = newest.max(last(connection, table, column).await?);
    }
    Ok(Contents { migration, deployments, newest })
}

async fn last(
    connection: &mut AnyConnection,
    table: &'static str,
    column: &'static str,
) -> Result<Option<Timestamp>, StoreError> {
    let there = "SELECT name AS id FROM sqlite_master WHERE type = 'table' AND name = $1";
    let there = sqlx::query(there).bind(table).fetch_optional(&mut *connection).await;
    if there.map_err(StoreError::doing("looking for a table"))?.is_none() {
        return Ok(None);
    }
    // Both are names of ours.
    let sql = AssertSqlSafe(format!("SELECT 'newest' AS id, MAX({column}) AS newest FROM {table}"));
    let row = sqlx::query(sql).fetch_one(connection).await;
    let row = row.map_err(StoreError::doing("looking for the last change"))?;
    Row::new(row).maybe_time("newest")
}

/// A file beside another, with that ending behind its name.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}

/// Makes a file that is not there, for its owner alone.
pub(super) fn make(path: &Path) -> Result<std::fs::File, EmbeddedError> {
    let mut options = std::fs::OpenOptions::new();
    options.create_new(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::AlreadyExists => EmbeddedError::Exists { path: path.to_owned() },
        _ => EmbeddedError::File { doing: "make", path: path.to_owned(), source },
    })
}

/// Until the file and its name are on the disk.
pub(super) fn settle(path: &Path) -> Result<(), EmbeddedError> {
    let sync = || {
        std::fs::File::open(path)?.sync_all()?;
        match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            Some(folder) => std::fs::File::open(folder)?.sync_all(),
            None => std::fs::File::open(".")?.sync_all(),
        }
    };
    sync().map_err(EmbeddedError::file("write", path))
}
