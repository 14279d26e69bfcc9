//! What the manifest repositories and the forge still know, written into the tables. Adds what is
//! not there, and changes nothing that is; but what waits and was overtaken, is ended.

use jiff::Timestamp;

use crate::model::audit::Entry;
use crate::model::deployment::{ForgeState, State};
use crate::model::notice::Sink;
use crate::model::past::{Number, PastDeployment, stand_in};
use crate::model::removal::Removal;
use crate::model::status::ForgeStatus;
use crate::store::owners::Owned;
use crate::store::row::{Row, storable, to_json};
use crate::store::{Store, StoreError, Write, audit, lane};

/// All that is still known.
#[derive(Debug, Clone, Default)]
pub struct Remembered {
    /// Deployments that were pushed, oldest first.
    pub deployments: Vec<RememberedDeployment>,
    /// Removals that were pushed.
    pub removals: Vec<Removal>,
    /// Whose the apps are that stand.
    pub owners: Vec<Owned>,
}

/// A deployment that was pushed.
#[derive(Debug, Clone)]
pub struct RememberedDeployment {
    /// As its commit says.
    pub past: PastDeployment,
    /// The forge's number, where it is known.
    pub number: Option<Number>,
    /// Whether its revision is live: then the forge shows it as a success, and is to be told when
    /// another one takes its place.
    pub live: bool,
}

/// How much was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rebuilt {
    /// Deployments.
    pub deployments: u64,
    /// Removals.
    pub removals: u64,
    /// Owners of apps.
    pub owners: u64,
    /// Deployments that waited, and in whose place a newer one is live that was added.
    pub overtaken: u64,
}

/// How many stand-ins for numbers are tried: as many deployments of a repository to a millisecond.
const STAND_INS: i64 = 1_000;

const DOING: &str = "rebuilding the record";

impl Store {
    /// Writes what is remembered, with an entry in the audit log for it; nothing of it without
    /// `really`, and all or nothing with it.
    pub async fn rebuild(
        &self,
        remembered: &Remembered,
        entry: &Entry,
        really: bool,
    ) -> Result<Rebuilt, StoreError> {
        let mut write = self.begin_durable(DOING).await?;
        let mut rebuilt = Rebuilt::default();
        for one in &remembered.deployments {
            if deployment(&mut write, one).await? {
                rebuilt.deployments += 1;
                rebuilt.overtaken += self.overtake(&mut write, &one.past, entry.at).await?;
            }
        }
        for one in &remembered.removals {
            rebuilt.removals += removal(&mut write, one).await?;
        }
        for one in &remembered.owners {
            rebuilt.owners += owner(&mut write, one).await?;
        }
        if really {
            audit::note(&mut write, entry).await?;
            write.commit().await?;
        }
        Ok(rebuilt)
    }
}

impl Store {
    /// Of a record that was behind, what waits in the lane and is older than one that was pushed is
    /// ended. By the forge's numbers it would be, too; but those are not always known.
    async fn overtake(
        &self,
        write: &mut Write,
        by: &PastDeployment,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let rows = sqlx::query(
            "SELECT id FROM deployments WHERE repository = $1 AND target = $2 \
             AND state IN ('queued', 'running') AND received_at < $3 ORDER BY id",
        )
        .bind(by.release.repository.as_str())
        .bind(by.target.as_str())
        .bind(by.received_at.as_millisecond())
        .fetch_all(write.sql())
        .await
        .map_err(StoreError::doing(DOING))?;
        let sentence = format!("superseded by deployment {}, which was pushed before", by.id);
        let status = ForgeStatus::new(ForgeState::Inactive, &sentence);
        let mut ended = 0;
        for row in rows {
            lane::end(self, write, &Row::new(row).id("id")?, &status, now).await?;
            ended += 1;
        }
        Ok(ended)
    }
}

/// Whether it was added.
async fn deployment(write: &mut Write, one: &RememberedDeployment) -> Result<bool, StoreError> {
    let RememberedDeployment { past, number, live } = one;
    make_lane(write, past).await?;
    let unknown = Number { forge_id: 0, git_ref: String::new(), production: false };
    if let Some(number) = number
        && insert(write, past, number).await? > 0
    {
        if *live {
            shown_as_live(write, past).await?;
        }
        return Ok(true);
    }
    if is_known(write, past).await? {
        return Ok(false);
    }
    // The number is nobody's, or somebody else's: one deployment of the forge was begun twice.
    let first = stand_in(past.received_at);
    for forge_id in first..first + STAND_INS {
        if insert(write, past, &Number { forge_id, ..unknown.clone() }).await? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn make_lane(write: &mut Write, past: &PastDeployment) -> Result<(), StoreError> {
    sqlx::query("INSERT INTO lanes (repository, target) VALUES ($1, $2) ON CONFLICT DO NOTHING")
        .bind(past.release.repository.as_str())
        .bind(past.target.as_str())
        .execute(write.sql())
        .await
        .map(drop)
        .map_err(StoreError::doing(DOING))
}

async fn is_known(write: &mut Write, past: &PastDeployment) -> Result<bool, StoreError> {
    let row = sqlx::query("SELECT id FROM deployments WHERE id = $1")
        .bind(past.id.as_str())
        .fetch_optional(write.sql())
        .await
        .map_err(StoreError::doing(DOING))?;
    Ok(row.is_some())
}

async fn insert(
    write: &mut Write,
    past: &PastDeployment,
    number: &Number,
) -> Result<u64, StoreError> {
    let PastDeployment {
        id,
        app,
        target,
        release,
        actor,
        reason,
        template,
        templates_commit,
        pushed,
        received_at,
        finished_at,
    } = past;
    let Number { forge_id, git_ref, production } = number;
    let summary = format!("as commit {} of the manifest repository says", pushed.commit.short());
    let done = sqlx::query(
        "INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, \
         git_ref, actor, description, namespace, slug, template, templates_commit, state, \
         received_at, finished_at, stages, summary, violations, pushed, due_at, attempts, failures, \
         production, place) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, \
         $16, $17, '[]', $18, '[]', $19, $17, 1, 0, $20, $5) ON CONFLICT DO NOTHING",
    )
    .bind(id.as_str())
    .bind(format!("rebuilt-{id}"))
    .bind(release.repository.as_str())
    .bind(target.as_str())
    .bind(*forge_id)
    .bind(release.commit.as_str())
    .bind(release.tag.as_str())
    .bind(storable(git_ref))
    .bind(storable(actor))
    .bind(storable(reason))
    .bind(app.namespace.as_str())
    .bind(app.slug.as_str())
    .bind(template.as_deref().map(storable))
    .bind(templates_commit.as_ref().map(ToString::to_string))
    .bind(State::Succeeded.as_str())
    .bind(received_at.as_millisecond())
    .bind(finished_at.as_millisecond())
    .bind(summary)
    .bind(storable(&to_json(pushed)))
    .bind(i64::from(*production))
    .execute(write.sql())
    .await
    .map_err(StoreError::doing(DOING))?;
    Ok(done.rows_affected())
}

/// That the forge was told of the success. Whoever takes its place is told only of what it shows.
async fn shown_as_live(write: &mut Write, past: &PastDeployment) -> Result<(), StoreError> {
    let sink = Sink::Forge;
    sqlx::query(
        "INSERT INTO outbox (deployment, sink, seq, family, state, description, at, due_at, \
         attempts, unsure, outcome, done_at, reason) \
         VALUES ($1, $2, 1, $3, $4, $5, $6, $6, 0, 0, 'sent', $6, $7)",
    )
    .bind(past.id.as_str())
    .bind(sink.to_string())
    .bind(sink.family().to_string())
    .bind(ForgeState::Success.as_str())
    .bind("told before the record was rebuilt")
    .bind(past.finished_at.as_millisecond())
    .bind(None::<String>)
    .execute(write.sql())
    .await
    .map(drop)
    .map_err(StoreError::doing(DOING))
}

async fn removal(write: &mut Write, one: &Removal) -> Result<u64, StoreError> {
    let Removal { id, target, app, actor, reason, taken, asked_at, ended } = one;
    let at = ended.as_ref().map_or(*asked_at, |ended| ended.at);
    let commit = ended.as_ref().and_then(|ended| ended.commit.as_ref());
    let done = sqlx::query(
        "INSERT INTO acts (id, kind, target, namespace, slug, actor, reason, details, asked_at, \
         due_at, finished_at, commit_id, summary) \
         VALUES ($1, 'removal', $2, $3, $4, $5, $6, $7, $8, $9, $9, $10, $11) ON CONFLICT DO NOTHING",
    )
    .bind(id.as_str())
    .bind(target.as_str())
    .bind(app.namespace.as_str())
    .bind(app.slug.as_str())
    .bind(storable(actor))
    .bind(storable(reason))
    .bind(storable(&to_json(taken)))
    .bind(asked_at.as_millisecond())
    .bind(at.as_millisecond())
    .bind(commit.map(ToString::to_string))
    .bind(ended.as_ref().map_or_else(String::new, |ended| storable(&ended.summary)))
    .execute(write.sql())
    .await
    .map_err(StoreError::doing(DOING))?;
    Ok(done.rows_affected())
}

async fn owner(write: &mut Write, one: &Owned) -> Result<u64, StoreError> {
    let Owned { target, app, repository, since, moved: _ } = one;
    let done = sqlx::query(
        "INSERT INTO owners (target, namespace, slug, repository, since) \
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
    )
    .bind(target.as_str())
    .bind(app.namespace.as_str())
    .bind(app.slug.as_str())
    .bind(repository.as_str())
    .bind(since.as_millisecond())
    .execute(write.sql())
    .await
    .map_err(StoreError::doing(DOING))?;
    Ok(done.rows_affected())
}
