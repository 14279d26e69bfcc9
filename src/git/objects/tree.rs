//! The reader of a repository's commits and trees, for all code that only reads. Knows no branch and no remote.

use std::path::Path;

use git2::{Commit, ErrorCode, ObjectType, Oid, Repository, Tree};

use crate::git::layout::{self, RepoPath};
use crate::git::message::is_of;
use crate::model::id::{AppKey, CommitSha, DeployId, TargetName};
use crate::model::live_history::AppFolders;
use crate::model::revision::ManifestFile;
use crate::model::rollback::TreeId;

/// The number of commits that are searched for a deploy id, or for the author of a folder: it was lost by a crash, not
/// by a year.
pub(in crate::git) const MAX_SEARCHED: usize = 1_000;

/// A name and its object.
pub(in crate::git) type NamedEntry = (String, Oid);

/// Returns the commit of that object id.
pub(in crate::git) fn sha(id: Oid) -> CommitSha {
    CommitSha::parse(id.to_string()).expect("git prints an object id as hexadecimal digits")
}

/// Returns the object, or `None` if it is not here.
pub(in crate::git) fn if_present<T>(
    result: Result<T, git2::Error>,
) -> Result<Option<T>, git2::Error> {
    match result {
        Ok(result) => Ok(Some(result)),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the root of a commit's tree; an empty repository has none.
pub(in crate::git) fn root(
    repo: &Repository,
    tip: Option<Oid>,
) -> Result<Option<Tree<'_>>, git2::Error> {
    tip.map(|tip| repo.find_commit(tip)?.tree()).transpose()
}

/// Lists the commits backwards from `tip`, by first parents; a shallow clone ends somewhere.
pub(in crate::git) fn back(repo: &Repository, tip: Oid) -> impl Iterator<Item = Commit<'_>> {
    std::iter::successors(repo.find_commit(tip).ok(), |commit| commit.parent(0).ok())
}

/// Finds the commit of a deployment, a rollback or a removal backwards from `tip`.
pub(in crate::git) fn commit_of<'r>(
    repo: &'r Repository,
    tip: Oid,
    id: &DeployId,
) -> Option<Commit<'r>> {
    let mut commits = back(repo, tip).take(MAX_SEARCHED);
    commits.find(|commit| is_of(&String::from_utf8_lossy(commit.message_bytes()), id))
}

/// Returns the parent as the commit names it, if there is one: at the edge of a shallow clone git itself says that
/// there is none.
pub(in crate::git) fn parent(commit: &Commit<'_>) -> Result<Option<Oid>, git2::Error> {
    let header = commit.raw_header_bytes();
    let parent = header.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"parent "));
    parent.map(|digits| Oid::from_str(&String::from_utf8_lossy(digits))).transpose()
}

/// Returns the object and its kind at a path.
pub(in crate::git) fn find(
    root: Option<&Tree<'_>>,
    path: &RepoPath,
) -> Result<Option<(Oid, ObjectType)>, git2::Error> {
    find_text(root, &path.to_string())
}

/// Finds the object at a path of any text; a text that cannot be a path has none.
pub(in crate::git) fn find_text(
    root: Option<&Tree<'_>>,
    path: &str,
) -> Result<Option<(Oid, ObjectType)>, git2::Error> {
    let Some(root) = root.filter(|_| is_path(path)) else { return Ok(None) };
    match root.get_path(Path::new(path)) {
        Ok(entry) => Ok(Some((entry.id(), entry.kind().unwrap_or(ObjectType::Any)))),
        // A missing entry and a missing object have the same code; only the first is an answer.
        Err(error)
            if error.code() == ErrorCode::NotFound && error.class() == git2::ErrorClass::Tree =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Checks that a text can be a path: for others git2 gives an error that looks like damage.
fn is_path(text: &str) -> bool {
    !text.contains('\0') && text.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Returns the folder at a path; `None` where nothing or something else is.
pub(in crate::git) fn folder<'r>(
    repo: &'r Repository,
    root: Option<&Tree<'_>>,
    path: &str,
) -> Result<Option<Tree<'r>>, git2::Error> {
    match find_text(root, path)? {
        Some((id, ObjectType::Tree)) => repo.find_tree(id).map(Some),
        _ => Ok(None),
    }
}

/// Returns the bytes of the file at a path; `None` where nothing or something else is.
pub(in crate::git) fn file(
    repo: &Repository,
    root: Option<&Tree<'_>>,
    path: &RepoPath,
) -> Result<Option<Vec<u8>>, git2::Error> {
    match find(root, path)? {
        Some((id, ObjectType::Blob)) => Ok(Some(repo.find_blob(id)?.content().to_vec())),
        _ => Ok(None),
    }
}

/// Returns the folders in a folder, by name.
pub(in crate::git) fn folders(tree: &Tree<'_>) -> Vec<NamedEntry> {
    entries(tree, ObjectType::Tree).collect()
}

/// Returns the wanted files in a folder, by name.
pub(in crate::git) fn files(tree: &Tree<'_>, wanted: impl Fn(&str) -> bool) -> Vec<NamedEntry> {
    entries(tree, ObjectType::Blob).filter(|(name, _)| wanted(name)).collect()
}

fn entries(tree: &Tree<'_>, kind: ObjectType) -> impl Iterator<Item = NamedEntry> {
    let entries = tree.iter().filter(move |entry| entry.kind() == Some(kind));
    entries.map(|entry| (String::from_utf8_lossy(entry.name_bytes()).into_owned(), entry.id()))
}

/// Reads the files, and names those that have more than `largest` bytes.
pub(in crate::git) fn read(
    repo: &Repository,
    files: &[NamedEntry],
    largest: Option<usize>,
) -> Result<(Vec<ManifestFile>, Vec<String>), git2::Error> {
    let odb = repo.odb()?;
    let (mut contents, mut left_out) = (Vec::with_capacity(files.len()), Vec::new());
    for (name, id) in files {
        // The header first: a huge file is left out without being read.
        if let Some(largest) = largest
            && odb.read_header(*id)?.0 > largest
        {
            left_out.push(name.clone());
        } else {
            contents
                .push(ManifestFile { name: name.clone(), bytes: odb.read(*id)?.data().to_vec() });
        }
    }
    Ok((contents, left_out))
}

/// Reads the first `most` files of a folder; nothing of a folder that is not there.
pub(in crate::git) fn read_folder(
    repo: &Repository,
    folder: Option<&Tree<'_>>,
    most: usize,
    largest: Option<usize>,
) -> Result<(Vec<ManifestFile>, Vec<String>), git2::Error> {
    let mut entries = folder.map_or_else(Vec::new, |folder| files(folder, |_| true));
    let rest = entries.split_off(entries.len().min(most));
    let (files, mut left_out) = read(repo, &entries, largest)?;
    left_out.extend(rest.into_iter().map(|(name, _)| name));
    Ok((files, left_out))
}

/// Lists the folders of an app that are named like a deploy id. Other entries there do not belong to the service.
pub(in crate::git) fn revision_folders(
    repo: &Repository,
    root: Option<&Tree<'_>>,
    target: &TargetName,
    app: &AppKey,
) -> Result<Vec<(DeployId, Oid)>, git2::Error> {
    let tree = folder(repo, root, &layout::app_folder(target, app).to_string())?;
    let folders_of_app = tree.as_ref().map_or_else(Vec::new, folders).into_iter();
    Ok(folders_of_app.filter_map(|(name, id)| Some((DeployId::parse(name).ok()?, id))).collect())
}

/// Reads the revisions of an app on a target, and its `latest`, each by its tree.
pub(in crate::git) fn read_history(
    repo: &Repository,
    root: Option<&Tree<'_>>,
    target: &TargetName,
    app: &AppKey,
) -> Result<AppFolders, git2::Error> {
    let mut revisions = revision_folders(repo, root, target, app)?;
    revisions.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
    let to_ids = |(id, tree): (DeployId, Oid)| (id, TreeId(tree.to_string()));
    let latest = find(root, &layout::latest_folder(target, app))?;
    Ok(AppFolders {
        revisions: revisions.into_iter().map(to_ids).collect(),
        latest: latest.map(|(tree, _)| TreeId(tree.to_string())),
    })
}
