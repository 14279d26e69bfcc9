//! How fast a family of sinks may be told: a bucket that holds a burst and fills by one per
//! interval. Pure; the time is handed in.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// How fast the other side wants to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// How many may go at once after a rest; at least 1.
    pub burst: u32,
    /// The time between two when there was no rest; none at all where it is zero.
    pub every: Duration,
}

impl Rate {
    /// As fast as it goes.
    pub const FREE: Self = Self { burst: u32::MAX, every: Duration::ZERO };
}

/// How many calls within an hour a forge takes that make something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hourly {
    /// Of one account.
    pub most: u32,
    /// Whether each owner of repositories is an account of its own, as installations of an App are.
    pub by_owner: bool,
}

/// How each family is told. What is right for a host is said where the host is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// The forge.
    pub forge: Rate,
    /// The forge within an hour; no bound where there is none.
    pub forge_hourly: Option<Hourly>,
    /// Slack as a whole; what a channel takes is its client's business.
    pub slack: Rate,
    /// Each webhook for events.
    pub events: Rate,
    /// Each cluster's Argo CD.
    pub argocd: Rate,
}

impl Default for Rates {
    fn default() -> Self {
        let (forge, slack, events, argocd) = (Rate::FREE, Rate::FREE, Rate::FREE, Rate::FREE);
        Self { forge, forge_hourly: None, slack, events, argocd }
    }
}

/// A bucket of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    rate: Rate,
    /// When the whole burst is there again.
    full_at: Timestamp,
}

impl Pace {
    /// A full bucket.
    pub(super) fn new(rate: Rate) -> Self {
        Self { rate: Rate { burst: rate.burst.max(1), ..rate }, full_at: Timestamp::MIN }
    }

    /// How many may go now.
    pub(super) fn free(&self, now: Timestamp) -> u32 {
        let missing = self.full_at(now).duration_since(now).as_nanos().max(0);
        let Ok(every @ 1..) = i128::try_from(self.rate.every.as_nanos()) else {
            return self.rate.burst;
        };
        let missing = missing.div_euclid(every) + i128::from(missing.rem_euclid(every) > 0);
        self.rate.burst.saturating_sub(u32::try_from(missing).unwrap_or(u32::MAX))
    }

    /// So many go now.
    pub(super) fn spend(&mut self, n: u32, now: Timestamp) {
        self.full_at = later(self.full_at(now).max(now), self.times(n));
    }

    /// So many did not go after all.
    pub(super) fn give_back(&mut self, n: u32) {
        self.full_at = self.full_at.checked_sub(self.times(n)).unwrap_or(Timestamp::MIN);
    }

    /// When one may go: now, or later.
    pub(super) fn next(&self, now: Timestamp) -> Timestamp {
        if self.free(now) > 0 {
            return now;
        }
        let kept = self.times(self.rate.burst.saturating_sub(1));
        self.full_at(now).checked_sub(kept).unwrap_or(now)
    }

    /// A burst that is spent twice over is of a clock that was set back: it is spent once.
    fn full_at(&self, now: Timestamp) -> Timestamp {
        let burst = self.times(self.rate.burst);
        let spent_twice = later(later(now, burst), burst);
        if self.full_at > spent_twice { later(now, burst) } else { self.full_at }
    }

    fn times(&self, n: u32) -> SignedDuration {
        let time = self.rate.every.saturating_mul(n);
        SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX)
    }
}

/// A while after that time, or the end of time.
pub(super) fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    fn pace() -> Pace {
        Pace::new(Rate { burst: 3, every: Duration::from_secs(1) })
    }

    #[test]
    fn after_a_rest_a_burst_may_go_and_then_one_a_second() {
        let mut pace = pace();
        assert_eq!(pace.free(at(0)), 3);
        pace.spend(3, at(0));
        assert_eq!((pace.free(at(0)), pace.next(at(0))), (0, at(1000)));
        assert_eq!((pace.free(at(999)), pace.free(at(1000))), (0, 1));
        pace.spend(1, at(1000));
        assert_eq!((pace.free(at(1999)), pace.next(at(1999))), (0, at(2000)));
        assert_eq!((pace.free(at(4000)), pace.free(at(99_000))), (3, 3));
    }

    #[test]
    fn what_did_not_go_is_not_counted() {
        let mut pace = pace();
        pace.spend(3, at(0));
        pace.give_back(2);
        assert_eq!(pace.free(at(0)), 2);
        pace.give_back(1);
        assert_eq!((pace.free(at(0)), pace.next(at(0))), (3, at(0)), "and never more than a burst");
    }

    /// A second between writes, and with the burst no more than 80 in any minute: GitHub's two rules.
    #[test]
    fn a_burst_of_twenty_and_one_a_second_are_eighty_in_the_worst_minute() {
        let mut pace = Pace::new(Rate { burst: 20, every: Duration::from_secs(1) });
        let sent: u32 = (0..60_000)
            .map(|millis| {
                let free = pace.free(at(millis));
                pace.spend(free, at(millis));
                free
            })
            .sum();
        assert!((70..=80).contains(&sent), "{sent}");
    }

    #[test]
    fn a_free_rate_is_free_for_ever() {
        let mut pace = Pace::new(Rate::FREE);
        pace.spend(1_000_000, at(0));
        assert_eq!((pace.free(at(0)), pace.next(at(0))), (u32::MAX, at(0)));
    }
}
