//! The service's side: takes each report of a session once, turns it into events, and notices that an agent is silent.
//! Pure; times are arguments.
//!
//! It lives as long as the index that its events go to. Another process, or the same one after it lost its lease, begins
//! with another receiver, which knows no session, and so gets everything anew.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::cluster::object::WatchedKind;
use crate::cluster::relay::report::{
    ClusterReport, REASON_BYTES, ReportSession, ReportVerdict, ReportedChange, ReportedObject,
    ReportedSight,
};
use crate::cluster::watch::event::ClusterEvent;
use crate::cluster::watch::health::{ClusterHealth, KindSight};
use crate::cluster::watched::WatchedObject;
use crate::support::text::truncate_bytes;
use crate::support::time::saturating_add;

/// The silence of an agent after which its cluster is not seen any more: three of its signs of life.
const SILENCE: SignedDuration = SignedDuration::from_secs(30);
/// The silence after which another agent takes its place. One that stops says so, and is replaced at once.
const TAKEOVER: SignedDuration = SignedDuration::from_secs(15);

/// The most objects of one list: no index of an agent has more. Those above it are left out and counted.
const MAX_LISTED: u64 = 250_000;

/// The reports of one cluster's agent, as far as they were taken.
#[derive(Debug)]
pub struct ReportReceiver {
    /// The time from which reports could come.
    begun: Timestamp,
    current: Option<CurrentSession>,
    /// The last word on each kind.
    sights: BTreeMap<WatchedKind, ReportedSight>,
    /// The lists under way, with the number of objects that came since they began.
    lists: BTreeMap<WatchedKind, u64>,
    /// The kinds of which there was a whole list.
    listed: BTreeSet<WatchedKind>,
    is_silent: bool,
}

/// The session whose reports are taken.
#[derive(Debug)]
struct CurrentSession {
    session: ReportSession,
    sequence: u64,
    /// The time of the last report that was taken.
    heard: Timestamp,
    /// The agent has said that it stops.
    is_over: bool,
}

/// What becomes of a report.
#[derive(Debug)]
#[must_use = "the events are given out once: apply them"]
pub struct ReportReception {
    /// The answer to the agent.
    pub verdict: ReportVerdict,
    /// The events that it brings.
    pub events: Vec<ClusterEvent>,
    /// The number of objects that could not be read.
    pub unreadable: u64,
}

impl ReportReceiver {
    /// Makes a receiver that knows no session.
    pub fn new(now: Timestamp) -> Self {
        Self {
            begun: now,
            current: None,
            sights: BTreeMap::new(),
            lists: BTreeMap::new(),
            listed: BTreeSet::new(),
            is_silent: false,
        }
    }

    /// Takes a report, and sets the state of the kinds.
    pub fn receive(
        &mut self,
        report: ClusterReport,
        health: &ClusterHealth,
        now: Timestamp,
    ) -> ReportReception {
        let before = self.current.as_ref().map_or(0, |current| current.sequence);
        let verdict = self.judge(&report, now);
        let mut reception = ReportReception { verdict, events: Vec::new(), unreadable: 0 };
        let ReportVerdict::Accepted(sequence) = verdict else { return reception };
        let is_repeated = sequence == before && self.is_current(&report.session);
        if !is_repeated {
            for change in report.changes {
                match self.read(change) {
                    Some(event) => reception.events.push(event),
                    None => reception.unreadable += 1,
                }
            }
        }
        let session = report.session;
        self.current =
            Some(CurrentSession { session, sequence, heard: now, is_over: report.is_last });
        // A repetition of an earlier one may be older than what came since.
        if let Some(mut sights) = report.sights.filter(|_| report.sequence == sequence) {
            self.is_silent = false;
            for kind in WatchedKind::ALL {
                let sight = sights.remove(&kind).unwrap_or_else(|| ReportedSight::Hidden {
                    reason: "the agent does not know the kind: upgrade it".to_owned(),
                });
                reception.events.extend(self.set_sight(kind, sight, health, now));
            }
        }
        reception
    }

    /// Judges silence: after half a minute nothing of the cluster is seen.
    pub fn tick(&mut self, health: &ClusterHealth, now: Timestamp) -> Vec<ClusterEvent> {
        let since = self.current.as_ref().map(|current| current.heard);
        if self.is_silent || now < saturating_add(since.unwrap_or(self.begun), SILENCE) {
            return Vec::new();
        }
        self.is_silent = true;
        let reason = match since {
            Some(since) => format!("the agent has not reported since {since:.0}"),
            None => "no agent has reported yet: see docs/clusters.md".to_owned(),
        };
        tracing::warn!(cluster = %health.cluster(), reason, "agent silent");
        let kinds = health.kinds();
        let mut events = Vec::new();
        for (kind, sight) in kinds {
            if sight != KindSight::Absent {
                let unseen = KindSight::Unseen { since, reason: reason.clone() };
                health.set(kind, unseen);
                events.push(ClusterEvent::Unseen { kind, since, reason: reason.clone() });
            }
        }
        events
    }

    /// Decides about a report, by the session and the number.
    fn judge(&self, report: &ClusterReport, now: Timestamp) -> ReportVerdict {
        let ClusterReport { session, sequence, .. } = report;
        let begin = match sequence {
            1 => ReportVerdict::Accepted(1),
            _ => ReportVerdict::Resync,
        };
        let Some(current) = &self.current else { return begin };
        if current.session.agent != session.agent {
            let is_gone = current.is_over || now >= saturating_add(current.heard, TAKEOVER);
            return if is_gone { begin } else { ReportVerdict::OtherAgent };
        }
        if session.generation < current.session.generation {
            return ReportVerdict::Outdated;
        }
        if session.generation > current.session.generation {
            return begin;
        }
        if *sequence <= current.sequence {
            return ReportVerdict::Accepted(current.sequence);
        }
        let is_next = *sequence == current.sequence.saturating_add(1);
        if is_next { ReportVerdict::Accepted(*sequence) } else { ReportVerdict::Resync }
    }

    fn is_current(&self, session: &ReportSession) -> bool {
        self.current.as_ref().is_some_and(|current| current.session == *session)
    }

    /// Sets how a kind is seen; returns the event where that is news for the index.
    fn set_sight(
        &mut self,
        kind: WatchedKind,
        sight: ReportedSight,
        health: &ClusterHealth,
        now: Timestamp,
    ) -> Option<ClusterEvent> {
        let before = self.sights.insert(kind, sight.clone());
        let shorten = |reason: String| truncate_bytes(&reason, REASON_BYTES).into_owned();
        match sight {
            ReportedSight::Seen => {
                health.set(kind, KindSight::Seen).then_some(ClusterEvent::Seen(kind))
            }
            // An agent that was started anew: what was seen before stays, and may be old.
            ReportedSight::Starting if self.listed.contains(&kind) => {
                let reason = "the agent has been started anew, and lists it".to_owned();
                set_unseen(kind, Some(now), reason, health)
            }
            ReportedSight::Starting => {
                health.set(kind, KindSight::Starting);
                None
            }
            ReportedSight::Unseen { since, reason } => {
                let since = since.map(|since| since.min(now));
                set_unseen(kind, since, shorten(reason), health)
            }
            ReportedSight::Hidden { reason } => {
                health.set(kind, KindSight::Unseen { since: None, reason: shorten(reason) });
                let is_hidden = matches!(before, Some(ReportedSight::Hidden { .. }));
                (!is_hidden).then(|| self.drop_kind(kind))
            }
            ReportedSight::Absent => {
                health.set(kind, KindSight::Absent);
                let is_absent = before == Some(ReportedSight::Absent);
                (!is_absent).then(|| self.drop_kind(kind))
            }
        }
    }

    /// Reads a change; `None` for an object without a name, and for one too many of a list.
    fn read(&mut self, change: ReportedChange) -> Option<ClusterEvent> {
        Some(match change {
            ReportedChange::ListBegun(kind) => {
                self.lists.insert(kind, 0);
                // It may get objects: that it is hidden, or absent, is news again.
                self.sights.remove(&kind);
                ClusterEvent::RelistBegun(kind)
            }
            ReportedChange::Listed(object) => ClusterEvent::Listed(self.read_object(&object)?),
            ReportedChange::ListDone(kind) => {
                self.lists.remove(&kind);
                self.listed.insert(kind);
                ClusterEvent::RelistDone(kind)
            }
            ReportedChange::Applied(object) => ClusterEvent::Applied(self.read_object(&object)?),
            ReportedChange::Deleted(key, uid) => {
                ClusterEvent::Deleted(Box::new(WatchedObject::with_key(&key, &uid).ok()?))
            }
        })
    }

    fn read_object(&mut self, object: &ReportedObject) -> Option<Box<WatchedObject>> {
        let count = self.lists.get_mut(&object.kind);
        let is_too_many = count.is_some_and(|count| {
            *count = count.saturating_add(1);
            *count > MAX_LISTED
        });
        if is_too_many { None } else { object.read().ok().map(Box::new) }
    }

    fn drop_kind(&mut self, kind: WatchedKind) -> ClusterEvent {
        self.lists.remove(&kind);
        self.listed.remove(&kind);
        ClusterEvent::Unavailable(kind)
    }
}

/// Sets a kind that is not seen at present; returns the event where that is news.
fn set_unseen(
    kind: WatchedKind,
    since: Option<Timestamp>,
    reason: String,
    health: &ClusterHealth,
) -> Option<ClusterEvent> {
    let sight = KindSight::Unseen { since, reason: reason.clone() };
    health.set(kind, sight).then_some(ClusterEvent::Unseen { kind, since, reason })
}
