//! Stores an event as a deployment, once.

use jiff::Timestamp;

use crate::model::audit::AuditRecord;
use crate::model::deploy_clock::{DeployMark, DeployMarks, MarkClock, MarkTime};
use crate::model::deployment::State;
use crate::model::event::DeploymentRequest;
use crate::model::id::{DeliveryId, DeployId, RolloutId};
use crate::model::status::ForgeStatus;
use crate::store::db::Store;
use crate::store::error::StoreError;
use crate::store::idempotency_keys::PendingAnswer;
use crate::store::lane::LaneName;
use crate::store::query::{Query, query};
use crate::store::write::WriteTransaction;
use crate::store::writers::Durability;
use crate::store::{audit, idempotency_keys, lane, mark_text, repositories};

/// The result of storing an event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a duplicate keeps the id it was given first"]
pub enum Accepted {
    /// The deployment is stored and waits, unless a newer one is there already.
    New,
    /// It was stored before, as this deployment; nothing has changed.
    Duplicate(DeployId),
}

const DOING: &str = "storing an event";

impl Store {
    /// Stores a requested deployment, and supersedes those that it replaces.
    ///
    /// A second delivery about the same deployment of the code host is a duplicate, whatever its
    /// id. A delivery id that came before with another deployment proves nothing. When this
    /// returns, the deployment is on disk.
    pub async fn accept(
        &self,
        delivery: &DeliveryId,
        request: &DeploymentRequest,
        id: &DeployId,
        now: Timestamp,
    ) -> Result<Accepted, StoreError> {
        self.accept_act(delivery, request, id, None, now).await
    }

    /// Does the same for a deployment that a caller requests from this service: the audit log entry
    /// is written and the answer stored with it, and with no duplicate.
    pub async fn accept_act(
        &self,
        delivery: &DeliveryId,
        request: &DeploymentRequest,
        id: &DeployId,
        act: Option<(&AuditRecord, Option<&PendingAnswer>)>,
        now: Timestamp,
    ) -> Result<Accepted, StoreError> {
        let mut write = self.begin_shared(Durability::Disk, DOING).await?;
        let requested_name = &request.release.repository;
        let name = repositories::recognize(self, &mut write, request.identity, requested_name, now)
            .await?;
        let renamed_request =
            (name != *requested_name).then(|| request.clone().of_repository(name));
        let request = renamed_request.as_ref().unwrap_or(request);
        let (repository, target) = (&request.release.repository, &request.target);
        lane::ensure(&mut write, repository, target);
        let place = (request.forge_id, None);
        let own_lane = LaneName::of(request);
        let insert = |delivery: &str| insert(delivery, request, id, place, now);
        let queries = [insert(delivery.as_str()), lane::entries(&own_lane)];
        let [insertion, mut entries] = write.ask_all(queries, DOING).await?;
        if insertion.changed == 0 {
            if let Some(existing) = find(&mut write, request).await? {
                // It may be of a transaction that shares this commit.
                write.commit_unannounced(Vec::new()).await?;
                return Ok(Accepted::Duplicate(existing));
            }
            // Another deployment has the delivery's id: it is a header, which no signature covers.
            let alias_id = format!("{delivery}/{id}");
            let queries = [insert(&alias_id), lane::entries(&own_lane)];
            let [insertion, current] = write.ask_all(queries, DOING).await?;
            entries = current;
            if insertion.changed == 0 {
                let Some(existing) = find(&mut write, request).await? else {
                    return Err(StoreError::IdTaken(id.clone()));
                };
                write.commit_unannounced(Vec::new()).await?;
                return Ok(Accepted::Duplicate(existing));
            }
            tracing::warn!(%delivery, deployment = %id, "delivery id seen before with another deployment");
        }
        self.enqueue_messages(&mut write, id, &ForgeStatus::queued(), now);
        let lane = lane::from_rows(&entries.rows)?;
        lane::supersede(self, &mut write, &lane, &lane.next_turn(now).superseded, now).await?;
        if let Some((entry, answer)) = act {
            audit::note(&mut write, entry).await?;
            idempotency_keys::keep(&mut write, answer).await?;
        }
        write.commit().await?;
        Ok(Accepted::New)
    }
}

/// Returns the statement that inserts the deployment at its place in the lane, unless the delivery or the deployment
/// exists.
pub(super) fn insert(
    delivery: &str,
    request: &DeploymentRequest,
    id: &DeployId,
    (place, rollout): (i64, Option<&RolloutId>),
    now: Timestamp,
) -> Query {
    let DeploymentRequest {
        forge_id,
        release,
        target,
        git_ref,
        actor,
        description,
        production,
        automatic,
        recipient,
        identity: _,
        requested_at: _,
    } = request;
    let sql = "INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, \
         git_ref, actor, description, state, received_at, stages, summary, violations, due_at, \
         attempts, failures, production, automatic, recipient, marks, place, rollout, app_name) VALUES ($1, $2, $3, $4, $5, $6, \
         $7, $8, $9, $10, $11, $12, '[]', $13, '[]', $12, 0, 0, $14, $15, $16, $17, $18, $19, $20) ON CONFLICT DO NOTHING";
    let lane = (id, delivery, &release.repository, target, forge_id);
    let request_columns = (&release.commit, &release.tag, git_ref, actor, description);
    let waiting = (State::Queued.as_str(), now, "waiting for a worker");
    let marks = mark_text::encode(&first_marks(request, now));
    let kind = (production, automatic, recipient.stored_text());
    let app = lane::app_word(release.app.as_ref());
    let values = (lane, request_columns, waiting, kind, marks, (place, rollout, app));
    query(sql, values)
}

/// Returns the marks of a request that the service stores now. A request that came to the service itself was made then.
pub(super) fn first_marks(request: &DeploymentRequest, now: Timestamp) -> DeployMarks {
    let requested = match request.requested_at {
        Some(at) => MarkTime::new(DeployMark::Requested, at, MarkClock::CodeHost, now),
        None => MarkTime::of_service(DeployMark::Requested, now),
    };
    [requested, MarkTime::of_service(DeployMark::Received, now)].into_iter().collect()
}

/// Returns the id under which the deployment was stored before.
async fn find(
    write: &mut WriteTransaction,
    request: &DeploymentRequest,
) -> Result<Option<DeployId>, StoreError> {
    let sql = "SELECT id FROM deployments WHERE repository = $1 AND forge_id = $2";
    let row = query(sql, (&request.release.repository, request.forge_id))
        .first(write.sql(), DOING)
        .await?;
    row.map(|row| row.id("id")).transpose()
}
