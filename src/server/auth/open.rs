//! What each caller has open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many streams each caller has open; who has none is not kept. Clones share it.
#[derive(Debug, Clone, Default)]
pub(in crate::server) struct Open(Arc<Mutex<BTreeMap<String, usize>>>);

/// One of a caller's; it is closed when it is dropped.
#[derive(Debug)]
pub(in crate::server) struct Opened {
    all: Open,
    account: String,
}

impl Open {
    /// One more of that caller's, unless they have so many.
    pub(in crate::server) fn one_more(&self, account: String, most: usize) -> Option<Opened> {
        let mut open = self.lock();
        let count = open.get(&account).copied().unwrap_or(0);
        if count >= most {
            return None;
        }
        open.insert(account.clone(), count + 1);
        Some(Opened { all: self.clone(), account })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let mut open = self.all.lock();
        match open.get_mut(&self.account) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => drop(open.remove(&self.account)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_caller_has_so_many_and_nothing_is_kept_of_who_has_none() {
        let open = Open::default();
        let alice = || open.one_more("alice".to_owned(), 2);
        let (first, second) = (alice().unwrap(), alice().unwrap());
        assert!(alice().is_none());
        assert!(open.one_more("bob".to_owned(), 2).is_some());
        drop(first);
        let third = alice().unwrap();
        assert!(alice().is_none());
        drop((second, third));
        assert!(open.lock().is_empty());
    }
}
