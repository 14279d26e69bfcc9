//! The deployments of a window over time: how long each interval took, how they ended, which apps took how long, and
//! why those failed that did. For plots; [`insights`](crate::deployments::insights) has the figures.

use std::collections::{BTreeMap, HashMap};

use futures::future::try_join3;
use jiff::{SignedDuration, Timestamp};

use crate::cluster::failure::{CauseKind, FailureCause};
use crate::deployments::insights::{Insights, MAX_ROLLOUTS, MAX_SLICES, dora, rollout_figures};
use crate::deployments::{BackendError, Deployments};
use crate::model::deploy_clock::DeployInterval;
use crate::model::deployment::State;
use crate::model::insights::{LapseSample, LapseSummary};
use crate::store::{DeploymentKind, FailureReason, InsightScope, OutcomeCount, PackedDeployments};

/// The lengths of an interval over time.
pub type IntervalSeries = (DeployInterval, Vec<(Timestamp, LapseSummary)>);

/// A window, cut into equal parts.
#[derive(Debug, Clone, PartialEq)]
pub struct InsightSeries {
    /// The figures of the whole window.
    pub figures: Insights,
    /// The begin of the window.
    pub since: Timestamp,
    /// The end of the window.
    pub until: Timestamp,
    /// The length of a part for [`InsightSeries::intervals`].
    pub part: SignedDuration,
    /// The lengths of each interval in each part that has any, by the begin of the part.
    pub intervals: Vec<IntervalSeries>,
    /// The length of a part for [`InsightSeries::outcomes`].
    pub day: SignedDuration,
    /// The ends of the deployments of each part, also of those without any.
    pub outcomes: Vec<OutcomePart>,
    /// The time to finish of each app, the slowest first.
    pub apps: Vec<(String, LapseSummary)>,
    /// The number of failures of each rule or cause, the most frequent first.
    pub failures: Vec<(FailureGroup, u64)>,
}

/// The ends of the deployments of one part of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutcomePart {
    /// Its begin.
    pub at: Timestamp,
    /// Those that succeeded.
    pub succeeded: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that were superseded or cancelled.
    pub given_up: u64,
    /// Those that go on.
    pub open: u64,
}

/// Why a deployment failed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureGroup {
    /// It broke this rule, perhaps with others.
    Rule(String),
    /// Its pods did not run, for a cause of this kind.
    Cause(&'static str),
    /// Something else.
    Other,
}

impl InsightSeries {
    /// Returns the series of no deployment at all.
    pub fn empty(since: Timestamp, until: Timestamp) -> Self {
        let window = until.duration_since(since);
        Self {
            figures: Insights::empty(since),
            since,
            until,
            part: part_length(window),
            intervals: DeployInterval::ALL.map(|interval| (interval, Vec::new())).to_vec(),
            day: day_length(window),
            outcomes: Vec::new(),
            apps: Vec::new(),
            failures: Vec::new(),
        }
    }
}

/// The most apps and kinds of failures that are listed.
const MAX_LISTED: usize = 20;
/// The most failures that are looked at.
const MAX_FAILURES: u32 = 2_000;

/// The samples of a window so far.
struct SeriesSamples {
    since: Timestamp,
    part: SignedDuration,
    day: SignedDuration,
    intervals: BTreeMap<(DeployInterval, i64), LapseSample>,
    outcomes: Vec<OutcomePart>,
    apps: HashMap<String, LapseSample>,
    /// The intervals of the whole window.
    whole: BTreeMap<DeployInterval, LapseSample>,
    /// The lead times of changes.
    lead_time: LapseSample,
    /// The number of deployments by state, and whether they were pushed; of changes, and of all others.
    counts: BTreeMap<(bool, State, bool), u64>,
}

impl SeriesSamples {
    fn new(scope: &InsightScope) -> Self {
        let window = scope.until.duration_since(scope.since);
        let (part, day) = (part_length(window), day_length(window));
        let count = window.as_secs().div_euclid(day.as_secs()) + 1;
        let part_at = |n: i64| OutcomePart {
            at: begin_of(scope.since, day, n),
            succeeded: 0,
            failed: 0,
            given_up: 0,
            open: 0,
        };
        Self {
            since: scope.since,
            part,
            day,
            intervals: BTreeMap::new(),
            outcomes: (0..count).map(part_at).collect(),
            apps: HashMap::new(),
            whole: BTreeMap::new(),
            lead_time: LapseSample::default(),
            counts: BTreeMap::new(),
        }
    }

    fn add(&mut self, kind: DeploymentKind, packed: &PackedDeployments) {
        let is_change = kind == DeploymentKind::Change;
        for deployment in packed.iter() {
            let outcome = (is_change, deployment.state, deployment.is_pushed);
            *self.counts.entry(outcome).or_default() += 1;
            let part = number_of(self.since, self.part, deployment.received_at);
            for (interval, lapse) in deployment.lapses.iter() {
                self.intervals.entry((interval, part)).or_default().add(lapse);
                self.whole.entry(interval).or_default().add(lapse);
            }
            let lead_time = deployment.lapses.lead_time;
            self.lead_time.extend(lead_time.filter(|_| is_change));
            if let Some(lapse) = lead_time.filter(|_| !deployment.app.is_empty()) {
                match self.apps.get_mut(deployment.app) {
                    Some(sample) => sample.add(lapse),
                    None => self.apps.entry(deployment.app.to_owned()).or_default().add(lapse),
                }
            }
            let day = number_of(self.since, self.day, deployment.received_at);
            let day = usize::try_from(day).ok().and_then(|day| self.outcomes.get_mut(day));
            let Some(day) = day else { continue };
            match deployment.state {
                State::Succeeded => day.succeeded += 1,
                State::Failed => day.failed += 1,
                State::Superseded | State::Cancelled => day.given_up += 1,
                State::Queued
                | State::Running
                | State::Pushing
                | State::Syncing
                | State::Progressing => day.open += 1,
            }
        }
    }

    /// Returns the counts of the outcomes of changes, or of all others.
    fn outcome_counts(&self, of_changes: bool) -> Vec<OutcomeCount> {
        let counts = self.counts.iter().filter(|((is_change, ..), _)| *is_change == of_changes);
        let count = |(&(_, state, is_pushed), &count)| OutcomeCount { state, is_pushed, count };
        counts.map(count).collect()
    }
}

/// Returns the lengths of each interval over time.
fn summarize_parts(
    since: Timestamp,
    part: SignedDuration,
    intervals: BTreeMap<(DeployInterval, i64), LapseSample>,
) -> Vec<IntervalSeries> {
    let mut series: BTreeMap<DeployInterval, Vec<(Timestamp, LapseSummary)>> = BTreeMap::new();
    for ((interval, n), sample) in intervals {
        let point = (begin_of(since, part, n), sample.summarize());
        series.entry(interval).or_default().push(point);
    }
    let take = |interval| (interval, series.remove(&interval).unwrap_or_default());
    DeployInterval::ALL.map(take).to_vec()
}

/// Returns the slowest apps.
fn summarize_apps(apps: HashMap<String, LapseSample>) -> Vec<(String, LapseSummary)> {
    let apps = apps.into_iter().map(|(app, sample)| (app, sample.summarize()));
    let mut apps: Vec<(String, LapseSummary)> = apps.collect();
    apps.sort_by(|(a, one), (b, other)| {
        other.p90_millis.cmp(&one.p90_millis).then_with(|| a.cmp(b))
    });
    apps.truncate(MAX_LISTED);
    apps
}

impl Deployments {
    /// Returns the series of a window.
    pub(crate) async fn insight_series(
        &self,
        scope: InsightScope,
    ) -> Result<InsightSeries, BackendError> {
        let mut samples = SeriesSamples::new(&scope);
        let kinds = [DeploymentKind::Change, DeploymentKind::Rollback, DeploymentKind::Unfinished];
        let mut begin = scope.since;
        for kind in kinds {
            let (all, since) = self.sample_series(kind, &scope, samples).await?;
            samples = all;
            begin = begin.max(since);
        }
        let store = &self.store;
        let (reasons, failures, rollouts) = try_join3(
            store.failure_reasons(&scope, MAX_FAILURES),
            store.failed_changes(&scope, MAX_FAILURES),
            store.rollout_outcomes(&scope, MAX_ROLLOUTS),
        )
        .await
        .map_err(BackendError::new)?;
        let (changes, others) = (samples.outcome_counts(true), samples.outcome_counts(false));
        let window = scope.until.duration_since(begin);
        let mut outcomes = BTreeMap::new();
        for one in changes.iter().chain(&others) {
            *outcomes.entry(one.state).or_default() += one.count;
        }
        let mut whole = samples.whole;
        let mut take = |interval| whole.remove(&interval).unwrap_or_default().summarize();
        let figures = Insights {
            since: begin,
            is_complete: begin == scope.since,
            outcomes,
            intervals: DeployInterval::ALL.map(|interval| (interval, take(interval))).to_vec(),
            dora: dora(&changes, &failures, samples.lead_time.summarize(), window),
            rollouts: rollout_figures(&rollouts),
        };
        Ok(InsightSeries {
            figures,
            since: scope.since,
            until: scope.until,
            part: samples.part,
            intervals: summarize_parts(samples.since, samples.part, samples.intervals),
            day: samples.day,
            outcomes: samples.outcomes,
            apps: summarize_apps(samples.apps),
            failures: group_failures(&reasons),
        })
    }

    /// Adds the deployments of a kind, the newest first, in slices; returns the time from which they are counted.
    async fn sample_series(
        &self,
        kind: DeploymentKind,
        scope: &InsightScope,
        mut samples: SeriesSamples,
    ) -> Result<(SeriesSamples, Timestamp), BackendError> {
        let mut slice = scope.clone();
        for _ in 0..MAX_SLICES {
            let start = self.begin_slice(kind, scope, &mut slice).await?;
            let packed = self.store.packed_deployments(kind, &slice).await;
            let packed = packed.map_err(BackendError::new)?;
            // On a thread for computations: ten thousands of them take some milliseconds.
            let reading = tokio::task::spawn_blocking(move || {
                samples.add(kind, &packed);
                samples
            });
            samples = reading.await.map_err(BackendError::new)?;
            let Some(start) = start else { return Ok((samples, scope.since)) };
            slice.until = start;
        }
        Ok((samples, slice.until))
    }
}

/// Returns the length of a part of a window for percentiles: some forty parts, each with some deployments.
fn part_length(window: SignedDuration) -> SignedDuration {
    const MINUTES: [i64; 8] = [10, 30, 60, 120, 240, 720, 1_440, 2_880];
    let minutes = MINUTES.into_iter().find(|minutes| window.as_mins() <= minutes * 48);
    SignedDuration::from_mins(minutes.unwrap_or(2_880))
}

/// Returns the length of a part for the ends of deployments: a day, and an hour where the window is no longer than two.
fn day_length(window: SignedDuration) -> SignedDuration {
    let hours = if window.as_hours() <= 48 { 1 } else { 24 };
    SignedDuration::from_hours(hours)
}

fn number_of(since: Timestamp, length: SignedDuration, at: Timestamp) -> i64 {
    let millis = at.as_millisecond() - since.as_millisecond();
    millis.div_euclid(i64::try_from(length.as_millis()).unwrap_or(i64::MAX).max(1))
}

fn begin_of(since: Timestamp, length: SignedDuration, n: i64) -> Timestamp {
    let seconds = length.as_secs().saturating_mul(n);
    since.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(since)
}

fn group_failures(reasons: &[FailureReason]) -> Vec<(FailureGroup, u64)> {
    let mut groups: BTreeMap<FailureGroup, u64> = BTreeMap::new();
    for FailureReason { rule, summary } in reasons {
        let cause = || FailureCause::kind_of_sentence(summary).map(CauseKind::as_str);
        let group = match rule {
            Some(rule) => FailureGroup::Rule(rule.clone()),
            None => cause().map_or(FailureGroup::Other, FailureGroup::Cause),
        };
        *groups.entry(group).or_default() += 1;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    groups.truncate(MAX_LISTED);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_some_forty_parts() {
        for (hours, minutes) in [(6, 10), (24, 30), (168, 240), (720, 1_440), (2_160, 2_880)] {
            let window = SignedDuration::from_hours(hours);
            assert_eq!(part_length(window), SignedDuration::from_mins(minutes), "{hours}");
        }
        assert_eq!(day_length(SignedDuration::from_hours(24)).as_hours(), 1);
        assert_eq!(day_length(SignedDuration::from_hours(168)).as_hours(), 24);
    }

    #[test]
    fn failures_are_grouped_by_rule_or_cause_the_most_frequent_first() {
        let reason = |rule: Option<&str>, summary: &str| FailureReason {
            rule: rule.map(str::to_owned),
            summary: summary.to_owned(),
        };
        let groups = group_failures(&[
            reason(Some("ports"), "1 violation"),
            reason(None, "shop-1 cannot pull the image shop:1: not found"),
            reason(None, "shop-2: the container shop ended with exit code 1"),
            reason(None, "shop-3 cannot pull the image shop:2"),
            reason(None, "the forge does not answer"),
        ]);
        let expected = [
            (FailureGroup::Cause("image-pull"), 2),
            (FailureGroup::Rule("ports".to_owned()), 1),
            (FailureGroup::Cause("crash-loop"), 1),
            (FailureGroup::Other, 1),
        ];
        assert_eq!(groups, expected);
    }
}
