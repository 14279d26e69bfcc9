//! A transaction that writes, its turn, and the connection that it has.
//!
//! The transaction is begun and ended by plain SQL, not by sqlx: sqlx counts how deep a connection is
//! in transactions, and SQLite ends one by itself where it meets a full disk or a fault of the disk.
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

/// How long it may take to undo a transaction: longer than SQLite waits for a lock, which it does not
/// give up for us. A connection that takes longer is closed.
const LONGEST_ROLLBACK: Duration = Duration::from_secs(15);

/// How long closing may take. A server that does not answer would hold it for ever.
const LONGEST_CLOSE: Duration = Duration::from_secs(5);

/// SQLite has one writer at a time, and makes the others poll. Here they wait in a row instead,
/// which is fair and wakes them at once; and of the workers only the first stands in it, so
/// that an event, whose sender waits, never has more than one of them before it.
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

/// A transaction that writes; without a commit it never was.
pub(super) struct WriteTransaction {
    /// None after the transaction has ended.
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
        self.connection.as_mut().expect("whoever ends the transaction owns it")
    }

    pub(super) async fn commit(self) -> Result<(), StoreError> {
        let changed = self.changed.clone();
        self.commit_unannounced().await?;
        changed.send_replace(());
        Ok(())
    }

    /// Commits what nobody waits for.
    pub(super) async fn commit_unannounced(mut self) -> Result<(), StoreError> {
        match self.sql().execute(raw_sql("COMMIT")).await {
            Ok(_) => {
                self.connection = None;
                Ok(())
            }
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// Closes the connection, whose state is not known any more.
    async fn failed(mut self, error: sqlx::Error) -> StoreError {
        if let Some(connection) = self.connection.take() {
            close(connection).await;
        }
        StoreError::doing(self.doing)(error)
    }
}

/// Without a commit: it had nothing to write, a statement failed, or the caller has gone.
impl Drop for WriteTransaction {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        let turn = self.turn.take();
        match Handle::try_current() {
            // The next writer waits until the file is free again.
            Ok(runtime) => drop(runtime.spawn(async move {
                roll_back(connection).await;
                drop(turn);
            })),
            // Closing it is its end too, and needs nobody to wait for it.
            Err(_) => drop(connection.leak()),
        }
    }
}

/// Gives the connection back if the database says that it has undone the transaction. SQLite says
/// otherwise where it had ended by itself.
async fn roll_back(mut connection: PoolConnection<Any>) {
    let undo = connection.execute(raw_sql("ROLLBACK"));
    if !matches!(tokio::time::timeout(LONGEST_ROLLBACK, undo).await, Ok(Ok(_))) {
        close(connection).await;
    }
}

async fn close(connection: PoolConnection<Any>) {
    let closed = tokio::time::timeout(LONGEST_CLOSE, connection.close()).await;
    if !matches!(closed, Ok(Ok(()))) {
        tracing::debug!("a connection to the database was given up without a farewell");
    }
}
