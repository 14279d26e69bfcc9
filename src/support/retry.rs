//! Retry policies: exponential backoff with a cap. Pure; the time is an argument.

use std::time::Duration;

use jiff::Timestamp;

use crate::support::time::saturating_add;

/// The way to continue after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// The error may pass: retry, with a growing delay.
    Retry {
        /// The shortest delay, if the other side asked for one.
        after: Option<Duration>,
    },
    /// A host may answer like this during an outage, too: retry for some minutes; then stop until a person changes
    /// something.
    Doubt,
    /// The error stays until a person changes something.
    Stop,
}

/// The longest delay that the other side may ask for: otherwise one wrong header could stop everything for years.
pub const LONGEST_RETRY_AFTER: Duration = Duration::from_hours(2);

/// The number of attempts and their delays: each twice as long as the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The delay after the first failure.
    pub first: Duration,
    /// The longest delay, unless the other side asks for a longer one.
    pub longest: Duration,
    /// The number of failures after which the retries end.
    pub failures: u32,
}

/// The default retries for an hour: long enough for an outage that people work on.
impl Default for RetryPolicy {
    fn default() -> Self {
        Self { first: Duration::from_secs(1), longest: Duration::from_mins(5), failures: 20 }
    }
}

impl RetryPolicy {
    /// Returns the time of the next attempt after this failure; `failures` happened before it. `None` if that was the
    /// last attempt.
    pub fn next_attempt(
        &self,
        failures: u32,
        retry_after: Option<Duration>,
        now: Timestamp,
    ) -> Option<Timestamp> {
        if failures.saturating_add(1) >= self.failures {
            return None;
        }
        let wish = retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER);
        Some(saturating_add(now, backoff(self.first, self.longest, failures).max(wish)))
    }
}

/// Returns the time until which the other side asks to wait: no longer than it may ask for, and not now, or the next
/// attempt would follow at once, in an endless loop.
pub fn deferral(wait: Duration, now: Timestamp) -> Timestamp {
    saturating_add(now, wait.clamp(Duration::from_millis(1), LONGEST_RETRY_AFTER))
}

/// A gate that holds back requests while the other side asks for a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetryGate(Option<Timestamp>);

impl RetryGate {
    /// Returns the end of the pause, if there is one.
    pub fn closed_until(&self, now: Timestamp) -> Option<Timestamp> {
        // A later end comes from a clock that was set back.
        let longest = saturating_add(now, LONGEST_RETRY_AFTER);
        self.0.filter(|until| *until > now && *until <= longest)
    }

    /// Returns the rest of the pause, if there is one.
    pub fn wait(&self, now: Timestamp) -> Option<Duration> {
        self.closed_until(now)?.duration_since(now).try_into().ok()
    }

    /// Begins a pause of that length, within limits, unless the current one is longer; returns whether the pause became
    /// longer.
    pub fn close(&mut self, wait: Duration, now: Timestamp) -> bool {
        let until = saturating_add(now, wait.min(LONGEST_RETRY_AFTER));
        let before = self.closed_until(now);
        self.0 = before.max(Some(until));
        until > now && before.is_none_or(|before| before < until)
    }
}

/// Returns the delay after so many failures and one more: doubled each time, up to the longest.
pub fn backoff(first: Duration, longest: Duration, failures: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(failures)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy = RetryPolicy {
        first: Duration::from_secs(1),
        longest: Duration::from_secs(10),
        failures: 6,
    };

    fn delay(failures: u32, retry_after: Option<u64>) -> Option<i64> {
        let retry_after = retry_after.map(Duration::from_secs);
        let at = POLICY.next_attempt(failures, retry_after, Timestamp::UNIX_EPOCH);
        at.map(Timestamp::as_second)
    }

    #[test]
    fn delays_double_up_to_the_longest_and_the_last_failure_is_the_last() {
        let delays = [0, 1, 2, 3, 4, 5, u32::MAX].map(|failures| delay(failures, None));
        assert_eq!(delays, [Some(1), Some(2), Some(4), Some(8), Some(10), None, None]);
        assert_eq!(backoff(POLICY.first, POLICY.longest, u32::MAX), POLICY.longest);
    }

    #[test]
    fn what_the_other_side_asks_for_is_heeded_within_bounds() {
        assert_eq!((delay(0, Some(100)), delay(3, Some(0))), (Some(100), Some(8)));
        assert_eq!(delay(0, Some(u64::MAX)), Some(2 * 60 * 60));
    }

    #[test]
    fn a_gate_is_closed_for_the_longest_wait_and_not_by_a_clock_that_was_set_back() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let seconds = Duration::from_secs;
        let mut gate = RetryGate::default();
        assert_eq!((gate.closed_until(at(0)), gate.wait(at(0))), (None, None));
        assert!(gate.close(seconds(60), at(0)) && !gate.close(seconds(5), at(0)));
        assert_eq!(
            (gate.closed_until(at(59)), gate.wait(at(59))),
            (Some(at(60)), Some(seconds(1)))
        );
        assert_eq!(gate.wait(at(60)), None);
        assert!(!gate.close(Duration::ZERO, at(60)), "that closes nothing");
        assert!(gate.close(Duration::MAX, at(60)));
        assert_eq!(gate.wait(at(60)), Some(LONGEST_RETRY_AFTER));
        assert_eq!(gate.wait(at(59)), None, "nobody closes it for longer");
        assert!(gate.close(seconds(1), at(0)), "it is closed by the new time");
    }
}
