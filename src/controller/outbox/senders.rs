//! The families of sinks that this process tells, each with its door.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::controller::outbox::door::{Door, Heard};
use crate::controller::outbox::rates::Rates;
use crate::model::notice::Family;

/// What the sender of one family goes by.
#[derive(Debug)]
pub(in crate::controller) struct Sender {
    pub(super) family: Family,
    door: Mutex<Door>,
}

/// Every family that has a sender. Clones share them.
#[derive(Debug, Default)]
pub(in crate::controller) struct Senders(Mutex<BTreeMap<Family, Arc<Sender>>>);

impl Senders {
    /// The sender of the family, and a new one where there is none.
    pub(in crate::controller) fn of(&self, family: &Family, rates: &Rates) -> Arc<Sender> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Sender::new(family.clone(), rates));
        Arc::clone(all.entry(family.clone()).or_insert_with(new))
    }

    /// All that there are so far.
    pub(in crate::controller) fn all(&self) -> Vec<Arc<Sender>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().cloned().collect()
    }
}

impl Sender {
    fn new(family: Family, rates: &Rates) -> Self {
        let rate = match &family {
            Family::Forge => rates.forge,
            Family::Slack => rates.slack,
            Family::Events(_) => rates.events,
            Family::ArgoCd(_) => rates.argocd,
        };
        Self { family, door: Mutex::new(Door::new(rate)) }
    }

    /// The family's word, for metrics.
    pub(in crate::controller) fn name(&self) -> String {
        self.family.to_string()
    }

    /// Until when nothing is tried, if that is so.
    pub(in crate::controller) fn closed_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.door().closed_until(now)
    }

    /// When something may be tried: now, or later.
    pub(in crate::controller) fn next(&self, now: Timestamp) -> Timestamp {
        self.door().next(now)
    }

    pub(super) fn admit(&self, most: u32, now: Timestamp) -> u32 {
        self.door().admit(most, now)
    }

    pub(super) fn turned_back(&self, n: u32) {
        self.door().turned_back(n);
    }

    pub(super) fn spends_more(&self, n: u32, now: Timestamp) {
        self.door().spends_more(n, now);
    }

    pub(super) fn is_closed(&self, now: Timestamp) -> bool {
        self.door().is_closed(now)
    }

    /// What one that went through has heard; what it changes is logged once.
    pub(super) fn heard(&self, heard: Heard, now: Timestamp, reason: &str) {
        let (closed, until) = {
            let mut door = self.door();
            (door.heard(heard, now), door.closed_until(now))
        };
        if let Some(until) = until.filter(|_| closed) {
            let family = &self.family;
            tracing::warn!(%family, %until, reason, "nothing more is told for a while");
        }
    }

    fn door(&self) -> MutexGuard<'_, Door> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
