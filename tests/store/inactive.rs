//! Tests that a deployment that is no longer live is reported as inactive, once.

use the_deployer::model::deployment::ForgeState;
use the_deployer::model::id::{AppKey, CommitSha, Namespace, RepoName, Slug, TargetName};
use the_deployer::model::notice::{SinkFamily, Subscriptions};
use the_deployer::model::removal::{RemovalEnd, RemovalRecord, RemovedObjects};
use the_deployer::store::{
    ActTurn, Completion, DeliveryOutcome, FinalState, Findings, LeaseState, PushTurn, Store,
};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, id, somebody};
use crate::store::{LEASE, accept, claim, push, succeeded, told};

const SENT: DeliveryOutcome = DeliveryOutcome::Sent { reference: None };

fn app() -> AppKey {
    AppKey { namespace: Namespace::parse("shop").unwrap(), slug: Slug::parse("web").unwrap() }
}

/// The deployment `n` of the lane succeeds, at second `n` and a little.
async fn succeeds(store: &Store, lane: &str, n: i64) {
    accept(store, lane, n).await;
    let claimed = claim(store, n).await.unwrap();
    assert_eq!(push(store, &claimed, n).await, PushTurn::Yes);
    let known = Findings { app: Some(app()), ..Findings::default() };
    let ending = Completion { findings: known, ..succeeded() };
    assert_eq!(store.finish(&claimed, &ending, at(n)).await.unwrap(), LeaseState::Held);
}

/// Whatever the forge is to be told gets that answer.
async fn answer_all(store: &Store, seconds: i64, answer: DeliveryOutcome) {
    loop {
        let some = store.take_messages(&SinkFamily::Forge, at(seconds), LEASE, 10).await.unwrap();
        if some.is_empty() {
            return;
        }
        let answers: Vec<_> = some.into_iter().map(|message| (message, answer.clone())).collect();
        store.record_outcomes(&answers, at(seconds)).await.unwrap();
    }
}

async fn last(store: &Store, n: i64) -> (ForgeState, String) {
    let last = store.statuses(&id(n)).await.unwrap().pop().unwrap();
    (last.status.state, last.status.description().to_owned())
}

#[tokio::test]
async fn a_success_makes_the_older_ones_of_its_lane_inactive_once() {
    run_on_both(async |db| {
        let store = db
            .store
            .clone()
            .with_subscriptions(Subscriptions { commits: true, ..Subscriptions::default() });
        succeeds(&store, "web", 1).await;
        answer_all(&store, 2, SENT).await;
        succeeds(&store, "api", 2).await;
        assert_eq!(last(&store, 1).await.0, ForgeState::Success, "another lane is another matter");
        succeeds(&store, "web", 3).await;
        let replaced = "replaced by deployment 3 (v3)".to_owned();
        assert_eq!(last(&store, 1).await, (ForgeState::Inactive, replaced.clone()));
        succeeds(&store, "web", 4).await;
        assert_eq!(last(&store, 1).await.1, replaced, "once");
        let second = "replaced by deployment 4 (v4)".to_owned();
        assert_eq!(last(&store, 3).await, (ForgeState::Inactive, second), "told or not yet");
        let commit = store.messages(&id(1)).await.unwrap();
        let commit = commit.iter().filter(|told| told.sink.to_string() == "commit").count();
        assert_eq!(commit, 2, "the commit was deployed all the same");
    })
    .await;
}

#[tokio::test]
async fn one_that_the_forge_never_heard_of_is_left_alone() {
    run_on_both(async |db| {
        succeeds(&db.store, "web", 1).await;
        answer_all(&db.store, 2, DeliveryOutcome::Parked("gone".to_owned())).await;
        accept(&db.store, "web", 2).await;
        let failed = claim(&db.store, 3).await.unwrap();
        let ending = Completion { end: FinalState::Failed, ..succeeded() };
        assert_eq!(db.store.finish(&failed, &ending, at(3)).await.unwrap(), LeaseState::Held);
        succeeds(&db.store, "web", 4).await;
        assert_eq!(last(&db.store, 1).await.0, ForgeState::Success);
        let states = told(&db.store, &id(2)).await;
        assert!(!states.contains(&ForgeState::Inactive), "it was never live: {states:?}");
    })
    .await;
}

#[tokio::test]
async fn an_app_that_is_removed_is_inactive() {
    run_on_both(async |db| {
        succeeds(&db.store, "web", 1).await;
        answer_all(&db.store, 2, SENT).await;
        let removal = |n| RemovalRecord {
            id: id(n),
            target: TargetName::parse("prod").unwrap(),
            app: app(),
            actor: "jo".to_owned(),
            reason: "moved".to_owned(),
            taken: RemovedObjects {
                repository: Some(RepoName::parse("acme/web").unwrap()),
                ..RemovedObjects::default()
            },
            asked_at: at(3),
            ended: None,
        };
        let begin = async |n| {
            assert_eq!(
                db.store
                    .begin_removal((&removal(n), &somebody()), None, at(3), LEASE)
                    .await
                    .unwrap(),
                ActTurn::Yes
            );
        };
        let ended = |commit| RemovalEnd { at: at(4), commit, summary: "done".to_owned() };
        begin(90).await;
        db.store.end_removal(&id(90), &ended(None), None).await.unwrap();
        assert_eq!(last(&db.store, 1).await.0, ForgeState::Success, "nothing was taken away");
        begin(91).await;
        let commit = CommitSha::parse("ab".repeat(20)).unwrap();
        for _ in 0..2 {
            db.store.end_removal(&id(91), &ended(Some(commit.clone())), None).await.unwrap();
        }
        let said = "the app was removed by jo: moved".to_owned();
        assert_eq!(last(&db.store, 1).await, (ForgeState::Inactive, said));
        assert_eq!(told(&db.store, &id(1)).await.len(), 4, "once");
    })
    .await;
}

/// A removal whose process was slow ends at the moment when the next deployment succeeds: each wants
/// to leave word of the same deployment. On PostgreSQL neither waits for the other's turn to write.
#[tokio::test]
async fn a_removal_and_a_success_that_end_at_once_leave_one_word() {
    run_on_both(async |db| {
        let store = db.store.clone().with_subscriptions(Subscriptions {
            events: vec!["bus".to_owned()],
            ..Subscriptions::default()
        });
        for round in 0..20 {
            let (first, second, act) = (3 * round + 1, 3 * round + 2, 1_000 + round);
            let lane = format!("web{round}");
            succeeds(&store, &lane, first).await;
            answer_all(&store, first, SENT).await;
            let removal = RemovalRecord {
                id: id(act),
                target: TargetName::parse("prod").unwrap(),
                app: app(),
                actor: "jo".to_owned(),
                reason: "moved".to_owned(),
                taken: RemovedObjects::default(),
                asked_at: at(first),
                ended: None,
            };
            // It has the app to itself for no time at all, as if it had been slow.
            let no_time = std::time::Duration::ZERO;
            let turn = store.begin_removal((&removal, &somebody()), None, at(first), no_time).await;
            assert_eq!(turn.unwrap(), ActTurn::Yes);
            accept(&store, &lane, second).await;
            let claimed = claim(&store, second).await.unwrap();
            assert_eq!(push(&store, &claimed, second).await, PushTurn::Yes);
            let known = Findings { app: Some(app()), ..Findings::default() };
            let ending = Completion { findings: known, ..succeeded() };
            let commit = Some(CommitSha::parse("ab".repeat(20)).unwrap());
            let ended = RemovalEnd { at: at(second), commit, summary: "gone".to_owned() };
            let act = id(act);
            let (finished, removed) = tokio::join!(
                store.finish(&claimed, &ending, at(second)),
                store.end_removal(&act, &ended, None)
            );
            assert_eq!((finished.unwrap(), removed.unwrap()), (LeaseState::Held, ()));
            let states = told(&store, &id(first)).await;
            let inactive = states.iter().filter(|state| **state == ForgeState::Inactive).count();
            assert_eq!(inactive, 1, "round {round}: {states:?}");
            answer_all(&store, second, SENT).await;
        }
    })
    .await;
}
