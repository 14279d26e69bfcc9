//! Tests the owners of apps: first come, or moved.

use the_deployer::model::facts::Ownership;
use the_deployer::model::id::{AppKey, RepoName, TargetName};
use the_deployer::store::{
    Completion, FinalState, Findings, LeaseState, OwnerMove, OwnerRecord, Store,
};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, id};
use crate::store::{accept, claim, push, succeeded};

fn app(slug: &str) -> AppKey {
    AppKey { namespace: "shop".parse().unwrap(), slug: slug.parse().unwrap() }
}

fn repository(name: &str) -> RepoName {
    RepoName::parse(format!("acme/{name}")).unwrap()
}

fn prod() -> TargetName {
    TargetName::parse("prod").unwrap()
}

/// Repository `acme/<name>` deploys the app at second `n`.
async fn deploy(store: &Store, name: &str, slug: &str, n: i64, end: FinalState) {
    accept(store, name, n).await;
    let claimed = claim(store, n).await.unwrap();
    let _yes = push(store, &claimed, n).await;
    let known = Findings { app: Some(app(slug)), ..Findings::default() };
    let ending = Completion { end, findings: known, ..succeeded() };
    assert_eq!(store.finish(&claimed, &ending, at(n)).await.unwrap(), LeaseState::Held);
    assert_eq!(store.finish(&claimed, &ending, at(n)).await.unwrap(), LeaseState::Lost);
}

async fn ownership(store: &Store, slug: &str) -> Ownership {
    store.ownership(&prod(), &app(slug)).await.unwrap()
}

#[tokio::test]
async fn an_app_is_whose_that_deployed_it_first() {
    run_on_both(async |db| {
        assert_eq!(ownership(&db.store, "web").await, Ownership::default());
        deploy(&db.store, "failed", "web", 1, FinalState::Failed).await;
        assert_eq!(ownership(&db.store, "web").await, Ownership::default(), "a try is no coming");
        deploy(&db.store, "first", "web", 2, succeeded().end).await;
        deploy(&db.store, "second", "web", 3, succeeded().end).await;
        deploy(&db.store, "second", "api", 4, succeeded().end).await;
        let owners = ownership(&db.store, "web").await;
        assert_eq!(owners.app, Some(repository("first")));
        assert_eq!(owners.namespace, [repository("first"), repository("second")]);
        let nobodys = ownership(&db.store, "new").await;
        assert_eq!((nobodys.app, nobodys.namespace.len()), (None, 2));
        let elsewhere = TargetName::parse("dev").unwrap();
        let there = db.store.ownership(&elsewhere, &app("web")).await.unwrap();
        assert_eq!(there, Ownership::default(), "another target is another place");
    })
    .await;
}

#[tokio::test]
async fn moving_an_app_is_an_act_that_is_remembered() {
    run_on_both(async |db| {
        let act = OwnerMove { by: "jo".to_owned(), reason: "split\0 off".to_owned() };
        let moved = async |slug: &str, to: &str, n| {
            db.store
                .move_owner(&prod(), &app(slug), &repository(to), &act, (at(n), &id(n)))
                .await
                .unwrap()
        };
        deploy(&db.store, "first", "web", 2, succeeded().end).await;
        assert_eq!(moved("web", "second", 5).await, Some(repository("first")));
        assert_eq!(moved("kept", "second", 6).await, None);
        deploy(&db.store, "first", "web", 7, succeeded().end).await;
        let owned = |slug: &str, n| OwnerRecord {
            target: prod(),
            app: app(slug),
            repository: repository("second"),
            since: at(n),
            moved: Some(OwnerMove { by: "jo".to_owned(), reason: "split off".to_owned() }),
        };
        assert_eq!(db.store.owners(None).await.unwrap(), [owned("kept", 6), owned("web", 5)]);
        assert_eq!(db.store.owners(Some(&prod())).await.unwrap().len(), 2);
        assert_eq!(db.store.owners(Some(&"dev".parse().unwrap())).await.unwrap(), []);
        assert_eq!(ownership(&db.store, "web").await.namespace, [repository("second")]);
    })
    .await;
}

#[tokio::test]
async fn two_that_come_at_once_leave_one_owner() {
    run_on_both(async |db| {
        let mut claims = Vec::new();
        for n in 1..=8 {
            accept(&db.store, &format!("r{n}"), n).await;
            let claimed = claim(&db.store, n).await.unwrap();
            let _yes = push(&db.store, &claimed, n).await;
            claims.push(claimed);
        }
        let known = Findings { app: Some(app("web")), ..Findings::default() };
        let ending = Completion { findings: known, ..succeeded() };
        let all = claims.iter().map(|claim| db.store.finish(claim, &ending, at(20)));
        let held = futures::future::join_all(all).await;
        assert!(
            held.into_iter().all(|held| held.unwrap() == LeaseState::Held),
            "nobody fails over it"
        );
        assert_eq!(db.store.owners(None).await.unwrap().len(), 1);
    })
    .await;
}
