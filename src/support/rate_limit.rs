//! A token bucket: a limit on how often something happens. Pure; the time is an argument.
//!
//! A bucket is stored as the time at which it is full again (the generic cell rate algorithm), so that one number is
//! all its state. The caller decides what happens without a token: to wait, to refuse, or to defer.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::support::time::saturating_add;

/// The size of a bucket, and the speed at which it fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The number of tokens after a rest; at least 1.
    pub burst: u32,
    /// The time for one token; zero means no limit.
    pub every: Duration,
}

impl Rate {
    /// No limit.
    pub const FREE: Self = Self { burst: u32::MAX, every: Duration::ZERO };

    /// Makes a rate with so many tokens at once, and so many a minute in the long run; each at least 1.
    pub fn per_minute(burst: u32, per_minute: u32) -> Self {
        Self { burst: burst.max(1), every: Duration::from_mins(1) / per_minute.max(1) }
    }

    /// Returns the time in which the bucket makes so many tokens.
    pub fn time_for(&self, tokens: u32) -> SignedDuration {
        let time = self.every.saturating_mul(tokens);
        SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX)
    }
}

/// The token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimiter {
    rate: Rate,
    /// The time by which the bucket may be overdrawn, beyond empty.
    debt: SignedDuration,
    full_at: Timestamp,
}

impl RateLimiter {
    /// Makes a full bucket that cannot be overdrawn.
    pub fn new(rate: Rate) -> Self {
        Self::with_debt(rate, SignedDuration::ZERO)
    }

    /// Makes a full bucket that may be overdrawn by the tokens that it makes in that time.
    pub fn with_debt(rate: Rate, debt: SignedDuration) -> Self {
        let rate = Rate { burst: rate.burst.max(1), ..rate };
        Self { rate, debt, full_at: Timestamp::MIN }
    }

    /// Returns the number of tokens.
    pub fn available(&self, now: Timestamp) -> u32 {
        let missing = self.full_at(now).duration_since(now).as_nanos().max(0);
        let Ok(every @ 1..) = i128::try_from(self.rate.every.as_nanos()) else {
            return self.rate.burst;
        };
        let missing = missing.div_euclid(every) + i128::from(missing.rem_euclid(every) > 0);
        self.rate.burst.saturating_sub(u32::try_from(missing).unwrap_or(u32::MAX))
    }

    /// Returns the time until there is a token; zero if there is one.
    pub fn wait(&self, now: Timestamp) -> Duration {
        let burst_time = self.rate.time_for(self.rate.burst - 1);
        let wait = self.full_at(now).duration_since(now).saturating_sub(burst_time);
        Duration::try_from(wait).unwrap_or(Duration::ZERO)
    }

    /// Takes one token.
    ///
    /// # Errors
    /// The time until there is one.
    pub fn try_acquire(&mut self, now: Timestamp) -> Result<(), Duration> {
        match self.wait(now) {
            Duration::ZERO => {
                self.spend(1, now);
                Ok(())
            }
            wait => Err(wait),
        }
    }

    /// Takes so many tokens, whether the bucket has them or not.
    pub fn spend(&mut self, tokens: u32, now: Timestamp) {
        self.full_at = saturating_add(self.full_at(now).max(now), self.rate.time_for(tokens));
    }

    /// Gives back so many tokens.
    pub fn release(&mut self, tokens: u32) {
        let before = self.full_at.checked_sub(self.rate.time_for(tokens));
        self.full_at = before.unwrap_or(Timestamp::MIN);
    }

    /// Blocks the bucket until that time; then it has one token.
    pub fn block_until(&mut self, until: Timestamp) {
        let burst_time = self.rate.time_for(self.rate.burst - 1);
        self.full_at = self.full_at.max(saturating_add(until, burst_time));
    }

    /// Returns whether the bucket is full.
    pub fn is_full(&self, now: Timestamp) -> bool {
        self.full_at <= now
    }

    /// Fills a bucket that was emptied before the clock was set back. Otherwise it would count as empty.
    pub fn refill_if_set_back(&mut self, now: Timestamp) {
        if self.is_set_back(now) {
            self.full_at = Timestamp::MIN;
        }
    }

    /// Returns whether more is spent than possible: the clock was set back.
    fn is_set_back(&self, now: Timestamp) -> bool {
        let empty = saturating_add(now, self.rate.time_for(self.rate.burst));
        self.full_at > saturating_add(empty, self.debt)
    }

    fn full_at(&self, now: Timestamp) -> Timestamp {
        if self.is_set_back(now) {
            return saturating_add(now, self.rate.time_for(self.rate.burst));
        }
        self.full_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn limiter() -> RateLimiter {
        RateLimiter::new(Rate { burst: 3, every: SECOND })
    }

    #[test]
    fn after_a_rest_a_burst_may_go_and_then_one_a_second() {
        let mut limiter = limiter();
        assert_eq!(limiter.available(at(0)), 3);
        limiter.spend(3, at(0));
        assert_eq!((limiter.available(at(0)), limiter.wait(at(0))), (0, SECOND));
        assert_eq!((limiter.available(at(999)), limiter.available(at(1000))), (0, 1));
        limiter.spend(1, at(1000));
        assert_eq!(limiter.available(at(1999)), 0);
        assert_eq!(limiter.wait(at(1999)), Duration::from_millis(1));
        assert_eq!((limiter.available(at(4000)), limiter.available(at(99_000))), (3, 3));
    }

    #[test]
    fn one_is_acquired_or_told_how_long_to_wait() {
        let mut limiter = limiter();
        for _ in 0..3 {
            assert_eq!(limiter.try_acquire(at(0)), Ok(()));
        }
        assert_eq!(limiter.try_acquire(at(400)), Err(Duration::from_millis(600)));
        assert_eq!(limiter.try_acquire(at(1000)), Ok(()));
    }

    #[test]
    fn what_did_not_go_is_not_counted() {
        let mut limiter = limiter();
        limiter.spend(3, at(0));
        limiter.release(2);
        assert_eq!(limiter.available(at(0)), 2);
        limiter.release(1);
        assert_eq!(limiter.available(at(0)), 3);
        assert_eq!(limiter.wait(at(0)), Duration::ZERO, "and never more than a burst");
    }

    #[test]
    fn after_a_block_one_goes_and_no_burst() {
        let mut limiter =
            RateLimiter::with_debt(Rate { burst: 3, every: SECOND }, SignedDuration::from_mins(1));
        limiter.block_until(at(60_000));
        assert_eq!(limiter.wait(at(0)), Duration::from_mins(1));
        limiter.block_until(at(5000));
        assert_eq!(limiter.wait(at(0)), Duration::from_mins(1), "a shorter one changes nothing");
        assert_eq!(limiter.available(at(60_000)), 1);
    }

    #[test]
    fn after_the_clock_is_set_back_a_bucket_is_empty_or_full_and_no_worse() {
        let mut limiter = limiter();
        limiter.spend(1, at(3_600_000));
        assert_eq!(limiter.wait(at(0)), SECOND);
        limiter.refill_if_set_back(at(3_600_000));
        assert_eq!(limiter.available(at(3_600_000)), 2, "it was not set back");
        limiter.refill_if_set_back(at(0));
        assert_eq!(limiter.available(at(0)), 3);
    }

    /// A second between writes, and with the burst no more than 80 in any minute: GitHub's two rules.
    #[test]
    fn a_burst_of_twenty_and_one_a_second_are_eighty_in_the_worst_minute() {
        let mut limiter = RateLimiter::new(Rate { burst: 20, every: SECOND });
        let calls: u32 = (0..60_000)
            .map(|millis| {
                let available = limiter.available(at(millis));
                limiter.spend(available, at(millis));
                available
            })
            .sum();
        assert!((70..=80).contains(&calls), "{calls}");
    }

    #[test]
    fn a_free_rate_is_free_for_ever() {
        let mut limiter = RateLimiter::new(Rate::FREE);
        limiter.spend(1_000_000, at(0));
        assert_eq!((limiter.available(at(0)), limiter.wait(at(0))), (u32::MAX, Duration::ZERO));
    }
}
