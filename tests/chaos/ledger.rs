//! The model of a round: what the service has answered for, what was done to it, and what was found
//! to be wrong. Filled by the scenarios, read by [`crate::chaos::verdict`].

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use jiff::Timestamp;

use crate::harness::events::Event;

/// What may become of a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expectation {
    /// It succeeds, or a newer one of its repository and target takes its place. The newest succeeds.
    Deployed,
    /// The same, or a rule refuses it, or a person stops it.
    Contested,
    /// That rule refuses it.
    Refused(&'static str),
    /// A person has stopped it.
    Cancelled,
}

/// An event that was answered with 202.
#[derive(Debug, Clone)]
pub(crate) struct Accepted {
    pub(crate) event: Event,
    pub(crate) app: String,
    /// The deploy id of the answer.
    pub(crate) id: String,
    /// Its place among the events of its repository and target.
    pub(crate) sequence: usize,
    pub(crate) answered: Timestamp,
    pub(crate) expectation: Expectation,
}

/// A removal that was done.
#[derive(Debug, Clone)]
pub(crate) struct Removed {
    /// `manifests/TARGET/NAMESPACE/APP`
    pub(crate) folder: String,
    /// Of the answer, which is in the commit too.
    pub(crate) id: String,
    pub(crate) asked: Timestamp,
}

#[derive(Default)]
pub(crate) struct Entries {
    pub(crate) accepted: Vec<Accepted>,
    /// Deploy ids of rollbacks that were answered with 202.
    pub(crate) rollbacks: Vec<String>,
    pub(crate) removals: Vec<Removed>,
    /// Files that others committed, by path.
    pub(crate) foreign: BTreeMap<String, String>,
    pub(crate) counts: BTreeMap<&'static str, usize>,
    pub(crate) violations: Vec<String>,
}

/// Everything that a round knows.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Entries>);

impl Ledger {
    pub(crate) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap()
    }

    /// One more of that.
    pub(crate) fn count(&self, what: &'static str) {
        *self.entries().counts.entry(what).or_default() += 1;
    }

    /// Something is as it must not be.
    pub(crate) fn violation(&self, text: String) {
        self.entries().violations.push(text);
    }

    /// The same, unless it holds.
    pub(crate) fn require(&self, holds: bool, text: impl FnOnce() -> String) {
        if !holds {
            self.violation(text());
        }
    }

    /// The deploy ids of everything that was accepted: events and rollbacks.
    pub(crate) fn ids(&self) -> Vec<String> {
        let entries = self.entries();
        let events = entries.accepted.iter().map(|one| one.id.clone());
        events.chain(entries.rollbacks.iter().cloned()).collect()
    }

    /// Another opinion of what may become of a deployment.
    pub(crate) fn expect(&self, id: &str, expectation: Expectation) {
        let mut entries = self.entries();
        let found = entries.accepted.iter_mut().find(|one| one.id == id);
        found.expect("it was accepted").expectation = expectation;
    }
}
