//! Acts that may be repeated.

use the_deployer::model::app_instance::AppInstance;
use the_deployer::model::deployment::State;
use the_deployer::model::id::LockId;
use the_deployer::model::lock::{Lock, LockScope};
use the_deployer::model::removal::{RemovalEnd, RemovalRecord, RemovedObjects};
use the_deployer::model::rollback::Hold;
use the_deployer::store::{
    ActTurn, Begin, IdempotencyKey, KeyLease, LeaseState, Reply, Store, StoreError, StoredAnswer,
};

use crate::harness::database::{Database, run_on_both};
use crate::harness::requests::{at, delivery, entry, id, request, somebody};
use crate::harness::rollbacks::{app, entry as of_rollback, new};
use crate::store::{accept, claim, push, succeeded};

fn ask(caller: &str, key: &str, digest: &str) -> IdempotencyKey {
    IdempotencyKey {
        caller: caller.to_owned(),
        route: "/api/v1/locks".to_owned(),
        key: key.to_owned(),
        digest: digest.to_owned(),
    }
}

const HOUR: i64 = 3600;

fn lease(begun: Result<Begin, StoreError>) -> KeyLease {
    match begun.unwrap() {
        Begin::Started(lease) => lease,
        other => panic!("not begun: {other:?}"),
    }
}

#[tokio::test]
async fn a_request_is_begun_once_and_a_repeat_gets_its_answer_for_a_day() {
    run_on_both(async |db| {
        let begin =
            async |request: &IdempotencyKey, n| db.store.begin_idempotent(request, at(n)).await;
        let one = ask("token:ci", "k", "aa");
        let first = lease(begin(&one, 0).await);
        assert_eq!(begin(&one, 1).await.unwrap(), Begin::InProgress);
        assert_eq!(begin(&ask("token:ci", "k", "bb"), 1).await.unwrap(), Begin::KeyReused);
        lease(begin(&ask("github:ci", "k", "aa"), 1).await);
        let elsewhere = IdempotencyKey { route: "/api/v1/plan".to_owned(), ..one.clone() };
        lease(begin(&elsewhere, 1).await);
        let answered = StoredAnswer { status: 201, body: "{\"id\": \"ü\"}".to_owned() };
        db.store.keep_answer(&first, &answered).await.unwrap();
        assert_eq!(begin(&one, 23 * HOUR).await.unwrap(), Begin::Replay(answered));
        assert_eq!(begin(&ask("token:ci", "k", "bb"), 2).await.unwrap(), Begin::KeyReused);
        // It is forgotten.
        lease(begin(&one, 24 * HOUR).await);
    })
    .await;
}

#[tokio::test]
async fn what_was_refused_is_free_and_what_was_answered_cannot_be_taken_back() {
    run_on_both(async |db| {
        let one = ask("token:ci", "k", "aa");
        let first = lease(db.store.begin_idempotent(&one, at(0)).await);
        db.store.release_key(&first, at(1)).await.unwrap();
        let second = lease(db.store.begin_idempotent(&one, at(1)).await);
        let answered = StoredAnswer { status: 200, body: "{}".to_owned() };
        db.store.keep_answer(&second, &answered).await.unwrap();
        db.store.release_key(&second, at(1)).await.unwrap();
        let again = db.store.begin_idempotent(&one, at(2)).await.unwrap();
        assert_eq!(again, Begin::Replay(answered));
    })
    .await;
}

#[tokio::test]
async fn one_whose_process_died_can_be_begun_anew_by_one() {
    run_on_both(async |db| {
        let one = ask("token:ci", "k", "aa");
        lease(db.store.begin_idempotent(&one, at(0)).await);
        assert_eq!(db.store.begin_idempotent(&one, at(299)).await.unwrap(), Begin::InProgress);
        let both =
            futures::future::join_all((0..4).map(|_| db.store.begin_idempotent(&one, at(300))));
        let begun: Vec<Begin> = both.await.into_iter().map(Result::unwrap).collect();
        assert_eq!(
            begun.iter().filter(|begun| matches!(begun, Begin::Started(_))).count(),
            1,
            "{begun:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn one_that_was_taken_over_changes_nothing() {
    run_on_both(async |db| {
        let one = ask("token:ci", "k", "aa");
        let late = lease(db.store.begin_idempotent(&one, at(0)).await);
        let now = lease(db.store.begin_idempotent(&one, at(300)).await);
        let of = |status| StoredAnswer { status, body: "{}".to_owned() };
        db.store.release_key(&late, at(1)).await.unwrap();
        db.store.keep_answer(&late, &of(201)).await.unwrap();
        assert_eq!(db.store.begin_idempotent(&one, at(301)).await.unwrap(), Begin::InProgress);
        db.store.keep_answer(&now, &of(202)).await.unwrap();
        db.store.keep_answer(&late, &of(201)).await.unwrap();
        let again = db.store.begin_idempotent(&one, at(302)).await.unwrap();
        assert_eq!(again, Begin::Replay(of(202)));
    })
    .await;
}

#[tokio::test]
async fn of_many_at_once_one_begins() {
    run_on_both(async |db| {
        let one = ask("token:ci", "k", "aa");
        let all = futures::future::join_all((0..8).map(|_| db.store.begin_idempotent(&one, at(0))));
        let begun: Vec<Begin> = all.await.into_iter().map(Result::unwrap).collect();
        assert_eq!(
            begun.iter().filter(|begun| matches!(begun, Begin::Started(_))).count(),
            1,
            "{begun:?}"
        );
        assert_eq!(
            begun.iter().filter(|begun| **begun == Begin::InProgress).count(),
            7,
            "{begun:?}"
        );
    })
    .await;
}

/// How the tests answer everything.
fn answer<T>(_: &T) -> StoredAnswer {
    StoredAnswer::new(202, &"done")
}

async fn started(store: &Store, key: &str) -> KeyLease {
    lease(store.begin_idempotent(&ask("token:ci", key, "aa"), at(0)).await)
}

/// Runs an act once under each of two leases: one that was taken over, with which nothing may be done, and
/// one that holds. Between the act and anything after it the process dies: nothing else keeps the answer.
async fn done_with_its_answer(
    db: &Database,
    act: impl AsyncFn(KeyLease) -> Result<(), StoreError>,
    is_done: impl AsyncFn() -> bool,
) {
    let lost = started(&db.store, "k").await;
    let one = ask("token:ci", "k", "aa");
    let holds = lease(db.store.begin_idempotent(&one, at(300)).await);
    let refused = act(lost).await.unwrap_err();
    assert!(matches!(refused, StoreError::KeyLost { .. }), "{refused}");
    assert!(!is_done().await, "an act of a lost key");
    act(holds).await.unwrap();
    assert!(is_done().await);
    let again = db.store.begin_idempotent(&one, at(301)).await.unwrap();
    assert_eq!(again, Begin::Replay(answer(&())));
}

#[tokio::test]
async fn a_lock_is_placed_and_taken_away_with_its_answer() {
    run_on_both(async |db| {
        let (store, id) = (&db.store, LockId::parse("0000000a").unwrap());
        let lock = Lock {
            scope: LockScope::Everything,
            reason: "a bad day".to_owned(),
            by: "jo".to_owned(),
            since: at(1),
            until: None,
        };
        let place = async |lease| {
            let kept = Reply::new(Some(lease), answer).answer(&());
            let entry = entry("lock", 1, "jo", "a bad day", at(1));
            store.add_lock(&id, &lock, &entry, kept.as_ref()).await.map(drop)
        };
        let placed = async || !store.locks(at(400)).await.unwrap().is_empty();
        done_with_its_answer(&db, place, placed).await;
        db.execute("DELETE FROM answers").await;
        let take = async |lease| {
            let entry = entry("unlock", 2, "jo", "over", at(2));
            let reply = Reply::new(Some(lease), answer);
            store.remove_lock(&id, &entry, &reply).await.map(drop)
        };
        done_with_its_answer(&db, take, async || !placed().await).await;
    })
    .await;
}

#[tokio::test]
async fn a_hold_is_placed_and_released_with_its_answer() {
    run_on_both(async |db| {
        let (store, target) = (&db.store, "prod".parse().unwrap());
        let hold = Hold {
            target: "prod".parse().unwrap(),
            app: app(),
            by: "jo".to_owned(),
            reason: "watched".to_owned(),
            since: at(1),
            rollback: None,
            away: None,
            to: None,
        };
        let place = async |lease| {
            let reply = Reply::new(Some(lease), answer);
            let entry = of_rollback(1, "hold", "watched");
            store.place_hold(&hold, &entry, &reply).await.map(drop)
        };
        let is_kept = async || store.hold(&target, &app()).await.unwrap().is_some();
        done_with_its_answer(&db, place, is_kept).await;
        db.execute("DELETE FROM answers").await;
        let release = async |lease| {
            let reply = Reply::new(Some(lease), answer);
            let entry = of_rollback(2, "release", "over");
            let instance = AppInstance { target: target.clone(), app: app() };
            store.release_hold(&instance, None, &entry, &reply).await.map(drop)
        };
        done_with_its_answer(&db, release, async || !is_kept().await).await;
    })
    .await;
}

#[tokio::test]
async fn a_rollback_and_a_deployment_are_stored_with_their_answers() {
    run_on_both(async |db| {
        let store = &db.store;
        accept(store, "web", 1).await;
        let claimed = claim(store, 1).await.unwrap();
        let _turn = push(store, &claimed, 1).await;
        assert_eq!(store.finish(&claimed, &succeeded(), at(1)).await.unwrap(), LeaseState::Held);
        let there = async |n| store.deployment(&id(n)).await.unwrap().is_some();
        let back = async |lease| {
            let kept = Reply::new(Some(lease), answer).answer(&());
            let entry = of_rollback(2, "rollback", "broken");
            store.accept_rollback(&new(2, 1), (&entry, kept.as_ref()), at(2)).await.map(drop)
        };
        done_with_its_answer(&db, back, async || there(2).await).await;
        db.execute("DELETE FROM answers").await;
        let deploy = async |lease| {
            let kept = Reply::new(Some(lease), answer).answer(&());
            let (asked, entry) = (request("web", "prod", 3), entry("deploy", 3, "jo", "", at(3)));
            let act = Some((&entry, kept.as_ref()));
            store.accept_act(&delivery(3), &asked, &id(3), act, at(3)).await.map(drop)
        };
        done_with_its_answer(&db, deploy, async || there(3).await).await;
    })
    .await;
}

#[tokio::test]
async fn a_deployment_is_cancelled_with_its_answer() {
    run_on_both(async |db| {
        let store = &db.store;
        accept(store, "web", 1).await;
        let cancel = async |lease| {
            let entry = entry("cancel", 2, "jo", "wrong", at(2));
            let reply = Reply::new(Some(lease), answer);
            store.cancel(&id(1), &entry, &reply).await.map(drop)
        };
        let over =
            async || store.deployment(&id(1)).await.unwrap().unwrap().state == State::Cancelled;
        done_with_its_answer(&db, cancel, over).await;
    })
    .await;
}

#[tokio::test]
async fn a_removal_leads_from_its_key_to_its_record_and_ends_with_its_answer() {
    run_on_both(async |db| {
        let store = &db.store;
        let removal = RemovalRecord {
            id: id(5),
            target: "prod".parse().unwrap(),
            app: app(),
            actor: "jo".to_owned(),
            reason: "moved".to_owned(),
            taken: RemovedObjects::default(),
            asked_at: at(1),
            ended: None,
        };
        let one = ask("token:ci", "k", "aa");
        let lost = started(store, "k").await;
        let holds = lease(store.begin_idempotent(&one, at(300)).await);
        let minute = std::time::Duration::from_mins(1);
        let begin = async |lease: &KeyLease| {
            let act = (&removal, &somebody());
            store.begin_removal(act, Some(lease), at(300), minute).await
        };
        assert!(matches!(begin(&lost).await, Err(StoreError::KeyLost { .. })));
        assert!(store.removal(&id(5)).await.unwrap().is_none(), "an act of a lost key");
        assert_eq!(begin(&holds).await.unwrap(), ActTurn::Yes);
        // Its process dies: whoever is at it next finds the record. To be refused loses it as little.
        let next = lease(store.begin_idempotent(&one, at(600)).await);
        assert_eq!(next.act(), Some(&id(5)));
        store.release_key(&next, at(601)).await.unwrap();
        let third = lease(store.begin_idempotent(&one, at(601)).await);
        assert_eq!(third.act(), Some(&id(5)));
        let ended = RemovalEnd { at: at(602), commit: None, summary: "gone".to_owned() };
        let kept = Reply::new(Some(third), answer).answer(&());
        store.end_removal(&id(5), &ended, kept.as_ref()).await.unwrap();
        let again = store.begin_idempotent(&one, at(603)).await.unwrap();
        assert_eq!(again, Begin::Replay(answer(&())));
    })
    .await;
}

#[tokio::test]
async fn the_keys_of_a_process_that_is_dead_are_free_at_once() {
    run_on_both(async |db| {
        let first = started(&db.store, "k").await;
        let one = ask("token:ci", "k", "aa");
        assert_eq!(db.store.begin_idempotent(&one, at(1)).await.unwrap(), Begin::InProgress);
        db.store.end_leases(at(2)).await.unwrap();
        let second = lease(db.store.begin_idempotent(&one, at(2)).await);
        assert_ne!(first, second);
        assert_eq!(db.store.begin_idempotent(&one, at(3)).await.unwrap(), Begin::InProgress);
    })
    .await;
}
