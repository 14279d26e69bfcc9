//! The content of a repository's folder at one commit. Reads the object database only.

use std::path::Path;

use git2::{ObjectType, Oid, Repository, Tree, TreeEntry};

use crate::git::objects::tree;
use crate::model::id::CommitSha;

/// The mode of a submodule in a tree.
const SUBMODULE: i32 = 0o160_000;
/// The mode of a symbolic link in a tree.
const LINK: i32 = 0o120_000;

/// The limits of the read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotLimits {
    /// The most files of one folder.
    pub files: usize,
    /// The most bytes of one file.
    pub bytes: usize,
    /// The depth of the read; 1 is the folder itself.
    pub depth: usize,
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotEntry {
    /// The path below the folder, with `/` between names.
    pub path: String,
    /// The content of the entry.
    pub content: Content,
}

/// The content of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A file, with its bytes.
    File(Vec<u8>),
    /// A symbolic link.
    Link,
    /// Another repository's commit.
    Submodule,
}

/// A repository of this machine at one commit.
pub struct Snapshot {
    repo: Repository,
    commit: Oid,
    name: String,
}

impl Snapshot {
    /// Opens a repository, bare or with a work tree, at what git calls a revision: a commit, a
    /// branch, a tag, `HEAD~1`.
    ///
    /// # Errors
    /// A sentence with what is not there.
    pub fn open(repository: &Path, revision: &str) -> Result<Self, String> {
        let name = repository.display().to_string();
        let repo = Repository::open(repository)
            .map_err(|error| format!("{name} is no git repository: {}", error.message()))?;
        let commit = repo.revparse_single(revision).and_then(|object| object.peel_to_commit());
        let commit = commit.map(|commit| commit.id());
        let commit = commit
            .map_err(|error| format!("{name} has no commit {revision:?}: {}", error.message()))?;
        Ok(Self { repo, commit, name })
    }

    /// Returns the commit that the revision names.
    pub fn commit(&self) -> CommitSha {
        tree::sha(self.commit)
    }

    /// Reads the entries of a folder, as [`crate::git::clone::tracked_branch::TrackedBranch::folder`] gives it.
    ///
    /// # Errors
    /// A sentence: it is too much, or the repository is damaged.
    pub fn folder(&self, path: &str, limits: SnapshotLimits) -> Result<Vec<SnapshotEntry>, String> {
        read(&self.repo, self.commit, path, limits).map_err(|error| match error {
            FolderError::TooMuch => format!(
                "{} has too much in {path}: at most {} files of {} bytes each",
                self.name, limits.files, limits.bytes
            ),
            FolderError::Git(error) => format!("{} cannot be read: {}", self.name, error.message()),
        })
    }
}

/// The reason why a folder cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum FolderError {
    #[error("there is too much in it")]
    TooMuch,
    #[error(transparent)]
    Git(#[from] git2::Error),
}

/// Reads the entries of a folder at a commit, sorted by path; nothing where there is no such
/// folder.
pub(super) fn read(
    repo: &Repository,
    commit: Oid,
    path: &str,
    limits: SnapshotLimits,
) -> Result<Vec<SnapshotEntry>, FolderError> {
    let root = repo.find_commit(commit)?.tree()?;
    let mut entries = Vec::new();
    let folder = if path.is_empty() { Some(root) } else { tree::folder(repo, Some(&root), path)? };
    let Some(folder) = folder else { return Ok(entries) };
    collect(repo, &folder, "", limits, &mut entries)?;
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

fn collect(
    repo: &Repository,
    folder: &Tree<'_>,
    prefix: &str,
    limits: SnapshotLimits,
    entries: &mut Vec<SnapshotEntry>,
) -> Result<(), FolderError> {
    for entry in folder {
        let name = String::from_utf8_lossy(entry.name_bytes()).into_owned();
        if name.starts_with('.') {
            continue;
        }
        let path = format!("{prefix}{name}");
        if entry.kind() == Some(ObjectType::Tree) {
            if limits.depth > 1 {
                let inner = SnapshotLimits { depth: limits.depth - 1, ..limits };
                collect(repo, &repo.find_tree(entry.id())?, &format!("{path}/"), inner, entries)?;
            }
            continue;
        }
        if entries.len() >= limits.files {
            return Err(FolderError::TooMuch);
        }
        entries.push(SnapshotEntry { path, content: content(repo, &entry, limits)? });
    }
    Ok(())
}

fn content(
    repo: &Repository,
    entry: &TreeEntry<'_>,
    limits: SnapshotLimits,
) -> Result<Content, FolderError> {
    match entry.filemode() {
        LINK => Ok(Content::Link),
        SUBMODULE => Ok(Content::Submodule),
        _ if repo.odb()?.read_header(entry.id())?.0 > limits.bytes => Err(FolderError::TooMuch),
        _ => Ok(Content::File(repo.find_blob(entry.id())?.content().to_vec())),
    }
}
