//! The circuit breaker of a family of sinks, with its rate limit: open while the receiver asks to
//! wait or does not answer, half-open until it has answered again. Pure; the caller passes the
//! time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::support::rate_limit::{Rate, RateLimiter};
use crate::support::retry::{RetryGate, backoff};
use crate::support::time::saturating_add;

/// The result of one call, as it concerns the receiver's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Observation {
    /// It answered, yes or no.
    Answer,
    /// It asked to wait for this long.
    Wait(Duration),
    /// It did not answer, or with a server error.
    Silence,
}

/// The first pause after a silence, which may be one lost packet.
const FIRST_SILENCE: Duration = Duration::from_secs(1);
/// The longest pause: an outage that has ended is noticed within this time.
const LONGEST_SILENCE: Duration = Duration::from_mins(1);

/// The delay until a call that leaves permits to others is tried again.
const SPARE_DELAY: SignedDuration = SignedDuration::from_secs(1);

/// The calls that may be made, and the time for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CircuitBreaker {
    limiter: RateLimiter,
    gate: RetryGate,
    /// The number of silences since the last answer.
    consecutive_failures: u32,
    /// True if the receiver has not answered since the breaker opened. Until then one call goes at
    /// a time: what happens to the first would happen to all.
    half_open: bool,
}

impl CircuitBreaker {
    /// Creates a breaker that has seen no call yet.
    pub(super) fn new(rate: Rate) -> Self {
        // A whole burst may be spent in advance: some messages take more calls than the one that was counted.
        let limiter = RateLimiter::with_debt(rate, rate.time_for(rate.burst.max(1)));
        Self { limiter, gate: RetryGate::default(), consecutive_failures: 0, half_open: true }
    }

    /// Acquires permits for at most `limit` calls; returns how many.
    pub(super) fn try_acquire(&mut self, limit: u32, now: Timestamp) -> u32 {
        if self.open_until(now).is_some() {
            return 0;
        }
        let limit = if self.half_open { limit.min(1) } else { limit };
        let permits = self.limiter.available(now).min(limit);
        self.limiter.spend(permits, now);
        permits
    }

    /// Acquires one permit for a call that leaves so many to more important ones; returns whether there was one.
    pub(super) fn try_acquire_spare(&mut self, reserve: u32, now: Timestamp) -> bool {
        let is_spare = self.limiter.available(now) > reserve;
        is_spare && self.try_acquire(1, now) > 0
    }

    /// Returns the time from which there may be such a permit: now, or later.
    pub(super) fn next_spare_call(&self, reserve: u32, now: Timestamp) -> Timestamp {
        let is_spare = self.limiter.available(now) > reserve;
        let soon = if is_spare { now } else { saturating_add(now, SPARE_DELAY) };
        self.open_until(now).map_or(soon, |until| until.max(soon))
    }

    /// Gives back the permits of `n` calls that were not made.
    pub(super) fn release(&mut self, n: u32) {
        self.limiter.release(n);
    }

    /// Spends permits for the further calls of a message; other messages wait the longer.
    pub(super) fn spend(&mut self, n: u32, now: Timestamp) {
        self.limiter.spend(n, now);
    }

    /// Returns the time until which the breaker is open, if it is.
    pub(super) fn open_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.gate.closed_until(now)
    }

    /// Returns the time at which a call may be made: now, or later.
    pub(super) fn next_call(&self, now: Timestamp) -> Timestamp {
        saturating_add(now, self.limiter.wait(now)).max(self.open_until(now).unwrap_or(now))
    }

    /// Records the result of one call; returns true if the breaker opened by it, or for longer.
    pub(super) fn observe(&mut self, observation: Observation, now: Timestamp) -> bool {
        match observation {
            // Of several calls at the same time only the first silence counts.
            Observation::Answer | Observation::Silence if self.open_until(now).is_some() => false,
            Observation::Answer => {
                (self.gate, self.consecutive_failures, self.half_open) =
                    (RetryGate::default(), 0, false);
                false
            }
            Observation::Silence => {
                let wait = backoff(FIRST_SILENCE, LONGEST_SILENCE, self.consecutive_failures);
                self.consecutive_failures = self.consecutive_failures.saturating_add(1);
                self.open(wait, now)
            }
            Observation::Wait(wait) => self.open(wait, now),
        }
    }

    fn open(&mut self, wait: Duration, now: Timestamp) -> bool {
        self.half_open = true;
        self.gate.close(wait, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn proven() -> CircuitBreaker {
        let mut breaker = CircuitBreaker::new(Rate { burst: 20, every: Duration::from_secs(1) });
        assert_eq!(breaker.try_acquire(8, at(0)), 1, "the first goes alone");
        assert!(!breaker.observe(Observation::Answer, at(0)));
        breaker
    }

    fn wait(seconds: u64) -> Observation {
        Observation::Wait(Duration::from_secs(seconds))
    }

    #[test]
    fn a_call_that_leaves_permits_to_others_waits_for_more_than_those() {
        let mut breaker = proven();
        assert_eq!((0..30).filter(|_| breaker.try_acquire_spare(8, at(0))).count(), 11);
        assert_eq!(breaker.next_spare_call(8, at(0)), at(1));
        assert_eq!(breaker.try_acquire(50, at(0)), 8, "the others have theirs");
        breaker.observe(Observation::Silence, at(0));
        assert!(!breaker.try_acquire_spare(0, at(0)));
    }

    #[test]
    fn an_answer_lets_a_burst_through() {
        let mut breaker = proven();
        assert_eq!(breaker.try_acquire(50, at(0)), 19);
        assert_eq!((breaker.try_acquire(50, at(0)), breaker.next_call(at(0))), (0, at(1)));
        breaker.release(5);
        assert_eq!(breaker.try_acquire(50, at(0)), 5, "whoever had nothing to say took no place");
    }

    #[test]
    fn the_other_sides_wish_opens_it_to_the_second() {
        let mut breaker = proven();
        assert!(breaker.observe(wait(60), at(10)));
        assert_eq!((breaker.try_acquire(8, at(69)), breaker.next_call(at(69))), (0, at(70)));
        assert_eq!(breaker.open_until(at(69)), Some(at(70)));
        assert_eq!(breaker.try_acquire(8, at(70)), 1, "then one goes and looks");
        breaker.observe(Observation::Answer, at(70));
        assert_eq!(breaker.try_acquire(8, at(71)), 8);
    }

    #[test]
    fn a_clock_that_is_set_back_leaves_it_closed() {
        let mut breaker = proven();
        assert!(breaker.observe(wait(60), at(1_000_000)));
        assert!(
            breaker.open_until(at(1_000_000)).is_some() && breaker.open_until(at(10)).is_none()
        );
        assert_eq!((breaker.open_until(at(10)), breaker.next_call(at(10))), (None, at(10)));
        assert!(breaker.observe(wait(60), at(10)), "it is open by the new time");
        assert_eq!(breaker.open_until(at(10)), Some(at(70)));
        let mut breaker = proven();
        assert!(breaker.try_acquire(20, at(1_000_000)) > 0);
        assert!(breaker.next_call(at(10)) <= at(30), "nor does its limiter remember the future");
    }

    #[test]
    fn a_shorter_wish_and_a_late_answer_do_not_close_it() {
        let mut breaker = proven();
        assert!(breaker.observe(wait(60), at(0)));
        assert!(!breaker.observe(wait(5), at(0)));
        assert!(!breaker.observe(Observation::Answer, at(1)), "it was on its way before");
        assert_eq!(breaker.open_until(at(59)), Some(at(60)));
        assert!(breaker.observe(wait(3600 * 24 * 365), at(60)));
        assert_eq!(breaker.next_call(at(60)), at(60 + 2 * 3600), "nobody opens it for years");
    }

    #[test]
    fn silence_opens_it_for_longer_and_longer_up_to_a_minute() {
        let mut breaker = proven();
        let mut now = 0;
        let mut pauses = vec![];
        for _ in 0..8 {
            assert!(breaker.observe(Observation::Silence, at(now)));
            assert!(
                !breaker.observe(Observation::Silence, at(now)),
                "those beside it say nothing new"
            );
            let next = breaker.next_call(at(now)).as_second();
            pauses.push(next - now);
            now = next;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        breaker.observe(Observation::Answer, at(now));
        breaker.observe(Observation::Silence, at(now));
        assert_eq!(
            breaker.next_call(at(now)).as_second() - now,
            1,
            "an answer makes up for all of it"
        );
    }
}
