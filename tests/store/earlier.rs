//! Tests the queries about earlier deployments and messages.

use the_deployer::model::deployment::{Contact, ForgeState};
use the_deployer::model::notice::{Sink, SinkFamily, Subscriptions};
use the_deployer::store::{Completion, DeliveryOutcome, Findings, Store};

use crate::harness::database::run_on_both;
use crate::harness::requests::at;
use crate::store::{LEASE, accept, claim, succeeded};

/// Deployments of a lane that all succeed, one after the other.
async fn succeed(store: &Store, lane: &str, numbers: impl IntoIterator<Item = i64>) {
    for n in numbers {
        accept(store, lane, n).await;
        let claim = claim(store, n).await.unwrap();
        let contact = (n % 2 == 0).then(|| Contact {
            name: format!("{lane} {n}"),
            owner: "a@b.c".to_owned(),
            slack: None,
            successes: true,
            links: vec![],
        });
        let known = Findings { contact, ..Findings::default() };
        let _held = store
            .finish(&claim, &Completion { findings: known, ..succeeded() }, at(n))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_sender_knows_what_was_told_of_its_lane_before() {
    run_on_both(async |db| {
        let store = db
            .store
            .clone()
            .with_subscriptions(Subscriptions { slack: true, ..Subscriptions::default() });
        succeed(&store, "web", [1, 2]).await;
        succeed(&store, "other", [3]).await;
        succeed(&store, "web", [4, 5]).await;
        let mut messages = store.take_messages(&SinkFamily::Slack, at(9), LEASE, 50).await.unwrap();
        messages.retain(|message| message.sink == Sink::Channel);
        messages.sort_by_key(|message| message.forge_id);
        let [first, second, _, fourth, _] = messages.try_into().unwrap();
        let sent = DeliveryOutcome::Sent { reference: Some("C1 1.0 1.0 squad".to_owned()) };
        let skipped = DeliveryOutcome::Skipped("nobody asked".to_owned());
        let answers = [(first.clone(), sent), (second, skipped)];
        let _held = store.record_outcomes(&answers, at(10)).await.unwrap();
        let [newer, older] = store.earlier_messages(&fourth, 50).await.unwrap().try_into().unwrap();
        assert_eq!((newer.seq, newer.skipped.as_deref()), (1, Some("nobody asked")));
        assert_eq!(older.reference.as_deref(), Some("C1 1.0 1.0 squad"));
        assert_eq!((older.status.state, &older.sink), (ForgeState::Success, &Sink::Channel));
        assert_eq!(store.earlier_messages(&fourth, 1).await.unwrap().len(), 1);
        assert_eq!(store.earlier_messages(&first, 50).await.unwrap(), []);
    })
    .await;
}

#[tokio::test]
async fn the_last_contact_is_that_of_the_newest_waml_that_could_be_read() {
    run_on_both(async |db| {
        succeed(&db.store, "web", [2, 4, 5]).await;
        succeed(&db.store, "other", [7]).await;
        let contact = async |name: &str| {
            let repository = format!("acme/{name}").parse().unwrap();
            db.store.last_contact(&repository, None).await.unwrap().map(|contact| contact.name)
        };
        assert_eq!(contact("web").await.as_deref(), Some("web 4"));
        assert_eq!(contact("other").await, None);
        assert_eq!(contact("unheard-of").await, None);
    })
    .await;
}
