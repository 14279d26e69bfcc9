//! Makes what the store needs of the orders of a turn: deployments, rollbacks and cancellations with all their data,
//! and an entry in the audit log for each.

use crate::deployments::BackendError;
use crate::deployments::Deployments;
use crate::deployments::rollouts::facts::GatheredFacts;
use crate::model::audit::{AuditRecord, Principal};
use crate::model::event::DeploymentRequest;
use crate::model::id::{DeployId, TargetName};
use crate::model::release::Release;
use crate::model::rollback::{Rollback, provisional_number};
use crate::pipeline::weights::weights_text;
use crate::rollout::advance::Order;
use crate::rollout::facts::LiveFact;
use crate::rollout::record::{RolloutRecord, RolloutState};
use crate::store::{NewRollback, RolloutOrder, StoredRollout};

/// The longest reason of a deployment, in characters, as `model::event::DeploymentRequest::description` promises.
const REASON_CHARACTERS: usize = 500;

/// The orders of a turn for the store.
#[derive(Default)]
pub(super) struct StoreOrders {
    pub(super) orders: Vec<RolloutOrder>,
    pub(super) entries: Vec<AuditRecord>,
}

/// The rollout that gives the orders.
pub(super) struct OrderSource<'a> {
    pub(super) rollout: &'a StoredRollout,
    pub(super) record: &'a RolloutRecord,
    pub(super) gathered: &'a GatheredFacts,
}

impl Deployments {
    /// Makes the orders of a turn; the removal of an app and the question to a gate are no transactions, and stay out.
    pub(super) async fn store_orders(
        &self,
        source: &OrderSource<'_>,
        orders: &[Order],
    ) -> Result<StoreOrders, BackendError> {
        let mut made = StoreOrders::default();
        for order in orders {
            match order {
                Order::Deploy { target, id } => {
                    let request = Box::new(self.step_request(source, target, id));
                    made.entries.push(self.order_entry(source, "deploy", target, id));
                    made.orders.push(RolloutOrder::Deploy { id: id.clone(), request });
                }
                Order::RollBack { target, id, from, to } => {
                    let new = self.undo_request(source, target, (id, from, to)).await?;
                    made.entries.push(self.order_entry(source, "rollback", target, id));
                    made.orders.push(RolloutOrder::RollBack(Box::new(new)));
                }
                Order::Cancel { target, deployment } => {
                    let by = (Principal::service().name, reason(source.rollout, source.record));
                    let (id, target) = (deployment.clone(), target.clone());
                    made.orders.push(RolloutOrder::Cancel { id, target, by });
                }
                Order::Remove { .. } | Order::AskGate => {}
            }
        }
        Ok(made)
    }

    fn step_request(
        &self,
        source: &OrderSource<'_>,
        target: &TargetName,
        id: &DeployId,
    ) -> DeploymentRequest {
        let StoredRollout { origin, creator, repository, .. } = source.rollout;
        let release = Release { repository: repository.clone(), ..source.record.release.clone() };
        DeploymentRequest {
            forge_id: provisional_number(id),
            release,
            target: target.clone(),
            git_ref: origin.git_ref.clone(),
            actor: creator.clone(),
            description: step_reason(source, id),
            production: self.is_production(target),
            automatic: origin.automatic,
            recipient: origin.recipient.clone(),
            identity: None,
            requested_at: None,
        }
    }

    /// Makes the rollback to a revision that was found to be kept, with its record, in this turn.
    async fn undo_request(
        &self,
        source: &OrderSource<'_>,
        target: &TargetName,
        (id, from, to): (&DeployId, &DeployId, &DeployId),
    ) -> Result<NewRollback, BackendError> {
        let StoredRollout { origin, creator, repository, app, undo_id, .. } = source.rollout;
        let gathered = source.gathered;
        let missing =
            |what: &str| BackendError::new(format!("the {what} of {to} on {target} is gone"));
        let folders = gathered.folders.get(target);
        let tree = folders.and_then(|folders| folders.tree_of(to)).cloned();
        let tree = tree.ok_or_else(|| missing("revision"))?;
        let revision = self.store.deployment(to).await.map_err(BackendError::new)?;
        let revision = revision.ok_or_else(|| missing("record"))?;
        let mut targets = source.record.targets.iter();
        let number = targets.position(|one| one.undo.as_ref() == Some(id));
        let facts = number.and_then(|number| gathered.facts.targets.get(&number));
        let live = facts.map(|facts| &facts.live);
        let live_revision = match live {
            Some(LiveFact::Revision { revision, .. }) => Some(revision.clone()),
            _ => None,
        };
        let why = reason(source.rollout, source.record);
        let request = DeploymentRequest {
            forge_id: provisional_number(id),
            release: Release { repository: repository.clone(), ..revision.request.release },
            target: target.clone(),
            git_ref: revision.request.git_ref,
            actor: creator.clone(),
            description: why.clone(),
            production: revision.request.production || self.is_production(target),
            automatic: false,
            recipient: origin.recipient.clone(),
            identity: None,
            requested_at: None,
        };
        let rollback = Rollback {
            to: to.clone(),
            from: live_revision,
            away: Some(source.record.release.clone()),
            tree,
            reason: why,
            hold: self.holds_on(target),
            with_data: false,
            with_fewer_pods: false,
            undoes: None,
            replaces: Some(from.clone()),
            only_from: false,
        };
        Ok(NewRollback {
            id: id.clone(),
            request,
            app: app.clone(),
            rollback,
            template: revision.template,
            contact: revision.contact,
            address: revision.address,
            rollout: Some(undo_id.clone()),
        })
    }

    fn order_entry(
        &self,
        source: &OrderSource<'_>,
        act: &'static str,
        target: &TargetName,
        id: &DeployId,
    ) -> AuditRecord {
        AuditRecord {
            target: Some(target.clone()),
            app: Some(source.rollout.app.clone()),
            subject: format!("deployment {id} of rollout {}", source.rollout.id),
            outcome: "accepted".to_owned(),
            ..self.ledger.entry(act, reason(source.rollout, source.record), Principal::service())
        }
    }
}

/// Returns the reason of a step: that of the rollout, and the weights of the step.
fn step_reason(source: &OrderSource<'_>, id: &DeployId) -> String {
    let reason = reason(source.rollout, source.record);
    let Some(weights) = source.record.weights_of(id) else { return reason };
    let weights = format!("weights {}: ", weights_text(weights));
    (weights + &reason).chars().take(REASON_CHARACTERS).collect()
}

/// Returns the reason of what a rollout orders: why it was started, or why it goes back.
pub(super) fn reason(rollout: &StoredRollout, record: &RolloutRecord) -> String {
    let StoredRollout { id, reason, .. } = rollout;
    let text = match &record.state {
        RolloutState::Undoing { reason } => format!("undo of rollout {id}: {reason}"),
        RolloutState::Created
        | RolloutState::RollingOut
        | RolloutState::Paused(_)
        | RolloutState::Done
        | RolloutState::Undone
        | RolloutState::UndoFailed
        | RolloutState::Cancelled { .. } => format!("rollout {id}: {reason}"),
    };
    text.chars().take(REASON_CHARACTERS).collect()
}
