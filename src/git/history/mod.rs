//! The history of the branch as its commits record it, and the apps that it has now. For a service that has lost its
//! database.
//!
//! A writer's clone of a server has the newest commits only, so the whole branch is fetched into a clone of its own,
//! which is removed afterwards. Reads only.

pub mod revisions;
pub(super) mod trailers;
pub mod app_files;
pub mod live;

use std::collections::BTreeSet;
use std::path::Path;

use git2::{ObjectType, Oid, Repository, Sort, Tree};
use jiff::Timestamp;

use crate::git::clone::bare::with_suffix;
use crate::git::clone::branch::Location;
use crate::git::clone::{self, CachedClone, TRACKING};
use crate::git::error::{StepError, WriteError};
use crate::git::history::trailers::{Trailers, parse_record};
use crate::git::layout::{self, RepoPath};
use crate::git::objects::tree;
use crate::git::transport::remote::{HEADS, Remote};
use crate::git::writer::{ManifestRepository, blocking};
use crate::model::commit_record::{CommitRecord, PastDeployment};
use crate::model::id::{AppKey, CommitSha, DeployId, Namespace, Slug, TargetName};
use crate::model::rollback::TreeId;

/// The most deeds that are read, the newest: a hundred a day for years.
const MAX: usize = 200_000;

/// The number of unreadable commits that are named.
const MAX_UNREAD: usize = 100;

/// The records of a branch, and the apps that it has now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BranchHistory {
    /// The records, oldest first; each id once.
    pub records: Vec<CommitRecord>,
    /// All present apps, in order.
    pub standing: Vec<PresentApp>,
    /// Commits with trailers that cannot be read: each with the reason.
    pub unread: Vec<(CommitSha, String)>,
    /// True if there was more than the limit.
    pub cut: bool,
}

/// An app that a target has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentApp {
    /// The target.
    pub target: TargetName,
    /// The app.
    pub app: AppKey,
    /// The newest revision whose files `latest` has; `None` after a manual edit.
    pub live: Option<DeployId>,
    /// The bytes of its Application.
    pub application: Option<Vec<u8>>,
}

impl ManifestRepository {
    /// Reads the records of the branch, from its first commit on.
    ///
    /// # Errors
    /// When the server cannot be reached, or the repository cannot be read.
    pub async fn read_history(&self, branch: &str) -> Result<BranchHistory, WriteError> {
        let (location, reference) = (self.location().clone(), format!("{HEADS}{branch}"));
        blocking(move || match location {
            Location::Local { path, reference, .. } => {
                read(&Repository::open_bare(path)?, &reference)
            }
            Location::Server { remote, clone } => {
                let folder = with_suffix(&clone, "past");
                let past = fetch_history(&remote, &folder, &reference);
                clone::remove(&folder);
                past
            }
        })
        .await
    }
}

/// Fetches everything that the branch has.
fn fetch_history(
    remote: &Remote,
    folder: &Path,
    reference: &str,
) -> Result<BranchHistory, StepError> {
    let disk = |error| WriteError::disk(remote, folder, error);
    let clone = CachedClone::begin(folder, "the whole past\n".to_owned()).map_err(disk)?;
    clone.fetch_deep(remote, reference, 0).map_err(|error| error.into_step_error(remote))?;
    read(&clone.repo, TRACKING)
}

fn read(repo: &Repository, reference: &str) -> Result<BranchHistory, StepError> {
    let Some(tip) = tree::if_present(repo.refname_to_id(reference))? else {
        return Ok(BranchHistory::default());
    };
    let mut past = BranchHistory { standing: list_apps(repo, tip)?, ..BranchHistory::default() };
    let mut ids = BTreeSet::new();
    let mut walk = repo.revwalk()?;
    walk.set_sorting(Sort::TOPOLOGICAL | Sort::TIME)?;
    walk.push(tip)?;
    for id in walk {
        if past.records.len() >= MAX {
            past.cut = true;
            break;
        }
        read_commit(repo, id?, &mut past)?;
    }
    past.records.reverse();
    // A commit that another one took over repeats its record: the first one counts.
    past.records.retain(|record| match record {
        CommitRecord::Deployment(deployment) => ids.insert(deployment.id.clone()),
        CommitRecord::Removal(removal) => ids.insert(removal.id.clone()),
    });
    Ok(past)
}

fn read_commit(repo: &Repository, id: Oid, past: &mut BranchHistory) -> Result<(), StepError> {
    let commit = repo.find_commit(id)?;
    let message = String::from_utf8_lossy(commit.message_bytes());
    let at = Timestamp::from_second(commit.time().seconds()).unwrap_or(Timestamp::UNIX_EPOCH);
    let sha = tree::sha(id);
    let words = Trailers { message: &message, commit: sha.clone(), at };
    match parse_record(&words) {
        None => {}
        Some(Ok(CommitRecord::Deployment(deployment))) => {
            match read_files(repo, &commit.tree()?, *deployment)? {
                Some(deployment) => {
                    past.records.push(CommitRecord::Deployment(Box::new(deployment)));
                }
                None => not_read(past, sha, "it has no folder of that revision".to_owned()),
            }
        }
        Some(Ok(removal @ CommitRecord::Removal(_))) => past.records.push(removal),
        Some(Err(why)) => not_read(past, sha, why),
    }
    Ok(())
}

fn not_read(past: &mut BranchHistory, commit: CommitSha, why: String) {
    if past.unread.len() < MAX_UNREAD {
        past.unread.push((commit, why));
    }
}

/// Returns the record with the files of its commit; `None` if the commit does not have them. A deployment's commit has
/// the folder of its revision, a rollback's has as `latest` the revision that it names.
fn read_files(
    repo: &Repository,
    root: &Tree<'_>,
    mut deployment: PastDeployment,
) -> Result<Option<PastDeployment>, StepError> {
    let revision = deployment.rollback.as_ref().map_or(&deployment.id, |rollback| &rollback.to);
    let folder = layout::revision_folder(&deployment.target, &deployment.app, revision);
    let Some((id, ObjectType::Tree)) = tree::find(Some(root), &folder)? else { return Ok(None) };
    if let Some(rollback) = &mut deployment.rollback {
        let latest =
            tree::find(Some(root), &layout::latest_folder(&deployment.target, &deployment.app))?;
        if latest.is_none_or(|(latest, _)| latest != id) {
            return Ok(None);
        }
        rollback.tree = TreeId(id.to_string());
    }
    let names = repo.find_tree(id)?;
    deployment.pushed.files =
        names.iter().filter_map(|entry| entry.name().ok().map(str::to_owned)).collect();
    Ok(Some(deployment))
}

/// Lists every app that has a `latest` at the tip.
fn list_apps(repo: &Repository, tip: Oid) -> Result<Vec<PresentApp>, StepError> {
    let root = repo.find_commit(tip)?.tree()?;
    let folders = |path: &RepoPath| {
        let folder = tree::folder(repo, Some(&root), &path.to_string())?;
        Ok::<_, git2::Error>(folder.as_ref().map_or_else(Vec::new, tree::folders))
    };
    let mut apps = Vec::new();
    for (target, _) in folders(&layout::targets_folder())? {
        let Ok(target) = TargetName::parse(target) else { continue };
        for (namespace, _) in folders(&layout::target_folder(&target))? {
            let Ok(namespace) = Namespace::parse(namespace) else { continue };
            for (slug, _) in folders(&layout::namespace_folder(&target, &namespace))? {
                let Ok(slug) = Slug::parse(slug) else { continue };
                let app = AppKey { namespace: namespace.clone(), slug };
                let history = tree::read_history(repo, Some(&root), &target, &app)?;
                if history.latest.is_none() {
                    continue;
                }
                let file = layout::application_file(&target, &app);
                apps.push(PresentApp {
                    live: history.live().cloned(),
                    application: tree::file(repo, Some(&root), &file)?,
                    target: target.clone(),
                    app,
                });
            }
        }
    }
    Ok(apps)
}
