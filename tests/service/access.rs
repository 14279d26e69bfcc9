//! Tests authorization in the real program: people of a GitHub, tokens of the configuration, and the audit log.

use std::process::Command;

use reqwest::Method;
use serde_json::{Value as Json, json};
use the_deployer::support::clock::Clock;

use crate::harness::developer::Developer;
use crate::harness::events::waml;
use crate::harness::git::hermetic;
use crate::harness::github::{Ask, Fault, World};
use crate::harness::process::{Home, Process};

const APP: &str = "/api/v1/apps/prod-cluster-1/devx/shop";
const CI: &str = "tdp_of-the-test";

/// A service whose people are those of a GitHub, with `devx/shop` of `acme/shop` on a target that
/// asks for the team `acme/release`.
struct Place {
    github: World,
    home: Home,
    process: Process,
}

impl Place {
    async fn new() -> Self {
        let github = World::start(&Clock::system()).await;
        github.repository("acme/shop").commit(&waml("shop"));
        github.joins("octocat", "acme/release");
        let home = Home::configured(&config(&github));
        std::fs::create_dir_all(home.state("")).unwrap();
        std::fs::write(home.state("webhook-secret"), "h00k-of-the-test").unwrap();
        let process = home.start_with(&[("GITHUB_TOKEN", github.token())]).await;
        let hook = format!("{}/webhooks/github", process.address());
        github.hooks_to(&hook, &process.secret);
        let number = github.repository("acme/shop").deploys("prod-cluster-1", "v1").await;
        let place = Self { github, home, process };
        place.told(number, "success").await;
        place
    }

    /// Until GitHub has been told that.
    async fn told(&self, number: i64, state: &str) {
        let told = async || self.github.told(number).iter().any(|one| one == state).then_some(());
        self.process.until("what GitHub is told", told).await;
    }

    async fn ask(&self, token: &str, method: Method, path: &str, body: &Json) -> (u16, Json) {
        self.ask_with(token, None, method, path, body).await
    }

    async fn ask_with(
        &self,
        token: &str,
        key: Option<&str>,
        method: Method,
        path: &str,
        body: &Json,
    ) -> (u16, Json) {
        let mut request = self.process.request(method.clone(), path);
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        if method == Method::POST {
            request = request.json(body);
        }
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    async fn get(&self, token: &str, path: &str) -> (u16, Json) {
        self.ask(token, Method::GET, path, &Json::Null).await
    }

    async fn removes(&self, token: &str) -> (u16, Json) {
        let ask = json!({"reason": "moved away", "dry_run": true});
        self.ask(token, Method::POST, &format!("{APP}/remove"), &ask).await
    }

    fn done(self) {
        let log = self.process.log();
        for secret in ["ghp_", CI, "h00k-of-the-test"] {
            assert!(!log.contains(secret), "{secret}: {log}");
        }
        self.github.settled();
    }
}

fn config(github: &World) -> String {
    use sha2::{Digest as _, Sha256};
    format!(
        "forge:\n  github:\n    api_url: {}\n    token: {{env: GITHUB_TOKEN}}\n    \
         webhook_secret: {{file: .the-deployer/webhook-secret}}\n    organizations: [acme]\n    \
         sweep: off\n\
         clusters:\n- {{name: prod-cluster-1, environment: development, domain: example.com, \
         policies: {{deploy_teams: [acme/release]}}}}\n\
         auth:\n  github: {{admins: [acme/platform]}}\n  tokens:\n  \
         - {{name: ci, sha256: {}, scope: read}}\n",
        github.api_url(),
        hex::encode(Sha256::digest(CI)),
    )
}

#[tokio::test]
async fn people_may_here_what_github_lets_them_and_everything_they_do_is_written_down() {
    let place = Place::new().await;
    let [dave, alice, bob, carol, erin] =
        ["dave", "alice", "bob", "carol", "erin"].map(|login| place.github.token_of(login));
    place.github.lets("alice", "acme/shop", "pull");
    place.github.lets("bob", "acme/shop", "push");
    place.github.lets("carol", "acme/shop", "push");
    place.github.joins("carol", "acme/release");
    place.github.joins("erin", "acme/platform");

    for (token, seen) in [(&dave, 0), (&alice, 1), (&CI.to_owned(), 1), (&erin, 1)] {
        for (path, key) in [("/api/v1/deployments", "deployments"), ("/api/v1/apps", "apps")] {
            let (status, list) = place.get(token, path).await;
            assert_eq!((status, list[key].as_array().unwrap().len()), (200, seen), "{list}");
        }
    }
    for (token, status, says) in [
        ("", 401, "bart login"),
        ("ghp_nobody", 401, "expired or revoked"),
        (&dave, 403, "may not see devx/shop"),
        (&alice, 403, "push permission on acme/shop"),
        (&bob, 403, "members of acme/release"),
        (CI, 403, "`read`"),
        (&carol, 200, ""),
        (&erin, 200, ""),
    ] {
        let (found, answer) = place.removes(token).await;
        assert_eq!(found, status, "{answer}");
        assert!(status == 200 || answer["detail"].as_str().unwrap().contains(says), "{answer}");
    }

    // The team is asked of who deploys by GitHub, too.
    let shop = place.github.repository("acme/shop");
    for (actor, end) in [("bob", "failure"), ("carol", "success")] {
        let actor = actor.to_owned();
        let number = shop.asks(Ask { actor, ..Ask::new("prod-cluster-1", "v2") }).await;
        place.told(number, end).await;
        let words = place.github.statuses(number).pop().unwrap().1;
        assert!(end == "success" || words.contains("bob is in none of the teams"), "{words}");
    }

    let ask = json!({"reason": "moved away"});
    let path = format!("{APP}/remove");
    let remove = async || place.ask_with(&carol, Some("once"), Method::POST, &path, &ask).await;
    let (status, first) = remove().await;
    assert_eq!((status, &first["outcome"]), (200, &json!("removed")), "{first}");
    let commits = place.home.manifests().commits();
    assert_eq!(remove().await, (200, first), "a repeat is answered the same");
    assert_eq!(place.home.manifests().commits(), commits);

    let (status, _) = place.get(&carol, "/api/v1/audit").await;
    assert_eq!(status, 403);
    let (status, log) = place.get(&erin, "/api/v1/audit").await;
    assert_eq!((status, log["entries"].as_array().unwrap().len()), (200, 1), "{log}");
    let entry = &log["entries"][0];
    assert_eq!((&entry["by"], &entry["via"]), (&json!("carol"), &json!("github")));
    assert_eq!((&entry["from"], &entry["act"]), (&json!("127.0.0.1"), &json!("remove")));
    assert_eq!((&entry["app"], &entry["reason"]), (&json!("devx/shop"), &json!("moved away")));
    let printed = the_deployer(&place.home, &["audit", "--output", "json"], &place.github);
    assert_eq!(&printed["entries"][0], entry, "the same shape");
    assert!(printed["next"].is_null(), "{printed}");
    place.done();
}

#[tokio::test]
async fn bart_ends_with_one_where_it_may_not() {
    let place = Place::new().await;
    for (token, words) in [(CI, "`read`"), ("tdp_nobodys", "bart login")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bart"));
        let rollback = ["rollback", "prod-cluster-1", "--app", "devx/shop", "--reason", "x"];
        command.current_dir(place.home.path("")).env_clear().args(rollback);
        command.env("BART_SERVER", place.process.address()).env("BART_TOKEN", token);
        command.env("HOME", place.home.path("")).stdin(std::process::Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(words), "{said}");
    }
    place.done();
}

#[tokio::test]
async fn while_github_is_down_tokens_of_ours_work_and_people_are_told_why_not() {
    let place = Place::new().await;
    let alice = place.github.token_of("alice");
    place.github.fails(1, "GET user", Fault::BadGateway);
    let (status, answer) = place.get(&alice, "/api/v1/deployments").await;
    assert_eq!(status, 503, "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("an API token still works"), "{answer}");
    assert_eq!(place.get(CI, "/api/v1/deployments").await.0, 200);
    assert_eq!(place.get(&alice, "/api/v1/whoami").await.0, 200, "it is up again");
    place.done();
}

#[tokio::test]
async fn a_token_that_the_program_makes_is_good_for_what_it_says() {
    let made = Home::embedded();
    let arguments = ["config", "token", "--name", "team", "--scope", "deploy"];
    let globs = ["--target", "dev-*", "--app", "devx/*", "--output", "json"];
    let made = run(&made, &[&arguments[..], &globs].concat(), &[]);
    let token = made["token"].as_str().unwrap().to_owned();
    let home = Home::configured(&format!("auth: {{tokens: [{}]}}\n", made["config"]));
    let process = home.start().await;
    let me = process.request(Method::GET, "/api/v1/whoami").bearer_auth(&token).send().await;
    let me: Json = me.unwrap().json().await.unwrap();
    let rights = json!([{"scope": "deploy", "targets": ["dev-*"], "apps": ["devx/*"]}]);
    assert_eq!(me, json!({"name": "team", "via": "token", "rights": rights}));
    assert!(!std::fs::read_to_string(home.path("config.yaml")).unwrap().contains(&token));
    assert_eq!(process.get("/api/v1/whoami").await.0, 401);
}

#[tokio::test]
async fn a_token_for_one_target_is_shown_that_one_and_told_of_the_rest_in_a_line() {
    let made = Home::embedded();
    let arguments = ["config", "token", "--name", "dev", "--scope", "deploy", "--target", "dev"];
    let made = run(&made, &[&arguments[..], &["--output", "json"]].concat(), &[]);
    let token = made["token"].as_str().unwrap().to_owned();
    let home = Home::configured(&format!("auth: {{tokens: [{}]}}\n", made["config"]));
    let process = home.start().await;
    let text = waml("shop");
    home.commit("example/shop", &text.replace("deploy:\n", "deploy:\n  dev: {}\n  prod-2: {}\n"));
    let developer = Developer::cloned(&home.state("repos/example/shop.git"));
    let variables = [("BART_SERVER", process.address()), ("BART_TOKEN", &token)];
    developer.runs(&variables, &["deploy", "v1", "dev"]).await.ended(0, &["succeeded"]);
    let said = developer.runs(&variables, &["status"]).await;
    said.ended(0, &["dev", "v1", "live", "you may not see it on prod-2, prod-cluster-1"]);
    assert_eq!(said.out.matches("prod-2").count(), 1, "{}", said.out);
    let hidden = developer.runs(&variables, &["status", "-t", "prod-2"]).await;
    hidden.ended(1, &["you may not see it on prod-2", "the token dev may not see"]);
}

fn the_deployer(home: &Home, arguments: &[&str], github: &World) -> Json {
    let config = ["--config", "config.yaml"];
    run(home, &[arguments, &config].concat(), &[("GITHUB_TOKEN", github.token())])
}

/// What the program prints, beside a service or not.
fn run(home: &Home, arguments: &[&str], variables: &[(&str, &str)]) -> Json {
    let mut command = Command::new(env!("CARGO_BIN_EXE_the-deployer"));
    command.current_dir(home.path("")).env_clear().envs(hermetic()).args(arguments);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}
