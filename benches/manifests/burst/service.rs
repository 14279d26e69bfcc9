//! The program under load: its configuration, its service repositories, its start and its end.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use git2::{Repository, RepositoryInitOptions, Signature};
use secrecy::SecretString;
use serde_json::Value as Json;

use crate::Place;
use crate::burst::{Database, Options};
use crate::host::{Host, TOKEN};
use crate::shape;
use crate::ways::REPOSITORY;

/// The program, running.
pub struct Service {
    child: Child,
    database: Option<PathBuf>,
    pub address: String,
    pub secret: SecretString,
    /// The commit of each app's WAML.
    pub commits: Vec<String>,
    pub ready_after: Duration,
    pub client: reqwest::Client,
}

const SECRET: &str = "a-secret-of-the-load-test";
/// No start takes longer.
const START: Duration = Duration::from_mins(2);

impl Service {
    pub fn start(place: &Place, options: &Options, host: &Host) -> Self {
        let folder = place.folder.join("service");
        let _absent = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let commits = (0..options.over).map(|app| service_repository(&folder, app, place.clusters));
        let commits = commits.collect();
        let (database, url) = database(place, options, &folder);
        let address = free_address();
        let configuration = configuration(place, options, host, &folder, &address, &url);
        std::fs::write(folder.join("config.yaml"), configuration).expect("a file");
        std::fs::write(folder.join("webhook-secret"), SECRET).expect("a file");
        std::fs::write(folder.join("token"), TOKEN).expect("a file");
        let begun = Instant::now();
        let child = spawn(&options.program, &folder);
        let mut service = Self {
            child,
            database,
            address: format!("http://{address}"),
            secret: SecretString::from(SECRET),
            commits,
            ready_after: Duration::ZERO,
            client: reqwest::Client::new(),
        };
        service.until_ready(begun);
        service.ready_after = begun.elapsed();
        service
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn until_ready(&mut self, begun: Instant) {
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        let (client, url) = (reqwest::Client::new(), format!("{}/readyz", self.address));
        loop {
            let answer = runtime.block_on(client.get(&url).send());
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return;
            }
            let ended = self.child.try_wait().expect("the program");
            assert!(ended.is_none(), "the program has ended, see its log: {ended:?}");
            assert!(begun.elapsed() < START, "the program is not ready, see its log");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Until no deployment waits or is worked on.
    pub async fn until_idle(&self, patience: Duration) {
        let begun = Instant::now();
        while self.open().await {
            assert!(begun.elapsed() < patience, "deployments are still open");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn open(&self) -> bool {
        for state in ["queued", "running", "pushing"] {
            let page = self.get(&format!("/api/v1/deployments?limit=1&state={state}")).await;
            if page["deployments"].as_array().is_none_or(|found| !found.is_empty()) {
                return true;
            }
        }
        false
    }

    pub async fn get(&self, path: &str) -> Json {
        let answer = self.client.get(format!("{}{path}", self.address)).send().await;
        let answer = answer.expect("an answer");
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        answer.json().await.expect("JSON")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let ended = Command::new("kill").arg(self.pid().to_string()).status();
        assert!(ended.is_ok_and(|ended| ended.success()), "the program cannot be ended");
        let _status = self.child.wait();
        if let Some(folder) = &self.database {
            postgres("stop", folder);
        }
    }
}

fn spawn(program: &Path, folder: &Path) -> Child {
    let log = std::fs::File::create(folder.join("log")).expect("a file");
    Command::new(program)
        .args(["serve", "--config"])
        .arg(folder.join("config.yaml"))
        .current_dir(folder)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("the log"))
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

fn database(place: &Place, options: &Options, folder: &Path) -> (Option<PathBuf>, String) {
    match options.database {
        Database::Sqlite => (None, format!("sqlite:{}", folder.join("state.db").display())),
        Database::Postgres => {
            let cluster = place.folder.join("postgres");
            let url = postgres("start", &cluster);
            (Some(cluster), url)
        }
    }
}

fn postgres(action: &str, folder: &Path) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/load/postgres");
    let output = Command::new(script).arg(action).arg(folder).output().expect(script);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} {action}: {words}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").to_string()
}

fn configuration(
    place: &Place,
    options: &Options,
    host: &Host,
    folder: &Path,
    address: &str,
    database: &str,
) -> String {
    let folder = folder.display();
    let url = host.url(REPOSITORY);
    let mut text = format!(
        "server: {{listen: \"{address}\"}}\n\
         storage: {{folder: {folder}/storage, url: \"{database}\"}}\n\
         forge: {{local: {{root: {folder}/repos, webhook_secret: {{file: {folder}/webhook-secret}}}}}}\n\
         manifests:\n  repositories:\n  - name: main\n    url: {url}\n    branch: main\n    targets: [\"*\"]\n    \
         token: {{file: {folder}/token}}\n"
    );
    for setting in &options.repository_setting {
        text += &format!("    {setting}\n");
    }
    if let Some(workers) = options.workers {
        text += &format!("limits: {{workers: {workers}}}\n");
    }
    text += "clusters:\n";
    for cluster in 0..place.clusters {
        let name = shape::target(cluster);
        text +=
            &format!("- {{name: {name}, environment: production, domain: {name}.example.com}}\n");
    }
    text
}

/// The bare repository of one app's service; the commit that has its WAML.
fn service_repository(folder: &Path, app: usize, clusters: usize) -> String {
    let path = folder.join("repos/load").join(format!("{}.git", shape::slug(app)));
    let mut bare = RepositoryInitOptions::new();
    bare.bare(true).mkpath(true).external_template(false).initial_head("main");
    let repository = Repository::init_opts(path, &bare).expect("a repository");
    let blob = repository.blob(waml(app, clusters).as_bytes()).expect("a file");
    let mut builder = repository.treebuilder(None).expect("a folder");
    builder.insert(".weave.yaml", blob, git2::FileMode::Blob.into()).expect("a file");
    let tree = builder.write().and_then(|id| repository.find_tree(id)).expect("a folder");
    let we = Signature::now("load", "load@example.com").expect("a signature");
    let commit = repository.commit(Some("refs/heads/main"), &we, &we, "first", &tree, &[]);
    commit.expect("a commit").to_string()
}

/// What the source documents show as a whole WAML, for each cluster.
fn waml(app: usize, clusters: usize) -> String {
    let (slug, namespace) = (shape::slug(app), shape::namespace(app));
    let mut text = format!(
        "schema: \"2\"\nname: App {app}\nslug: {slug}\nowner: {namespace}@example.com\nslack: \"#{namespace}\"\n\
         namespace: {namespace}\ntemplate: backend-default\ndefaults:\n- match: \"*\"\n  \
         service: [{{ports: [{{name: http, number: 8000}}]}}]\n  \
         ingress: [{{hostPrefix: {slug}, public: true, paths: [{{path: /, servicePort: 8000}}]}}]\ndeploy:\n"
    );
    for cluster in 0..clusters {
        text += &format!(
            "  {}:\n    env: [{{name: MY_ENV_NAME, value: some-value}}]\n    slo: {{requestClass: critical}}\n    \
             autoscaling: {{horizontal: {{minReplicas: 3, maxReplicas: 10, cpu: {{averageUtilization: 75}}}}}}\n",
            shape::target(cluster)
        );
    }
    text
}
