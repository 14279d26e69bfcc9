//! The forecast of a canary: its steps, the least time to a promotion, and the time to a rollback; and how far one is.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The forecast of a canary's run, from its settings alone. Times count from the first step, when the pods of the
/// new release are ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CanaryForecast {
    /// `weights`, `ab-test` or `blue-green`.
    pub strategy: CanaryStrategy,
    /// Seconds between checks.
    pub interval_seconds: u64,
    /// The number of failed checks after which all traffic goes back.
    pub threshold: u32,
    /// True if requests are copied to the new release before it gets any.
    #[serde(default)]
    pub mirror: bool,
    /// The steps, in order.
    pub steps: Vec<CanaryStep>,
    /// Seconds to the promotion if every check is good: `t_min` = `interval` × `maxWeight` / `stepWeight`.
    pub minimum_seconds: u64,
    /// Seconds from the first of failing checks until all traffic is back: `t_rollback` = `interval` × `threshold`.
    pub rollback_seconds: u64,
}

/// How far a canary is in its cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CanaryStatus {
    /// The workload: `Deployment devx/shop`.
    pub workload: String,
    /// Flagger's phase: `Progressing`.
    pub phase: String,
    /// Percent of the traffic on the new release.
    pub weight: u32,
    /// The number of checks that have failed.
    pub failed_checks: u32,
    /// The number of failed checks at which Flagger rolls back; 0 where that is not known.
    pub threshold: u32,
    /// The reason of the last failed check; null where none has failed or Flagger does not say.
    pub reason: Option<String>,
}

impl CanaryStatus {
    /// Says in a short line how far it is: `canary at 20 % of the traffic; halted: request duration 2.485 s > 1 s, 2 of 3
    /// checks failed`.
    pub fn describe(&self) -> String {
        let Self { weight, failed_checks, threshold, reason, .. } = self;
        let mut text = format!("canary at {weight} % of the traffic");
        if *failed_checks > 0 {
            let reason = reason.as_ref().map_or_else(String::new, |reason| format!("{reason}, "));
            let of = if *threshold > 0 { format!(" of {threshold}") } else { String::new() };
            text += &format!("; halted: {reason}{failed_checks}{of} checks failed");
        }
        text
    }
}

/// How far a canary was from a time on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CanarySample {
    /// The time.
    pub at: Timestamp,
    /// The state from then on.
    #[serde(flatten)]
    pub status: CanaryStatus,
}

/// The way in which a new release gets traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", from = "String")]
pub enum CanaryStrategy {
    /// A growing share of all traffic.
    Weights,
    /// All requests that match.
    AbTest,
    /// No traffic before the promotion.
    BlueGreen,
}

/// A word of a newer service counts as the usual way.
impl From<String> for CanaryStrategy {
    fn from(word: String) -> Self {
        match word.as_str() {
            "ab-test" => Self::AbTest,
            "blue-green" => Self::BlueGreen,
            _ => Self::Weights,
        }
    }
}

/// One step of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CanaryStep {
    /// Seconds from the first step.
    pub after_seconds: u64,
    /// Percent of the traffic that the new release has from then on.
    pub weight: u32,
}

impl CanaryForecast {
    /// Returns the least time to the promotion.
    pub fn minimum(&self) -> SignedDuration {
        seconds(self.minimum_seconds)
    }

    /// Returns the time from the first of failing checks until all traffic is back.
    pub fn rollback(&self) -> SignedDuration {
        seconds(self.rollback_seconds)
    }

    /// Returns the time between checks.
    pub fn interval(&self) -> SignedDuration {
        seconds(self.interval_seconds)
    }
}

fn seconds(seconds: u64) -> SignedDuration {
    SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// The most weights that a sentence lists.
const MAX_LISTED: usize = 12;

/// `20, 40, 60 % of the traffic, a check each 1m; promoted after 3m at the earliest, all traffic back after 3m of failed checks`
impl fmt::Display for CanaryForecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mirror = if self.mirror { "copies of requests, then " } else { "" };
        match self.strategy {
            CanaryStrategy::Weights => {
                write!(f, "{mirror}{} % of the traffic", weights(&self.steps))?;
            }
            CanaryStrategy::AbTest => {
                write!(f, "{mirror}the requests that match, {} checks", self.steps.len())?;
            }
            CanaryStrategy::BlueGreen => {
                write!(f, "{mirror}no traffic before the switch, {} checks", self.checks())?;
            }
        }
        let (interval, minimum, rollback) = (self.interval(), self.minimum(), self.rollback());
        write!(
            f,
            ", a check each {interval:#}; promoted after {minimum:#} at the earliest (t_min), all traffic back \
             after {rollback:#} of failed checks (t_rollback)"
        )
    }
}

impl CanaryForecast {
    fn checks(&self) -> u64 {
        self.minimum_seconds.checked_div(self.interval_seconds).unwrap_or_default()
    }
}

fn weights(steps: &[CanaryStep]) -> String {
    let text = |step: &CanaryStep| step.weight.to_string();
    if steps.len() <= MAX_LISTED {
        return steps.iter().map(text).collect::<Vec<_>>().join(", ");
    }
    let (first, last) = steps.split_at(3);
    let first: Vec<String> = first.iter().map(text).collect();
    format!("{}, … {}", first.join(", "), last.last().map_or(0, |step| step.weight))
}
