//! A day at a company with forty apps on two targets, played by chance, against a small model of
//! what should be: whatever happens, the store, the repository and GitHub agree with it in the end.
//!
//! `THE_DEPLOYER_TEST_SEED=N` plays the day of that seed again; it is printed at the begin.

mod model; // what should be
mod verdict; // what is, held against it

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value as Json, json};
use the_deployer::model::id::LockId;
use the_deployer::model::lock::{Lock, LockScope};
use the_deployer::store::{LockPlacement, Reply};

use crate::harness::deployer::{Deployer, on_postgresql, on_sqlite};
use crate::harness::github::{Ask, Fault};
use crate::harness::process::client;
use crate::harness::random::Random;
use crate::harness::requests::entry;
use crate::scenarios::day::model::{Asked, Lane, Model};

const APPS: usize = 40;
const TARGETS: [&str; 2] = ["prod-cluster-1", "prod-cluster-2"];
/// The fewest deployments of a day.
const DEPLOYMENTS: usize = 400;
const ROLLBACKS: usize = 20;
/// The most deployments that come before anybody works on one.
const AT_ONCE: usize = 8;
/// The most locks at a time: a company that is locked all day deploys nothing.
const LOCKS: usize = 4;

/// What is played, and what should come of it.
struct Day<'d> {
    deployer: &'d mut Deployer,
    random: Random,
    model: Model,
    /// How many deployments were asked for, rollbacks done, and locks placed or taken away.
    asked: usize,
    rollbacks: usize,
    locks: u32,
}

#[tokio::test]
async fn four_hundred_deployments_end_as_the_model_says() {
    on_sqlite(play).await;
}

#[tokio::test]
async fn and_on_postgresql() {
    on_postgresql(play).await;
}

async fn play(deployer: &mut Deployer) {
    let seed = Random::seed();
    eprintln!("THE_DEPLOYER_TEST_SEED={seed}");
    for app in 0..APPS {
        deployer.github.repository(&repository(app)).commit(&waml(app));
    }
    let random = Random::new(seed);
    let (model, asked, rollbacks, locks) = (Model::default(), 0, 0, 0);
    let mut day = Day { deployer, random, model, asked, rollbacks, locks };
    day.passes().await;
    day.holds().await;
    eprintln!("{}", day.model.summary());
}

fn repository(app: usize) -> String {
    format!("example/app-{app}")
}

fn owner(app: usize) -> String {
    format!("squad-{}@example.com", app % 4)
}

fn waml(app: usize) -> String {
    format!(
        "schema: \"2\"\nname: App {app}\nslug: app-{app}\nowner: {}\nnamespace: devx\ndeploy:\n  \
         {}: {{}}\n  {}: {{}}\n",
        owner(app),
        TARGETS[0],
        TARGETS[1]
    )
}

impl Day<'_> {
    async fn passes(&mut self) {
        let begin = std::time::Instant::now();
        let mut crashes = vec![
            // Somebody is read from, and somebody is told.
            (DEPLOYMENTS * 2 / 3, "POST deployments statuses", Fault::SilentAfter),
            (DEPLOYMENTS / 3, "GET contents", Fault::SilentBefore),
        ];
        while self.asked < DEPLOYMENTS || self.rollbacks < ROLLBACKS || self.model.lacks().is_some()
        {
            assert!(
                self.asked <= 3 * DEPLOYMENTS,
                "no day comes of it: {}",
                self.model.lacks().unwrap_or("rollbacks")
            );
            // Revisions of one millisecond have no order.
            self.deployer.clock.advance(Duration::from_secs(1));
            match self.random.below(100) {
                0..60 => self.deployments().await,
                60..75 => self.roll_back().await,
                75..83 => self.lock().await,
                83..93 => self.unlock().await,
                _ => self.time_passes(),
            }
            if crashes.last().is_some_and(|(at, _, _)| self.asked >= *at) {
                let (_, words, fault) = crashes.pop().unwrap();
                self.crash(words, fault).await;
            }
            self.deployer.settle().await;
        }
        eprintln!("the day took {:?}", begin.elapsed());
    }

    /// Some at once, several of one lane among them now and then.
    async fn deployments(&mut self) {
        self.ask().await;
        self.deployer.works().await;
    }

    async fn ask(&mut self) {
        let now = self.deployer.clock.now();
        let many = 1 + self.random.below(AT_ONCE);
        let mut batch = Vec::new();
        for _ in 0..many {
            self.asked += 1;
            let lane = Lane { app: self.random.below(APPS), target: self.random.below(2) };
            let again = self.model.live_tag(lane).filter(|_| self.random.below(10) == 0);
            let tag = again.unwrap_or_else(|| format!("d{:04}", self.asked));
            let automatic = self.random.below(4) == 0;
            let actor = if automatic { "github-actions[bot]" } else { "octocat" };
            let ask = Ask { actor: actor.to_owned(), ..Ask::new(TARGETS[lane.target], &tag) };
            let number = self.deployer.github.repository(&repository(lane.app)).asks(ask).await;
            batch.push(Asked { lane, number, tag, automatic });
        }
        self.model.asked(&batch, now);
    }

    /// To the revision before the live one, or to a named one, where nothing speaks against it.
    async fn roll_back(&mut self) {
        let lanes = self.model.can_be_rolled_back(self.deployer.clock.now());
        if lanes.is_empty() || self.rollbacks == ROLLBACKS {
            return;
        }
        let lane = lanes[self.random.below(lanes.len())];
        let known = &self.model.lanes[&lane];
        let (others, before) = (known.others(), known.before_live().unwrap());
        let (to, named) = if self.random.below(2) == 0 {
            (before, None)
        } else {
            let to = others[self.random.below(others.len())].clone();
            let id = self.deployer.deployment(to.0).await.id.to_string();
            (to, Some(id))
        };
        let (address, app) = (self.deployer.stepped().address(), lane.app());
        let target = TARGETS[lane.target];
        let url = format!("http://{address}/api/v1/apps/{target}/{app}/rollback");
        let ask = json!({"to": named, "reason": "it was slow"});
        let answer = client().post(url).json(&ask).send().await.unwrap();
        let (status, said) = (answer.status(), answer.json::<Json>().await.unwrap());
        assert_eq!(status, 202, "{said}");
        assert_eq!((&said["to"]["tag"], &said["hold"]), (&json!(to.1), &json!(true)), "{said}");
        self.deployer.settle().await;
        let id = said["deployment"]["id"].as_str().unwrap();
        let all = self.deployer.deployments().await;
        let done = all.iter().find(|one| one.id.as_str() == id).unwrap();
        let number = done.request.number().expect("GitHub has been told");
        self.rollbacks += 1;
        self.model.rolled_back(lane, to, number);
    }

    /// Whoever is at something dies there, and another process goes on with what it left.
    async fn crash(&mut self, words: &str, fault: Fault) {
        // What a lock stops is decided at another time after a crash: none may end in between.
        self.deployer.clock.advance(Duration::from_hours(1));
        self.model.end_locks(self.deployer.clock.now());
        self.deployer.github.fails(1, words, fault);
        let met = self.deployer.github.met(words);
        self.ask().await;
        self.deployer.dies_when(met).await;
        self.deployer.starts().await;
        self.deployer.settle().await;
    }

    async fn lock(&mut self) {
        if self.model.locks.len() >= LOCKS {
            return self.unlock().await;
        }
        self.locks += 1;
        let now = self.deployer.clock.now();
        let lane = Lane { app: self.random.below(APPS), target: self.random.below(2) };
        let target = || TARGETS[lane.target].parse().unwrap();
        let scope = match self.random.below(20) {
            0 => LockScope::Everything,
            1 | 2 => LockScope::Target(target()),
            3..6 => LockScope::Owner(owner(lane.app)),
            _ => LockScope::App(target(), lane.app()),
        };
        let half_an_hour = SignedDuration::from_mins(30);
        let until = (self.random.below(2) == 0).then(|| now.checked_add(half_an_hour).unwrap());
        let (by, reason) = ("jo".to_owned(), "the fair".to_owned());
        let lock = Lock { scope, reason, by, since: now, until };
        let id = LockId::parse(format!("{:08x}", self.locks)).unwrap();
        let entry = entry("lock", i64::from(self.locks), "jo", "the fair", now);
        let placed =
            self.deployer.stepped().store().add_lock(&id, &lock, &entry, None).await.unwrap();
        assert_eq!(placed, LockPlacement::Yes);
        self.model.locks.push((id, lock));
    }

    async fn unlock(&mut self) {
        let now = self.deployer.clock.now();
        self.model.end_locks(now);
        if self.model.locks.is_empty() {
            return;
        }
        let (id, _) = self.model.locks.remove(self.random.below(self.model.locks.len()));
        self.locks += 1;
        let entry = entry("unlock", i64::from(self.locks), "jo", "it is over", now);
        let unlocked = self
            .deployer
            .stepped()
            .store()
            .remove_lock(&id, &entry, &Reply::without_key())
            .await
            .unwrap();
        assert!(matches!(unlocked, the_deployer::store::Unlocked::Yes(_)), "{unlocked:?}");
    }

    fn time_passes(&mut self) {
        let minutes = u64::try_from(1 + self.random.below(90)).unwrap();
        self.deployer.clock.advance(Duration::from_mins(minutes));
    }
}
