//! What is in a manifest repository: an app's history, what is live, and what a commit changed.
//!
//! Every question but the one after a commit looks at the branch as it is now. Reads only.

use std::time::Duration;

use git2::{Delta, ObjectType, Oid, Repository, Tree};

use crate::git::error::WriteError;
use crate::git::layout;
use crate::git::tree;
use crate::git::writer::ManifestRepository;
use crate::model::id::{AppKey, CommitSha, DeployId, TargetName};
use crate::model::revision::ManifestFile;
use crate::support::retry::Disposition;

/// The most paths that [`ManifestRepository::last_change`] lists, and a [`CommitChange`] has.
const CHANGES_LIMIT: usize = 10_000;

/// The most files that [`ManifestRepository::files`] reads; a revision has a dozen.
const FILES_LIMIT: usize = 1_000;

/// So long is a server asked before what was seen last is read.
const LONGEST_LOOK: Duration = Duration::from_secs(3);

/// An app's revisions on one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// Newest first.
    pub revisions: Vec<DeployId>,
    /// The newest one whose files `latest` has; `None` if somebody edited `latest` by hand.
    pub live: Option<DeployId>,
}

/// A path that a commit touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathChange {
    /// From the root of the repository.
    pub path: String,
    /// What happened to it.
    pub what: Touched,
}

/// What a commit did to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touched {
    /// It is new.
    Added,
    /// It has other bytes.
    Changed,
    /// It is gone.
    Removed,
}

/// All that a commit changed, against its first parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitChange {
    /// That parent; `None` of a repository's first commit.
    pub before: Option<CommitSha>,
    /// Every path that it touched, in order.
    pub paths: Vec<PathChange>,
}

impl ManifestRepository {
    /// The commit that the branch is at; `None` in an empty repository.
    pub async fn tip(&self) -> Result<Option<CommitSha>, WriteError> {
        self.at_tip(|_, tip| Ok(tip.and_then(|id| CommitSha::parse(id.to_string()).ok()))).await
    }

    /// The revisions of an app on a target, and which one is live.
    pub async fn history(&self, target: &TargetName, app: &AppKey) -> Result<History, WriteError> {
        let folder = layout::app_folder(target, app);
        let latest = layout::latest_folder(target, app);
        self.at_tip(move |repo, tip| {
            let root = root(repo, tip)?;
            let mut found = tree::revision_folders(repo, root.as_ref(), &folder)?;
            found.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
            let latest = tree::find(root.as_ref(), &latest)?.map(|(id, _)| id);
            let live = found.iter().find(|(_, id)| Some(*id) == latest).map(|(id, _)| id.clone());
            Ok(History { revisions: found.into_iter().map(|(id, _)| id).collect(), live })
        })
        .await
    }

    /// The files directly in a folder, by name, at most a thousand; empty if there is no such folder.
    pub async fn files(&self, folder: &str) -> Result<Vec<ManifestFile>, WriteError> {
        let folder = folder.to_owned();
        self.at_tip(move |repo, tip| files_in(repo, tip, &folder)).await
    }

    /// The same, without waiting for a push that is under way, or for a server that does not answer: then as
    /// they were before.
    pub async fn files_beside(&self, folder: &str) -> Result<Vec<ManifestFile>, WriteError> {
        let folder = folder.to_owned();
        self.beside(move |repo, tip| files_in(repo, tip, &folder)).await
    }

    /// Runs `read` on the tip of now; while the writer is busy, or the server does not answer soon, on the one
    /// that was seen last.
    pub(super) async fn beside<T: Send + 'static>(
        &self,
        read: impl Fn(&Repository, Option<Oid>) -> Result<T, git2::Error> + Clone + Send + 'static,
    ) -> Result<T, WriteError> {
        if self.is_busy() {
            return Ok(self.as_seen_last(read).await?.1);
        }
        let why = match tokio::time::timeout(LONGEST_LOOK, self.at_tip(read.clone())).await {
            Ok(Ok(read)) => return Ok(read),
            Ok(Err(error)) => Some(error),
            Err(_elapsed) => None,
        };
        let may_pass = |error: &WriteError| error.disposition() != Disposition::Stop;
        match why {
            Some(error) if !may_pass(&error) => Err(error),
            // What somebody else has pushed since is looked at when something is done with it.
            why => match self.as_seen_last(read).await {
                Ok((true, read)) => Ok(read),
                Ok((false, _)) | Err(_) => Err(why.unwrap_or_else(|| self.silent())),
            },
        }
    }

    /// Runs `read` on what is here, and asks nobody; and whether the branch was ever seen.
    async fn as_seen_last<T: Send + 'static>(
        &self,
        read: impl Fn(&Repository, Option<Oid>) -> Result<T, git2::Error> + Send + 'static,
    ) -> Result<(bool, T), WriteError> {
        let place = self.place();
        let (name, folder) = (place.folder.display().to_string(), place.folder.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let repo = Repository::open_bare(&place.folder)?;
            let tip = there(repo.refname_to_id(&place.reference))?;
            Ok::<_, git2::Error>((tip.is_some(), read(&repo, tip)?))
        });
        match reading.await {
            Ok(Ok(read)) => Ok(read),
            Ok(Err(error)) => Err(WriteError::of_git(name, &folder, &error)),
            Err(_) => Err(WriteError::Corrupt {
                repository: name,
                cause: "reading it failed by a fault of ours".to_owned(),
            }),
        }
    }

    fn silent(&self) -> WriteError {
        WriteError::Unreachable {
            repository: self.place().folder.display().to_string(),
            cause: "its server does not answer".to_owned(),
            wait: None,
        }
    }

    /// The paths that the commit at the tip touched, in order, at most ten thousand.
    pub async fn last_change(&self) -> Result<Vec<PathChange>, WriteError> {
        self.at_tip(|repo, tip| {
            let Some(tip) = tip else { return Ok(Vec::new()) };
            let commit = repo.find_commit(tip)?;
            // The parent of a shallow clone's oldest commit is not here: then all of it is new.
            let before = commit.parent(0).and_then(|parent| parent.tree()).ok();
            let diff = repo.diff_tree_to_tree(before.as_ref(), Some(&commit.tree()?), None)?;
            Ok(diff.deltas().take(CHANGES_LIMIT).map(|delta| path_change(&delta)).collect())
        })
        .await
    }
}

impl ManifestRepository {
    /// What a commit changed. `None` if that cannot be told here: a clone does not have it, or not
    /// its parent; and if it touched more than ten thousand paths.
    ///
    /// Reads what is here, beside the writer, and asks no server.
    ///
    /// # Errors
    /// When the repository cannot be read.
    pub async fn change_of(&self, commit: &CommitSha) -> Result<Option<CommitChange>, WriteError> {
        let (folder, commit) = (self.place().folder, commit.clone());
        let (name, path) = (folder.display().to_string(), folder.clone());
        let reading = tokio::task::spawn_blocking(move || {
            let id = Oid::from_str(commit.as_str())?;
            change_of(&Repository::open_bare(path)?, id)
        });
        match reading.await {
            Ok(Ok(change)) => Ok(change),
            Ok(Err(error)) => Err(WriteError::of_git(name, &folder, &error)),
            Err(_) => Err(WriteError::Corrupt {
                repository: name,
                cause: "reading it failed by a fault of ours".to_owned(),
            }),
        }
    }
}

fn change_of(repo: &Repository, id: Oid) -> Result<Option<CommitChange>, git2::Error> {
    let Some(commit) = there(repo.find_commit(id))? else { return Ok(None) };
    // As it was written: at the edge of a shallow clone git itself says that there is no parent.
    let header = commit.raw_header_bytes();
    let parent = header.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"parent "));
    let before = match parent.map(String::from_utf8_lossy) {
        None => None,
        Some(digits) => match there(repo.find_commit(Oid::from_str(&digits)?))? {
            Some(parent) => Some(parent),
            None => return Ok(None),
        },
    };
    let tree = before.as_ref().map(git2::Commit::tree).transpose()?;
    let diff = repo.diff_tree_to_tree(tree.as_ref(), Some(&commit.tree()?), None)?;
    if diff.deltas().len() > CHANGES_LIMIT {
        return Ok(None);
    }
    let before = before.and_then(|before| CommitSha::parse(before.id().to_string()).ok());
    Ok(Some(CommitChange { before, paths: diff.deltas().map(|one| path_change(&one)).collect() }))
}

/// The object, or that it is not here.
fn there<T>(found: Result<T, git2::Error>) -> Result<Option<T>, git2::Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn path_change(delta: &git2::DiffDelta<'_>) -> PathChange {
    let (file, what) = match delta.status() {
        Delta::Added => (delta.new_file(), Touched::Added),
        Delta::Deleted => (delta.old_file(), Touched::Removed),
        _ => (delta.new_file(), Touched::Changed),
    };
    let path = String::from_utf8_lossy(file.path_bytes().unwrap_or_default()).into_owned();
    PathChange { path, what }
}

fn files_in(
    repo: &Repository,
    tip: Option<Oid>,
    folder: &str,
) -> Result<Vec<ManifestFile>, git2::Error> {
    let root = root(repo, tip)?;
    let found = tree::find_text(root.as_ref(), folder)?;
    let Some((id, ObjectType::Tree)) = found else { return Ok(Vec::new()) };
    let tree = repo.find_tree(id)?;
    let files = tree.iter().filter(|entry| entry.kind() == Some(ObjectType::Blob));
    let file = |entry: git2::TreeEntry<'_>| {
        Ok(ManifestFile {
            name: String::from_utf8_lossy(entry.name_bytes()).into_owned(),
            bytes: repo.find_blob(entry.id())?.content().to_vec(),
        })
    };
    files.take(FILES_LIMIT).map(file).collect()
}

fn root(repo: &Repository, tip: Option<Oid>) -> Result<Option<Tree<'_>>, git2::Error> {
    tip.map(|tip| repo.find_commit(tip).and_then(|commit| commit.tree())).transpose()
}
