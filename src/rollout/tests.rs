//! Stories of rollouts.

use jiff::SignedDuration;

use crate::model::id::DeployId;
use crate::rollout::acts::RolloutAct;
use crate::rollout::facts::{DeploymentFact, GateOutcome};
use crate::rollout::plan::{Bound, Gate, PlanFault, RolloutFailurePolicy, RolloutStep};
use crate::rollout::record::{Pause, RolloutState, RolloutTargetStatus};
use crate::rollout::simulation::{Simulation, deploy, plan, target};

const MINUTE: SignedDuration = SignedDuration::from_mins(1);

fn resume() -> RolloutAct {
    RolloutAct::Resume { reason: "go on".to_owned() }
}

fn retry() -> RolloutAct {
    RolloutAct::Retry { reason: "once more".to_owned() }
}

fn approve(step: usize) -> RolloutAct {
    RolloutAct::Approve { step, by: "ann".to_owned(), reason: "looks good".to_owned() }
}

fn one_by_one(targets: &[&str], on_failure: RolloutFailurePolicy) -> Simulation {
    let mut world = Simulation::new(plan(vec![deploy(targets, 1)], on_failure));
    world.advance();
    world
}

fn gated(gate: Gate, on_failure: RolloutFailurePolicy) -> Simulation {
    let gate = RolloutStep::Gate { gate, timeout: Some(MINUTE * 30) };
    let steps = vec![deploy(&["a"], 1), gate, deploy(&["b"], 1)];
    let mut world = Simulation::new(plan(steps, on_failure));
    world.advance();
    world.succeeds("a");
    world
}

#[test]
fn targets_follow_each_other_until_all_are_complete() {
    let mut world = one_by_one(&["a", "b", "c"], RolloutFailurePolicy::Undo);
    for name in ["a", "b", "c"] {
        assert_eq!(world.state(name), RolloutTargetStatus::Deploying);
        world.succeeds(name);
    }
    assert_eq!(world.record.state, RolloutState::Done);
    assert_eq!(world.orders, ["deploy a", "deploy b", "deploy c"]);
    world.matches_record();
}

#[test]
fn a_busy_target_is_waited_for_with_the_reason_and_is_no_pause() {
    let mut world = one_by_one(&["a", "b"], RolloutFailurePolicy::Undo);
    let other: DeployId = "20261121-100000000-0000aa".parse().unwrap();
    world.busy.insert(target("b"), other.clone());
    world.succeeds("a");
    assert_eq!(world.record.state, RolloutState::RollingOut);
    let decision = world.decide(&world.record.clone(), &world.facts());
    let [wait] = decision.waits.as_slice() else { panic!("{:?}", decision.waits) };
    assert_eq!(wait.target, Some(target("b")));
    assert_eq!(wait.waiting.what, format!("{other}, which is under way there, to end"));
    assert_eq!(wait.waiting.gives_up_at, None);
    assert_eq!(world.orders, ["deploy a"]);
    world.busy.clear();
    world.advance();
    assert_eq!(world.orders, ["deploy a", "deploy b"]);
    // On the way back, too.
    world.busy.insert(target("b"), other);
    world.fails("b", "crashes");
    assert!(matches!(world.record.state, RolloutState::Undoing { .. }));
    assert_eq!(world.orders.len(), 2, "nothing is undone yet");
    world.busy.clear();
    world.advance();
    world.succeeds("b");
    world.advance();
    world.succeeds("a");
    assert_eq!(world.record.state, RolloutState::Undone);
    world.matches_record();
}

#[test]
fn a_push_that_is_not_seen_yet_is_waited_for_on_the_way_back_where_the_app_never_was() {
    let mut world = one_by_one(&["new-a"], RolloutFailurePolicy::Undo);
    let id = world.open(&target("new-a")).unwrap();
    let open = |is_pushed| DeploymentFact::Open { is_pushed, sentence: "it is pushed".to_owned() };
    world.deployments.get_mut(&id).unwrap().fact = open(true);
    world.act(RolloutAct::Undo { reason: "no".to_owned() }).unwrap();
    world.advance();
    assert_eq!(world.state("new-a"), RolloutTargetStatus::UndoPending, "nobody removed it");
    world.deployments.get_mut(&id).unwrap().fact = open(false);
    world.push(&id);
    world.advance();
    assert_eq!(world.state("new-a"), RolloutTargetStatus::Undoing);
}

#[test]
fn a_ref_that_has_moved_is_noted_and_changes_nothing_else() {
    let mut world = one_by_one(&["a", "b"], RolloutFailurePolicy::Undo);
    let mut facts = world.facts();
    facts.ref_commit = Some("b".repeat(40).parse().unwrap());
    let record = world.record.clone();
    let moved = world.decide(&record, &facts).record;
    assert_eq!(moved.moved_to, facts.ref_commit);
    assert_eq!(moved.release, record.release);
    // Where nothing was looked up it stays as it was, and one that was moved back is as before.
    facts.ref_commit = None;
    assert_eq!(world.decide(&moved, &facts).record.moved_to, moved.moved_to);
    facts.ref_commit = Some(record.release.commit.clone());
    assert_eq!(world.decide(&moved, &facts).record.moved_to, None);
}

#[test]
fn a_failure_is_undone_first_and_the_others_in_reverse() {
    let mut world = one_by_one(&["a", "b", "new-c", "d"], RolloutFailurePolicy::Undo);
    world.succeeds("a");
    world.succeeds("b");
    world.fails("new-c", "cannot pull the image");
    let RolloutState::Undoing { reason } = &world.record.state else {
        panic!("{:?}", world.record)
    };
    assert_eq!(reason, "new-c: cannot pull the image");
    for name in ["new-c", "b", "a"] {
        world.succeeds(name);
    }
    assert_eq!(world.record.state, RolloutState::Undone);
    assert_eq!(world.orders[3..], ["remove new-c", "roll back b", "roll back a"]);
    assert_eq!(world.state("d"), RolloutTargetStatus::Pending);
    world.matches_record();
}

#[test]
fn a_target_where_the_app_never_was_fails_again_and_is_nobody_elses() {
    let mut world = one_by_one(&["new-a", "b"], RolloutFailurePolicy::Pause);
    for _ in 0..2 {
        world.refuses("new-a", "a rule is broken");
        assert!(matches!(world.record.state, RolloutState::Paused(Pause::Failure(_))));
        world.act(retry()).unwrap();
        world.advance();
        assert_eq!(world.state("new-a"), RolloutTargetStatus::Deploying);
    }
}

#[test]
fn a_revision_that_is_not_kept_any_more_is_left_to_a_person_and_the_others_go_on() {
    let mut world = one_by_one(&["a", "b", "c"], RolloutFailurePolicy::Undo);
    world.succeeds("a");
    world.succeeds("b");
    world.pruned.insert(target("b"));
    world.fails("c", "cannot pull the image");
    world.succeeds("c");
    world.succeeds("a");
    assert_eq!(world.record.state, RolloutState::UndoFailed);
    assert_eq!(world.orders[3..], ["roll back c", "roll back a"]);
    let b = world.record.targets.iter().find(|one| one.target == target("b")).unwrap();
    let note = b.note.as_ref().unwrap();
    assert!(note.contains("not kept any more; `bart rollback b"), "{note}");
}

#[test]
fn as_many_targets_as_the_step_says_are_under_way() {
    let mut world =
        Simulation::new(plan(vec![deploy(&["a", "b", "c"], 2)], RolloutFailurePolicy::Undo));
    world.advance();
    assert_eq!(world.orders, ["deploy a", "deploy b"]);
    world.succeeds("b");
    assert_eq!(world.orders.last().unwrap(), "deploy c");
    world.succeeds("a");
    world.succeeds("c");
    assert_eq!(world.record.state, RolloutState::Done);
}

#[test]
fn a_deployment_that_has_pushed_nothing_is_cancelled_and_not_undone() {
    let mut world = Simulation::new(plan(vec![deploy(&["a", "b"], 2)], RolloutFailurePolicy::Undo));
    world.advance();
    world.fails("a", "crashes");
    assert_eq!(world.orders[2..], ["roll back a"]);
    world.succeeds("a");
    assert_eq!(world.state("b"), RolloutTargetStatus::Unchanged);
    assert_eq!(world.record.state, RolloutState::Undone);
    world.matches_record();
}

#[test]
fn failures_within_the_limit_are_accepted_and_the_next_one_is_not() {
    let mut plan = plan(vec![deploy(&["a", "b", "c"], 1)], RolloutFailurePolicy::Undo);
    plan.max_failures = 1;
    let mut world = Simulation::new(plan);
    world.advance();
    world.fails("a", "crashes");
    assert_eq!(world.state("b"), RolloutTargetStatus::Deploying);
    world.pass(MINUTE);
    world.fails("b", "a timeout");
    let RolloutState::Undoing { reason } = &world.record.state else {
        panic!("{:?}", world.record)
    };
    assert_eq!(reason, "b: a timeout", "the newest, in whatever order the words are");
    for name in ["b", "a"] {
        world.succeeds(name);
    }
    assert_eq!(world.record.state, RolloutState::Undone);
}

#[test]
fn a_pause_waits_for_a_person_who_goes_on_retries_or_turns_back() {
    let paused = || {
        let mut world = one_by_one(&["a", "b"], RolloutFailurePolicy::Pause);
        world.fails("a", "crashes");
        let pause = Pause::Failure("a: crashes".to_owned());
        assert_eq!(world.record.state, RolloutState::Paused(pause));
        world
    };
    let mut world = paused();
    world.act(resume()).unwrap();
    world.advance();
    world.succeeds("b");
    assert_eq!(world.record.state, RolloutState::Done);
    assert_eq!(world.state("a"), RolloutTargetStatus::Failed);

    let mut world = paused();
    let before = world.record.targets[0].before.clone();
    world.act(retry()).unwrap();
    world.advance();
    assert_eq!(world.record.targets[0].before, before, "not its own revision");
    world.succeeds("a");
    world.succeeds("b");
    assert_eq!(world.record.state, RolloutState::Done);

    let mut world = paused();
    world.act(RolloutAct::Undo { reason: "errors".to_owned() }).unwrap();
    world.advance();
    world.succeeds("a");
    assert_eq!(world.record.state, RolloutState::Undone);
    world.matches_record();
}

#[test]
fn a_target_that_is_tried_again_is_waited_for_while_its_deployment_is_under_way() {
    let mut world = one_by_one(&["a"], RolloutFailurePolicy::Pause);
    world.pass(MINUTE * 15);
    world.advance();
    assert_eq!(world.state("a"), RolloutTargetStatus::Failed);
    world.act(retry()).unwrap();
    world.advance();
    assert_eq!(world.state("a"), RolloutTargetStatus::Deploying);
    assert_eq!(world.orders, ["deploy a"], "it is not deployed a second time");
    world.succeeds("a");
    assert_eq!(world.record.state, RolloutState::Done);
}

#[test]
fn a_target_that_waits_to_be_tried_again_is_undone_with_the_others() {
    let mut world = one_by_one(&["a", "b"], RolloutFailurePolicy::Pause);
    world.succeeds("a");
    world.fails("b", "crashes");
    world.act(retry()).unwrap();
    world.act(RolloutAct::Undo { reason: "errors".to_owned() }).unwrap();
    world.advance();
    for name in ["b", "a"] {
        world.succeeds(name);
    }
    assert_eq!(world.record.state, RolloutState::Undone);
    world.matches_record();
}

#[test]
fn what_an_earlier_attempt_has_pushed_is_undone_where_the_last_one_pushed_nothing() {
    let mut world = one_by_one(&["a"], RolloutFailurePolicy::Pause);
    world.fails("a", "crashes");
    world.act(retry()).unwrap();
    world.advance();
    world.act(RolloutAct::Undo { reason: "errors".to_owned() }).unwrap();
    // The second deployment is cancelled first.
    world.advance();
    world.advance();
    assert_eq!(world.orders, ["deploy a", "deploy a", "roll back a"]);
    world.succeeds("a");
    assert_eq!(world.state("a"), RolloutTargetStatus::Undone);
    world.matches_record();
}

#[test]
fn a_target_whose_second_deployment_a_lock_refused_is_undone_with_the_others() {
    let mut world = one_by_one(&["a"], RolloutFailurePolicy::Pause);
    world.fails("a", "crashes");
    world.act(retry()).unwrap();
    world.advance();
    let second = world.open(&target("a")).unwrap();
    world.refuse(&second);
    world.locked.insert(target("a"));
    world.advance();
    assert_eq!(world.state("a"), RolloutTargetStatus::Pending);
    world.locked.clear();
    world.act(RolloutAct::Undo { reason: "errors".to_owned() }).unwrap();
    world.advance();
    assert_eq!(world.orders.last().unwrap(), "roll back a");
    world.succeeds("a");
    assert_eq!(world.record.state, RolloutState::Undone);
    world.matches_record();
}

#[test]
fn a_gate_has_its_whole_time_again_after_a_person_paused_it() {
    let gate = Gate::Http { url: "https://example.com".to_owned() };
    let gate = RolloutStep::Gate { gate, timeout: Some(MINUTE * 30) };
    let steps = vec![deploy(&["a"], 1), gate, deploy(&["b"], 1)];
    let mut world = Simulation::new(plan(steps, RolloutFailurePolicy::Undo));
    world.advance();
    world.succeeds("a");
    world.gate = GateOutcome::NotPassed;
    world.advance();
    world.act(RolloutAct::Pause { reason: "the backend is restarted".to_owned() }).unwrap();
    world.pass(MINUTE * 40);
    world.act(resume()).unwrap();
    world.advance();
    assert_eq!(world.record.state, RolloutState::RollingOut);
    world.pass(MINUTE * 31);
    world.advance();
    assert!(matches!(world.record.state, RolloutState::Undoing { .. }), "{:?}", world.record);
}

#[test]
fn a_target_that_a_person_has_repaired_with_another_release_is_not_tried_again() {
    let mut world = one_by_one(&["a", "b"], RolloutFailurePolicy::Pause);
    world.fails("a", "crashes");
    let other = world.take_over(&target("a"));
    world.advance();
    assert_eq!(world.state("a"), RolloutTargetStatus::Superseded);
    assert!(world.note("a").contains(other.as_str()));
    assert!(world.act(retry()).is_err());
    world.act(resume()).unwrap();
    world.advance();
    world.succeeds("b");
    assert_eq!(world.record.state, RolloutState::Done);
    assert_eq!(world.orders, ["deploy a", "deploy b"]);
}

#[test]
fn a_rollout_that_continues_goes_past_failures() {
    let mut world = one_by_one(&["a", "b"], RolloutFailurePolicy::Continue);
    world.fails("a", "crashes");
    world.succeeds("b");
    assert_eq!(world.record.state, RolloutState::Done);
}

#[test]
fn a_target_that_takes_too_long_has_failed() {
    let mut world = one_by_one(&["a"], RolloutFailurePolicy::Undo);
    let id = world.open(&target("a")).unwrap();
    world.push(&id);
    world.pass(MINUTE * 14);
    world.advance();
    assert_eq!(world.state("a"), RolloutTargetStatus::Deploying);
    world.pass(MINUTE);
    world.advance();
    let failure = world.record.targets[0].failure.clone().unwrap();
    assert_eq!(failure, "it took longer than 15m: 1 of 2 updated");
    assert_eq!(world.orders.last().unwrap(), "roll back a");
}

#[test]
fn a_lock_pauses_until_it_is_taken_away() {
    let mut world = one_by_one(&["a", "b"], RolloutFailurePolicy::Undo);
    world.locked.insert(target("b"));
    world.succeeds("a");
    let reason = "b: locked by ann: freeze".to_owned();
    assert_eq!(world.record.state, RolloutState::Paused(Pause::Blocked(reason)));
    let version = world.record.version;
    world.pass(MINUTE);
    world.advance();
    assert_eq!(world.record.version, version, "nothing is stored while nothing changes");
    assert_eq!(world.record.since, world.now - MINUTE, "it has waited since then");
    world.locked.clear();
    world.advance();
    assert_eq!((&world.record.state, world.record.since), (&RolloutState::RollingOut, world.now));
    world.succeeds("b");
    assert_eq!(world.record.state, RolloutState::Done);
}

#[test]
fn a_deployment_that_a_lock_refuses_is_created_again_later_but_not_for_ever() {
    let mut world = one_by_one(&["a"], RolloutFailurePolicy::Pause);
    for _ in 0..4 {
        let id = world.open(&target("a")).unwrap();
        world.refuse(&id);
        world.advance();
        assert_eq!(world.state("a"), RolloutTargetStatus::Deploying);
    }
    let id = world.open(&target("a")).unwrap();
    world.refuse(&id);
    world.advance();
    assert_eq!(world.state("a"), RolloutTargetStatus::Failed);
}

#[test]
fn what_a_person_deploys_is_left_to_them() {
    let mut world = one_by_one(&["a", "b", "c"], RolloutFailurePolicy::Undo);
    world.succeeds("a");
    let other = world.take_over(&target("a"));
    world.advance();
    assert_eq!(world.state("a"), RolloutTargetStatus::Superseded);
    assert!(world.note("a").contains(other.as_str()));
    // In the middle of a step, too.
    world.take_over(&target("b"));
    world.advance();
    assert_eq!(world.state("b"), RolloutTargetStatus::Superseded);
    world.fails("c", "crashes");
    world.succeeds("c");
    assert_eq!(world.record.state, RolloutState::Undone);
    assert_eq!(world.orders[3..], ["roll back c"]);
}

#[test]
fn an_undo_that_fails_goes_on_with_the_others_and_says_what_to_do() {
    let mut world = one_by_one(&["a", "b"], RolloutFailurePolicy::Undo);
    world.succeeds("a");
    world.fails("b", "crashes");
    world.fails("b", "the manifest host refuses the push");
    world.succeeds("a");
    assert_eq!(world.record.state, RolloutState::UndoFailed);
    let before = "20261121-100000000-000002";
    assert_eq!(
        world.note("b"),
        format!(
            "the manifest host refuses the push; `bart rollback b --to {before}` makes the revision before live again"
        )
    );
    world.act(retry()).unwrap();
    world.advance();
    world.succeeds("b");
    assert_eq!(world.record.state, RolloutState::Undone);
    world.matches_record();
}

#[test]
fn a_target_that_vanishes_is_skipped_before_and_named_after_its_turn() {
    let mut world = one_by_one(&["a", "b"], RolloutFailurePolicy::Undo);
    world.gone.insert(target("b"));
    world.succeeds("a");
    assert_eq!(world.state("b"), RolloutTargetStatus::Skipped);
    assert_eq!(world.record.state, RolloutState::Done);

    world.gone.insert(target("a"));
    world.act(RolloutAct::Undo { reason: "errors".to_owned() }).unwrap();
    world.advance();
    assert_eq!(world.record.state, RolloutState::UndoFailed);
    assert!(
        world.note("a").starts_with("it is no target of the service any more; `bart rollback a")
    );
}

#[test]
fn a_gate_of_time_passes_when_the_time_has_gone_by() {
    let mut world = gated(Gate::Bake { length: MINUTE * 10 }, RolloutFailurePolicy::Undo);
    world.pass(MINUTE * 9);
    world.advance();
    assert_eq!(world.record.index, 1);
    // A clock that goes back lengthens it, and breaks nothing.
    world.pass(-MINUTE * 5);
    world.advance();
    world.pass(MINUTE * 6);
    world.advance();
    assert_eq!(world.state("b"), RolloutTargetStatus::Deploying);
}

#[test]
fn a_gate_that_a_person_approves_waits_for_the_person() {
    let mut world = gated(Gate::Approval { team: None }, RolloutFailurePolicy::Pause);
    let refusal = world.act(approve(3)).unwrap_err();
    assert!(
        refusal.to_string().contains("another one waits"),
        "the one that the person saw counts"
    );
    world.act(approve(1)).unwrap();
    world.advance();
    assert_eq!(world.record.gates[&1].approval.as_ref().unwrap().by, "ann");
    assert_eq!(world.state("b"), RolloutTargetStatus::Deploying);
    let refusal = world.act(approve(1)).unwrap_err();
    assert_eq!(refusal.to_string(), "no gate waits for an approval now");
}

#[test]
fn a_gate_that_is_asked_passes_by_its_answer_and_turns_back_after_its_time() {
    let bound = Bound::AtMost("1".to_owned());
    let gate = Gate::PromQl { query: "errors".to_owned(), bound };
    let mut world = gated(gate.clone(), RolloutFailurePolicy::Undo);
    world.gate = GateOutcome::Unanswered;
    world.advance();
    assert_eq!(world.record.index, 1, "what cannot be asked does not pass");
    world.gate = GateOutcome::Passed;
    world.advance();
    assert_eq!(world.state("b"), RolloutTargetStatus::Deploying);

    let mut world = gated(gate, RolloutFailurePolicy::Undo);
    world.pass(MINUTE * 30);
    world.advance();
    let RolloutState::Undoing { reason } = &world.record.state else {
        panic!("{:?}", world.record)
    };
    assert_eq!(reason, "a gate did not pass within 30m: `errors` to be at most 1 (now: 2.5)");
    world.succeeds("a");
    assert_eq!(world.record.state, RolloutState::Undone);
}

#[test]
fn acts_that_make_no_sense_are_refused() {
    let mut world = one_by_one(&["a"], RolloutFailurePolicy::Undo);
    let refusal = |world: &mut Simulation, act| world.act(act).unwrap_err().to_string();
    assert_eq!(refusal(&mut world, resume()), "it is rolling_out, and not paused");
    world.succeeds("a");
    let pause = RolloutAct::Pause { reason: String::new() };
    assert_eq!(refusal(&mut world, pause), "it has ended: it is done");
    let cancel = RolloutAct::Cancel { reason: String::new() };
    assert_eq!(refusal(&mut world, cancel), "it has ended: it is done");
}

#[test]
fn a_plan_that_cannot_be_carried_out_is_refused() {
    let check = |steps| plan(steps, RolloutFailurePolicy::Undo).check();
    assert_eq!(check(vec![]), Err(PlanFault::Empty));
    assert_eq!(check(vec![deploy(&["a"], 0)]), Err(PlanFault::Idle(0)));
    let twice = check(vec![deploy(&["a"], 1), deploy(&["b", "a"], 1)]);
    assert_eq!(twice, Err(PlanFault::Repeated(target("a"))));
    let backwards = Gate::Bake { length: -MINUTE };
    let backwards = RolloutStep::Gate { gate: backwards, timeout: None };
    assert_eq!(check(vec![deploy(&["a"], 1), backwards]), Err(PlanFault::Time));
}

#[test]
fn a_plan_says_how_long_it_takes() {
    let bake = RolloutStep::Gate { gate: Gate::Bake { length: MINUTE * 10 }, timeout: None };
    let steps = vec![deploy(&["a"], 1), bake, deploy(&["b", "c", "d"], 2)];
    let duration = plan(steps, RolloutFailurePolicy::Undo).duration();
    assert_eq!(duration.shortest, MINUTE * 10);
    assert_eq!(duration.longest, Some(MINUTE * 55));
}
