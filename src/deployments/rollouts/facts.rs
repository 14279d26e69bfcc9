//! Gathers the facts of a rollout: how its deployments stand, what is live, and what is in the way. A turn reads the
//! database a few times, and looks at the manifest repositories only for the targets that are next.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use jiff::{SignedDuration, Timestamp};

use crate::deployments::rollouts::live::{InstanceRecords, LiveState, revision_of};
use crate::deployments::rollouts::stops::RolloutStops;
use crate::deployments::{BackendError, Deployments};
use crate::forge::error::ForgeError;
use crate::model::app_instance::AppInstance;
use crate::model::deployment::{Deployment, State};
use crate::model::id::{CommitSha, DeployId, TargetName};
use crate::model::live_history::AppFolders;
use crate::model::release::Release;
use crate::model::removal::RemovalRecord;
use crate::rollout::facts::{
    DeploymentFact, GateAnswer, GateOutcome, LiveFact, RolloutFacts, TargetFacts,
};
use crate::rollout::plan::{Gate, RolloutStep};
use crate::rollout::record::{
    FormerRevision, Pause, RolloutRecord, RolloutState, RolloutTarget, RolloutTargetStatus,
};
use crate::store::StoredRollout;
use crate::support::time::saturating_add;

/// The most targets of one turn that are looked at in their manifest repositories; the others are looked at in the next
/// turn.
const MAX_LOOKS: usize = 16;
/// The most that are looked at on the way back, where one target follows the other.
const MAX_UNDO_LOOKS: usize = 4;
/// The number of looks at the same time.
const AT_ONCE: usize = 8;
/// The time between two questions to a gate, between two looks at what blocks a target, and before an interrupted removal
/// is begun again.
pub(super) const POLL_INTERVAL: SignedDuration = SignedDuration::from_secs(15);
/// The time for the questions to the code host.
const FORGE_DEADLINE: Duration = Duration::from_secs(15);
/// The rules whose violations stop a deployment for some time only.
const PASSING_RULES: [&str; 3] = ["locks", "hold", "windows"];

/// The facts of one turn, and what its orders need beside them.
pub(super) struct GatheredFacts {
    pub(super) facts: RolloutFacts,
    /// The revisions of the targets that were looked at.
    pub(super) folders: BTreeMap<TargetName, AppFolders>,
}

/// What was read of all targets at once.
struct TurnRecords<'a> {
    rollout: &'a StoredRollout,
    deployments: BTreeMap<DeployId, Deployment>,
    newest: BTreeMap<TargetName, Deployment>,
    /// The time of the last removal.
    removed: BTreeMap<TargetName, Timestamp>,
    beside: BTreeMap<TargetName, DeployId>,
    /// Removals without a record of their own.
    removals: &'a BTreeMap<TargetName, DeploymentFact>,
    stops: RolloutStops,
}

impl Deployments {
    /// Gathers the facts for the next turn of a rollout.
    pub(super) async fn gather_rollout_facts(
        &self,
        rollout: &StoredRollout,
        record: &RolloutRecord,
        (removals, gate): (&BTreeMap<TargetName, DeploymentFact>, Option<GateAnswer>),
    ) -> Result<GatheredFacts, BackendError> {
        let names = record.target_names();
        let names: Vec<&TargetName> = names.iter().collect();
        let deployments = self.store.rollout_deployments(rollout).await;
        let newest = self.store.newest_pushed(&record.app, &names).await;
        let removed = self.store.last_removals(&record.app, &names, self.clock.now()).await;
        let app_name = record.release.app.as_ref();
        let beside = self.store.deployments_beside(rollout, app_name).await;
        let by_target = |one: Deployment| (one.request.target.clone(), one);
        let by_id = |one: Deployment| (one.id.clone(), one);
        let records = TurnRecords {
            rollout,
            deployments: deployments.map_err(BackendError::new)?.into_iter().map(by_id).collect(),
            newest: newest.map_err(BackendError::new)?.into_iter().map(by_target).collect(),
            removed: removed.map_err(BackendError::new)?,
            beside: beside.map_err(BackendError::new)?.into_iter().rev().collect(),
            removals,
            stops: self.rollout_stops(&record.app, &rollout.origin.owner).await?,
        };
        let next = next_targets(record, gate.as_ref(), self.clock.now());
        let looks = next.iter().map(|one| self.look_at_instance(&records, record, &one.target));
        let looks: Vec<_> = looks.collect();
        let states: BTreeMap<TargetName, LiveState> =
            stream::iter(looks).buffered(AT_ONCE).collect().await;
        let mut facts = RolloutFacts { gate, ..RolloutFacts::default() };
        for (number, one) in record.targets.iter().enumerate() {
            let fact = self.facts_of(&records, record, one, states.get(&one.target)).await?;
            facts.targets.insert(number, fact);
        }
        let begins = |(number, one): (usize, &RolloutTarget)| {
            let is_free = |facts: &TargetFacts| {
                facts.blocked.is_none()
                    && facts.busy.is_none()
                    && !matches!(facts.live, LiveFact::Unknown(_))
            };
            one.state == RolloutTargetStatus::Pending
                && next.iter().any(|other| other.step == one.step && other.target == one.target)
                && facts.targets.get(&number).is_some_and(is_free)
        };
        if record.targets.iter().enumerate().any(begins) {
            (facts.withdrawn, facts.ref_commit) = self.look_up_release(rollout, record).await;
        }
        let folders = states.into_iter().map(|(target, state)| (target, state.folders)).collect();
        Ok(GatheredFacts { facts, folders })
    }

    async fn look_at_instance(
        &self,
        records: &TurnRecords<'_>,
        record: &RolloutRecord,
        target: &TargetName,
    ) -> (TargetName, LiveState) {
        let instance = AppInstance { target: target.clone(), app: record.app.clone() };
        let is_ours = |id: &DeployId| records.deployments.contains_key(id);
        let of_instance = InstanceRecords {
            newest: records.newest.get(target),
            removed_at: records.removed.get(target).copied(),
        };
        let state = self.read_live(&instance, of_instance, &is_ours).await;
        (target.clone(), state)
    }

    async fn facts_of(
        &self,
        records: &TurnRecords<'_>,
        record: &RolloutRecord,
        one: &RolloutTarget,
        look: Option<&LiveState>,
    ) -> Result<TargetFacts, BackendError> {
        let target = &one.target;
        let has_clusters =
            self.clusters_of(target).iter().any(|one| self.clusters.find(one).is_some());
        let is_configured = has_clusters && self.manifests_of(target).is_ok();
        let live = match look {
            Some(state) => state.live.clone(),
            None => records.live_by_record(one),
        };
        let is_next = look.is_some();
        let mut blocked = None;
        if is_configured && is_next {
            blocked = match one.state {
                RolloutTargetStatus::Pending => {
                    let release = (&record.release, records.rollout.origin.automatic);
                    let stop = self.stop_on(&records.stops, target, release).await?;
                    stop.or_else(|| self.first_on_fleet(target, &live))
                }
                _ => self.lock_on(&records.stops, target),
            };
        }
        let busy = records.beside.get(target).filter(|_| is_next).cloned();
        let deployment = self.deployment_fact(records, one.state, one.deployment.as_ref()).await?;
        let undo = self.undo_fact(records, one, look).await?;
        let unrestorable = match (one.state, &one.before, look) {
            (RolloutTargetStatus::UndoPending, Some(FormerRevision::Revision(to)), Some(state)) => {
                self.find_obstacle(to, state).await?
            }
            _ => None,
        };
        Ok(TargetFacts { is_configured, live, blocked, busy, deployment, undo, unrestorable })
    }

    async fn deployment_fact(
        &self,
        records: &TurnRecords<'_>,
        state: RolloutTargetStatus,
        id: Option<&DeployId>,
    ) -> Result<Option<DeploymentFact>, BackendError> {
        let Some(id) = id else { return Ok(None) };
        let Some(deployment) = records.deployments.get(id) else {
            return Ok(Some(DeploymentFact::Missing));
        };
        let is_refused = deployment.state == State::Failed && deployment.pushed.is_none();
        // In other states it does not matter why it was refused.
        let is_asked = matches!(
            state,
            RolloutTargetStatus::Pending
                | RolloutTargetStatus::Deploying
                | RolloutTargetStatus::Undoing
        );
        if is_refused && is_asked && self.is_stopped(id).await? {
            return Ok(Some(DeploymentFact::Blocked { reason: deployment.summary.clone() }));
        }
        Ok(Some(read_fact(deployment, records.superseding(deployment))))
    }

    /// Checks that a lock, a hold or a window is the only reason why a deployment was refused.
    async fn is_stopped(&self, id: &DeployId) -> Result<bool, BackendError> {
        let record = self.store.deployment(id).await.map_err(BackendError::new)?;
        let Some(record) = record else { return Ok(false) };
        let mut errors = record.violations.iter().filter(|one| one.is_error()).peekable();
        Ok(errors.peek().is_some() && errors.all(|one| PASSING_RULES.contains(&one.rule.as_ref())))
    }

    /// Returns how the undo of a target stands: a rollback, or the removal of what was not there before.
    async fn undo_fact(
        &self,
        records: &TurnRecords<'_>,
        one: &RolloutTarget,
        look: Option<&LiveState>,
    ) -> Result<Option<DeploymentFact>, BackendError> {
        // Nothing follows from one that has ended.
        let is_under_way = one.state == RolloutTargetStatus::Undoing;
        let Some(id) = one.undo.as_ref().filter(|_| is_under_way) else { return Ok(None) };
        if one.before == Some(FormerRevision::Absent) {
            if let Some(fact) = records.removals.get(&one.target) {
                return Ok(Some(fact.clone()));
            }
            let removal = self.store.removal(id).await.map_err(BackendError::new)?;
            return Ok(Some(removal_fact(removal.as_ref(), look, self.clock.now())));
        }
        let fact = self.deployment_fact(records, one.state, Some(id)).await?;
        // One that was refused because another release is live by now has failed at nothing.
        let newest = records.newest.get(&one.target);
        let other = newest.filter(|newest| {
            let is_later = one.deployment.as_ref().is_none_or(|ours| newest.id > *ours);
            is_later && !records.deployments.contains_key(&newest.id)
        });
        Ok(match (fact, other) {
            (Some(DeploymentFact::Failed { is_pushed: false, .. }), Some(other)) => {
                Some(DeploymentFact::Superseded { by: Some(other.id.clone()) })
            }
            (fact, _) => fact,
        })
    }

    /// Returns why the revision before cannot be made live again.
    async fn find_obstacle(
        &self,
        to: &DeployId,
        state: &LiveState,
    ) -> Result<Option<String>, BackendError> {
        if let LiveFact::Unknown(_) = state.live {
            return Ok(None);
        }
        if state.folders.tree_of(to).is_none() {
            return Ok(Some(format!("revision {to} is not kept any more")));
        }
        let record = self.store.deployment_picture(to).await.map_err(BackendError::new)?;
        Ok(record.is_none().then(|| {
            format!(
                "the database has no record of revision {to}: `the-deployer rebuild` restores it"
            )
        }))
    }

    /// Looks the release up at the code host. Returns why it must not go further, where its branch or tag, its commit or
    /// its WAML is gone, and the commit that the branch or tag names now.
    async fn look_up_release(
        &self,
        rollout: &StoredRollout,
        record: &RolloutRecord,
    ) -> (Option<String>, Option<CommitSha>) {
        let (repository, git_ref) = (&rollout.repository, &rollout.origin.git_ref);
        let read = async {
            let commit = self.forge.commit_of(repository, git_ref).await?;
            let release = Release { repository: repository.clone(), ..record.release.clone() };
            self.read_release_waml(&release).await?;
            Ok(commit)
        };
        // While the code host does not answer, the deployments themselves wait for it.
        let Ok(result) = tokio::time::timeout(FORGE_DEADLINE, read).await else {
            return (None, None);
        };
        match result {
            Ok(commit) => (None, Some(commit)),
            Err(error @ (ForgeError::NoRef { .. } | ForgeError::NoFile { .. })) => {
                (Some(format!("the release was withdrawn: {error}")), None)
            }
            Err(error @ (ForgeError::NoCommit { .. } | ForgeError::NoRepository { .. })) => {
                (Some(format!("the release is gone: {error}")), None)
            }
            Err(_) => (None, None),
        }
    }
}

impl TurnRecords<'_> {
    /// Returns what is live by the newest record; for a target that is not next this is enough.
    fn live_by_record(&self, one: &RolloutTarget) -> LiveFact {
        let newest = self.newest.get(&one.target);
        match (one.state, newest) {
            // The repository counts, and it is looked at when the turn comes.
            (RolloutTargetStatus::Pending | RolloutTargetStatus::UndoPending, _) | (_, None) => {
                LiveFact::Unknown("its turn".to_owned())
            }
            (_, Some(newest)) => LiveFact::Revision {
                revision: revision_of(newest).clone(),
                is_ours: self.deployments.contains_key(&newest.id),
                by: newest.id.clone(),
            },
        }
    }

    /// Returns the deployment of others that took the place of one.
    fn superseding(&self, deployment: &Deployment) -> Option<DeployId> {
        let target = &deployment.request.target;
        let newest = self.newest.get(target).map(|newest| &newest.id);
        let ids = [self.beside.get(target), newest].into_iter().flatten();
        let mut ids = ids.filter(|id| **id > deployment.id && !self.deployments.contains_key(*id));
        ids.next().cloned()
    }
}

/// Lists the targets that this turn may begin, or undo.
fn next_targets<'r>(
    record: &'r RolloutRecord,
    gate: Option<&GateAnswer>,
    now: Timestamp,
) -> Vec<&'r RolloutTarget> {
    match &record.state {
        RolloutState::Undoing { .. } => {
            return record.undo_sequence().take(MAX_UNDO_LOOKS).collect();
        }
        RolloutState::Created
        | RolloutState::RollingOut
        | RolloutState::Paused(Pause::Blocked(_)) => {}
        RolloutState::Paused(Pause::Person(_) | Pause::Failure(_))
        | RolloutState::Done
        | RolloutState::Undone
        | RolloutState::UndoFailed
        | RolloutState::Cancelled { .. } => return Vec::new(),
    }
    let pending = |step: usize| -> Vec<&'r RolloutTarget> {
        let Some(RolloutStep::Deploy { parallel, .. }) = record.plan.steps.get(step) else {
            return Vec::new();
        };
        let of_step =
            |one: &&RolloutTarget| one.step == step && one.state == RolloutTargetStatus::Pending;
        record.targets.iter().filter(of_step).take((*parallel).min(MAX_LOOKS)).collect()
    };
    let next = pending(record.index);
    // The next step begins in the turn in which the current one is complete.
    let is_over = next.is_empty() && may_pass(record, gate, now);
    if is_over { pending(record.index + 1) } else { next }
}

/// Checks that the current step may be complete in this turn.
fn may_pass(record: &RolloutRecord, answer: Option<&GateAnswer>, now: Timestamp) -> bool {
    let Some(RolloutStep::Gate { gate, .. }) = record.step() else { return true };
    match gate {
        Gate::Bake { length } => now >= saturating_add(record.step_since, *length),
        Gate::Approval { .. } => {
            record.gates.get(&record.index).is_some_and(|gate| gate.approval.is_some())
        }
        Gate::Http { .. } | Gate::PromQl { .. } | Gate::NoAlert { .. } | Gate::Calendar { .. } => {
            answer.is_some_and(|answer| answer.result == GateOutcome::Passed)
        }
    }
}

/// Reads how a deployment stands.
fn read_fact(deployment: &Deployment, other: Option<DeployId>) -> DeploymentFact {
    let sentence = || match &deployment.waiting {
        Some(waiting) => waiting.what.clone(),
        None => deployment.summary.clone(),
    };
    match deployment.state {
        State::Queued | State::Running => {
            DeploymentFact::Open { is_pushed: false, sentence: sentence() }
        }
        // The push may have arrived.
        State::Pushing | State::Syncing | State::Progressing => {
            DeploymentFact::Open { is_pushed: true, sentence: sentence() }
        }
        State::Succeeded => {
            let at = deployment.finished_at.unwrap_or(deployment.received_at);
            DeploymentFact::Complete { at }
        }
        State::Failed => DeploymentFact::Failed {
            reason: deployment.summary.clone(),
            is_pushed: deployment.pushed.is_some(),
        },
        State::Superseded => DeploymentFact::Superseded { by: other },
        State::Cancelled => DeploymentFact::Cancelled,
    }
}

/// Reads how a removal stands; what is live says how one ended that has no commit of its own. One that was interrupted
/// comes again, some time after.
fn removal_fact(
    removal: Option<&RemovalRecord>,
    look: Option<&LiveState>,
    now: Timestamp,
) -> DeploymentFact {
    let Some(removal) = removal else {
        let sentence = "its removal to begin".to_owned();
        return DeploymentFact::Open { is_pushed: false, sentence };
    };
    let Some(end) = &removal.ended else {
        let sentence = "its removal to be pushed".to_owned();
        return DeploymentFact::Open { is_pushed: false, sentence };
    };
    let is_gone = look.is_some_and(|look| look.live == LiveFact::Absent);
    if end.commit.is_some() || is_gone {
        return DeploymentFact::Complete { at: end.at };
    }
    if !end.is_interrupted() {
        return DeploymentFact::Failed { reason: end.summary.clone(), is_pushed: false };
    }
    if now < saturating_add(end.at, POLL_INTERVAL) {
        let sentence = "its removal to be begun again, which was interrupted".to_owned();
        return DeploymentFact::Open { is_pushed: false, sentence };
    }
    DeploymentFact::Blocked { reason: "its removal was interrupted".to_owned() }
}
