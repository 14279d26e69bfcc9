//! Random rollouts: 3 to 100 targets, gates of all kinds, failures, people, outages, crashes and replicas.

use jiff::SignedDuration;
use proptest::prelude::*;

use crate::model::id::TargetName;
use crate::model::lock::Window;
use crate::rollout::acts::RolloutAct;
use crate::rollout::facts::GateOutcome;
use crate::rollout::plan::{Bound, Gate, RolloutFailurePolicy, RolloutPlan, RolloutStep};
use crate::rollout::record::{Pause, RolloutState, RolloutTargetStatus};
use crate::rollout::simulation::{Simulation, deploy, plan, shift};

const MINUTE: SignedDuration = SignedDuration::from_mins(1);
/// The most targets of a random rollout.
const MAX_TARGETS: u64 = 100;

/// Draws of a random story.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

/// Most rollouts are small, because more happens to each target of a small one; a few have the most targets.
fn random_size(dice: &mut Dice) -> u64 {
    match dice.roll(200) {
        0 => MAX_TARGETS,
        _ => 3 + (0..8).map(|_| dice.roll(MAX_TARGETS - 2)).min().unwrap(),
    }
}

fn random_gate(dice: &mut Dice) -> Gate {
    let window = Window {
        days: "*".to_owned(),
        from: "09:00".to_owned(),
        to: "17:00".to_owned(),
        time_zone: None,
        closed: false,
        reason: None,
    };
    match dice.roll(6) {
        0 => Gate::Bake { length: MINUTE * 5 },
        1 => Gate::Approval { team: None },
        2 => Gate::Http { url: "https://example.com".to_owned() },
        3 => {
            let bound = Bound::AtMost("0.01".to_owned());
            Gate::PromQl { query: "sum(rate(errors[5m]))".to_owned(), bound }
        }
        4 => Gate::NoAlert { matchers: vec!["severity=\"critical\"".to_owned()] },
        _ => Gate::Calendar { windows: vec![window] },
    }
}

/// Steps of weights on the same targets, with gates between them.
fn random_shift(dice: &mut Dice) -> Vec<RolloutStep> {
    let names: Vec<String> = (0..=dice.roll(3))
        .map(|number| format!("{}-{number}", if dice.roll(4) == 0 { "new" } else { "old" }))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut steps = Vec::new();
    for _ in 0..2 + dice.roll(4) {
        let percent = u32::try_from(dice.roll(101)).unwrap();
        let parallel = usize::try_from(1 + dice.roll(3)).unwrap();
        steps.push(shift(&names, parallel, percent));
        if dice.roll(2) == 0 {
            let timeout = (dice.roll(4) > 0).then_some(MINUTE * 30);
            steps.push(RolloutStep::Gate { gate: random_gate(dice), timeout });
        }
    }
    steps
}

fn random_plan(dice: &mut Dice) -> RolloutPlan {
    let steps = if dice.roll(3) == 0 { random_shift(dice) } else { random_steps(dice) };
    let policies =
        [RolloutFailurePolicy::Undo, RolloutFailurePolicy::Pause, RolloutFailurePolicy::Continue];
    let policy = policies[usize::try_from(dice.roll(3)).unwrap()];
    let mut plan = plan(steps, policy);
    plan.max_failures = usize::try_from(dice.roll(3)).unwrap();
    plan
}

fn random_steps(dice: &mut Dice) -> Vec<RolloutStep> {
    let mut steps = Vec::new();
    let (size, mut number) = (random_size(dice), 0);
    let largest_step = 1 + size / 4;
    while number < size {
        if dice.roll(2) == 0 {
            let timeout = (dice.roll(4) > 0).then_some(MINUTE * 30);
            steps.push(RolloutStep::Gate { gate: random_gate(dice), timeout });
        }
        let of_step = (1 + dice.roll(largest_step)).min(size - number);
        let names = (number..number + of_step).map(|number| {
            let kind = if dice.roll(4) == 0 { "new" } else { "old" };
            format!("{kind}-{number}")
        });
        let names: Vec<String> = names.collect();
        number += of_step;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let parallel = usize::try_from(1 + dice.roll(3)).unwrap();
        steps.push(deploy(&names, parallel));
    }
    steps
}

/// Half of what happens, happens where something is under way.
fn random_target(world: &Simulation, dice: &mut Dice) -> TargetName {
    let targets = &world.record.targets;
    let is_under_way =
        |state| matches!(state, RolloutTargetStatus::Deploying | RolloutTargetStatus::Undoing);
    let under_way: Vec<_> = targets.iter().filter(|one| is_under_way(one.state)).collect();
    let is_one_of_those = !under_way.is_empty() && dice.roll(2) == 0;
    let choice = if is_one_of_those { under_way } else { targets.iter().collect() };
    choice[usize::try_from(dice.roll(choice.len() as u64)).unwrap()].target.clone()
}

fn random_act(step: usize, dice: &mut Dice) -> RolloutAct {
    let reason = "a person wants it".to_owned();
    match dice.roll(12) {
        0 => RolloutAct::Cancel { reason },
        1 | 2 => RolloutAct::Undo { reason },
        3..=5 => RolloutAct::Pause { reason },
        6 | 7 => RolloutAct::Resume { reason },
        8 => RolloutAct::Retry { reason },
        _ => RolloutAct::Approve { step, by: "ann".to_owned(), reason },
    }
}

/// One event of the world.
fn happen(world: &mut Simulation, dice: &mut Dice) {
    let name = random_target(world, dice);
    let open = world.open(&name);
    match (dice.roll(29), open) {
        (0..=3, Some(id)) => world.push(&id),
        (4..=8, Some(id)) => world.complete(&id),
        (9, Some(id)) => world.fail(&id, "crashes"),
        (10, Some(id)) => world.refuse(&id),
        (11, _) => drop(world.take_over(&name)),
        (12, _) => drop(world.locked.insert(name)),
        (13 | 14, _) => drop(world.locked.remove(&name)),
        (15, _) => drop(world.unreadable.insert(name)),
        (16 | 17, _) => drop(world.unreadable.remove(&name)),
        (18, _) if dice.roll(20) == 0 => drop(world.gone.insert(name)),
        (19, _) => world.pass(MINUTE * i32::try_from(dice.roll(12)).unwrap()),
        (20, _) => world.pass(-MINUTE),
        (21, _) => {
            let results = [GateOutcome::Passed, GateOutcome::NotPassed, GateOutcome::Unanswered];
            world.gate = results[usize::try_from(dice.roll(3)).unwrap()];
        }
        (22, _) if dice.roll(6) == 0 => drop(world.act(random_act(world.record.index, dice))),
        // Outages begin seldom, and end soon.
        (23, _) => world.is_git_away = dice.roll(3) == 0,
        (24, _) => world.are_gates_away = dice.roll(3) == 0,
        (25, _) => {
            let is_away = dice.roll(8) == 0;
            let targets = world.record.targets.iter().map(|one| one.target.clone());
            world.unreadable = targets.filter(|_| is_away).collect();
        }
        (26, _) if dice.roll(20) == 0 => world.withdrawn = Some("it was withdrawn".to_owned()),
        (27, _) => world.withdrawn = None,
        (28, _) if dice.roll(40) == 0 => drop(world.pruned.insert(name)),
        _ => {}
    }
}

/// Everything becomes well again, people resume what waits for them, and the rollout comes to its end.
fn calm_down(world: &mut Simulation) {
    world.locked.clear();
    world.unreadable.clear();
    (world.is_git_away, world.are_gates_away) = (false, false);
    world.withdrawn = None;
    world.gate = GateOutcome::Passed;
    for _ in 0..2000 {
        world.advance();
        if let RolloutState::Paused(Pause::Person(_) | Pause::Failure(_)) = world.record.state {
            world.act(RolloutAct::Resume { reason: String::new() }).unwrap();
            continue;
        }
        if world.record.state.is_end() {
            return;
        }
        let (step, by) = (world.record.index, "ann".to_owned());
        let approval = RolloutAct::Approve { step, by, reason: String::new() };
        drop(world.act(approval));
        let targets: Vec<TargetName> =
            world.record.targets.iter().map(|one| one.target.clone()).collect();
        for name in targets {
            if let Some(id) = world.open(&name) {
                world.complete(&id);
            }
        }
        world.pass(MINUTE);
    }
    panic!("it has no end: {:#?}", world.record);
}

/// Plays a random story to its end.
fn play(seed: u64) -> Result<(), TestCaseError> {
    let mut dice = Dice(seed);
    let mut world = Simulation::new(random_plan(&mut dice));
    let mut stale = (world.record.clone(), world.facts());
    for _ in 0..80 + 2 * world.record.targets.len() {
        happen(&mut world, &mut dice);
        let (record, facts) = match dice.roll(5) {
            0 => stale.clone(),
            _ => (world.record.clone(), world.facts()),
        };
        let decision = world.decide(&record, &facts);
        // A crash before it is stored.
        if dice.roll(5) > 0 {
            world.store(record.version, decision);
        }
        if dice.roll(4) == 0 {
            stale = (world.record.clone(), world.facts());
        }
    }
    calm_down(&mut world);
    world.matches_record();
    let has_turned_back = matches!(world.record.state, RolloutState::Undone);
    let is_done = world.record.state == RolloutState::Done;
    for (number, step) in world.record.plan.steps.iter().enumerate() {
        let passed_at = world.record.gates.get(&number).and_then(|gate| gate.passed_at);
        let is_gate = matches!(step, RolloutStep::Gate { .. });
        prop_assert!(
            !is_done || !is_gate || passed_at.is_some(),
            "step {} was jumped over",
            number
        );
    }
    for one in &world.record.targets {
        let is_left =
            matches!(one.state, RolloutTargetStatus::Complete | RolloutTargetStatus::Failed);
        prop_assert!(!(has_turned_back && is_left), "not undone: {:?}", one);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// 3 to 100 targets, gates of all kinds, random facts, outages of git, gates and the store, people, clocks that jump, decisions that are lost by a crash, and replicas that decide by
    /// what was true some time ago: the index moves one by one, nothing is created twice, the way back has its order,
    /// and there is an end at which each target is where the record says.
    #[test]
    fn a_rollout_ends_whatever_happens(seed in any::<u64>()) {
        play(seed)?;
    }
}

/// Stories that went wrong once: an older deployment that was given up was pushed after a newer one; and a lock refused
/// the second step to a target.
#[test]
fn stories_that_went_wrong_once_go_well() {
    for seed in [10_212_504_428_084_669_724, 5_437_829_854_543_197_564] {
        play(seed).unwrap();
    }
}
