//! Several real processes on one PostgreSQL: they share queue, leases, outbox and locks, and one
//! that is killed or stands still in the middle of anything loses and doubles nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value as Json, json};
use sqlx::AnyPool;
use the_deployer::support::clock::Clock;

use crate::harness::events::{Delivery, Event, waml};
use crate::harness::git::Bare;
use crate::harness::git_host::{GitHost, TOKEN};
use crate::harness::github::{Fault, World};
use crate::harness::postgres;
use crate::harness::process::{Held, Home, Process};

const SECRET: &str = "of-the-webhook-0123456789";
const TARGET: &str = "prod-cluster-1";

/// What all replicas share.
pub(super) struct Shared {
    pub(super) database: String,
    pub(super) host: GitHost,
    pub(super) bare: Bare,
}

impl Shared {
    /// `None` where PostgreSQL is not installed, which is said.
    pub(super) async fn start() -> Option<Self> {
        let database = postgres::fresh_database().await?;
        let host = GitHost::start().await;
        let bare = host.create("m.git");
        Some(Self { database, host, bare })
    }

    /// A home for one replica.
    fn home(&self, forge: &str) -> Home {
        self.home_at(&self.database, forge, "")
    }

    /// The same with its own way to the database, and more said of the manifest repository.
    fn home_at(&self, database: &str, forge: &str, more: &str) -> Home {
        let home = Home::configured(&format!(
            "storage: {{url: \"{database}\"}}\nforge:\n{forge}\nmanifests:\n  repositories:\n  - \
             {{name: fleet, url: \"{}\", token: {{file: token}}{more}}}\n",
            self.host.url("m.git")
        ));
        std::fs::write(home.path("token"), TOKEN).unwrap();
        std::fs::create_dir(home.state("")).unwrap();
        std::fs::write(home.state("webhook-secret"), SECRET).unwrap();
        home
    }

    fn on_github(&self, github: &World) -> Home {
        let home = self.home(&format!(
            "  github:\n    api_url: {}\n    token: {{file: forge-token}}\n    webhook_secret: \
             {{file: .the-deployer/webhook-secret}}",
            github.url()
        ));
        std::fs::write(home.path("forge-token"), github.token()).unwrap();
        home
    }

    /// With the service repositories in the folder of another home.
    pub(super) fn beside(&self, other: &Home) -> Home {
        self.home(&forge_of(other))
    }

    /// The same with its own way to the database, and so many pushes a minute, none of them at once.
    pub(super) fn slow_beside(&self, other: &Home, database: &str, per_minute: u32) -> Home {
        let budget = format!(", push_budget: {{per_minute: {per_minute}, burst: 1}}");
        self.home_at(database, &forge_of(other), &budget)
    }

    /// As time would do it: what was left behind is nobody's any more.
    async fn later(&self, sql: &'static str) {
        sqlx::any::install_default_drivers();
        let pool = AnyPool::connect(&self.database).await.unwrap();
        sqlx::query(sql).execute(&pool).await.unwrap();
        pool.close().await;
    }

    /// The deploy ids of the commits, oldest first.
    pub(super) fn written(&self) -> Vec<String> {
        let format = "--format=%(trailers:key=Deploy-Id,valueonly,separator=%x20)";
        let log = self.bare.run(&["log", "--reverse", format, "main"]);
        log.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }
}

fn forge_of(other: &Home) -> String {
    format!("  local: {{root: \"{}\"}}", other.state("repos").display())
}

/// The one deployment there is, which has ended well, once, and of which everybody heard once.
async fn went_well(process: &Process, shared: &Shared, github: &World, number: i64) {
    let id = process.deployments().await[0]["id"].as_str().unwrap().to_owned();
    let done = process.ended(&id).await;
    assert_eq!(done["state"], "succeeded", "{done}\n{}", process.log());
    assert_eq!(shared.written(), [id.as_str()], "one commit");
    let told = github.told(number);
    let mut once = told.clone();
    once.dedup();
    assert_eq!(told, once, "each state once");
    assert_eq!(told.last().map(String::as_str), Some("success"), "{told:?}");
    shared.bare.assert_sound();
}

/// One replica dies at that word of its log or shortly after, while the other stands by.
async fn dies_at(point: &str) {
    let Some(shared) = Shared::start().await else { return };
    let github = World::start(&Clock::system()).await;
    let shop = github.repository("example/shop");
    shop.commit(&waml("shop"));
    let (first, second) = (shared.on_github(&github), shared.on_github(&github));
    let other = second.start().await;
    // So that it is the first one who takes the work.
    other.pause();
    let doomed = first.start_doomed(&format!("\"{point}")).await;
    github.hooks_to(&format!("{}/webhooks/github", doomed.address()), SECRET);
    let number = shop.deploys(TARGET, "v1").await;
    eprintln!("{point}: its last word was {:?}", doomed.dead().await);
    other.go_on();
    went_well(&other, &shared, &github, number).await;
    other.kill();
    github.settled();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_is_killed_in_a_stage_and_another_finishes() {
    join_all(["fetch begins", "facts begins", "push begins"].map(dies_at)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_is_killed_after_the_push_and_another_finds_it() {
    join_all(["push took", "deployment succeeded"].map(dies_at)).await;
}

#[tokio::test]
async fn one_is_killed_while_it_tells_and_another_looks_before_it_tells_again() {
    let Some(shared) = Shared::start().await else { return };
    let github = World::start(&Clock::system()).await;
    let shop = github.repository("example/shop");
    shop.commit(&waml("shop"));
    let (first, second) = (shared.on_github(&github), shared.on_github(&github));
    let other = second.start().await;
    other.pause();
    let doomed = first.start().await;
    github.hooks_to(&format!("{}/webhooks/github", doomed.address()), SECRET);
    github.fails(1, "POST deployments statuses", Fault::SilentAfter);
    let met = github.met("POST deployments statuses");
    let number = shop.deploys(TARGET, "v1").await;
    met.await;
    doomed.kill();
    // It holds the message for two minutes; by then, nobody does.
    shared.later("UPDATE outbox SET due_at = 0 WHERE outcome IS NULL").await;
    other.go_on();
    went_well(&other, &shared, &github, number).await;
    other.kill();
    github.settled();
}

/// A replica that stands still in the middle of its push is taken for dead. When it goes on, its
/// push is too late, and whatever it records is refused.
#[tokio::test]
async fn one_that_stands_still_in_its_push_comes_back_and_changes_nothing() {
    let Some(shared) = Shared::start().await else { return };
    let github = World::start(&Clock::system()).await;
    let shop = github.repository("example/shop");
    shop.commit(&waml("shop"));
    let held = Held::first_push(&shared.bare, "pre-receive");
    let (first, second) = (shared.on_github(&github), shared.on_github(&github));
    let slow = first.start().await;
    github.hooks_to(&format!("{}/webhooks/github", slow.address()), SECRET);
    let number = shop.deploys(TARGET, "v1").await;
    held.reached().await;
    slow.pause();
    let other = second.start().await;
    went_well(&other, &shared, &github, number).await;
    held.let_go();
    slow.go_on();
    shared.host.idle().await;
    // It answers again: by then it has done with what it was at, or learns that it has lost it.
    assert_eq!(slow.get("/healthz").await.0, 200);
    went_well(&slow, &shared, &github, number).await;
    assert_eq!(slow.deployment(&shared.written()[0]).await["attempts"], 2);
    slow.kill();
    other.kill();
    github.settled();
}

/// Thirty-six deployments over twelve apps and three replicas, one of which is killed when a third
/// of them is pushed. Events that nobody answered are delivered again, as GitHub's are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_share_the_work_and_one_of_them_is_killed() {
    const APPS: usize = 12;
    const DEPLOYMENTS: i64 = 36;
    let Some(shared) = Shared::start().await else { return };
    let forge = Home::embedded();
    let homes = [shared.beside(&forge), shared.beside(&forge), shared.beside(&forge)];
    let commits: Vec<String> = (0..APPS)
        .map(|app| forge.commit(&format!("example/app-{app}"), &waml(&format!("app-{app}"))))
        .collect();
    // One worker each, so that nobody can do it all.
    let workers = [("THE_DEPLOYER_LIMITS_WORKERS", "1")];
    let mut replicas = join_all(homes.iter().map(|home| home.start_with(&workers))).await;
    let mut ids = BTreeSet::new();
    for number in 1..=DEPLOYMENTS {
        let app = usize::try_from(number).unwrap() % APPS;
        let event = Event::new(number, &format!("app-{app}"), &commits[app]);
        let to = usize::try_from(number).unwrap() % replicas.len();
        let answer = Delivery::of(&event, SECRET).send(&replicas[to]).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        ids.insert(answer.json()["id"].as_str().unwrap().to_owned());
        if number == 12 {
            let killed = replicas.remove(0);
            killed
                .until("its first success", async || {
                    killed.log().contains("deployment succeeded").then_some(())
                })
                .await;
            killed.kill();
        }
    }
    assert_eq!(ids.len(), 36, "no two events became one deployment");
    let mut states: BTreeMap<String, usize> = BTreeMap::new();
    let mut succeeded = BTreeSet::new();
    for id in &ids {
        let done = replicas[0].ended(id).await;
        *states.entry(done["state"].as_str().unwrap().to_owned()).or_default() += 1;
        if done["state"] == "succeeded" {
            succeeded.insert(id.clone());
        }
    }
    let known = ["succeeded", "superseded"];
    assert!(states.keys().all(|state| known.contains(&state.as_str())), "{states:?}");
    let written = shared.written();
    assert_eq!(written.iter().cloned().collect::<BTreeSet<_>>(), succeeded, "one commit of each");
    assert_eq!(written.len(), succeeded.len());
    for replica in &replicas {
        assert!(replica.log().contains("deployment succeeded"), "it has done nothing");
        let (ready, text) = replica.get("/readyz").await;
        assert_eq!(ready, 200, "{text}");
    }
    let [one, other] = &replicas[..] else { panic!() };
    assert_eq!(one.deployments().await, other.deployments().await, "the same answers");
    for app in 0..APPS {
        let folder = format!("manifests/{TARGET}/devx/app-{app}");
        let newest = written
            .iter()
            .rev()
            .find(|id| shared.bare.files().contains_key(&format!("{folder}/{id}/deployment.yaml")));
        let newest = newest.unwrap();
        let tree = |path: &str| shared.bare.object(&format!("{folder}/{path}"));
        assert_eq!(tree("latest"), tree(newest));
    }
    shared.bare.assert_sound();
}

#[tokio::test]
async fn a_lock_that_one_knows_the_others_keep() {
    let Some(shared) = Shared::start().await else { return };
    let forge = Home::embedded();
    let homes = [shared.beside(&forge), shared.beside(&forge)];
    let commit = forge.commit("example/shop", &waml("shop"));
    let replicas = join_all(homes.iter().map(Home::start)).await;
    let operator = |home: &Home, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_the-deployer"));
        command.current_dir(home.path("")).env_clear().args(arguments);
        let output = command.args(["--config", "config.yaml"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let why = ["--reason", "the fair", "--by", "jo"];
    let placed = operator(&homes[0], &[&["lock", "--target", TARGET], &why[..]].concat());
    let lock = placed.lines().next().unwrap().rsplit(' ').next().unwrap().to_owned();
    for (number, replica) in (1..).zip(&replicas) {
        let id = Event::new(number, "shop", &commit).accepted(replica).await;
        let refused = replica.ended(&id).await;
        assert_eq!(refused["state"], "failed", "{refused}");
        assert!(refused["violations"].to_string().contains("the fair"), "{refused}");
    }
    operator(&homes[1], &[&["unlock", &lock], &why[..]].concat());
    let id = Event::new(9, "shop", &commit).accepted(&replicas[0]).await;
    assert_eq!(replicas[1].ended(&id).await["state"], "succeeded");
    assert_eq!(shared.written(), [id]);
}

#[tokio::test]
async fn one_is_killed_in_a_removal_and_another_finds_out_how_it_ended() {
    for hook in ["pre-receive", "post-receive"] {
        let Some(shared) = Shared::start().await else { return };
        let forge = Home::embedded();
        let homes = [shared.beside(&forge), shared.beside(&forge)];
        let commit = forge.commit("example/shop", &waml("shop"));
        let [doomed, other] = [homes[0].start().await, homes[1].start().await];
        let event = Event::new(1, "shop", &commit);
        let id = event.accepted(&doomed).await;
        assert_eq!(doomed.ended(&id).await["state"], "succeeded");
        let held = Held::first_push(&shared.bare, hook);
        let path = format!("/api/v1/apps/{TARGET}/devx/shop/remove");
        let ask = |process: &Process| {
            process.request(Method::POST, &path).json(&json!({"reason": "moved"})).send()
        };
        let asked = tokio::spawn(ask(&doomed));
        held.reached().await;
        doomed.kill();
        assert!(asked.await.unwrap().is_err(), "nobody answered");
        held.let_go();
        shared.host.idle().await;
        // Nothing of the app happens while nobody knows how it ended.
        let busy = ask(&other).await.unwrap();
        assert_eq!(busy.status(), 409, "{}", busy.text().await.unwrap());
        shared.later("UPDATE acts SET due_at = 0 WHERE finished_at IS NULL").await;
        let settled = ask(&other).await.unwrap();
        assert_eq!(settled.status(), 200);
        let said: Json = settled.json().await.unwrap();
        assert!(
            ["removed", "already-removed"].contains(&said["outcome"].as_str().unwrap()),
            "{said}"
        );
        assert!(!shared.bare.files().keys().any(|path| path.contains("shop")));
        assert_eq!(shared.bare.commits(), 2, "{hook}: one removal");
        let again = Event { number: 2, ..event }.accepted(&other).await;
        assert_eq!(other.ended(&again).await["state"], "succeeded");
        shared.bare.assert_sound();
    }
}
