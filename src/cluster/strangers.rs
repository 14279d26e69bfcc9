//! Objects that belong to no followed workload. The newest are kept, because a workload may come after its pods.

use std::collections::{HashSet, VecDeque};

use crate::cluster::object::ObjectKey;

/// The most of them that are kept: more than a busy cluster makes while one watch is behind another.
const MAX_STRANGERS: usize = 1000;

/// The objects of an index that belong to nobody, or to a workload that has not come yet.
#[derive(Debug, Default)]
pub(super) struct ForeignProgress {
    /// Oldest first. Some may have left the index, or belong to a workload by now.
    order: VecDeque<ObjectKey>,
    keys: HashSet<ObjectKey>,
}

impl ForeignProgress {
    /// Takes an object in; returns the oldest one where there are too many.
    pub(super) fn insert(&mut self, key: &ObjectKey) -> Option<ObjectKey> {
        if !self.keys.insert(key.clone()) {
            return None;
        }
        self.order.push_back(key.clone());
        let oldest = (self.order.len() > MAX_STRANGERS).then(|| self.order.pop_front())??;
        self.keys.remove(&oldest);
        Some(oldest)
    }
}
