//! One turn of a rollout: gathers the facts, asks the gate where its time has come, decides, and stores the record and
//! its orders in one transaction. Whoever lost the race has changed nothing.

use jiff::{SignedDuration, Timestamp};

use crate::deployments::rollouts::facts::{GatheredFacts, POLL_INTERVAL};
use crate::deployments::rollouts::orders::{OrderSource, StoreOrders};
use crate::deployments::rollouts::start::progress;
use crate::deployments::rollouts::view::read_record;
use crate::deployments::{BackendError, Deployments};
use crate::model::id::{DeployId, TargetName};
use crate::model::waiting::WaitingOn;
use crate::model::words::words;
use crate::rollout::advance::{Decision, Order, RolloutWait, advance};
use crate::rollout::facts::{GateAnswer, GateOutcome};
use crate::rollout::forward::busy_sentence;
use crate::rollout::plan::{Gate, RolloutStep};
use crate::rollout::record::{Pause, RolloutRecord, RolloutState, RolloutTargetStatus};
use crate::store::{GateAnswers, RolloutChange, RolloutClaim, RolloutCommit};
use crate::support::text::truncate_chars;
use crate::support::time::saturating_add;

/// The longest time without a turn: a deployment wakes its rollout when it ends.
const LONGEST_REST: SignedDuration = SignedDuration::from_mins(5);
/// The rest after a turn that met another's deployment, or lost a race.
const SHORT_REST: SignedDuration = SignedDuration::from_secs(1);
/// The longest answer of a gate on record, in characters.
const ANSWER_CHARACTERS: usize = 500;
/// The most conditions that a rollout shows to wait for.
const MAX_WAITS: usize = 100;

words! {
    /// What a turn has done, by the word that the metric counts.
    pub enum TurnOutcome {
        /// The rollout has moved; its next turn is due.
        Moved = "moved",
        /// It waits.
        Waited = "waited",
        /// It is queued behind another rollout.
        Queued = "queued",
        /// A deployment of another is in the way, or another replica was first. Nothing was changed.
        Lost = "lost",
        /// A part of the service does not work, or has a fault. Nothing was changed.
        Failed = "failed",
    }
}

impl Deployments {
    /// Gives a rollout its turn.
    pub(crate) async fn advance_rollout(
        &self,
        claim: &RolloutClaim,
    ) -> Result<TurnOutcome, BackendError> {
        if !claim.rollout.is_claimed {
            return self.begin_queued(claim).await;
        }
        let rollout = &claim.rollout;
        let record = read_record(rollout)?;
        let removals = self.begin_removals(rollout, &record).await?;
        let mut gathered = self.gather_rollout_facts(rollout, &record, (&removals, None)).await?;
        let now = self.clock.now();
        let mut decision = self.decide(&record, &gathered, now);
        if decision.orders.contains(&Order::AskGate)
            && let Some((step, gate)) = due_gate(&decision.record, now)
        {
            let answer = bounded(self.ask_gate(&gate, step, now).await);
            gathered.facts.gate = Some(answer.clone());
            if answer.result == GateOutcome::Passed {
                // The targets behind it may begin in this turn.
                let facts = (&removals, Some(answer));
                gathered = self.gather_rollout_facts(rollout, &record, facts).await?;
            }
            decision = self.decide(&record, &gathered, now);
        }
        self.store_decision(claim, (&record, decision), &gathered, now).await
    }

    /// Puts a rollout off whose turn has failed, so that it keeps no other from its turn.
    pub(crate) async fn put_off_rollout(&self, claim: &RolloutClaim) {
        let (waits, due_at) =
            (&claim.rollout.progress.waits, saturating_add(self.clock.now(), POLL_INTERVAL));
        if let Err(error) = self.store.rest_rollout(claim, waits, due_at).await {
            tracing::warn!(rollout = %claim.rollout.id, %error, "rollout not put off");
        }
    }

    fn decide(&self, record: &RolloutRecord, gathered: &GatheredFacts, now: Timestamp) -> Decision {
        advance(record, &gathered.facts, now, &mut || DeployId::of(self.clock.draw()))
    }

    /// Begins a rollout whose targets were another's, once they are free.
    async fn begin_queued(&self, claim: &RolloutClaim) -> Result<TurnOutcome, BackendError> {
        let now = self.clock.now();
        let other = self.store.begin_queued_rollout(&claim.rollout).await;
        let (wait, due_at, outcome) = match other.map_err(BackendError::new)? {
            None => (None, now, TurnOutcome::Moved),
            Some(other) => {
                let what = format!("rollout {other}, which has one of its targets, to end");
                let since = claim.rollout.created_at;
                let waiting = WaitingOn { what, since, last_event: None, gives_up_at: None };
                let wait = RolloutWait { target: None, waiting };
                (Some(wait), saturating_add(now, LONGEST_REST), TurnOutcome::Queued)
            }
        };
        let waits = write_waits(wait.as_slice());
        self.store.rest_rollout(claim, &waits, due_at).await.map_err(BackendError::new)?;
        Ok(outcome)
    }

    async fn store_decision(
        &self,
        claim: &RolloutClaim,
        (record, decision): (&RolloutRecord, Decision),
        gathered: &GatheredFacts,
        now: Timestamp,
    ) -> Result<TurnOutcome, BackendError> {
        let Decision { record: next, orders, waits } = decision;
        let rollout = &claim.rollout;
        let has_moved = has_moved(record, &next);
        let is_blocked = matches!(next.state, RolloutState::Paused(Pause::Blocked(_)));
        let due_at = if has_moved {
            now
        } else if is_blocked && gathered.facts.withdrawn.is_some() {
            // The code host counts the questions, and a branch that was deleted rarely comes back.
            saturating_add(now, LONGEST_REST)
        } else {
            next_turn(&next, &orders, &waits, now)
        };
        let source = OrderSource { rollout, record: &next, gathered };
        let StoreOrders { orders, entries } = self.store_orders(&source, &orders).await?;
        let waits = write_waits(&waits);
        if next == *record && orders.is_empty() {
            self.store.rest_rollout(claim, &waits, due_at).await.map_err(BackendError::new)?;
            return Ok(TurnOutcome::Waited);
        }
        let next_progress = progress(&next, waits, due_at);
        let gate_answer = new_answer(&next, gathered);
        let events = self.rollout_events(rollout, (record, &next), now);
        let change = RolloutChange {
            rollout,
            next: &next_progress,
            orders: &orders,
            entries: &entries,
            events: &events,
            gate_answer: gate_answer.as_ref(),
            answer: None,
            lease_end: Some(claim.lease_end),
        };
        let commit = self.store.change_rollout(change, now).await.map_err(BackendError::new)?;
        match commit {
            RolloutCommit::Stored => {
                self.report_move(record, &next, orders.len());
                if !orders.is_empty() {
                    self.wake.notify_all();
                }
                Ok(if has_moved { TurnOutcome::Moved } else { TurnOutcome::Waited })
            }
            RolloutCommit::Lost | RolloutCommit::Overlaps(_) => {
                let (waits, due_at) = (&rollout.progress.waits, saturating_add(now, SHORT_REST));
                self.store.rest_rollout(claim, waits, due_at).await.map_err(BackendError::new)?;
                Ok(TurnOutcome::Lost)
            }
            RolloutCommit::Busy { target, other } => {
                let waits = add_busy(&rollout.progress.waits, target, &other, now);
                let due_at = saturating_add(now, SHORT_REST);
                self.store.rest_rollout(claim, &waits, due_at).await.map_err(BackendError::new)?;
                Ok(TurnOutcome::Lost)
            }
        }
    }

    fn report_move(&self, before: &RolloutRecord, after: &RolloutRecord, orders: usize) {
        let (rollout, state, index) = (&after.id, after.state.as_str(), after.index);
        self.rollout_metrics.observe(before, after);
        self.wake.outbox();
        if before.state.as_str() != state {
            tracing::info!(%rollout, state, index, orders, "rollout has another state");
        } else if before.index != index || orders > 0 {
            tracing::info!(%rollout, state, index, orders, "rollout goes on");
        }
    }
}

/// Checks that more has changed than an answer of a gate: then another turn follows at once.
fn has_moved(before: &RolloutRecord, after: &RolloutRecord) -> bool {
    before.state != after.state || before.index != after.index || before.targets != after.targets
}

/// Returns the gate of the current step, if it is time to ask it.
fn due_gate(record: &RolloutRecord, now: Timestamp) -> Option<(usize, Gate)> {
    let Some(RolloutStep::Gate { gate, .. }) = record.step() else { return None };
    let answer = record.gates.get(&record.index).and_then(|gate| gate.answer.as_ref());
    // A time in the future is from before the clock was set back.
    let is_fresh = |answer: &GateAnswer| {
        answer.at >= record.step_since
            && answer.at <= now
            && now < saturating_add(answer.at, POLL_INTERVAL)
    };
    (!answer.is_some_and(is_fresh)).then(|| (record.index, gate.clone()))
}

/// Returns the answer of this turn, which the next record has taken over.
fn new_answer(next: &RolloutRecord, gathered: &GatheredFacts) -> Option<GateAnswers> {
    let answer = gathered.facts.gate.as_ref()?;
    let recorded = next.gates.get(&answer.step)?.answer.as_ref();
    let GateAnswer { step, at, result, value } = answer;
    let is_recorded = recorded == Some(answer);
    is_recorded.then(|| GateAnswers::new(*step, *at, (*result, value.clone())))
}

fn bounded(mut answer: GateAnswer) -> GateAnswer {
    answer.value = truncate_chars(&answer.value, ANSWER_CHARACTERS).to_string();
    answer
}

/// Returns the time of the next turn of a rollout that waits.
fn next_turn(
    record: &RolloutRecord,
    orders: &[Order],
    waits: &[RolloutWait],
    now: Timestamp,
) -> Timestamp {
    let longest = saturating_add(now, LONGEST_REST);
    let soon = saturating_add(now, POLL_INTERVAL);
    let is_blocked = matches!(record.state, RolloutState::Paused(Pause::Blocked(_)));
    let is_undoing = matches!(record.state, RolloutState::Undoing { .. });
    let bake = match record.step() {
        Some(RolloutStep::Gate { gate: Gate::Bake { length }, .. }) => {
            Some(saturating_add(record.step_since, *length))
        }
        Some(RolloutStep::Gate { .. } | RolloutStep::Deploy { .. }) | None => None,
    };
    let asks = orders.contains(&Order::AskGate);
    // A target that waits without a limit waits for facts.
    let lacks_facts =
        waits.iter().any(|wait| wait.target.is_some() && wait.waiting.gives_up_at.is_none());
    // What people see of a deployment under way is as old as the last turn.
    let is_deploying = record.targets.iter().any(|one| one.state == RolloutTargetStatus::Deploying);
    let look = (asks || is_blocked || is_undoing || is_deploying || lacks_facts).then_some(soon);
    let limits = waits.iter().filter_map(|wait| wait.waiting.gives_up_at);
    let times = limits.chain(bake).chain(look).chain([longest]);
    times.min().unwrap_or(longest).max(now)
}

/// Adds to what a rollout waits for that a deployment or removal of others came first at a target.
fn add_busy(waits: &str, target: TargetName, other: &DeployId, now: Timestamp) -> String {
    let waits: Vec<RolloutWait> = serde_json::from_str(waits).unwrap_or_default();
    let what = busy_sentence(other);
    let (same, mut waits): (Vec<_>, Vec<_>) =
        waits.into_iter().partition(|wait| wait.target.as_ref() == Some(&target));
    let earlier = same.iter().find(|wait| wait.waiting.what == what);
    let since = earlier.map_or(now, |wait| wait.waiting.since);
    let waiting = WaitingOn { what, since, last_event: None, gives_up_at: None };
    waits.insert(0, RolloutWait { target: Some(target), waiting });
    write_waits(&waits)
}

/// Writes what a rollout waits for, no more than people read.
fn write_waits(waits: &[RolloutWait]) -> String {
    let first_waits = waits.get(..waits.len().min(MAX_WAITS)).unwrap_or_default();
    serde_json::to_string(first_waits).unwrap_or_else(|_| "[]".to_owned())
}
