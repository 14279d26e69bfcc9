//! The four experiments of the document on automated canaries, in the whole service: the Canary that it pushed, a
//! stand-in for Flagger's controller in the cluster that it watches, and what GitHub, Slack and git have in the end.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value as Json, json};
use the_deployer::model::canary::CanarySample;
use the_deployer::model::deployment::{Deployment, State};

use crate::harness::deployer::Deployer;
use crate::harness::flagger::{Flagger, Measured, Sight};
use crate::harness::slack::{Slack, TOKEN};
use crate::progress::cluster::{Pods, Watched, replica_set, workload};

/// The cluster of the document: Istio, with a gateway.
const PLATFORM: &str = ", platform: {ingress: {kind: gateway, gateways: \
                        {public: {name: web, namespace: istio-system, section: http}}, tls: {public: false}}, \
                        canary: {provider: istio}}";

/// The document's canary: 20 % more each minute up to 60 %, three failed checks, 99 % without errors, one second.
pub(super) const WAML: &str = "schema: \"2\"
name: Shop
slug: shop
owner: squad@example.com
slack: \"#squad-devx\"
namespace: devx
deploy:
  prod-cluster-1:
    service: [{ports: [{name: http, number: 80, targetPort: 3001}]}]
    ingress: [{host: shop.example.com, public: true, paths: [{path: /, servicePort: 80}]}]
    autoscaling: {horizontal: {minReplicas: 2, maxReplicas: 6, cpu: {averageUtilization: 85}}}
    canary:
      progressDeadlineSeconds: 60
      interval: 1m
      threshold: 3
      maxWeight: 60
      stepWeight: 20
      metrics:
      - {name: request-success-rate, thresholdRange: {min: 99}}
      - {name: request-duration, thresholdRange: {max: 1000}}
";

/// The settings of an incoming webhook.
pub(super) const WEBHOOK: &str = "{webhook: {env: SLACK_WEBHOOK}}";

const MINUTE: Duration = Duration::from_mins(1);

/// The service, its cluster with Flagger, and `v1` that serves.
pub(super) struct Experiment {
    pub(super) world: Watched,
    pub(super) slack: Slack,
    pub(super) flagger: Flagger,
    first: Deployment,
    /// The release that Argo CD has applied, by its number.
    release: u32,
    applied: Deployment,
    generation: u32,
}

/// Every request fails.
pub(super) const BAD: Measured = Measured { success_rate: Some(0.0), duration: Some(20.0) };
/// No request fails.
pub(super) const GOOD: Measured = Measured { success_rate: Some(100.0), duration: Some(20.0) };

fn traffic(error_percent: f64, milliseconds: f64) -> Measured {
    Measured { success_rate: Some(100.0 - error_percent), duration: Some(milliseconds) }
}

impl Experiment {
    async fn start(deployer: Deployer, waml: &str) -> Self {
        Box::pin(Self::start_with(deployer, waml, "")).await
    }

    /// With more keys of `notify.slack`.
    pub(super) async fn start_with(deployer: Deployer, waml: &str, keys: &str) -> Self {
        let slack = Slack::start(&deployer.clock).await;
        slack.channel("#squad-devx");
        slack.channel("#deploys");
        let url = slack.api_url();
        let keys = format!("{{token: {{env: SLACK_TOKEN}}, api_url: '{url}'{keys}}}");
        Box::pin(Self::start_at(deployer, slack, waml, &keys)).await
    }

    /// With an incoming webhook into #deploys.
    pub(super) async fn start_with_webhook(deployer: Deployer, waml: &str) -> Self {
        let slack = Slack::start(&deployer.clock).await;
        slack.channel("#deploys");
        Box::pin(Self::start_at(deployer, slack, waml, WEBHOOK)).await
    }

    async fn start_at(mut deployer: Deployer, slack: Slack, waml: &str, keys: &str) -> Self {
        deployer.variable("SLACK_TOKEN", TOKEN);
        deployer.variable("SLACK_WEBHOOK", &slack.hook_into("#deploys"));
        deployer.configure(|text| format!("{text}notify:\n  slack: {keys}\n"));
        let world = Watched::start(deployer, PLATFORM).await;
        world.app("shop").commit(waml);
        let id = world.deploys(&world.deployer.github.repository("example/shop"), "v1").await;
        let path = "manifests/prod-cluster-1/devx/shop/latest/canary.yaml";
        let pushed = world.deployer.manifests().files()[path].clone();
        let mut canary: Json = serde_yaml::from_str(&pushed).unwrap();
        canary["metadata"]["uid"] = json!("canary-uid");
        let flagger = Flagger::new(canary, world.deployer.clock.now());
        let first = world.deployer.deployment(id).await;
        let applied = first.clone();
        let mut one = Self { world, slack, flagger, first, release: 1, applied, generation: 0 };
        one.apply_workload();
        one.look(Measured::default());
        one.first = one.world.reaches(id, State::Succeeded).await;
        one
    }

    /// The workload as Argo CD has applied it, with the pods to which Flagger has scaled it.
    fn apply_workload(&mut self) {
        self.generation += 1;
        let made = self.applied.pushed_at.unwrap().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let digest = &self.applied.pushed.as_ref().unwrap().digest.0;
        let count = self.flagger.target_pods;
        let set = replica_set("shop", self.release, count, &made);
        let pods = Pods { updated: count, available: count };
        let mut object = workload("shop", digest, self.generation, Some(pods), &made);
        object["spec"]["replicas"] = json!(count);
        object["spec"]["template"] = set["spec"]["template"].clone();
        object["status"]["replicas"] = json!(count);
        object["metadata"]["annotations"]["deployment.kubernetes.io/revision"] =
            json!(self.release.to_string());
        self.world.server.apply(set);
        self.world.server.apply(object);
    }

    /// Argo CD applies what the service has pushed.
    pub(super) fn sync(&mut self, deployment: Deployment, release: u32) {
        (self.applied, self.release) = (deployment, release);
        self.apply_workload();
    }

    /// Flagger looks, if it is time to; the cluster shows its events and the states of its status.
    pub(super) fn look(&mut self, measured: Measured) {
        let sight = Sight {
            template: format!("release {}", self.release),
            target_ready: self.flagger.target_pods > 0,
            primary_ready: true,
            measured,
        };
        let pods = self.flagger.target_pods;
        let states = self.flagger.look(&sight, self.world.deployer.clock.now());
        for event in self.flagger.events() {
            self.world.server.apply(event);
        }
        for state in states {
            self.world.server.apply(state);
        }
        if self.flagger.target_pods != pods {
            self.apply_workload();
        }
    }

    async fn samples(&self, deployment: &Deployment) -> Vec<CanarySample> {
        let store = self.world.deployer.stepped().store();
        store.canary_samples(&deployment.id).await.unwrap()
    }

    /// Waits until the record of a deployment has what Flagger's status says.
    pub(super) async fn is_seen(&self, id: i64) {
        let Flagger { phase, weight, failed_checks, .. } = &self.flagger;
        let is_same = |sample: &CanarySample| {
            let status = &sample.status;
            status.phase == *phase
                && u64::from(status.weight) == *weight
                && u64::from(status.failed_checks) == *failed_checks
                && (status.reason.is_some() || *failed_checks == 0)
        };
        let mut last = Vec::new();
        for _ in 0..1500 {
            self.world.deployer.works().await;
            let deployment = self.world.deployer.deployment(id).await;
            last = self.samples(&deployment).await;
            if last.last().is_some_and(is_same) {
                self.world.deployer.works().await;
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{phase}, {weight} %, {failed_checks} failed is never seen: {last:#?}");
    }

    /// `v2` is deployed, and its first check has failed.
    pub(super) async fn halts(&mut self) -> i64 {
        let app = self.world.deployer.github.repository("example/shop");
        let id = self.world.deploys(&app, "v2").await;
        let deployment = self.world.deployer.deployment(id).await;
        self.sync(deployment, 2);
        self.world.reaches(id, State::Progressing).await;
        while self.flagger.failed_checks == 0 {
            self.checks(id, BAD).await;
        }
        id
    }

    /// Flagger checks once more, and the service has seen it.
    pub(super) async fn checks(&mut self, id: i64, measured: Measured) {
        self.goes_on(measured);
        self.is_seen(id).await;
    }

    /// Flagger looks once more, a minute later.
    pub(super) fn goes_on(&mut self, measured: Measured) {
        self.world.deployer.clock.advance(MINUTE);
        self.look(measured);
    }

    /// No check fails any more, until the run has succeeded.
    pub(super) async fn finishes(&mut self, id: i64) {
        for _ in 0..20 {
            self.world.deployer.clock.advance(MINUTE);
            self.look(GOOD);
            if self.flagger.phase == "Succeeded" {
                self.world.reaches(id, State::Succeeded).await;
                self.world.deployer.settle().await;
                return;
            }
            self.is_seen(id).await;
        }
        panic!("the run does not end: {:#?}", self.flagger);
    }

    /// The service has taken `v2` back, and `v1` serves.
    pub(super) async fn goes_back(&mut self) {
        let (number, undo) = self.world.undone().await;
        self.sync(undo, 1);
        self.world.deployer.clock.advance(MINUTE);
        self.look(Measured::default());
        self.world.reaches(number, State::Succeeded).await;
        self.world.deployer.settle().await;
    }

    /// The canary as it stands is told again by the cluster.
    pub(super) fn repeat(&self) {
        self.world.server.apply(self.flagger.canary());
    }

    /// The service dies, and another begins on its data.
    pub(super) async fn restarts(&mut self) {
        self.world.stop.cancel();
        self.world.deployer.dies();
        self.world.deployer.clock.advance(Duration::from_mins(3));
        self.world.deployer.starts().await;
        self.world.follow();
    }

    /// `v2` is deployed and measured so, until Flagger has ended its run; its record then.
    pub(super) async fn release(&mut self, measured: Measured, end: State) -> (i64, Deployment) {
        let app = self.world.deployer.github.repository("example/shop");
        let id = self.world.deploys(&app, "v2").await;
        let deployment = self.world.deployer.deployment(id).await;
        // Flagger's look comes a while after Argo CD has applied the release.
        self.sync(deployment, 2);
        self.world.reaches(id, State::Progressing).await;
        for _ in 0..20 {
            self.world.deployer.clock.advance(MINUTE);
            self.look(measured);
            if matches!(self.flagger.phase.as_str(), "Succeeded" | "Failed") {
                return (id, self.world.reaches(id, end).await);
            }
            self.is_seen(id).await;
        }
        panic!("the run does not end: {:#?}", self.flagger);
    }

    /// The same, where the team has no channel of its own.
    pub(super) async fn ends_without_channel(self) {
        self.world.deployer.settle().await;
        self.slack.read("#deploys");
        self.slack.all_read();
        self.world.ends().await;
    }

    pub(super) async fn ends(self) {
        self.world.deployer.settle().await;
        self.slack.read("#squad-devx");
        self.slack.all_read();
        self.world.ends().await;
    }
}

/// The time from the first sample of one kind to the first of another.
fn between(
    samples: &[CanarySample],
    from: impl Fn(&CanarySample) -> bool,
    to: impl Fn(&CanarySample) -> bool,
) -> SignedDuration {
    let time = |sample: Option<&CanarySample>| sample.unwrap_or_else(|| panic!("{samples:#?}")).at;
    let from = time(samples.iter().find(|one| from(one)));
    time(samples.iter().find(|one| to(one))).duration_since(from)
}

async fn succeeds(measured: Measured, waml: &str) {
    for deployer in Deployer::prepared_on_both().await {
        Box::pin(async {
            let mut experiment = Box::pin(Experiment::start(deployer, waml)).await;
            let (id, deployment) = experiment.release(measured, State::Succeeded).await;
            let samples = experiment.samples(&deployment).await;
            let mut weights: Vec<u32> = samples.iter().map(|one| one.status.weight).collect();
            weights.retain(|weight| *weight > 0);
            weights.dedup();
            assert_eq!(weights, [20, 40, 60], "{samples:#?}");
            // Formula 3.1.
            let minimum = between(
                &samples,
                |one| one.status.weight > 0,
                |one| one.status.phase == "Promoting",
            );
            assert_eq!(minimum, SignedDuration::from_mins(3));
            let statuses = experiment.world.deployer.github.statuses(id);
            assert_eq!(statuses.last().unwrap().0, "success", "{statuses:?}");
            assert!(
                statuses.iter().any(|one| one.1.contains("40 % of the traffic")),
                "{statuses:?}"
            );
            assert_eq!(experiment.world.undos().await, []);
            experiment.world.deployer.settle().await;
            let messages = experiment.slack.read("#squad-devx");
            if waml == WAML {
                assert_eq!(messages, [], "the team hears of failed checks alone");
            } else {
                // One message of the canary, changed at each step; the end is a reply to it.
                let [_first, canary, end] = &messages[..] else { panic!("{messages:#?}") };
                assert_eq!(canary.title, "🐤 shop v2 is a canary on prod-cluster-1");
                assert!(canary.text.contains("canary at 60 % of the traffic"), "{canary:#?}");
                assert!(canary.updates >= 3, "{canary:#?}");
                assert_eq!((end.thread.as_ref(), end.aloud), (Some(&canary.ts), true));
                assert_eq!(end.title, "✅ shop v2 is deployed to prod-cluster-1");
            }
            Box::pin(experiment.ends()).await;
        })
        .await;
    }
}

async fn fails(measured: Measured, reason: &str) {
    for deployer in Deployer::prepared_on_both().await {
        Box::pin(async {
            let mut experiment = Box::pin(Experiment::start(deployer, WAML)).await;
            let (id, failed) = experiment.release(measured, State::Failed).await;
            let end = format!("Flagger rolled the canary back: {reason}, 3 of 3 checks failed");
            assert!(failed.summary.contains(&end), "{}", failed.summary);
            let samples = experiment.samples(&failed).await;
            assert!(samples.iter().all(|one| one.status.weight <= 20), "{samples:#?}");
            // Formula 3.2, up to the last check: Flagger acts on it at its next look.
            let checks = |count: u32| move |one: &CanarySample| one.status.failed_checks == count;
            let failing = between(&samples, checks(1), checks(3));
            assert_eq!(failing + SignedDuration::from_mins(1), SignedDuration::from_mins(3));
            // GitHub hears of each failed check, and of the end.
            let statuses = experiment.world.deployer.github.statuses(id);
            let halted = format!("halted: {reason}, 2 of 3 checks failed");
            assert!(statuses.iter().any(|one| one.1.contains(&halted)), "{statuses:?}");
            let (state, description, _) = statuses.last().unwrap();
            assert_eq!(state, "failure");
            let end = format!("Flagger rolled the canary back: {reason}");
            assert!(description.contains(&end), "{description}");
            // Git agrees with the cluster, with a hold.
            let (number, undo) = experiment.world.undone().await;
            let first = experiment.first.id.clone();
            assert_eq!(undo.rollback.as_ref().unwrap().undoes, Some(failed.id));
            assert_eq!(experiment.world.tree("latest"), experiment.world.tree(first.as_str()));
            // What was promoted once is not measured again.
            experiment.sync(undo, 1);
            experiment.world.deployer.clock.advance(MINUTE);
            experiment.look(Measured::default());
            experiment.world.reaches(number, State::Succeeded).await;
            experiment.world.deployer.settle().await;
            let messages = experiment.slack.read("#squad-devx");
            // Slack has one message from the first failed check on, changed at the next; the end is a reply to it.
            let [canary, end, _undo] = &messages[..] else { panic!("{messages:#?}") };
            assert_eq!(canary.title, "✋ shop v2 is halted on prod-cluster-1");
            assert!(canary.text.contains("canary at 20 % of the traffic; halted: "), "{canary:#?}");
            assert!(canary.text.contains(&format!("{reason}, ")), "{canary:#?}");
            assert!(canary.updates >= 1, "{canary:#?}");
            assert_eq!((end.thread.as_ref(), end.aloud), (Some(&canary.ts), true));
            assert!(end.text.contains(&format!("{reason}, 3 of 3 checks failed")), "{end:#?}");
            Box::pin(experiment.ends()).await;
        })
        .await;
    }
}

#[tokio::test]
async fn success_by_the_rate_of_requests_without_errors() {
    succeeds(traffic(0.0, 20.0), WAML).await;
}

#[tokio::test]
async fn success_by_the_duration_of_requests() {
    let waml = format!("notify: {{success: true}}\n{WAML}");
    succeeds(traffic(0.0, 500.0), &waml).await;
}

#[tokio::test]
async fn failure_by_the_rate_of_requests_without_errors() {
    fails(traffic(100.0, 20.0), "success rate 0.00% < 99%").await;
}

#[tokio::test]
async fn failure_by_the_duration_of_requests() {
    fails(traffic(0.0, 1200.0), "request duration 1.2 s > 1 s").await;
}
