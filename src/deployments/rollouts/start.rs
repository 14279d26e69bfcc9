//! Starts a rollout: its record is stored, with the claim on its targets, before anything happens.

use jiff::Timestamp;

use crate::deployments::rollouts::view::view;
use crate::deployments::rollouts::{OverlapPolicy, PreparedRollout, RolloutError, RolloutView};
use crate::deployments::{AUDIT, BackendError, Deployments};
use crate::model::audit::{AuditRecord, Principal};
use crate::model::id::RolloutId;
use crate::rollout::record::RolloutRecord;
use crate::store::{Reply, RolloutOrigin, RolloutProgress, RolloutStart, StoredRollout};

impl Deployments {
    /// Starts a rollout that a caller requests from this service. When this returns, nothing of it can be lost.
    pub async fn start_rollout(
        &self,
        prepared: PreparedRollout,
        by: Principal,
        reply: &Reply<RolloutView>,
    ) -> Result<RolloutView, RolloutError> {
        let origin = RolloutOrigin {
            git_ref: prepared.git_ref.clone(),
            owner: prepared.owner.clone(),
            automatic: false,
            recipient: by.recipient(),
            event: None,
        };
        self.store_rollout(prepared, (by, origin), reply).await
    }

    /// Stores a rollout of that origin.
    pub(super) async fn store_rollout(
        &self,
        prepared: PreparedRollout,
        (by, origin): (Principal, RolloutOrigin),
        reply: &Reply<RolloutView>,
    ) -> Result<RolloutView, RolloutError> {
        let (app, now) = (prepared.app.clone(), self.clock.now());
        let may_queue = prepared.on_overlap == OverlapPolicy::Queue;
        let ids = (RolloutId::of(self.clock.draw()), RolloutId::of(self.clock.draw()));
        let rollout = new_rollout(prepared, ids, (&by, origin), now);
        let mut picture = view(rollout.clone())?;
        let entry = AuditRecord {
            app: Some(app.clone()),
            subject: describe(&rollout),
            outcome: "it has begun".to_owned(),
            ..self.ledger.entry("rollout", rollout.reason.clone(), by)
        };
        let picture_of = |start: &RolloutStart, mut picture: RolloutView| {
            picture.is_queued = matches!(start, RolloutStart::Queued(_));
            picture
        };
        let answer = |start: &RolloutStart| reply.answer(&picture_of(start, picture.clone()));
        let start = self.store.create_rollout(&rollout, may_queue, &entry, &answer).await;
        let start = start.map_err(BackendError::new)?;
        match &start {
            RolloutStart::Started | RolloutStart::Queued(_) => {}
            // The other replica tells of it.
            RolloutStart::Repeated => return Ok(picture),
            RolloutStart::Overlaps(other) => {
                return Err(RolloutError::Overlap { app, other: other.clone() });
            }
        }
        let (id, targets) = (&rollout.id, rollout.targets.len());
        tracing::info!(
            target: AUDIT, rollout = %id, %app, tag = %rollout.tag, targets, by = rollout.creator,
            reason = rollout.reason, "rollout started"
        );
        self.wake.rollouts.notify_one();
        picture = picture_of(&start, picture);
        Ok(picture)
    }
}

fn new_rollout(
    prepared: PreparedRollout,
    ids: (RolloutId, RolloutId),
    (by, origin): (&Principal, RolloutOrigin),
    now: Timestamp,
) -> StoredRollout {
    let PreparedRollout { release, app, name, plan, reason, .. } = prepared;
    let record = RolloutRecord::new(ids, (release, app), plan, now);
    StoredRollout {
        id: record.id.clone(),
        undo_id: record.undo_id.clone(),
        repository: record.release.repository.clone(),
        app: record.app.clone(),
        name,
        tag: record.release.tag.clone(),
        targets: record.target_names(),
        origin,
        creator: by.name.clone(),
        reason,
        created_at: now,
        is_claimed: true,
        progress: progress(&record, "[]".to_owned(), now),
    }
}

/// Returns the part of a rollout that changes with its record.
pub(super) fn progress(
    record: &RolloutRecord,
    waits: String,
    due_at: Timestamp,
) -> RolloutProgress {
    RolloutProgress {
        state: record.state.as_str().to_owned(),
        version: record.version,
        record: serde_json::to_string(record).unwrap_or_default(),
        waits,
        since: record.since,
        ended_at: record.is_settled().then_some(record.since),
        due_at,
    }
}

fn describe(rollout: &StoredRollout) -> String {
    let StoredRollout { id, repository, tag, targets, name, .. } = rollout;
    let name = name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
    format!("rollout {id}{name} of {repository}:{tag} to {} targets", targets.len())
}
