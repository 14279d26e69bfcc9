//! A bounded cache: the least recently used value makes room for a new one. Pure; the time is an argument.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use jiff::Timestamp;

/// Values by key, each with a weight and an expiry time.
#[derive(Debug)]
pub struct BoundedCache<K, V> {
    capacity: usize,
    /// The sum of the weights.
    weight: usize,
    uses: u64,
    entries: HashMap<K, Entry<V>>,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    weight: usize,
    until: Timestamp,
    /// The last use, as a count of the uses of the cache.
    used: u64,
}

impl<K: Eq + Hash + Clone, V: Clone> BoundedCache<K, V> {
    /// Makes an empty cache with that capacity, in entries or in the unit of their weights.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, weight: 0, uses: 0, entries: HashMap::new() }
    }

    /// Returns the value, if there is one that has not expired.
    pub fn get<Q>(&mut self, key: &Q, now: Timestamp) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.uses += 1;
        let entry = self.entries.get_mut(key)?;
        if entry.until <= now {
            self.remove(key);
            return None;
        }
        entry.used = self.uses;
        Some(entry.value.clone())
    }

    /// Stores a value until that time.
    pub fn put(&mut self, key: K, value: V, until: Timestamp) {
        self.put_weighed(key, value, 1, until);
    }

    /// Stores a value that takes so much of the capacity until that time.
    pub fn put_weighed(&mut self, key: K, value: V, weight: usize, until: Timestamp) {
        self.uses += 1;
        self.remove(&key);
        self.weight += weight;
        self.entries.insert(key, Entry { value, weight, until, used: self.uses });
        while self.weight > self.capacity {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
            let Some(key) = oldest.map(|(key, _)| key.clone()) else { return };
            self.remove(&key);
        }
    }

    /// Removes a value.
    pub fn remove<Q>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        if let Some(entry) = self.entries.remove(key) {
            self.weight -= entry.weight;
        }
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
        let mut cache = BoundedCache::new(2);
        cache.put("a", 1, at(10));
        assert_eq!((cache.get(&"a", at(9)), cache.get(&"b", at(9))), (Some(1), None));
        assert_eq!(cache.get(&"a", at(10)), None);
        assert_eq!(cache.get(&"a", at(9)), None, "it is gone");
        cache.put("a", 1, at(10));
        cache.remove(&"a");
        assert_eq!(cache.get(&"a", at(9)), None);
    }

    #[test]
    fn the_one_that_was_of_no_use_longest_makes_room() {
        let mut cache = BoundedCache::new(2);
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

    #[test]
    fn no_more_is_kept_than_may_be_by_weight_and_the_oldest_goes() {
        let mut cache = BoundedCache::new(3000);
        for key in ["1", "2", "3", "3", "1", "4"] {
            cache.put_weighed(key, (), 1000, Timestamp::MAX);
        }
        let mut keys: Vec<_> = cache.entries.keys().copied().collect();
        keys.sort_unstable();
        assert_eq!((keys, cache.weight), (vec!["1", "3", "4"], 3000));
        cache.put_weighed("huge", (), 3001, Timestamp::MAX);
        assert_eq!((cache.entries.len(), cache.weight), (0, 0));
    }
}
