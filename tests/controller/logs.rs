//! What an operator reads: logs and metrics.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use the_deployer::controller::metrics::Metrics;
use the_deployer::controller::outside::Remedy;
use the_deployer::controller::{Controller, Settings};
use tracing::Level;

use crate::harness::database::run_on_both;
use crate::harness::log::Log;
use crate::harness::service::{Service, run_test};

#[tokio::test]
async fn every_line_about_a_deployment_names_it() {
    run_test(async |service| {
        let log = Log::of("the_deployer", Level::INFO);
        let id = service.ask("web", 1).await;
        service.world.lock().forge_down = Some(Remedy::Retry { after: None });
        service.step().await;
        service.world.lock().forge_down = None;
        service.wait(1);
        service.settle().await;
        let text = log.text();
        for line in text.lines() {
            assert!(line.contains(&format!("deployment={id}")), "{line}");
        }
        let said = |what: &str| text.lines().filter(|line| line.contains(what)).count();
        assert_eq!((said("deployment accepted"), said("deployment succeeded")), (1, 1));
        assert_eq!(said("the forge does not answer"), 1, "a failure is logged once");
        assert_eq!((said("fetch begins"), said("fetch took")), (2, 2));
        assert_eq!((said("push begins"), said("push took")), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn metrics_tell_of_stages_outcomes_and_what_waits() {
    run_on_both(async |db| {
        let service = Service::new(db);
        let mut registry = Registry::default();
        let controller = Controller::new(
            service.db.store.clone(),
            service.clock.clone(),
            service.world.clone(),
            Settings::default(),
            Metrics::new(&mut registry),
        );
        service.ask("web", 1).await;
        controller.step().await.unwrap();
        service.ask("web", 2).await;
        service.wait(30);
        controller.measure().await.unwrap();
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "stage_duration_seconds_count{stage=\"fetch\"} 1",
            "attempts_total{outcome=\"succeeded\"} 1",
            "queue_depth{state=\"queued\"} 1",
            "queue_depth{state=\"running\"} 0",
            "queue_oldest_seconds 30",
            "outbox_depth{state=\"unsent\"} 4",
            "outbox_waiting{family=\"forge\"} 4",
            "outbox_parked{family=\"forge\"} 0",
            "outbox_oldest_seconds{family=\"forge\"} 30",
            "outbox_closed_until_timestamp_seconds{family=\"forge\"} 0",
        ] {
            assert!(text.contains(line), "no {line} in\n{text}");
        }
    })
    .await;
}
