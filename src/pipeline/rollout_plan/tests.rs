//! Selections, and the plans that come of them.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use proptest::prelude::*;

use crate::model::id::{RepoName, RolloutName, TargetName};
use crate::model::target::{Clusters, Target};
use crate::pipeline::rollout_plan::{
    RolloutOptions, RolloutSelection, SelectionFault, TargetFilter, plan_rollout,
};
use crate::rollout::plan::{Gate, MAX_TARGETS, RolloutFailurePolicy, RolloutPlan, RolloutStep};
use crate::waml::Waml;

const HEAD: &str = "schema: \"2\"\nname: A\nslug: a\nowner: a@b.c\nnamespace: n\n";
const TARGETS: [&str; 6] = ["canary-1", "prod-us-1", "prod-eu-2", "prod-eu-1", "dev-1", "other"];

fn waml_of(targets: &[&str], rest: &str) -> Waml {
    let deploy: String = targets.iter().map(|name| format!("  {name}:\n")).collect();
    let text = format!("{HEAD}deploy:\n{deploy}{rest}");
    Waml::parse(".weave.yaml", text.as_bytes()).unwrap()
}

fn cluster((name, region): &(&str, &str)) -> Target {
    let name = TargetName::parse(*name).unwrap();
    let labels = BTreeMap::from([("region".to_owned(), (*region).to_owned())]);
    Target { labels, ..Target::unconfigured(name) }
}

/// `other` is under `deploy` and not configured, `spare` is configured and not under `deploy`.
fn clusters() -> Clusters {
    let all = [
        ("canary-1", "eu"),
        ("prod-us-1", "us"),
        ("prod-eu-2", "eu"),
        ("prod-eu-1", "eu"),
        ("dev-1", "dev"),
        ("spare", "eu"),
    ];
    Clusters::from_targets(all.iter().map(cluster))
}

fn filter(patterns: &[&str]) -> TargetFilter {
    let patterns = patterns.iter().map(|one| (*one).to_owned()).collect();
    TargetFilter { patterns, ..TargetFilter::default() }
}

fn labels(text: &str) -> BTreeMap<String, String> {
    let (key, value) = text.split_once('=').unwrap();
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

fn plan_with(
    selection: &RolloutSelection,
    options: &RolloutOptions,
    waml: &Waml,
    clusters: &Clusters,
) -> Result<RolloutPlan, SelectionFault> {
    let repository = RepoName::parse("acme/shop").unwrap();
    plan_rollout(selection, options, waml, &repository, clusters)
}

fn plan_of(filter: TargetFilter, options: &RolloutOptions) -> Result<RolloutPlan, SelectionFault> {
    let selection = RolloutSelection::Targets(filter);
    plan_with(&selection, options, &waml_of(&TARGETS, ""), &clusters())
}

/// The steps in one line: `a b ×2; bake 10m; c`.
fn sketch(plan: &RolloutPlan) -> String {
    let step = |step: &RolloutStep| match step {
        RolloutStep::Deploy { targets, parallel, weights } => {
            let names: Vec<&str> = targets.iter().map(TargetName::as_str).collect();
            let times = if *parallel == 1 { String::new() } else { format!(" ×{parallel}") };
            let weights = weights.values().map(|percent| format!(" {percent}")).collect::<String>();
            format!("{}{times}{weights}", names.join(" "))
        }
        RolloutStep::Gate { gate, timeout } => {
            let timeout = timeout.map_or(String::new(), |timeout| format!(" ≤ {timeout:#}"));
            let kind = match gate {
                Gate::Bake { length } => format!("bake {length:#}"),
                Gate::Approval { team } => {
                    format!("approval {}", team.as_ref().map_or("-", |team| team.as_str()))
                }
                Gate::Http { .. } => "http".to_owned(),
                Gate::PromQl { .. } => "promql".to_owned(),
                Gate::NoAlert { .. } => "no_alert".to_owned(),
                Gate::Calendar { .. } => "calendar".to_owned(),
            };
            kind + &timeout
        }
    };
    plan.steps.iter().map(step).collect::<Vec<_>>().join("; ")
}

fn fault(filter: TargetFilter) -> String {
    plan_of(filter, &RolloutOptions::default()).unwrap_err().to_string()
}

#[test]
fn the_order_is_that_of_the_patterns_and_then_of_the_waml() {
    for (patterns, expected) in [
        (&["canary-1", "prod-*"][..], "canary-1 prod-us-1 prod-eu-2 prod-eu-1"),
        (&["prod-eu-1", "prod-*"], "prod-eu-1 prod-us-1 prod-eu-2"),
        (&["dev-1", "canary-1"], "dev-1 canary-1"),
        (&["*-1", "*"], "canary-1 prod-us-1 prod-eu-1 dev-1 prod-eu-2"),
        (&["{dev,canary}-1"], "canary-1 dev-1"),
    ] {
        let plan = plan_of(filter(patterns), &RolloutOptions::default()).unwrap();
        assert_eq!(sketch(&plan), expected, "{patterns:?}");
    }
}

#[test]
fn labels_and_an_expression_narrow_the_patterns() {
    let eu = TargetFilter { labels: labels("region=eu"), ..TargetFilter::default() };
    let options = RolloutOptions::default();
    assert_eq!(sketch(&plan_of(eu.clone(), &options).unwrap()), "canary-1 prod-eu-2 prod-eu-1");
    // A cluster's environment is a label, as fleets and placements have it.
    let development =
        TargetFilter { labels: labels("environment=development"), ..TargetFilter::default() };
    let all = "canary-1 prod-us-1 prod-eu-2 prod-eu-1 dev-1";
    assert_eq!(sketch(&plan_of(development, &options).unwrap()), all);
    let both = TargetFilter { patterns: vec!["prod-*".to_owned()], ..eu.clone() };
    assert_eq!(sketch(&plan_of(both, &options).unwrap()), "prod-eu-2 prod-eu-1");
    let regex =
        |text: &str| TargetFilter { regex: Some(text.to_owned()), ..TargetFilter::default() };
    // The whole name: this is no part of `prod-eu-1`.
    assert_eq!(sketch(&plan_of(regex("prod-(eu|us)-1"), &options).unwrap()), "prod-us-1 prod-eu-1");
    assert!(plan_of(regex("prod"), &options).is_err());
    assert_eq!(
        sketch(&plan_of(TargetFilter { regex: Some(".*-1".into()), ..eu }, &options).unwrap()),
        "canary-1 prod-eu-1"
    );
}

#[test]
fn a_bake_time_stands_between_groups_of_targets() {
    let options = RolloutOptions {
        parallel: Some(2),
        bake: Some(SignedDuration::from_mins(10)),
        timeout: Some(SignedDuration::from_mins(5)),
        max_failures: Some(1),
        on_failure: Some(RolloutFailurePolicy::Pause),
        ..RolloutOptions::default()
    };
    let plan = plan_of(filter(&["prod-*", "canary-1"]), &options).unwrap();
    let expected = "prod-us-1 prod-eu-2 ×2; bake 10m; prod-eu-1 canary-1 ×2";
    assert_eq!(sketch(&plan), expected);
    let RolloutPlan { steps: _, on_failure, max_failures, target_timeout } = plan;
    assert_eq!((on_failure, max_failures), (RolloutFailurePolicy::Pause, 1));
    assert_eq!(target_timeout, SignedDuration::from_mins(5));
}

#[test]
fn a_selection_that_is_wrong_says_what_to_do() {
    let regex =
        |text: &str| TargetFilter { regex: Some(text.to_owned()), ..TargetFilter::default() };
    let label = |text: &str| TargetFilter { labels: labels(text), ..TargetFilter::default() };
    let faults = [
        fault(filter(&["prod-eu-3"])),
        fault(filter(&["spare"])),
        fault(filter(&["other"])),
        fault(filter(&["staging-*"])),
        fault(filter(&["prod-*", "prod-eu-*"])),
        fault(filter(&["prod-*", "prod-eu-1"])),
        fault(filter(&["prod eu"])),
        fault(filter(&["[a"])),
        fault(regex("prod-(eu")),
        fault(regex("a)(b")),
        fault(regex("staging")),
        fault(label("region=asia")),
        fault(TargetFilter::default()),
        fault(filter(&vec!["?"; 200])),
    ];
    insta::assert_snapshot!(faults.join("\n"), @"
    `prod-eu-3` is not a target of this app: it is deployed to `canary-1`, `prod-us-1`, `prod-eu-2`, `prod-eu-1`, `dev-1` and `other`; did you mean `prod-eu-2`?
    `spare` is not a target of this app: it is deployed to `canary-1`, `prod-us-1`, `prod-eu-2`, `prod-eu-1`, `dev-1` and `other`
    `other` is not a cluster of this service: its clusters are `canary-1`, `dev-1`, `prod-eu-1`, `prod-eu-2`, `prod-us-1` and `spare`; leave the target out, or configure it
    `staging-*` matches no target of this app: it is deployed to `canary-1`, `prod-us-1`, `prod-eu-2`, `prod-eu-1`, `dev-1` and `other`
    `prod-eu-*` matches only targets that stand before it: remove it, or write it before what takes its targets
    the rollout has the target `prod-eu-1` twice: name each target once, and before the globs that match it
    `prod eu` matches no target of this app: it is deployed to `canary-1`, `prod-us-1`, `prod-eu-2`, `prod-eu-1`, `dev-1` and `other`; did you mean `prod-eu-2`?
    `[a` is not a glob: unclosed character class; missing ']': use `*`, `?`, `[ab]`, `{a,b}` over target names; quote the text
    `prod-(eu` is no regular expression: unclosed group; quote it, and write it like `prod-.*`
    `a)(b` is no regular expression: unopened group; quote it, and write it like `prod-.*`
    no target of this app has a name that matches `staging`: it is deployed to `canary-1`, `prod-us-1`, `prod-eu-2`, `prod-eu-1`, `dev-1` and `other`
    no target of this app has the labels region=asia: it is deployed to `canary-1`, `prod-us-1`, `prod-eu-2`, `prod-eu-1`, `dev-1` and `other`, whose labels are `environment=development`, `region=dev`, `region=eu` and `region=us`
    no target is selected: name targets or globs, labels, a regular expression, or a rollout of the WAML
    `?` matches no target of this app: it is deployed to `canary-1`, `prod-us-1`, `prod-eu-2`, `prod-eu-1`, `dev-1` and `other`
    ");
}

#[test]
fn options_are_within_bounds() {
    let fault =
        |options: RolloutOptions| plan_of(filter(&["*"]), &options).unwrap_err().to_string();
    let default = RolloutOptions::default;
    let faults = [
        fault(RolloutOptions { timeout: Some(SignedDuration::ZERO), ..default() }),
        fault(RolloutOptions { bake: Some(SignedDuration::from_hours(1000)), ..default() }),
        fault(RolloutOptions { parallel: Some(0), ..default() }),
    ];
    insta::assert_snapshot!(faults.join("\n"), @"
    `timeout` of 0s is no time for a rollout: write more than 0 and at most 30 days
    `bake` of 1000h is no time for a rollout: write more than 0 and at most 30 days
    step 0 deploys to no target, or to none at a time: name targets, and `parallel` of at least 1
    ");
    let names: Vec<String> = (0..=MAX_TARGETS).map(|n| format!("t-{n}")).collect();
    let waml = waml_of(&names.iter().map(String::as_str).collect::<Vec<_>>(), "");
    let selection = RolloutSelection::Targets(filter(&["*"]));
    let many = plan_with(&selection, &default(), &waml, &Clusters::any()).unwrap_err();
    assert!(many.to_string().contains("more than 500 targets"), "{many}");
}

const ROLLOUTS: &str = "rollouts:
  production:
    steps:
    - targets: [canary-1]
    - bake: 10m
    - approval: {team: sre}
    - {targets: [\"prod-*\"], parallel: 2}
    gates: [{http: {url: \"https://a.b/c\"}}, {no_alert: {matchers: ['a=\"b\"'], timeout: 1h}}]
    on_failure: pause
    max_failures: 1
    timeout: 20m
  broken: {steps: [{targets: [prod-eu-3]}]}
  elsewhere: {steps: [{targets: [other]}]}
";

fn plan_named(name: &str, options: &RolloutOptions) -> Result<RolloutPlan, SelectionFault> {
    let selection = RolloutSelection::Definition(RolloutName::parse(name).unwrap());
    plan_with(&selection, options, &waml_of(&TARGETS, ROLLOUTS), &clusters())
}

#[test]
fn a_rollout_of_the_waml_has_its_gates_after_every_step() {
    let plan = plan_named("production", &RolloutOptions::default()).unwrap();
    assert_eq!(
        sketch(&plan),
        "canary-1; http ≤ 10m; no_alert ≤ 1h; bake 10m; approval acme/sre; \
         prod-us-1 prod-eu-2 prod-eu-1 ×2; http ≤ 10m; no_alert ≤ 1h"
    );
    assert_eq!((plan.on_failure, plan.max_failures), (RolloutFailurePolicy::Pause, 1));
    assert_eq!(plan.target_timeout, SignedDuration::from_mins(20));
    let options = RolloutOptions {
        on_failure: Some(RolloutFailurePolicy::Undo),
        ..RolloutOptions::default()
    };
    assert_eq!(plan_named("production", &options).unwrap().on_failure, RolloutFailurePolicy::Undo);
}

#[test]
fn a_rollout_of_the_waml_that_cannot_be_planned_says_where() {
    let parallel = RolloutOptions { parallel: Some(2), ..RolloutOptions::default() };
    let default = RolloutOptions::default();
    let selection = RolloutSelection::Definition(RolloutName::parse("x").unwrap());
    let bare = plan_with(&selection, &default, &waml_of(&["a"], ""), &Clusters::any());
    let faults = [
        plan_named("prduction", &default).unwrap_err().to_string(),
        bare.unwrap_err().to_string(),
        plan_named("production", &parallel).unwrap_err().to_string(),
        plan_named("broken", &default).unwrap_err().to_string(),
        plan_named("elsewhere", &default).unwrap_err().to_string(),
    ];
    insta::assert_snapshot!(faults.join("\n"), @"
    the WAML has no rollout `prduction`: did you mean `production`?
    the WAML has no rollout `x`: add it under `rollouts`, or name targets
    `parallel` does not go with a rollout of the WAML, whose steps say it: change the WAML, or name the targets
    .weave.yaml:24:31: `prod-eu-3` is not a target of this app [rollouts]
    .weave.yaml:25:34: `other` is not a cluster of this service [rollouts]
    ");
}

#[test]
fn a_waml_that_is_broken_is_refused_with_its_violations() {
    let waml = waml_of(&TARGETS, "template: [a]\n");
    let selection = RolloutSelection::Targets(filter(&["*"]));
    let fault = plan_with(&selection, &RolloutOptions::default(), &waml, &clusters());
    assert!(fault.unwrap_err().to_string().contains("`template` must be"));
}

/// Names, globs and filters over a few targets, many of them wrong.
fn any_filter() -> impl Strategy<Value = TargetFilter> {
    let pattern = prop_oneof![
        prop::sample::select(TARGETS.to_vec()).prop_map(str::to_owned),
        prop::sample::select(vec!["*", "prod-*", "*-1", "{canary,dev}-1", "prod-eu-?"])
            .prop_map(str::to_owned),
        "[a-z*?{},\\[\\]-]{0,8}",
    ];
    let regex = prop::option::of(prop::sample::select(vec![".*", "prod-.*", ".*-1", "x"]));
    let region = prop::option::of(prop::sample::select(vec!["region=eu", "region=us"]));
    (prop::collection::vec(pattern, 0..4), regex, region).prop_map(|(patterns, regex, region)| {
        let labels = region.map(labels).unwrap_or_default();
        TargetFilter { patterns, regex: regex.map(str::to_owned), labels }
    })
}

proptest! {
    #[test]
    fn each_target_is_there_once_and_the_order_is_stable(
        filter in any_filter(),
        parallel in 1_usize..4,
        bake in prop::option::of(Just(SignedDuration::from_mins(10))),
    ) {
        let options = RolloutOptions { parallel: Some(parallel), bake, ..RolloutOptions::default() };
        let plan = plan_of(filter.clone(), &options);
        prop_assert_eq!(&plan, &plan_of(filter, &options));
        if let Ok(plan) = plan {
            plan.check().unwrap();
            let allowed = &TARGETS[..5];
            prop_assert!(plan.sequence().all(|(_, one)| allowed.contains(&one.as_str())));
        }
    }

    #[test]
    fn the_order_of_the_configuration_does_not_matter(
        filter in any_filter(),
        order in Just((0..6_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let names = [
            ("canary-1", "eu"), ("prod-us-1", "us"), ("prod-eu-2", "eu"), ("prod-eu-1", "eu"), ("dev-1", "dev"),
            ("spare", "eu"),
        ];
        let shuffled = Clusters::from_targets(order.iter().map(|index| cluster(&names[*index])));
        let (waml, options) = (waml_of(&TARGETS, ""), RolloutOptions::default());
        let selection = RolloutSelection::Targets(filter);
        prop_assert_eq!(
            plan_with(&selection, &options, &waml, &shuffled),
            plan_with(&selection, &options, &waml, &clusters())
        );
    }

    #[test]
    fn a_later_pattern_takes_what_earlier_ones_left(glob in "[a-z*?-]{1,6}") {
        let whole = plan_of(filter(&["canary-1", "*"]), &RolloutOptions::default()).unwrap();
        let split = plan_of(filter(&[&glob, "*"]), &RolloutOptions::default());
        if let Ok(split) = split {
            let sorted = |plan: &RolloutPlan| {
                let mut names: Vec<_> = plan.sequence().map(|(_, name)| name.clone()).collect();
                names.sort();
                names
            };
            prop_assert_eq!(sorted(&split), sorted(&whole));
        }
    }
}
