//! The processes of a round, and everything around them: code host, manifest repository, database,
//! and a link to each that can be cut for one process alone.
//!
//! It knows nothing of what should be: [`crate::chaos::ledger`] and [`crate::chaos::verdict`] do.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::Value as Json;
use the_deployer::support::clock::Clock;

use crate::chaos::ledger::Ledger;
use crate::harness::events::{Answer, Delivery, Event, waml};
use crate::harness::git::Bare;
use crate::harness::git_host::{GitHost, TOKEN};
use crate::harness::github::{Ask, Webhooks, World};
use crate::harness::link::{Link, LinkState};
use crate::harness::process::{Home, Process, client};
use crate::harness::random::Random;

/// The clusters of every round.
pub(crate) const TARGETS: [&str; 2] = ["prod-cluster-1", "prod-cluster-2"];
/// The memory of `deploy/kubernetes/base/deployment.yaml`, in MiB.
const MAX_MEMORY: u64 = 512;
const SECRET: &str = "of-the-webhook-0123456789";
/// GitHub gives up a delivery after that.
const DELIVERY: Duration = Duration::from_secs(10);
/// A balancer with other processes to ask gives up one that does not answer for so long.
const BALANCER: Duration = Duration::from_secs(2);
/// No answer of the API takes longer.
const ANSWER: Duration = Duration::from_secs(10);
/// A process that logs nothing for so long has nothing to do.
const SILENCE: Duration = Duration::from_secs(2);
/// No deployment takes longer once nothing is in its way.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(50);

/// What a fleet is made of.
pub(crate) struct Setting {
    pub(crate) members: usize,
    pub(crate) postgres: Option<String>,
    /// A GitHub that keeps what it is told; else the local code host.
    pub(crate) github: bool,
    /// Manifests behind HTTP; else the embedded repository.
    pub(crate) host: bool,
    /// How many pushes a minute the first process may make; all others, and without: the default.
    pub(crate) pushes: Option<u32>,
}

impl Setting {
    /// In a few words.
    fn summary(&self) -> String {
        let Self { members, postgres, github, host, pushes } = self;
        let database = if postgres.is_some() { "PostgreSQL" } else { "SQLite" };
        let forge = if *github { "GitHub" } else { "local" };
        let manifests = if *host { "git host" } else { "embedded" };
        let pushes = pushes.map_or(String::new(), |most| format!(", {most} pushes/min"));
        format!("{members} on {database}, {forge}, {manifests}{pushes}")
    }
}

enum Forge {
    Local { home: Home, numbers: Mutex<i64> },
    GitHub(World),
}

/// One process after the other in a folder of its own.
struct Member {
    home: Home,
    links: Vec<(&'static str, Link)>,
    process: Mutex<Option<Process>>,
    /// Address and secret while it is there to be asked.
    door: Mutex<Option<(String, String)>>,
}

/// A running fleet.
pub(crate) struct Fleet {
    pub(crate) summary: String,
    pub(crate) bare: Bare,
    pub(crate) peak: Mutex<u64>,
    /// What processes logged that are no more.
    pub(crate) logs: Mutex<Vec<String>>,
    members: Vec<Member>,
    host: Option<GitHost>,
    forge: Forge,
    database: Option<String>,
    client: reqwest::Client,
}

impl Fleet {
    /// With nobody started yet.
    pub(crate) async fn prepare(setting: Setting) -> Self {
        let summary = setting.summary();
        let forge = if setting.github {
            let world = World::start(&Clock::system()).await;
            // Events are sent by hand, to whom the round wants.
            world.hooks_to("http://127.0.0.1:1/webhooks/github", SECRET);
            world.webhooks(Webhooks::Unheard);
            Forge::GitHub(world)
        } else {
            Forge::Local { home: Home::embedded(), numbers: Mutex::new(0) }
        };
        let host = if setting.host { Some(GitHost::start().await) } else { None };
        let mut bare = host.as_ref().map(|host| host.create("m.git"));
        if let Some(bare) = &bare {
            bare.keep_reflog();
        }
        let mut members = Vec::new();
        for number in 0..setting.members {
            let pushes = setting.pushes.filter(|_| number == 0);
            let member = Member::prepare(&setting, pushes, &forge, host.as_ref()).await;
            bare.get_or_insert_with(|| member.home.manifests());
            members.push(member);
        }
        Self {
            summary,
            bare: bare.expect("a fleet has a member"),
            peak: Mutex::new(0),
            logs: Mutex::default(),
            members,
            host,
            forge,
            database: setting.postgres,
            client: client(),
        }
    }

    /// The same, with everybody running.
    pub(crate) async fn start(setting: Setting) -> Self {
        let fleet = Self::prepare(setting).await;
        for member in 0..fleet.len() {
            fleet.start_member(member).await;
        }
        fleet
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    pub(crate) async fn start_member(&self, member: usize) {
        let member = &self.members[member];
        let process = member.home.start().await;
        *member.door.lock().unwrap() = Some((process.address().to_owned(), process.secret.clone()));
        *member.process.lock().unwrap() = Some(process);
    }

    /// Begins a start, and kills it after a moment, wherever it is by then.
    pub(crate) async fn kill_in_start(&self, member: usize, after: Duration) {
        let mut command = self.members[member].home.command();
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        tokio::time::sleep(after).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// SIGKILL. A process that has ended before is a fault.
    pub(crate) fn kill(&self, member: usize, ledger: &Ledger) {
        *self.members[member].door.lock().unwrap() = None;
        let process = self.members[member].process.lock().unwrap().take();
        let Some(process) = process else { return };
        if let Some(status) = process.ended_by_itself() {
            ledger.violation(format!("process {member} ended by itself: {status}"));
            return self.logs.lock().unwrap().push(process.log());
        }
        let peak = process.peak_memory() / 1_048_576;
        if peak >= MAX_MEMORY {
            ledger.violation(format!("process {member} held {peak} MiB, {MAX_MEMORY} are allowed"));
        }
        let most = &mut *self.peak.lock().unwrap();
        *most = peak.max(*most);
        let log = process.log();
        process.kill();
        if let Some(line) = log.lines().find(|line| line.contains("panicked")) {
            ledger.violation(format!("process {member} panicked: {line}"));
        }
        self.logs.lock().unwrap().push(log);
    }

    /// SIGSTOP.
    pub(crate) fn pause(&self, member: usize) {
        self.with_process(member, Process::pause);
    }

    /// SIGCONT.
    pub(crate) fn go_on(&self, member: usize) {
        self.with_process(member, Process::go_on);
    }

    fn with_process(&self, member: usize, act: impl FnOnce(&Process)) {
        if let Some(process) = &*self.members[member].process.lock().unwrap() {
            act(process);
        }
    }

    /// Cuts a process off from one of what is behind it, or lets it through again. False where there
    /// is no such link.
    pub(crate) fn set_link(&self, member: usize, name: &str, state: LinkState) -> bool {
        let found = self.members[member].links.iter().find(|(link, _)| *link == name);
        found.is_some_and(|(_, link)| {
            link.set(state);
            true
        })
    }

    /// Until it has logged so many lines more.
    pub(crate) async fn more_lines(&self, member: usize, lines: usize) {
        let begun = self.log_lines(member) + lines;
        let deadline = Instant::now() + SILENCE;
        while self.log_lines(member) < begun && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn log_lines(&self, member: usize) -> usize {
        let process = self.members[member].process.lock().unwrap();
        process.as_ref().map_or(0, Process::log_lines)
    }

    /// The descriptors that a process has open; `None` where the system does not say.
    pub(crate) fn descriptors(&self, member: usize) -> Option<usize> {
        let process = self.members[member].process.lock().unwrap();
        process.as_ref().and_then(Process::descriptors)
    }

    /// The address of a process that is there.
    pub(crate) fn address(&self, member: usize) -> String {
        self.members[member].door.lock().unwrap().as_ref().expect("it runs").0.clone()
    }

    /// The WAML of an app comes to its repository.
    pub(crate) fn commit(&self, repository: &str, waml: &str) {
        match &self.forge {
            Forge::Local { home, .. } => {
                home.commit(repository, waml);
            }
            Forge::GitHub(world) => {
                world.repository(repository).commit(waml);
            }
        }
    }

    /// Somebody asks the code host for a deployment of what is on `main`; its event.
    pub(crate) async fn deployment(&self, repository: &str, target: &str, tag: &str) -> Event {
        let (number, commit) = match &self.forge {
            Forge::Local { home, numbers } => {
                let bare = Bare(home.state("repos").join(format!("{repository}.git")));
                let mut last = numbers.lock().unwrap();
                *last += 1;
                (*last, bare.tip())
            }
            Forge::GitHub(world) => {
                let repository = world.repository(repository);
                (repository.asks(Ask::new(target, tag)).await, repository.tip("main"))
            }
        };
        let (repository, target, tag) = (repository.to_owned(), target.to_owned(), tag.to_owned());
        Event { number, repository, commit, target, tag }
    }

    /// The states that GitHub was told of a deployment; `None` where the code host is local.
    pub(crate) fn github_states(&self, number: i64) -> Option<Vec<String>> {
        match &self.forge {
            Forge::Local { .. } => None,
            Forge::GitHub(world) => Some(world.told(number)),
        }
    }

    /// What GitHub would punish, and what it still waits for, is a fault of the round.
    pub(crate) fn github_settled(&self, ledger: &Ledger) {
        if let Forge::GitHub(world) = &self.forge {
            let settled = std::panic::catch_unwind(AssertUnwindSafe(|| world.settled()));
            ledger.require(settled.is_ok(), || "GitHub is not settled, see above".to_owned());
        }
    }

    /// Sends an event to that process, or to any, as soon as it is there; `None` when no answer came.
    pub(crate) async fn send(
        &self,
        event: &Event,
        random: &mut Random,
        member: Option<usize>,
    ) -> Option<Answer> {
        let (address, secret) = loop {
            let member = &self.members[member.unwrap_or_else(|| random.below(self.len()))];
            let door = member.door.lock().unwrap().clone();
            match door {
                Some(door) => break door,
                None => tokio::time::sleep(LOOK).await,
            }
        };
        let patience = if self.len() > 1 { BALANCER } else { DELIVERY };
        let request = self.client.post(format!("{address}/webhooks/github")).timeout(patience);
        Delivery::of(event, &secret).send_with(request).await.ok()
    }

    /// Asks the API of one process; `None` when no answer came.
    pub(crate) async fn ask(
        &self,
        member: usize,
        (method, path): (Method, &str),
        body: Option<&Json>,
        key: Option<&str>,
    ) -> Option<(u16, Json)> {
        let (address, _) = self.members[member].door.lock().unwrap().clone()?;
        let mut request = self.client.request(method, format!("{address}{path}"));
        request = request.timeout(ANSWER);
        if let Some(body) = body {
            request = request.json(body);
        }
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let answer = request.send().await.ok()?;
        let status = answer.status().as_u16();
        Some((status, answer.json().await.unwrap_or_default()))
    }

    pub(crate) async fn post(&self, member: usize, path: &str, body: &Json) -> Option<(u16, Json)> {
        self.ask(member, (Method::POST, path), Some(body), None).await
    }

    /// A deployment as the first process that answers has it.
    pub(crate) async fn record(&self, id: &str) -> Option<Json> {
        for member in 0..self.len() {
            if let Some(record) = self.record_of(member, id).await {
                return Some(record);
            }
        }
        None
    }

    /// A deployment as that process has it.
    pub(crate) async fn record_of(&self, member: usize, id: &str) -> Option<Json> {
        let path = format!("/api/v1/deployments/{id}");
        let answer = self.ask(member, (Method::GET, &path), None, None).await;
        answer.filter(|(status, _)| *status == 200).map(|(_, record)| record)
    }

    /// All deployments that are known, by pages of the list.
    pub(crate) async fn records(&self) -> Vec<Json> {
        let mut all = Vec::new();
        let mut path = "/api/v1/deployments?limit=100".to_owned();
        loop {
            let (status, mut page) =
                self.ask(0, (Method::GET, &path), None, None).await.expect("a list");
            assert_eq!(status, 200, "{page}");
            all.extend(page["deployments"].as_array_mut().map(std::mem::take).unwrap_or_default());
            let Some(next) = page["next"].as_str() else { return all };
            path = format!("/api/v1/deployments?limit=100&cursor={next}");
        }
    }

    /// Nothing is in anybody's way any more: everybody runs, and every link is open.
    pub(crate) async fn restore(&self) {
        for (index, member) in self.members.iter().enumerate() {
            member.links.iter().for_each(|(_, link)| link.set(LinkState::Open));
            self.go_on(index);
            if member.process.lock().unwrap().is_none() {
                self.start_member(index).await;
            }
        }
    }

    /// Until every accepted deployment has ended, by those who are there.
    pub(crate) async fn until_ended(&self, ids: &[String], ledger: &Ledger) {
        let all_over = |record: &Json| !record["finished_at"].is_null();
        self.until("an end", ids, (all_over, PATIENCE), ledger).await;
        // Who was stopped goes on with what it was at: it has had time to do harm by now.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        if let Some(host) = &self.host {
            host.idle().await;
        }
    }

    /// Everybody dies, all that dead processes held is let go as time would do it, and one process
    /// ends what is left to be told.
    pub(crate) async fn start_over(&self, ids: &[String], ledger: &Ledger) {
        for member in 0..self.len() {
            self.kill(member, ledger);
        }
        if let Some(database) = &self.database {
            age(database).await;
        }
        self.start_member(0).await;
        let told = |record: &Json| {
            let settled = |one: &Json| !one["sent_at"].is_null() || !one["skipped"].is_null();
            let statuses = record["statuses"].as_array();
            !record["finished_at"].is_null() && statuses.is_some_and(|all| all.iter().all(settled))
        };
        self.until("its statuses sent", ids, (told, PATIENCE), ledger).await;
    }

    /// Until the record of each of them is so, for so long at most.
    pub(crate) async fn until(
        &self,
        what: &str,
        ids: &[String],
        (is, longest): (impl Fn(&Json) -> bool, Duration),
        ledger: &Ledger,
    ) {
        let deadline = Instant::now() + longest;
        for id in ids {
            loop {
                let record = self.record(id).await;
                if let Some(record) = &record
                    && is(record)
                {
                    break;
                }
                if Instant::now() > deadline {
                    let record = record.unwrap_or_default();
                    let (state, summary) = (&record["state"], &record["summary"]);
                    ledger.violation(format!("{id} never has {what}: {state} {summary}"));
                    break;
                }
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// Keeps what helps to find out: logs and the repository, in that folder.
    pub(crate) fn keep(&self, folder: &Path) {
        std::fs::create_dir_all(folder).unwrap();
        for member in &self.members {
            if let Some(process) = member.process.lock().unwrap().as_ref() {
                self.logs.lock().unwrap().push(process.log());
            }
        }
        for (number, log) in self.logs.lock().unwrap().iter().enumerate() {
            std::fs::write(folder.join(format!("process-{number}.log")), log).unwrap();
        }
        let copy = folder.join("manifests.git");
        let _of_before = std::fs::remove_dir_all(&copy);
        self.bare.run(&["clone", "--quiet", "--mirror", ".", &copy.display().to_string()]);
    }
}

impl Drop for Fleet {
    /// A round that broke off has not looked at its GitHub, which insists on that.
    fn drop(&mut self) {
        if let Forge::GitHub(world) = &self.forge {
            let _broken_off = std::panic::catch_unwind(AssertUnwindSafe(|| world.settled()));
        }
    }
}

impl Member {
    async fn prepare(
        setting: &Setting,
        pushes: Option<u32>,
        forge: &Forge,
        host: Option<&GitHost>,
    ) -> Self {
        let mut links = Vec::new();
        let mut config = String::new();
        if let Some(url) = &setting.postgres {
            let (rest, folder) = url.split_once("?host=").expect("a socket's folder");
            let link = Link::postgres(&PathBuf::from(folder.replace("%2F", "/")));
            let folder = link.address().replace('/', "%2F");
            config.push_str(&format!("storage: {{url: \"{rest}?host={folder}\"}}\n"));
            links.push(("database", link));
        }
        match forge {
            Forge::Local { home, .. } => {
                let root = home.state("repos");
                config.push_str(&format!("forge:\n  local: {{root: \"{}\"}}\n", root.display()));
            }
            Forge::GitHub(world) => {
                let link = Link::tcp(world.url().trim_start_matches("http://")).await;
                config.push_str(&format!(
                    "forge:\n  github:\n    api_url: http://{}\n    token: {{file: forge-token}}\n    \
                     webhook_secret: {{file: .the-deployer/webhook-secret}}\n",
                    link.address()
                ));
                links.push(("github", link));
            }
        }
        if let Some(host) = host {
            let url = host.url("m.git");
            let server = url.trim_start_matches("http://").trim_end_matches("/m.git");
            let link = Link::tcp(server).await;
            let budget = pushes.map_or(String::new(), |most| {
                format!(", push_budget: {{per_minute: {most}, burst: 1}}")
            });
            config.push_str(&format!(
                "manifests:\n  repositories:\n  - {{name: fleet, url: \"http://{}/m.git\", \
                 token: {{file: token}}{budget}}}\n",
                link.address()
            ));
            links.push(("git", link));
        }
        let home = Home::configured(&config);
        std::fs::write(home.path("token"), TOKEN).unwrap();
        if let Forge::GitHub(world) = forge {
            std::fs::write(home.path("forge-token"), world.token()).unwrap();
        }
        if setting.members > 1 || setting.github {
            std::fs::create_dir(home.state("")).unwrap();
            std::fs::write(home.state("webhook-secret"), SECRET).unwrap();
        }
        Self { home, links, process: Mutex::default(), door: Mutex::default() }
    }
}

/// As time would do it: what was left behind is nobody's any more, and every delay is over.
async fn age(database: &str) {
    sqlx::any::install_default_drivers();
    let pool = sqlx::AnyPool::connect(database).await.unwrap();
    for sql in [
        "UPDATE outbox SET due_at = 0 WHERE outcome IS NULL",
        "UPDATE acts SET due_at = 0 WHERE finished_at IS NULL",
    ] {
        sqlx::query(sql).execute(&pool).await.unwrap();
    }
    pool.close().await;
}

/// A WAML of that app, with a host of its own.
pub(crate) fn waml_of(app: &str) -> String {
    let deploy = "  prod-cluster-1:\n    env: [{name: MY_ENV_NAME, value: some-value}]\n";
    let text = waml(app);
    assert!(text.contains(deploy), "the example has a section for the first target");
    text.replace(deploy, &format!("  {}: {{}}\n{deploy}", TARGETS[1]))
}
