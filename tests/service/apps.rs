//! Tests the apps of the whole service, as the manifest repository has them.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::harness::deployer::Deployer;
use crate::harness::events::{Event, waml};
use crate::harness::folder;
use crate::harness::git::Bare;
use crate::harness::git_host::{GitHost, TOKEN};
use crate::harness::process::Home;

const TARGET: &str = "prod-cluster-1";

async fn deploys(deployer: &Deployer, app: &str, tag: &str) -> String {
    let repository = deployer.github.repository(&format!("example/{app}"));
    repository.commit(&waml(app));
    // Ids of one moment are in no order.
    deployer.clock.advance(Duration::from_secs(1));
    repository.deploys(TARGET, tag).await;
    deployer.settle().await;
    deployer.deployments().await.pop().unwrap().id.to_string()
}

async fn get(deployer: &Deployer, query: &str) -> Json {
    let url = format!("http://{}/api/v1/apps{query}", deployer.stepped().address());
    let answer = reqwest::Client::new().get(url).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.json().await.unwrap()
}

/// `target/app live` of each.
async fn list(deployer: &Deployer) -> Vec<String> {
    let apps = get(deployer, "").await["apps"].as_array().unwrap().clone();
    let shown = |one: &Json| {
        let live = one["live_revision"].as_str().unwrap_or("by hand");
        format!("{} {} {live}", one["target"].as_str().unwrap(), one["app"].as_str().unwrap())
    };
    apps.iter().map(shown).collect()
}

fn on(app: &str, live: &str) -> String {
    format!("{TARGET} {app} {live}")
}

#[tokio::test]
async fn every_app_is_listed_as_it_is_now() {
    let deployer = Deployer::start().await;
    assert_eq!(get(&deployer, "").await, json!({"apps": [], "next": null, "missing": []}));
    let shop = deploys(&deployer, "shop", "v1").await;
    let cart = deploys(&deployer, "cart", "v1").await;
    let page = get(&deployer, "?limit=1").await;
    let at = page["apps"][0]["at"].clone();
    assert!(at.as_str().unwrap().parse::<jiff::Timestamp>().unwrap() <= deployer.clock.now());
    assert_eq!(
        page,
        json!({"apps": [{
            "target": TARGET, "namespace": "devx", "app": "cart", "live_revision": cart,
            "tag": "v1", "at": at, "hosts": ["cart.prod-cluster-1.internal"], "owner": "squad@example.com",
            "repository": "example/cart", "locked": false, "held": false, "failed": null,
        }], "next": "prod-cluster-1/devx/cart", "missing": []})
    );
    let rest = get(&deployer, "?limit=1&cursor=prod-cluster-1/devx/cart").await;
    assert_eq!((&rest["apps"][0]["app"], &rest["next"]), (&json!("shop"), &Json::Null));
    assert_eq!(get(&deployer, "?target=prod-2").await["apps"], json!([]));
    assert_eq!(list(&deployer).await, [on("cart", &cart), on("shop", &shop)]);
    let newer = deploys(&deployer, "shop", "v2").await;
    assert_eq!(list(&deployer).await, [on("cart", &cart), on("shop", &newer)]);
    let bare = deployer.manifests();
    bare.somebody_writes("manifests/prod-cluster-1/devx/cart/latest/more.yaml", "by: hand\n");
    bare.somebody_writes(
        "manifests/prod-2/devx/theirs/latest/ingress.yaml",
        &ingress("x.example.com"),
    );
    let all = get(&deployer, "").await;
    let [theirs, cart, _] = &all["apps"].as_array().unwrap()[..] else { panic!("{all}") };
    assert_eq!(cart["live_revision"], Json::Null, "edited by hand");
    assert_eq!(theirs["hosts"], json!(["x.example.com"]), "somebody else's, and no Application");
    assert_eq!((&theirs["owner"], &theirs["target"]), (&Json::Null, &json!("prod-2")));
    remove(&deployer, "shop").await;
    let left = list(&deployer).await;
    assert_eq!(left, ["prod-2 theirs by hand".to_owned(), on("cart", "by hand")]);
    deployer.settle().await;
    deployer.settled().await;
}

fn ingress(host: &str) -> String {
    format!(
        "kind: Ingress\nspec:\n  rules:\n  - host: {host}\n    http: {{paths: [{{path: /}}]}}\n"
    )
}

async fn remove(deployer: &Deployer, app: &str) {
    deployer.clock.advance(Duration::from_secs(1));
    let address = deployer.stepped().address();
    let url = format!("http://{address}/api/v1/apps/{TARGET}/devx/{app}/remove");
    let ask = json!({"reason": "moved away", "with_data": true});
    let answer = reqwest::Client::new().post(url).json(&ask).send().await.unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
}

#[tokio::test]
async fn what_others_push_to_a_server_is_listed_when_the_server_was_asked_again() {
    let host = GitHost::start().await;
    let bare = host.create("m.git");
    let mut deployer = behind(&host).await;
    deployer.starts().await;
    assert_eq!(list(&deployer).await, Vec::<String>::new(), "there is no branch yet");
    let shop = deploys(&deployer, "shop", "v1").await;
    assert_eq!(list(&deployer).await, [on("shop", &shop)], "ours at once");
    theirs(&bare);
    assert_eq!(list(&deployer).await, [on("shop", &shop)]);
    deployer.clock.advance(Duration::from_secs(31));
    assert_eq!(list(&deployer).await, [on("shop", &shop), on("theirs", "by hand")]);
    host.behave(crate::harness::git_host::Behaviour::Status(503, None));
    deployer.clock.advance(Duration::from_secs(31));
    assert_eq!(list(&deployer).await.len(), 2, "what is known counts for some minutes");
    deployer.clock.advance(Duration::from_mins(6));
    let url = format!("http://{}/api/v1/apps", deployer.stepped().address());
    let answer = reqwest::Client::new().get(url).send().await.unwrap();
    assert_eq!(answer.status(), 503, "and then nobody is told what may not be so");
    assert!(answer.text().await.unwrap().contains("m.git"));
    deployer.github.settled();
}

fn theirs(bare: &Bare) {
    bare.somebody_writes("manifests/prod-cluster-1/devx/theirs/latest/a.yaml", "kind: A\n");
}

async fn behind(host: &GitHost) -> Deployer {
    let mut deployer = Deployer::prepared().await;
    let url = host.url("m.git");
    deployer.configure(|config| {
        format!(
            "{config}manifests:\n  repositories:\n  - {{name: main, url: \"{url}\", token: {{env: TOKEN}}}}\n"
        )
    });
    deployer.variable("TOKEN", TOKEN);
    deployer
}

/// What `bart status` ends with, and says.
async fn status(deployer: &Deployer, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bart"));
    command.env_clear().arg("status").args(arguments).stdin(std::process::Stdio::null());
    command.env("BART_SERVER", format!("http://{}", deployer.stepped().address()));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let texts = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    (output.status.code(), texts.concat())
}

/// One repository answers, one does no more, and one never did.
#[tokio::test]
async fn one_repository_that_is_down_takes_the_apps_of_no_other() {
    let (near, far) = (GitHost::start().await, GitHost::start().await);
    let (near_bare, far_bare) = (near.create("near.git"), far.create("far.git"));
    // Takes connections, and says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_url = format!("http://{}/silent.git", silent.local_addr().unwrap());
    theirs(&near_bare);
    far_bare.somebody_writes("manifests/prod-2/devx/away/latest/a.yaml", "kind: A\n");
    let mut deployer = Deployer::prepared().await;
    let one = |name: &str, url: String, target: &str| {
        format!(
            "  - {{name: {name}, url: \"{url}\", token: {{env: TOKEN}}, targets: [{target}]}}\n"
        )
    };
    let all = one("silent", silent_url, "prod-0")
        + &one("near", near.url("near.git"), TARGET)
        + &one("far", far.url("far.git"), "prod-2");
    deployer.configure(|config| {
        format!("{config}limits: {{lookups: 4s}}\nmanifests:\n  repositories:\n{all}")
    });
    deployer.variable("TOKEN", TOKEN);
    deployer.starts().await;
    let missing = |page: &Json| {
        let all = page["missing"].as_array().unwrap().clone();
        let name = |one: &Json| one["repository"].as_str().unwrap().to_owned();
        all.iter().map(name).collect::<Vec<_>>()
    };
    let both = get(&deployer, "").await;
    assert_eq!(
        (both["apps"].as_array().unwrap().len(), missing(&both)),
        (2, vec!["silent".into()])
    );
    far.behave(crate::harness::git_host::Behaviour::Status(503, None));
    deployer.clock.advance(Duration::from_mins(6));
    let left = get(&deployer, "").await;
    assert_eq!(missing(&left), ["far", "silent"]);
    assert!(left["missing"][0]["why"].as_str().unwrap().contains("far.git"), "{left}");
    assert_eq!(list(&deployer).await, [on("theirs", "by hand")]);
    let (code, one) = status(&deployer, &["--app", "devx/away", "-t", "prod-2"]).await;
    assert_eq!(code, Some(2), "{one}");
    assert!(one.contains("prod-2  -     -     -   unknown: ") && one.contains("far.git"), "{one}");
    assert!(one.contains("the service waits"), "{one}");
    let (code, all) = status(&deployer, &["--all"]).await;
    assert_eq!(code, Some(0), "{all}");
    assert!(all.contains("devx/theirs") && all.contains("missing: the apps in far: "), "{all}");
    let near = get(&deployer, &format!("?target={TARGET}")).await;
    assert_eq!((near["apps"].as_array().unwrap().len(), missing(&near)), (1, vec![]));
    for target in ["prod-2", "prod-0"] {
        let url = format!("http://{}/api/v1/apps?target={target}", deployer.stepped().address());
        let answer = reqwest::Client::new().get(url).send().await.unwrap();
        assert_eq!(answer.status(), 503, "{target}");
    }
    deployer.github.settled();
}

/// Nobody asks, and what can be read is there.
#[tokio::test]
async fn the_index_is_built_although_a_repository_is_down() {
    let folder = folder::temporary();
    let bare = Bare::create(&folder.path().join("near.git"));
    theirs(&bare);
    let near = bare.0.display();
    let home = Home::configured(&format!(
        "manifests:\n  repositories:\n  \
         - {{name: far, url: \"http://127.0.0.1:9/far.git\", token: {{file: token}}, targets: [prod-2]}}\n  \
         - {{name: near, url: \"{near}\", targets: [{TARGET}]}}\n"
    ));
    std::fs::write(home.path("token"), TOKEN).unwrap();
    let process = home.start().await;
    process
        .line("the index", |line| {
            line["message"] == "index over all apps built" && line["missing"] == 1
        })
        .await;
    assert!(has_apps(&process, 1).await.is_some());
    process.kill();
}

/// The real process: nobody asks, and the index is there.
#[tokio::test]
async fn the_index_is_built_at_the_start_and_kept_current_by_pushes() {
    let home = Home::embedded();
    let process = home.start().await;
    let deployed = Event::of_app(&home, 1, "shop").accepted(&process).await;
    process.ended(&deployed).await;
    process.until("the push in the index", async || has_apps(&process, 1).await).await;
    process.kill();
    let process = home.start().await;
    process.line("the index", |line| line["message"] == "index over all apps built").await;
    let metrics = process.get("/metrics").await.1;
    let seconds = metrics.lines().find_map(|l| l.strip_prefix("the_deployer_index_build_seconds "));
    assert!(seconds.unwrap().parse::<f64>().unwrap() > 0.0, "{metrics}");
    assert!(has_apps(&process, 1).await.is_some(), "{metrics}");
    assert!(metrics.contains("the_deployer_index_targets 1\n"), "{metrics}");
    process.kill();
}

async fn has_apps(process: &crate::harness::process::Process, n: usize) -> Option<()> {
    let (_, metrics) = process.get("/metrics").await;
    metrics.contains(&format!("the_deployer_index_apps {n}\n")).then_some(())
}
