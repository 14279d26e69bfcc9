//! The GitHub of the tests behaves as GitHub does: asked without our client.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value as Json, json};
use the_deployer::support::clock::Clock;

use crate::harness::github::{Fault, Webhooks, World};
use crate::harness::process::client;
use crate::harness::requests::at;

/// Somebody with a token.
struct CommitAuthor<'w> {
    world: &'w World,
    token: String,
    client: reqwest::Client,
}

impl<'w> CommitAuthor<'w> {
    fn new(world: &'w World, token: &str) -> Self {
        Self { world, token: token.to_owned(), client: client() }
    }

    async fn ask(&self, method: Method, path: &str, body: Json) -> (u16, Json) {
        let url = format!("{}{path}", self.world.api_url());
        let mut request = self.client.request(method, url).header("User-Agent", "a-test");
        if !self.token.is_empty() {
            request = request.bearer_auth(&self.token);
        }
        let answer = request.json(&body).send().await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap_or(Json::Null))
    }

    async fn get(&self, path: &str) -> (u16, Json) {
        self.ask(Method::GET, path, Json::Null).await
    }

    async fn post(&self, path: &str, body: Json) -> (u16, Json) {
        self.ask(Method::POST, path, body).await
    }
}

/// The App's signature, good for ten minutes from then.
fn signed(world: &World, clock: &Clock, ahead: i64) -> String {
    let now = clock.now().as_second();
    let app = world.app();
    let claims = json!({"iat": now - 60, "exp": now - 60 + ahead, "iss": app.id.to_string()});
    let key = jsonwebtoken::EncodingKey::from_rsa_pem(app.key.as_bytes()).unwrap();
    let head = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::RS256);
    jsonwebtoken::encode(&head, &claims, &key).unwrap()
}

#[tokio::test]
async fn statuses_are_taken_refused_and_listed_as_at_github() {
    let clock = Clock::manual(at(0));
    let world = World::start(&clock).await;
    let web = world.repository("acme/web");
    web.commit("slug: web\n");
    let id = web.deploys("prod", "v1").await;
    let asker = CommitAuthor::new(&world, world.token());
    let path = format!("/repos/acme/web/deployments/{id}/statuses");
    let long = "é".repeat(141);
    let (status, refusal) =
        asker.post(&path, json!({"state": "queued", "description": long})).await;
    assert_eq!(status, 422);
    let says = "description is too long (maximum is 140 characters)";
    assert_eq!(refusal["errors"][0]["message"], says);
    assert_eq!(asker.post(&path, json!({"state": "done"})).await.0, 422);
    let good = json!({"state": "success", "description": &long[2..]});
    assert_eq!(asker.post(&path, good).await.0, 201);
    let newer = web.deploys("prod", "v2").await;
    let path = format!("/repos/acme/web/deployments/{newer}/statuses");
    asker.post(&path, json!({"state": "success", "auto_inactive": false})).await;
    assert_eq!(world.told(id), ["success"]);
    asker.post(&path, json!({"state": "success"})).await;
    assert_eq!(world.told(id), ["success", "inactive"], "by GitHub itself");
    let (_, listed) = asker.get("/repos/acme/web/deployments?per_page=1").await;
    assert_eq!(listed[0]["id"], newer, "newest first");
    world.settled();
}

#[tokio::test]
async fn tokens_are_narrow_and_end() {
    let clock = Clock::manual(at(0));
    let world = World::start(&clock).await;
    world.repository("acme/web").commit("slug: web\n");
    world.repository("acme/shop");
    let app = CommitAuthor::new(&world, &signed(&world, &clock, 600));
    let (_, installation) = app.get("/repos/acme/web/installation").await;
    let path = format!("/app/installations/{}/access_tokens", installation["id"]);
    let narrow = json!({"repositories": ["web"], "permissions": {"contents": "read"}});
    let (status, minted) = app.post(&path, narrow).await;
    assert_eq!(status, 201);
    let token = minted["token"].as_str().unwrap();
    assert_eq!(token.matches('.').count(), 2);
    assert!((500..560).contains(&token.len()), "{}", token.len());
    let asker = CommitAuthor::new(&world, token);
    assert_eq!(asker.get("/repos/acme/web/contents/.weave.yaml?ref=main").await.0, 200);
    assert_eq!(asker.get("/repos/acme/shop").await.0, 404, "it was not asked for");
    let (status, refusal) = asker.get("/repos/acme/web/deployments").await;
    assert_eq!(
        (status, &refusal["message"]),
        (403, &json!("Resource not accessible by integration"))
    );
    let too_much = json!({"permissions": {"administration": "write"}});
    assert_eq!(app.post(&path, too_much).await.0, 422);
    clock.advance(Duration::from_hours(1));
    let (status, refusal) = asker.get("/repos/acme/web").await;
    assert_eq!((status, &refusal["message"]), (401, &json!("Bad credentials")));
    assert_eq!(app.get("/app").await.0, 401, "the signature has ended too");
    let too_far = CommitAuthor::new(&world, &signed(&world, &clock, 1_200));
    assert_eq!(too_far.get("/app").await.0, 401);
    world.settled();
}

#[tokio::test]
async fn trouble_comes_as_ordered() {
    let clock = Clock::manual(at(0));
    let world = World::start(&clock).await;
    let web = world.repository("acme/web");
    let id = web.deploys("prod", "v1").await;
    let asker = CommitAuthor::new(&world, world.token());
    let path = format!("/repos/acme/web/deployments/{id}/statuses");
    world.fails(1, "GET repos/acme/web", Fault::BadGateway);
    assert_eq!(asker.get("/repos/acme/web").await.0, 502);
    assert_eq!(asker.get("/repos/acme/web").await.0, 200);
    world.fails(1, "POST statuses", Fault::CutAfter);
    let url = format!("{}{path}", world.api_url());
    let request = client().post(url).bearer_auth(world.token()).header("User-Agent", "a-test");
    request.json(&json!({"state": "queued"})).send().await.expect_err("it is cut");
    assert_eq!(world.told(id), ["queued"], "and nevertheless done");
    world.down_for(Duration::from_mins(10));
    assert_eq!(asker.get("/repos/acme/web").await.0, 502);
    clock.advance(Duration::from_mins(10));
    assert_eq!(asker.get("/repos/acme/web").await.0, 200);
    world.settled();
}

#[tokio::test]
#[should_panic(expected = "goes on 30 s before it may")]
async fn who_does_not_wait_is_found_out() {
    let clock = Clock::manual(at(0));
    let world = World::start(&clock).await;
    world.repository("acme/web");
    world.fails(1, "GET", Fault::Wait(403, 60));
    let asker = CommitAuthor::new(&world, world.token());
    assert_eq!(asker.get("/repos/acme/web").await.0, 403);
    clock.advance(Duration::from_secs(30));
    assert_eq!(asker.get("/repos/acme/web").await.0, 403);
    world.settled();
}

#[tokio::test]
async fn renamed_repositories_lead_on_and_what_is_known_costs_nothing() {
    let clock = Clock::manual(at(0));
    let world = World::start(&clock).await;
    let web = world.repository("acme/web");
    web.commit("slug: web\n");
    web.renamed_to("acme/site");
    let asker = CommitAuthor::new(&world, world.token());
    let (_, found) = asker.get("/repos/acme/web").await;
    assert_eq!(found["full_name"], "acme/site");
    let url = format!("{}/repos/acme/site/contents/.weave.yaml", world.api_url());
    let get = || client().get(&url).bearer_auth(world.token()).header("User-Agent", "a-test");
    let first = get().send().await.unwrap();
    let again = get().header("If-None-Match", &first.headers()["etag"]).send().await.unwrap();
    assert_eq!(again.status(), 304);
    assert_eq!(first.headers()["x-ratelimit-remaining"], again.headers()["x-ratelimit-remaining"]);
    assert_eq!(first.headers()["date"], "Sat, 21 Nov 2026 05:46:40 GMT");
    world.settled();
}

#[tokio::test]
async fn a_lost_delivery_stands_in_the_list_and_goes_out_again() {
    let clock = Clock::manual(at(0));
    let world = World::start(&clock).await;
    let web = world.repository("acme/web");
    world.hooks_to("http://127.0.0.1:1/webhooks/github", "secret");
    world.webhooks(Webhooks::Lost);
    let id = web.deploys("prod", "v1").await;
    let app = CommitAuthor::new(&world, &signed(&world, &clock, 600));
    let (_, listed) = app.get("/app/hook/deliveries").await;
    assert_eq!(
        (&listed[0]["event"], &listed[0]["status_code"]),
        (&json!("deployment"), &json!(502))
    );
    let path = format!("/app/hook/deliveries/{}", listed[0]["id"]);
    let (_, one) = app.get(&path).await;
    assert_eq!(one["request"]["payload"]["deployment"]["id"], id);
    assert_eq!(app.post(&format!("{path}/attempts"), Json::Null).await.0, 202);
    world.delivered().await;
    let (_, listed) = app.get("/app/hook/deliveries").await;
    assert_eq!(listed[0]["redelivery"], true);
    assert_eq!(listed[0]["guid"], listed[1]["guid"]);
    world.left_open(id);
    world.settled();
}

#[tokio::test]
async fn check_runs_are_for_apps_and_have_limits() {
    let clock = Clock::manual(at(0));
    let world = World::start(&clock).await;
    let sha = world.repository("acme/web").commit("slug: web\n");
    let run = json!({"name": "deploy", "head_sha": sha});
    let path = "/repos/acme/web/check-runs";
    let person = CommitAuthor::new(&world, world.token());
    assert_eq!(person.post(path, run.clone()).await.0, 403);
    let app = CommitAuthor::new(&world, &signed(&world, &clock, 600));
    let (_, installation) = app.get("/repos/acme/web/installation").await;
    let tokens = format!("/app/installations/{}/access_tokens", installation["id"]);
    let (_, minted) = app.post(&tokens, json!({})).await;
    let asker = CommitAuthor::new(&world, minted["token"].as_str().unwrap());
    let (status, made) = asker.post(path, run).await;
    assert_eq!(status, 201);
    let note = json!({"path": ".weave.yaml", "start_line": 1, "end_line": 1,
        "annotation_level": "failure", "message": "no"});
    let output = |notes: usize| {
        json!({"output": {"title": "t", "summary": "s",
        "annotations": vec![note.clone(); notes]}})
    };
    let one = format!("{path}/{}", made["id"]);
    assert_eq!(asker.ask(Method::PATCH, &one, output(51)).await.0, 422);
    assert_eq!(asker.ask(Method::PATCH, &one, output(50)).await.0, 200);
    let (_, run) = asker.ask(Method::PATCH, &one, output(2)).await;
    assert_eq!(run["output"]["annotations_count"], 52, "they are added");
    world.settled();
}
