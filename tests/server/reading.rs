//! Probes, the API's lists, and routes that there are not.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tracing::Level;

use super::shop::{TARGET, ask_as, recovers};
use super::world::{Answer, deliver, get, request, send};
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::log::CapturedLog;

const LIST: &str = "/api/v1/deployments";

/// Three deployments of `example/shop` that wait, the second to another target; their ids, newest first.
pub(super) async fn with_three(deployer: &Deployer) -> Vec<String> {
    let shop = deployer.github.repository("example/shop");
    shop.commit(&waml("shop").replace("deploy:\n", "deploy:\n  dev: {}\n"));
    for (tag, target) in [("v1", TARGET), ("v2", "dev"), ("v3", TARGET)] {
        // Ids of one moment are in no order.
        deployer.clock.advance(Duration::from_secs(1));
        shop.deploys(target, tag).await;
    }
    let ids = deployer.deployments().await.into_iter().map(|one| one.id.to_string());
    ids.rev().collect()
}

/// The ids of a list, in its order.
fn ids(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let list = answer.json()["deployments"].as_array().unwrap().clone();
    list.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

/// The service with one token, which may do everything, and pages for those who have it, or `open`.
pub(super) async fn asking_for(token: &str, pages: &str) -> Deployer {
    let mut deployer = Deployer::prepared().await;
    deployer.variable("API_TOKEN", token);
    let auth =
        format!("auth: {{pages: {pages}, tokens: [{{name: developers, env: API_TOKEN}}]}}\n");
    deployer.configure(|config| format!("{config}{auth}"));
    deployer.starts().await;
    deployer
}

#[tokio::test]
async fn it_is_ready_when_every_check_is_and_says_what_it_waits_for() {
    let deployer = Deployer::start().await;
    let ready = get(&deployer, "/readyz").await;
    assert_eq!(ready.status, 200, "{ready:?}");
    let check = |name: &str, waiting_for: Value| json!({"name": name, "ready": waiting_for.is_null(), "waiting_for": waiting_for});
    let mut all = [
        check("database", Value::Null),
        check("disk", Value::Null),
        check("manifest repository manifests", Value::Null),
        check("templates", Value::Null),
    ];
    all[3]["note"] = json!("built in");
    assert_eq!(ready.json(), json!({"ready": true, "checks": all}));

    let away = deployer.manifests().0.with_extension("away");
    std::fs::rename(&deployer.manifests().0, &away).unwrap();
    deployer.clock.advance(Duration::from_secs(6));
    let waiting = get(&deployer, "/readyz").await;
    assert_eq!(waiting.status, 503);
    let said = waiting.json()["checks"][2]["waiting_for"].clone();
    let words = said.as_str().unwrap_or_default();
    assert!(words.starts_with("there is no manifest repository at "), "{words}");
    assert!(words.contains("Put it back from a backup"), "{words}");
    all[2] = check("manifest repository manifests", said);
    assert_eq!(waiting.json(), json!({"ready": false, "checks": all}));
    std::fs::rename(&away, &deployer.manifests().0).unwrap();
    deployer.clock.advance(Duration::from_secs(6));
    assert_eq!(get(&deployer, "/readyz").await.status, 200);

    let metrics = get(&deployer, "/metrics").await;
    assert!(metrics.headers["content-type"].to_str().unwrap().contains("openmetrics-text"));
    assert!(metrics.text.ends_with("# EOF\n"));

    // It is alive, whatever is behind it: a restart mends none of that.
    deployer.stepped().store().close().await;
    deployer.clock.advance(Duration::from_secs(6));
    let waiting = get(&deployer, "/readyz").await;
    assert_eq!(
        (waiting.status.as_u16(), &waiting.json()["checks"][0]["ready"]),
        (503, &json!(false))
    );
    assert_eq!(get(&deployer, "/healthz").await.status, 200);
    recovers(deployer).await;
}

#[tokio::test]
async fn deployments_are_listed_newest_first_filtered_and_in_pages() {
    let deployer = Deployer::start().await;
    let made = with_three(&deployer).await;
    let all = ids(&get(&deployer, LIST).await);
    assert_eq!(all, made);
    let query = format!("{LIST}?target={TARGET}&repository=example%2Fshop");
    assert_eq!(ids(&get(&deployer, &query).await), [all[0].clone(), all[2].clone()]);
    assert_eq!(ids(&get(&deployer, &format!("{LIST}?state=failed")).await).len(), 0);
    let page = get(&deployer, &format!("{LIST}?limit=2")).await;
    assert_eq!((ids(&page), page.json()["next"].as_str()), (all[..2].to_vec(), Some(&*all[1])));
    let rest = get(&deployer, &format!("{LIST}?limit=2&cursor={}", all[1])).await;
    assert_eq!((ids(&rest), &rest.json()["next"]), (vec![all[2].clone()], &json!(null)));

    let one = get(&deployer, &format!("{LIST}/{}", all[0])).await.json();
    assert_eq!(one["id"], all[0].as_str());
    assert_eq!(one["state"], "queued");
    assert_eq!(one["repository"], "example/shop");
    assert_eq!(one["statuses"][0]["state"], "queued");
    assert_eq!((&one["violations"], &one["stages"]), (&json!([]), &json!([])));
    assert_eq!(one["changes"], json!(null), "nothing was pushed");
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn what_there_is_not_and_what_is_wrong_are_problems() {
    let deployer = Deployer::start().await;
    let none = "/api/v1/deployments/20261121-054812123-3f9a2c";
    get(&deployer, none).await.problem(404, "not-found");
    for wrong in ["/..%2Fx", "/%ff", "?limit=0", "?tagret=x"] {
        get(&deployer, &format!("{LIST}{wrong}")).await.problem(400, "bad-request");
    }
    for path in ["/nothing", "/api/v1/nothing", "/api/v2", "/webhooks/gitlab"] {
        get(&deployer, path).await.problem(404, "not-found");
    }
    get(&deployer, "/webhooks/github").await.problem(405, "method-not-allowed");
    let post = request(&deployer, Method::POST, "/api/v1/apps");
    send(post).await.problem(405, "method-not-allowed");
    deployer.stepped().store().close().await;
    get(&deployer, LIST).await.problem(503, "unavailable");
    get(&deployer, none).await.problem(503, "unavailable");
    recovers(deployer).await;
}

#[tokio::test]
async fn every_answer_has_a_request_id_and_a_callers_own_is_not_taken() {
    let deployer = Deployer::start().await;
    let mine = request(&deployer, Method::GET, "/nothing").header("x-request-id", "mine");
    let id = |answer: &Answer| answer.headers["x-request-id"].to_str().unwrap().to_owned();
    let (first, second) = (id(&send(mine).await), id(&get(&deployer, "/healthz").await));
    let (process, number) = first.rsplit_once('-').unwrap();
    assert_eq!((number, second), ("0", format!("{process}-1")));
    assert!(process.starts_with("20261121-"), "another one for each start: {process}");
    deployer.settled().await;
}

#[tokio::test]
async fn with_a_token_configured_the_api_asks_for_it_and_the_probes_do_not() {
    let log = CapturedLog::of("", Level::TRACE);
    let deployer = asking_for("t0ken-text", "token").await;
    let call = async |authorization: &str| {
        let request = request(&deployer, Method::GET, LIST);
        send(request.header("authorization", authorization)).await
    };
    assert_eq!(call("Bearer t0ken-text").await.status, 200);
    assert_eq!(call("bearer t0ken-text").await.status, 200);
    for wrong in ["Bearer t0ken-tex", "Bearer ", "Basic t0ken-text", "t0ken-text", ""] {
        let answer = call(wrong).await;
        answer.problem(401, "unauthorized");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
    }
    for path in ["/api/v1/deployments/x", "/api/v1/apps", "/api/v1/builds?app=a/b"] {
        get(&deployer, path).await.problem(401, "unauthorized");
    }
    assert_eq!(ask_as(&deployer, "t0ken-text", "/api/v1/apps", &Value::Null).await.status, 200);
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(get(&deployer, path).await.status, 200);
    }
    assert_eq!(deliver(&deployer, "d-1", "prod").await.status, 202, "webhooks have a signature");
    assert!(!log.text().contains("t0ken-tex"), "{}", log.text());
    deployer.github.settled();
}
