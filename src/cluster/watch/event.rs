//! Events of a cluster's watches, and the changes that they make in the index.

use jiff::Timestamp;

use crate::cluster::index::{ClusterIndex, IndexChange};
use crate::cluster::object::WatchedKind;
use crate::cluster::watched::WatchedObject;

/// An event of a cluster's watches. Events of one kind come in order; kinds overtake each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterEvent {
    /// A list of all objects begins. An earlier one that did not end counts for nothing.
    RelistBegun(WatchedKind),
    /// The list has this object, changed or not.
    Listed(Box<WatchedObject>),
    /// The list is complete: objects that are not in it are gone.
    RelistDone(WatchedKind),
    /// An object is new, or changed.
    Applied(Box<WatchedObject>),
    /// An object is gone; this is its last state.
    Deleted(Box<WatchedObject>),
    /// Changes of the kind do not arrive, until [`Seen`](Self::Seen).
    Unseen {
        /// The kind.
        kind: WatchedKind,
        /// The time of the server's last answer; absent before the first one.
        since: Option<Timestamp>,
        /// The reason, without secrets.
        reason: String,
    },
    /// Changes arrive again; all that happened meanwhile came before this event.
    Seen(WatchedKind),
    /// The kind cannot be seen at all: the cluster does not have it, or the service may not list it. Its objects are
    /// gone.
    Unavailable(WatchedKind),
}

impl ClusterEvent {
    /// Applies the event to the index; returns the changes.
    pub fn apply_to(self, index: &mut ClusterIndex) -> Vec<IndexChange> {
        match self {
            Self::RelistBegun(kind) => {
                index.begin_list(kind);
                Vec::new()
            }
            Self::Listed(object) | Self::Applied(object) => {
                index.apply(*object).into_iter().collect()
            }
            Self::RelistDone(kind) => index.end_list(kind),
            Self::Deleted(object) => index.delete_object(&object).into_iter().collect(),
            Self::Unavailable(kind) => index.give_up(kind),
            // The objects of the kind stay; readers of the index know that they may be old.
            Self::Unseen { .. } | Self::Seen(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, version: u32) -> Box<WatchedObject> {
        let metadata = json!({"namespace": "n", "name": name, "uid": name, "resourceVersion": version.to_string()});
        Box::new(WatchedObject::read(WatchedKind::Pod, &json!({ "metadata": metadata })).unwrap())
    }

    #[test]
    fn the_index_follows_what_is_told() {
        let (mut index, kind) = (ClusterIndex::new(), WatchedKind::Pod);
        let mut changes = |events: Vec<ClusterEvent>| {
            let changes = events.into_iter().flat_map(|event| event.apply_to(&mut index));
            let changes = changes.map(|change| format!("{:?} {}", change.change, change.key.name));
            (changes.collect::<Vec<_>>(), index.len())
        };
        let listed = |name: &str| ClusterEvent::Listed(pod(name, 1));
        let first = vec![
            ClusterEvent::RelistBegun(kind),
            listed("a"),
            // The list broke off, and begins again.
            ClusterEvent::RelistBegun(kind),
            listed("a"),
            listed("b"),
            ClusterEvent::RelistDone(kind),
            ClusterEvent::Seen(kind),
        ];
        assert_eq!(changes(first), (vec!["Added a".to_owned(), "Added b".to_owned()], 2));
        let second = vec![ClusterEvent::Applied(pod("a", 2)), ClusterEvent::Deleted(pod("b", 1))];
        assert_eq!(changes(second), (vec!["Updated a".to_owned(), "Deleted b".to_owned()], 1));
        let unseen = ClusterEvent::Unseen { kind, since: None, reason: "no".to_owned() };
        assert_eq!(changes(vec![unseen]), (Vec::new(), 1));
        assert_eq!(changes(vec![ClusterEvent::Unavailable(kind)]).1, 0);
    }
}
