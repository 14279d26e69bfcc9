//! The loop of previews over a real database, check runs in memory and a clock moved by hand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use the_deployer::clock::Clock;
use the_deployer::controller::outside::{Problem, Remedy};
use the_deployer::controller::previews::metrics::Metrics;
use the_deployer::controller::previews::{Did, Glance, Place, Previewer, Previews, Settings};
use the_deployer::model::event::PullRequest;
use the_deployer::model::preview::{Told, Verdict};

use crate::harness::database::{Database, run_on_both};
use crate::harness::requests::{at, pull_request};
use the_deployer::support::retry::RetryPolicy;

/// What GitHub has and does, as far as previews see it.
#[derive(Default)]
struct Hub {
    /// By number: the head, and all that it said.
    checks: BTreeMap<i64, (String, Vec<String>)>,
    glance: Option<Glance>,
    looks: Vec<Result<String, Problem>>,
    shows: Vec<Result<(), Problem>>,
    /// The next show does its work and is never answered.
    hangs_after: bool,
    /// A look takes until something is shown in the meantime.
    slow: bool,
    panics: bool,
}

#[derive(Clone, Default)]
struct World(Arc<Mutex<Hub>>);

fn told(title: &str) -> Told {
    Told {
        verdict: Verdict::Neutral,
        title: title.to_owned(),
        summary: String::new(),
        text: None,
        remarks: vec![],
    }
}

fn problem(remedy: Remedy) -> Problem {
    Problem { remedy, message: "GitHub says no".to_owned() }
}

fn retry() -> Problem {
    problem(Remedy::Retry { after: None })
}

impl World {
    fn hub(&self) -> MutexGuard<'_, Hub> {
        self.0.lock().unwrap()
    }

    /// What the check runs say now, oldest first, with how often each was written.
    fn shown(&self) -> Vec<(String, usize)> {
        let hub = self.hub();
        hub.checks.values().map(|(_, said)| (said.last().unwrap().clone(), said.len())).collect()
    }
}

impl Previewer for World {
    async fn glance(&self, _: &PullRequest, shown: bool) -> Result<Glance, Problem> {
        let glance = self.hub().glance.clone().unwrap_or(Glance::Look);
        Ok(match glance {
            Glance::Nothing(_) if shown => Glance::Say(told("untouched")),
            other => other,
        })
    }

    async fn look(&self, request: &PullRequest) -> Result<Told, Problem> {
        let (slow, panics) = {
            let hub = self.hub();
            (hub.slow, hub.panics)
        };
        assert!(!panics, "a bug, told to panic");
        while slow && self.shown().is_empty() {
            tokio::task::yield_now().await;
        }
        let next = self.hub().looks.pop();
        next.unwrap_or_else(|| Ok(format!("head {}", request.head.short()))).map(|t| told(&t))
    }

    fn under_way(&self, _: &PullRequest) -> Told {
        told("under way")
    }

    fn not_known(&self, _: &PullRequest, why: &str) -> Told {
        told(&format!("not known: {why}"))
    }

    async fn show(&self, request: &PullRequest, told: &Told, place: Place) -> Result<i64, Problem> {
        let (id, hangs) = {
            let mut hub = self.hub();
            if let Some(Err(problem)) = hub.shows.pop() {
                return Err(problem);
            }
            let head = request.head.to_string();
            let there = hub.checks.iter().find(|(_, check)| check.0 == head).map(|(id, _)| *id);
            let next = i64::try_from(hub.checks.len()).unwrap() + 1;
            let id = match place {
                Place::At(id) => id,
                Place::Unsure => there.unwrap_or(next),
                Place::New => next,
            };
            hub.checks.entry(id).or_insert((head, vec![])).1.push(told.title.clone());
            (id, std::mem::take(&mut hub.hangs_after))
        };
        if hangs {
            std::future::pending::<()>().await;
        }
        Ok(id)
    }
}

struct Service {
    world: World,
    clock: Clock,
    db: Database,
    previews: Previews<World>,
}

impl Service {
    fn new(db: Database) -> Self {
        Self::with(db, Settings::default())
    }

    fn with(db: Database, settings: Settings) -> Self {
        let settings = Settings { spacing: Duration::ZERO, ..settings };
        Self::spaced(db, settings)
    }

    fn spaced(db: Database, settings: Settings) -> Self {
        let (world, clock) = (World::default(), Clock::manual(at(0)));
        let (store, metrics) = (db.store.clone(), Metrics::default());
        let previews = Previews::new(store, clock.clone(), world.clone(), settings, metrics);
        Self { world, clock, db, previews }
    }

    async fn hears(&self, number: i64, n: i64) {
        self.previews.note(&pull_request(number, n)).await.unwrap();
    }

    async fn step(&self) -> Option<Did> {
        self.previews.step().await.unwrap()
    }

    async fn settled(&self) {
        assert_eq!(self.step().await, None);
        assert_eq!(self.db.store.previews_waiting().await.unwrap(), 0);
    }
}

fn said(text: &str, times: usize) -> (String, usize) {
    (text.to_owned(), times)
}

#[tokio::test]
async fn only_the_newest_head_is_shown() {
    run_on_both(async |db| {
        let service = Service::new(db);
        for n in 1..=3 {
            service.hears(7, n).await;
        }
        assert_eq!(service.step().await, Some(Did::Shown));
        assert_eq!(service.world.shown(), [said("head 00000000", 1)]);
        assert_eq!(service.world.hub().checks[&1].0, pull_request(7, 3).head.as_str());
        service.settled().await;
    })
    .await;
}

#[tokio::test]
async fn writes_are_spaced_so_that_deployments_can_be_told_too() {
    run_on_both(async |db| {
        let service = Service::spaced(db, Settings::default());
        service.hears(7, 1).await;
        service.hears(8, 1).await;
        assert_eq!(service.step().await, Some(Did::Shown));
        assert_eq!(service.step().await, None, "too soon");
        let due = service.previews.due().await.unwrap().unwrap();
        assert_eq!(due, at(3));
        service.clock.advance(Duration::from_secs(3));
        assert_eq!(service.step().await, Some(Did::Shown));
        assert_eq!(service.previews.due().await.unwrap(), None);
        service.settled().await;
    })
    .await;
}

#[tokio::test]
async fn a_check_run_is_made_once_though_the_process_is_killed_before_it_knows() {
    run_on_both(async |db| {
        let service = Service::new(db);
        service.hears(7, 1).await;
        service.world.hub().hangs_after = true;
        let killed = tokio::spawn({
            let previews = service.previews.clone();
            async move { previews.step().await }
        });
        while service.world.shown().is_empty() {
            tokio::task::yield_now().await;
        }
        killed.abort();
        let _killed = killed.await;
        service.clock.advance(Duration::from_mins(2));
        assert_eq!(service.step().await, Some(Did::Shown));
        assert_eq!(service.world.shown(), [said("head 00000000", 2)]);
        service.settled().await;
    })
    .await;
}

#[tokio::test]
async fn trouble_puts_it_off_and_it_is_shown_in_the_end() {
    run_on_both(async |db| {
        let service = Service::new(db);
        service.hears(7, 1).await;
        service.world.hub().looks = vec![Err(retry())];
        service.world.hub().shows = vec![Err(retry())];
        for _ in 0..2 {
            assert_eq!(service.step().await, Some(Did::PutOff));
            assert_eq!(service.step().await, None, "not before its time");
            service.clock.advance(Duration::from_mins(1));
        }
        assert_eq!(service.step().await, Some(Did::Shown));
        assert_eq!(service.world.shown(), [said("head 00000000", 1)]);
        service.settled().await;
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_found_out_is_said_in_the_end_so_that_no_check_run_hangs() {
    run_on_both(async |db| {
        let patience = RetryPolicy {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(1),
            failures: 2,
        };
        let moment = Duration::ZERO;
        let service = Service::with(db, Settings { patience, moment, ..Settings::default() });
        service.hears(7, 1).await;
        service.world.hub().slow = true;
        service.world.hub().looks = vec![Err(retry()), Err(retry())];
        assert_eq!(service.step().await, Some(Did::PutOff));
        assert_eq!(service.world.shown(), [said("under way", 1)]);
        service.clock.advance(Duration::from_secs(1));
        assert_eq!(service.step().await, Some(Did::Refused));
        assert_eq!(service.world.shown(), [said("not known: GitHub says no", 2)]);
        service.settled().await;
    })
    .await;
}

#[tokio::test]
async fn who_may_not_show_anything_does_not_try_for_ever() {
    run_on_both(async |db| {
        let service = Service::new(db);
        for number in [7, 8] {
            service.hears(number, 1).await;
        }
        service.world.hub().shows =
            vec![Err(problem(Remedy::GiveUp)), Err(problem(Remedy::GiveUp))];
        assert_eq!(service.step().await, Some(Did::Refused));
        assert_eq!(service.step().await, Some(Did::Refused));
        let repository = pull_request(7, 1).repository;
        let summary = service.db.store.preview_summary(&repository, 7).await.unwrap();
        assert_eq!(summary.as_deref(), Some("GitHub says no"));
        service.settled().await;
    })
    .await;
}

#[tokio::test]
async fn a_head_that_touches_nothing_says_so_where_an_earlier_one_was_shown() {
    run_on_both(async |db| {
        let service = Service::new(db);
        service.world.hub().glance = Some(Glance::Nothing("not touched"));
        service.hears(7, 1).await;
        assert_eq!(service.step().await, Some(Did::Nothing));
        assert_eq!(service.world.shown(), []);
        service.world.hub().glance = None;
        service.hears(7, 2).await;
        assert_eq!(service.step().await, Some(Did::Shown));
        service.world.hub().glance = Some(Glance::Nothing("not touched"));
        service.hears(7, 3).await;
        assert_eq!(service.step().await, Some(Did::Shown));
        assert_eq!(service.world.shown(), [said("head 00000000", 1), said("untouched", 1)]);
        service.settled().await;
    })
    .await;
}

#[tokio::test]
async fn the_same_is_not_written_twice() {
    run_on_both(async |db| {
        let service = Service::new(db);
        service.hears(7, 1).await;
        assert_eq!(service.step().await, Some(Did::Shown));
        let ready = PullRequest { updated_at: at(9), ..pull_request(7, 1) };
        service.previews.note(&ready).await.unwrap();
        assert_eq!(service.step().await, Some(Did::Same));
        service.world.hub().looks = vec![Ok("other".to_owned())];
        let other_base = PullRequest { updated_at: at(10), base: "next".to_owned(), ..ready };
        service.previews.note(&other_base).await.unwrap();
        assert_eq!(service.step().await, Some(Did::Shown));
        assert_eq!(service.world.shown(), [said("other", 2)], "in the same check run");
        service.settled().await;
    })
    .await;
}

#[tokio::test]
async fn a_panic_ends_one_preview_and_not_the_loop() {
    run_on_both(async |db| {
        let service = Service::new(db);
        service.hears(7, 1).await;
        service.hears(8, 1).await;
        service.world.hub().panics = true;
        assert_eq!(service.step().await, Some(Did::Refused));
        service.world.hub().panics = false;
        assert_eq!(service.step().await, Some(Did::Shown));
        service.settled().await;
    })
    .await;
}

#[tokio::test]
async fn who_dies_too_often_is_given_up() {
    run_on_both(async |db| {
        let failures = 3;
        let patience = RetryPolicy { failures, ..RetryPolicy::default() };
        let service = Service::with(db, Settings { patience, ..Settings::default() });
        service.hears(7, 1).await;
        for _ in 0..failures {
            let now = service.clock.now();
            let lease = Duration::from_secs(1);
            let dead = service.db.store.claim_preview("dead", now, lease).await.unwrap();
            assert!(dead.is_some());
            service.clock.advance(lease);
        }
        assert_eq!(service.step().await, Some(Did::Refused));
        service.settled().await;
    })
    .await;
}
