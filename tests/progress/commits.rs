//! Apps without workloads: Argo CD names the newest commit of the branch, which is often not the deployment's own.

use std::time::Duration;

use serde_json::json;
use the_deployer::model::deployment::State;

use crate::harness::api_server::ours;
use crate::harness::deployer::Deployer;
use crate::harness::git::Bare;
use crate::progress::cluster::Watched;

const LATEST: &str = "manifests/prod-cluster-1/devx/shop/latest";
const TEMPLATE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ app.slug }}\ndata:\n  tag: {{ image.reference }}\n";

/// A service whose apps are a `ConfigMap` each.
async fn without_workloads(mut deployer: Deployer) -> Watched {
    deployer.pushes_to_host().await;
    let templates = deployer.host().create("example/templates.git");
    let folder = "apps/backend-default";
    templates
        .somebody_writes(&format!("{folder}/defaults.yaml"), "resources: {requests: {cpu: 100m}}");
    templates.somebody_writes(&format!("{folder}/latest/configmap.yaml.tmpl"), TEMPLATE);
    let url = deployer.host().url("example/templates.git");
    deployer.configure(|config| {
        format!(
            "{config}templates:\n  repository: {{url: \"{url}\", refresh: 1h, token: {{env: GIT_TOKEN}}}}\n"
        )
    });
    Watched::start(deployer, "").await
}

impl Watched {
    /// Argo CD has compared the cluster with a commit, and finds both the same.
    fn syncs_app(&self, version: u32, commit: &str) {
        self.server.apply(json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {
                "namespace": "argocd", "name": "prod-cluster-1.devx.shop", "uid": "shop-app", "generation": version,
                "labels": ours("shop"),
            },
            "status": {"sync": {"status": "Synced", "revision": commit}},
        }));
    }

    /// It stays as it is for longer than a commit is looked up.
    async fn stays_syncing(&self, id: i64) {
        for _ in 0..15 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            self.deployer.works().await;
            assert_eq!(self.deployer.deployment(id).await.state, State::Syncing);
        }
    }
}

/// Another tool commits something beside the app; the commit.
fn somebody_commits(manifests: &Bare, text: &str) -> String {
    manifests.somebody_writes("README.md", text);
    manifests.tip()
}

#[tokio::test]
async fn a_commit_of_somebody_else_that_holds_the_revision_ends_the_deployment() {
    for deployer in Deployer::prepared_on_both().await {
        let mut world = Box::pin(without_workloads(deployer)).await;
        let shop = world.app("shop");
        let first = world.push(&shop, "v1").await;
        world.reaches(first, State::Syncing).await;
        let manifests = world.deployer.manifests();
        let foreign = somebody_commits(&manifests, "one");
        world.syncs_app(1, &foreign);
        world.reaches(first, State::Succeeded).await;
        // The commit before a push does not hold what was pushed, and neither does what is no commit.
        world.deployer.clock.advance(Duration::from_secs(1));
        let second = world.push(&shop, "v2").await;
        world.reaches(second, State::Syncing).await;
        world.stays_syncing(second).await;
        world.syncs_app(2, "main");
        world.stays_syncing(second).await;
        // A commit that a person made on top, with other files in another app's folder.
        manifests.somebody_writes("manifests/prod-cluster-1/devx/cart/latest/x.yaml", "a: 1\n");
        world.syncs_app(3, &manifests.tip());
        world.reaches(second, State::Succeeded).await;
        // One that changes the app's files does not hold it.
        world.deployer.clock.advance(Duration::from_secs(1));
        let third = world.push(&shop, "v3").await;
        world.reaches(third, State::Syncing).await;
        let own = manifests.tip();
        tokio::time::sleep(Duration::from_secs(2)).await;
        manifests.somebody_writes(&format!("{LATEST}/more.yaml"), "kind: Note\n");
        world.syncs_app(4, &manifests.tip());
        world.stays_syncing(third).await;
        world.syncs_app(5, &own);
        world.reaches(third, State::Succeeded).await;
        // After the loss of the clone, a new one has the newest commit alone.
        world.deployer.clock.advance(Duration::from_secs(1));
        let last = world.push(&shop, "v4").await;
        world.reaches(last, State::Syncing).await;
        let foreign = somebody_commits(&manifests, "two");
        world.stop.cancel();
        world.server.watched(0).await;
        world.deployer.dies();
        world.deployer.forgets_clones();
        world.deployer.starts().await;
        world.follow();
        world.syncs_app(6, &foreign);
        world.reaches(last, State::Succeeded).await;
        world.ends().await;
    }
}
