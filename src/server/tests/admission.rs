//! Who may come, and what they may: tokens with limits, people of GitHub, and how often.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Method, Request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tracing::Level;

use super::world::{Answer, World, now, world, world_with_admission};
use crate::model::audit::{By, Via, Written};
use crate::model::id::{DeployId, TargetName, TeamName};
use crate::model::person::{NotKnown, OnRepository};
use crate::server::Limits;
use crate::server::auth::{
    Admission, GitHubCallers, Pages, PrintKey, Proxies, Rights, Scope, Token, Tokens,
};
use crate::support::globs::Globs;
use crate::support::log::Log;

pub(super) const ALICE: &str = "ghp_alice";
const REMOVE: &str = "/api/v1/apps/prod/devx/shop/remove";
pub(super) const LIST: &str = "/api/v1/deployments";

pub(super) fn limited(name: &str, scope: Scope, targets: &[&str], apps: &[&str]) -> Token {
    let globs = |texts: &[&str]| {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        Globs::parse(&texts).unwrap()
    };
    let rights = Rights { scope, targets: globs(targets), apps: globs(apps) };
    Token { rights: Arc::new(rights), ..Token::of_text(name, name) }
}

pub(super) fn admission() -> Admission {
    Admission::new(PrintKey::new([7; 32]))
}

fn teams(names: &[&str]) -> Vec<TeamName> {
    names.iter().map(|name| TeamName::parse(*name).unwrap()).collect()
}

/// Where people come by GitHub; `acme/shop` has `devx/shop` on prod, and one token is ours.
pub(super) fn at_github(admission: Admission) -> World {
    at_github_with(Limits::default(), admission)
}

pub(super) fn at_github_within(limits: Limits) -> World {
    at_github_with(limits, admission())
}

fn at_github_with(limits: Limits, admission: Admission) -> World {
    let github = Some(GitHubCallers {
        admins: teams(&["acme/platform"]),
        readers: teams(&["acme/developers"]),
    });
    let admission = Admission { github, ..admission };
    let tokens = Tokens(vec![Token::of_text("ci", "our-token")]);
    let world = world_with_admission(limits, tokens, Pages::Token, admission);
    world.fake.person(ALICE, "alice");
    world.fake.owns("acme/shop", "prod", "devx/shop");
    world
}

pub(super) fn request(method: Method, path: &str, token: &str) -> http::request::Builder {
    let request = Request::builder().method(method).uri(path);
    request
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
}

impl World {
    pub(super) async fn get_as(&self, token: &str, path: &str) -> Answer {
        self.send(request(Method::GET, path, token).body(Body::empty()).unwrap()).await
    }

    async fn remove_as(&self, token: &str, path: &str) -> Answer {
        let body = Body::from(r#"{"reason": "moved"}"#);
        self.send(request(Method::POST, path, token).body(body).unwrap()).await
    }

    pub(super) async fn from(&self, address: &str, token: &str) -> Answer {
        let peer: SocketAddr = format!("{address}:4711").parse().unwrap();
        let request = request(Method::GET, LIST, token).extension(ConnectInfo(peer));
        self.send(request.body(Body::empty()).unwrap()).await
    }

    pub(super) fn in_trouble(&self, trouble: NotKnown) {
        self.fake.callers(|callers| callers.trouble = Some(trouble));
    }
}

fn count(answer: &Answer) -> usize {
    answer.json()["deployments"].as_array().unwrap_or_else(|| panic!("{answer:?}")).len()
}

#[tokio::test]
async fn a_token_does_what_it_is_for_and_is_told_what_that_is() {
    let tokens = Tokens(vec![
        limited("reader", Scope::Read, &["*"], &["*"]),
        limited("dev", Scope::Deploy, &["dev-*"], &["*"]),
        limited("team", Scope::Deploy, &["*"], &["devx/*"]),
    ]);
    let world = world_with_admission(Limits::default(), tokens, Pages::Token, admission());
    let said = world.remove_as("reader", REMOVE).await.problem(403, "forbidden");
    assert!(said.contains("may not act on devx/shop on prod") && said.contains("`read`"), "{said}");
    let said = world.remove_as("dev", REMOVE).await.problem(403, "forbidden");
    assert!(said.contains("dev-*"), "{said}");
    assert_eq!(world.remove_as("team", REMOVE).await.status, 200);
    let other = "/api/v1/apps/prod/pay/shop/remove";
    world.remove_as("team", other).await.problem(403, "forbidden");
    for token in ["reader", "dev", "team"] {
        world.get_as(token, "/api/v1/audit").await.problem(403, "forbidden");
    }
    let me = world.get_as("dev", "/api/v1/whoami").await.json();
    let rights = json!([{"scope": "deploy", "targets": ["dev-*"], "apps": ["*"]}]);
    assert_eq!(me, json!({"name": "dev", "via": "token", "rights": rights}));
}

#[tokio::test]
async fn lists_and_pages_have_what_a_token_may_read() {
    let tokens = Tokens(vec![
        limited("prod", Scope::Read, &["prod"], &["*"]),
        limited("none", Scope::Admin, &["other"], &["*"]),
        Token::of_text("all", "all"),
    ]);
    let world = world_with_admission(Limits::default(), tokens, Pages::Token, admission());
    for (delivery, target) in [("d-1", "prod"), ("d-2", "dev"), ("d-3", "prod")] {
        assert_eq!(world.deliver(delivery, target).await.status, 202);
    }
    for (token, seen) in [("prod", 2), ("none", 0), ("all", 3)] {
        assert_eq!(count(&world.get_as(token, LIST).await), seen, "{token}");
        let login = STANDARD.encode(format!("x:{token}"));
        let page = Request::get("/").header("authorization", format!("Basic {login}"));
        let page = world.send(page.body(Body::empty()).unwrap()).await;
        assert_eq!(page.text.matches("href=\"/deployments/").count(), seen, "{}", page.text);
    }
    let all = world.get_as("all", LIST).await.json();
    let dev = all["deployments"][1]["id"].as_str().unwrap().to_owned();
    world.get_as("prod", &format!("{LIST}/{dev}")).await.problem(403, "forbidden");
    assert_eq!(world.get_as("all", &format!("{LIST}/{dev}")).await.status, 200);
    let page = world.get_as("prod", &format!("/deployments/{dev}")).await;
    page.problem(403, "forbidden");
    assert!(!page.headers.contains_key("www-authenticate"), "a browser is not asked again");
}

#[tokio::test]
async fn a_person_may_here_what_github_lets_them_there() {
    let world = at_github(admission());
    world.deliver("d-1", "prod").await;
    let unseen = world.remove_as(ALICE, REMOVE).await.problem(403, "forbidden");
    assert!(!unseen.contains("acme/shop"), "who may not see it learns no name: {unseen}");
    assert_eq!(count(&world.get_as(ALICE, LIST).await), 0);
    world.fake.lets(ALICE, "acme/shop", OnRepository::Read);
    world.fake.wait(Duration::from_secs(11));
    assert_eq!(count(&world.get_as(ALICE, LIST).await), 1);
    let said = world.remove_as(ALICE, REMOVE).await.problem(403, "forbidden");
    assert!(said.contains("push permission on acme/shop"), "{said}");
    world.fake.lets(ALICE, "acme/shop", OnRepository::Push);
    world.fake.wait(Duration::from_secs(61));
    let done = world.remove_as(ALICE, REMOVE).await;
    assert_eq!((done.status.as_u16(), &done.json()["actor"]), (200, &json!("alice")));
    let nobodys = "/api/v1/apps/prod/devx/other/remove";
    world.remove_as(ALICE, nobodys).await.problem(403, "forbidden");
    let me = world.get_as(ALICE, "/api/v1/whoami").await.json();
    assert_eq!(me, json!({"name": "alice", "via": "github", "rights": null}));
}

#[tokio::test]
async fn teams_may_everything_or_read_everything() {
    let world = at_github(admission());
    world.deliver("d-1", "prod").await;
    world.fake.member("alice", "acme/developers");
    assert_eq!(count(&world.get_as(ALICE, LIST).await), 1);
    world.remove_as(ALICE, REMOVE).await.problem(403, "forbidden");
    let said = world.get_as(ALICE, "/api/v1/audit").await.problem(403, "forbidden");
    assert!(said.contains("`auth.github.admins`"), "{said}");
    world.fake.member("alice", "acme/platform");
    world.fake.wait(Duration::from_secs(61));
    assert_eq!(world.get_as(ALICE, "/api/v1/audit").await.status, 200);
    assert_eq!(world.remove_as(ALICE, REMOVE).await.status, 200);
}

#[tokio::test]
async fn a_target_can_ask_for_a_team_beside() {
    let target = TargetName::parse("prod").unwrap();
    let deploy_teams = [(target, teams(&["acme/release"]))].into();
    let world = at_github(Admission { deploy_teams, ..admission() });
    world.fake.lets(ALICE, "acme/shop", OnRepository::Push);
    let said = world.remove_as(ALICE, REMOVE).await.problem(403, "forbidden");
    assert!(said.contains("prod is for members of acme/release"), "{said}");
    world.fake.member("alice", "acme/release");
    world.fake.wait(Duration::from_secs(11));
    assert_eq!(world.remove_as(ALICE, REMOVE).await.status, 200);
    assert_eq!(world.remove_as("our-token", REMOVE).await.status, 200, "as the operator said");
}

#[tokio::test]
async fn github_is_asked_once_a_minute_and_learns_no_token_that_is_not_its_own() {
    let log = Log::of("", Level::TRACE);
    let world = at_github(admission());
    world.fake.lets(ALICE, "acme/shop", OnRepository::Push);
    assert_eq!(world.remove_as(ALICE, REMOVE).await.status, 200);
    assert_eq!(world.fake.asked(), ["who", "acme/platform", "acme/shop"]);
    assert_eq!(world.remove_as(ALICE, REMOVE).await.status, 200);
    assert_eq!(world.fake.asked(), ["acme/platform"; 0]);
    world.fake.wait(Duration::from_secs(11));
    assert_eq!(world.remove_as(ALICE, REMOVE).await.status, 200);
    assert_eq!(world.fake.asked(), ["acme/platform"], "a no is asked again sooner");
    for ours in ["our-toke", "tdp_0123456789", "ghs_a-jobs-token", "ghp_with space", ""] {
        world.get_as(ours, LIST).await.problem(401, "unauthorized");
    }
    assert_eq!(world.fake.asked(), [""; 0]);
    assert!(!log.text().contains("ghp_") && !log.text().contains("our-toke"), "{}", log.text());
}

#[tokio::test]
async fn a_token_that_github_rejects_is_refused_with_what_to_do() {
    let world = at_github(admission());
    let said = world.get_as("ghp_stolen", LIST).await.problem(401, "unauthorized");
    assert!(said.contains("bart login"), "{said}");
    assert_eq!(count(&world.get_as(ALICE, LIST).await), 0);
    // Revoked: within a minute.
    world.fake.callers(|callers| callers.people.clear());
    world.fake.wait(Duration::from_secs(61));
    world.get_as(ALICE, LIST).await.problem(401, "unauthorized");
    let jobs = world.get_as("ghs_a-jobs-token", LIST).await.problem(401, "unauthorized");
    assert!(jobs.contains("no person's"), "{jobs}");
}

#[tokio::test]
async fn while_github_is_down_who_was_known_goes_on_and_our_tokens_work() {
    let world = at_github(admission());
    world.fake.lets(ALICE, "acme/shop", OnRepository::Push);
    assert_eq!(world.remove_as(ALICE, REMOVE).await.status, 200);
    world.in_trouble(NotKnown::Down("no route to host".to_owned()));
    world.fake.wait(Duration::from_mins(2));
    let said = world.get_as("ghp_bob", LIST).await.problem(503, "unavailable");
    assert!(said.contains("no route to host") && said.contains("an API token works"), "{said}");
    assert_eq!(world.remove_as("our-token", REMOVE).await.status, 200);
    // Who is no admin must be asked about, and is not by whom push is known: who is known goes on.
    let answer = world.get_as(ALICE, "/api/v1/whoami").await;
    assert_eq!(answer.json()["name"], "alice");
    assert_eq!(world.remove_as(ALICE, REMOVE).await.status, 200);
    world.fake.wait(Duration::from_mins(15));
    world.get_as(ALICE, "/api/v1/whoami").await.problem(503, "unavailable");
}

#[tokio::test]
async fn who_github_tells_to_wait_waits_and_github_is_left_alone() {
    let world = at_github(admission());
    world.in_trouble(NotKnown::Wait(Duration::from_secs(30)));
    for _ in 0..3 {
        let answer = world.get_as(ALICE, LIST).await;
        answer.problem(503, "unavailable");
        assert_eq!(answer.headers["retry-after"], "30");
    }
    assert_eq!(world.fake.asked(), ["who"]);
    world.fake.callers(|callers| callers.trouble = None);
    world.fake.wait(Duration::from_secs(30));
    assert_eq!(world.get_as(ALICE, LIST).await.status, 200);
}

#[tokio::test]
async fn a_caller_has_so_many_requests_a_minute() {
    let admission = Admission { requests_per_minute: 3, ..admission() };
    let world = at_github(admission);
    for _ in 0..3 {
        assert_eq!(world.get_as("our-token", LIST).await.status, 200);
    }
    let answer = world.get_as("our-token", LIST).await;
    answer.problem(429, "too-many-requests");
    assert_eq!(answer.headers["retry-after"], "20");
    assert_eq!(world.get_as(ALICE, LIST).await.status, 200, "others have their own");
    world.fake.wait(Duration::from_secs(20));
    assert_eq!(world.get_as("our-token", LIST).await.status, 200);
    assert_eq!(world.deliver("d-1", "prod").await.status, 202, "webhooks are GitHub's business");
}

#[tokio::test]
async fn who_guesses_is_stopped_and_nobody_else_is() {
    let world = at_github(admission());
    for _ in 0..30 {
        world.from("192.0.2.1", "a-guess").await.problem(401, "unauthorized");
    }
    let answer = world.from("192.0.2.1", "another").await;
    answer.problem(429, "too-many-requests");
    assert!(answer.headers.contains_key("retry-after"));
    world.from("192.0.2.1", "ghp_guess").await.problem(429, "too-many-requests");
    assert_eq!(world.fake.asked(), [""; 0], "GitHub is not asked for who guesses");
    assert_eq!(world.from("192.0.2.1", "our-token").await.status, 200, "behind one address");
    world.from("192.0.2.2", "a-guess").await.problem(401, "unauthorized");
}

#[tokio::test]
async fn where_a_request_comes_from_is_told_by_proxies_that_are_trusted() {
    let proxies = Proxies(vec![("10.0.0.0".parse().unwrap(), 8)]);
    let world = at_github(Admission { proxies, ..admission() });
    let guess = async |peer: &str, said: &str| {
        let peer: SocketAddr = format!("{peer}:1").parse().unwrap();
        let request = request(Method::GET, LIST, "a-guess").header("x-forwarded-for", said);
        let request = request.extension(ConnectInfo(peer)).body(Body::empty()).unwrap();
        world.send(request).await.status.as_u16()
    };
    for _ in 0..30 {
        assert_eq!(guess("10.0.0.1", "198.51.100.7").await, 401);
    }
    assert_eq!(guess("10.0.0.1", "198.51.100.7").await, 429);
    assert_eq!(guess("10.0.0.1", "198.51.100.8").await, 401, "another behind the same proxy");
    assert_eq!(guess("192.0.2.9", "198.51.100.7").await, 401, "what a stranger says is nothing");
}

#[tokio::test]
async fn without_anything_configured_this_machine_may_everything() {
    let world = world();
    assert_eq!(world.get("/api/v1/audit").await.status, 200);
    let me = world.get("/api/v1/whoami").await.json();
    assert_eq!((&me["via"], &me["rights"]), (&json!("loopback"), &Value::Null));
}

#[tokio::test]
async fn the_audit_log_is_shown_with_who_what_why_and_from_where() {
    let world = world();
    let by = By {
        name: "alice".to_owned(),
        via: Via::GitHub,
        from: Some("192.0.2.1".to_owned()),
        request: Some("test-0".to_owned()),
    };
    let entry = Written {
        id: DeployId::parse("20261121-054812000-3f9a2c").unwrap(),
        at: now(),
        by,
        act: "remove".to_owned(),
        target: Some(TargetName::parse("prod").unwrap()),
        app: Some(super::visitors::app("devx/shop")),
        subject: "removal 1".to_owned(),
        reason: "moved".to_owned(),
        outcome: "begun".to_owned(),
    };
    world.fake.callers(|callers| callers.entries.push(entry));
    let shown = world.get("/api/v1/audit?by=alice").await.json();
    assert_eq!(
        shown["entries"][0],
        json!({
            "id": "20261121-054812000-3f9a2c", "at": "2026-11-21T05:48:12Z", "by": "alice",
            "via": "github", "from": "192.0.2.1", "request": "test-0", "act": "remove",
            "target": "prod", "app": "devx/shop", "subject": "removal 1", "reason": "moved",
            "outcome": "begun",
        })
    );
    assert_eq!(world.get("/api/v1/audit?by=bob").await.json()["entries"], json!([]));
    world.get("/api/v1/audit?who=bob").await.problem(400, "bad-request");
    world.fake.inner.lock().unwrap().broken = true;
    world.get("/api/v1/audit").await.problem(503, "unavailable");
}
