//! Locks: who is stopped, and until when.

use the_deployer::model::id::AppKey;
use the_deployer::model::lock::{Lock, LockId, LockScope};
use the_deployer::store::{Store, Unlocked};

use crate::harness::database::run_on_both;
use crate::harness::requests::at;

fn id(n: u32) -> LockId {
    LockId::parse(format!("{n:08x}")).unwrap()
}

fn web() -> AppKey {
    AppKey { namespace: "shop".parse().unwrap(), slug: "web".parse().unwrap() }
}

fn lock(scope: LockScope, since: i64, until: Option<i64>) -> Lock {
    Lock {
        scope,
        reason: "a bad day".to_owned(),
        by: "jo".to_owned(),
        since: at(since),
        until: until.map(at),
    }
}

/// The numbers of the seconds in which the locks that stop were placed.
async fn stopped(
    store: &Store,
    target: &str,
    slug: &str,
    owner: Option<&str>,
    now: i64,
) -> Vec<i64> {
    let app = AppKey { slug: slug.parse().unwrap(), ..web() };
    let found = store.locks_that_stop(&target.parse().unwrap(), &app, owner, at(now)).await;
    let second = |lock: Lock| lock.since.as_second() - at(0).as_second();
    found.unwrap().into_iter().map(second).collect()
}

#[tokio::test]
async fn a_lock_stops_whom_it_names() {
    run_on_both(async |db| {
        let prod = || "prod".parse().unwrap();
        for (n, scope) in [
            (1, LockScope::Target(prod())),
            (2, LockScope::App(prod(), web())),
            (3, LockScope::Owner("Team@example.com".to_owned())),
        ] {
            db.store.add_lock(&id(n), &lock(scope, i64::from(n), None)).await.unwrap();
        }
        let team = Some("team@EXAMPLE.com");
        assert_eq!(stopped(&db.store, "prod", "web", team, 9).await, [1, 2, 3]);
        assert_eq!(stopped(&db.store, "prod", "api", None, 9).await, [1]);
        assert_eq!(stopped(&db.store, "dev", "web", team, 9).await, [3]);
        assert_eq!(stopped(&db.store, "dev", "web", Some("other"), 9).await, [0; 0]);
        let everything = lock(LockScope::Everything, 4, None);
        db.store.add_lock(&id(4), &everything).await.unwrap();
        assert_eq!(stopped(&db.store, "dev", "web", None, 9).await, [4]);
    })
    .await;
}

#[tokio::test]
async fn a_lock_ends_by_itself_or_is_taken_away() {
    run_on_both(async |db| {
        let (short, long) =
            (lock(LockScope::Everything, 1, Some(10)), lock(LockScope::Everything, 2, None));
        db.store.add_lock(&id(1), &short).await.unwrap();
        db.store.add_lock(&id(2), &long).await.unwrap();
        let both = [(id(1), short.clone()), (id(2), long.clone())];
        assert_eq!(db.store.locks(at(9)).await.unwrap(), both);
        assert_eq!(stopped(&db.store, "prod", "web", None, 9).await, [1, 2]);
        assert_eq!(stopped(&db.store, "prod", "web", None, 10).await, [2]);
        let taken = db.store.remove_lock(&id(2), "jo", "mended", at(11)).await.unwrap();
        assert_eq!(taken, Unlocked::Yes(long));
        for n in [2, 3] {
            let again = db.store.remove_lock(&id(n), "jo", "mended", at(12)).await.unwrap();
            assert_eq!(again, Unlocked::NotThere);
        }
        assert_eq!(db.store.locks(at(12)).await.unwrap(), []);
        assert!(db.store.add_lock(&id(2), &short).await.is_err(), "an id is used once");
    })
    .await;
}
