//! A rollback as a change: `latest` becomes a former revision's folder again, the same object. Nothing is rendered and
//! no file of it is written, so its bytes cannot change. The app's Application may be written beside it.

use git2::Oid;

use crate::git::changes::conditional_edit::Precondition;
use crate::git::changes::deployment;
use crate::git::drift::DriftPolicy;
use crate::git::error::StepError;
use crate::git::layout;
use crate::git::message::{CommitMessage, RollbackNote};
use crate::git::objects::ObjectOverlay;
use crate::git::objects::edits::{EditOutcome, Edits, Leaf};
use crate::git::objects::folder;
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::rollback::TreeId;

/// One rollback's change.
#[derive(Debug, Clone)]
pub struct Restore {
    /// The target.
    pub target: TargetName,
    /// The app.
    pub app: AppKey,
    /// The revision that becomes live again.
    pub to: DeployId,
    /// The tree of the revision at the time of the decision.
    pub tree: TreeId,
    /// The `latest` that it was judged by: another one makes it void.
    pub over: ExpectedLatest,
    /// The Application at the time of the decision, and its new content; another one makes the rollback void. `None`
    /// leaves it alone.
    pub application: Option<(Precondition, Vec<u8>)>,
    /// The commit message.
    pub message: CommitMessage,
    /// The policy for a manual edit, and the place to report one.
    pub hand_edits: DriftPolicy,
}

/// The condition on the `latest` that a rollback replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedLatest {
    /// Any.
    Any,
    /// This tree, or none.
    Exactly(Option<TreeId>),
}

impl Restore {
    /// Builds the change of that rollback, with its commit message.
    pub fn new(note: &RollbackNote, tree: TreeId, hand_edits: DriftPolicy) -> Self {
        let RollbackNote { target, app, to, .. } = note.clone();
        let message = CommitMessage::of_rollback(note);
        let over = ExpectedLatest::Any;
        Self { target, app, to, tree, over, application: None, message, hand_edits }
    }

    /// Returns the change with a condition: it is void if `latest` is another tree than that one by then.
    #[must_use]
    pub fn expecting_latest(self, latest: Option<TreeId>) -> Self {
        Self { over: ExpectedLatest::Exactly(latest), ..self }
    }

    /// Returns the change with the app's Application, which is written if it is still the same as at the decision.
    #[must_use]
    pub fn with_application(self, application: Option<(Precondition, Vec<u8>)>) -> Self {
        Self { application, ..self }
    }
}

/// Applies a rollback to the root of a tip. A revision that is gone, or is not what was decided on, makes
/// it void.
pub(in crate::git) fn edit(
    objects: &mut ObjectOverlay<'_>,
    root: Option<Oid>,
    restore: &Restore,
) -> Result<EditOutcome, StepError> {
    let Restore { target, app, to, tree, over, application, message: _, hand_edits } = restore;
    let folder = layout::revision_folder(target, app, to);
    let revision_entry = objects.find(root, &folder)?;
    let Some((revision_id, folder::EntryKind::Folder)) =
        revision_entry.filter(|(id, _)| id.to_string() == tree.0)
    else {
        return Err(objects.moved_error(&folder));
    };
    let present = deployment::PresentRevisions::read(objects, root, target, app)?;
    if present.latest == Some(revision_id) {
        return Ok(EditOutcome::AlreadyThere);
    }
    let latest = layout::latest_folder(target, app);
    let now = present.latest.map(|id| TreeId(id.to_string()));
    if matches!(over, ExpectedLatest::Exactly(expected) if *expected != now) {
        return Err(objects.moved_error(&latest));
    }
    present.watch(objects, &latest, revision_id, hand_edits)?;
    let mut edits = Edits::default();
    if let Some((Precondition(expected_id), bytes)) = application {
        let file = layout::application_file(target, app);
        if objects.find(root, &file)?.map(|(id, _)| id) != *expected_id {
            return Err(objects.moved_error(&file));
        }
        edits.file_if(objects, root, &file, Some(bytes), |now, new| now != Some(new))?;
    }
    edits.put(&latest, Leaf::Folder(revision_id));
    Ok(EditOutcome::Changed(edits.apply(objects, root)?))
}
