//! `bart builds`, against the real service and a registry.

use serde_json::json;

use crate::harness::developer::Developer;
use crate::harness::events::waml;
use crate::harness::process::Home;
use crate::harness::registry::{Entry, Registry};

#[tokio::test]
async fn builds_are_listed_newest_first_with_where_each_is_live() {
    let registry = Registry::start(Entry::TokenForAll, &[]).await;
    registry.lock().build("acme/shop:1.9", "2026-11-20T10:00:00Z", "649008fb649008fb");
    registry.lock().build("acme/shop:1.10", "2026-11-21T10:00:00Z", "00ff00ff00ff00ff");
    let home = Home::configured(&format!(
        "registries: [{{host: '{}', insecure: true}}]\n",
        registry.host()
    ));
    let process = home.start().await;
    let image = format!("image: {{registry: '{}', repository: acme/shop}}", registry.host());
    let text = waml("shop");
    let text = text.replace("deploy:\n", &format!("deploy:\n  dev: {{{image}}}\n"));
    let text = text.replace("  prod-cluster-1:\n", &format!("  prod-cluster-1:\n    {image}\n"));
    home.commit("example/shop", &text);
    let developer = Developer::cloned(&home.state("repos/example/shop.git"));
    let server = [("BART_SERVER", process.address())];

    // Before the first deployment the WAML of the working folder names the image.
    let said = developer.runs(&server, &["builds"]).await;
    said.ended(0, &["/acme/shop", "1.10", "1.9"]);
    let said = developer.runs(&server, &["builds", "--app", "devx/shop", "-t", "dev"]).await;
    said.ended(0, &["1.10"]);
    let said = developer.runs(&server, &["builds", "-t", "moon"]).await;
    said.ended(1, &["devx/shop was never deployed to moon"]);
    developer.runs(&server, &["deploy", "1.9", "dev"]).await.ended(0, &["succeeded"]);
    let list = developer.runs(&server, &["builds", "-o", "json"]).await.ended(0, &[]).json();
    assert_eq!(list["image"], format!("{}/acme/shop", registry.host()));
    assert_eq!(
        (&list["tags"], &list["complete"], &list["notes"]),
        (&json!(2), &json!(true), &json!([]))
    );
    let rows: Vec<_> = list["builds"].as_array().unwrap().iter().collect();
    assert_eq!((&rows[0]["tag"], &rows[0]["live"]), (&json!("1.10"), &json!([])));
    assert_eq!((&rows[1]["tag"], &rows[1]["live"]), (&json!("1.9"), &json!(["dev"])));
    assert_eq!(rows[1]["commit"], "649008fb649008fb");
    let said = developer.runs(&server, &["builds", "--limit", "1"]).await;
    said.ended(0, &["TAG", "WHEN", "1.10", "00ff00ff", "older ones: add --cursor 1"]);
    assert!(said.out.contains("1.9"), "what is live is there, however old: {}", said.out);
    let said = developer.runs(&server, &["builds", "--limit", "1", "--cursor", "1"]).await;
    said.ended(0, &["1.9", "dev"]);
    assert!(!said.out.contains("1.10") && !said.err.contains("older ones"), "{said:?}");
    let said = developer.runs(&server, &["builds", "--cursor", "x"]).await;
    said.ended(1, &["cursor: \"x\" is not the `next` of a page"]);
    let said = developer.runs(&server, &["builds", "--app", "devx/other"]).await;
    said.ended(1, &["devx/other was never deployed"]);
}

#[tokio::test]
async fn a_token_for_one_target_hears_of_no_tag_that_is_live_on_another() {
    let registry = Registry::start(Entry::TokenForAll, &[]).await;
    registry.lock().build("acme/shop:1.9", "2026-11-20T10:00:00Z", "649008fb649008fb");
    registry.lock().build("acme/shop:1.10", "2026-11-21T10:00:00Z", "00ff00ff00ff00ff");
    let [dev, all] = [&["--target", "dev"][..], &[]].map(|limit| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_the-deployer"));
        command.args(["config", "token", "--name", "ci", "--scope", "deploy", "-o", "json"]);
        let output = command.args(limit).output().unwrap();
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    });
    let home = Home::configured(&format!(
        "registries: [{{host: '{}', insecure: true}}]\nauth: {{tokens: [{}, {}]}}\n",
        registry.host(),
        dev["config"],
        all["config"].to_string().replace("\"ci\"", "\"all\""),
    ));
    let process = home.start().await;
    let image = format!("image: {{registry: '{}', repository: acme/shop}}", registry.host());
    let text = waml("shop").replace("deploy:\n", &format!("deploy:\n  dev: {{{image}}}\n"));
    let text = text.replace("  prod-cluster-1:\n", &format!("  prod-cluster-1:\n    {image}\n"));
    home.commit("example/shop", &text);
    let developer = Developer::cloned(&home.state("repos/example/shop.git"));
    let server = |token: &serde_json::Value| {
        [
            ("BART_SERVER", process.address().to_owned()),
            ("BART_TOKEN", token["token"].as_str().unwrap().to_owned()),
        ]
    };
    let runs = async |token, arguments: &[&str]| {
        let server = server(token);
        let server = server.each_ref().map(|(name, value)| (*name, value.as_str()));
        developer.runs(&server, arguments).await
    };
    runs(&all, &["deploy", "1.9", "dev"]).await.ended(0, &["succeeded"]);
    runs(&all, &["deploy", "1.10", "prod-cluster-1"]).await.ended(0, &["succeeded"]);
    // What is live on production is gone from the registry: a note tells of it.
    registry.lock().built.remove("acme/shop:1.10");
    let builds = ["builds", "-t", "dev", "-o", "json"];
    let told = runs(&all, &builds).await.ended(0, &[]).json();
    assert!(told["notes"].to_string().contains("1.10 is live"), "{told}");
    let told = runs(&dev, &builds).await.ended(0, &[]).json();
    assert_eq!(told["builds"][0]["live"], json!(["dev"]));
    assert!(!told.to_string().contains("1.10"), "{told}");
}
