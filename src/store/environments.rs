//! Preview environments: what the watch of a cluster reports of workloads of others, in its own transaction, and the
//! claims of those who tell the code host.
//!
//! A row holds what people are to be told (`news`) and what they were told (`told`), not a queue of messages: what was
//! overtaken before it could be sent is never sent. A report raises `turn`, a claim raises `claims`. So a report that
//! comes while a status is sent leaves the row open, and a sender that lost its claim records nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::model::environment::{
    EnvironmentChange, EnvironmentCommit, EnvironmentReport, EnvironmentState, EnvironmentWorkload,
    WorkloadName,
};
use crate::model::id::{RepoName, TargetName};
use crate::store::db::Store;
use crate::store::environment_claims::{
    EnvironmentCommentClaim, EnvironmentStatusClaim, ShownComment,
};
use crate::store::error::StoreError;
use crate::store::lease::{LeaseState, end_of};
use crate::store::query::{Query, placeholders, query, query_of};
use crate::store::reports::{Ending, StateOutcome, ending};
use crate::store::row::Row;
use crate::store::write::WriteTransaction;

/// The time within which a commit that is overtaken, and of which nothing was sent, is forgotten.
const OVERTAKEN_WITHIN: SignedDuration = SignedDuration::from_mins(1);
/// The most workloads that may name one commit: more is a mistake, or hostile.
const MAX_OF_COMMIT: u32 = 50;
/// The most workloads of one cluster that are reported at a time.
const MAX_OF_CLUSTER: i64 = 5_000;
/// The number of reports that go to the database at once.
const CHUNK: usize = 100;
/// The time for which others of a pull request may become ready, too, before its comment is written.
const SETTLE: SignedDuration = SignedDuration::from_secs(5);
/// The period of the code host's quota.
const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// The time after which what is over is deleted.
const RETENTION: SignedDuration = SignedDuration::from_hours(24 * 30);

const RECORDING: &str = "recording preview environments";
const CLAIMING: &str = "claiming reports about preview environments";
const READING: &str = "reading preview environments";

/// Sets what ends a commit on a workload that does not carry it any more: `$1` is the time, `$2` the state if it was
/// not ready yet, `$3` the sentence.
macro_rules! end_commit {
    () => {
        "UPDATE environment_workloads SET live = 0, \
         turn = turn + CASE WHEN state = 'waiting' THEN 1 ELSE 0 END, \
         done_at = CASE WHEN state = 'waiting' AND refused = 0 THEN NULL ELSE done_at END, \
         due_at = CASE WHEN state = 'waiting' AND worker IS NULL THEN $1 ELSE due_at END, \
         changed_at = CASE WHEN state = 'waiting' THEN $1 ELSE changed_at END, \
         ended_at = CASE WHEN state = 'waiting' THEN $1 ELSE ended_at END, \
         sentence = CASE WHEN state = 'waiting' THEN $3 ELSE sentence END, \
         news = CASE WHEN state = 'waiting' AND news IS NOT NULL THEN $2 ELSE news END, \
         state = CASE WHEN state = 'waiting' THEN $2 ELSE state END WHERE live = 1"
    };
}

const REMOVED: &str = "it was deleted before it was ready";
const WITHDRAWN: &str = "the workload names another commit, or none, since before it was ready";
const UNWATCHED: &str = "its cluster is no longer watched";

impl Store {
    /// Ends commits on workloads of clusters that are not among these, and whose watch no process has had since
    /// `before`: the configuration has changed. Returns their number.
    pub async fn end_unwatched_environments(
        &self,
        watched: &[&TargetName],
        before: Timestamp,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut sql = concat!(
            end_commit!(),
            " AND changed_at <= $4 \
             AND cluster NOT IN (SELECT cluster FROM cluster_leases WHERE lease_end > $4)"
        )
        .to_owned();
        if !watched.is_empty() {
            sql += &format!(" AND cluster NOT IN ({})", placeholders(5, watched.len()));
        }
        let state = EnvironmentState::Removed.as_str();
        let values = ((now, state, UNWATCHED, before), watched.to_vec());
        self.run(query_of(sql, values), RECORDING).await
    }

    /// Returns the time at which the next report about a preview environment is due.
    pub async fn next_environment(&self) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT MIN(due_at) AS due_at FROM (SELECT due_at FROM environment_workloads \
             WHERE done_at IS NULL UNION ALL SELECT due_at FROM environment_comments \
             WHERE done_at IS NULL) due";
        query(sql, ()).fetch_one(&self.readers, READING).await?.maybe_time("due_at")
    }

    /// Counts the reports about preview environments that wait.
    pub async fn environments_waiting(&self) -> Result<u64, StoreError> {
        let sql = "SELECT (SELECT COUNT(*) FROM environment_workloads WHERE done_at IS NULL) + \
             (SELECT COUNT(*) FROM environment_comments WHERE done_at IS NULL) AS n";
        query(sql, ()).fetch_one(&self.readers, READING).await?.count("n")
    }

    /// Claims the commit status that is worth most: ends first, then what has been due for longest.
    pub async fn claim_environment_status(
        &self,
        worker: &str,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Option<EnvironmentStatusClaim>, StoreError> {
        let mut write = self.begin(CLAIMING).await?;
        let sql = "SELECT repository, commit_id, context, unsure FROM environment_workloads \
             WHERE done_at IS NULL AND due_at <= $1 \
             ORDER BY CASE WHEN state = 'waiting' THEN 1 ELSE 0 END, due_at, context LIMIT 1";
        let sql = self.locking(sql, "FOR UPDATE SKIP LOCKED");
        let Some(row) = query(sql, now).first(write.sql(), CLAIMING).await? else {
            return Ok(None);
        };
        let unsure = row.flag("unsure")?;
        let sql = "UPDATE environment_workloads SET claims = claims + 1, unsure = 1, \
             failures = failures + CASE WHEN worker IS NULL THEN 0 ELSE 1 END, worker = $4, \
             due_at = $5 WHERE repository = $1 AND commit_id = $2 AND context = $3 RETURNING *";
        let key = (row.text("repository")?, row.text("commit_id")?, row.text("context")?);
        let values = (key, worker, end_of(now, lease));
        let row = query(sql, values).fetch_one(write.sql(), CLAIMING).await?;
        let claim = EnvironmentStatusClaim {
            workload: read_workload(&row)?,
            news: row.maybe_text("news")?,
            told: row.maybe_text("told")?,
            changed_at: row.time("changed_at")?,
            unsure,
            doubted: row.flag("doubted")?,
            refused: row.flag("refused")?,
            failures: row.count("failures")?,
            turn: row.number("turn")?,
            claims: row.number("claims")?,
        };
        write.commit().await?;
        Ok(Some(claim))
    }

    /// Claims the comment that has been due for longest.
    pub async fn claim_environment_comment(
        &self,
        worker: &str,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Option<EnvironmentCommentClaim>, StoreError> {
        let mut write = self.begin(CLAIMING).await?;
        let sql = "SELECT repository, number FROM environment_comments \
             WHERE done_at IS NULL AND due_at <= $1 ORDER BY due_at, repository, number LIMIT 1";
        let sql = self.locking(sql, "FOR UPDATE SKIP LOCKED");
        let Some(row) = query(sql, now).first(write.sql(), CLAIMING).await? else {
            return Ok(None);
        };
        let sql = "UPDATE environment_comments SET claims = claims + 1, \
             failures = failures + CASE WHEN worker IS NULL THEN 0 ELSE 1 END, worker = $3, \
             due_at = $4 WHERE repository = $1 AND number = $2 RETURNING *";
        let key = (row.text("repository")?, row.number("number")?);
        let values = (key, worker, end_of(now, lease));
        let row = query(sql, values).fetch_one(write.sql(), CLAIMING).await?;
        let claim = EnvironmentCommentClaim {
            repository: row.id("repository")?,
            number: row.number("number")?,
            shown: ShownComment {
                comment: row.maybe_number("comment")?,
                commit: row.maybe_id("shown_commit")?,
                digest: row.maybe_text("shown_digest")?,
                dismissed: row.maybe_id("dismissed")?,
            },
            failures: row.count("failures")?,
            turn: row.number("turn")?,
            claims: row.number("claims")?,
        };
        write.commit().await?;
        Ok(Some(claim))
    }

    /// Checks that a report about a preview environment is due. It is asked all the time, and mostly in vain.
    pub async fn has_environment_report(&self, now: Timestamp) -> Result<bool, StoreError> {
        let due = self.next_environment().await?;
        Ok(due.is_some_and(|due| due <= now))
    }

    /// Returns the commits on the workloads of a pull request, each as it stands now.
    pub async fn environment_of(
        &self,
        repository: &RepoName,
        number: i64,
    ) -> Result<Vec<EnvironmentWorkload>, StoreError> {
        let sql = "SELECT * FROM environment_workloads WHERE repository = $1 AND pull_request = $2 \
             AND live = 1 ORDER BY cluster, workload LIMIT 1000";
        let rows = query(sql, (repository, number)).fetch_all(&self.readers, READING).await?;
        rows.iter().map(read_workload).collect()
    }

    /// Records the outcome of an attempt at a commit status; `calls` were made that create content.
    pub async fn record_environment_status(
        &self,
        claim: &EnvironmentStatusClaim,
        outcome: &StateOutcome,
        calls: u32,
        now: Timestamp,
    ) -> Result<LeaseState, StoreError> {
        let mut write = self.begin(RECORDING).await?;
        let Ending { due_at, done_at, unsure, failures, refused, summary } =
            ending(outcome, claim.failures, claim.unsure, now);
        let (told, doubted) = match outcome {
            StateOutcome::Sent { doubted, .. } => (claim.news.as_deref(), *doubted),
            _ => (None, claim.doubted),
        };
        let sql = "UPDATE environment_workloads SET worker = NULL, told = COALESCE($6, told), \
             unsure = $7, doubted = $8, failures = $9, refused = $10, summary = $11, \
             due_at = CASE WHEN turn = $5 THEN $12 ELSE $14 END, \
             done_at = CASE WHEN turn = $5 OR $10 = 1 THEN $13 END \
             WHERE repository = $1 AND commit_id = $2 AND context = $3 AND claims = $4";
        let values = (told, unsure, doubted, failures, refused, summary, (due_at, done_at, now));
        let update = query(sql, (claim, claim.turn, values));
        let count = update.execute(write.sql(), RECORDING).await?;
        count_calls(&mut write, "environment_calls", &claim.workload.commit.repository, calls, now);
        forget_old(&mut write, now);
        write.commit().await?;
        Ok(LeaseState::by_rows(count))
    }

    /// Records the outcome of an attempt at a comment, and the comment as it is now.
    pub async fn record_environment_comment(
        &self,
        claim: &EnvironmentCommentClaim,
        outcome: &StateOutcome,
        shown: &ShownComment,
        calls: u32,
        now: Timestamp,
    ) -> Result<LeaseState, StoreError> {
        let mut write = self.begin(RECORDING).await?;
        let Ending { due_at, done_at, failures, summary, unsure: _, refused: _ } =
            ending(outcome, claim.failures, false, now);
        let ShownComment { comment, commit, digest, dismissed } = shown;
        let sql = "UPDATE environment_comments SET worker = NULL, failures = $5, summary = $6, \
             due_at = CASE WHEN turn = $4 THEN $7 ELSE $9 END, \
             done_at = CASE WHEN turn = $4 THEN $8 END, \
             comment = $10, shown_commit = $11, shown_digest = $12, dismissed = $13 \
             WHERE repository = $1 AND number = $2 AND claims = $3";
        let values = (failures, summary, due_at, done_at, now);
        let comment = (*comment, commit, digest, dismissed);
        let update = query(sql, (claim, claim.turn, values, comment));
        let count = update.execute(write.sql(), RECORDING).await?;
        count_calls(&mut write, "environment_calls", &claim.repository, calls, now);
        forget_old(&mut write, now);
        write.commit().await?;
        Ok(LeaseState::by_rows(count))
    }

    /// Returns the calls of the last hour about preview environments, with their repositories.
    pub async fn environment_calls(
        &self,
        now: Timestamp,
    ) -> Result<Vec<(RepoName, usize)>, StoreError> {
        let since = now.checked_sub(HOUR).unwrap_or(Timestamp::MIN);
        let sql = "SELECT repository, CAST(SUM(calls) AS BIGINT) AS calls FROM environment_calls \
             WHERE at > $1 AND at <= $2 GROUP BY repository";
        let rows = query(sql, (since, now)).fetch_all(&self.readers, READING).await?;
        rows.iter().map(|row| Ok((row.id("repository")?, row.count("calls")?))).collect()
    }
}

/// Records changes of workloads of others, in the transaction that also records what was seen of them.
pub(super) async fn record(
    write: &mut WriteTransaction,
    cluster: &TargetName,
    changes: &[EnvironmentChange],
    now: Timestamp,
) -> Result<(), StoreError> {
    for change in changes {
        let (workload, sentence) = match change {
            EnvironmentChange::Report(_) => continue,
            EnvironmentChange::Withdrawn(workload) => (workload, WITHDRAWN),
            EnvironmentChange::Deleted(workload) => {
                let sql = "DELETE FROM cluster_progress \
                     WHERE cluster = $1 AND workload = $2 AND deployment IS NULL";
                write.later(query(sql, (cluster, workload.to_string())));
                (workload, REMOVED)
            }
        };
        let sql = concat!(end_commit!(), " AND cluster = $4 AND workload = $5");
        let state = EnvironmentState::Removed.as_str();
        let values = (now, state, sentence, cluster, workload.to_string());
        write.later(query(sql, values));
    }
    let reports: Vec<&EnvironmentReport> = changes
        .iter()
        .filter_map(|change| match change {
            EnvironmentChange::Report(report) => Some(&**report),
            EnvironmentChange::Withdrawn(_) | EnvironmentChange::Deleted(_) => None,
        })
        .collect();
    record_reports(write, cluster, &reports, now).await
}

async fn record_reports(
    write: &mut WriteTransaction,
    cluster: &TargetName,
    reports: &[&EnvironmentReport],
    now: Timestamp,
) -> Result<(), StoreError> {
    if reports.is_empty() {
        return Ok(());
    }
    let sql = "SELECT COUNT(*) AS n FROM environment_workloads WHERE cluster = $1 AND live = 1";
    let (mut refused, mut comments) = (0_usize, BTreeSet::new());
    for chunk in reports.chunks(CHUNK) {
        // Counted for each chunk: a first list has all workloads at once.
        let live = query(sql, cluster).fetch_one(write.sql(), RECORDING).await?.number("n")?;
        // A workload may be in several reports, of which the last one counts.
        let is_full = live >= MAX_OF_CLUSTER;
        let queries = chunk.iter().flat_map(|report| {
            [
                drop_overtaken(cluster, report, now),
                supersede(cluster, report, now),
                upsert(cluster, report, is_full, now),
            ]
        });
        let answers = write.ask_many(queries.collect(), RECORDING).await?;
        for (report, answer) in chunk.iter().zip(answers.into_iter().skip(2).step_by(3)) {
            let is_end = matches!(report.state, EnvironmentState::Ready | EnvironmentState::Failed);
            match report.commit.pull_request {
                _ if answer.changed == 0 => refused += 1,
                Some(number) if is_end && report.announced => {
                    comments.insert((&report.commit.repository, number));
                }
                Some(_) | None => {}
            }
        }
    }
    // In one order: the watches of two clusters may report about the same pull requests.
    for (repository, number) in comments {
        write.later(wish_comment(repository, number, now));
    }
    if refused > 0 {
        tracing::warn!(
            %cluster, refused, "workloads name a commit that {MAX_OF_COMMIT} others name, or are too many: nothing \
             is said of them"
        );
    }
    Ok(())
}

/// Forgets other commits on the workload that came within a minute and of which nothing was sent: a workload whose
/// annotation is changed again and again leaves no queue in which the others wait.
fn drop_overtaken(cluster: &TargetName, report: &EnvironmentReport, now: Timestamp) -> Query {
    let EnvironmentCommit { repository, commit, .. } = &report.commit;
    let since = now.checked_sub(OVERTAKEN_WITHIN).unwrap_or(Timestamp::MIN);
    let sql = "DELETE FROM environment_workloads WHERE cluster = $1 AND workload = $2 AND live = 1 \
         AND NOT (repository = $3 AND commit_id = $4) AND first_at > $5 \
         AND worker IS NULL AND told IS NULL AND unsure = 0 AND refused = 0";
    let workload = report.workload.to_string();
    query(sql, ((cluster, workload, repository, commit), since))
}

/// Ends other commits on the workload.
fn supersede(cluster: &TargetName, report: &EnvironmentReport, now: Timestamp) -> Query {
    let EnvironmentCommit { repository, commit, .. } = &report.commit;
    let sql = concat!(
        end_commit!(),
        " AND cluster = $4 AND workload = $5 AND NOT (repository = $6 AND commit_id = $7)"
    );
    let sentence = format!("superseded by {} before it was ready", commit.short());
    let state = EnvironmentState::Superseded.as_str();
    let workload = report.workload.to_string();
    query(sql, ((now, state, sentence), (cluster, workload, repository, commit)))
}

fn upsert(
    cluster: &TargetName,
    report: &EnvironmentReport,
    is_full: bool,
    now: Timestamp,
) -> Query {
    // 1 where there is something to tell that was not there before.
    const IS_NEW: &str = "CASE WHEN $10 IS NULL OR environment_workloads.news = $10 \
         OR environment_workloads.refused = 1 THEN 0 ELSE 1 END";
    let sql = format!(
        "INSERT INTO environment_workloads (repository, commit_id, context, cluster, workload, \
         pull_request, link, state, sentence, news, live, first_at, began_at, ended_at, changed_at, \
         turn, claims, due_at, done_at, unsure, doubted, failures, refused, summary) \
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 1, $11, $11, \
         CASE WHEN $8 = 'waiting' THEN NULL ELSE $11 END, $11, 1, 0, $11, \
         CASE WHEN $10 IS NULL THEN $11 END, 0, 0, 0, 0, '' \
         WHERE EXISTS (SELECT 1 FROM environment_workloads e WHERE e.repository = $1 \
         AND e.commit_id = $2 AND e.context = $3) OR ($12 = 0 AND (SELECT COUNT(*) \
         FROM environment_workloads c WHERE c.repository = $1 AND c.commit_id = $2) \
         < {MAX_OF_COMMIT}) \
         ON CONFLICT (repository, commit_id, context) DO UPDATE SET live = 1, \
         pull_request = excluded.pull_request, link = excluded.link, sentence = excluded.sentence, \
         began_at = CASE WHEN environment_workloads.state <> 'waiting' AND $8 = 'waiting' \
         THEN $11 ELSE environment_workloads.began_at END, \
         ended_at = CASE WHEN $8 = 'waiting' THEN NULL WHEN environment_workloads.state = $8 \
         THEN environment_workloads.ended_at ELSE $11 END, state = excluded.state, \
         turn = environment_workloads.turn + {IS_NEW}, \
         changed_at = CASE WHEN {IS_NEW} = 1 THEN $11 ELSE environment_workloads.changed_at END, \
         failures = CASE WHEN {IS_NEW} = 1 THEN 0 ELSE environment_workloads.failures END, \
         due_at = CASE WHEN {IS_NEW} = 1 AND environment_workloads.worker IS NULL THEN $11 \
         ELSE environment_workloads.due_at END, \
         done_at = CASE WHEN {IS_NEW} = 1 THEN NULL ELSE environment_workloads.done_at END, \
         news = COALESCE($10, environment_workloads.news)"
    );
    let EnvironmentReport { workload, commit, state, sentence, .. } = report;
    let EnvironmentCommit { repository, commit, pull_request, link } = commit;
    let context = workload.context(cluster);
    let key = (repository, commit, context, cluster, workload.to_string());
    let values = (*pull_request, link, state.as_str(), sentence, report.news(), now, is_full);
    query_of(sql, (key, values))
}

/// Wishes that the comment of a pull request is looked at, once others had the time to become ready, too.
fn wish_comment(repository: &RepoName, number: i64, now: Timestamp) -> Query {
    let sql = "INSERT INTO environment_comments (repository, number, turn, claims, due_at, \
         changed_at, failures, summary) VALUES ($1, $2, 1, 0, $3, $4, 0, '') \
         ON CONFLICT (repository, number) DO UPDATE SET turn = environment_comments.turn + 1, \
         done_at = NULL, failures = 0, changed_at = $4, \
         due_at = CASE WHEN environment_comments.worker IS NULL THEN $3 \
         ELSE environment_comments.due_at END";
    let due = now.checked_add(SETTLE).unwrap_or(now);
    query(sql, (repository, number, due, now))
}

/// Counts calls to the code host in that table, which has those of an hour.
pub(super) fn count_calls(
    write: &mut WriteTransaction,
    table: &'static str,
    repository: &RepoName,
    calls: u32,
    now: Timestamp,
) {
    if calls > 0 {
        let sql = format!(
            "INSERT INTO {table} (repository, at, calls) VALUES ($1, $2, $3) \
             ON CONFLICT (repository, at) DO UPDATE SET calls = {table}.calls + $3"
        );
        write.later(query_of(sql, (repository, now, calls)));
    }
    let since = now.checked_sub(HOUR).unwrap_or(Timestamp::MIN);
    write.later(query_of(format!("DELETE FROM {table} WHERE at <= $1"), since));
}

fn forget_old(write: &mut WriteTransaction, now: Timestamp) {
    let before = now.checked_sub(RETENTION).unwrap_or(Timestamp::MIN);
    let sql = "DELETE FROM environment_workloads WHERE live = 0 AND done_at < $1";
    write.later(query(sql, before));
    let sql = "DELETE FROM environment_comments WHERE done_at < $1 AND NOT EXISTS \
         (SELECT 1 FROM environment_workloads w WHERE w.repository = environment_comments.repository \
         AND w.pull_request = environment_comments.number AND w.live = 1)";
    write.later(query(sql, before));
}

/// Makes reports that a dead process was sending due at once; see `Store::end_leases`.
pub(super) async fn abandon(
    write: &mut WriteTransaction,
    now: Timestamp,
) -> Result<(), StoreError> {
    for table in ["environment_workloads", "environment_comments", "rollout_reports"] {
        let sql = format!(
            "UPDATE {table} SET due_at = $1 WHERE worker IS NOT NULL AND done_at IS NULL AND due_at > $1"
        );
        let release = query_of(sql, now);
        release.execute(write.sql(), "ending the leases of a former process").await?;
    }
    Ok(())
}

fn read_workload(row: &Row) -> Result<EnvironmentWorkload, StoreError> {
    Ok(EnvironmentWorkload {
        cluster: row.id("cluster")?,
        workload: row.word("workload", WorkloadName::parse)?,
        commit: EnvironmentCommit {
            repository: row.id("repository")?,
            commit: row.id("commit_id")?,
            pull_request: row.maybe_number("pull_request")?,
            link: row.maybe_text("link")?,
        },
        context: row.text("context")?,
        state: row.word("state", EnvironmentState::parse)?,
        sentence: row.text("sentence")?,
        announced: row.maybe_text("news")?.is_some(),
        first_at: row.number("first_at")?,
        began_at: row.number("began_at")?,
        ended_at: row.maybe_number("ended_at")?,
    })
}
