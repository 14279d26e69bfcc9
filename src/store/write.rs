//! A write transaction, its turn, and its connection.
//!
//! The transaction is begun and ended by plain SQL, not by sqlx: sqlx counts the nesting of a connection's
//! transactions, and SQLite ends one by itself where it meets a full disk or a fault of the disk.
//! The count is wrong from then on, the pool hands the connection out again, and nothing can begin on
//! it any more. Here a connection goes back to its pool only after its transaction has certainly
//! ended; every other one is closed, and the pool opens another.

use std::sync::Arc;
use std::time::Duration;

use futures::future::OptionFuture;
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, AnyPool, Executor as _, raw_sql};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedMutexGuard, watch};

use crate::store::error::StoreError;

/// The time for a rollback of the transaction: longer than SQLite waits for a lock, a wait that
/// cannot be interrupted. A connection that takes longer is closed.
const LONGEST_ROLLBACK: Duration = Duration::from_secs(15);

/// The time for a close. A server that does not answer would hold it for ever.
const LONGEST_CLOSE: Duration = Duration::from_secs(5);

/// The queue of writers. SQLite has one writer at a time, and makes the others poll. Here they wait
/// in a queue instead, which is fair and wakes them at once; of the workers only the first stands
/// in it, so that an event, whose sender waits, never has more than one of them before it.
#[derive(Debug, Clone, Default)]
pub(super) struct Writers {
    workers: Arc<Mutex<()>>,
    all: Arc<Mutex<()>>,
}

/// The turn to write.
pub(super) struct WriteTurn {
    _all: OwnedMutexGuard<()>,
    _workers: Option<OwnedMutexGuard<()>>,
}

impl Writers {
    pub(super) async fn turn(&self, at_once: bool) -> WriteTurn {
        let workers = if at_once { None } else { Some(Arc::clone(&self.workers)) };
        let workers = OptionFuture::from(workers.map(Mutex::lock_owned)).await;
        WriteTurn { _all: Arc::clone(&self.all).lock_owned().await, _workers: workers }
    }
}

/// A write transaction; without a commit it is undone.
pub(super) struct WriteTransaction {
    /// `None` after the transaction has ended.
    connection: Option<PoolConnection<Any>>,
    turn: Option<WriteTurn>,
    doing: &'static str,
    changed: watch::Sender<()>,
}

impl WriteTransaction {
    pub(super) async fn begin(
        pool: &AnyPool,
        begin: &'static str,
        doing: &'static str,
        turn: Option<WriteTurn>,
        changed: watch::Sender<()>,
    ) -> Result<Self, StoreError> {
        let connection = pool.acquire().await.map_err(StoreError::doing(doing))?;
        let mut write = Self { connection: Some(connection), turn, doing, changed };
        match write.sql().execute(raw_sql(begin)).await {
            Ok(_) => Ok(write),
            Err(error) => Err(write.failed(error).await),
        }
    }

    pub(super) fn sql(&mut self) -> &mut AnyConnection {
        self.connection.as_mut().expect("ending the transaction consumes it")
    }

    pub(super) async fn commit(self) -> Result<(), StoreError> {
        let changed = self.changed.clone();
        self.commit_unannounced().await?;
        changed.send_replace(());
        Ok(())
    }

    /// Commits without a notification of readers.
    pub(super) async fn commit_unannounced(mut self) -> Result<(), StoreError> {
        match self.sql().execute(raw_sql("COMMIT")).await {
            Ok(_) => {
                self.connection = None;
                Ok(())
            }
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// Closes the connection, whose state is unknown.
    async fn failed(mut self, error: sqlx::Error) -> StoreError {
        if let Some(connection) = self.connection.take() {
            close(connection).await;
        }
        StoreError::doing(self.doing)(error)
    }
}

/// Undoes the transaction without a commit: it had nothing to write, a statement failed, or the
/// caller has gone.
impl Drop for WriteTransaction {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        let turn = self.turn.take();
        match Handle::try_current() {
            // The next writer waits until the file is unlocked.
            Ok(runtime) => drop(runtime.spawn(async move {
                roll_back(connection).await;
                drop(turn);
            })),
            // A close ends it too, and no task has to wait for it.
            Err(_) => drop(connection.leak()),
        }
    }
}

/// Gives the connection back to the pool if the database confirms that the transaction is undone.
/// SQLite answers otherwise where the transaction had ended by itself.
async fn roll_back(mut connection: PoolConnection<Any>) {
    let undo = connection.execute(raw_sql("ROLLBACK"));
    if !matches!(tokio::time::timeout(LONGEST_ROLLBACK, undo).await, Ok(Ok(_))) {
        close(connection).await;
    }
}

async fn close(connection: PoolConnection<Any>) {
    let closed = tokio::time::timeout(LONGEST_CLOSE, connection.close()).await;
    if !matches!(closed, Ok(Ok(()))) {
        tracing::debug!("database connection dropped without a proper close");
    }
}
