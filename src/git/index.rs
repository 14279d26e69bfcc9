//! What has changed in a target's `latest` folders since one last looked: the basis of an index
//! over all apps that need not read the repository again for each question.
//!
//! Folders are compared by object id from the target's down, so that what nobody touched costs
//! nothing, and an app whose wanted files are the same is not read again, whatever else of it has
//! changed. Has its own handle on the repository: nobody waits for the writer, and the writer waits
//! for nobody. Reads what is known of the branch here; who wants to know what others did on the
//! server since then asks [`ManifestRepository::tip`] first. Knows nothing of what files mean.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use git2::{ObjectType, Oid, Repository, Tree};

use crate::git::clone::TRACKING;
use crate::git::error::WriteError;
use crate::git::layout::{self, LATEST};
use crate::git::tree;
use crate::git::writer::{Door, ManifestRepository};
use crate::model::id::{AppKey, Namespace, Slug, TargetName};
use crate::model::revision::ManifestFile;

/// The most bytes of one file; a manifest has some thousand.
const LARGEST: usize = 1024 * 1024;
/// The most files of one app that are read.
const FILES: usize = 200;

/// Follows one target's apps. To be called where blocking is allowed, by one at a time.
pub struct Follower {
    place: Place,
    folder: layout::RepoPath,
    wanted: fn(&str) -> bool,
    repo: Option<Repository>,
    seen: Seen,
}

/// Where the branch can be read without the writer.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) folder: PathBuf,
    reference: String,
    /// Whether others' pushes are here as soon as they are made.
    live: bool,
}

/// Object ids as they were at the last look.
#[derive(Debug, Clone, Default)]
struct Seen {
    target: Option<Oid>,
    namespaces: BTreeMap<Namespace, SeenNamespace>,
}

#[derive(Debug, Clone)]
struct SeenNamespace {
    tree: Oid,
    apps: BTreeMap<Slug, SeenApp>,
}

#[derive(Debug, Clone)]
struct SeenApp {
    tree: Oid,
    latest: Option<Oid>,
    files: Vec<(String, Oid)>,
}

/// What is new since the last look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Apps whose wanted files are others now, each with all of these; empty where it has none.
    pub changed: Vec<(AppKey, Vec<ManifestFile>)>,
    /// Apps that are no longer there.
    pub gone: Vec<AppKey>,
}

impl Place {
    /// The tree that the branch is at; `None` where a folder of this machine has no such branch.
    ///
    /// A clone without it is an error: it may just be made anew, and not know the branch yet.
    fn root<'r>(&self, repo: &'r Repository) -> Result<Option<Tree<'r>>, git2::Error> {
        match repo.refname_to_id(&self.reference) {
            Ok(tip) => repo.find_commit(tip)?.tree().map(Some),
            Err(error) if self.live && is_not_there(&error) && self.folder.exists() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn is_not_there(error: &git2::Error) -> bool {
    error.code() == git2::ErrorCode::NotFound
}

impl ManifestRepository {
    /// Follows the `latest` folders of a target; of each, files whose names are `wanted`.
    pub fn follow(&self, target: &TargetName, wanted: fn(&str) -> bool) -> Follower {
        let folder = layout::target_folder(target);
        Follower { place: self.place(), folder, wanted, repo: None, seen: Seen::default() }
    }

    /// Where it can be read beside the writer.
    pub(super) fn place(&self) -> Place {
        match self.door() {
            Door::Local { path, reference, .. } => {
                Place { folder: path.clone(), reference: reference.clone(), live: true }
            }
            Door::Server { clone, .. } => {
                Place { folder: clone.clone(), reference: TRACKING.to_owned(), live: false }
            }
        }
    }

    /// Whether it is a folder of this machine: then there is no server to ask.
    pub fn is_local(&self) -> bool {
        matches!(self.door(), Door::Local { .. })
    }
}

impl Follower {
    /// What has changed since the last call; all there is at the first. After an error nothing
    /// counts as seen that was not before.
    ///
    /// # Errors
    /// When the repository cannot be read, also not after it was opened again; and while a clone
    /// does not know of any branch on its server.
    pub fn changes(&mut self) -> Result<Changes, WriteError> {
        let compared = self.reading(|repo, root, this| this.compare(repo, root))?;
        let Some((seen, changes)) = compared else { return Ok(Changes::default()) };
        self.seen = seen;
        Ok(changes)
    }

    /// The files of an app's `latest`, by name; empty if there is no such app. And the names of
    /// those that were left out, as too many or too large.
    ///
    /// # Errors
    /// As [`Follower::changes`].
    pub fn latest(
        &mut self,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<(Vec<ManifestFile>, Vec<String>), WriteError> {
        let folder = layout::latest_folder(target, app);
        self.reading(|repo, root, _| {
            let Some((id, ObjectType::Tree)) = tree::find(root, &folder)? else {
                return Ok((Vec::new(), Vec::new()));
            };
            let there = files(&repo.find_tree(id)?, |_| true);
            let some = there.get(..FILES).unwrap_or(&there);
            let read = read(repo, some)?;
            let is_read = |name: &String| read.iter().any(|file| file.name == *name);
            let left = there.into_iter().map(|(name, _)| name).filter(|name| !is_read(name));
            let left = left.collect();
            Ok((read, left))
        })
    }

    /// A clone that was made anew behind our back is opened again, once.
    fn reading<T>(
        &mut self,
        read: impl Fn(&Repository, Option<&Tree<'_>>, &Self) -> Result<T, git2::Error>,
    ) -> Result<T, WriteError> {
        let first = self.once(&read);
        if first.is_ok() {
            return first.map_err(|error| self.failed(&error));
        }
        self.repo = None;
        self.once(&read).map_err(|error| self.failed(&error))
    }

    fn once<T>(
        &mut self,
        read: &impl Fn(&Repository, Option<&Tree<'_>>, &Self) -> Result<T, git2::Error>,
    ) -> Result<T, git2::Error> {
        let repo = match self.repo.take() {
            Some(repo) => repo,
            None => open(&self.place.folder)?,
        };
        let root = self.place.root(&repo)?;
        let found = read(&repo, root.as_ref(), self)?;
        drop(root);
        self.repo = Some(repo);
        Ok(found)
    }

    /// What is there now and what of it is new; `None` where nothing is.
    fn compare(
        &self,
        repo: &Repository,
        root: Option<&Tree<'_>>,
    ) -> Result<Option<(Seen, Changes)>, git2::Error> {
        let target = match tree::find(root, &self.folder)? {
            Some((id, ObjectType::Tree)) => Some(id),
            _ => None,
        };
        if target == self.seen.target {
            return Ok(None);
        }
        let mut changes = Changes::default();
        let mut namespaces = BTreeMap::new();
        for (name, id) in folders(repo, target)? {
            let Ok(namespace) = Namespace::parse(name) else { continue };
            let before = self.seen.namespaces.get(&namespace);
            let now = match before {
                Some(before) if before.tree == id => before.clone(),
                _ => self.namespace(repo, &namespace, id, before, &mut changes)?,
            };
            namespaces.insert(namespace, now);
        }
        for (namespace, before) in &self.seen.namespaces {
            let now = namespaces.get(namespace);
            let gone =
                before.apps.keys().filter(|slug| now.is_none_or(|n| !n.apps.contains_key(slug)));
            changes.gone.extend(
                gone.map(|slug| AppKey { namespace: namespace.clone(), slug: slug.clone() }),
            );
        }
        Ok(Some((Seen { target, namespaces }, changes)))
    }

    fn namespace(
        &self,
        repo: &Repository,
        namespace: &Namespace,
        id: Oid,
        before: Option<&SeenNamespace>,
        changes: &mut Changes,
    ) -> Result<SeenNamespace, git2::Error> {
        let mut apps = BTreeMap::new();
        for (name, id) in folders(repo, Some(id))? {
            let Ok(slug) = Slug::parse(name) else { continue };
            let before = before.and_then(|before| before.apps.get(&slug));
            let now = match before {
                Some(before) if before.tree == id => before.clone(),
                _ => self.app(repo, id, before)?,
            };
            if before.map_or(&[][..], |before| &before.files) != now.files {
                let app = AppKey { namespace: namespace.clone(), slug: slug.clone() };
                changes.changed.push((app, read(repo, &now.files)?));
            }
            apps.insert(slug, now);
        }
        Ok(SeenNamespace { tree: id, apps })
    }

    fn app(
        &self,
        repo: &Repository,
        id: Oid,
        before: Option<&SeenApp>,
    ) -> Result<SeenApp, git2::Error> {
        let folder = repo.find_tree(id)?;
        let entry = folder.get_name(LATEST).filter(|e| e.kind() == Some(ObjectType::Tree));
        let latest = entry.map(|entry| entry.id());
        let files = match (latest, before) {
            (Some(latest), Some(before)) if before.latest == Some(latest) => before.files.clone(),
            (Some(latest), _) => files(&repo.find_tree(latest)?, self.wanted),
            (None, _) => Vec::new(),
        };
        let files = files.into_iter().take(FILES).collect();
        Ok(SeenApp { tree: id, latest, files })
    }

    fn failed(&self, error: &git2::Error) -> WriteError {
        WriteError::Corrupt {
            repository: self.place.folder.display().to_string(),
            cause: error.message().to_owned(),
        }
    }
}

fn open(folder: &Path) -> Result<Repository, git2::Error> {
    Repository::open_bare(folder)
}

fn folders(repo: &Repository, id: Option<Oid>) -> Result<Vec<(String, Oid)>, git2::Error> {
    let Some(id) = id else { return Ok(Vec::new()) };
    let tree = repo.find_tree(id)?;
    let folders = tree.iter().filter(|entry| entry.kind() == Some(ObjectType::Tree));
    Ok(folders.filter_map(|entry| Some((entry.name().ok()?.to_owned(), entry.id()))).collect())
}

fn files(tree: &Tree<'_>, wanted: impl Fn(&str) -> bool) -> Vec<(String, Oid)> {
    let blobs = tree.iter().filter(|entry| entry.kind() == Some(ObjectType::Blob));
    let named = blobs.filter_map(|entry| Some((entry.name().ok()?.to_owned(), entry.id())));
    named.filter(|(name, _)| wanted(name)).collect()
}

fn read(repo: &Repository, files: &[(String, Oid)]) -> Result<Vec<ManifestFile>, git2::Error> {
    let odb = repo.odb()?;
    let mut found = Vec::new();
    for (name, id) in files {
        // The header first: a huge file is left out without being read.
        let (size, _) = odb.read_header(*id)?;
        if size <= LARGEST {
            found.push(ManifestFile { name: name.clone(), bytes: odb.read(*id)?.data().to_vec() });
        }
    }
    Ok(found)
}
