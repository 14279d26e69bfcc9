//! The rollback of what fails in its cluster, over crashes and takeovers: never lost, and never done twice.

use std::time::Duration;

use sqlx::{Executor as _, raw_sql};
use the_deployer::cluster::watch::schedule::WatchLimits;
use the_deployer::model::audit::{AuditRecord, Principal};
use the_deployer::model::deployment::{ForgeState, State};
use the_deployer::model::event::DeploymentRequest;
use the_deployer::model::id::{DeployId, TargetName};
use the_deployer::model::rollback::{Rollback, TreeId, provisional_number};
use the_deployer::model::status::ForgeStatus;
use the_deployer::store::{
    ClusterChange, ClusterFindings, FailureUndo, LeaseState, NewRollback, UndoRequest,
};
use tokio_util::sync::CancellationToken;

use crate::harness::deployer::Deployer;
use crate::progress::cluster::{TARGET, Watched};
use crate::progress::undo::POLICY;

#[tokio::test]
async fn a_process_that_dies_before_the_failure_is_recorded_leaves_it_to_the_next() {
    Watched::on_both_with(POLICY, async |world| {
        let app = world.app("shop");
        world.runs(&app, "v1", 1).await;
        let id = world.deploys(&app, "v2").await;
        // It has decided, and cannot write.
        let mut other = world.deployer.another_connection().await;
        if world.deployer.postgresql().is_some() {
            other.execute(raw_sql("BEGIN")).await.unwrap();
            other.execute(raw_sql("LOCK TABLE deployments IN SHARE MODE")).await.unwrap();
        } else {
            other.execute(raw_sql("BEGIN IMMEDIATE")).await.unwrap();
        }
        world.pods_fail(id, 2).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        world.stop.cancel();
        world.server.watched(0).await;
        other.execute(raw_sql("ROLLBACK")).await.unwrap();
        drop(other);
        assert_ne!(world.deployer.deployment(id).await.state, State::Failed);
        assert_eq!(world.undos().await, []);
        world.follow();
        world.ends_as(id, State::Failed).await;
        let (number, _) = world.undone().await;
        world.pods_run(number, 3).await;
        let told = world.deployer.github.told(id);
        assert_eq!(told.iter().filter(|state| *state == "failure").count(), 1, "{told:?}");
    })
    .await;
}

#[tokio::test]
async fn a_process_that_dies_after_the_failure_is_recorded_leaves_the_rollback_to_the_next() {
    for deployer in Deployer::prepared_on_both().await {
        let mut world = Watched::start(deployer, POLICY).await;
        let app = world.app("shop");
        world.runs(&app, "v1", 1).await;
        let failed = world.fails(&app, "v2", 2).await;
        let requested = world.undos().await.pop().unwrap();
        world.stop.cancel();
        world.server.watched(0).await;
        world.deployer.dies();
        world.deployer.starts().await;
        world.follow();
        let (number, undo) = world.undone().await;
        assert_eq!(undo.id, requested.id);
        world.pods_run(number, 3).await;
        assert_eq!(world.deployer.manifests().trailer("Rollback-Id"), [undo.id.as_str()]);
        let store = world.deployer.stepped().store();
        assert_eq!(store.undo_of(&failed.id).await.unwrap().unwrap().id, undo.id);
        world.ends().await;
    }
}

#[tokio::test]
async fn two_processes_roll_back_once() {
    for mut deployer in Deployer::prepared_on_both().await {
        deployer.shares_database();
        deployer.pushes_to_host().await;
        let world = Watched::start(deployer, POLICY).await;
        let other = world.deployer.another().await;
        let (limits, stop) = (WatchLimits::default(), CancellationToken::new());
        other.follow_clusters(limits, &stop);
        let app = world.app("shop");
        world.runs(&app, "v1", 1).await;
        let failed = world.fails(&app, "v2", 2).await;
        // The one that watched stops at once, and the other one takes over.
        world.stop.cancel();
        let taken = async { while other.run_once().await.unwrap() > 0 {} };
        tokio::join!(taken, world.deployer.works());
        let (number, undo) = world.undone().await;
        world.pods_run(number, 3).await;
        assert_eq!(undo.rollback.unwrap().undoes, Some(failed.id));
        assert_eq!(world.deployer.manifests().trailer("Rollback-Id"), [undo.id.as_str()]);
        stop.cancel();
        world.server.watched(0).await;
        drop(other);
        world.ends().await;
    }
}

#[tokio::test]
async fn who_lost_the_lease_requests_no_rollback_and_no_failure_has_two() {
    for deployer in Deployer::prepared_on_both().await {
        let mut world = Watched::start(deployer, "").await;
        let app = world.app("shop");
        let first = world.runs(&app, "v1", 1).await;
        let second = world.deploys(&app, "v2").await;
        world.reaches(second, State::Syncing).await;
        world.stop.cancel();
        world.server.watched(0).await;
        let (store, clock) = (world.deployer.stepped().store(), &world.deployer.clock);
        let (cluster, length) = (TargetName::parse(TARGET).unwrap(), Duration::from_mins(1));
        clock.advance(Duration::from_mins(1));
        let lost =
            store.lease_cluster(&cluster, "one", clock.now(), length).await.unwrap().unwrap();
        clock.advance(Duration::from_mins(2));
        let held =
            store.lease_cluster(&cluster, "two", clock.now(), length).await.unwrap().unwrap();
        let (first, second) =
            (world.deployer.deployment(first).await, world.deployer.deployment(second).await);
        let change = || {
            let status = ForgeStatus::new(ForgeState::Failure, "no pods");
            let id = DeployId::of(clock.draw());
            let rollback = NewRollback {
                request: DeploymentRequest {
                    forge_id: provisional_number(&id),
                    release: first.request.release.clone(),
                    ..second.request.clone()
                },
                app: second.app.clone().unwrap(),
                rollback: Rollback {
                    to: first.id.clone(),
                    from: Some(second.id.clone()),
                    away: None,
                    tree: TreeId(world.tree(first.id.as_str())),
                    reason: "no pods".to_owned(),
                    hold: true,
                    with_data: false,
                    with_fewer_pods: false,
                    undoes: Some(second.id.clone()),
                    replaces: None,
                    only_from: false,
                },
                template: None,
                contact: None,
                address: None,
                rollout: None,
                id,
            };
            let entry = AuditRecord {
                id: rollback.id.clone(),
                at: clock.now(),
                by: Principal::service(),
                act: "rollback".into(),
                target: Some(cluster.clone()),
                app: second.app.clone(),
                subject: String::new(),
                reason: "no pods".to_owned(),
                outcome: String::new(),
            };
            let undo = FailureUndo::Rollback(Box::new(UndoRequest { rollback, entry }));
            let change = ClusterChange::end(second.id.clone(), State::Failed, status);
            (change, [(second.id.clone(), undo)])
        };
        let record = async |lease| {
            let (change, undos) = change();
            let (changes, now) = ([change], clock.now());
            let findings =
                ClusterFindings { changes: &changes, undos: &undos, ..ClusterFindings::default() };
            store.record_cluster_progress(lease, findings, now).await.unwrap()
        };
        assert_eq!(record(&lost).await, LeaseState::Lost);
        assert_eq!(world.undos().await, []);
        assert_eq!(record(&held).await, LeaseState::Held);
        assert_eq!(world.undos().await.len(), 1);
        // The same once more, as after an answer of the database that was lost.
        assert_eq!(record(&held).await, LeaseState::Held);
        assert_eq!(world.undos().await.len(), 1);
        let failed = world.deployer.deployment(second.request.forge_id).await;
        assert!(failed.summary.contains("no pods; it is being rolled back to v1"));
        let _state = store.end_cluster_lease(&held, clock.now()).await.unwrap();
        world.follow();
        let (number, _) = world.undone().await;
        world.pods_run(number, 3).await;
        world.ends().await;
    }
}
