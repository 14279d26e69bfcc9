//! What programs and commits are told of a deployment after its push: each state once, over crashes and takeovers.

use std::time::Duration;

use the_deployer::cluster::object::WatchedKind;
use the_deployer::model::deployment::State;

use crate::harness::deployer::Deployer;
use crate::harness::github::{Fault, Repository};
use crate::harness::receiver::{Does, Receiver, SECRET};
use crate::notify::schema::assert_conforms;
use crate::progress::cluster::{Pods, TARGET, Watched, unpullable_pod};

const NONE: Pods = Pods { updated: 1, available: 0 };
const ALL: Pods = Pods { updated: 2, available: 2 };

/// What is told of a first deployment until it is pushed.
const PUSHED: [&str; 3] = ["pipelinerun.queued", "pipelinerun.started", "taskrun.started"];
/// Until it begins to run.
const RUNS: [&str; 5] = [
    "pipelinerun.queued",
    "pipelinerun.started",
    "taskrun.started",
    "taskrun.finished success",
    "taskrun.started",
];
/// Until its pods run.
const WELL: [&str; 8] = [
    "pipelinerun.queued",
    "pipelinerun.started",
    "taskrun.started",
    "taskrun.finished success",
    "taskrun.started",
    "taskrun.finished success",
    "pipelinerun.finished success",
    "service.deployed",
];

/// The service with a cluster, and a receiver that wants these events.
async fn watched(mut deployer: Deployer, wants: &str, progress: &str) -> (Watched, Receiver) {
    let receiver = Receiver::start(&deployer.clock).await;
    let url = receiver.url();
    deployer.configure(|config| {
        format!(
            "{config}notify:\n  webhooks:\n  - \
             {{name: warehouse, url: \"{url}\", secret: {{env: SIGNING}}{wants}}}\n"
        )
    });
    deployer.variable("SIGNING", SECRET);
    (Box::pin(Watched::start(deployer, progress)).await, receiver)
}

async fn ends(world: Watched, receiver: &Receiver) {
    world.ends().await;
    receiver.settled();
    for came in receiver.came() {
        assert_conforms(&came.json());
    }
}

/// Another process takes over the watch.
async fn takes_over(world: &mut Watched) {
    world.stop.cancel();
    world.server.watched(0).await;
    world.follow();
    world.server.watched(WatchedKind::ALL.len()).await;
}

/// The process dies at that point, and another one starts on its data.
async fn dies_when(world: &mut Watched, point: impl Future<Output = ()>) {
    world.stop.cancel();
    world.server.watched(0).await;
    world.deployer.dies_when(point).await;
    world.deployer.starts().await;
    world.follow();
}

/// State and description of the commit's statuses for the target, oldest first.
fn commit_statuses(repository: &Repository<'_>) -> Vec<(String, String)> {
    let statuses = repository.commit_statuses(&repository.tip("main")).into_iter();
    let of_target = statuses.filter(|one| one.0 == format!("deploy/{TARGET}"));
    of_target.map(|(_, state, description)| (state, description)).collect()
}

#[tokio::test]
async fn programs_are_told_of_each_phase_once_and_of_the_end_when_pods_run() {
    for deployer in Deployer::prepared_on_both().await {
        let (mut world, receiver) = watched(deployer, "", "").await;
        let shop = world.app("shop");
        let id = world.push(&shop, "v1").await;
        let deployment = world.reaches(id, State::Syncing).await;
        assert_eq!(receiver.kinds(), PUSHED);
        world.sync(id, "shop", 1).await;
        world.reaches(id, State::Progressing).await;
        assert_eq!(receiver.kinds(), RUNS);
        // Counts, a cause, a list of everything and a process that takes over are no further states.
        world.bring(id, "shop", 1, NONE).await;
        world.server.apply(unpullable_pod("shop", 1));
        world.until(id, "failing", |one| one.summary.contains("no such tag")).await;
        takes_over(&mut world).await;
        assert_eq!(receiver.kinds(), RUNS);
        world.bring(id, "shop", 1, ALL).await;
        world.reaches(id, State::Succeeded).await;
        assert_eq!(receiver.kinds(), WELL);
        let sync = receiver.knows()[2].json();
        let subject = &sync["data"]["subject"];
        assert_eq!(subject["id"], format!("{}/sync", deployment.id));
        assert_eq!(subject["content"]["pipelineRun"]["id"], deployment.id.as_str());
        let record = &sync["data"]["customData"];
        assert_eq!(
            (&record["phase"], &record["state"]),
            (&"syncing".into(), &"in_progress".into())
        );
        assert_eq!(record["app"]["slug"], "shop");
        assert!(record["finishedAt"].is_null(), "{record}");
        Box::pin(ends(world, &receiver)).await;
    }
}

#[tokio::test]
async fn a_service_is_deployed_when_it_runs_and_not_when_it_fails_in_its_cluster() {
    let deployer = Deployer::prepared().await;
    let wants =
        ", events: [taskrun.finished, pipelinerun.finished, service.deployed, service.upgraded]";
    let (world, receiver) = watched(deployer, wants, ", progress: {patience: 20s}").await;
    let shop = world.app("shop");
    let id = world.push(&shop, "v1").await;
    world.sync(id, "shop", 1).await;
    world.bring(id, "shop", 1, NONE).await;
    world.server.apply(unpullable_pod("shop", 1));
    world.until(id, "failing", |one| one.summary.contains("no such tag")).await;
    world.stands_still(id, "shop", 1, NONE).await;
    world.passes_until(id, State::Failed).await;
    let failed =
        ["taskrun.finished success", "taskrun.finished failure", "pipelinerun.finished failure"];
    assert_eq!(receiver.kinds(), failed);
    let errors = receiver.knows()[1].json()["data"]["subject"]["content"]["errors"].clone();
    assert!(errors.as_str().unwrap().contains("image"), "{errors}");
    // The next one is replaced before it runs, and the last one is the first that ran.
    let second = world.push(&shop, "v2").await;
    world.reaches(second, State::Syncing).await;
    let third = world.push(&shop, "v3").await;
    world.reaches(second, State::Superseded).await;
    assert_eq!(receiver.kinds()[3..], ["taskrun.finished cancel", "pipelinerun.finished cancel"]);
    world.sync(third, "shop", 2).await;
    world.bring(third, "shop", 2, ALL).await;
    world.reaches(third, State::Succeeded).await;
    assert_eq!(receiver.kinds().last().unwrap(), "service.deployed");
    Box::pin(ends(world, &receiver)).await;
}

#[tokio::test]
async fn a_sender_that_dies_while_it_tells_of_a_phase_tells_the_same_again_under_the_same_id() {
    for deployer in Deployer::prepared_on_both().await {
        let (mut world, receiver) = watched(deployer, "", "").await;
        let id = {
            let shop = world.app("shop");
            world.push(&shop, "v1").await
        };
        world.reaches(id, State::Syncing).await;
        world.sync(id, "shop", 1).await;
        world.until_recorded(id, State::Progressing).await;
        receiver.will([Does::Takes, Does::TakesAndHangs]);
        let count = receiver.came().len();
        let hangs = async {
            while receiver.came().len() < count + 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        dies_when(&mut world, hangs).await;
        world.deployer.settle().await;
        assert_eq!(receiver.kinds(), RUNS);
        assert_eq!(receiver.came().len(), RUNS.len() + 2, "both came again");
        world.bring(id, "shop", 1, ALL).await;
        world.reaches(id, State::Succeeded).await;
        assert_eq!(receiver.kinds(), WELL);
        Box::pin(ends(world, &receiver)).await;
    }
}

#[tokio::test]
async fn a_commit_is_pending_for_what_its_deployment_waits_for_and_has_one_end() {
    Watched::on_both(async |world| {
        let id = {
            let shop = world.app("shop");
            world.push(&shop, "v1").await
        };
        world.reaches(id, State::Syncing).await;
        let statuses =
            |world: &Watched| commit_statuses(&world.deployer.github.repository("example/shop"));
        let pushed = statuses(world);
        assert_eq!(pushed.len(), 2, "{pushed:?}");
        assert!(pushed[1].1.contains("waiting for Argo CD"), "{pushed:?}");
        world.sync(id, "shop", 1).await;
        world.reaches(id, State::Progressing).await;
        assert_eq!(statuses(world).len(), 3, "{:?}", statuses(world));
        // A count is no status of its own: a commit has room for a thousand.
        world.bring(id, "shop", 1, NONE).await;
        world.until(id, "counted", |one| one.summary.contains("1 of 2 updated")).await;
        assert_eq!(statuses(world).len(), 3, "{:?}", statuses(world));
        world.server.apply(unpullable_pod("shop", 1));
        world.until(id, "failing", |one| one.summary.contains("no such tag")).await;
        takes_over(world).await;
        let failing = statuses(world);
        assert_eq!(failing.len(), 4, "{failing:?}");
        assert!(failing[3].1.contains("image"), "{failing:?}");
        world.bring(id, "shop", 1, ALL).await;
        world.reaches(id, State::Succeeded).await;
        let states: Vec<_> = statuses(world).into_iter().map(|(state, _)| state).collect();
        assert_eq!(states, ["pending", "pending", "pending", "pending", "success"]);
    })
    .await;
}

#[tokio::test]
async fn a_commit_status_that_was_written_by_a_sender_that_died_is_not_written_again() {
    Watched::on_both(async |world| {
        const WRITE: &str = "POST repos/example/shop/statuses";
        let id = {
            let shop = world.app("shop");
            world.push(&shop, "v1").await
        };
        world.reaches(id, State::Syncing).await;
        world.sync(id, "shop", 1).await;
        world.until_recorded(id, State::Progressing).await;
        world.deployer.github.fails(1, WRITE, Fault::SilentAfter);
        let met = world.deployer.github.met(WRITE);
        dies_when(world, met).await;
        world.deployer.settle().await;
        let statuses =
            |world: &Watched| commit_statuses(&world.deployer.github.repository("example/shop"));
        assert_eq!(statuses(world).len(), 3, "{:?}", statuses(world));
        world.bring(id, "shop", 1, ALL).await;
        world.reaches(id, State::Succeeded).await;
        let states: Vec<_> = statuses(world).into_iter().map(|(state, _)| state).collect();
        assert_eq!(states, ["pending", "pending", "pending", "success"]);
    })
    .await;
}

#[tokio::test]
async fn a_commit_whose_deployment_fails_in_the_cluster_ends_as_failed() {
    let world = Watched::start(Deployer::prepared().await, ", progress: {patience: 20s}").await;
    let shop = world.app("shop");
    let id = world.push(&shop, "v1").await;
    world.sync(id, "shop", 1).await;
    world.bring(id, "shop", 1, NONE).await;
    world.server.apply(unpullable_pod("shop", 1));
    world.until(id, "failing", |one| one.summary.contains("no such tag")).await;
    world.stands_still(id, "shop", 1, NONE).await;
    world.passes_until(id, State::Failed).await;
    let (state, description) = commit_statuses(&shop).pop().unwrap();
    assert_eq!(state, "failure");
    assert!(description.contains("image"), "{description}");
    let ends = commit_statuses(&shop).into_iter().filter(|(state, _)| state != "pending");
    assert_eq!(ends.count(), 1);
    world.ends().await;
}
