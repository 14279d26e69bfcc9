//! All files of an app in the repository on one target, and the content of other paths.
//!
//! It is for a caller that decides on a change: each content comes with its [`Precondition`], so that the change is
//! made only if the content is still the same.

use git2::{ObjectType, Repository, Tree, TreeWalkMode, TreeWalkResult};

use crate::git::changes::conditional_edit::Precondition;
use crate::git::error::WriteError;
use crate::git::layout::{self, RepoPath};
use crate::git::objects::tree;
use crate::git::writer::ManifestRepository;
use crate::model::id::{AppKey, CommitSha, DeployId, TargetName};
use crate::model::revision::ManifestFile;

/// The most paths of an app that are listed; five revisions and `latest` have a few dozen.
const PATHS_LIMIT: usize = 10_000;
/// The most files of `latest` that are read.
const FILES_LIMIT: usize = 1_000;

/// All files of an app in the repository on one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footprint {
    /// The bytes of its Application.
    pub application: Option<Vec<u8>>,
    /// The files of `latest`.
    pub latest: Vec<ManifestFile>,
    /// Every path of it, the Application's first.
    pub paths: Vec<String>,
    /// Entries of its folder that the service did not write: neither `latest` nor a revision, or a folder in one of
    /// them.
    pub others: Vec<String>,
    /// The preconditions of all of that.
    pub seen: Vec<(RepoPath, Precondition)>,
}

/// A file, or that there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileState {
    /// The path of the file.
    pub path: RepoPath,
    /// The bytes; `None` if there is no file.
    pub bytes: Option<Vec<u8>>,
    /// The precondition of the path.
    pub seen: Precondition,
}

impl Footprint {
    /// Returns whether there is nothing of the app.
    pub fn is_empty(&self) -> bool {
        self.seen.iter().all(|(_, seen)| !seen.is_something())
    }
}

impl ManifestRepository {
    /// Reads all that an app has in the repository on one target.
    pub async fn footprint(
        &self,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<Footprint, WriteError> {
        let file = layout::application_file(target, app);
        let folder = layout::app_folder(target, app);
        self.at_tip(move |repo, tip| {
            let root = tree::root(repo, tip)?;
            footprint(repo, root.as_ref(), &file, &folder)
        })
        .await
    }

    /// Reads the files at these paths, and the commit that they were seen at.
    pub async fn read_paths(
        &self,
        paths: Vec<RepoPath>,
    ) -> Result<(Option<CommitSha>, Vec<FileState>), WriteError> {
        self.at_tip(move |repo, tip| {
            let root = tree::root(repo, tip)?;
            let files = paths.iter().map(|path| find_file(repo, root.as_ref(), path));
            Ok((tip.map(tree::sha), files.collect::<Result<_, _>>()?))
        })
        .await
    }

    /// Finds the commit of a change, a deploy id's or a removal's, from the branch's tip backwards. The search ends
    /// after some thousand commits.
    pub async fn commit_of(&self, id: &DeployId) -> Result<Option<CommitSha>, WriteError> {
        let id = id.clone();
        self.at_tip(move |repo, tip| {
            let commit = tip.and_then(|tip| tree::commit_of(repo, tip, &id));
            Ok(commit.map(|commit| tree::sha(commit.id())))
        })
        .await
    }
}

fn find_file(
    repo: &Repository,
    root: Option<&Tree<'_>>,
    path: &RepoPath,
) -> Result<FileState, git2::Error> {
    let precondition = Precondition(tree::find(root, path)?.map(|(id, _)| id));
    Ok(FileState { path: path.clone(), bytes: tree::file(repo, root, path)?, seen: precondition })
}

fn footprint(
    repo: &Repository,
    root: Option<&Tree<'_>>,
    file: &RepoPath,
    folder: &RepoPath,
) -> Result<Footprint, git2::Error> {
    let application = find_file(repo, root, file)?;
    let folder_entry = tree::find(root, folder)?;
    let mut footprint = Footprint {
        paths: application.seen.is_something().then(|| file.to_string()).into_iter().collect(),
        application: application.bytes,
        latest: Vec::new(),
        others: Vec::new(),
        seen: vec![
            (file.clone(), application.seen),
            (folder.clone(), Precondition(folder_entry.map(|(id, _)| id))),
        ],
    };
    match folder_entry {
        None => {}
        Some((id, ObjectType::Tree)) => {
            of_folder(repo, &repo.find_tree(id)?, folder, &mut footprint)?;
        }
        Some(_) => footprint.others.push(folder.to_string()),
    }
    Ok(footprint)
}

fn of_folder(
    repo: &Repository,
    tree: &Tree<'_>,
    folder: &RepoPath,
    footprint: &mut Footprint,
) -> Result<(), git2::Error> {
    for entry in tree {
        let name = String::from_utf8_lossy(entry.name_bytes()).into_owned();
        let path = format!("{folder}/{name}");
        let is_known = name == layout::LATEST || DeployId::parse(name.as_str()).is_ok();
        if !is_known || entry.kind() != Some(ObjectType::Tree) {
            footprint.others.push(path);
            continue;
        }
        let inner = repo.find_tree(entry.id())?;
        let folders = inner.iter().filter(|entry| entry.kind() != Some(ObjectType::Blob));
        footprint.others.extend(
            folders.map(|entry| format!("{path}/{}", String::from_utf8_lossy(entry.name_bytes()))),
        );
        if name == layout::LATEST {
            footprint.latest = tree::read_folder(repo, Some(&inner), FILES_LIMIT, None)?.0;
        }
    }
    footprint.paths.extend(paths_below(tree, folder)?);
    Ok(())
}

fn paths_below(tree: &Tree<'_>, folder: &RepoPath) -> Result<Vec<String>, git2::Error> {
    let mut paths = Vec::new();
    tree.walk(TreeWalkMode::PreOrder, |folder_path, entry| {
        if entry.kind() == Some(ObjectType::Blob) && paths.len() < PATHS_LIMIT {
            let name = String::from_utf8_lossy(entry.name_bytes());
            paths.push(format!("{folder}/{folder_path}{name}"));
        }
        TreeWalkResult::Ok
    })?;
    Ok(paths)
}
