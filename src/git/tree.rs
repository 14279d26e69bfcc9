//! One deployment's change as a new root tree, made in the object database.
//!
//! No work tree and no index: only the folders on the way to a changed path are rewritten, so the
//! cost follows the depth of the path and not the size of the repository. What is not named in
//! the change is carried over by its object id and cannot be lost. Knows no branch and no remote.

use std::collections::BTreeMap;
use std::path::Path;

use git2::{ErrorCode, ObjectType, Oid, Repository, Tree};

use crate::git::layout::{self, RepoPath};
use crate::git::writer::Write;
use crate::model::id::DeployId;
use crate::model::revision::ManifestFile;

const FILE: i32 = 0o100_644;
const FOLDER: i32 = 0o040_000;

/// What a deployment does to a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edited {
    /// The new root tree.
    Changed(Oid),
    /// `latest` and the application are there as they would be written.
    Unchanged,
    /// The revision of that deploy id is there: an earlier try got through.
    AlreadyThere,
}

/// Why the change cannot be made.
#[derive(Debug)]
pub(super) enum TreeError {
    /// A file is where a folder must be.
    Blocked(String),
    /// The object database failed.
    Git(git2::Error),
}

impl From<git2::Error> for TreeError {
    fn from(error: git2::Error) -> Self {
        Self::Git(error)
    }
}

/// Applies a deployment to the root tree of a tip; `None` is an empty repository.
pub(super) fn edit(
    repo: &Repository,
    root: Option<&Tree<'_>>,
    write: &Write,
) -> Result<Edited, TreeError> {
    let Write { revision, application, parent, note: _ } = write;
    let (target, app) = (&revision.target, &revision.app);
    let revision_folder = layout::revision_folder(target, app, &revision.id);
    if find(root, &revision_folder)?.is_some() {
        return Ok(Edited::AlreadyThere);
    }
    let files = folder_of(repo, &revision.files)?;
    let mut change = Change::default();
    change.file_if(
        repo,
        root,
        &layout::application_file(target, app),
        application.as_deref(),
        |now, new| now != Some(new),
    )?;
    change.file_if(repo, root, &layout::parent_file(target), parent.as_deref(), |now, _| {
        now.is_none()
    })?;
    let latest = layout::latest_folder(target, app);
    if change.is_empty() && find(root, &latest)? == Some((files, ObjectType::Tree)) {
        return Ok(Edited::Unchanged);
    }
    for id in layout::pruned(&revisions(repo, root, write)?, &revision.id, &revision.id) {
        change.put(&layout::revision_folder(target, app, &id), Leaf::Gone);
    }
    change.put(&revision_folder, Leaf::Folder(files));
    change.put(&latest, Leaf::Folder(files));
    Ok(Edited::Changed(change.apply(repo, root)?))
}

/// What is at a path: its object and its kind.
pub(super) fn find(
    root: Option<&Tree<'_>>,
    path: &RepoPath,
) -> Result<Option<(Oid, ObjectType)>, git2::Error> {
    find_text(root, &path.to_string())
}

/// The same for any text; what cannot be a path is not there.
pub(super) fn find_text(
    root: Option<&Tree<'_>>,
    path: &str,
) -> Result<Option<(Oid, ObjectType)>, git2::Error> {
    let Some(root) = root.filter(|_| is_path(path)) else { return Ok(None) };
    match root.get_path(Path::new(path)) {
        Ok(entry) => Ok(Some((entry.id(), entry.kind().unwrap_or(ObjectType::Any)))),
        Err(error) if error.code() == ErrorCode::NotFound && is_no_entry(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// git2 gives an error for the others that looks like damage.
fn is_path(text: &str) -> bool {
    !text.contains('\0') && text.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// A missing entry and a missing object have the same code; only the first is an answer.
fn is_no_entry(error: &git2::Error) -> bool {
    error.class() == git2::ErrorClass::Tree
}

/// The folders of an app that are named like a deploy id. Anything else there is not ours.
pub(super) fn revision_folders(
    repo: &Repository,
    root: Option<&Tree<'_>>,
    folder: &RepoPath,
) -> Result<Vec<(DeployId, Oid)>, git2::Error> {
    let Some((id, ObjectType::Tree)) = find(root, folder)? else { return Ok(Vec::new()) };
    let tree = repo.find_tree(id)?;
    let folders = tree.iter().filter(|entry| entry.kind() == Some(ObjectType::Tree));
    Ok(folders
        .filter_map(|entry| {
            let name = entry.name().ok()?;
            Some((DeployId::parse(name).ok()?, entry.id()))
        })
        .collect())
}

fn revisions(
    repo: &Repository,
    root: Option<&Tree<'_>>,
    write: &Write,
) -> Result<Vec<DeployId>, git2::Error> {
    let folder = layout::app_folder(&write.revision.target, &write.revision.app);
    Ok(revision_folders(repo, root, &folder)?.into_iter().map(|(id, _)| id).collect())
}

/// Writes the files as one folder. Revision and `latest` share it: the same object twice.
fn folder_of(repo: &Repository, files: &[ManifestFile]) -> Result<Oid, git2::Error> {
    let mut builder = repo.treebuilder(None)?;
    for file in files {
        builder.insert(file.name.as_str(), repo.blob(&file.bytes)?, FILE)?;
    }
    builder.write()
}

/// Edits below one folder, by name.
#[derive(Default)]
struct Change(BTreeMap<String, Node>);

enum Node {
    Inner(Change),
    Leaf(Leaf),
}

enum Leaf {
    File(Oid),
    Folder(Oid),
    Gone,
}

impl Change {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a file if there is one to write and `wanted(what is there, the new one)` says so.
    fn file_if(
        &mut self,
        repo: &Repository,
        root: Option<&Tree<'_>>,
        path: &RepoPath,
        bytes: Option<&[u8]>,
        wanted: impl Fn(Option<Oid>, Oid) -> bool,
    ) -> Result<(), git2::Error> {
        let Some(bytes) = bytes else { return Ok(()) };
        let blob = repo.blob(bytes)?;
        if wanted(find(root, path)?.map(|(id, _)| id), blob) {
            self.put(path, Leaf::File(blob));
        }
        Ok(())
    }

    fn put(&mut self, path: &RepoPath, leaf: Leaf) {
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

    /// Writes the folder that this makes of `base`, and its inner folders before it.
    fn apply(self, repo: &Repository, base: Option<&Tree<'_>>) -> Result<Oid, TreeError> {
        let mut builder = repo.treebuilder(base)?;
        for (name, node) in self.0 {
            match node {
                Node::Inner(inner) => {
                    let below = inner_base(repo, base, &name)?;
                    let id = inner.apply(repo, below.as_ref()).map_err(|e| e.below(&name))?;
                    builder.insert(name.as_str(), id, FOLDER)?;
                }
                Node::Leaf(Leaf::File(id)) => drop(builder.insert(name.as_str(), id, FILE)?),
                Node::Leaf(Leaf::Folder(id)) => drop(builder.insert(name.as_str(), id, FOLDER)?),
                Node::Leaf(Leaf::Gone) => builder.remove(name.as_str())?,
            }
        }
        Ok(builder.write()?)
    }
}

/// The folder of that name as it is; a file there is somebody's, and stops the change.
fn inner_base<'repo>(
    repo: &'repo Repository,
    base: Option<&Tree<'_>>,
    name: &str,
) -> Result<Option<Tree<'repo>>, TreeError> {
    let Some(entry) = base.and_then(|tree| tree.get_name(name)) else { return Ok(None) };
    match entry.kind() {
        Some(ObjectType::Tree) => Ok(Some(repo.find_tree(entry.id())?)),
        _ => Err(TreeError::Blocked(name.to_owned())),
    }
}

impl TreeError {
    fn below(self, folder: &str) -> Self {
        match self {
            Self::Blocked(path) => Self::Blocked(format!("{folder}/{path}")),
            Self::Git(error) => Self::Git(error),
        }
    }
}
