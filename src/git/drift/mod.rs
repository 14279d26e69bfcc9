//! Manual edits: changes to an app's `latest` that the service did not write. Pure.
//!
//! `latest` is always one of the app's revisions, whoever put it there: a deployment, or a person who rolled back by
//! hand. Files that no revision has are an edit. Its diff is against the revision that differs least. `detect` reads
//! the repository, `difference` compares, and `secret` keeps secrets out of the diff. This file has the policy of a
//! deployment about an edit, and the place to report one.

mod difference;
pub(super) mod detect;
mod secret;

use std::sync::{Arc, Mutex};

use crate::git::error::WriteError;
use crate::git::writer::outcome::PushOutcome;
use crate::model::hand_edit::{HandEdit, HandEdits};
use crate::support::sync::lock;

/// A deployment's policy for manual edits, and the edit that was found. Clones share the edit: the writer has one, and
/// the caller keeps another.
#[derive(Debug, Clone, Default)]
pub struct DriftPolicy {
    /// The target's policy: a manual edit is replaced, or stops the deployment.
    pub policy: HandEdits,
    found: Arc<Mutex<Option<HandEdit>>>,
}

impl DriftPolicy {
    /// Builds the policy, with no edit found yet.
    pub fn new(policy: HandEdits) -> Self {
        Self { policy, found: Arc::default() }
    }

    /// Returns the hand edit that was found when the write was last tried, and what became of it
    /// once the write has ended.
    pub fn read_hand_edit(&self) -> Option<HandEdit> {
        lock(&self.found).clone()
    }

    /// Records the result of a try; each try searches again, and the last one counts.
    pub(in crate::git) fn note(&self, hand_edit: Option<HandEdit>) {
        *lock(&self.found) = hand_edit;
    }

    /// Records the end of the write: only a successful write has replaced anything.
    pub(in crate::git) fn record_result(&self, result: &Result<PushOutcome, WriteError>) {
        let (replaced, push_failed) = match result {
            Ok(PushOutcome::Pushed { .. } | PushOutcome::AlreadyPushed { .. }) => (true, false),
            Ok(PushOutcome::Unchanged { .. }) | Err(WriteError::HandEdited { .. }) => {
                (false, false)
            }
            Err(_) => (false, true),
        };
        let mut hand_edit = lock(&self.found);
        if let Some(hand_edit) = &mut *hand_edit {
            (hand_edit.replaced, hand_edit.push_failed) = (replaced, push_failed);
        }
    }
}
