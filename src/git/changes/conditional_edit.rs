//! A change that depends on the content that was read before: paths are set or removed, if they still have that
//! content.
//!
//! Other people's commits beside those paths do not matter, and the change is applied on top of them; a commit that
//! touched one of them makes the decision void, and nothing is done.

use git2::Oid;

use crate::git::error::StepError;
use crate::git::layout::RepoPath;
use crate::git::message::CommitMessage;
use crate::git::objects::ObjectOverlay;
use crate::git::objects::edits::{EditOutcome, Edits, Leaf};
use crate::git::objects::folder::EntryKind;

/// A change that was decided on after a look.
#[derive(Debug, Clone)]
pub struct ConditionalEdit {
    /// The content of the paths at the time of the decision.
    pub seen: Vec<(RepoPath, Precondition)>,
    /// The edits.
    pub edits: Vec<(RepoPath, Edit)>,
    /// The commit message.
    pub message: CommitMessage,
}

/// The new content of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// A file with these bytes. It never takes a folder's place.
    File(Vec<u8>),
    /// No content: the file is removed, or the folder with everything in it.
    Gone,
}

/// The content of a path, by its object id; nothing else has the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Precondition(pub(in crate::git) Option<Oid>);

impl Precondition {
    /// Returns whether something was there: a file or a folder.
    pub fn is_something(self) -> bool {
        self.0.is_some()
    }
}

/// Applies the change to the root of a tip; `None` is an empty repository.
pub(in crate::git) fn edit(
    objects: &mut ObjectOverlay<'_>,
    root: Option<Oid>,
    conditional_edit: &ConditionalEdit,
) -> Result<EditOutcome, StepError> {
    let ConditionalEdit { seen, edits, message } = conditional_edit;
    let mut new_edits = Edits::default();
    for (path, edit) in edits {
        add(objects, root, path, edit, &mut new_edits)?;
    }
    if new_edits.is_empty() && root.is_some() {
        let is_named = message.id.is_some();
        return Ok(if is_named { EditOutcome::AlreadyThere } else { EditOutcome::Unchanged });
    }
    for (path, Precondition(expected_id)) in seen {
        if objects.find(root, path)?.map(|(id, _)| id) != *expected_id {
            return Err(objects.moved_error(path));
        }
    }
    Ok(EditOutcome::Changed(new_edits.apply(objects, root)?))
}

fn add(
    objects: &mut ObjectOverlay<'_>,
    root: Option<Oid>,
    path: &RepoPath,
    edit: &Edit,
    edits: &mut Edits,
) -> Result<(), StepError> {
    let entry = objects.find(root, path)?;
    match (edit, entry) {
        (Edit::Gone, None) => Ok(()),
        (Edit::Gone, Some(_)) => {
            edits.put(path, Leaf::Gone);
            Ok(())
        }
        (Edit::File(_), Some((_, EntryKind::Folder))) => Err(objects.moved_error(path)),
        (Edit::File(bytes), _) => {
            Ok(edits.file_if(objects, root, path, Some(bytes), |now, new| now != Some(new))?)
        }
    }
}
