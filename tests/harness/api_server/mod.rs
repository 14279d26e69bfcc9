//! An API server of Kubernetes on loopback, with state: lists in pages, watches with bookmarks, 410 Gone, selectors,
//! discovery, access reviews and logs, as real servers of version 1.33 answer. The service's client speaks to it, and
//! so does `kubectl`.
//!
//! What is in it is edited by the test, or comes from recordings of real control planes; nothing here acts by itself.

mod discovery;
mod faults;
mod http;
mod logs;
mod selectors;
mod state;
mod stream;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use serde_json::{Value as Json, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) use faults::{Fault, FaultRule, Verb};
pub(crate) use state::{Request, World};

/// The token of the service in the cluster.
pub(crate) const TOKEN: &str = "cluster-t0ken";

/// One on loopback; it ends when this is dropped.
pub(crate) struct ApiServer {
    shared: Shared,
    address: SocketAddr,
    serving: JoinHandle<()>,
}

/// What every request gets.
#[derive(Clone)]
struct Shared {
    world: Arc<Mutex<World>>,
    /// Raised by each change.
    changed: Arc<watch::Sender<u64>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }
}

impl ApiServer {
    /// A server with the kinds that Kubernetes has, and without objects.
    pub(crate) async fn start() -> Self {
        let shared = Shared { world: Arc::new(Mutex::new(World::new())), changed: Arc::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(http::answer).with_state(shared.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { shared, address, serving }
    }

    /// `127.0.0.1:4711`
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What is in it; watches hear of changes after [`ApiServer::edit`] only.
    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.shared.lock()
    }

    /// Changes something, and lets watches hear of it.
    pub(crate) fn edit<T>(&self, edit: impl FnOnce(&mut World) -> T) -> T {
        let made = edit(&mut self.shared.lock());
        self.shared.changed.send_modify(|n| *n += 1);
        made
    }

    /// Creates or replaces an object, which says itself what it is; its new version.
    pub(crate) fn apply(&self, object: Json) -> u64 {
        self.edit(|world| world.apply(object))
    }

    /// Deletes an object of a kind, `Pod`.
    pub(crate) fn delete(&self, kind: &str, namespace: &str, name: &str) {
        self.edit(|world| world.delete(kind, namespace, name));
    }

    /// Custom resources of Argo CD and Flagger are there.
    pub(crate) fn install_custom_resources(&self) {
        self.edit(World::install_custom_resources);
    }

    /// From now on, requests that it is about are answered so.
    pub(crate) fn fail(&self, rule: FaultRule) {
        self.edit(|world| world.faults.push(rule));
    }

    /// Everything works again.
    pub(crate) fn recover(&self) {
        self.edit(|world| world.faults.clear());
    }

    /// Cuts every watch that is open, in the middle of nowhere.
    pub(crate) fn cut_watches(&self) {
        self.edit(|world| world.epoch += 1);
    }

    /// Watches from versions up to now are refused: what happened is forgotten.
    pub(crate) fn compact(&self) {
        self.edit(|world| {
            world.compacted = world.version;
            world.pages.clear();
        });
    }

    /// The requests so far, in order.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.world().requests.clone()
    }

    /// How often a kind was listed, counting first pages, and watched.
    pub(crate) fn counts(&self, plural: &str) -> (usize, usize) {
        let requests = self.requests();
        let of_kind = || requests.iter().filter(|request| request.resource == plural);
        let lists =
            of_kind().filter(|one| one.verb == Verb::List && !one.query.contains("continue="));
        (lists.count(), of_kind().filter(|one| one.verb == Verb::Watch).count())
    }

    /// How many watches are open now.
    pub(crate) fn open_watches(&self) -> usize {
        self.world().open_watches
    }

    /// Waits until that many watches are open.
    pub(crate) async fn watched(&self, watches: usize) {
        for _ in 0..600 {
            if self.open_watches() == watches {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} watches are open, not {watches}", self.open_watches());
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Writes a kubeconfig for that user, as its text.
pub(crate) fn kubeconfig(folder: &Path, server: &str, user: &str) -> PathBuf {
    let file = folder.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
         contexts: [{{name: test, context: {{cluster: test, user: test}}}}]\n\
         clusters: [{{name: test, cluster: {{server: '{server}'}}}}]\n\
         users: [{{name: test, user: {user}}}]\n"
    );
    std::fs::write(&file, text).unwrap();
    file
}

/// A Deployment of ours, as small as one can be.
pub(crate) fn deployment(namespace: &str, name: &str) -> Json {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": namespace, "name": name, "labels": ours(name)},
        "spec": {"replicas": 1},
    })
}

/// A pod of ours.
pub(crate) fn pod(namespace: &str, name: &str) -> Json {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": {"app.kubernetes.io/name": name}},
        "status": {"phase": "Running"},
    })
}

/// The labels of what the service renders.
pub(crate) fn ours(name: &str) -> Json {
    json!({"app.kubernetes.io/managed-by": "the-deployer", "app.kubernetes.io/name": name})
}
