//! The store, each test on SQLite and on PostgreSQL.

mod acts; // removals
mod apps; // several apps of one repository
mod idempotency_keys; // acts that may be repeated
mod audit; // who did what
mod before; // what a sender asks
mod both; // no test on one database only
mod migrations; // from every earlier version
mod cancel; // a person stops a deployment
mod canary_samples; // how far canaries were
mod claims; // of two at the same moment, one
mod due; // times that lie too far ahead
mod environments; // reports about workloads of others
mod earlier; // what a sender asks of the past
mod fleets; // deployments over several clusters
mod files; // what is particular to a file, and to a URL
mod inactive; // what is no longer live
mod insights; // sums over a window
mod intake; // once, in order
mod lanes; // many workers, one at a time per lane
mod life; // claims, leases, the point of no return
mod listing;
mod locks; // who is stopped
mod marks; // the deploy clock
mod outbox;
mod owners; // whose apps are
mod repositories; // names that change
mod retention; // what is old and not needed
mod rollbacks; // a rollback's place, and its hold
mod rollouts; // rollouts: races, claims, turns
mod rollout_reports; // what people were last told of rollouts
mod phases; // who gets the states in a cluster
mod pushes; // who is told of commits
mod previews; // the newest head of each pull request
mod sessions; // browsers of people who have signed in
mod writes; // transactions that come to no good end

use std::time::Duration;

use the_deployer::model::deployment::{ForgeState, Pushed};
use the_deployer::model::id::{CommitSha, DeployId, TargetName};
use the_deployer::model::revision::Digest;
use the_deployer::model::status::ForgeStatus;
use the_deployer::store::{
    Accepted, Claim, ClusterChange, ClusterFindings, Completion, FinalState, Findings, LeaseState,
    PushTurn, Store,
};

use crate::harness::requests::{at, delivery, id, request};

const LEASE: Duration = Duration::from_mins(1);

/// Accepts the forge's deployment `n` of a lane, at second `n`.
async fn accept(store: &Store, lane: &str, n: i64) -> DeployId {
    let accepted = store.accept(&delivery(n), &request(lane, "prod", n), &id(n), at(n)).await;
    assert_eq!(accepted.unwrap(), Accepted::New);
    id(n)
}

async fn claim(store: &Store, seconds: i64) -> Option<Claim> {
    store.claim("worker", at(seconds), LEASE).await.unwrap()
}

/// A change of a deployment in the cluster `prod` is recorded.
async fn record_change(store: &Store, change: ClusterChange, seconds: i64) {
    let (cluster, length) = (TargetName::parse("prod").unwrap(), Duration::from_secs(1));
    let lease = store.lease_cluster(&cluster, "one", at(seconds), length).await.unwrap().unwrap();
    let findings = ClusterFindings { changes: &[change], ..ClusterFindings::default() };
    let recorded = store.record_cluster_progress(&lease, findings, at(seconds)).await;
    assert_eq!(recorded.unwrap(), LeaseState::Held);
    let _ended = store.end_cluster_lease(&lease, at(seconds)).await.unwrap();
}

fn succeeded() -> Completion {
    let pushed = Pushed {
        commit: CommitSha::parse("ab".repeat(20)).unwrap(),
        changed: true,
        digest: Digest(format!("sha256:{}", "cd".repeat(32))),
        files: vec!["deployment.yaml".to_owned()],
    };
    Completion {
        end: FinalState::Succeeded(pushed),
        summary: "pushed".to_owned(),
        violations: vec![].into(),
        findings: Findings::default(),
        status: ForgeStatus::new(ForgeState::Success, "pushed"),
    }
}

async fn push(store: &Store, claim: &Claim, seconds: i64) -> PushTurn {
    store.begin_push(claim, &Findings::default(), at(seconds)).await.unwrap()
}

/// The forge's states of a deployment, in order.
async fn told(store: &Store, id: &DeployId) -> Vec<ForgeState> {
    store.statuses(id).await.unwrap().into_iter().map(|told| told.status.state).collect()
}
