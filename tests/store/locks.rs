//! Locks: who is stopped, and until when.

use the_deployer::model::deployment::{Contact, ForgeState, State};
use the_deployer::model::id::{AppKey, LockId};
use the_deployer::model::lock::{Lock, LockScope};
use the_deployer::store::{
    Claim, Findings, LeaseState, LockPlacement, PushTurn, Reply, Store, Unlocked,
};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, entry};
use crate::store::{accept, claim, told};

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

/// Places lock `n` at second `n`.
async fn place(store: &Store, n: u32, lock: &Lock) {
    let entry = entry("lock", i64::from(n), "jo", &lock.reason, lock.since);
    assert_eq!(store.add_lock(&id(n), lock, &entry, None).await.unwrap(), LockPlacement::Yes);
}

/// Somebody takes lock `n` away, at that second.
async fn take(store: &Store, n: u32, by: &str, second: i64) -> Unlocked {
    let entry = entry("unlock", 100_000 + second, by, "mended", at(second));
    store.remove_lock(&id(n), &entry, &Reply::without_key()).await.unwrap()
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
            place(&db.store, n, &lock(scope, i64::from(n), None)).await;
        }
        let team = Some("team@EXAMPLE.com");
        assert_eq!(stopped(&db.store, "prod", "web", team, 9).await, [1, 2, 3]);
        assert_eq!(stopped(&db.store, "prod", "api", None, 9).await, [1]);
        assert_eq!(stopped(&db.store, "dev", "web", team, 9).await, [3]);
        assert_eq!(stopped(&db.store, "dev", "web", Some("other"), 9).await, [0; 0]);
        let noted = db.audited().await;
        assert_eq!(noted[1], "jo lock prod shop web lock 00000002, shop/web on prod a bad day");
        assert_eq!(noted[0], "jo lock prod - - lock 00000001, everything on prod a bad day");
        let everything = lock(LockScope::Everything, 4, None);
        place(&db.store, 4, &everything).await;
        assert_eq!(stopped(&db.store, "dev", "web", None, 9).await, [4]);
    })
    .await;
}

#[tokio::test]
async fn a_lock_ends_by_itself_or_is_taken_away() {
    run_on_both(async |db| {
        let (short, long) =
            (lock(LockScope::Everything, 1, Some(10)), lock(LockScope::Everything, 2, None));
        place(&db.store, 1, &short).await;
        place(&db.store, 2, &long).await;
        let both = [(id(1), short.clone()), (id(2), long.clone())];
        assert_eq!(db.store.locks(at(9)).await.unwrap(), both);
        assert_eq!(stopped(&db.store, "prod", "web", None, 9).await, [1, 2]);
        assert_eq!(stopped(&db.store, "prod", "web", None, 10).await, [2]);
        assert_eq!(take(&db.store, 2, "ada", 11).await, Unlocked::Yes(long.clone()));
        let before = Unlocked::Before {
            lock: long,
            by: "ada".to_owned(),
            at: at(11),
            why: "mended".to_owned(),
        };
        assert_eq!(take(&db.store, 2, "jo", 12).await, before);
        assert_eq!(take(&db.store, 1, "jo", 13).await, Unlocked::RanOut(short.clone()));
        assert_eq!(take(&db.store, 3, "jo", 14).await, Unlocked::NotThere);
        assert_eq!(db.store.lock(&id(1)).await.unwrap().as_ref(), Some(&short), "it is kept");
        assert_eq!(db.store.lock(&id(3)).await.unwrap(), None);
        let noted = [
            "jo lock - - - lock 00000001, everything a bad day",
            "jo lock - - - lock 00000002, everything a bad day",
            "ada unlock - - - lock 00000002, everything mended",
        ];
        assert_eq!(db.audited().await, noted, "what was not done is not in it");
        assert_eq!(db.store.locks(at(12)).await.unwrap(), []);
        let again = entry("lock", 15, "jo", "x", at(15));
        assert!(
            db.store.add_lock(&id(2), &short, &again, None).await.is_err(),
            "an id is used once"
        );
    })
    .await;
}

#[tokio::test]
async fn of_several_who_take_a_lock_away_one_has_done_it() {
    run_on_both(async |db| {
        for n in 1..20 {
            place(&db.store, n, &lock(LockScope::Everything, i64::from(n), None)).await;
            let second = 100 + 10 * i64::from(n);
            let (a, b, c) = tokio::join!(
                take(&db.store, n, "ada", second),
                take(&db.store, n, "bob", second + 1),
                take(&db.store, n, "cyd", second + 2),
            );
            let all = [("ada", a), ("bob", b), ("cyd", c)];
            let done: Vec<&str> = all
                .iter()
                .filter(|(_, found)| matches!(found, Unlocked::Yes(_)))
                .map(|(name, _)| *name)
                .collect();
            let [winner] = done[..] else { panic!("{all:?}") };
            for (name, found) in all.iter().filter(|(name, _)| *name != winner) {
                let Unlocked::Before { by, .. } = found else { panic!("{name}: {found:?}") };
                assert_eq!(by, winner, "{name} is told who was first");
            }
        }
        assert_eq!(db.store.locks(at(999)).await.unwrap(), []);
    })
    .await;
}

/// What the rules had found out: the app of `jo@example.com`.
fn known() -> Findings {
    let contact = Contact {
        name: "Web".to_owned(),
        owner: "jo@example.com".to_owned(),
        slack: None,
        successes: false,
        links: vec![],
    };
    Findings { app: Some(web()), contact: Some(contact), ..Findings::default() }
}

async fn turn(store: &Store, claim: &Claim, second: i64) -> PushTurn {
    store.begin_push(claim, &known(), at(second)).await.unwrap()
}

#[tokio::test]
async fn a_lock_that_comes_after_the_rules_ran_stops_the_push_too() {
    run_on_both(async |db| {
        let app = || LockScope::App("prod".parse().unwrap(), web());
        let id = accept(&db.store, "web", 1).await;
        let running = claim(&db.store, 2).await.unwrap();
        for (n, scope) in [
            (10, app()),
            (11, LockScope::Owner("Jo@example.com".to_owned())),
            (12, LockScope::Target("prod".parse().unwrap())),
            (13, LockScope::Everything),
        ] {
            place(&db.store, n, &lock(scope, i64::from(n), None)).await;
            let found = turn(&db.store, &running, 20).await;
            let PushTurn::Locked(lock) = found else { panic!("{n}: {found:?}") };
            assert_eq!(lock.since, at(i64::from(n)));
            take(&db.store, n, "jo", i64::from(n) + 20).await;
        }
        place(&db.store, 14, &lock(LockScope::Everything, 14, Some(40))).await;
        let other = LockScope::Target("dev".parse().unwrap());
        place(&db.store, 15, &lock(other, 15, None)).await;
        let still = db.store.deployment(&id).await.unwrap().unwrap();
        assert_eq!(still.state, State::Running, "it is neither pushed nor ended");
        assert!(matches!(turn(&db.store, &running, 39).await, PushTurn::Locked(_)));
        assert_eq!(turn(&db.store, &running, 40).await, PushTurn::Yes, "it has run out");
        place(&db.store, 16, &lock(app(), 16, None)).await;
        let again = db.store.begin_push(&running, &known(), at(41)).await.unwrap();
        assert!(matches!(again, PushTurn::Locked(_)), "the claim says that it runs");
        assert_eq!(told(&db.store, &id).await, [ForgeState::Queued, ForgeState::InProgress]);
        assert_eq!(db.store.release(&running, at(42)).await.unwrap(), LeaseState::Held);
    })
    .await;
}

#[tokio::test]
async fn one_whose_push_had_begun_is_not_stopped_by_a_lock() {
    run_on_both(async |db| {
        accept(&db.store, "web", 1).await;
        let running = claim(&db.store, 2).await.unwrap();
        assert_eq!(turn(&db.store, &running, 3).await, PushTurn::Yes);
        place(&db.store, 1, &lock(LockScope::Everything, 4, None)).await;
        let died = claim(&db.store, 100).await.unwrap();
        assert_eq!(died.deployment.state, State::Pushing);
        assert_eq!(turn(&db.store, &died, 101).await, PushTurn::Yes, "it may have arrived");
    })
    .await;
}

#[tokio::test]
async fn a_lock_and_the_point_of_no_return_at_once_agree() {
    run_on_both(async |db| {
        for n in 10..40 {
            accept(&db.store, &format!("web{n}"), n).await;
            let running = claim(&db.store, 60).await.unwrap();
            let number = u32::try_from(n).unwrap();
            let placed = lock(LockScope::Target("prod".parse().unwrap()), 61, None);
            // An app of its own: of several repositories' only one is given the turn.
            let slug = format!("web{n}").parse().unwrap();
            let known = Findings { app: Some(AppKey { slug, ..web() }), ..known() };
            let turn = db.store.begin_push(&running, &known, at(62));
            let (turn, ()) = tokio::join!(turn, place(&db.store, number, &placed));
            let turn = turn.unwrap();
            let state = db.store.deployment(&running.deployment.id).await.unwrap().unwrap().state;
            match turn {
                PushTurn::Yes => assert_eq!(state, State::Pushing),
                PushTurn::Locked(_) => assert_eq!(state, State::Running),
                other => panic!("{other:?}"),
            }
            take(&db.store, number, "jo", 100 + n).await;
        }
    })
    .await;
}

#[tokio::test]
async fn there_are_never_more_locks_than_somebody_looks_through() {
    run_on_both(async |db| {
        let one = lock(LockScope::Everything, 1, None);
        for n in 1..=1_000 {
            place(&db.store, n, &one).await;
        }
        let more = entry("lock", 5_000, "jo", "x", at(2));
        let refused = db.store.add_lock(&id(5_000), &one, &more, None).await.unwrap();
        assert_eq!(refused, LockPlacement::TooMany);
        assert_eq!(db.store.lock(&id(5_000)).await.unwrap(), None);
        take(&db.store, 7, "jo", 3).await;
        let placed = db.store.add_lock(&id(5_000), &one, &more, None).await.unwrap();
        assert_eq!(placed, LockPlacement::Yes);
    })
    .await;
}
