//! All facts of one deployment: from a configuration, over real HTTP, real git and a database.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tempfile::TempDir;
use the_deployer::config::SettingsSources;
use the_deployer::config::settings::Settings;
use the_deployer::deployments::facts::FactCollector;
use the_deployer::forge::Forge;
use the_deployer::forge::local::LocalForge;
use the_deployer::git::writer::ManifestRepository;
use the_deployer::inventory::IndexedRepository;
use the_deployer::lookups::clients::LookupClients;
use the_deployer::model::facts::{
    Fact, FactRequests, Facts, LiveObject, RegistryImage, SecretQuestion,
};
use the_deployer::model::id::{AppKey, CommitSha, LockId, TargetName};
use the_deployer::model::lock::{Lock, LockScope};
use the_deployer::model::release::Release;
use the_deployer::model::route::Route;
use the_deployer::store::LockPlacement;
use the_deployer::support::clock::Clock;
use the_deployer::support::globs::Globs;

use super::provider;
use crate::git::place::{Place, deploy_files, pushed};
use crate::harness::database::Database;
use crate::harness::folder;
use crate::harness::git::Bare;
use crate::harness::registry::{self, Entry, PASSWORD, Registry};
use crate::harness::requests::{at, entry};
use crate::harness::secrets::{Keeper, Trouble};

/// Everything that can be asked, and who asks.
struct World {
    registry: Registry,
    keeper: Keeper,
    db: Database,
    place: Place,
    manifests: ManifestRepository,
    forge: TempDir,
    clock: Clock,
    settings: Settings,
    gatherer: FactCollector,
}

impl World {
    async fn on(place: Place) -> Self {
        provider();
        let registry = Registry::start(Entry::Token, &["acme/shop:1.0"]).await;
        let keeper = Keeper::start().await;
        let settings = settings(&registry, &keeper);
        let (db, clock) = (Database::sqlite().await, Clock::manual(at(0)));
        let manifests = place.open().await;
        let forge = folder::temporary();
        let (name, targets) = ("main".to_owned(), Globs::default());
        let repository = IndexedRepository { name, repository: manifests.clone(), targets };
        let host = Forge::Local(LocalForge::new(forge.path()));
        let (store, clock_) = (db.store.clone(), clock.clone());
        let Settings { lookups, limits, outbound, .. } = &settings;
        let lookups = LookupClients::new(lookups.clone(), limits.lookups, outbound).unwrap();
        let gatherer = FactCollector::new(lookups, clock_, host, store, vec![repository]);
        Self { registry, keeper, db, place, manifests, forge, clock, settings, gatherer }
    }

    /// `acme/shop` 1.0 at that commit to `prod-1`, with a host and two secrets.
    fn questions(&self, commit: &str) -> FactRequests {
        let question = |keys: &[&str], path: &str| SecretQuestion {
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            vault_path: path.to_owned(),
        };
        FactRequests {
            target: self.settings.clusters.find(&prod()).unwrap(),
            app: app("shop"),
            owner: Some("team@example.com".to_owned()),
            release: Release {
                repository: "acme/shop".parse().unwrap(),
                app: None,
                commit: CommitSha::parse(commit).unwrap(),
                tag: "1.0".parse().unwrap(),
            },
            automatic: false,
            actor: Some("jo".to_owned()),
            hosts: vec!["Shop.example.com".to_owned()],
            secrets: BTreeMap::from([
                ("db".to_owned(), question(&["user"], "devx/shop/db")),
                ("none".to_owned(), question(&[], "devx/shop/none")),
            ]),
            image: format!("{}/acme/shop:1.0", self.registry.host()),
            other_images: BTreeSet::new(),
            images_since: None,
        }
    }

    async fn gather(&self, questions: &FactRequests) -> Facts {
        let facts = self.gatherer.gather(questions, self.settings.clusters.clone());
        tokio::time::timeout(Duration::from_secs(30), facts).await.unwrap()
    }

    /// A commit on `main`; the one before it is there too.
    fn commit(&self) -> String {
        let folder = self.forge.path().join("acme/shop.git");
        let bare = if folder.exists() { Bare(folder) } else { Bare::create(&folder) };
        bare.somebody_writes("file", &bare.commits().to_string());
        bare.tip()
    }
}

fn settings(registry: &Registry, keeper: &Keeper) -> Settings {
    let text = format!(
        "registries:\n\
         - {{host: '{}', username: deployer, password: {{env: PASSWORD}}, insecure: true}}\n\
         clusters:\n\
         - name: prod-1\n  environment: production\n  domain: example.com\n  \
           policies: {{branches: [main, 'release/*']}}\n  \
           platform: {{secrets: {{vault: {{address: '{}', mount: kv}}}}}}\n  \
           lookups: {{secrets: vault, vault: {{token: {{env: TOKEN}}}}}}\n\
         - {{name: dev, environment: development, domain: dev.example.com}}\n\
         limits: {{lookups: 1s}}\n",
        registry.host(),
        keeper.address(),
    );
    let variables = [("TOKEN", "good-token"), ("PASSWORD", PASSWORD)];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let sources = SettingsSources {
        file: Some(("config.yaml".to_owned(), text)),
        variables: BTreeMap::from(variables),
        home: "nowhere".into(),
    };
    sources.load().unwrap_or_else(|rejection| panic!("{rejection}")).settings
}

fn prod() -> TargetName {
    "prod-1".parse().unwrap()
}

fn app(slug: &str) -> AppKey {
    AppKey { namespace: "devx".parse().unwrap(), slug: slug.parse().unwrap() }
}

fn route(host: &str, path: &str) -> String {
    format!(
        "kind: IngressRoute\nspec: {{routes: [{{match: 'Host(`{host}`) && PathPrefix(`{path}`)'}}]}}\n"
    )
}

fn set(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn known<T: Clone>(fact: &Fact<T>) -> T {
    match fact {
        Fact::Known { value, .. } => value.clone(),
        Fact::NotAsked => panic!("not asked"),
        Fact::Missing { why } => panic!("missing: {why}"),
    }
}

fn why<T: std::fmt::Debug>(fact: &Fact<T>) -> &str {
    match fact {
        Fact::Missing { why } => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn everything_that_is_asked_is_found_out_at_once() {
    for place in Place::both().await {
        let world = World::on(place).await;
        let commit = world.commit();
        world.keeper.put("devx/shop/db", &["user", "password"]);
        let stateful = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: shop}\n";
        let own = [("ingressroute.yaml", &*route("shop.example.com", "/")), ("s.yaml", stateful)];
        pushed(&world.manifests, deploy_files(1, "shop", &own)).await;
        let other = route("shop.example.com", "/api");
        pushed(&world.manifests, deploy_files(2, "api", &[("ingressroute.yaml", &other)])).await;
        let lock = Lock {
            scope: LockScope::Owner("Team@example.com".to_owned()),
            reason: "a bad day".to_owned(),
            by: "jo".to_owned(),
            since: at(0),
            until: None,
        };
        let (id, entry) = (LockId::parse("0000000a").unwrap(), entry("lock", 1, "jo", "x", at(0)));
        assert_eq!(
            world.db.store.add_lock(&id, &lock, &entry, None).await.unwrap(),
            LockPlacement::Yes
        );
        let facts = world.gather(&world.questions(&commit)).await;
        assert_eq!(facts.taken_at, at(0));
        let found = |path: &str, slug| Route {
            host: "shop.example.com".to_owned(),
            path: path.to_owned(),
            app: app(slug),
            repository: None,
        };
        assert_eq!(known(&facts.routes), [found("/api", "api")], "of others only");
        assert_eq!(known(&facts.own_routes), [found("/", "shop")]);
        let keys = Some(BTreeSet::from(["password".to_owned(), "user".to_owned()]));
        let secrets = BTreeMap::from([("db".to_owned(), keys), ("none".to_owned(), None)]);
        assert_eq!(known(&facts.secrets), secrets);
        let image = known(facts.image(&world.questions(&commit).image));
        assert!(matches!(image, RegistryImage::Present { digest: Some(_) }), "{image:?}");
        assert_eq!(known(&facts.branches), ["main"]);
        assert_eq!(known(&facts.owner).app, None);
        assert_eq!(known(&facts.locks), [lock]);
        let live = known(&facts.live);
        assert!(live.objects.contains(&LiveObject {
            api_version: "apps/v1".to_owned(),
            kind: "StatefulSet".to_owned(),
            name: "shop".to_owned(),
        }));
    }
}

#[tokio::test]
async fn an_image_that_is_not_there_is_known_not_to_be() {
    let world = World::on(Place::local()).await;
    let commit = world.commit();
    let questions = world.questions(&commit);
    let image = questions.image.replace("1.0", "2.0");
    let facts = world.gather(&FactRequests { image: image.clone(), ..questions }).await;
    assert_eq!(*facts.image(&image), Fact::Known { value: RegistryImage::Absent, at: at(0) });
}

#[tokio::test]
async fn the_images_beside_the_apps_are_looked_up_too() {
    let world = World::on(Place::local()).await;
    let host = world.registry.host();
    world.registry.lock().tags.insert("acme/tool:1".to_owned());
    world.registry.lock().hides_digests = true;
    let name = |rest: &str| format!("{host}/acme/{rest}");
    let mut questions = world.questions(&world.commit());
    questions.other_images = (0..100).map(|n| name(&format!("none:{n}"))).collect();
    questions.other_images.extend([
        name("tool:1"),
        "ghcr.io/x/y:1".to_owned(),
        "No image".to_owned(),
    ]);
    let facts = world.gather(&questions).await;
    let known = |rest: &str| known(facts.image(&name(rest)));
    assert_eq!(known("tool:1"), RegistryImage::Present { digest: None });
    assert_eq!(known("none:7"), RegistryImage::Absent);
    assert_eq!(
        facts.images.len(),
        102,
        "neither a registry that is not configured nor what is no image"
    );
    world.registry.lock().trouble = Some(registry::Trouble::Silent);
    questions.images_since = Some(at(1));
    let facts = world.gather(&questions).await;
    assert!(facts.images.values().all(|fact| matches!(fact, Fact::Missing { .. })));
}

#[tokio::test]
async fn of_many_images_no_more_are_looked_up_than_an_app_has() {
    let world = World::on(Place::local()).await;
    let host = world.registry.host();
    let mut questions = world.questions(&world.commit());
    questions.other_images = (0..5000).map(|n| format!("{host}/acme/none:{n:04}")).collect();
    let facts = world.gather(&questions).await;
    let asked = world.registry.asked();
    // A request without an answer is sent twice.
    let images: BTreeSet<&String> =
        asked.iter().filter(|line| line.contains("/v2/acme/none/manifests/")).collect();
    assert_eq!(images.len(), 200, "the service does not flood a registry");
    let last = facts.image(&format!("{host}/acme/none:4999"));
    assert!(why(last).contains("more than 200 images"), "{last:?}");
}

#[tokio::test]
async fn what_nobody_needs_is_not_asked() {
    let world = World::on(Place::http().await).await;
    let commit = world.commit();
    let dev = world.settings.clusters.find(&"dev".parse().unwrap()).unwrap();
    let questions = FactRequests {
        target: dev,
        hosts: Vec::new(),
        image: "ghcr.io/acme/shop:1.0".to_owned(),
        ..world.questions(&commit)
    };
    let facts = world.gather(&questions).await;
    assert_eq!((&facts.routes, facts.images.len()), (&Fact::NotAsked, 0));
    assert_eq!((&facts.secrets, &facts.branches), (&Fact::NotAsked, &Fact::NotAsked));
    assert_eq!(known(&facts.live).objects, []);
    assert!(world.keeper.lock().asked.is_empty() && world.registry.asked().is_empty());
    let questions = FactRequests { secrets: BTreeMap::new(), ..world.questions(&commit) };
    assert_eq!(world.gather(&questions).await.secrets, Fact::NotAsked);
}

#[tokio::test]
async fn what_cannot_be_had_is_missing_and_why_and_the_rest_is_there() {
    let world = World::on(Place::http().await).await;
    let questions = world.questions(&"1".repeat(40));
    world.registry.lock().trouble = Some(registry::Trouble::Silent);
    world.keeper.lock().trouble = Some(Trouble::Forbidden);
    std::fs::remove_dir_all(&world.place.bare.0).unwrap();
    let facts = world.gather(&questions).await;
    for (why, words) in [
        (why(facts.image(&questions.image)), "did not answer within"),
        (why(&facts.secrets), "does not let the service's token read"),
        (why(&facts.branches), "acme/shop is not there"),
        (why(&facts.routes), "there is no manifest repository at"),
        (why(&facts.live), "there is no manifest repository at"),
    ] {
        assert!(why.contains(words), "{why}");
        assert!(!why.contains('\n') && !why.contains(PASSWORD) && !why.contains("good-token"));
    }
    assert_eq!((known(&facts.locks), known(&facts.owner).namespace), (vec![], vec![]));
}

#[tokio::test]
async fn a_database_that_does_not_answer_is_missing_too() {
    let world = World::on(Place::local()).await;
    let commit = world.commit();
    world.db.store.close().await;
    let facts = world.gather(&world.questions(&commit)).await;
    let reason = "the database failed while reading the records of an app";
    assert!(why(&facts.owner).contains(reason), "{}", why(&facts.owner));
    assert!(why(&facts.locks).contains(reason), "{}", why(&facts.locks));
    assert_eq!(known(&facts.branches), ["main"]);
}

#[tokio::test]
async fn a_server_is_asked_what_others_pushed_and_not_for_each_deployment() {
    let world = World::on(Place::http().await).await;
    let commit = world.commit();
    let questions = world.questions(&commit);
    let paths = async || {
        let routes = known(&world.gather(&questions).await.routes);
        routes.into_iter().map(|route| route.path).collect::<BTreeSet<_>>()
    };
    assert_eq!(paths().await, BTreeSet::new());
    world.place.host().requests();
    let own = route("shop.example.com", "/ours");
    pushed(&world.manifests, deploy_files(1, "ours", &[("ingressroute.yaml", &own)])).await;
    world.place.host().requests();
    assert_eq!(paths().await, set(&["/ours"]), "our own push is seen at once");
    assert_eq!(world.place.host().requests(), [""; 0], "and costs no request");
    let theirs = route("shop.example.com", "/theirs");
    world.place.bare.somebody_writes("manifests/prod-1/devx/b/latest/ingressroute.yaml", &theirs);
    world.clock.advance(Duration::from_secs(29));
    assert_eq!(paths().await, set(&["/ours"]));
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(paths().await, set(&["/theirs", "/ours"]));

    let elsewhere = world.place.folder.path().join("away");
    std::fs::rename(&world.place.bare.0, &elsewhere).unwrap();
    world.clock.advance(Duration::from_mins(4));
    let facts = world.gather(&questions).await;
    assert!(
        matches!(facts.routes, Fact::Known { at: then, .. } if then == at(30)),
        "it is as old as it is"
    );
    world.clock.advance(Duration::from_mins(2));
    assert!(why(&world.gather(&questions).await.routes).contains("no manifest repository at"));
}

/// Says what it takes; nothing is asserted of time.
#[tokio::test]
async fn five_hundred_apps_are_followed() {
    let world = World::on(Place::http().await).await;
    world.place.bare.import(&five_hundred_apps());
    let questions = world.questions(&world.commit());
    let timed = async || {
        let begun = std::time::Instant::now();
        loop {
            // A machine that is busy needs longer than a look may take; what was begun goes on meanwhile.
            match world.gather(&questions).await.routes {
                Fact::Missing { why } if why.contains("did not answer within") => {
                    assert!(begun.elapsed() < Duration::from_mins(1), "{why}");
                }
                fact => return (known(&fact).len(), begun.elapsed()),
            }
        }
    };
    let (none, first) = timed().await;
    let (_, again) = timed().await;
    let other = route("shop.example.com", "/api");
    pushed(&world.manifests, deploy_files(1, "api", &[("ingressroute.yaml", &other)])).await;
    let (one, changed) = timed().await;
    assert_eq!((none, one), (0, 1));
    eprintln!("500 apps: {first:?} with the clone, then {again:?}, and {changed:?} after a push");
}

/// A stream of `git fast-import`: 500 apps of 25 teams, two folders of four files each.
fn five_hundred_apps() -> String {
    let mut stream =
        "commit refs/heads/main\ncommitter x <x@example.com> 0 +0000\ndata 0\n".to_owned();
    for n in 0..500 {
        let routes = route(&format!("app-{n}.example.com"), "/") + &"# padding\n".repeat(40);
        for file in ["deployment.yaml", "ingressroute.yaml", "service.yaml", "prometheusrule.yaml"]
        {
            let other = format!("kind: {file} of {n}\n");
            let text = if file == "ingressroute.yaml" { &routes } else { &other };
            for folder in ["20261121-000000001-abcdef", "latest"] {
                let path = format!("manifests/prod-1/team-{}/app-{n}/{folder}/{file}", n % 25);
                stream += &format!("M 100644 inline {path}\ndata {}\n{text}\n", text.len());
            }
        }
    }
    stream
}
