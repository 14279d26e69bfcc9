//! Two repositories that come to the same app, or to the same host, at the same moment; and what people
//! of an app learn of those who were refused.

use reqwest::Method;
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};

use crate::harness::events::{Event, waml};
use crate::harness::process::{Home, Process};

const READER: &str = "reader-of-the-shop";
const RIVAL: &str = "reader-of-rival";

/// With a token for everything, and one for the apps of a namespace.
fn home() -> Home {
    let digest = |token: &str| hex::encode(Sha256::digest(token));
    Home::configured(&format!(
        "auth:\n  tokens:\n  \
         - {{name: all, sha256: {}, scope: read}}\n  \
         - {{name: shop, sha256: {}, scope: read, apps: ['devx/*']}}\n",
        digest(RIVAL),
        digest(READER),
    ))
}

async fn get(process: &Process, token: &str, path: &str) -> Json {
    let request = process.request(Method::GET, path).bearer_auth(token);
    let answer = request.send().await.unwrap();
    assert!(answer.status().is_success(), "{path}: {}", answer.status());
    answer.json().await.unwrap()
}

/// The record at its end, as the token for everything sees it.
async fn ended(process: &Process, id: &str) -> Json {
    process
        .until(&format!("the end of {id}"), async || {
            let found = get(process, RIVAL, &format!("/api/v1/deployments/{id}")).await;
            (!found["finished_at"].is_null()).then_some(found)
        })
        .await
}

fn event(home: &Home, number: i64, repository: &str, waml: &str) -> Event {
    let commit = home.commit(repository, waml);
    Event { repository: repository.to_owned(), ..Event::new(number, "x", &commit) }
}

/// Both at once; the records of the one that succeeded and the one that failed.
async fn race(process: &Process, pair: [&Event; 2]) -> (Json, Json) {
    let (one, two) = tokio::join!(pair[0].accepted(process), pair[1].accepted(process));
    let (one, two) = tokio::join!(ended(process, &one), ended(process, &two));
    let both = [one, two];
    let states = [&both[0]["state"], &both[1]["state"]];
    assert!(
        states.contains(&&json!("succeeded")) && states.contains(&&json!("failed")),
        "{both:#?}"
    );
    let [one, two] = both;
    if one["state"] == "succeeded" { (one, two) } else { (two, one) }
}

#[tokio::test]
async fn of_two_repositories_at_the_same_moment_the_second_is_refused_by_the_ordinary_rule() {
    let home = home();
    let process = home.start().await;
    for n in 0..10 {
        let (same, number) = (waml(&format!("app-{n}")), 10 * n + 1);
        let pair = [("example/first", number), ("example/second", number + 1)];
        let pair = pair.map(|(repository, number)| event(&home, number, repository, &same));
        let (winner, loser) = race(&process, [&pair[0], &pair[1]]).await;
        assert_eq!(loser["violations"][0]["rule"], "owner", "{loser:#}");
        let says = loser["violations"].to_string();
        assert!(says.contains(winner["repository"].as_str().unwrap()), "{says}");
        assert_eq!((&winner["attempts"], &loser["attempts"]), (&json!(1), &json!(1)), "at once");

        let hosts = |slug: &str| {
            let host = format!("hostPrefix: shared-{n}");
            let waml = waml(slug).replace(&format!("hostPrefix: {slug}"), &host);
            assert!(waml.contains(&host));
            waml
        };
        let [one, two] = ["one", "two"].map(|name| format!("{name}-{n}"));
        let pair = [(&one, number + 2), (&two, number + 3)];
        let pair = pair
            .map(|(slug, number)| event(&home, number, &format!("example/{slug}"), &hosts(slug)));
        let (winner, loser) = race(&process, [&pair[0], &pair[1]]).await;
        assert_eq!(loser["violations"][0]["rule"], "hosts", "{loser:#}");
        let taken = format!("already belongs to `{}`", winner["app"].as_str().unwrap_or("?"));
        assert!(loser["violations"].to_string().contains(&taken), "{taken}: {loser:#}");
    }
}

#[tokio::test]
async fn a_path_on_another_owners_host_is_refused_and_one_of_the_same_owners_is_told() {
    let home = home();
    let process = home.start().await;
    let deploy = async |number, repository: &str, waml: &str| {
        let id = event(&home, number, repository, waml).accepted(&process).await;
        ended(&process, &id).await
    };
    let shop = deploy(1, "example/shop", &waml("shop")).await;
    assert_eq!(shop["state"], "succeeded", "{shop:#}");
    let login = |namespace: &str, path: &str| {
        waml("login")
            .replace("hostPrefix: login", "hostPrefix: shop")
            .replace("path: /,", &format!("path: {path},"))
            .replace("namespace: devx", &format!("namespace: {namespace}"))
    };
    let stolen = deploy(2, "rival/login", &login("rival", "/login")).await;
    assert_eq!(stolen["violations"][0]["rule"], "hosts", "{stolen:#}");
    let says = stolen["violations"][0]["message"].as_str().unwrap();
    assert!(says.contains("is inside") && says.contains("another owner: `devx/shop`"), "{says}");
    let shared = deploy(3, "example/login", &login("devx", "/login")).await;
    assert_eq!(shared["state"], "succeeded", "{shared:#}");
    assert_eq!(shared["violations"][0]["severity"], "warning", "{shared:#}");
    let again = deploy(4, "example/shop", &waml("shop")).await;
    assert_eq!(again["state"], "succeeded", "{again:#}");
}

#[tokio::test]
async fn who_was_refused_is_none_of_the_apps_people_and_sees_it_in_its_own_repository() {
    let home = home();
    let process = home.start().await;
    let shop = event(&home, 1, "example/shop", &waml("shop"));
    let first = ended(&process, &shop.accepted(&process).await).await;
    assert_eq!(first["state"], "succeeded", "{first:#}");
    // One breaks the rule of owners, one so much that this rule is never asked.
    let broken = waml("shop").replace("template: backend-default", "template: none-such");
    for (number, text, rule) in [(2, waml("shop"), "owner"), (3, broken, "template")] {
        let refused = event(&home, number, "rival/stolen", &text);
        let refused = ended(&process, &refused.accepted(&process).await).await;
        assert_eq!((&refused["state"], &refused["app"]), (&json!("failed"), &Json::Null));
        assert!(refused["violations"].to_string().contains(rule), "{refused:#}");
    }
    let app = get(&process, READER, "/api/v1/apps/prod-cluster-1/devx/shop").await;
    assert_eq!(app["last"]["id"], first["id"], "{app:#}");
    for path in [
        "/api/v1/apps/prod-cluster-1/devx/shop",
        "/api/v1/apps/prod-cluster-1/devx/shop/revisions",
        "/api/v1/apps",
        "/api/v1/deployments",
        "/api/v1/deployments?app=devx/shop",
        "/api/v1/deployments?repository=rival/stolen",
    ] {
        let seen = get(&process, READER, path).await.to_string();
        assert!(!seen.contains("rival/stolen"), "{path}: {seen}");
    }
    let own = get(&process, RIVAL, "/api/v1/deployments?repository=rival/stolen").await;
    assert_eq!(own["deployments"].as_array().unwrap().len(), 2, "{own:#}");
    // Its builds are asked of the owner's WAML: the registry is not configured, and so it says.
    let request = process.request(Method::GET, "/api/v1/builds?app=devx/shop");
    let answer = request.bearer_auth(READER).send().await.unwrap();
    let said = answer.text().await.unwrap();
    assert!(said.contains("the image of devx/shop is at ghcr.io"), "{said}");
}
