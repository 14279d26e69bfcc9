//! Averages and percentiles of times between marks, and DORA's four figures. Pure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::deploy_clock::Lapse;

/// Lengths of the same interval of many deployments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LapseSample {
    millis: Vec<u64>,
    skewed: u64,
}

/// A summary of lengths of time, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LapseSummary {
    /// The number of lengths.
    pub count: u64,
    /// Their average; null where there are none, as the percentiles are.
    pub average_millis: Option<u64>,
    /// The median.
    pub p50_millis: Option<u64>,
    /// The length that 90 of 100 do not exceed.
    pub p90_millis: Option<u64>,
    /// The length that 99 of 100 do not exceed.
    pub p99_millis: Option<u64>,
    /// The number of lengths that are left out because the clocks contradict each other.
    pub skewed: u64,
}

/// DORA's four figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DoraFigures {
    /// The number of changes that succeeded. A change is a deployment that is no rollback.
    pub successes: u64,
    /// Deployment frequency: the changes that succeeded, per day of the window.
    pub successes_per_day: f64,
    /// Lead time for changes: from the request to the finish of each change that succeeded.
    pub lead_time: LapseSummary,
    /// The number of changes that were pushed and have ended.
    pub changes: u64,
    /// The number of them that failed in their cluster or were rolled back.
    pub failed_changes: u64,
    /// Change failure rate: failed changes of 100; null where there were no changes.
    pub change_failure_percent: Option<f64>,
    /// Time to restore: from the end of each failed change to the next success of the same app on the same target.
    pub time_to_restore: LapseSummary,
    /// The number of failed changes after which nothing has succeeded yet.
    pub unrestored: u64,
}

/// The figures of the rollouts of a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RolloutFigures {
    /// The number of rollouts that were started.
    pub started: u64,
    /// The number of them that have not ended.
    pub open: u64,
    /// The number of them that are done.
    pub done: u64,
    /// The number of them that were undone.
    pub undone: u64,
    /// The number of them whose undo failed.
    pub undo_failed: u64,
    /// The number of them that a person cancelled.
    pub cancelled: u64,
    /// Those that were undone, or whose undo failed, of 100 that have ended; null where none has.
    pub undo_percent: Option<f64>,
    /// The time from the start to the end of those that have ended.
    pub duration: LapseSummary,
}

impl Extend<Lapse> for LapseSample {
    fn extend<T: IntoIterator<Item = Lapse>>(&mut self, lapses: T) {
        lapses.into_iter().for_each(|lapse| self.add(lapse));
    }
}

impl LapseSample {
    /// Adds one length.
    pub fn add(&mut self, lapse: Lapse) {
        match lapse {
            Lapse::Millis(millis) => self.millis.push(millis),
            Lapse::Skew(_) => self.skewed += 1,
        }
    }

    /// Summarizes the lengths. Percentiles are lengths of the sample: the nearest rank.
    pub fn summarize(mut self) -> LapseSummary {
        self.millis.sort_unstable();
        let count = self.millis.len();
        let rank = |percent: usize| {
            let rank = count.saturating_mul(percent).div_ceil(100).saturating_sub(1);
            self.millis.get(rank).copied()
        };
        let sum: u128 = self.millis.iter().map(|millis| u128::from(*millis)).sum();
        let average = sum.checked_div(count as u128);
        LapseSummary {
            count: count as u64,
            average_millis: average.map(|average| u64::try_from(average).unwrap_or(u64::MAX)),
            p50_millis: rank(50),
            p90_millis: rank(90),
            p99_millis: rank(99),
            skewed: self.skewed,
        }
    }
}

/// Returns so many of 100, with one decimal; `None` of nothing.
pub fn percentage(part: u64, whole: u64) -> Option<f64> {
    let thousandths = u128::from(part).saturating_mul(1000).checked_div(u128::from(whole))?;
    Some(u32::try_from(thousandths).map_or(f64::MAX, |number| f64::from(number) / 10.0))
}

/// Returns the number for each day of a window, with two decimals.
pub fn count_per_day(count: u64, window_seconds: i64) -> f64 {
    const DAY: u128 = 24 * 3600;
    let seconds = u128::from(window_seconds.unsigned_abs().max(1));
    let hundredths = u128::from(count).saturating_mul(100 * DAY) / seconds;
    u32::try_from(hundredths).map_or(f64::MAX, |number| f64::from(number) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(millis: impl IntoIterator<Item = u64>) -> LapseSummary {
        let mut sample = LapseSample::default();
        for millis in millis {
            sample.add(Lapse::Millis(millis));
        }
        sample.summarize()
    }

    #[test]
    fn percentiles_are_lengths_of_the_sample_in_any_order() {
        let hundred = summary((1..=100).rev().map(|n| n * 10));
        let expected = LapseSummary {
            count: 100,
            average_millis: Some(505),
            p50_millis: Some(500),
            p90_millis: Some(900),
            p99_millis: Some(990),
            skewed: 0,
        };
        assert_eq!(hundred, expected);
        let one = summary([7]);
        assert_eq!(
            (one.p50_millis, one.p99_millis, one.average_millis),
            (Some(7), Some(7), Some(7))
        );
        assert_eq!(summary([]), LapseSummary::default());
        assert_eq!(summary([u64::MAX, u64::MAX]).average_millis, Some(u64::MAX), "no overflow");
    }

    #[test]
    fn what_is_skewed_is_counted_and_in_no_average() {
        let mut sample = LapseSample::default();
        for lapse in [Lapse::Millis(10), Lapse::Skew(86_400_000), Lapse::Millis(20)] {
            sample.add(lapse);
        }
        let summary = sample.summarize();
        assert_eq!((summary.count, summary.average_millis, summary.skewed), (2, Some(15), 1));
    }

    #[test]
    fn shares_and_frequencies_have_few_decimals_and_no_division_by_nothing() {
        assert_eq!(percentage(1, 3), Some(33.3));
        assert_eq!(percentage(3, 3), Some(100.0));
        assert_eq!(percentage(0, 0), None);
        assert_eq!(percentage(u64::MAX, 1), Some(f64::MAX));
        assert!((count_per_day(7, 6 * 3600) - 28.0).abs() < 1e-9);
        assert!((count_per_day(1, 90 * 24 * 3600) - 0.01).abs() < 1e-9);
        assert!((count_per_day(0, 0)).abs() < 1e-9);
    }
}
