//! Queries about sent and waiting messages: for people, for metrics, for senders that need earlier
//! messages, and for the code host's hourly quota. Read-only.

use jiff::{SignedDuration, Timestamp};

use crate::model::deployment::{ClusterPhase, Contact, ForgeState};
use crate::model::id::{AppKey, AppName, DeployId, RepoName};
use crate::model::notice::{Sink, SinkFamily};
use crate::model::status::ForgeStatus;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::lane;
use crate::store::outbox::{self, OutboxMessage};
use crate::store::query::query;
use crate::store::row::Row;

const DOING: &str = "reading earlier messages";
const COUNTING: &str = "counting the calls to the code host";
/// The period of the code host's quota.
const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// The most calls that are counted: more than any code host takes of all accounts within the hour;
/// the newest calls count.
const MAX: i64 = 20_000;

/// One message about a deployment, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The receiver.
    pub sink: Sink,
    /// Its place among the deployment's messages for that sink, from 1.
    pub seq: i64,
    /// The status.
    pub status: ForgeStatus,
    /// The time since which the status holds.
    pub at: Timestamp,
    /// The time of delivery.
    pub sent_at: Option<Timestamp>,
    /// The reason why the message is parked.
    pub parked: Option<String>,
    /// The reason why the message was skipped.
    pub skipped: Option<String>,
    /// The receiver's reference.
    pub reference: Option<String>,
}

/// The waiting messages of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxBacklog {
    /// The family of receivers.
    pub family: SinkFamily,
    /// The number of messages that wait.
    pub waiting: u64,
    /// The time since which the oldest of them waits.
    pub oldest: Option<Timestamp>,
    /// The number of parked messages.
    pub parked: u64,
}

/// Calls that created content at the code host, or will.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeCalls {
    /// The repository, which determines the account.
    pub repository: RepoName,
    /// The sink and the state of the status; `None` for a preview and for a rollout.
    pub status: Option<(Sink, ForgeState)>,
    /// The time of the calls; `None` while they wait.
    pub at: Option<Timestamp>,
    /// The number of calls.
    pub count: usize,
}

impl Store {
    /// Returns all messages about a deployment, in every state: by sink, then in order.
    pub async fn messages(&self, id: &DeployId) -> Result<Vec<Notification>, StoreError> {
        let sql = "SELECT deployment AS id, sink, seq, state, description, phase, at, outcome, done_at, \
             reason, reference FROM outbox WHERE deployment = $1 ORDER BY sink, seq";
        let rows =
            query(sql, id).fetch_all(&self.readers, "reading a deployment's messages").await?;
        rows.iter().map(read_notification).collect()
    }

    /// Returns a version that changes whenever a message about the deployment is added, sent or given up.
    pub async fn messages_version(&self, id: &DeployId) -> Result<String, StoreError> {
        let sql = "SELECT 'messages' AS id, COUNT(*) AS n, COUNT(outcome) AS ended FROM outbox WHERE deployment = $1";
        let row =
            query(sql, id).fetch_one(&self.readers, "reading a deployment's messages").await?;
        Ok(format!("{} {}", row.number("n")?, row.number("ended")?))
    }

    /// Returns the statuses of a deployment for the code host, in order.
    pub async fn statuses(&self, id: &DeployId) -> Result<Vec<Notification>, StoreError> {
        let mut messages = self.messages(id).await?;
        messages.retain(|message| message.sink == Sink::Forge);
        Ok(messages)
    }

    /// Returns the waiting and parked messages, for each family that has any.
    pub async fn waiting(&self) -> Result<Vec<OutboxBacklog>, StoreError> {
        let sql = "SELECT family AS id, \
             COUNT(CASE WHEN outcome IS NULL THEN 1 END) AS waiting, \
             MIN(CASE WHEN outcome IS NULL THEN at END) AS oldest, \
             COUNT(CASE WHEN outcome = 'parked' THEN 1 END) AS parked FROM outbox \
             WHERE outcome IS NULL OR outcome = 'parked' GROUP BY family ORDER BY family";
        let rows = query(sql, ()).fetch_all(&self.readers, "measuring the outbox").await?;
        rows.iter().map(read_backlog).collect()
    }

    /// Returns the newest deployment of the message's commit to its target, if it is newer than the
    /// message's own.
    pub async fn newer_of_commit(
        &self,
        message: &OutboxMessage,
    ) -> Result<Option<DeployId>, StoreError> {
        let sql = "SELECT id FROM deployments WHERE repository = $1 AND target = $2 AND app_name = $6 \
             AND (place > $3 OR (place = $3 AND id > $5)) AND commit_id = $4 \
             ORDER BY place DESC, id DESC LIMIT 1";
        let OutboxMessage { repository, target, place, commit, deployment, app_name, .. } = message;
        let values = (repository, target, place, commit, deployment, app_name);
        let row = query(sql, values).first(&self.readers, DOING).await?;
        row.map(|row| row.id("id")).transpose()
    }

    /// Returns the phase in the cluster of which the message before told the same sink; `None` where that message
    /// was about something else.
    pub async fn open_phase(
        &self,
        message: &OutboxMessage,
    ) -> Result<Option<ClusterPhase>, StoreError> {
        let sql = "SELECT deployment AS id, state, description, phase FROM outbox \
             WHERE deployment = $1 AND sink = $2 AND seq < $3 ORDER BY seq DESC LIMIT 1";
        let values = (&message.deployment, &message.sink, message.seq);
        let row = query(sql, values).first(&self.readers, DOING).await?;
        row.map_or(Ok(None), |row| Ok(outbox::status(&row)?.phase))
    }

    /// Returns the state of the newest check run that was written for an older deployment of the
    /// message's commit to its target.
    pub async fn last_check(
        &self,
        message: &OutboxMessage,
    ) -> Result<Option<ForgeState>, StoreError> {
        let sql = "SELECT d.id, o.state FROM deployments d \
             JOIN outbox o ON o.deployment = d.id AND o.sink = 'check' AND o.outcome = 'sent' \
             WHERE d.repository = $1 AND d.target = $2 AND d.app_name = $6 AND d.commit_id = $4 \
             AND (d.place < $3 OR (d.place = $3 AND d.id < $5)) \
             ORDER BY d.place DESC, d.id DESC LIMIT 1";
        let OutboxMessage { repository, target, place, commit, deployment, app_name, .. } = message;
        let values = (repository, target, place, commit, deployment, app_name);
        let row = query(sql, values).first(&self.readers, DOING).await?;
        row.map(|row| outbox::state(&row)).transpose()
    }

    /// Returns the messages of the same sink about the ends of the deployments before it in its lane, newest
    /// first.
    pub async fn earlier_messages(
        &self,
        message: &OutboxMessage,
        limit: u32,
    ) -> Result<Vec<Notification>, StoreError> {
        let sql = "SELECT o.deployment AS id, o.sink, o.seq, o.state, o.description, o.phase, o.at, \
             o.outcome, o.done_at, o.reason, o.reference \
             FROM deployments d JOIN outbox o ON o.deployment = d.id \
             WHERE d.repository = $1 AND d.target = $2 AND d.app_name = $7 AND o.sink = $4 AND o.state <> 'in_progress' \
             AND (d.place < $3 OR (d.place = $3 AND d.id < $6)) \
             ORDER BY d.place DESC, d.id DESC, o.seq DESC LIMIT $5";
        let OutboxMessage { repository, target, place, sink, deployment, app_name, .. } = message;
        let values = (repository, target, place, sink, limit, deployment, app_name);
        let rows = query(sql, values).fetch_all(&self.readers, "reading earlier messages").await?;
        rows.iter().map(read_notification).collect()
    }

    /// Returns the contact of an app of a repository, by its newest WAML that could be read; without a name, of any of them.
    pub async fn last_contact(
        &self,
        repository: &RepoName,
        app: Option<&AppName>,
    ) -> Result<Option<Contact>, StoreError> {
        let sql = "SELECT id, contact FROM deployments WHERE repository = $1 AND ($2 = '' OR app_name = $2) \
             AND contact IS NOT NULL ORDER BY place DESC, id DESC LIMIT 1";
        let row = query(sql, (repository, lane::app_word(app)))
            .first(&self.readers, "reading the contact of an app")
            .await?;
        row.map_or(Ok(None), |row| row.json("contact"))
    }

    /// Returns the contact of an app, by its newest WAML that could be read.
    pub async fn last_contact_of(
        &self,
        repository: &RepoName,
        app: &AppKey,
    ) -> Result<Option<Contact>, StoreError> {
        let sql = "SELECT id, contact FROM deployments WHERE repository = $1 AND namespace = $2 AND slug = $3 \
             AND contact IS NOT NULL ORDER BY place DESC, id DESC LIMIT 1";
        let row = query(sql, (repository, app))
            .first(&self.readers, "reading the contact of an app")
            .await?;
        row.map_or(Ok(None), |row| row.json("contact"))
    }

    /// Returns the calls of the last hour, and those that wait.
    pub async fn forge_calls(&self, now: Timestamp) -> Result<Vec<ForgeCalls>, StoreError> {
        let since = now.checked_sub(HOUR).unwrap_or(Timestamp::MIN);
        // Counted by the database: while the code host is down, everything waits.
        let backlog = "SELECT d.repository AS id, d.repository, o.sink, o.state, COUNT(*) AS calls \
             FROM outbox o JOIN deployments d ON d.id = o.deployment \
             WHERE o.family = 'forge' AND o.outcome IS NULL GROUP BY d.repository, o.sink, o.state";
        let rows = query(backlog, ()).fetch_all(&self.readers, COUNTING).await?;
        let mut calls =
            rows.iter().map(|row| calls_of(row, true, None)).collect::<Result<Vec<_>, _>>()?;
        // The first status of a rollback, or of a target of a rollout, also creates a deployment there.
        let deliveries = "SELECT o.deployment AS id, o.sink, o.state, o.done_at AS made_at, d.repository, \
             CAST(CASE WHEN (d.rollback IS NOT NULL OR d.rollout IS NOT NULL OR d.parent IS NOT NULL) AND o.sink = 'forge' AND o.seq = 1 THEN 2 \
             ELSE 1 END AS BIGINT) AS calls FROM outbox o JOIN deployments d ON d.id = o.deployment \
             WHERE o.family = 'forge' AND o.outcome = 'sent' AND o.done_at > $1 \
             ORDER BY o.done_at DESC LIMIT $2";
        let repeats = "SELECT o.deployment AS id, o.sink, o.state, o.retold_at AS made_at, d.repository, \
             CAST(1 AS BIGINT) AS calls FROM outbox o JOIN deployments d ON d.id = o.deployment \
             WHERE o.retold_at IS NOT NULL AND o.retold_at > $1 ORDER BY o.retold_at DESC LIMIT $2";
        let previews = "SELECT repository AS id, repository, done_at AS made_at, \
             CAST(1 AS BIGINT) AS calls FROM previews \
             WHERE done_at IS NOT NULL AND done_at > $1 AND shown_turn > 0 \
             ORDER BY done_at DESC LIMIT $2";
        let environments = "SELECT repository AS id, repository, at AS made_at, calls \
             FROM environment_calls WHERE at > $1 ORDER BY at DESC LIMIT $2";
        let rollouts = "SELECT repository AS id, repository, at AS made_at, calls \
             FROM rollout_calls WHERE at > $1 ORDER BY at DESC LIMIT $2";
        let sources = [
            (deliveries, true),
            (repeats, true),
            (previews, false),
            (environments, false),
            (rollouts, false),
        ];
        for (sql, is_status) in sources {
            for row in query(sql, (since, MAX)).fetch_all(&self.readers, COUNTING).await? {
                calls.push(calls_of(&row, is_status, Some(row.time("made_at")?))?);
            }
        }
        calls.sort_by_key(|call| call.at);
        Ok(calls)
    }
}

fn calls_of(row: &Row, is_status: bool, at: Option<Timestamp>) -> Result<ForgeCalls, StoreError> {
    let status = if is_status { Some((outbox::sink(row)?, outbox::state(row)?)) } else { None };
    Ok(ForgeCalls { repository: row.id("repository")?, status, at, count: row.count("calls")? })
}

fn read_notification(row: &Row) -> Result<Notification, StoreError> {
    let (outcome, reason) = (row.maybe_text("outcome")?, row.maybe_text("reason")?);
    let done_at = row.maybe_time("done_at")?;
    let has_outcome = |word: &str| outcome.as_deref() == Some(word);
    Ok(Notification {
        sink: outbox::sink(row)?,
        seq: row.number("seq")?,
        status: outbox::status(row)?,
        at: row.time("at")?,
        sent_at: done_at.filter(|_| has_outcome("sent")),
        parked: reason.clone().filter(|_| has_outcome("parked")),
        skipped: reason.filter(|_| has_outcome("skipped")),
        reference: row.maybe_text("reference")?,
    })
}

fn read_backlog(row: &Row) -> Result<OutboxBacklog, StoreError> {
    let word = row.text("id")?;
    Ok(OutboxBacklog {
        family: SinkFamily::parse(&word).ok_or_else(|| row.corrupt("family", &word))?,
        waiting: row.count("waiting")?,
        oldest: row.maybe_time("oldest")?,
        parked: row.count("parked")?,
    })
}
