//! Measures what the decisions of rollouts cost: each step of a rollout of 100 targets, and a turn of 200 such rollouts
//! at once; and how that compares with the plan of one plain deployment, in the same run.
//!
//! `cargo bench --profile fast --bench rollout_turns`. Only the pure part is measured: the decision by record and facts, and the
//! record as JSON, as the store keeps it. The push, the database and the network are not in it.

#![allow(
    missing_docs,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a benchmark measures real time, and may fail loudly"
)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use the_deployer::model::facts::Facts;
use the_deployer::model::id::{
    AppKey, CommitSha, DeployId, ImageTag, RepoName, RolloutId, TargetName,
};
use the_deployer::model::release::Release;
use the_deployer::model::target::Clusters;
use the_deployer::pipeline::{Input, plan};
use the_deployer::rollout::advance::{Order, advance};
use the_deployer::rollout::facts::{DeploymentFact, LiveFact, RolloutFacts, TargetFacts};
use the_deployer::rollout::plan::{Gate, RolloutFailurePolicy, RolloutPlan, RolloutStep};
use the_deployer::rollout::record::{RolloutRecord, RolloutState};
use the_deployer::templates::set::TemplateSet;
use the_deployer::waml::Waml;

const EXAMPLE: &[u8] = include_bytes!("../tests/pipeline/example/waml.yaml");
const TARGETS: usize = 100;
const ROLLOUTS: usize = 200;
const PLANS: usize = 200;

fn main() {
    let start: Timestamp = "2026-11-21T10:00:00Z".parse().expect("a time");
    let mut one = Bench::new(start);
    let mut steps = one.run_to_end();
    let turns = steps.len();
    let total: Duration = steps.iter().sum();
    let per_target = total / u32::try_from(TARGETS).expect("a small number");
    let slowest = steps.iter().max().copied().unwrap_or_default();
    let step = median(&mut steps);

    let mut halfway: Vec<Bench> = (0..ROLLOUTS).map(|_| Bench::new(start)).collect();
    for bench in &mut halfway {
        for _ in 0..TARGETS {
            bench.turn();
        }
    }
    let begun = Instant::now();
    for bench in &mut halfway {
        bench.turn();
    }
    let with_facts = begun.elapsed();
    let together: Duration = halfway.iter().map(|bench| bench.last).sum();

    let mut json: Vec<Duration> = halfway.iter().map(|bench| time_json(&bench.record)).collect();
    let json = median(&mut json);
    let mut plans = plain_plans();
    let plain = median(&mut plans);

    println!(
        "a turn of a rollout of {TARGETS} targets  {step:>10.2?}  median of {turns}, at most {slowest:.2?}"
    );
    println!("all turns, for each target         {per_target:>10.2?}");
    println!("its record as JSON, and back       {json:>10.2?}  median of {ROLLOUTS}");
    println!(
        "a turn of {ROLLOUTS} rollouts at once       {together:>10.2?}  {with_facts:.2?} with the facts of this benchmark"
    );
    println!("peer: the plan of one deployment   {plain:>10.2?}  median of {PLANS}");
    println!(
        "ratio: a turn is {:.2} ×, all turns of a target {:.2} ×, {ROLLOUTS} turns are {:.1} × the plan",
        ratio(step, plain),
        ratio(per_target, plain),
        ratio(together, plain)
    );
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// One rollout, whose deployments end well by the next turn.
struct Bench {
    record: RolloutRecord,
    complete: BTreeMap<TargetName, DeployId>,
    now: Timestamp,
    next: u32,
    last: Duration,
}

impl Bench {
    /// One target after the other, with a bake time after each ten.
    fn new(now: Timestamp) -> Self {
        let mut steps = Vec::new();
        for group in 0..TARGETS / 10 {
            let names = (0..10).map(|n| format!("prod-cluster-{}", group * 10 + n));
            let targets = names.map(|name| TargetName::parse(name).expect("a name")).collect();
            steps.push(RolloutStep::Deploy { targets, parallel: 1, weights: BTreeMap::new() });
            let gate = Gate::Bake { length: SignedDuration::from_mins(1) };
            steps.push(RolloutStep::Gate { gate, timeout: None });
        }
        let plan = RolloutPlan {
            steps,
            on_failure: RolloutFailurePolicy::Undo,
            max_failures: 0,
            target_timeout: SignedDuration::from_mins(15),
        };
        plan.check().expect("it can be carried out");
        let id = |text: &str| RolloutId::parse(text).expect("an id");
        let ids = (id("r-20261121-100000000-000001"), id("r-20261121-100000000-000002"));
        let app = AppKey {
            namespace: "devx".parse().expect("a namespace"),
            slug: "shop".parse().expect("a slug"),
        };
        let record = RolloutRecord::new(ids, (release(), app), plan, now);
        Self { record, complete: BTreeMap::new(), now, next: 0, last: Duration::ZERO }
    }

    /// Turns until the rollout is done; returns the time of each.
    fn run_to_end(&mut self) -> Vec<Duration> {
        let mut times = Vec::new();
        while self.record.state != RolloutState::Done {
            self.turn();
            times.push(self.last);
            assert!(times.len() < 10 * TARGETS, "it has no end: {:?}", self.record.state);
        }
        times
    }

    /// Advances once, after what was ordered before has ended.
    fn turn(&mut self) {
        self.now += SignedDuration::from_mins(1);
        let facts = self.facts();
        let next = &mut self.next;
        let begun = Instant::now();
        let decision = advance(black_box(&self.record), &facts, self.now, &mut || {
            *next += 1;
            draw_id(*next)
        });
        self.last = begun.elapsed();
        for order in decision.orders {
            if let Order::Deploy { target, id } = order {
                self.complete.insert(target, id);
            }
        }
        self.record = decision.record;
    }

    fn facts(&self) -> RolloutFacts {
        let targets = self.record.targets.iter().enumerate().map(|(number, one)| {
            let complete = self.complete.get(&one.target);
            let revision = complete.cloned().unwrap_or_else(|| draw_id(0));
            let by = revision.clone();
            let facts = TargetFacts {
                is_configured: true,
                live: LiveFact::Revision { revision, by, is_ours: complete.is_some() },
                busy: None,
                blocked: None,
                deployment: complete.map(|_| DeploymentFact::Complete { at: self.now }),
                undo: None,
                unrestorable: None,
            };
            (number, facts)
        });
        RolloutFacts { targets: targets.collect(), ..RolloutFacts::default() }
    }
}

fn draw_id(number: u32) -> DeployId {
    DeployId::parse(format!("20261121-100000000-{number:06x}")).expect("an id")
}

fn time_json(record: &RolloutRecord) -> Duration {
    let begun = Instant::now();
    let text = serde_json::to_string(black_box(record)).expect("it can be written");
    let again: RolloutRecord = serde_json::from_str(&text).expect("it can be read");
    let time = begun.elapsed();
    assert_eq!(again, *record);
    time
}

fn release() -> Release {
    Release {
        repository: RepoName::parse("weave-lab/my-app").expect("a repository's name"),
        app: None,
        commit: CommitSha::parse("0".repeat(40)).expect("a commit id"),
        tag: ImageTag::parse("1.0.202206151506-sha.649008fb").expect("a tag"),
    }
}

fn plain_plans() -> Vec<Duration> {
    let templates = TemplateSet::compile(&the_deployer::templates::sources::built_in());
    let input = Input {
        waml: Arc::new(Waml::parse(".weave.yaml", EXAMPLE).expect("the example is valid")),
        target: TargetName::parse("prod-cluster-1").expect("a target's name"),
        fleet: None,
        release: release(),
        templates: Arc::new(templates.expect("the built-in templates are valid")),
    };
    let facts = Facts::without_lookups(Timestamp::UNIX_EPOCH, Clusters::any());
    let time = |_| {
        let begun = Instant::now();
        drop(plan(black_box(&input), &facts).expect("the example is valid"));
        begun.elapsed()
    };
    (0..PLANS).map(time).collect()
}
