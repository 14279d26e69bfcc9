//! Tables are brought up to date from every earlier version, with what that version had in them; and
//! a former version says what it meets.
//!
//! `migrations/NNNN.sql` has rows as version NNNN writes them. Whoever brings a migration brings
//! such rows: the next one is tried on them.

use std::collections::BTreeMap;
use std::path::Path;

use secrecy::SecretString;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{AnyPool, AssertSqlSafe, SqlSafeStr as _};
use the_deployer::model::audit::Search;
use the_deployer::model::deploy_clock::Lapse;
use the_deployer::model::deployment::{Deployment, ForgeState, State};
use the_deployer::model::event::Recipient;
use the_deployer::model::id::{AppKey, DeployId, RepoName, TargetName};
use the_deployer::model::notice::SinkFamily;
use the_deployer::store::{
    Begin, DeliveryOutcome, DeploymentKind, Filter, Findings, IdempotencyKey, InsightScope,
    LeaseState, PushTurn, Store,
};

use crate::harness::database::{run_on_both, run_on_empty};
use crate::store::{LEASE, succeeded};

/// A migration: its number, its name, its text.
type Step = (i64, String, String);

/// After everything that the rows tell of.
const LATER: i64 = 1_800_000_000;

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The migrations of `migrations/`, in order.
fn steps() -> Vec<Step> {
    let files = std::fs::read_dir(folder("migrations")).unwrap();
    let mut steps: Vec<Step> = files
        .map(|file| {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let (number, name) = name.split_once('_').unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            (number.parse().unwrap(), name.to_owned(), text)
        })
        .collect();
    steps.sort();
    steps
}

/// The rows that version wrote.
fn rows(version: i64) -> String {
    let path = folder(&format!("tests/store/migrations/{version:04}.sql"));
    std::fs::read_to_string(&path).unwrap_or_else(|_| {
        panic!("{} is missing: rows as migration {version} makes them", path.display())
    })
}

/// As the version of that migration left a database, with what every version before it wrote.
async fn left_by(version: i64, pool: &AnyPool) {
    let steps: Vec<Step> = steps().into_iter().filter(|step| step.0 <= version).collect();
    for known in 1..=steps.len() {
        let of = |(version, name, sql): &Step| {
            let sql = AssertSqlSafe(sql.clone()).into_sql_str();
            Migration::new(*version, name.clone().into(), MigrationType::Simple, sql, false)
        };
        let migrations: Vec<Migration> = steps[..known].iter().map(of).collect();
        let migrator = Migrator { migrations: migrations.into(), ..Migrator::DEFAULT };
        migrator.run(pool).await.unwrap();
        let text = rows(steps[known - 1].0);
        sqlx::raw_sql(AssertSqlSafe(text)).execute(pool).await.unwrap();
    }
}

async fn open(url: &str) -> Store {
    Store::open(&SecretString::from(url.to_owned())).await.unwrap()
}

fn at(seconds: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(LATER + seconds).unwrap()
}

#[tokio::test]
async fn what_every_earlier_version_wrote_is_read_by_this_one() {
    for (version, _, _) in steps() {
        run_on_empty(async |url| {
            let pool = AnyPool::connect(&url.for_driver()).await.unwrap();
            left_by(version, &pool).await;
            pool.close().await;
            let store = open(&url.for_us()).await;
            looks_right(&store, version).await;
            store.close().await;
        })
        .await;
    }
}

#[tokio::test]
async fn what_waited_under_an_earlier_version_is_done_by_this_one() {
    for (version, _, _) in steps() {
        run_on_empty(async |url| {
            let pool = AnyPool::connect(&url.for_driver()).await.unwrap();
            left_by(version, &pool).await;
            pool.close().await;
            let store = open(&url.for_us()).await;
            goes_on(&store, version).await;
            store.close().await;
        })
        .await;
    }
}

/// The records of a list, which leaves out what they have of violations and hand edits.
async fn records(store: &Store, listed: &[Deployment]) -> Vec<Deployment> {
    let mut all = Vec::new();
    for one in listed {
        all.push(store.deployment(&one.id).await.unwrap().unwrap());
    }
    all
}

/// Every row that the version wrote, as the store shows it.
#[expect(clippy::too_many_lines, reason = "a list: what each version has written")]
async fn looks_right(store: &Store, version: i64) {
    let page = store.deployments(&Filter::default(), None, 500).await.unwrap();
    let states: BTreeMap<i64, State> =
        page.deployments.iter().map(|one| (one.request.forge_id, one.state)).collect();
    for (forge_id, state) in [
        (1, State::Succeeded),
        (2, State::Failed),
        (3, State::Queued),
        (4, State::Running),
        (5, State::Pushing),
    ] {
        assert_eq!(states[&forge_id], state, "{forge_id} after version {version}");
    }
    let all = records(store, &page.deployments).await;
    let find = |forge_id: i64| {
        let found = all.iter().find(|one| one.request.forge_id == forge_id);
        found.unwrap_or_else(|| panic!("{forge_id} is lost after version {version}"))
    };
    assert_eq!(find(1).pushed.as_ref().unwrap().files, ["deployment.yaml"]);
    assert_eq!(find(2).violations.errors() + find(2).violations.warnings(), 1);
    let told: Vec<ForgeState> = told(store, &find(1).id).await;
    assert_eq!(told, [ForgeState::Queued, ForgeState::Success]);
    let depth = store.depth().await.unwrap();
    assert!(depth.unsent >= 2 && depth.parked == 1, "{depth:?} after version {version}");
    let owners = store.owners(None).await.unwrap();
    assert!(owners.iter().any(|one| one.app.slug.as_str() == "shop"), "by its live deployment");
    if version >= 2 {
        assert!(find(102).templates_commit.is_some());
    }
    if version >= 3 {
        assert!(owners.iter().any(|one| one.moved.is_some()));
        let locks = store.locks(at(0)).await.unwrap();
        assert_eq!(locks.len(), 1, "one has ended, one was taken away");
    }
    if version >= 4 {
        let prod = TargetName::parse("prod").unwrap();
        let gone = store.removals(&prod, &app("gone")).await.unwrap();
        assert!(gone[0].ended.as_ref().unwrap().commit.is_some());
        assert_eq!(store.abandoned_removals(at(0)).await.unwrap().len(), 1);
    }
    if version >= 5 {
        let messages = store.messages(&find(105).id).await.unwrap();
        assert_eq!(messages.len(), 3);
    }
    if version >= 6 {
        let one = find(106);
        assert!(one.request.production && one.address.is_some());
        assert_eq!(one.contact.as_ref().unwrap().owner, "squad@example.com");
    }
    if version >= 10 {
        let run = store.begin_sweep("deployments", "me", at(0), LEASE, false).await.unwrap();
        assert_eq!(run.unwrap().position.as_deref(), Some("acme/cart"));
        let items = ["acme/cart 4".to_owned(), "acme/cart 5".to_owned()];
        assert_eq!(store.settled_items("deployments", &items).await.unwrap().len(), 1);
    }
    if version >= 11 {
        let shop = RepoName::parse("acme/shop").unwrap();
        assert_eq!(store.previews_waiting().await.unwrap(), 1);
        assert!(store.preview_summary(&shop, 2).await.unwrap().is_some());
    }
    if version >= 13 {
        assert!(find(113).hand_edit.as_ref().unwrap().replaced);
    }
    if version >= 14 {
        let all = Search { limit: 10, ..Search::default() };
        assert_eq!(store.audit_records(&all).await.unwrap().entries.len(), 1);
    }
    if version >= 15 {
        assert!(find(-115).rollback.as_ref().unwrap().hold);
    }
    if version >= 19 {
        assert!(find(119).request.automatic);
    }
    if version >= 21 {
        let violations = &find(121).violations;
        assert_eq!((violations.errors(), violations.warnings()), (15_000, 7));
    }
    if version >= 22 {
        let key = IdempotencyKey {
            caller: "token ci".to_owned(),
            route: "/api/v1/apps/prod/devx/shop/remove".to_owned(),
            key: "k-22".to_owned(),
            digest: "ab".to_owned(),
        };
        match store.begin_idempotent(&key, at(0)).await.unwrap() {
            Begin::Started(lease) => assert!(lease.act().is_some()),
            other => panic!("not free: {other:?}"),
        }
    }
    if version >= 23 {
        let (foreign, own) = (find(123), find(2));
        assert_eq!((&foreign.app, &own.app), (&None, &Some(app("shop"))), "it was refused");
        let hosts = ["mail.example.com".to_owned(), "shop.example.com".to_owned()];
        let live = vec![];
        let prod = TargetName::parse("prod").unwrap();
        let routes = store.with_claims(&prod, &app("new"), &hosts, live, at(0)).await.unwrap();
        let claimed: Vec<_> = routes.iter().map(|route| route.host.as_str()).collect();
        assert_eq!(claimed, ["mail.example.com"], "one is in the middle of its push");
    }
    if version >= 29 {
        assert_eq!(find(129).request.recipient, Recipient::Login("octocat".to_owned()));
    }
    if version >= 37 {
        while store.measure_lapses(100).await.unwrap() > 0 {}
        let (since, until) = (at(-LATER), at(0));
        let scope = InsightScope { since, until, target: None, app: None, places: None };
        let packed = store.packed_lapses(DeploymentKind::Change, &scope).await.unwrap();
        let lapses: Vec<_> = packed.iter().flat_map(|one| one.intervals).flatten().collect();
        assert!(lapses.contains(&Lapse::Millis(100_000)), "{lapses:?} after version {version}");
        assert!(lapses.contains(&Lapse::Skew(86_400_000)), "{lapses:?} after version {version}");
    }
    if version >= 32 {
        let prod = TargetName::parse("prod").unwrap();
        let found = store.claimed_objects(&prod, &app("new"), at(0)).await.unwrap();
        let claimed: Vec<_> = found.iter().map(|one| one.object.to_string()).collect();
        assert_eq!(
            claimed,
            ["Service mail", "Deployment mail"],
            "one is in the middle of its push"
        );
    }
    if version >= 16 {
        let holds = store.holds(None).await.unwrap();
        assert_eq!(holds.len(), 1, "one was released: {holds:?}");
    }
}

/// Everything that waited comes to its end, and everybody is told.
async fn goes_on(store: &Store, version: i64) {
    let mut done = Vec::new();
    while let Some(claim) = store.claim("worker", at(0), LEASE).await.unwrap() {
        assert_eq!(
            store.begin_push(&claim, &Findings::default(), at(1)).await.unwrap(),
            PushTurn::Yes
        );
        assert_eq!(store.finish(&claim, &succeeded(), at(2)).await.unwrap(), LeaseState::Held);
        done.push(claim.deployment.request.forge_id);
    }
    assert_eq!(done, [3, 4, 5], "after version {version}");
    let mut sent = Vec::new();
    loop {
        let some = store.take_messages(&SinkFamily::Forge, at(3), LEASE, 10).await.unwrap();
        if some.is_empty() {
            break;
        }
        let answer = || DeliveryOutcome::Sent { reference: None };
        sent.extend(some.iter().map(|message| (message.forge_id, message.status.state)));
        let answers: Vec<_> = some.into_iter().map(|message| (message, answer())).collect();
        store.record_outcomes(&answers, at(3)).await.unwrap();
    }
    for forge_id in [3, 4, 5] {
        let successes = sent.iter().filter(|one| **one == (forge_id, ForgeState::Success));
        assert_eq!(successes.count(), 1, "{forge_id} after version {version}: {sent:?}");
    }
    assert!(sent.contains(&(1, ForgeState::Inactive)), "its place was taken: {sent:?}");
}

async fn told(store: &Store, id: &DeployId) -> Vec<ForgeState> {
    store.statuses(id).await.unwrap().into_iter().map(|told| told.status.state).collect()
}

fn app(slug: &str) -> AppKey {
    AppKey { namespace: "devx".parse().unwrap(), slug: slug.parse().unwrap() }
}

#[tokio::test]
async fn a_former_version_says_that_the_tables_are_a_newer_ones() {
    run_on_both(async |db| {
        let pool = AnyPool::connect(&db.url().for_driver()).await.unwrap();
        sqlx::raw_sql(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
             SELECT 9999, 'of tomorrow', success, checksum, execution_time \
             FROM _sqlx_migrations WHERE version = 1",
        )
        .execute(&pool)
        .await
        .unwrap();
        pool.close().await;
        let refused = Store::open(&SecretString::from(db.url().for_us())).await.unwrap_err();
        let said = refused.to_string();
        for words in ["newer the-deployer", "migration 9999", "restore a backup"] {
            assert!(said.contains(words), "{words} in {said}");
        }
    })
    .await;
}

#[tokio::test]
async fn replicas_that_start_at_once_make_the_tables_once() {
    run_on_empty(async |url| {
        // On one file there is one process: the storage folder is locked.
        if url.is_sqlite() {
            return;
        }
        let url = url.for_us();
        let stores = futures::future::join_all((0..4).map(|_| open(&url))).await;
        for store in &stores {
            store.ready("replica", at(0)).await.unwrap();
            assert_eq!(store.depth().await.unwrap().queued, 0);
        }
    })
    .await;
}
