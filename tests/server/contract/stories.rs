//! What programs answer beside the one that has everything: what happens to them, each answer held against the document.

use std::time::Duration;

use jiff::SignedDuration;
use reqwest::Method;
use serde_json::{Value as Json, json};
use the_deployer::model::deploy_clock::DeployMark;

use super::{APP, Contract};
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::progress::cluster::{Watched, crashing_pod, pod_name};
use crate::server::shop::{SHOP, TARGET};
use crate::server::world::{get, post, request, send};

/// Where there is no GitHub, deployments are asked for here.
pub(super) async fn one_is_asked_for_here(contract: &mut Contract) {
    let mut deployer = Deployer::prepared_local().await;
    deployer.starts().await;
    let repository = deployer.service_repository("example/shop");
    repository.somebody_writes(".weave.yaml", &waml("shop"));
    let route = "/api/v1/deployments";
    let ask = json!({
        "repository": "example/shop", "ref": "main", "tag": "v1", "target": TARGET,
        "description": "for the fair",
    });
    let asked = post(&deployer, route, &ask).await;
    assert!(asked.status == 202 && contract.allows(route, &ask), "{asked:?}");
    contract.holds("post", route, &asked);
    deployer.settle().await;
    let id = asked.json()["id"].as_str().unwrap().to_owned();
    for (route, path) in [
        ("/api/v1/forge", "/api/v1/forge".to_owned()),
        ("/api/v1/platform", "/api/v1/platform?repository=example/shop".to_owned()),
        ("/api/v1/whoami", "/api/v1/whoami".to_owned()),
        (APP, SHOP.to_owned()),
        (&format!("{APP}/revisions"), format!("{SHOP}/revisions")),
        (&format!("{APP}/revisions/{{revision}}"), format!("{SHOP}/revisions/{id}")),
    ] {
        contract.holds("get", route, &get(&deployer, &path).await);
    }
    deployer.settled().await;
}

/// A release that goes to two targets, meets what there is on its way, and comes back.
pub(super) async fn one_is_rolled_out(contract: &mut Contract) {
    const LIST: &str = "/api/v1/rollouts";
    const ONE: &str = "/api/v1/rollouts/{id}";
    const MINUTE: SignedDuration = SignedDuration::from_mins(1);
    let mut deployer = Deployer::prepared_local().await;
    deployer.starts().await;
    let two = waml("shop").replace("deploy:\n", "deploy:\n  dev: {}\n");
    let broken =
        two.replace(&format!("  {TARGET}:\n"), &format!("  {TARGET}:\n    template: none\n"));
    let text = format!(
        "{broken}rollouts:\n  production:\n    steps:\n    - targets: [dev]\n    - approval: {{team: acme/sre}}\n    \
         - http: {{url: 'https://shop.example.com/health', timeout: 10m}}\n    - targets: [{TARGET}]\n"
    );
    deployer.service_repository("example/shop").somebody_writes(".weave.yaml", &text);
    let body = |tag: &str, more: Json| {
        let mut body = json!({"repository": "example/shop", "ref": "main", "tag": tag});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let deploys = async |tag: &str| {
        let answer =
            post(&deployer, "/api/v1/deployments", &body(tag, json!({"target": "dev"}))).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        deployer.settle().await;
        deployer.clock.advance(Duration::from_secs(1));
    };
    let starts = async |contract: &mut Contract, body: Json| {
        deployer.clock.advance(Duration::from_secs(1));
        let answer = post(&deployer, LIST, &body).await;
        assert!(answer.status.is_success() && contract.allows(LIST, &body), "{answer:?}");
        contract.holds("post", LIST, &answer);
        answer.json()["id"].as_str().unwrap_or_default().to_owned()
    };
    let reads = async |contract: &mut Contract, id: &str| {
        let answer = get(&deployer, &format!("{LIST}/{id}")).await;
        contract.holds("get", ONE, &answer);
        answer.json()
    };
    let acts = async |contract: &mut Contract, id: &str, act: &str, status: u16| {
        let (route, body) = (format!("{ONE}/{act}"), json!({"reason": "checkout fails"}));
        let answer = post(&deployer, &format!("{LIST}/{id}/{act}"), &body).await;
        assert_eq!(answer.status, status, "{act}: {answer:?}");
        assert!(contract.allows(&route, &body));
        contract.holds("post", &route, &answer);
    };
    deploys("v1").await;
    let lock = json!({"scope": {"target": TARGET}, "reason": "the books are closed"});
    let lock = post(&deployer, "/api/v1/locks", &lock).await.json()["id"].clone();
    let named = json!({"name": "production", "reason": "the sale"});
    let id = starts(contract, body("v2", named)).await;
    for more in [
        json!({"name": "production", "dry_run": true}),
        json!({"targets": ["*"], "bake": "10m", "dry_run": true}),
    ] {
        starts(contract, body("v2", more)).await;
    }
    let _started = deployer.stepped().advance_rollouts().await.unwrap();
    assert_eq!(reads(contract, &id).await["waits"][0]["target"], "dev");
    deployer.works_for(MINUTE).await;
    acts(contract, &id, "approve", 200).await;
    deployer.works_for(MINUTE).await;
    assert_eq!(reads(contract, &id).await["steps"][2]["gate"]["answer"]["result"], "unanswered");
    deployer.works_for(MINUTE * 11).await;
    let back = reads(contract, &id).await;
    let states = [&back["state"], &back["targets"][0]["state"]];
    assert_eq!(states, ["undone", "undone"]);
    let unlock = format!("/api/v1/locks/{}/remove", lock.as_str().unwrap());
    assert_eq!(post(&deployer, &unlock, &json!({"reason": "over"})).await.status, 200);
    let more = json!({"targets": ["*"], "on_failure": "pause", "timeout": "15m", "parallel": 1});
    let id = starts(contract, body("v3", more)).await;
    acts(contract, &id, "pause", 200).await;
    acts(contract, &id, "resume", 200).await;
    deployer.settle().await;
    assert!(reads(contract, &id).await["targets"][1]["failure"].is_string());
    acts(contract, &id, "retry", 200).await;
    deployer.settle().await;
    deploys("v4").await;
    acts(contract, &id, "undo", 200).await;
    deployer.settle().await;
    acts(contract, &id, "undo", 409).await;
    let id = starts(contract, body("v5", json!({"targets": ["dev"], "labels": {}}))).await;
    acts(contract, &id, "cancel", 200).await;
    deployer.settle().await;
    contract.holds("get", "/api/v1/deployments", &get(&deployer, "/api/v1/deployments").await);
    let newest = get(&deployer, "/api/v1/deployments?tag=v3&limit=1").await.json();
    let one = &newest["deployments"][0]["id"];
    let one = get(&deployer, &format!("/api/v1/deployments/{}", one.as_str().unwrap())).await;
    contract.holds("get", "/api/v1/deployments/{id}", &one);
    for query in ["", "?limit=1", "?state=undone"] {
        contract.holds("get", LIST, &get(&deployer, &format!("{LIST}{query}")).await);
    }
    let events = get(&deployer, &format!("{LIST}/{id}/events")).await;
    let data = events.text.lines().find_map(|line| line.strip_prefix("data:")).unwrap();
    let route = "/api/v1/rollouts/{id}/events";
    let said = &contract.document["paths"][route]["get"]["responses"]["200"];
    let schema = said["content"]["text/event-stream"]["schema"].clone();
    let picture = serde_json::from_str(data).unwrap();
    contract.is_right(&format!("get {route} 200"), &picture, &schema);
    deployer.settled().await;
}

/// One that is pushed, and cannot run in its cluster.
pub(super) async fn one_waits_for_its_cluster(contract: &mut Contract) {
    let deployer = Deployer::prepared().await;
    let world = Watched::start(deployer, "").await;
    let shop = world.app("shop");
    let id = world.push(&shop, "v1").await;
    let failing = world.crashes(id, "shop").await;
    // The clock of its Argo CD is years ahead.
    let commit = failing.pushed.unwrap().commit.to_string();
    world.server.apply(json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {
            "namespace": "argocd", "name": format!("{TARGET}.devx.shop"),
            "labels": {"app.kubernetes.io/managed-by": "the-deployer"},
        },
        "status": {
            "sync": {"status": "Synced", "revision": commit}, "reconciledAt": "2031-11-21T05:48:12Z",
        },
    }));
    let failing =
        world.until(id, "synced", |one| one.marks.get(DeployMark::Synced).is_some()).await;
    for (route, path) in [
        ("/api/v1/deployments", "/api/v1/deployments?state=progressing".to_owned()),
        ("/api/v1/deployments/{id}", format!("/api/v1/deployments/{}", failing.id)),
        (APP, SHOP.to_owned()),
    ] {
        contract.holds("get", route, &get(&world.deployer, &path).await);
    }
    pods_are_asked_for(&world, contract).await;
    world.recovers(id, "shop").await;
    world.ends().await;
}

/// The pods of the app, those that may not be seen, and a log.
async fn pods_are_asked_for(world: &Watched, contract: &mut Contract) {
    let (route, path) = (format!("{APP}/pods"), format!("{SHOP}/pods"));
    let mut pod = crashing_pod("shop", 1);
    pod["metadata"]["creationTimestamp"] = json!("2026-11-21T05:48:12Z");
    world.server.apply(pod);
    contract.holds("get", &route, &get(&world.deployer, &path).await);
    world.server.edit(|cluster| cluster.forbidden.insert(("list", "jobs")));
    contract.holds("get", &route, &get(&world.deployer, &path).await);
    world.server.edit(|cluster| cluster.forbidden.clear());
    let unwatched = get(&world.deployer, &path.replace("prod-cluster-1", "elsewhere")).await;
    unwatched.problem(404, "not-found");
    contract.holds("get", &route, &unwatched);
    let log = format!("{path}/{}/log", pod_name("shop", 1));
    let log = get(&world.deployer, &log).await;
    let route = format!("{APP}/pods/{{pod}}/log");
    let said = &contract.document["paths"][&route]["get"]["responses"]["200"];
    let schema = said["content"]["text/event-stream"]["schema"].clone();
    for data in log.text.lines().filter_map(|line| line.strip_prefix("data:")) {
        let line = serde_json::from_str(data).unwrap();
        contract.is_right(&format!("get {route} 200"), &line, &schema);
    }
}

/// What an agent asks and sends that lets callers read logs.
async fn the_agent_asks_for_logs(contract: &mut Contract, world: &Watched, token: &str) {
    const WANTED: &str = "/api/v1/clusters/{cluster}/log-requests";
    const PART: &str = "/api/v1/clusters/{cluster}/logs/{id}";
    let path = WANTED.replace("{cluster}", TARGET);
    let answer = send(request(&world.deployer, Method::GET, &path).bearer_auth(token)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.json()["logs"], json!([]), "nobody reads any");
    contract.holds("get", WANTED, &answer);
    let path = PART.replace("{cluster}", TARGET).replace("{id}", "0a1b");
    let part = json!({"number": 0, "lines": ["one"], "end": "failed", "reason": "it broke"});
    assert!(contract.allows(PART, &part));
    for (token, status) in [(token, 200), ("wrong-0123456789-0123456789", 401)] {
        let request = request(&world.deployer, Method::POST, &path).bearer_auth(token);
        let answer = send(request.json(&part)).await;
        assert_eq!(answer.status, status, "{answer:?}");
        contract.holds("post", PART, &answer);
    }
}

/// A cluster with an agent, as the document describes its reports.
pub(super) async fn one_is_reported_by_an_agent(contract: &mut Contract) {
    const ROUTE: &str = "/api/v1/clusters/{cluster}/observations";
    let token = "of-the-agent-0123456789";
    let mut deployer = Deployer::prepared().await;
    deployer.variable("AGENT_TOKEN", token);
    deployer.configure(|config| {
        format!(
            "{config}clusters:\n- {{name: {TARGET}, environment: production, domain: example.com, \
             agent: {{token: {{env: AGENT_TOKEN}}}}}}\n"
        )
    });
    let world = Watched::start_configured(deployer).await;
    let path = ROUTE.replace("{cluster}", TARGET);
    let change = json!({"change": "list-begun", "kind": "Pod"});
    let kind =
        json!({"kind": "Pod", "state": "unseen", "since": "2026-11-21T05:48:12Z", "reason": "no"});
    let report = json!({
        "agent": "a", "version": "0.1.0", "generation": 1, "sequence": 1, "changes": [change],
        "kinds": [kind], "last": false,
    });
    assert!(contract.allows(ROUTE, &report));
    let mut is_taken = false;
    for _ in 0..1000 {
        let request = request(&world.deployer, Method::POST, &path).bearer_auth(token);
        let answer = send(request.json(&report)).await;
        contract.holds("post", ROUTE, &answer);
        is_taken = answer.status == 200;
        if is_taken {
            break;
        }
        // The loop begins to follow the cluster.
        assert_eq!(answer.status, 421);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(is_taken);
    the_agent_asks_for_logs(contract, &world, token).await;
    let other = json!({"agent": "b", "generation": 1, "sequence": 1});
    assert!(contract.allows(ROUTE, &other));
    for (token, status) in [(token, 409), ("wrong-0123456789-0123456789", 401)] {
        let request = request(&world.deployer, Method::POST, &path).bearer_auth(token);
        let answer = send(request.json(&other)).await;
        assert_eq!(answer.status, status);
        contract.holds("post", ROUTE, &answer);
    }
    world.stop.cancel();
    world.deployer.settled().await;
}
