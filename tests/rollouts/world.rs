//! A service with several targets, an app on them, and rollouts in the words of people.

use std::time::Duration;

use jiff::SignedDuration;
use reqwest::Method;
use serde_json::{Value as Json, json};
use the_deployer::app::stepped::SteppedApp;
use the_deployer::deployments::rollouts::{
    OverlapPolicy, PreparedRollout, RolloutActError, RolloutError, RolloutRequest, RolloutSteps,
    RolloutView,
};
use the_deployer::model::audit::{AuthMethod, Principal, Search};
use the_deployer::model::deployment::{Deployment, State};
use the_deployer::model::id::{AppKey, DeployId, ImageTag, RepoName, RolloutId, TargetName};
use the_deployer::pipeline::rollout_plan::{RolloutOptions, RolloutSelection, TargetFilter};
use the_deployer::rollout::acts::RolloutAct;
use the_deployer::rollout::plan::{
    Gate, RolloutFailurePolicy, RolloutPlan, RolloutStep, VersionWeights,
};
use the_deployer::rollout::record::RolloutState;
use the_deployer::store::Reply;

use crate::harness::deployer::Deployer;
use crate::harness::github::Repository;
use crate::harness::process::client;

/// The targets that take what is on `main`.
pub(super) const OPEN: [&str; 4] = ["a", "b", "c", "d"];
/// The target that takes a branch which nothing is on: a deployment there fails.
pub(super) const STRICT: &str = "strict";

/// The service.
pub(crate) struct Fleet {
    pub(super) deployer: Deployer,
}

/// On each database: a service with these targets, and an app that nothing is deployed of. At the end nothing may be
/// left.
pub(super) async fn on_both(story: impl AsyncFn(&mut Fleet)) {
    for deployer in Deployer::prepared_on_both().await {
        // Large, and each story is a future around it.
        Box::pin(async {
            let mut fleet = Fleet::start(deployer).await;
            story(&mut fleet).await;
            fleet.deployer.settled().await;
        })
        .await;
    }
}

/// The clusters of the configuration.
pub(super) fn clusters(names: &[&str]) -> String {
    let entry = |name: &&str| {
        let policies = if *name == STRICT { ", policies: {branches: [stable]}" } else { "" };
        format!("- {{name: {name}, environment: development, domain: example.com{policies}}}\n")
    };
    format!("clusters:\n{}", names.iter().map(entry).collect::<String>())
}

/// A WAML that deploys to all of them, with these rollouts.
pub(super) fn waml(rollouts: &str) -> String {
    let targets: String =
        OPEN.iter().chain([&STRICT]).map(|target| format!("  {target}:\n")).collect();
    format!(
        "schema: \"2\"\nname: Shop\nslug: shop\nowner: squad@example.com\nnamespace: devx\ndeploy:\n{targets}{rollouts}"
    )
}

pub(super) fn target(name: &str) -> TargetName {
    TargetName::parse(name).unwrap()
}

/// These targets, so many at a time.
pub(crate) fn deploy(targets: &[&str], parallel: usize) -> RolloutStep {
    RolloutStep::Deploy {
        targets: targets.iter().map(|name| target(name)).collect(),
        parallel,
        weights: VersionWeights::new(),
    }
}

/// A gate at which everybody may approve.
pub(super) fn approval() -> RolloutStep {
    RolloutStep::Gate { gate: Gate::Approval { team: None }, timeout: None }
}

pub(crate) fn plan(steps: Vec<RolloutStep>, on_failure: RolloutFailurePolicy) -> RolloutPlan {
    let target_timeout = SignedDuration::from_hours(1);
    RolloutPlan { steps, on_failure, max_failures: 0, target_timeout }
}

/// A person who may do everything.
pub(crate) fn ann() -> Principal {
    Principal { name: "ann".to_owned(), via: AuthMethod::GitHub, from: None, request: None }
}

impl Fleet {
    pub(super) async fn start(mut deployer: Deployer) -> Self {
        let names: Vec<&str> = OPEN.into_iter().chain([STRICT]).collect();
        deployer.configure(|config| format!("{config}{}", clusters(&names)));
        deployer.starts().await;
        let fleet = Self { deployer };
        fleet.shop().commit(&waml(""));
        fleet
    }

    pub(super) fn shop(&self) -> Repository<'_> {
        self.deployer.github.repository("example/shop")
    }

    pub(super) fn app(&self) -> &SteppedApp {
        self.deployer.stepped()
    }

    /// A person has deployed that tag to these targets, and it is live.
    pub(super) async fn runs(&self, tag: &str, targets: &[&str]) {
        for target in targets {
            self.deployer.clock.advance(Duration::from_secs(1));
            self.shop().deploys(target, tag).await;
            self.deployer.works().await;
        }
        self.deployer.clock.advance(Duration::from_secs(1));
    }

    pub(crate) fn request(tag: &str, steps: RolloutSteps) -> RolloutRequest {
        RolloutRequest {
            app: None,
            repository: RepoName::parse("example/shop").unwrap(),
            git_ref: "main".to_owned(),
            tag: ImageTag::parse(tag).unwrap(),
            steps,
            on_overlap: OverlapPolicy::Refuse,
            reason: "the fair".to_owned(),
        }
    }

    pub(super) async fn prepares(
        &self,
        request: RolloutRequest,
    ) -> Result<PreparedRollout, RolloutError> {
        self.app().deployments().prepare_rollout(request).await
    }

    /// Asks for a rollout.
    pub(super) async fn asks(&self, request: RolloutRequest) -> Result<RolloutView, RolloutError> {
        let prepared = self.prepares(request).await?;
        let reply = Reply::without_key();
        self.app().deployments().start_rollout(prepared, ann(), &reply).await
    }

    /// A rollout with that plan has begun.
    pub(super) async fn begins(&self, tag: &str, plan: RolloutPlan) -> RolloutId {
        let request = Self::request(tag, RolloutSteps::Plan(plan));
        self.asks(request).await.unwrap().record.id
    }

    /// A rollout to these targets, one after the other, has begun.
    pub(super) async fn rolls_out(&self, tag: &str, targets: &[&str]) -> RolloutId {
        self.begins(tag, plan(vec![deploy(targets, 1)], RolloutFailurePolicy::Undo)).await
    }

    /// The selection of targets by names and globs.
    pub(super) fn selection(patterns: &[&str]) -> RolloutSteps {
        let patterns = patterns.iter().map(|one| (*one).to_owned()).collect();
        let filter = TargetFilter { patterns, ..TargetFilter::default() };
        let selection = RolloutSelection::Targets(filter);
        RolloutSteps::Selection { selection, options: RolloutOptions::default() }
    }

    /// Everything goes on that can, for a minute.
    pub(super) async fn goes_on(&self) {
        self.deployer.works_for(SignedDuration::from_mins(1)).await;
    }

    pub(super) async fn view(&self, id: &RolloutId) -> RolloutView {
        self.app().deployments().rollout(id).await.unwrap().expect("it is on record")
    }

    pub(super) async fn state(&self, id: &RolloutId) -> RolloutState {
        self.view(id).await.record.state
    }

    /// How its targets stand: `a complete, b deploying`.
    pub(super) async fn targets(&self, id: &RolloutId) -> String {
        let record = self.view(id).await.record;
        let word = |one: &the_deployer::rollout::record::RolloutTarget| {
            let state = serde_json::to_value(one.state).unwrap();
            format!("{} {}", one.target, state.as_str().unwrap())
        };
        record.targets.iter().map(word).collect::<Vec<_>>().join(", ")
    }

    /// A person does something to a rollout.
    pub(super) async fn acts(
        &self,
        id: &RolloutId,
        act: RolloutAct,
    ) -> Result<RolloutView, RolloutActError> {
        let reply = Reply::without_key();
        self.app().deployments().act_on_rollout(id, act, ann(), &reply).await
    }

    /// A person approves the gate at which a rollout waits.
    pub(super) async fn approves(&self, id: &RolloutId) -> Result<RolloutView, RolloutActError> {
        let (step, by) = (self.view(id).await.record.index, "ann".to_owned());
        self.acts(id, RolloutAct::Approve { step, by, reason: "it looks well".to_owned() }).await
    }

    /// The deployments and rollbacks of a rollout, as sentences in their order: `deploy v2 to a`.
    pub(super) async fn orders(&self, id: &RolloutId) -> Vec<String> {
        let made = self.made(id).await;
        let sentence = |one: &Deployment| {
            let Deployment { request, rollback, .. } = one;
            let verb = if rollback.is_some() { "roll back to" } else { "deploy" };
            format!("{verb} {} on {}", request.release.tag, request.target)
        };
        made.iter().map(sentence).collect()
    }

    /// The deployments and rollbacks of a rollout.
    pub(super) async fn made(&self, id: &RolloutId) -> Vec<Deployment> {
        let record = self.view(id).await.record;
        let ids = [record.id, record.undo_id];
        let mut all = self.deployer.deployments().await;
        all.retain(|one| one.rollout.as_ref().is_some_and(|rollout| ids.contains(rollout)));
        all
    }

    /// The tree of what is live on a target: its bytes.
    pub(super) fn live(&self, target: &str) -> Option<String> {
        let path = format!("manifests/{target}/devx/shop/latest");
        let manifests = self.deployer.manifests();
        let files = manifests.files();
        let is_there = files.keys().any(|file| file.starts_with(&format!("{path}/")));
        is_there.then(|| manifests.object(&path))
    }

    /// The number of commits that removed an app.
    pub(super) fn removals(&self) -> usize {
        let format = "--format=%(trailers:key=Removal-Id,valueonly)";
        let values = self.deployer.manifests().run(&["log", format, "main"]);
        values.lines().filter(|line| !line.is_empty()).count()
    }

    pub(super) fn lives(&self, targets: &[&str]) -> Vec<Option<String>> {
        targets.iter().map(|target| self.live(target)).collect()
    }

    /// The acts in the audit log, oldest first.
    pub(super) async fn audited(&self) -> Vec<String> {
        let search = Search { limit: 500, ..Search::default() };
        let records = self.app().store().audit_records(&search).await.unwrap();
        records.entries.into_iter().rev().map(|entry| entry.act.into_owned()).collect()
    }

    /// What the service answers to a request with that body.
    pub(super) async fn post(&self, path: &str, body: Json) -> Json {
        let url = format!("{}/api/v1{path}", self.deployer.url());
        let answer = client().request(Method::POST, url).json(&body).send().await.unwrap();
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// What the service shows of a rollout.
    pub(super) async fn shows(&self, id: &RolloutId) -> Json {
        let url = format!("{}/api/v1/rollouts/{id}", self.deployer.url());
        let answer = client().get(url).send().await.unwrap();
        serde_json::from_str(&answer.text().await.unwrap()).unwrap()
    }

    /// A person locks a target; the id.
    pub(super) async fn locks(&self, target: &str, reason: &str) -> String {
        let body = json!({"scope": {"target": target}, "reason": reason});
        self.post("/locks", body).await["id"].as_str().unwrap().to_owned()
    }

    pub(super) async fn unlocks(&self, id: &str) {
        self.post(&format!("/locks/{id}/remove"), json!({"reason": "it is over"})).await;
    }

    /// The hold on a target.
    pub(super) async fn is_held(&self, name: &str) -> bool {
        let app = AppKey { namespace: "devx".parse().unwrap(), slug: "shop".parse().unwrap() };
        self.app().store().hold(&target(name), &app).await.unwrap().is_some()
    }

    /// The deployments of the rollout that have not ended.
    pub(super) async fn under_way(&self, id: &RolloutId) -> Vec<DeployId> {
        let made = self.made(id).await;
        let open = made.into_iter().filter(|one| !one.state.is_final());
        open.map(|one| one.id).collect()
    }

    /// Checks that no target of the rollout was deployed to twice.
    pub(super) async fn did_nothing_twice(&self, id: &RolloutId) {
        let mut orders = self.orders(id).await;
        let count = orders.len();
        orders.sort();
        orders.dedup();
        assert_eq!(orders.len(), count, "{orders:?}");
        let made = self.made(id).await;
        let ended = [State::Succeeded, State::Failed, State::Cancelled, State::Superseded];
        assert!(made.iter().all(|one| ended.contains(&one.state)), "{made:#?}");
    }
}
