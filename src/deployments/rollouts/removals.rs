//! Takes an app off the targets where a rollout put it first. A removal is no transaction: its order is the record of
//! the rollout, and a turn that finds it not begun begins it. The removal's own record, which has the ordered id, keeps
//! it from being done twice.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::deployments::removal::{RemovalError, RemovalResult, settle_if_abandoned};
use crate::deployments::rollouts::orders::reason;
use crate::deployments::{BackendError, Deployments};
use crate::model::audit::Principal;
use crate::model::facts::LiveObject;
use crate::model::id::TargetName;
use crate::model::removal::{NewRemoval, REASON_LIMIT, RemovalOrder};
use crate::model::status::one_line;
use crate::rollout::facts::DeploymentFact;
use crate::rollout::record::{FormerRevision, RolloutRecord, RolloutTarget, RolloutTargetStatus};
use crate::store::StoredRollout;

/// The time for a removal in one turn; it goes on by itself after that, and the next turn finds its record.
const DEADLINE: Duration = Duration::from_secs(30);

impl Deployments {
    /// Begins the removals that are ordered and not on record yet; returns how those stand that have no record.
    pub(super) async fn begin_removals(
        &self,
        rollout: &StoredRollout,
        record: &RolloutRecord,
    ) -> Result<BTreeMap<TargetName, DeploymentFact>, BackendError> {
        let mut facts = BTreeMap::new();
        let ordered = record.targets.iter().filter(|one| {
            one.state == RolloutTargetStatus::Undoing && one.before == Some(FormerRevision::Absent)
        });
        for one in ordered {
            let Some(id) = &one.undo else { continue };
            if let Some(begun) = self.store.removal(id).await.map_err(BackendError::new)? {
                if begun.ended.is_none()
                    && let Err(error) = settle_if_abandoned(self, &begun, self.clock.now()).await
                {
                    tracing::warn!(%error, "result of a removal cannot be determined yet");
                }
                continue;
            }
            let order = RemovalOrder {
                id: id.clone(),
                rollout: rollout.id.clone(),
                version: rollout.progress.version,
            };
            let request = removal_request(rollout, record, one);
            let removal = self.remove_as_ordered(request, order);
            let fact = match tokio::time::timeout(DEADLINE, removal).await {
                Ok(result) => self.read_removal(result),
                Err(_elapsed) => open("its removal to be pushed"),
            };
            facts.insert(one.target.clone(), fact);
        }
        Ok(facts)
    }

    fn read_removal(&self, result: Result<RemovalResult, RemovalError>) -> DeploymentFact {
        let failed = |reason: String| DeploymentFact::Failed { reason, is_pushed: false };
        match result {
            // It was gone already.
            Ok(_) | Err(RemovalError::Unknown(_)) => {
                DeploymentFact::Complete { at: self.clock.now() }
            }
            Err(RemovalError::KeepsData(objects)) => {
                let names: Vec<String> = objects.iter().map(LiveObject::to_string).collect();
                failed(format!("not removed, it has objects that keep data: {}", names.join(", ")))
            }
            Err(RemovalError::Foreign(paths)) => {
                let count = paths.len();
                failed(format!("not removed, {count} files there were not written by this service"))
            }
            Err(RemovalError::Superseded(by)) => match by {
                Some(by) => DeploymentFact::Superseded { by: Some(by) },
                None => open("its removal to begin"),
            },
            Err(
                error @ (RemovalError::Busy(_)
                | RemovalError::Changed(_)
                | RemovalError::Repository(_)
                | RemovalError::Fault(_)),
            ) => {
                tracing::warn!(%error, "removal of a rollout not done yet");
                open(&format!("its removal: {error}"))
            }
        }
    }
}

fn removal_request(
    rollout: &StoredRollout,
    record: &RolloutRecord,
    one: &RolloutTarget,
) -> NewRemoval {
    NewRemoval {
        target: one.target.clone(),
        app: record.app.clone(),
        by: Principal::service(),
        reason: one_line(&reason(rollout, record), REASON_LIMIT),
        with_data: false,
        dry_run: false,
    }
}

fn open(sentence: &str) -> DeploymentFact {
    DeploymentFact::Open { is_pushed: false, sentence: sentence.to_owned() }
}
