//! Many workers at once: nothing twice, one at a time per lane, in order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use the_deployer::model::deployment::State;
use the_deployer::store::{Filter, LeaseState, PushTurn, Store};

use crate::harness::database::run_on_both;
use crate::harness::requests::at;
use crate::store::{LEASE, accept, push, succeeded};

/// What the workers saw, together.
#[derive(Default)]
struct Seen {
    /// Lanes with a deployment at work.
    busy: BTreeSet<String>,
    /// The forge's numbers in the order of work, by lane.
    order: BTreeMap<String, Vec<i64>>,
}

async fn work(store: Store, name: String, seen: Arc<Mutex<Seen>>) {
    while let Some(claim) = store.claim(&name, at(1000), LEASE).await.unwrap() {
        let lane = claim.deployment.request.release.repository.to_string();
        {
            let mut seen = seen.lock().unwrap();
            assert!(seen.busy.insert(lane.clone()), "two at work in {lane}");
            seen.order.entry(lane.clone()).or_default().push(claim.deployment.request.forge_id);
        }
        assert_eq!(push(&store, &claim, 1001).await, PushTurn::Yes);
        tokio::task::yield_now().await;
        seen.lock().unwrap().busy.remove(&lane);
        assert_eq!(store.finish(&claim, &succeeded(), at(1002)).await.unwrap(), LeaseState::Held);
    }
}

async fn eight_workers(store: &Store) -> Seen {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let workers =
        (0..8).map(|n| tokio::spawn(work(store.clone(), format!("worker {n}"), Arc::clone(&seen))));
    for worker in futures::future::join_all(workers).await {
        worker.unwrap();
    }
    Arc::into_inner(seen).unwrap().into_inner().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_workers_do_two_hundred_deployments_once_each() {
    run_on_both(async |db| {
        for n in 0..200 {
            accept(&db.store, &format!("app{n}"), n).await;
        }
        let seen = eight_workers(&db.store).await;
        assert_eq!(seen.order.len(), 200);
        assert!(seen.order.values().all(|numbers| numbers.len() == 1));
        assert_eq!(db.store.counts().await.unwrap(), [("succeeded", 200)].into());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn workers_and_arrivals_at_once_keep_each_lanes_order() {
    run_on_both(async |db| {
        let arrivals = (0..4).map(|part| {
            let store = db.store.clone();
            tokio::spawn(async move {
                for n in (part..200).step_by(4) {
                    accept(&store, &format!("app{}", n % 10), n).await;
                    work_one(&store).await;
                }
            })
        });
        for arrival in futures::future::join_all(arrivals).await {
            arrival.unwrap();
        }
        let seen = eight_workers(&db.store).await;
        assert!(seen.order.values().all(|numbers| numbers.len() <= 1), "one is left per lane");
        assert_everything_ended_in_order(&db.store).await;
    })
    .await;
}

async fn work_one(store: &Store) {
    let Some(claim) = store.claim("early", at(1000), LEASE).await.unwrap() else { return };
    match push(store, &claim, 1001).await {
        PushTurn::Yes => {
            let held = store.finish(&claim, &succeeded(), at(1002)).await.unwrap();
            assert_eq!(held, LeaseState::Held);
        }
        PushTurn::Superseded { .. } => {}
        PushTurn::Lost => panic!("nobody takes over a live lease"),
        PushTurn::Locked(_)
        | PushTurn::HeldBack(_)
        | PushTurn::Claimed(_)
        | PushTurn::Busy { .. } => {
            panic!("nobody stopped anything")
        }
    }
}

/// The newest of each lane has succeeded, and nothing waits.
async fn assert_everything_ended_in_order(store: &Store) {
    let all = store.deployments(&Filter::default(), None, 500).await.unwrap().deployments;
    assert_eq!(all.len(), 200);
    assert!(all.iter().all(|d| matches!(d.state, State::Succeeded | State::Superseded)));
    for newest in all.iter().filter(|d| d.request.forge_id >= 190) {
        assert_eq!(newest.state, State::Succeeded, "{}", newest.request.release.repository);
    }
    assert_eq!(store.depth().await.unwrap().oldest, None);
}
