//! Restores records from the manifest repositories and the code host. It adds what is missing, and
//! changes no existing row. The next claim ends deployments that wait and were overtaken.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::model::audit::AuditRecord;
use crate::model::commit_record::{ForgeNumber, PastDeployment};
use crate::model::deployment::{ForgeState, State};
use crate::model::id::RepoName;
use crate::model::notice::Sink;
use crate::model::removal::RemovalRecord;
use crate::model::rollback::{Hold, provisional_number};
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::owners::OwnerRecord;
use crate::store::query::query;
use crate::store::row::to_json;
use crate::store::write::WriteTransaction;
use crate::store::{audit, holds, lane, repositories};

/// All records that can be restored.
#[derive(Debug, Clone, Default)]
pub struct RestorableRecords {
    /// Deployments that were pushed, oldest first.
    pub deployments: Vec<RememberedDeployment>,
    /// Removals that were pushed.
    pub removals: Vec<RemovalRecord>,
    /// The owners of apps, also of those that are gone.
    pub owners: Vec<OwnerRecord>,
    /// Repositories by the code host's number: the name, and the time when it was last read.
    pub repositories: BTreeMap<i64, (RepoName, Timestamp)>,
}

/// A deployment that was pushed.
#[derive(Debug, Clone)]
pub struct RememberedDeployment {
    /// The deployment by its commit.
    pub past: PastDeployment,
    /// The code host's number, where it is known.
    pub number: Option<ForgeNumber>,
    /// True if it is the newest of its app on the target: then the code host shows it as a success, and must get
    /// `inactive` when another one replaces it.
    pub newest: bool,
    /// The hold that it took as a rollback, unless a person's deployment has ended it.
    pub hold: Option<Hold>,
}

impl RememberedDeployment {
    /// Holds the app, if the deployment is a rollback: it took that hold when it was pushed.
    pub fn take_hold(&mut self) {
        let past = &mut self.past;
        let Some(rollback) = &mut past.rollback else { return };
        rollback.hold = true;
        self.hold = Some(Hold {
            target: past.target.clone(),
            app: past.app.clone(),
            by: past.actor.clone(),
            reason: past.reason.clone(),
            since: past.finished_at,
            rollback: Some(past.id.clone()),
            away: rollback.away.clone(),
            to: Some(past.release.tag.clone()),
        });
    }
}

/// The number of rows that were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rebuilt {
    /// Deployments.
    pub deployments: u64,
    /// Removals.
    pub removals: u64,
    /// Owners of apps.
    pub owners: u64,
}

/// The number of provisional numbers that are tried: one is taken only by a rare chance.
const PROVISIONAL: i64 = 100;

const DOING: &str = "rebuilding the record";

impl Store {
    /// Writes the records, with an entry in the audit log for it; nothing of it without `is_confirmed`,
    /// and all or nothing with it.
    pub async fn rebuild(
        &self,
        remembered: &RestorableRecords,
        entry: &AuditRecord,
        is_confirmed: bool,
    ) -> Result<Rebuilt, StoreError> {
        let mut write = self.begin_durable(DOING).await?;
        let mut rebuilt = Rebuilt::default();
        for deployment in &remembered.deployments {
            rebuilt.deployments += u64::from(insert_deployment(&mut write, deployment).await?);
        }
        for removal in &remembered.removals {
            rebuilt.removals += insert_removal(&mut write, removal).await?;
        }
        for owner in &remembered.owners {
            rebuilt.owners += insert_owner(&mut write, owner).await?;
        }
        for (number, (name, at)) in &remembered.repositories {
            repositories::remember(&mut write, *number, name, *at).await?;
        }
        if is_confirmed {
            audit::note(&mut write, entry).await?;
            write.commit().await?;
        }
        Ok(rebuilt)
    }
}

/// Adds the deployment; returns true if it was added.
async fn insert_deployment(
    write: &mut WriteTransaction,
    remembered: &RememberedDeployment,
) -> Result<bool, StoreError> {
    let RememberedDeployment { past, number, newest, hold } = remembered;
    make_lane(write, past).await?;
    let is_added = match number {
        Some(number) if insert(write, past, number).await? > 0 => {
            // The code host never heard of the part of a fleet's deployment.
            if *newest && past.fleet.is_none() {
                insert_success(write, past).await?;
            }
            true
        }
        _ => insert_provisional(write, past).await?,
    };
    if let Some(hold) = hold.as_ref().filter(|_| is_added) {
        holds::place(write, &past.id, hold).await?;
    }
    Ok(is_added)
}

/// Adds a deployment whose number is not known, or belongs to another: one deployment of the code
/// host was started twice.
async fn insert_provisional(
    write: &mut WriteTransaction,
    past: &PastDeployment,
) -> Result<bool, StoreError> {
    if exists(write, past).await? {
        return Ok(false);
    }
    let first = provisional_number(&past.id);
    for forge_id in first..first + PROVISIONAL {
        let number = ForgeNumber { forge_id, git_ref: String::new(), production: false };
        if insert(write, past, &number).await? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns its place in its lane: the number that the code host gave it; without one, and for a
/// rollback, the greatest place of those before it.
async fn place(
    write: &mut WriteTransaction,
    past: &PastDeployment,
    number: &ForgeNumber,
) -> Result<i64, StoreError> {
    if number.forge_id > 0 && past.rollback.is_none() {
        return Ok(number.forge_id);
    }
    if let Some((fleet, _)) = &past.fleet {
        let row = query("SELECT id, place FROM deployments WHERE id = $1", fleet)
            .first(write.sql(), DOING)
            .await?;
        if let Some(row) = row {
            return row.number("place");
        }
    }
    let sql = "SELECT 'place' AS id, COALESCE(MAX(place), 0) AS place FROM deployments \
         WHERE repository = $1 AND target = $2 AND (app_name = $4 OR (namespace = $5 AND slug = $6)) AND id < $3";
    let name = lane::app_word(past.release.app.as_ref());
    let row = query(sql, (&past.release.repository, &past.target, &past.id, name, &past.app))
        .fetch_one(write.sql(), DOING)
        .await?;
    row.number("place")
}

async fn make_lane(write: &mut WriteTransaction, past: &PastDeployment) -> Result<(), StoreError> {
    let sql = "INSERT INTO lanes (repository, target) VALUES ($1, $2) ON CONFLICT DO NOTHING";
    query(sql, (&past.release.repository, &past.target)).execute(write.sql(), DOING).await.map(drop)
}

async fn exists(write: &mut WriteTransaction, past: &PastDeployment) -> Result<bool, StoreError> {
    let row = query("SELECT id FROM deployments WHERE id = $1", &past.id)
        .first(write.sql(), DOING)
        .await?;
    Ok(row.is_some())
}

async fn insert(
    write: &mut WriteTransaction,
    past: &PastDeployment,
    number: &ForgeNumber,
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
        fleet,
        repository_number: _,
    } = past;
    let place = place(write, past, number).await?;
    let ForgeNumber { forge_id, git_ref, production } = number;
    let summary =
        format!("restored from commit {} of the manifest repository", pushed.commit.short());
    let sql = "INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, \
         git_ref, actor, description, namespace, slug, template, templates_commit, state, \
         received_at, finished_at, stages, summary, violations, pushed, due_at, attempts, failures, \
         production, place, rollback, fleet, app_name) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, \
         $13, $14, $15, $16, $17, '[]', $18, '[]', $19, $17, 1, 0, $20, $21, $22, $23, $24) \
         ON CONFLICT DO NOTHING";
    let lane = (id, format!("rebuilt-{id}"), &release.repository, target, forge_id);
    let request_columns = (&release.commit, &release.tag, git_ref, actor, reason);
    let app_columns = (app, template, templates_commit, State::Succeeded.as_str());
    let end_columns = (received_at, finished_at, summary, to_json(pushed), production, place);
    let name = lane::app_word(release.app.as_ref());
    let kind = (rollback.as_ref().map(to_json), fleet.as_ref().map(|(id, _)| id), name);
    let values = (lane, request_columns, app_columns, end_columns, kind);
    query(sql, values).execute(write.sql(), DOING).await
}

/// Records that the code host got the success, so that its successor sends `inactive` only for what
/// the code host shows.
async fn insert_success(
    write: &mut WriteTransaction,
    past: &PastDeployment,
) -> Result<(), StoreError> {
    let sink = Sink::Forge;
    let sql = "INSERT INTO outbox (deployment, sink, seq, family, state, description, at, due_at, \
         attempts, unsure, outcome, done_at, reason) \
         VALUES ($1, $2, 1, $3, $4, $5, $6, $6, 0, 0, 'sent', $6, $7)";
    let (state, words) = (ForgeState::Success.as_str(), "sent before the record was rebuilt");
    let values = (&past.id, &sink, sink.family(), state, words, past.finished_at, None::<String>);
    query(sql, values).execute(write.sql(), DOING).await.map(drop)
}

async fn insert_removal(
    write: &mut WriteTransaction,
    removal: &RemovalRecord,
) -> Result<u64, StoreError> {
    let RemovalRecord { id, target, app, actor, reason, taken: plan, asked_at, ended: end } =
        removal;
    let at = end.as_ref().map_or(*asked_at, |end| end.at);
    let commit = end.as_ref().and_then(|end| end.commit.as_ref());
    let sql = "INSERT INTO acts (id, kind, target, namespace, slug, actor, reason, details, asked_at, \
         due_at, finished_at, commit_id, summary) \
         VALUES ($1, 'removal', $2, $3, $4, $5, $6, $7, $8, $9, $9, $10, $11) ON CONFLICT DO NOTHING";
    let summary = end.as_ref().map_or("", |end| &end.summary);
    let act_columns = (id, target, app, actor, reason, to_json(plan));
    query(sql, (act_columns, asked_at, at, commit, summary)).execute(write.sql(), DOING).await
}

async fn insert_owner(
    write: &mut WriteTransaction,
    owner: &OwnerRecord,
) -> Result<u64, StoreError> {
    let OwnerRecord { target, app, repository, since, moved: _ } = owner;
    let sql = "INSERT INTO owners (target, namespace, slug, repository, since) \
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
    let count = query(sql, (target, app, repository, since)).execute(write.sql(), DOING).await?;
    Ok(count)
}
