//! The facts that rules need, collected before the rules run, and the lookups for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::id::{AppKey, ImageDigest, RepoName, Slug, TargetName};
use crate::model::lock::Lock;
use crate::model::release::Release;
use crate::model::rollback::Hold;
use crate::model::route::Route;
use crate::model::stateful;
use crate::model::target::{Clusters, Target};

/// The lookups that the rules need for one release to one target.
#[derive(Debug, Clone, PartialEq)]
pub struct FactRequests {
    /// The target of the deployment.
    pub target: Target,
    /// The app.
    pub app: AppKey,
    /// The owner that the WAML names.
    pub owner: Option<String>,
    /// The release.
    pub release: Release,
    /// True if a program deploys, and no person.
    pub automatic: bool,
    /// The login of the person who deploys; `None` where nobody has asked yet.
    pub actor: Option<String>,
    /// The hosts that it wants.
    pub hosts: Vec<String>,
    /// The secrets that it refers to, by the name of the Kubernetes Secret.
    pub secrets: BTreeMap<String, SecretQuestion>,
    /// The app's whole image: `ghcr.io/acme/my-app:1.0`.
    pub image: String,
    /// The whole images of its versions and of containers beside the app's.
    pub other_images: BTreeSet<String>,
    /// The time from which an answer of a registry counts: a tag may lead to another image since. `None` for any answer
    /// that is cached.
    pub images_since: Option<Timestamp>,
}

/// The lookup of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretQuestion {
    /// The keys that the WAML names.
    pub keys: BTreeSet<String>,
    /// The path of the secret in Vault's key-value engine.
    pub vault_path: String,
}

/// The result of one lookup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Fact<T> {
    /// No lookup was made: there is no service to ask, or nothing to ask for. Rules say nothing.
    #[default]
    NotAsked,
    /// The lookup gave a value, true at that time.
    Known {
        /// The value.
        value: T,
        /// The time of the lookup.
        at: Timestamp,
    },
    /// The lookup failed: the target's policy says what that means.
    Missing {
        /// The reason, for people: the service that was asked, and the fault. One line, no secret.
        why: String,
    },
}

/// A dated picture of the world. Rules are pure functions of a WAML and this.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The time at which the facts were collected.
    pub taken_at: Timestamp,
    /// The clusters of the configuration.
    pub clusters: Clusters,
    /// The routes of other apps on the target that use one of the hosts.
    pub routes: Fact<Vec<Route>>,
    /// The app's own live routes on one of the hosts.
    pub own_routes: Fact<Vec<Route>>,
    /// The keys of each secret; `None` where there is no such secret.
    pub secrets: Fact<BTreeMap<String, Option<BTreeSet<String>>>>,
    /// The images by their whole names: what their registries say of them. An image that is not in it was not looked up.
    pub images: BTreeMap<String, Fact<RegistryImage>>,
    /// The branches that the target's policy allows and that contain the commit.
    pub branches: Fact<Vec<String>>,
    /// The owners of the namespace and the app.
    pub owner: Fact<Ownership>,
    /// The locks that stop this deployment.
    pub locks: Fact<Vec<Lock>>,
    /// The targets besides its own whose locks concern it: the fleets that share a cluster with its target, and its
    /// clusters if that is a fleet.
    pub overlapping: Vec<TargetName>,
    /// The person who deploys, where the target requires teams.
    pub deployer: Fact<Deployer>,
    /// The hold that keeps automation off the app on the target.
    pub hold: Fact<Option<Hold>>,
    /// True if a program deploys, and no person.
    pub automatic: bool,
    /// The objects in the app's `latest` on the target.
    pub live: Fact<LiveApp>,
    /// The objects of all apps of its namespace on the target.
    pub namespace: Fact<Arc<NamespaceObjects>>,
}

/// The answer of a registry about an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistryImage {
    /// There is no such tag or digest.
    Absent,
    /// The image is there.
    Present {
        /// The digest that its tag leads to; `None` where the registry does not say it.
        digest: Option<ImageDigest>,
    },
}

/// The person who deploys to a target that requires teams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployer {
    /// The person's name at the forge.
    pub login: String,
    /// True if the person is in one of the teams.
    pub is_in_team: bool,
}

/// The repositories that have deployed before; the first one owns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ownership {
    /// The repository that the app (namespace and slug) belongs to on this target.
    pub app: Option<RepoName>,
    /// The repositories that own the namespace; empty: none yet.
    pub namespace: Vec<RepoName>,
}

/// The reason why a repository does not own an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnershipError {
    /// The app belongs to another repository.
    App,
    /// The app is new, and its namespace has apps of other owners only.
    Namespace,
}

impl Ownership {
    /// Checks that the app is the repository's, or may become so.
    ///
    /// # Errors
    /// [`OwnershipError`]
    pub fn allow(&self, repository: &RepoName) -> Result<(), OwnershipError> {
        let joins = |owner: &RepoName| owner.has_owner_of(repository);
        match &self.app {
            Some(owner) if owner.is_same(repository) => Ok(()),
            Some(_) => Err(OwnershipError::App),
            None if self.namespace.is_empty() || self.namespace.iter().any(joins) => Ok(()),
            None => Err(OwnershipError::Namespace),
        }
    }
}

/// The objects of every app of a namespace, the app's own among them. In a cluster two objects of one kind
/// and name are one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceObjects {
    /// The apps that could be read, with their objects.
    pub apps: BTreeMap<Slug, Arc<[ObjectName]>>,
    /// A file of each app that could not be read whole: an object in it may have any name.
    pub unread: BTreeMap<Slug, String>,
}

/// The name of an object in its namespace, as a cluster knows it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// The API group without its version; empty for Kubernetes' core.
    pub group: Arc<str>,
    /// `Service`
    pub kind: Arc<str>,
    /// The name of the object.
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
        let is_it = |object_name: &ObjectName| {
            *object_name.name == **name
                && *object_name.kind == **kind
                && *object_name.group == *group
        };
        let other_apps = self.apps.iter().filter(|(slug, _)| *slug != app);
        other_apps.into_iter().find(|(_, objects)| objects.iter().any(is_it)).map(|(slug, _)| slug)
    }

    /// Adds what deployments under way have claimed.
    #[must_use]
    pub fn with_claims(self: Arc<Self>, claimed: Vec<ClaimedObject>) -> Arc<Self> {
        let is_new = |claim: &ClaimedObject| {
            !self.apps.get(&claim.app).is_some_and(|objects| objects.contains(&claim.object))
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

/// The content of an app's `latest` on a target, as far as rules need it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveApp {
    /// Every object.
    pub objects: Vec<LiveObject>,
    /// The objects that Argo CD leaves in the cluster when they are removed from the manifests.
    pub staying: Vec<LiveObject>,
    /// The disks that its objects ask for.
    pub disks: Vec<Disk>,
    /// Disks of former revisions that may still be in the cluster, because Argo CD leaves them there.
    pub left_over: Vec<Disk>,
    /// The disks in the oldest kept revision: they were created like that.
    pub first_disks: Vec<Disk>,
    /// The Secrets that controllers make of its objects, and what Flagger makes of its canaries.
    pub secrets: Vec<LiveObject>,
    /// The pod numbers of its workloads, where their manifests set them.
    pub replicas: Vec<LiveReplicas>,
    /// The workloads, by kind and name, that an autoscaler of its own scales.
    pub autoscaled: Vec<(String, String)>,
    /// Its canaries.
    pub canaries: Vec<LiveCanary>,
}

/// A Canary of Flagger's in a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveCanary {
    /// The name of the object.
    pub name: String,
    /// The name of the Service that Flagger makes or takes over.
    pub service: String,
    /// The name of the workload that Flagger scales.
    pub workload: String,
    /// True if Flagger makes a route of the Gateway API.
    pub by_gateway: bool,
}

/// The pod number in the manifest of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveReplicas {
    /// `Deployment`
    pub kind: String,
    /// The name of the workload.
    pub name: String,
    /// The number.
    pub number: u64,
}

/// A disk in a manifest. Kubernetes and clouds let it grow, and change nothing else of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// The object: a `PersistentVolumeClaim`, a `StatefulSet`, a database.
    pub object: LiveObject,
    /// The name of the claim template, where the object has several.
    pub template: Option<String>,
    /// The size: a Kubernetes quantity.
    pub size: String,
    /// The storage class; `None` where the cluster chooses.
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
    /// The name of the object.
    pub name: String,
}

impl LiveApp {
    /// Lists all objects behind a name in the namespace: its objects, and the Secrets that are created from them.
    pub fn names(&self) -> impl Iterator<Item = &LiveObject> {
        self.objects.iter().chain(&self.secrets)
    }
}

impl Facts {
    /// Returns what is known about an image, by its whole name.
    pub fn image(&self, reference: &str) -> &Fact<RegistryImage> {
        self.images.get(reference).unwrap_or(&Fact::NotAsked)
    }

    /// Builds facts without any lookup: rules then check only what needs no service.
    pub fn without_lookups(taken_at: Timestamp, clusters: Clusters) -> Self {
        Self {
            taken_at,
            clusters,
            routes: Fact::NotAsked,
            own_routes: Fact::NotAsked,
            secrets: Fact::NotAsked,
            images: BTreeMap::new(),
            branches: Fact::NotAsked,
            owner: Fact::NotAsked,
            locks: Fact::NotAsked,
            overlapping: Vec::new(),
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

/// The reason why a lookup failed: the service that was asked, and the fault. One line for people, without any secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FactUnavailable(pub String);

impl FactUnavailable {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        let why: String = why.into();
        Self(why.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect())
    }
}

/// The longest reason, in characters: it contains texts of others, which may be endless.
const LONGEST: usize = 400;
