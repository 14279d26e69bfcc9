//! How far canaries were: each change once, the newest of each deployment, and with it.

use the_deployer::model::canary::{CanarySample, CanaryStatus};
use the_deployer::model::deployment::{ForgeState, State};
use the_deployer::model::status::ForgeStatus;
use the_deployer::store::{ClusterChange, Completion, FinalState, LeaseState, Store};

use crate::harness::database::run_on_both;
use crate::harness::requests::{at, id};
use crate::store::{accept, claim, push, record_change, succeeded};

fn canary(workload: &str, weight: u32, failed_checks: u32, reason: Option<&str>) -> CanaryStatus {
    CanaryStatus {
        workload: workload.to_owned(),
        phase: "Progressing".to_owned(),
        weight,
        failed_checks,
        threshold: 3,
        reason: reason.map(str::to_owned),
    }
}

/// Deployment 1 is pushed, and waits for its cluster.
async fn waits(store: &Store) {
    accept(store, "web", 1).await;
    let claimed = claim(store, 1).await.unwrap();
    let _turn = push(store, &claimed, 1).await;
    let FinalState::Succeeded(pushed) = succeeded().end else { panic!("it succeeds") };
    let ending = Completion { end: FinalState::Syncing(pushed), ..succeeded() };
    assert_eq!(store.finish(&claimed, &ending, at(1)).await.unwrap(), LeaseState::Held);
}

async fn seen(store: &Store, canaries: Vec<CanaryStatus>, seconds: i64) {
    let status = ForgeStatus::new(ForgeState::InProgress, "it goes on");
    let change = ClusterChange::end(id(1), State::Progressing, status);
    record_change(store, ClusterChange { canaries, status: None, ..change }, seconds).await;
}

#[tokio::test]
async fn a_change_of_a_canary_is_stored_once_and_its_reason_may_come_later() {
    run_on_both(async |db| {
        let store = &db.store;
        waits(store).await;
        let slow = "request duration 2.5 s > 1 s";
        seen(store, vec![canary("web", 10, 0, None)], 10).await;
        seen(store, vec![canary("web", 10, 0, None), canary("worker", 50, 0, None)], 20).await;
        seen(store, vec![canary("web", 20, 1, None), canary("worker", 50, 0, None)], 30).await;
        seen(store, vec![canary("web", 20, 1, Some(slow))], 31).await;
        seen(store, vec![canary("web", 20, 1, None)], 32).await;
        seen(store, vec![canary("web", 10, 0, None)], 40).await;
        let sample = |seconds, status| CanarySample { at: at(seconds), status };
        let expected = [
            sample(10, canary("web", 10, 0, None)),
            sample(20, canary("worker", 50, 0, None)),
            sample(30, canary("web", 20, 1, Some(slow))),
            sample(40, canary("web", 10, 0, None)),
        ];
        assert_eq!(store.canary_samples(&id(1)).await.unwrap(), expected);
        assert_eq!(store.canary_samples(&id(2)).await.unwrap(), []);
        let version = store.deployment_version(&id(1)).await.unwrap();
        seen(store, vec![canary("worker", 60, 0, None)], 50).await;
        assert_ne!(store.deployment_version(&id(1)).await.unwrap(), version);
    })
    .await;
}

#[tokio::test]
async fn of_a_deployment_the_newest_hundred_are_kept_and_none_after_its_end() {
    run_on_both(async |db| {
        let store = &db.store;
        waits(store).await;
        for n in 0..103_u32 {
            seen(store, vec![canary("web", n % 100, 0, None)], 10 + i64::from(n)).await;
        }
        let samples = store.canary_samples(&id(1)).await.unwrap();
        assert_eq!((samples.len(), samples[0].at), (100, at(13)));
        let status = ForgeStatus::new(ForgeState::Failure, "it failed");
        record_change(store, ClusterChange::end(id(1), State::Failed, status), 200).await;
        seen(store, vec![canary("web", 77, 2, None)], 210).await;
        assert_eq!(store.canary_samples(&id(1)).await.unwrap(), samples, "it has ended");
    })
    .await;
}
