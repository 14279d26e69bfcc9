//! The push budget of a repository. Pure: times come in.
//!
//! GitHub advises at most six pushes a minute to a repository ("Repository limits", GitHub Docs). Some go at once;
//! after these they are spaced, and no minute ever has more than its limit. While a push waits, new changes join it, so
//! that a budget costs time under load and no throughput.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;

use crate::support::rate_limit::{Rate, RateLimiter};

const MINUTE: Duration = Duration::from_mins(1);

/// The limits of pushes to a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushAllowance {
    /// The number of pushes that may follow one another at once. At least one.
    pub burst: u32,
    /// The most pushes of any minute. At least one.
    pub per_minute: u32,
}

impl PushAllowance {
    /// The limits that GitHub advises.
    pub const GITHUB: Self = Self { burst: 3, per_minute: 6 };
    /// The limits of a server without advice: one writer cannot push more, only a fault would.
    pub const GENEROUS: Self = Self { burst: 100, per_minute: 1200 };

    /// Returns the default for a repository's address: the limits that its host advises.
    pub fn of_address(address: &str) -> Self {
        let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
        let rest = rest.split('/').next().unwrap_or_default();
        let rest = rest.rsplit('@').next().unwrap_or_default();
        let host = rest.split(':').next().unwrap_or_default().to_lowercase();
        let github =
            matches!(&*host, "github.com" | "ssh.github.com") || host.ends_with(".ghe.com");
        if github { Self::GITHUB } else { Self::GENEROUS }
    }
}

/// Spaces the pushes to one repository.
#[derive(Debug)]
pub(in crate::git) struct PushLimiter {
    limiter: RateLimiter,
    /// The most pushes of any minute.
    per_minute: usize,
    /// The pushes of the last minute, oldest first.
    pushes: VecDeque<Timestamp>,
}

impl PushLimiter {
    pub(in crate::git) fn new(PushAllowance { burst, per_minute }: PushAllowance) -> Self {
        let limiter = RateLimiter::new(Rate::per_minute(burst, per_minute));
        let per_minute = usize::try_from(per_minute.max(1)).unwrap_or(usize::MAX);
        Self { limiter, per_minute, pushes: VecDeque::new() }
    }

    /// Returns how long the next push has to wait; never more than a minute, whatever the clock
    /// does.
    pub(in crate::git) fn wait(&mut self, now: Timestamp) -> Duration {
        // Pushes that lie in the future were counted before the clock was set back.
        self.pushes.retain(|at| *at <= now && since(*at, now) < MINUTE);
        self.limiter.refill_if_set_back(now);
        let over = self.pushes.len().checked_sub(self.per_minute);
        let of_minute = match over.and_then(|n| self.pushes.get(n)) {
            Some(first) => MINUTE.saturating_sub(since(*first, now)),
            None => Duration::ZERO,
        };
        of_minute.max(self.limiter.wait(now)).min(MINUTE)
    }

    /// Counts a push.
    pub(in crate::git) fn spend(&mut self, now: Timestamp) {
        self.pushes.push_back(now);
        self.limiter.spend(1, now);
    }
}

fn since(at: Timestamp, now: Timestamp) -> Duration {
    now.duration_since(at).try_into().unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the time of each of so many pushes, in seconds, if all want to go at once.
    fn times(budget: PushAllowance, count: usize) -> Vec<u64> {
        let mut limiter = PushLimiter::new(budget);
        let begin = Timestamp::UNIX_EPOCH;
        let mut now = begin;
        let push = |_| {
            now += limiter.wait(now);
            limiter.spend(now);
            since(begin, now).as_secs()
        };
        (0..count).map(push).collect()
    }

    #[test]
    fn githubs_advice_is_kept_in_every_minute() {
        let times = times(PushAllowance::GITHUB, 60);
        assert_eq!(times[..8], [0, 0, 0, 10, 20, 30, 60, 60]);
        for window in times.windows(7) {
            assert!(window[6] - window[0] >= 60, "{window:?}");
        }
        assert!(times[59] <= 600, "six a minute are had, too: {times:?}");
    }

    #[test]
    fn an_idle_writer_never_waits() {
        let mut limiter = PushLimiter::new(PushAllowance::GITHUB);
        let mut now = Timestamp::UNIX_EPOCH;
        for _ in 0..100 {
            assert_eq!(limiter.wait(now), Duration::ZERO);
            limiter.spend(now);
            now += Duration::from_secs(10);
        }
    }

    #[test]
    fn a_clock_that_is_put_back_holds_nothing_up() {
        let mut limiter = PushLimiter::new(PushAllowance { burst: 1, per_minute: 1 });
        let later: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        limiter.spend(later);
        assert_eq!(limiter.wait(later), MINUTE);
        assert_eq!(limiter.wait(later + MINUTE), Duration::ZERO);
        limiter.spend(later);
        assert_eq!(limiter.wait(Timestamp::UNIX_EPOCH), Duration::ZERO);
    }

    #[test]
    fn hosts_have_defaults() {
        for address in [
            "https://github.com/acme/m.git",
            "https://GitHub.com:443/acme/m",
            "git@github.com:acme/m.git",
            "ssh://git@github.com/acme/m",
            "ssh://git@ssh.github.com:443/acme/m",
            "https://acme.ghe.com/acme/m",
        ] {
            assert_eq!(PushAllowance::of_address(address), PushAllowance::GITHUB, "{address}");
        }
        for address in ["https://git.example.com/github.com", "/srv/github.com/m.git", ""] {
            assert_eq!(PushAllowance::of_address(address), PushAllowance::GENEROUS, "{address}");
        }
    }
}
