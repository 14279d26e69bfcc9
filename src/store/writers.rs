//! The queue of SQLite's writers, and the transaction that those in it share.
//!
//! SQLite has one writer at a time, and makes the others poll. Here they wait in a queue instead, which is fair and
//! wakes them at once; of the workers only the first stands in it, so that an event, whose sender waits, never has more
//! than one of them before it.
//!
//! A commit writes every page that its transaction has changed, and most of them are those of the one before. So a
//! writer with others behind it does not commit: it leaves its transaction open for them, each has a savepoint in
//! it, and one commit ends it for all. The commit gets in the queue behind those who wait already, so that the first
//! does not wait for ever. Nobody is told of success before it; the failure of one undoes its savepoint alone.
//!
//! Only operations that ask for it share ([`Sharing`]): what a member has read may be another's that is not
//! committed yet, so it must not tell its caller of it before the commit either.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::OptionFuture;
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyPool, Executor as _, raw_sql};
use tokio::sync::{Mutex, OwnedMutexGuard, watch};

use crate::store::error::StoreError;

/// The time for a close. A server that does not answer would hold it for ever.
const LONGEST_CLOSE: Duration = Duration::from_secs(5);

/// Begins what a member does in a shared transaction, ends it, and undoes it.
pub(super) const BEGIN_MEMBER: &str = "SAVEPOINT member";
pub(super) const END_MEMBER: &str = "RELEASE member";
const UNDO_MEMBER: &str = "ROLLBACK TO member; RELEASE member";

/// The event that a committed transaction survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// The end of the process.
    Process,
    /// A power cut too: the commit waits for the disk.
    Disk,
}

impl Durability {
    /// Returns true if a commit of this kind is enough for what must survive the other event.
    fn covers(self, wanted: Self) -> bool {
        self == Self::Disk || wanted == Self::Process
    }
}

/// Whether a transaction may share its commit with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// It begins after a commit, and ends with one.
    Alone,
    /// It may see what others have not committed yet: its caller learns nothing, but of a failure, without a commit.
    Shared,
}

/// The queue of writers. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Writers {
    workers: Arc<Mutex<()>>,
    writer: Arc<Mutex<Writer>>,
    /// Those who wait for their turn and may share.
    waiting: Arc<Waiting>,
}

/// The numbers of those who wait and may share, by what their commit must survive.
#[derive(Debug, Default)]
struct Waiting {
    process: AtomicUsize,
    disk: AtomicUsize,
}

/// Counts a writer that waits, until it is dropped.
struct Waits<'a>(&'a AtomicUsize);

/// The connection of the writer that has the turn. It stays here: its pool would test it at each return.
#[derive(Debug, Default)]
struct Writer {
    connection: Option<PoolConnection<Any>>,
    shared: Option<SharedTransaction>,
    /// True from the beginning of a turn to its known end: nothing is done on a connection that somebody has left in
    /// the middle.
    is_in_use: bool,
}

/// The transaction that is open on the connection. If this is dropped, its members have failed.
#[derive(Debug)]
struct SharedTransaction {
    durability: Durability,
    end: watch::Sender<Option<CommitResult>>,
}

type CommitResult = Result<(), Arc<sqlx::Error>>;

/// The end of a shared transaction, for one that has its changes in it.
pub(super) struct SharedEnd(watch::Receiver<Option<CommitResult>>);

/// The turn to write.
pub(super) struct WriteTurn {
    writer: OwnedMutexGuard<Writer>,
    durability: Durability,
    sharing: Sharing,
    writers: Writers,
    _workers: Option<OwnedMutexGuard<()>>,
}

impl Waiting {
    fn count(&self, durability: Durability) -> &AtomicUsize {
        match durability {
            Durability::Process => &self.process,
            Durability::Disk => &self.disk,
        }
    }
}

impl<'a> Waits<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Writers {
    /// Waits for the turn.
    pub(super) async fn turn(
        &self,
        is_urgent: bool,
        (durability, sharing): (Durability, Sharing),
        pool: &AnyPool,
    ) -> Result<WriteTurn, sqlx::Error> {
        let waits =
            (sharing == Sharing::Shared).then(|| Waits::new(self.waiting.count(durability)));
        let (mut writer, workers) = self.lock(is_urgent).await;
        drop(waits);
        let is_other = |shared: &SharedTransaction| {
            sharing == Sharing::Alone || !shared.durability.covers(durability)
        };
        if writer.is_in_use || writer.shared.as_ref().is_some_and(is_other) {
            // A task of its own: others wait for this commit too, also where this caller goes away.
            let ending = tokio::spawn(end_shared(writer)).await;
            writer = ending.map_err(|_| sqlx::Error::WorkerCrashed)?;
        }
        if writer.connection.is_none() {
            writer.connection = Some(pool.acquire().await?);
        }
        writer.is_in_use = true;
        Ok(WriteTurn { writer, durability, sharing, writers: self.clone(), _workers: workers })
    }

    async fn lock(
        &self,
        is_urgent: bool,
    ) -> (OwnedMutexGuard<Writer>, Option<OwnedMutexGuard<()>>) {
        let workers = if is_urgent { None } else { Some(Arc::clone(&self.workers)) };
        let workers = OptionFuture::from(workers.map(Mutex::lock_owned)).await;
        (Arc::clone(&self.writer).lock_owned().await, workers)
    }

    /// Closes the connection, after the operations under way.
    pub(super) async fn close(&self) {
        let mut writer = end_shared(Arc::clone(&self.writer).lock_owned().await).await;
        close(&mut writer.connection).await;
    }
}

impl WriteTurn {
    /// Returns true if a transaction is open, so that this one becomes a member of it.
    pub(super) fn is_member(&self) -> bool {
        self.writer.shared.is_some()
    }

    /// Returns true if somebody waits who could become a member.
    pub(super) fn is_awaited(&self) -> bool {
        let may_join = |durability| {
            let count = self.writers.waiting.count(durability);
            self.durability.covers(durability) && count.load(Ordering::Relaxed) > 0
        };
        self.sharing == Sharing::Shared
            && [Durability::Process, Durability::Disk].into_iter().any(may_join)
    }

    pub(super) fn connection(&mut self) -> &mut Option<PoolConnection<Any>> {
        &mut self.writer.connection
    }

    /// Leaves the transaction open for those who wait, and gives them the turn.
    pub(super) fn leave_open(mut self) -> SharedEnd {
        let Self { writer, durability, writers, .. } = &mut self;
        writer.is_in_use = false;
        if let Some(shared) = &writer.shared {
            return SharedEnd(shared.end.subscribe());
        }
        let (end, receiver) = watch::channel(None);
        writer.shared = Some(SharedTransaction { durability: *durability, end });
        let (writers, is_urgent) = (writers.clone(), *durability == Durability::Disk);
        tokio::spawn(async move {
            let (writer, _workers) = writers.lock(is_urgent).await;
            end_shared(writer).await
        });
        SharedEnd(receiver)
    }

    /// Ends the turn: the transaction has ended, or has not begun.
    pub(super) fn end(mut self) {
        self.writer.is_in_use = false;
    }

    /// Undoes what the member did, and nothing of the others. Returns false if that is not certain.
    pub(super) async fn undo_member(&mut self) -> bool {
        let Some(connection) = self.connection() else { return false };
        let Err(error) = connection.execute(raw_sql(UNDO_MEMBER)).await else { return true };
        // It has not begun, or has ended and cannot be undone: its caller went away just then. If the transaction itself
        // is gone, another one can begin.
        let says = |error: &sqlx::Error, words: &str| error.to_string().contains(words);
        says(&error, "no such savepoint")
            && connection
                .execute(raw_sql("BEGIN"))
                .await
                .is_err_and(|error| says(&error, "within a transaction"))
    }

    /// Closes the connection; the next turn opens another. Members of its transaction have failed.
    pub(super) async fn close(&mut self) {
        self.writer.shared = None;
        close(self.connection()).await;
    }
}

impl SharedEnd {
    /// Waits for the commit.
    pub(super) async fn committed(mut self, doing: &'static str) -> Result<(), StoreError> {
        let result = match self.0.wait_for(Option::is_some).await {
            Ok(result) => result.clone(),
            Err(_dropped) => None,
        };
        let lost = || Arc::new(sqlx::Error::Protocol("the transaction was undone".to_owned()));
        let result = result.unwrap_or_else(|| Err(lost()));
        result.map_err(|source| StoreError::Shared { doing, source })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A return to its pool needs a runtime.
        drop(self.connection.take().map(PoolConnection::leak));
    }
}

/// Commits the shared transaction, if there is one, and tells its members. Where somebody has left the connection in the
/// middle, it is closed, and they have failed.
async fn end_shared(mut writer: OwnedMutexGuard<Writer>) -> OwnedMutexGuard<Writer> {
    if std::mem::take(&mut writer.is_in_use) {
        writer.shared = None;
        close(&mut writer.connection).await;
    }
    let Some(shared) = writer.shared.take() else { return writer };
    let result = match &mut writer.connection {
        Some(connection) => connection.execute(sqlx::query("COMMIT")).await.map(drop),
        None => Err(sqlx::Error::PoolClosed),
    };
    if result.is_err() {
        // Its state is unknown.
        close(&mut writer.connection).await;
    }
    shared.end.send_replace(Some(result.map_err(Arc::new)));
    writer
}

/// Closes a connection; the next transaction opens another.
pub(super) async fn close(connection: &mut Option<PoolConnection<Any>>) {
    let Some(connection) = connection.take() else { return };
    let result = tokio::time::timeout(LONGEST_CLOSE, connection.close()).await;
    if !matches!(result, Ok(Ok(()))) {
        tracing::debug!("database connection dropped without a proper close");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use futures::future::join_all;

    use super::*;
    use crate::store::db::Store;
    use crate::store::error::Ailment;
    use crate::store::query::{Query, query};
    use crate::store::write::WriteTransaction;

    const DOING: &str = "trying";

    async fn open(folder: &Path) -> Store {
        let url = format!("sqlite:{}", folder.join("a.db").display());
        Store::open(&url.into()).await.unwrap()
    }

    async fn shared(store: &Store) -> Result<WriteTransaction, StoreError> {
        store.begin_shared(Durability::Process, DOING).await
    }

    fn lane(n: usize) -> Query {
        query("INSERT INTO lanes (repository, target) VALUES ($1, 'prod')", format!("a/{n}"))
    }

    async fn write(store: &Store, n: usize) -> Result<(), StoreError> {
        let mut write = shared(store).await?;
        lane(n).execute(write.sql(), DOING).await?;
        write.commit().await
    }

    async fn lanes(store: &Store) -> Vec<String> {
        let rows = query("SELECT repository FROM lanes ORDER BY repository", ());
        let rows = rows.fetch_all(&store.readers, DOING).await.unwrap();
        rows.iter().map(|row| row.text("repository").unwrap()).collect()
    }

    /// Returns how far the commit of a transaction waits for the disk: 2 is FULL, 1 is NORMAL.
    async fn synchronous(write: &mut WriteTransaction) -> i64 {
        let row = query("PRAGMA synchronous", ()).fetch_one(write.sql(), DOING).await.unwrap();
        row.number("synchronous").unwrap()
    }

    /// Lets the tasks go on until each of them waits.
    async fn let_wait() {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn those_who_wait_share_one_commit() {
        const COUNT: usize = 40;
        let logs = async |is_together: bool| {
            let folder = tempfile::tempdir().unwrap();
            let store = open(folder.path()).await;
            let log =
                || std::fs::metadata(folder.path().join("a.db-wal")).map_or(0, |log| log.len());
            let before = log();
            if is_together {
                join_all((0..COUNT).map(|n| write(&store, n))).await
            } else {
                let mut results = Vec::new();
                for n in 0..COUNT {
                    results.push(write(&store, n).await);
                }
                results
            }
            .into_iter()
            .collect::<Result<Vec<_>, _>>()
            .unwrap();
            assert_eq!(lanes(&store).await.len(), COUNT);
            log() - before
        };
        let (one_by_one, together) = (logs(false).await, logs(true).await);
        assert!(together * 8 < one_by_one, "{together} bytes against {one_by_one}");
    }

    #[tokio::test]
    async fn the_failure_of_one_undoes_what_it_did_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).await;
        let act = async |n: usize| {
            let mut write = shared(&store).await?;
            lane(n).execute(write.sql(), DOING).await?;
            if n % 3 == 1 {
                query("INSERT INTO nothing VALUES (1)", ()).execute(write.sql(), DOING).await?;
            }
            if n % 3 == 2 {
                // The last statements go with the end.
                write.later(lane(n));
            }
            write.commit().await
        };
        let results = join_all((0..9).map(act)).await;
        let is_good: Vec<bool> = results.iter().map(Result::is_ok).collect();
        assert_eq!(is_good, [true, false, false].repeat(3), "{results:?}");
        assert_eq!(lanes(&store).await, ["a/0", "a/3", "a/6"]);
        write(&store, 9).await.unwrap();
    }

    #[tokio::test]
    async fn where_the_commit_fails_none_is_told_of_success() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).await;
        for sql in [
            "CREATE TABLE parents (id TEXT PRIMARY KEY)",
            "CREATE TABLE children (parent TEXT REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)",
        ] {
            store.run(query(sql, ()), DOING).await.unwrap();
        }
        let act = async |n: usize| {
            let mut write = shared(&store).await?;
            lane(n).execute(write.sql(), DOING).await?;
            if n == 3 {
                write.later(query("INSERT INTO children VALUES ('nobody')", ()));
            }
            write.commit().await
        };
        let mut first = shared(&store).await.unwrap();
        lane(0).execute(first.sql(), DOING).await.unwrap();
        let first = async {
            let_wait().await;
            first.commit().await
        };
        let (result, mut results) = tokio::join!(first, join_all((1..6).map(act)));
        results.push(result);
        for result in results {
            let error = result.unwrap_err();
            assert_eq!(error.ailment(), Ailment::Other);
            assert_eq!(
                error.to_string(),
                "the database failed while trying, in one commit with others: error returned from \
                 database: (code: 787) FOREIGN KEY constraint failed"
            );
        }
        assert_eq!(lanes(&store).await, Vec::<String>::new());
        write(&store, 7).await.unwrap();
        assert_eq!(lanes(&store).await, ["a/7"]);
    }

    #[tokio::test]
    async fn what_must_survive_a_power_cut_is_in_no_commit_that_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).await;
        let mut first = shared(&store).await.unwrap();
        lane(1).execute(first.sql(), DOING).await.unwrap();
        let worker = tokio::spawn({
            let store = store.clone();
            async move {
                let mut write = shared(&store).await.unwrap();
                let level = synchronous(&mut write).await;
                write.commit().await.unwrap();
                level
            }
        });
        let_wait().await;
        let event = tokio::spawn({
            let store = store.clone();
            async move {
                let mut write = store.begin_shared(Durability::Disk, DOING).await.unwrap();
                let (level, seen) = (synchronous(&mut write).await, lanes(&store).await);
                write.commit().await.unwrap();
                (level, seen)
            }
        });
        let_wait().await;
        first.commit().await.unwrap();
        assert_eq!(event.await.unwrap(), (2, vec!["a/1".to_owned()]), "committed before it began");
        // What need not survive one joins what does.
        assert_eq!(worker.await.unwrap(), 2);
    }

    #[tokio::test]
    async fn one_that_does_not_share_sees_only_what_is_committed() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).await;
        let mut first = shared(&store).await.unwrap();
        lane(1).execute(first.sql(), DOING).await.unwrap();
        let alone = async {
            let mut write = store.begin(DOING).await.unwrap();
            // Another connection sees what is committed, and nothing else.
            let before = lanes(&store).await;
            lane(3).execute(write.sql(), DOING).await.unwrap();
            let_wait().await;
            write.commit().await.unwrap();
            before
        };
        let first = async {
            let_wait().await;
            first.commit().await.unwrap();
        };
        let (before, (), second) = tokio::join!(alone, first, write(&store, 2));
        second.unwrap();
        assert_eq!(before, ["a/1"]);
        assert_eq!(lanes(&store).await, ["a/1", "a/2", "a/3"]);
    }

    /// A temporary table is of one connection.
    #[tokio::test]
    async fn the_connection_stays_after_every_good_end_and_is_closed_after_an_unknown_one() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).await;
        let run = async |sql: &'static str| store.run(query(sql, ()), DOING).await;
        run("CREATE TEMP TABLE here (n BIGINT)").await.unwrap();
        join_all((0..5).map(|n| write(&store, n))).await;
        drop(shared(&store).await.unwrap());
        let mut undone = shared(&store).await.unwrap();
        lane(9).execute(undone.sql(), DOING).await.unwrap();
        drop(undone);
        run("INSERT INTO here VALUES (1)").await.unwrap();
        // As a runtime that ends would leave it.
        let turn = store.turns.turn(true, (Durability::Disk, Sharing::Alone), &store.writers);
        let mut turn = turn.await.unwrap();
        let begin = turn.connection().as_mut().unwrap().execute(raw_sql("BEGIN IMMEDIATE")).await;
        begin.unwrap();
        drop(turn);
        assert!(run("INSERT INTO here VALUES (2)").await.is_err(), "another connection");
        write(&store, 10).await.unwrap();
    }

    #[tokio::test]
    async fn a_shared_transaction_is_committed_when_the_database_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).await;
        let writes = join_all((0..8).map(|n| write(&store, n)));
        let close = async {
            let_wait().await;
            store.close().await;
        };
        let (results, ()) = tokio::join!(writes, close);
        let stored = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(lanes(&open(folder.path()).await).await.len(), stored);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_that_goes_away_takes_nobody_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path()).await;
        for round in 0..60 {
            let writes = (0..12).map(|n| {
                let store = store.clone();
                tokio::spawn(async move { write(&store, round * 100 + n).await })
            });
            let writes: Vec<_> = writes.collect();
            for (n, write) in writes.iter().enumerate().skip(1).step_by(3) {
                tokio::time::sleep(Duration::from_micros(((round * 7 + n) % 40) as u64 * 10)).await;
                write.abort();
            }
            for (n, write) in writes.into_iter().enumerate() {
                match write.await {
                    Ok(result) => result.unwrap(),
                    Err(error) => assert!(error.is_cancelled() && n % 3 == 1),
                }
                // Whoever was told of success has it.
            }
            let stored = lanes(&store).await;
            let stays = (0..12).filter(|n| n % 3 != 1);
            for n in stays {
                assert!(stored.contains(&format!("a/{}", round * 100 + n)), "{n} in round {round}");
            }
        }
    }
}
