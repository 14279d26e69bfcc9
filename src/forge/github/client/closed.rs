//! Who was told to wait, waits with everything: GitHub punishes who goes on.
//!
//! Workers, senders and sweeps do not know of each other's requests; here they meet. A request that
//! may not go out yet is refused as GitHub would refuse it, with what is left of the time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::forge::github::auth::Now;
use crate::forge::github::client::wire::Account;

/// GitHub asks for an hour at most; one wrong header must not hold an account up for years. What lies
/// further ahead is of a clock that was set back.
const LONGEST: Duration = Duration::from_hours(2);
/// More installations than anybody has.
const MOST: usize = 1000;

/// Until when nothing is sent, for each account; without a clock, nobody is held back. Clones
/// share it.
#[derive(Debug, Clone, Default)]
pub(in crate::forge::github) struct Closed(Option<(Now, Until)>);

type Until = Arc<Mutex<BTreeMap<Account, Timestamp>>>;

impl Closed {
    /// By that clock.
    pub(super) fn by(now: Now) -> Self {
        Self(Some((now, Arc::default())))
    }

    /// How long the account still has to wait, if it has to.
    pub(super) fn left(&self, account: Account) -> Option<Duration> {
        let (now, until) = self.0.as_ref()?;
        let until = *until.lock().unwrap_or_else(PoisonError::into_inner).get(&account)?;
        let left = until.duration_since(now.get());
        left.try_into().ok().filter(|left: &Duration| !left.is_zero() && *left <= LONGEST)
    }

    /// GitHub wants nothing of the account for so long.
    pub(super) fn hear(&self, account: Account, wait: Duration) {
        let Some((now, all)) = &self.0 else { return };
        let now = now.get();
        let left = self.left(account).unwrap_or_default();
        let wait = SignedDuration::try_from(wait.min(LONGEST).max(left)).unwrap_or_default();
        let until = now.checked_add(wait).unwrap_or(Timestamp::MAX);
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.retain(|_, until| *until > now);
        }
        // Of several answers the one with the longest wait counts.
        all.insert(account, until);
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
        assert_eq!(closed.left(one), None);
        closed.hear(one, Duration::from_mins(1));
        closed.hear(one, Duration::from_secs(30));
        assert_eq!((closed.left(one), closed.left(other)), (Some(Duration::from_mins(1)), None));
        second.store(159, Ordering::SeqCst);
        assert_eq!(closed.left(one), Some(Duration::from_secs(1)));
        second.store(160, Ordering::SeqCst);
        assert_eq!(closed.left(one), None);
    }

    #[test]
    fn a_clock_that_is_set_back_holds_nobody_up() {
        let second = Arc::new(AtomicI64::new(1_000_000));
        let now = Arc::clone(&second);
        let now = Now::new(move || Timestamp::from_second(now.load(Ordering::SeqCst)).unwrap());
        let closed = Closed::by(now);
        closed.hear(Account::Token, Duration::from_mins(1));
        assert!(closed.left(Account::Token).is_some());
        second.store(100, Ordering::SeqCst);
        assert_eq!(closed.left(Account::Token), None);
        closed.hear(Account::Token, Duration::from_mins(1));
        assert_eq!(closed.left(Account::Token), Some(Duration::from_mins(1)));
    }

    #[test]
    fn without_a_clock_nobody_is_held_back() {
        let closed = Closed::default();
        closed.hear(Account::Token, Duration::from_mins(1));
        assert_eq!(closed.left(Account::Token), None);
    }
}
