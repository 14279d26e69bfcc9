//! What an operator reads: logs and metrics.

use std::io::Write;
use std::sync::{Arc, Mutex};

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use the_deployer::controller::metrics::Metrics;
use the_deployer::controller::outside::Remedy;
use the_deployer::controller::{Controller, Settings};
use tracing_subscriber::EnvFilter;

use crate::harness::database::Database;
use crate::harness::service::{Service, run_test};

/// A log kept in memory.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn begin(&self) -> tracing::subscriber::DefaultGuard {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new("the_deployer=info"))
            .with_ansi(false)
            .with_writer(move || log.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    fn lines(&self) -> Vec<String> {
        let bytes = self.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn every_line_about_a_deployment_names_it() {
    run_test(async |service| {
        let log = Log::default();
        let logging = log.begin();
        let id = service.ask("web", 1).await;
        service.world.lock().forge_down = Some(Remedy::Retry { after: None });
        service.step().await;
        service.world.lock().forge_down = None;
        service.wait(1);
        service.settle().await;
        drop(logging);
        let lines = log.lines();
        for line in &lines {
            assert!(line.contains(&format!("deployment={id}")), "{line}");
        }
        let said = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
        assert_eq!((said("deployment accepted"), said("deployment succeeded")), (1, 1));
        assert_eq!(said("the forge does not answer"), 1, "a failure is logged once");
        assert_eq!((said("fetch begins"), said("fetch took")), (2, 2));
        assert_eq!((said("push begins"), said("push took")), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn metrics_tell_of_stages_outcomes_and_what_waits() {
    let service = Service::new(Database::sqlite().await);
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
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
}
