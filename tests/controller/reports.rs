//! The forge is told.

use std::time::Duration;

use the_deployer::controller::Settings;
use the_deployer::controller::outbox::rates::Rates;
use the_deployer::controller::outside::Remedy;
use the_deployer::model::deployment::ForgeState;
use the_deployer::model::notice::{Audience, Family};
use the_deployer::support::rate_limit::Rate;

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, delivery, id, request};
use crate::harness::service::{Service, run_test};

const TOLD: [ForgeState; 3] = [ForgeState::Queued, ForgeState::InProgress, ForgeState::Success];

#[tokio::test]
async fn while_the_forge_takes_no_statuses_deployments_go_on_and_it_hears_of_them_later() {
    run_test(async |service| {
        service.world.lock().reports_refused = Some(Remedy::Retry { after: None });
        service.ask("web", 1).await;
        service.settle().await;
        assert_eq!(service.world.pushes(), [1]);
        assert_eq!(service.world.told(1), []);
        service.world.lock().reports_refused = None;
        service.wait(1);
        service.settle().await;
        assert_eq!(service.world.told(1), TOLD);
    })
    .await;
}

#[tokio::test]
async fn a_right_that_is_given_later_is_in_time() {
    run_test(async |service| {
        service.world.lock().reports_refused = Some(Remedy::GiveUp);
        service.ask("web", 1).await;
        for _ in 0..5 {
            service.settle().await;
            service.wait(60);
        }
        service.world.lock().reports_refused = None;
        service.settle().await;
        assert_eq!(service.world.told(1), [ForgeState::Success], "how it stands by now");
    })
    .await;
}

#[tokio::test]
async fn a_status_that_the_forge_refuses_is_left_with_its_reason() {
    run_on_both(async |db| {
        let service = Service::new(db);
        service.world.lock().reports_refused = Some(Remedy::Reject);
        let id = service.ask("web", 1).await;
        service.settle().await;
        let told = service.db.store.statuses(&id).await.unwrap();
        assert_eq!(told.len(), 3);
        assert!(told.iter().all(|t| t.parked.as_deref() == Some("no right to write statuses")));
        assert_eq!(service.db.store.depth().await.unwrap().unsent, 0, "nobody tries again");
    })
    .await;
}

/// A limit is reached while two hundred wait: one is refused, and nobody else tries before the time.
#[tokio::test]
async fn a_limit_with_two_hundred_waiting_burns_no_attempts() {
    run_test(async |service| {
        let mut ids = vec![];
        for n in 0..200 {
            ids.push(service.ask(&format!("app{n}"), n).await);
        }
        let wish = Duration::from_secs(90);
        service.world.lock().reports_refused = Some(Remedy::Retry { after: Some(wish) });
        for _ in 0..8 {
            service.settle().await;
            assert_eq!(service.world.lock().refused, 1, "it was told to wait");
            service.wait(10);
        }
        service.world.lock().reports_refused = None;
        service.settle().await;
        assert_eq!(service.world.lock().told.len(), 0, "and ten seconds are left");
        service.wait(10);
        service.settle().await;
        for (id, n) in ids.iter().zip(0..) {
            assert_eq!(service.world.told(n), [ForgeState::Success], "{id}");
        }
    })
    .await;
}

/// Two days at least; an hour as before would have lost every status of that night.
#[tokio::test]
async fn a_days_outage_loses_nothing() {
    run_test(async |service| {
        service.world.lock().reports_refused = Some(Remedy::Retry { after: None });
        for n in 0..3 {
            service.ask(&format!("app{n}"), n).await;
        }
        for _ in 0..24 * 60 {
            service.settle().await;
            service.wait(60);
        }
        assert!(service.world.lock().refused <= 24 * 60 + 20, "about one try a minute for all");
        service.world.lock().reports_refused = None;
        service.settle().await;
        service.wait(300);
        service.settle().await;
        for n in 0..3 {
            assert_eq!(service.world.told(n), [ForgeState::Success]);
        }
    })
    .await;
}

#[tokio::test]
async fn one_that_is_down_holds_up_no_other() {
    run_on_both(async |db| {
        let events = Audience { events: vec!["dw".to_owned()], ..Audience::default() };
        let store = db.store.clone().telling(events);
        let service = Service::new(db.with(store));
        service.world.lock().down = vec![Family::Forge];
        service.ask("web", 1).await;
        service.settle().await;
        assert_eq!(service.world.told(1), TOLD, "the warehouse has a record without gaps");
        service.world.lock().down = vec![Family::Events("dw".to_owned())];
        service.wait(60);
        service.ask("api", 2).await;
        service.settle().await;
        assert_eq!(service.world.told(1).len(), TOLD.len() + 1, "how it stands at the forge");
        assert_eq!(service.world.told(2), TOLD);
        service.world.lock().down.clear();
        service.wait(60);
        service.settle().await;
        assert_eq!(service.world.told(2).len(), 2 * TOLD.len());
        assert_eq!(service.db.store.depth().await.unwrap().unsent, 0);
    })
    .await;
}

/// Somebody who is configured no more is not waited for.
#[tokio::test]
async fn messages_for_somebody_who_is_configured_no_more_are_not_kept_for_ever() {
    run_on_both(async |db| {
        let former = Audience { events: vec!["dw".to_owned()], ..Audience::default() };
        let before = db.store.clone().telling(former);
        let asked = request("web", "prod", 1);
        let _new = before.accept(&delivery(1), &asked, &id(1), at(0)).await.unwrap();
        let service = Service::new(db);
        service.settle().await;
        assert_eq!(service.db.store.depth().await.unwrap().unsent, 0);
    })
    .await;
}

#[tokio::test]
async fn one_message_may_ask_for_later_without_holding_up_the_others() {
    run_test(async |service| {
        service.world.lock().not_before.insert(1, at(30));
        service.ask("web", 1).await;
        service.ask("api", 2).await;
        service.settle().await;
        assert_eq!((service.world.told(1).len(), service.world.told(2).len()), (0, 3));
        service.wait(30);
        service.settle().await;
        assert_eq!(service.world.told(1), [ForgeState::Success]);
    })
    .await;
}

#[tokio::test]
async fn a_fault_in_a_sender_is_that_messages_failure_and_no_others() {
    run_test(async |service| {
        service.world.lock().unspeakable.insert(1);
        service.ask("web", 1).await;
        service.ask("api", 2).await;
        service.settle().await;
        assert_eq!((service.world.told(1).len(), service.world.told(2).len()), (0, 3));
        service.world.lock().unspeakable.clear();
        service.wait(1);
        service.settle().await;
        assert_eq!(service.world.told(1), TOLD);
    })
    .await;
}

#[tokio::test]
async fn the_pace_is_kept_by_the_clock() {
    run_on_both(async |db| {
        let service = Service::new(db);
        let forge = Rate { burst: 5, every: Duration::from_secs(1) };
        let rates = Rates { forge, ..Rates::default() };
        let paced = service.another(Settings { rates, ..Settings::default() });
        for n in 1..=10 {
            service.ask(&format!("app{n}"), n).await;
        }
        let mut sent = vec![];
        for _ in 0..7 {
            let before = service.world.lock().told.len();
            while paced.send().await.unwrap() > 0 {}
            sent.push(service.world.lock().told.len() - before);
            service.wait(1);
        }
        assert_eq!(sent, [5, 1, 1, 1, 1, 1, 0]);
    })
    .await;
}
