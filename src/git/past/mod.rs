//! THE PAST: what the commits of the branch say was done, and what stands now. For who has lost the
//! record of it.
//!
//! A writer's clone of a server has the newest commits only, so the whole branch is fetched into a
//! clone of its own, which goes again. Reads only.

mod words; // what the words of a commit say

use std::collections::BTreeSet;
use std::path::Path;

use git2::{ErrorCode, ObjectType, Oid, Repository, Sort, Tree};
use jiff::Timestamp;

use crate::git::error::Trouble;
use crate::git::error::WriteError;
use crate::git::fetch::{self, HEADS};
use crate::git::past::words::{Words, deed};
use crate::git::remote::Remote;
use crate::git::writer::{Door, ManifestRepository, blocking};
use crate::git::{clone, layout, transport, tree};
use crate::model::id::{AppKey, CommitSha, DeployId, Namespace, Slug, TargetName};
use crate::model::past::{Deed, PastDeployment};
use crate::model::rollback::TreeId;

/// The most deeds that are read, the newest: a hundred a day for years.
const MOST: usize = 200_000;

/// Of commits that cannot be read, so many are named.
const MOST_UNREAD: usize = 100;

/// What a branch says of the past, and what it has now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Past {
    /// What was done, oldest first; each id once.
    pub deeds: Vec<Deed>,
    /// Every app that stands, in order.
    pub standing: Vec<Standing>,
    /// Commits that speak of a deed and that nothing can be made of: which, and why.
    pub unread: Vec<(CommitSha, String)>,
    /// Whether there was more than is read.
    pub cut: bool,
}

/// An app that a target has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Where.
    pub target: TargetName,
    /// What.
    pub app: AppKey,
    /// The newest revision whose files `latest` has; `None` if somebody edited it by hand.
    pub live: Option<DeployId>,
    /// The bytes of its Application.
    pub application: Option<Vec<u8>>,
}

impl ManifestRepository {
    /// What was done on the branch, from its first commit on.
    ///
    /// # Errors
    /// When the server cannot be asked, or the repository cannot be read.
    pub async fn past(&self, branch: &str) -> Result<Past, WriteError> {
        let (door, reference) = (self.door().clone(), format!("{HEADS}{branch}"));
        blocking(move || match door {
            Door::Local { path, reference, .. } => read(&Repository::open_bare(path)?, &reference),
            Door::Server { remote, clone } => {
                let folder = clone::with_suffix(&clone, "past");
                let past = whole(&remote, &folder, &reference);
                clone::remove(&folder);
                past
            }
        })
        .await
    }
}

/// Fetches everything that the branch has.
fn whole(remote: &Remote, folder: &Path, reference: &str) -> Result<Past, Trouble> {
    let disk = |error: std::io::Error| {
        let (repository, folder) = (remote.to_string(), folder.display().to_string());
        Trouble::Error(WriteError::Disk { repository, folder, cause: error.to_string() })
    };
    let repo = clone::begin(folder, "the whole past\n").map_err(disk)?;
    let fetched = transport::over(remote, |address| fetch::fetch(&repo, address, reference, 0));
    fetched.map_err(|error| error.trouble(remote))?;
    read(&repo, clone::TRACKING)
}

fn read(repo: &Repository, reference: &str) -> Result<Past, Trouble> {
    let tip = match repo.refname_to_id(reference) {
        Ok(tip) => tip,
        Err(error) if error.code() == ErrorCode::NotFound => return Ok(Past::default()),
        Err(error) => return Err(error.into()),
    };
    let mut past = Past { standing: standing(repo, tip)?, ..Past::default() };
    let mut seen = BTreeSet::new();
    let mut walk = repo.revwalk()?;
    walk.set_sorting(Sort::TOPOLOGICAL | Sort::TIME)?;
    walk.push(tip)?;
    for id in walk {
        if past.deeds.len() >= MOST {
            past.cut = true;
            break;
        }
        look(repo, id?, &mut past)?;
    }
    past.deeds.reverse();
    // A commit that was taken over by somebody else's says the same again: the first one did it.
    past.deeds.retain(|deed| seen.insert(id_of(deed).clone()));
    Ok(past)
}

fn look(repo: &Repository, id: Oid, past: &mut Past) -> Result<(), Trouble> {
    let commit = repo.find_commit(id)?;
    let message = String::from_utf8_lossy(commit.message_bytes());
    let at = Timestamp::from_second(commit.time().seconds()).unwrap_or(Timestamp::UNIX_EPOCH);
    let Ok(sha) = CommitSha::parse(id.to_string()) else { return Ok(()) };
    let words = Words { message: &message, commit: sha.clone(), at };
    match deed(&words) {
        None => {}
        Some(Ok(Deed::Deployment(one))) => match brought(repo, &commit.tree()?, *one)? {
            Some(one) => past.deeds.push(Deed::Deployment(Box::new(one))),
            None => not_read(past, sha, "it has no folder of that revision".to_owned()),
        },
        Some(Ok(removal @ Deed::Removal(_))) => past.deeds.push(removal),
        Some(Err(why)) => not_read(past, sha, why),
    }
    Ok(())
}

fn not_read(past: &mut Past, commit: CommitSha, why: String) {
    if past.unread.len() < MOST_UNREAD {
        past.unread.push((commit, why));
    }
}

/// The deed with the files that its commit brought; `None` if it did not bring them. A deployment's
/// commit has the folder of its revision, a rollback's has as `latest` the revision that it names.
fn brought(
    repo: &Repository,
    root: &Tree<'_>,
    mut one: PastDeployment,
) -> Result<Option<PastDeployment>, Trouble> {
    let revision = one.rollback.as_ref().map_or(&one.id, |rollback| &rollback.to);
    let folder = layout::revision_folder(&one.target, &one.app, revision);
    let Some((id, ObjectType::Tree)) = tree::find(Some(root), &folder)? else { return Ok(None) };
    if let Some(rollback) = &mut one.rollback {
        let latest = tree::find(Some(root), &layout::latest_folder(&one.target, &one.app))?;
        if latest.is_none_or(|(latest, _)| latest != id) {
            return Ok(None);
        }
        rollback.tree = TreeId(id.to_string());
    }
    let names = |entry: git2::TreeEntry<'_>| entry.name().ok().map(str::to_owned);
    one.pushed.files = repo.find_tree(id)?.iter().filter_map(names).collect();
    Ok(Some(one))
}

fn id_of(deed: &Deed) -> &DeployId {
    match deed {
        Deed::Deployment(one) => &one.id,
        Deed::Removal(one) => &one.id,
    }
}

/// Every app that the tip has a `latest` of.
fn standing(repo: &Repository, tip: Oid) -> Result<Vec<Standing>, Trouble> {
    let root = repo.find_commit(tip)?.tree()?;
    let mut all = Vec::new();
    for target in folders(repo, &root, &layout::targets_folder().to_string())? {
        let Ok(target) = TargetName::parse(target) else { continue };
        let inside = layout::target_folder(&target).to_string();
        for namespace in folders(repo, &root, &inside)? {
            let Ok(namespace) = Namespace::parse(namespace) else { continue };
            for slug in folders(repo, &root, &format!("{inside}/{namespace}"))? {
                let Ok(slug) = Slug::parse(slug) else { continue };
                let app = AppKey { namespace: namespace.clone(), slug };
                all.extend(stands(repo, &root, &target, app)?);
            }
        }
    }
    Ok(all)
}

fn stands(
    repo: &Repository,
    root: &Tree<'_>,
    target: &TargetName,
    app: AppKey,
) -> Result<Option<Standing>, Trouble> {
    let Some((latest, _)) = tree::find(Some(root), &layout::latest_folder(target, &app))? else {
        return Ok(None);
    };
    let revisions = tree::revision_folders(repo, Some(root), &layout::app_folder(target, &app))?;
    let of_latest = revisions.into_iter().filter(|(_, id)| *id == latest).map(|(id, _)| id);
    let file = tree::find(Some(root), &layout::application_file(target, &app))?;
    let application = match file {
        Some((id, ObjectType::Blob)) => Some(repo.find_blob(id)?.content().to_vec()),
        _ => None,
    };
    Ok(Some(Standing { target: target.clone(), app, live: of_latest.max(), application }))
}

fn folders(repo: &Repository, root: &Tree<'_>, path: &str) -> Result<Vec<String>, Trouble> {
    let Some((id, ObjectType::Tree)) = tree::find_text(Some(root), path)? else {
        return Ok(Vec::new());
    };
    let tree = repo.find_tree(id)?;
    let folders = tree.iter().filter(|entry| entry.kind() == Some(ObjectType::Tree));
    Ok(folders.filter_map(|entry| entry.name().ok().map(str::to_owned)).collect())
}
