//! What pages and people ask.

use the_deployer::model::deployment::State;
use the_deployer::model::id::{AppKey, Namespace, RepoName, Slug, TargetName};
use the_deployer::store::{Filter, Known};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, id};
use crate::store::{accept, claim};

#[tokio::test]
async fn pages_go_from_the_newest_to_the_oldest_without_gap_or_overlap() {
    run_on_both(async |db| {
        for n in 1..=7 {
            accept(&db.store, &format!("app{n}"), n).await;
        }
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let page = db.store.deployments(&Filter::default(), before.as_ref(), 3).await.unwrap();
            seen.extend(page.deployments.into_iter().map(|d| d.id));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(seen, (1..=7).rev().map(id).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test]
async fn a_filter_keeps_what_matches_all_of_it() {
    run_on_both(async |db| {
        for n in 1..=3 {
            accept(&db.store, &format!("app{n}"), n).await;
        }
        let app = AppKey {
            namespace: Namespace::parse("shop").unwrap(),
            slug: Slug::parse("web").unwrap(),
        };
        let first = claim(&db.store, 9).await.unwrap();
        let known = Known { app: Some(app.clone()), ..Known::default() };
        let _yes = db.store.begin_push(&first, &known, at(10)).await.unwrap();
        let count = async |filter: Filter| {
            db.store.deployments(&filter, None, 100).await.unwrap().deployments.len()
        };
        let all = Filter::default();
        let repository = Some(RepoName::parse("acme/app2").unwrap());
        let [prod, dev] = ["prod", "dev"].map(|name| Some(TargetName::parse(name).unwrap()));
        assert_eq!(count(Filter { state: Some(State::Queued), ..all.clone() }).await, 2);
        assert_eq!(count(Filter { repository: repository.clone(), ..all.clone() }).await, 1);
        assert_eq!(count(Filter { target: prod.clone(), ..all.clone() }).await, 3);
        assert_eq!(count(Filter { target: dev, ..all.clone() }).await, 0);
        assert_eq!(count(Filter { app: Some(app.clone()), ..all.clone() }).await, 1);
        let both = Filter { app: Some(app), repository, target: prod, ..all };
        assert_eq!(count(both).await, 0);
    })
    .await;
}

#[tokio::test]
async fn the_queue_says_how_much_waits_and_since_when() {
    run_on_both(async |db| {
        assert_eq!(db.store.depth().await.unwrap().oldest, None);
        for n in 1..=3 {
            accept(&db.store, &format!("app{n}"), n).await;
        }
        let _claim = claim(&db.store, 9).await;
        let depth = db.store.depth().await.unwrap();
        assert_eq!((depth.queued, depth.running, depth.oldest), (2, 1, Some(at(1))));
        assert_eq!((depth.unsent, depth.parked), (4, 0));
        let counts = db.store.counts().await.unwrap();
        assert_eq!(counts, [("queued", 2), ("running", 1)].into());
    })
    .await;
}

#[tokio::test]
async fn an_unknown_id_is_none_and_no_error() {
    run_on_both(async |db| {
        assert_eq!(db.store.deployment(&id(9)).await.unwrap(), None);
        assert_eq!(db.store.statuses(&id(9)).await.unwrap(), []);
        assert_eq!(claim(&db.store, 9).await, None);
    })
    .await;
}
