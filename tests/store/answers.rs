//! Acts that may be repeated.

use the_deployer::store::{Answered, Begun, Repeatable};

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

#[tokio::test]
async fn a_request_is_begun_once_and_a_repeat_gets_its_answer_for_a_day() {
    run_on_both(async |db| {
        let begin = async |request: &Repeatable, n| db.store.begin_answer(request, at(n)).await;
        let one = ask("token:ci", "k", "aa");
        assert_eq!(begin(&one, 0).await.unwrap(), Begun::Now);
        assert_eq!(begin(&one, 1).await.unwrap(), Begun::AtWork);
        assert_eq!(begin(&ask("token:ci", "k", "bb"), 1).await.unwrap(), Begun::OfAnother);
        assert_eq!(begin(&ask("github:ci", "k", "aa"), 1).await.unwrap(), Begun::Now);
        let elsewhere = Repeatable { route: "/api/v1/plan".to_owned(), ..one.clone() };
        assert_eq!(begin(&elsewhere, 1).await.unwrap(), Begun::Now);
        let answered = Answered { status: 201, body: "{\"id\": \"ü\"}".to_owned() };
        db.store.keep_answer(&one, &answered).await.unwrap();
        assert_eq!(begin(&one, 23 * HOUR).await.unwrap(), Begun::Before(answered));
        assert_eq!(begin(&ask("token:ci", "k", "bb"), 2).await.unwrap(), Begun::OfAnother);
        assert_eq!(begin(&one, 24 * HOUR).await.unwrap(), Begun::Now, "it is forgotten");
    })
    .await;
}

#[tokio::test]
async fn what_was_refused_is_free_and_what_was_answered_cannot_be_taken_back() {
    run_on_both(async |db| {
        let one = ask("token:ci", "k", "aa");
        assert_eq!(db.store.begin_answer(&one, at(0)).await.unwrap(), Begun::Now);
        db.store.forget_answer(&one).await.unwrap();
        assert_eq!(db.store.begin_answer(&one, at(1)).await.unwrap(), Begun::Now);
        let answered = Answered { status: 200, body: "{}".to_owned() };
        db.store.keep_answer(&one, &answered).await.unwrap();
        db.store.forget_answer(&one).await.unwrap();
        let again = db.store.begin_answer(&one, at(2)).await.unwrap();
        assert_eq!(again, Begun::Before(answered));
    })
    .await;
}

#[tokio::test]
async fn one_whose_process_died_can_be_begun_anew_by_one() {
    run_on_both(async |db| {
        let one = ask("token:ci", "k", "aa");
        assert_eq!(db.store.begin_answer(&one, at(0)).await.unwrap(), Begun::Now);
        assert_eq!(db.store.begin_answer(&one, at(299)).await.unwrap(), Begun::AtWork);
        let both = futures::future::join_all((0..4).map(|_| db.store.begin_answer(&one, at(300))));
        let begun: Vec<Begun> = both.await.into_iter().map(Result::unwrap).collect();
        assert_eq!(begun.iter().filter(|begun| **begun == Begun::Now).count(), 1, "{begun:?}");
    })
    .await;
}

#[tokio::test]
async fn of_many_at_once_one_begins() {
    run_on_both(async |db| {
        let one = ask("token:ci", "k", "aa");
        let all = futures::future::join_all((0..8).map(|_| db.store.begin_answer(&one, at(0))));
        let begun: Vec<Begun> = all.await.into_iter().map(Result::unwrap).collect();
        assert_eq!(begun.iter().filter(|begun| **begun == Begun::Now).count(), 1, "{begun:?}");
        assert_eq!(begun.iter().filter(|begun| **begun == Begun::AtWork).count(), 7, "{begun:?}");
    })
    .await;
}
