//! A deployment as a change: the revision's folder, `latest`, the Application, and what falls out
//! of the history.

use git2::{ObjectType, Repository, Tree};

use crate::git::handedit::Watch;
use crate::git::layout;
use crate::git::message::Note;
use crate::git::tree::{self, Edited, Edits, Leaf, TreeError};
use crate::model::id::DeployId;
use crate::model::revision::Revision;

/// One deployment's change.
#[derive(Debug, Clone)]
pub struct Write {
    /// The rendered files.
    pub revision: Revision,
    /// The bytes of `apps/<cluster>/<namespace>.<app>.yaml`; `None` leaves that file alone.
    pub application: Option<Vec<u8>>,
    /// The bytes of `apps/<cluster>/project.yaml`, written only if that file is absent.
    pub project: Option<Vec<u8>>,
    /// The bytes of `apps/<cluster>.yaml`, written only if that file is absent.
    pub parent: Option<Vec<u8>>,
    /// What the commit says.
    pub note: Note,
    /// What is to be done about what somebody edited by hand, and where that is told.
    pub hand_edits: Watch,
}

/// Applies a deployment to the root tree of a tip; `None` is an empty repository.
pub(super) fn edit(
    repo: &Repository,
    root: Option<&Tree<'_>>,
    write: &Write,
) -> Result<Edited, TreeError> {
    let Write { revision, application, project, parent, note: _, hand_edits: _ } = write;
    let (target, app) = (&revision.target, &revision.app);
    let revision_folder = layout::revision_folder(target, app, &revision.id);
    if tree::find(root, &revision_folder)?.is_some() {
        return Ok(Edited::AlreadyThere);
    }
    let files = tree::folder_of(repo, &revision.files)?;
    let mut edits = Edits::default();
    edits.file_if(
        repo,
        root,
        &layout::application_file(target, app),
        application.as_deref(),
        |now, new| now != Some(new),
    )?;
    for (path, bytes) in
        [(layout::project_file(target), project), (layout::parent_file(target), parent)]
    {
        edits.file_if(repo, root, &path, bytes.as_deref(), |now, _| now.is_none())?;
    }
    let latest = layout::latest_folder(target, app);
    if edits.is_empty() && tree::find(root, &latest)? == Some((files, ObjectType::Tree)) {
        return Ok(Edited::Unchanged);
    }
    for id in layout::pruned(&revisions(repo, root, write)?, &revision.id, &revision.id) {
        edits.put(&layout::revision_folder(target, app, &id), Leaf::Gone);
    }
    edits.put(&revision_folder, Leaf::Folder(files));
    edits.put(&latest, Leaf::Folder(files));
    Ok(Edited::Changed(edits.apply(repo, root)?))
}

fn revisions(
    repo: &Repository,
    root: Option<&Tree<'_>>,
    write: &Write,
) -> Result<Vec<DeployId>, git2::Error> {
    let folder = layout::app_folder(&write.revision.target, &write.revision.app);
    Ok(tree::revision_folders(repo, root, &folder)?.into_iter().map(|(id, _)| id).collect())
}
