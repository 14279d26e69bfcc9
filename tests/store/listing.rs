//! What pages and people ask.

use the_deployer::model::deployment::State;
use the_deployer::model::id::{AppKey, Namespace, RepoName, Slug, TargetName};
use the_deployer::store::{Filter, Held, Known};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, id, request};
use crate::store::{accept, claim, succeeded};

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
async fn a_filter_knows_people_tags_numbers_and_times() {
    run_on_both(async |db| {
        for n in 1..=4 {
            accept(&db.store, &format!("app{n}"), n).await;
        }
        let ended = claim(&db.store, 9).await.unwrap();
        let _yes = db.store.begin_push(&ended, &Known::default(), at(10)).await.unwrap();
        assert_eq!(db.store.finish(&ended, &succeeded(), at(11)).await.unwrap(), Held::Yes);
        let found = async |filter: Filter| {
            let page = db.store.deployments(&filter, None, 100).await.unwrap();
            page.deployments.into_iter().map(|one| one.request.forge_id).collect::<Vec<_>>()
        };
        let all = Filter::default();
        let asked = request("app1", "prod", 1);
        let actor = Some(asked.actor);
        assert_eq!(found(Filter { actor, ..all.clone() }).await, [4, 3, 2, 1]);
        let actor = Some("nobody\0".to_owned());
        assert_eq!(found(Filter { actor, ..all.clone() }).await, [0; 0]);
        let tag = Some(asked.release.tag);
        assert_eq!(found(Filter { tag, forge_id: Some(1), ..all.clone() }).await, [1]);
        assert_eq!(found(Filter { forge_id: Some(3), ..all.clone() }).await, [3]);
        let tag = Some("another".parse().unwrap());
        assert_eq!(found(Filter { tag, ..all.clone() }).await, [0; 0]);
        let (since, until) = (Some(at(2)), Some(at(4)));
        assert_eq!(found(Filter { since, until, ..all.clone() }).await, [3, 2]);
        assert_eq!(found(Filter { since, ..all.clone() }).await, [4, 3, 2]);
        assert_eq!(found(Filter { unfinished: true, ..all.clone() }).await, [4, 3, 2]);
        let target = Some("prod".parse().unwrap());
        assert_eq!(found(Filter { unfinished: true, target, until, ..all }).await, [3, 2]);
    })
    .await;
}

#[tokio::test]
async fn a_bell_rings_after_each_change_and_not_after_a_look() {
    run_on_both(async |db| {
        let mut bell = db.store.changes();
        let rang = |bell: &mut tokio::sync::watch::Receiver<()>| {
            let rang = bell.has_changed().unwrap();
            bell.mark_unchanged();
            rang
        };
        accept(&db.store, "app1", 1).await;
        assert!(rang(&mut bell));
        assert!(db.store.deployment(&id(1)).await.unwrap().is_some());
        assert!(!rang(&mut bell));
        let claimed = claim(&db.store, 9).await.unwrap();
        assert!(rang(&mut bell));
        let _yes = db.store.begin_push(&claimed, &Known::default(), at(10)).await.unwrap();
        assert!(rang(&mut bell));
        let other = db.store.clone();
        assert_eq!(other.finish(&claimed, &succeeded(), at(11)).await.unwrap(), Held::Yes);
        assert!(rang(&mut bell), "clones share it");
        assert_eq!(db.store.finish(&claimed, &succeeded(), at(12)).await.unwrap(), Held::Lost);
        assert!(!rang(&mut bell), "nothing was changed");
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
