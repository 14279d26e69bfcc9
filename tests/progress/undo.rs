//! A deployment that fails in its cluster is rolled back where the policy says so: to what ran last, with a hold, once;
//! and not where something stops it, with the reason.

use std::time::Duration;

use jiff::SignedDuration;
use reqwest::Method;
use serde_json::{Value as Json, json};
use the_deployer::model::audit::{AuthMethod, Search};
use the_deployer::model::deployment::{Deployment, State};
use the_deployer::model::id::{AppKey, TargetName};
use the_deployer::store::Filter;

use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::github::{Ask, Repository};
use crate::harness::process::client;
use crate::harness::slack::{Slack, TOKEN};
use crate::progress::cluster::{Pods, TARGET, Watched, pod};

pub(super) const POLICY: &str = ", policies: {on_failure: rollback}";
const NONE: Pods = Pods { updated: 1, available: 0 };
const ALL: Pods = Pods { updated: 2, available: 2 };
const FOLDER: &str = "manifests/prod-cluster-1/devx/shop";

impl Watched {
    /// A release whose pods run.
    pub(super) async fn runs(&self, app: &Repository<'_>, tag: &str, generation: u32) -> i64 {
        let id = self.deploys(app, tag).await;
        self.pods_run(id, generation).await;
        id
    }

    /// Deploys up to the push, a second after all before: ids sort by time.
    pub(super) async fn deploys(&self, app: &Repository<'_>, tag: &str) -> i64 {
        self.deployer.clock.advance(Duration::from_secs(1));
        self.push(app, tag).await
    }

    /// The pods of a pushed release run.
    pub(super) async fn pods_run(&self, id: i64, generation: u32) {
        self.sync(id, "shop", generation).await;
        self.bring(id, "shop", generation, ALL).await;
        self.reaches(id, State::Succeeded).await;
    }

    /// The pods of a pushed release never run: its image has no legal name.
    pub(super) async fn pods_fail(&self, id: i64, generation: u32) {
        self.sync(id, "shop", generation).await;
        self.bring(id, "shop", generation, NONE).await;
        let state = json!({"waiting": {"reason": "InvalidImageName", "message": "no such name"}});
        let status = json!({"ready": false, "restartCount": 0, "state": state});
        self.server.apply(pod("shop", generation, &status));
    }

    /// A release whose pods never run; its end, before a worker or a sender has done anything about it.
    pub(super) async fn fails(
        &self,
        app: &Repository<'_>,
        tag: &str,
        generation: u32,
    ) -> Deployment {
        let id = self.deploys(app, tag).await;
        self.pods_fail(id, generation).await;
        self.deployer.clock.advance(Duration::from_secs(1));
        self.ends_as(id, State::Failed).await
    }

    /// Waits until the follower has recorded that, and does nothing else meanwhile.
    pub(super) async fn ends_as(&self, id: i64, state: State) -> Deployment {
        for _ in 0..1500 {
            let deployment = self.deployer.deployment(id).await;
            if deployment.state == state {
                return deployment;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!(
            "deployment {id} is never {}: {:#?}",
            state.as_str(),
            self.deployer.deployment(id).await
        );
    }

    /// The service's own rollbacks.
    pub(super) async fn undos(&self) -> Vec<Deployment> {
        let mut all = self.deployer.deployments().await;
        all.retain(|one| one.rollback.as_ref().is_some_and(|rollback| rollback.undoes.is_some()));
        all
    }

    /// The only one of them, once it is pushed and GitHub has its number.
    pub(super) async fn undone(&self) -> (i64, Deployment) {
        for _ in 0..100 {
            self.deployer.settle().await;
            let undos = self.undos().await;
            assert!(undos.len() <= 1, "{undos:#?}");
            if let Some(undo) = undos.into_iter().next()
                && let Some(number) = undo.request.number()
                && undo.pushed.is_some()
            {
                return (number, undo);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("it is never rolled back: {:#?}", self.undos().await);
    }

    /// Nothing was rolled back, for that reason, which people are told.
    async fn refuses(&self, failed: &Deployment, reason: &str) {
        self.deployer.settle().await;
        let summary = &failed.summary;
        assert!(summary.contains(&format!("; not rolled back: {reason}")), "{summary}");
        let (state, description, _) =
            self.deployer.github.statuses(failed.request.forge_id).pop().unwrap();
        assert_eq!(state, "failure");
        assert!(description.contains("; not rolled back: "), "{description}");
        assert_eq!(self.undos().await, []);
    }

    pub(super) fn tree(&self, folder: &str) -> String {
        self.deployer.manifests().object(&format!("{FOLDER}/{folder}"))
    }

    async fn post(&self, path: &str, body: Json) {
        let url = format!("{}/api/v1{path}", self.deployer.url());
        let answer = client().request(Method::POST, url).json(&body).send().await.unwrap();
        let status = answer.status();
        assert!(status.is_success(), "{path}: {status} {}", answer.text().await.unwrap());
    }

    async fn holds(&self) -> Option<the_deployer::model::rollback::Hold> {
        let target = TargetName::parse(TARGET).unwrap();
        self.deployer.stepped().store().hold(&target, &shop()).await.unwrap()
    }
}

fn shop() -> AppKey {
    AppKey { namespace: "devx".parse().unwrap(), slug: "shop".parse().unwrap() }
}

#[tokio::test]
async fn a_step_of_a_rollout_that_fails_is_left_to_its_rollout() {
    Watched::on_both_with(POLICY, async |world| {
        let app = world.app("shop");
        world.runs(&app, "v1", 1).await;
        world.deployer.clock.advance(Duration::from_secs(1));
        let body = json!({
            "repository": "example/shop", "ref": "main", "tag": "v2", "targets": [TARGET],
            "on_failure": "pause", "reason": "the sale",
        });
        world.post("/rollouts", body).await;
        world.deployer.works_for(SignedDuration::from_secs(5)).await;
        let step = world.deployer.deployments().await.into_iter().find(|one| one.rollout.is_some());
        let id = step.unwrap().request.number().unwrap();
        world.pods_fail(id, 2).await;
        let failed = world.reaches(id, State::Failed).await;
        let reason = "; not rolled back: its rollout decides what follows";
        assert!(failed.summary.ends_with(reason), "{}", failed.summary);
        assert_eq!(world.undos().await, []);
    })
    .await;
}

#[tokio::test]
async fn what_fails_is_rolled_back_to_what_ran_last_with_a_hold_and_once() {
    Watched::on_both_with(POLICY, async |world| {
        let app = world.app("shop");
        let first = world.runs(&app, "v1", 1).await;
        let failed = world.fails(&app, "v2", 2).await;
        let undo = world.undos().await.pop().expect("it is requested with the end");
        let note = format!("; it is being rolled back to v1 by rollback {}", undo.id);
        assert!(failed.summary.ends_with(&note), "{}", failed.summary);
        assert_eq!(undo.state, State::Queued);
        let (number, undo) = world.undone().await;
        let rollback = undo.rollback.clone().unwrap();
        let first = world.deployer.deployment(first).await;
        assert_eq!((rollback.to, rollback.from), (first.id.clone(), Some(failed.id.clone())));
        assert_eq!(rollback.undoes, Some(failed.id.clone()));
        assert!(rollback.reason.contains("failed in the cluster: "), "{}", rollback.reason);
        assert_eq!(undo.request.actor, "the-deployer");
        assert_eq!(world.tree("latest"), world.tree(first.id.as_str()), "byte for byte");
        assert_eq!(world.deployer.manifests().trailer("Rollback-Id"), [undo.id.as_str()]);
        // GitHub: one failure with the way out, and the rollback as a deployment of its own.
        let statuses = world.deployer.github.statuses(failed.request.forge_id);
        let failures: Vec<_> = statuses.iter().filter(|one| one.0 == "failure").collect();
        assert_eq!(failures.len(), 1, "{statuses:?}");
        assert!(failures[0].1.contains("; it is being rolled back to v1 by rollback"));
        world.pods_run(number, 3).await;
        assert_eq!(world.deployer.github.told(number).last().unwrap(), "success");
        // The audit log has the service as principal.
        let search = Search { act: Some("rollback".to_owned()), limit: 10, ..Search::default() };
        let entries =
            world.deployer.stepped().store().audit_records(&search).await.unwrap().entries;
        let [entry] = &entries[..] else { panic!("{entries:?}") };
        assert_eq!((entry.by.name.as_str(), entry.by.via), ("the-deployer", AuthMethod::Service));
        assert_eq!(entry.id, undo.id);
        // A workflow does not bring it back, and a person who deploys a fix ends the hold.
        let hold = world.holds().await.expect("the rollback takes a hold");
        assert_eq!((hold.rollback, hold.by.as_str()), (Some(undo.id), "the-deployer"));
        let bot = Ask { actor: "github-actions[bot]".to_owned(), ..Ask::new(TARGET, "v2") };
        let again = app.asks(bot).await;
        let again = world.reaches(again, State::Failed).await;
        assert_eq!(again.violations.iter().next().unwrap().rule, "hold", "{again:?}");
        let fix = world.runs(&app, "v3", 4).await;
        assert_eq!(world.holds().await, None);
        // What fails next is rolled back, too: to the fix.
        let worse = world.fails(&app, "v4", 5).await;
        assert_eq!(world.undos().await.len(), 2);
        let undo = world.deployer.stepped().store().undo_of(&worse.id).await.unwrap().unwrap();
        assert_eq!(undo.rollback.unwrap().to, world.deployer.deployment(fix).await.id);
        world.deployer.settle().await;
        let newest = world.deployer.deployments().await.pop().unwrap();
        world.pods_run(newest.request.number().unwrap(), 6).await;
    })
    .await;
}

#[tokio::test]
async fn without_the_policy_nothing_is_rolled_back() {
    Watched::on_both_with(", policies: {on_failure: report}", async |world| {
        let app = world.app("shop");
        world.runs(&app, "v1", 1).await;
        let failed = world.fails(&app, "v2", 2).await;
        world.deployer.works().await;
        assert!(!failed.summary.contains("rolled back"), "{}", failed.summary);
        assert_eq!(world.undos().await, []);
        assert_eq!(world.tree("latest"), world.tree(failed.id.as_str()));
    })
    .await;
}

#[tokio::test]
async fn a_rollback_that_fails_in_its_turn_is_the_end_of_it() {
    Watched::on_both_with(POLICY, async |world| {
        let app = world.app("shop");
        world.runs(&app, "v0", 1).await;
        world.runs(&app, "v1", 2).await;
        world.fails(&app, "v2", 3).await;
        let (number, _) = world.undone().await;
        world.pods_fail(number, 4).await;
        let failed = world.reaches(number, State::Failed).await;
        let reason = "; not rolled back: a rollback is not rolled back again";
        assert!(failed.summary.ends_with(reason), "{}", failed.summary);
        world.deployer.works().await;
        assert_eq!(world.undos().await.len(), 1);
        // A person's rollback is none of the service's either.
        let body = json!({"reason": "v1 is broken, too"});
        world.deployer.clock.advance(Duration::from_secs(1));
        world.post(&format!("/apps/{TARGET}/devx/shop/rollback"), body).await;
        world.deployer.settle().await;
        let by_hand = world.deployer.deployments().await.pop().unwrap();
        let number = by_hand.request.number().unwrap();
        world.pods_fail(number, 5).await;
        let failed = world.reaches(number, State::Failed).await;
        assert!(failed.summary.ends_with(reason), "{}", failed.summary);
        assert_eq!(world.undos().await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn without_a_former_revision_that_ran_nothing_is_done_and_people_are_told() {
    Watched::on_both_with(POLICY, async |world| {
        let app = world.app("shop");
        let first = world.fails(&app, "v1", 1).await;
        world.refuses(&first, "revision").await;
        assert!(first.summary.contains("there is none before it"), "{}", first.summary);
        // One that failed is no way back, and neither is one that was replaced before its pods ran.
        let second = world.fails(&app, "v2", 2).await;
        world.refuses(&second, "no older revision of devx/shop").await;
        let cause = format!("{} failed in the cluster", first.id);
        assert!(second.summary.contains(&cause), "{}", second.summary);
        let replaced = world.deploys(&app, "v3").await;
        world.sync(replaced, "shop", 3).await;
        let last = world.fails(&app, "v4", 4).await;
        assert_eq!(world.deployer.deployment(replaced).await.state, State::Superseded);
        world.refuses(&last, "no older revision of devx/shop").await;
        assert!(last.summary.contains("was replaced before its pods ran"), "{}", last.summary);
    })
    .await;
}

#[tokio::test]
async fn a_newer_deployment_takes_its_place() {
    Watched::on_both_with(POLICY, async |world| {
        let app = world.app("shop");
        world.runs(&app, "v1", 1).await;
        let id = world.deploys(&app, "v2").await;
        world.deployer.clock.advance(Duration::from_secs(1));
        let newer = app.deploys(TARGET, "v3").await;
        world.pods_fail(id, 2).await;
        let failed = world.ends_as(id, State::Failed).await;
        let newer_id = world.deployer.deployment(newer).await.id;
        let summary = &failed.summary;
        let note = format!("; not rolled back: deployment {newer_id} is under way");
        assert!(summary.ends_with(&note), "{summary}");
        world.deployer.works().await;
        world.pods_run(newer, 3).await;
        assert_eq!(world.undos().await, []);
        // One that comes while the rollback waits is done after it, and is live in the end.
        world.fails(&app, "v4", 4).await;
        world.deployer.clock.advance(Duration::from_secs(1));
        let fix = app.deploys(TARGET, "v5").await;
        let (_, undo) = world.undone().await;
        world.pods_run(fix, 5).await;
        assert_eq!(
            world.tree("latest"),
            world.tree(world.deployer.deployment(fix).await.id.as_str())
        );
        let undo = world.deployer.stepped().store().deployment(&undo.id).await.unwrap().unwrap();
        assert_eq!(undo.state, State::Superseded);
    })
    .await;
}

#[tokio::test]
async fn a_lock_or_a_hold_stops_it_as_long_as_nothing_is_pushed() {
    Watched::on_both_with(POLICY, async |world| {
        let app = world.app("shop");
        world.runs(&app, "v1", 1).await;
        // Before the failure.
        let id = world.deploys(&app, "v2").await;
        let path = format!("/apps/{TARGET}/devx/shop/hold");
        world.post(&path, json!({"reason": "I look into it"})).await;
        world.pods_fail(id, 2).await;
        let held = world.ends_as(id, State::Failed).await;
        world.refuses(&held, "devx/shop is held by").await;
        assert!(held.summary.contains("I look into it; `bart rollback` does it nevertheless"));
        let id = world.deploys(&app, "v3").await;
        let lock = json!({"scope": {"target": TARGET}, "reason": "the database moves"});
        world.post("/locks", lock).await;
        world.pods_fail(id, 3).await;
        let locked = world.ends_as(id, State::Failed).await;
        world.refuses(&locked, "everything on prod-cluster-1 is locked by").await;
        let store = world.deployer.stepped().store();
        let lock = store.locks(world.deployer.clock.now()).await.unwrap().pop().unwrap();
        world.post(&format!("/locks/{}/remove", lock.0), json!({"reason": "it has"})).await;
        // After it, and before the push.
        let ran = world.runs(&app, "v4", 4).await;
        let failed = world.fails(&app, "v5", 5).await;
        assert_eq!(world.undos().await.len(), 1);
        world.post(&path, json!({"reason": "wait for me"})).await;
        world.deployer.works().await;
        let undo = world.undos().await.pop().unwrap();
        assert_eq!((undo.state, undo.pushed), (State::Failed, None));
        assert!(undo.summary.contains("not rolled back: devx/shop is held by"), "{}", undo.summary);
        assert_eq!(world.tree("latest"), world.tree(failed.id.as_str()));
        // A person's rollback is stopped by none.
        let body = json!({"reason": "v5 is broken"});
        world.post(&format!("/apps/{TARGET}/devx/shop/rollback"), body).await;
        world.deployer.works().await;
        world.deployer.settle().await;
        let ran = world.deployer.deployment(ran).await.id;
        assert_eq!(world.tree("latest"), world.tree(ran.as_str()));
        let newest = world.deployer.deployments().await.pop().unwrap();
        world.pods_run(newest.request.number().unwrap(), 6).await;
    })
    .await;
}

#[tokio::test]
async fn a_window_does_not_stop_it() {
    let windows =
        ", policies: {on_failure: rollback, windows: [{days: '*', from: '05:00', to: '06:00'}]}";
    Watched::on_both_with(windows, async |world| {
        let app = world.app("shop");
        world.runs(&app, "v1", 1).await;
        let id = world.deploys(&app, "v2").await;
        world.deployer.clock.advance(Duration::from_hours(2));
        world.pods_fail(id, 2).await;
        world.ends_as(id, State::Failed).await;
        let (number, _) = world.undone().await;
        world.pods_run(number, 3).await;
    })
    .await;
}

#[tokio::test]
async fn data_and_pods_are_not_given_up_without_a_person() {
    Watched::on_both_with(POLICY, async |world| {
        let app = world.app("shop");
        world.runs(&app, "v1", 1).await;
        let disk = "    volumes: [{name: data, mountPath: /data, size: 10Gi, accessMode: ReadWriteMany}]\n";
        app.commit(&format!("{}{disk}", waml("shop")));
        let failed = world.fails(&app, "v2", 2).await;
        world.refuses(&failed, "it would remove objects that keep data").await;
        let summary = &failed.summary;
        assert!(summary.contains("PersistentVolumeClaim shop.data"), "{summary}");
        assert!(summary.contains("`--with-data` accepts that"), "{summary}");
    })
    .await;
    Watched::on_both_with(POLICY, async |world| {
        let app = world.app("shop");
        world.runs(&app, "v1", 1).await;
        let automatic = "autoscaling: {horizontal: {minReplicas: 3, maxReplicas: 10, cpu: {averageUtilization: 75}}}";
        app.commit(&waml("shop").replace(automatic, "scaling: {replicas: 10}"));
        let failed = world.fails(&app, "v2", 2).await;
        assert!(failed.summary.contains("`--with-fewer-pods`"), "{}", failed.summary);
        world.deployer.works().await;
        assert_eq!(world.undos().await, []);
    })
    .await;
}

#[tokio::test]
async fn what_is_not_live_any_more_is_not_rolled_back() {
    Watched::on_both_with(POLICY, async |world| {
        let app = world.app("shop");
        let first = world.runs(&app, "v1", 1).await;
        // Edited by hand before the failure.
        let id = world.deploys(&app, "v2").await;
        world.sync(id, "shop", 2).await;
        world.reaches(id, State::Progressing).await;
        let manifests = world.deployer.manifests();
        manifests.somebody_writes(&format!("{FOLDER}/latest/note.yaml"), "kind: Note\n");
        world.pods_fail(id, 2).await;
        let failed = world.ends_as(id, State::Failed).await;
        world.refuses(&failed, "it is not live any more").await;
        // And while the rollback waits: the edit is not undone.
        let third = world.runs(&app, "v3", 3).await;
        assert!(third > first);
        let failed = world.fails(&app, "v4", 4).await;
        manifests.somebody_writes(&format!("{FOLDER}/latest/note.yaml"), "kind: Note\n");
        world.deployer.works().await;
        let undo = world.undos().await.pop().unwrap();
        assert_eq!((undo.state, undo.pushed), (State::Failed, None));
        assert!(undo.summary.contains("is not live any more"), "{}", undo.summary);
        assert_eq!(failed.state, State::Failed);
    })
    .await;
}

#[tokio::test]
async fn an_app_that_is_removed_and_a_preview_are_never_rolled_back() {
    let progress = format!(", progress: {{previews: true}}{POLICY}");
    Watched::on_both_with(&progress, async |world| {
        let app = world.app("shop");
        world.runs(&app, "v1", 1).await;
        // A preview of somebody's, by its annotations alone.
        let mut preview = crate::harness::api_server::deployment("devx", "shop-pr-7");
        preview["metadata"]["annotations"] = json!({
            "the-deployer.dev/repository": "example/shop", "the-deployer.dev/commit": "ab".repeat(20),
        });
        preview["status"] = json!({
            "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1,
            "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}],
        });
        world.server.apply(preview);
        let id = world.deploys(&app, "v2").await;
        world.sync(id, "shop", 2).await;
        world.reaches(id, State::Progressing).await;
        let body = json!({"reason": "it is retired"});
        world.post(&format!("/apps/{TARGET}/devx/shop/remove"), body).await;
        world.pods_fail(id, 2).await;
        world.reaches(id, State::Superseded).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.deployer.works().await;
        let rollbacks = Filter::default();
        let page = world.deployer.stepped().store().deployments(&rollbacks, None, 50).await.unwrap();
        assert!(page.deployments.iter().all(|one| one.rollback.is_none()));
    })
    .await;
}

#[tokio::test]
async fn the_message_of_the_failure_says_that_it_is_rolled_back_and_to_what() {
    let mut deployer = Deployer::prepared().await;
    let slack = Slack::start(&deployer.clock).await;
    slack.channel("#squad-devx");
    deployer.variable("SLACK_TOKEN", TOKEN);
    let url = slack.api_url();
    deployer.configure(|text| {
        format!("{text}notify:\n  slack: {{token: {{env: SLACK_TOKEN}}, api_url: '{url}'}}\n")
    });
    let world = Watched::start(deployer, POLICY).await;
    let app = world.app("shop");
    let refused = world.fails(&app, "v0", 1).await;
    world.refuses(&refused, "revision").await;
    world.runs(&app, "v1", 2).await;
    world.fails(&app, "v2", 3).await;
    let (number, undo) = world.undone().await;
    world.pods_run(number, 4).await;
    world.deployer.settle().await;
    let messages = slack.read("#squad-devx");
    let texts: Vec<String> =
        messages.iter().map(|one| format!("{}\n{}", one.title, one.text)).collect();
    let message = |title: &str| {
        let found = texts.iter().find(|text| text.contains(title));
        found.unwrap_or_else(|| panic!("{title} in {texts:#?}")).clone()
    };
    let failure = message("shop v2 does not run on prod-cluster-1");
    let expected = format!("it is being rolled back to v1 by rollback {}", undo.id);
    assert!(failure.contains(&expected), "{failure}");
    assert!(failure.contains(&format!("`bart logs {} --follow` shows the rollback", undo.id)));
    assert!(!failure.contains("bart rollback"), "{failure}");
    assert!(message("shop v0 does not run on").contains("not rolled back: revision"), "{texts:#?}");
    message("shop was rolled back to v1 on prod-cluster-1");
    slack.all_read();
    world.ends().await;
}
