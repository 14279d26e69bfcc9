//! The real `the-deployer serve` in a folder of its own, and what may happen to a process.
//!
//! Everything that is waited for is bounded, and what does not come ends with the log.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value as Json;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::harness::database::place_tables;
use crate::harness::folder;
use crate::harness::git::{Bare, hermetic};
use crate::harness::git_host::{GitHost, TOKEN};
use crate::harness::memory::resident_peak;

/// Longer than anything takes, even where every core is busy.
const PATIENCE: Duration = Duration::from_mins(3);
/// How often a condition is looked at that nobody announces.
const LOOK: Duration = Duration::from_millis(10);

/// How often a doomed process may be faster than its killer.
const KILLS: usize = 20;

/// Tries until a process was killed in time, which the attempt says.
pub(crate) async fn killed_in_time(attempt: impl AsyncFn() -> bool) {
    for _ in 0..KILLS {
        if attempt().await {
            return;
        }
    }
    panic!("the process was faster each time");
}

/// Returns the path of the program: the one that was built with the tests, or an optimised one for long rounds of chaos.
fn program() -> String {
    let other = std::env::var("THE_DEPLOYER_TEST_PROGRAM");
    other.unwrap_or_else(|_unset| env!("CARGO_BIN_EXE_the-deployer").to_owned())
}

/// A folder in which processes run one after the other. It outlives them.
pub(crate) struct Home {
    folder: TempDir,
    config: Option<PathBuf>,
}

impl Home {
    /// Without a configuration: everything embedded.
    pub(crate) fn embedded() -> Self {
        Self { folder: folder::temporary(), config: None }
    }

    /// With that configuration file.
    pub(crate) fn configured(config: &str) -> Self {
        let folder = folder::temporary();
        let path = folder.path().join("config.yaml");
        std::fs::write(&path, config).unwrap();
        Self { folder, config: Some(path) }
    }

    /// With its manifests in a repository behind HTTP.
    pub(crate) fn pushing_to(url: &str) -> Self {
        let home = Self::configured(&format!(
            "manifests:\n  repositories:\n  - {{name: fleet, url: \"{url}\", token: {{file: token}}}}\n"
        ));
        std::fs::write(home.path("token"), TOKEN).unwrap();
        home
    }

    /// With its manifests in `m.git` of that host, which is made.
    pub(crate) fn on(host: &GitHost) -> (Self, Bare) {
        (Self::pushing_to(&host.url("m.git")), host.create("m.git"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A path in the folder where the service keeps its state.
    pub(crate) fn state(&self, name: &str) -> PathBuf {
        self.path(".the-deployer").join(name)
    }

    /// The embedded manifest repository.
    pub(crate) fn manifests(&self) -> Bare {
        Bare(self.state("manifests.git"))
    }

    /// Commits a WAML to the service repository, which is made; the commit.
    pub(crate) fn commit(&self, repository: &str, waml: &str) -> String {
        self.commit_file(repository, ".weave.yaml", waml)
    }

    pub(crate) fn commit_file(&self, repository: &str, path: &str, text: &str) -> String {
        let folder = self.state("repos").join(format!("{repository}.git"));
        let there = folder.join("HEAD").is_file();
        let bare = if there { Bare(folder) } else { Bare::create(&folder) };
        bare.somebody_writes(path, text);
        bare.tip()
    }

    pub(crate) fn secret(&self) -> String {
        std::fs::read_to_string(self.state("webhook-secret")).unwrap().trim_end().to_owned()
    }

    /// The command, with short leases, so that what a dead process held is soon taken over.
    pub(crate) fn command(&self) -> Command {
        self.command_by(&[])
    }

    /// The same, run by another program that ends by becoming it.
    fn command_by(&self, by: &[&str]) -> Command {
        let program = program();
        let mut words = by.iter().copied().chain([program.as_str()]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).args(["serve", "--log-format", "json"]).current_dir(self.folder.path());
        if let Some(config) = &self.config {
            command.arg("--config").arg(config.file_name().unwrap());
        }
        command.env_clear().envs(hermetic());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("THE_DEPLOYER_SERVER_LISTEN", "127.0.0.1:0");
        command.env("THE_DEPLOYER_LIMITS_LEASE", "1s");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    /// Runs until it listens.
    pub(crate) async fn start(&self) -> Process {
        self.start_with(&[]).await
    }

    pub(crate) async fn start_with(&self, variables: &[(&str, &str)]) -> Process {
        self.run(self.command(), variables, None).await
    }

    /// Runs by another program until it listens.
    pub(crate) async fn start_by(&self, by: &[&str], variables: &[(&str, &str)]) -> Process {
        self.run(self.command_by(by), variables, None).await
    }

    /// Runs until it listens, and is killed the moment it says the word: on a busy machine it may say
    /// and do more before its killer has read it.
    pub(crate) async fn start_doomed(&self, word: &str) -> Process {
        self.run(self.command(), &[], Some(word.to_owned())).await
    }

    async fn run(
        &self,
        mut command: Command,
        variables: &[(&str, &str)],
        doom: Option<String>,
    ) -> Process {
        place_tables(&self.state("state.db")).await;
        let mut child = command.envs(variables.iter().copied()).spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let child = Arc::new(Mutex::new(child));
        let log = CapturedLog::of(stderr, doom.map(|word| (word, Arc::clone(&child))));
        let mut process =
            Process { child, log, address: String::new(), client: client(), secret: String::new() };
        let listening = process.line("listening", |line| line["message"] == "listening").await;
        process.address = format!("http://{}", listening["address"].as_str().unwrap());
        process.secret = self.secret();
        process
    }

    /// Runs to an end that comes by itself, as one that does not start has it.
    pub(crate) async fn start_in_vain(&self, variables: &[(&str, &str)]) -> Output {
        let mut command = self.command();
        let child = command.envs(variables.iter().copied()).spawn().unwrap();
        let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
        tokio::time::timeout(PATIENCE, output).await.expect("it does not end by itself").unwrap()
    }
}

/// A process that listens; it is killed when this is dropped.
pub(crate) struct Process {
    child: Arc<Mutex<Child>>,
    log: CapturedLog,
    address: String,
    client: reqwest::Client,
    pub(crate) secret: String,
}

impl Process {
    /// A request to that path.
    pub(crate) fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.address))
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The status and the text of an answer.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let answer = self.request(reqwest::Method::GET, path).send().await;
        let answer = answer.unwrap_or_else(|error| panic!("{path}: {error}\n{}", self.log.text()));
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    pub(crate) async fn json(&self, path: &str) -> Json {
        let (status, text) = self.get(path).await;
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{path}: {status} {text}"))
    }

    pub(crate) async fn deployment(&self, id: &str) -> Json {
        self.json(&format!("/api/v1/deployments/{id}")).await
    }

    /// All deployments, oldest first.
    pub(crate) async fn deployments(&self) -> Vec<Json> {
        let mut list = self.json("/api/v1/deployments?limit=100").await;
        let mut list: Vec<Json> = serde_json::from_value(list["deployments"].take()).unwrap();
        list.reverse();
        list
    }

    /// The deployment, once it has ended and the forge was told of it.
    pub(crate) async fn ended(&self, id: &str) -> Json {
        self.when(id, "the end of the deployment", |one| {
            let ended = !one["finished_at"].is_null();
            let mut told = one["statuses"].as_array().unwrap().iter();
            // What is over before its turn comes is left out.
            let settled = |one: &Json| !one["sent_at"].is_null() || !one["skipped"].is_null();
            ended && told.all(settled)
        })
        .await
    }

    /// The deployment, once it is as wished.
    pub(crate) async fn when(&self, id: &str, what: &str, is: impl Fn(&Json) -> bool) -> Json {
        self.until(what, async || Some(self.deployment(id).await).filter(|one| is(one))).await
    }

    /// Until its repositories are seen to answer; what was seen a moment ago counts.
    pub(crate) async fn until_ready(&self) {
        let ready = async || (self.get("/readyz").await.0 == 200).then_some(());
        self.until("readiness", ready).await;
    }

    /// What the look finds, as soon as it finds it.
    pub(crate) async fn until<T>(&self, what: &str, look: impl AsyncFn() -> Option<T>) -> T {
        let looking = async {
            loop {
                match look().await {
                    Some(found) => return found,
                    None => tokio::time::sleep(LOOK).await,
                }
            }
        };
        let found = tokio::time::timeout(PATIENCE, looking).await;
        found.unwrap_or_else(|_| panic!("waited in vain for {what}\n{}", self.log.text()))
    }

    /// The first line of the log that is as wished, as soon as it is there.
    pub(crate) async fn line(&self, what: &str, is: impl Fn(&Json) -> bool) -> Json {
        let mut count = self.log.count.clone();
        let found = async {
            let mut seen = 0;
            loop {
                let lines = self.lines_from(seen);
                seen += lines.len();
                if let Some(line) = lines.into_iter().find(|line| is(line)) {
                    return line;
                }
                assert!(count.changed().await.is_ok(), "the log ends:\n{}", self.log.text());
            }
        };
        let found = tokio::time::timeout(PATIENCE, found).await;
        found.unwrap_or_else(|_| panic!("waited in vain for {what}\n{}", self.log.text()))
    }

    /// Until it has logged so many lines more, or has nothing to say for two seconds.
    pub(crate) async fn more_lines(&self, more: usize) {
        let mut count = self.log.count.clone();
        let enough = *count.borrow() + more;
        while *count.borrow_and_update() < enough {
            if tokio::time::timeout(Duration::from_secs(2), count.changed()).await.is_err() {
                return;
            }
        }
    }

    fn lines_from(&self, first: usize) -> Vec<Json> {
        let lines = self.log.lines.lock().unwrap();
        let json = |line: &String| serde_json::from_str(line).unwrap_or(Json::Null);
        lines.iter().skip(first).map(json).collect()
    }

    /// How many lines it has logged so far.
    pub(crate) fn log_lines(&self) -> usize {
        *self.log.count.borrow()
    }

    /// How many descriptors it has open; `None` where the system does not say.
    pub(crate) fn descriptors(&self) -> Option<usize> {
        Some(std::fs::read_dir(format!("/proc/{}/fd", self.id())).ok()?.count())
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.text()
    }

    /// How it ended by itself; `None` while it runs.
    pub(crate) fn ended_by_itself(&self) -> Option<ExitStatus> {
        self.child.lock().unwrap().try_wait().unwrap()
    }

    /// SIGKILL; nothing of it runs any more when this returns.
    pub(crate) fn kill(self) {
        drop(self);
    }

    /// Until one that is doomed is dead; the message of the last line that it logged.
    pub(crate) async fn dead(mut self) -> String {
        let gone = async { while self.log.count.changed().await.is_ok() {} };
        let gone = tokio::time::timeout(PATIENCE, gone).await;
        gone.unwrap_or_else(|_| panic!("it lives on\n{}", self.log.text()));
        let last = self.lines_from(0).pop().unwrap_or_default();
        last["message"].as_str().unwrap_or_default().to_owned()
    }

    /// SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// SIGSTOP: it stands still, with everything that it holds.
    pub(crate) fn pause(&self) {
        self.signal("STOP");
    }

    /// SIGCONT: it goes on, and knows nothing of the pause.
    pub(crate) fn go_on(&self) {
        self.signal("CONT");
    }

    /// Sets one of its limits, `soft:` or `soft:hard`, as `prlimit` of util-linux names them.
    pub(crate) fn limit(&self, what: &str, limit: &str) {
        let by = format!("--{what}={limit}");
        let set = Command::new("prlimit").args(["--pid", &self.id(), &by]).status();
        assert!(set.unwrap().success(), "{by}");
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.id()).status();
        assert!(sent.unwrap().success());
    }

    /// The most memory that it ever had, in bytes, as the kernel counts it.
    pub(crate) fn peak_memory(&self) -> u64 {
        resident_peak(self.child.lock().unwrap().id())
    }

    /// Its number.
    pub(crate) fn id(&self) -> String {
        self.child.lock().unwrap().id().to_string()
    }

    /// How it ended, and its log.
    pub(crate) async fn end(self) -> (ExitStatus, String) {
        let ended = async {
            loop {
                let ended = self.child.lock().unwrap().try_wait().unwrap();
                match ended {
                    Some(status) => return status,
                    None => tokio::time::sleep(LOOK).await,
                }
            }
        };
        let status = tokio::time::timeout(PATIENCE, ended).await;
        let status = status.unwrap_or_else(|_| panic!("it does not end\n{}", self.log.text()));
        (status, self.log.text())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        let _dead_already = child.kill();
        child.wait().unwrap();
    }
}

/// What a process writes to standard error, as it comes.
struct CapturedLog {
    lines: Arc<Mutex<Vec<String>>>,
    count: watch::Receiver<usize>,
}

impl CapturedLog {
    /// The one who is doomed dies by the hand of who reads the word: any detour would take longer
    /// than a stage does.
    fn of(stderr: ChildStderr, doom: Option<(String, Arc<Mutex<Child>>)>) -> Self {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let (send, count) = watch::channel(0);
        let kept = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if let Some((word, child)) = &doom
                    && line.contains(word)
                {
                    let _dead_already = child.lock().unwrap().kill();
                }
                kept.lock().unwrap().push(line);
                send.send_modify(|count| *count += 1);
            }
        });
        Self { lines, count }
    }

    fn text(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }
}

pub(crate) fn client() -> reqwest::Client {
    the_deployer::support::http::install_tls_provider();
    // Without TLS, it need not read what this machine trusts.
    reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(PATIENCE).build().unwrap()
}

/// A hook that holds up the first push until it is let go, or for half a minute.
pub(crate) struct Held {
    folder: PathBuf,
}

impl Held {
    /// `name` is `pre-receive`: nothing is written yet; or `post-receive`: everything is.
    pub(crate) fn first_push(bare: &Bare, name: &str) -> Self {
        bare.hook(
            name,
            "mkdir held 2>/dev/null || exit 0\nfor i in $(seq 1500); do [ -e go ] && exit 0; sleep 0.02; done",
        );
        Self { folder: bare.0.clone() }
    }

    /// Until a push is in the hook.
    pub(crate) async fn reached(&self) {
        exists(&self.folder.join("held")).await;
    }

    pub(crate) fn let_go(&self) {
        std::fs::write(self.folder.join("go"), "").unwrap();
    }
}

async fn exists(path: &Path) {
    let looking = async {
        while !path.exists() {
            tokio::time::sleep(LOOK).await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, looking).await;
    found.unwrap_or_else(|_| panic!("{} does not come to be", path.display()));
}

/// Whether the service gave up this deployment, as the API shows it, because its attempts died
/// three times.
pub(crate) fn is_given_up(deployment: &Json) -> bool {
    let summary = deployment["summary"].as_str();
    summary.is_some_and(|it| {
        it.starts_with("given up: the service died during each of the last 3 attempts")
    })
}
