//! Sums up the deployments of a window: how long each interval took, how they ended, and DORA's four figures.

use std::collections::BTreeMap;

use futures::future::try_join4;
use jiff::{SignedDuration, Timestamp};

use crate::deployments::{BackendError, Deployments};
use crate::model::deploy_clock::{DeployInterval, DeployLapses, Lapse};
use crate::model::deployment::State;
use crate::model::insights::{
    DoraFigures, LapseSample, LapseSummary, RolloutFigures, count_per_day, percentage,
};
use crate::store::{
    ChangeFailure, DeploymentKind, InsightScope, OutcomeCount, PackedLapses, RolloutOutcome,
};

/// The figures of a window.
#[derive(Debug, Clone, PartialEq)]
pub struct Insights {
    /// The begin of the window, or of the part of it that was counted.
    pub since: Timestamp,
    /// False if the window has more deployments than are counted: the oldest are left out.
    pub is_complete: bool,
    /// The number of deployments by state, without states that none has.
    pub outcomes: BTreeMap<State, u64>,
    /// The lengths of each interval, in the order of [`DeployInterval::ALL`].
    pub intervals: Vec<(DeployInterval, LapseSummary)>,
    /// DORA's four figures.
    pub dora: DoraFigures,
    /// The figures of rollouts.
    pub rollouts: RolloutFigures,
}

/// The deployments whose texts are in memory at a time, some megabytes.
const SLICE: u32 = 50_000;
/// The most slices: their lengths are in memory until they are sorted, 48 bytes for each deployment.
pub(super) const MAX_SLICES: u32 = 4;
/// The most failed changes that are looked at.
const MAX_FAILURES: u32 = 2_000;
/// The most rollouts that are looked at.
pub(super) const MAX_ROLLOUTS: u32 = 5_000;

/// The lengths of all deployments so far.
#[derive(Debug, Default)]
struct Samples {
    intervals: BTreeMap<DeployInterval, LapseSample>,
    lead_time: LapseSample,
}

impl Insights {
    /// Returns the figures of no deployment at all.
    pub fn empty(since: Timestamp) -> Self {
        let nothing = |interval| (interval, LapseSummary::default());
        Self {
            since,
            is_complete: true,
            outcomes: BTreeMap::new(),
            intervals: DeployInterval::ALL.map(nothing).to_vec(),
            dora: DoraFigures::default(),
            rollouts: RolloutFigures::default(),
        }
    }
}

impl Samples {
    fn add(&mut self, lapses: &DeployLapses, kind: DeploymentKind) {
        for (interval, lapse) in lapses.iter() {
            self.intervals.entry(interval).or_default().add(lapse);
        }
        self.lead_time.extend(lapses.lead_time.filter(|_| kind == DeploymentKind::Change));
    }
}

impl Deployments {
    /// Returns the figures of a window.
    pub(crate) async fn insights(&self, scope: InsightScope) -> Result<Insights, BackendError> {
        let (mut samples, mut scope, mut is_complete) = (Samples::default(), scope, true);
        for kind in [DeploymentKind::Change, DeploymentKind::Rollback] {
            let (all, since) = self.sample(kind, &scope, samples).await?;
            samples = all;
            if let Some(since) = since {
                is_complete = false;
                scope.since = since;
            }
        }
        let failures = async {
            self.store.failed_changes(&scope, MAX_FAILURES).await.map_err(BackendError::new)
        };
        let (changes, rollbacks, unfinished, failures) = try_join4(
            self.outcomes(DeploymentKind::Change, &scope),
            self.outcomes(DeploymentKind::Rollback, &scope),
            self.outcomes(DeploymentKind::Unfinished, &scope),
            failures,
        )
        .await?;
        let rollouts = self.store.rollout_outcomes(&scope, MAX_ROLLOUTS).await;
        let rollouts = rollouts.map_err(BackendError::new)?;
        let window = scope.until.duration_since(scope.since);
        let mut outcomes = BTreeMap::new();
        for one in changes.iter().chain(&rollbacks).chain(&unfinished) {
            *outcomes.entry(one.state).or_default() += one.count;
        }
        let Samples { mut intervals, lead_time } = samples;
        let mut take = |interval| intervals.remove(&interval).unwrap_or_default().summarize();
        Ok(Insights {
            since: scope.since,
            is_complete,
            outcomes,
            intervals: DeployInterval::ALL.map(|interval| (interval, take(interval))).to_vec(),
            dora: dora(&changes, &failures, lead_time.summarize(), window),
            rollouts: rollout_figures(&rollouts),
        })
    }

    /// Adds the lengths of the deployments of a kind, the newest first. Returns the time from which they are counted
    /// where that is later than the begin of the window.
    async fn sample(
        &self,
        kind: DeploymentKind,
        scope: &InsightScope,
        mut samples: Samples,
    ) -> Result<(Samples, Option<Timestamp>), BackendError> {
        let mut slice = scope.clone();
        for _ in 0..MAX_SLICES {
            let start = self.begin_slice(kind, scope, &mut slice).await?;
            let packed = self.store.packed_lapses(kind, &slice).await.map_err(BackendError::new)?;
            samples = sample_slice(packed, kind, samples).await?;
            let Some(start) = start else { return Ok((samples, None)) };
            slice.until = start;
        }
        slice.since = scope.since;
        let rest = self.store.slice_start(kind, &slice, 1).await.map_err(BackendError::new)?;
        Ok((samples, rest.map(|_| slice.until)))
    }

    /// Moves the begin of a slice, of which the end is set, so that it has no more than [`SLICE`] deployments. Returns the
    /// begin; `None` for the last slice, which begins with the window.
    pub(super) async fn begin_slice(
        &self,
        kind: DeploymentKind,
        scope: &InsightScope,
        slice: &mut InsightScope,
    ) -> Result<Option<Timestamp>, BackendError> {
        slice.since = scope.since;
        let start = self.store.slice_start(kind, slice, SLICE).await;
        let start = start.map_err(BackendError::new)?;
        slice.since = start.unwrap_or(scope.since);
        Ok(start)
    }

    async fn outcomes(
        &self,
        kind: DeploymentKind,
        scope: &InsightScope,
    ) -> Result<Vec<OutcomeCount>, BackendError> {
        self.store.outcome_counts(kind, scope).await.map_err(BackendError::new)
    }
}

/// Reads the lengths on a thread for computations: ten thousands of them take some milliseconds.
async fn sample_slice(
    packed: PackedLapses,
    kind: DeploymentKind,
    mut samples: Samples,
) -> Result<Samples, BackendError> {
    let reading = tokio::task::spawn_blocking(move || {
        for lapses in packed.iter() {
            samples.add(&lapses, kind);
        }
        samples
    });
    reading.await.map_err(BackendError::new)
}

/// Sums up the rollouts of a window.
pub(super) fn rollout_figures(rollouts: &[RolloutOutcome]) -> RolloutFigures {
    let mut duration = LapseSample::default();
    let mut figures = RolloutFigures { started: rollouts.len() as u64, ..Default::default() };
    for RolloutOutcome { state, started_at, ended_at } in rollouts {
        let count = match state.as_str() {
            "done" => &mut figures.done,
            "undone" => &mut figures.undone,
            "undo_failed" => &mut figures.undo_failed,
            "cancelled" => &mut figures.cancelled,
            _ => {
                figures.open += 1;
                continue;
            }
        };
        *count += 1;
        if let Some(ended_at) = ended_at {
            let millis = ended_at.as_millisecond() - started_at.as_millisecond();
            duration.add(Lapse::Millis(u64::try_from(millis).unwrap_or(0)));
        }
    }
    let RolloutFigures { started, open, undone, undo_failed, .. } = figures;
    figures.undo_percent = percentage(undone + undo_failed, started - open);
    figures.duration = duration.summarize();
    figures
}

/// Computes DORA's figures of the changes of a window.
pub(super) fn dora(
    changes: &[OutcomeCount],
    failures: &[ChangeFailure],
    lead_time: LapseSummary,
    window: SignedDuration,
) -> DoraFigures {
    let count = |is_counted: fn(&&OutcomeCount) -> bool| {
        changes.iter().filter(is_counted).map(|one| one.count).sum::<u64>()
    };
    let successes = count(|one| one.state == State::Succeeded);
    let ended = count(|one| one.is_pushed && one.state.is_final());
    let mut restored = LapseSample::default();
    let mut unrestored = 0;
    for failure in failures {
        match failure.restored_at {
            Some(at) => {
                let millis = at.as_millisecond().saturating_sub(failure.ended_at.as_millisecond());
                // Another replica's clock may be behind.
                restored.add(Lapse::Millis(u64::try_from(millis).unwrap_or(0)));
            }
            None => unrestored += 1,
        }
    }
    let failed = failures.len() as u64;
    DoraFigures {
        successes,
        successes_per_day: count_per_day(successes, window.as_secs()),
        lead_time,
        changes: ended,
        failed_changes: failed,
        change_failure_percent: percentage(failed, ended),
        time_to_restore: restored.summarize(),
        unrestored,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn outcome(state: State, is_pushed: bool, count: u64) -> OutcomeCount {
        OutcomeCount { state, is_pushed, count }
    }

    #[test]
    fn only_changes_that_were_pushed_and_have_ended_can_have_failed() {
        let changes = [
            outcome(State::Succeeded, true, 6),
            outcome(State::Failed, true, 1),
            outcome(State::Superseded, true, 1),
            outcome(State::Syncing, true, 5),
            // Rejected by a rule: nothing of it was ever live.
            outcome(State::Failed, false, 9),
        ];
        let failures = [
            ChangeFailure { ended_at: at(10), restored_at: Some(at(70)) },
            ChangeFailure { ended_at: at(99), restored_at: None },
        ];
        let day = SignedDuration::from_hours(24);
        let dora = dora(&changes, &failures, LapseSummary::default(), day);
        assert_eq!((dora.successes, dora.changes, dora.failed_changes), (6, 8, 2));
        assert!((dora.successes_per_day - 6.0).abs() < 1e-9);
        assert_eq!(dora.change_failure_percent, Some(25.0));
        assert_eq!((dora.time_to_restore.p50_millis, dora.unrestored), (Some(60_000), 1));
    }

    #[test]
    fn a_window_without_deployments_has_no_rates() {
        let dora = dora(&[], &[], LapseSummary::default(), SignedDuration::from_hours(6));
        assert_eq!(dora, DoraFigures::default());
    }
}
