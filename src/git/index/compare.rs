//! The comparison of a target with its state at the last read, by object ids from the target's folder down: unchanged
//! folders are not opened, and no file is read here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use git2::{ObjectType, Oid, Repository, Tree};

use crate::git::layout::{self, LATEST, RepoPath};
use crate::git::objects::tree::{self, NamedEntry};
use crate::model::id::{AppKey, DeployId, Namespace, Slug, TargetName};

/// The paths of a target, and the wanted files of `latest`.
pub(super) struct IndexScope {
    manifests: RepoPath,
    applications: RepoPath,
    wanted: fn(&str) -> bool,
    /// The most files of one app.
    files: usize,
}

/// The object ids at the last read. Unchanged parts are shared with the read before.
#[derive(Debug, Clone, Default)]
pub(super) struct SeenIds {
    manifests: Option<Oid>,
    applications: Option<Oid>,
    /// The file of each app's Application.
    application: Arc<BTreeMap<AppKey, Oid>>,
    namespaces: BTreeMap<Namespace, Arc<SeenNamespace>>,
}

#[derive(Debug)]
struct SeenNamespace {
    tree: Oid,
    apps: BTreeMap<Slug, Arc<SeenApp>>,
}

#[derive(Debug)]
struct SeenApp {
    tree: Oid,
    latest: Option<Oid>,
    live: Option<DeployId>,
    files: Vec<NamedEntry>,
}

/// The changes, not read yet.
#[derive(Debug, Default)]
pub(super) struct ComparedChanges {
    pub(super) changed: Vec<AppDifference>,
    pub(super) gone: Vec<AppKey>,
}

/// The result of a comparison.
#[derive(Debug)]
pub(super) enum ComparisonResult {
    /// Nothing has changed.
    Same,
    /// This is there, and that of it is new.
    New(SeenIds, ComparedChanges),
    /// More apps than are wanted, and none was looked into.
    TooMany,
}

/// An app that is new or another than before.
#[derive(Debug)]
pub(super) struct AppDifference {
    pub(super) app: AppKey,
    pub(super) live: Option<DeployId>,
    /// `None` where they are as they were.
    pub(super) files: Option<Vec<NamedEntry>>,
    /// Files that are wanted, too, and more than are read.
    pub(super) more: Vec<String>,
    pub(super) application: Application<Oid>,
}

/// The change of an app's Application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Application<T = Vec<u8>> {
    /// The Application has not changed.
    Same,
    /// There is none, or one that is too large to be one.
    Gone,
    /// The Application has these bytes now.
    Now(T),
}

impl IndexScope {
    pub(super) fn new(target: &TargetName, wanted: fn(&str) -> bool, files: usize) -> Self {
        let manifests = layout::target_folder(target);
        Self { manifests, applications: layout::applications_folder(target), wanted, files }
    }

    /// Finds the present apps, if there are not more than `most`, and their changes.
    pub(super) fn compare(
        &self,
        repo: &Repository,
        root: Option<&Tree<'_>>,
        before: &SeenIds,
        most: usize,
    ) -> Result<ComparisonResult, git2::Error> {
        let manifests = folder(root, &self.manifests)?;
        let applications = folder(root, &self.applications)?;
        if (manifests, applications) == (before.manifests, before.applications) {
            return Ok(ComparisonResult::Same);
        }
        if before.apps_in(repo, manifests)? > most {
            return Ok(ComparisonResult::TooMany);
        }
        let application = if applications == before.applications {
            Arc::clone(&before.application)
        } else {
            Arc::new(application_files(repo, applications)?)
        };
        let mut now =
            SeenIds { manifests, applications, application, namespaces: BTreeMap::default() };
        let mut changes = ComparedChanges::default();
        for (name, id) in folders(repo, manifests)? {
            let Ok(namespace) = Namespace::parse(name) else { continue };
            let former = before.namespaces.get(&namespace);
            let current = match former {
                Some(former) if former.tree == id => Arc::clone(former),
                _ => Arc::new(self.namespace(repo, &namespace, id, former, &mut changes)?),
            };
            now.namespaces.insert(namespace, current);
        }
        changes.gone = before.apps_missing_in(&now);
        now.tell_applications(before, &mut changes);
        Ok(ComparisonResult::New(now, changes))
    }

    fn namespace(
        &self,
        repo: &Repository,
        namespace: &Namespace,
        id: Oid,
        before: Option<&Arc<SeenNamespace>>,
        changes: &mut ComparedChanges,
    ) -> Result<SeenNamespace, git2::Error> {
        let mut apps = BTreeMap::new();
        for (name, id) in folders(repo, Some(id))? {
            let Ok(slug) = Slug::parse(name) else { continue };
            let former = before.and_then(|before| before.apps.get(&slug));
            if let Some(former) = former.filter(|former| former.tree == id) {
                apps.insert(slug, Arc::clone(former));
                continue;
            }
            let (now, more) = self.app(repo, id, former)?;
            let is_same = former.is_some_and(|former| former.files == now.files);
            if !is_same || former.is_some_and(|former| former.live != now.live) {
                changes.changed.push(AppDifference {
                    app: AppKey { namespace: namespace.clone(), slug: slug.clone() },
                    live: now.live.clone(),
                    files: (!is_same).then(|| now.files.clone()),
                    more,
                    application: Application::Same,
                });
            }
            apps.insert(slug, Arc::new(now));
        }
        Ok(SeenNamespace { tree: id, apps })
    }

    fn app(
        &self,
        repo: &Repository,
        id: Oid,
        before: Option<&Arc<SeenApp>>,
    ) -> Result<(SeenApp, Vec<String>), git2::Error> {
        let inside = folders(repo, Some(id))?;
        let latest = inside.iter().find(|(name, _)| name == LATEST).map(|(_, id)| *id);
        let live_names = inside.iter().filter(|(_, id)| Some(*id) == latest);
        let live = live_names.filter_map(|(name, _)| DeployId::parse(name.as_str()).ok()).max();
        let mut more = Vec::new();
        let files = match (latest, before) {
            (Some(_), Some(before)) if before.latest == latest => before.files.clone(),
            (Some(latest), _) => {
                let mut files = tree::files(&repo.find_tree(latest)?, self.wanted);
                let rest = files.split_off(files.len().min(self.files));
                more = rest.into_iter().map(|(name, _)| name).collect();
                files
            }
            (None, _) => Vec::new(),
        };
        Ok((SeenApp { tree: id, latest, live, files }, more))
    }
}

impl SeenIds {
    /// Counts the apps of a target's folder; opens no app, and no namespace that is as it was.
    fn apps_in(&self, repo: &Repository, manifests: Option<Oid>) -> Result<usize, git2::Error> {
        let mut count = 0;
        for (name, id) in folders(repo, manifests)? {
            let Ok(namespace) = Namespace::parse(name) else { continue };
            count += match self.namespaces.get(&namespace) {
                Some(former) if former.tree == id => former.apps.len(),
                _ => {
                    let apps = folders(repo, Some(id))?.into_iter();
                    apps.filter(|(name, _)| Slug::parse(name.as_str()).is_ok()).count()
                }
            };
        }
        Ok(count)
    }

    /// Lists the apps of this read that the other one does not have.
    fn apps_missing_in(&self, now: &Self) -> Vec<AppKey> {
        let missing_apps = self.namespaces.iter().flat_map(|(namespace, before)| {
            let now = now.namespaces.get(namespace);
            let is_same = now.is_some_and(|now| Arc::ptr_eq(now, before));
            let apps = (!is_same).then(|| before.apps.keys()).into_iter().flatten();
            let missing =
                apps.filter(move |slug| now.is_none_or(|now| !now.apps.contains_key(slug)));
            missing.map(|slug| AppKey { namespace: namespace.clone(), slug: slug.clone() })
        });
        missing_apps.collect()
    }

    fn app(&self, app: &AppKey) -> Option<&Arc<SeenApp>> {
        self.namespaces.get(&app.namespace)?.apps.get(&app.slug)
    }

    /// Adds the changes of Applications: to apps that have changes anyway, and by themselves.
    fn tell_applications(&self, before: &Self, changes: &mut ComparedChanges) {
        for app in &mut changes.changed {
            let former = before.app(&app.app).map(|_| before.application.get(&app.app).copied());
            app.application = match (former, self.application.get(&app.app).copied()) {
                (Some(former), now) if former == now => Application::Same,
                (_, Some(now)) => Application::Now(now),
                (_, None) => Application::Gone,
            };
        }
        if Arc::ptr_eq(&self.application, &before.application) {
            return;
        }
        let changed_apps: BTreeSet<_> =
            changes.changed.iter().map(|change| change.app.clone()).collect();
        let applications = self.application.keys().chain(before.application.keys());
        let applications: BTreeSet<_> =
            applications.filter(|app| !changed_apps.contains(app)).collect();
        for app in applications {
            let (former, now) = (before.application.get(app), self.application.get(app));
            let Some(current) = self.app(app).filter(|_| former != now) else { continue };
            changes.changed.push(AppDifference {
                app: app.clone(),
                live: current.live.clone(),
                files: None,
                more: Vec::new(),
                application: now.map_or(Application::Gone, |now| Application::Now(*now)),
            });
        }
    }
}

/// Lists the Applications: `NAMESPACE.SLUG.yaml`; the folder has other files, too.
fn application_files(
    repo: &Repository,
    id: Option<Oid>,
) -> Result<BTreeMap<AppKey, Oid>, git2::Error> {
    let Some(id) = id else { return Ok(BTreeMap::new()) };
    let files = tree::files(&repo.find_tree(id)?, |_| true).into_iter();
    Ok(files.filter_map(|(name, id)| Some((layout::app_of_application(&name)?, id))).collect())
}

fn folder(root: Option<&Tree<'_>>, path: &RepoPath) -> Result<Option<Oid>, git2::Error> {
    let entry = tree::find(root, path)?;
    Ok(entry.filter(|(_, kind)| *kind == ObjectType::Tree).map(|(id, _)| id))
}

fn folders(repo: &Repository, id: Option<Oid>) -> Result<Vec<NamedEntry>, git2::Error> {
    id.map_or_else(|| Ok(Vec::new()), |id| Ok(tree::folders(&repo.find_tree(id)?)))
}
