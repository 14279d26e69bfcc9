//! The `OpenAPI` document: whole, kept as a snapshot, and true of what the program answers.

mod stories; // programs to which one thing happens

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value as Json, json};

use super::full::Full;
use super::schema::{seen, wrong};
use super::shop::{FOLDER, SHOP, TARGET, deploys, recovers, tokens};
use super::world::{Answer, get, request, send};
use crate::harness::deployer::Deployer;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");

/// As it is kept, which is as it is served.
fn document() -> Json {
    serde_json::from_str(&std::fs::read_to_string(KEPT).unwrap()).unwrap()
}

/// Path, method and what is said of it.
fn operations(document: &Json) -> Vec<(String, String, Json)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let all = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(|(method, said)| (path.clone(), method.clone(), said.clone()))
    });
    all.collect()
}

#[tokio::test]
async fn the_document_under_docs_is_the_one_that_is_served() {
    let deployer = Deployer::start().await;
    let served = get(&deployer, "/api/v1/openapi.json").await;
    assert_eq!(served.status, 200);
    assert_eq!(served.headers["content-type"], "application/json");
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(KEPT, &served.text).unwrap();
    }
    let kept = std::fs::read_to_string(KEPT).unwrap();
    assert_eq!(kept, served.text, "docs/openapi.json is out of date: run `just update-expected`");
    deployer.settled().await;
}

#[test]
fn it_has_what_openapi_asks_for() {
    let document = document();
    assert_eq!(document["openapi"], "3.1.1");
    assert!(document["info"]["title"].is_string() && document["info"]["version"].is_string());
    let mut names = BTreeSet::new();
    for (path, method, said) in operations(&document) {
        let at = format!("{method} {path}");
        assert!(names.insert(said["operationId"].as_str().unwrap().to_owned()), "{at}: twice");
        assert!(said["summary"].as_str().is_some_and(|text| text.ends_with('.')), "{at}");
        let parameters = said["parameters"].as_array().unwrap();
        let in_path: BTreeSet<_> = parameters
            .iter()
            .filter(|one| one["in"] == "path")
            .map(|one| format!("{{{}}}", one["name"].as_str().unwrap()))
            .collect();
        let wanted: BTreeSet<_> =
            path.split('/').filter(|part| part.starts_with('{')).map(str::to_owned).collect();
        assert_eq!(in_path, wanted, "{at}");
        for one in parameters {
            let place = one["in"].as_str().unwrap();
            assert!(["path", "query", "header"].contains(&place), "{at}: {one}");
            // What is in a path is there; and of nothing there are neither builds nor targets.
            let of_nothing =
                [("get /api/v1/builds", "app"), ("get /api/v1/platform", "repository")];
            let required = place == "path"
                || of_nothing.contains(&(at.as_str(), one["name"].as_str().unwrap()));
            assert_eq!(one["required"], required, "{at}: {one}");
            let schema = one["schema"].as_object().unwrap();
            let bounded = match schema["type"].as_str().unwrap() {
                "string" => {
                    ["pattern", "enum", "format"].iter().any(|key| schema.contains_key(*key))
                }
                _ => schema.contains_key("minimum") && schema.contains_key("maximum"),
            };
            assert!(bounded, "{at}: {one} may be anything");
            assert!(one["schema"]["type"].is_string() && one["description"].is_string(), "{at}");
        }
        assert_eq!(said.get("requestBody").is_some(), method == "post", "{at}");
        let responses = said["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{at}");
        for (status, response) in responses {
            assert!(status.parse::<u16>().is_ok_and(|code| (200..600).contains(&code)), "{at}");
            assert!(response["description"].is_string(), "{at} {status}");
        }
    }
    assert!(names.len() >= 27, "{names:?}");
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_used_and_explained() {
    let document = document();
    let mut used = BTreeSet::new();
    references(&document, &mut used);
    for pointer in &used {
        assert!(document.pointer(pointer).is_some(), "{pointer}");
    }
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for (name, schema) in schemas {
        assert!(used.contains(&format!("/components/schemas/{name}")), "{name} is not used");
        assert!(schema["description"].is_string(), "{name} is not explained");
        for (key, value) in schema["properties"].as_object().into_iter().flatten() {
            let said = value["description"].is_string() || value.get("$ref").is_some();
            assert!(said, "{name}.{key} is not explained");
        }
    }
}

fn references(json: &Json, found: &mut BTreeSet<String>) {
    match json {
        Json::Object(map) => {
            for (key, value) in map {
                if let (true, Some(text)) = (key == "$ref", value.as_str()) {
                    found.insert(text.strip_prefix('#').unwrap().to_owned());
                }
                references(value, found);
            }
        }
        Json::Array(all) => all.iter().for_each(|one| references(one, found)),
        _ => {}
    }
}

#[tokio::test]
async fn whoever_has_no_token_gets_the_document_and_where_to_log_in_and_nothing_else() {
    let mut deployer = Deployer::prepared().await;
    tokens(&mut deployer, &[("ci", "scope: admin")]);
    deployer.starts().await;
    let mut asked = 0;
    for (path, method, said) in operations(&document()) {
        let open = said["security"].as_array().unwrap().is_empty();
        assert_eq!(open, path.ends_with("/openapi.json") || path.ends_with("/forge"), "{path}");
        let path = path.replace(['{', '}'], "");
        let method = method.to_uppercase().parse().unwrap();
        let answer = send(request(&deployer, method, &path)).await;
        if open {
            assert_eq!(answer.status, 200, "{path}");
        } else {
            answer.problem(401, "unauthorized");
            asked += 1;
        }
    }
    assert!(asked >= 25, "{asked}");
    deployer.settled().await;
}

/// The route of an app.
const APP: &str = "/api/v1/apps/{target}/{namespace}/{app}";

/// The document, and what of it was seen to be true.
struct Contract {
    document: Json,
    /// `get /api/v1/apps 200`
    answers: BTreeSet<String>,
    /// `App.live`
    keys: BTreeSet<String>,
}

impl Contract {
    fn new() -> Self {
        Self { document: document(), answers: BTreeSet::new(), keys: BTreeSet::new() }
    }

    /// Looks whether an answer of that route is as the document says.
    fn holds(&mut self, method: &str, route: &str, answer: &Answer) {
        let status = answer.status.as_str();
        let said = &self.document["paths"][route][method]["responses"][status];
        assert!(said.is_object(), "{method} {route} never answers so: {answer:?}");
        let kind = answer.headers["content-type"].to_str().unwrap();
        let schema = &said["content"][kind]["schema"];
        assert!(!schema.is_null(), "{method} {route} {status}: {kind}");
        let json = answer.json();
        self.is_right(&format!("{method} {route} {status}"), &json, &schema.clone());
        if let Some(name) = json["type"].as_str().filter(|_| !answer.status.is_success()) {
            assert!(said_of(&self.document, method, route, status).contains(name), "{name}");
        }
    }

    fn is_right(&mut self, what: &str, json: &Json, schema: &Json) {
        let errors = wrong(json, schema, &self.document);
        assert!(errors.is_empty(), "{what}:\n{}\n{json:#}", errors.join("\n"));
        self.keys.extend(seen(json, schema, &self.document));
        self.answers.insert(what.to_owned());
    }

    /// Whether the document allows that body.
    fn allows(&self, route: &str, body: &Json) -> bool {
        let taken = &self.document["paths"][route]["post"]["requestBody"];
        let schema = &taken["content"]["application/json"]["schema"];
        wrong(body, schema, &self.document).is_empty()
    }

    /// What routes answer with, and nobody has seen.
    fn unseen(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for (path, method, said) in operations(&self.document) {
            for (status, response) in said["responses"].as_object().unwrap() {
                if status.starts_with('2') && response.get("content").is_some() {
                    all.insert(format!("{method} {path} {status}"));
                }
            }
        }
        for (name, schema) in self.document["components"]["schemas"].as_object().unwrap() {
            let keys = schema["properties"].as_object().into_iter().flatten();
            all.extend(keys.map(|(key, _)| format!("{name}.{key}")));
        }
        all.into_iter()
            .filter(|one| !self.answers.contains(one) && !self.keys.contains(one))
            .collect()
    }
}

fn said_of<'d>(document: &'d Json, method: &str, route: &str, status: &str) -> &'d str {
    let said = &document["paths"][route][method]["responses"][status];
    said["description"].as_str().unwrap()
}

/// What is asked beside a path; each is another question.
fn queries(route: &str) -> &'static [&'static str] {
    match route.rsplit('/').next().unwrap() {
        "builds" => &["?app=devx/shop", "?app=devx/shop&limit=1"],
        "platform" => &["?repository=example/shop"],
        "apps" | "audit" | "deployments" => &["", "?limit=1"],
        _ => &[""],
    }
}

/// Every question that is answered with JSON, of everything that there is.
async fn everything_is_read(full: &Full, contract: &mut Contract) {
    let mut deployments = full.deployer.deployments().await;
    let deployments: Vec<String> = deployments.drain(..).map(|one| one.id.to_string()).collect();
    assert_eq!(deployments.len(), 7);
    for (route, method, said) in operations(&contract.document) {
        let is_json = said["responses"]["200"]["content"].get("application/json").is_some();
        // No cluster is watched here, and nothing was rolled out.
        let is_elsewhere =
            ["/pods", "/rollouts/", "/clusters/"].iter().any(|part| route.contains(part));
        if method != "get" || !is_json || is_elsewhere {
            continue;
        }
        let ids = match &route {
            route if route.contains("{id}") => &deployments[..],
            route if route.contains("{revision}") => &full.ids,
            _ => &full.ids[..1],
        };
        for id in ids {
            for query in queries(&route) {
                let path = route
                    .replace("{id}", id)
                    .replace("{revision}", id)
                    .replace("{target}", TARGET)
                    .replace("{namespace}", "devx")
                    .replace("{app}", "shop");
                let answer = full.get(&format!("{path}{query}")).await;
                assert_eq!(answer.status, 200, "{path}: {answer:?}");
                contract.holds("get", &route, &answer);
            }
        }
    }
    let route = "/api/v1/deployments/{id}";
    let gone = full.get("/api/v1/deployments/20261121-054812123-3f9a2c").await;
    gone.problem(404, "not-found");
    contract.holds("get", route, &gone);
    // Argo CD has heard of it.
    let cart = full.get(&SHOP.replace("shop", "cart")).await;
    contract.holds("get", APP, &cart);
    let heard = full.get(&format!("/api/v1/deployments/{}/events", full.rollback)).await;
    let data = heard.text.lines().find_map(|line| line.strip_prefix("data:")).unwrap();
    let route = "/api/v1/deployments/{id}/events";
    let said = &contract.document["paths"][route]["get"]["responses"]["200"];
    let schema = said["content"]["text/event-stream"]["schema"].clone();
    let picture = serde_json::from_str(data).unwrap();
    contract.is_right(&format!("get {route} 200"), &picture, &schema);
}

/// Everything that can be done, and some of what is refused.
async fn everything_is_done(full: &Full, contract: &mut Contract) {
    let locks = full.get("/api/v1/locks").await.json();
    let why = json!({"reason": "it is over"});
    for lock in locks["locks"].as_array().unwrap() {
        let path = format!("/api/v1/locks/{}/remove", lock["id"].as_str().unwrap());
        let gone = does(full, contract, "/api/v1/locks/{id}/remove", &path, &why).await;
        assert_eq!(gone.status, 200);
    }
    let of = |app: &str, act: &str| {
        (format!("{APP}/{act}"), format!("/api/v1/apps/{TARGET}/devx/{app}/{act}"))
    };
    let changed = full.waml("shop").replace("minReplicas: 3", "minReplicas: 4");
    let broken = changed.replace("number: 8000", "number: 80000");
    let plan = |waml: &str| json!({"repository": "example/shop", "target": TARGET, "tag": "v2", "ref": "main", "waml": waml});
    let builds = json!({"repository": "example/shop", "waml": changed, "limit": 1});
    let again = json!({"reason": "it was good", "to": full.ids[2], "dry_run": true});
    let only_say = json!({"reason": "it is over", "dry_run": true, "with_data": true});
    let with_data = json!({"reason": "it is over", "with_data": true});
    let deploy =
        json!({"repository": "example/shop", "ref": "main", "tag": "v4", "target": TARGET});
    let lock = json!({"scope": {"target": "dev", "app": "devx/shop"}, "reason": "x"});
    let same = |path: &str| (path.to_owned(), path.to_owned());
    let cancel = format!("/api/v1/deployments/{}/cancel", full.waits);
    let cancel = || ("/api/v1/deployments/{id}/cancel".to_owned(), cancel.clone());
    let import = json!({"waml": full.waml("shop")});
    let (route, path) = of("shop", "import-edit");
    let of_first = json!({"waml": full.waml("shop"), "deployment": full.ids[0]});
    let nothing = does(full, contract, &route, &path, &of_first).await;
    assert_eq!(nothing.status, 404, "{nothing:?}");
    let refused = json!({"waml": full.waml("shop").replace("number: 8000", "number: 80000")});
    let bare = full.deployer.manifests();
    let files = ["service", "horizontalpodautoscaler"];
    let files = files.map(|name| format!("{FOLDER}/latest/{name}.yaml"));
    let texts = files.clone().map(|file| bare.files()[&file].clone());
    let edit = |text: &str| {
        let text = text.replace("spec:\n  selector", "spec:\n  type: LoadBalancer\n  selector");
        text.replace("maxReplicas: 10", "maxReplicas: 14")
    };
    for step in 0..3 {
        // The edit that was replaced, then one that is there, then the WAML is broken.
        for (file, text) in files.iter().zip(&texts).filter(|_| step == 1) {
            bare.somebody_writes(file, &edit(text));
        }
        full.deployer.clock.advance(Duration::from_mins(1));
        let body = if step == 2 { &refused } else { &import };
        let imported = does(full, contract, &route, &path, body).await;
        assert_eq!(imported.status, 200, "{imported:?}");
    }
    for (file, text) in files.iter().zip(&texts) {
        bare.somebody_writes(file, text);
    }
    full.deployer.clock.advance(Duration::from_mins(1));
    for ((route, path), body, status) in [
        (of("shop", "import-edit"), &json!({"raml": "x"}), "422"),
        (cancel(), &why, "200"),
        (cancel(), &why, "409"),
        (of("shop", "release"), &why, "200"),
        (of("shop", "release"), &why, "404"),
        (of("shop", "hold"), &json!({"raeson": "x"}), "422"),
        (of("shop", "hold"), &why, "200"),
        (of("shop", "secrets"), &json!({"act": "set", "keys": ["db/password"]}), "200"),
        (of("shop", "secrets"), &json!({"act": "set", "keys": ["db"]}), "422"),
        (of("shop", "secrets"), &json!({"act": "set", "keys": []}), "422"),
        (of("shop", "secrets"), &json!({"act": "set", "keys": ["db/a"], "value": "x"}), "422"),
        (same("/api/v1/locks"), &lock, "201"),
        (same("/api/v1/locks"), &json!({"scope": {}, "reason": "x", "more": 1}), "422"),
        (same("/api/v1/plan"), &plan(&changed), "200"),
        (same("/api/v1/plan"), &plan(&broken), "200"),
        (same("/api/v1/builds"), &builds, "200"),
        (same("/api/v1/deployments"), &deploy, "409"),
        (of("shop", "rollback"), &again, "200"),
        (of("shop", "rollback"), &why, "202"),
        (of("shop", "remove"), &why, "409"),
        (of("cart", "rollback"), &only_say, "200"),
        (of("cart", "remove"), &why, "409"),
        (of("cart", "remove"), &only_say, "200"),
        (of("cart", "remove"), &with_data, "200"),
        (of("cart", "remove"), &why, "200"),
    ] {
        let answer = does(full, contract, &route, &path, body).await;
        assert_eq!(answer.status.as_str(), status, "{path}: {answer:?}");
    }
    full.loses_image();
    let (route, path) = same("/api/v1/builds");
    let lost = does(full, contract, &route, &path, &builds).await.json();
    assert!(
        lost["notes"][0].as_str().unwrap().starts_with("v2 is live, and the registry"),
        "{lost}"
    );
}

async fn does(
    full: &Full,
    contract: &mut Contract,
    route: &str,
    path: &str,
    body: &Json,
) -> Answer {
    let answer = full.ask(path, body).await;
    assert_eq!(contract.allows(route, body), answer.status != 422, "{path} {body}");
    contract.holds("post", route, &answer);
    answer
}

/// What these programs never say: nobody reads through the agent, no log breaks off, their templates are built in, their manifest repository is there, the clusters'
/// time is of a file that is kept, no revision fails in its cluster, no rollout waits for one, and a stream of events stays open as long as its deployment waits.
const UNSEEN: [&str; 81] = [
    "AgentLogRequest.app",
    "AgentLogRequest.container",
    "AgentLogRequest.follow",
    "AgentLogRequest.id",
    "AgentLogRequest.lines",
    "AgentLogRequest.namespace",
    "AgentLogRequest.pod",
    "AgentLogRequest.previous",
    "AgentLogRequests.logs",
    "AppPage.missing",
    "AppPart.address",
    "AppPart.app",
    "AppPart.app_name",
    "AppPart.deployment",
    "AppPart.state",
    "AppPart.summary",
    "CanaryForecast.interval_seconds",
    "CanaryForecast.minimum_seconds",
    "CanaryForecast.mirror",
    "CanaryForecast.rollback_seconds",
    "CanaryForecast.steps",
    "CanaryForecast.strategy",
    "CanaryForecast.threshold",
    "CanarySample.at",
    "CanarySample.failed_checks",
    "CanarySample.phase",
    "CanarySample.reason",
    "CanarySample.threshold",
    "CanarySample.weight",
    "CanarySample.workload",
    "CanaryStep.after_seconds",
    "CanaryStep.weight",
    "ClusterPart.address",
    "ClusterPart.cluster",
    "ClusterPart.commit",
    "ClusterPart.deployment",
    "ClusterPart.state",
    "ClusterPart.summary",
    "ClusterPart.waiting",
    "ClusterPlan.changes",
    "ClusterPlan.cluster",
    "ClusterPlan.digest",
    "ClusterPlan.notes",
    "ClusterPlan.outcome",
    "ClusterSnapshot.fleets",
    "ClusterSnapshot.taken_at",
    "ContainerLogLine.error",
    "Deployment.app_name",
    "Deployment.fleet",
    "Deployment.parent",
    "Deployment.templates_commit",
    "DeploymentDetail.app_name",
    "DeploymentDetail.apps",
    "DeploymentDetail.canary",
    "DeploymentDetail.clusters",
    "DeploymentDetail.fleet",
    "DeploymentDetail.parent",
    "DeploymentDetail.templates_commit",
    "DeploymentPicture.app_name",
    "DeploymentPicture.apps",
    "DeploymentPicture.clusters",
    "DeploymentPicture.fleet",
    "DeploymentPicture.parent",
    "DeploymentPicture.rollout",
    "DeploymentPicture.templates_commit",
    "DeploymentPicture.waiting",
    "Live.app_name",
    "MissingRepository.repository",
    "MissingRepository.why",
    "Plan.canary",
    "Plan.clusters",
    "Revision.failed",
    "RevisionDetail.failed",
    "RevisionFailure.at",
    "RevisionFailure.deployment",
    "RevisionFailure.summary",
    "RolloutDetail.moved_to",
    "RolloutFigures.undo_percent",
    "RolloutGateState.passes_at",
    "RolloutWaitSummary.last_event",
    "TargetOverview.clusters",
];

#[tokio::test]
async fn answers_are_what_the_document_says() {
    let (full, mut contract) = (Full::start().await, Contract::new());
    everything_is_read(&full, &mut contract).await;
    everything_is_done(&full, &mut contract).await;
    Box::pin(full.settled()).await;
    stories::one_is_asked_for_here(&mut contract).await;
    Box::pin(stories::one_is_rolled_out(&mut contract)).await;
    Box::pin(stories::one_waits_for_its_cluster(&mut contract)).await;
    Box::pin(stories::one_is_reported_by_an_agent(&mut contract)).await;
    let unseen = contract.unseen();
    assert_eq!(unseen.iter().map(String::as_str).collect::<Vec<_>>(), UNSEEN);
}

#[tokio::test]
async fn an_app_is_shown_with_what_is_live_what_goes_on_and_what_stops_it() {
    let full = Full::start().await;
    let app = full.get(SHOP).await.json();
    let [_, second, third] = &full.ids[..] else { panic!("three") };
    assert_eq!((&app["live"]["revision"], &app["live"]["tag"]), (&json!(second), &json!("v2")));
    assert_eq!(app["live"]["actor"], "octocat", "who deployed the revision");
    assert_eq!(app["under_way"][0]["id"], json!(full.waits));
    assert_eq!(
        (&app["last"]["id"], &app["last"]["state"]),
        (&json!(full.rollback), &json!("succeeded"))
    );
    let rollback = &app["live"]["rollback"];
    assert_eq!((&rollback["from"], &rollback["by"]), (&json!(third), &json!("operator")));
    assert_eq!(rollback["reason"], "v3 loses orders");
    assert_eq!((&app["hold"]["by"], &app["hold"]["to"]), (&json!("operator"), &json!("v2")));
    let scopes: Vec<_> =
        app["locks"].as_array().unwrap().iter().map(|lock| lock["scope"].clone()).collect();
    let wanted = json!([
        {"everything": true},
        {"target": TARGET},
        {"owner": "squad@example.com"},
        {"target": TARGET, "app": "devx/shop"},
    ]);
    assert_eq!(json!(scopes), wanted);
    let why = format!("Argo CD of {TARGET} does not take this event: it answered 413");
    assert_eq!(app["sync"], json!({"state": "given-up", "why": why, "told_at": null}));
    let history = full.get(&format!("{SHOP}/revisions")).await.json();
    let shown =
        |one: &Json| (one["id"].clone(), one["live"].clone(), one["rolled_back"]["by"].clone());
    let revisions: Vec<_> = history["revisions"].as_array().unwrap().iter().map(shown).collect();
    assert_eq!(revisions[0], (json!(third), json!(false), json!("operator")));
    assert_eq!(revisions[1], (json!(second), json!(true), Json::Null));
    let last = full.get(&format!("/api/v1/deployments/{third}")).await.json();
    assert!(last["hand_edit"]["diff"].as_str().unwrap().contains("# by hand"), "{last}");
    Box::pin(full.settled()).await;
}

#[tokio::test]
async fn a_secret_in_a_revision_is_not_shown() {
    let deployer = Deployer::start().await;
    let id = deploys(&deployer, "v1").await;
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: shop\nstringData:\n  a: hunter2\n";
    deployer.manifests().somebody_writes(&format!("{FOLDER}/{id}/secret.yaml"), secret);
    let answer = get(&deployer, &format!("{SHOP}/revisions/{id}")).await;
    assert!(!answer.text.contains("hunter2"), "{}", answer.text);
    let files = answer.json()["files"].clone();
    let files: BTreeMap<_, _> = files
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file["name"].as_str().unwrap(), &file["text"]))
        .collect();
    assert_eq!(files["secret.yaml"], &Json::Null);
    assert!(files["service.yaml"].as_str().unwrap().contains("kind: Service\n"), "{files:?}");
    deployer.settled().await;
}

#[tokio::test]
async fn what_there_is_not_of_an_app_is_said() {
    let deployer = Deployer::start().await;
    deploys(&deployer, "v1").await;
    let other = get(&deployer, "/api/v1/apps/dev/devx/shop").await.problem(404, "not-found");
    assert_eq!(other, "there is no devx/shop on dev");
    get(&deployer, "/api/v1/apps/dev/devx/shop/revisions").await.problem(404, "not-found");
    let pruned = get(&deployer, &format!("{SHOP}/revisions/20261121-000000001-abcdef")).await;
    assert!(pruned.problem(404, "not-found").contains("five are kept"));
    get(&deployer, "/api/v1/apps/prod/devx/Shop").await.problem(400, "bad-request");
    get(&deployer, &format!("{SHOP}/revisions/x")).await.problem(400, "bad-request");
    deployer.stepped().store().close().await;
    let said = get(&deployer, SHOP).await.problem(503, "unavailable");
    assert_eq!(said, "the app cannot be read now; try again later");
    recovers(deployer).await;
}

#[tokio::test]
async fn a_body_that_is_no_map_is_refused_in_words_of_ours() {
    let deployer = Deployer::start().await;
    let id = deploys(&deployer, "v1").await;
    let mut asked = 0;
    for (path, method, _) in operations(&document()) {
        // Agents have tokens of their own: tests/progress/agent.rs sends such a body.
        if method != "post" || path.contains("/clusters/") {
            continue;
        }
        let real = path
            .replace("locks/{id}", "locks/0123abcd")
            .replace("rollouts/{id}", "rollouts/r-20261121-054812123-3f9a2c")
            .replace("{id}", &id)
            .replace("{target}", TARGET)
            .replace("{namespace}", "devx")
            .replace("{app}", "shop");
        let request = request(&deployer, Method::POST, &real);
        let request = request.header("content-type", "application/json").body("\"x\"");
        let told = send(request).await.problem(422, "unprocessable");
        assert!(told.contains("expected a map") && !told.contains("struct"), "{path}: {told}");
        asked += 1;
    }
    assert!(asked >= 10, "{asked}");
    deployer.settled().await;
}

#[tokio::test]
async fn what_targets_offer_is_not_sent_again_while_nothing_has_changed() {
    let deployer = Deployer::start().await;
    let path = "/api/v1/platform?repository=example/shop";
    let first = get(&deployer, path).await;
    assert_eq!(first.status, 200);
    deployer.clock.advance(Duration::from_hours(1));
    let again =
        request(&deployer, Method::GET, path).header("if-none-match", &first.headers["etag"]);
    let again = send(again).await;
    assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""));
    deployer.settled().await;
}
