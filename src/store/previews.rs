//! Previews of pull requests: those that wait, their claims, and the check run that was shown last.
//!
//! There is one row a pull request. A newer head replaces an older one in any state; a worker that still
//! works on the older one finds out when it wants to show or to record something.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::model::event::{CheckRerun, PullRequest, Rerun};
use crate::model::id::{CommitSha, RepoName};
use crate::store::db::Store;
use crate::store::deaths;
use crate::store::error::StoreError;
use crate::store::lease::{LeaseState, end_of};
use crate::store::query::{Bind, BoundValue, query};
use crate::store::row::{Row, to_json};
use crate::store::write::WriteTransaction;

/// The result of storing an event about a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreviewIntake {
    /// A preview is due.
    New,
    /// The same head, or a newer one, is known already.
    Known,
    /// The pull request is closed, and its row deleted.
    Forgotten,
    /// Too many previews wait; this one was not stored.
    Full,
}

/// A worker's claim on one preview.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a claim that is dropped blocks the preview until the lease ends"]
pub struct PreviewClaim {
    /// The pull request.
    pub request: PullRequest,
    /// The time of the event about it.
    pub received_at: Timestamp,
    /// The number that fences off earlier holders.
    pub turn: i64,
    /// The number of attempts at this head, with this one.
    pub attempts: u32,
    /// The number of attempts before that failed or died.
    pub failures: u32,
    /// The number of those that died one after the other, just before this one.
    pub deaths: u32,
    /// The check run that was shown last, for this head or an earlier one.
    pub last_check: Option<PostedCheck>,
}

/// Binds `$1` to `$3` of a statement that is fenced by the turn.
impl Bind for &PreviewClaim {
    fn bind(self, values: &mut Vec<BoundValue>) {
        (&self.request.repository, self.request.number, self.turn).bind(values);
    }
}

/// A check run of this service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostedCheck {
    /// The commit that it is at.
    pub head: CommitSha,
    /// Its number.
    pub check: i64,
    /// The digest of its content.
    pub digest: String,
}

/// The most previews that may wait; more is a flood, and GitHub's own pages show the deliveries
/// that were refused.
const MAX_WAITING: i64 = 10_000;

/// The time after which an untouched pull request is deleted; the next event brings it back.
const RETENTION: SignedDuration = SignedDuration::from_hours(24 * 90);

/// The statement that counts the previews that wait or are worked on.
const COUNT: &str = "SELECT COUNT(*) AS n FROM previews WHERE done_at IS NULL";

const DOING: &str = "storing a pull request";
const AT_WORK: &str = "recording a preview";

impl Store {
    /// Stores that a pull request needs a preview, or deletes one that is closed. Of several events
    /// the code host's own time decides which is the newest, not their order. When this returns, it
    /// is on disk.
    pub async fn note_pull_request(
        &self,
        request: &PullRequest,
        now: Timestamp,
    ) -> Result<PreviewIntake, StoreError> {
        let mut write = self.begin_durable(DOING).await?;
        let intake = match find_request(&mut write, request).await? {
            Some(stored) if stored.is_as_new_as(request) => return Ok(PreviewIntake::Known),
            stored if request.open => {
                if stored.is_none_or(|stored| stored.is_done)
                    && query(COUNT, ()).fetch_one(write.sql(), DOING).await?.number("n")?
                        >= MAX_WAITING
                {
                    return Ok(PreviewIntake::Full);
                }
                upsert(&mut write, request, now).await?;
                PreviewIntake::New
            }
            _ => {
                delete(&mut write, request).await?;
                PreviewIntake::Forgotten
            }
        };
        drop_old(&mut write, now).await?;
        write.commit().await?;
        Ok(intake)
    }

    /// Claims the preview that has been due for longest, if there is one.
    pub async fn claim_preview(
        &self,
        worker: &str,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Option<PreviewClaim>, StoreError> {
        let doing = "claiming a preview";
        let mut write = self.begin(doing).await?;
        let sql = "SELECT repository, number, turn FROM previews \
             WHERE done_at IS NULL AND due_at <= $1 ORDER BY due_at, repository, number LIMIT 1";
        let row = query(self.locking(sql, "FOR UPDATE SKIP LOCKED"), now)
            .first(write.sql(), doing)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let sql = concat!(
            "UPDATE previews SET turn = turn + 1, attempts = attempts + 1, \
             failures = failures + CASE WHEN worker IS NULL THEN 0 ELSE 1 END, \
             worker = $3, due_at = $4, summary = ",
            deaths::preview_taken!(),
            " WHERE repository = $1 AND number = $2 RETURNING *",
        );
        let key = (row.text("repository")?, row.number("number")?);
        let values = (key, worker, end_of(now, lease));
        let row = query(sql, values).fetch_one(write.sql(), doing).await?;
        let claim = read_claim(&row)?;
        write.commit().await?;
        Ok(Some(claim))
    }

    /// Extends the lease of the claim. `Lost` also where a newer head has arrived.
    pub async fn extend_preview(
        &self,
        claim: &PreviewClaim,
        now: Timestamp,
        lease: Duration,
    ) -> Result<LeaseState, StoreError> {
        let sql = "UPDATE previews SET due_at = $4 \
             WHERE repository = $1 AND number = $2 AND turn = $3 AND done_at IS NULL";
        self.run(query(sql, (claim, end_of(now, lease))), AT_WORK).await.map(LeaseState::by_rows)
    }

    /// Releases the preview unchanged: any worker may claim it at once. For a shutdown.
    pub async fn release_preview(
        &self,
        claim: &PreviewClaim,
        now: Timestamp,
    ) -> Result<LeaseState, StoreError> {
        let sql = "UPDATE previews SET due_at = $4, worker = NULL \
             WHERE repository = $1 AND number = $2 AND turn = $3 AND done_at IS NULL";
        self.run(query(sql, (claim, now)), AT_WORK).await.map(LeaseState::by_rows)
    }

    /// Schedules a retry at that time.
    pub async fn retry_preview_at(
        &self,
        claim: &PreviewClaim,
        at: Timestamp,
        summary: &str,
    ) -> Result<LeaseState, StoreError> {
        let sql = "UPDATE previews SET due_at = $4, worker = NULL, failures = failures + 1, \
             summary = $5 WHERE repository = $1 AND number = $2 AND turn = $3 AND done_at IS NULL";
        self.run(query(sql, (claim, at, summary)), AT_WORK).await.map(LeaseState::by_rows)
    }

    /// Ends the preview of this head.
    pub async fn end_preview(
        &self,
        claim: &PreviewClaim,
        now: Timestamp,
        summary: &str,
    ) -> Result<LeaseState, StoreError> {
        let sql = "UPDATE previews SET done_at = $4, worker = NULL, summary = $5 \
             WHERE repository = $1 AND number = $2 AND turn = $3 AND done_at IS NULL";
        self.run(query(sql, (claim, now, summary)), AT_WORK).await.map(LeaseState::by_rows)
    }

    /// Records the check run that was shown, also for a worker that has lost the claim meanwhile:
    /// the check run exists, and the next worker must know of it.
    pub async fn record_shown_preview(
        &self,
        claim: &PreviewClaim,
        check: &PostedCheck,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE previews SET shown_turn = $3, shown_head = $4, shown_check = $5, \
             shown_digest = $6 WHERE repository = $1 AND number = $2 AND shown_turn <= $3";
        let update = query(sql, (claim, &check.head, check.check, &check.digest));
        self.run(update, AT_WORK).await.map(drop)
    }

    /// Schedules previews of a repository again after one of its deployments has succeeded, since
    /// they compare with what is live. Only heads with a check run; returns their number.
    pub async fn renew_previews(&self, now: Timestamp, limit: u32) -> Result<u64, StoreError> {
        let sql = "UPDATE previews SET done_at = NULL, due_at = $1, attempts = 0, failures = 0, \
             turn = turn + 1 WHERE (repository, number) IN (SELECT p.repository, p.number \
             FROM previews p WHERE p.done_at IS NOT NULL AND p.shown_check IS NOT NULL AND EXISTS \
             (SELECT 1 FROM deployments d WHERE d.repository = p.repository \
             AND d.state = 'succeeded' AND d.finished_at > p.done_at) \
             ORDER BY p.updated_at DESC LIMIT $2)";
        self.run(query(sql, (now, limit)), "scheduling outdated previews").await
    }

    /// Schedules previews again that have these check runs, whatever their content; returns their
    /// number.
    pub async fn repeat_previews(
        &self,
        rerun: &CheckRerun,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let CheckRerun { repository, rerun } = rerun;
        let (check, head) = match rerun {
            Rerun::Run(check) => (Some(*check), None),
            Rerun::Commit(head) => (None, Some(head.as_str())),
        };
        let mut write = self.begin_durable(DOING).await?;
        // The digest is cleared, so that the same content is written again: GitHub has reset it.
        let sql = "UPDATE previews SET done_at = NULL, due_at = $4, attempts = 0, failures = 0, \
             worker = NULL, turn = turn + 1, shown_digest = '' WHERE repository = $1 \
             AND shown_check IS NOT NULL AND (shown_check = $2 OR shown_head = $3)";
        let count = query(sql, (repository, check, head, now)).execute(write.sql(), DOING).await?;
        write.commit().await?;
        Ok(count)
    }

    /// Returns the time at which the next waiting preview is due.
    pub async fn next_preview(&self) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT MIN(due_at) AS due_at FROM previews WHERE done_at IS NULL";
        query(sql, ())
            .fetch_one(&self.readers, "reading the next due preview")
            .await?
            .maybe_time("due_at")
    }

    /// Counts the previews that wait or are worked on.
    pub async fn previews_waiting(&self) -> Result<u64, StoreError> {
        let row = query(COUNT, ()).fetch_one(&self.readers, "counting previews").await?;
        row.count("n")
    }

    /// Returns the outcome of a pull request's preview, or the condition that it waits for; `None`
    /// if the service does not know it.
    pub async fn preview_summary(
        &self,
        repository: &RepoName,
        number: i64,
    ) -> Result<Option<String>, StoreError> {
        let sql = "SELECT * FROM previews WHERE repository = $1 AND number = $2";
        let row =
            query(sql, (repository, number)).first(&self.readers, "reading a preview").await?;
        row.map(|row| row.text("summary")).transpose()
    }
}

/// Ends every lease on a preview; see [`Store::end_leases`].
pub(super) async fn abandon(
    write: &mut WriteTransaction,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE previews SET due_at = $1 \
         WHERE worker IS NOT NULL AND done_at IS NULL AND due_at > $1";
    query(sql, now).execute(write.sql(), AT_WORK).await.map(drop)
}

/// The stored state of a pull request when an event about it arrives.
struct KnownRequest {
    request: PullRequest,
    is_done: bool,
}

impl KnownRequest {
    /// Returns true if the stored request is as new as the event. The code host counts in seconds:
    /// within one, another request counts as the newer.
    fn is_as_new_as(&self, event: &PullRequest) -> bool {
        self.request.updated_at > event.updated_at || self.request == *event
    }
}

async fn find_request(
    write: &mut WriteTransaction,
    request: &PullRequest,
) -> Result<Option<KnownRequest>, StoreError> {
    let sql = "SELECT * FROM previews WHERE repository = $1 AND number = $2";
    let row = query(sql, (&request.repository, request.number)).first(write.sql(), DOING).await?;
    let Some(row) = row else { return Ok(None) };
    let is_done = row.maybe_time("done_at")?.is_some();
    Ok(Some(KnownRequest { request: row.json("request")?, is_done }))
}

async fn upsert(
    write: &mut WriteTransaction,
    request: &PullRequest,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO previews (repository, number, request, updated_at, received_at, due_at, turn, \
         attempts, failures, summary, shown_turn) VALUES ($1, $2, $3, $4, $5, $5, 1, 0, 0, $6, 0) \
         ON CONFLICT (repository, number) DO UPDATE SET request = $3, updated_at = $4, \
         received_at = $5, due_at = $5, turn = previews.turn + 1, attempts = 0, failures = 0, \
         worker = NULL, done_at = NULL, summary = $6";
    let key = (&request.repository, request.number);
    let values = (key, to_json(request), request.updated_at, now, "waiting for a worker");
    query(sql, values).execute(write.sql(), DOING).await.map(drop)
}

async fn delete(write: &mut WriteTransaction, request: &PullRequest) -> Result<(), StoreError> {
    let sql = "DELETE FROM previews WHERE repository = $1 AND number = $2";
    let key = (&request.repository, request.number);
    query(sql, key).execute(write.sql(), DOING).await.map(drop)
}

async fn drop_old(write: &mut WriteTransaction, now: Timestamp) -> Result<(), StoreError> {
    let horizon = now.checked_sub(RETENTION).unwrap_or(Timestamp::MIN);
    let sql = "DELETE FROM previews WHERE done_at IS NOT NULL AND done_at < $1";
    query(sql, horizon).execute(write.sql(), DOING).await.map(drop)
}

fn read_claim(row: &Row) -> Result<PreviewClaim, StoreError> {
    let check = match (row.maybe_id("shown_head")?, row.maybe_number("shown_check")?) {
        (Some(head), Some(check)) => {
            let digest = row.maybe_text("shown_digest")?.unwrap_or_default();
            Some(PostedCheck { head, check, digest })
        }
        _ => None,
    };
    Ok(PreviewClaim {
        request: row.json("request")?,
        received_at: row.time("received_at")?,
        turn: row.number("turn")?,
        attempts: row.count("attempts")?,
        failures: row.count("failures")?,
        deaths: deaths::count_deaths(&row.text("summary")?),
        last_check: check,
    })
}
