//! Acts that may be repeated.

use the_deployer::store::{AnswerTurn, Answered, Begun, Repeatable, StoreError};

use crate::harness::database::run_on_both;
use crate::harness::requests::at;

fn ask(caller: &str, key: &str, digest: &str) -> Repeatable {
    Repeatable {
        caller: caller.to_owned(),
        route: "/api/v1/locks".to_owned(),
        key: key.to_owned(),
        digest: digest.to_owned(),
    }
}

const HOUR: i64 = 3600;

fn turn(begun: Result<Begun, StoreError>) -> AnswerTurn {
    match begun.unwrap() {
        Begun::Now(turn) => turn,
        other => panic!("not begun: {other:?}"),
    }
}

#[tokio::test]
async fn a_request_is_begun_once_and_a_repeat_gets_its_answer_for_a_day() {
    run_on_both(async |db| {
        let begin = async |request: &Repeatable, n| db.store.begin_answer(request, at(n)).await;
        let one = ask("token:ci", "k", "aa");
        let turn = turn(begin(&one, 0).await);
        assert_eq!(begin(&one, 1).await.unwrap(), Begun::AtWork);
        assert_eq!(begin(&ask("token:ci", "k", "bb"), 1).await.unwrap(), Begun::OfAnother);
        self::turn(begin(&ask("github:ci", "k", "aa"), 1).await);
        let elsewhere = Repeatable { route: "/api/v1/plan".to_owned(), ..one.clone() };
        self::turn(begin(&elsewhere, 1).await);
        let answered = Answered { status: 201, body: "{\"id\": \"ü\"}".to_owned() };
        db.store.keep_answer(&one, turn, &answered).await.unwrap();
        assert_eq!(begin(&one, 23 * HOUR).await.unwrap(), Begun::Before(answered));
        assert_eq!(begin(&ask("token:ci", "k", "bb"), 2).await.unwrap(), Begun::OfAnother);
        // It is forgotten.
        self::turn(begin(&one, 24 * HOUR).await);
    })
    .await;
}

#[tokio::test]
async fn what_was_refused_is_free_and_what_was_answered_cannot_be_taken_back() {
    run_on_both(async |db| {
        let one = ask("token:ci", "k", "aa");
        let first = turn(db.store.begin_answer(&one, at(0)).await);
        db.store.forget_answer(&one, first).await.unwrap();
        let second = turn(db.store.begin_answer(&one, at(1)).await);
        let answered = Answered { status: 200, body: "{}".to_owned() };
        db.store.keep_answer(&one, second, &answered).await.unwrap();
        db.store.forget_answer(&one, second).await.unwrap();
        let again = db.store.begin_answer(&one, at(2)).await.unwrap();
        assert_eq!(again, Begun::Before(answered));
    })
    .await;
}

#[tokio::test]
async fn one_whose_process_died_can_be_begun_anew_by_one() {
    run_on_both(async |db| {
        let one = ask("token:ci", "k", "aa");
        turn(db.store.begin_answer(&one, at(0)).await);
        assert_eq!(db.store.begin_answer(&one, at(299)).await.unwrap(), Begun::AtWork);
        let both = futures::future::join_all((0..4).map(|_| db.store.begin_answer(&one, at(300))));
        let begun: Vec<Begun> = both.await.into_iter().map(Result::unwrap).collect();
        assert_eq!(
            begun.iter().filter(|begun| matches!(begun, Begun::Now(_))).count(),
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
        let late = turn(db.store.begin_answer(&one, at(0)).await);
        let now = turn(db.store.begin_answer(&one, at(300)).await);
        let of = |status| Answered { status, body: "{}".to_owned() };
        db.store.forget_answer(&one, late).await.unwrap();
        db.store.keep_answer(&one, late, &of(201)).await.unwrap();
        assert_eq!(db.store.begin_answer(&one, at(301)).await.unwrap(), Begun::AtWork);
        db.store.keep_answer(&one, now, &of(202)).await.unwrap();
        db.store.keep_answer(&one, late, &of(201)).await.unwrap();
        let again = db.store.begin_answer(&one, at(302)).await.unwrap();
        assert_eq!(again, Begun::Before(of(202)));
    })
    .await;
}

#[tokio::test]
async fn of_many_at_once_one_begins() {
    run_on_both(async |db| {
        let one = ask("token:ci", "k", "aa");
        let all = futures::future::join_all((0..8).map(|_| db.store.begin_answer(&one, at(0))));
        let begun: Vec<Begun> = all.await.into_iter().map(Result::unwrap).collect();
        assert_eq!(
            begun.iter().filter(|begun| matches!(begun, Begun::Now(_))).count(),
            1,
            "{begun:?}"
        );
        assert_eq!(begun.iter().filter(|begun| **begun == Begun::AtWork).count(), 7, "{begun:?}");
    })
    .await;
}
