//! Callers and what they may do: tokens with limits, people of GitHub, how often they come, and the audit log.

use std::net::IpAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Client, Method};
use serde_json::{Value, json};
use tracing::Level;

use super::world::{Answer, get, request, send};
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::github::Fault;
use crate::harness::log::CapturedLog;

pub(super) const TARGET: &str = "prod-cluster-1";
pub(super) const LIST: &str = "/api/v1/deployments";
const REMOVE: &str = "/api/v1/apps/prod-cluster-1/devx/shop/remove";
/// The token of the configuration that may do everything.
pub(super) const OURS: &str = "our-token";

/// A program with tokens of the configuration: `{name: ci, scope: read}`. The text of each is its name.
pub(super) async fn with_tokens(tokens: &[&str]) -> Deployer {
    let mut deployer = Deployer::prepared().await;
    configure_tokens(&mut deployer, tokens);
    deployer.starts().await;
    deployer
}

/// The same, before it is started.
pub(super) fn configure_tokens(deployer: &mut Deployer, tokens: &[&str]) {
    let mut lines = String::from("auth:\n  tokens:\n");
    for token in tokens {
        let name = token.trim_start_matches("{name: ").split([',', '}']).next().unwrap();
        let variable = format!("TOKEN_{}", name.to_uppercase());
        deployer.variable(&variable, name);
        let rest = token.trim_end_matches('}');
        lines.push_str(&format!("  - {rest}, env: {variable}}}\n"));
    }
    deployer.configure(|config| format!("{config}{lines}"));
}

/// A program where people come by GitHub, `devx/shop` of `acme/shop` is live, and one token is ours.
pub(super) async fn at_github() -> Deployer {
    at_github_with(str::to_owned).await
}

/// The same with another configuration.
async fn at_github_with(change: impl FnOnce(&str) -> String) -> Deployer {
    let mut deployer = Deployer::prepared().await;
    configure_people(&mut deployer);
    deployer.configure(change);
    deployer.starts().await;
    deploys_shop(&deployer).await;
    deployer
}

/// People come by GitHub, and `our-token` may do everything.
pub(super) fn configure_people(deployer: &mut Deployer) {
    deployer.variable("TOKEN_CI", OURS);
    deployer.configure(|config| {
        let secret = "webhook_secret: {env: WEBHOOK_SECRET}\n";
        let config = config.replace(secret, &format!("{secret}    organizations: [acme]\n"));
        format!(
            "{config}auth:\n  github: {{admins: [acme/platform], readers: [acme/developers]}}\n  \
             tokens: [{{name: ci, env: TOKEN_CI}}]\n"
        )
    });
}

async fn deploys_shop(deployer: &Deployer) {
    let shop = deployer.github.repository("acme/shop");
    shop.commit(&waml("shop"));
    let id = shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    assert_eq!(deployer.github.told(id).last().unwrap(), "success");
}

pub(super) async fn get_as(deployer: &Deployer, token: &str, path: &str) -> Answer {
    send(request(deployer, Method::GET, path).bearer_auth(token)).await
}

pub(super) async fn post_as(deployer: &Deployer, token: &str, path: &str, body: &Value) -> Answer {
    send(request(deployer, Method::POST, path).bearer_auth(token).json(body)).await
}

/// Asks for a removal as far as it can be taken back.
async fn removes(deployer: &Deployer, token: &str) -> Answer {
    let body = json!({"reason": "moved", "dry_run": true});
    post_as(deployer, token, REMOVE, &body).await
}

pub(super) fn count(answer: &Answer) -> usize {
    answer.json()["deployments"].as_array().unwrap_or_else(|| panic!("{answer:?}")).len()
}

/// What GitHub is asked about people, since one looked last.
pub(super) struct Questions<'d> {
    deployer: &'d Deployer,
    seen: usize,
}

impl<'d> Questions<'d> {
    pub(super) fn new(deployer: &'d Deployer) -> Self {
        Self { deployer, seen: deployer.github.seen().len() }
    }

    pub(super) fn asked(&mut self) -> Vec<String> {
        let seen = self.deployer.github.seen();
        let new = seen[self.seen..].iter().map(|one| one.line.clone()).collect();
        self.seen = seen.len();
        new
    }
}

/// Requests from an address of the loopback network, of a program that listens there.
pub(super) struct Peer<'d> {
    deployer: &'d Deployer,
    client: Client,
}

impl<'d> Peer<'d> {
    pub(super) fn new(deployer: &'d Deployer, address: &str) -> Self {
        let address: IpAddr = address.parse().unwrap();
        let client = Client::builder().no_proxy().local_address(address).build().unwrap();
        Self { deployer, client }
    }

    pub(super) fn request(&self, token: &str) -> reqwest::RequestBuilder {
        self.client.get(format!("{}{LIST}", self.deployer.url())).bearer_auth(token)
    }

    pub(super) async fn list(&self, token: &str) -> Answer {
        send(self.request(token)).await
    }
}

#[tokio::test]
async fn a_token_does_what_it_is_for_and_is_told_what_that_is() {
    let deployer = with_tokens(&[
        "{name: reader, scope: read}",
        "{name: dev, scope: deploy, targets: ['dev-*']}",
        "{name: team, scope: deploy, apps: ['devx/*']}",
    ])
    .await;
    deploys_shop(&deployer).await;
    let said = removes(&deployer, "reader").await.problem(403, "forbidden");
    let what = format!("may not act on devx/shop on {TARGET}");
    assert!(said.contains(&what) && said.contains("`read`"), "{said}");
    let said = removes(&deployer, "dev").await.problem(403, "forbidden");
    assert!(said.contains("dev-*"), "{said}");
    let other = format!("/api/v1/apps/{TARGET}/pay/shop/remove");
    post_as(&deployer, "team", &other, &json!({"reason": "moved"})).await.problem(403, "forbidden");
    for token in ["reader", "dev", "team"] {
        get_as(&deployer, token, "/api/v1/audit").await.problem(403, "forbidden");
    }
    let done = post_as(&deployer, "team", REMOVE, &json!({"reason": "moved"})).await;
    assert_eq!((done.status.as_u16(), &done.json()["outcome"]), (200, &json!("removed")));
    let me = get_as(&deployer, "dev", "/api/v1/whoami").await.json();
    let rights = json!([{"scope": "deploy", "targets": ["dev-*"], "apps": ["*"]}]);
    assert_eq!(me, json!({"name": "dev", "via": "token", "rights": rights}));
    deployer.settled().await;
}

#[tokio::test]
async fn lists_and_pages_have_what_a_token_may_read() {
    let deployer = with_tokens(&[
        "{name: prod, scope: read, targets: [prod-cluster-1]}",
        "{name: none, targets: [other]}",
        "{name: all}",
    ])
    .await;
    let shop = deployer.github.repository("acme/shop");
    shop.commit(&waml("shop").replace("deploy:\n", "deploy:\n  dev: {}\n"));
    for target in [TARGET, "dev", TARGET] {
        shop.deploys(target, "v1").await;
    }
    // Before the WAML was read, which says what app it is, and afterwards.
    for read in [false, true] {
        if read {
            deployer.settle().await;
        }
        for (token, seen) in [("prod", 2), ("none", 0), ("all", 3)] {
            assert_eq!(count(&get_as(&deployer, token, LIST).await), seen, "{token} {read}");
            let login = STANDARD.encode(format!("x:{token}"));
            let page = request(&deployer, Method::GET, "/deployments");
            let page = send(page.header("authorization", format!("Basic {login}"))).await;
            assert_eq!(page.text.matches("href=\"/deployments/2").count(), seen, "{}", page.text);
        }
        let all = get_as(&deployer, "all", LIST).await.json();
        let dev = all["deployments"][1]["id"].as_str().unwrap().to_owned();
        let one = format!("{LIST}/{dev}");
        get_as(&deployer, "prod", &one).await.problem(403, "forbidden");
        assert_eq!(get_as(&deployer, "all", &one).await.status, 200);
        let page = get_as(&deployer, "prod", &format!("/deployments/{dev}")).await;
        page.problem(403, "forbidden");
        assert!(!page.headers.contains_key("www-authenticate"), "a browser is not asked again");
    }
    deployer.settled().await;
}

#[tokio::test]
async fn a_person_may_here_what_github_lets_them_there() {
    let deployer = at_github().await;
    let alice = deployer.github.token_of("alice");
    let unseen = removes(&deployer, &alice).await.problem(403, "forbidden");
    assert!(!unseen.contains("acme/shop"), "who may not see it learns no name: {unseen}");
    assert_eq!(count(&get_as(&deployer, &alice, LIST).await), 0);
    deployer.github.lets("alice", "acme/shop", "pull");
    deployer.clock.advance(Duration::from_secs(11));
    assert_eq!(count(&get_as(&deployer, &alice, LIST).await), 1);
    let said = removes(&deployer, &alice).await.problem(403, "forbidden");
    assert!(said.contains("push permission on acme/shop"), "{said}");
    deployer.github.lets("alice", "acme/shop", "push");
    deployer.clock.advance(Duration::from_secs(61));
    let done = post_as(&deployer, &alice, REMOVE, &json!({"reason": "moved"})).await;
    assert_eq!((done.status.as_u16(), &done.json()["actor"]), (200, &json!("alice")));
    let nobodys = format!("/api/v1/apps/{TARGET}/devx/other/remove");
    let moved = json!({"reason": "moved"});
    post_as(&deployer, &alice, &nobodys, &moved).await.problem(403, "forbidden");
    let me = get_as(&deployer, &alice, "/api/v1/whoami").await.json();
    assert_eq!(me, json!({"name": "alice", "via": "github", "rights": null}));
    deployer.settled().await;
}

#[tokio::test]
async fn teams_may_everything_or_read_everything() {
    let deployer = at_github().await;
    let alice = deployer.github.token_of("alice");
    deployer.github.joins("alice", "acme/developers");
    assert_eq!(count(&get_as(&deployer, &alice, LIST).await), 1);
    removes(&deployer, &alice).await.problem(403, "forbidden");
    let said = get_as(&deployer, &alice, "/api/v1/audit").await.problem(403, "forbidden");
    assert!(said.contains("`auth.github.admins`"), "{said}");
    deployer.github.joins("alice", "acme/platform");
    deployer.clock.advance(Duration::from_secs(61));
    assert_eq!(get_as(&deployer, &alice, "/api/v1/audit").await.status, 200);
    assert_eq!(removes(&deployer, &alice).await.status, 200);
    deployer.settled().await;
}

#[tokio::test]
async fn a_target_can_ask_for_a_team_beside() {
    let mut deployer = Deployer::prepared().await;
    configure_people(&mut deployer);
    deployer.configure(|config| {
        format!(
            "{config}clusters:\n- {{name: {TARGET}, environment: development, \
             domain: a.example.com, policies: {{deploy_teams: [acme/release]}}}}\n"
        )
    });
    deployer.starts().await;
    deployer.github.joins("octocat", "acme/release");
    deploys_shop(&deployer).await;
    let alice = deployer.github.token_of("alice");
    deployer.github.lets("alice", "acme/shop", "push");
    let said = removes(&deployer, &alice).await.problem(403, "forbidden");
    let what = format!("{TARGET} is for members of acme/release");
    assert!(said.contains(&what), "{said}");
    deployer.github.joins("alice", "acme/release");
    deployer.clock.advance(Duration::from_secs(11));
    assert_eq!(removes(&deployer, &alice).await.status, 200);
    assert_eq!(removes(&deployer, OURS).await.status, 200, "as the operator said");
    deployer.settled().await;
}

#[tokio::test]
async fn github_is_asked_once_a_minute_and_learns_no_token_that_is_not_its_own() {
    let log = CapturedLog::of("", Level::TRACE);
    let deployer = at_github().await;
    let alice = deployer.github.token_of("alice");
    deployer.github.lets("alice", "acme/shop", "push");
    let mut github = Questions::new(&deployer);
    assert_eq!(removes(&deployer, &alice).await.status, 200);
    let platform = "GET orgs/acme/teams/platform/memberships/alice";
    assert_eq!(github.asked(), ["GET user", platform, "GET repos/acme/shop"]);
    assert_eq!(removes(&deployer, &alice).await.status, 200);
    assert_eq!(github.asked(), [""; 0]);
    deployer.clock.advance(Duration::from_secs(11));
    assert_eq!(removes(&deployer, &alice).await.status, 200);
    assert_eq!(github.asked(), [platform], "a no is asked again sooner");
    deployer.clock.advance(Duration::from_secs(50));
    assert_eq!(removes(&deployer, &alice).await.status, 200);
    assert_eq!(github.asked(), ["GET user", platform, "GET repos/acme/shop"]);
    for ours in ["our-toke", "tdp_0123456789", "ghs_a-jobs-token", "ghp_with space", ""] {
        get_as(&deployer, ours, LIST).await.problem(401, "unauthorized");
    }
    assert_eq!(github.asked(), [""; 0]);
    let text = log.text();
    assert!(text.contains("token refused"), "{text}");
    assert!(!text.contains("ghp_") && !text.contains("our-toke"), "{text}");
    deployer.settled().await;
}

#[tokio::test]
async fn a_token_that_github_rejects_is_refused_with_what_to_do() {
    let deployer = at_github().await;
    let alice = deployer.github.token_of("alice");
    let said = get_as(&deployer, "ghp_stolen", LIST).await.problem(401, "unauthorized");
    assert!(said.contains("bart login"), "{said}");
    assert_eq!(count(&get_as(&deployer, &alice, LIST).await), 0);
    deployer.github.revokes("alice");
    assert_eq!(count(&get_as(&deployer, &alice, LIST).await), 0, "within a minute");
    deployer.clock.advance(Duration::from_secs(61));
    get_as(&deployer, &alice, LIST).await.problem(401, "unauthorized");
    let jobs = get_as(&deployer, "ghs_a-jobs-token", LIST).await.problem(401, "unauthorized");
    assert!(jobs.contains("not a person's"), "{jobs}");
    deployer.settled().await;
}

#[tokio::test]
async fn while_github_is_down_who_was_known_goes_on_and_our_tokens_work() {
    let deployer = at_github().await;
    let alice = deployer.github.token_of("alice");
    let bob = deployer.github.token_of("bob");
    deployer.github.lets("alice", "acme/shop", "push");
    assert_eq!(removes(&deployer, &alice).await.status, 200);
    deployer.github.down_for(Duration::from_mins(18));
    deployer.clock.advance(Duration::from_mins(2));
    let said = get_as(&deployer, &bob, LIST).await.problem(503, "unavailable");
    assert!(said.contains("it answers 502") && said.contains("an API token still works"), "{said}");
    assert_eq!(removes(&deployer, OURS).await.status, 200);
    // GitHub must be asked whether alice is an admin, and cannot be; that she may push is known.
    let answer = get_as(&deployer, &alice, "/api/v1/whoami").await;
    assert_eq!(answer.json()["name"], "alice");
    assert_eq!(removes(&deployer, &alice).await.status, 200);
    deployer.clock.advance(Duration::from_mins(15));
    get_as(&deployer, &alice, "/api/v1/whoami").await.problem(503, "unavailable");
    deployer.clock.advance(Duration::from_mins(1));
    assert_eq!(removes(&deployer, &alice).await.status, 200, "it is up again");
    deployer.settled().await;
}

#[tokio::test]
async fn who_github_tells_to_wait_waits_and_github_is_left_alone() {
    let deployer = at_github().await;
    let alice = deployer.github.token_of("alice");
    deployer.github.fails(1, "GET user", Fault::Wait(403, 30));
    let mut github = Questions::new(&deployer);
    for _ in 0..3 {
        let answer = get_as(&deployer, &alice, LIST).await;
        answer.problem(503, "unavailable");
        assert_eq!(answer.headers["retry-after"], "30");
    }
    assert_eq!(github.asked(), ["GET user"]);
    deployer.clock.advance(Duration::from_secs(30));
    assert_eq!(get_as(&deployer, &alice, LIST).await.status, 200);
    deployer.settled().await;
}

#[tokio::test]
async fn a_caller_has_so_many_requests_a_minute() {
    let change = |config: &str| format!("{config}limits: {{requests_per_minute: 3}}\n");
    let deployer = at_github_with(change).await;
    let alice = deployer.github.token_of("alice");
    for _ in 0..3 {
        assert_eq!(get_as(&deployer, OURS, LIST).await.status, 200);
    }
    let answer = get_as(&deployer, OURS, LIST).await;
    answer.problem(429, "too-many-requests");
    assert_eq!(answer.headers["retry-after"], "20");
    assert_eq!(get_as(&deployer, &alice, LIST).await.status, 200, "others have their own");
    deployer.clock.advance(Duration::from_secs(20));
    assert_eq!(get_as(&deployer, OURS, LIST).await.status, 200);
    get_as(&deployer, OURS, LIST).await.problem(429, "too-many-requests");
    let shop = deployer.github.repository("acme/shop");
    for tag in ["v2", "v3", "v4"] {
        shop.deploys(TARGET, tag).await;
    }
    assert_eq!(deployer.github.answers(), [202; 4], "webhooks are GitHub's business");
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn who_guesses_is_stopped_and_nobody_else_is() {
    let deployer = at_github().await;
    let mut github = Questions::new(&deployer);
    let guesser = Peer::new(&deployer, "127.0.0.1");
    for _ in 0..30 {
        guesser.list("a-guess").await.problem(401, "unauthorized");
    }
    let answer = guesser.list("another").await;
    answer.problem(429, "too-many-requests");
    assert!(answer.headers.contains_key("retry-after"));
    guesser.list("ghp_guess").await.problem(429, "too-many-requests");
    assert_eq!(github.asked(), [""; 0], "GitHub is not asked for who guesses");
    assert_eq!(guesser.list(OURS).await.status, 200, "behind one address");
    let other = Peer::new(&deployer, "127.0.0.2");
    other.list("a-guess").await.problem(401, "unauthorized");
    deployer.settled().await;
}

#[tokio::test]
async fn where_a_request_comes_from_is_told_by_proxies_that_are_trusted() {
    let deployer = at_github_with(|config| {
        config.replace("server:\n", "server:\n  trusted_proxies: [127.0.0.1]\n")
    })
    .await;
    let [proxy, stranger] = ["127.0.0.1", "127.0.0.9"].map(|peer| Peer::new(&deployer, peer));
    let guess = async |peer: &Peer<'_>, said: &str| {
        let answer = send(peer.request("a-guess").header("x-forwarded-for", said)).await;
        answer.status.as_u16()
    };
    for _ in 0..30 {
        assert_eq!(guess(&proxy, "198.51.100.7").await, 401);
    }
    assert_eq!(guess(&proxy, "198.51.100.7").await, 429);
    assert_eq!(guess(&proxy, "198.51.100.8").await, 401, "another behind the same proxy");
    assert_eq!(guess(&stranger, "198.51.100.7").await, 401, "what a stranger says is nothing");
    deployer.settled().await;
}

#[tokio::test]
async fn without_anything_configured_this_machine_may_everything() {
    let deployer = Deployer::start().await;
    assert_eq!(get(&deployer, "/api/v1/audit").await.status, 200);
    let me = get(&deployer, "/api/v1/whoami").await.json();
    assert_eq!((&me["via"], &me["rights"]), (&json!("loopback"), &Value::Null));
    deployer.settled().await;
}

#[tokio::test]
async fn the_audit_log_is_shown_with_who_what_why_and_from_where() {
    let mut deployer = at_github().await;
    let alice = deployer.github.token_of("alice");
    deployer.github.lets("alice", "acme/shop", "push");
    deployer.clock.advance(Duration::from_mins(1));
    let at = deployer.clock.now().to_string();
    let done = post_as(&deployer, &alice, REMOVE, &json!({"reason": "moved"})).await;
    assert_eq!(done.status, 200, "{done:?}");
    let shown = get_as(&deployer, OURS, "/api/v1/audit?by=alice").await.json();
    let entry = &shown["entries"][0];
    assert_eq!(
        *entry,
        json!({
            "id": entry["id"], "at": at, "by": "alice", "via": "github", "from": "127.0.0.1",
            "request": done.headers["x-request-id"].to_str().unwrap(), "act": "remove",
            "target": TARGET, "app": "devx/shop", "subject": format!("removal {}", entry["id"].as_str().unwrap()), "reason": "moved",
            "outcome": "it has begun",
        })
    );
    assert_eq!((shown["entries"].as_array().unwrap().len(), &shown["next"]), (1, &Value::Null));
    let of_bob = get_as(&deployer, OURS, "/api/v1/audit?by=bob").await.json();
    assert_eq!(of_bob["entries"], json!([]));
    get_as(&deployer, OURS, "/api/v1/audit?who=bob").await.problem(400, "bad-request");
    deployer.stepped().store().close().await;
    get_as(&deployer, OURS, "/api/v1/audit").await.problem(503, "unavailable");
    deployer.dies();
    deployer.starts().await;
    deployer.settled().await;
}
