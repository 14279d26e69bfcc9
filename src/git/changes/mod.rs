//! The changes to a manifest repository; each becomes one commit.

pub(super) mod deployment;
pub(super) mod rollback;
pub(super) mod conditional_edit;

use git2::Oid;

use crate::git::author::CommitAuthor;
use crate::git::changes::conditional_edit::ConditionalEdit;
use crate::git::changes::deployment::DeploymentChange;
use crate::git::changes::rollback::Restore;
use crate::git::error::StepError;
use crate::git::message::commit_message;
use crate::git::objects::ObjectOverlay;
use crate::git::objects::edits::EditOutcome;
use crate::model::id::DeployId;

/// One change, which becomes one commit.
#[derive(Debug, Clone)]
pub(super) enum ManifestChange {
    /// A deployment: it does not matter what was there.
    Deploy(Box<DeploymentChange>),
    /// A former revision is made live again.
    Restore(Box<Restore>),
    /// A change that depends on the content that was read before.
    Amend(ConditionalEdit),
}

impl ManifestChange {
    /// Returns the root that the change makes of a tip's root; `None` is an empty repository.
    pub(super) fn edit(
        &self,
        objects: &mut ObjectOverlay<'_>,
        root: Option<Oid>,
    ) -> Result<EditOutcome, StepError> {
        match self {
            Self::Deploy(write) => deployment::edit(objects, root, write),
            Self::Restore(restore) => rollback::edit(objects, root, restore),
            Self::Amend(conditional_edit) => {
                conditional_edit::edit(objects, root, conditional_edit)
            }
        }
    }

    /// Returns the commit's message.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Deploy(write) => {
                let edit = write.hand_edits.read_hand_edit();
                commit_message(&write.revision, &write.note, edit.as_ref())
            }
            Self::Restore(restore) => {
                let edit = restore.hand_edits.read_hand_edit();
                restore.message.with_replaced_edit(edit.as_ref())
            }
            Self::Amend(conditional_edit) => conditional_edit.message.text.clone(),
        }
    }

    /// Returns the author of the change; `None` where no person asked for it.
    pub(super) fn author_of_change(&self) -> Option<CommitAuthor<'_>> {
        match self {
            Self::Deploy(write) => Some(CommitAuthor::Login(&write.note.actor)),
            Self::Restore(restore) => restore.message.actor.as_deref().map(CommitAuthor::Named),
            Self::Amend(conditional_edit) => {
                conditional_edit.message.actor.as_deref().map(CommitAuthor::Named)
            }
        }
    }

    /// Returns the id that its commit is found again by.
    pub(super) fn id(&self) -> Option<&DeployId> {
        match self {
            Self::Deploy(write) => Some(&write.revision.id),
            Self::Restore(restore) => restore.message.id.as_ref(),
            Self::Amend(conditional_edit) => conditional_edit.message.id.as_ref(),
        }
    }
}
