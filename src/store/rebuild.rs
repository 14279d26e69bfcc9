//! What the manifest repositories and the forge still know, written into the tables. Adds what is
//! not there, and changes nothing that is. What waits and was overtaken is ended by who claims it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::model::audit::Entry;
use crate::model::deployment::{ForgeState, State};
use crate::model::id::RepoName;
use crate::model::notice::Sink;
use crate::model::past::{Number, PastDeployment};
use crate::model::removal::Removal;
use crate::model::rollback::{Hold, provisional_number};
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::owners::Owned;
use crate::store::row::{Row, storable, to_json};
use crate::store::write::Write;
use crate::store::{audit, holds, repositories};

/// All that is still known.
#[derive(Debug, Clone, Default)]
pub struct Remembered {
    /// Deployments that were pushed, oldest first.
    pub deployments: Vec<RememberedDeployment>,
    /// Removals that were pushed.
    pub removals: Vec<Removal>,
    /// Whose the apps are that stand.
    pub owners: Vec<Owned>,
    /// Repositories by the forge's number: the name, and when it was last said.
    pub repositories: BTreeMap<i64, (RepoName, Timestamp)>,
}

/// A deployment that was pushed.
#[derive(Debug, Clone)]
pub struct RememberedDeployment {
    /// As its commit says.
    pub past: PastDeployment,
    /// The forge's number, where it is known.
    pub number: Option<Number>,
    /// Whether nothing came after it: then the forge shows it as a success, and is to be told when
    /// another one takes its place.
    pub newest: bool,
    /// The hold that it took as a rollback, and that nobody's deployment has ended.
    pub hold: Option<Hold>,
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
}

/// How many provisional numbers are tried: one is taken only by a rare chance.
const PROVISIONAL: i64 = 100;

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
            rebuilt.deployments += u64::from(deployment(&mut write, one).await?);
        }
        for one in &remembered.removals {
            rebuilt.removals += removal(&mut write, one).await?;
        }
        for one in &remembered.owners {
            rebuilt.owners += owner(&mut write, one).await?;
        }
        for (number, (name, at)) in &remembered.repositories {
            repositories::remember(&mut write, *number, name, *at).await?;
        }
        if really {
            audit::note(&mut write, entry).await?;
            write.commit().await?;
        }
        Ok(rebuilt)
    }
}

/// Whether it was added.
async fn deployment(write: &mut Write, one: &RememberedDeployment) -> Result<bool, StoreError> {
    let RememberedDeployment { past, number, newest, hold } = one;
    make_lane(write, past).await?;
    let added = match number {
        Some(number) if insert(write, past, number).await? > 0 => {
            if *newest {
                shown_as_live(write, past).await?;
            }
            true
        }
        _ => without_number(write, past).await?,
    };
    if let Some(hold) = hold.as_ref().filter(|_| added) {
        holds::place(write, &past.id, hold).await?;
    }
    Ok(added)
}

/// Its number is not known, or is another's: one deployment of the forge was begun twice.
async fn without_number(write: &mut Write, past: &PastDeployment) -> Result<bool, StoreError> {
    if is_known(write, past).await? {
        return Ok(false);
    }
    let first = provisional_number(&past.id);
    for forge_id in first..first + PROVISIONAL {
        let number = Number { forge_id, git_ref: String::new(), production: false };
        if insert(write, past, &number).await? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Its place in its lane: the number that the forge gave it; without one, and of a rollback, the
/// greatest of what came before it.
async fn place(
    write: &mut Write,
    past: &PastDeployment,
    number: &Number,
) -> Result<i64, StoreError> {
    if number.forge_id > 0 && past.rollback.is_none() {
        return Ok(number.forge_id);
    }
    let row = sqlx::query(
        "SELECT 'place' AS id, COALESCE(MAX(place), 0) AS place FROM deployments \
         WHERE repository = $1 AND target = $2 AND id < $3",
    )
    .bind(past.release.repository.as_str())
    .bind(past.target.as_str())
    .bind(past.id.as_str())
    .fetch_one(write.sql())
    .await
    .map_err(StoreError::doing(DOING))?;
    Row::new(row).number("place")
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
        rollback,
        received_at,
        finished_at,
        repository_number: _,
    } = past;
    let place = place(write, past, number).await?;
    let Number { forge_id, git_ref, production } = number;
    let summary = format!("as commit {} of the manifest repository says", pushed.commit.short());
    let done = sqlx::query(
        "INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, \
         git_ref, actor, description, namespace, slug, template, templates_commit, state, \
         received_at, finished_at, stages, summary, violations, pushed, due_at, attempts, failures, \
         production, place, rollback) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, \
         $13, $14, $15, $16, $17, '[]', $18, '[]', $19, $17, 1, 0, $20, $21, $22) \
         ON CONFLICT DO NOTHING",
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
    .bind(place)
    .bind(rollback.as_ref().map(|rollback| storable(&to_json(rollback))))
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
