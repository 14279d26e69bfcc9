//! The present objects of one cluster, and their owners.
//!
//! ```text
//! Pod ──▶ ReplicaSet ──▶ Deployment ◀── Canary
//! Pod ──▶ StatefulSet, DaemonSet, Job        Job ──▶ CronJob
//! ```
//!
//! Each kind comes from a watch of its own: the order within a kind is the server's, across kinds it is nobody's. A
//! pod may be here before its `ReplicaSet`, and a Deployment's status before the objects that it counts. So the index
//! takes what comes, keeps the newest state of each object, and says which workload a change is about; what it means
//! is decided elsewhere.
//!
//! Objects that belong to no followed workload are kept for a while only: the owner may come after its pods.
//!
//! A list replaces what is known of its kind: objects that it does not have are gone. Until it has ended, what was
//! known stays. Nothing is said of a workload before its kind, and each kind that its rules read, was listed once or
//! cannot be.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::cluster::flagger::FlaggerCanary;
use crate::cluster::object::{ControllerRef, Marks, ObjectKey, ObjectMeta, WatchedKind};
use crate::cluster::pod::PodRow;
use crate::cluster::strangers::ForeignProgress;
use crate::cluster::watched::WatchedObject;
use crate::cluster::workload::{KubeDeployment, ReplicaSet};

/// The most objects in the index of a cluster: more than all but the largest clusters have. What comes above it is left
/// out and counted.
const MAX_OBJECTS: ObjectLimit = ObjectLimit(250_000);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ObjectLimit(usize);

impl Default for ObjectLimit {
    fn default() -> Self {
        MAX_OBJECTS
    }
}

/// The present objects of one cluster.
#[derive(Debug, Default)]
pub struct ClusterIndex {
    objects: HashMap<ObjectKey, WatchedObject>,
    /// The objects of each owner, by its uid.
    children: HashMap<Box<str>, BTreeSet<ObjectKey>>,
    /// The Canary of each workload that Flagger takes over.
    canaries: HashMap<ObjectKey, ObjectKey>,
    /// The sight of each kind that was listed, or cannot be.
    sights: HashMap<WatchedKind, Sight>,
    /// The kinds whose changes do not arrive at present.
    interrupted: HashSet<WatchedKind>,
    /// The lists under way, with the objects that they had so far.
    lists: HashMap<WatchedKind, HashSet<ObjectKey>>,
    strangers: ForeignProgress,
    limit: ObjectLimit,
    /// The number of objects of each kind that were too many since its last list began.
    left_out: HashMap<WatchedKind, u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sight {
    Listed,
    /// The cluster has it, or may have it, and the service may not see it.
    Hidden,
    /// The cluster does not have it.
    Absent,
}

/// A change of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexChange {
    /// The object.
    pub key: ObjectKey,
    /// The change.
    pub change: ObjectChange,
    /// The workload whose progress it may change.
    pub workload: Option<ObjectKey>,
}

/// The kinds of changes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectChange {
    /// It was not there before.
    Added,
    /// It has another state.
    Updated,
    /// Another object has its name now: it was deleted and made again.
    Replaced,
    /// It is gone.
    Deleted,
}

impl ClusterIndex {
    /// Makes the index of a cluster of which nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a list of all objects of a kind. One that had begun before and did not end counts for nothing.
    pub fn begin_list(&mut self, kind: WatchedKind) {
        self.lists.insert(kind, HashSet::new());
        self.left_out.remove(&kind);
    }

    /// Ends a list: what it did not have is gone.
    pub fn end_list(&mut self, kind: WatchedKind) -> Vec<IndexChange> {
        let Some(listed) = self.lists.remove(&kind) else { return Vec::new() };
        self.sights.insert(kind, Sight::Listed);
        let is_gone = |key: &&ObjectKey| key.kind == kind && !listed.contains(*key);
        let mut gone: Vec<ObjectKey> = self.objects.keys().filter(is_gone).cloned().collect();
        gone.sort();
        let changes = gone.iter().filter_map(|key| self.delete(key)).collect();
        self.limit_strangers(kind);
        changes
    }

    /// Gives a kind up that the cluster does not have. The rules do without.
    pub fn give_up(&mut self, kind: WatchedKind) -> Vec<IndexChange> {
        self.lose_sight(kind, Sight::Absent)
    }

    /// Gives a kind up that the service may not see. The rules do without as far as they can, and say so.
    pub fn hide(&mut self, kind: WatchedKind) -> Vec<IndexChange> {
        self.lose_sight(kind, Sight::Hidden)
    }

    fn lose_sight(&mut self, kind: WatchedKind, sight: Sight) -> Vec<IndexChange> {
        self.begin_list(kind);
        let changes = self.end_list(kind);
        self.sights.insert(kind, sight);
        changes
    }

    /// Records that changes of a kind do not arrive. Its objects stay as they were seen last.
    pub fn interrupt(&mut self, kind: WatchedKind) {
        self.interrupted.insert(kind);
    }

    /// Records that changes of a kind arrive again.
    pub fn resume(&mut self, kind: WatchedKind) {
        self.interrupted.remove(&kind);
    }

    /// Takes the state of an object, of a list or of a watch. `None` where that is nothing new.
    pub fn apply(&mut self, object: WatchedObject) -> Option<IndexChange> {
        let key = object.key();
        let is_listed =
            self.lists.get_mut(&key.kind).map(|list| list.insert(key.clone())).is_some();
        let change = match self.objects.get(&key) {
            Some(present) => compare(present, &object, is_listed)?,
            None if self.objects.len() >= self.limit.0 => {
                let left_out = self.left_out.entry(key.kind).or_default();
                *left_out = left_out.saturating_add(1);
                return None;
            }
            None => ObjectChange::Added,
        };
        self.unlink(&key);
        self.link(&key, &object);
        self.objects.insert(key.clone(), object);
        self.limit_stranger(&key);
        let workload = self.workload_of(&key);
        Some(IndexChange { key, change, workload })
    }

    /// Takes an object away, of whatever uid; `None` where it was not there.
    pub fn delete(&mut self, key: &ObjectKey) -> Option<IndexChange> {
        if let Some(list) = self.lists.get_mut(&key.kind) {
            list.remove(key);
        }
        let workload = self.workload_of(key);
        self.unlink(key);
        self.objects.remove(key)?;
        Some(IndexChange { key: key.clone(), change: ObjectChange::Deleted, workload })
    }

    /// Takes an object away that a watch says is deleted, unless another object has its name by now.
    pub fn delete_object(&mut self, object: &WatchedObject) -> Option<IndexChange> {
        let key = object.key();
        let present = self.objects.get(&key)?;
        (present.meta().uid == object.meta().uid).then(|| self.delete(&key))?
    }

    fn link(&mut self, key: &ObjectKey, object: &WatchedObject) {
        if let Some(owner) = &object.meta().controller {
            self.children.entry(owner.uid.clone()).or_default().insert(key.clone());
        }
        if let WatchedObject::Canary(FlaggerCanary { target: Some(target), .. }) = object {
            self.canaries.insert(target.clone(), key.clone());
        }
    }

    fn unlink(&mut self, key: &ObjectKey) {
        let Some(object) = self.objects.get(key) else { return };
        if let Some(owner) = &object.meta().controller
            && let Some(siblings) = self.children.get_mut(&owner.uid)
        {
            siblings.remove(key);
            if siblings.is_empty() {
                self.children.remove(&owner.uid);
            }
        }
        if let WatchedObject::Canary(FlaggerCanary { target: Some(target), .. }) = object
            && self.canaries.get(target) == Some(key)
        {
            self.canaries.remove(target);
        }
    }

    /// Keeps an object that belongs to no followed workload for a while only.
    fn limit_stranger(&mut self, key: &ObjectKey) {
        if !self.objects.get(key).is_some_and(|object| self.is_stranger(object)) {
            return;
        }
        let Some(oldest) = self.strangers.insert(key) else { return };
        if self.objects.get(&oldest).is_some_and(|object| self.is_stranger(object)) {
            self.unlink(&oldest);
            self.objects.remove(&oldest);
        }
    }

    /// Finds the objects whose owners are not in the list of a kind that has ended.
    fn limit_strangers(&mut self, kind: WatchedKind) {
        if !kind.is_workload() && kind != WatchedKind::ReplicaSet {
            return;
        }
        let strangers = self.objects.values().filter(|object| self.is_stranger(object));
        let mut strangers: Vec<_> =
            strangers.map(|object| (object.meta().created, object.key())).collect();
        strangers.sort();
        for (_, key) in &strangers {
            self.limit_stranger(key);
        }
    }

    /// Checks that an object belongs to no workload that is followed, as far as the kinds of its owners were listed.
    /// A `ReplicaSet` with pods is none: its Deployment may become one of ours, and is not judged without it.
    fn is_stranger(&self, object: &WatchedObject) -> bool {
        let has_pods = object.replica_set().is_some_and(|set| !set.is_empty());
        if has_pods || matches!(object, WatchedObject::Application(_) | WatchedObject::Canary(_)) {
            return false;
        }
        let owner = object.meta().controller.as_ref().and_then(|owner| owner.kind);
        let owners: &[WatchedKind] = match owner {
            Some(WatchedKind::ReplicaSet) => &[WatchedKind::ReplicaSet, WatchedKind::Deployment],
            Some(WatchedKind::Job) => &[WatchedKind::Job, WatchedKind::CronJob],
            Some(WatchedKind::Deployment) => &[WatchedKind::Deployment],
            Some(WatchedKind::StatefulSet) => &[WatchedKind::StatefulSet],
            Some(WatchedKind::DaemonSet) => &[WatchedKind::DaemonSet],
            Some(WatchedKind::CronJob) => &[WatchedKind::CronJob],
            Some(WatchedKind::Pod | WatchedKind::Application | WatchedKind::Canary) | None => &[],
        };
        owners.iter().all(|kind| self.sights.contains_key(kind)) && !self.is_followed(object)
    }

    /// Checks that an object is a workload that is ours, names a commit or is Flagger's copy of one, or a part of such.
    fn is_followed(&self, object: &WatchedObject) -> bool {
        let is_marked = |one: &WatchedObject| {
            let meta = one.meta();
            let owner = meta.controller.as_ref().and_then(|owner| owner.kind);
            one.kind().is_workload()
                && (meta.marks != Marks::Unmarked || owner == Some(WatchedKind::Canary))
        };
        let owner = self.owner_of(object);
        let above = owner.and_then(|owner| self.owner_of(owner));
        is_marked(object) || owner.is_some_and(is_marked) || above.is_some_and(is_marked)
    }

    /// Checks that each kind that the rules read for objects of this kind was listed once, or cannot be.
    pub fn is_settled(&self, kind: WatchedKind) -> bool {
        let is_settled = |one: &WatchedKind| self.sights.contains_key(one);
        is_settled(&kind) && kind.inputs().iter().all(is_settled)
    }

    /// Checks that objects of this kind, or others that its rules read, were seen and are not at present.
    pub fn is_interrupted(&self, kind: WatchedKind) -> bool {
        let is_interrupted = |one: &WatchedKind| self.interrupted.contains(one) && self.sees(*one);
        is_interrupted(&kind) || kind.inputs().iter().any(is_interrupted)
    }

    /// Checks that objects of a kind may be in the cluster, and are not seen.
    pub fn is_hidden(&self, kind: WatchedKind) -> bool {
        !matches!(self.sights.get(&kind), Some(Sight::Listed | Sight::Absent))
    }

    /// Checks that the cluster was asked for a kind, and does not have it or does not show it.
    pub fn is_unavailable(&self, kind: WatchedKind) -> bool {
        matches!(self.sights.get(&kind), Some(Sight::Hidden | Sight::Absent))
    }

    /// Lists the kinds that the rules read for objects of this kind, and that may be there and are not seen.
    pub fn hidden_inputs(&self, kind: WatchedKind) -> Vec<WatchedKind> {
        kind.inputs().iter().copied().filter(|one| self.is_hidden(*one)).collect()
    }

    /// Checks that the objects of a kind are seen: their absence means something.
    pub fn sees(&self, kind: WatchedKind) -> bool {
        self.sights.get(&kind) == Some(&Sight::Listed)
    }

    /// Counts the objects that are too many, each once, and those that changed since again.
    pub fn left_out(&self) -> u64 {
        self.left_out.values().fold(0, |sum, one| sum.saturating_add(*one))
    }

    /// Counts the objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Checks that there are no objects.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Finds an object.
    pub fn get(&self, key: &ObjectKey) -> Option<&WatchedObject> {
        self.objects.get(key)
    }

    /// Lists the workloads of the cluster, in the order of their keys.
    pub fn workloads(&self) -> Vec<ObjectKey> {
        let mut keys: Vec<ObjectKey> =
            self.objects.keys().filter(|key| key.kind.is_workload()).cloned().collect();
        keys.sort();
        keys
    }

    /// Lists the objects of a kind, in the order of their keys.
    pub fn keys_of(&self, kind: WatchedKind) -> Vec<ObjectKey> {
        let mut keys: Vec<ObjectKey> =
            self.objects.keys().filter(|key| key.kind == kind).cloned().collect();
        keys.sort();
        keys
    }

    /// Lists the workloads of an app of ours, in the order of their keys.
    pub fn workloads_of_app(&self, namespace: &str, slug: &str) -> Vec<&WatchedObject> {
        let is_of_app = |object: &&WatchedObject| {
            let meta = object.meta();
            let is_marked = matches!(&meta.marks, Marks::Revision { app, .. } if &**app == slug);
            is_marked && &*meta.namespace == namespace && object.kind().is_workload()
        };
        let mut objects: Vec<_> = self.objects.values().filter(is_of_app).collect();
        objects.sort_by_key(|object| object.key());
        objects
    }

    /// Finds the Canary that takes a workload over.
    pub fn canary_of(&self, workload: &ObjectKey) -> Option<&FlaggerCanary> {
        self.get(self.canaries.get(workload)?)?.canary()
    }

    /// Lists the `ReplicaSet` objects of a Deployment.
    pub fn replica_sets<'a>(
        &'a self,
        deployment: &KubeDeployment,
    ) -> impl Iterator<Item = &'a ReplicaSet> + use<'a> {
        self.children_of(&deployment.meta.uid).filter_map(WatchedObject::replica_set)
    }

    /// Finds the `ReplicaSet` of a Deployment's present pod template.
    ///
    /// After `kubectl rollout restart` there are two of one template: the Deployment's revision number tells the present
    /// one. The number alone is not enough: the controller raises it after the template was changed, and until then the
    /// `ReplicaSet` of the release before has it.
    pub fn current_replica_set(&self, deployment: &KubeDeployment) -> Option<&ReplicaSet> {
        let number = deployment.meta.revision;
        self.replica_sets(deployment)
            .filter(|one| one.template == deployment.template && !one.template.is_empty())
            .max_by_key(|one| (number.is_some() && one.meta.revision == number, one.meta.revision))
    }

    /// Lists the pods of a workload, in the order of their names.
    pub fn pods_of(&self, workload: &WatchedObject) -> Vec<&PodRow> {
        let uid = &workload.meta().uid;
        let owner_uid = |object: &WatchedObject| match object.kind() {
            WatchedKind::ReplicaSet | WatchedKind::Job => Some(object.meta().uid.clone()),
            _ => None,
        };
        let owners = self.children_of(uid).filter_map(owner_uid);
        let owners: Vec<Box<str>> = std::iter::once(uid.clone()).chain(owners).collect();
        owners.iter().flat_map(|owner| self.pods_owned_by(owner)).collect()
    }

    /// Lists the pods that an owner has without anything between.
    pub fn pods_owned_by(&self, uid: &str) -> Vec<&PodRow> {
        self.children_of(uid).filter_map(WatchedObject::pod).collect()
    }

    fn children_of<'a>(&'a self, uid: &str) -> impl Iterator<Item = &'a WatchedObject> + use<'a> {
        let keys = self.children.get(uid).filter(|_| !uid.is_empty());
        keys.into_iter().flatten().filter_map(|key| self.objects.get(key))
    }

    /// Finds the workload that an object is a part of: itself, or the last one on the way over its owners.
    fn workload_of(&self, key: &ObjectKey) -> Option<ObjectKey> {
        let mut object = self.objects.get(key)?;
        if let WatchedObject::Canary(canary) = object {
            return canary.target.clone();
        }
        if key.kind == WatchedKind::Application {
            return Some(key.clone());
        }
        // A pod has at most two owners above it. More steps than that would be a circle. What stands above a workload,
        // a Canary above the Deployment that it made, is none.
        for _ in 0..4 {
            let is_part = |owner: &&WatchedObject| {
                owner.kind().is_workload() || owner.kind() == WatchedKind::ReplicaSet
            };
            match self.owner_of(object).filter(is_part) {
                Some(owner) => object = owner,
                None => break,
            }
        }
        object.kind().is_workload().then(|| object.key())
    }

    fn owner_of(&self, object: &WatchedObject) -> Option<&WatchedObject> {
        let meta = object.meta();
        let ControllerRef { kind, name, uid } = meta.controller.as_ref()?;
        let key =
            ObjectKey { kind: (*kind)?, namespace: meta.namespace.clone(), name: name.clone() };
        self.objects.get(&key).filter(|owner| owner.meta().uid == *uid)
    }
}

/// Compares the state that came with the one that is there; `None` where it is nothing new.
///
/// The versions of an object are numbers in every Kubernetes that there is. A watch may be resumed a little before the
/// last state it brought, so an older one is passed over; what a list has is the truth, also after a cluster was
/// restored from a backup and its numbers went back.
fn compare(
    present: &WatchedObject,
    object: &WatchedObject,
    is_listed: bool,
) -> Option<ObjectChange> {
    let (old, new) = (present.meta(), object.meta());
    let is_same = old.resource_version == new.resource_version && !new.resource_version.is_empty();
    if (is_same && old.uid == new.uid) || (is_older(old, new) && !is_listed) {
        return None;
    }
    Some(if old.uid == new.uid { ObjectChange::Updated } else { ObjectChange::Replaced })
}

/// Checks that the new state of an object is older than the one that is there, by their numbers.
pub(super) fn is_older(present: &ObjectMeta, new: &ObjectMeta) -> bool {
    let number = |version: &str| version.parse::<u64>().ok();
    match (number(&present.resource_version), number(&new.resource_version)) {
        (Some(present), Some(new)) => new < present,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn application(name: &str) -> WatchedObject {
        let json = json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}});
        WatchedObject::read(WatchedKind::Application, &json).unwrap()
    }

    #[test]
    fn objects_that_are_too_many_are_left_out_and_counted_until_the_next_list() {
        let mut index = ClusterIndex { limit: ObjectLimit(2), ..ClusterIndex::default() };
        let mut list = |names: &[&str]| {
            index.begin_list(WatchedKind::Application);
            for name in names {
                index.apply(application(name));
            }
            let gone = index.end_list(WatchedKind::Application).len();
            (index.len(), gone, index.left_out())
        };
        assert_eq!(list(&["a", "b", "c", "d"]), (2, 0, 2));
        assert_eq!(list(&["b", "c", "d"]), (1, 1, 2), "the place is free for the next list");
        assert_eq!(list(&["b", "c"]), (2, 0, 0));
    }
}
