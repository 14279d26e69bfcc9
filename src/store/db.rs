//! The database: its connections, and the beginning of a transaction on each kind.

use std::sync::Arc;

use secrecy::SecretString;
use sqlx::{AnyPool, AssertSqlSafe};
use tokio::sync::watch;

use crate::model::fleets::Fleets;
use crate::model::notice::Subscriptions;
use crate::store::connect::{self, DatabaseBackend};
use crate::store::error::StoreError;
use crate::store::interval_metrics::IntervalMetrics;
use crate::store::query::{Answer, Query, array, ask_all};
use crate::store::readers::Readers;
use crate::store::write::{Signals, WriteConnection, WriteTransaction};
use crate::store::writers::{BEGIN_MEMBER, Durability, Sharing, Writers};

/// The database. Clones share it.
#[derive(Debug, Clone)]
pub struct Store {
    /// The connections for reads.
    pub(super) readers: Readers,
    /// The same, for transactions that a power cut may undo: on PostgreSQL alone.
    pool: AnyPool,
    /// The connections for writes. On SQLite the connection of all writers; on PostgreSQL those of
    /// operations that a caller waits for, so that no other operation is before them.
    pub(super) writers: AnyPool,
    pub(super) kind: DatabaseBackend,
    pub(super) turns: Writers,
    pub(super) subscriptions: Arc<Subscriptions>,
    /// The fleets: locks and holds of their clusters concern them, and the other way about.
    pub(super) fleets: Arc<Fleets>,
    /// The signals of the changes that this process makes.
    pub(super) signals: Signals,
    /// The metrics of the deploy clock.
    pub(super) intervals: IntervalMetrics,
}

impl Store {
    /// Opens the database of a URL and brings its tables up to date.
    ///
    /// A `sqlite:PATH` creates the file and its folder, readable by their owner only; a
    /// `postgres://…` database must exist. A password in the URL appears in no error.
    pub async fn open(url: &SecretString) -> Result<Self, StoreError> {
        let connect::Pools { pool, writers, kind } = connect::pools(url).await?;
        let (turns, subscriptions, fleets) = (Writers::default(), Arc::default(), Arc::default());
        let (signals, intervals) = (Signals::default(), IntervalMetrics::default());
        let readers = Readers::new(pool.clone(), kind);
        Ok(Self { readers, pool, writers, kind, turns, subscriptions, fleets, signals, intervals })
    }

    /// Returns the same database, with messages for these subscriptions from now on.
    #[must_use]
    pub fn with_subscriptions(self, subscriptions: Subscriptions) -> Self {
        Self { subscriptions: Arc::new(subscriptions), ..self }
    }

    /// Returns the same database, with these fleets.
    #[must_use]
    pub fn with_fleets(self, fleets: Fleets) -> Self {
        Self { fleets: Arc::new(fleets), ..self }
    }

    /// Returns the subscriptions.
    pub fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    /// Returns the metrics of the deploy clock.
    pub fn interval_metrics(&self) -> &IntervalMetrics {
        &self.intervals
    }

    /// Returns a receiver that is notified after each change of this process, and not of other
    /// processes.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.signals.changed.subscribe()
    }

    /// Returns a receiver that is notified when this process has ended a deployment of a rollout.
    pub fn rollout_wakes(&self) -> watch::Receiver<()> {
        self.signals.woken.subscribe()
    }

    /// Closes all connections, after the operations under way.
    pub async fn close(&self) {
        // The pool is closed first, and its connections after: a writer that comes now would open
        // another, which would stay with the turn, and the pool would wait for it for ever.
        let writers = self.writers.close();
        self.turns.close().await;
        writers.await;
        self.readers.close().await;
    }

    /// Begins a transaction that a power cut may undo: the work is then found again from the
    /// manifest repository. A killed process loses none.
    pub(super) async fn begin(&self, doing: &'static str) -> Result<WriteTransaction, StoreError> {
        self.begin_as(Durability::Process, Sharing::Alone, false, doing).await
    }

    /// Begins a transaction that a caller waits for, and that survives a power cut once it is
    /// committed.
    pub(super) async fn begin_durable(
        &self,
        doing: &'static str,
    ) -> Result<WriteTransaction, StoreError> {
        self.begin_as(Durability::Disk, Sharing::Alone, true, doing).await
    }

    /// Begins a transaction that may share its commit with others of its kind, see [`Sharing::Shared`].
    pub(super) async fn begin_shared(
        &self,
        durability: Durability,
        doing: &'static str,
    ) -> Result<WriteTransaction, StoreError> {
        let is_urgent = durability == Durability::Disk;
        self.begin_as(durability, Sharing::Shared, is_urgent, doing).await
    }

    /// Runs one statement in a transaction of its own; returns the number of changed rows.
    pub(super) async fn run(
        &self,
        statement: Query,
        doing: &'static str,
    ) -> Result<u64, StoreError> {
        let write = self.begin(doing).await?;
        let [answer] = array(write.commit_with(vec![statement]).await?, doing)?;
        Ok(answer.changed)
    }

    /// Runs queries one after the other, on one connection.
    pub(super) async fn read_all<const N: usize>(
        &self,
        queries: [Query; N],
        doing: &'static str,
    ) -> Result<[Answer; N], StoreError> {
        let mut reader = self.readers.acquire().await.map_err(StoreError::doing(doing))?;
        let answers = ask_all(reader.connection(), self.kind, queries.into(), doing).await?;
        reader.give_back();
        array(answers, doing)
    }

    /// Begins a transaction. On SQLite it waits in the queue of writers, or goes at once before the
    /// workers in it.
    pub(super) async fn begin_as(
        &self,
        durability: Durability,
        sharing: Sharing,
        is_urgent: bool,
        doing: &'static str,
    ) -> Result<WriteTransaction, StoreError> {
        let to_pooled = |connection| WriteConnection::Pooled(Some(connection));
        let connection = match (self.kind, durability) {
            (DatabaseBackend::Sqlite, _) => {
                let turn = self.turns.turn(is_urgent, (durability, sharing), &self.writers).await;
                turn.map(WriteConnection::Turn)
            }
            (DatabaseBackend::Postgres, Durability::Process) => {
                self.pool.acquire().await.map(to_pooled)
            }
            (DatabaseBackend::Postgres, Durability::Disk) => {
                self.writers.acquire().await.map(to_pooled)
            }
        };
        let connection = connection.map_err(StoreError::doing(doing))?;
        // On SQLite, a transaction that begins with a read could find the write lock taken later.
        let begin: &[_] = match (self.kind, durability) {
            _ if connection.is_member() => &[BEGIN_MEMBER],
            (DatabaseBackend::Sqlite, Durability::Process) => {
                &["PRAGMA synchronous = NORMAL", "BEGIN IMMEDIATE"]
            }
            (DatabaseBackend::Sqlite, Durability::Disk) => {
                &["PRAGMA synchronous = FULL", "BEGIN IMMEDIATE"]
            }
            (DatabaseBackend::Postgres, _) => &["BEGIN"],
        };
        Ok(WriteTransaction::new(connection, self.kind, begin, doing, self.signals.clone()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::query::query;

    /// Returns how far the commit of a transaction waits for the disk: 2 is FULL, 1 is NORMAL.
    async fn synchronous(mut write: WriteTransaction) -> i64 {
        let row = query("PRAGMA synchronous", ()).fetch_one(write.sql(), "asking").await.unwrap();
        let number = row.number("synchronous").unwrap();
        write.commit().await.unwrap();
        number
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

    #[tokio::test]
    async fn nothing_follows_a_statement_that_failed() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("a.db").display());
        let store = Store::open(&url.into()).await.unwrap();
        let lane = || query("INSERT INTO lanes (repository, target) VALUES ('a/b', 'c')", ());
        let mut write = store.begin("trying").await.unwrap();
        write.later(lane());
        let failed = query("INSERT INTO nothing VALUES (1)", ()).execute(write.sql(), "trying");
        assert!(failed.await.is_err());
        assert!(lane().execute(write.sql(), "trying").await.is_err());
        write.later(lane());
        assert!(write.commit().await.is_err());
        assert_eq!(store.run(lane(), "trying").await.unwrap(), 1);
    }
}
