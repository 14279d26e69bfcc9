//! Deployments to fleets: a deployment of the fleet, and a part of it on each cluster.
//!
//! A part is a row of its own, with the cluster as its target: so the history of a cluster, its owners, claims and progress
//! are those of any other deployment to it. No worker takes a part. It is made in the transaction that begins the push of
//! the fleet's deployment, and ends with it, or in its cluster; what happens to a part is summed up in the fleet's
//! deployment in the same transaction.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::model::deploy_clock::{DeployMark, DeployMarks, MarkTime};
use crate::model::deployment::{Deployment, ForgeState, State};
use crate::model::id::{AppKey, DeployId, RepoName, TargetName};
use crate::model::lane::{Lane, LanePlace};
use crate::model::rollback::provisional_number;
use crate::store::claims::{self, ClaimConflict};
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::inactive;
use crate::store::lane::LaneName;
use crate::store::lease::{Claim, Findings, FleetPart, FleetPartPush};
use crate::store::push_turn::PushTurn;
use crate::store::query::{Answer, Query, placeholders, query, query_of};
use crate::store::row::{self, overview_columns, to_json};
use crate::store::write::WriteTransaction;
use crate::store::{fleet_rows, holds, lane, mark_text, owners, removals, waiting_ends};

/// The records of one cluster that decide whether a fleet's push may begin.
pub(super) struct PartState {
    lane: Lane,
    /// A removal of the app that is under way there.
    removal: Option<DeployId>,
    claims: [Answer; 3],
}

/// The number of queries for one part.
pub(super) const PART_QUERIES: usize = 6;

const DOING: &str = "recording a deployment to a fleet";

impl Store {
    /// Returns the parts of a deployment to a fleet, in the order of the clusters; none for any other deployment, and
    /// before the push has begun.
    pub async fn fleet_parts(&self, fleet: &DeployId) -> Result<Vec<Deployment>, StoreError> {
        let rows = fleet_rows::select_parts(fleet).fetch_all(&self.readers, DOING).await?;
        rows.iter().map(row::overview).collect()
    }

    /// Returns the parts of several deployments.
    pub async fn parts_of_fleets(
        &self,
        fleets: &[&DeployId],
    ) -> Result<Vec<Deployment>, StoreError> {
        let mut parts = Vec::new();
        for chunk in fleets.chunks(100) {
            let sql = format!(
                "SELECT {} FROM deployments WHERE fleet IN ({}) ORDER BY fleet, target",
                overview_columns!(),
                placeholders(1, chunk.len())
            );
            let rows = query_of(sql, chunk.to_vec()).fetch_all(&self.readers, DOING).await?;
            parts.extend(rows.iter().map(row::overview).collect::<Result<Vec<_>, _>>()?);
        }
        Ok(parts)
    }
}

/// Locks every lane that a deployment to the target must not meet: its own, those of its clusters, and those of the fleets
/// and clusters whose locks and holds concern it. In the order in which every transaction locks several lanes.
pub(super) fn lock_lanes(
    store: &Store,
    write: &mut WriteTransaction,
    (repository, target): (&RepoName, &TargetName),
    parts: &[FleetPart],
) {
    let mut targets: BTreeSet<TargetName> = store.fleets.overlapping(target).into_iter().collect();
    targets.extend(parts.iter().map(|part| part.cluster.clone()));
    if targets.len() == 1 {
        return lane::lock(store, write, repository, target);
    }
    for target in &targets {
        lane::ensure(write, repository, target);
    }
}

/// Returns the queries for what decides on a part; its lane must be locked.
pub(super) fn part_queries(
    store: &Store,
    write: &mut WriteTransaction,
    (own_lane, app): (&LaneName, &AppKey),
    part: &FleetPart,
    now: Timestamp,
) -> [Query; PART_QUERIES] {
    let findings = Findings::of_claims(&part.claims);
    let [owners, routes, objects] =
        claims::conflict_queries(store, write, (&part.cluster, app), &findings, now);
    let lane = LaneName { target: part.cluster.clone(), ..own_lane.clone() };
    [
        lane::entries(&lane),
        lane::entries_elsewhere(&lane, app),
        removals::select_blocking_app(&part.cluster, app, now),
        owners,
        routes,
        objects,
    ]
}

/// Reads the answers to the queries of a part.
pub(super) fn read_part_state(
    [entries, elsewhere, removal, owners, routes, objects]: [Answer; PART_QUERIES],
) -> Result<PartState, StoreError> {
    Ok(PartState {
        lane: lane::from_rows(&entries.rows)?.joined(lane::from_rows(&elsewhere.rows)?),
        removal: removal.rows.first().map(|row| row.id("id")).transpose()?,
        claims: [owners, routes, objects],
    })
}

/// Returns what keeps the fleet's deployment from its turn on one of the clusters; `None` where nothing does.
pub(super) fn decide_part(
    state: &PartState,
    (claim, place): (&Claim, Option<&LanePlace>),
    (app, part): (&AppKey, &FleetPart),
) -> Result<Option<PushTurn>, StoreError> {
    let deployment = &claim.deployment;
    let PartState { lane, removal, claims } = state;
    let others = Lane {
        open: lane.open.iter().filter(|entry| entry.place.id != part.id).cloned().collect(),
        newest_ended: lane.newest_ended.clone(),
    };
    let may_be_superseded = deployment.state != State::Pushing && deployment.rollback.is_none();
    if let Some(place) = place.filter(|_| may_be_superseded)
        && let Some(newer) = others.newer_than(place)
    {
        return Ok(Some(PushTurn::Superseded { by: newer.id }));
    }
    if let Some(busy) = others.open.iter().find(|entry| entry.state == State::Pushing) {
        return Ok(Some(PushTurn::Busy { with: busy.place.id.clone() }));
    }
    if let Some(removal) = removal {
        return Ok(Some(PushTurn::Busy { with: removal.clone() }));
    }
    let findings = Findings::of_claims(&part.claims);
    let conflict: Option<ClaimConflict> =
        claims::find_conflict(claims, &part_claim(claim, part), app, &findings)?;
    Ok(conflict.map(|conflict| PushTurn::Claimed(Box::new(conflict))))
}

/// Makes the parts of a deployment that has the turn to push, with their claims. Parts of an earlier attempt stay, but for
/// those of clusters that are not of the fleet any more.
pub(super) async fn begin_parts(
    write: &mut WriteTransaction,
    claim: &Claim,
    findings: &Findings,
    now: Timestamp,
) -> Result<(), StoreError> {
    let deployment = &claim.deployment;
    let rows = if deployment.attempts > 1 {
        fleet_rows::select_parts(&deployment.id).fetch_all(write.sql(), DOING).await?
    } else {
        Vec::new()
    };
    let is_left = |id: &DeployId| !findings.parts.iter().any(|part| part.id == *id);
    let former: Vec<DeployId> = rows.iter().map(|row| row.id("id")).collect::<Result<_, _>>()?;
    for id in former.iter().filter(|id| is_left(id)) {
        claims::delete_claims(write, id);
        write.later(query("DELETE FROM deployments WHERE id = $1", id));
    }
    for part in &findings.parts {
        if !former.contains(&part.id)
            && insert(&deployment.id, part).execute(write.sql(), DOING).await? != 1
        {
            return Err(StoreError::IdTaken(part.id.clone()));
        }
        let of_part = Findings { app: findings.app.clone(), ..Findings::of_claims(&part.claims) };
        claims::take(write, &part_claim(claim, part), &of_part, now);
    }
    Ok(())
}

/// Returns the statement that makes a part out of the row of its fleet's deployment.
fn insert(fleet: &DeployId, part: &FleetPart) -> Query {
    let sql = "INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, git_ref, \
         actor, description, namespace, slug, template, templates_commit, state, received_at, stages, \
         summary, violations, due_at, attempts, failures, contact, address, production, automatic, place, \
         rollback, marks, rollout, fleet, app_name) SELECT $2, $3, repository, $4, $5, commit_id, tag, git_ref, actor, description, \
         namespace, slug, template, templates_commit, 'pushing', received_at, '[]', 'being pushed', '[]', \
         received_at, 1, 0, contact, $6, production, automatic, place, $7, marks, NULL, id, app_name \
         FROM deployments WHERE id = $1 ON CONFLICT DO NOTHING";
    let FleetPart { id, cluster, address, claims: _, rollback } = part;
    let names = (fleet, id, format!("part/{id}"), cluster, provisional_number(id));
    query(sql, (names, address, rollback.as_ref().map(to_json)))
}

/// Ends the parts of a deployment whose push has ended, in its transaction.
pub(super) async fn finish_parts(
    store: &Store,
    write: &mut WriteTransaction,
    claim: &Claim,
    findings: &Findings,
    now: Timestamp,
) -> Result<(), StoreError> {
    for push in &findings.part_pushes {
        let Some(part) = findings.parts.iter().find(|part| part.id == push.id) else { continue };
        let part = part_claim(claim, part).deployment;
        finish_part(store, write, (&part, findings), push, now).await?;
    }
    Ok(())
}

async fn finish_part(
    store: &Store,
    write: &mut WriteTransaction,
    (part, findings): (&Deployment, &Findings),
    push: &FleetPartPush,
    now: Timestamp,
) -> Result<(), StoreError> {
    let FleetPartPush { id, cluster, pushed, is_watched, hand_edit } = push;
    let app = findings.app.as_ref();
    let state = is_watched.then_some(State::Syncing.as_str());
    let steps: &[DeployMark] = if *is_watched {
        &[DeployMark::Pushed]
    } else {
        &[DeployMark::Pushed, DeployMark::Finished]
    };
    let mut marks: DeployMarks = part.marks.clone();
    let planned = findings.planned_at.map(|at| MarkTime::of_service(DeployMark::Planned, at));
    let pushes = steps.iter().map(|step| MarkTime::of_service(*step, now));
    for mark in planned.into_iter().chain(pushes) {
        marks.insert(mark);
    }
    let summary = if pushed.changed { "pushed" } else { "it is there already" };
    let sql = "UPDATE deployments SET state = 'succeeded', finished_at = $2, summary = $3, pushed = $4, \
         errors = 0, warnings = 0, cluster_state = $5, cluster_at = $6, hand_edit = $7, marks = $8 \
         WHERE id = $1 AND finished_at IS NULL";
    let in_cluster = (state, is_watched.then_some(now));
    let edit = hand_edit.as_ref().map(to_json);
    let values =
        ((id, now, summary, to_json(pushed)), in_cluster, (edit, mark_text::encode(&marks)));
    let queries = [query(sql, values), owners::claim(id, now)];
    let [_, owner] = write.ask_all(queries, DOING).await?;
    owners::follow_claim(store, write, &owner)?;
    if part.rollback.is_none() {
        holds::after_success(write, part, app, now).await?;
    }
    let waiting = waiting_ends::older_waiting(part).ask(write.sql(), DOING).await?;
    waiting_ends::supersede_waiting(store, write, part, &waiting, now).await?;
    if !is_watched {
        let older = inactive::older(store, part).ask(write.sql(), DOING).await?;
        inactive::enqueue_replaced(store, write, part, &older, now).await?;
    }
    claims::settle(store, write, part, app, true, now);
    if pushed.changed {
        store.tell_of_push(write, id, cluster, (ForgeState::Success, &pushed.commit), now);
    }
    Ok(())
}

/// Ends the parts of a deployment that has failed, if it has any: its push did not get through.
pub(super) async fn fail_parts(
    write: &mut WriteTransaction,
    fleet: &DeployId,
    summary: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    let sql = "UPDATE deployments SET state = 'failed', finished_at = $2, summary = $3 \
         WHERE fleet = $1 AND finished_at IS NULL RETURNING id";
    let rows = query(sql, (fleet, now, summary)).fetch_all(write.sql(), DOING).await?;
    for row in &rows {
        claims::delete_claims(write, &row.id("id")?);
    }
    Ok(())
}

/// Returns the claim of a fleet's deployment as that of one of its parts.
fn part_claim(claim: &Claim, part: &FleetPart) -> Claim {
    Claim { deployment: part.record_of(&claim.deployment), ..claim.clone() }
}
