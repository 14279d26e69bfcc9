//! Reads of a manifest repository: an app's history, the live revision, and the changes of a commit.
//!
//! Most functions read the branch as it is now, after a fetch from the server; `…_beside` do not wait for it, and
//! `read_local_repository` reads the known state without a request. Reads only.

use std::time::Duration;

use git2::{Commit, Delta, Oid, Repository};

use crate::git::clone::branch::{BranchPlace, Location};
use crate::git::drift::detect::find_hand_edit;
use crate::git::error::WriteError;
use crate::git::objects::tree;
use crate::git::writer::ManifestRepository;
use crate::git::{layout, message};
use crate::model::hand_edit::HandEdit;
use crate::model::id::{AppKey, CommitSha, DeployId, TargetName};
use crate::model::live_history::AppFolders;
use crate::model::revision::ManifestFile;
use crate::support::retry::Disposition;

/// The most paths that a [`CommitChange`] has.
const CHANGES_LIMIT: usize = 10_000;

/// The most files that [`ManifestRepository::files`] reads; a revision has a dozen.
const FILES_LIMIT: usize = 1_000;

/// The time limit of a fetch before the last known state is read.
const LONGEST_LOOK: Duration = Duration::from_secs(3);

/// A path that a commit touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathChange {
    /// The path from the root of the repository.
    pub path: String,
    /// The kind of change.
    pub what: PathTouch,
}

/// The kind of change to a path by a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathTouch {
    /// The path is new.
    Added,
    /// The path has other bytes.
    Changed,
    /// The path is removed.
    Removed,
}

/// All changes of a commit, against its first parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitChange {
    /// The first parent; `None` for a repository's first commit.
    pub before: Option<CommitSha>,
    /// Every path that it touched, in order.
    pub paths: Vec<PathChange>,
}

/// The content of a commit, as far as a revision is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RevisionInCommit {
    /// It comes after the revision, and has its files.
    Held,
    /// It has other files, or does not come after the revision.
    NotHeld,
    /// The commit is not known here.
    Unknown,
    /// It is the newest commit, and the clone does not go back to the revision: the files that are live in it.
    AtTip(Vec<ManifestFile>),
}

impl ManifestRepository {
    /// Returns the commit of the branch; `None` in an empty repository.
    pub async fn tip(&self) -> Result<Option<CommitSha>, WriteError> {
        self.at_tip(|_, tip| Ok(tip.map(tree::sha))).await
    }

    /// Returns the revisions of an app on a target, newest first, and its `latest`, each by its tree.
    pub async fn history(
        &self,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<AppFolders, WriteError> {
        let (target, app) = (target.clone(), app.clone());
        self.at_tip(move |repo, tip| {
            tree::read_history(repo, tree::root(repo, tip)?.as_ref(), &target, &app)
        })
        .await
    }

    /// Reads the history without waiting for a push that is under way, or for a server that does not answer: then it is
    /// the last known state, and a decision by it is checked again when it is carried out.
    ///
    /// # Errors
    /// When the repository cannot be read.
    pub async fn read_history_beside(
        &self,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<AppFolders, WriteError> {
        let (target, app) = (target.clone(), app.clone());
        self.read_newest(move |repo, tip| {
            tree::read_history(repo, tree::root(repo, tip)?.as_ref(), &target, &app)
        })
        .await
    }

    /// Returns the files directly in a folder, by name, at most a thousand; empty if there is no such folder.
    pub async fn files(&self, folder: &str) -> Result<Vec<ManifestFile>, WriteError> {
        let folder = folder.to_owned();
        self.at_tip(move |repo, tip| files_in(repo, tip, &folder)).await
    }

    /// Returns the files without waiting for a push that is under way, or for a server that does not answer: then their
    /// last known state.
    pub async fn files_beside(&self, folder: &str) -> Result<Vec<ManifestFile>, WriteError> {
        let folder = folder.to_owned();
        self.read_newest(move |repo, tip| files_in(repo, tip, &folder)).await
    }

    /// Runs `read` on the tip of now; while the writer is busy, or the server does not answer soon, on the one
    /// that was seen last.
    async fn read_newest<T: Send + 'static>(
        &self,
        read: impl Fn(&Repository, Option<Oid>) -> Result<T, git2::Error> + Clone + Send + 'static,
    ) -> Result<T, WriteError> {
        if self.is_busy() {
            return Ok(self.read_last_seen(read).await?.1);
        }
        let why = match tokio::time::timeout(LONGEST_LOOK, self.at_tip(read.clone())).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) if error.disposition() == Disposition::Stop => return Err(error),
            Ok(Err(error)) => error,
            Err(_elapsed) => {
                WriteError::unreachable(self.place().folder.display(), "its server does not answer")
            }
        };
        // Later pushes of others are read when the result is used.
        match self.read_last_seen(read).await {
            Ok((true, value)) => Ok(value),
            Ok((false, _)) | Err(_) => Err(why),
        }
    }

    /// Runs `read` on the known state without a request, and returns whether the branch was ever seen.
    async fn read_last_seen<T: Send + 'static>(
        &self,
        read: impl Fn(&Repository, Option<Oid>) -> Result<T, git2::Error> + Send + 'static,
    ) -> Result<(bool, T), WriteError> {
        self.read_local_repository(move |repo, place| {
            let tip = tree::if_present(repo.refname_to_id(&place.reference))?;
            Ok((tip.is_some(), read(repo, tip)?))
        })
        .await
    }

    /// Reads the known state with a handle of its own: waits for nothing, and sends no request.
    pub(in crate::git) async fn read_local_repository<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Repository, &BranchPlace) -> Result<T, git2::Error> + Send + 'static,
    ) -> Result<T, WriteError> {
        let (place, local_place) = (self.place(), self.place());
        let reading = tokio::task::spawn_blocking(move || {
            read(&Repository::open_bare(&local_place.folder)?, &local_place)
        });
        match reading.await {
            Ok(result) => result.map_err(|error| place.to_write_error(&error)),
            Err(_) => Err(WriteError::Corrupt {
                repository: place.folder.display().to_string(),
                cause: "the service failed to read it".to_owned(),
            }),
        }
    }

    /// Finds out whether a commit, by anybody, still has an app's `latest` as the commit of a revision made it.
    ///
    /// # Errors
    /// When the repository cannot be read.
    pub async fn find_revision_in(
        &self,
        commit: &CommitSha,
        own: &CommitSha,
        (target, app): (&TargetName, &AppKey),
    ) -> Result<RevisionInCommit, WriteError> {
        let (commit, own) = (commit.clone(), own.clone());
        let latest = layout::latest_folder(target, app);
        self.read_newest(move |repo, tip| {
            let (id, own) = (Oid::from_str(commit.as_str())?, Oid::from_str(own.as_str())?);
            let Some(commit) = tree::if_present(repo.find_commit(id))? else {
                return Ok(RevisionInCommit::Unknown);
            };
            let Some(own) = tree::if_present(repo.find_commit(own))? else {
                // A new clone has the tip alone, which nothing is older than.
                if tip != Some(id) {
                    return Ok(RevisionInCommit::Unknown);
                }
                let files = files_in(repo, tip, &latest.to_string())?;
                return Ok(RevisionInCommit::AtTip(files));
            };
            let folder = |commit: &Commit<'_>| {
                Ok::<_, git2::Error>(tree::find(Some(&commit.tree()?), &latest)?.map(|one| one.0))
            };
            let mut before = tree::back(repo, id).take(tree::MAX_SEARCHED);
            let is_later = before.any(|one| one.id() == own.id());
            let is_same = is_later && folder(&commit)? == folder(&own)?;
            Ok(if is_same { RevisionInCommit::Held } else { RevisionInCommit::NotHeld })
        })
        .await
    }

    /// Returns the paths that the commit at the tip touched, in order; none where they are not known here.
    pub async fn last_change(&self) -> Result<Vec<PathChange>, WriteError> {
        let Some(tip) = self.tip().await? else { return Ok(Vec::new()) };
        Ok(self.change_of(&tip).await?.map_or_else(Vec::new, |change| change.paths))
    }

    /// Reads the changes of a commit. `None` if they are not known here: a clone does not have the commit, or not its
    /// parent; and if it touched more than ten thousand paths.
    ///
    /// Reads the known state, beside the writer, and sends no request.
    ///
    /// # Errors
    /// When the repository cannot be read.
    pub async fn change_of(&self, commit: &CommitSha) -> Result<Option<CommitChange>, WriteError> {
        let commit = commit.clone();
        self.read_local_repository(move |repo, _| {
            let Some((before, commit)) = with_parent(repo, &commit)? else { return Ok(None) };
            let tree = before.as_ref().map(Commit::tree).transpose()?;
            let diff = repo.diff_tree_to_tree(tree.as_ref(), Some(&commit.tree()?), None)?;
            if diff.deltas().len() > CHANGES_LIMIT {
                return Ok(None);
            }
            Ok(Some(CommitChange {
                before: before.map(|before| tree::sha(before.id())),
                paths: diff.deltas().map(|delta| path_change(&delta)).collect(),
            }))
        })
        .await
    }

    /// Reads the manual edit that a deployment has replaced, from its commit and the one before; `None` where it
    /// replaced none, or where the clone does not go back so far. For a deployment whose process died before it could
    /// be recorded.
    pub async fn replaced_edit(
        &self,
        target: &TargetName,
        app: &AppKey,
        id: &DeployId,
    ) -> Result<Option<HandEdit>, WriteError> {
        let (target, app, id) = (target.clone(), app.clone(), id.clone());
        self.at_tip(move |repo, tip| {
            let Some(commit) = tip.and_then(|tip| tree::commit_of(repo, tip, &id)) else {
                return Ok(None);
            };
            if !message::reports_replaced_edit(&String::from_utf8_lossy(commit.message_bytes())) {
                return Ok(None);
            }
            let Ok(before) = commit.parent(0) else { return Ok(None) };
            let root = before.tree()?;
            let revisions = tree::revision_folders(repo, Some(&root), &target, &app)?;
            let latest = layout::latest_folder(&target, &app);
            let now = tree::find(Some(&root), &latest)?.map(|(id, _)| id);
            let hand_edit =
                find_hand_edit(repo, Some(before.id()), &latest.to_string(), now, &revisions)?;
            Ok(hand_edit.map(|hand_edit| HandEdit { replaced: true, ..hand_edit }))
        })
        .await
    }

    /// Returns the place where the branch can be read beside the writer.
    pub(in crate::git) fn place(&self) -> BranchPlace {
        self.location().place()
    }

    /// Returns whether the repository is a folder of this machine: then there is no server to ask.
    pub fn is_local(&self) -> bool {
        matches!(self.location(), Location::Local { .. })
    }
}

/// Returns a commit with its parent, if it has one; `None` where one of both is not here.
pub(in crate::git) fn with_parent<'r>(
    repo: &'r Repository,
    commit: &CommitSha,
) -> Result<Option<(Option<Commit<'r>>, Commit<'r>)>, git2::Error> {
    let id = Oid::from_str(commit.as_str())?;
    let Some(commit) = tree::if_present(repo.find_commit(id))? else { return Ok(None) };
    let Some(parent) = tree::parent(&commit)? else { return Ok(Some((None, commit))) };
    let parent = tree::if_present(repo.find_commit(parent))?;
    Ok(parent.map(|parent| (Some(parent), commit)))
}

fn path_change(delta: &git2::DiffDelta<'_>) -> PathChange {
    let (file, touch) = match delta.status() {
        Delta::Added => (delta.new_file(), PathTouch::Added),
        Delta::Deleted => (delta.old_file(), PathTouch::Removed),
        _ => (delta.new_file(), PathTouch::Changed),
    };
    let path = String::from_utf8_lossy(file.path_bytes().unwrap_or_default()).into_owned();
    PathChange { path, what: touch }
}

fn files_in(
    repo: &Repository,
    tip: Option<Oid>,
    folder: &str,
) -> Result<Vec<ManifestFile>, git2::Error> {
    let folder = tree::folder(repo, tree::root(repo, tip)?.as_ref(), folder)?;
    Ok(tree::read_folder(repo, folder.as_ref(), FILES_LIMIT, None)?.0)
}
