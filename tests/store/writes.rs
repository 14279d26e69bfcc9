//! Transactions that come to no good end: what they were on can be used again.

use std::time::Duration;

use sqlx::{AnyConnection, Connection as _, Executor as _, raw_sql};
use the_deployer::store::{Accepted, Ailment};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, delivery, id, request};
use crate::store::accept;

#[tokio::test]
async fn a_caller_that_goes_away_in_the_middle_of_a_write_spoils_nothing() {
    run_on_both(async |db| {
        for n in 0..200 {
            let store = db.store.clone();
            let write = tokio::spawn(async move {
                store.accept(&delivery(n), &request("web", "prod", n), &id(n), at(n)).await
            });
            tokio::time::sleep(Duration::from_micros(u64::try_from(n).unwrap() * 20)).await;
            write.abort();
            let _gone_or_done = write.await;
        }
        for n in 1000..1020 {
            accept(&db.store, "web", n).await;
            db.store.claim_some("worker", at(n), Duration::ZERO, 1).await.unwrap();
        }
        assert!(db.store.ready("replica", at(0)).await.is_ok());
    })
    .await;
}

#[tokio::test]
async fn a_write_lock_that_another_process_holds_is_told_and_is_over_when_it_lets_go() {
    run_on_both(async |db| {
        accept(&db.store, "web", 1).await;
        let url = db.url();
        let mut other = AnyConnection::connect(&url.for_driver()).await.unwrap();
        let lock = if url.is_sqlite() { "BEGIN IMMEDIATE" } else { "BEGIN; LOCK TABLE health" };
        other.execute(raw_sql(lock)).await.unwrap();
        let error = db.store.ready("replica", at(2)).await.unwrap_err();
        assert_eq!(error.ailment(), Ailment::NoAnswer, "{error}");
        other.execute(raw_sql("ROLLBACK")).await.unwrap();
        db.store.ready("replica", at(3)).await.unwrap();
        accept(&db.store, "web", 4).await;
    })
    .await;
}

#[tokio::test]
async fn a_write_that_is_given_up_gives_its_connection_back() {
    run_on_both(async |db| {
        let first = accept(&db.store, "web", 1).await;
        // More often than there are connections.
        for n in 2..40 {
            let taken =
                db.store.accept(&delivery(n), &request("web", "prod", n), &first, at(n)).await;
            assert!(taken.is_err());
        }
        let next =
            db.store.accept(&delivery(50), &request("web", "prod", 50), &id(50), at(50)).await;
        assert_eq!(next.unwrap(), Accepted::New);
    })
    .await;
}
