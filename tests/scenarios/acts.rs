//! People keep deployments back, stop one, and ask what one would do: the whole program over HTTP, on
//! both databases, with GitHub's stand-in.

use reqwest::Method;
use serde_json::{Value as Json, json};

use super::{TARGET, WELL, app};
use crate::harness::deployer::{Deployer, on_both};
use crate::harness::events::waml;

/// What the program answers to a request with that body.
async fn ask(deployer: &Deployer, path: &str, body: &Json) -> (u16, Json) {
    let url = format!("http://{}/api/v1{path}", deployer.stepped().address());
    let client = crate::harness::process::client();
    let method = if body.is_null() { Method::GET } else { Method::POST };
    let request = client.request(method, url);
    let request = if body.is_null() { request } else { request.json(body) };
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

async fn done(deployer: &Deployer, path: &str, body: Json) -> Json {
    let (status, said) = ask(deployer, path, &body).await;
    assert!((200..300).contains(&status), "{path}: {status} {said}");
    said
}

async fn refused(deployer: &Deployer, path: &str, body: Json, status: u16) -> String {
    let (found, said) = ask(deployer, path, &body).await;
    assert_eq!(found, status, "{path}: {said}");
    said["detail"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_is_locked_is_not_deployed_until_it_is_unlocked_or_the_lock_ends() {
    on_both(async |deployer| {
        let shop = app(deployer, "shop");
        let scopes = [
            json!({"target": TARGET, "app": "devx/shop"}),
            json!({"owner": "SQUAD@example.com"}),
            json!({"target": TARGET}),
            json!({"everything": true}),
        ];
        for (n, scope) in scopes.iter().enumerate() {
            let lock = json!({"scope": scope, "reason": "the database moves"});
            let lock = done(deployer, "/locks", lock).await;
            let id = shop.deploys(TARGET, &format!("v{n}")).await;
            deployer.settle().await;
            assert_eq!(deployer.github.told(id), ["queued", "in_progress", "failure"], "{scope}");
            let stopped = deployer.deployment(id).await;
            assert_eq!(stopped.violations.len(), 1, "{:?}", stopped.violations);
            let violation = &stopped.violations[0];
            assert_eq!(violation.rule, "locks");
            assert!(violation.message.contains("the database moves"), "{violation}");
            assert!(violation.help.as_ref().unwrap().contains("`bart unlock ID"), "{violation:?}");
            let away = format!("/locks/{}/remove", lock["id"].as_str().unwrap());
            let gone = done(deployer, &away, json!({"reason": "it has moved"})).await;
            assert_eq!(gone["scope"], *scope);
            let again = refused(deployer, &away, json!({"reason": "x"}), 409).await;
            assert!(again.contains("took lock") && again.contains("it has moved"), "{again}");
        }
        let others = [
            json!({"target": TARGET, "app": "devx/api"}),
            json!({"owner": "others@example.com"}),
            json!({"target": "dev"}),
        ];
        for scope in &others {
            done(deployer, "/locks", json!({"scope": scope, "reason": "x"})).await;
        }
        let id = shop.deploys(TARGET, "v8").await;
        deployer.settle().await;
        assert_eq!(deployer.github.told(id), WELL, "others' locks stop nobody else");
        let here = done(
            deployer,
            &format!("/locks?target={TARGET}&app=devx/shop&owner=squad@example.com"),
            Json::Null,
        )
        .await;
        assert_eq!(here, json!({"locks": []}));
        let all = done(deployer, "/locks", Json::Null).await;
        assert_eq!(all["locks"].as_array().unwrap().len(), others.len());
    })
    .await;
}

#[tokio::test]
async fn a_lock_runs_out_by_itself() {
    on_both(async |deployer| {
        let shop = app(deployer, "shop");
        let everything = json!({"everything": true});
        let lock = json!({"scope": everything, "reason": "lunch", "for": "1h"});
        let lock = done(deployer, "/locks", lock).await;
        let until = lock["until"].as_str().unwrap();
        let stopped = shop.deploys(TARGET, "v1").await;
        deployer.settle().await;
        assert_eq!(deployer.github.told(stopped).last().unwrap(), "failure");
        deployer.clock.advance(std::time::Duration::from_hours(1));
        assert!(until <= deployer.clock.now().to_string().as_str());
        assert_eq!(done(deployer, "/locks", Json::Null).await, json!({"locks": []}));
        let away = format!("/locks/{}/remove", lock["id"].as_str().unwrap());
        let late = refused(deployer, &away, json!({"reason": "x"}), 409).await;
        assert!(late.contains("has ended by itself"), "{late}");
        let past = json!({"scope": everything, "reason": "x", "until": until});
        let past = refused(deployer, "/locks", past, 422).await;
        assert!(past.contains("would end before it begins"), "{past}");
        let id = shop.deploys(TARGET, "v2").await;
        deployer.settle().await;
        assert_eq!(deployer.github.told(id), WELL);
    })
    .await;
}

#[tokio::test]
async fn a_deployment_that_waits_is_cancelled_and_github_shows_why() {
    on_both(async |deployer| {
        let shop = app(deployer, "shop");
        let id = shop.deploys(TARGET, "v1").await;
        let ours = deployer.deployment(id).await.id;
        let path = format!("/deployments/{ours}/cancel");
        let cancelled = done(deployer, &path, json!({"reason": "the wrong tag"})).await;
        assert_eq!((&cancelled["state"], &cancelled["tag"]), (&json!("cancelled"), &json!("v1")));
        deployer.settle().await;
        let told = deployer.github.statuses(id);
        assert_eq!(deployer.github.told(id), ["queued", "inactive"]);
        assert!(told[1].1.ends_with(": the wrong tag"), "{told:?}");
        let again = refused(deployer, &path, json!({"reason": "x"}), 409).await;
        assert!(again.contains("has cancelled: cancelled by"), "{again}");
        let well = shop.deploys(TARGET, "v2").await;
        deployer.settle().await;
        assert_eq!(deployer.github.told(well), WELL);
        let ours = deployer.deployment(well).await.id;
        let late = format!("/deployments/{ours}/cancel");
        let late = refused(deployer, &late, json!({"reason": "x"}), 409).await;
        assert!(late.contains("has succeeded"), "{late}");
        assert_eq!(deployer.manifests().commits(), 1, "only the second was pushed");
    })
    .await;
}

/// A plan of `example/shop`, with more said.
async fn plan(deployer: &Deployer, more: Json) -> Json {
    let mut body = json!({"repository": "example/shop", "target": TARGET});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    done(deployer, "/plan", body).await
}

#[tokio::test]
async fn a_plan_says_what_a_deployment_would_do_and_does_nothing() {
    on_both(async |deployer| {
        let shop = app(deployer, "shop");
        let first = plan(deployer, json!({"ref": "main", "tag": "v1"})).await;
        assert_eq!((&first["outcome"], &first["app"]), (&json!("changes"), &json!("devx/shop")));
        assert_eq!(first["commit"], shop.tip("main"));
        let changes = first["changes"].as_array().unwrap();
        assert!(changes.iter().all(|change| change["how"] == "added"), "{first}");
        let yet = format!("nothing of devx/shop is deployed to {TARGET} yet");
        assert_eq!(first["notes"], json!([yet]));
        assert!(deployer.deployments().await.is_empty(), "nothing is deployed by that");
        assert_eq!(deployer.manifests().commits(), 0);

        let id = shop.deploys(TARGET, "v1").await;
        deployer.settle().await;
        assert_eq!(deployer.github.told(id), WELL);
        let pushed = deployer.deployment(id).await.pushed.unwrap();
        assert_eq!(first["digest"], pushed.digest.0, "the plan was what came");
        assert_eq!(changes.len(), pushed.files.len());
        let same = plan(deployer, json!({"commit": shop.tip("main"), "tag": "v1"})).await;
        assert_eq!((&same["outcome"], &same["changes"]), (&json!("unchanged"), &json!([])));

        let text = waml("shop").replace("minReplicas: 3", "minReplicas: 4");
        let other = plan(deployer, json!({"waml": text})).await;
        assert_eq!((&other["tag"], &other["commit"]), (&json!("v1"), &Json::Null));
        let [change] = &other["changes"].as_array().unwrap()[..] else { panic!("{other}") };
        assert_eq!(change["kind"], "HorizontalPodAutoscaler");
        let field = json!({"path": "spec.minReplicas", "before": 3, "after": 4});
        assert_eq!((&change["how"], &change["fields"]), (&json!("changed"), &json!([field])));
        assert!(change["diff"].as_str().unwrap().contains("+  minReplicas: 4\n"), "{change}");
        let tag = plan(deployer, json!({"ref": "main", "tag": "v2"})).await;
        let restarts = tag["notes"].as_array().unwrap().last().unwrap().as_str().unwrap();
        assert_eq!(restarts, "pods would be replaced: Deployment shop");
        assert_eq!((deployer.deployments().await.len(), deployer.manifests().commits()), (1, 1));
    })
    .await;
}

#[tokio::test]
async fn a_plan_meets_what_a_deployment_would_meet() {
    on_both(async |deployer| {
        let shop = app(deployer, "shop");
        let lock = json!({"scope": {"target": TARGET}, "reason": "an incident"});
        done(deployer, "/locks", lock).await;
        let text = waml("shop").replace("number: 8000", "number: 80000");
        let broken = plan(deployer, json!({"waml": text, "tag": "v1"})).await;
        assert_eq!((&broken["outcome"], &broken["changes"]), (&json!("refused"), &json!([])));
        assert_eq!(broken["violations"][0]["position"]["file"], ".weave.yaml");
        let locked = plan(deployer, json!({"ref": "main", "tag": "v1"})).await;
        assert_eq!(locked["outcome"], "refused");
        let rules: Vec<_> =
            locked["violations"].as_array().unwrap().iter().map(|v| &v["rule"]).collect();
        assert_eq!(rules, ["locks"]);
        let torn = plan(deployer, json!({"waml": "a: [", "tag": "v1"})).await;
        assert_eq!((&torn["outcome"], &torn["app"]), (&json!("refused"), &Json::Null));

        let body = |more: Json| {
            let mut body = json!({"repository": "example/shop", "target": TARGET, "tag": "v1"});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            body
        };
        let none = refused(deployer, "/plan", body(json!({"ref": "no-such"})), 404).await;
        assert!(none.contains("has no branch, tag or commit \"no-such\""), "{none}");
        let gone = body(json!({"commit": "1".repeat(40)}));
        refused(deployer, "/plan", gone, 404).await;
        let live = json!({"repository": "example/shop", "target": TARGET, "ref": "main"});
        let live = refused(deployer, "/plan", live, 422).await;
        assert!(live.contains("nothing of devx/shop is live"), "{live}");
        assert!(deployer.deployments().await.is_empty());
        assert_eq!(shop.commit_statuses(&shop.tip("main")), []);
    })
    .await;
}

#[tokio::test]
async fn nobody_looks_into_another_repositorys_app_by_a_plan() {
    on_both(async |deployer| {
        let shop = app(deployer, "shop");
        shop.deploys(TARGET, "v1").await;
        deployer.settle().await;
        deployer.github.repository("others/spy").commit(&waml("shop"));
        for (more, tag) in
            [(json!({"ref": "main"}), None), (json!({"waml": waml("shop")}), Some("v9"))]
        {
            let mut body = json!({"repository": "others/spy", "target": TARGET, "tag": tag});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let (status, said) = ask(deployer, "/plan", &body).await;
            assert!(!said.to_string().contains("Deployment"), "{said}");
            if tag.is_none() {
                assert_eq!(status, 422, "not even the tag: {said}");
                continue;
            }
            assert_eq!((status, &said["outcome"]), (200, &json!("refused")), "{said}");
            assert_eq!(said["violations"][0]["rule"], "owner");
            assert_eq!(
                (&said["changes"], &said["notes"][0]),
                (&json!([]), &json!("no commit was named, so its branch was not checked"))
            );
        }
    })
    .await;
}
