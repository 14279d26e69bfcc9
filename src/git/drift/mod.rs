//! Whether somebody edited an app's `latest` by hand, and what. Pure.
//!
//! `latest` is always one of the app's revisions, whoever put it there: a deployment, or a person who
//! rolled back by hand. Files that no revision has are an edit. It is told against the revision that
//! differs least. Knows no repository: `detect` reads there. Here is what a deployment does about one, and
//! where it tells of it.

mod difference;
pub(super) mod detect;
mod secret;

use std::sync::{Arc, Mutex};

use crate::git::error::WriteError;
use crate::git::writer::outcome::PushOutcome;
use crate::model::hand_edit::{HandEdit, HandEdits};
use crate::support::sync::lock;

/// A deployment's policy about hand edits, and what was found. Clones share what was found: the
/// writer has one, and who asked for the write keeps another.
#[derive(Debug, Clone, Default)]
pub struct DriftPolicy {
    /// What is to be done.
    pub policy: HandEdits,
    found: Arc<Mutex<Option<HandEdit>>>,
}

impl DriftPolicy {
    /// A watch that has found nothing.
    pub fn new(policy: HandEdits) -> Self {
        Self { policy, found: Arc::default() }
    }

    /// Returns the hand edit that was found when the write was last tried, and what became of it
    /// once the write has ended.
    pub fn read_hand_edit(&self) -> Option<HandEdit> {
        lock(&self.found).clone()
    }

    /// Each try looks anew: what counts is what the last one met.
    pub(in crate::git) fn note(&self, found: Option<HandEdit>) {
        *lock(&self.found) = found;
    }

    /// Only a write that got through has replaced anything.
    pub(in crate::git) fn ended(&self, ended: &Result<PushOutcome, WriteError>) {
        let (replaced, push_failed) = match ended {
            Ok(PushOutcome::Pushed { .. } | PushOutcome::AlreadyPushed { .. }) => (true, false),
            Ok(PushOutcome::Unchanged { .. }) | Err(WriteError::HandEdited { .. }) => {
                (false, false)
            }
            Err(_) => (false, true),
        };
        let mut found = lock(&self.found);
        if let Some(found) = &mut *found {
            (found.replaced, found.push_failed) = (replaced, push_failed);
        }
    }
}
