//! What the rules must know of the world, gathered before they run, and what there is to ask.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::id::{AppKey, RepoName, Slug};
use crate::model::lock::Lock;
use crate::model::release::Release;
use crate::model::rollback::Hold;
use crate::model::route::Route;
use crate::model::stateful;
use crate::model::target::{Clusters, Target};

/// What must be found out before the rules can judge one release for one target.
#[derive(Debug, Clone, PartialEq)]
pub struct Questions {
    /// Where to.
    pub target: Target,
    /// Which app.
    pub app: AppKey,
    /// Whose the WAML says it is.
    pub owner: Option<String>,
    /// Which release.
    pub release: Release,
    /// Whether a program asks, and no person.
    pub automatic: bool,
    /// Who asks, as the forge knows them; `None` where nobody has asked yet.
    pub actor: Option<String>,
    /// The hosts that it wants.
    pub hosts: Vec<String>,
    /// The secrets that it refers to, by the name of the Kubernetes Secret.
    pub secrets: BTreeMap<String, SecretQuestion>,
    /// The whole image: `ghcr.io/acme/my-app:1.0`.
    pub image: String,
}

/// What is to be known of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretQuestion {
    /// The keys that the WAML names.
    pub keys: BTreeSet<String>,
    /// Its path in Vault's key-value engine.
    pub vault_path: String,
}

/// One thing about the world, and how we came by it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Fact<T> {
    /// Nobody asked: there is no service, or nothing to ask it. Rules say nothing.
    #[default]
    NotAsked,
    /// It was so at that time.
    Known {
        /// What was found.
        value: T,
        /// When.
        at: Timestamp,
    },
    /// It could not be found out: the target's policy says what that means.
    Missing {
        /// Why, for people: who was asked, and what went wrong. One line, no secret.
        why: String,
    },
}

/// A dated picture of the world. Rules are pure functions of a WAML and this.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// When it was gathered.
    pub taken_at: Timestamp,
    /// The clusters of the configuration.
    pub clusters: Clusters,
    /// The routes of other apps on the target that use one of the hosts.
    pub routes: Fact<Vec<Route>>,
    /// Those of the app's own that are live on one of the hosts.
    pub own_routes: Fact<Vec<Route>>,
    /// The keys of each secret; `None` where there is no such secret.
    pub secrets: Fact<BTreeMap<String, Option<BTreeSet<String>>>>,
    /// Whether the registry has the image.
    pub image: Fact<bool>,
    /// The branches that the target's policy allows and that contain the commit.
    pub branches: Fact<Vec<String>>,
    /// Whose the namespace and the app are.
    pub owner: Fact<Ownership>,
    /// The locks that stop this deployment.
    pub locks: Fact<Vec<Lock>>,
    /// Who deploys, as far as the target asks for teams.
    pub deployer: Fact<Deployer>,
    /// What holds automation off the app on the target.
    pub hold: Fact<Option<Hold>>,
    /// Whether a program asks for this deployment, and no person.
    pub automatic: bool,
    /// What the app's `latest` holds on the target.
    pub live: Fact<LiveApp>,
    /// What the apps of its namespace have on the target.
    pub namespace: Fact<Arc<NamespaceObjects>>,
}

/// Who deploys to a target that asks for teams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployer {
    /// Their name at the forge.
    pub login: String,
    /// Whether they are in one of the teams.
    pub is_in_team: bool,
}

/// Which repositories have deployed before, by first come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ownership {
    /// The repository that the app (namespace and slug) belongs to on this target.
    pub app: Option<RepoName>,
    /// The repositories that the namespace belongs to; empty: nobody's yet.
    pub namespace: Vec<RepoName>,
}

/// Why an app may not be a repository's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotOwned {
    /// It is another repository's.
    App,
    /// It is new, and its namespace has apps of other owners only.
    Namespace,
}

impl Ownership {
    /// Checks that the app is the repository's, or may become so.
    ///
    /// # Errors
    /// [`NotOwned`]
    pub fn allow(&self, repository: &RepoName) -> Result<(), NotOwned> {
        let joins = |theirs: &RepoName| theirs.has_owner_of(repository);
        match &self.app {
            Some(theirs) if theirs.is_same(repository) => Ok(()),
            Some(_) => Err(NotOwned::App),
            None if self.namespace.is_empty() || self.namespace.iter().any(joins) => Ok(()),
            None => Err(NotOwned::Namespace),
        }
    }
}

/// The objects of every app of a namespace, the app's own among them. In a cluster two objects of one kind
/// and name are one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceObjects {
    /// Those that could be read, by app.
    pub apps: BTreeMap<Slug, Arc<[ObjectName]>>,
    /// A file of each app that could not be read whole: what is in it may have any name.
    pub unread: BTreeMap<Slug, String>,
}

/// What an object of a namespace is known by in a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// The API group without its version; empty for Kubernetes' core.
    pub group: Arc<str>,
    /// `Service`
    pub kind: Arc<str>,
    /// Its name.
    pub name: Box<str>,
}

/// `Service web`
impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// An object that a deployment under way is about to make live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedObject {
    /// The app of its namespace that takes it.
    pub app: Slug,
    /// The object.
    pub object: ObjectName,
}

impl NamespaceObjects {
    /// Finds the other app that has an object of that name.
    pub fn owner_of(&self, app: &Slug, object: &LiveObject) -> Option<&Slug> {
        let LiveObject { api_version, kind, name } = object;
        let group = stateful::group(api_version);
        let is_it =
            |one: &ObjectName| *one.name == **name && *one.kind == **kind && *one.group == *group;
        let others = self.apps.iter().filter(|(slug, _)| *slug != app);
        others.into_iter().find(|(_, objects)| objects.iter().any(is_it)).map(|(slug, _)| slug)
    }

    /// Adds what deployments under way have claimed.
    #[must_use]
    pub fn with_claims(self: Arc<Self>, claimed: Vec<ClaimedObject>) -> Arc<Self> {
        let is_new = |one: &ClaimedObject| {
            !self.apps.get(&one.app).is_some_and(|objects| objects.contains(&one.object))
        };
        let new: Vec<ClaimedObject> = claimed.into_iter().filter(is_new).collect();
        if new.is_empty() {
            return self;
        }
        let mut with_new = Self::clone(&self);
        for ClaimedObject { app, object } in new {
            let objects = with_new.apps.entry(app).or_insert_with(|| [].into());
            *objects = objects.iter().cloned().chain([object]).collect();
        }
        Arc::new(with_new)
    }
}

/// What an app's `latest` holds on a target, as far as rules ask.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveApp {
    /// Every object.
    pub objects: Vec<LiveObject>,
    /// Those of them that Argo CD leaves in the cluster when they are taken out of the manifests.
    pub staying: Vec<LiveObject>,
    /// The disks that its objects ask for.
    pub disks: Vec<Disk>,
    /// Disks of former revisions that may still be in the cluster, because Argo CD was told to leave them.
    pub left_over: Vec<Disk>,
    /// The disks as the oldest revision that is kept asked for them: that is how they were made.
    pub first_disks: Vec<Disk>,
    /// The Secrets that controllers make of its objects.
    pub secrets: Vec<LiveObject>,
    /// How many pods its workloads have, where their manifests say so.
    pub replicas: Vec<LiveReplicas>,
    /// The workloads, by kind and name, that an autoscaler of its own scales.
    pub autoscaled: Vec<(String, String)>,
}

/// How many pods the manifest of a workload asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveReplicas {
    /// `Deployment`
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The number.
    pub number: u64,
}

/// A disk as a manifest asks for it. Kubernetes and clouds let it grow, and change nothing else of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// The object: a `PersistentVolumeClaim`, a `StatefulSet`, a database.
    pub object: LiveObject,
    /// Where the object has several: which, by the name of its claim template.
    pub template: Option<String>,
    /// How large: a Kubernetes quantity.
    pub size: String,
    /// Its storage class; `None` where the cluster chooses.
    pub class: Option<String>,
    /// `ReadWriteOnce` and so on, in order.
    pub access_modes: Vec<String>,
}

/// One object of a revision.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct LiveObject {
    /// `apps/v1`
    pub api_version: String,
    /// `StatefulSet`
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl LiveApp {
    /// Lists everything that a name in the namespace stands for: its objects, and the Secrets that
    /// are made of them.
    pub fn names(&self) -> impl Iterator<Item = &LiveObject> {
        self.objects.iter().chain(&self.secrets)
    }
}

impl Facts {
    /// Makes a picture in which nothing was asked: what can be judged without any service.
    pub fn unasked(taken_at: Timestamp, clusters: Clusters) -> Self {
        Self {
            taken_at,
            clusters,
            routes: Fact::NotAsked,
            own_routes: Fact::NotAsked,
            secrets: Fact::NotAsked,
            image: Fact::NotAsked,
            branches: Fact::NotAsked,
            owner: Fact::NotAsked,
            locks: Fact::NotAsked,
            deployer: Fact::NotAsked,
            hold: Fact::NotAsked,
            automatic: false,
            live: Fact::NotAsked,
            namespace: Fact::NotAsked,
        }
    }
}

impl LiveObject {
    /// Checks that it is the same object in a cluster, in whatever version of its API group.
    pub fn is_same(&self, other: &Self) -> bool {
        let group = stateful::group(&self.api_version);
        (&self.kind, &self.name) == (&other.kind, &other.name)
            && group == stateful::group(&other.api_version)
    }
}

/// `StatefulSet db`
impl std::fmt::Display for LiveObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// Why something could not be found out: who was asked, and what went wrong. One line for people,
/// without any secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FactUnavailable(pub String);

impl FactUnavailable {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        let why: String = why.into();
        Self(why.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect())
    }
}

/// In characters: others' words are a part of it, and they may be endless.
const LONGEST: usize = 400;
