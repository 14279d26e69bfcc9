//! An event becomes a deployment, once.

use jiff::Timestamp;

use crate::model::audit::Entry;
use crate::model::deployment::State;
use crate::model::event::DeploymentRequest;
use crate::model::id::{DeliveryId, DeployId};
use crate::model::status::ForgeStatus;
use crate::store::row::{Row, storable};
use crate::store::{PendingAnswer, Store, StoreError, Write, audit, idempotency_keys, lane};

/// What became of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a duplicate keeps the id it was given first"]
pub enum Accepted {
    /// It is stored and waits, unless a newer one is there already.
    New,
    /// It was stored before, as this deployment; nothing has changed.
    Duplicate(DeployId),
}

const DOING: &str = "storing an event";

impl Store {
    /// Stores a deployment that was asked for, and supersedes what it replaces.
    ///
    /// A delivery that was seen before is a duplicate, and so is a second one about the same
    /// deployment of the forge. When this returns, it is on disk.
    pub async fn accept(
        &self,
        delivery: &DeliveryId,
        request: &DeploymentRequest,
        id: &DeployId,
        now: Timestamp,
    ) -> Result<Accepted, StoreError> {
        self.accepted(delivery, request, id, None, now).await
    }

    /// The same of one that somebody asks us for: the entry is written with it, and the answer kept, and
    /// with no duplicate.
    pub async fn accept_act(
        &self,
        delivery: &DeliveryId,
        request: &DeploymentRequest,
        id: &DeployId,
        (entry, kept): (&Entry, Option<&PendingAnswer>),
        now: Timestamp,
    ) -> Result<Accepted, StoreError> {
        self.accepted(delivery, request, id, Some((entry, kept)), now).await
    }

    async fn accepted(
        &self,
        delivery: &DeliveryId,
        request: &DeploymentRequest,
        id: &DeployId,
        act: Option<(&Entry, Option<&PendingAnswer>)>,
        now: Timestamp,
    ) -> Result<Accepted, StoreError> {
        let mut write = self.begin_durable(DOING).await?;
        lane::ensure(&mut write, &request.release.repository, &request.target).await?;
        if !insert(&mut write, delivery, request, id, now).await? {
            // Nothing to commit: the lane of a duplicate is there already.
            return find(&mut write, delivery, request).await?.map_or_else(
                || Err(StoreError::IdTaken(id.clone())),
                |first| Ok(Accepted::Duplicate(first)),
            );
        }
        self.tell(&mut write, id, &ForgeStatus::queued(), now).await?;
        let lane = lane::read(&mut write, &request.release.repository, &request.target).await?;
        lane::supersede(self, &mut write, &lane, &lane.turn(now).superseded, now).await?;
        if let Some((entry, kept)) = act {
            audit::note(&mut write, entry).await?;
            idempotency_keys::keep(&mut write, kept).await?;
        }
        write.commit().await?;
        Ok(Accepted::New)
    }
}

async fn insert(
    write: &mut Write,
    delivery: &DeliveryId,
    request: &DeploymentRequest,
    id: &DeployId,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let DeploymentRequest {
        forge_id,
        release,
        target,
        git_ref,
        actor,
        description,
        production,
        automatic,
    } = request;
    let done = sqlx::query(
        "INSERT INTO deployments (id, delivery, repository, target, forge_id, commit_id, tag, \
         git_ref, actor, description, state, received_at, stages, summary, violations, due_at, \
         attempts, failures, production, automatic, place) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, \
         $10, $11, $12, '[]', $13, '[]', $12, 0, 0, $14, $15, $5) ON CONFLICT DO NOTHING",
    )
    .bind(id.as_str())
    .bind(delivery.as_str())
    .bind(release.repository.as_str())
    .bind(target.as_str())
    .bind(*forge_id)
    .bind(release.commit.as_str())
    .bind(release.tag.as_str())
    .bind(storable(git_ref))
    .bind(storable(actor))
    .bind(storable(description))
    .bind(State::Queued.as_str())
    .bind(now.as_millisecond())
    .bind("waiting for a worker")
    .bind(i64::from(*production))
    .bind(i64::from(*automatic))
    .execute(write.sql())
    .await
    .map_err(StoreError::doing(DOING))?;
    Ok(done.rows_affected() == 1)
}

async fn find(
    write: &mut Write,
    delivery: &DeliveryId,
    request: &DeploymentRequest,
) -> Result<Option<DeployId>, StoreError> {
    let row = sqlx::query(
        "SELECT id FROM deployments WHERE delivery = $1 OR (repository = $2 AND forge_id = $3) \
         ORDER BY CASE WHEN delivery = $1 THEN 0 ELSE 1 END LIMIT 1",
    )
    .bind(delivery.as_str())
    .bind(request.release.repository.as_str())
    .bind(request.forge_id)
    .fetch_optional(write.sql())
    .await
    .map_err(StoreError::doing(DOING))?;
    row.map(|row| Row::new(row).id("id")).transpose()
}
