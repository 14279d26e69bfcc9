//! A write transaction, and its connection.
//!
//! Statements whose answers are not needed wait for the next one, and go to the database with it: those
//! that begin the transaction go with the first statement, and the last ones with the commit.
//!
//! The transaction is begun and ended by plain SQL, not by sqlx: sqlx counts the nesting of a connection's
//! transactions, and SQLite ends one by itself where it meets a full disk or a fault of the disk.
//! The count is wrong from then on, the pool hands the connection out again, and nothing can begin on
//! it any more. Here a connection is used again only after its transaction has certainly
//! ended; every other one is closed, and the pool opens another.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use sqlx::pool::PoolConnection;
use sqlx::{Any, Executor as _, raw_sql};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::model::id::DeployId;
use crate::store::connect::DatabaseBackend;
use crate::store::error::StoreError;
use crate::store::followers;
use crate::store::query::{Answer, Executor, Query, array, ask_all, query};
use crate::store::row::Row;
use crate::store::writers::{self, END_MEMBER, WriteTurn};

/// The time for a rollback of the transaction: longer than SQLite waits for a lock, a wait that
/// cannot be interrupted. A connection that takes longer is closed.
const LONGEST_ROLLBACK: Duration = Duration::from_secs(15);

/// The connection of a transaction; `None` inside after a failure.
pub(super) enum WriteConnection {
    /// The one connection of SQLite's writers, for the length of the turn.
    Turn(WriteTurn),
    Pooled(Option<PoolConnection<Any>>),
}

/// The last statement of a transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LastStatement {
    Commit,
    /// Others wait: the transaction stays open for them.
    None,
    /// The transaction is another's, which stays open.
    EndMember,
}

impl WriteConnection {
    fn slot(&mut self) -> &mut Option<PoolConnection<Any>> {
        match self {
            Self::Turn(turn) => turn.connection(),
            Self::Pooled(connection) => connection,
        }
    }

    /// Returns true in a transaction that another one has left open.
    pub(super) fn is_member(&self) -> bool {
        matches!(self, Self::Turn(turn) if turn.is_member())
    }

    fn last_statement(&self) -> LastStatement {
        match self {
            Self::Turn(turn) if turn.is_member() => LastStatement::EndMember,
            Self::Turn(turn) if turn.is_awaited() => LastStatement::None,
            Self::Turn(_) | Self::Pooled(_) => LastStatement::Commit,
        }
    }

    /// Undoes the transaction; returns false where the database does not confirm it.
    async fn undo(&mut self) -> bool {
        match self {
            Self::Turn(turn) if turn.is_member() => turn.undo_member().await,
            Self::Turn(_) | Self::Pooled(_) => {
                let Some(sql) = self.slot() else { return false };
                sql.execute(raw_sql("ROLLBACK")).await.is_ok()
            }
        }
    }

    /// Ends the use of the connection, whose transaction has ended or not begun.
    fn end(self) {
        if let Self::Turn(turn) = self {
            turn.end();
        }
    }

    /// Closes the connection; the next transaction opens another.
    async fn close(&mut self) {
        match self {
            Self::Turn(turn) => turn.close().await,
            Self::Pooled(connection) => writers::close(connection).await,
        }
    }
}

/// The signals of the changes that this process makes, and not of those of other processes.
#[derive(Debug, Clone, Default)]
pub(super) struct Signals {
    /// Something has changed.
    pub(super) changed: watch::Sender<()>,
    /// A deployment of a rollout has ended.
    pub(super) woken: watch::Sender<()>,
}

/// A write transaction; without a commit it is undone.
pub(super) struct WriteTransaction {
    /// `None` after the transaction has ended.
    connection: Option<WriteConnection>,
    kind: DatabaseBackend,
    /// The statements that go to the database with the next one.
    waiting: Vec<Query>,
    /// True once a statement has gone there.
    is_begun: bool,
    /// False while statements are there, and after one has failed: nothing follows it.
    is_sound: bool,
    doing: &'static str,
    signals: Signals,
    /// The deployments that the transaction ends, with its time: what follows them is woken before the commit.
    ended: Option<(BTreeSet<DeployId>, Timestamp)>,
}

impl WriteTransaction {
    /// Returns a transaction that begins with these statements, once there is another one.
    pub(super) fn new(
        connection: WriteConnection,
        kind: DatabaseBackend,
        begin: &[&'static str],
        doing: &'static str,
        signals: Signals,
    ) -> Self {
        let waiting = begin.iter().map(|sql| query(*sql, ())).collect();
        let connection = Some(connection);
        Self {
            connection,
            kind,
            waiting,
            is_begun: false,
            is_sound: true,
            doing,
            signals,
            ended: None,
        }
    }

    pub(super) fn sql(&mut self) -> &mut Self {
        self
    }

    /// Runs a statement with the next one, or with the commit, which fails if it does.
    pub(super) fn later(&mut self, query: Query) {
        self.waiting.push(query);
    }

    /// Makes the rollout due that a deployment belongs to, and the deployment of all apps, as the last of what the
    /// transaction does.
    pub(super) fn wake_followers_of(&mut self, deployment: &DeployId, now: Timestamp) {
        let (ended, _now) = self.ended.get_or_insert_with(|| (BTreeSet::new(), now));
        ended.insert(deployment.clone());
    }

    /// Runs these statements, one after the other.
    pub(super) async fn ask_all<const N: usize>(
        &mut self,
        queries: [Query; N],
        doing: &'static str,
    ) -> Result<[Answer; N], StoreError> {
        array(self.ask_many(queries.into(), doing).await?, doing)
    }

    /// Does the same with any number of statements.
    pub(super) async fn ask_many(
        &mut self,
        queries: Vec<Query>,
        doing: &'static str,
    ) -> Result<Vec<Answer>, StoreError> {
        if queries.is_empty() {
            return Ok(Vec::new());
        }
        self.send(queries, doing).await
    }

    /// Does the same; where there are none, those that waited are run alone.
    async fn send(
        &mut self,
        queries: Vec<Query>,
        doing: &'static str,
    ) -> Result<Vec<Answer>, StoreError> {
        if !self.is_sound {
            // The statements that waited for the failed one are lost, perhaps the beginning of the transaction.
            let message = "an earlier statement of the transaction has failed";
            return Err(StoreError::doing(doing)(sqlx::Error::Protocol(message.to_owned())));
        }
        (self.is_begun, self.is_sound) = (true, false);
        let connection = self.connection.as_mut().and_then(|connection| connection.slot().as_mut());
        let connection = connection.expect("ending the transaction consumes it");
        let mut batch = std::mem::take(&mut self.waiting);
        let waiting_count = batch.len();
        batch.extend(queries);
        let mut answers = ask_all(connection, self.kind, batch, doing).await?;
        self.is_sound = true;
        Ok(answers.split_off(waiting_count))
    }

    pub(super) async fn commit(self) -> Result<(), StoreError> {
        self.commit_with(Vec::new()).await.map(drop)
    }

    /// Runs these statements, and commits.
    pub(super) async fn commit_with(self, queries: Vec<Query>) -> Result<Vec<Answer>, StoreError> {
        let changed = self.signals.changed.clone();
        let answers = self.commit_unannounced(queries).await?;
        changed.send_replace(());
        Ok(answers)
    }

    /// Does the same without a notification of readers.
    pub(super) async fn commit_unannounced(
        mut self,
        mut queries: Vec<Query>,
    ) -> Result<Vec<Answer>, StoreError> {
        let count = queries.len();
        let is_ending = self.ended.is_some();
        if let Some((ended, now)) = self.ended.take() {
            queries.extend(followers::wake_statements(self.kind, &ended, now));
        }
        let last = self.connection.as_ref().map(WriteConnection::last_statement);
        match last {
            Some(LastStatement::None) => {}
            Some(LastStatement::EndMember) => queries.push(query(END_MEMBER, ())),
            Some(LastStatement::Commit) | None => queries.push(query("COMMIT", ())),
        }
        let result = self.send(queries, self.doing).await;
        match self.connection.take() {
            Some(WriteConnection::Turn(turn))
                if result.is_ok() && last != Some(LastStatement::Commit) =>
            {
                turn.leave_open().committed(self.doing).await?;
            }
            // Its state is unknown.
            Some(mut connection) if result.is_err() && last == Some(LastStatement::Commit) => {
                connection.close().await;
                connection.end();
            }
            // What is not committed can be undone.
            Some(connection) if result.is_err() => self.connection = Some(connection),
            Some(connection) => connection.end(),
            None => {}
        }
        let mut answers = result?;
        let wakes = answers.iter().skip(count).take(followers::STATEMENTS);
        if is_ending && wakes.into_iter().any(|wake| wake.changed > 0) {
            self.signals.woken.send_replace(());
        }
        answers.truncate(count);
        Ok(answers)
    }
}

impl Executor for &mut WriteTransaction {
    async fn ask(self, query: Query, doing: &'static str) -> Result<Answer, StoreError> {
        let [answer] = self.ask_all([query], doing).await?;
        Ok(answer)
    }

    async fn first(self, query: Query, doing: &'static str) -> Result<Option<Row>, StoreError> {
        Ok(self.ask(query, doing).await?.rows.into_iter().next())
    }
}

/// Undoes the transaction without a commit: it had nothing to write, a statement failed, or the
/// caller has gone.
impl Drop for WriteTransaction {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        match Handle::try_current() {
            // The next writer waits until the file is unlocked.
            Ok(runtime) if self.is_begun => drop(runtime.spawn(roll_back(connection))),
            Ok(_) => connection.end(),
            // A close ends it too, and no task has to wait for it. A return to the pool needs a runtime.
            Err(_) => drop(connection.slot().take().map(PoolConnection::leak)),
        }
    }
}

/// Keeps the connection if the database confirms that the transaction is undone. SQLite answers
/// otherwise where the transaction had ended by itself.
async fn roll_back(mut connection: WriteConnection) {
    let undoing = tokio::time::timeout(LONGEST_ROLLBACK, connection.undo()).await;
    if !matches!(undoing, Ok(true)) {
        connection.close().await;
    }
    connection.end();
}
