//! Limits how often each caller may send requests. Pure; times are arguments.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::support::rate_limit::{Rate, RateLimiter};

/// The number of buckets that are not full. Beyond that, new callers share one.
const MAX: usize = 10_000;
/// The name of the shared bucket; no caller has this name.
const OTHERS: &str = "";

/// One token bucket for each caller: a number of requests in a minute, and as many at once.
#[derive(Debug)]
pub(super) struct CallerLimits {
    rate: Rate,
    /// The buckets that are not full.
    limiters: BTreeMap<String, RateLimiter>,
}

impl CallerLimits {
    pub(super) fn new(per_minute: u32) -> Self {
        Self { rate: Rate::per_minute(per_minute, per_minute), limiters: BTreeMap::new() }
    }

    /// Takes one token of the caller's bucket; otherwise returns the time until there is one.
    pub(super) fn try_acquire(&mut self, caller: &str, now: Timestamp) -> Result<(), Duration> {
        match self.wait(caller, now) {
            Duration::ZERO => {
                let new = RateLimiter::new(self.rate);
                let key = self.bucket(caller, now);
                self.limiters.entry(key).or_insert(new).spend(1, now);
                Ok(())
            }
            wait => Err(wait),
        }
    }

    /// Gives one token back to the caller's bucket.
    pub(super) fn release(&mut self, caller: &str) {
        let caller = if self.limiters.contains_key(caller) { caller } else { OTHERS };
        if let Some(limiter) = self.limiters.get_mut(caller) {
            limiter.release(1);
        }
    }

    fn wait(&self, caller: &str, now: Timestamp) -> Duration {
        let shared = || self.limiters.get(OTHERS).filter(|_| self.limiters.len() >= MAX);
        let limiter = self.limiters.get(caller).or_else(shared);
        limiter.map_or(Duration::ZERO, |limiter| limiter.wait(now))
    }

    fn bucket(&mut self, caller: &str, now: Timestamp) -> String {
        if self.limiters.len() >= MAX && !self.limiters.contains_key(caller) {
            self.limiters.retain(|_, limiter| !limiter.is_full(now));
            if self.limiters.len() >= MAX {
                return OTHERS.to_owned();
            }
        }
        caller.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_700_000_000_000 + millis).unwrap()
    }

    #[test]
    fn a_minutes_worth_at_once_and_then_one_by_one() {
        let mut limits = CallerLimits::new(4);
        for _ in 0..4 {
            assert_eq!(limits.try_acquire("a", at(0)), Ok(()));
        }
        assert_eq!(limits.try_acquire("a", at(0)), Err(Duration::from_secs(15)));
        assert_eq!(limits.try_acquire("a", at(14_000)), Err(Duration::from_secs(1)));
        assert_eq!(limits.try_acquire("a", at(15_000)), Ok(()));
        assert_eq!(limits.try_acquire("a", at(15_000)), Err(Duration::from_secs(15)));
        assert_eq!(limits.try_acquire("b", at(15_000)), Ok(()), "others have their own");
        for _ in 0..4 {
            assert_eq!(limits.try_acquire("a", at(200_000)), Ok(()));
        }
        assert!(
            limits.try_acquire("a", at(200_000)).is_err(),
            "no more than a minute's worth is saved up"
        );
    }

    #[test]
    fn any_number_a_minute_is_kept_whatever_it_is() {
        for per_minute in [1, 7, 30, 1200, 1_000_000] {
            let mut limits = CallerLimits::new(per_minute);
            let count = (0..per_minute).filter(|_| limits.try_acquire("a", at(0)).is_ok()).count();
            assert_eq!(count, per_minute as usize);
            assert!(limits.try_acquire("a", at(0)).is_err(), "{per_minute}");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_locks_nobody_out_for_longer_than_a_minute() {
        let mut limits = CallerLimits::new(1);
        assert_eq!(limits.try_acquire("a", at(3_600_000)), Ok(()));
        assert!(limits.try_acquire("a", at(0)).unwrap_err() <= Duration::from_mins(1));
    }

    #[test]
    fn what_is_given_back_can_be_taken_again_and_no_more() {
        let mut limits = CallerLimits::new(2);
        assert!(limits.try_acquire("a", at(0)).is_ok() && limits.try_acquire("a", at(0)).is_ok());
        limits.release("a");
        assert_eq!(limits.try_acquire("a", at(0)), Ok(()));
        assert!(limits.try_acquire("a", at(0)).is_err());
        limits.release("nobody");
        for _ in 0..5 {
            limits.release("a");
        }
        let count = (0..5).filter(|_| limits.try_acquire("a", at(0)).is_ok()).count();
        assert_eq!(count, 2, "no more than a minute's worth");
    }

    #[test]
    fn however_many_come_no_more_than_so_many_are_kept() {
        let mut limits = CallerLimits::new(1);
        for n in 0..MAX {
            limits.try_acquire(&n.to_string(), at(0)).unwrap();
        }
        assert_eq!(limits.try_acquire("one more", at(0)), Ok(()));
        assert!(limits.try_acquire("another", at(0)).is_err(), "they share a bucket");
        assert!(limits.limiters.len() <= MAX + 1);
        let later = at(0) + SignedDuration::from_mins(2);
        assert_eq!(limits.try_acquire("another", later), Ok(()));
        assert_eq!(limits.limiters.len(), 1, "full ones are let go");
    }
}
