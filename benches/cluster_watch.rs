//! What the watch of three clusters with 1,500 workloads and 10,000 pods costs, and how soon a finish is recorded.
//!
//! `cargo bench --profile fast --bench cluster_watch`. The real program watches three API servers of this process: the
//! ones that the tests have. It prints the memory that the service has resident before and after the objects come, the
//! time from the last event of a rollout until its end can be read, for one rollout after the other and for 200 at once,
//! and what it costs to list everything anew, with a count of the statuses that were told: none may come from a list.

#![allow(
    missing_docs,
    dead_code,
    unreachable_pub,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    clippy::if_not_else,
    clippy::needless_pass_by_value,
    clippy::option_if_let_else,
    clippy::struct_excessive_bools,
    reason = "a benchmark measures real time, and may fail loudly; it uses a part of the tests' API server"
)]

#[path = "../tests/harness/api_server/mod.rs"]
#[allow(unused_imports, reason = "the tests use all of it")]
mod api_server;
#[path = "manifests/measure.rs"]
mod measure;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use git2::{Repository, RepositoryInitOptions, Signature};
use jiff::Timestamp;
use secrecy::SecretString;
use serde_json::{Value as Json, json};
use the_deployer::forge::github::webhook::signature;

use crate::api_server::{ApiServer, TOKEN, ours};
use crate::measure::{cpu, memory, millis, percentile};

const CLUSTERS: usize = 3;
const WORKLOADS: usize = 1_500;
const PODS: usize = 10_000;
/// The former `ReplicaSet` objects of a workload, beside the present one.
const FORMER: usize = 3;
/// The rollouts that come one after the other.
const SINGLE: usize = 60;
/// The rollouts that come at once.
const AT_ONCE: usize = 200;
/// The kinds that are watched.
const KINDS: usize = 9;
const SECRET: &str = "a-secret-of-the-benchmark";
/// Nothing takes longer.
const PATIENCE: Duration = Duration::from_mins(2);

fn main() {
    let folder = std::env::temp_dir().join(format!("the-deployer-watch-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(bench(&folder));
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
}

async fn bench(folder: &Path) {
    let mut clusters = Vec::new();
    for _ in 0..CLUSTERS {
        let server = ApiServer::start().await;
        server.install_custom_resources();
        clusters.push(server);
    }
    let service = Service::start(folder, &clusters).await;
    for cluster in &clusters {
        cluster.watched(KINDS).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (_, before) = memory(service.pid());
    arrive(&service, &clusters).await;
    let (_, after) = memory(service.pid());
    println!(
        "resident memory: {before:.0} MiB, with the objects {after:.0} MiB: {:+.0} MiB",
        after - before
    );

    let rollouts = service.deploy_all(SINGLE + AT_ONCE).await;
    let (single, together) = rollouts.split_at(SINGLE);
    one_after_the_other(&service, &clusters, single).await;
    at_once(&service, &clusters, together).await;
    let (_, pushed) = memory(service.pid());
    list_anew(&service, &clusters, &rollouts).await;
    let (peak, end) = memory(service.pid());
    println!(
        "resident memory with {} deployments pushed {pushed:.0} MiB, and listed anew {end:.0} MiB; at most {peak:.0} MiB",
        rollouts.len()
    );
}

/// All objects are created at once in each cluster, and come as events of the watches.
async fn arrive(service: &Service, clusters: &[ApiServer]) {
    let before = service.events().await;
    let (begun, used) = (Instant::now(), cpu(service.pid()));
    let mut objects = 0;
    for (n, cluster) in clusters.iter().enumerate() {
        objects += cluster.edit(|world| {
            let mut count = 0;
            for workload in (n..WORKLOADS).step_by(CLUSTERS) {
                let name = format!("present-{workload:04}");
                world.apply(deployment(&name, "sha256:present", 1, 6, 6));
                for generation in 0..=FORMER {
                    let pods = if generation == 0 { 6 } else { 0 };
                    world.apply(replica_set(&name, generation + 1, pods));
                }
                count += 2 + FORMER;
            }
            for pod_number in (n..PODS).step_by(CLUSTERS) {
                let place = (pod_number / CLUSTERS) % (WORKLOADS / CLUSTERS);
                let name = format!("present-{:04}", place * CLUSTERS + n);
                world.apply(pod(&name, pod_number));
                count += 1;
            }
            count
        });
    }
    service
        .until("all objects have come", async || service.events().await >= before + objects as f64)
        .await;
    println!(
        "{objects} objects of {CLUSTERS} clusters arrive in {:.1} s, {:.2} s of the service's processor time",
        begun.elapsed().as_secs_f64(),
        cpu(service.pid()) - used
    );
}

/// The time from the event of a finish until it can be read over the API.
async fn one_after_the_other(service: &Service, clusters: &[ApiServer], rollouts: &[Rollout]) {
    let mut times = Vec::new();
    for rollout in rollouts {
        let cluster = &clusters[rollout.cluster];
        rollout.begin(cluster);
        service.until_state(&rollout.id, "progressing").await;
        let begun = Instant::now();
        rollout.end(cluster);
        service.until_state(&rollout.id, "succeeded").await;
        times.push(begun.elapsed());
    }
    print_times("finish of one rollout, until it can be read", &times);
}

/// The time from the event of each finish until the time that is recorded for it.
async fn at_once(service: &Service, clusters: &[ApiServer], rollouts: &[Rollout]) {
    let (begun, used) = (Instant::now(), cpu(service.pid()));
    for rollout in rollouts {
        rollout.begin(&clusters[rollout.cluster]);
    }
    for available in 1..3 {
        for rollout in rollouts {
            rollout.bring(&clusters[rollout.cluster], available);
        }
    }
    let mut ends = Vec::new();
    for rollout in rollouts {
        rollout.end(&clusters[rollout.cluster]);
        ends.push(Timestamp::now());
    }
    let mut times = Vec::new();
    for (rollout, end) in rollouts.iter().zip(ends) {
        let answer = service.until_state(&rollout.id, "succeeded").await;
        let recorded: Timestamp = answer["finished_at"].as_str().unwrap().parse().unwrap();
        times.push(Duration::try_from(recorded.duration_since(end)).unwrap_or_default());
    }
    print_times(
        &format!("finishes of {AT_ONCE} rollouts at once, until they are recorded"),
        &times,
    );
    println!(
        "  from the first event to the last end {:.2} s, {:.2} s of processor time",
        begun.elapsed().as_secs_f64(),
        cpu(service.pid()) - used
    );
}

/// Every kind of every cluster is listed anew, from the first page to the last.
async fn list_anew(service: &Service, clusters: &[ApiServer], rollouts: &[Rollout]) {
    let told = service.count_statuses(rollouts).await;
    let (begun, used) = (Instant::now(), cpu(service.pid()));
    for cluster in clusters {
        // What happened is forgotten, and a change makes every version too old.
        cluster.edit(|world| world.apply(api_server::deployment("team", "newest")));
        cluster.compact();
        cluster.cut_watches();
    }
    service
        .until("every kind is listed and watched again", async || {
            let has_listed = |cluster: &ApiServer| cluster.counts("pods").0 >= 2;
            clusters.iter().all(|cluster| has_listed(cluster) && cluster.open_watches() == KINDS)
        })
        .await;
    let (took, used) = (begun.elapsed(), cpu(service.pid()) - used);
    // What a false event would bring is sent within that time.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let again = service.count_statuses(rollouts).await;
    println!(
        "everything listed anew: {:.1} s, {used:.2} s of processor time; statuses told before {told}, after {again}",
        took.as_secs_f64()
    );
    assert_eq!(told, again, "a list told something");
}

fn print_times(name: &str, times: &[Duration]) {
    println!(
        "{name}: p50 {:.1} ms, p99 {:.1} ms, longest {:.1} ms of {}",
        millis(percentile(times, 50.0)),
        millis(percentile(times, 99.0)),
        millis(percentile(times, 100.0)),
        times.len()
    );
}

/// One deployment that was pushed, and waits for its cluster.
struct Rollout {
    id: String,
    name: String,
    digest: String,
    cluster: usize,
}

impl Rollout {
    /// Argo CD applies the workload, and its controller makes the `ReplicaSet`.
    fn begin(&self, cluster: &ApiServer) {
        cluster.apply(replica_set(&self.name, 1, 3));
        cluster.apply(deployment(&self.name, &self.digest, 1, 3, 0));
    }

    fn bring(&self, cluster: &ApiServer, available: usize) {
        cluster.apply(deployment(&self.name, &self.digest, 1, 3, available));
    }

    fn end(&self, cluster: &ApiServer) {
        self.bring(cluster, 3);
    }
}

/// The real program, with a local code host and a manifest repository of its own.
struct Service {
    child: Child,
    address: String,
    folder: PathBuf,
    client: reqwest::Client,
}

impl Service {
    async fn start(folder: &Path, clusters: &[ApiServer]) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        drop(listener);
        let place = folder.display();
        let mut config = format!(
            "server: {{listen: \"{address}\"}}\nstorage: {{folder: {place}/storage}}\n\
             forge: {{local: {{root: {place}/repos, webhook_secret: {{file: {place}/secret}}}}}}\nclusters:\n"
        );
        for (n, cluster) in clusters.iter().enumerate() {
            config += &format!(
                "- {{name: prod-{n}, environment: production, domain: example.com, \
                 kubernetes: {{server: '{}', token: {{file: {place}/token}}}}}}\n",
                cluster.url()
            );
        }
        std::fs::write(folder.join("config.yaml"), config).expect("a file");
        std::fs::write(folder.join("secret"), SECRET).expect("a file");
        std::fs::write(folder.join("token"), TOKEN).expect("a file");
        let log = std::fs::File::create(folder.join("log")).expect("a file");
        let child = Command::new(env!("CARGO_BIN_EXE_the-deployer"))
            .args(["serve", "--config"])
            .arg(folder.join("config.yaml"))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("the log"))
            .stderr(log)
            .spawn()
            .expect("the service starts");
        let service = Self {
            child,
            address: format!("http://{address}"),
            folder: folder.to_owned(),
            client: reqwest::Client::new(),
        };
        let ready = format!("{}/readyz", service.address);
        service
            .until("the service is ready", async || {
                let answer = service.client.get(&ready).send().await;
                answer.is_ok_and(|answer| answer.status().is_success())
            })
            .await;
        service
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    async fn until(&self, what: &str, is_so: impl AsyncFn() -> bool) {
        let begun = Instant::now();
        while !is_so().await {
            assert!(begun.elapsed() < PATIENCE, "never: {what}; see {}", self.folder.display());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn until_state(&self, id: &str, state: &str) -> Json {
        let begun = Instant::now();
        loop {
            let answer = self.get(&format!("/api/v1/deployments/{id}")).await;
            if answer["state"] == state {
                return answer;
            }
            assert_ne!(answer["state"], "failed", "{answer}");
            assert!(begun.elapsed() < PATIENCE, "{id} is never {state}: {answer}");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn get(&self, path: &str) -> Json {
        let answer = self.client.get(format!("{}{path}", self.address)).send().await;
        answer.expect("an answer").json().await.expect("JSON")
    }

    /// The changes that have arrived from all clusters.
    async fn events(&self) -> f64 {
        let answer = self.client.get(format!("{}/metrics", self.address)).send().await;
        let text = answer.expect("an answer").text().await.expect("text");
        let name = "the_deployer_cluster_watch_events_total{";
        let lines = text.lines().filter(|line| line.starts_with(name));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// The statuses of all these deployments, sent or not.
    async fn count_statuses(&self, rollouts: &[Rollout]) -> usize {
        let mut count = 0;
        for rollout in rollouts {
            let answer = self.get(&format!("/api/v1/deployments/{}", rollout.id)).await;
            count += answer["statuses"].as_array().expect("statuses").len();
        }
        count
    }

    /// Deploys so many apps, each to one of the clusters, and waits until they are pushed.
    async fn deploy_all(&self, count: usize) -> Vec<Rollout> {
        let mut rollouts = Vec::new();
        for n in 0..count {
            let (name, cluster) = (format!("app-{n:04}"), n % CLUSTERS);
            let commit = service_repository(&self.folder, &name);
            let id = self.send(n, &name, &commit, &format!("prod-{cluster}")).await;
            rollouts.push(Rollout { id, name, digest: String::new(), cluster });
        }
        for rollout in &mut rollouts {
            let answer = self.until_state(&rollout.id, "syncing").await;
            answer["pushed"]["digest"].as_str().expect("a digest").clone_into(&mut rollout.digest);
        }
        rollouts
    }

    async fn send(&self, n: usize, name: &str, commit: &str, target: &str) -> String {
        let body = json!({
            "action": "created",
            "deployment": {
                "id": n + 1, "sha": commit, "ref": "main", "task": "deploy", "environment": target,
                "payload": {"tag": format!("1.{n}")}, "creator": {"login": "b"},
            },
            "repository": {"full_name": format!("bench/{name}")},
            "sender": {"login": "b"},
        });
        let body = body.to_string();
        let secret = SecretString::from(SECRET);
        let answer = self
            .client
            .post(format!("{}/webhooks/github", self.address))
            .header("content-type", "application/json")
            .header("x-github-event", "deployment")
            .header("x-github-delivery", format!("bench-{n}"))
            .header(signature::HEADER, signature::sign(&secret, body.as_bytes()))
            .body(body)
            .send();
        let answer: Json = answer.await.expect("an answer").json().await.expect("JSON");
        answer["id"].as_str().unwrap_or_else(|| panic!("not accepted: {answer}")).to_owned()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The bare repository of one app; the commit that has its WAML.
fn service_repository(folder: &Path, name: &str) -> String {
    let path = folder.join("repos/bench").join(format!("{name}.git"));
    let mut bare = RepositoryInitOptions::new();
    bare.bare(true).mkpath(true).external_template(false).initial_head("main");
    let repository = Repository::init_opts(path, &bare).expect("a repository");
    let deploy: Vec<String> =
        (0..CLUSTERS).map(|n| format!("  prod-{n}: {{scaling: {{replicas: 3}}}}\n")).collect();
    let waml = format!(
        "schema: \"2\"\nname: {name}\nslug: {name}\nowner: team@example.com\nslack: \"#team\"\nnamespace: team\n\
         defaults:\n- match: \"*\"\n  service: [{{ports: [{{name: http, number: 8000}}]}}]\ndeploy:\n{}",
        deploy.concat()
    );
    let blob = repository.blob(waml.as_bytes()).expect("a file");
    let mut builder = repository.treebuilder(None).expect("a folder");
    builder.insert(".weave.yaml", blob, git2::FileMode::Blob.into()).expect("a file");
    let tree = builder.write().and_then(|id| repository.find_tree(id)).expect("a folder");
    let we = Signature::now("bench", "bench@example.com").expect("a signature");
    let commit = repository.commit(Some("refs/heads/main"), &we, &we, "first", &tree, &[]);
    commit.expect("a commit").to_string()
}

fn deployment(
    name: &str,
    digest: &str,
    generation: usize,
    replicas: usize,
    available: usize,
) -> Json {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "namespace": "team", "name": name, "uid": format!("{name}-uid"), "generation": generation,
            "labels": ours(name),
            "annotations": {
                "the-deployer.dev/digest": digest,
                "deployment.kubernetes.io/revision": generation.to_string(),
            },
        },
        "spec": {"replicas": replicas, "template": template(name, generation)},
        "status": {
            "observedGeneration": generation, "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": available, "availableReplicas": available,
        },
    })
}

fn template(name: &str, generation: usize) -> Json {
    let container = json!({
        "name": "app", "image": format!("registry.example.com/team/{name}:{generation}"),
        "env": [{"name": "PORT", "value": "8080"}], "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
    });
    json!({"metadata": {"labels": {"app.kubernetes.io/name": name}}, "spec": {"containers": [container]}})
}

fn replica_set(name: &str, generation: usize, replicas: usize) -> Json {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "namespace": "team", "name": format!("{name}-{generation}"), "uid": format!("{name}-{generation}-uid"),
            "labels": {"app.kubernetes.io/name": name, "pod-template-hash": generation.to_string()},
            "annotations": {"deployment.kubernetes.io/revision": generation.to_string()},
            "ownerReferences": [{
                "kind": "Deployment", "name": name, "uid": format!("{name}-uid"), "controller": true,
                "apiVersion": "apps/v1",
            }],
        },
        "spec": {"replicas": replicas, "template": template(name, generation)},
        "status": {"replicas": replicas, "observedGeneration": 1},
    })
}

/// A pod as clusters have it, with a sidecar: some 2 KiB of JSON.
fn pod(owner: &str, n: usize) -> Json {
    let name = format!("{owner}-1-{n:05}");
    let status = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example.com/team/{name}:1"), "ready": true, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-11-21T01:00:00Z"}},
        })
    };
    let container = |name: &str| {
        json!({
            "name": name, "image": format!("registry.example.com/team/{name}:1"),
            "env": [{"name": "PORT", "value": "8080"}, {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "volumeMounts": [{"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
        })
    };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "team", "name": name, "uid": format!("{name}-uid"),
            "labels": {"app.kubernetes.io/name": owner, "pod-template-hash": "1"},
            "ownerReferences": [{
                "kind": "ReplicaSet", "name": format!("{owner}-1"), "uid": format!("{owner}-1-uid"),
                "controller": true, "apiVersion": "apps/v1",
            }],
        },
        "spec": {"nodeName": "node-1", "containers": [container("app"), container("istio-proxy")]},
        "status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [status("app"), status("istio-proxy")],
        },
    })
}
