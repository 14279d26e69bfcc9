//! What can go wrong with the database, said for the person who runs it.

use std::path::PathBuf;
use std::time::Duration;

use sqlx::migrate::MigrateError;

use crate::model::id::DeployId;
use crate::store::ailment::{Ailment, ailment};

/// What to do about a damaged database.
const WAYS_OUT: &str = "stop the service, and put a backup back with `the-deployer restore FILE \
     --force`; without one, move the database away and make the record again from the manifest \
     repositories with `the-deployer rebuild`";

/// The database could not do what was asked. Nothing of it was done.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The URL names no database that we know.
    #[error("storage url {shown}: {reason}; use sqlite:PATH or postgres://USER@HOST/DATABASE")]
    Url {
        /// The URL without its password.
        shown: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The SQLite file or its folder could not be made.
    #[error("cannot make the database file {path}: {source}; is its folder writable?")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// No connection.
    #[error("cannot open the database {shown}: {source}")]
    Open {
        /// The URL without its password.
        shown: String,
        /// What the driver said.
        source: sqlx::Error,
    },
    /// The tables could not be brought up to date.
    #[error("cannot bring the tables of {shown} up to date: {source}")]
    Migrate {
        /// The URL without its password.
        shown: String,
        /// What the migrator said.
        source: MigrateError,
    },
    /// Another version of us has used the database since, and changed its tables.
    #[error(
        "the tables of {shown} were changed by a newer the-deployer (migration {migration}; this \
         version knows those up to {known}): start that version again, or a later one; to go back, \
         restore a backup from before the upgrade"
    )]
    Newer {
        /// The URL without its password.
        shown: String,
        /// The migration that is not known here.
        migration: i64,
        /// The newest that is.
        known: i64,
    },
    /// A statement failed.
    #[error("the database failed while {doing}: {source}")]
    Query {
        /// What we were at.
        doing: &'static str,
        /// What the driver said.
        source: sqlx::Error,
    },
    /// The database is no database, or its tables contradict each other: found when it was opened.
    #[error("the database {shown} is damaged ({source}): {WAYS_OUT}")]
    DamagedAt {
        /// The URL without its password.
        shown: String,
        /// What the driver said.
        source: sqlx::Error,
    },
    /// The same, found by a statement.
    #[error("the database is damaged ({source}, while {doing}): {WAYS_OUT}")]
    Damaged {
        /// What we were at.
        doing: &'static str,
        /// What the driver said.
        source: sqlx::Error,
    },
    /// A write did not end.
    #[error(
        "the database took no write within {} s: another process may hold its write lock (see \
         `fuser` for a file), or its disk may be slow or not answer", limit.as_secs()
    )]
    NoAnswer {
        /// How long it was waited for.
        limit: Duration,
    },
    /// A row holds what we never wrote.
    #[error("the database holds no legal {column} for {row}: {reason}")]
    Corrupt {
        /// The row, in a reader's words.
        row: String,
        /// The column.
        column: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// There is a deployment of that id already; a new id will do.
    #[error("the deploy id {0} is taken")]
    IdTaken(DeployId),
    /// Another request took the key over while this one was at work.
    #[error(
        "another request with the Idempotency-Key {key} took over: nothing was done for this one; \
         repeat it, and it is answered as that one was"
    )]
    KeyLost {
        /// The key.
        key: String,
    },
}

impl StoreError {
    /// For `map_err`: a failed statement, with what we were at.
    pub(super) fn doing(doing: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| match ailment(&source) {
            Ailment::Damaged => Self::Damaged { doing, source },
            _ => Self::Query { doing, source },
        }
    }

    /// There is no connection to that database.
    pub(super) fn open(shown: String, source: sqlx::Error) -> Self {
        match ailment(&source) {
            Ailment::Damaged => Self::DamagedAt { shown, source },
            _ => Self::Open { shown, source },
        }
    }

    /// The tables of that database are not as this version needs them.
    pub(super) fn migrate(shown: String, source: MigrateError) -> Self {
        match source {
            MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _)
                if ailment(&source) == Ailment::Damaged =>
            {
                Self::DamagedAt { shown, source }
            }
            source => Self::Migrate { shown, source },
        }
    }

    /// What ails the database, as far as its driver tells.
    pub fn ailment(&self) -> Ailment {
        match self {
            Self::Open { source, .. } | Self::Query { source, .. } => ailment(source),
            Self::Damaged { .. } | Self::DamagedAt { .. } => Ailment::Damaged,
            Self::NoAnswer { .. } => Ailment::NoAnswer,
            Self::Url { .. }
            | Self::File { .. }
            | Self::Migrate { .. }
            | Self::Newer { .. }
            | Self::Corrupt { .. }
            | Self::IdTaken(_)
            | Self::KeyLost { .. } => Ailment::Other,
        }
    }
}
