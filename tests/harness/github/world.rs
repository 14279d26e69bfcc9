//! The verbs of tests about GitHub as a whole: start it, break it, read what it received.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::SignedDuration;
use the_deployer::support::clock::Clock;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::harness::github::app::{Credentials, Grant, Installation, all_permissions};
use crate::harness::github::deliveries::{Hook, Post, Webhooks};
use crate::harness::github::faults::Fault;
use crate::harness::github::jwt;
use crate::harness::github::server::{self, Hub};
use crate::harness::github::state::{Level, Repo, Seen, State};
use crate::harness::github::verbs::Repository;

/// The personal token that this GitHub knows; it may do everything but write check runs.
const TOKEN: &str = "ghp_tokenOfTheDeployer0123456789ABCDEFGH";

/// A GitHub on loopback; it ends when this is dropped, which must be after [`World::settled`].
pub(crate) struct World {
    pub(super) hub: Hub,
    server: tokio::task::JoinHandle<()>,
    pub(super) looked_at: AtomicBool,
}

impl World {
    /// Starts at the time of that clock, which the test moves.
    pub(crate) async fn start(clock: &Clock) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let mut state = State::new(clock.clone());
        let of_the_deployer = Grant::Personal { login: "deployer-bot".to_owned() };
        state.grants.insert(TOKEN.to_owned(), of_the_deployer);
        let state = Arc::new(Mutex::new(state));
        let (changes, gate) = (watch::Sender::new(0), watch::Sender::new(()));
        let hub = Hub { post: Post::new(Arc::clone(&state)), state, origin, changes, gate };
        let server = tokio::spawn(server::serve(listener, hub.clone()));
        Self { hub, server, looked_at: AtomicBool::new(false) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.hub.state.lock().unwrap();
        server::catch_up(&mut state);
        state
    }

    /// As of github.com.
    pub(crate) fn url(&self) -> String {
        self.hub.origin.clone()
    }

    /// As of an Enterprise Server.
    pub(crate) fn api_url(&self) -> String {
        format!("{}/api/v3", self.hub.origin)
    }

    /// A personal token: everything but writing check runs.
    #[expect(clippy::unused_self, reason = "it is this world's, as its App's key is")]
    pub(crate) fn token(&self) -> &'static str {
        TOKEN
    }

    /// What to authenticate as the App with. It is installed at each owner of a repository.
    pub(crate) fn app(&self) -> Credentials {
        Credentials { id: self.state().app.id, key: jwt::private_key() }
    }

    /// The repository of that name, which is made with an empty first commit if it is not there;
    /// private, and the App installed at its owner.
    pub(crate) fn repository(&self, full_name: &str) -> Repository<'_> {
        let known = self.state().by_name(full_name);
        let id = known.unwrap_or_else(|| make(&mut self.state(), full_name));
        Repository { world: self, id }
    }

    /// Events go to that address from now on, signed with the secret; what is held, stays held.
    pub(crate) fn hooks_to(&self, url: &str, secret: &str) {
        let (mut state, url, secret) = (self.state(), url.to_owned(), secret.to_owned());
        match &mut state.hook {
            Some(hook) => (hook.url, hook.secret) = (url, secret),
            None => state.hook = Some(Hook::new(url, secret)),
        }
    }

    /// What becomes of events from now on.
    pub(crate) fn webhooks(&self, mode: Webhooks) {
        self.state().hook.as_mut().expect("hooks_to comes first").mode = mode;
    }

    /// Delivers what was held, one after the other: `&[1, 0]` is the second first.
    pub(crate) async fn release(&self, order: &[usize]) {
        self.hub.post.release(order).await;
    }

    /// Until no event is on its way any more.
    pub(crate) async fn delivered(&self) {
        self.hub.post.send_what_came_of_it(&mut self.state());
        self.hub.post.arrived().await;
    }

    /// The status codes of the service's answers to deliveries, oldest first.
    pub(crate) fn answers(&self) -> Vec<u16> {
        self.state().deliveries.iter().map(|delivery| delivery.status_code).collect()
    }

    /// The next so many requests with all these words in `METHOD path` meet the fault; `""` is any.
    ///
    /// What was ordered and does not come to be fails the test.
    pub(crate) fn fails(&self, times: u32, words: &str, fault: Fault) {
        self.state().faults.order(times, words, fault);
    }

    /// The same of one request, after so many that are answered as they should be.
    pub(crate) fn fails_after(&self, skip: u32, words: &str, fault: Fault) {
        self.state().faults.order_after(skip, 1, words, fault);
    }

    /// Ends when a fault that was ordered for these words has come to be.
    pub(crate) fn met(&self, words: &str) -> impl Future<Output = ()> + use<> {
        let (hub, words) = (self.hub.clone(), words.to_owned());
        async move {
            let pending = || hub.state.lock().unwrap().faults.is_ordered(&words);
            hub.changes.subscribe().wait_for(|_| !pending()).await.unwrap();
        }
    }

    /// Ends when there have been so many requests with all these words in their line.
    pub(crate) async fn asked(&self, times: usize, words: &str) {
        let enough = |_: &u64| self.count(words) >= times;
        self.hub.changes.subscribe().wait_for(enough).await.unwrap();
    }

    /// What meets [`Fault::Held`] is worked on now.
    pub(crate) fn lets_go(&self) {
        self.hub.gate.send_replace(());
    }

    /// Answers 502 to everything, until the clock has moved so far.
    pub(crate) fn down_for(&self, time: Duration) {
        let mut state = self.state();
        let until = state.now() + SignedDuration::try_from(time).unwrap();
        state.faults.down(until);
    }

    /// Commits and deployments that come to be from now on are 404 for so many looks.
    pub(crate) fn late(&self, looks: u32) {
        self.state().late = looks;
    }

    /// What may be asked in an hour.
    pub(crate) fn hourly(&self, most: u64) {
        self.state().limits.hourly = most;
    }

    /// A person, and the e-mail address that is public of it.
    pub(crate) fn person(&self, login: &str, email: Option<&str>) {
        self.state().people.insert(login.to_owned(), email.map(str::to_owned));
    }

    /// The App at that owner is suspended, or not any more.
    pub(crate) fn suspended(&self, owner: &str, suspended: bool) {
        change(&mut self.state(), owner, |one| one.suspended = suspended);
    }

    /// The owner takes a permission back.
    pub(crate) fn forbids(&self, owner: &str, permission: &str) {
        change(&mut self.state(), owner, |one| {
            one.permissions.remove(permission);
        });
    }

    /// The owner gives a permission: `"read"` or `"write"`.
    pub(crate) fn allows(&self, owner: &str, permission: &str, level: &str) {
        let level = Level::parse(level).unwrap();
        change(&mut self.state(), owner, |one| {
            one.permissions.insert(permission.to_owned(), level);
        });
    }

    /// The owner removes the App; its tokens end with it.
    pub(crate) fn uninstalled(&self, owner: &str) {
        let mut state = self.state();
        let id = state.app.at(owner).expect("it is installed there").id;
        state.app.installations.remove(&id);
    }

    /// Every token that was given out ends now, as when a key leaks; and the personal one too.
    pub(crate) fn revokes_tokens(&self) {
        self.state().grants.clear();
    }

    /// Somebody deletes the App's keys.
    pub(crate) fn deletes_keys(&self) {
        self.state().app.without_keys = true;
    }

    /// The states that were told of a deployment, oldest first; GitHub's own `inactive` too.
    pub(crate) fn told(&self, deployment: i64) -> Vec<String> {
        self.statuses(deployment).into_iter().map(|one| one.0).collect()
    }

    /// State, description and link of each status of a deployment, oldest first.
    pub(crate) fn statuses(&self, deployment: i64) -> Vec<(String, String, String)> {
        let state = self.state();
        let found = state.repo_of(deployment).deployments.iter().find(|one| one.id == deployment);
        let statuses = &found.unwrap().statuses;
        statuses
            .iter()
            .map(|one| (one.state.clone(), one.description.clone(), one.log_url.clone()))
            .collect()
    }

    /// Whether GitHub takes a deployment's environment for a production one.
    pub(crate) fn is_production(&self, deployment: i64) -> bool {
        let state = self.state();
        let all = &state.repo_of(deployment).deployments;
        all.iter().any(|one| one.id == deployment && one.production)
    }

    /// The address of the app in each status of a deployment, oldest first; empty for none.
    pub(crate) fn environment_urls(&self, deployment: i64) -> Vec<String> {
        let state = self.state();
        let found = state.repo_of(deployment).deployments.iter().find(|one| one.id == deployment);
        found.unwrap().statuses.iter().map(|one| one.environment_url.clone()).collect()
    }

    /// That this deployment has no end is what the test is about.
    pub(crate) fn left_open(&self, deployment: i64) {
        self.state().left_open.insert(deployment);
    }

    /// Every request so far: `POST repos/acme/web/deployments/7/statuses`, its answer's status
    /// (0: none), and the time.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state().seen.clone()
    }

    /// How many requests with all these words in their line there were so far.
    pub(crate) fn count(&self, words: &str) -> usize {
        let fits = |seen: &&Seen| words.split(' ').all(|word| seen.line.contains(word));
        self.state().seen.iter().filter(fits).count()
    }

    /// The most calls that made something in any minute of the clock.
    pub(crate) fn busiest_minute(&self) -> usize {
        self.state().limits.busiest_minute
    }
}

impl World {
    /// The most calls that made something in any hour of the clock, of one account.
    pub(crate) fn busiest_hour(&self) -> usize {
        self.state().limits.busiest_hour
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.server.abort();
        let checked = self.looked_at.load(Ordering::SeqCst) || std::thread::panicking();
        assert!(checked, "the test ends without looking whether GitHub is settled()");
    }
}

fn change(state: &mut State, owner: &str, change: impl FnOnce(&mut Installation)) {
    let id = state.app.at(owner).expect("a repository of that owner comes first").id;
    change(state.app.installations.get_mut(&id).unwrap());
}

fn make(state: &mut State, full_name: &str) -> i64 {
    let id = state.next_id();
    let (owner, _) = full_name.split_once('/').expect("owner/name");
    if state.app.at(owner).is_none() {
        let number = state.next_id();
        let installation = Installation {
            id: number,
            account: owner.to_owned(),
            suspended: false,
            permissions: all_permissions(),
            selected: None,
        };
        state.app.installations.insert(number, installation);
    }
    let repo = Repo {
        id,
        full_name: full_name.to_owned(),
        private: true,
        archived: false,
        commits: [].into(),
        branches: [].into(),
        deployments: Vec::new(),
        statuses: Vec::new(),
        checks: Vec::new(),
        pulls: Vec::new(),
        comments: Vec::new(),
    };
    state.repositories.insert(id, repo);
    crate::harness::github::repositories::first_commit(state, id);
    id
}
