//! The forge is told.

use the_deployer::controller::outside::Remedy;
use the_deployer::model::deployment::ForgeState;

use crate::harness::service::run_test;

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
    let service =
        crate::harness::service::Service::new(crate::harness::database::Database::sqlite().await);
    service.world.lock().reports_refused = Some(Remedy::Reject);
    let id = service.ask("web", 1).await;
    service.settle().await;
    let told = service.db.store.statuses(&id).await.unwrap();
    assert_eq!(told.len(), 3);
    assert!(told.iter().all(|t| t.parked.as_deref() == Some("no right to write statuses")));
    assert_eq!(service.db.store.depth().await.unwrap().unsent, 0, "nobody tries again");
}
