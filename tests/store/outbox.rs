//! Statuses are sent in order and once.

use the_deployer::model::deployment::ForgeState;
use the_deployer::model::notice::{SinkFamily, Subscriptions};
use the_deployer::store::{DeliveryOutcome, LeaseState, OutboxBacklog, OutboxMessage, Store};

use crate::harness::database::run_on_both;
use crate::harness::requests::at;
use crate::store::{LEASE, accept, claim};

const SENT: DeliveryOutcome = DeliveryOutcome::Sent { reference: None };

async fn take(store: &Store, seconds: i64) -> Vec<OutboxMessage> {
    store.take_messages(&SinkFamily::Forge, at(seconds), LEASE, 10).await.unwrap()
}

async fn answer(
    store: &Store,
    message: &OutboxMessage,
    answer: DeliveryOutcome,
    seconds: i64,
) -> LeaseState {
    store.record_outcomes(&[(message.clone(), answer)], at(seconds)).await.unwrap()[0]
}

#[tokio::test]
async fn statuses_of_a_deployment_go_one_after_the_other() {
    run_on_both(async |db| {
        let id = accept(&db.store, "web", 1).await;
        let _claim = claim(&db.store, 2).await;
        let first = take(&db.store, 3).await.pop().unwrap();
        assert_eq!((&first.deployment, first.seq), (&id, 1));
        assert_eq!((first.forge_id, first.repository.as_str()), (1, "acme/web"));
        assert_eq!(take(&db.store, 3).await, [], "the second waits for the first");
        assert_eq!(answer(&db.store, &first, SENT, 4).await, LeaseState::Held);
        let second = take(&db.store, 5).await.pop().unwrap();
        assert_eq!(second.status.state, ForgeState::InProgress);
        assert_eq!(answer(&db.store, &second, SENT, 6).await, LeaseState::Held);
        assert_eq!(take(&db.store, 999).await, []);
        let told = db.store.statuses(&id).await.unwrap();
        let sent: Vec<_> = told.iter().map(|told| told.sent_at).collect();
        assert_eq!(sent, [Some(at(4)), Some(at(6))]);
    })
    .await;
}

#[tokio::test]
async fn statuses_of_different_deployments_go_side_by_side() {
    run_on_both(async |db| {
        for n in 1..=12 {
            accept(&db.store, &format!("app{n}"), n).await;
        }
        assert_eq!(take(&db.store, 20).await.len(), 10, "as many as were asked for");
        assert_eq!(take(&db.store, 20).await.len(), 2);
    })
    .await;
}

#[tokio::test]
async fn eight_senders_at_once_take_each_status_once() {
    run_on_both(async |db| {
        for n in 1..=40 {
            accept(&db.store, &format!("app{n}"), n).await;
        }
        let senders = (0..8).map(|_| {
            let store = db.store.clone();
            tokio::spawn(async move { take(&store, 50).await.len() + take(&store, 50).await.len() })
        });
        let taken = futures::future::join_all(senders).await;
        let mut left = 0;
        loop {
            match take(&db.store, 50).await.len() {
                0 => break,
                more => left += more,
            }
        }
        assert_eq!(taken.into_iter().map(Result::unwrap).sum::<usize>() + left, 40);
    })
    .await;
}

#[tokio::test]
async fn a_dead_senders_status_is_sent_by_another() {
    run_on_both(async |db| {
        accept(&db.store, "web", 1).await;
        let dead = take(&db.store, 2).await.pop().unwrap();
        assert_eq!(take(&db.store, 61).await, []);
        let heir = take(&db.store, 62).await.pop().unwrap();
        assert_eq!(heir.attempts, 2);
        assert_eq!(
            answer(&db.store, &dead, DeliveryOutcome::Parked("no".to_owned()), 63).await,
            LeaseState::Lost
        );
        assert_eq!(answer(&db.store, &heir, SENT, 63).await, LeaseState::Held);
        assert_eq!(answer(&db.store, &heir, SENT, 64).await, LeaseState::Lost, "once is enough");
    })
    .await;
}

#[tokio::test]
async fn a_status_that_is_not_taken_is_tried_again_and_later_ones_wait() {
    run_on_both(async |db| {
        accept(&db.store, "web", 1).await;
        let _claim = claim(&db.store, 2).await;
        let first = take(&db.store, 3).await.pop().unwrap();
        assert_eq!(
            answer(
                &db.store,
                &first,
                DeliveryOutcome::Again { at: at(30), unsure: false, failed: true },
                4
            )
            .await,
            LeaseState::Held
        );
        assert_eq!(take(&db.store, 29).await, []);
        assert_eq!(take(&db.store, 30).await.pop().unwrap().seq, 1);
    })
    .await;
}

#[tokio::test]
async fn a_parked_status_says_why_and_lets_the_next_one_go() {
    run_on_both(async |db| {
        let id = accept(&db.store, "web", 1).await;
        let _claim = claim(&db.store, 2).await;
        let first = take(&db.store, 3).await.pop().unwrap();
        assert_eq!(
            answer(&db.store, &first, DeliveryOutcome::Parked("gone".to_owned()), 63).await,
            LeaseState::Held
        );
        assert_eq!(take(&db.store, 4).await.pop().unwrap().seq, 2);
        assert_eq!(db.store.statuses(&id).await.unwrap()[0].parked.as_deref(), Some("gone"));
        let depth = db.store.depth().await.unwrap();
        assert_eq!((depth.unsent, depth.parked), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn only_what_was_tried_in_vain_is_a_failure() {
    run_on_both(async |db| {
        accept(&db.store, "web", 1).await;
        let first = take(&db.store, 2).await.pop().unwrap();
        assert_eq!((first.due_at, first.attempts, first.failures), (at(1), 1, 0));
        let untried =
            DeliveryOutcome::Again { at: first.due_at, unsure: first.unsure, failed: false };
        assert_eq!(answer(&db.store, &first, untried, 3).await, LeaseState::Held);
        let second = take(&db.store, 3).await.pop().unwrap();
        assert_eq!((second.due_at, second.attempts, second.failures), (at(1), 2, 0));
        assert!(!second.unsure, "it was given back as it was");
        let in_vain = DeliveryOutcome::Again { at: at(9), unsure: true, failed: true };
        assert_eq!(answer(&db.store, &second, in_vain, 4).await, LeaseState::Held);
        let third = take(&db.store, 9).await.pop().unwrap();
        assert_eq!((third.due_at, third.attempts, third.failures), (at(9), 3, 1));
        assert!(third.unsure);
    })
    .await;
}

#[tokio::test]
async fn what_is_given_back_keeps_its_place() {
    run_on_both(async |db| {
        for n in 1..=3 {
            accept(&db.store, &format!("app{n}"), n).await;
        }
        let first = db.store.take_messages(&SinkFamily::Forge, at(5), LEASE, 1).await.unwrap();
        let back = DeliveryOutcome::Again { at: first[0].due_at, unsure: false, failed: false };
        assert_eq!(answer(&db.store, &first[0], back, 6).await, LeaseState::Held);
        let order: Vec<_> = take(&db.store, 7).await.into_iter().map(|m| m.forge_id).collect();
        assert_eq!(order, [1, 2, 3]);
    })
    .await;
}

#[tokio::test]
async fn a_message_knows_whether_another_waits_behind_it() {
    run_on_both(async |db| {
        accept(&db.store, "web", 1).await;
        let alone = take(&db.store, 2).await.pop().unwrap();
        assert!(!alone.followed);
        let _claim = claim(&db.store, 3).await;
        let again = take(&db.store, 62).await.pop().unwrap();
        assert_eq!((again.seq, again.followed, again.unsure), (1, true, true));
    })
    .await;
}

#[tokio::test]
async fn what_waits_is_counted_by_who_is_to_be_told() {
    run_on_both(async |db| {
        let audience = Subscriptions {
            slack: true,
            events: vec!["dw".to_owned()],
            ..Subscriptions::default()
        };
        let store = db.store.clone().with_subscriptions(audience);
        assert_eq!(store.waiting().await.unwrap(), []);
        for n in 1..=2 {
            accept(&store, &format!("app{n}"), n).await;
        }
        let first = take(&store, 3).await;
        assert_eq!(
            answer(&store, &first[0], DeliveryOutcome::Parked("no".to_owned()), 3).await,
            LeaseState::Held
        );
        let waits = |family, oldest, waiting, parked| OutboxBacklog {
            family,
            waiting,
            oldest: Some(at(oldest)),
            parked,
        };
        let events = SinkFamily::Events("dw".to_owned());
        let wanted = [waits(events, 1, 2, 0), waits(SinkFamily::Forge, 2, 1, 1)];
        assert_eq!(store.waiting().await.unwrap(), wanted);
    })
    .await;
}

#[tokio::test]
async fn a_process_that_is_alone_need_not_wait_for_a_dead_senders_lease() {
    run_on_both(async |db| {
        accept(&db.store, "web", 1).await;
        let _dead = take(&db.store, 2).await;
        assert_eq!(take(&db.store, 3).await, []);
        db.store.end_leases(at(3)).await.unwrap();
        assert!(take(&db.store, 3).await.pop().unwrap().unsure, "and looks for it first");
    })
    .await;
}
