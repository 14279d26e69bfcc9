//! Tests that a receiver of commits gets each, with its deployment, in order.

use the_deployer::model::deployment::ForgeState;
use the_deployer::model::id::{AppKey, CommitSha, Namespace, RepoName, Slug, TargetName};
use the_deployer::model::notice::{Sink, SinkFamily, Subscriptions};
use the_deployer::model::removal::{RemovalEnd, RemovalRecord, RemovedObjects};
use the_deployer::store::{
    ActTurn, Completion, DeliveryOutcome, FinalState, Findings, LeaseState, Notification,
    OutboxMessage, PushTurn, Store,
};
use tracing::Level;

use crate::harness::database::run_on_both;
use crate::harness::log::CapturedLog;
use crate::harness::requests::{at, id, somebody};
use crate::store::{LEASE, accept, claim, push, succeeded};

fn prod() -> TargetName {
    TargetName::parse("prod").unwrap()
}

fn app() -> AppKey {
    AppKey { namespace: Namespace::parse("shop").unwrap(), slug: Slug::parse("web").unwrap() }
}

fn telling(store: &Store, clusters: &[&str]) -> Store {
    let argocd = clusters.iter().map(|name| TargetName::parse(*name).unwrap()).collect();
    store.clone().with_subscriptions(Subscriptions { argocd, ..Subscriptions::default() })
}

/// The deployment `n` of the lane ends like that at second `n`.
async fn ends(store: &Store, lane: &str, n: i64, end: FinalState) {
    accept(store, lane, n).await;
    let claimed = claim(store, n).await.unwrap();
    assert_eq!(push(store, &claimed, n).await, PushTurn::Yes);
    let known = Findings { app: Some(app()), ..Findings::default() };
    let ending = Completion { end, findings: known, ..succeeded() };
    assert_eq!(store.finish(&claimed, &ending, at(n)).await.unwrap(), LeaseState::Held);
}

/// The app is removed at second `n`, and that is recorded twice; the commit.
async fn removes(store: &Store, n: i64) -> CommitSha {
    let repository = Some(RepoName::parse("acme/web").unwrap());
    let removal = RemovalRecord {
        id: id(n),
        target: prod(),
        app: app(),
        actor: "jane".to_owned(),
        reason: "gone".to_owned(),
        taken: RemovedObjects { repository, ..RemovedObjects::default() },
        asked_at: at(n),
        ended: None,
    };
    let turn = store.begin_removal((&removal, &somebody()), None, at(n), LEASE).await.unwrap();
    assert_eq!(turn, ActTurn::Yes);
    let commit = CommitSha::parse("cd".repeat(20)).unwrap();
    let ended =
        RemovalEnd { at: at(n), commit: Some(commit.clone()), summary: "removed".to_owned() };
    for _ in 0..2 {
        store.end_removal(&removal.id, &ended, None).await.unwrap();
    }
    commit
}

async fn messages(store: &Store, n: i64) -> Vec<Notification> {
    let mut all = store.messages(&id(n)).await.unwrap();
    all.retain(|told| told.sink == Sink::ArgoCd(prod()));
    all
}

async fn take(store: &Store, seconds: i64) -> Vec<OutboxMessage> {
    let family = SinkFamily::ArgoCd(prod());
    store.take_messages(&family, at(seconds), LEASE, 10).await.unwrap()
}

#[tokio::test]
async fn a_success_that_changed_something_is_told_to_its_cluster_with_its_commit() {
    run_on_both(async |db| {
        let store = telling(&db.store, &["prod", "other"]);
        let FinalState::Succeeded(pushed) = succeeded().end else { unreachable!() };
        ends(&store, "web", 1, FinalState::Succeeded(pushed.clone())).await;
        let [told] = &messages(&store, 1).await[..] else { panic!("one") };
        assert_eq!(told.status.state, ForgeState::Success);
        assert_eq!(told.status.commit().as_ref(), Some(&pushed.commit));
        let mut same = pushed.clone();
        same.changed = false;
        ends(&store, "web", 2, FinalState::Succeeded(same)).await;
        ends(&store, "web", 3, FinalState::Failed).await;
        assert_eq!((messages(&store, 2).await, messages(&store, 3).await), (vec![], vec![]));
        ends(&telling(&db.store, &["other"]), "web", 4, FinalState::Succeeded(pushed)).await;
        assert_eq!(messages(&store, 4).await, []);
    })
    .await;
}

#[tokio::test]
async fn a_removal_is_told_with_its_commit_once() {
    run_on_both(async |db| {
        let store = telling(&db.store, &["prod"]);
        ends(&store, "web", 1, succeeded().end).await;
        ends(&store, "web", 2, FinalState::Failed).await;
        let commit = removes(&store, 3).await;
        let [_, told] = &messages(&store, 1).await[..] else { panic!("two") };
        assert_eq!(told.status.state, ForgeState::Inactive);
        assert_eq!(told.status.commit(), Some(commit));
    })
    .await;
}

/// Files that somebody else put there, and a deployment on top of them that failed.
#[tokio::test]
async fn a_removal_is_told_with_a_deployment_that_failed_where_none_succeeded() {
    run_on_both(async |db| {
        let store = telling(&db.store, &["prod"]);
        let log = CapturedLog::of("the_deployer", Level::INFO);
        removes(&store, 1).await;
        let text = log.text();
        let told = text.lines().filter(|line| line.contains("removal not announced"));
        assert_eq!(told.count(), 1, "with which deployment should it be told: {text}");
        for n in 2..=3 {
            ends(&store, "web", n, FinalState::Failed).await;
        }
        let commit = removes(&store, 4).await;
        assert_eq!(messages(&store, 2).await, []);
        let [told] = &messages(&store, 3).await[..] else { panic!("one, of the newest") };
        assert_eq!((told.status.state, told.status.commit()), (ForgeState::Inactive, Some(commit)));
    })
    .await;
}

#[tokio::test]
async fn one_that_was_not_taken_stays_before_the_later_ones() {
    run_on_both(async |db| {
        let store = telling(&db.store, &["prod"]);
        for n in 1..=3 {
            ends(&store, &format!("app{n}"), n, succeeded().end).await;
        }
        let order = |taken: &[OutboxMessage]| {
            taken.iter().map(|one| one.deployment.clone()).collect::<Vec<_>>()
        };
        let taken = take(&store, 4).await;
        assert_eq!(order(&taken), [id(1), id(2), id(3)]);
        let back = |one: &OutboxMessage, seconds| {
            (one.clone(), DeliveryOutcome::Again { at: at(seconds), unsure: false, failed: true })
        };
        let answers = [back(&taken[0], 9), back(&taken[1], 5), back(&taken[2], 5)];
        store.record_outcomes(&answers, at(5)).await.unwrap();
        assert_eq!(order(&take(&store, 9).await), [id(1), id(2), id(3)]);
    })
    .await;
}
