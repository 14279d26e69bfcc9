//! The plan of a rollout as text, before anything happens: the sequence with what is live on each target, the gates, the
//! policy for failures, and how long it takes. Pure.

use jiff::SignedDuration;

use crate::api::rollouts::{
    LiveKind, PlannedTarget, RolloutFailurePolicy, RolloutGateState, RolloutPlanAnswer,
};
use crate::cli::output::{BOLD, DIM, NOTE, note_line, short};
use crate::cli::table::wrap;
use crate::pipeline::weights::weights_text;

/// Formats the plan in that width.
pub(super) fn format_plan(plan: &RolloutPlanAnswer, width: Option<usize>) -> String {
    let RolloutPlanAnswer { app, repository, commit, tag, name, steps, targets, overlap, .. } =
        plan;
    let count = targets.len();
    let by = name.as_ref().map_or(String::new(), |name| format!(", rollout {name}"));
    let plural = if count == 1 { "" } else { "s" };
    let commit = short(commit);
    let mut text = format!(
        "{BOLD}{app} {tag}{BOLD:#} to {count} target{plural}{by}  {DIM}{repository} {commit}{DIM:#}\n\n"
    );
    let names = targets.iter().map(|target| target.target.chars().count()).max().unwrap_or(0);
    let numbers = steps.len().to_string().len();
    for (index, step) in steps.iter().enumerate() {
        let number = format!("  {:>numbers$}", index + 1);
        let indent = " ".repeat(numbers + 2);
        let of_step: Vec<&PlannedTarget> =
            targets.iter().filter(|target| target.step == index).collect();
        let weights = weights_text(&step.weights);
        let weights =
            if weights.is_empty() { weights } else { format!("{BOLD}{weights}{BOLD:#}  ") };
        match (&step.gate, of_step.as_slice()) {
            (Some(gate), _) => text += &format!("{number}  {}\n", gate_line(gate)),
            (None, [target]) => {
                text += &format!("{number}  {weights}{}\n", target_line(target, names));
            }
            (None, of_step) => {
                let pace = pace(of_step.len(), step.parallel.unwrap_or(1));
                text +=
                    &format!("{number}  {weights}{DIM}{} targets, {pace}{DIM:#}\n", of_step.len());
                for target in of_step {
                    text += &format!("{indent}  {}\n", target_line(target, names));
                }
            }
        }
    }
    text += &format!("\n{}\n{}\n", failure_sentence(plan), time_sentence(plan));
    if let Some(id) = overlap {
        text += &note_line(format!(
            "rollout {id} of the app has one of these targets and has not ended: this one is refused, or waits with --queue"
        ));
    }
    text += "Nothing was started.\n";
    wrap(&text, width)
}

/// Says how many targets of a step are under way at the same time.
fn pace(count: usize, parallel: usize) -> String {
    match parallel {
        0 | 1 => "one after the other".to_owned(),
        _ if parallel >= count => "all at once".to_owned(),
        _ => format!("{parallel} at a time"),
    }
}

fn target_line(target: &PlannedTarget, names: usize) -> String {
    let PlannedTarget { target, step: _, live, revision, tag, blocked } = target;
    let tag = tag.as_ref().map_or(String::new(), |tag| format!(" ({tag})"));
    let live = match (live, revision) {
        (LiveKind::Revision, Some(revision)) => format!("{revision}{tag}"),
        (LiveKind::Absent, _) => "the app is not there".to_owned(),
        (LiveKind::Edited, _) => "edited by hand: deploy or roll back there first".to_owned(),
        (LiveKind::Revision | LiveKind::Unknown, _) => "what is live is not known".to_owned(),
    };
    let blocked =
        blocked.as_ref().map_or(String::new(), |reason| format!("  {NOTE}{reason}{NOTE:#}"));
    format!("{target:names$}  {DIM}{live}{DIM:#}{blocked}")
}

fn gate_line(gate: &RolloutGateState) -> String {
    let limit = gate.timeout_seconds.map(SignedDuration::from_secs);
    let limit = limit.map_or(String::new(), |limit| format!("; it fails after {limit:#}"));
    format!("wait for {}{limit}", gate.condition)
}

/// Says what follows a failure.
fn failure_sentence(plan: &RolloutPlanAnswer) -> String {
    let timeout = SignedDuration::from_secs(plan.timeout_seconds);
    let timeout = format!("{timeout:#}");
    let has_limit = plan
        .steps
        .iter()
        .any(|step| step.gate.as_ref().is_some_and(|gate| gate.timeout_seconds.is_some()));
    let failure = match plan.max_failures {
        0 => format!("If a target fails or takes longer than {timeout}"),
        1 => format!("If more than 1 target fails or takes longer than {timeout}"),
        many => format!("If more than {many} targets fail or take longer than {timeout}"),
    };
    let gate = if has_limit { ", or a gate does not pass in time" } else { "" };
    match plan.on_failure {
        RolloutFailurePolicy::Undo => {
            format!("{failure}{gate}, every changed target gets its former revision back.")
        }
        RolloutFailurePolicy::Pause => format!("{failure}{gate}, the rollout waits for a person."),
        RolloutFailurePolicy::Continue => {
            let gate = if has_limit { " A gate that does not pass in time pauses it." } else { "" };
            format!("A target that fails or takes longer than {timeout} stops nothing.{gate}")
        }
    }
}

/// Says how long it takes.
fn time_sentence(plan: &RolloutPlanAnswer) -> String {
    let shortest = SignedDuration::from_secs(plan.shortest_seconds);
    let least = if shortest.is_zero() {
        "It takes as long as the deployments do".to_owned()
    } else {
        format!("It takes {shortest:#} and the deployments' own time")
    };
    match plan.longest_seconds.map(SignedDuration::from_secs) {
        Some(longest) => format!("{least}, and {longest:#} at most."),
        None => format!("{least}; a gate may take as long as it takes."),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::api::rollouts::RolloutStepState;

    fn target(name: &str, step: usize, live: LiveKind) -> PlannedTarget {
        let is_revision = live == LiveKind::Revision;
        PlannedTarget {
            target: name.to_owned(),
            step,
            live,
            revision: is_revision.then(|| "20261121-054812123-3f9a2c".to_owned()),
            tag: is_revision.then(|| "0.9".to_owned()),
            blocked: None,
        }
    }

    fn deploy(targets: &[&str], parallel: usize) -> RolloutStepState {
        let targets = targets.iter().map(|name| (*name).to_owned()).collect();
        RolloutStepState {
            targets,
            parallel: Some(parallel),
            weights: BTreeMap::default(),
            gate: None,
        }
    }

    fn gate(kind: &str, condition: &str, timeout: Option<i64>) -> RolloutStepState {
        let gate = RolloutGateState {
            kind: kind.to_owned(),
            condition: condition.to_owned(),
            team: None,
            timeout_seconds: timeout,
            answers: Vec::new(),
            passes_at: None,
            passed_at: None,
            answer: None,
            approval: None,
        };
        RolloutStepState {
            targets: Vec::new(),
            parallel: None,
            weights: BTreeMap::default(),
            gate: Some(gate),
        }
    }

    fn plan() -> RolloutPlanAnswer {
        RolloutPlanAnswer {
            app: "devx/shop".to_owned(),
            repository: "acme/shop".to_owned(),
            commit: "649008fb649008fb649008fb649008fb649008fb".to_owned(),
            tag: "1.0".to_owned(),
            name: Some("production".to_owned()),
            on_failure: RolloutFailurePolicy::Undo,
            max_failures: 0,
            timeout_seconds: 900,
            steps: vec![
                deploy(&["canary-1"], 1),
                gate("bake", "the bake time of 10m", None),
                deploy(&["prod-eu-1", "prod-eu-2", "prod-us-1"], 2),
                gate(
                    "promql",
                    "`sum(rate(errors_total{app=\"shop\"}[5m])) / sum(rate(requests_total{app=\"shop\"}[5m]))` to be at most 0.01",
                    Some(600),
                ),
                gate("approval", "the approval of a member of acme/sre", None),
                deploy(&["edge-1", "edge-2"], 2),
            ],
            targets: vec![
                target("canary-1", 0, LiveKind::Revision),
                target("prod-eu-1", 2, LiveKind::Revision),
                target("prod-eu-2", 2, LiveKind::Absent),
                PlannedTarget {
                    blocked: Some("locked by ann: the database moves".to_owned()),
                    ..target("prod-us-1", 2, LiveKind::Revision)
                },
                target("edge-1", 5, LiveKind::Edited),
                target("edge-2", 5, LiveKind::Unknown),
            ],
            shortest_seconds: 600,
            longest_seconds: None,
            overlap: None,
        }
    }

    fn text(plan: &RolloutPlanAnswer) -> String {
        let text = anstream::adapter::strip_str(&format_plan(plan, Some(80))).to_string();
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(80), "{text}");
        text
    }

    #[test]
    fn a_plan_shows_its_sequence_and_what_follows_a_failure() {
        insta::assert_snapshot!(text(&plan()), @r#"
    devx/shop 1.0 to 6 targets, rollout production  acme/shop 649008fb

      1  canary-1   20261121-054812123-3f9a2c (0.9)
      2  wait for the bake time of 10m
      3  3 targets, 2 at a time
         prod-eu-1  20261121-054812123-3f9a2c (0.9)
         prod-eu-2  the app is not there
         prod-us-1  20261121-054812123-3f9a2c (0.9)  locked by ann: the database
           moves
      4  wait for `sum(rate(errors_total{app="shop"}[5m])) /
        sum(rate(requests_total{app="shop"}[5m]))` to be at most 0.01; it fails
        after 10m
      5  wait for the approval of a member of acme/sre
      6  2 targets, all at once
         edge-1     edited by hand: deploy or roll back there first
         edge-2     what is live is not known

    If a target fails or takes longer than 15m, or a gate does not pass in time,
      every changed target gets its former revision back.
    It takes 10m and the deployments' own time; a gate may take as long as it takes.
    Nothing was started.
    "#);
    }

    #[test]
    fn a_plan_without_gates_says_when_it_ends() {
        let only = RolloutPlanAnswer {
            name: None,
            max_failures: 1,
            on_failure: RolloutFailurePolicy::Pause,
            steps: vec![deploy(&["a", "b"], 1)],
            targets: vec![target("a", 0, LiveKind::Revision), target("b", 0, LiveKind::Absent)],
            shortest_seconds: 0,
            longest_seconds: Some(1800),
            overlap: Some("r-20261121-054812123-3f9a2c".to_owned()),
            ..plan()
        };
        insta::assert_snapshot!(text(&only), @"
    devx/shop 1.0 to 2 targets  acme/shop 649008fb

      1  2 targets, one after the other
         a  20261121-054812123-3f9a2c (0.9)
         b  the app is not there

    If more than 1 target fails or takes longer than 15m, the rollout waits for a
      person.
    It takes as long as the deployments do, and 30m at most.
    note: rollout r-20261121-054812123-3f9a2c of the app has one of these targets
      and has not ended: this one is refused, or waits with --queue
    Nothing was started.
    ");
    }

    #[test]
    fn each_policy_has_its_sentence() {
        let sentence = |on_failure, max_failures, steps: Vec<RolloutStepState>| {
            failure_sentence(&RolloutPlanAnswer { on_failure, max_failures, steps, ..plan() })
        };
        let steps = plan().steps;
        let sentences = [
            sentence(RolloutFailurePolicy::Undo, 3, Vec::new()),
            sentence(RolloutFailurePolicy::Pause, 0, steps.clone()),
            sentence(RolloutFailurePolicy::Continue, 0, steps),
            sentence(RolloutFailurePolicy::Continue, 0, Vec::new()),
        ];
        insta::assert_snapshot!(sentences.join("\n"), @"
    If more than 3 targets fail or take longer than 15m, every changed target gets its former revision back.
    If a target fails or takes longer than 15m, or a gate does not pass in time, the rollout waits for a person.
    A target that fails or takes longer than 15m stops nothing. A gate that does not pass in time pauses it.
    A target that fails or takes longer than 15m stops nothing.
    ");
    }
}
