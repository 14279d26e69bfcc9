//! Transactions that come to no good end: what they were on can be used again.

use std::time::Duration;

use futures::future::join_all;
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

#[tokio::test]
async fn a_duplicate_is_told_of_only_once_the_first_is_stored() {
    const TABLES: &str = "CREATE TABLE parents (id TEXT PRIMARY KEY); \
         CREATE TABLE children (parent TEXT REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED);";
    run_on_both(async |db| {
        let (body, undo) = if db.url().is_sqlite() {
            let body = "CREATE TRIGGER spoil AFTER INSERT ON deployments BEGIN \
                 INSERT INTO children VALUES ('nobody'); END";
            (body, "DROP TRIGGER spoil; DROP TABLE children; DROP TABLE parents")
        } else {
            let body = "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                 INSERT INTO children VALUES ('nobody'); RETURN NEW; END $$; \
                 CREATE TRIGGER spoil AFTER INSERT ON deployments FOR EACH ROW EXECUTE FUNCTION spoil()";
            (body, "DROP FUNCTION spoil CASCADE; DROP TABLE children; DROP TABLE parents")
        };
        // Every commit of a deployment fails, and nothing before it.
        db.execute(&format!("{TABLES} {body}")).await;
        let accept = async |n: i64| {
            db.store.accept(&delivery(n), &request("web", "prod", 1), &id(n), at(n)).await
        };
        for result in join_all([1, 2, 3, 4].map(accept)).await {
            assert!(result.is_err(), "{result:?} is in no database");
        }
        db.execute(undo).await;
        let results = join_all([5, 6, 7, 8].map(accept)).await;
        let mut others: Vec<_> = results.into_iter().map(Result::unwrap).collect();
        let new = others.iter().position(|result| *result == Accepted::New).unwrap();
        let stored = id(5 + i64::try_from(new).unwrap());
        drop(others.remove(new));
        assert!(others.iter().all(|other| *other == Accepted::Duplicate(stored.clone())));
        assert_eq!(others.len(), 3);
    })
    .await;
}
