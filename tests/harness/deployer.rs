//! The whole program in this process, by hand: the real one on a clock that the test moves, with
//! GitHub as its forge. Nothing goes on by itself but HTTP; `settle` does what there is to do and
//! moves the clock where something waits.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use jiff::SignedDuration;
use sqlx::Connection as _;
use tempfile::TempDir;
use the_deployer::app::stepped::SteppedApp;
use the_deployer::app::{App, Bounds, StartError};
use the_deployer::config::SettingsSources;
use the_deployer::config::settings::Settings;
use the_deployer::model::deployment::Deployment;
use the_deployer::server::ServerLimits;
use the_deployer::store::{Filter, Store};
use the_deployer::support::clock::Clock;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::harness::database::{Url, place_tables_at};
use crate::harness::folder;
use crate::harness::git::Bare;
use crate::harness::git_host::{self, GitHost};
use crate::harness::github::{Credentials, World};
use crate::harness::postgres;
use crate::harness::requests::at;

pub(crate) const SECRET: &str = "of-the-webhook-0123456789";

const STORAGE: &str = "THE_DEPLOYER_STORAGE_URL";

/// What has not come to its end by then waits for ever.
const PATIENCE: SignedDuration = SignedDuration::from_hours(24);

/// The program, its GitHub, and the clock they share.
pub(crate) struct Deployer {
    pub(crate) github: World,
    pub(crate) clock: Clock,
    folder: TempDir,
    config: String,
    variables: BTreeMap<String, String>,
    bounds: Option<Bounds>,
    stepped: Option<SteppedApp>,
    /// Where its manifests are, unless they are embedded.
    host: Option<(GitHost, Bare)>,
}

/// Runs the scenario on a fresh SQLite, and on PostgreSQL where that is installed; at its end
/// nothing may be left.
pub(crate) async fn on_both(scenario: impl AsyncFn(&mut Deployer)) {
    on_sqlite(&scenario).await;
    on_postgresql(&scenario).await;
}

/// One half of [`on_both`], for what takes long.
pub(crate) async fn on_sqlite(scenario: impl AsyncFn(&mut Deployer)) {
    on(None, scenario).await;
}

/// The other half.
pub(crate) async fn on_postgresql(scenario: impl AsyncFn(&mut Deployer)) {
    if let Some(url) = postgres::fresh_database().await {
        on(Some(url), scenario).await;
    }
}

async fn on(database: Option<String>, scenario: impl AsyncFn(&mut Deployer)) {
    let mut deployer = Deployer::prepared().await;
    if let Some(url) = database {
        deployer.variable(STORAGE, &url);
    }
    deployer.starts().await;
    scenario(&mut deployer).await;
    deployer.settled().await;
}

/// The program with all its loops, on a database that a test can look into.
pub(crate) struct Running {
    pub(crate) store: Store,
    pub(crate) stop: CancellationToken,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    life: JoinHandle<Result<(), StartError>>,
}

impl Running {
    /// Until it has ended by itself; it was told to stop.
    pub(crate) async fn ended(self) {
        let ended = tokio::time::timeout(Duration::from_mins(1), self.life).await;
        ended.expect("it goes on").unwrap().unwrap();
        self.store.close().await;
    }
}

impl Deployer {
    /// Running, with everything as it is by default but for the forge; by a token.
    pub(crate) async fn start() -> Self {
        let mut deployer = Self::prepared().await;
        deployer.starts().await;
        deployer
    }

    /// Not started yet, so that its configuration can be changed.
    pub(crate) async fn prepared() -> Self {
        let clock = Clock::manual(at(0));
        let github = World::start(&clock).await;
        let config = format!(
            "server:\n  listen: 127.0.0.1:0\n  external_url: https://deploy.example.com\n\
             forge:\n  github:\n    api_url: {}\n    token: {{env: GITHUB_TOKEN}}\n    \
             webhook_secret: {{env: WEBHOOK_SECRET}}\n",
            github.url()
        );
        let variables = [("GITHUB_TOKEN", github.token()), ("WEBHOOK_SECRET", SECRET)].into_iter();
        let variables =
            variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let folder = folder::temporary();
        Self { github, clock, folder, config, variables, bounds: None, stepped: None, host: None }
    }

    /// One on SQLite, and one on PostgreSQL where that is installed.
    pub(crate) async fn prepared_on_both() -> Vec<Self> {
        let mut both = vec![Self::prepared().await];
        if let Some(url) = postgres::fresh_database().await {
            let mut other = Self::prepared().await;
            other.variable(STORAGE, &url);
            both.push(other);
        }
        both
    }

    /// Running, as an App.
    pub(crate) async fn start_as_app() -> Self {
        let mut deployer = Self::prepared().await;
        deployer.acts_as_app();
        deployer.starts().await;
        deployer
    }

    /// From its start on it is an App at GitHub.
    pub(crate) fn acts_as_app(&mut self) {
        let Credentials { id, key } = self.github.app();
        let key = self.file("app.pem", &key);
        self.configure(|config| {
            let app = format!("app: {{id: \"{id}\", private_key: {{file: {key}}}}}");
            config.replace("token: {env: GITHUB_TOKEN}", &app)
        });
    }

    /// Another text of the configuration.
    pub(crate) fn configure(&mut self, change: impl FnOnce(&str) -> String) {
        self.config = change(&self.config);
    }

    /// Bounds on requests that a test can wait for.
    pub(crate) fn limit(&mut self, limits: ServerLimits) {
        self.bounds = Some(Bounds { requests: limits, attempt: None });
    }

    /// Its manifests are on a git host of its own, which has hooks and can refuse.
    pub(crate) async fn pushes_to_host(&mut self) {
        let host = GitHost::start().await;
        let bare = host.create("m.git");
        let url = host.url("m.git");
        self.configure(|config| {
            format!(
                "{config}manifests:\n  repositories:\n  - \
                 {{name: fleet, url: \"{url}\", token: {{env: GIT_TOKEN}}}}\n"
            )
        });
        self.variable("GIT_TOKEN", git_host::TOKEN);
        self.host = Some((host, bare));
    }

    /// The git host of its manifests.
    pub(crate) fn host(&self) -> &GitHost {
        &self.host.as_ref().expect("its manifests are embedded").0
    }

    /// Its database is where other processes can have it too: a start takes nothing over before its
    /// lease has ended.
    pub(crate) fn shares_database(&mut self) {
        if self.postgresql().is_some() {
            return;
        }
        let path = self.folder.path().join("shared.db");
        self.variable(STORAGE, &format!("sqlite:{}", path.display()));
    }

    /// Another process beside it, on the same database and the same git host; events go on coming here.
    pub(crate) async fn another(&self) -> SteppedApp {
        let settings = self.settings_in("state-of-another");
        Box::pin(App::build(settings, self.clock.clone())).await.unwrap().stepped().unwrap()
    }

    /// Runs with all its loops until it is stopped, in place of doing what a test says; from now on
    /// GitHub's events come here.
    pub(crate) async fn runs(&self) -> Running {
        self.runs_with(|_| {}).await
    }

    /// The same with settings that a configuration may not have, so that a test need not wait for long.
    pub(crate) async fn runs_with(&self, change: impl FnOnce(&mut Settings)) -> Running {
        assert!(self.stepped.is_none(), "it runs already");
        let mut settings = self.settings();
        change(&mut settings);
        let database = settings.storage.url.clone();
        let app = self.built(settings).await;
        let address = app.address().unwrap();
        self.github.hooks_to(&format!("http://{address}/webhooks/github"), SECRET);
        let stop = CancellationToken::new();
        let life = tokio::spawn(app.run(stop.clone()));
        Running { store: Store::open(&database).await.unwrap(), stop, address, life }
    }

    /// After how long an attempt is ended, whatever it is at.
    pub(crate) fn end_attempts_after(&mut self, time: Duration) {
        self.bounds = Some(Bounds { requests: ServerLimits::default(), attempt: Some(time) });
    }

    /// Where it listens: `http://HOST:PORT`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.stepped().address())
    }

    /// Of the environment that it starts in.
    pub(crate) fn variable(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    /// The address of its database, where that is PostgreSQL's.
    pub(crate) fn postgresql(&self) -> Option<&str> {
        self.variables.get(STORAGE).map(String::as_str)
    }

    /// A file beside its configuration; the path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// Starts, on what an earlier life left; from now on GitHub's events come here.
    pub(crate) async fn starts(&mut self) {
        assert!(self.stepped.is_none(), "it runs already");
        let app = self.built(self.settings()).await;
        let stepped = app.stepped().unwrap();
        let url = format!("http://{}/webhooks/github", stepped.address());
        self.github.hooks_to(&url, SECRET);
        self.stepped = Some(stepped);
    }

    /// What it is started with.
    pub(crate) fn settings(&self) -> Settings {
        self.settings_in("state")
    }

    fn settings_in(&self, home: &str) -> Settings {
        let sources = SettingsSources {
            file: Some(("config.yaml".to_owned(), self.config.clone())),
            variables: self.variables.clone(),
            home: self.folder.path().join(home),
        };
        let loaded = sources.load().unwrap_or_else(|rejection| panic!("{rejection:?}"));
        loaded.settings
    }

    /// While it is dead, its database is lost: it goes on with an empty one of the same kind.
    pub(crate) async fn loses_its_record(&mut self) {
        assert!(self.stepped.is_none(), "it runs");
        if self.variables.contains_key(STORAGE) {
            let empty = postgres::empty_database().await.expect("there was one");
            self.variable(STORAGE, &empty);
            return;
        }
        for name in ["state.db", "state.db-wal", "state.db-shm"] {
            let _not_there = std::fs::remove_file(self.folder.path().join("state").join(name));
        }
    }

    /// Dies as if it were killed: whatever was under way stays as it is in the database.
    pub(crate) fn dies(&mut self) {
        self.stepped = None;
    }

    /// Works until somebody has come to that point, and dies there.
    pub(crate) async fn dies_when(&mut self, point: impl Future<Output = ()>) {
        let stepped = self.stepped.take().expect("it runs");
        let life = tokio::spawn(async move {
            while stepped.run_once().await.unwrap() > 0 {}
            // It has nothing more to do, and the point was not come to.
            std::future::pending::<()>().await;
            drop(stepped);
        });
        tokio::time::timeout(Duration::from_mins(1), point).await.expect("it never comes there");
        life.abort();
        assert!(life.await.unwrap_err().is_cancelled());
    }

    /// While it is dead, its clones are lost.
    pub(crate) fn forgets_clones(&self) {
        assert!(self.stepped.is_none(), "it runs");
        std::fs::remove_dir_all(self.folder.path().join("state/clones")).unwrap();
    }

    /// While it is dead: it goes on with the clones that another process has of the same
    /// repositories, with none at first; and the other way round the next time.
    pub(crate) fn changes_clones(&self) {
        assert!(self.stepped.is_none(), "it runs");
        let state = self.folder.path().join("state");
        let [ours, theirs, between] = ["clones", "clones-2", "clones-3"].map(|one| state.join(one));
        std::fs::rename(&ours, &between).unwrap();
        let _none_yet = std::fs::rename(&theirs, &ours);
        std::fs::rename(&between, &theirs).unwrap();
    }

    pub(crate) fn stepped(&self) -> &SteppedApp {
        self.stepped.as_ref().expect("it runs")
    }

    /// The manifest repository.
    pub(crate) fn manifests(&self) -> Bare {
        if let Some((_, bare)) = &self.host {
            return bare.clone();
        }
        Bare(self.folder.path().join("state/manifests.git"))
    }

    /// All deployments, oldest first.
    pub(crate) async fn deployments(&self) -> Vec<Deployment> {
        let store = self.stepped().store();
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let page = store.deployments(&Filter::default(), cursor.as_ref(), 500).await.unwrap();
            // A list leaves out what a record has of stages and violations.
            for one in &page.deployments {
                all.push(store.deployment(&one.id).await.unwrap().unwrap());
            }
            cursor = page.next;
            if cursor.is_none() {
                all.reverse();
                return all;
            }
        }
    }

    /// Its record of GitHub's deployment.
    pub(crate) async fn deployment(&self, forge_id: i64) -> Deployment {
        let all = self.deployments().await;
        let found = all.into_iter().find(|one| one.request.forge_id == forge_id);
        found.unwrap_or_else(|| panic!("it does not know deployment {forge_id}"))
    }

    /// Does what can be done now, until there is nothing.
    pub(crate) async fn works(&self) {
        loop {
            self.github.delivered().await;
            if self.stepped().run_once().await.unwrap() == 0 {
                return;
            }
        }
    }

    /// Does everything, moving the clock to when something can be done, until nothing waits; how
    /// long that took by that clock.
    pub(crate) async fn settle(&self) -> SignedDuration {
        let begin = self.clock.now();
        loop {
            self.works().await;
            let now = self.clock.now();
            let Some(due) = self.stepped().due().await.unwrap() else {
                return now.duration_since(begin);
            };
            assert!(
                now.duration_since(begin) <= PATIENCE,
                "after {PATIENCE:#} it still waits until {due}:\n{}",
                self.picture().await
            );
            self.clock.advance(due.duration_since(now).try_into().unwrap());
        }
    }

    /// Does everything that can be done within that time, and moves the clock to its end.
    pub(crate) async fn works_for(&self, time: SignedDuration) {
        let end = self.clock.now() + time;
        loop {
            self.works().await;
            let due = self.stepped().due().await.unwrap();
            let next = due.unwrap_or(end).min(end);
            let now = self.clock.now();
            if now >= end {
                return;
            }
            self.clock.advance(next.duration_since(now).try_into().unwrap());
        }
    }

    /// What waits, for who reads why a test fails.
    async fn picture(&self) -> String {
        let store = self.stepped().store();
        let mut lines = vec![format!("{:?}", store.depth().await.unwrap())];
        for one in self.deployments().await.iter().filter(|one| one.finished_at.is_none()) {
            let (id, number) = (&one.id, one.request.forge_id);
            lines.push(format!("{id} ({number}): {} {}", one.state.as_str(), one.summary));
        }
        for one in store.waiting().await.unwrap() {
            lines.push(format!("{}: {} wait, {} parked", one.family, one.waiting, one.parked));
        }
        let requests = self.github.seen();
        for seen in requests.iter().rev().take(10).rev() {
            lines.push(format!("{} {} {}", seen.at, seen.line, seen.status));
        }
        lines.join("\n")
    }

    /// Every test ends with this: nothing is unread, nothing waits, nothing was given up, and GitHub
    /// has nothing to punish.
    pub(crate) async fn settled(&self) {
        self.works().await;
        let depth = self.stepped().store().depth().await.unwrap();
        let left = (depth.queued, depth.running, depth.unsent, depth.parked);
        assert_eq!(
            left,
            (0, 0, 0, 0),
            "queued, running, unsent, parked:\n{}",
            self.picture().await
        );
        self.manifests().assert_sound();
        self.github.settled();
    }
}

impl Deployer {
    /// Where its database is, to look into and to change by hand.
    pub(crate) fn database(&self) -> Url {
        let sqlite = || format!("sqlite:{}", self.folder.path().join("state/state.db").display());
        Url::of(self.postgresql().map_or_else(sqlite, str::to_owned))
    }
}

impl Deployer {
    /// A connection of somebody else to its database: `BEGIN IMMEDIATE` on it keeps an SQLite from writes.
    pub(crate) async fn another_connection(&self) -> sqlx::AnyConnection {
        sqlx::AnyConnection::connect(&self.database().for_driver()).await.unwrap()
    }

    /// Without GitHub, not started yet: service repositories are in a folder, and deployments are
    /// asked for here. Events may come nevertheless, signed as always.
    pub(crate) async fn prepared_local() -> Self {
        let mut deployer = Self::prepared().await;
        deployer.configure(|config| {
            let (server, _) = config.split_once("forge:\n").unwrap();
            format!("{server}forge:\n  local: {{webhook_secret: {{env: WEBHOOK_SECRET}}}}\n")
        });
        deployer
    }

    /// A service repository where there is no GitHub, made if it is not there.
    pub(crate) fn service_repository(&self, name: &str) -> Bare {
        let folder = self.folder.path().join("state/repos").join(format!("{name}.git"));
        if folder.join("HEAD").is_file() { Bare(folder) } else { Bare::create(&folder) }
    }
}

/// A program that another test starts has whatever this process has open until it is itself, so that
/// the lock on the folder of a life that is over may be held for a moment longer; in milliseconds.
const UNTIL_IT_IS_ITSELF: u64 = 10_000;

impl Deployer {
    async fn built(&self, settings: Settings) -> App {
        Box::pin(place_tables_at(&settings.storage.url)).await;
        for _ in 0..UNTIL_IT_IS_ITSELF {
            let (settings, clock) = (settings.clone(), self.clock.clone());
            let app = match self.bounds {
                Some(bounds) => Box::pin(App::build_within(settings, clock, bounds)).await,
                None => Box::pin(App::build(settings, clock)).await,
            };
            match app {
                Err(StartError::Part { part: "the storage folder", cause })
                    if cause.contains("is in use by another") => {}
                app => return app.unwrap(),
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("the storage folder stays in use");
    }
}
