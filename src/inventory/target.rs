//! The index of one target: its apps, and the owner of each host. It reads changes when it is
//! queried, so it is never older than the branch in the clone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::git::index::{Application, ChangedApp, Changes, FolderId, NamespaceApp, TargetFollower};
use crate::git::writer::ManifestRepository;
use crate::inventory::place::not_known;
use crate::manifests::parse::application::AppOwner;
use crate::manifests::parse::names::NamePool;
use crate::manifests::parse::{ReadFiles, names, routes};
use crate::manifests::{disks, parse};
use crate::model::app_instance::{AppInstance, InstanceState};
use crate::model::facts::{FactUnavailable, LiveApp, LiveObject, NamespaceObjects};
use crate::model::id::{AppKey, DeployId, Namespace, Slug, TargetName};
use crate::model::revision::ManifestFile;
use crate::model::route::{self, Route};

/// The most apps over all targets, some hundred bytes each: ten times those of large companies. A
/// repository with more was not written by this service.
pub(super) const MAX_APPS: usize = 100_000;

/// The facts that one look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TargetReading {
    /// The routes of other apps that may take requests of the hosts.
    pub(crate) routes: Vec<Route>,
    /// The routes of the app itself on the hosts.
    pub(crate) own_routes: Vec<Route>,
    /// The app's `latest`, or the reason why it cannot be read as a whole.
    pub(crate) live: Result<LiveApp, String>,
    /// The objects of the apps in its namespace.
    pub(crate) namespace: Arc<NamespaceObjects>,
}

/// The apps of one target.
pub(super) struct Index {
    target: TargetName,
    follower: TargetFollower,
    apps: BTreeMap<AppKey, AppRecord>,
    routes: HashMap<String, Vec<Route>>,
    /// The namespaces that had a deployment since the start.
    namespaces: BTreeMap<Namespace, NamespaceCache>,
    interned: NamePool,
    count: Arc<Count>,
}

/// The number of apps of all indexes together, and its limit. Targets that are read for the first
/// time at the same moment may pass it together, and none after them.
pub(super) struct Count {
    apps: AtomicUsize,
    most: usize,
}

impl Count {
    pub(super) fn within(most: usize) -> Self {
        Self { apps: AtomicUsize::new(0), most }
    }

    pub(super) fn apps(&self) -> usize {
        self.apps.load(Ordering::Relaxed)
    }

    /// Returns the number of apps that an index of `own` apps may have.
    fn room(&self, own: usize) -> usize {
        self.most.saturating_sub(self.apps().saturating_sub(own))
    }
}

/// The objects of a namespace's apps, and the folders that they were read from.
#[derive(Default)]
struct NamespaceCache {
    folders: BTreeMap<Slug, FolderId>,
    objects: Arc<NamespaceObjects>,
}

impl NamespaceCache {
    fn take(&mut self, apps: Vec<NamespaceApp<AppObjects>>, interned: &mut NamePool) {
        let objects = Arc::make_mut(&mut self.objects);
        let folders: BTreeMap<Slug, FolderId> =
            apps.iter().map(|app| (app.slug.clone(), app.folder)).collect();
        objects.apps.retain(|slug, _| folders.contains_key(slug));
        objects.unread.retain(|slug, _| folders.contains_key(slug));
        for NamespaceApp { slug, folder: _, found } in apps {
            let Some(AppObjects { found: live_objects, unread }) = found else { continue };
            match unread {
                Some(file) => drop(objects.unread.insert(slug.clone(), file)),
                None => drop(objects.unread.remove(&slug)),
            }
            objects.apps.insert(slug, names::names(&live_objects, interned));
        }
        self.folders = folders;
    }
}

/// The objects of one app's files, and a file that could not be read as a whole.
struct AppObjects {
    found: Vec<LiveObject>,
    unread: Option<String>,
}

impl AppObjects {
    fn read(files: &[ManifestFile], left_out: Vec<String>) -> Self {
        let (objects, unread) = names::objects(files);
        Self { found: objects, unread: unread.or(left_out.into_iter().next()) }
    }
}

/// The record of an app.
#[derive(Debug, Default)]
struct AppRecord {
    live: Option<DeployId>,
    /// The hosts of its routes, by which they are taken out again.
    hosts: BTreeSet<String>,
    app_owner: AppOwner,
}

impl Index {
    pub(super) fn new(
        repository: &ManifestRepository,
        target: &TargetName,
        count: Arc<Count>,
    ) -> Self {
        Self {
            target: target.clone(),
            follower: repository.follow(target, routes::may_contain_routes),
            apps: BTreeMap::new(),
            routes: HashMap::new(),
            namespaces: BTreeMap::new(),
            interned: NamePool::default(),
            count,
        }
    }

    /// Reads the changes, unless they are too many to keep. Blocks.
    pub(super) fn update(&mut self) -> Result<(), FactUnavailable> {
        let before = self.apps.len();
        let changes = self.follower.changes_within(self.count.room(before));
        let changes = changes.map_err(|error| not_known(&error))?;
        // Half an index would show a taken host as free.
        let changes = changes.ok_or_else(|| too_many(&self.target, self.count.most))?;
        self.apply(changes);
        self.count.apps.fetch_add(self.apps.len(), Ordering::Relaxed);
        self.count.apps.fetch_sub(before, Ordering::Relaxed);
        Ok(())
    }

    /// Reads the routes of other apps and of this one on these hosts, and the objects of this one.
    /// Blocks.
    pub(super) fn read_app_facts(
        &mut self,
        app: &AppKey,
        hosts: &[String],
    ) -> Result<TargetReading, FactUnavailable> {
        let all_routes = if hosts.is_empty() { Vec::new() } else { self.routes_on(hosts)? };
        let (own_routes, routes) = all_routes.into_iter().partition(|route| route.app == *app);
        let latest = self.follower.latest(&self.target, app);
        let (files, left_out) = latest.map_err(|error| not_known(&error))?;
        let (live_app, unreadable) = parse::live_app(&files);
        self.warn_unreadable(app, &unreadable);
        let unread_file = unreadable.first().or(left_out.first());
        let live = match unread_file {
            None => {
                let former =
                    self.follower.former_files(&self.target, app, disks::may_contain_disks);
                let former = former.map_err(|error| not_known(&error))?;
                let left_over = parse::left_over_disks(&former, &live_app);
                let first_disks = parse::first_disks(&former, &live_app);
                Ok(LiveApp { left_over, first_disks, ..live_app })
            }
            Some(file) => Err(format!("{file} in the app's `latest` cannot be read as a manifest")),
        };
        let namespace = self.namespace(&app.namespace)?;
        Ok(TargetReading { routes, own_routes, live, namespace })
    }

    /// Returns the objects of every app of a namespace. Only folders that have changed since the
    /// last look are read.
    fn namespace(
        &mut self,
        namespace: &Namespace,
    ) -> Result<Arc<NamespaceObjects>, FactUnavailable> {
        let mut cached = self.namespaces.remove(namespace).unwrap_or_default();
        let folder = |slug: &Slug| cached.folders.get(slug).copied();
        let apps = self.follower.namespace(&self.target, namespace, folder, AppObjects::read);
        let apps = apps.map_err(|error| not_known(&error))?;
        if apps.len() < cached.folders.len() || apps.iter().any(|app| app.found.is_some()) {
            cached.take(apps, &mut self.interned);
        }
        let objects = Arc::clone(&cached.objects);
        let cached_apps: usize =
            self.namespaces.values().map(|namespace| namespace.folders.len()).sum();
        if cached_apps + cached.folders.len() > self.count.most {
            (self.namespaces, self.interned) = (BTreeMap::new(), NamePool::default());
        }
        // A namespace that does not exist is not kept: a caller can name any.
        if !cached.folders.is_empty() {
            self.namespaces.insert(namespace.clone(), cached);
        }
        Ok(objects)
    }

    /// Returns apps after `after`, in order; where `only` names one, no other. Blocks.
    pub(super) fn page(
        &mut self,
        only: Option<&AppKey>,
        after: Option<&AppKey>,
        most: usize,
    ) -> Result<Vec<InstanceState>, FactUnavailable> {
        self.update()?;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let records = self.apps.range((from, Bound::Unbounded));
        let records = records.filter(|(app, _)| only.is_none_or(|only| only == *app)).take(most);
        Ok(records.map(|(app, record)| self.describe_app(app, record)).collect())
    }

    /// Returns one app. Blocks.
    pub(super) fn app(&mut self, app: &AppKey) -> Result<Option<InstanceState>, FactUnavailable> {
        self.update()?;
        Ok(self.apps.get(app).map(|record| self.describe_app(app, record)))
    }

    fn describe_app(&self, app: &AppKey, record: &AppRecord) -> InstanceState {
        InstanceState {
            instance: AppInstance { target: self.target.clone(), app: app.clone() },
            live: record.live.clone(),
            hosts: record.hosts.clone(),
            owner: record.app_owner.owner.clone(),
            repository: record.app_owner.repository.clone(),
        }
    }

    /// Returns the routes under each name of the hosts, under the wildcards over them, and under
    /// the names that a wildcard among them covers.
    fn routes_on(&mut self, hosts: &[String]) -> Result<Vec<Route>, FactUnavailable> {
        self.update()?;
        let mut names: BTreeSet<String> =
            hosts.iter().flat_map(|host| route::hosts_over(host)).collect();
        for wild in hosts.iter().map(|host| route::normal_host(host)) {
            if wild.starts_with("*.") {
                names.extend(self.routes.keys().filter(|host| route::covers(&wild, host)).cloned());
            }
        }
        let routes = names.iter().filter_map(|host| self.routes.get(host)).flatten();
        let with_owner = |route: &Route| {
            let app_owner = self.apps.get(&route.app).map(|record| &record.app_owner);
            let repository = app_owner.and_then(|app_owner| app_owner.repository.clone());
            Route { repository, ..route.clone() }
        };
        Ok(routes.map(with_owner).collect())
    }

    fn apply(&mut self, changes: Changes) {
        let Changes { changed: changed_apps, gone: removed_apps } = changes;
        for app in removed_apps {
            self.forget_routes(&app);
            self.apps.remove(&app);
        }
        for app in changed_apps {
            self.learn(app);
        }
    }

    fn learn(&mut self, changed: ChangedApp) {
        let ChangedApp { app, live, files, left_out, application } = changed;
        for file in left_out {
            tracing::warn!(
                target = %self.target, %app, file,
                "manifest not read, it is too large or one of too many; its hosts count as free"
            );
        }
        if let Some(files) = files {
            self.forget_routes(&app);
            let hosts = self.learn_routes(&app, &files);
            self.apps.entry(app.clone()).or_default().hosts = hosts;
        }
        let record = self.apps.entry(app).or_default();
        record.live = live;
        match application {
            Application::Same => {}
            Application::Gone => record.app_owner = AppOwner::default(),
            Application::Now(bytes) => record.app_owner = AppOwner::parse(&bytes),
        }
    }

    fn forget_routes(&mut self, app: &AppKey) {
        let hosts = self.apps.get_mut(app).map(|record| std::mem::take(&mut record.hosts));
        for host in hosts.unwrap_or_default() {
            let Some(routes) = self.routes.get_mut(&host) else { continue };
            routes.retain(|route| route.app != *app);
            if routes.is_empty() {
                self.routes.remove(&host);
            }
        }
    }

    fn learn_routes(&mut self, app: &AppKey, files: &[ManifestFile]) -> BTreeSet<String> {
        let ReadFiles { found: routes, unreadable } = routes::read_routes(app, files);
        self.warn_unreadable(app, &unreadable);
        let mut hosts = BTreeSet::new();
        for route in routes {
            hosts.insert(route.host.clone());
            self.routes.entry(route.host.clone()).or_default().push(route);
        }
        hosts
    }

    fn warn_unreadable(&self, app: &AppKey, unreadable: &[String]) {
        for file in unreadable {
            tracing::warn!(target = %self.target, %app, file, "manifest cannot be read");
        }
    }
}

fn too_many(target: &TargetName, most: usize) -> FactUnavailable {
    FactUnavailable::new(format!(
        "with {target} the manifest repositories have more than {most} apps, and no more are kept"
    ))
}

impl Drop for Index {
    fn drop(&mut self) {
        self.count.apps.fetch_sub(self.apps.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
