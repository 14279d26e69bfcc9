//! Rollouts: their records, the targets that each has to itself, and the one transaction in which a record moves and
//! its orders become deployments.
//!
//! The record is the state machine's, as JSON; nothing here reads it. A transaction that changes it names the version
//! that was read: of several replicas one wins, and the others have changed nothing. Rows are locked in one order:
//! lanes, deployments, claims, rollouts; and several rollouts in the order of their ids, those that are queued behind one
//! that has ended after it.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::audit::AuditRecord;
use crate::model::deployment::Deployment;
use crate::model::event::Recipient;
use crate::model::id::{
    AppKey, AppName, DeployId, ImageTag, RepoName, RolloutId, RolloutName, TargetName,
};
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::idempotency_keys::{self, PendingAnswer};
use crate::store::lease::end_of;
use crate::store::query::{LONGEST_PAGE, Query, placeholders, query, query_of};
use crate::store::row::{self, Row, overview_columns, to_json};
use crate::store::write::WriteTransaction;
use crate::store::{audit, lane, rollout_reports, rollout_requests};

/// A rollout as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRollout {
    /// Its id.
    pub id: RolloutId,
    /// The id of its undo.
    pub undo_id: RolloutId,
    /// The repository of the release, by its present name.
    pub repository: RepoName,
    /// The app.
    pub app: AppKey,
    /// The name of its plan in the WAML; `None` where the targets were chosen by hand.
    pub name: Option<RolloutName>,
    /// The image tag of the release.
    pub tag: ImageTag,
    /// The targets, in the order of the rollout.
    pub targets: Vec<TargetName>,
    /// The data of its deployments.
    pub origin: RolloutOrigin,
    /// The person or program that started it.
    pub creator: String,
    /// The reason.
    pub reason: String,
    /// The time of its start.
    pub created_at: Timestamp,
    /// False while it is queued behind another rollout.
    pub is_claimed: bool,
    /// The record, and what queries need of it.
    pub progress: RolloutProgress,
}

/// The part of a rollout that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutProgress {
    /// The word for its state.
    pub state: String,
    /// The version of the record.
    pub version: i64,
    /// The record, as JSON.
    pub record: String,
    /// What it waits for, as JSON.
    pub waits: String,
    /// The time at which it came into that state.
    pub since: Timestamp,
    /// The time of its end.
    pub ended_at: Option<Timestamp>,
    /// The time of its next turn.
    pub due_at: Timestamp,
}

/// What the deployments of a rollout have of its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutOrigin {
    /// The branch, tag or commit that was named.
    pub git_ref: String,
    /// The owning team's e-mail address, by the WAML.
    pub owner: String,
    /// True if a program started it, and no person.
    pub automatic: bool,
    /// The receiver of messages for people.
    pub recipient: Recipient,
    /// The code host's number of the deployment by which it was started, if it was.
    #[serde(default)]
    pub event: Option<i64>,
}

/// The filter of a list of rollouts; an absent field does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RolloutFilter {
    /// Only this app.
    pub app: Option<AppKey>,
    /// Only this repository.
    pub repository: Option<RepoName>,
    /// Only rollouts with this target.
    pub target: Option<TargetName>,
    /// Only rollouts in the state of this word.
    pub state: Option<String>,
    /// Only rollouts that have not ended.
    pub unfinished: bool,
}

/// The result of storing a new rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "it may not have been stored"]
pub enum RolloutStart {
    /// It is stored, and has its turn.
    Started,
    /// It is stored, and waits until this one has ended.
    Queued(RolloutId),
    /// It is not stored: this one has a target of it.
    Overlaps(RolloutId),
    /// It is not stored: the deployment of the code host has started one.
    Repeated,
}

/// The turn of a rollout, which one replica has for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutClaim {
    /// The rollout.
    pub rollout: StoredRollout,
    /// The end of the lease; where it is another one by then, the rollout was woken during the turn.
    pub lease_end: Timestamp,
}

const DOING: &str = "storing a rollout";
const CLAIMING: &str = "claiming a rollout";
const READING: &str = "reading rollouts";
/// The most deployments of one rollout that are read.
const MAX_DEPLOYMENTS: usize = 10_000;
/// The tries to claim targets that others free meanwhile.
const CLAIM_TRIES: usize = 3;
/// The number of targets in one statement.
const AT_ONCE: usize = 100;
const COLUMNS: &str = "id, undo_id, repository, namespace, slug, name, tag, targets, origin, creator, reason, state, \
     version, record, waits, claimed, created_at, since, ended_at, due_at";

impl Store {
    /// Stores a new rollout with its entry in the audit log and its answer, and claims its targets, unless another open
    /// rollout of the app has one of them or is queued for it. Then it is queued, if it may be.
    pub async fn create_rollout(
        &self,
        new: &StoredRollout,
        may_queue: bool,
        entry: &AuditRecord,
        answer: &(dyn Fn(&RolloutStart) -> Option<PendingAnswer> + Sync),
    ) -> Result<RolloutStart, StoreError> {
        let mut write = self.begin_durable(DOING).await?;
        let overlap = claim_in_turn(&mut write, new).await?;
        let start = match overlap {
            None => RolloutStart::Started,
            Some(other) if may_queue => RolloutStart::Queued(other),
            Some(other) => {
                write.commit().await?;
                return Ok(RolloutStart::Overlaps(other));
            }
        };
        if let Some(forge_id) = new.origin.event {
            let event = (&new.repository, forge_id);
            if !rollout_requests::note_start(&mut write, event, &new.id).await? {
                // Dropped, it is undone.
                return Ok(RolloutStart::Repeated);
            }
        }
        insert(&mut write, new, start == RolloutStart::Started).await?;
        audit::note(&mut write, entry).await?;
        idempotency_keys::keep(&mut write, answer(&start).as_ref()).await?;
        write.commit().await?;
        Ok(start)
    }

    /// Returns the rollout of an id; that of its undo does as well.
    pub async fn rollout(&self, id: &RolloutId) -> Result<Option<StoredRollout>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM rollouts WHERE id = $1 OR undo_id = $1");
        let row = query_of(sql, id).first(&self.readers, READING).await?;
        row.as_ref().map(read_rollout).transpose()
    }

    /// Returns a text that is another one after each change of a rollout, or of what it waits for. It costs less to read
    /// than the rollout.
    pub async fn rollout_version(&self, id: &RolloutId) -> Result<Option<String>, StoreError> {
        let sql = "SELECT id, version, waits FROM rollouts WHERE id = $1 OR undo_id = $1";
        let row = query(sql, id).first(&self.readers, READING).await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(format!("{} {}", row.number("version")?, row.text("waits")?)))
    }

    /// Returns the newest rollouts that pass the filter, before the cursor if one is given, and the cursor of the next
    /// page.
    pub async fn rollouts(
        &self,
        filter: &RolloutFilter,
        before: Option<&RolloutId>,
        limit: u32,
    ) -> Result<(Vec<StoredRollout>, Option<RolloutId>), StoreError> {
        let limit = limit.clamp(1, LONGEST_PAGE);
        let RolloutFilter { app, repository, target, state, unfinished } = filter;
        let sql = format!(
            "SELECT {COLUMNS} FROM rollouts WHERE ($1 = '' OR namespace = $1) AND ($2 = '' OR slug = $2) \
             AND ($3 = '' OR repository = $3) AND ($4 = '' OR targets <> REPLACE(targets, $4, '')) \
             AND ($5 = '' OR state = $5) AND ($6 = 0 OR ended_at IS NULL) AND ($7 = '' OR id < $7) \
             ORDER BY id DESC LIMIT {}",
            limit + 1
        );
        let namespace = app.as_ref().map_or("", |app| app.namespace.as_str());
        let slug = app.as_ref().map_or("", |app| app.slug.as_str());
        let repository = repository.as_ref().map_or("", RepoName::as_str);
        // As it stands in the list.
        let target = target.as_ref().map_or_else(String::new, |target| format!("\"{target}\""));
        let state = state.as_deref().unwrap_or_default();
        let before = before.map_or("", RolloutId::as_str);
        let values = ((namespace, slug, repository), (target, state), (*unfinished, before));
        let size = |one: &StoredRollout| one.progress.record.len() + one.reason.len() + 1000;
        let page = query_of(sql, values).page(&self.readers, READING, limit, read_rollout, size);
        let (rollouts, has_more) = page.await?;
        let next = rollouts.last().filter(|_| has_more).map(|one: &StoredRollout| one.id.clone());
        Ok((rollouts, next))
    }

    /// Gives the next rollout that is due its turn: until the end of the lease no other replica takes it, unless it is
    /// woken.
    pub async fn claim_rollout(
        &self,
        now: Timestamp,
        lease: Duration,
    ) -> Result<Option<RolloutClaim>, StoreError> {
        let sql = "SELECT id FROM rollouts WHERE ended_at IS NULL AND due_at <= $1 ORDER BY due_at, id LIMIT 1";
        // In most cases there is none: that takes no turn to write.
        if query(sql, now).first(&self.readers, CLAIMING).await?.is_none() {
            return Ok(None);
        }
        let lease_end = end_of(now, lease);
        let mut write = self.begin(CLAIMING).await?;
        let sql = self.locking(sql, "FOR UPDATE SKIP LOCKED");
        let Some(row) = query(sql, now).first(write.sql(), CLAIMING).await? else {
            return Ok(None);
        };
        let id: RolloutId = row.id("id")?;
        let sql = format!("UPDATE rollouts SET due_at = $2 WHERE id = $1 RETURNING {COLUMNS}");
        let row = query_of(sql, (&id, lease_end)).fetch_one(write.sql(), CLAIMING).await?;
        // One that cannot be read comes last from now on: it keeps no other from its turn.
        write.commit().await?;
        let rollout = read_rollout(&row)?;
        Ok(Some(RolloutClaim { lease_end: rollout.progress.due_at, rollout }))
    }

    /// Ends a turn that has changed nothing: notes what the rollout waits for, and the time of the next turn.
    pub async fn rest_rollout(
        &self,
        claim: &RolloutClaim,
        waits: &str,
        due_at: Timestamp,
    ) -> Result<(), StoreError> {
        // One that has changed since it was read is due at once: the lease of this turn must not hold it.
        let sql = "UPDATE rollouts SET waits = CASE WHEN version = $2 THEN $3 ELSE waits END, \
             due_at = CASE WHEN due_at <> $4 THEN due_at WHEN version = $2 THEN $5 ELSE created_at END \
             WHERE id = $1";
        let rollout = (&claim.rollout.id, claim.rollout.progress.version);
        let rest = query(sql, (rollout, waits, claim.lease_end, due_at));
        self.run(rest, DOING).await.map(drop)
    }

    /// Gives a queued rollout its targets, once no other has one of them; returns the one that has.
    pub async fn begin_queued_rollout(
        &self,
        rollout: &StoredRollout,
    ) -> Result<Option<RolloutId>, StoreError> {
        let mut write = self.begin_durable(DOING).await?;
        let other = claim_in_turn(&mut write, rollout).await?;
        if other.is_none() {
            // Under another name of its repository, its claims would exclude no other.
            let sql = "UPDATE rollouts SET claimed = 1 WHERE id = $1 AND repository = $2 AND ended_at IS NULL";
            if query(sql, (&rollout.id, &rollout.repository)).execute(write.sql(), DOING).await?
                == 0
            {
                free_targets(&mut write, &rollout.id);
            }
        }
        write.commit().await?;
        Ok(other)
    }

    /// Returns the open rollout of the app that has one of these targets.
    pub async fn rollout_overlap(
        &self,
        repository: &RepoName,
        app: &AppKey,
        targets: &[&TargetName],
    ) -> Result<Option<RolloutId>, StoreError> {
        for chunk in targets.chunks(AT_ONCE) {
            let row = select_claims(repository, app, chunk).first(&self.readers, READING).await?;
            if let Some(row) = row {
                return row.id("id").map(Some);
            }
        }
        Ok(None)
    }

    /// Returns the deployments that a rollout and its undo made, in the order in which they were made.
    pub async fn rollout_deployments(
        &self,
        rollout: &StoredRollout,
    ) -> Result<Vec<Deployment>, StoreError> {
        let sql = format!(
            concat!(
                "SELECT ",
                overview_columns!(),
                " FROM deployments WHERE rollout IN ($1, $2) ORDER BY id LIMIT {}"
            ),
            MAX_DEPLOYMENTS
        );
        let ids = (&rollout.id, &rollout.undo_id);
        let rows = query_of(sql, ids).fetch_all(&self.readers, READING).await?;
        rows.iter().map(row::overview).collect()
    }

    /// Returns the newest pushed deployment of an app to each of these targets.
    pub async fn newest_pushed(
        &self,
        app: &AppKey,
        targets: &[&TargetName],
    ) -> Result<Vec<Deployment>, StoreError> {
        let mut newest = Vec::new();
        for chunk in targets.chunks(AT_ONCE) {
            let sql = format!(
                concat!(
                    "SELECT ",
                    overview_columns!(),
                    " FROM deployments WHERE id IN (SELECT MAX(id) FROM deployments \
                     WHERE target IN ({}) AND namespace = $1 AND slug = $2 AND state = 'succeeded' GROUP BY target)"
                ),
                placeholders(3, chunk.len())
            );
            let rows =
                query_of(sql, (app, chunk.to_vec())).fetch_all(&self.readers, READING).await?;
            for row in &rows {
                newest.push(row::overview(row)?);
            }
        }
        Ok(newest)
    }

    /// Returns the deployments of the rollout's app that have not ended and that others asked for, each with its target: they
    /// come before it. One that names no app may be of every app of its repository.
    pub async fn deployments_beside(
        &self,
        rollout: &StoredRollout,
        app_name: Option<&AppName>,
    ) -> Result<Vec<(TargetName, DeployId)>, StoreError> {
        let sql = "SELECT id, target FROM deployments WHERE repository = $1 AND finished_at IS NULL \
             AND (rollout IS NULL OR rollout NOT IN ($2, $3)) \
             AND (app_name IN ($4, '') OR (namespace = $5 AND slug = $6)) ORDER BY id LIMIT 1000";
        let StoredRollout { id, undo_id, repository, app, .. } = rollout;
        let values = (repository, id, undo_id, (lane::app_word(app_name), app));
        let rows = query(sql, values).fetch_all(&self.readers, READING).await?;
        rows.iter().map(|row| Ok((row.id("target")?, row.id("id")?))).collect()
    }
}

/// Claims the targets, unless an older rollout is queued for one of them; returns the rollout that is in the way.
async fn claim_in_turn(
    write: &mut WriteTransaction,
    rollout: &StoredRollout,
) -> Result<Option<RolloutId>, StoreError> {
    match find_queued(write, rollout).await? {
        Some(other) => Ok(Some(other)),
        None => claim_targets(write, rollout).await,
    }
}

/// Returns an older rollout of the app that is queued for one of these targets.
async fn find_queued(
    write: &mut WriteTransaction,
    new: &StoredRollout,
) -> Result<Option<RolloutId>, StoreError> {
    let sql = "SELECT id, targets FROM rollouts WHERE namespace = $1 AND slug = $2 AND repository = $3 \
         AND ended_at IS NULL AND claimed = 0 AND id < $4 ORDER BY id";
    let rows =
        query(sql, (&new.app, &new.repository, &new.id)).fetch_all(write.sql(), DOING).await?;
    for row in &rows {
        let targets: Vec<TargetName> = row.json("targets")?;
        if targets.iter().any(|target| new.targets.contains(target)) {
            return Ok(Some(row.id("id")?));
        }
    }
    Ok(None)
}

/// Claims the targets, all or none; returns the rollout that has one of them.
pub(super) async fn claim_targets(
    write: &mut WriteTransaction,
    rollout: &StoredRollout,
) -> Result<Option<RolloutId>, StoreError> {
    let StoredRollout { id, repository, app, targets, .. } = rollout;
    // In one order, so that two rollouts cannot wait for each other.
    let mut sorted: Vec<&TargetName> = targets.iter().collect();
    sorted.sort();
    let (mut count, mut other) = (0, None);
    // A target that another had when the rows were inserted may be free by the time it is looked for.
    for _ in 0..CLAIM_TRIES {
        for chunk in sorted.chunks(AT_ONCE) {
            let row = |n: usize| format!("($1, $2, $3, ${}, $4)", n + 5);
            let rows: Vec<String> = (0..chunk.len()).map(row).collect();
            let sql = format!(
                "INSERT INTO rollout_claims (repository, namespace, slug, target, rollout) VALUES {} \
                 ON CONFLICT DO NOTHING",
                rows.join(", ")
            );
            let values = (repository, app, id, chunk.to_vec());
            count += query_of(sql, values).execute(write.sql(), DOING).await?;
        }
        for chunk in sorted.chunks(AT_ONCE) {
            let rows = select_claims(repository, app, chunk).fetch_all(write.sql(), DOING).await?;
            let others =
                rows.iter().map(|row| row.id("id")).collect::<Result<Vec<RolloutId>, _>>()?;
            other = other.or_else(|| others.into_iter().find(|other| other != id));
        }
        if other.is_some() || usize::try_from(count).is_ok_and(|count| count == sorted.len()) {
            break;
        }
    }
    if other.is_some() {
        free_targets(write, id);
    }
    Ok(other)
}

/// Returns the query for the rollouts that have one of these targets.
fn select_claims(repository: &RepoName, app: &AppKey, targets: &[&TargetName]) -> Query {
    let sql = format!(
        "SELECT DISTINCT rollout AS id FROM rollout_claims WHERE repository = $1 AND namespace = $2 AND slug = $3 \
         AND target IN ({}) ORDER BY rollout",
        placeholders(4, targets.len())
    );
    query_of(sql, (repository, app, targets.to_vec()))
}

/// Gives the targets back.
pub(super) fn free_targets(write: &mut WriteTransaction, id: &RolloutId) {
    write.later(query("DELETE FROM rollout_claims WHERE rollout = $1", id));
}

async fn insert(
    write: &mut WriteTransaction,
    new: &StoredRollout,
    is_claimed: bool,
) -> Result<(), StoreError> {
    let StoredRollout { id, undo_id, repository, app, name, tag, targets, origin, .. } = new;
    let StoredRollout { creator, reason, created_at, progress, .. } = new;
    let RolloutProgress { state, version, record, waits, since, ended_at, due_at } = progress;
    let sql = format!("INSERT INTO rollouts ({COLUMNS}) VALUES ({})", placeholders(1, 20));
    let plan = (name, tag, to_json(targets), to_json(origin), creator, reason);
    let ids = (id, undo_id, repository, app);
    let values = (
        ids,
        plan,
        (state, version, record, waits),
        is_claimed,
        (created_at, since, ended_at, due_at),
    );
    query_of(sql, values).execute(write.sql(), DOING).await?;
    rollout_reports::announce(write, id, *created_at);
    Ok(())
}

pub(super) fn read_rollout(row: &Row) -> Result<StoredRollout, StoreError> {
    Ok(StoredRollout {
        id: row.id("id")?,
        undo_id: row.id("undo_id")?,
        repository: row.id("repository")?,
        app: row.app()?,
        name: row.maybe_id("name")?,
        tag: row.id("tag")?,
        targets: row.json("targets")?,
        origin: row.json("origin")?,
        creator: row.text("creator")?,
        reason: row.text("reason")?,
        created_at: row.time("created_at")?,
        is_claimed: row.flag("claimed")?,
        progress: RolloutProgress {
            state: row.text("state")?,
            version: row.number("version")?,
            record: row.text("record")?,
            waits: row.text("waits")?,
            since: row.time("since")?,
            ended_at: row.maybe_time("ended_at")?,
            due_at: row.time("due_at")?,
        },
    })
}

/// Ends the turns of processes that are known to be dead; see `Store::end_leases`.
pub(super) async fn abandon(
    write: &mut WriteTransaction,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE rollouts SET due_at = $1 WHERE ended_at IS NULL AND due_at > $1";
    query(sql, now).execute(write.sql(), "ending the turns of a former process").await.map(drop)
}
