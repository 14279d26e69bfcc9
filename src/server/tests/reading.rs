//! Probes, the API, and routes that there are not.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;
use tracing::Level;

use super::world::{World, hasty_world, world, world_with};
use crate::server::Limits;
use crate::server::auth::{Token, Tokens};
use crate::support::log::Log;

async fn with_three() -> World {
    let world = world();
    for (delivery, target) in [("d-1", "prod"), ("d-2", "dev"), ("d-3", "prod")] {
        assert_eq!(world.deliver(delivery, target).await.status, 202);
    }
    world
}

fn ids(answer: &super::world::Answer) -> Vec<String> {
    let list = answer.json()["deployments"].as_array().unwrap().clone();
    list.iter().map(|d| d["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn it_is_alive_whatever_is_behind_it() {
    let world = world();
    world.fake.inner.lock().unwrap().broken = true;
    assert_eq!(world.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn it_is_ready_when_every_check_is_and_says_what_it_waits_for() {
    let world = world();
    let ready = world.get("/readyz").await;
    assert_eq!((ready.status.as_u16(), &ready.json()["ready"]), (200, &json!(true)));
    world.fake.inner.lock().unwrap().waiting_for = Some("git.example.com".to_owned());
    let waiting = world.get("/readyz").await;
    assert_eq!(waiting.status, 503);
    assert_eq!(
        waiting.json(),
        json!({"ready": false, "checks": [
            {"name": "database", "ready": true, "waiting_for": null},
            {"name": "manifests", "ready": false, "waiting_for": "git.example.com"},
        ]})
    );
}

#[tokio::test]
async fn checks_that_hang_are_not_ready() {
    let world = hasty_world();
    world.fake.inner.lock().unwrap().silent = true;
    assert_eq!(world.get("/readyz").await.status, 503);
}

#[tokio::test]
async fn metrics_are_in_the_format_they_say() {
    let answer = world().get("/metrics").await;
    assert!(answer.headers["content-type"].to_str().unwrap().contains("openmetrics-text"));
    assert!(answer.text.ends_with("# EOF\n"));
}

#[tokio::test]
async fn deployments_are_listed_newest_first_filtered_and_in_pages() {
    let world = with_three().await;
    let all = ids(&world.get("/api/v1/deployments").await);
    assert_eq!(all.len(), 3);
    assert!(all[0] > all[1] && all[1] > all[2]);
    let prod = world.get("/api/v1/deployments?target=prod&repository=acme%2Fshop").await;
    assert_eq!(ids(&prod), [all[0].clone(), all[2].clone()]);
    assert_eq!(ids(&world.get("/api/v1/deployments?state=failed").await).len(), 0);
    let page = world.get("/api/v1/deployments?limit=2").await;
    assert_eq!(page.json()["next"], all[1].as_str());
    let rest = world.get(&format!("/api/v1/deployments?limit=2&cursor={}", all[1])).await;
    assert_eq!((ids(&rest), &rest.json()["next"]), (vec![all[2].clone()], &json!(null)));
}

#[tokio::test]
async fn one_deployment_is_shown_whole() {
    let world = with_three().await;
    let id = ids(&world.get("/api/v1/deployments").await)[0].clone();
    let one = world.get(&format!("/api/v1/deployments/{id}")).await.json();
    assert_eq!(one["id"], id.as_str());
    assert_eq!(one["state"], "queued");
    assert_eq!(one["repository"], "acme/shop");
    assert_eq!(one["statuses"][0]["state"], "queued");
    assert_eq!(one["violations"], json!([]));
    assert_eq!(one["stages"], json!([]));
}

#[tokio::test]
async fn what_there_is_not_and_what_is_wrong_are_problems() {
    let world = world();
    let none = "/api/v1/deployments/20261121-054812123-3f9a2c";
    world.get(none).await.problem(404, "not-found");
    world.get("/api/v1/deployments/..%2Fx").await.problem(400, "bad-request");
    world.get("/api/v1/deployments/%ff").await.problem(400, "bad-request");
    world.get("/api/v1/deployments?limit=0").await.problem(400, "bad-request");
    world.get("/api/v1/deployments?tagret=x").await.problem(400, "bad-request");
    for path in ["/nothing", "/api/v1/nothing", "/api/v2", "/webhooks/gitlab"] {
        world.get(path).await.problem(404, "not-found");
    }
    world.get("/webhooks/github").await.problem(405, "method-not-allowed");
    let post = Request::post("/api/v1/apps").body(Body::empty()).unwrap();
    world.send(post).await.problem(405, "method-not-allowed");
    world.fake.inner.lock().unwrap().broken = true;
    world.get("/api/v1/deployments").await.problem(503, "unavailable");
    world.get(none).await.problem(503, "unavailable");
}

#[tokio::test]
async fn every_answer_has_a_request_id_and_a_callers_own_is_not_taken() {
    let world = world();
    let request = Request::get("/nothing").header("x-request-id", "mine").body(Body::empty());
    assert_eq!(world.send(request.unwrap()).await.headers["x-request-id"], "test-0");
    assert_eq!(world.get("/healthz").await.headers["x-request-id"], "test-1");
}

#[tokio::test]
async fn with_a_token_configured_the_api_asks_for_it_and_the_probes_do_not() {
    let log = Log::of("", Level::TRACE);
    let tokens = Tokens(vec![Token::of_text("ci", "t0ken-text")]);
    let world = world_with(Limits::default(), tokens);
    let call = async |authorization: &str| {
        let request = Request::get("/api/v1/deployments").header("authorization", authorization);
        world.send(request.body(Body::empty()).unwrap()).await
    };
    assert_eq!(call("Bearer t0ken-text").await.status, 200);
    assert_eq!(call("bearer t0ken-text").await.status, 200);
    for wrong in ["Bearer t0ken-tex", "Bearer ", "Basic t0ken-text", "t0ken-text", ""] {
        let answer = call(wrong).await;
        answer.problem(401, "unauthorized");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
    }
    world.get("/api/v1/deployments/x").await.problem(401, "unauthorized");
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(world.get(path).await.status, 200);
    }
    assert_eq!(world.deliver("d-1", "prod").await.status, 202, "webhooks have a signature");
    assert!(!log.text().contains("t0ken-tex"), "{}", log.text());
}
