//! What has changed in a target's apps since one last looked: which revision is live, files of
//! `latest`, the Application. The basis of an index over a whole repository that need not read it
//! again for each question.
//!
//! Folders are compared by object id from the target's down (`compare`), so that what nobody touched
//! costs nothing, and a file that is the same is not read again, whatever else of its app has
//! changed. Has its own handle on the repository: nobody waits for the writer, and the writer waits
//! for nobody. Reads what is known of the branch here; who wants to know what others did on the
//! server since then asks [`ManifestRepository::tip`] first. Knows nothing of what files mean.

mod compare; // object ids, then and now

use std::path::{Path, PathBuf};

use git2::{ObjectType, Oid, Repository, Tree};

use crate::git::clone::TRACKING;
use crate::git::error::WriteError;
use crate::git::index::compare::{
    Application as FoundApplication, Compared, FoundApp, Scope, Seen,
};
use crate::git::layout;
use crate::git::tree;
use crate::git::writer::{Door, ManifestRepository};
use crate::model::id::{AppKey, DeployId, Namespace, Slug, TargetName};
use crate::model::revision::ManifestFile;

/// The most bytes of one file; a manifest has some thousand.
const LARGEST: usize = 1024 * 1024;
/// The most files of one app that are read.
const FILES: usize = 200;
/// A look that finds more opens the repository anew for the next one: git keeps every folder that
/// was read in memory, and of a first look nearly none is needed again.
const MANY: usize = 100;

/// Follows one target's apps. To be called where blocking is allowed, by one at a time.
pub struct Follower {
    place: Place,
    scope: Scope,
    repo: Option<Repository>,
    seen: Seen,
    read: u64,
}

/// Where the branch can be read without the writer.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) folder: PathBuf,
    pub(super) reference: String,
    /// Whether others' pushes are here as soon as they are made.
    live: bool,
}

/// What is new since the last look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Apps that are new, or of which something is another now.
    pub changed: Vec<Changed>,
    /// Apps that are no longer there.
    pub gone: Vec<AppKey>,
}

/// What an app has now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Which.
    pub app: AppKey,
    /// The newest revision whose files `latest` has; `None` if somebody edited it by hand.
    pub live: Option<DeployId>,
    /// The wanted files of `latest`; `None` where they are what they were.
    pub files: Option<Vec<ManifestFile>>,
    /// The names of those that are not among them: larger than a mebibyte, or after the first 200.
    pub left_out: Vec<String>,
    /// Its Application.
    pub application: Application,
}

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Application {
    /// It is as it was.
    Same,
    /// There is none, or one that is too large to be one.
    Gone,
    /// It has these bytes now.
    Now(Vec<u8>),
}

/// What an app's folder is recognised by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FolderId(Oid);

/// An app of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceApp<T> {
    /// Which.
    pub slug: Slug,
    /// Its folder now.
    pub folder: FolderId,
    /// What was made of the files of `latest`; `None` where the folder is the known one.
    pub found: Option<T>,
}

impl Place {
    /// The tree that the branch is at; `None` where a folder of this machine has no such branch.
    ///
    /// A clone without it is an error: it may just be made anew, and not know the branch yet.
    pub(super) fn root<'r>(&self, repo: &'r Repository) -> Result<Option<Tree<'r>>, git2::Error> {
        self.tip(repo)?.map(|tip| repo.find_commit(tip)?.tree()).transpose()
    }

    /// The commit that the branch is at, as far as is known here.
    pub(super) fn tip(&self, repo: &Repository) -> Result<Option<Oid>, git2::Error> {
        match repo.refname_to_id(&self.reference) {
            Ok(tip) => Ok(Some(tip)),
            Err(error) if self.live && is_not_there(&error) && self.folder.exists() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn failed(&self, error: &git2::Error) -> WriteError {
        WriteError::of_git(self.folder.display().to_string(), &self.folder, error)
    }

    fn targets(&self) -> Result<Vec<TargetName>, git2::Error> {
        let repo = open(&self.folder)?;
        let root = self.root(&repo)?;
        let Some((id, ObjectType::Tree)) = tree::find(root.as_ref(), &layout::targets_folder())?
        else {
            return Ok(Vec::new());
        };
        let folders = compare::folders(&repo, Some(id))?;
        Ok(folders.into_iter().filter_map(|(name, _)| TargetName::parse(name).ok()).collect())
    }
}

fn is_not_there(error: &git2::Error) -> bool {
    error.code() == git2::ErrorCode::NotFound
}

impl ManifestRepository {
    /// Follows the apps of a target; of each `latest`, files whose names are `wanted`.
    pub fn follow(&self, target: &TargetName, wanted: fn(&str) -> bool) -> Follower {
        let scope = Scope::new(target, wanted, FILES);
        Follower { place: self.place(), scope, repo: None, seen: Seen::default(), read: 0 }
    }

    /// The targets that have manifests, in order. Blocks; reads what is known here.
    ///
    /// # Errors
    /// As [`Follower::changes`].
    pub fn targets(&self) -> Result<Vec<TargetName>, WriteError> {
        let place = self.place();
        let found = place.targets().map_err(|error| place.failed(&error));
        found.map(|mut targets| {
            targets.sort();
            targets
        })
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
        let changes = self.changes_within(usize::MAX)?;
        Ok(changes.unwrap_or_default())
    }

    /// The same, where the target has not more apps than `most`. Else `None`: no file was read, and
    /// nothing counts as seen.
    ///
    /// # Errors
    /// As [`Follower::changes`].
    pub fn changes_within(&mut self, most: usize) -> Result<Option<Changes>, WriteError> {
        let compared = self.reading(|repo, root, this| {
            match this.scope.compare(repo, root, &this.seen, most)? {
                Compared::Same => Ok(Some((None, Changes::default(), 0))),
                Compared::TooMany => Ok(None),
                Compared::New(seen, found) => {
                    let mut count = 0;
                    let changed =
                        found.changed.into_iter().map(|one| changed(repo, one, &mut count));
                    let changed = changed.collect::<Result<Vec<_>, _>>()?;
                    Ok(Some((Some(seen), Changes { changed, gone: found.gone }, count)))
                }
            }
        })?;
        let Some((seen, changes, count)) = compared else { return Ok(None) };
        if let Some(seen) = seen {
            self.seen = seen;
        }
        self.read += count;
        if changes.changed.len() > MANY {
            self.repo = None;
        }
        Ok(Some(changes))
    }

    /// How many files were read for all [`Follower::changes`] so far.
    pub fn files_read(&self) -> u64 {
        self.read
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
            let there = compare::files(&repo.find_tree(id)?, |_| true);
            let some = there.get(..FILES).unwrap_or(&there);
            let (read, mut left) = read(repo, some)?;
            left.extend(there.iter().skip(FILES).map(|(name, _)| name.clone()));
            Ok((read, left))
        })
    }

    /// The files with a wanted name in the app's revisions that `latest` is not, the newest revision's first.
    /// Those that are too large are left out.
    ///
    /// # Errors
    /// As [`Follower::changes`].
    pub fn former_files(
        &mut self,
        target: &TargetName,
        app: &AppKey,
        wanted: fn(&str) -> bool,
    ) -> Result<Vec<Vec<ManifestFile>>, WriteError> {
        let (folder, latest) =
            (layout::app_folder(target, app), layout::latest_folder(target, app));
        self.reading(|repo, root, _| {
            let latest = tree::find(root, &latest)?.map(|(id, _)| id);
            let mut revisions = tree::revision_folders(repo, root, &folder)?;
            revisions.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
            let former = revisions.into_iter().filter(|(_, id)| Some(*id) != latest);
            let files = former.take(layout::REVISIONS_KEPT).map(|(_, id)| {
                let there = compare::files(&repo.find_tree(id)?, wanted);
                Ok(read(repo, there.get(..FILES).unwrap_or(&there))?.0)
            });
            files.collect()
        })
    }

    /// Every app of a namespace; of those whose folder is not the known one what `make` makes of the files of
    /// `latest` and of the names of those that were left out, as too many or too large. One app's files
    /// are held at a time.
    ///
    /// # Errors
    /// As [`Follower::changes`].
    pub fn namespace<T>(
        &mut self,
        target: &TargetName,
        namespace: &Namespace,
        known: impl Fn(&Slug) -> Option<FolderId>,
        make: impl Fn(&[ManifestFile], Vec<String>) -> T,
    ) -> Result<Vec<NamespaceApp<T>>, WriteError> {
        let folder = layout::namespace_folder(target, namespace);
        self.reading(|repo, root, _| {
            let Some((id, ObjectType::Tree)) = tree::find(root, &folder)? else {
                return Ok(Vec::new());
            };
            let mut apps = Vec::new();
            for (name, id) in compare::folders(repo, Some(id))? {
                let Ok(slug) = Slug::parse(name) else { continue };
                let found = if known(&slug) == Some(FolderId(id)) {
                    None
                } else {
                    let inside = compare::folders(repo, Some(id))?.into_iter();
                    let latest = inside.into_iter().find(|(name, _)| name == layout::LATEST);
                    let there = latest.map(|(_, id)| repo.find_tree(id)).transpose()?;
                    let there = there.map_or_else(Vec::new, |it| compare::files(&it, |_| true));
                    let (files, mut left) = read(repo, there.get(..FILES).unwrap_or(&there))?;
                    left.extend(there.iter().skip(FILES).map(|(name, _)| name.clone()));
                    Some(make(&files, left))
                };
                apps.push(NamespaceApp { slug, folder: FolderId(id), found });
            }
            Ok(apps)
        })
    }

    /// A clone that was made anew behind our back is opened again, once.
    fn reading<T>(
        &mut self,
        read: impl Fn(&Repository, Option<&Tree<'_>>, &Self) -> Result<T, git2::Error>,
    ) -> Result<T, WriteError> {
        let first = self.once(&read);
        if first.is_ok() {
            return first.map_err(|error| self.place.failed(&error));
        }
        self.repo = None;
        self.once(&read).map_err(|error| self.place.failed(&error))
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
}

fn open(folder: &Path) -> Result<Repository, git2::Error> {
    Repository::open_bare(folder)
}

/// Reads what is new of an app, and counts the files.
fn changed(repo: &Repository, one: FoundApp, count: &mut u64) -> Result<Changed, git2::Error> {
    let FoundApp { app, live, files, more, application } = one;
    let read_all = files.map(|files| read(repo, &files)).transpose()?;
    let (files, mut left_out) =
        read_all.map_or_else(Default::default, |(files, too_large)| (Some(files), too_large));
    left_out.extend(more);
    *count += files.as_ref().map_or(0, |files| files.len() as u64);
    let application = match application {
        FoundApplication::Same => Application::Same,
        FoundApplication::Gone => Application::Gone,
        FoundApplication::Now(id) => {
            *count += 1;
            let name = String::new();
            let file = read(repo, &[(name, id)])?.0.pop();
            file.map_or(Application::Gone, |file| Application::Now(file.bytes))
        }
    };
    Ok(Changed { app, live, files, left_out, application })
}

/// The files, and the names of those that are too large.
fn read(
    repo: &Repository,
    files: &[(String, Oid)],
) -> Result<(Vec<ManifestFile>, Vec<String>), git2::Error> {
    let odb = repo.odb()?;
    let (mut found, mut too_large) = (Vec::new(), Vec::new());
    for (name, id) in files {
        // The header first: a huge file is left out without being read.
        let (size, _) = odb.read_header(*id)?;
        if size > LARGEST {
            too_large.push(name.clone());
        } else {
            found.push(ManifestFile { name: name.clone(), bytes: odb.read(*id)?.data().to_vec() });
        }
    }
    Ok((found, too_large))
}
