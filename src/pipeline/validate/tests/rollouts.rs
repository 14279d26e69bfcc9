//! Rollouts that a WAML names; `tests/pipeline/rejected-rollouts` has each fault.

use super::{HEAD, planned};
use crate::model::violation::Violation;

fn rejected(deploy: &str, rollouts: &str) -> Vec<String> {
    let violations = planned(&format!("{HEAD}deploy:\n{deploy}rollouts:\n{rollouts}"));
    let of_rollouts = |one: &&Violation| one.path.starts_with("rollouts");
    violations.iter().filter(of_rollouts).map(|one| one.message.clone()).collect()
}

#[test]
fn the_number_of_rollouts_and_of_globs_is_bounded() {
    let many: String =
        (0..30).map(|n| format!("  r-{n}: {{steps: [{{targets: [t]}}]}}\n")).collect();
    assert_eq!(rejected("  t:\n", &many), ["the file has more than 20 rollouts"]);
    let globs = vec!["\"*\""; 300].join(", ");
    let one = format!("  r: {{steps: [{{targets: [{globs}]}}]}}\n");
    let violations = rejected("  t:\n", &one);
    assert!(violations.iter().any(|one| one.contains("more than 100 globs")), "{violations:?}");
}

/// A target whose name is not legal is reported where it stands, and not at the steps that name it.
#[test]
fn what_only_follows_from_another_mistake_is_not_reported() {
    let rollouts = "  r: {steps: [{targets: [prod_, \"prod*\"]}]}\n";
    assert_eq!(rejected("  t:\n  prod_:\n", rollouts), Vec::<String>::new());
    let rollouts = "  r: {steps: [{targets: [t], parallel: many}, {bake: [1]}]}\n";
    let violations = rejected("  t:\n", rollouts);
    assert_eq!(violations.len(), 2, "{violations:?}");
    assert!(violations.iter().all(|one| one.contains("must be")), "{violations:?}");
}

#[test]
fn a_gate_is_compiled_to_the_value_that_was_written() {
    let rollouts = "  r:\n    steps:\n    - targets: [t]\n    - promql: {query: up, at_least: 1e3}\n    \
                    - no_alert: {matchers: ['a=~\"b|\\\"c\"', 'd!=\"\"']}\n    - calendar: [{days: '*', from: '22:00', to: '06:00'}]\n";
    assert_eq!(rejected("  t:\n", rollouts), Vec::<String>::new());
}
