//! A cache of values that are expensive to create: a value is kept while it is good and created by one caller at a
//! time, and a failure is shared by the callers who waited for it.
//!
//! Without that, fifty deployments that begin together would ask GitHub for fifty tokens; and when GitHub is down, each
//! of them would wait for its own failure after that of all before it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::forge::error::ForgeError;
use crate::support::sync::lock;

/// Values by key, no more than a certain number of them.
pub(super) struct SlotMap<K, V> {
    most: usize,
    entries: Mutex<Entries<K, V>>,
}

/// The cached values, each with the turn of its last use.
struct Entries<K, V> {
    turn: u64,
    slots: BTreeMap<K, (u64, Arc<Slot<V>>)>,
}

/// One value, with the lock of the caller that creates it.
struct Slot<V> {
    /// The number of attempts to create it that have ended.
    ended: AtomicU64,
    state: tokio::sync::Mutex<State<V>>,
}

struct State<V> {
    value: Option<V>,
    /// The value has turned out to be no good.
    spoiled: bool,
    /// The end of the last attempt, if it was no good.
    failed: Option<ForgeError>,
}

/// The origin of a value: the cache, or this call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    Cache,
    Maker,
}

impl<K: Ord + Clone, V: Clone> SlotMap<K, V> {
    pub(super) fn new(most: usize) -> Self {
        Self { most, entries: Mutex::new(Entries { turn: 0, slots: BTreeMap::new() }) }
    }

    /// Returns the value if it is good, else creates one.
    ///
    /// A caller that waited while another caller failed gets that failure, unless it is about the other caller's own
    /// request.
    pub(super) async fn get(
        &self,
        key: &K,
        is_good: impl Fn(&V) -> bool,
        make: impl Future<Output = Result<V, ForgeError>>,
    ) -> Result<(V, From), ForgeError> {
        let slot = self.slot(key);
        let before = slot.ended.load(Ordering::Acquire);
        let mut state = slot.state.lock().await;
        let spoiled = state.spoiled;
        if let Some(value) = state.value.as_ref().filter(|value| !spoiled && is_good(value)) {
            return Ok((value.clone(), From::Cache));
        }
        let failed = state.failed.as_ref().filter(|error| is_of_all(error));
        if let Some(error) = failed.filter(|_| slot.ended.load(Ordering::Acquire) > before) {
            return Err(error.clone());
        }
        let result = make.await;
        slot.ended.fetch_add(1, Ordering::AcqRel);
        state.failed = result.as_ref().err().cloned();
        if let Ok(value) = &result {
            state.value = Some(value.clone());
            state.spoiled = false;
        }
        result.map(|value| (value, From::Maker))
    }

    /// Marks the matching value as no good any more.
    pub(super) async fn spoil(&self, key: &K, is_meant: impl Fn(&V) -> bool) {
        let Some(slot) = self.find(key) else { return };
        let mut state = slot.state.lock().await;
        let is_meant = state.value.as_ref().is_some_and(is_meant);
        state.spoiled |= is_meant;
    }

    /// Returns the value, unless it is spoiled, or is being created just now.
    pub(super) fn peek(&self, key: &K) -> Option<V> {
        let slot = self.find(key)?;
        let state = slot.state.try_lock().ok()?;
        state.value.clone().filter(|_| !state.spoiled)
    }

    /// Returns the last value, good or not, unless one is being created just now.
    pub(super) fn last(&self, key: &K) -> Option<V> {
        self.find(key)?.state.try_lock().ok()?.value.clone()
    }

    fn find(&self, key: &K) -> Option<Arc<Slot<V>>> {
        lock(&self.entries).slots.get(key).map(|(_, slot)| slot.clone())
    }

    fn slot(&self, key: &K) -> Arc<Slot<V>> {
        let mut entries = lock(&self.entries);
        entries.turn += 1;
        let turn = entries.turn;
        if let Some((used_at, slot)) = entries.slots.get_mut(key) {
            *used_at = turn;
            return slot.clone();
        }
        if entries.slots.len() >= self.most {
            entries.make_room();
        }
        let slot = Arc::new(Slot::default());
        entries.slots.insert(key.clone(), (turn, slot.clone()));
        slot
    }
}

impl<K: Ord + Clone, V> Entries<K, V> {
    /// Removes the value that was not used for the longest; one with waiting callers stays.
    fn make_room(&mut self) {
        let idle = self.slots.iter().filter(|(_, (_, slot))| Arc::strong_count(slot) == 1);
        let oldest = idle.min_by_key(|(_, (used_at, _))| *used_at).map(|(key, _)| key.clone());
        if let Some(key) = oldest {
            self.slots.remove(&key);
        }
    }
}

/// Checks that a failure concerns all callers: others may ask for something that is permitted.
fn is_of_all(error: &ForgeError) -> bool {
    !matches!(error, ForgeError::MissingPermission { .. })
}

impl<V> Default for Slot<V> {
    fn default() -> Self {
        let state = tokio::sync::Mutex::new(State { value: None, spoiled: false, failed: None });
        Self { ended: AtomicU64::new(0), state }
    }
}

/// The values may be secrets.
impl<K, V> fmt::Debug for SlotMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slots").field("most", &self.most).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn broken() -> ForgeError {
        ForgeError::Unreachable { host: "github".to_owned(), problem: "down".to_owned() }
    }

    /// Runs fifty callers that all wait for the first, whose attempt ends so.
    async fn storm(end: Result<u32, ForgeError>) -> (usize, Vec<Result<u32, ForgeError>>) {
        let slots = SlotMap::new(4);
        let count = AtomicUsize::new(0);
        let gate = tokio::sync::Semaphore::new(0);
        let request = async || {
            let make = async {
                count.fetch_add(1, Ordering::SeqCst);
                let _open = gate.acquire().await.unwrap();
                end.clone()
            };
            slots.get(&"key", |_| true, make).await.map(|(value, _)| value)
        };
        let requests = futures::future::join_all((0..50).map(|_| request()));
        let open = async {
            tokio::task::yield_now().await;
            gate.add_permits(50);
        };
        let (results, ()) = futures::join!(requests, open);
        (count.into_inner(), results)
    }

    #[tokio::test]
    async fn fifty_that_ask_at_once_make_one() {
        let (count, results) = storm(Ok(7)).await;
        assert_eq!(count, 1);
        assert!(results.into_iter().all(|result| result.unwrap() == 7));
    }

    #[tokio::test]
    async fn a_failure_is_shared_by_those_who_waited_and_not_by_who_comes_later() {
        let (count, results) = storm(Err(broken())).await;
        assert_eq!(count, 1);
        assert!(results.into_iter().all(|result| result.is_err()));
        let slots = SlotMap::new(4);
        let failed = slots.get(&1, |_: &u32| true, async { Err(broken()) }).await;
        assert!(failed.is_err());
        let value = slots.get(&1, |_| true, async { Ok(3) }).await.unwrap();
        assert_eq!(value, (3, From::Maker));
        assert_eq!(slots.get(&1, |_| true, async { Ok(4) }).await.unwrap(), (3, From::Cache));
    }

    #[tokio::test]
    async fn what_one_is_not_permitted_is_no_failure_of_others() {
        let missing = ForgeError::MissingPermission {
            about: "a/b".to_owned(),
            permission: "checks: write".to_owned(),
            help: String::new(),
        };
        let (count, results) = storm(Err(missing)).await;
        assert_eq!((count, results.len()), (50, 50));
    }

    #[tokio::test]
    async fn who_is_gone_while_making_leaves_the_place_to_the_next() {
        let slots = SlotMap::new(4);
        let never = slots.get(&1, |_: &u32| true, std::future::pending());
        assert!(tokio::time::timeout(std::time::Duration::ZERO, never).await.is_err());
        assert_eq!(slots.get(&1, |_| true, async { Ok(3) }).await.unwrap().0, 3);
    }

    #[tokio::test]
    async fn no_more_are_kept_than_may_be_and_the_oldest_goes() {
        let slots = SlotMap::new(2);
        for key in [1, 2, 1, 3] {
            slots.get(&key, |_| true, async { Ok(key) }).await.unwrap();
        }
        assert_eq!([1, 2, 3].map(|key| slots.peek(&key)), [Some(1), None, Some(3)]);
    }

    #[tokio::test]
    async fn what_is_spoiled_is_made_anew_and_no_newer_one_is_spoiled_for_it() {
        let slots = SlotMap::new(2);
        let make = async |value| slots.get(&1, |_| true, async move { Ok(value) }).await.unwrap();
        make(7).await;
        slots.spoil(&1, |value| *value == 5).await;
        assert_eq!(make(8).await, (7, From::Cache));
        slots.spoil(&1, |value| *value == 7).await;
        assert_eq!((slots.peek(&1), slots.last(&1)), (None, Some(7)));
        assert_eq!(make(8).await, (8, From::Maker));
        assert_eq!(make(9).await, (8, From::Cache));
    }
}
