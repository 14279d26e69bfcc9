//! `/api/v1/forge`, `/api/v1/builds`, `POST /api/v1/deployments`

use serde_json::{Value, json};

use super::shop::{TARGET, tokens};
use super::world::{Answer, get, post};
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::registry::{Entry, Registry, Trouble};

const DEPLOYMENTS: &str = "/api/v1/deployments";

fn wanted() -> Value {
    json!({
        "repository": "example/shop", "ref": "main", "tag": "v1", "target": TARGET,
        "description": "a\nb",
    })
}

/// Wants the same, with one field otherwise.
async fn wants(deployer: &Deployer, key: &str, value: Value) -> Answer {
    let mut body = wanted();
    body[key] = value;
    post(deployer, DEPLOYMENTS, &body).await
}

#[tokio::test]
async fn who_wants_to_log_in_is_told_where_without_a_token() {
    let mut deployer = Deployer::prepared().await;
    let (api_url, web_url) = (deployer.github.api_url(), deployer.github.url());
    deployer.configure(|config| {
        let token = "token: {env: GITHUB_TOKEN}\n";
        let config = config.replace(&web_url, &api_url);
        config.replace(token, &format!("{token}    login: {{client_id: Iv23liTest}}\n"))
    });
    tokens(&mut deployer, &[("ci", "scope: admin")]);
    deployer.starts().await;
    let login = json!({"client_id": "Iv23liTest"});
    let told = json!({"kind": "github", "api_url": api_url, "web_url": web_url, "login": login});
    assert_eq!(get(&deployer, "/api/v1/forge").await.json(), told);
    get(&deployer, "/api/v1/builds?app=a/b").await.problem(401, "unauthorized");
    post(&deployer, DEPLOYMENTS, &wanted()).await.problem(401, "unauthorized");
    deployer.settled().await;
}

#[tokio::test]
async fn where_github_has_deployments_they_are_asked_for_there() {
    let deployer = Deployer::start().await;
    let said = post(&deployer, DEPLOYMENTS, &wanted()).await.problem(409, "conflict");
    let url = deployer.github.url();
    assert_eq!(
        said,
        format!(
            "deployments are created on GitHub, whose event starts them here: \
             POST {url}/repos/example/shop/deployments, or `bart deploy`; with a GitHub token of your own the service \
             creates one in your name"
        )
    );
    assert_eq!(deployer.deployments().await.len(), 0);
    deployer.settled().await;
}

#[tokio::test]
async fn a_deployment_is_asked_for_by_who_calls_and_what_cannot_be_is_named() {
    let mut deployer = Deployer::prepared_local().await;
    deployer.starts().await;
    deployer.service_repository("example/shop").somebody_writes(".weave.yaml", &waml("shop"));
    let local = json!({"kind": "local", "api_url": null, "web_url": null, "login": null});
    assert_eq!(get(&deployer, "/api/v1/forge").await.json(), local);
    for (key, value, says) in [
        ("repository", json!("shop"), "repository: "),
        ("ref", json!(""), "ref: "),
        ("ref", json!("a\u{7}b"), "ref: "),
        ("tag", json!("a b"), "tag: "),
        ("target", json!("../x"), "target: "),
        ("tga", json!("1"), "unknown field `tga`"),
        (
            "description",
            json!("by ops\u{2066}x"),
            "description has an invisible character (U+2066)",
        ),
        ("ref", json!("none"), "example/shop has no branch, tag or commit none: push it"),
        ("repository", json!("example/cart"), "example/cart"),
    ] {
        let said = wants(&deployer, key, value).await.problem(422, "unprocessable");
        assert!(said.contains(says), "{said}");
    }
    assert_eq!(deployer.deployments().await.len(), 0);

    let answer = post(&deployer, DEPLOYMENTS, &wanted()).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    let [asked] = &deployer.deployments().await[..] else { panic!("one was asked for") };
    let (id, forge_id) = (&asked.id, asked.request.forge_id);
    assert_eq!(answer.json(), json!({"id": id, "forge_id": forge_id}));
    let request = &asked.request;
    assert_eq!((request.git_ref.as_str(), request.description.as_str()), ("main", "ab"));
    assert_eq!(request.actor, "unknown, on this machine");
    deployer.settle().await;
    assert_eq!(deployer.manifests().trailer("Deploy-Id"), [id.as_str()]);
    deployer.settled().await;
}

#[tokio::test]
async fn builds_say_where_they_are_live() {
    let registry = Registry::start(Entry::Open, &[]).await;
    registry.lock().build("acme/shop:v1", "2026-11-20T10:00:00Z", "649008fb649008fb");
    let host = registry.host();
    let mut deployer = Deployer::prepared().await;
    deployer
        .configure(|config| format!("{config}registries: [{{host: '{host}', insecure: true}}]\n"));
    deployer.starts().await;
    for (app, image) in [
        ("shop", format!("{{registry: '{host}', repository: acme/shop}}")),
        ("strange", "{registry: elsewhere.example.com, repository: acme/strange}".to_owned()),
    ] {
        let repository = deployer.github.repository(&format!("example/{app}"));
        let image = format!("  {TARGET}:\n    image: {image}\n");
        repository.commit(&waml(app).replace(&format!("  {TARGET}:\n"), &image));
        repository.deploys(TARGET, "v1").await;
        deployer.settle().await;
    }
    let builds = async |app: &str| get(&deployer, &format!("/api/v1/builds?app=devx/{app}")).await;
    let answer = builds("shop").await.json();
    assert_eq!(answer["image"], format!("{host}/acme/shop"));
    assert_eq!(answer["builds"][0]["tag"], "v1");
    assert_eq!(answer["builds"][0]["live"], json!([TARGET]));
    let said = builds("new").await.problem(404, "not-found");
    assert!(said.starts_with("devx/new was never deployed"), "{said}");
    let said = builds("strange").await.problem(422, "unprocessable");
    assert!(said.contains("elsewhere.example.com, which is not under `registries`"), "{said}");
    registry.lock().trouble = Some(Trouble::Busy);
    let said = builds("shop").await.problem(503, "unavailable");
    assert!(said.contains(&host), "{said}");
    get(&deployer, "/api/v1/builds").await.problem(400, "bad-request");
    deployer.settled().await;
}
