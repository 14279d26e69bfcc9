//! Replicas that stand still, or lose the database, at any moment and for any time, on a clock
//! that is moved by hand.
//!
//! The writers are the real ones, each with a clone of its own; claims are kept by a small model of
//! the database, so that only time decides what is anybody's. A replica stands still before and
//! after each look at its clock, which is where a writer decides whether it may go on, and between
//! any two steps of a job. What then lies between its look and its push is other replicas' work.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use the_deployer::git::writer::{
    CommitMessage, ConditionalEdit, Edit, ManifestRepository, Now, PushOutcome, RemovalNote,
    WriteError, WriterSettings,
};
use the_deployer::support::clock::Clock;
use the_deployer::support::lease::{Lease, Moment};

use crate::git::place::{Place, deploy_files, id, noon};
use crate::harness::random::Random;

const REPLICAS: usize = 3;
const APPS: [&str; 2] = ["shop", "blog"];
/// Releases and removals of each app.
const ACTS: u32 = 14;
const LEASE: Duration = Duration::from_secs(30);
/// The clocks of replicas differ by so much from one to the next.
const SKEW: SignedDuration = SignedDuration::from_secs(2);
/// A run that takes longer hangs; of real time, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_mins(5);

/// What is to be done with an app, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Release,
    Removal,
}

/// The lane of an app, as the database has it: what is next, whose it is, and until when.
struct Lane {
    acts: Vec<Act>,
    next: usize,
    attempt: u32,
    held: bool,
    due: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Claim {
    app: usize,
    act: usize,
    attempt: u32,
}

impl Claim {
    /// Later ones have greater numbers, as deploy ids do.
    fn number(self) -> u32 {
        u32::try_from(self.app * 1000 + self.act).unwrap()
    }
}

impl Lane {
    fn claim(&mut self, app: usize, now: Timestamp) -> Option<Claim> {
        if self.is_done() || (self.held && self.due > now) {
            return None;
        }
        self.attempt += 1;
        self.held = true;
        self.due = now + LEASE;
        Some(Claim { app, act: self.next, attempt: self.attempt })
    }

    fn holds(&self, claim: Claim) -> bool {
        self.held && self.next == claim.act && self.attempt == claim.attempt
    }

    fn extend(&mut self, claim: Claim, now: Timestamp) -> bool {
        let held = self.holds(claim);
        if held {
            self.due = now + LEASE;
        }
        held
    }

    fn end(&mut self, claim: Claim, done: bool) {
        if self.holds(claim) {
            self.held = false;
            self.next += usize::from(done);
            self.attempt = if done { 0 } else { self.attempt };
        }
    }

    fn is_done(&self) -> bool {
        self.next == self.acts.len()
    }
}

/// A claim, its lease, and whether it was lost.
type HeldClaim = (Claim, Lease, Arc<AtomicBool>);

/// One process: what stands still together.
struct Replica {
    clock: Clock,
    skew: SignedDuration,
    random: Mutex<Random>,
    /// Until when it stands still.
    still: Mutex<Timestamp>,
    /// Until when it does not reach the database, though it goes on.
    cut_off: Mutex<Timestamp>,
    /// Whether the run has ended: nobody moves the clock any more, and nobody waits for it.
    over: Arc<AtomicBool>,
    /// What it holds, so that its leases are kept.
    held: Mutex<BTreeMap<u32, HeldClaim>>,
}

impl Replica {
    fn stands_still(&self) -> bool {
        self.is_before(&self.still)
    }

    fn is_cut_off(&self) -> bool {
        self.is_before(&self.cut_off)
    }

    fn is_before(&self, end: &Mutex<Timestamp>) -> bool {
        !self.over.load(Ordering::SeqCst) && *end.lock().unwrap() > self.clock.now()
    }

    /// Perhaps it stands still from here on: mostly not, else for a moment or for minutes. Who
    /// stood still for minutes may have lost its connections to the database, and not know it for
    /// a while.
    fn may_stop(&self) {
        let mut random = self.random.lock().unwrap();
        let (still, cut_off) = match random.below(25) {
            0 => (1 + random.below(20), 0),
            1 => (20 + random.below(300), 0),
            2 => (60 + random.below(300), 300),
            _ => return,
        };
        for (seconds, until) in [(still, &self.still), (still + cut_off, &self.cut_off)] {
            let end = SignedDuration::from_secs(i64::try_from(seconds).unwrap());
            let end = self.clock.now() + end;
            let mut until = until.lock().unwrap();
            *until = end.max(*until);
        }
    }

    /// Until the database can be asked.
    async fn reaches_the_database(&self) {
        while self.is_cut_off() {
            tokio::time::sleep(Duration::from_micros(300)).await;
        }
    }

    /// A point between two steps of a job.
    async fn step(&self) {
        self.may_stop();
        while self.stands_still() {
            tokio::time::sleep(Duration::from_micros(300)).await;
        }
    }

    /// A look at the clock by the writer. What is decided by it may be carried out much later.
    fn look(&self) -> Moment {
        self.may_stop();
        self.wait();
        let moment = self.moment();
        self.may_stop();
        self.wait();
        moment
    }

    fn wait(&self) {
        while self.stands_still() {
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    fn keep_leases(&self, lanes: &[Mutex<Lane>]) {
        if self.is_cut_off() {
            return;
        }
        for (claim, lease, lost) in self.held.lock().unwrap().values() {
            let now = self.moment();
            if lanes[claim.app].lock().unwrap().extend(*claim, now.wall) {
                lease.extend(now, LEASE);
            } else {
                lost.store(true, Ordering::SeqCst);
            }
        }
    }

    fn moment(&self) -> Moment {
        let Moment { wall, monotonic } = self.clock.moment();
        Moment { wall: wall + self.skew, monotonic }
    }
}

/// Everything of one run.
struct Run {
    place: Place,
    clock: Clock,
    lanes: Arc<Vec<Mutex<Lane>>>,
    replicas: Vec<Arc<Replica>>,
    over: Arc<AtomicBool>,
}

/// Threads that wait for the clock would keep the runtime of a run that went wrong from ending.
impl Drop for Run {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

impl Run {
    fn new(place: Place, seed: u64) -> Self {
        let clock = Clock::manual(noon());
        let mut random = Random::new(seed);
        let lanes = APPS.map(|_| {
            // The first release is there before it is removed; the last one is what is live.
            let mut acts = vec![Act::Release];
            for _ in 2..ACTS {
                let removes = acts.last() != Some(&Act::Removal) && random.below(5) == 0;
                acts.push(if removes { Act::Removal } else { Act::Release });
            }
            acts.push(Act::Release);
            Mutex::new(Lane { acts, next: 0, attempt: 0, held: false, due: noon() })
        });
        let over = Arc::<AtomicBool>::default();
        let replica = |n: usize| Replica {
            over: Arc::clone(&over),
            clock: clock.clone(),
            skew: SKEW * i32::try_from(n).unwrap(),
            random: Mutex::new(Random::new(seed.wrapping_mul(31).wrapping_add(n as u64))),
            still: Mutex::new(noon()),
            cut_off: Mutex::new(noon()),
            held: Mutex::default(),
        };
        let replicas = (0..REPLICAS).map(|n| Arc::new(replica(n))).collect();
        Self { place, clock, lanes: Arc::new(lanes.into()), replicas, over }
    }

    /// Until all is done; then what the repository holds is looked at. What is wrong, if anything.
    async fn go(&self) -> Result<(), String> {
        let mut workers = tokio::task::JoinSet::new();
        let mut repositories = Vec::new();
        for (n, replica) in self.replicas.iter().enumerate() {
            let looking = Arc::clone(replica);
            let settings = WriterSettings {
                now: Now::by(move || looking.look()),
                ..self.place.settings(&format!("clone-{n}"))
            };
            let repository = ManifestRepository::open(settings).await.unwrap();
            for app in 0..APPS.len() {
                let worker = Worker {
                    app,
                    replica: Arc::clone(replica),
                    lanes: Arc::clone(&self.lanes),
                    repository: repository.clone(),
                };
                workers.spawn(worker.run());
            }
            repositories.push(repository);
        }
        let working = async {
            while let Some(ended) = workers.join_next().await {
                ended.unwrap();
            }
            // Whoever stood still until now comes back, and finds that all is over. What is left in
            // a queue comes before these.
            self.clock.advance(Duration::from_hours(1));
            for (n, repository) in (9_000..).zip(&repositories) {
                let last = || deploy_files(n, "last", &[("a.yaml", &n.to_string())]);
                while repository.write(last(), noon(), &Lease::without_end()).await.is_err() {}
            }
        };
        self.begin_time();
        let ended = tokio::time::timeout(PATIENCE, working).await;
        ended.map_err(|_| "it hangs".to_owned())?;
        self.judge()
    }

    /// Time goes on until the run is over, and who does not stand still keeps its leases. On a
    /// thread of its own: who stands still blocks threads of the runtime, its timers with them.
    fn begin_time(&self) {
        let (clock, lanes) = (self.clock.clone(), Arc::clone(&self.lanes));
        let (replicas, over) = (self.replicas.clone(), Arc::clone(&self.over));
        std::thread::spawn(move || {
            while !over.load(Ordering::SeqCst) {
                clock.advance(Duration::from_secs(2));
                for replica in replicas.iter().filter(|one| !one.stands_still()) {
                    replica.keep_leases(&lanes);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }

    fn judge(&self) -> Result<(), String> {
        let format = "--format=%(trailers:key=Deploy-Id,key=Removal-Id,valueonly,separator=%x20)";
        let log = self.place.bare.run(&["log", "--reverse", format, "main"]);
        let files = self.place.bare.files();
        for (app, name) in APPS.iter().enumerate() {
            let acts = self.lanes[app].lock().unwrap().acts.len();
            let wanted: Vec<String> = (0..acts)
                .map(|act| id(Claim { app, act, attempt: 1 }.number()).to_string())
                .collect();
            let mine = |line: &&str| wanted.iter().any(|id| id == line);
            let written: Vec<&str> = log.lines().filter(mine).collect();
            if written != wanted {
                return Err(format!("{name}: wanted\n{wanted:#?}\nand there is\n{written:#?}"));
            }
            let live = files.get(&format!("manifests/prod-1/devx/{name}/latest/deployment.yaml"));
            if live != Some(&text(Claim { app, act: acts - 1, attempt: 1 })) {
                return Err(format!("{name}: live is {live:?}"));
            }
        }
        self.place.bare.assert_sound();
        Ok(())
    }
}

fn text(claim: Claim) -> String {
    format!("release {}\n", claim.number())
}

/// A worker of one replica, for one app.
struct Worker {
    app: usize,
    replica: Arc<Replica>,
    lanes: Arc<Vec<Mutex<Lane>>>,
    repository: ManifestRepository,
}

impl Worker {
    async fn run(self) {
        loop {
            self.replica.step().await;
            self.replica.reaches_the_database().await;
            let asked_at = self.replica.moment();
            let claim = {
                let mut lane = self.lanes[self.app].lock().unwrap();
                if lane.is_done() {
                    return;
                }
                lane.claim(self.app, asked_at.wall)
            };
            match claim {
                Some(claim) => self.work(claim, asked_at).await,
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }

    async fn work(&self, claim: Claim, asked_at: Moment) {
        self.replica.step().await;
        let lease = Lease::requested_at(asked_at, LEASE);
        let lost = Arc::<AtomicBool>::default();
        let held = (claim, lease.clone(), Arc::clone(&lost));
        self.replica.held.lock().unwrap().insert(claim.number(), held);
        let taken_over = async {
            while !lost.load(Ordering::SeqCst) || self.replica.stands_still() {
                tokio::time::sleep(Duration::from_micros(500)).await;
            }
        };
        let done = tokio::select! {
            biased;
            done = self.done(claim, &lease) => done,
            () = taken_over => false,
        };
        self.replica.held.lock().unwrap().remove(&claim.number());
        self.replica.step().await;
        self.replica.reaches_the_database().await;
        self.lanes[self.app].lock().unwrap().end(claim, done);
    }

    /// Whether it is in the repository.
    async fn done(&self, claim: Claim, lease: &Lease) -> bool {
        // What an attempt before this has done, as a job asks.
        if claim.attempt > 1
            && self.repository.commit_of(&id(claim.number())).await.unwrap().is_some()
        {
            return true;
        }
        self.replica.step().await;
        let act = self.lanes[self.app].lock().unwrap().acts[claim.act];
        let ended = match act {
            Act::Release => {
                let files = [("deployment.yaml", &*text(claim))];
                let write = deploy_files(claim.number(), APPS[self.app], &files);
                self.repository.write(write, noon(), lease).await
            }
            Act::Removal => self.remove(claim, lease).await,
        };
        match ended {
            // One that changed nothing is missing in the end.
            Ok(
                PushOutcome::Pushed { .. }
                | PushOutcome::AlreadyPushed { .. }
                | PushOutcome::Unchanged { .. },
            ) => true,
            Err(
                WriteError::LeaseOver { .. }
                | WriteError::Moved { .. }
                | WriteError::LostRaces { .. }
                | WriteError::Unreachable { .. },
            ) => false,
            Err(error) => panic!("{claim:?}: {error}"),
        }
    }

    async fn remove(&self, claim: Claim, lease: &Lease) -> Result<PushOutcome, WriteError> {
        let app = deploy_files(0, APPS[self.app], &[]).revision.app;
        let target = "prod-1".parse().unwrap();
        let found = self.repository.footprint(&target, &app).await?;
        let id = id(claim.number());
        let (actor, reason, digest) = ("alice".into(), "moved".into(), String::new());
        let note = RemovalNote { id, app, target, actor, reason, digest };
        let there = found.seen.iter().filter(|(_, seen)| seen.is_something());
        let edits = there.map(|(path, _)| (path.clone(), Edit::Gone)).collect();
        let conditional_edit = ConditionalEdit {
            edits,
            message: CommitMessage::of_removal(&note),
            seen: found.seen.clone(),
        };
        self.replica.step().await;
        self.repository.amend(conditional_edit, noon(), lease).await
    }
}

/// Runs of chance; the seed of one that goes wrong is said.
async fn runs(count: u64, place: impl AsyncFn() -> Place) {
    let first = Random::seed();
    for seed in (0..count).map(|n| first.wrapping_add(n)) {
        let run = Run::new(place().await, seed);
        if let Err(wrong) = run.go().await {
            panic!("THE_DEPLOYER_TEST_SEED={seed}: {wrong}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn in_a_folder_nothing_of_the_past_is_pushed_whoever_stands_still() {
    runs(6, async || Place::local()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn on_a_server_nothing_of_the_past_is_pushed_whoever_stands_still() {
    runs(3, Place::http).await;
}

/// The live release of an app after this: who pushes an older release stands still between its
/// look at the clock and its push, for minutes, and a newer one takes its place meanwhile.
async fn live_after_a_pause(
    lease: impl Fn(&Clock) -> Lease,
) -> (String, Result<PushOutcome, WriteError>) {
    let place = Place::local();
    let clock = Clock::manual(noon());
    let (stops, stopped) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let now = {
        let (clock, stops, stopped) = (clock.clone(), Arc::clone(&stops), Arc::clone(&stopped));
        Now::by(move || {
            let moment = clock.moment();
            while stops.load(Ordering::SeqCst) {
                stopped.store(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(1));
            }
            moment
        })
    };
    let slow =
        ManifestRepository::open(WriterSettings { now, ..place.settings("slow") }).await.unwrap();
    let quick = ManifestRepository::open(place.settings("quick")).await.unwrap();
    let release = |n, text| deploy_files(n, "shop", &[("deployment.yaml", text)]);
    stops.store(true, Ordering::SeqCst);
    let lease = lease(&clock);
    let older = release(1, "older\n");
    let writing = tokio::spawn(async move { slow.write(older, noon(), &lease).await });
    while !stopped.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    clock.advance(4 * LEASE);
    let taken = quick.write(release(2, "newer\n"), noon(), &Lease::without_end()).await.unwrap();
    assert!(matches!(taken, PushOutcome::Pushed { .. }), "{taken:?}");
    stops.store(false, Ordering::SeqCst);
    let ended = writing.await.unwrap();
    (place.bare.files()["manifests/prod-1/devx/shop/latest/deployment.yaml"].clone(), ended)
}

/// With a lease it pushes nothing. That the lease is the reason: without one the past is deployed.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn who_stands_still_after_its_look_does_not_deploy_the_past() {
    let (live, ended) =
        live_after_a_pause(|clock| Lease::requested_at(clock.moment(), LEASE)).await;
    assert_eq!(live, "newer\n");
    assert!(matches!(ended, Err(WriteError::LeaseOver { .. })), "{ended:?}");
    let (live, ended) = live_after_a_pause(|_| Lease::without_end()).await;
    assert_eq!(live, "older\n", "{ended:?}");
}
