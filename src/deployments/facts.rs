//! Collects facts: all that the rules need beside the WAML, looked up at the same time.
//!
//! A collection never fails and never takes longer than the configured time: a failed lookup gives
//! `Missing` with the reason, and lookups that no rule needs are skipped. The target's policy and a
//! rule decide whether a missing fact matters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::forge::Forge;
use crate::inventory::{self, IndexedRepository, Inventory, TargetReading};
use crate::lookups::clients::LookupClients;
use crate::lookups::image::ImageReference;
use crate::lookups::registry::{BuildsRange, ImageBuild, ImageBuilds};
use crate::model::app_instance::{AppInstance, AppListing, InstanceState};
use crate::model::facts::{
    Deployer, Fact, FactRequests, FactUnavailable, Facts, LiveApp, NamespaceObjects, RegistryImage,
    SecretQuestion,
};
use crate::model::id::{AppKey, TargetName};
use crate::model::route::Route;
use crate::model::target::Clusters;
use crate::store::{RecordedFacts, Store};
use crate::support::clock::Clock;
use crate::support::retry::Disposition;

/// The number of secrets of one deployment that are looked up at the same time.
const SECRETS_AT_ONCE: usize = 8;
/// The number of images of one deployment that are looked up at the same time.
const IMAGES_AT_ONCE: usize = 8;
/// The most secrets that are looked up: a WAML's limits allow for more than any app has.
const MAX_SECRETS: usize = 200;

/// The most images of one deployment that are looked up beside the app's own.
const MAX_IMAGES: usize = 200;

/// Looks facts up in registries, secret stores, repositories and the database. Clones share its
/// connections and caches.
#[derive(Clone)]
pub struct FactCollector(Arc<Inner>);

struct Inner {
    clock: Clock,
    forge: Forge,
    store: Store,
    lookups: LookupClients,
    inventory: Inventory,
}

/// The delay before the code host is asked a second time.
const PAUSE: Duration = Duration::from_millis(200);

/// A value with the time at which it was true.
type Dated<T> = (T, Timestamp);

impl FactCollector {
    /// Creates a collector over these sources; it makes no lookup yet.
    pub fn new(
        lookups: LookupClients,
        clock: Clock,
        forge: Forge,
        store: Store,
        repositories: Vec<IndexedRepository>,
    ) -> Self {
        let inventory = Inventory::new(repositories);
        Self(Arc::new(Inner { clock, forge, store, lookups, inventory }))
    }

    /// Looks up everything that the questions ask for.
    pub async fn gather(&self, questions: &FactRequests, clusters: Clusters) -> Facts {
        let now = self.0.clock.now();
        let lookups = FactLookups { inner: &self.0, questions, now };
        // Each future is on the heap: together they would be a large part of a worker's stack.
        let (apps, records, secrets, images, branches, deployer) = tokio::join!(
            Box::pin(lookups.with_limit("the manifest repository", lookups.other_apps())),
            Box::pin(lookups.with_limit("the database", lookups.find_records())),
            Box::pin(lookups.secrets()),
            Box::pin(lookups.images()),
            Box::pin(lookups.branches()),
            Box::pin(lookups.deployer()),
        );
        let RepositoryFacts { routes, own_routes, live, namespace } =
            RepositoryFacts::from_lookup(apps, questions);
        let routes = lookups.with_claims(routes, &records).await;
        let facts = Facts {
            taken_at: now,
            clusters,
            routes,
            own_routes,
            secrets,
            images,
            branches,
            owner: part(&records, |records| records.owners.clone()),
            locks: part(&records, |records| records.locks.clone()),
            overlapping: self.0.store.overlapping(&questions.target.name),
            deployer,
            hold: part(&records, |records| records.hold.clone()),
            automatic: questions.automatic,
            live,
            namespace: with_claimed_objects(namespace, records),
        };
        log_missing_facts(&facts, questions);
        facts
    }

    /// Returns apps from the manifest repositories, after `after` in the order of app instances; at
    /// most so many, of one target or all, of one name or all. A repository is missing if it cannot
    /// be read, or its server has not answered for some minutes.
    ///
    /// # Errors
    /// When the target's repository is missing; of all targets, when all are.
    pub async fn apps(
        &self,
        target: Option<&TargetName>,
        app: Option<&AppKey>,
        after: Option<&AppInstance>,
        limit: usize,
    ) -> Result<AppListing, FactUnavailable> {
        let page = |now, patience| self.0.inventory.page(target, app, after, limit, now, patience);
        self.with_limit(page).await
    }

    /// Returns one app from its manifest repository; `None` if the repository does not have it.
    ///
    /// # Errors
    /// When the target's repository is missing.
    pub async fn app(
        &self,
        instance: &AppInstance,
    ) -> Result<Option<InstanceState>, FactUnavailable> {
        self.with_limit(|now, patience| self.0.inventory.app(instance, now, patience)).await
    }

    /// Builds the index over all apps, and keeps it current until `stop`.
    pub async fn keep_index(self, metrics: inventory::keep::IndexMetrics, stop: CancellationToken) {
        self.0.inventory.run_updates(&self.0.clock, &metrics, &stop).await;
    }

    /// Brings the index up to date soon, after a push; the caller does not wait.
    pub fn note_push(&self) {
        self.0.inventory.note_push();
    }

    /// Returns the routes of other apps that may take requests of these hosts, and those of the app
    /// itself: what is live, and what deployments under way have claimed.
    ///
    /// # Errors
    /// When the target's repository or the database is missing.
    pub(super) async fn routes(
        &self,
        target: &TargetName,
        app: &AppKey,
        hosts: &[String],
    ) -> Result<(Vec<Route>, Vec<Route>), FactUnavailable> {
        let app_facts = self
            .with_limit(|now, _| self.0.inventory.read_app_facts(target, app, hosts, now))
            .await?;
        let (TargetReading { routes, own_routes, live: _, namespace: _ }, _) = app_facts;
        let now = self.0.clock.now();
        let routes = self.0.store.with_claims(target, app, hosts, routes, now).await;
        Ok((routes.map_err(|error| unavailable(&error))?, own_routes))
    }

    /// Returns the objects of the apps of a namespace on a target, and those that deployments under
    /// way have claimed.
    ///
    /// # Errors
    /// When the target's repository or the database is missing.
    pub(super) async fn namespace(
        &self,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<Arc<NamespaceObjects>, FactUnavailable> {
        let app_facts = self
            .with_limit(|now, _| self.0.inventory.read_app_facts(target, app, &[], now))
            .await?;
        let claims = self.0.store.claimed_objects(target, app, self.0.clock.now()).await;
        Ok(app_facts.0.namespace.with_claims(claims.map_err(|error| unavailable(&error))?))
    }

    /// Fetches what is new from the server of a target's repository, unless that was done just now;
    /// returns true if the server has the branch already.
    ///
    /// # Errors
    /// When the server has not answered for some minutes.
    pub async fn current(&self, target: &TargetName) -> Result<bool, FactUnavailable> {
        self.with_limit(|now, patience| self.0.inventory.current(target, now, patience)).await
    }

    /// Runs a lookup within the time that it may take.
    async fn with_limit<T, F>(
        &self,
        look: impl FnOnce(Timestamp, Duration) -> F,
    ) -> Result<T, FactUnavailable>
    where
        F: Future<Output = Result<T, FactUnavailable>>,
    {
        let limit = self.0.lookups.most;
        let lookup = look(self.0.clock.now(), limit.mul_f32(0.8));
        tokio::time::timeout(limit, lookup).await.unwrap_or_else(|_| {
            let why = format!("the manifest repository did not answer within {limit:?}");
            Err(FactUnavailable::new(why))
        })
    }

    /// Returns true if the configuration allows a lookup of this image.
    pub fn may_ask(&self, image: &ImageReference) -> bool {
        self.0.lookups.registries.may_ask(image)
    }

    /// Returns a page of the newest builds of an image.
    ///
    /// # Errors
    /// [`FactUnavailable`] when the registry does not list them.
    pub async fn builds(
        &self,
        image: &ImageReference,
        range: BuildsRange,
        patience: Duration,
    ) -> Result<ImageBuilds, FactUnavailable> {
        self.0.lookups.registries.builds(image, range, patience, self.0.clock.now()).await
    }

    /// Returns the images of these tags, as far as they exist and the registry answers in time.
    pub async fn builds_of(
        &self,
        image: &ImageReference,
        tags: &[String],
        patience: Duration,
    ) -> Vec<ImageBuild> {
        self.0.lookups.registries.builds_of(image, tags, patience, self.0.clock.now()).await
    }

    /// Begins to fetch what is new in the manifest repository, for a deployment that is about to
    /// need it. The caller does not wait.
    pub fn prepare(&self, target: &TargetName) {
        let (inner, target) = (Arc::clone(&self.0), target.clone());
        tokio::spawn(async move { inner.inventory.freshen(&target, inner.clock.now()).await });
    }
}

/// The lookups of one deployment.
struct FactLookups<'a> {
    inner: &'a Inner,
    questions: &'a FactRequests,
    now: Timestamp,
}

impl FactLookups<'_> {
    async fn with_limit<T>(
        &self,
        source: &str,
        lookup: impl Future<Output = Result<Dated<T>, FactUnavailable>>,
    ) -> Fact<T> {
        self.with_deadline(source, tokio::time::Instant::now() + self.inner.lookups.most, lookup)
            .await
    }

    async fn with_deadline<T>(
        &self,
        source: &str,
        deadline: tokio::time::Instant,
        lookup: impl Future<Output = Result<Dated<T>, FactUnavailable>>,
    ) -> Fact<T> {
        match tokio::time::timeout_at(deadline, lookup).await {
            Ok(Ok((value, at))) => Fact::Known { value, at },
            Ok(Err(FactUnavailable(why))) => Fact::Missing { why },
            Err(_) => {
                let limit = self.inner.lookups.most;
                Fact::Missing { why: format!("{source} did not answer within {limit:?}") }
            }
        }
    }

    async fn other_apps(&self) -> Result<Dated<TargetReading>, FactUnavailable> {
        let FactRequests { target, app, hosts, .. } = self.questions;
        self.inner.inventory.read_app_facts(&target.name, app, hosts, self.now).await
    }

    async fn find_records(&self) -> Result<Dated<RecordedFacts>, FactUnavailable> {
        let FactRequests { target, app, owner, hosts, .. } = self.questions;
        let store = &self.inner.store;
        let records =
            store.recorded_facts(&target.name, app, owner.as_deref(), hosts, self.now).await;
        records.map(|records| (records, self.now)).map_err(|error| unavailable(&error))
    }

    /// Adds the owners of the routes, and the routes that deployments under way have claimed: live
    /// files do not show these yet.
    async fn with_claims(
        &self,
        routes: Fact<Vec<Route>>,
        records: &Fact<RecordedFacts>,
    ) -> Fact<Vec<Route>> {
        match (routes, records) {
            (Fact::Known { value, at }, Fact::Known { value: records, .. }) => {
                let (store, target) = (&self.inner.store, &self.questions.target.name);
                let lookup = async {
                    let routes = store.with_claimed(target, value, records.routes.clone()).await;
                    routes.map(|routes| (routes, at)).map_err(|error| unavailable(&error))
                };
                self.with_limit("the database", lookup).await
            }
            (Fact::Known { .. }, Fact::Missing { why }) => Fact::Missing { why: why.clone() },
            (routes, _) => routes,
        }
    }

    async fn secrets(&self) -> Fact<BTreeMap<String, Option<BTreeSet<String>>>> {
        let FactRequests { target, app, secrets, .. } = self.questions;
        let Some(place) = self.inner.lookups.secrets.get(&target.name) else {
            return Fact::NotAsked;
        };
        if secrets.is_empty() {
            return Fact::NotAsked;
        }
        if secrets.len() > MAX_SECRETS {
            let why =
                format!("the WAML names more than {MAX_SECRETS} secrets; no more are looked up");
            return Fact::Missing { why };
        }
        let collection = async {
            let ask = |(name, question): (&String, &SecretQuestion)| {
                place.keys(&app.namespace, name.clone(), question.clone(), self.now)
            };
            let lookups: Vec<_> = secrets.iter().map(ask).collect();
            let mut answers = futures::stream::iter(lookups).buffer_unordered(SECRETS_AT_ONCE);
            let mut keys_by_name = BTreeMap::new();
            while let Some(answer) = answers.next().await {
                let (name, keys) = answer?;
                keys_by_name.insert(name, keys);
            }
            Ok((keys_by_name, self.now))
        };
        self.with_limit(place.name(), collection).await
    }

    /// Looks up the app's image and those beside it, as far as their registries are configured.
    async fn images(&self) -> BTreeMap<String, Fact<RegistryImage>> {
        let FactRequests { image, other_images, .. } = self.questions;
        let deadline = tokio::time::Instant::now() + self.inner.lookups.most;
        let names = [image].into_iter().chain(other_images.iter().take(MAX_IMAGES));
        let lookups: Vec<_> = names.map(|name| self.image(name, deadline)).collect();
        let answers = futures::stream::iter(lookups).buffer_unordered(IMAGES_AT_ONCE);
        let mut facts: BTreeMap<_, _> = answers.filter_map(std::future::ready).collect().await;
        for name in other_images.iter().skip(MAX_IMAGES) {
            let why =
                format!("the WAML names more than {MAX_IMAGES} images; no more are looked up");
            facts.entry(name.clone()).or_insert(Fact::Missing { why });
        }
        facts
    }

    async fn image(
        &self,
        name: &str,
        deadline: tokio::time::Instant,
    ) -> Option<(String, Fact<RegistryImage>)> {
        let registries = &self.inner.lookups.registries;
        let image = ImageReference::parse(name).filter(|image| registries.may_ask(image))?;
        let lookup = async {
            let lookup = registries.find_tag(&image, self.questions.images_since, self.now).await?;
            Ok((lookup.image, lookup.at))
        };
        let source = format!("the registry {}", image.host);
        let fact = self.with_deadline(&source, deadline, lookup).await;
        Some((name.to_owned(), fact))
    }

    async fn branches(&self) -> Fact<Vec<String>> {
        let FactRequests { target, release, .. } = self.questions;
        let Some(globs) = &target.policies.branches else { return Fact::NotAsked };
        let lookup = async {
            let ask =
                || self.inner.forge.branches_with(&release.repository, &release.commit, globs);
            let branches = match ask().await {
                Err(error) if error.disposition() == Disposition::Retry { after: None } => {
                    tokio::time::sleep(PAUSE).await;
                    ask().await
                }
                branches => branches,
            };
            branches.map(|branches| (branches, self.now)).map_err(|error| unavailable(&error))
        };
        self.with_limit("the code host", lookup).await
    }
}

impl FactLookups<'_> {
    /// Looks the actor's teams up, where the target asks for teams, on a code host that knows
    /// people.
    async fn deployer(&self) -> Fact<Deployer> {
        let FactRequests { target, release, actor, .. } = self.questions;
        let teams = target.policies.parse_deploy_teams();
        let Some(login) = actor.clone().filter(|_| !teams.is_empty()) else {
            return Fact::NotAsked;
        };
        let forge = &self.inner.forge;
        if !forge.knows_people() {
            return Fact::NotAsked;
        }
        let lookup = async {
            let membership = forge.is_in_one(&release.repository, &login, &teams).await;
            let is_in_team = membership.map_err(|error| unavailable(&error))?;
            Ok((Deployer { login: login.clone(), is_in_team }, self.now))
        };
        self.with_limit("the code host", lookup).await
    }
}

/// Returns a part of a fact's value, where the fact is known.
fn part<T, U>(fact: &Fact<T>, part: impl FnOnce(&T) -> U) -> Fact<U> {
    match fact {
        Fact::NotAsked => Fact::NotAsked,
        Fact::Known { value, at } => Fact::Known { value: part(value), at: *at },
        Fact::Missing { why } => Fact::Missing { why: why.clone() },
    }
}

/// Adds the objects that deployments under way have claimed: live files do not show these yet.
/// Where the database does not answer, the turn to push is refused: that check reads it once
/// more.
fn with_claimed_objects(
    namespace: Fact<Arc<NamespaceObjects>>,
    records: Fact<RecordedFacts>,
) -> Fact<Arc<NamespaceObjects>> {
    match (namespace, records) {
        (Fact::Known { value, at }, Fact::Known { value: records, .. }) => {
            Fact::Known { value: value.with_claims(records.objects), at }
        }
        (namespace, _) => namespace,
    }
}

/// The facts that one look into the manifest repository gives.
struct RepositoryFacts {
    routes: Fact<Vec<Route>>,
    own_routes: Fact<Vec<Route>>,
    live: Fact<LiveApp>,
    namespace: Fact<Arc<NamespaceObjects>>,
}

impl RepositoryFacts {
    /// Turns one look into four facts. An app without hosts needs no routes.
    fn from_lookup(lookup: Fact<TargetReading>, questions: &FactRequests) -> Self {
        let mut facts = match lookup {
            Fact::NotAsked => Self {
                routes: Fact::NotAsked,
                own_routes: Fact::NotAsked,
                live: Fact::NotAsked,
                namespace: Fact::NotAsked,
            },
            Fact::Known { value: TargetReading { routes, own_routes, live, namespace }, at } => {
                Self {
                    routes: Fact::Known { value: routes, at },
                    own_routes: Fact::Known { value: own_routes, at },
                    live: match live {
                        Ok(value) => Fact::Known { value, at },
                        Err(why) => Fact::Missing { why },
                    },
                    namespace: Fact::Known { value: namespace, at },
                }
            }
            Fact::Missing { why } => Self {
                routes: Fact::Missing { why: why.clone() },
                own_routes: Fact::Missing { why: why.clone() },
                live: Fact::Missing { why: why.clone() },
                namespace: Fact::Missing { why },
            },
        };
        if questions.hosts.is_empty() {
            (facts.routes, facts.own_routes) = (Fact::NotAsked, Fact::NotAsked);
        }
        facts
    }
}

fn unavailable(error: &dyn std::error::Error) -> FactUnavailable {
    FactUnavailable::new(error.to_string())
}

/// Logs the missing facts for the operator: the rules tell the developer.
fn log_missing_facts(facts: &Facts, questions: &FactRequests) {
    let Facts {
        taken_at: _,
        clusters: _,
        routes,
        // This fact is missing together with the routes of others.
        own_routes: _,
        secrets,
        images,
        branches,
        owner,
        locks,
        deployer,
        hold,
        automatic: _,
        live,
        // This fact is missing together with the live files.
        namespace: _,
        overlapping: _,
    } = facts;
    let reasons = [
        ("routes", missing_reason(routes)),
        ("secrets", missing_reason(secrets)),
        ("image", images.values().find_map(missing_reason)),
        ("branches", missing_reason(branches)),
        ("owner", missing_reason(owner)),
        ("locks", missing_reason(locks)),
        ("deployer", missing_reason(deployer)),
        ("hold", missing_reason(hold)),
        ("live", missing_reason(live)),
    ];
    for (fact, why) in reasons.into_iter().filter_map(|(fact, why)| Some((fact, why?))) {
        let (app, target) = (&questions.app, &questions.target.name);
        tracing::warn!(fact, reason = why, %app, %target, "lookup failed");
    }
}

fn missing_reason<T>(fact: &Fact<T>) -> Option<&str> {
    match fact {
        Fact::Missing { why } => Some(why),
        Fact::NotAsked | Fact::Known { .. } => None,
    }
}
