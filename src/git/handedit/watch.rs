//! What a deployment does about a hand edit, and where it tells of one.

use std::sync::{Arc, Mutex, PoisonError};

use crate::model::hand_edit::{HandEdit, HandEdits};

/// A deployment's policy about hand edits, and what was found. Clones share what was found: the
/// writer has one, and who asked for the write keeps another.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    /// What is to be done.
    pub policy: HandEdits,
    found: Arc<Mutex<Option<HandEdit>>>,
}

impl Watch {
    /// A watch that has found nothing.
    pub fn new(policy: HandEdits) -> Self {
        Self { policy, found: Arc::default() }
    }

    /// What was found when the write was last tried.
    pub fn found(&self) -> Option<HandEdit> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Each try looks anew: what counts is what the last one met.
    pub(in crate::git) fn note(&self, found: Option<HandEdit>) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = found;
    }
}
