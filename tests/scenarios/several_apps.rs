//! Several apps in one repository: each deployed alone or all at once, and what GitHub shows of it.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use the_deployer::model::deployment::{Deployment, State};

use crate::harness::deployer::{Deployer, on_both};
use crate::harness::events::waml;
use crate::harness::github::{Ask, Fault, Repository, Webhooks};
use crate::harness::process::client;
use crate::scenarios::{TARGET, WELL};

const SHOP: &str = ".weave.yaml";
const WORKER: &str = ".weave/worker.yaml";
const WEB: &str = ".weave/web.yaml";

/// A repository with three apps, one of them at the root.
fn three_apps(deployer: &Deployer) -> Repository<'_> {
    let repository = deployer.github.repository("example/shop");
    let wamls = [(SHOP, waml("shop")), (WORKER, waml("worker")), (WEB, waml("web"))];
    let files: Vec<(&str, &str)> = wamls.iter().map(|(path, text)| (*path, &**text)).collect();
    repository.commit_on("main", &files);
    repository
}

fn of_app(app: &str, tag: &str) -> Ask {
    Ask { payload: json!({"tag": tag, "app": app}), ..Ask::new(TARGET, tag) }
}

/// Each record by the name of its app; `all` for one of all apps.
async fn states(deployer: &Deployer) -> Vec<(String, State)> {
    let name = |one: &Deployment| match &one.request.release.app {
        Some(app) => app.to_string(),
        None if one.all_apps => "all".to_owned(),
        None => "-".to_owned(),
    };
    deployer.deployments().await.iter().map(|one| (name(one), one.state)).collect()
}

async fn newest_of(deployer: &Deployer, app: &str) -> Deployment {
    let is_of = |one: &Deployment| {
        one.request.release.app.as_ref().is_some_and(|name| name.as_str() == app)
    };
    deployer.deployments().await.into_iter().rev().find(is_of).unwrap()
}

fn live(deployer: &Deployer, app: &str) -> Option<String> {
    let path = format!("manifests/{TARGET}/devx/{app}/latest/deployment.yaml");
    deployer.manifests().files().get(&path).cloned()
}

#[tokio::test]
async fn one_of_several_apps_is_deployed_alone() {
    on_both(async |deployer| {
        let repository = three_apps(deployer);
        let id = repository.asks(of_app("worker", "v1")).await;
        deployer.settle().await;
        assert_eq!(deployer.github.told(id), WELL);
        assert_eq!(states(deployer).await, [("worker".to_owned(), State::Succeeded)]);
        assert!(live(deployer, "worker").is_some());
        assert!(live(deployer, "shop").is_none() && live(deployer, "web").is_none());
        let commit = repository.tip("main");
        let contexts: Vec<String> =
            repository.commit_statuses(&commit).into_iter().map(|status| status.0).collect();
        assert!(
            contexts.iter().all(|one| one == &format!("deploy/{TARGET}/worker")),
            "{contexts:?}"
        );
        assert_eq!(deployer.manifests().trailer("App-Name"), ["worker"]);
        // The one at the root has the name of its file.
        let id = repository.asks(of_app(SHOP, "v1")).await;
        deployer.settle().await;
        assert_eq!(deployer.github.told(id), WELL);
        assert!(live(deployer, "shop").is_some());
    })
    .await;
}

#[tokio::test]
async fn all_apps_are_deployed_at_once_and_the_request_says_how_they_go() {
    on_both(async |deployer| {
        let repository = three_apps(deployer);
        let id = repository.deploys(TARGET, "v1").await;
        deployer.settle().await;
        let all = ["all", SHOP, "web", "worker"].map(|name| (name.to_owned(), State::Succeeded));
        assert_eq!(states(deployer).await, all);
        assert_eq!(deployer.github.told(id).last().unwrap(), "success");
        let says = deployer.github.statuses(id).pop().unwrap().1;
        assert_eq!(says, "3 of 3 apps done");
        for app in ["shop", "web", "worker"] {
            assert!(live(deployer, app).is_some(), "{app}");
        }
        // Each app has a deployment of its own at GitHub, whose event is none of ours.
        let payloads = repository.payloads();
        let own: Vec<&Json> =
            payloads.iter().filter(|(task, _)| task == "deploy-app").map(|(_, one)| one).collect();
        assert_eq!(own.len(), 3, "{payloads:?}");
        assert!(own.iter().any(|one| one["app"] == "worker" && one["tag"] == "v1"), "{own:?}");
        for one in deployer.deployments().await.iter().filter(|one| one.parent.is_some()) {
            let number = one.request.number().expect("GitHub has it");
            assert_eq!(deployer.github.told(number), WELL, "{one:?}");
        }
        let commit = repository.tip("main");
        let mut contexts: Vec<String> =
            repository.commit_statuses(&commit).into_iter().map(|status| status.0).collect();
        contexts.sort();
        contexts.dedup();
        let context = |end: &str| format!("deploy/{TARGET}{end}");
        let expected = ["", "/.weave.yaml", "/web", "/worker"].map(context);
        assert_eq!(contexts, expected);
    })
    .await;
}

#[tokio::test]
async fn a_second_delivery_and_a_crash_make_no_second_deployments() {
    let mut deployer = Deployer::start().await;
    deployer.github.webhooks(Webhooks::Doubled);
    let repository = three_apps(&deployer);
    repository.deploys(TARGET, "v1").await;
    // The parts are there, and the process dies before any of them is pushed.
    deployer.stepped().step().await.unwrap();
    deployer.dies();
    deployer.starts().await;
    deployer.settle().await;
    let all = ["all", SHOP, "web", "worker"].map(|name| (name.to_owned(), State::Succeeded));
    assert_eq!(states(&deployer).await, all);
    let numbers: BTreeSet<Option<i64>> =
        deployer.deployments().await.iter().map(|one| one.request.number()).collect();
    assert_eq!((numbers.len(), numbers.contains(&None)), (4, false));
    deployer.settled().await;
}

#[tokio::test]
async fn an_unknown_app_is_refused_with_those_that_there_are() {
    let deployer = Deployer::start().await;
    let repository = three_apps(&deployer);
    let id = repository.asks(of_app("wokrer", "v1")).await;
    deployer.settle().await;
    let (state, says, _) = deployer.github.statuses(id).pop().unwrap();
    assert_eq!(state, "failure");
    assert!(says.contains("no app `wokrer`") && says.contains("did you mean `worker`?"), "{says}");
    deployer.settled().await;
}

#[tokio::test]
async fn apps_of_one_name_are_refused_at_both_places() {
    let deployer = Deployer::start().await;
    let repository = deployer.github.repository("example/shop");
    repository.commit_on("main", &[(WORKER, &waml("shop")), (WEB, &waml("shop"))]);
    repository.deploys(TARGET, "v1").await;
    deployer.settle().await;
    let refused = deployer.deployments().await.pop().unwrap();
    assert_eq!((refused.state, refused.all_apps), (State::Failed, false));
    let places: Vec<String> = refused.violations.iter().map(ToString::to_string).collect();
    assert_eq!(
        places,
        [
            ".weave/web.yaml:3:7: `devx/shop` is also the app of `.weave/worker.yaml:3:7` [apps]",
            ".weave/worker.yaml:3:7: `devx/shop` is also the app of `.weave/web.yaml:3:7` [apps]",
        ]
    );
    // The first of them that is deployed has the app.
    repository.asks(of_app("worker", "v1")).await;
    deployer.settle().await;
    repository.asks(of_app("web", "v1")).await;
    deployer.settle().await;
    let web = newest_of(&deployer, "web").await;
    assert_eq!(web.state, State::Failed);
    let place = web.violations[0].to_string();
    assert!(
        place
            .starts_with(".weave/web.yaml:3:7: `devx/shop` is also the app of `.weave/worker.yaml"),
        "{place}"
    );
    deployer.settled().await;
}

#[tokio::test]
async fn a_file_that_cannot_be_read_keeps_no_other_app_back() {
    let deployer = Deployer::start_as_app().await;
    let repository = deployer.github.repository("example/shop");
    repository.commit_on("main", &[(WORKER, "a: [\n"), (WEB, &waml("web"))]);
    let id = repository.deploys(TARGET, "v1").await;
    deployer.settle().await;
    let expected = [("all", State::Failed), ("web", State::Succeeded), ("worker", State::Failed)];
    assert_eq!(states(&deployer).await, expected.map(|(name, state)| (name.to_owned(), state)));
    assert!(live(&deployer, "web").is_some());
    let (state, says, _) = deployer.github.statuses(id).pop().unwrap();
    assert_eq!(state, "failure");
    assert!(says.starts_with("1 of 2 apps done; worker failed: "), "{says}");
    let worker = newest_of(&deployer, "worker").await;
    let file = worker.violations[0].position.as_ref().map(|place| place.file.to_string());
    assert_eq!(file.as_deref(), Some(WORKER));
    // Its check run notes them at the lines of its own file.
    let runs = repository.check_runs(&repository.tip("main"));
    let run = runs.iter().find(|run| run["name"] == format!("deploy/{TARGET}/worker")).unwrap();
    assert_eq!(run["annotations"][0]["path"], WORKER);
    deployer.settled().await;
}

#[tokio::test]
async fn only_the_apps_that_have_the_target_are_deployed() {
    let deployer = Deployer::start().await;
    let repository = deployer.github.repository("example/shop");
    let elsewhere = waml("web").replace(TARGET, "prod-cluster-9");
    repository.commit_on("main", &[(WORKER, &waml("worker")), (WEB, &elsewhere)]);
    let id = repository.deploys(TARGET, "v1").await;
    deployer.settle().await;
    let expected = ["all", "worker"].map(|name| (name.to_owned(), State::Succeeded));
    assert_eq!(states(&deployer).await, expected);
    assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    // Under each name that GitHub shows, the last word is the end.
    let mut last = std::collections::BTreeMap::new();
    for (context, state, ..) in repository.commit_statuses(&repository.tip("main")) {
        last.insert(context, state);
    }
    let context = |end: &str| (format!("deploy/{TARGET}{end}"), "success".to_owned());
    assert_eq!(last.into_iter().collect::<Vec<_>>(), ["", "/worker"].map(context));
    let id = repository.deploys("nowhere", "v1").await;
    deployer.settle().await;
    let (state, says, _) = deployer.github.statuses(id).pop().unwrap();
    assert_eq!(state, "failure");
    assert!(says.contains("no app of the repository deploys to `nowhere`"), "{says}");
    deployer.settled().await;
}

#[tokio::test]
async fn the_success_of_one_app_makes_only_its_own_deployments_inactive() {
    on_both(async |deployer| {
        let repository = three_apps(deployer);
        let all = repository.deploys(TARGET, "v1").await;
        deployer.settle().await;
        let number = async |app: &str| newest_of(deployer, app).await.request.number().unwrap();
        let (web, worker) = (number("web").await, number("worker").await);
        repository.asks(of_app("worker", "v2")).await;
        deployer.settle().await;
        let last = |id: i64| deployer.github.told(id).pop().unwrap();
        assert_eq!(last(worker), "inactive");
        assert_eq!(last(web), "success", "another app's is live as before");
        assert_eq!(last(all), "inactive", "not all that it deployed is live any more");
        assert!(live(deployer, "worker").unwrap().contains("v2"));
        assert!(live(deployer, "web").unwrap().contains("v1"));
    })
    .await;
}

#[tokio::test]
async fn two_apps_of_one_repository_do_not_supersede_each_other() {
    on_both(async |deployer| {
        let repository = three_apps(deployer);
        let web = repository.asks(of_app("web", "v1")).await;
        let older = repository.asks(of_app("worker", "v1")).await;
        let newer = repository.asks(of_app("worker", "v2")).await;
        deployer.settle().await;
        assert_eq!(deployer.github.told(web).last().unwrap(), "success");
        assert_eq!(deployer.github.told(newer).last().unwrap(), "success");
        let (state, says, _) = deployer.github.statuses(older).pop().unwrap();
        assert_eq!(state, "inactive");
        assert!(says.contains("superseded"), "{says}");
        // A part of an older request comes after a newer one of its app alone.
        let all = repository.deploys(TARGET, "v3").await;
        let alone = repository.asks(of_app("web", "v4")).await;
        deployer.settle().await;
        assert_eq!(deployer.github.told(alone).last().unwrap(), "success");
        assert!(live(deployer, "web").unwrap().contains("v4"));
        assert!(live(deployer, "worker").unwrap().contains("v3"));
        let says = deployer.github.statuses(all).pop().unwrap().1;
        assert!(says.contains("web was superseded"), "{says}");
    })
    .await;
}

#[tokio::test]
async fn an_app_that_moves_to_another_file_stays_the_same_app() {
    on_both(async |deployer| {
        let repository = deployer.github.repository("example/shop");
        repository.commit(&waml("shop"));
        let first = repository.deploys(TARGET, "v1").await;
        deployer.settle().await;
        repository.moves(SHOP, ".weave/shop.yaml");
        let second = repository.deploys(TARGET, "v2").await;
        deployer.settle().await;
        assert_eq!(states(deployer).await[1], ("all".to_owned(), State::Succeeded));
        assert_eq!(states(deployer).await[2], ("shop".to_owned(), State::Succeeded));
        assert_eq!(deployer.github.told(first).last().unwrap(), "inactive");
        assert_eq!(deployer.github.told(second).last().unwrap(), "success");
        assert!(live(deployer, "shop").unwrap().contains("v2"));
    })
    .await;
}

#[tokio::test]
async fn one_app_is_rolled_back_and_the_others_stay() {
    let deployer = Deployer::start().await;
    let repository = three_apps(&deployer);
    for tag in ["v1", "v2"] {
        repository.deploys(TARGET, tag).await;
        deployer.settle().await;
    }
    let url = format!("{}/api/v1/apps/{TARGET}/devx/worker/rollback", deployer.url());
    let answer = client().post(url).json(&json!({"reason": "slow"})).send().await.unwrap();
    assert_eq!(answer.status(), 202, "{}", answer.text().await.unwrap());
    deployer.settle().await;
    assert!(live(&deployer, "worker").unwrap().contains("v1"));
    assert!(live(&deployer, "web").unwrap().contains("v2"));
    let back = newest_of(&deployer, "worker").await;
    assert!(back.rollback.is_some() && back.state == State::Succeeded, "{back:?}");
    // The hold is the app's: the others are deployed by programs as before.
    repository.asks(of_app("web", "v3")).await;
    deployer.settle().await;
    assert!(live(&deployer, "web").unwrap().contains("v3"));
    deployer.settled().await;
}

#[tokio::test]
async fn a_cancelled_request_for_all_apps_cancels_what_has_not_begun() {
    let deployer = Deployer::start().await;
    let repository = three_apps(&deployer);
    let id = repository.deploys(TARGET, "v1").await;
    deployer.stepped().step().await.unwrap();
    let parent = deployer.deployment(id).await;
    assert_eq!((parent.all_apps, parent.state), (true, State::Running));
    let url = format!("{}/api/v1/deployments/{}/cancel", deployer.url(), parent.id);
    let answer = client().post(url).json(&json!({"reason": "too early"})).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    deployer.settle().await;
    assert!(states(&deployer).await.iter().all(|(_, state)| *state == State::Cancelled));
    assert!(live(&deployer, "web").is_none());
    deployer.settled().await;
}

#[tokio::test]
async fn no_page_offers_to_cancel_all_apps_once_none_of_them_waits() {
    let deployer = Deployer::start().await;
    let id = three_apps(&deployer).deploys(TARGET, "v1").await;
    let look = async || {
        let parent = deployer.deployment(id).await;
        let page = async |path: &str| {
            let url = format!("{}/deployments/{}{path}", deployer.url(), parent.id);
            client().get(url).send().await.unwrap().text().await.unwrap()
        };
        let is_offered = page("").await.contains("/cancel\">Cancel");
        assert_eq!(page("/cancel").await.contains("<form"), is_offered, "its own page agrees");
        (parent.state, is_offered)
    };
    assert_eq!(look().await, (State::Queued, true));
    for expected in [true, true, true, false] {
        deployer.stepped().step().await.unwrap();
        assert_eq!(look().await, (State::Running, expected));
    }
    deployer.settle().await;
    assert_eq!(look().await, (State::Succeeded, false));
    deployer.settled().await;
}

#[tokio::test]
async fn the_record_of_all_apps_lists_them_and_a_plan_wants_one() {
    let deployer = Deployer::start().await;
    let repository = three_apps(&deployer);
    let id = repository.deploys(TARGET, "v1").await;
    deployer.settle().await;
    let parent = deployer.deployment(id).await;
    let get = async |path: &str| -> Json {
        let answer = client().get(format!("{}{path}", deployer.url())).send().await.unwrap();
        answer.json().await.unwrap()
    };
    let detail = get(&format!("/api/v1/deployments/{}", parent.id)).await;
    assert_eq!((&detail["all_apps"], &detail["app_name"]), (&json!(true), &Json::Null));
    let names: Vec<&str> = detail["apps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["app_name"].as_str().unwrap())
        .collect();
    assert_eq!(names, [SHOP, "web", "worker"]);
    let part =
        get(&format!("/api/v1/deployments/{}", detail["apps"][2]["deployment"].as_str().unwrap()))
            .await;
    assert_eq!(
        (&part["app_name"], &part["parent"]),
        (&json!("worker"), &json!(parent.id.as_str()))
    );
    let plan = async |body: Json| {
        let url = format!("{}/api/v1/plan", deployer.url());
        let answer = client().post(url).json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Json>().await.unwrap())
    };
    let mut body = json!({"repository": "example/shop", "target": TARGET, "ref": "main"});
    let (status, refusal) = plan(body.clone()).await;
    assert_eq!(status, 422, "{refusal}");
    assert!(
        refusal["detail"].as_str().unwrap().contains("`.weave.yaml`, `web` and `worker`"),
        "{refusal}"
    );
    body["app_name"] = json!("worker");
    let (status, planned) = plan(body).await;
    assert_eq!((status, &planned["app"]), (200, &json!("devx/worker")), "{planned}");
    assert_eq!(planned["outcome"], "unchanged");
    deployer.settled().await;
}

#[tokio::test]
async fn a_removal_of_one_app_waits_for_no_other() {
    let deployer = Deployer::start().await;
    let repository = three_apps(&deployer);
    repository.deploys(TARGET, "v1").await;
    deployer.settle().await;
    // One of another app waits: GitHub does not give its WAML.
    deployer.github.fails(1, "contents .weave/web.yaml", Fault::BadGateway);
    repository.asks(of_app("web", "v2")).await;
    deployer.works().await;
    let url = format!("{}/api/v1/apps/{TARGET}/devx/worker/remove", deployer.url());
    let answer = client().post(url).json(&json!({"reason": "moved"})).send().await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap());
    assert!(live(&deployer, "worker").is_none());
    deployer.settle().await;
    assert!(live(&deployer, "web").unwrap().contains("v2"));
    deployer.settled().await;
}

/// The one check run of a commit.
fn preview(repository: &Repository<'_>, sha: &str) -> Json {
    let runs = repository.check_runs(sha);
    let mut previews = runs.into_iter().filter(|run| run["name"] == "the-deployer/preview");
    let preview = previews.next().expect("a preview");
    assert_eq!(previews.next(), None);
    preview
}

#[tokio::test]
async fn a_preview_has_a_section_for_each_app_that_changes() {
    let deployer = Deployer::start_as_app().await;
    let repository = three_apps(&deployer);
    repository.deploys(TARGET, "v1").await;
    deployer.settle().await;
    let more = |app: &str| waml(app).replace("minReplicas: 3", "minReplicas: 4");
    repository.opens_pull_request("one", &[(WORKER, &more("worker"))]).await;
    let wrong = waml("web").replace("minReplicas: 3", "minReplicas: many");
    repository.opens_pull_request("two", &[(WORKER, &more("worker")), (WEB, &wrong)]).await;
    repository.opens_pull_request("same", &[(".weave/copy.yaml", &waml("web"))]).await;
    deployer.settle().await;
    let text = |check: &Json, field: &str| check["output"][field].as_str().unwrap().to_owned();
    let one = preview(&repository, &repository.tip("one"));
    assert_eq!(one["conclusion"], "success");
    assert_eq!(text(&one, "title"), "worker (.weave/worker.yaml): 1 target changes");
    assert!(!text(&one, "summary").contains("web"), "{one}");
    let two = preview(&repository, &repository.tip("two"));
    assert_eq!(two["conclusion"], "failure");
    let summary = text(&two, "summary");
    assert!(
        summary.contains("## web (.weave/web.yaml)") && summary.contains("## worker"),
        "{summary}"
    );
    assert!(
        text(&two, "text").contains("-  minReplicas: 3\n+  minReplicas: 4\n"),
        "the other app's"
    );
    assert_eq!(two["annotations"][0]["path"], WEB);
    let same = preview(&repository, &repository.tip("same"));
    assert_eq!(same["conclusion"], "failure");
    assert!(text(&same, "summary").contains("`.weave/web.yaml:3:7`"), "{same}");
    deployer.settled().await;
}

#[tokio::test]
async fn a_preview_of_too_many_apps_has_a_section_for_none() {
    let deployer = Deployer::start_as_app().await;
    let repository = three_apps(&deployer);
    let wamls: Vec<String> = (0..64).map(|n| format!(".weave/app-{n}.yaml")).collect();
    let files: Vec<(&str, &str)> = wamls.iter().map(|path| (&**path, "a: [\n")).collect();
    repository.opens_pull_request("many", &files).await;
    deployer.settle().await;
    let many = preview(&repository, &repository.tip("many"));
    assert_eq!(many["conclusion"], "failure");
    let summary = many["output"]["summary"].as_str().unwrap();
    assert!(summary.contains("has more than 64 WAMLs"), "{summary}");
    assert!(!summary.contains("## app-1"), "{summary}");
    deployer.settled().await;
}

#[tokio::test]
async fn a_rollout_is_of_one_app() {
    let deployer = Deployer::start().await;
    let repository = three_apps(&deployer);
    let rollout = |app: Option<&str>| Ask {
        task: "rollout".to_owned(),
        payload: json!({"tag": "v1", "app": app, "rollout": {"targets": [TARGET]}}),
        ..Ask::new(TARGET, "v1")
    };
    let id = repository.asks(rollout(None)).await;
    deployer.settle().await;
    let (state, says, _) = deployer.github.statuses(id).pop().unwrap();
    assert_eq!(state, "error");
    assert!(says.contains("name one: `.weave.yaml`, `web` and `worker`"), "{says}");
    let id = repository.asks(rollout(Some("worker"))).await;
    deployer.settle().await;
    assert_eq!(deployer.github.told(id).last().unwrap(), "success");
    assert!(live(&deployer, "worker").is_some() && live(&deployer, "web").is_none());
    let step = newest_of(&deployer, "worker").await;
    assert!(step.rollout.is_some() && step.state == State::Succeeded, "{step:?}");
    deployer.settled().await;
}
