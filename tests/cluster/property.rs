//! Whatever order the events of a recording come in, however often, with whatever lists and restarts between them: each
//! start, finish and failure is told once, and no finish before the pods are there.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use the_deployer::cluster::object::WatchedKind;

use super::recorded::{Event, Owner, recordings};

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
    /// A second goes by.
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

#[test]
fn random_interleavings_tell_everything_once() {
    let all = [Owner::Us, Owner::Anybody].map(|owner| (owner, recordings(owner)));
    let config = Config { cases: 400, failure_persistence: None, ..Config::default() };
    let steps = proptest::collection::vec(step(), 0..120);
    let which = (0..2_usize, 0..9_usize, steps);
    let outcome = TestRunner::new(config).run(&which, |(owner, number, steps)| {
        let (owner, recordings) = &all[owner];
        let recording = &recordings[number];
        let mut world = recording.world(*owner);
        let mut queues = KINDS.map(|kind| {
            let of_kind = |event: &&Event| event.object.kind() == kind;
            recording.events.iter().filter(of_kind).collect::<Vec<&Event>>()
        });
        let mut brought: [Vec<&Event>; 3] = [vec![], vec![], vec![]];
        // What a list has is the truth, so nothing older comes while one is under way.
        let mut is_listing = [false; 3];
        for step in &steps {
            match *step {
                Step::Bring { watch, count } => {
                    let count = count.min(queues[watch].len());
                    for event in queues[watch].drain(..count) {
                        event.bring(&mut world);
                        recording.check_finish(&world);
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
                    world.list(KINDS[watch]);
                    is_listing[watch] = false;
                }
                Step::BreakOff { watch } => {
                    world.index.begin_list(KINDS[watch]);
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
            recording.check_finish(&world);
        }
        for (watch, queue) in queues.iter_mut().enumerate() {
            // A list that broke off is always followed by another.
            world.list(KINDS[watch]);
            for event in queue.drain(..) {
                event.bring(&mut world);
                recording.check_finish(&world);
            }
        }
        let told = world.told();
        prop_assert_eq!(told, recording.told, "{} {:?}", recording.file, owner);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
