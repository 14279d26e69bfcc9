//! Names of repositories change, and events tell of it late.

use jiff::Timestamp;
use the_deployer::model::event::RepositoryIdentity;
use the_deployer::model::id::{AppKey, DeployId, Namespace, RepoName, Slug, TargetName};
use the_deployer::store::{OwnerMove, Store};

use crate::harness::database::run_on_both;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn app(slug: &str) -> AppKey {
    AppKey { namespace: Namespace::parse("devx").unwrap(), slug: Slug::parse(slug).unwrap() }
}

/// The app becomes that repository's.
async fn gives(store: &Store, n: u32, (slug, repository): (&str, &str)) {
    let (target, to) = (TargetName::parse("prod").unwrap(), RepoName::parse(repository).unwrap());
    let moved = OwnerMove { by: "jo".to_owned(), reason: "x".to_owned() };
    let id = DeployId::parse(format!("20270115-080000000-{n:06x}")).unwrap();
    store.move_owner(&target, &app(slug), &to, &moved, (at(0), &id)).await.unwrap();
}

async fn owner(store: &Store, slug: &str) -> String {
    let target = TargetName::parse("prod").unwrap();
    store.ownership(&target, &app(slug)).await.unwrap().app.unwrap().to_string()
}

/// An event of that second names a repository; it comes at the end of all.
async fn hears(store: &Store, (repository, owner): (i64, i64), name: &str, second: i64) {
    let identity = RepositoryIdentity { repository, owner: Some(owner), at: Some(at(second)) };
    let name = RepoName::parse(name).unwrap();
    store.recognize_repository(identity, &name, at(10_000)).await.unwrap();
}

#[tokio::test]
async fn an_event_from_before_a_rename_turns_no_name_back() {
    run_on_both(async |db| {
        let store = &db.store;
        hears(store, (1, 7), "acme/shop", 10).await;
        gives(store, 1, ("shop", "acme/shop")).await;
        hears(store, (1, 7), "acme/web-shop", 20).await;
        assert_eq!(owner(store, "shop").await, "acme/web-shop");
        hears(store, (1, 7), "acme/shop", 15).await;
        assert_eq!(owner(store, "shop").await, "acme/web-shop");
        // Another one takes the name that became free, and an event of the first comes even later.
        hears(store, (2, 7), "acme/shop", 30).await;
        gives(store, 2, ("blog", "acme/shop")).await;
        hears(store, (1, 7), "acme/shop", 16).await;
        hears(store, (3, 7), "acme/shop", 5).await;
        assert_eq!(owner(store, "shop").await, "acme/web-shop");
        assert_eq!(owner(store, "blog").await, "acme/shop");
        // It was called so between two events that were heard; then it has a name that nobody knows yet.
        hears(store, (1, 7), "acme/shop", 25).await;
        assert_eq!(owner(store, "shop").await, "-acme/shop.former-1");
        hears(store, (1, 7), "acme/new-shop", 40).await;
        assert_eq!(owner(store, "shop").await, "acme/new-shop");
        assert_eq!(owner(store, "blog").await, "acme/shop");
    })
    .await;
}

#[tokio::test]
async fn a_name_that_became_free_by_a_transfer_owns_nothing() {
    run_on_both(async |db| {
        let store = &db.store;
        hears(store, (1, 7), "acme/shop", 10).await;
        gives(store, 3, ("shop", "acme/shop")).await;
        hears(store, (1, 8), "other/shop", 20).await;
        assert_eq!(owner(store, "shop").await, "-acme/shop.former-1");
        hears(store, (2, 7), "acme/shop", 30).await;
        assert_eq!(owner(store, "shop").await, "-acme/shop.former-1");
        gives(store, 4, ("shop", "other/shop")).await;
        hears(store, (1, 8), "other/web-shop", 40).await;
        assert_eq!(owner(store, "shop").await, "other/web-shop");
    })
    .await;
}
