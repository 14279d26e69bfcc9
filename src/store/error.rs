//! Errors of the database, worded for the operator by the driver's error. Pure.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::MigrateError;

use crate::model::id::DeployId;

/// The way out of a damaged database.
const WAYS_OUT: &str = "stop the service, and restore a backup with `the-deployer restore FILE \
     --force`; without a backup, move the database away and rebuild the record from the manifest \
     repositories with `the-deployer rebuild`";

/// An operation of the database failed. Nothing of it was done.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The URL names no supported database.
    #[error(
        "storage url {display_url}: {reason}; use sqlite:PATH or postgres://USER@HOST/DATABASE"
    )]
    Url {
        /// The URL without its password.
        display_url: String,
        /// The error in the URL.
        reason: String,
    },
    /// The SQLite file or its folder could not be created.
    #[error("cannot create the database file {path}: {source}; is its folder writable?")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// There is no connection.
    #[error("cannot open the database {display_url}: {source}")]
    Open {
        /// The URL without its password.
        display_url: String,
        /// The driver's error.
        source: sqlx::Error,
    },
    /// The tables could not be brought up to date.
    #[error("cannot bring the tables of {display_url} up to date: {source}")]
    Migrate {
        /// The URL without its password.
        display_url: String,
        /// The migrator's error.
        source: MigrateError,
    },
    /// A newer version of the service has used the database, and changed its tables.
    #[error(
        "the tables of {display_url} were changed by a newer the-deployer (migration {migration}; this \
         version knows those up to {newest_known}): start that version again, or a later one; to go back, \
         restore a backup from before the upgrade"
    )]
    Newer {
        /// The URL without its password.
        display_url: String,
        /// The migration that this version does not know.
        migration: i64,
        /// The newest migration that it knows.
        newest_known: i64,
    },
    /// A statement failed.
    #[error("the database failed while {doing}: {source}")]
    Query {
        /// The operation.
        doing: &'static str,
        /// The driver's error.
        source: sqlx::Error,
    },
    /// The one commit of several operations failed.
    #[error("the database failed while {doing}, in one commit with others: {source}")]
    Shared {
        /// The operation.
        doing: &'static str,
        /// The driver's error.
        source: Arc<sqlx::Error>,
    },
    /// The file is no database, or its tables contradict each other: found when it was opened.
    #[error("the database {display_url} is damaged ({source}): {WAYS_OUT}")]
    DamagedAt {
        /// The URL without its password.
        display_url: String,
        /// The driver's error.
        source: sqlx::Error,
    },
    /// The same error, found by a statement.
    #[error("the database is damaged ({source}, while {doing}): {WAYS_OUT}")]
    Damaged {
        /// The operation.
        doing: &'static str,
        /// The driver's error.
        source: sqlx::Error,
    },
    /// A write did not end in time.
    #[error(
        "the database took no write within {} s: another process may hold its write lock (see \
         `fuser` for a file), or its disk may be slow or not answer", limit.as_secs()
    )]
    NoAnswer {
        /// The time limit.
        limit: Duration,
    },
    /// A row holds a value that the service never wrote.
    #[error("the database has an invalid {column} for {row}: {reason}")]
    Corrupt {
        /// The row, worded for people.
        row: String,
        /// The column.
        column: &'static str,
        /// The error in it.
        reason: String,
    },
    /// There is a deployment of that id already; the caller draws a new id.
    #[error("the deploy id {0} is taken")]
    IdTaken(DeployId),
    /// Another request took the idempotency key over while this one was running.
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
    /// Returns a function for `map_err` that wraps a failed statement with its operation.
    pub(super) fn doing(doing: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| match ailment(&source) {
            Ailment::Damaged => Self::Damaged { doing, source },
            _ => Self::Query { doing, source },
        }
    }

    /// Returns the error for a connection that failed.
    pub(super) fn open(display_url: String, source: sqlx::Error) -> Self {
        match ailment(&source) {
            Ailment::Damaged => Self::DamagedAt { display_url, source },
            _ => Self::Open { display_url, source },
        }
    }

    /// Returns the error for tables that could not be brought up to date.
    pub(super) fn migrate(display_url: String, source: MigrateError) -> Self {
        match source {
            MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _)
                if ailment(&source) == Ailment::Damaged =>
            {
                Self::DamagedAt { display_url, source }
            }
            source => Self::Migrate { display_url, source },
        }
    }

    /// Returns the fault of the database, as far as its driver tells.
    pub fn ailment(&self) -> Ailment {
        match self {
            Self::Open { source, .. } | Self::Query { source, .. } => ailment(source),
            Self::Shared { source, .. } => ailment(source),
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

/// A fault of a database. Its text is public: no names, no paths, no secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ailment {
    /// There is no room for a write.
    #[error("room: its disk is full")]
    Full,
    /// Another process has the lock that a write needs.
    #[error("its write lock, which another process holds")]
    Locked,
    /// The file system or the account allows no write.
    #[error("the right to write: it is read-only")]
    ReadOnly,
    /// The data on the disk is not what was written.
    #[error("a repair: it is damaged, see the log")]
    Damaged,
    /// The disk fails.
    #[error("its disk, which fails or has no room")]
    Disk,
    /// The file cannot be opened.
    #[error("its file, which cannot be opened: it is gone, or too many are open")]
    NotOpened,
    /// There is no connection, or it broke off.
    #[error("a connection")]
    Unreachable,
    /// A write did not end in time.
    #[error("the end of a write: another process may hold its write lock, or it is slow")]
    NoAnswer,
    /// Another fault; only the log has it.
    #[error("a write that succeeds, see the log")]
    Other,
}

fn ailment(error: &sqlx::Error) -> Ailment {
    match error {
        sqlx::Error::Database(error) => {
            error.code().map_or(Ailment::Other, |code| parse_code(code.as_ref()))
        }
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => Ailment::Unreachable,
        _ => Ailment::Other,
    }
}

/// Returns the fault for an error code. PostgreSQL has codes of five characters ("PostgreSQL Error
/// Codes"), SQLite has numbers of at most four digits, whose low byte is the kind ("Result and
/// Error Codes").
fn parse_code(code: &str) -> Ailment {
    if code.len() == 5 {
        return match code {
            "53100" => Ailment::Full,
            "55P03" => Ailment::Locked,
            "25006" => Ailment::ReadOnly,
            "XX001" | "XX002" => Ailment::Damaged,
            "58030" => Ailment::Disk,
            "57014" => Ailment::NoAnswer,
            _ if code.starts_with("08") || code.starts_with("57P") || code == "53300" => {
                Ailment::Unreachable
            }
            _ => Ailment::Other,
        };
    }
    match code.parse::<u32>().map(|code| code & 0xff) {
        Ok(13) => Ailment::Full,
        Ok(5 | 6) => Ailment::Locked,
        Ok(8) => Ailment::ReadOnly,
        Ok(11 | 26) => Ailment::Damaged,
        Ok(10) => Ailment::Disk,
        Ok(14) => Ailment::NotOpened,
        Ok(_) | Err(_) => Ailment::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_both_databases_are_told_apart() {
        for (code, means) in [
            ("13", Ailment::Full),
            ("5", Ailment::Locked),
            ("517", Ailment::Locked),
            ("1032", Ailment::ReadOnly),
            ("11", Ailment::Damaged),
            ("26", Ailment::Damaged),
            ("778", Ailment::Disk),
            ("14", Ailment::NotOpened),
            ("2067", Ailment::Other),
            ("53100", Ailment::Full),
            ("55P03", Ailment::Locked),
            ("XX001", Ailment::Damaged),
            ("57P01", Ailment::Unreachable),
            ("23505", Ailment::Other),
            ("", Ailment::Other),
        ] {
            assert_eq!(parse_code(code), means, "{code}");
        }
    }
}
