//! Accepts a rollback: it becomes a deployment of its lane, behind all others.

use jiff::Timestamp;

use crate::model::audit::AuditRecord;
use crate::model::deployment::{Contact, Deployment, State};
use crate::model::event::DeploymentRequest;
use crate::model::id::{AppKey, DeployId, RolloutId};
use crate::model::rollback::Rollback;
use crate::model::status::ForgeStatus;
use crate::model::violation::Violations;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::idempotency_keys::PendingAnswer;
use crate::store::lane::LaneName;
use crate::store::query::query;
use crate::store::row::to_json;
use crate::store::write::WriteTransaction;
use crate::store::{audit, idempotency_keys, intake, lane, mark_text, removals};

/// A requested rollback. The data of the revision's record becomes that of the deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRollback {
    /// Its own id.
    pub id: DeployId,
    /// The release that becomes live again, the target, the actor and the reason; its number is
    /// provisional.
    pub request: DeploymentRequest,
    /// The app.
    pub app: AppKey,
    /// The revision and the options.
    pub rollback: Rollback,
    /// The template of the revision.
    pub template: Option<String>,
    /// The contact of the app's team.
    pub contact: Option<Contact>,
    /// The address of the app.
    pub address: Option<String>,
    /// The undo of a rollout that it belongs to.
    pub rollout: Option<RolloutId>,
}

impl NewRollback {
    /// Returns the deployment that is stored for it at that time.
    pub fn deployment(&self, now: Timestamp) -> Deployment {
        let Self { id, request, app, rollback, template, contact, address, rollout } = self.clone();
        Deployment {
            id,
            request,
            app: Some(app),
            state: State::Queued,
            received_at: now,
            pushed_at: None,
            finished_at: None,
            waiting: None,
            log_tail: Vec::new(),
            stages: Vec::new(),
            marks: intake::first_marks(&self.request, now),
            summary: WAITING.to_owned(),
            violations: Violations::default(),
            pushed: None,
            rollback: Some(rollback),
            rollout,
            fleet: None,
            all_apps: false,
            parent: None,
            hand_edit: None,
            template,
            templates_commit: None,
            contact,
            address,
            attempts: 0,
        }
    }
}

/// The answer to a request for a rollback.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a rollback that was not accepted is not done"]
pub enum RollbackTurn {
    /// It waits for a worker.
    Yes,
    /// Another rollback of its lane has not ended.
    RollingBack(DeployId),
    /// A removal of the app is under way.
    Removing,
}

const DOING: &str = "storing a rollback";
const WAITING: &str = "waiting for a worker";

impl Store {
    /// Stores a rollback with its entry in the audit log and its answer, and supersedes deployments
    /// that wait before it. When this returns, it is on disk.
    ///
    /// # Errors
    /// [`StoreError::IdTaken`] means that the caller draws another id.
    pub async fn accept_rollback(
        &self,
        new: &NewRollback,
        (entry, answer): (&AuditRecord, Option<&PendingAnswer>),
        now: Timestamp,
    ) -> Result<RollbackTurn, StoreError> {
        let own_lane = LaneName::of(&new.request);
        let mut write = self.begin_durable(DOING).await?;
        lane::ensure(&mut write, &own_lane.repository, &own_lane.target);
        let acts = removals::select_blocking_app(&own_lane.target, &new.app, now);
        let turn = if acts.first(write.sql(), DOING).await?.is_some() {
            RollbackTurn::Removing
        } else if let Some(id) = find_open(&mut write, &own_lane, &new.app).await? {
            RollbackTurn::RollingBack(id)
        } else {
            self.enqueue(&mut write, new, now).await?;
            audit::note(&mut write, entry).await?;
            idempotency_keys::keep(&mut write, answer).await?;
            RollbackTurn::Yes
        };
        // Also where nothing was changed: a dropped transaction releases the lane only some time later.
        write.commit().await?;
        Ok(turn)
    }

    pub(super) async fn enqueue(
        &self,
        write: &mut WriteTransaction,
        new: &NewRollback,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let own_lane = LaneName::of(&new.request);
        let place = newest_place(write, &own_lane, Some(&new.app)).await?;
        if !insert(write, new, place, now).await? {
            return Err(StoreError::IdTaken(new.id.clone()));
        }
        self.enqueue_messages(write, &new.id, &ForgeStatus::queued(), now);
        let lane = lane::read(write, &own_lane).await?;
        lane::supersede(self, write, &lane, &lane.next_turn(now).superseded, now).await
    }

    /// Records the code host's number of the deployment; a second number changes nothing.
    pub async fn number_rollback(&self, id: &DeployId, number: i64) -> Result<(), StoreError> {
        let sql = "UPDATE deployments SET forge_id = $2 WHERE id = $1 AND forge_id < 0";
        let update = query(sql, (id, number));
        self.run(update, "noting the forge's number of a rollback").await.map(drop)
    }
}

/// Returns the rollback of the app that has not ended.
async fn find_open(
    write: &mut WriteTransaction,
    own_lane: &LaneName,
    app: &AppKey,
) -> Result<Option<DeployId>, StoreError> {
    let lane = lane::read_app(write, own_lane, app).await?;
    Ok(lane.open.into_iter().find(|entry| entry.rollback).map(|entry| entry.place.id))
}

/// Returns the greatest place that the lane ever had, or the app in another one. A request that names no app, and waits,
/// may become one of this app, under a later id: the place is behind its.
pub(super) async fn newest_place(
    write: &mut WriteTransaction,
    own_lane: &LaneName,
    app: Option<&AppKey>,
) -> Result<i64, StoreError> {
    let sql = "SELECT 'newest' AS id, COALESCE(MAX(CASE WHEN app_name = $3 OR app_name <> '' OR finished_at IS NOT NULL \
         THEN place ELSE place + 1 END), 0) AS place FROM deployments \
         WHERE repository = $1 AND target = $2 AND (app_name = $3 OR (namespace = $4 AND slug = $5) \
         OR (app_name = '' AND finished_at IS NULL))";
    let LaneName { repository, target, app: name } = own_lane;
    let values = (repository, target, name, app);
    let row = query(sql, values).fetch_one(write.sql(), DOING).await?;
    row.number("place")
}

/// Returns the delivery of the service's own rollback of a failed deployment.
pub(super) fn undo_delivery(failed: &DeployId) -> String {
    format!("undo/{failed}")
}

async fn insert(
    write: &mut WriteTransaction,
    new: &NewRollback,
    place: i64,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let NewRollback { id, request, app, rollback, template, contact, address, rollout } = new;
    let sql = "INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, \
         git_ref, actor, description, namespace, slug, template, state, received_at, stages, \
         summary, violations, due_at, attempts, failures, contact, address, production, place, \
         rollback, recipient, marks, rollout, app_name) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, '[]', \
         $16, '[]', $15, 0, 0, $17, $18, $19, $20, $21, $22, $23, $24, $25) ON CONFLICT DO NOTHING";
    let release = &request.release;
    let delivery = match &rollback.undoes {
        Some(failed) => undo_delivery(failed),
        None => format!("rollback/{id}"),
    };
    let lane = (id, delivery, &release.repository, &request.target);
    let request_columns = (request.forge_id, &release.commit, &release.tag, &request.git_ref);
    let actor_columns = (&request.actor, &request.description);
    let app_columns = (app, template, State::Queued.as_str(), now, WAITING);
    let contact_columns = (contact.as_ref().map(to_json), address, request.production, place);
    let marks = mark_text::encode(&intake::first_marks(request, now));
    let app_name = lane::app_word(release.app.as_ref());
    let rest = (to_json(rollback), request.recipient.stored_text(), marks, (rollout, app_name));
    let values = (lane, request_columns, actor_columns, app_columns, contact_columns, rest);
    let count = query(sql, values).execute(write.sql(), DOING).await?;
    Ok(count == 1)
}
