//! The agent's side: keeps the present objects and what the service has of them, and makes the next report. Pure.
//!
//! A report that was not answered is made again with the same changes and the same number: whether the service has taken
//! it is not known. How the kinds are seen is told as it is at that moment, and only if nothing waits that is newer.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use jiff::Timestamp;

use crate::cluster::index::{ClusterIndex, is_older};
use crate::cluster::object::{ObjectKey, WatchedKind};
use crate::cluster::relay::failing::{FailingContainer, FailureSearch};
use crate::cluster::relay::report::{
    ClusterReport, ReportSession, ReportVerdict, ReportedChange, ReportedLog, ReportedObject,
    ReportedSight,
};
use crate::cluster::watch::event::ClusterEvent;
use crate::cluster::watch::health::{ClusterHealth, KindSight};
use crate::cluster::watched::WatchedObject;

/// While there are changes, objects that the index has dropped are looked for in every so many reports.
const DROPPED_INTERVAL: u64 = 64;

/// The most logs of a report: each has up to 32 KiB.
const MAX_LOGS: usize = 2;
/// The most logs that wait for a report, while the service is away; the oldest go first.
const MAX_WAITING_LOGS: usize = 32;

/// The bytes that a report has around a change, at most.
const FRAME_BYTES: usize = 256;

/// The limits of a report.
#[derive(Debug, Clone, Copy)]
pub struct ReportLimits {
    /// The most changes.
    pub changes: usize,
    /// The bytes of objects after which no other one is added.
    pub bytes: usize,
    /// The largest object, in bytes. A larger one is left out: a pod with a hundred containers that fail has a third.
    pub object_bytes: usize,
}

impl Default for ReportLimits {
    fn default() -> Self {
        Self { changes: 1000, bytes: 384 * 1024, object_bytes: 512 * 1024 }
    }
}

/// The state of an agent.
#[derive(Debug)]
pub struct ReportSender {
    agent: String,
    limits: ReportLimits,
    index: ClusterIndex,
    sights: BTreeMap<WatchedKind, ReportedSight>,
    /// True if the sights are others than in the last report that had them.
    has_new_sights: bool,
    /// The uid of each object that the service has, once it has taken the last report.
    known: HashMap<ObjectKey, Box<str>>,
    /// What it does not have.
    pending: BTreeMap<WatchedKind, PendingChanges>,
    /// The list that is being told.
    list: Option<ListProgress>,
    generation: u64,
    sequence: u64,
    /// The last report, until the service has taken it.
    unacknowledged: Option<ReportContent>,
    /// The search for containers whose logs are sent, too; `None` where none are.
    failures: Option<FailureSearch>,
    /// The logs that wait for a report.
    logs: VecDeque<ReportedLog>,
}

/// What the service is to take of a report.
#[derive(Debug, Clone)]
struct ReportContent {
    changes: Vec<ReportedChange>,
    logs: Vec<ReportedLog>,
}

/// The changes of a kind that the service does not have.
#[derive(Debug, Default)]
struct PendingChanges {
    /// All of its objects are to be listed.
    is_list_due: bool,
    /// The objects that are new, changed or gone.
    keys: BTreeSet<ObjectKey>,
}

/// The rest of a list.
#[derive(Debug)]
struct ListProgress {
    kind: WatchedKind,
    keys: VecDeque<ObjectKey>,
}

/// The changes of the next report, and their size.
struct ReportDraft {
    limits: ReportLimits,
    changes: Vec<ReportedChange>,
    bytes: usize,
}

impl ReportSender {
    /// Makes the state of an agent of that name, which has seen nothing so far.
    pub fn new(agent: String, limits: ReportLimits) -> Self {
        Self {
            agent,
            limits,
            index: ClusterIndex::new(),
            sights: BTreeMap::new(),
            has_new_sights: true,
            known: HashMap::new(),
            pending: BTreeMap::new(),
            list: None,
            generation: 1,
            sequence: 0,
            unacknowledged: None,
            failures: None,
            logs: VecDeque::new(),
        }
    }

    /// Finds the containers whose logs are to be sent, too.
    #[must_use]
    pub fn with_logs(self) -> Self {
        Self { failures: Some(FailureSearch::default()), ..self }
    }

    /// Returns the containers that fail since the last call; `is_timed` says that time has passed as well.
    pub fn failing_containers(&mut self, is_timed: bool, now: Timestamp) -> Vec<FailingContainer> {
        let Some(failures) = &mut self.failures else { return Vec::new() };
        if is_timed {
            failures.note_time();
        }
        failures.run(&self.index, now)
    }

    /// Takes the end of a log, for the next report.
    pub fn add_log(&mut self, log: ReportedLog) {
        self.logs.push_back(log);
        if self.logs.len() > MAX_WAITING_LOGS {
            self.logs.pop_front();
        }
    }

    /// Takes an event of the watches, whose state tells a kind that is not there from one that may not be seen.
    pub fn apply(&mut self, event: ClusterEvent, health: &ClusterHealth) {
        match event {
            ClusterEvent::RelistBegun(kind) => self.index.begin_list(kind),
            ClusterEvent::Listed(object) => {
                let key = object.key();
                let present = self.index.get(&key).map(WatchedObject::meta);
                // The numbers of a cluster that was restored from a backup went back: only a list is believed then.
                if present.is_some_and(|present| is_older(present, object.meta())) {
                    self.pending_of(key.kind).is_list_due = true;
                }
                self.take(*object);
            }
            ClusterEvent::Applied(object) => self.take(*object),
            ClusterEvent::RelistDone(kind) => {
                let is_first = !self.index.sees(kind);
                for change in self.index.end_list(kind) {
                    self.mark(change.key);
                }
                self.pending_of(kind).is_list_due |= is_first;
                self.note_list(kind);
                // An owner may have come after its pods.
                if let Some(failures) = &mut self.failures {
                    self.index.workloads().into_iter().for_each(|key| failures.note(key));
                }
            }
            ClusterEvent::Deleted(object) => {
                self.index.delete_object(&object);
                self.mark(object.key());
            }
            ClusterEvent::Unseen { kind, since, reason } => {
                let first = match self.sights.remove(&kind) {
                    Some(ReportedSight::Unseen { since: first, .. }) => first,
                    _ => since,
                };
                self.set_sight(kind, ReportedSight::Unseen { since: first, reason });
            }
            ClusterEvent::Seen(kind) => self.set_sight(kind, ReportedSight::Seen),
            ClusterEvent::Unavailable(kind) => {
                let sight = match health.kinds().remove(&kind) {
                    Some(KindSight::Absent) => ReportedSight::Absent,
                    Some(KindSight::Unseen { reason, .. }) => ReportedSight::Hidden { reason },
                    // It has come since: that is told next.
                    _ => ReportedSight::Hidden { reason: "it could not be listed".to_owned() },
                };
                self.give_up(kind, sight);
            }
        }
    }

    /// Checks that the service does not have all that is here.
    pub fn has_work(&self) -> bool {
        self.unacknowledged.is_some()
            || self.has_new_sights
            || self.has_changes()
            || !self.logs.is_empty()
    }

    /// Checks that there are changes of objects beside those of the last report.
    fn has_changes(&self) -> bool {
        let is_waiting = |one: &PendingChanges| one.is_list_due || !one.keys.is_empty();
        self.list.is_some() || self.pending.values().any(is_waiting)
    }

    /// Makes the next report: the last one again until it is answered, then one with the next changes. There is always
    /// one: without changes it says that the agent lives.
    pub fn next_report(&mut self, is_last: bool) -> ClusterReport {
        let content = if let Some(content) = &self.unacknowledged {
            content.clone()
        } else {
            self.sequence = self.sequence.saturating_add(1);
            if !self.has_changes() || self.sequence.is_multiple_of(DROPPED_INTERVAL) {
                self.mark_dropped();
            }
            let changes = self.draft();
            let logs = self.logs.drain(..self.logs.len().min(MAX_LOGS)).collect();
            self.unacknowledged.insert(ReportContent { changes, logs }).clone()
        };
        let ReportContent { changes, logs } = content;
        let is_whole = !self.has_changes();
        if is_whole {
            self.has_new_sights = false;
        }
        let sight_of = |kind| {
            let sight = self.sights.get(&kind).cloned();
            (kind, sight.unwrap_or(ReportedSight::Starting))
        };
        ClusterReport {
            session: ReportSession { agent: self.agent.clone(), generation: self.generation },
            sequence: self.sequence,
            changes,
            sights: is_whole.then(|| WatchedKind::ALL.into_iter().map(sight_of).collect()),
            logs: self.failures.is_some().then_some(logs),
            is_last,
        }
    }

    /// Takes the answer to the last report.
    pub fn take_verdict(&mut self, verdict: ReportVerdict) {
        match verdict {
            ReportVerdict::Accepted(sequence) if sequence == self.sequence => {
                self.unacknowledged = None;
            }
            // Another number is that of nobody here.
            ReportVerdict::Accepted(_) | ReportVerdict::Resync | ReportVerdict::Outdated => {
                self.begin_session();
            }
            ReportVerdict::OtherAgent => {}
        }
    }

    /// Returns the number of the session.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Checks that the last report was the first one of its session.
    pub fn is_first(&self) -> bool {
        self.sequence == 1
    }

    /// Counts the objects that are kept.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Counts the objects that are too many to be kept.
    pub fn left_out(&self) -> u64 {
        self.index.left_out()
    }

    /// Checks that there are no objects.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Begins to tell everything anew.
    fn begin_session(&mut self) {
        self.generation = self.generation.saturating_add(1);
        // Whether the service had the logs is not known.
        let logs = self.unacknowledged.take().map(|content| content.logs).unwrap_or_default();
        for log in logs.into_iter().rev() {
            self.logs.push_front(log);
        }
        (self.sequence, self.list) = (0, None);
        self.has_new_sights = true;
        self.known.clear();
        self.pending.clear();
        for kind in WatchedKind::ALL {
            self.pending_of(kind).is_list_due = self.index.sees(kind);
        }
    }

    /// Notes that a kind has objects after all. Whether their changes arrive is the watch's word, which follows.
    fn note_list(&mut self, kind: WatchedKind) {
        let reason = match self.sights.get(&kind) {
            Some(ReportedSight::Hidden { reason }) => reason.clone(),
            Some(ReportedSight::Absent) => "it is watched in a moment".to_owned(),
            _ => return,
        };
        self.set_sight(kind, ReportedSight::Unseen { since: None, reason });
    }

    fn set_sight(&mut self, kind: WatchedKind, sight: ReportedSight) {
        self.has_new_sights = true;
        self.sights.insert(kind, sight);
    }

    fn take(&mut self, object: WatchedObject) {
        let Some(change) = self.index.apply(object) else { return };
        self.mark(change.key);
        if let (Some(failures), Some(workload)) = (&mut self.failures, change.workload) {
            failures.note(workload);
        }
    }

    fn give_up(&mut self, kind: WatchedKind, sight: ReportedSight) {
        match sight {
            ReportedSight::Absent => self.index.give_up(kind),
            _ => self.index.hide(kind),
        };
        // With that word the service drops its objects by itself.
        self.set_sight(kind, sight);
        self.pending.remove(&kind);
        self.known.retain(|key, _| key.kind != kind);
        self.list.take_if(|list| list.kind == kind);
    }

    fn pending_of(&mut self, kind: WatchedKind) -> &mut PendingChanges {
        self.pending.entry(kind).or_default()
    }

    fn mark(&mut self, key: ObjectKey) {
        // What neither side has is no change: pods that come and go during an outage take no memory.
        let is_needed = self.index.get(&key).is_some() || self.known.contains_key(&key);
        let pending = self.pending_of(key.kind);
        if !is_needed {
            pending.keys.remove(&key);
        } else if !pending.is_list_due {
            // Otherwise a list will have it.
            pending.keys.insert(key);
        }
    }

    /// Marks objects that the service has and the index has dropped, as those of nobody.
    fn mark_dropped(&mut self) {
        let is_dropped = |key: &&ObjectKey| self.index.get(key).is_none();
        let dropped: Vec<ObjectKey> = self.known.keys().filter(is_dropped).cloned().collect();
        for key in dropped {
            self.mark(key);
        }
    }

    /// Takes the next changes out of what waits: lists first, then single objects.
    fn draft(&mut self) -> Vec<ReportedChange> {
        let mut draft = ReportDraft { limits: self.limits, changes: Vec::new(), bytes: 0 };
        while !draft.is_full() {
            if let Some(list) = &mut self.list {
                let kind = list.kind;
                if let Some(key) = list.keys.pop_front() {
                    self.draft_object(&mut draft, key, ReportedChange::Listed);
                } else {
                    draft.changes.push(ReportedChange::ListDone(kind));
                    self.list = None;
                }
            } else if let Some(kind) = self.next_list() {
                self.known.retain(|key, _| key.kind != kind);
                draft.changes.push(ReportedChange::ListBegun(kind));
                self.list = Some(ListProgress { kind, keys: self.index.keys_of(kind).into() });
            } else if let Some(key) = self.next_key() {
                self.draft_object(&mut draft, key, ReportedChange::Applied);
            } else {
                break;
            }
        }
        draft.changes
    }

    /// Adds the present state of an object, or that it is gone.
    fn draft_object(
        &mut self,
        draft: &mut ReportDraft,
        key: ObjectKey,
        change: fn(ReportedObject) -> ReportedChange,
    ) {
        if let Some(object) = self.index.get(&key)
            && let Some(reported) = draft.admit(object)
        {
            self.known.insert(key, object.meta().uid.clone());
            draft.changes.push(change(reported));
        } else if let Some(uid) = self.known.remove(&key) {
            let size = key.namespace.len() + key.name.len() + uid.len() + FRAME_BYTES;
            draft.bytes = draft.bytes.saturating_add(size);
            draft.changes.push(ReportedChange::Deleted(key, uid.into_string()));
        }
    }

    fn next_list(&mut self) -> Option<WatchedKind> {
        let (kind, pending) = self.pending.iter_mut().find(|(_, pending)| pending.is_list_due)?;
        *pending = PendingChanges::default();
        Some(*kind)
    }

    fn next_key(&mut self) -> Option<ObjectKey> {
        self.pending.values_mut().find_map(|pending| pending.keys.pop_first())
    }
}

impl ReportDraft {
    fn is_full(&self) -> bool {
        self.changes.len() >= self.limits.changes || self.bytes >= self.limits.bytes
    }

    /// Writes an object and counts its bytes; `None` where it is too large.
    fn admit(&mut self, object: &WatchedObject) -> Option<ReportedObject> {
        let reported = ReportedObject::new(object);
        let bytes = reported.object.to_string().len();
        if bytes > self.limits.object_bytes {
            let object = object.key();
            tracing::warn!(%object, bytes, "an object is too large to be reported, and left out");
            return None;
        }
        self.bytes = self.bytes.saturating_add(bytes).saturating_add(FRAME_BYTES);
        Some(reported)
    }
}
