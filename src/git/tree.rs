//! Edits of a root tree, made in the object database.
//!
//! No work tree and no index: only the folders on the way to a changed path are rewritten, so the
//! cost follows the depth of the path and not the size of the repository. What is not named in
//! the edits is carried over by its object id and cannot be lost. Knows no branch and no remote,
//! and not why anything is edited.

use std::collections::BTreeMap;
use std::path::Path;

use git2::{ErrorCode, ObjectType, Oid, Repository, Tree, TreeBuilder};

use crate::git::layout::RepoPath;
use crate::model::id::DeployId;
use crate::model::revision::ManifestFile;

const FILE: i32 = 0o100_644;
const FOLDER: i32 = 0o040_000;

/// What a change does to a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edited {
    /// The new root tree.
    Changed(Oid),
    /// Everything is there as it would be written.
    Unchanged,
    /// The change itself is there: an earlier try got through.
    AlreadyThere,
}

/// Why the change cannot be made.
#[derive(Debug)]
pub(super) enum TreeError {
    /// A file is where a folder must be.
    Blocked(String),
    /// What is at that path is not what the change was decided on.
    Moved(String),
    /// The object database failed.
    Git(git2::Error),
}

impl From<git2::Error> for TreeError {
    fn from(error: git2::Error) -> Self {
        Self::Git(error)
    }
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

/// Writes the files as one folder. Revision and `latest` share it: the same object twice.
pub(super) fn folder_of(repo: &Repository, files: &[ManifestFile]) -> Result<Oid, git2::Error> {
    let mut builder = repo.treebuilder(None)?;
    for file in files {
        builder.insert(file.name.as_str(), repo.blob(&file.bytes)?, FILE)?;
    }
    builder.write()
}

/// Edits below one folder, by name.
#[derive(Default)]
pub(super) struct Edits(BTreeMap<String, Node>);

enum Node {
    Inner(Edits),
    Leaf(Leaf),
}

/// What a path is made.
pub(super) enum Leaf {
    /// A file with these bytes.
    File(Oid),
    /// A folder that is there already as an object.
    Folder(Oid),
    /// Nothing.
    Gone,
}

impl Edits {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a file if there is one to write and `wanted(what is there, the new one)` says so.
    pub(super) fn file_if(
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

    pub(super) fn put(&mut self, path: &RepoPath, leaf: Leaf) {
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

    /// Writes the root that this makes of `base`.
    pub(super) fn apply(
        self,
        repo: &Repository,
        base: Option<&Tree<'_>>,
    ) -> Result<Oid, TreeError> {
        Ok(self.build(repo, base)?.write()?)
    }

    /// The folder that this makes of `base`, with its inner folders written before it. One in which
    /// nothing is left is left out: git keeps no empty folder.
    fn build<'repo>(
        self,
        repo: &'repo Repository,
        base: Option<&Tree<'_>>,
    ) -> Result<TreeBuilder<'repo>, TreeError> {
        let mut builder = repo.treebuilder(base)?;
        for (name, node) in self.0 {
            match node {
                Node::Inner(inner) => {
                    let below = inner_base(repo, base, &name)?;
                    let inner = inner.build(repo, below.as_ref()).map_err(|e| e.below(&name))?;
                    if inner.is_empty() {
                        take_out(&mut builder, &name)?;
                    } else {
                        builder.insert(name.as_str(), inner.write()?, FOLDER)?;
                    }
                }
                Node::Leaf(Leaf::File(id)) => drop(builder.insert(name.as_str(), id, FILE)?),
                Node::Leaf(Leaf::Folder(id)) => drop(builder.insert(name.as_str(), id, FOLDER)?),
                Node::Leaf(Leaf::Gone) => take_out(&mut builder, &name)?,
            }
        }
        Ok(builder)
    }
}

/// Takes a name out; one that is not there is out already.
fn take_out(builder: &mut TreeBuilder<'_>, name: &str) -> Result<(), git2::Error> {
    let is_there = builder.get(name)?.is_some();
    if is_there { builder.remove(name) } else { Ok(()) }
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
            other @ (Self::Moved(_) | Self::Git(_)) => other,
        }
    }
}
