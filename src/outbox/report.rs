//! Sends reports of present states: of preview environments and of rollouts. Each lane has a row for each thing with what
//! was last told of it, and a loop of its own.
//!
//! ```text
//! store ◄─ claim ─ plan (pure) ─ limits ─ call ─► report_outcome (pure) ─► store
//! ```

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::deployments::outcome::{DeployError, Remedy};
use crate::forge::CommitStatus;
use crate::forge::error::ForgeError;
use crate::model::id::{CommitSha, RepoName};
use crate::outbox::circuit_breaker::Observation;
use crate::outbox::delivery::DeliveryFailure;
use crate::outbox::relay::{Outbox, ReportLane, Sender};
use crate::outbox::report_outcome::{FailedAttempt, failure_outcome};
use crate::outbox::sinks::github::{delivery_problem, has_no_commit};
use crate::store::{LeaseState, StateOutcome, StoreError};
use crate::support::lease::Lease;
use crate::support::time::saturating_add;

/// The sender's name in the database, for people who look into it.
pub(super) const SENDER: &str = "outbox";
/// The poll interval of a lane: for retries, and other replicas' reports.
const POLL: Duration = Duration::from_secs(2);
/// The pause after a signal, which may be the first of many: most are about other messages.
const PAUSE: Duration = Duration::from_millis(100);
/// The time for which GitHub may not know a commit yet.
const COMMIT_LAG: Duration = Duration::from_mins(2);

/// An attempt at a report.
pub(super) struct Attempt {
    pub(super) outcome: StateOutcome,
    /// The observation of the receiver; `None` where no call was made.
    pub(super) observation: Option<Observation>,
}

/// The number of calls of an attempt that create content.
#[derive(Debug, Default)]
pub(super) struct CallCount(pub(super) u32);

/// The reason why a call has no answer that counts.
pub(super) enum NotCalled {
    /// The code host did not do it.
    Forge(Box<ForgeError>),
    /// It panicked, or took too long.
    Fault(DeliveryFailure),
}

impl Attempt {
    pub(super) fn without_call(outcome: StateOutcome) -> Self {
        Self { outcome, observation: None }
    }

    /// Makes the attempt that had nothing to send, for this reason.
    pub(super) fn with_nothing(reason: &str) -> Self {
        Self::without_call(StateOutcome::Nothing(reason.to_owned()))
    }

    /// Defers the next attempt, if this one may have arrived.
    pub(super) fn not_before(mut self, time: Timestamp) -> Self {
        if let StateOutcome::Later { at, unsure: true, .. } = &mut self.outcome {
            *at = time.max(*at);
        }
        self
    }

    pub(super) fn answered(outcome: StateOutcome) -> Self {
        Self { outcome, observation: Some(Observation::Answer) }
    }

    /// Tells the circuit breaker what the attempt says about its receiver.
    pub(super) fn observe(&self, sender: &Sender, now: Timestamp) {
        match (self.observation, &self.outcome) {
            (Some(observation), StateOutcome::Later { reason, .. }) => {
                sender.observe(observation, now, reason);
            }
            (Some(observation), _) => sender.observe(observation, now, ""),
            (None, _) => sender.breaker().release(1),
        }
    }
}

impl Outbox {
    /// Sends the reports of a lane until `stop`.
    pub(super) async fn relay_lane(&self, lane: &ReportLane, stop: &CancellationToken) {
        let mut messages = self.deployments.wake.messages();
        while !stop.is_cancelled() {
            match self.send_report(lane).await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => {
                    tracing::error!(%error, ?lane, "reports could not be read or recorded");
                }
            }
            tokio::select! {
                _closed = messages.changed() => tokio::time::sleep(PAUSE).await,
                () = tokio::time::sleep(POLL) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Sends the report of a lane that is worth most. Returns false where there is none, or it may not be sent now.
    pub(super) async fn send_report(&self, lane: &ReportLane) -> Result<bool, StoreError> {
        match lane {
            ReportLane::Environments => self.send_environment().await,
            ReportLane::Rollouts(sink) => self.send_rollout(*sink).await,
            ReportLane::RolloutEvents(receiver) => self.send_rollout_event(receiver).await,
        }
    }

    /// Returns the time at which the next report of a lane may be sent, if one waits.
    pub(super) async fn next_report(
        &self,
        lane: &ReportLane,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        match lane {
            ReportLane::Environments => self.next_environment(now).await,
            ReportLane::Rollouts(sink) => self.next_rollout(*sink, now).await,
            ReportLane::RolloutEvents(receiver) => self.next_rollout_event(receiver, now).await,
        }
    }

    /// Makes calls to the code host while the lease of the claim lasts.
    pub(super) async fn call_forge<T>(
        &self,
        held: &Lease,
        call: impl Future<Output = Result<T, ForgeError>>,
    ) -> Result<T, NotCalled> {
        let result = self.run_call(held, call).await.map_err(NotCalled::Fault)?;
        result.map_err(|error| NotCalled::Forge(Box::new(error)))
    }

    /// Writes a commit status; where `verify`, unless the code host has it already.
    pub(super) async fn write_commit_status(
        &self,
        (repository, commit): (&RepoName, &CommitSha),
        status: &CommitStatus,
        verify: bool,
        calls: &mut CallCount,
    ) -> Result<(), ForgeError> {
        let forge = &self.deployments.forge;
        if verify && forge.has_commit_status(repository, commit, status).await? {
            return Ok(());
        }
        calls.0 += 1;
        forge.commit_status(repository, commit, status).await
    }

    /// Decides what follows a failed attempt.
    pub(super) fn fail(&self, attempt: FailedAttempt, error: NotCalled, now: Timestamp) -> Attempt {
        let failure = match error {
            NotCalled::Fault(failure) => failure,
            NotCalled::Forge(error) => match *error {
                // An App has an account at each owner: an account that GitHub limits delays no other.
                ForgeError::RateLimited { retry_after, .. }
                    if self.deployments.forge.knows_deliveries() =>
                {
                    let wait = retry_after.try_into().unwrap_or(SignedDuration::MAX);
                    let reason = error.to_string();
                    let at = saturating_add(now, wait);
                    return Attempt::without_call(StateOutcome::Later {
                        at,
                        unsure: attempt.unsure,
                        failed: false,
                        reason,
                    });
                }
                _ if has_no_commit(&error) => {
                    let remedy = Remedy::Late { what: "the commit", until: COMMIT_LAG };
                    let problem = DeployError { remedy, message: error.to_string() };
                    DeliveryFailure { problem, unsure: false }
                }
                _ => delivery_problem(&error),
            },
        };
        let (outcome, observation) = failure_outcome(attempt, failure, now);
        Attempt { outcome, observation: Some(observation) }
    }
}

/// Warns where another sender has the claim by now.
pub(super) fn warn_of_loss(lease: LeaseState, subject: &str) {
    if lease == LeaseState::Lost {
        tracing::warn!(subject, "another sender took over a report");
    }
}
