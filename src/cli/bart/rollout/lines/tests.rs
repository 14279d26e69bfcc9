//! Tests of the lines of a rollout: what a terminal of 80 columns shows, and what a log gets.

use serde_json::{Value as Json, json};

use super::*;
use crate::cli::bart::rollout::follow::judge;
use crate::cli::live_lines;

const NOW: &str = "2026-11-21T12:00:00Z";

fn target(name: &str, step: usize, state: &str, more: &Json) -> Json {
    let mut target = json!({
        "target": name, "step": step, "state": state, "since": "2026-11-21T11:59:30Z", "deployment": null,
        "started_at": null, "undo": null, "before": null, "attempts": 0, "failure": null, "note": null,
    });
    for (key, value) in more.as_object().unwrap() {
        target[key] = value.clone();
    }
    target
}

fn rollout(state: &str, index: usize, targets: &[Json], more: &Json) -> RolloutDetail {
    let complete = targets.iter().filter(|target| target["state"] == "complete").count();
    let mut json = json!({
        "id": "r-20261121-115000000-3f9a2c", "undo_id": "r-20261121-115000000-3f9a2d", "app": "devx/shop",
        "repository": "acme/shop", "commit": "649008fb", "tag": "1.0", "name": null, "state": state,
        "reason": null, "since": "2026-11-21T11:50:00Z", "needs_person": false, "created_by": "ada",
        "created_at": "2026-11-21T11:50:00Z", "index": index, "steps_count": 3,
        "targets_count": targets.len(), "complete": complete, "failed": 0, "version": 4,
        "on_failure": "undo", "max_failures": 0, "timeout_seconds": 900,
        "steps": [
            {"targets": ["canary-1"], "parallel": 1, "gate": null},
            {"targets": [], "parallel": null, "gate": {
                "kind": "bake", "condition": "the bake time of 10m", "team": null, "timeout_seconds": null,
                "answer": null, "approval": null,
            }},
            {"targets": [], "parallel": 2, "gate": null},
        ],
        "targets": targets, "waits": [], "commands": [],
    });
    for (key, value) in more.as_object().unwrap() {
        json[key] = value.clone();
    }
    serde_json::from_value(json).unwrap()
}

/// A rollout in its last step: two targets under way, one to come.
fn in_the_middle() -> RolloutDetail {
    let started =
        json!({"started_at": "2026-11-21T11:58:48Z", "deployment": "20261121-115848000-3f9a2c"});
    rollout(
        "rolling_out",
        2,
        &[
            target("canary-1", 0, "complete", &started),
            target("prod-cluster-of-europe-west-1", 2, "deploying", &started),
            target("prod-2", 2, "deploying", &started),
            target("prod-3", 2, "pending", &json!({})),
        ],
        &json!({"waits": [{
            "target": "prod-cluster-of-europe-west-1", "what": "2 of 5 updated, 1 available; shop-7c9 cannot pull its image",
            "since": "2026-11-21T11:59:00Z", "last_event": null, "gives_up_at": "2026-11-21T12:14:00Z",
        }]}),
    )
}

fn show(rollout: &RolloutDetail, height: Option<usize>) -> String {
    let lines = lines(rollout, NOW.parse().unwrap(), "⠋", height);
    let text = live_lines::frame(&lines, 0, 80);
    let plain = anstream::adapter::strip_str(&text).to_string();
    plain.lines().map(|line| format!("{}\n", line.trim_start_matches('\r').trim_end())).collect()
}

#[test]
fn every_target_and_gate_has_its_line_of_80_columns() {
    let text = show(&in_the_middle(), None);
    insta::assert_snapshot!(text, @r"
    ⠋ r-20261121-115000000-3f9a2c  devx/shop 1.0  rolling out  1 of 4, 10 min
    ✓ canary-1              complete       42 s
    ✓ [bake]                passed               the bake time of 10m
    ⠋ prod-clust…pe-west-1  deploying    1m 12s  2 of 5 updated, 1 available; shop-
    ⠋ prod-2                deploying    1m 12s
    · prod-3                pending
    ");
    assert!(text.lines().all(|line| line.chars().count() < 80), "{text}");
}

#[test]
fn a_gate_shows_its_last_answer_and_a_pause_its_reason() {
    let gate = json!([
        {"targets": ["canary-1"], "parallel": 1, "gate": null},
        {"targets": [], "parallel": null, "gate": {
            "kind": "promql", "condition": "`errors` to be at most 0.01", "team": null, "timeout_seconds": 600,
            "answer": {"at": NOW, "result": "not_passed", "value": "0.07 is above 0.01"}, "approval": null,
        }},
    ]);
    let waits = json!([{
        "target": null, "what": "the query to be at most 0.01", "since": "2026-11-21T11:58:00Z", "last_event": null,
        "gives_up_at": "2026-11-21T12:08:00Z",
    }]);
    let done = vec![target("canary-1", 0, "complete", &json!({}))];
    let waiting = rollout("rolling_out", 1, &done, &json!({"steps": gate, "waits": waits}));
    insta::assert_snapshot!(show(&waiting, None), @r"
    ⠋ r-20261121-115000000-3f9a2c  devx/shop 1.0  rolling out  1 of 1, 10 min
    ✓ canary-1  complete
    ⠋ [promql]  waiting       2 min  not yet: 0.07 is above 0.01
    ");
    let more =
        json!({"steps": gate, "needs_person": true, "reason": "the gate did not pass in time"});
    insta::assert_snapshot!(show(&rollout("paused", 1, &done, &more), None), @r"
    ! r-20261121-115000000-3f9a2c  devx/shop 1.0  paused  1 of 1, 10 min
      the gate did not pass in time
    ✓ canary-1  complete
    · [promql]  pending              not yet: 0.07 is above 0.01
    ");
}

#[test]
fn the_way_back_shows_what_is_left_to_do() {
    let failed = json!({"failure": "shop-7c9 cannot pull its image"});
    let note = json!({"note": "roll it back with `bart rollback prod-3`"});
    let targets = vec![
        target("prod-1", 0, "undo_pending", &json!({})),
        target("prod-2", 0, "undone", &failed),
        target("prod-3", 0, "undo_failed", &note),
        target("prod-4", 0, "superseded", &json!({"note": "ada deployed 1.1 there"})),
        target("prod-5", 0, "undoing", &json!({})),
    ];
    let more =
        json!({"reason": "prod-2 failed", "steps": [{"targets": [], "parallel": 1, "gate": null}]});
    insta::assert_snapshot!(show(&rollout("undoing", 0, &targets, &more), None), @r"
    ⠋ r-20261121-115000000-3f9a2c  devx/shop 1.0  undoing  0 of 5, 10 min
      prod-2 failed
    · prod-1  to undo
    ↩ prod-2  undone               shop-7c9 cannot pull its image
    ✗ prod-3  undo failed          roll it back with `bart rollback prod-3`
    - prod-4  superseded           ada deployed 1.1 there
    ⠋ prod-5  undoing        30 s
    ");
}

#[test]
fn a_low_terminal_shows_what_is_under_way() {
    let state = |n: usize| match n {
        0..40 => "complete",
        40..42 => "deploying",
        _ => "pending",
    };
    let targets: Vec<_> =
        (0..100).map(|n| target(&format!("prod-{n}"), 0, state(n), &json!({}))).collect();
    let steps = json!({"steps": [{"targets": [], "parallel": 2, "gate": null}]});
    let rollout = rollout("rolling_out", 0, &targets, &steps);
    let text = show(&rollout, Some(10));
    insta::assert_snapshot!(text, @r"
    ⠋ r-20261121-115000000-3f9a2c  devx/shop 1.0  rolling out  40 of 100, 10 min
    ✓ 40 before are complete
    ⠋ prod-40  deploying      30 s
    ⠋ prod-41  deploying      30 s
    · prod-42  pending
    · prod-43  pending
    · prod-44  pending
    · prod-45  pending
    · 54 more are pending
    ");
    for height in [0, 5, 10, 24, 50, 103, 200] {
        let count = show(&rollout, Some(height)).lines().count();
        assert!(count < height.max(7), "{count} lines on {height}");
        assert!(show(&rollout, Some(height)).contains("prod-41"), "{height}");
    }
    assert_eq!(show(&rollout, None).lines().count(), 101);
}

#[test]
fn a_log_gets_a_line_for_each_change() {
    let middle = in_the_middle();
    insta::assert_snapshot!(news(None, &middle).concat(), @r"
    r-20261121-115000000-3f9a2c: rolling out, 1 of 4 targets
    [bake]: passed
    canary-1: complete in 42 s (20261121-115848000-3f9a2c)
    prod-cluster-of-europe-west-1: deploying: 2 of 5 updated, 1 available; shop-7c9 cannot pull its image (20261121-115848000-3f9a2c)
    prod-2: deploying (20261121-115848000-3f9a2c)
    ");
    assert_eq!(news(Some(&middle), &middle), Vec::<String>::new());
    let mut next = middle.clone();
    next.waits.clear();
    next.summary.complete = 2;
    next.targets[1].state = RolloutTargetStatus::Complete;
    next.targets[1].since = NOW.parse().unwrap();
    insta::assert_snapshot!(news(Some(&middle), &next).concat(), @"prod-cluster-of-europe-west-1: complete in 1m 12s (20261121-115848000-3f9a2c)");
}

#[test]
fn it_is_good_where_no_more_targets_are_without_the_release_than_failures_are_accepted() {
    let targets = [
        target("canary-1", 0, "complete", &json!({})),
        target("prod-1", 2, "superseded", &json!({})),
        target("prod-2", 2, "failed", &json!({"failure": "crashes"})),
    ];
    for (state, max_failures, is_good) in
        [("done", 0, false), ("done", 1, false), ("done", 2, true), ("undone", 2, false)]
    {
        let rollout = rollout(state, 3, &targets, &json!({"max_failures": max_failures}));
        assert_eq!(judge(&rollout).is_ok(), is_good, "{state}, {max_failures}");
    }
}

#[test]
fn a_span_is_short() {
    for (seconds, text) in [
        (-5, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (192, "3m 12s"),
        (600, "10 min"),
        (3_600, "1 h"),
        (4_000, "1h 06m"),
        (200_000, "2 days"),
    ] {
        assert_eq!(span(SignedDuration::from_secs(seconds)), text);
    }
}
