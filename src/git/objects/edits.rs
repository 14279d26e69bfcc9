//! Edits of a root folder in memory.
//!
//! There is no work tree and no index: only the folders on the way to a changed path are written again, so the cost
//! follows the depth of the path and not the size of the repository. Every entry that the edits do not name is carried
//! over by its object id and cannot be lost. The module knows no branch, no remote, and no reason for an edit.

use std::collections::BTreeMap;

use git2::Oid;

use crate::git::error::{StepError, WriteError};
use crate::git::layout::RepoPath;
use crate::git::objects::ObjectOverlay;
use crate::git::objects::folder::{EntryKind, Folder};
use crate::model::revision::ManifestFile;

/// The result of a change to a root folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::git) enum EditOutcome {
    /// The new root.
    Changed(Oid),
    /// Everything is there as it would be written.
    Unchanged,
    /// The change itself is there: an earlier try got through.
    AlreadyThere,
}

/// Makes the files one folder. Revision and `latest` share it: the same object twice.
pub(in crate::git) fn folder_of(
    objects: &mut ObjectOverlay<'_>,
    files: &[ManifestFile],
) -> Result<Oid, git2::Error> {
    let mut folder = Folder::default();
    for file in files {
        folder.put(&file.name, EntryKind::File, objects.file(&file.bytes)?);
    }
    objects.folder(folder, None)
}

/// Edits below one folder, by name.
#[derive(Default)]
pub(in crate::git) struct Edits(BTreeMap<String, Node>);

enum Node {
    Inner(Edits),
    Leaf(Leaf),
}

/// The new content of a path.
pub(in crate::git) enum Leaf {
    /// A file of these bytes.
    File(Oid),
    /// A folder that is there already as an object.
    Folder(Oid),
    /// No content.
    Gone,
}

impl Edits {
    pub(in crate::git) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a file if there is one to write and `wanted(the existing one, the new one)` is true.
    pub(in crate::git) fn file_if(
        &mut self,
        objects: &mut ObjectOverlay<'_>,
        root: Option<Oid>,
        path: &RepoPath,
        bytes: Option<&[u8]>,
        wanted: impl Fn(Option<Oid>, Oid) -> bool,
    ) -> Result<(), git2::Error> {
        let Some(bytes) = bytes else { return Ok(()) };
        let current_id = objects.find(root, path)?.map(|(id, _)| id);
        if wanted(current_id, ObjectOverlay::id_of(bytes)?) {
            let file_id = objects.file(bytes)?;
            self.put(path, Leaf::File(file_id));
        }
        Ok(())
    }

    pub(in crate::git) fn put(&mut self, path: &RepoPath, leaf: Leaf) {
        let [folders @ .., name] = path.parts() else { return };
        let mut at = self;
        for folder in folders {
            let node = at.0.entry(folder.clone()).or_insert(Node::Inner(Self::default()));
            // The layout never names a path below another change; if it did, the outer one wins.
            let Node::Inner(inner) = node else { return };
            at = inner;
        }
        at.0.insert(name.clone(), Node::Leaf(leaf));
    }

    /// Makes the root that this makes of `base`.
    pub(in crate::git) fn apply(
        self,
        objects: &mut ObjectOverlay<'_>,
        base: Option<Oid>,
    ) -> Result<Oid, StepError> {
        match self.build(objects, base, "")? {
            Some(root) => Ok(root),
            None => Ok(objects.folder(Folder::default(), None)?),
        }
    }

    /// Builds the folder of these edits on `base`, with its inner folders before it; `None` if nothing is left in it:
    /// git keeps no empty folder. `path` is where it is, for errors.
    fn build(
        self,
        objects: &mut ObjectOverlay<'_>,
        base: Option<Oid>,
        path: &str,
    ) -> Result<Option<Oid>, StepError> {
        let former = match base {
            Some(base) => Some((base, objects.read_folder(base)?)),
            None => None,
        };
        let mut folder = former.as_ref().map(|(_, folder)| folder.clone()).unwrap_or_default();
        for (name, node) in self.0 {
            match node {
                Node::Inner(inner) => {
                    let at = format!("{path}{name}");
                    let inner_folder = inner_base(objects, &folder, &name, &at)?;
                    match inner.build(objects, inner_folder, &format!("{at}/"))? {
                        Some(folder_id) => folder.put(&name, EntryKind::Folder, folder_id),
                        None => folder.remove(&name),
                    }
                }
                Node::Leaf(Leaf::File(id)) => folder.put(&name, EntryKind::File, id),
                Node::Leaf(Leaf::Folder(id)) => folder.put(&name, EntryKind::Folder, id),
                Node::Leaf(Leaf::Gone) => folder.remove(&name),
            }
        }
        if folder.is_empty() {
            return Ok(None);
        }
        let former = former.as_ref().map(|(id, folder)| (*id, folder));
        Ok(Some(objects.folder(folder, former)?))
    }
}

/// Returns the folder of that name as it is; a file there belongs to a person, and stops the change.
fn inner_base(
    objects: &ObjectOverlay<'_>,
    folder: &Folder,
    name: &str,
    path: &str,
) -> Result<Option<Oid>, WriteError> {
    match folder.get(name) {
        None => Ok(None),
        Some(entry) if entry.kind == EntryKind::Folder => Ok(Some(entry.id)),
        Some(_) => Err(WriteError::Blocked {
            repository: objects.repository.to_owned(),
            path: path.to_owned(),
        }),
    }
}
