//! Events come in whatever order and however often, with lists and restarts between them, and the process starts late:
//! each start, finish and failure is told once, and no finish before the pods are there.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use the_deployer::cluster::object::WatchedKind;

use super::fixed::stories;
use super::recorded::{Event, Owner, recordings};
use super::world::World;

const KINDS: [WatchedKind; 3] =
    [WatchedKind::Deployment, WatchedKind::ReplicaSet, WatchedKind::Pod];

/// What happens next.
#[derive(Debug, Clone)]
enum Step {
    /// The next events of one watch.
    Bring { watch: usize, count: usize },
    /// An event that came already, so many back.
    Repeat { watch: usize, back: usize },
    /// A list of one kind.
    List { watch: usize },
    /// A list of one kind that breaks off.
    BreakOff { watch: usize },
    /// A list of everything.
    ListAll,
    /// The process is started anew.
    Restart,
    /// The clock is looked at.
    Tick,
}

fn step() -> impl Strategy<Value = Step> {
    let watch = 0..KINDS.len();
    prop_oneof![
        8 => (watch.clone(), 1..8_usize).prop_map(|(watch, count)| Step::Bring { watch, count }),
        2 => (watch.clone(), 0..9_usize).prop_map(|(watch, back)| Step::Repeat { watch, back }),
        1 => watch.clone().prop_map(|watch| Step::List { watch }),
        1 => watch.prop_map(|watch| Step::BreakOff { watch }),
        1 => Just(Step::ListAll),
        1 => Just(Step::Restart),
        1 => Just(Step::Tick),
    ]
}

/// How many of a hundred events happen before the process starts: often none.
fn missed() -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(0), 3 => 0..=100_usize]
}

/// Brings the events, with those steps between them; `check` looks at the world after each.
fn play(
    world: &mut World,
    events: &[Event],
    kinds: [WatchedKind; 3],
    steps: &[Step],
    check: impl Fn(&World),
) {
    let mut queues = kinds.map(|kind| {
        let of_kind = |event: &&Event| event.object.kind() == kind;
        events.iter().filter(of_kind).collect::<Vec<&Event>>()
    });
    let mut brought: [Vec<&Event>; 3] = [vec![], vec![], vec![]];
    // What a list has is the truth, so nothing older comes while one is under way.
    let mut is_listing = [false; 3];
    for step in steps {
        match *step {
            Step::Bring { watch, count } => {
                let count = count.min(queues[watch].len());
                for event in queues[watch].drain(..count) {
                    event.bring(world);
                    check(world);
                    brought[watch].push(event);
                }
            }
            Step::Repeat { watch, back } => {
                let event = brought[watch].iter().rev().nth(back);
                let is_there = |event: &Event| world.present.contains_key(&event.object.key());
                let event = event.filter(|one| !one.is_deletion && is_there(one));
                if let Some(event) = event.filter(|_| !is_listing[watch]) {
                    world.repeat(event.object.clone());
                }
            }
            Step::List { watch } => {
                world.list(kinds[watch]);
                is_listing[watch] = false;
            }
            Step::BreakOff { watch } => {
                world.index.begin_list(kinds[watch]);
                is_listing[watch] = true;
            }
            Step::ListAll => {
                world.list_everything();
                is_listing = [false; 3];
            }
            Step::Restart => {
                world.restart();
                is_listing = [false; 3];
            }
            Step::Tick => world.pass(0),
        }
        check(world);
    }
    for (watch, queue) in queues.iter_mut().enumerate() {
        // A list that broke off is always followed by another.
        world.list(kinds[watch]);
        for event in queue.drain(..) {
            event.bring(world);
            check(world);
        }
    }
}

fn run<S: Strategy>(
    cases: u32,
    strategy: &S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    if let Err(error) = TestRunner::new(config).run(strategy, test) {
        panic!("{error}");
    }
}

#[test]
fn random_interleavings_tell_everything_once() {
    let all = [Owner::Us, Owner::Anybody].map(|owner| (owner, recordings(owner)));
    let steps = proptest::collection::vec(step(), 0..120);
    let strategy = (0..2_usize, 0..9_usize, missed(), steps);
    run(600, &strategy, |(owner, number, missed, steps)| {
        let (owner, recordings) = &all[owner];
        let recording = &recordings[number];
        let missed = recording.events.len() * missed / 100;
        let mut world = recording.late_world(*owner, missed);
        let events = &recording.events[missed..];
        play(&mut world, events, KINDS, &steps, |world| recording.check_finish(world));
        let told = world.told();
        let how = format!("{} {owner:?}, {missed} missed: {told:?}", recording.file);
        if missed == 0 {
            prop_assert_eq!(&told, recording.told, "{}", how);
        }
        recording.check_late(&told, *owner, &how);
        Ok(())
    });
}

#[test]
fn random_interleavings_of_a_broken_release_and_its_fix() {
    let stories = stories();
    let steps = proptest::collection::vec(step(), 0..40);
    let strategy = (0..stories.len(), missed(), steps);
    run(600, &strategy, |(number, missed, steps)| {
        let story = &stories[number];
        let events = story.events();
        let missed = events.len() * missed / 100;
        let mut world = story.late_world(missed);
        let kinds = [story.kind, WatchedKind::ReplicaSet, WatchedKind::Pod];
        play(&mut world, &events[missed..], kinds, &steps, |_| {});
        let told = world.told();
        let how = format!("{}, {missed} missed: {told:?}", story.kind);
        let (fix, broken): (Vec<&str>, Vec<&str>) =
            told.iter().map(String::as_str).partition(|one| one.ends_with(" v3"));
        prop_assert_eq!(fix, ["started v3", "finished v3"], "{}", how);
        // The fix may come before the pods of the broken release are seen.
        let ends =
            ["failed invalid-image v2", "failed job-failed v2", "superseded v2", "removed v2"];
        match broken.as_slice() {
            [] => prop_assert!(missed > 0, "{}", how),
            ["started v2", end] => prop_assert!(ends.contains(end), "{}", how),
            ["started v2", "failing invalid-image v2", end] => {
                prop_assert!(ends.contains(end), "{}", how);
            }
            _ => prop_assert!(false, "{}", how),
        }
        Ok(())
    });
}
