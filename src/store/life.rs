//! The steps of a claimed deployment: begin the push, schedule a retry, finish. Each step is
//! refused once another worker has taken over: the number of the attempt is the fence.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::model::deployment::{Deployment, ForgeState, Pushed, State};
use crate::model::id::DeployId;
use crate::model::lane::{Lane, LanePlace};
use crate::model::lock::Lock;
use crate::model::rollback::Hold;
use crate::model::status::ForgeStatus;
use crate::model::violation::Violations;
use crate::store::claims::{self, ClaimConflict};
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::lease::{Claim, Findings, LeaseState};
use crate::store::query::{Bind, query};
use crate::store::row::to_json;
use crate::store::write::WriteTransaction;
use crate::store::{holds, inactive, lane, locks, owners, repositories};

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
    pub known: Findings,
    /// The status for the code host.
    pub status: ForgeStatus,
}

/// The two final states that a worker can record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinalState {
    /// The deployment is in the manifest repository.
    Succeeded(Pushed),
    /// The deployment was rejected, or given up.
    Failed,
}

/// The answer to a request for the turn to push.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "nothing may be pushed without the turn"]
pub enum PushTurn {
    /// The push may begin, and from now on no deployment supersedes this one.
    Yes,
    /// A newer deployment of the lane has arrived; this one has ended.
    Superseded {
        /// The newer one.
        by: DeployId,
    },
    /// A person has locked it since it was planned or requested. It still runs: the worker decides
    /// what follows.
    Locked(Box<Lock>),
    /// A person has held it since the rules ran.
    HeldBack(Box<Hold>),
    /// The app, its namespace, a route or an object belongs to another since the rules ran. It
    /// still runs; nothing proves that it is of the app.
    Claimed(Box<ClaimConflict>),
    /// Another worker took over, or the deployment has ended. Nothing was changed.
    Lost,
}

/// Sets the state and the findings; `$1` to `$11`.
macro_rules! progress {
    () => {
        "UPDATE deployments SET state = $3, namespace = COALESCE($4, namespace), \
         slug = COALESCE($5, slug), template = COALESCE($6, template), stages = $7, \
         templates_commit = COALESCE($8, templates_commit), contact = COALESCE($9, contact), \
         address = COALESCE($10, address), hand_edit = COALESCE($11, hand_edit)"
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
        known: &Findings,
        now: Timestamp,
    ) -> Result<PushTurn, StoreError> {
        let mut write = self.begin("beginning a push").await?;
        let renamed = self.lock_lane(&mut write, claim).await?;
        let claim = renamed.as_ref().unwrap_or(claim);
        let request = &claim.deployment.request;
        let (repository, target) = (&request.release.repository, &request.target);
        let lane = lane::read(&mut write, repository, target).await?;
        let turn = match superseding(&lane, &claim.deployment) {
            Some(newer) => PushTurn::Superseded { by: newer.id },
            None => match stopped(&mut write, claim, known, now).await? {
                Some(stopped) => stopped,
                None => claims::conflict(self, &mut write, claim, known, now)
                    .await?
                    .map_or(PushTurn::Yes, |conflict| PushTurn::Claimed(Box::new(conflict))),
            },
        };
        let (state, found) = match &turn {
            PushTurn::Yes => (State::Pushing, Cow::Borrowed(known)),
            // An earlier attempt may have begun to push.
            PushTurn::Claimed(_) => {
                let nobodys = Findings { app: None, ..known.clone() };
                (claim.deployment.state, Cow::Owned(nobodys))
            }
            PushTurn::Superseded { .. }
            | PushTurn::Locked(_)
            | PushTurn::HeldBack(_)
            | PushTurn::Lost => (State::Running, Cow::Borrowed(known)),
        };
        if update_fenced(&mut write, claim, state, &found).await? == LeaseState::Lost {
            // A dropped transaction releases the lane only some time later.
            write.commit().await?;
            return Ok(PushTurn::Lost);
        }
        if turn == PushTurn::Yes {
            claims::take(&mut write, claim, known, now).await?;
        }
        if let PushTurn::Superseded { by } = &turn {
            lane::supersede(
                self,
                &mut write,
                &lane,
                &[(claim.deployment.id.clone(), by.clone())],
                now,
            )
            .await?;
        }
        write.commit().await?;
        Ok(turn)
    }

    /// Locks the lane of a claim; returns the claim under the present name of its repository, if
    /// that has changed.
    async fn lock_lane(
        &self,
        write: &mut WriteTransaction,
        claim: &Claim,
    ) -> Result<Option<Claim>, StoreError> {
        let Claim { deployment, .. } = claim;
        let (request, name) = (&deployment.request, &deployment.request.release.repository);
        lane::lock(self, write, name, &request.target).await?;
        // A rename of a repository locks its lanes first.
        let now = repositories::name_of(write, &deployment.id).await?.filter(|now| now != name);
        let Some(now) = now else { return Ok(None) };
        lane::lock(self, write, &now, &request.target).await?;
        let request = request.clone().of_repository(now);
        let deployment = Deployment { request, ..deployment.clone() };
        Ok(Some(Claim { deployment, ..claim.clone() }))
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
        let put_off = query(sql, (claim, at, summary, refused_since));
        self.run(put_off, "scheduling a retry").await.map(LeaseState::by_rows)
    }

    /// Ends the deployment, and enqueues its messages in the same transaction.
    pub async fn finish(
        &self,
        claim: &Claim,
        ending: &Completion,
        now: Timestamp,
    ) -> Result<LeaseState, StoreError> {
        let Completion { end, summary, violations, known, status } = ending;
        let (state, pushed) = match end {
            FinalState::Succeeded(pushed) => (State::Succeeded, Some(to_json(pushed))),
            FinalState::Failed => (State::Failed, None),
        };
        let doing = "finishing a deployment";
        let mut write = self.begin(doing).await?;
        let sql = concat!(
            progress!(),
            ", finished_at = $12, summary = $13, violations = $14, pushed = $15, errors = $16, \
             warnings = $17, worker = NULL ",
            fence!()
        );
        let counts = (violations.errors(), violations.warnings());
        let values = (now, summary, to_json(violations), pushed, counts);
        let done =
            query(sql, (progress(claim, state, known), values)).execute(write.sql(), doing).await?;
        if LeaseState::by_rows(done) == LeaseState::Lost {
            return Ok(LeaseState::Lost);
        }
        let app = known.app.as_ref();
        let succeeded = state == State::Succeeded;
        claims::settle(self, &mut write, &claim.deployment, app, succeeded, now).await?;
        if succeeded {
            owners::claim(self, &mut write, &claim.deployment.id, now).await?;
            holds::after_success(&mut write, &claim.deployment, app, now).await?;
            inactive::replaced(self, &mut write, &claim.deployment, now).await?;
        } else {
            owners::disown(&mut write, &claim.deployment.id).await?;
        }
        self.enqueue_messages(&mut write, &claim.deployment.id, status, now).await?;
        if let FinalState::Succeeded(Pushed { commit, changed: true, .. }) = end {
            let (id, target) = (&claim.deployment.id, &claim.deployment.request.target);
            let push = (ForgeState::Success, commit);
            self.tell_of_push(&mut write, id, target, push, now).await?;
        }
        write.commit().await?;
        Ok(LeaseState::Held)
    }
}

/// Returns the first lock that stops the deployment. A push that had begun may have arrived, so no
/// lock stops it any more.
async fn locked(
    write: &mut WriteTransaction,
    claim: &Claim,
    known: &Findings,
    now: Timestamp,
) -> Result<Option<Lock>, StoreError> {
    let Deployment { app, contact, state, request, .. } = &claim.deployment;
    let app = known.app.as_ref().or(app.as_ref()).filter(|_| *state != State::Pushing);
    let Some(app) = app else { return Ok(None) };
    let contact = known.contact.as_ref().or(contact.as_ref());
    let owner = contact.map(|contact| contact.owner.as_str());
    let found = locks::stop(write.sql(), &request.target, app, owner, now).await?;
    Ok(found.into_iter().next())
}

/// Returns the act of a person since the rules ran: a lock, or a hold that is newer than the claim.
/// A hold that was there before was judged by its rule.
async fn stopped(
    write: &mut WriteTransaction,
    claim: &Claim,
    known: &Findings,
    now: Timestamp,
) -> Result<Option<PushTurn>, StoreError> {
    if let Some(lock) = locked(write, claim, known, now).await? {
        return Ok(Some(PushTurn::Locked(Box::new(lock))));
    }
    let Deployment { app, state, request, rollback, .. } = &claim.deployment;
    let app = known.app.as_ref().or(app.as_ref());
    let (Some(app), State::Running, None) = (app, *state, rollback) else { return Ok(None) };
    let hold = holds::find_hold(write.sql(), &request.target, app).await?;
    let newer = hold.filter(|hold| hold.since >= claim.at);
    Ok(newer.map(|hold| PushTurn::HeldBack(Box::new(hold))))
}

/// Returns the newer deployment that supersedes this one, unless nothing may supersede it any more.
fn superseding(lane: &Lane, deployment: &Deployment) -> Option<LanePlace> {
    if deployment.state == State::Pushing || deployment.rollback.is_some() {
        return None;
    }
    let mine = lane.open.iter().find(|entry| entry.place.id == deployment.id)?;
    lane.newer_than(&mine.place)
}

/// Writes the state and the findings, if the claim still holds.
async fn update_fenced(
    write: &mut WriteTransaction,
    claim: &Claim,
    state: State,
    known: &Findings,
) -> Result<LeaseState, StoreError> {
    let done = query(concat!(progress!(), " ", fence!()), progress(claim, state, known))
        .execute(write.sql(), "recording a deployment's progress")
        .await?;
    Ok(LeaseState::by_rows(done))
}

/// Returns the values of a statement that begins with `progress!`.
fn progress(claim: &Claim, state: State, known: &Findings) -> impl Bind {
    let Findings { app, template, templates_commit, contact, address, hand_edit, stages, .. } =
        known;
    let template = (template, to_json(stages), templates_commit);
    let reached = (contact.as_ref().map(to_json), address);
    (claim, state.as_str(), app.as_ref(), template, reached, hand_edit.as_ref().map(to_json))
}
