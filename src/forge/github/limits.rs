//! The rate limits of GitHub, for each account: the requests left, as GitHub says with every answer, and the waits that
//! it asked for. GitHub punishes clients that go on. Pure; times come in.
//!
//! Workers, senders and sweeps do not know of each other's requests; their limits are kept here. A request that may not
//! be sent yet is refused as GitHub would refuse it, with the rest of the wait.
//!
//! GitHub counts writes apart from reads. A refused write has no effect on reads: a deployment does not wait for the
//! statuses of others. Where reads are limited too, the first of them is refused, and from then on nothing is sent.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::HeaderMap;

use crate::forge::delivery::{RateLimited, RequestBudget};
use crate::forge::github::request::{Account, Requests};
use crate::support::retry::RetryGate;
use crate::support::sync::lock;

/// The limit that every request of the service counts against; searches and others have their own.
const CORE: &str = "core";
/// The part of the hour's requests that is reserved for deployments: 1/10.
const RESERVE: u64 = 10;
/// The longest plausible wait: a time further ahead comes from a clock that was set back.
const AN_HOUR: Duration = Duration::from_hours(1);
/// The limit of accounts: more installations than any service has.
const MAX: usize = 1000;

/// The limits of all accounts. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct RateLimits(Arc<Mutex<BTreeMap<Account, AccountLimits>>>);

#[derive(Debug, Default)]
struct AccountLimits {
    /// The requests left, by the last answer.
    budget: Option<RequestBudget>,
    /// The gate for all requests.
    all: RetryGate,
    /// The gate for requests that create or change something.
    writes: RetryGate,
}

impl AccountLimits {
    fn gate(&self, requests: Requests) -> &RetryGate {
        match requests {
            Requests::All => &self.all,
            Requests::Writes => &self.writes,
        }
    }
}

impl RateLimits {
    /// Records the headers of an answer; `now` is there where a clock is.
    pub(super) fn note(&self, account: Account, headers: &HeaderMap, now: Option<Timestamp>) {
        let Some(budget) = budget_of(headers) else { return };
        self.change(account, now, |limits| {
            // Answers overtake each other: of one hour the smallest counts.
            let overtaken = limits.budget.is_some_and(|former| {
                let is_same = budget.reset == former.reset && budget.limit == former.limit;
                budget.reset < former.reset || (is_same && budget.remaining > former.remaining)
            });
            if !overtaken {
                limits.budget = Some(budget);
            }
        });
    }

    /// Closes the gate for these requests of the account, for the wait that GitHub asked for.
    pub(super) fn close(
        &self,
        account: Account,
        requests: Requests,
        wait: Duration,
        now: Timestamp,
    ) {
        self.change(account, Some(now), |limits| {
            let gate = match requests {
                Requests::All => &mut limits.all,
                Requests::Writes => &mut limits.writes,
            };
            if gate.wait(now).is_none() {
                let seconds = wait.as_secs();
                tracing::warn!(?account, ?requests, seconds, "GitHub rate limit, requests wait");
            }
            // Of several answers the one with the longest wait counts.
            gate.close(wait, now);
        });
    }

    /// Changes the limits of an account. If there are too many accounts, only those with a wait now are kept.
    fn change(
        &self,
        account: Account,
        now: Option<Timestamp>,
        change: impl FnOnce(&mut AccountLimits),
    ) {
        let mut accounts = lock(&self.0);
        if accounts.len() >= MAX && !accounts.contains_key(&account) {
            let waits = |gate: &RetryGate| now.is_some_and(|now| gate.closed_until(now).is_some());
            accounts.retain(|_, limits| waits(&limits.all) || waits(&limits.writes));
        }
        change(accounts.entry(account).or_default());
    }

    /// Returns how long the account still has to wait with a read or a write, if it has to.
    pub(super) fn left(
        &self,
        account: Account,
        requests: Requests,
        now: Timestamp,
    ) -> Option<Duration> {
        let accounts = lock(&self.0);
        let limits = accounts.get(&account)?;
        limits.all.wait(now).max(limits.gate(requests).wait(now))
    }

    /// Returns the time for which the account's statuses have to wait, because the rest of the hour's requests is
    /// reserved for deployments.
    pub(super) fn reserved_for(&self, account: Account, now: Timestamp) -> Option<Duration> {
        let RequestBudget { limit, remaining, reset } = lock(&self.0).get(&account)?.budget?;
        let until_reset = Duration::try_from(reset.duration_since(now)).ok()?;
        let scarce = remaining < limit / RESERVE;
        (scarce && !until_reset.is_zero() && until_reset <= AN_HOUR).then_some(until_reset)
    }

    /// Returns the time until which requests of any account wait.
    pub(super) fn rate_limited(&self, now: Timestamp) -> RateLimited {
        let accounts = lock(&self.0);
        let latest = |requests| {
            accounts.values().filter_map(|limits| limits.gate(requests).closed_until(now)).max()
        };
        RateLimited { everything: latest(Requests::All), writes: latest(Requests::Writes) }
    }

    /// Returns whether any answer named a limit.
    pub(super) fn is_known(&self) -> bool {
        lock(&self.0).values().any(|limits| limits.budget.is_some())
    }

    /// Returns the budget with the smallest part left; those whose hour is over are full again.
    pub(super) fn tightest(&self, now: Option<Timestamp>) -> Option<RequestBudget> {
        let accounts = lock(&self.0);
        let budgets = accounts.values().filter_map(|limits| limits.budget);
        budgets.filter(|budget| now.is_none_or(|now| now < budget.reset)).min_by_key(|budget| {
            u128::from(budget.remaining) * 1_000_000 / u128::from(budget.limit.max(1))
        })
    }
}

/// Reads the budget from the headers of an answer.
fn budget_of(headers: &HeaderMap) -> Option<RequestBudget> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    if !is_core(headers) {
        return None;
    }
    let reset = i64::try_from(number("x-ratelimit-reset")?).ok()?;
    Some(RequestBudget {
        limit: number("x-ratelimit-limit")?,
        remaining: number("x-ratelimit-remaining")?,
        reset: Timestamp::from_second(reset).ok()?,
    })
}

/// Returns true if an answer's limit is the one that every request of the service counts against.
pub(super) fn is_core(headers: &HeaderMap) -> bool {
    let resource = headers.get("x-ratelimit-resource").and_then(|value| value.to_str().ok());
    resource.is_none_or(|resource| resource.trim() == CORE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn who_was_told_to_wait_waits_and_nobody_else_does() {
        let limits = RateLimits::default();
        let (account, other_account) = (Account::Installation(1), Account::Installation(2));
        let wait = |account, second| limits.left(account, Requests::All, at(second));
        assert_eq!(wait(account, 100), None);
        limits.close(account, Requests::All, Duration::from_mins(1), at(100));
        limits.close(account, Requests::All, Duration::from_secs(30), at(100));
        assert_eq!(
            (wait(account, 100), wait(other_account, 100)),
            (Some(Duration::from_mins(1)), None)
        );
        assert_eq!(wait(account, 159), Some(Duration::from_secs(1)));
        assert_eq!(wait(account, 160), None);
    }

    #[test]
    fn a_refused_write_shuts_writes_alone_and_a_refused_read_everything() {
        let limits = RateLimits::default();
        let now = at(100);
        let (account, other_account) = (Account::Installation(1), Account::Installation(2));
        let waits = |account| {
            let wait = |requests| limits.left(account, requests, now);
            (wait(Requests::All), wait(Requests::Writes))
        };
        let minutes = |n| Some(Duration::from_mins(n));
        limits.close(account, Requests::Writes, Duration::from_mins(30), now);
        assert_eq!((waits(account), waits(other_account)), ((None, minutes(30)), (None, None)));
        limits.close(account, Requests::All, Duration::from_mins(1), now);
        assert_eq!(waits(account), (minutes(1), minutes(30)));
        limits.close(other_account, Requests::All, Duration::from_mins(40), now);
        assert_eq!(waits(other_account), (minutes(40), minutes(40)));
        let limited =
            RateLimited { everything: Some(at(100 + 2400)), writes: Some(at(100 + 1800)) };
        assert_eq!(limits.rate_limited(now), limited);
    }

    #[test]
    fn a_clock_that_is_set_back_holds_nobody_up() {
        let limits = RateLimits::default();
        let wait = |second| limits.left(Account::Token, Requests::All, at(second));
        limits.close(Account::Token, Requests::All, Duration::from_mins(1), at(1_000_000));
        assert!(wait(1_000_000).is_some());
        assert_eq!(wait(100), None);
        limits.close(Account::Token, Requests::All, Duration::from_mins(1), at(100));
        assert_eq!(wait(100), Some(Duration::from_mins(1)));
    }

    fn headers(remaining: &str, reset: &str, resource: &str) -> HeaderMap {
        let pairs = [
            ("x-ratelimit-limit", "5000"),
            ("x-ratelimit-remaining", remaining),
            ("x-ratelimit-reset", reset),
            ("x-ratelimit-resource", resource),
        ];
        let pair = |(name, value): (&'static str, &str)| {
            (reqwest::header::HeaderName::from_static(name), value.parse().unwrap())
        };
        pairs.into_iter().map(pair).collect()
    }

    fn remaining(limits: &RateLimits, now: i64) -> Option<u64> {
        limits.tightest(Some(at(now))).map(|budget| budget.remaining)
    }

    #[test]
    fn the_installation_with_the_fewest_left_counts_until_its_hour_is_over() {
        let limits = RateLimits::default();
        assert_eq!(remaining(&limits, 0), None);
        limits.note(Account::Installation(1), &headers("10", "1000", "core"), None);
        limits.note(Account::Installation(2), &headers("4000", "2000", "core"), None);
        limits.note(Account::Installation(2), &headers("3", "2000", "search"), None);
        assert_eq!(remaining(&limits, 999), Some(10));
        assert_eq!(remaining(&limits, 1000), Some(4000));
        assert_eq!(remaining(&limits, 2000), None);
    }

    #[test]
    fn the_last_tenth_of_the_hour_is_kept_for_deployments() {
        let limits = RateLimits::default();
        let account = Account::Token;
        limits.note(account, &headers("500", "4600", "core"), None);
        assert_eq!(limits.reserved_for(account, at(1000)), None);
        limits.note(account, &headers("499", "4600", "core"), None);
        assert_eq!(limits.reserved_for(account, at(1000)), Some(Duration::from_hours(1)));
        assert_eq!(limits.reserved_for(Account::Installation(1), at(1000)), None);
        assert_eq!(limits.reserved_for(account, at(4600)), None, "another hour");
        assert_eq!(limits.reserved_for(account, at(100)), None, "the clock was set back");
    }

    #[test]
    fn an_answer_that_was_overtaken_gives_nothing_back() {
        let limits = RateLimits::default();
        for (budget, reset, expected) in
            [("9", "1000", 9), ("10", "1000", 9), ("8", "1000", 8), ("5", "500", 8)]
        {
            limits.note(Account::Token, &headers(budget, reset, "core"), None);
            assert_eq!(remaining(&limits, 0), Some(expected));
        }
        limits.note(Account::Token, &headers("4999", "4600", "core"), None);
        assert_eq!(remaining(&limits, 0), Some(4999), "another hour");
        limits.note(Account::Token, &headers("nonsense", "9999", "core"), None);
        assert_eq!(remaining(&limits, 0), Some(4999));
    }

    #[test]
    fn of_too_many_accounts_those_that_wait_are_kept() {
        let limits = RateLimits::default();
        let most = u64::try_from(MAX).unwrap();
        for n in 0..most {
            let wait = if n == 7 { Duration::from_mins(30) } else { Duration::from_secs(1) };
            limits.close(Account::Installation(n), Requests::All, wait, at(100));
        }
        limits.close(
            Account::Installation(most),
            Requests::Writes,
            Duration::from_secs(1),
            at(200),
        );
        assert_eq!(lock(&limits.0).len(), 2);
        assert!(limits.left(Account::Installation(7), Requests::All, at(200)).is_some());
    }
}
