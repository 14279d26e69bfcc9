//! A day at a company with forty apps on two targets, played by chance, against a small model of
//! what should be: whatever happens, the store, the repository and GitHub agree with it in the end.
//!
//! `THE_DEPLOYER_TEST_SEED=N` plays the day of that seed again; it is printed at the begin.

mod model; // what should be
mod verdict; // what is, held against it

use std::time::Duration;

use jiff::SignedDuration;
use the_deployer::model::lock::{Lock, LockId, LockScope};
use the_deployer::store::Locked;

use crate::harness::deployer::{Deployer, on_both};
use crate::harness::github::Fault;
use crate::harness::random::Random;
use crate::harness::requests::entry;
use crate::scenarios::day::model::{Lane, Model};

const APPS: usize = 40;
const TARGETS: [&str; 2] = ["prod-cluster-1", "prod-cluster-2"];
const DEPLOYMENTS: usize = 400;
/// The most deployments that come before anybody works on one.
const AT_ONCE: usize = 8;
/// The most locks at a time: a company that is locked all day deploys nothing.
const LOCKS: usize = 4;

/// What is played, and what should come of it.
struct Day<'d> {
    deployer: &'d mut Deployer,
    random: Random,
    model: Model,
    /// How many deployments were asked for, and locks placed.
    asked: usize,
    locks: u32,
}

#[tokio::test]
async fn four_hundred_deployments_end_as_the_model_says() {
    let seed = Random::seed();
    eprintln!("THE_DEPLOYER_TEST_SEED={seed}");
    on_both(async |deployer| {
        for app in 0..APPS {
            deployer.github.repository(&repository(app)).commit(&waml(app));
        }
        let random = Random::new(seed);
        let mut day = Day { deployer, random, model: Model::default(), asked: 0, locks: 0 };
        day.passes().await;
        let begin = std::time::Instant::now();
        day.holds().await;
        eprintln!("{} | looked at in {:?}", day.model.summary(), begin.elapsed());
    })
    .await;
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
        while self.asked < DEPLOYMENTS {
            match self.random.below(100) {
                0..70 => self.deployments().await,
                70..82 => self.lock().await,
                82..92 => self.unlock().await,
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
        for _ in 0..many.min(DEPLOYMENTS - self.asked) {
            self.asked += 1;
            let lane = Lane { app: self.random.below(APPS), target: self.random.below(2) };
            let again = self.model.live_tag(lane).filter(|_| self.random.below(10) == 0);
            let tag = again.unwrap_or_else(|| format!("d{:04}", self.asked));
            let repository = self.deployer.github.repository(&repository(lane.app));
            let number = repository.deploys(TARGETS[lane.target], &tag).await;
            batch.push((lane, number, tag));
        }
        self.model.asked(&batch, now);
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
        let entry = entry("lock", 1_000_000 + i64::from(self.locks), "jo", "the fair", now);
        let placed = self.deployer.hands().store().add_lock(&id, &lock, &entry).await.unwrap();
        assert_eq!(placed, Locked::Yes);
        self.model.locks.push((id, lock));
    }

    async fn unlock(&mut self) {
        let now = self.deployer.clock.now();
        self.model.end_locks(now);
        if self.model.locks.is_empty() {
            return;
        }
        let (id, _) = self.model.locks.remove(self.random.below(self.model.locks.len()));
        let store = self.deployer.hands().store();
        let number = i64::from_str_radix(id.as_str(), 16).unwrap();
        let entry = entry("unlock", 2_000_000 + number, "jo", "it is over", now);
        let unlocked = store.remove_lock(&id, &entry).await.unwrap();
        assert!(matches!(unlocked, the_deployer::store::Unlocked::Yes(_)), "{unlocked:?}");
    }

    fn time_passes(&mut self) {
        let minutes = u64::try_from(1 + self.random.below(90)).unwrap();
        self.deployer.clock.advance(Duration::from_mins(minutes));
    }
}
