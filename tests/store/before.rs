//! Tests the queries that a sender makes before it sends.

use the_deployer::model::deployment::ForgeState;
use the_deployer::model::notice::{SinkFamily, Subscriptions};
use the_deployer::model::status::ForgeStatus;
use the_deployer::store::{
    Accepted, Completion, DeliveryOutcome, FinalState, Findings, LeaseState, OutboxMessage, Store,
};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, delivery, id, request};
use crate::store::{LEASE, claim, push, succeeded};

/// The deployment `n` of `acme/web`, always of the same commit.
async fn accept(store: &Store, n: i64) {
    let mut asked = request("web", "prod", n);
    asked.release.commit = request("web", "prod", 1).release.commit;
    let accepted = store.accept(&delivery(n), &asked, &id(n), at(n)).await.unwrap();
    assert_eq!(accepted, Accepted::New);
}

async fn ends(store: &Store, n: i64, well: bool) {
    accept(store, n).await;
    let claimed = claim(store, n).await.unwrap();
    let address = Some(format!("https://v{n}.example.com/"));
    let known = Findings { address, ..Findings::default() };
    let ending = if well {
        let _turn = push(store, &claimed, n).await;
        Completion { findings: known, ..succeeded() }
    } else {
        let status = ForgeStatus::new(ForgeState::Failure, "no port 80");
        Completion { end: FinalState::Failed, status, findings: known, ..succeeded() }
    };
    assert_eq!(store.finish(&claimed, &ending, at(n)).await.unwrap(), LeaseState::Held);
}

/// The check's message of the deployment, answered.
async fn check(store: &Store, n: i64, answer: DeliveryOutcome) -> OutboxMessage {
    loop {
        let some = store.take_messages(&SinkFamily::Forge, at(n), LEASE, 1).await.unwrap();
        let message = some.into_iter().next().expect("there is one");
        store.record_outcomes(&[(message.clone(), answer.clone())], at(n)).await.unwrap();
        if message.sink.to_string() == "check" {
            return message;
        }
    }
}

#[tokio::test]
async fn a_sender_learns_what_is_known_of_the_lane_and_the_commit() {
    run_on_both(async |db| {
        let store = db
            .store
            .clone()
            .with_subscriptions(Subscriptions { checks: true, ..Subscriptions::default() });
        ends(&store, 1, true).await;
        let first = check(&store, 1, DeliveryOutcome::Skipped("nothing to close".to_owned())).await;
        assert_eq!(store.newer_of_commit(&first).await.unwrap(), None);
        ends(&store, 2, false).await;
        let written = DeliveryOutcome::Sent { reference: Some("77".to_owned()) };
        let second = check(&store, 2, written).await;
        assert_eq!(store.newer_of_commit(&first).await.unwrap(), Some(id(2)));
        assert_eq!(store.last_check(&second).await.unwrap(), None, "a skipped one is none");
        let live = second.address.as_deref();
        assert_eq!(live, Some("https://v1.example.com/"), "what failed is not there");
        ends(&store, 3, true).await;
        let third = check(&store, 3, DeliveryOutcome::Sent { reference: None }).await;
        assert_eq!(store.last_check(&third).await.unwrap(), Some(ForgeState::Failure));
        ends(&store, 4, true).await;
        let fourth = check(&store, 4, DeliveryOutcome::Sent { reference: None }).await;
        assert_eq!(store.last_check(&fourth).await.unwrap(), Some(ForgeState::Success));
    })
    .await;
}
