//! Who was told to wait, waits: GitHub punishes who goes on.
//!
//! Workers, senders and sweeps do not know of each other's requests; here they meet. A request that
//! may not go out yet is refused as GitHub would refuse it, with what is left of the time.
//!
//! GitHub counts what makes something apart from what reads. A write that is refused says nothing of
//! reads: a deployment is not to wait for the statuses of others. Where reads are limited too,
//! the first of them hears it, and then nothing goes out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;

use crate::forge::delivery::Limited;
use crate::forge::github::auth::Now;
use crate::forge::github::client::wire::Account;
use crate::support::retry::RetryGate;
use crate::support::sync::lock;

/// More installations than anybody has.
const MOST: usize = 1000;

/// Which requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::forge::github) enum Requests {
    /// All of an account.
    All,
    /// Those that make or change something.
    Writes,
}

/// Until when nothing is sent, for each account; without a clock, nobody is held back. Clones
/// share it.
#[derive(Debug, Clone, Default)]
pub(in crate::forge::github) struct Closed(Option<(Now, Until)>);

type Until = Arc<Mutex<BTreeMap<(Account, Requests), RetryGate>>>;

impl Closed {
    /// By that clock.
    pub(super) fn by(now: Now) -> Self {
        Self(Some((now, Arc::default())))
    }

    /// How long the account still has to wait with a read or a write, if it has to.
    pub(super) fn left(&self, account: Account, requests: Requests) -> Option<Duration> {
        let all = self.remaining(account, Requests::All);
        match requests {
            Requests::All => all,
            Requests::Writes => all.max(self.remaining(account, Requests::Writes)),
        }
    }

    /// GitHub wants none of these requests of the account for so long.
    pub(super) fn hear(&self, account: Account, requests: Requests, wait: Duration) {
        let Some((now, all)) = &self.0 else { return };
        let now = now.get();
        let mut all = lock(all);
        if all.len() >= MOST {
            all.retain(|_, gate| gate.closed_until(now).is_some());
        }
        let gate = all.entry((account, requests)).or_default();
        if gate.wait(now).is_none() {
            let seconds = wait.as_secs();
            tracing::warn!(?account, ?requests, seconds, "GitHub limits us; these requests wait");
        }
        // Of several answers the one with the longest wait counts.
        gate.close(wait, now);
    }

    /// Until when requests of any account wait.
    pub(super) fn limited(&self) -> Limited {
        let Some((now, all)) = &self.0 else { return Limited::default() };
        let now = now.get();
        let all = lock(all);
        let latest = |wanted: Requests| {
            let of = all.iter().filter(|((_, requests), _)| *requests == wanted);
            of.filter_map(|(_, gate)| gate.closed_until(now)).max()
        };
        Limited { everything: latest(Requests::All), writes: latest(Requests::Writes) }
    }

    /// What the time is by which it goes, where there is one.
    pub(super) fn now(&self) -> Option<Timestamp> {
        self.0.as_ref().map(|(now, _)| now.get())
    }

    fn remaining(&self, account: Account, requests: Requests) -> Option<Duration> {
        let (now, until) = self.0.as_ref()?;
        let until = lock(until);
        until.get(&(account, requests))?.wait(now.get())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    #[test]
    fn who_was_told_to_wait_waits_and_nobody_else_does() {
        let second = Arc::new(AtomicI64::new(100));
        let now = Arc::clone(&second);
        let now = Now::new(move || Timestamp::from_second(now.load(Ordering::SeqCst)).unwrap());
        let closed = Closed::by(now);
        let (one, other) = (Account::Installation(1), Account::Installation(2));
        assert_eq!(closed.left(one, Requests::All), None);
        closed.hear(one, Requests::All, Duration::from_mins(1));
        closed.hear(one, Requests::All, Duration::from_secs(30));
        assert_eq!(
            (closed.left(one, Requests::All), closed.left(other, Requests::All)),
            (Some(Duration::from_mins(1)), None)
        );
        second.store(159, Ordering::SeqCst);
        assert_eq!(closed.left(one, Requests::All), Some(Duration::from_secs(1)));
        second.store(160, Ordering::SeqCst);
        assert_eq!(closed.left(one, Requests::All), None);
    }

    #[test]
    fn a_refused_write_shuts_writes_alone_and_a_refused_read_everything() {
        let now = Timestamp::from_second(100).unwrap();
        let closed = Closed::by(Now::new(move || now));
        let (one, other) = (Account::Installation(1), Account::Installation(2));
        let left =
            |account| (closed.left(account, Requests::All), closed.left(account, Requests::Writes));
        let minutes = |n| Some(Duration::from_mins(n));
        closed.hear(one, Requests::Writes, Duration::from_mins(30));
        assert_eq!((left(one), left(other)), ((None, minutes(30)), (None, None)));
        closed.hear(one, Requests::All, Duration::from_mins(1));
        assert_eq!(left(one), (minutes(1), minutes(30)));
        closed.hear(other, Requests::All, Duration::from_mins(40));
        assert_eq!(left(other), (minutes(40), minutes(40)));
        let at = |second| Timestamp::from_second(second).ok();
        let limited = Limited { everything: at(100 + 2400), writes: at(100 + 1800) };
        assert_eq!(closed.limited(), limited);
    }

    #[test]
    fn a_clock_that_is_set_back_holds_nobody_up() {
        let second = Arc::new(AtomicI64::new(1_000_000));
        let now = Arc::clone(&second);
        let now = Now::new(move || Timestamp::from_second(now.load(Ordering::SeqCst)).unwrap());
        let closed = Closed::by(now);
        closed.hear(Account::Token, Requests::All, Duration::from_mins(1));
        assert!(closed.left(Account::Token, Requests::All).is_some());
        second.store(100, Ordering::SeqCst);
        assert_eq!(closed.left(Account::Token, Requests::All), None);
        closed.hear(Account::Token, Requests::All, Duration::from_mins(1));
        assert_eq!(closed.left(Account::Token, Requests::All), Some(Duration::from_mins(1)));
    }

    #[test]
    fn without_a_clock_nobody_is_held_back() {
        let closed = Closed::default();
        closed.hear(Account::Token, Requests::All, Duration::from_mins(1));
        assert_eq!(closed.left(Account::Token, Requests::All), None);
    }
}
