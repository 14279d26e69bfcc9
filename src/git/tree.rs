//! What is at a path of a commit's tree, for those who only read. Knows no branch and no remote.

use std::path::Path;

use git2::{ErrorCode, ObjectType, Oid, Repository, Tree};

use crate::git::layout::RepoPath;
use crate::model::id::DeployId;

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
