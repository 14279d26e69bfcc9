//! A deployment as a change: the revision's folder, `latest`, the Application, and the removal of the oldest revisions.

use git2::Oid;

use crate::git::drift::DriftPolicy;
use crate::git::drift::detect::find_hand_edit;
use crate::git::error::{StepError, WriteError};
use crate::git::layout::{self, LATEST, RepoPath};
use crate::git::message::Note;
use crate::git::objects::ObjectOverlay;
use crate::git::objects::edits::{self, EditOutcome, Edits, Leaf};
use crate::git::objects::folder::EntryKind;
use crate::model::hand_edit::HandEdits;
use crate::model::id::{AppKey, DeployId, TargetName};
use crate::model::revision::Revision;

/// One deployment's change.
#[derive(Debug, Clone)]
pub struct DeploymentChange {
    /// The rendered files.
    pub revision: Revision,
    /// The bytes of `apps/<cluster>/<namespace>.<app>.yaml`; `None` leaves that file alone.
    pub application: Option<Vec<u8>>,
    /// `apps/<cluster>/project.yaml`.
    pub project: Option<ProjectFile>,
    /// The bytes of `apps/<cluster>.yaml`, written only if that file is absent.
    pub parent: Option<Vec<u8>>,
    /// The content of the commit message.
    pub note: Note,
    /// The policy for a manual edit, and the place to report one.
    pub hand_edits: DriftPolicy,
}

/// The file of a cluster's project.
#[derive(Debug, Clone)]
pub struct ProjectFile {
    /// The bytes for a missing file.
    pub bytes: Vec<u8>,
    /// The function that derives new bytes from the existing ones and those that would be written; `None` leaves them
    /// alone.
    pub follow: fn(&[u8], &[u8]) -> Option<Vec<u8>>,
}

/// The most bytes of a project that is read.
const LARGEST_PROJECT: usize = 1024 * 1024;

/// Applies a deployment to the root of a tip; `None` is an empty repository.
pub(in crate::git) fn edit(
    objects: &mut ObjectOverlay<'_>,
    root: Option<Oid>,
    write: &DeploymentChange,
) -> Result<EditOutcome, StepError> {
    let DeploymentChange { revision, application, project, parent, note: _, hand_edits } = write;
    let (target, app) = (&revision.target, &revision.app);
    let present = PresentRevisions::read(objects, root, target, app)?;
    if present.revisions.iter().any(|(id, _)| *id == revision.id) {
        return Ok(EditOutcome::AlreadyThere);
    }
    let files = edits::folder_of(objects, &revision.files)?;
    let mut edits = Edits::default();
    let file = layout::application_file(target, app);
    edits.file_if(objects, root, &file, application.as_deref(), |now, new| now != Some(new))?;
    if let Some(project) = project {
        edit_project(objects, root, &layout::project_file(target), project, &mut edits)?;
    }
    let file = layout::parent_file(target);
    edits.file_if(objects, root, &file, parent.as_deref(), |now, _| now.is_none())?;
    if edits.is_empty() && present.latest == Some(files) {
        hand_edits.note(None);
        return Ok(EditOutcome::Unchanged);
    }
    let latest = layout::latest_folder(target, app);
    present.watch(objects, &latest, files, hand_edits)?;
    let revisions: Vec<_> = present.revisions.into_iter().map(|(id, _)| id).collect();
    for id in layout::revisions_to_prune(&revisions, &revision.id, &revision.id) {
        edits.put(&layout::revision_folder(target, app, &id), Leaf::Gone);
    }
    edits.put(&layout::revision_folder(target, app, &revision.id), Leaf::Folder(files));
    edits.put(&latest, Leaf::Folder(files));
    Ok(EditOutcome::Changed(edits.apply(objects, root)?))
}

fn edit_project(
    objects: &mut ObjectOverlay<'_>,
    root: Option<Oid>,
    file: &RepoPath,
    project: &ProjectFile,
    edits: &mut Edits,
) -> Result<(), git2::Error> {
    let ProjectFile { bytes, follow } = project;
    let followed = match objects.find(root, file)? {
        None => Some(bytes.clone()),
        Some((id, EntryKind::File)) if id != ObjectOverlay::id_of(bytes)? => {
            let former_bytes = objects.read_file(id, LARGEST_PROJECT)?;
            former_bytes.and_then(|former_bytes| follow(&former_bytes, bytes))
        }
        Some(_) => None,
    };
    edits.file_if(objects, root, file, followed.as_deref(), |now, new| now != Some(new))
}

/// The revisions of an app on a target.
#[derive(Default)]
pub(in crate::git) struct PresentRevisions {
    pub(in crate::git) revisions: Vec<(DeployId, Oid)>,
    pub(in crate::git) latest: Option<Oid>,
}

impl PresentRevisions {
    /// Reads it, and notes what of it the server has: most of a deployment's files are those of the
    /// one before.
    pub(in crate::git) fn read(
        objects: &mut ObjectOverlay<'_>,
        root: Option<Oid>,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<Self, git2::Error> {
        let path = layout::app_folder(target, app);
        let Some((_, folder)) = objects.folder_at(root, &path)? else { return Ok(Self::default()) };
        objects.are_there(&folder);
        let folders = folder.entries().filter(|entry| entry.kind == EntryKind::Folder);
        let entries =
            folders.filter_map(|entry| Some((std::str::from_utf8(entry.name).ok()?, entry.id)));
        let mut history = Self::default();
        for (name, id) in entries {
            if name == LATEST {
                history.latest = Some(id);
            } else if let Ok(name) = DeployId::parse(name) {
                history.revisions.push((name, id));
            }
        }
        if let Some(latest) = history.latest {
            let files = objects.read_folder(latest)?;
            objects.are_there(&files);
        }
        Ok(history)
    }
    /// Records a manual edit, if another folder at `path` would replace it.
    pub(in crate::git) fn watch(
        &self,
        objects: &ObjectOverlay<'_>,
        path: &RepoPath,
        by: Oid,
        hand_edits: &DriftPolicy,
    ) -> Result<(), StepError> {
        let ((repo, tip), path) = (objects.base(), path.to_string());
        let hand_edit = match self.latest {
            Some(now) if now == by => None,
            now => find_hand_edit(repo, tip, &path, now, &self.revisions)?,
        };
        hand_edits.note(hand_edit.clone());
        match hand_edit.filter(|_| hand_edits.policy == HandEdits::Stop) {
            Some(edit) => {
                let (repository, edit) = (objects.repository.to_owned(), Box::new(edit));
                Err(WriteError::HandEdited { repository, path, edit }.into())
            }
            None => Ok(()),
        }
    }
}
