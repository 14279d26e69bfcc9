//! A rollout over a cluster that is watched and one that is not: a step is complete when its pods run, and what fails
//! there after the push is taken back everywhere.

use std::time::Duration;

use jiff::SignedDuration;
use the_deployer::deployments::rollouts::RolloutSteps;
use the_deployer::model::deployment::{Deployment, State};
use the_deployer::model::id::RolloutId;
use the_deployer::rollout::plan::RolloutFailurePolicy;
use the_deployer::rollout::record::{RolloutRecord, RolloutState};
use the_deployer::store::Reply;

use crate::harness::events::waml;
use crate::harness::github::Repository;
use crate::progress::cluster::{TARGET, Watched};
use crate::rollouts::world::{Fleet, ann, deploy, plan};

/// A cluster beside it that nothing watches.
const BESIDE: &str = "}\n- {name: beside, environment: production, domain: example.com";

impl Watched {
    fn app_on_both_targets(&self) -> Repository<'_> {
        let repository = self.deployer.github.repository("example/shop");
        repository.commit(&format!("{}  beside:\n", waml("shop")));
        repository
    }

    /// A rollout has begun: first where nothing watches.
    async fn rolls_out(&self, tag: &str) -> RolloutId {
        self.deployer.clock.advance(Duration::from_secs(1));
        let plan = plan(vec![deploy(&["beside", TARGET], 1)], RolloutFailurePolicy::Undo);
        let request = Fleet::request(tag, RolloutSteps::Plan(plan));
        let deployments = self.deployer.stepped().deployments();
        let prepared = deployments.prepare_rollout(request).await.unwrap();
        let view = deployments.start_rollout(prepared, ann(), &Reply::without_key()).await.unwrap();
        self.deployer.works().await;
        view.record.id
    }

    async fn record(&self, id: &RolloutId) -> RolloutRecord {
        self.deployer.stepped().deployments().rollout(id).await.unwrap().unwrap().record
    }

    /// The newest deployment to the cluster, once GitHub has its number.
    async fn newest_there(&self) -> (i64, Deployment) {
        // GitHub takes so many writes a minute.
        self.deployer.works_for(SignedDuration::from_secs(30)).await;
        let all = self.deployer.deployments().await;
        let there = all.into_iter().rfind(|one| one.request.target.as_str() == TARGET).unwrap();
        (there.request.number().expect("GitHub has it"), there)
    }

    fn tree_beside(&self) -> String {
        self.deployer.manifests().object("manifests/beside/devx/shop/latest")
    }
}

#[tokio::test]
async fn a_step_is_complete_when_its_pods_run() {
    Watched::on_both_with(BESIDE, async |world| {
        let app = world.app_on_both_targets();
        world.runs(&app, "v1", 1).await;
        let id = world.rolls_out("v2").await;
        let (number, pushed) = world.newest_there().await;
        assert_eq!((pushed.state, &pushed.rollout), (State::Syncing, &Some(id.clone())));
        assert_eq!(world.record(&id).await.state, RolloutState::RollingOut, "its pods do not run");
        world.pods_run(number, 2).await;
        world.deployer.works().await;
        assert_eq!(world.record(&id).await.state, RolloutState::Done);
    })
    .await;
}

#[tokio::test]
async fn a_release_whose_pods_never_run_is_taken_back_everywhere() {
    Watched::on_both_with(BESIDE, async |world| {
        let app = world.app_on_both_targets();
        world.runs(&app, "v1", 1).await;
        world.deployer.clock.advance(Duration::from_secs(1));
        app.deploys("beside", "v1").await;
        world.deployer.works().await;
        let before = (world.tree("latest"), world.tree_beside());
        let id = world.rolls_out("v2").await;
        let (number, _) = world.newest_there().await;
        world.pods_fail(number, 2).await;
        world.deployer.clock.advance(Duration::from_secs(1));
        world.ends_as(number, State::Failed).await;
        world.deployer.works().await;
        let record = world.record(&id).await;
        let RolloutState::Undoing { reason } = &record.state else { panic!("{record:#?}") };
        assert!(reason.starts_with(TARGET), "{reason}");
        let (number, back) = world.newest_there().await;
        assert!(back.rollback.is_some() && back.rollout == Some(record.undo_id), "{back:#?}");
        assert_eq!(world.tree("latest"), before.0, "byte for byte");
        world.pods_run(number, 3).await;
        world.deployer.works().await;
        assert_eq!(world.record(&id).await.state, RolloutState::Undone);
        assert_eq!((world.tree("latest"), world.tree_beside()), before);
    })
    .await;
}
