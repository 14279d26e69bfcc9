//! Tests the lookups of a deployment and their record, end to end.

use std::process::Command;

use serde_json::Value as Json;

use crate::harness::events::{Event, waml};
use crate::harness::process::{Home, Process};
use crate::harness::registry::{Entry, Registry, Trouble};
use crate::service::crash::assert_right;

/// The operator's command beside the running service.
fn operator(home: &Home, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_the-deployer"));
    let output = command.args(arguments).current_dir(home.path("")).env_clear().output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn an_app_is_whose_that_deployed_it_until_the_operator_moves_it() {
    let home = Home::embedded();
    let process = home.start().await;
    let list = || -> Json {
        serde_json::from_str(&operator(&home, &["owners", "list", "--output", "json"])).unwrap()
    };
    assert_eq!(list(), serde_json::json!([]));
    let id = Event::of_app(&home, 1, "shop").accepted(&process).await;
    assert_right(&process, &home.manifests(), &id, "shop").await;
    let stages = process.deployment(&id).await["stages"].take();
    assert_eq!(stages[2]["stage"], "facts", "{stages}");
    let owned = list();
    assert_eq!(
        (&owned[0]["repository"], &owned[0]["moved"]),
        (&"example/shop".into(), &Json::Null)
    );
    let app = owned[0]["app"].as_str().unwrap();
    operator(
        &home,
        &[
            "owners",
            "move",
            app,
            "--target",
            "prod-cluster-1",
            "--to",
            "example/store",
            "--reason",
            "split off",
            "--by",
            "jo",
        ],
    );
    let later = Event::of_app(&home, 2, "shop").accepted(&process).await;
    process.ended(&later).await;
    assert_eq!(list()[0]["repository"], "example/store", "who comes later changes nothing");
}

/// A production cluster and one for development, with that registry.
fn asking(registry: &Registry) -> Home {
    Home::configured(&format!(
        "registries: [{{host: '{}', insecure: true}}]\n\
         clusters:\n\
         - {{name: prod-cluster-1, environment: production, domain: example.com}}\n\
         - {{name: dev, environment: development, domain: dev.example.com}}\n\
         limits: {{lookups: 1s}}\n",
        registry.host()
    ))
}

/// The WAML of `shop`, with its image in that registry.
fn waml_in(registry: &Registry) -> String {
    let image = format!("  image: {{registry: '{}', repository: acme/shop}}\n", registry.host());
    let target = format!("  prod-cluster-1:\n  {image}");
    let dev = "  dev: {}\n".replace("{}", &format!("{{{}}}", image.trim()));
    waml("shop").replace("  prod-cluster-1:\n", &(dev + &target))
}

async fn ended(process: &Process, event: Event) -> Json {
    let id = event.accepted(process).await;
    process.ended(&id).await
}

#[tokio::test]
async fn an_image_that_is_not_there_fails_and_one_that_cannot_be_asked_for_fails_production_only() {
    let registry = Registry::start(Entry::TokenForAll, &["acme/shop:v1"]).await;
    let home = asking(&registry);
    let process = home.start().await;
    let commit = home.commit("example/shop", &waml_in(&registry));
    let event = |number, target: &str| Event {
        target: target.to_owned(),
        ..Event::new(number, "shop", &commit)
    };
    let there = ended(&process, event(1, "prod-cluster-1")).await;
    assert_eq!(there["state"], "succeeded", "{there}");
    let gone = ended(&process, event(2, "prod-cluster-1")).await;
    assert_eq!(
        (&gone["state"], &gone["violations"][0]["rule"]),
        (&"failed".into(), &"image-tag".into())
    );
    registry.lock().trouble = Some(Trouble::Failing(1000));
    let unknown = ended(&process, event(3, "prod-cluster-1")).await;
    assert_eq!(unknown["state"], "failed", "{unknown}");
    let why = unknown["violations"][0]["message"].as_str().unwrap();
    assert!(why.contains("answers 502"), "{why}");
    let lenient = ended(&process, event(4, "dev")).await;
    assert_eq!(lenient["state"], "succeeded", "{lenient}");
    assert_eq!(lenient["violations"][0]["severity"], "warning", "{lenient}");
}

#[tokio::test]
async fn a_tag_that_moves_is_named_by_its_digest_and_a_rollback_brings_the_same_image_back() {
    let registry = Registry::start(Entry::Open, &["acme/shop:v1"]).await;
    let home = asking(&registry);
    let process = home.start().await;
    let commit = home.commit("example/shop", &waml_in(&registry));
    let event = |number, target: &str| Event {
        target: target.to_owned(),
        tag: "v1".to_owned(),
        ..Event::new(number, "shop", &commit)
    };
    let image = |target: &str| {
        let mut files = home.manifests().files().into_iter();
        let is_it = |path: &str| path.contains(target) && path.ends_with("latest/deployment.yaml");
        let (_, file) = files.find(|(path, _)| is_it(path)).unwrap();
        let line = file.lines().find(|line| line.contains("image: ")).unwrap();
        line.trim_start_matches([' ', '-']).replace(&registry.host(), "HOST").replace('"', "")
    };
    let production = "prod-cluster-1";
    let first = ended(&process, event(1, production)).await;
    assert_eq!(first["state"], "succeeded", "{first}");
    let before = image(production);
    assert!(before.starts_with("image: HOST/acme/shop:v1@sha256:"), "{before}");
    // The same tag is pushed again, a moment after it was looked up.
    let content = serde_json::json!({"manifests": [{"platform": {"os": "linux"}}]});
    registry.lock().contents.insert("acme/shop:v1".to_owned(), content);
    let second = ended(&process, event(2, production)).await;
    assert_eq!(second["state"], "succeeded", "{second}");
    assert_ne!(image(production), before, "the tag leads to another image now");
    let path = "/api/v1/apps/prod-cluster-1/devx/shop/rollback";
    let ask = process.request(reqwest::Method::POST, path);
    let answer = ask.json(&serde_json::json!({"reason": "it is slow"})).send().await.unwrap();
    assert_eq!(answer.status(), 202);
    let answer: Json = answer.json().await.unwrap();
    process.ended(answer["deployment"]["id"].as_str().unwrap()).await;
    assert_eq!(image(production), before, "exactly the image that ran before");
    let lenient = ended(&process, event(3, "dev")).await;
    assert_eq!(lenient["state"], "succeeded", "{lenient}");
    assert_eq!(image("dev"), "image: HOST/acme/shop:v1", "by its tag, outside of production");
}

#[tokio::test]
async fn a_host_that_another_app_has_is_refused_with_its_name() {
    let home = Home::embedded();
    let process = home.start().await;
    let first = ended(&process, Event::of_app(&home, 1, "shop")).await;
    assert_eq!(first["state"], "succeeded", "{first}");
    let other = waml("shop").replace("slug: shop", "slug: store");
    let commit = home.commit("example/store", &other);
    let second = ended(&process, Event::new(2, "store", &commit)).await;
    assert_eq!(second["state"], "failed", "{second}");
    let text = second["violations"].to_string();
    assert!(text.contains("hosts") && text.contains("devx/shop"), "{text}");
}

#[tokio::test]
async fn a_lock_stops_a_deployment_with_its_reason() {
    let home = Home::embedded();
    let process = home.start().await;
    operator(&home, &["lock", "--target", "prod-cluster-1", "--reason", "the fair", "--by", "jo"]);
    let one = ended(&process, Event::of_app(&home, 1, "shop")).await;
    assert_eq!(one["state"], "failed", "{one}");
    assert!(one["violations"].to_string().contains("the fair"), "{one}");
}
