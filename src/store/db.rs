//! The database: its connections, and how a transaction is begun on each kind.

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
    /// On SQLite the connection of all that write; on PostgreSQL those of what somebody waits for: nobody else
    /// stands before that.
    pub(super) writers: AnyPool,
    pub(super) kind: DatabaseBackend,
    pub(super) turns: Writers,
    pub(super) audience: Arc<Subscriptions>,
    /// Rings after each change of this process's.
    pub(super) changed: watch::Sender<()>,
}

impl Store {
    /// Opens the database of a URL and brings its tables up to date.
    ///
    /// `sqlite:PATH` makes the file and its folder, readable by their owner only;
    /// `postgres://…` must exist. A password in the URL appears in no error.
    pub async fn open(url: &SecretString) -> Result<Self, StoreError> {
        let connect::Pools { pool, writers, kind } = connect::pools(url).await?;
        let (turns, audience) = (Writers::default(), Arc::default());
        let changed = watch::Sender::new(());
        Ok(Self { pool, writers, kind, turns, audience, changed })
    }

    /// The same database, with messages for these from now on.
    #[must_use]
    pub fn telling(self, audience: Subscriptions) -> Self {
        Self { audience: Arc::new(audience), ..self }
    }

    /// Whom messages are left for.
    pub fn audience(&self) -> &Subscriptions {
        &self.audience
    }

    /// Rings after each change that this process makes; what others change it does not hear of.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Closes all connections, after the operations under way.
    pub async fn close(&self) {
        self.writers.close().await;
        self.pool.close().await;
    }

    /// A transaction of which a power cut may take back the last ones: what is left to do is found out again
    /// from the manifest repository. A killed process loses none.
    pub(super) async fn begin(&self, doing: &'static str) -> Result<WriteTransaction, StoreError> {
        self.begin_as(Durability::Process, false, doing).await
    }

    /// A transaction that somebody waits for, and that survives a power cut once it is committed.
    pub(super) async fn begin_durable(
        &self,
        doing: &'static str,
    ) -> Result<WriteTransaction, StoreError> {
        self.begin_as(Durability::Disk, true, doing).await
    }

    /// One statement in a transaction of its own; how many rows it changed.
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

    /// On SQLite in its turn, or, at once, before the workers that wait for theirs.
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
        // On SQLite, one that begins by reading could find the write lock taken in its middle.
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

    /// A statement about the rows that a query finds; on PostgreSQL about those of them that nobody else
    /// is at, so that it waits for nobody.
    pub(super) fn skipping_locked(&self, statement: &str, query: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(match self.kind {
            DatabaseBackend::Sqlite => format!("{statement}{query})"),
            DatabaseBackend::Postgres => format!("{statement}{query} FOR UPDATE SKIP LOCKED)"),
        })
    }

    /// SQL with the row lock that PostgreSQL needs; SQLite's writer is alone anyway.
    pub(super) fn locking(&self, sql: &str, lock: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(match self.kind {
            DatabaseBackend::Sqlite => sql.to_owned(),
            DatabaseBackend::Postgres => format!("{sql} {lock}"),
        })
    }
}

/// What a committed transaction survives.
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

    /// How far the commit of a transaction waits for the disk: 2 is FULL, 1 is NORMAL.
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
