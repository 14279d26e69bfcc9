//! The four experiments of the document on automated canaries, and what may go wrong beside them: a Canary as the
//! service renders it, a stand-in for Flagger's controller, and a clock that is moved.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value as Json, json};
use the_deployer::cluster::canary_report::read_report;
use the_deployer::cluster::object::WatchedKind;
use the_deployer::model::canary::CanaryForecast;
use the_deployer::model::platform::Platform;

use super::world::{Workload, World, revision};
use crate::harness::flagger::{Flagger, Measured, Sight};
use crate::pipeline::planned_on_platform;

/// The document's app: 20 % more each minute up to 60 %, three failed checks, 99 % without errors, one second.
fn rendered() -> (Json, CanaryForecast) {
    let text = include_bytes!("../pipeline/seed-003-canary/waml.yaml");
    let platform: Platform =
        serde_yaml::from_str(include_str!("../pipeline/seed-003-canary/platform.yaml")).unwrap();
    let rendered = planned_on_platform(text, platform).unwrap();
    let file = rendered.files.iter().find(|file| file.name == "canary.yaml").unwrap();
    let mut canary: Json = serde_yaml::from_slice(&file.bytes).unwrap();
    canary["metadata"]["name"] = json!("web");
    canary["metadata"]["namespace"] = json!("devx");
    canary["metadata"]["uid"] = json!("uid-canary");
    canary["spec"]["targetRef"]["name"] = json!("web");
    (canary, rendered.canary.unwrap())
}

/// A cluster with Flagger, in which `v1` serves.
struct Experiment {
    world: World,
    web: Workload,
    flagger: Flagger,
    version: u32,
    forecast: CanaryForecast,
}

/// When a run came where, by the moved clock.
#[derive(Debug, Default)]
struct Run {
    first_step: Option<Timestamp>,
    first_failure: Option<Timestamp>,
    promoted: Option<Timestamp>,
    ended: Option<Timestamp>,
    weights: Vec<u64>,
    /// What the deployment waited for.
    waits: Vec<String>,
    /// The failed checks of its canary while it had traffic, each with its reason.
    checks: Vec<(u32, Option<String>)>,
}

impl Run {
    fn between(from: Option<Timestamp>, to: Option<Timestamp>) -> SignedDuration {
        to.unwrap().duration_since(from.unwrap())
    }
}

fn expected(n: u32, tag: &str) -> the_deployer::cluster::expected::ExpectedRevision {
    let mut revision = revision(n, tag, &["web"]);
    revision.workloads[0].has_canary = true;
    revision
}

impl Experiment {
    fn new() -> Self {
        let (canary, forecast) = rendered();
        let world = World::new();
        let mut web = Workload::finished("v1");
        web.replicas = json!(2);
        web.counts = [2, 2, 2];
        let flagger = Flagger::new(canary, world.now);
        let mut one = Self { world, web, flagger, version: 1000, forecast };
        one.world.expect(expected(1, "v1"));
        one.apply_workload();
        assert_eq!(
            one.world.told(),
            ["started v1"],
            "its pods run, and Argo CD has not applied its Canary"
        );
        assert_eq!(
            one.world.summary(1).waiting.unwrap().what,
            "Flagger to take up Deployment devx/web"
        );
        one.look(Measured::default());
        assert_eq!(one.world.told(), ["finished v1"]);
        one
    }

    fn apply_workload(&mut self) {
        let image = self.web.image.clone();
        let pods = self.flagger.target_pods;
        self.web.replicas = json!(pods);
        self.web.counted([pods; 3]);
        let set = self.web.replica_set(&image, 1, pods);
        self.world.apply(WatchedKind::ReplicaSet, &set);
        self.world.apply(WatchedKind::Deployment, &self.web.json());
    }

    /// Argo CD applies a release: Flagger has scaled the workload to nothing.
    fn deploy(&mut self, n: u32, tag: &str) {
        self.world.pass(1);
        self.world.expect(expected(n, tag));
        self.web.release(tag);
        self.apply_workload();
        assert_eq!(self.world.told(), [format!("started {tag}")]);
    }

    /// Flagger looks, if it is time; the watch brings each state of its status, with the reason of its events.
    fn look(&mut self, measured: Measured) {
        let sight = Sight {
            template: self.web.image.clone(),
            target_ready: self.flagger.target_pods > 0,
            primary_ready: true,
            measured,
        };
        for mut state in self.flagger.look(&sight, self.world.now) {
            self.version += 1;
            state["metadata"]["resourceVersion"] = json!(self.version.to_string());
            if let Some(report) = read_report(&self.flagger.events()) {
                state["canaryReport"] =
                    json!({"reason": report.reason, "failedChecks": report.failed_checks});
            }
            self.world.apply(WatchedKind::Canary, &state);
        }
        self.apply_workload();
    }

    /// Time goes by until the run has ended.
    fn run(&mut self, n: u32, measured: Measured) -> Run {
        let mut run = Run::default();
        for _ in 0..3600 {
            self.look(measured);
            let now = self.world.now;
            let Flagger { phase, weight, failed_checks, .. } = &self.flagger;
            // The weight of a run that has ended may still stand there.
            let goes_on = !matches!(phase.as_str(), "Succeeded" | "Failed");
            if goes_on && *weight > 0 && run.weights.last() != Some(weight) {
                run.weights.push(*weight);
                run.first_step.get_or_insert(now);
            }
            if *failed_checks > 0 {
                run.first_failure.get_or_insert(now);
            }
            if phase == "Promoting" {
                run.promoted.get_or_insert(now);
            }
            for canary in self.world.summary(n).canaries.into_iter().filter(|one| one.weight > 0) {
                let check = (canary.failed_checks, canary.reason);
                if run.checks.last() != Some(&check) {
                    run.checks.push(check);
                }
            }
            if let Some(waiting) = self.world.summary(n).waiting
                && run.waits.last() != Some(&waiting.what)
            {
                run.waits.push(waiting.what);
            }
            if matches!(phase.as_str(), "Succeeded" | "Failed") && run.first_step.is_some() {
                run.ended = Some(now);
                return run;
            }
            self.world.pass(1);
        }
        panic!("the run does not end: {run:?}");
    }
}

fn traffic(error_percent: f64, milliseconds: f64) -> Measured {
    Measured { success_rate: Some(100.0 - error_percent), duration: Some(milliseconds) }
}

/// A release that measures so, and how it ends.
fn succeeds(measured: Measured) {
    let mut experiment = Experiment::new();
    experiment.deploy(2, "v2");
    let run = experiment.run(2, measured);
    assert_eq!(experiment.world.told(), ["finished v2"]);
    assert_eq!(run.weights, [20, 40, 60]);
    let steps: Vec<u64> = experiment.forecast.steps.iter().map(|step| step.weight.into()).collect();
    assert_eq!(run.weights, steps);
    // Formula 3.1.
    assert_eq!(Run::between(run.first_step, run.promoted), SignedDuration::from_mins(3));
    assert_eq!(Run::between(run.first_step, run.promoted), experiment.forecast.minimum());
    assert!(
        run.waits.contains(
            &"the canary of Deployment devx/web (Progressing, 40 % of the traffic)".to_owned()
        ),
        "{:?}",
        run.waits
    );
}

fn fails(measured: Measured, reason: &str) {
    let mut experiment = Experiment::new();
    experiment.deploy(2, "v2");
    let run = experiment.run(2, measured);
    assert_eq!(experiment.world.told(), ["failed canary-failed v2"]);
    assert_eq!(run.weights, [20], "no further step is taken");
    // Formula 3.2.
    assert_eq!(Run::between(run.first_failure, run.ended), SignedDuration::from_mins(3));
    assert_eq!(Run::between(run.first_failure, run.ended), experiment.forecast.rollback());
    let checks: Vec<_> =
        run.checks.iter().map(|(failed, reason)| (*failed, reason.as_deref())).collect();
    assert_eq!(checks, [(0, None), (1, Some(reason)), (2, Some(reason)), (3, Some(reason))]);
    let halted = format!(
        "the canary of Deployment devx/web (Progressing, 20 % of the traffic); halted: {reason}, 2 of 3 checks failed"
    );
    assert!(run.waits.contains(&halted), "{:?}", run.waits);
    let sentence = experiment.world.summary(2).sentence;
    assert!(
        sentence
            .ends_with(&format!("Flagger rolled the canary back: {reason}, 3 of 3 checks failed")),
        "{sentence}"
    );
}

#[test]
fn success_by_the_rate_of_requests_without_errors() {
    succeeds(traffic(0.0, 20.0));
}

#[test]
fn success_by_the_duration_of_requests() {
    succeeds(traffic(0.0, 500.0));
}

#[test]
fn failure_by_the_rate_of_requests_without_errors() {
    fails(traffic(100.0, 20.0), "success rate 0.00% < 99%");
}

#[test]
fn failure_by_the_duration_of_requests() {
    fails(traffic(0.0, 1200.0), "request duration 1.2 s > 1 s");
}

#[test]
fn without_traffic_every_check_fails() {
    let reason = "no values found for istio metric request-success-rate probably web.devx is not receiving traffic";
    fails(Measured::default(), reason);
}

#[test]
fn the_failure_of_the_run_before_is_not_that_of_the_next_one() {
    let mut experiment = Experiment::new();
    experiment.deploy(2, "v2");
    experiment.run(2, traffic(100.0, 20.0));
    assert_eq!(experiment.world.told(), ["failed canary-failed v2"]);
    // Flagger writes the new template beside the old failure before it begins.
    experiment.deploy(3, "v3");
    experiment.run(3, traffic(0.0, 20.0));
    assert_eq!(experiment.world.told(), ["finished v3"]);
    experiment.deploy(4, "v4");
    experiment.run(4, traffic(100.0, 20.0));
    assert_eq!(experiment.world.told(), ["failed canary-failed v4"]);
}

#[test]
fn what_was_promoted_before_is_back_without_a_run() {
    let mut experiment = Experiment::new();
    experiment.deploy(2, "v2");
    experiment.run(2, traffic(100.0, 20.0));
    assert_eq!(experiment.world.told(), ["failed canary-failed v2"]);
    // The service rolls back: the template is the promoted one.
    experiment.world.pass(1);
    experiment.world.expect(expected(3, "v1"));
    experiment.web.release("v1");
    experiment.apply_workload();
    assert_eq!(experiment.world.told(), ["started v1", "finished v1"]);
}

#[test]
fn a_canary_that_never_begins_is_given_up() {
    let mut experiment = Experiment::new();
    experiment.deploy(2, "v2");
    experiment.world.pass(59);
    assert!(experiment.world.told().is_empty());
    let waiting = experiment.world.summary(2).waiting.unwrap();
    assert_eq!(waiting.what, "Flagger to take up Deployment devx/web");
    assert!(waiting.gives_up_at.is_some());
    experiment.world.pass(600);
    assert_eq!(experiment.world.told(), ["failed no-progress v2"]);
    let sentence = experiment.world.summary(2).sentence;
    assert!(sentence.contains("Flagger has not taken the release up"), "{sentence}");
}

#[test]
fn a_run_is_followed_over_restarts_of_the_service() {
    let mut experiment = Experiment::new();
    experiment.deploy(2, "v2");
    for _ in 0..5 {
        experiment.look(traffic(0.0, 1200.0));
        experiment.world.restart();
        experiment.world.pass(60);
    }
    assert!(experiment.world.told().is_empty());
    let halted = experiment.world.summary(2).waiting.unwrap().what;
    assert!(
        halted.contains("halted: request duration 1.2 s > 1 s, 2 of 3 checks failed"),
        "{halted}"
    );
}
