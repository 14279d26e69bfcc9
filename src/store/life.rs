//! The steps of a claimed deployment: begin the push, schedule a retry, finish. Each step is
//! refused once another worker has taken over: the number of the attempt is the fence.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::model::deploy_clock::{DeployMark, DeployMarks, MarkTime};
use crate::model::deployment::{Deployment, ForgeState, Pushed, State};
use crate::model::id::{DeployId, RepoName};
use crate::model::lane::{Lane, LaneEntry, LanePlace};
use crate::model::lock::Lock;
use crate::model::rollback::{Hold, Rollback};
use crate::model::status::ForgeStatus;
use crate::model::violation::Violations;
use crate::store::claims;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::fleets::{self, PartState};
use crate::store::interval_metrics::MarkChange;
use crate::store::lane::LaneName;
use crate::store::lease::{Claim, Findings, LeaseState};
use crate::store::push_turn::PushTurn;
use crate::store::query::{Answer, Bind, query};
use crate::store::row::to_json;
use crate::store::write::WriteTransaction;
use crate::store::writers::Durability;
use crate::store::{holds, inactive, lane, locks, mark_text, owners, removals, waiting_ends};

/// The end of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The final state.
    pub end: FinalState,
    /// One sentence for people.
    pub summary: String,
    /// Violations of a failure, or warnings of a success.
    pub violations: Violations,
    /// The findings.
    pub findings: Findings,
    /// The status for the code host.
    pub status: ForgeStatus,
}

/// The states that a worker can record as its last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinalState {
    /// The deployment is in the manifest repository.
    Succeeded(Pushed),
    /// The deployment is in the manifest repository, and ends when its cluster runs it.
    Syncing(Pushed),
    /// The deployment was rejected, or given up.
    Failed,
}

/// The records that decide whether a push may begin.
struct PushState {
    /// The present name of the repository.
    repository: RepoName,
    /// The deployments of the app, whatever name its file has or had.
    lane: Lane,
    /// A removal of the app that is under way.
    removal: Option<DeployId>,
    locks: Vec<Lock>,
    hold: Option<Hold>,
    claims: [Answer; 3],
    /// The newest pushed deployment of the app, where the deployment may replace no other than a given one.
    newest: Option<DeployId>,
    /// The records of each cluster of a fleet.
    parts: Vec<PartState>,
}

const BEGINNING: &str = "beginning a push";
const FINISHING: &str = "finishing a deployment";

/// Sets the state and the findings; `$1` to `$12`.
macro_rules! progress {
    () => {
        "UPDATE deployments SET state = $3, namespace = COALESCE($4, namespace), \
         slug = COALESCE($5, slug), template = COALESCE($6, template), stages = $7, \
         templates_commit = COALESCE($8, templates_commit), contact = COALESCE($9, contact), \
         address = COALESCE($10, address), hand_edit = COALESCE($11, hand_edit), marks = $12"
    };
}

/// Matches no row where another worker has taken over.
macro_rules! fence {
    () => {
        "WHERE id = $1 AND attempts = $2 AND worker IS NOT NULL"
    };
}

impl Store {
    /// Asks for the turn to push, the point of no return. It is refused if a newer deployment
    /// waits, or if a person has locked the app since the rules ran: a lock that was answered is
    /// reliable. With the turn the deployment has claimed its app and its routes, unless another
    /// deployment was first.
    ///
    /// A deployment whose push had begun before gets the turn again.
    pub async fn begin_push(
        &self,
        claim: &Claim,
        findings: &Findings,
        now: Timestamp,
    ) -> Result<PushTurn, StoreError> {
        let mut write = self.begin_shared(Durability::Process, BEGINNING).await?;
        let Some(push_state) = self.read_push_state(&mut write, claim, findings, now).await? else {
            // A dropped transaction releases the lane only some time later.
            write.commit().await?;
            return Ok(PushTurn::Lost);
        };
        if push_state.repository != claim.deployment.request.release.repository {
            // Another lane must be locked. A rename of a repository locks its lanes first.
            write.commit().await?;
            let renamed = under_name(claim, &push_state.repository);
            return Box::pin(self.begin_push(&renamed, findings, now)).await;
        }
        let turn = decide_turn(&push_state, claim, findings)?;
        let (state, recorded_findings) = match &turn {
            PushTurn::Yes => (State::Pushing, Cow::Borrowed(findings)),
            // An earlier attempt may have begun to push.
            PushTurn::Claimed(_) | PushTurn::Busy { .. } => {
                let without_app = Findings { app: None, ..findings.clone() };
                (claim.deployment.state, Cow::Owned(without_app))
            }
            PushTurn::Superseded { .. }
            | PushTurn::Locked(_)
            | PushTurn::HeldBack(_)
            | PushTurn::Lost => (State::Running, Cow::Borrowed(findings)),
        };
        let marks = if turn == PushTurn::Yes {
            planned_marks(claim, findings)
        } else {
            claim.deployment.marks.clone()
        };
        write.later(query(
            concat!(progress!(), " ", fence!()),
            progress(claim, state, &recorded_findings, &marks),
        ));
        if turn == PushTurn::Yes {
            claims::take(&mut write, claim, findings, now);
            fleets::begin_parts(&mut write, claim, findings, now).await?;
        }
        if let PushTurn::Superseded { by } = &turn {
            let superseded = [(claim.deployment.id.clone(), by.clone())];
            lane::supersede(self, &mut write, &push_state.lane, &superseded, now).await?;
        }
        write.commit().await?;
        Ok(turn)
    }

    /// Locks the lane of a claim and reads everything that decides whether its push may begin; `None`
    /// where the claim is lost.
    async fn read_push_state(
        &self,
        write: &mut WriteTransaction,
        claim: &Claim,
        findings: &Findings,
        now: Timestamp,
    ) -> Result<Option<PushState>, StoreError> {
        let Deployment { app, contact, request, .. } = &claim.deployment;
        let own_lane = LaneName::of(request);
        let (repository, target) = (&own_lane.repository, &own_lane.target);
        fleets::lock_lanes(self, write, (repository, target), &findings.parts);
        let sql = "SELECT id, repository FROM deployments \
             WHERE id = $1 AND attempts = $2 AND worker IS NOT NULL";
        let mut queries =
            vec![query(self.locking(sql, "FOR UPDATE"), claim), lane::entries(&own_lane)];
        if let Some(app) = findings.app.as_ref().or(app.as_ref()) {
            let owner = findings.contact.as_ref().or(contact.as_ref());
            let owner = owner.map(|contact| contact.owner.as_str());
            queries.push(lane::entries_elsewhere(&own_lane, app));
            queries.push(removals::select_blocking_app(target, app, now));
            queries.push(locks::select_stopping(self, (target, app), owner, now));
            queries.push(holds::select_hold(self, target, app));
            queries.extend(claims::conflict_queries(self, write, (target, app), findings, now));
            // The answers about a fleet's clusters come first: those before them are always the same in number.
            for part in &findings.parts {
                queries.extend(fleets::part_queries(self, write, (&own_lane, app), part, now));
            }
            if takes_back(&claim.deployment).is_some() {
                queries.push(removals::select_newest_pushed(target, app));
            }
        }
        let mut answers = write.ask_many(queries, BEGINNING).await?.into_iter();
        let mut next = || answers.next().unwrap_or_default();
        let (lease, lane, elsewhere) = (next(), next(), next());
        let Some(row) = lease.rows.first() else { return Ok(None) };
        Ok(Some(PushState {
            repository: row.id("repository")?,
            lane: lane::from_rows(&lane.rows)?.joined(lane::from_rows(&elsewhere.rows)?),
            removal: next().rows.first().map(|row| row.id("id")).transpose()?,
            locks: locks::read_locks(&next().rows)?,
            hold: next().rows.first().map(holds::read_hold).transpose()?,
            claims: [next(), next(), next()],
            parts: findings
                .parts
                .iter()
                .map(|_| fleets::read_part_state(std::array::from_fn(|_| next())))
                .collect::<Result<_, _>>()?,
            newest: next().rows.first().map(|row| row.id("id")).transpose()?,
        }))
    }

    /// Ends this attempt and schedules the next at the given time, for any worker. After a refusal,
    /// with the time of the first one.
    ///
    /// A deployment that had begun to push stays `Pushing`: the push may have arrived.
    pub async fn retry_at(
        &self,
        claim: &Claim,
        at: Timestamp,
        summary: &str,
        refused_since: Option<Timestamp>,
    ) -> Result<LeaseState, StoreError> {
        let sql = "UPDATE deployments SET worker = NULL, due_at = $3, summary = $4, \
             failures = failures + 1, refused_since = $5, \
             state = CASE WHEN state = 'running' THEN 'queued' ELSE state END \
             WHERE id = $1 AND attempts = $2 AND worker IS NOT NULL";
        let retry = query(sql, (claim, at, summary, refused_since));
        self.run(retry, "scheduling a retry").await.map(LeaseState::by_rows)
    }

    /// Ends the deployment, and enqueues its messages in the same transaction.
    pub async fn finish(
        &self,
        claim: &Claim,
        completion: &Completion,
        now: Timestamp,
    ) -> Result<LeaseState, StoreError> {
        let Completion { end, summary, violations, findings, status } = completion;
        let (state, pushed) = match end {
            // For workers it has ended: `cluster_state` says how it goes on.
            FinalState::Succeeded(pushed) | FinalState::Syncing(pushed) => {
                (State::Succeeded, Some(to_json(pushed)))
            }
            FinalState::Failed => (State::Failed, None),
        };
        let id = &claim.deployment.id;
        let sql = concat!(
            progress!(),
            ", finished_at = $13, summary = $14, violations = $15, pushed = $16, errors = $17, \
             warnings = $18, cluster_state = $19, cluster_at = $20, lapses = $21, worker = NULL ",
            fence!()
        );
        let counts = (violations.errors(), violations.warnings());
        let is_syncing = matches!(end, FinalState::Syncing(_));
        let in_cluster = is_syncing.then(|| (State::Syncing.as_str(), now)).unzip();
        let marks = end_marks(claim, completion, now);
        let lapses = mark_text::encode_lapses(&marks);
        let values = (now, summary, to_json(violations), pushed, (counts, in_cluster, lapses));
        let finish = query(sql, (progress(claim, state, findings, &marks), values));
        let app = findings.app.as_ref();
        let mut write = self.begin_shared(Durability::Process, FINISHING).await?;
        let has_succeeded = state == State::Succeeded;
        if has_succeeded {
            // A release that the cluster does not run yet replaces none. Its older ones must not be locked here: the
            // watch of the cluster locks one that waits before those that it replaces.
            let claim_owner = owners::claim(id, now);
            let mut queries = vec![finish, claim_owner];
            queries.extend((!is_syncing).then(|| inactive::older(self, &claim.deployment)));
            queries.push(waiting_ends::older_waiting(&claim.deployment));
            let mut answers = write.ask_many(queries, FINISHING).await?.into_iter();
            let mut next = || answers.next().unwrap_or_default();
            let (update, owner) = (next(), next());
            let older = (!is_syncing).then(&mut next);
            let waiting = next();
            // By the claim of another worker, which shares no commit.
            if LeaseState::by_rows(update.changed) == LeaseState::Lost {
                return Ok(LeaseState::Lost);
            }
            owners::follow_claim(self, &mut write, &owner)?;
            holds::after_success(&mut write, &claim.deployment, app, now).await?;
            let deployment = &claim.deployment;
            waiting_ends::supersede_waiting(self, &mut write, deployment, &waiting, now).await?;
            if let Some(older) = older {
                inactive::enqueue_replaced(self, &mut write, &claim.deployment, &older, now)
                    .await?;
            }
        } else {
            let count = finish.execute(write.sql(), FINISHING).await?;
            if LeaseState::by_rows(count) == LeaseState::Lost {
                return Ok(LeaseState::Lost);
            }
            owners::disown(&mut write, id);
        }
        claims::settle(self, &mut write, &claim.deployment, app, has_succeeded, now);
        if has_succeeded {
            fleets::finish_parts(self, &mut write, claim, findings, now).await?;
        } else {
            fleets::fail_parts(&mut write, id, summary, now).await?;
        }
        self.enqueue_change(&mut write, id, status, now);
        if let FinalState::Succeeded(Pushed { commit, changed: true, .. })
        | FinalState::Syncing(Pushed { commit, changed: true, .. }) = end
        {
            let push = (ForgeState::Success, commit);
            self.tell_of_push(&mut write, id, &claim.deployment.request.target, push, now);
        }
        if claim.deployment.rollout.is_some() || claim.deployment.parent.is_some() {
            write.wake_followers_of(id, now);
        }
        write.commit().await?;
        self.intervals.observe(&MarkChange {
            deployment: id.clone(),
            target: claim.deployment.request.target.clone(),
            before: claim.deployment.marks.clone(),
            after: marks,
        });
        Ok(LeaseState::Held)
    }
}

/// Returns the same claim, under another name of its repository.
fn under_name(claim: &Claim, name: &RepoName) -> Claim {
    let request = claim.deployment.request.clone().of_repository(name.clone());
    Claim { deployment: Deployment { request, ..claim.deployment.clone() }, ..claim.clone() }
}

/// Returns the deployment that this one may take back, where it may replace no other.
fn takes_back(deployment: &Deployment) -> Option<&DeployId> {
    deployment.rollback.as_ref().and_then(|rollback| rollback.replaces.as_ref())
}

/// Returns the answer to a request for the turn to push. An act of a person since the rules ran stops the
/// push: a lock, or a hold that is newer than the claim. A hold that was there before was judged by its
/// rule. A push that had begun may have arrived, so no lock stops it any more.
fn decide_turn(
    push_state: &PushState,
    claim: &Claim,
    findings: &Findings,
) -> Result<PushTurn, StoreError> {
    let deployment = &claim.deployment;
    if let Some(newer) = superseding(&push_state.lane, deployment) {
        return Ok(PushTurn::Superseded { by: newer.id });
    }
    // A rollout takes back what it deployed, and nothing that was pushed since.
    if let (Some(replaces), Some(newest), State::Running) =
        (takes_back(deployment), &push_state.newest, deployment.state)
        && newest != replaces
    {
        return Ok(PushTurn::Superseded { by: newest.clone() });
    }
    if let Some(lock) = push_state.locks.first().filter(|_| deployment.state != State::Pushing) {
        return Ok(PushTurn::Locked(Box::new(lock.clone())));
    }
    // No hold stops a person's rollback. The service's own is automation, and no rule runs for it.
    let judged_at = match &deployment.rollback {
        Some(Rollback { undoes: Some(_), hold: true, .. }) => Some(Timestamp::MIN),
        Some(_) => None,
        None => Some(claim.at),
    };
    let is_newer = |hold: &&Hold| judged_at.is_some_and(|at| hold.since >= at);
    let is_running = deployment.state == State::Running;
    if let Some(hold) = push_state.hold.as_ref().filter(|_| is_running).filter(is_newer) {
        return Ok(PushTurn::HeldBack(Box::new(hold.clone())));
    }
    // A fleet's deployment that pushes has the lane of its cluster.
    let is_busy =
        |entry: &&LaneEntry| entry.place.id != deployment.id && entry.state == State::Pushing;
    if let Some(busy) = push_state.lane.open.iter().find(is_busy) {
        return Ok(PushTurn::Busy { with: busy.place.id.clone() });
    }
    if let Some(removal) = &push_state.removal {
        return Ok(PushTurn::Busy { with: removal.clone() });
    }
    let Some(app) = findings.app.as_ref().or(deployment.app.as_ref()) else {
        return Ok(PushTurn::Yes);
    };
    let place = push_state.lane.open.iter().map(|entry| &entry.place);
    let place = place.into_iter().find(|place| place.id == deployment.id);
    for (part, part_state) in findings.parts.iter().zip(&push_state.parts) {
        if let Some(turn) = fleets::decide_part(part_state, (claim, place), (app, part))? {
            return Ok(turn);
        }
    }
    let conflict = claims::find_conflict(&push_state.claims, claim, app, findings)?;
    Ok(conflict.map_or(PushTurn::Yes, |conflict| PushTurn::Claimed(Box::new(conflict))))
}

/// Returns the newer deployment that supersedes this one, unless nothing may supersede it any more.
fn superseding(lane: &Lane, deployment: &Deployment) -> Option<LanePlace> {
    if deployment.state == State::Pushing || deployment.rollback.is_some() {
        return None;
    }
    let own_entry = lane.open.iter().find(|entry| entry.place.id == deployment.id)?;
    lane.newer_than(&own_entry.place)
}

/// Returns the marks of a deployment whose plan may be pushed. Nothing else adds marks before its end.
fn planned_marks(claim: &Claim, findings: &Findings) -> DeployMarks {
    let mut marks = claim.deployment.marks.clone();
    if let Some(at) = findings.planned_at {
        marks.insert(MarkTime::of_service(DeployMark::Planned, at));
    }
    marks
}

/// Returns the marks of a deployment that a worker ends. Where no cluster is watched, the push is the finish.
fn end_marks(claim: &Claim, completion: &Completion, now: Timestamp) -> DeployMarks {
    let steps: &[DeployMark] = match completion.end {
        FinalState::Succeeded(_) => &[DeployMark::Pushed, DeployMark::Finished],
        FinalState::Syncing(_) => &[DeployMark::Pushed],
        FinalState::Failed => return claim.deployment.marks.clone(),
    };
    let mut marks = planned_marks(claim, &completion.findings);
    for step in steps {
        marks.insert(MarkTime::of_service(*step, now));
    }
    marks
}

/// Returns the values of a statement that begins with `progress!`.
fn progress(claim: &Claim, state: State, findings: &Findings, marks: &DeployMarks) -> impl Bind {
    let Findings { app, template, templates_commit, contact, address, hand_edit, stages, .. } =
        findings;
    let template = (template, to_json(stages), templates_commit);
    let contact_columns = (contact.as_ref().map(to_json), address);
    (
        claim,
        state.as_str(),
        app.as_ref(),
        template,
        contact_columns,
        hand_edit.as_ref().map(to_json),
        mark_text::encode(marks),
    )
}
