//! The changes of a target's apps since the last read: the live revision, files of `latest`, the Application. An index
//! over a whole repository is built on it, so that it need not read the repository again for each question.
//!
//! Folders are compared by object id from the target's down (`compare`), so that unchanged ones cost nothing, and an
//! unchanged file is not read again, whatever else of its app has changed. The index has its own handle on the
//! repository: it never waits for the writer, and the writer never waits for it. It reads the known state of the
//! branch; a caller that needs later pushes of others calls [`ManifestRepository::tip`] first. The module does not know
//! the meaning of the files.

mod compare; // object ids, then and now

use git2::{Oid, Repository, Tree};

use crate::git::clone::branch::BranchPlace;
use crate::git::error::WriteError;
pub use crate::git::index::compare::Application;
use crate::git::index::compare::{AppDifference, ComparisonResult, IndexScope, SeenIds};
use crate::git::layout;
use crate::git::objects::tree;
use crate::git::writer::ManifestRepository;
use crate::model::id::{AppKey, DeployId, Namespace, Slug, TargetName};
use crate::model::revision::ManifestFile;

/// The most bytes of one file; a manifest has some thousand.
const LARGEST: usize = 1024 * 1024;
/// The most files of one app that are read.
const FILES: usize = 200;
/// The limit of changes after which the repository is opened again for the next read: git keeps every folder that was
/// read in memory, and of a first read nearly none is needed again.
const MANY: usize = 100;

/// Follows one target's apps. To be called where blocking is allowed, by one at a time.
pub struct TargetFollower {
    place: BranchPlace,
    scope: IndexScope,
    repo: Option<Repository>,
    seen: SeenIds,
    read: u64,
}

/// The changes since the last read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Apps that are new, or of which something is another now.
    pub changed: Vec<ChangedApp>,
    /// Apps that are no longer there.
    pub gone: Vec<AppKey>,
}

/// The present state of an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedApp {
    /// The app.
    pub app: AppKey,
    /// The newest revision whose files `latest` has; `None` after a manual edit.
    pub live: Option<DeployId>,
    /// The wanted files of `latest`; `None` where they have not changed.
    pub files: Option<Vec<ManifestFile>>,
    /// The names of those that are not among them: larger than a mebibyte, or after the first 200.
    pub left_out: Vec<String>,
    /// The Application of the app.
    pub application: Application,
}

/// The object id of an app's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FolderId(Oid);

/// An app of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceApp<T> {
    /// The slug of the app.
    pub slug: Slug,
    /// The folder now.
    pub folder: FolderId,
    /// The value that was built from the files of `latest`; `None` where the folder is the known one.
    pub found: Option<T>,
}

impl ManifestRepository {
    /// Follows the apps of a target; of each `latest`, files whose names are `wanted`.
    pub fn follow(&self, target: &TargetName, wanted: fn(&str) -> bool) -> TargetFollower {
        let scope = IndexScope::new(target, wanted, FILES);
        TargetFollower { place: self.place(), scope, repo: None, seen: SeenIds::default(), read: 0 }
    }

    /// Lists the targets that have manifests, in order. Blocks; reads the known state here.
    ///
    /// # Errors
    /// As [`TargetFollower::changes`].
    pub fn targets(&self) -> Result<Vec<TargetName>, WriteError> {
        let place = self.place();
        let list_folders = || {
            let repo = Repository::open_bare(&place.folder)?;
            let targets = layout::targets_folder().to_string();
            let folder = tree::folder(&repo, place.root(&repo)?.as_ref(), &targets)?;
            Ok(folder.as_ref().map_or_else(Vec::new, tree::folders))
        };
        let folders = list_folders().map_err(|error| place.to_write_error(&error))?.into_iter();
        let mut targets: Vec<_> =
            folders.filter_map(|(name, _)| TargetName::parse(name).ok()).collect();
        targets.sort();
        Ok(targets)
    }
}

impl TargetFollower {
    /// Reads what has changed since the last call; all there is at the first. After an error
    /// nothing counts as seen that was not before.
    ///
    /// # Errors
    /// When the repository cannot be read, also not after it was opened again; and while a clone
    /// does not know of any branch on its server.
    pub fn changes(&mut self) -> Result<Changes, WriteError> {
        let changes = self.changes_within(usize::MAX)?;
        Ok(changes.unwrap_or_default())
    }

    /// Reads the changes, where the target has not more apps than `most`. Else `None`: no file was read, and nothing
    /// counts as seen.
    ///
    /// # Errors
    /// As [`TargetFollower::changes`].
    pub fn changes_within(&mut self, most: usize) -> Result<Option<Changes>, WriteError> {
        let compared = self.reading(|repo, root, follower| {
            match follower.scope.compare(repo, root, &follower.seen, most)? {
                ComparisonResult::Same => Ok(Some((None, Changes::default(), 0))),
                ComparisonResult::TooMany => Ok(None),
                ComparisonResult::New(ids, app_changes) => {
                    let mut count = 0;
                    let apps = app_changes
                        .changed
                        .into_iter()
                        .map(|app| read_change(repo, app, &mut count));
                    let apps = apps.collect::<Result<Vec<_>, _>>()?;
                    Ok(Some((Some(ids), Changes { changed: apps, gone: app_changes.gone }, count)))
                }
            }
        })?;
        let Some((ids, changes, count)) = compared else { return Ok(None) };
        if let Some(ids) = ids {
            self.seen = ids;
        }
        self.read += count;
        if changes.changed.len() > MANY {
            self.repo = None;
        }
        Ok(Some(changes))
    }

    /// Returns how many files were read for all [`TargetFollower::changes`] so far.
    pub fn files_read(&self) -> u64 {
        self.read
    }

    /// Returns the files of an app's `latest`, by name; empty if there is no such app. And the names of those that were
    /// left out, as too many or too large.
    ///
    /// # Errors
    /// As [`TargetFollower::changes`].
    pub fn latest(
        &mut self,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<(Vec<ManifestFile>, Vec<String>), WriteError> {
        let path = layout::latest_folder(target, app).to_string();
        self.reading(|repo, root, _| {
            let latest = tree::folder(repo, root, &path)?;
            tree::read_folder(repo, latest.as_ref(), FILES, Some(LARGEST))
        })
    }

    /// Returns the files with a wanted name in the app's revisions that `latest` is not, the newest revision's first.
    /// Those that are too large are left out.
    ///
    /// # Errors
    /// As [`TargetFollower::changes`].
    pub fn former_files(
        &mut self,
        target: &TargetName,
        app: &AppKey,
        wanted: fn(&str) -> bool,
    ) -> Result<Vec<Vec<ManifestFile>>, WriteError> {
        let latest = layout::latest_folder(target, app);
        self.reading(|repo, root, _| {
            let latest = tree::find(root, &latest)?.map(|(id, _)| id);
            let mut revisions = tree::revision_folders(repo, root, target, app)?;
            revisions.sort_unstable_by(|(left_revision, _), (other, _)| other.cmp(left_revision));
            let former = revisions.into_iter().filter(|(_, id)| Some(*id) != latest);
            let files = former.take(layout::REVISIONS_KEPT).map(|(_, id)| {
                let mut entries = tree::files(&repo.find_tree(id)?, wanted);
                entries.truncate(FILES);
                Ok(tree::read(repo, &entries, Some(LARGEST))?.0)
            });
            files.collect()
        })
    }

    /// Returns every app of a namespace; for an app with another folder than the known one, with the value that `make`
    /// builds from the files of `latest` and from the names of those that were left out, as too many or too large. One
    /// app's files are held at a time.
    ///
    /// # Errors
    /// As [`TargetFollower::changes`].
    pub fn namespace<T>(
        &mut self,
        target: &TargetName,
        namespace: &Namespace,
        known: impl Fn(&Slug) -> Option<FolderId>,
        make: impl Fn(&[ManifestFile], Vec<String>) -> T,
    ) -> Result<Vec<NamespaceApp<T>>, WriteError> {
        let path = layout::namespace_folder(target, namespace).to_string();
        self.reading(|repo, root, _| {
            let Some(folder) = tree::folder(repo, root, &path)? else { return Ok(Vec::new()) };
            let mut apps = Vec::new();
            for (name, id) in tree::folders(&folder) {
                let Ok(slug) = Slug::parse(name) else { continue };
                let manifest_files = if known(&slug) == Some(FolderId(id)) {
                    None
                } else {
                    let latest = tree::folder(repo, Some(&repo.find_tree(id)?), layout::LATEST)?;
                    let (files, left) =
                        tree::read_folder(repo, latest.as_ref(), FILES, Some(LARGEST))?;
                    Some(make(&files, left))
                };
                apps.push(NamespaceApp { slug, folder: FolderId(id), found: manifest_files });
            }
            Ok(apps)
        })
    }

    /// Reads the repository; a clone that was replaced meanwhile is opened again, once.
    fn reading<T>(
        &mut self,
        read: impl Fn(&Repository, Option<&Tree<'_>>, &Self) -> Result<T, git2::Error>,
    ) -> Result<T, WriteError> {
        let result = self.try_read(&read).or_else(|_| {
            self.repo = None;
            self.try_read(&read)
        });
        result.map_err(|error| self.place.to_write_error(&error))
    }

    fn try_read<T>(
        &mut self,
        read: &impl Fn(&Repository, Option<&Tree<'_>>, &Self) -> Result<T, git2::Error>,
    ) -> Result<T, git2::Error> {
        let repo = match self.repo.take() {
            Some(repo) => repo,
            None => Repository::open_bare(&self.place.folder)?,
        };
        let root = self.place.root(&repo)?;
        let value = read(&repo, root.as_ref(), self)?;
        drop(root);
        self.repo = Some(repo);
        Ok(value)
    }
}

/// Reads the changes of an app, and counts the files.
fn read_change(
    repo: &Repository,
    found_app: AppDifference,
    count: &mut u64,
) -> Result<ChangedApp, git2::Error> {
    let AppDifference { app, live, files, more, application } = found_app;
    let read_all = files.map(|files| tree::read(repo, &files, Some(LARGEST))).transpose()?;
    let (files, mut left_out) =
        read_all.map_or_else(Default::default, |(files, too_large)| (Some(files), too_large));
    left_out.extend(more);
    *count += files.as_ref().map_or(0, |files| files.len() as u64);
    let application = match application {
        Application::Same => Application::Same,
        Application::Gone => Application::Gone,
        Application::Now(id) => {
            *count += 1;
            let file = tree::read(repo, &[(String::new(), id)], Some(LARGEST))?.0.pop();
            file.map_or(Application::Gone, |file| Application::Now(file.bytes))
        }
    };
    Ok(ChangedApp { app, live, files, left_out, application })
}
