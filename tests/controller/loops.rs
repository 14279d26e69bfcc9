//! The loops themselves: what wakes them, how they end, and how long one worker has a deployment.

use std::time::{Duration, Instant};

use sqlx::{Connection as _, Row as _};
use the_deployer::app::App;
use the_deployer::model::deployment::{Deployment, State};
use the_deployer::model::id::DeployId;
use the_deployer::store::{Filter, Store};
use tokio_util::sync::CancellationToken;
use tracing::Level;

use crate::controller::acts::{TARGET, app};
use crate::harness::deployer::Deployer;
use crate::harness::github::Fault;
use crate::harness::log::CapturedLog;
use crate::harness::process::Held;
use crate::harness::requests::at;

/// Until the condition holds; a test that waits for ever is stopped here.
async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.expect(what);
}

/// The newest deployment, as another connection to the database sees it.
async fn newest(store: &Store) -> Deployment {
    let all = store.deployments(&Filter::default(), None, 1).await.unwrap();
    all.deployments.into_iter().next().unwrap()
}

/// By the timer alone each would be taken a second after the one before it has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_worked_on_without_waiting_for_the_timer() {
    let mut deployer = Deployer::prepared().await;
    let running = deployer.runs().await;
    let mut quickest = Duration::MAX;
    for n in 0..20 {
        app(&deployer, "shop").deploys(TARGET, &format!("v{n}")).await;
        let asked = Instant::now();
        until("it is taken", async || newest(&running.store).await.attempts > 0).await;
        quickest = quickest.min(asked.elapsed());
        until("it is done", async || newest(&running.store).await.finished_at.is_some()).await;
        if quickest < Duration::from_millis(400) {
            break;
        }
    }
    assert!(quickest < Duration::from_millis(400), "each waited for the timer: {quickest:?}");
    running.stop.cancel();
    running.ended().await;
    deployer.starts().await;
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn a_shutdown_lets_a_running_deployment_end_and_tells_of_it() {
    let mut deployer = Deployer::prepared().await;
    deployer.pushes_to_host().await;
    let held = Held::first_push(&deployer.manifests(), "pre-receive");
    let running = deployer.runs().await;
    let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
    held.reached().await;
    running.stop.cancel();
    held.let_go();
    running.ended().await;
    assert_eq!(deployer.github.told(id).last().unwrap(), "success", "told at once");
    deployer.starts().await;
    let done = deployer.deployment(id).await;
    assert_eq!((done.state, done.attempts), (State::Succeeded, 1));
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn a_shutdown_begins_nothing_new() {
    let mut deployer = Deployer::start().await;
    let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
    deployer.dies();
    let app = App::build(deployer.settings(), deployer.clock.clone()).await.unwrap();
    let stop = CancellationToken::new();
    stop.cancel();
    app.run(stop).await.unwrap();
    deployer.starts().await;
    let waiting = deployer.deployment(id).await;
    assert_eq!((waiting.state, waiting.attempts), (State::Queued, 0));
    deployer.settle().await;
    deployer.settled().await;
}

/// A third of it is enough for a statement on a busy machine, and short enough to wait for.
const LIVELY: &str = "1s";

/// A deployment whose worker waits for GitHub's answer, with a short lease.
async fn lively() -> (Deployer, i64) {
    let mut deployer = Deployer::prepared().await;
    deployer.variable("THE_DEPLOYER_LIMITS_LEASE", LIVELY);
    deployer.starts().await;
    let id = app(&deployer, "shop").deploys(TARGET, "v1").await;
    deployer.github.fails(1, "GET contents", Fault::Held);
    (deployer, id)
}

/// When the lease on a deployment ends; in milliseconds.
async fn lease_end(deployer: &Deployer, id: &DeployId) -> i64 {
    let mut connection = deployer.another_connection().await;
    let query = sqlx::query("SELECT due_at FROM deployments WHERE id = $1").bind(id.as_str());
    let due_at = query.fetch_one(&mut connection).await.unwrap().get(0);
    connection.close().await.unwrap();
    due_at
}

#[tokio::test]
async fn a_lease_is_kept_while_an_attempt_goes_on() {
    let (deployer, id) = lively().await;
    let ours = deployer.deployment(id).await.id;
    let met = deployer.github.met("GET contents");
    let (worked, ()) = tokio::join!(deployer.stepped().step(), async {
        met.await;
        let first_end = lease_end(&deployer, &ours).await;
        deployer.clock.advance(Duration::from_millis(20));
        until("it is renewed", async || lease_end(&deployer, &ours).await > first_end).await;
        deployer.github.lets_go();
    });
    assert!(worked.unwrap());
    let done = deployer.deployment(id).await;
    assert_eq!((done.state, done.attempts), (State::Succeeded, 1));
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn a_worker_that_was_taken_for_dead_stops() {
    let (deployer, id) = lively().await;
    let met = deployer.github.met("GET contents");
    let log = CapturedLog::of("the_deployer", Level::WARN);
    let (worked, ()) = tokio::join!(deployer.stepped().step(), async {
        met.await;
        // However often it renews its lease: by the heir's clock it ended long ago.
        let heir =
            deployer.stepped().store().claim("heir", at(3600), Duration::ZERO).await.unwrap();
        assert_eq!(heir.unwrap().deployment.attempts, 2);
    });
    assert!(worked.unwrap(), "it stopped by itself: GitHub has not answered yet");
    assert!(log.text().contains("another worker took over, this attempt stops"), "{}", log.text());
    deployer.github.lets_go();
    assert_eq!(deployer.deployment(id).await.state, State::Running);
    deployer.clock.advance(Duration::from_hours(1));
    deployer.settle().await;
    let done = deployer.deployment(id).await;
    assert_eq!((done.state, done.attempts), (State::Succeeded, 3));
    deployer.settled().await;
}
