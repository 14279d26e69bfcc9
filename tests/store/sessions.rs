//! Sessions of browsers: how long they last, who ends them, and that they stay few.

use jiff::{SignedDuration, Timestamp};
use the_deployer::store::{SessionProof, SessionRecord, Store};

use crate::harness::database::run_on_both;
use crate::harness::requests::at;

const IDLE: SignedDuration = SignedDuration::from_hours(1);

fn session(id: &str, account: &str, began: i64) -> SessionRecord {
    SessionRecord {
        id: id.to_owned(),
        account: account.to_owned(),
        name: account.to_owned(),
        proof: SessionProof::SealedToken("00ff".to_owned()),
        began_at: at(began),
        seen_at: at(began),
        ends_at: at(began) + SignedDuration::from_hours(8),
    }
}

async fn begin(store: &Store, session: &SessionRecord) {
    store.begin_session(session, session.began_at - IDLE).await.unwrap();
}

async fn find(store: &Store, id: &str, now: Timestamp) -> Option<SessionRecord> {
    store.session(id, now, now - IDLE).await.unwrap()
}

#[tokio::test]
async fn a_session_lasts_while_it_is_used_and_no_longer_than_it_may() {
    run_on_both(async |db| {
        let store = &db.store;
        let of_token = SessionRecord {
            proof: SessionProof::TokenDigest("9f86".to_owned()),
            ..session("b", "token:ci", 0)
        };
        begin(store, &session("a", "github:ada", 0)).await;
        begin(store, &of_token).await;
        assert_eq!(find(store, "a", at(10)).await, Some(session("a", "github:ada", 0)));
        assert_eq!(find(store, "b", at(10)).await, Some(of_token));
        assert_eq!(find(store, "c", at(10)).await, None);
        assert!(find(store, "a", at(3599)).await.is_some());
        assert_eq!(find(store, "a", at(3600)).await, None, "an hour without a request");
        for hour in 1..8 {
            store.note_session("a", at(hour * 3600 - 1)).await.unwrap();
            assert!(find(store, "a", at(hour * 3600)).await.is_some());
        }
        // The clock of another replica is behind.
        store.note_session("a", at(5)).await.unwrap();
        assert!(find(store, "a", at(8 * 3600 - 2)).await.is_some());
        store.note_session("a", at(8 * 3600 - 1)).await.unwrap();
        assert_eq!(find(store, "a", at(8 * 3600)).await, None, "its end has come");
        assert_eq!(store.prune_sessions(at(8 * 3600), IDLE).await.unwrap(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_person_ends_one_session_or_all() {
    run_on_both(async |db| {
        let store = &db.store;
        for id in ["a", "b", "c"] {
            begin(store, &session(id, "github:ada", 0)).await;
        }
        begin(store, &session("other", "github:eve", 0)).await;
        store.end_session("a").await.unwrap();
        assert!(find(store, "a", at(1)).await.is_none() && find(store, "b", at(1)).await.is_some());
        assert_eq!(store.end_sessions_of("github:ada").await.unwrap(), 2);
        assert!(find(store, "b", at(1)).await.is_none());
        assert!(find(store, "other", at(1)).await.is_some());
    })
    .await;
}

#[tokio::test]
async fn an_account_has_twenty_sessions_and_the_one_that_rested_longest_gives_way() {
    run_on_both(async |db| {
        let store = &db.store;
        begin(store, &session("other", "github:eve", 0)).await;
        for n in 0..20 {
            begin(store, &session(&format!("s{n}"), "github:ada", n)).await;
        }
        store.note_session("s0", at(100)).await.unwrap();
        begin(store, &session("new", "github:ada", 101)).await;
        assert!(
            find(store, "s0", at(102)).await.is_some()
                && find(store, "s1", at(102)).await.is_none()
        );
        assert!(
            find(store, "s2", at(102)).await.is_some()
                && find(store, "new", at(102)).await.is_some()
        );
        assert!(find(store, "other", at(102)).await.is_some());
        // Whoever signs in clears away what is over.
        begin(store, &session("late", "github:eve", 3_700)).await;
        assert_eq!(store.prune_sessions(at(3_700), IDLE).await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn all_replicas_have_one_key_of_cookies() {
    run_on_both(async |db| {
        let store = &db.store;
        let both = tokio::join!(store.cookie_key("aa", at(0)), store.cookie_key("bb", at(0)));
        let (first, second) = (both.0.unwrap(), both.1.unwrap());
        assert_eq!(first, second);
        assert!(["aa", "bb"].contains(&&*first));
        assert_eq!(store.cookie_key("cc", at(1)).await.unwrap(), first);
    })
    .await;
}
