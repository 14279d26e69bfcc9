//! The connections for reads.
//!
//! SQLite's connection is a thread, and the pool asks it for a sign of life after each use: a read would take two round
//! trips. Here those of SQLite stay at hand after a read that came to its end, and the one that was used last goes
//! first: it has in memory what it has read. After an error, or where the caller has gone, a connection goes back to
//! the pool, which tests it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, AnyPool};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::store::connect::DatabaseBackend;
use crate::support::sync::lock;

/// The connections for reads. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Readers {
    pool: AnyPool,
    /// The connections at hand; `None` where each goes back to its pool.
    at_hand: Option<Arc<AtHand>>,
}

#[derive(Debug)]
struct AtHand {
    connections: Mutex<Vec<PoolConnection<Any>>>,
    /// As many as the pool has connections.
    places: Arc<Semaphore>,
    patience: Duration,
}

/// A connection for one read.
pub(super) struct ReadConnection<'a> {
    connection: PoolConnection<Any>,
    readers: &'a Readers,
    _place: Option<OwnedSemaphorePermit>,
}

impl Readers {
    pub(super) fn new(pool: AnyPool, kind: DatabaseBackend) -> Self {
        let options = pool.options();
        let at_hand = || AtHand {
            connections: Mutex::default(),
            places: Arc::new(Semaphore::new(options.get_max_connections() as usize)),
            patience: options.get_acquire_timeout(),
        };
        let at_hand = (kind == DatabaseBackend::Sqlite).then(|| Arc::new(at_hand()));
        Self { pool, at_hand }
    }

    /// Returns a connection, as soon as one is free.
    pub(super) async fn acquire(&self) -> Result<ReadConnection<'_>, sqlx::Error> {
        let Some(at_hand) = &self.at_hand else {
            let connection = self.pool.acquire().await?;
            return Ok(ReadConnection { connection, readers: self, _place: None });
        };
        let place = Arc::clone(&at_hand.places).acquire_owned();
        let place = tokio::time::timeout(at_hand.patience, place).await;
        let place = place.map_err(|_| sqlx::Error::PoolTimedOut)?;
        let place = Some(place.map_err(|_| sqlx::Error::PoolClosed)?);
        let last_used = lock(&at_hand.connections).pop();
        let connection = match last_used {
            Some(connection) => connection,
            None => self.pool.acquire().await?,
        };
        Ok(ReadConnection { connection, readers: self, _place: place })
    }

    /// Closes all connections, after the reads under way.
    pub(super) async fn close(&self) {
        // None is kept at hand from now on.
        let closing = self.pool.close();
        if let Some(at_hand) = &self.at_hand {
            lock(&at_hand.connections).clear();
        }
        closing.await;
    }
}

impl ReadConnection<'_> {
    pub(super) fn connection(&mut self) -> &mut AnyConnection {
        &mut self.connection
    }

    /// Gives the connection back after a read that came to its end.
    pub(super) fn give_back(self) {
        let Self { connection, readers, _place } = self;
        let Some(at_hand) = &readers.at_hand else { return };
        let mut connections = lock(&at_hand.connections);
        if !readers.pool.is_closed() {
            connections.push(connection);
        }
    }
}

impl Drop for AtHand {
    fn drop(&mut self) {
        // A return to the pool needs a runtime.
        for connection in lock(&self.connections).drain(..) {
            drop(connection.leak());
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;

    use crate::store::db::Store;
    use crate::store::query::query_of;

    #[tokio::test]
    async fn more_reads_than_connections_wait_for_one_another_and_a_failure_takes_none_away() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("a.db").display());
        let store = Store::open(&url.into()).await.unwrap();
        let read = async |n: usize| {
            let column = if n.is_multiple_of(3) { "nothing" } else { "id" };
            let sql = format!("SELECT {column} FROM deployments");
            query_of(sql, ()).fetch_all(&store.readers, "trying").await
        };
        for _ in 0..3 {
            let results = join_all((0..60).map(read)).await;
            let good = results.iter().filter(|result| result.is_ok()).count();
            assert_eq!(good, 40);
        }
        store.close().await;
        assert!(read(1).await.is_err(), "closed");
    }
}
