//! How many requests are left, as GitHub says with every answer; for each installation its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::HeaderMap;

use crate::forge::delivery::{Budget, Limited};
use crate::forge::github::client::GitHub;
use crate::forge::github::client::wire::Account;

/// The limit that everything we do counts against; searches and others have their own.
const CORE: &str = "core";
/// This part of the hour's requests is kept for what a deployment needs: 1/10.
const RESERVE: u64 = 10;
/// What is further ahead is of a clock that was set back.
const AN_HOUR: Duration = Duration::from_hours(1);
/// More installations than anybody has.
const MOST: usize = 1000;

/// What the answers said last, by whose requests are counted.
#[derive(Debug, Clone, Default)]
pub(in crate::forge::github) struct Budgets(Arc<Mutex<BTreeMap<Account, Budget>>>);

impl Budgets {
    pub(super) fn note(&self, account: Account, headers: &HeaderMap) {
        let Some(budget) = said(headers) else { return };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST && !all.contains_key(&account) {
            all.clear();
        }
        // Answers overtake each other: of one hour the smallest counts.
        let known = all.entry(account).or_insert(budget);
        let is_older = budget.reset < known.reset;
        let is_same = budget.reset == known.reset && budget.limit == known.limit;
        let overtaken = is_older || (is_same && budget.remaining > known.remaining);
        if !overtaken {
            *known = budget;
        }
    }

    /// How long the account's statuses have to wait, because what is left of the hour is kept for
    /// deployments.
    pub(super) fn reserved(&self, account: Account, now: Timestamp) -> Option<Duration> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Budget { limit, remaining, reset } = *all.get(&account)?;
        let left = Duration::try_from(reset.duration_since(now)).ok()?;
        let scarce = remaining < limit / RESERVE;
        (scarce && !left.is_zero() && left <= AN_HOUR).then_some(left)
    }

    /// Whether any answer named a limit.
    fn is_known(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The one with the smallest part left; those whose hour is over are full again.
    fn tightest(&self, now: Option<Timestamp>) -> Option<Budget> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let current = all.values().filter(|budget| now.is_none_or(|now| now < budget.reset));
        current
            .min_by_key(|one| u128::from(one.remaining) * 1_000_000 / u128::from(one.limit.max(1)))
            .copied()
    }
}

impl GitHub {
    /// How many requests are left, by the last answer that said so; of an App's installations the
    /// one that has the fewest. `None` where no answer did, as on an Enterprise Server without
    /// limits.
    pub fn budget(&self) -> Option<Budget> {
        self.wire.budgets.tightest(self.auth.now())
    }

    /// Until when GitHub wants no requests of ours, as far as it said.
    pub fn limited(&self) -> Limited {
        self.wire.closed.limited()
    }

    /// Whether GitHub names limits: an Enterprise Server without them does not.
    pub fn names_limits(&self) -> bool {
        self.wire.budgets.is_known()
    }
}

/// What the headers of an answer say.
fn said(headers: &HeaderMap) -> Option<Budget> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<u64>().ok();
    if !is_core(headers) {
        return None;
    }
    let reset = i64::try_from(number("x-ratelimit-reset")?).ok()?;
    Some(Budget {
        limit: number("x-ratelimit-limit")?,
        remaining: number("x-ratelimit-remaining")?,
        reset: Timestamp::from_second(reset).ok()?,
    })
}

/// Whether an answer's limit is the one that everything we do counts against.
pub(super) fn is_core(headers: &HeaderMap) -> bool {
    let resource = headers.get("x-ratelimit-resource").and_then(|value| value.to_str().ok());
    resource.is_none_or(|resource| resource.trim() == CORE)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn left(budgets: &Budgets, now: i64) -> Option<u64> {
        budgets.tightest(Timestamp::from_second(now).ok()).map(|budget| budget.remaining)
    }

    #[test]
    fn the_installation_with_the_fewest_left_counts_until_its_hour_is_over() {
        let budgets = Budgets::default();
        assert_eq!(left(&budgets, 0), None);
        budgets.note(Account::Installation(1), &headers("10", "1000", "core"));
        budgets.note(Account::Installation(2), &headers("4000", "2000", "core"));
        budgets.note(Account::Installation(2), &headers("3", "2000", "search"));
        assert_eq!(left(&budgets, 999), Some(10));
        assert_eq!(left(&budgets, 1000), Some(4000));
        assert_eq!(left(&budgets, 2000), None);
    }

    #[test]
    fn the_last_tenth_of_the_hour_is_kept_for_deployments() {
        let budgets = Budgets::default();
        let now = |second| Timestamp::from_second(second).unwrap();
        let one = Account::Token;
        budgets.note(one, &headers("500", "4600", "core"));
        assert_eq!(budgets.reserved(one, now(1000)), None);
        budgets.note(one, &headers("499", "4600", "core"));
        assert_eq!(budgets.reserved(one, now(1000)), Some(Duration::from_hours(1)));
        assert_eq!(budgets.reserved(Account::Installation(1), now(1000)), None);
        assert_eq!(budgets.reserved(one, now(4600)), None, "another hour");
        assert_eq!(budgets.reserved(one, now(100)), None, "the clock was set back");
    }

    #[test]
    fn an_answer_that_was_overtaken_gives_nothing_back() {
        let budgets = Budgets::default();
        for (remaining, reset, expected) in
            [("9", "1000", 9), ("10", "1000", 9), ("8", "1000", 8), ("5", "500", 8)]
        {
            budgets.note(Account::Token, &headers(remaining, reset, "core"));
            assert_eq!(left(&budgets, 0), Some(expected));
        }
        budgets.note(Account::Token, &headers("4999", "4600", "core"));
        assert_eq!(left(&budgets, 0), Some(4999), "another hour");
        budgets.note(Account::Token, &headers("nonsense", "9999", "core"));
        assert_eq!(left(&budgets, 0), Some(4999));
    }
}
