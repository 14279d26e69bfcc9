//! The service with a cluster that it watches. The test is Argo CD and the cluster's controllers.

use std::pin::Pin;
use std::time::Duration;

use serde_json::{Value as Json, json};
use the_deployer::cluster::watch::schedule::WatchLimits;
use the_deployer::model::deployment::{Deployment, State};
use tokio_util::sync::CancellationToken;

use crate::harness::api_server::{ApiServer, TOKEN};
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::github::Repository;

/// The target that the WAMLs here know.
pub(crate) const TARGET: &str = "prod-cluster-1";

/// The log of a container that crashes.
const LOG: &str =
    "starting\nlogin with token ghp_aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zaB3dE5\nno such table: users\n";

/// The service, and the cluster that it watches.
pub(crate) struct Watched {
    pub(crate) deployer: Deployer,
    pub(crate) server: ApiServer,
    pub(crate) stop: CancellationToken,
}

/// Stands on how many pods of a Deployment there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pods {
    pub(crate) updated: u32,
    pub(crate) available: u32,
}

impl Watched {
    /// On each database: a service that watches a cluster without any object.
    pub(crate) fn on_both<'a>(
        story: impl AsyncFn(&mut Self) + 'a,
    ) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Self::on_both_with("", story)
    }

    /// The same, with this after the settings of the cluster.
    pub(crate) fn on_both_with<'a>(
        progress: &'a str,
        story: impl AsyncFn(&mut Self) + 'a,
    ) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
        Box::pin(async move {
            for deployer in Deployer::prepared_on_both().await {
                let mut world = Self::start(deployer, progress).await;
                story(&mut world).await;
                world.ends().await;
            }
        })
    }

    pub(crate) async fn start(deployer: Deployer, progress: &str) -> Self {
        Self::start_with(deployer, "", progress).await
    }

    /// With more keys of the connection, `, pod_logs: false`.
    pub(crate) async fn start_with(mut deployer: Deployer, api: &str, progress: &str) -> Self {
        let server = ApiServer::start().await;
        server.install_custom_resources();
        let url = server.url();
        deployer.configure(|config| {
            format!(
                "{config}clusters:\n- {{name: {TARGET}, environment: production, domain: example.com, \
                 kubernetes: {{server: '{url}', token: {{env: CLUSTER_TOKEN}}{api}}}{progress}}}\n"
            )
        });
        deployer.variable("CLUSTER_TOKEN", TOKEN);
        Box::pin(Self::start_beside(deployer, server)).await
    }

    /// With the clusters that are configured already, beside one that the configuration does not name.
    pub(crate) async fn start_configured(deployer: Deployer) -> Self {
        let server = ApiServer::start().await;
        server.install_custom_resources();
        Box::pin(Self::start_beside(deployer, server)).await
    }

    async fn start_beside(mut deployer: Deployer, server: ApiServer) -> Self {
        deployer.starts().await;
        let mut world = Self { deployer, server, stop: CancellationToken::new() };
        world.follow();
        world
    }

    /// The service stops, and everything has its end.
    pub(crate) async fn ends(self) {
        self.stop.cancel();
        self.deployer.settle().await;
        self.deployer.settled().await;
    }

    /// The container of an app's first release ends again and again, and says why in its log.
    pub(crate) async fn crashes(&self, id: i64, name: &str) -> Deployment {
        self.crashes_with(id, name, LOG).await
    }

    /// The same with another text in its log.
    pub(crate) async fn crashes_with(&self, id: i64, name: &str, log: &str) -> Deployment {
        self.sync(id, name, 1).await;
        self.bring(id, name, 1, Pods { updated: 1, available: 0 }).await;
        let key = ("devx".to_owned(), pod_name(name, 1), name.to_owned());
        self.server.edit(|cluster| cluster.logs.insert(key, log.to_owned()));
        self.server.apply(crashing_pod(name, 1));
        self.until(id, "told with its log", |one| !one.log_tail.is_empty()).await
    }

    /// Its pods run after all.
    pub(crate) async fn recovers(&self, id: i64, name: &str) -> Deployment {
        self.bring(id, name, 1, Pods { updated: 2, available: 2 }).await;
        self.reaches(id, State::Succeeded).await
    }

    /// Begins to watch, as a process that starts does.
    pub(crate) fn follow(&mut self) {
        self.stop = CancellationToken::new();
        self.deployer.stepped().follow_clusters(quick_limits(), &self.stop);
    }

    /// An app with a WAML on `main`.
    pub(crate) fn app(&self, name: &str) -> Repository<'_> {
        let repository = self.deployer.github.repository(&format!("example/{name}"));
        repository.commit(&waml(name));
        repository
    }

    /// Deploys, up to the push; the forge's number.
    pub(crate) async fn push(&self, repository: &Repository<'_>, tag: &str) -> i64 {
        let id = repository.deploys(TARGET, tag).await;
        self.deployer.works().await;
        id
    }

    /// Waits until the deployment has that state, while messages are sent.
    pub(crate) async fn reaches(&self, id: i64, state: State) -> Deployment {
        self.until(id, state.as_str(), |deployment| deployment.state == state).await
    }

    /// Waits until the deployment is recorded with that state, and sends nothing meanwhile.
    pub(crate) async fn until_recorded(&self, id: i64, state: State) {
        for _ in 0..1500 {
            if self.deployer.deployment(id).await.state == state {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("deployment {id} is never recorded as {}", state.as_str());
    }

    /// From the next start on, the service has no connection to the cluster.
    pub(crate) fn configure_without_connection(&mut self) {
        self.deployer.configure(|config| {
            let (before, _) = config.split_once(", kubernetes:").unwrap();
            format!("{before}}}\n")
        });
    }

    /// Time goes by, as slowly as it does for a service that looks each second, until the deployment has that state.
    pub(crate) async fn passes_until(&self, id: i64, state: State) -> Deployment {
        for _ in 0..200 {
            if self.deployer.deployment(id).await.state == state {
                break;
            }
            self.deployer.clock.advance(Duration::from_secs(1));
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        self.reaches(id, state).await
    }

    /// The controller says that the release has not come further for the time of its deadline.
    pub(crate) async fn stands_still(&self, id: i64, name: &str, generation: u32, pods: Pods) {
        let (digest, made) = pushed(&Box::pin(self.deployer.deployment(id)).await);
        let mut workload = workload(name, &digest, generation, Some(pods), &made);
        workload["status"]["conditions"] = json!([
            {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"},
        ]);
        self.server.apply(workload);
    }

    /// Waits until the record of a deployment satisfies the condition.
    pub(crate) async fn until(
        &self,
        id: i64,
        what: &str,
        holds: impl Fn(&Deployment) -> bool,
    ) -> Deployment {
        let mut last = None;
        for _ in 0..1500 {
            self.deployer.works().await;
            let deployment = self.deployer.deployment(id).await;
            if holds(&deployment) {
                self.deployer.works().await;
                return deployment;
            }
            last = Some(deployment);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("deployment {id} is never {what}: {last:#?}");
    }

    /// Argo CD applies the newest revision of an app; the controller has not looked yet.
    pub(crate) async fn sync(&self, id: i64, name: &str, generation: u32) {
        let (digest, made) = pushed(&Box::pin(self.deployer.deployment(id)).await);
        self.server.apply(workload(name, &digest, generation, None, &made));
    }

    /// The controller brings the pods so far.
    pub(crate) async fn bring(&self, id: i64, name: &str, generation: u32, pods: Pods) {
        let deployment = Box::pin(self.deployer.deployment(id)).await;
        self.bring_revision(&deployment, name, generation, pods);
    }

    /// The same, whether the service runs or not.
    pub(crate) fn bring_revision(
        &self,
        deployment: &Deployment,
        name: &str,
        generation: u32,
        pods: Pods,
    ) {
        let (digest, made) = pushed(deployment);
        self.server.apply(replica_set(name, generation, 2, &made));
        for other in 1..generation {
            self.server.apply(replica_set(name, other, 0, &made));
        }
        self.server.apply(workload(name, &digest, generation, Some(pods), &made));
    }
}

/// The digest of what a deployment pushed, and when, as Kubernetes writes it: what it brings about is made then.
fn pushed(deployment: &Deployment) -> (String, String) {
    let made = deployment.pushed_at.unwrap().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    (deployment.pushed.as_ref().unwrap().digest.0.clone(), made)
}

/// Pauses that a test can wait for.
pub(crate) fn quick_limits() -> WatchLimits {
    WatchLimits {
        first_pause: Duration::from_millis(50),
        longest_pause: Duration::from_millis(500),
        least_gap: Duration::from_millis(50),
        ..WatchLimits::default()
    }
}

/// A Deployment with two replicas, as Argo CD applies it and its controller reports it.
pub(crate) fn workload(
    name: &str,
    digest: &str,
    generation: u32,
    pods: Option<Pods>,
    made: &str,
) -> Json {
    let status = match pods {
        None => json!({"observedGeneration": generation - 1}),
        Some(Pods { updated, available }) => json!({
            "observedGeneration": generation, "replicas": 2, "updatedReplicas": updated,
            "readyReplicas": available, "availableReplicas": available,
        }),
    };
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "namespace": "devx", "name": name, "uid": format!("{name}-uid"), "generation": generation,
            "creationTimestamp": made,
            "labels": {"app.kubernetes.io/managed-by": "the-deployer", "app.kubernetes.io/name": name},
            "annotations": {
                "the-deployer.dev/digest": digest,
                "deployment.kubernetes.io/revision": generation.to_string(),
            },
        },
        "spec": {"replicas": 2, "template": template(name, generation)},
        "status": status,
    })
}

fn template(name: &str, generation: u32) -> Json {
    let image = format!("registry.example.com/{name}:{generation}");
    json!({
        "metadata": {"labels": {"app.kubernetes.io/name": name}},
        "spec": {"containers": [{"name": name, "image": image}]},
    })
}

pub(crate) fn replica_set(name: &str, generation: u32, replicas: u32, made: &str) -> Json {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "namespace": "devx", "name": format!("{name}-{generation}"),
            "uid": format!("{name}-{generation}-uid"), "creationTimestamp": made,
            "labels": {"app.kubernetes.io/name": name, "pod-template-hash": generation.to_string()},
            "annotations": {"deployment.kubernetes.io/revision": generation.to_string()},
            "ownerReferences": [{
                "kind": "Deployment", "name": name, "uid": format!("{name}-uid"),
                "controller": true, "apiVersion": "apps/v1",
            }],
        },
        "spec": {"replicas": replicas, "template": template(name, generation)},
        "status": {"replicas": replicas, "observedGeneration": 1},
    })
}

/// A pod of that generation whose image cannot be pulled.
pub(crate) fn unpullable_pod(name: &str, generation: u32) -> Json {
    let state = json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such tag"}});
    pod(name, generation, &json!({"ready": false, "restartCount": 0, "state": state}))
}

/// A pod of that generation whose container ends again and again.
pub(crate) fn crashing_pod(name: &str, generation: u32) -> Json {
    let status = json!({
        "ready": false, "restartCount": 4,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
    });
    pod(name, generation, &status)
}

/// The name of that pod.
pub(crate) fn pod_name(name: &str, generation: u32) -> String {
    format!("{name}-{generation}-abc")
}

pub(crate) fn pod(name: &str, generation: u32, container: &Json) -> Json {
    let image = format!("registry.example.com/{name}:{generation}");
    let mut status = json!({"name": name, "image": image});
    let fields = container.as_object().unwrap().clone();
    status.as_object_mut().unwrap().extend(fields);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "devx", "name": pod_name(name, generation),
            "uid": format!("{name}-{generation}-abc-uid"),
            "labels": {"app.kubernetes.io/name": name, "pod-template-hash": generation.to_string()},
            "ownerReferences": [{
                "kind": "ReplicaSet", "name": format!("{name}-{generation}"), "apiVersion": "apps/v1",
                "uid": format!("{name}-{generation}-uid"), "controller": true,
            }],
        },
        "spec": {"containers": [{"name": name, "image": image}]},
        "status": {"phase": "Pending", "containerStatuses": [status]},
    })
}
