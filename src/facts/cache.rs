//! Answers kept for a while, and not too many of them. Pure: the time comes in.

use std::collections::HashMap;
use std::hash::Hash;

use jiff::Timestamp;

/// Answers by question. The one that was of use longest ago makes room for a new one.
#[derive(Debug)]
pub(super) struct Cache<K, V> {
    most: usize,
    uses: u64,
    kept: HashMap<K, Kept<V>>,
}

#[derive(Debug)]
struct Kept<V> {
    value: V,
    until: Timestamp,
    used: u64,
}

impl<K: Eq + Hash + Clone, V: Clone> Cache<K, V> {
    pub(super) fn new(most: usize) -> Self {
        Self { most, uses: 0, kept: HashMap::new() }
    }

    /// The answer, if there is one that may still be used.
    pub(super) fn get(&mut self, key: &K, now: Timestamp) -> Option<V> {
        self.uses += 1;
        let kept = self.kept.get_mut(key)?;
        if kept.until <= now {
            self.kept.remove(key);
            return None;
        }
        kept.used = self.uses;
        Some(kept.value.clone())
    }

    pub(super) fn put(&mut self, key: K, value: V, until: Timestamp) {
        self.uses += 1;
        if self.kept.len() >= self.most && !self.kept.contains_key(&key) {
            let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.used);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.kept.remove(&oldest);
            }
        }
        self.kept.insert(key, Kept { value, until, used: self.uses });
    }

    pub(super) fn forget(&mut self, key: &K) {
        self.kept.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn an_answer_is_kept_until_its_time() {
        let mut cache = Cache::new(2);
        cache.put("a", 1, at(10));
        assert_eq!((cache.get(&"a", at(9)), cache.get(&"b", at(9))), (Some(1), None));
        assert_eq!(cache.get(&"a", at(10)), None);
        assert_eq!(cache.get(&"a", at(9)), None, "it is gone");
        cache.put("a", 1, at(10));
        cache.forget(&"a");
        assert_eq!(cache.get(&"a", at(9)), None);
    }

    #[test]
    fn the_one_that_was_of_no_use_longest_makes_room() {
        let mut cache = Cache::new(2);
        cache.put("a", 1, at(10));
        cache.put("b", 2, at(10));
        assert_eq!(cache.get(&"a", at(1)), Some(1));
        cache.put("b", 3, at(10));
        assert_eq!(
            cache.get(&"a", at(1)),
            Some(1),
            "a new answer to an old question takes no room"
        );
        cache.put("c", 4, at(10));
        assert_eq!([cache.get(&"a", at(1)), cache.get(&"b", at(1))], [Some(1), None]);
    }
}
