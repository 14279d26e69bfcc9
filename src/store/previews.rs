//! Previews of pull requests: which are to be made, who makes them, and what was shown last.
//!
//! One row a pull request. A newer head takes the place of an older one, whatever has become of that;
//! whoever is still at the older one finds out when it wants to show or to record something.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::model::event::{CheckRerun, PullRequest, Rerun};
use crate::model::id::{CommitSha, RepoName};
use crate::store::db::Store;
use crate::store::deaths;
use crate::store::error::StoreError;
use crate::store::lease::{Held, end_of};
use crate::store::row::{Row, storable, to_json};
use crate::store::write::Write;

/// What became of a pull request that was heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noted {
    /// Its preview is to be made.
    New,
    /// The same, or something newer, is known already.
    Known,
    /// It is closed, and forgotten.
    Forgotten,
    /// Too many wait; this one was not stored.
    Full,
}

/// A worker's hold on one preview.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a claim that is dropped blocks the preview until the lease ends"]
pub struct PreviewClaim {
    /// What is to be previewed.
    pub request: PullRequest,
    /// When that was heard of.
    pub received_at: Timestamp,
    /// Fences off whoever had it before.
    pub turn: i64,
    /// How often a worker has begun on this head, with this one.
    pub attempts: u32,
    /// How many of the attempts before failed or died.
    pub failures: u32,
    /// How many of those died one after the other, just before this one.
    pub deaths: u32,
    /// What was shown last, for this head or an earlier one.
    pub shown: Option<ShownCheck>,
}

/// A check run of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownCheck {
    /// The commit that it is at.
    pub head: CommitSha,
    /// Its number.
    pub check: i64,
    /// Of what it says.
    pub digest: String,
}

/// So many may wait; more is a flood, and GitHub's own pages show deliveries that were refused.
const MOST_WAITING: i64 = 10_000;

/// A pull request that nobody touched for so long is of no interest; the next event brings it back.
const KEPT: SignedDuration = SignedDuration::from_hours(24 * 90);

const DOING: &str = "storing a pull request";
const AT_WORK: &str = "recording a preview";

impl Store {
    /// Stores that a pull request is to be previewed, or forgets one that is closed. Of several events
    /// the forge's own time decides which is the newest, not their order. When this returns, it is
    /// on disk.
    pub async fn note_pull_request(
        &self,
        request: &PullRequest,
        now: Timestamp,
    ) -> Result<Noted, StoreError> {
        let mut write = self.begin_durable(DOING).await?;
        let noted = match known(&mut write, request).await? {
            Some(known) if known.is_as_new_as(request) => return Ok(Noted::Known),
            known if request.open => {
                if known.is_none_or(|known| known.done)
                    && waiting(&mut write).await? >= MOST_WAITING
                {
                    return Ok(Noted::Full);
                }
                upsert(&mut write, request, now).await?;
                Noted::New
            }
            _ => {
                delete(&mut write, request).await?;
                Noted::Forgotten
            }
        };
        drop_old(&mut write, now).await?;
        write.commit().await?;
        Ok(noted)
    }

    /// Takes the preview that has been due for longest, if there is one.
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
        let row = sqlx::query(self.locking(sql, "FOR UPDATE SKIP LOCKED"))
            .bind(now.as_millisecond())
            .fetch_optional(write.sql())
            .await
            .map_err(StoreError::doing(doing))?;
        let Some(row) = row.map(Row::new) else { return Ok(None) };
        let row = sqlx::query(concat!(
            "UPDATE previews SET turn = turn + 1, attempts = attempts + 1, \
             failures = failures + CASE WHEN worker IS NULL THEN 0 ELSE 1 END, \
             worker = $3, due_at = $4, summary = ",
            deaths::preview_taken!(),
            " WHERE repository = $1 AND number = $2 RETURNING *",
        ))
        .bind(row.text("repository")?)
        .bind(row.number("number")?)
        .bind(worker)
        .bind(end_of(now, lease))
        .fetch_one(write.sql())
        .await
        .map_err(StoreError::doing(doing))?;
        let claim = claim_of(&Row::new(row))?;
        write.commit().await?;
        Ok(Some(claim))
    }

    /// Keeps the claim for another while. `Lost` also where a newer head has come.
    pub async fn extend_preview(
        &self,
        claim: &PreviewClaim,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Held, StoreError> {
        let sql = "UPDATE previews SET due_at = $4 \
             WHERE repository = $1 AND number = $2 AND turn = $3 AND done_at IS NULL";
        self.fenced(claim, sql, end_of(now, lease), None).await
    }

    /// Gives the preview back, untouched: anybody may take it at once. For a shutdown.
    pub async fn release_preview(
        &self,
        claim: &PreviewClaim,
        now: Timestamp,
    ) -> Result<Held, StoreError> {
        let sql = "UPDATE previews SET due_at = $4, worker = NULL \
             WHERE repository = $1 AND number = $2 AND turn = $3 AND done_at IS NULL";
        self.fenced(claim, sql, now.as_millisecond(), None).await
    }

    /// Tries it again at that time.
    pub async fn put_preview_off(
        &self,
        claim: &PreviewClaim,
        at: Timestamp,
        summary: &str,
    ) -> Result<Held, StoreError> {
        let sql = "UPDATE previews SET due_at = $4, worker = NULL, failures = failures + 1, \
             summary = $5 WHERE repository = $1 AND number = $2 AND turn = $3 AND done_at IS NULL";
        self.fenced(claim, sql, at.as_millisecond(), Some(summary)).await
    }

    /// There is nothing more to do for this head.
    pub async fn end_preview(
        &self,
        claim: &PreviewClaim,
        now: Timestamp,
        summary: &str,
    ) -> Result<Held, StoreError> {
        let sql = "UPDATE previews SET done_at = $4, worker = NULL, summary = $5 \
             WHERE repository = $1 AND number = $2 AND turn = $3 AND done_at IS NULL";
        self.fenced(claim, sql, now.as_millisecond(), Some(summary)).await
    }

    /// Remembers what was shown, also by who has lost the claim meanwhile: it is there, and whoever
    /// comes next must know of it.
    pub async fn preview_shown(
        &self,
        claim: &PreviewClaim,
        shown: &ShownCheck,
    ) -> Result<(), StoreError> {
        let mut write = self.begin(AT_WORK).await?;
        sqlx::query(
            "UPDATE previews SET shown_turn = $3, shown_head = $4, shown_check = $5, \
             shown_digest = $6 WHERE repository = $1 AND number = $2 AND shown_turn <= $3",
        )
        .bind(claim.request.repository.as_str())
        .bind(claim.request.number)
        .bind(claim.turn)
        .bind(shown.head.as_str())
        .bind(shown.check)
        .bind(&shown.digest)
        .execute(write.sql())
        .await
        .map_err(StoreError::doing(AT_WORK))?;
        write.commit().await
    }

    /// Previews of a repository are to be made again when one of its deployments has succeeded since:
    /// what they compare with is another. Only of heads that show one; how many that were.
    pub async fn renew_previews(&self, now: Timestamp, most: u32) -> Result<u64, StoreError> {
        let doing = "looking for previews that are out of date";
        let mut write = self.begin(doing).await?;
        let done = sqlx::query(
            "UPDATE previews SET done_at = NULL, due_at = $1, attempts = 0, failures = 0, \
             turn = turn + 1 WHERE (repository, number) IN (SELECT p.repository, p.number \
             FROM previews p WHERE p.done_at IS NOT NULL AND p.shown_check IS NOT NULL AND EXISTS \
             (SELECT 1 FROM deployments d WHERE d.repository = p.repository \
             AND d.state = 'succeeded' AND d.finished_at > p.done_at) \
             ORDER BY p.updated_at DESC LIMIT $2)",
        )
        .bind(now.as_millisecond())
        .bind(i64::from(most))
        .execute(write.sql())
        .await
        .map_err(StoreError::doing(doing))?;
        write.commit().await?;
        Ok(done.rows_affected())
    }

    /// Makes previews due again that show these check runs, whatever they show; how many those are.
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
        // What it says now is forgotten, so that the same is written again: GitHub has reset it.
        let done = sqlx::query(
            "UPDATE previews SET done_at = NULL, due_at = $4, attempts = 0, failures = 0, \
             worker = NULL, turn = turn + 1, shown_digest = '' WHERE repository = $1 \
             AND shown_check IS NOT NULL AND (shown_check = $2 OR shown_head = $3)",
        )
        .bind(repository.as_str())
        .bind(check)
        .bind(head)
        .bind(now.as_millisecond())
        .execute(write.sql())
        .await
        .map_err(StoreError::doing(DOING))?;
        write.commit().await?;
        Ok(done.rows_affected())
    }

    /// When the next preview can be made, of those that wait.
    pub async fn next_preview(&self) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT MIN(due_at) AS due_at FROM previews WHERE done_at IS NULL";
        let row = sqlx::query(sql).fetch_one(&self.pool).await;
        Row::new(row.map_err(StoreError::doing("looking for previews"))?).maybe_time("due_at")
    }

    /// How many previews wait or are worked on.
    pub async fn previews_waiting(&self) -> Result<u64, StoreError> {
        let row = sqlx::query("SELECT COUNT(*) AS n FROM previews WHERE done_at IS NULL")
            .fetch_one(&self.pool)
            .await
            .map_err(StoreError::doing("counting previews"))?;
        Row::new(row).count("n")
    }

    /// What became of a pull request's preview, or what it waits for; `None` if nobody knows it.
    pub async fn preview_summary(
        &self,
        repository: &RepoName,
        number: i64,
    ) -> Result<Option<String>, StoreError> {
        let row = sqlx::query("SELECT * FROM previews WHERE repository = $1 AND number = $2")
            .bind(repository.as_str())
            .bind(number)
            .fetch_optional(&self.pool)
            .await
            .map_err(StoreError::doing("reading a preview"))?;
        row.map(|row| Row::new(row).text("summary")).transpose()
    }

    /// One statement of who still has the claim.
    async fn fenced(
        &self,
        claim: &PreviewClaim,
        sql: &'static str,
        time: i64,
        summary: Option<&str>,
    ) -> Result<Held, StoreError> {
        let mut write = self.begin(AT_WORK).await?;
        let query = sqlx::query(sql)
            .bind(claim.request.repository.as_str())
            .bind(claim.request.number)
            .bind(claim.turn)
            .bind(time);
        let query = match summary {
            Some(summary) => query.bind(storable(summary)),
            None => query,
        };
        let done = query.execute(write.sql()).await.map_err(StoreError::doing(AT_WORK))?;
        write.commit().await?;
        Ok(Held::by_rows(done.rows_affected()))
    }
}

/// Ends every lease on a preview; see [`Store::end_leases`].
pub(super) async fn abandon(write: &mut Write, now: Timestamp) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE previews SET due_at = $1 \
         WHERE worker IS NOT NULL AND done_at IS NULL AND due_at > $1",
    )
    .bind(now.as_millisecond())
    .execute(write.sql())
    .await
    .map(drop)
    .map_err(StoreError::doing(AT_WORK))
}

/// What is known of a pull request when one hears of it.
struct KnownRequest {
    request: PullRequest,
    done: bool,
}

impl KnownRequest {
    /// The forge counts in seconds: within one, another request counts as the newer.
    fn is_as_new_as(&self, heard: &PullRequest) -> bool {
        self.request.updated_at > heard.updated_at || self.request == *heard
    }
}

async fn known(write: &mut Write, of: &PullRequest) -> Result<Option<KnownRequest>, StoreError> {
    let row = sqlx::query("SELECT * FROM previews WHERE repository = $1 AND number = $2")
        .bind(of.repository.as_str())
        .bind(of.number)
        .fetch_optional(write.sql())
        .await
        .map_err(StoreError::doing(DOING))?;
    let Some(row) = row.map(Row::new) else { return Ok(None) };
    let done = row.maybe_time("done_at")?.is_some();
    Ok(Some(KnownRequest { request: row.json("request")?, done }))
}

async fn waiting(write: &mut Write) -> Result<i64, StoreError> {
    let row = sqlx::query("SELECT COUNT(*) AS n FROM previews WHERE done_at IS NULL")
        .fetch_one(write.sql())
        .await
        .map_err(StoreError::doing(DOING))?;
    Row::new(row).number("n")
}

async fn upsert(write: &mut Write, of: &PullRequest, now: Timestamp) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO previews (repository, number, request, updated_at, received_at, due_at, turn, \
         attempts, failures, summary, shown_turn) VALUES ($1, $2, $3, $4, $5, $5, 1, 0, 0, $6, 0) \
         ON CONFLICT (repository, number) DO UPDATE SET request = $3, updated_at = $4, \
         received_at = $5, due_at = $5, turn = previews.turn + 1, attempts = 0, failures = 0, \
         worker = NULL, done_at = NULL, summary = $6",
    )
    .bind(of.repository.as_str())
    .bind(of.number)
    .bind(to_json(of))
    .bind(of.updated_at.as_millisecond())
    .bind(now.as_millisecond())
    .bind("waiting for a worker")
    .execute(write.sql())
    .await
    .map_err(StoreError::doing(DOING))?;
    Ok(())
}

async fn delete(write: &mut Write, of: &PullRequest) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM previews WHERE repository = $1 AND number = $2")
        .bind(of.repository.as_str())
        .bind(of.number)
        .execute(write.sql())
        .await
        .map_err(StoreError::doing(DOING))?;
    Ok(())
}

async fn drop_old(write: &mut Write, now: Timestamp) -> Result<(), StoreError> {
    let before = now.checked_sub(KEPT).unwrap_or(Timestamp::MIN);
    sqlx::query("DELETE FROM previews WHERE done_at IS NOT NULL AND done_at < $1")
        .bind(before.as_millisecond())
        .execute(write.sql())
        .await
        .map_err(StoreError::doing(DOING))?;
    Ok(())
}

fn claim_of(row: &Row) -> Result<PreviewClaim, StoreError> {
    let shown = match (row.maybe_id("shown_head")?, row.maybe_number("shown_check")?) {
        (Some(head), Some(check)) => {
            let digest = row.maybe_text("shown_digest")?.unwrap_or_default();
            Some(ShownCheck { head, check, digest })
        }
        _ => None,
    };
    Ok(PreviewClaim {
        request: row.json("request")?,
        received_at: row.time("received_at")?,
        turn: row.number("turn")?,
        attempts: row.count("attempts")?,
        failures: row.count("failures")?,
        deaths: deaths::of(&row.text("summary")?),
        shown,
    })
}
