//! An app's history on a target, for people who only read: its revisions with their trees, the files of one, the
//! changes of a commit in `latest`, and the messages of deployments' commits.
//!
//! It reads the known state, beside the writer, and sends no request: a caller that needs later pushes of others
//! fetches the tip before.

use std::collections::{BTreeMap, BTreeSet};

use git2::{Commit, Repository, Tree};
use jiff::Timestamp;

use crate::git::drift::detect::find_hand_edit;
use crate::git::error::WriteError;
use crate::git::history::live::with_parent;
use crate::git::history::trailers;
pub use crate::git::history::trailers::RevisionTrailers;
use crate::git::layout::{self, RepoPath};
use crate::git::objects::tree;
use crate::git::writer::ManifestRepository;
use crate::model::hand_edit::HandEdit;
use crate::model::id::{AppKey, CommitSha, DeployId, TargetName};
use crate::model::live_history::AppFolders;
use crate::model::revision::ManifestFile;

/// The number of commits that are searched for a message.
const MAX_SEARCHED: usize = 5_000;
/// The most files that are read of a folder; a revision has a dozen.
const FILES_LIMIT: usize = 200;
/// The most bytes of one file; a manifest has some thousand.
const LARGEST: usize = 1024 * 1024;

/// The message of a deployment's commit, with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitNote {
    /// The trailers.
    pub said: RevisionTrailers,
    /// The time of the commit.
    pub at: Timestamp,
}

/// The files of an app's `latest` before and after a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatestChange {
    /// Before; none where the app is new.
    pub before: Vec<ManifestFile>,
    /// After; none where the app is gone.
    pub after: Vec<ManifestFile>,
}

/// A manual edit, with the files before and after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedFiles {
    /// The edit.
    pub edit: HandEdit,
    /// The files of the revision that differs least.
    pub before: Vec<ManifestFile>,
    /// The files as they were edited.
    pub after: Vec<ManifestFile>,
}

impl ManifestRepository {
    /// Returns the revisions of an app on a target, newest first, and its `latest`; empty if there is no such app.
    ///
    /// # Errors
    /// When the repository cannot be read; so for all that follow.
    pub async fn revisions(
        &self,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<AppFolders, WriteError> {
        let (target, app) = (target.clone(), app.clone());
        self.read_local_repository(move |repo, place| {
            tree::read_history(repo, place.root(repo)?.as_ref(), &target, &app)
        })
        .await
    }

    /// Returns the files of a revision, or of `latest` where none is named, by name; `None` if there is no such folder.
    /// Files of more than a mebibyte are left out, and those after the first 200.
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
        self.read_local_repository(move |repo, place| {
            files_at(repo, place.root(repo)?.as_ref(), &folder)
        })
        .await
    }

    /// Reads an app's manual edit with the files on both sides: the present one, or the one that a deployment has replaced.
    /// `None` where there is none, where its revision is not known, and where the clone does not go back so far.
    ///
    /// # Errors
    /// When the repository cannot be read.
    pub async fn read_edited_files(
        &self,
        target: &TargetName,
        app: &AppKey,
        replaced_by: Option<&DeployId>,
    ) -> Result<Option<EditedFiles>, WriteError> {
        let (target, app, replaced_by) = (target.clone(), app.clone(), replaced_by.cloned());
        self.read_local_repository(move |repo, place| {
            let tip = place.tip(repo)?;
            let commit = match replaced_by {
                None => tip,
                Some(id) => {
                    let commit = tip.and_then(|tip| tree::commit_of(repo, tip, &id));
                    commit.and_then(|commit| commit.parent_id(0).ok())
                }
            };
            let Some(commit) = commit else { return Ok(None) };
            let Some(commit) = tree::if_present(repo.find_commit(commit))? else { return Ok(None) };
            let root = commit.tree()?;
            let revisions = tree::revision_folders(repo, Some(&root), &target, &app)?;
            let latest = layout::latest_folder(&target, &app);
            let now = tree::find(Some(&root), &latest)?.map(|(id, _)| id);
            let path = latest.to_string();
            let edit = find_hand_edit(repo, Some(commit.id()), &path, now, &revisions)?;
            let Some((edit, base)) = edit.and_then(|edit| Some((edit.clone(), edit.base?))) else {
                return Ok(None);
            };
            let base = layout::revision_folder(&target, &app, &base);
            Ok(Some(EditedFiles {
                edit,
                before: files_at(repo, Some(&root), &base)?.unwrap_or_default(),
                after: files_at(repo, Some(&root), &latest)?.unwrap_or_default(),
            }))
        })
        .await
    }

    /// Returns the files of an app's `latest` around a commit. `None` if they are not known here: a clone does not have
    /// the commit, or not its parent.
    pub async fn read_latest_change(
        &self,
        commit: &CommitSha,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<Option<LatestChange>, WriteError> {
        let (commit, folder) = (commit.clone(), layout::latest_folder(target, app));
        self.read_local_repository(move |repo, _| {
            let Some((before, after)) = with_parent(repo, &commit)? else { return Ok(None) };
            let before = before.as_ref().map(Commit::tree).transpose()?;
            Ok(Some(LatestChange {
                before: files_at(repo, before.as_ref(), &folder)?.unwrap_or_default(),
                after: files_at(repo, Some(&after.tree()?), &folder)?.unwrap_or_default(),
            }))
        })
        .await
    }

    /// Reads the messages of these deployments' commits, from the branch's tip backwards: some thousand commits, or as
    /// far as a clone goes.
    pub async fn read_messages(
        &self,
        ids: BTreeSet<DeployId>,
    ) -> Result<BTreeMap<DeployId, CommitNote>, WriteError> {
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        self.read_local_repository(move |repo, place| {
            let mut notes = BTreeMap::new();
            let Some(tip) = place.tip(repo)? else { return Ok(notes) };
            repo.find_commit(tip)?;
            for commit in tree::back(repo, tip).take(MAX_SEARCHED) {
                let message = String::from_utf8_lossy(commit.message_bytes());
                let Some((id, trailers)) = trailers::read_deployment(&message) else { continue };
                let at = Timestamp::from_second(commit.time().seconds()).unwrap_or_default();
                if ids.contains(&id) {
                    notes.entry(id).or_insert(CommitNote { said: trailers, at });
                }
                if notes.len() == ids.len() {
                    break;
                }
            }
            Ok(notes)
        })
        .await
    }
}

fn files_at(
    repo: &Repository,
    root: Option<&Tree<'_>>,
    folder: &RepoPath,
) -> Result<Option<Vec<ManifestFile>>, git2::Error> {
    let Some(folder) = tree::folder(repo, root, &folder.to_string())? else { return Ok(None) };
    Ok(Some(tree::read_folder(repo, Some(&folder), FILES_LIMIT, Some(LARGEST))?.0))
}
