//! The database: its connections, and the beginning of a transaction on each kind.

use std::sync::Arc;

use secrecy::SecretString;
use sqlx::{AnyPool, AssertSqlSafe};
use tokio::sync::watch;

use crate::model::notice::Subscriptions;
use crate::store::connect::{self, DatabaseBackend};
use crate::store::error::StoreError;
use crate::store::query::Query;
use crate::store::write::{WriteTransaction, Writers};

/// The database. Clones share it.
#[derive(Debug, Clone)]
pub struct Store {
    pub(super) pool: AnyPool,
    /// The connections for writes. On SQLite the connection of all writers; on PostgreSQL those of
    /// operations that a caller waits for, so that no other operation is before them.
    pub(super) writers: AnyPool,
    pub(super) kind: DatabaseBackend,
    pub(super) turns: Writers,
    pub(super) subscriptions: Arc<Subscriptions>,
    /// Notified after each change of this process.
    pub(super) changed: watch::Sender<()>,
}

impl Store {
    /// Opens the database of a URL and brings its tables up to date.
    ///
    /// A `sqlite:PATH` creates the file and its folder, readable by their owner only; a
    /// `postgres://…` database must exist. A password in the URL appears in no error.
    pub async fn open(url: &SecretString) -> Result<Self, StoreError> {
        let connect::Pools { pool, writers, kind } = connect::pools(url).await?;
        let (turns, subscriptions) = (Writers::default(), Arc::default());
        let changed = watch::Sender::new(());
        Ok(Self { pool, writers, kind, turns, subscriptions, changed })
    }

    /// Returns the same database, with messages for these subscriptions from now on.
    #[must_use]
    pub fn with_subscriptions(self, subscriptions: Subscriptions) -> Self {
        Self { subscriptions: Arc::new(subscriptions), ..self }
    }

    /// Returns the subscriptions.
    pub fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    /// Returns a receiver that is notified after each change of this process, and not of other
    /// processes.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Closes all connections, after the operations under way.
    pub async fn close(&self) {
        self.writers.close().await;
        self.pool.close().await;
    }

    /// Begins a transaction that a power cut may undo: the work is then found again from the
    /// manifest repository. A killed process loses none.
    pub(super) async fn begin(&self, doing: &'static str) -> Result<WriteTransaction, StoreError> {
        self.begin_as(Durability::Process, false, doing).await
    }

    /// Begins a transaction that a caller waits for, and that survives a power cut once it is
    /// committed.
    pub(super) async fn begin_durable(
        &self,
        doing: &'static str,
    ) -> Result<WriteTransaction, StoreError> {
        self.begin_as(Durability::Disk, true, doing).await
    }

    /// Runs one statement in a transaction of its own; returns the number of changed rows.
    pub(super) async fn run(
        &self,
        statement: Query,
        doing: &'static str,
    ) -> Result<u64, StoreError> {
        let mut write = self.begin(doing).await?;
        let changed = statement.execute(write.sql(), doing).await?;
        write.commit().await?;
        Ok(changed)
    }

    /// Begins a transaction. On SQLite it waits in the queue of writers, or goes at once before the
    /// workers in it.
    pub(super) async fn begin_as(
        &self,
        durability: Durability,
        at_once: bool,
        doing: &'static str,
    ) -> Result<WriteTransaction, StoreError> {
        let turn = match self.kind {
            DatabaseBackend::Sqlite => Some(self.turns.turn(at_once).await),
            DatabaseBackend::Postgres => None,
        };
        let pool = match (self.kind, durability) {
            (DatabaseBackend::Postgres, Durability::Process) => &self.pool,
            _ => &self.writers,
        };
        // On SQLite, a transaction that begins with a read could find the write lock taken later.
        let begin = match (self.kind, durability) {
            (DatabaseBackend::Sqlite, Durability::Process) => {
                "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE"
            }
            (DatabaseBackend::Sqlite, Durability::Disk) => {
                "PRAGMA synchronous = FULL; BEGIN IMMEDIATE"
            }
            (DatabaseBackend::Postgres, _) => "BEGIN",
        };
        WriteTransaction::begin(pool, begin, doing, turn, self.changed.clone()).await
    }

    /// Returns a statement about the rows that a query finds; on PostgreSQL only those that no
    /// other transaction has locked, so that it waits for none.
    pub(super) fn skipping_locked(&self, statement: &str, query: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(match self.kind {
            DatabaseBackend::Sqlite => format!("{statement}{query})"),
            DatabaseBackend::Postgres => format!("{statement}{query} FOR UPDATE SKIP LOCKED)"),
        })
    }

    /// Returns SQL with the row lock that PostgreSQL needs; SQLite's writer is alone anyway.
    pub(super) fn locking(&self, sql: &str, lock: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(match self.kind {
            DatabaseBackend::Sqlite => sql.to_owned(),
            DatabaseBackend::Postgres => format!("{sql} {lock}"),
        })
    }
}

/// The event that a committed transaction survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// The end of the process.
    Process,
    /// A power cut too: the commit waits for the disk.
    Disk,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::query::query;

    /// Returns how far the commit of a transaction waits for the disk: 2 is FULL, 1 is NORMAL.
    async fn synchronous(mut write: WriteTransaction) -> i64 {
        let row = query("PRAGMA synchronous", ()).one(write.sql(), "asking").await.unwrap();
        let found = row.number("synchronous").unwrap();
        write.commit().await.unwrap();
        found
    }

    #[tokio::test]
    async fn what_somebody_waits_for_is_on_the_disk_and_nothing_else_waits_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("a.db").display());
        let store = Store::open(&url.into()).await.unwrap();
        for _ in 0..2 {
            assert_eq!(synchronous(store.begin_durable("trying").await.unwrap()).await, 2);
            assert_eq!(synchronous(store.begin("trying").await.unwrap()).await, 1);
        }
    }
}
