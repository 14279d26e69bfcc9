//! An app's history on a target, for people who only look: its revisions with their trees, the files
//! of one, what a commit changed in `latest`, and what commits say of deployments.
//!
//! Reads what is here, beside the writer, and asks no server: who wants to know what others have
//! pushed looks at the tip before.

use std::collections::{BTreeMap, BTreeSet};

use git2::{Commit, ObjectType, Oid, Repository, Tree};
use jiff::Timestamp;

use crate::git::error::WriteError;
use crate::git::index::Place;
use crate::git::layout::{self, RepoPath};
pub use crate::git::trailers::Said;
use crate::git::writer::ManifestRepository;
use crate::git::{trailers, tree};
use crate::model::id::{AppKey, CommitSha, DeployId, TargetName};
use crate::model::revision::ManifestFile;

/// How many commits back somebody looks for what a commit says.
const LOOK_BACK: usize = 5_000;
/// The most files that are read of a folder; a revision has a dozen.
const FILES_LIMIT: usize = 200;
/// The most bytes of one file; a manifest has some thousand.
const LARGEST: usize = 1024 * 1024;

/// An app's history on one target.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Revisions {
    /// The revisions that are kept, newest first.
    pub kept: Vec<Kept>,
    /// The newest one whose tree `latest` has.
    pub live: Option<DeployId>,
    /// Whether there is a `latest` that is none of them: somebody edited it by hand.
    pub hand_edited: bool,
}

/// A revision that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its deploy id.
    pub id: DeployId,
    /// The id of its tree in git, hexadecimal: equal for equal files.
    pub tree: String,
}

/// What the commit of a deployment says, and when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it says.
    pub said: Said,
    /// When it was committed.
    pub at: Timestamp,
}

/// The files of an app's `latest` before and after a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Around {
    /// Before; none where the app is new.
    pub before: Vec<ManifestFile>,
    /// After; none where the app is gone.
    pub after: Vec<ManifestFile>,
}

impl ManifestRepository {
    /// The revisions of an app on a target; empty if there is no such app.
    ///
    /// # Errors
    /// When the repository cannot be read; so for all that follow.
    pub async fn revisions(
        &self,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<Revisions, WriteError> {
        let folder = layout::app_folder(target, app);
        let latest = layout::latest_folder(target, app);
        self.looking(move |repo, place| {
            let root = place.root(repo)?;
            let mut found = tree::revision_folders(repo, root.as_ref(), &folder)?;
            found.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
            let latest = tree::find(root.as_ref(), &latest)?.map(|(id, _)| id);
            let live = found.iter().find(|(_, id)| Some(*id) == latest).map(|(id, _)| id.clone());
            let hand_edited = latest.is_some() && live.is_none();
            let kept = |(id, tree): (DeployId, Oid)| Kept { id, tree: tree.to_string() };
            Ok(Revisions { kept: found.into_iter().map(kept).collect(), live, hand_edited })
        })
        .await
    }

    /// The files of a revision, or of `latest` where none is named, by name; `None` if there is no
    /// such folder. Files of more than a mebibyte are left out, and those after the first 200.
    pub async fn files_of(
        &self,
        target: &TargetName,
        app: &AppKey,
        revision: Option<&DeployId>,
    ) -> Result<Option<Vec<ManifestFile>>, WriteError> {
        let folder = match revision {
            Some(id) => layout::revision_folder(target, app, id),
            None => layout::latest_folder(target, app),
        };
        self.looking(move |repo, place| {
            let root = place.root(repo)?;
            let Some((id, ObjectType::Tree)) = tree::find(root.as_ref(), &folder)? else {
                return Ok(None);
            };
            files(repo, &repo.find_tree(id)?).map(Some)
        })
        .await
    }

    /// The files of an app's `latest` around a commit. `None` if that cannot be told here: a clone
    /// does not have the commit, or not its parent.
    pub async fn around(
        &self,
        commit: &CommitSha,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<Option<Around>, WriteError> {
        let (commit, folder) = (commit.clone(), layout::latest_folder(target, app));
        self.looking(move |repo, _| {
            let Some(after) = there(repo, Oid::from_str(commit.as_str())?)? else {
                return Ok(None);
            };
            let before = match parent(&after)? {
                None => None,
                Some(id) => match there(repo, id)? {
                    Some(before) => Some(before.tree()?),
                    None => return Ok(None),
                },
            };
            let before = files_at(repo, before.as_ref(), &folder)?;
            let after = files_at(repo, Some(&after.tree()?), &folder)?;
            Ok(Some(Around { before, after }))
        })
        .await
    }

    /// What the commits of these deployments say, on the way back from the branch's tip: some
    /// thousand commits, or as far as a clone goes.
    pub async fn said_of(
        &self,
        wanted: BTreeSet<DeployId>,
    ) -> Result<BTreeMap<DeployId, Found>, WriteError> {
        if wanted.is_empty() {
            return Ok(BTreeMap::new());
        }
        self.looking(move |repo, place| {
            let tip = place.tip(repo)?;
            let first = tip.map(|tip| repo.find_commit(tip)).transpose()?;
            let back = std::iter::successors(first, |commit| commit.parent(0).ok());
            let mut found = BTreeMap::new();
            for commit in back.take(LOOK_BACK) {
                let message = String::from_utf8_lossy(commit.message_bytes());
                let Some((id, said)) = trailers::deployment(&message) else { continue };
                let at = Timestamp::from_second(commit.time().seconds()).unwrap_or_default();
                if wanted.contains(&id) {
                    found.entry(id).or_insert(Found { said, at });
                }
                if found.len() == wanted.len() {
                    break;
                }
            }
            Ok(found)
        })
        .await
    }

    /// Reads with a handle of its own, where one may block.
    async fn looking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Repository, &Place) -> Result<T, git2::Error> + Send + 'static,
    ) -> Result<T, WriteError> {
        let place = self.place();
        let (name, folder) = (place.folder.display().to_string(), place.folder.clone());
        let reading = tokio::task::spawn_blocking(move || {
            read(&Repository::open_bare(&place.folder)?, &place)
        });
        match reading.await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => Err(WriteError::of_git(name, &folder, &error)),
            Err(_) => Err(WriteError::Corrupt {
                repository: name,
                cause: "reading it failed by a fault of ours".to_owned(),
            }),
        }
    }
}

/// The commit, or that it is not here.
fn there(repo: &Repository, id: Oid) -> Result<Option<Commit<'_>>, git2::Error> {
    match repo.find_commit(id) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// As it was written: at the edge of a shallow clone git itself says that there is no parent.
fn parent(commit: &Commit<'_>) -> Result<Option<Oid>, git2::Error> {
    let header = commit.raw_header_bytes();
    let parent = header.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"parent "));
    parent.map(|digits| Oid::from_str(&String::from_utf8_lossy(digits))).transpose()
}

fn files_at(
    repo: &Repository,
    root: Option<&Tree<'_>>,
    folder: &RepoPath,
) -> Result<Vec<ManifestFile>, git2::Error> {
    match tree::find(root, folder)? {
        Some((id, ObjectType::Tree)) => files(repo, &repo.find_tree(id)?),
        _ => Ok(Vec::new()),
    }
}

fn files(repo: &Repository, tree: &Tree<'_>) -> Result<Vec<ManifestFile>, git2::Error> {
    let odb = repo.odb()?;
    let mut files = Vec::new();
    let blobs = tree.iter().filter(|entry| entry.kind() == Some(ObjectType::Blob));
    for entry in blobs.take(FILES_LIMIT) {
        // The header first: a huge file is left out without being read.
        if odb.read_header(entry.id())?.0 <= LARGEST {
            let name = String::from_utf8_lossy(entry.name_bytes()).into_owned();
            files.push(ManifestFile { name, bytes: odb.read(entry.id())?.data().to_vec() });
        }
    }
    Ok(files)
}
