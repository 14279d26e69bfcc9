//! `/api/v1/rollouts`: started, shown, listed, followed and acted on, by whom the rights allow it.

use std::time::Duration;

use jiff::SignedDuration;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::admission::{OURS, configure_people, get_as, post_as};
use super::shop::{ask_as, audited, tokens};
use super::world::{Answer, get, post, request, send};
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::process::client;
use crate::harness::sse::EventReader;

const LIST: &str = "/api/v1/rollouts";
const SHOP: &str = "example/shop";
const MINUTE: SignedDuration = SignedDuration::from_mins(1);
/// What people do to a rollout.
const ACTS: [&str; 6] = ["pause", "resume", "approve", "cancel", "undo", "retry"];

/// A WAML for `dev` and `prod-cluster-1`, with a rollout that a person approves in the middle.
fn two_targets() -> String {
    let two = waml("shop").replace("deploy:\n", "deploy:\n  dev: {}\n");
    format!(
        "{two}rollouts:\n  production:\n    steps:\n    - targets: [dev]\n    - approval: {{team: acme/sre}}\n    \
         - targets: [prod-cluster-1]\n"
    )
}

fn commits(deployer: &Deployer, repository: &str) {
    deployer.github.repository(repository).commit(&two_targets());
}

/// The body that starts one to all targets, and more in it.
fn body(more: &Value) -> Value {
    body_for(SHOP, more)
}

fn body_for(repository: &str, more: &Value) -> Value {
    let mut body = json!({"repository": repository, "ref": "main", "tag": "v1"});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn both() -> Value {
    body(&json!({"targets": ["dev", "prod-*"], "reason": "the sale"}))
}

async fn starts(deployer: &Deployer, body: &Value) -> String {
    // Ids of one moment are in no order.
    deployer.clock.advance(Duration::from_secs(1));
    let answer = post(deployer, LIST, body).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.json()["id"].as_str().unwrap().to_owned()
}

async fn shows(deployer: &Deployer, id: &str) -> Value {
    let answer = get(deployer, &format!("{LIST}/{id}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

fn reason() -> Value {
    json!({"reason": "checkout fails"})
}

async fn acts(deployer: &Deployer, id: &str, act: &str) -> Answer {
    post(deployer, &format!("{LIST}/{id}/{act}"), &reason()).await
}

/// Each target with its state.
fn targets(rollout: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let targets = rollout["targets"].as_array().unwrap().iter();
    targets.map(|one| (text(&one["target"]), text(&one["state"]))).collect()
}

fn pairs(pairs: [(&str, &str); 2]) -> Vec<(String, String)> {
    pairs.map(|(target, state)| (target.to_owned(), state.to_owned())).to_vec()
}

#[tokio::test]
async fn a_dry_run_shows_the_sequence_and_stores_nothing() {
    let deployer = Deployer::start().await;
    commits(&deployer, SHOP);
    let mut ask = both();
    ask["dry_run"] = json!(true);
    ask["bake"] = json!("10m");
    let plan = post(&deployer, LIST, &ask).await;
    assert_eq!(plan.status, 200, "{plan:?}");
    let plan = plan.json();
    let steps = plan["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 3, "{plan:#}");
    assert_eq!(
        (&steps[1]["gate"]["kind"], &plan["shortest_seconds"]),
        (&json!("bake"), &json!(600))
    );
    assert_eq!(
        (&plan["targets"][0]["target"], &plan["targets"][0]["live"]),
        (&json!("dev"), &json!("absent"))
    );
    assert_eq!((&plan["on_failure"], &plan["overlap"]), (&json!("undo"), &Value::Null));
    assert_eq!(get(&deployer, LIST).await.json(), json!({"rollouts": [], "next": null}));
    assert!(audited(&deployer).await.is_empty());
    deployer.settled().await;
}

#[tokio::test]
async fn a_rollout_is_started_shown_and_listed_until_it_is_done() {
    let deployer = Deployer::start().await;
    commits(&deployer, SHOP);
    let id = starts(&deployer, &both()).await;
    let first = shows(&deployer, &id).await;
    assert_eq!((&first["app"], &first["tag"]), (&json!("devx/shop"), &json!("v1")));
    assert_eq!((&first["state"], &first["description"]), (&json!("created"), &json!("the sale")));
    assert_eq!(targets(&first), pairs([("dev", "pending"), ("prod-cluster-1", "pending")]));
    deployer.settle().await;
    let last = shows(&deployer, &id).await;
    assert_eq!((&last["state"], &last["complete"]), (&json!("done"), &json!(2)), "{last:#}");
    assert_eq!(targets(&last), pairs([("dev", "complete"), ("prod-cluster-1", "complete")]));
    let dev = &last["targets"][0];
    let deployment = format!("/api/v1/deployments/{}", dev["deployment"].as_str().unwrap());
    assert_eq!(get(&deployer, &deployment).await.json()["state"], "succeeded");
    let commands = last["commands"].as_array().unwrap();
    let [undo] = commands.as_slice() else { panic!("{commands:?}") };
    assert!(undo["command"].as_str().unwrap().starts_with(&format!("bart rollout undo {id}")));
    assert_eq!(shows(&deployer, last["undo_id"].as_str().unwrap()).await["id"], id.as_str());

    let next = starts(&deployer, &both()).await;
    deployer.settle().await;
    for (query, expected) in [
        ("", vec![&next, &id]),
        ("?app=devx/shop&target=dev&state=done", vec![&next, &id]),
        ("?repository=example/shop&limit=1", vec![&next]),
        (&format!("?limit=1&cursor={next}"), vec![&id]),
        ("?target=moon", vec![]),
        ("?state=paused", vec![]),
        ("?unfinished=true", vec![]),
    ] {
        let page = get(&deployer, &format!("{LIST}{query}")).await.json();
        let ids: Vec<_> =
            page["rollouts"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
        assert_eq!(json!(ids), json!(expected), "{query}: {page:#}");
    }
    get(&deployer, &format!("{LIST}?sate=x")).await.problem(400, "bad-request");
    let entries = audited(&deployer).await;
    let starts: Vec<_> = entries.iter().filter(|entry| entry.act == "rollout").collect();
    assert_eq!((starts.len(), starts[0].reason.as_str()), (2, "the sale"));
    deployer.settled().await;
}

#[tokio::test]
async fn each_refusal_has_its_kind_and_says_what_to_do() {
    let deployer = Deployer::start().await;
    commits(&deployer, SHOP);
    for (more, status, name, says) in [
        (json!({"targets": ["moon"]}), 422, "unprocessable", "moon"),
        (json!({"targets": ["dev", "dev"]}), 422, "unprocessable", "dev"),
        (json!({"name": "nightly"}), 422, "unprocessable", "production"),
        (json!({"name": "production", "targets": ["dev"]}), 422, "unprocessable", "`name`"),
        (json!({}), 422, "unprocessable", "no target is selected"),
        (json!({"targets": ["dev"], "parallel": 0}), 422, "unprocessable", "parallel"),
        (json!({"targets": ["dev"], "bake": "soon"}), 422, "unprocessable", "write it like 90m"),
        (json!({"targets": ["dev"], "ref": "none"}), 422, "unprocessable", "none"),
        (
            json!({"targets": ["dev"], "repository": "example/none"}),
            422,
            "unprocessable",
            "example/none",
        ),
        (json!({"target": "dev"}), 422, "unprocessable", "unknown field `target`"),
    ] {
        let said = post(&deployer, LIST, &body(&more)).await.problem(status, name);
        assert!(said.contains(says), "{more}: {said}");
    }
    let none = format!("{LIST}/r-20261121-054812123-3f9a2c");
    let said = get(&deployer, &none).await.problem(404, "not-found");
    assert_eq!(said, "there is no rollout r-20261121-054812123-3f9a2c");
    for act in ACTS {
        post(&deployer, &format!("{none}/{act}"), &reason()).await.problem(404, "not-found");
    }
    get(&deployer, &format!("{LIST}/x")).await.problem(400, "bad-request");
    let id = starts(&deployer, &both()).await;
    let said = post(&deployer, LIST, &both()).await.problem(409, "conflict");
    assert!(said.contains(&id) && said.contains("queue"), "{said}");
    for (act, says) in
        [("resume", "not paused"), ("undo", "cancel it"), ("approve", "no gate waits")]
    {
        let said = acts(&deployer, &id, act).await.problem(409, "conflict");
        assert!(said.contains(says), "{act}: {said}");
    }
    let blank = post(&deployer, &format!("{LIST}/{id}/pause"), &json!({"reason": " "})).await;
    blank.problem(422, "unprocessable");
    assert_eq!(acts(&deployer, &id, "cancel").await.json()["state"], "cancelled");
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn what_people_do_is_done_and_kept_with_the_reason() {
    let deployer = Deployer::start().await;
    commits(&deployer, SHOP);
    let id = starts(&deployer, &both()).await;
    let paused = acts(&deployer, &id, "pause").await.json();
    assert_eq!((&paused["state"], &paused["reason"]), (&json!("paused"), &json!("checkout fails")));
    assert_eq!(paused["needs_person"], true);
    deployer.settle().await;
    assert_eq!(
        targets(&shows(&deployer, &id).await),
        pairs([("dev", "pending"), ("prod-cluster-1", "pending")])
    );
    assert_eq!(acts(&deployer, &id, "resume").await.json()["state"], "rolling_out");
    deployer.settle().await;
    assert_eq!(shows(&deployer, &id).await["state"], "done");
    assert_eq!(acts(&deployer, &id, "undo").await.json()["state"], "undoing");
    deployer.settle().await;
    let undone = shows(&deployer, &id).await;
    assert_eq!(undone["state"], "undone", "{undone:#}");
    let entries = audited(&deployer).await;
    for act in ["rollout-pause", "rollout-resume", "rollout-undo"] {
        let entry = entries.iter().find(|entry| entry.act == act).unwrap();
        assert_eq!(entry.reason, "checkout fails", "{act}");
        assert!(entry.subject.contains(&id), "{act}: {}", entry.subject);
    }
    deployer.settled().await;
}

#[tokio::test]
async fn a_repeat_with_its_key_starts_nothing_more() {
    let deployer = Deployer::start().await;
    commits(&deployer, SHOP);
    let send_one = async |body: Value| {
        let request = request(&deployer, Method::POST, LIST).header("idempotency-key", "k-1");
        send(request.json(&body)).await
    };
    let first = send_one(both()).await;
    let again = send_one(both()).await;
    assert_eq!((first.status.as_u16(), &again.text), (202, &first.text));
    assert_eq!(again.headers["idempotent-replayed"], "true");
    let mut other = both();
    other["tag"] = json!("v2");
    send_one(other).await.problem(422, "idempotency-key-reused");
    let page = get(&deployer, LIST).await.json();
    assert_eq!(page["rollouts"].as_array().unwrap().len(), 1);
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn it_takes_the_right_to_deploy_to_every_target() {
    let mut deployer = Deployer::prepared().await;
    let rights = [
        ("all", "scope: deploy"),
        ("dev", "scope: deploy, targets: [dev]"),
        ("reader", "scope: read"),
        ("stranger", "scope: deploy, apps: [devx/cart]"),
    ];
    tokens(&mut deployer, &rights);
    deployer.starts().await;
    commits(&deployer, SHOP);
    let said = ask_as(&deployer, "dev", LIST, &both()).await.problem(403, "forbidden");
    assert!(said.contains("prod-cluster-1"), "the one that is missing is named: {said}");
    ask_as(&deployer, "reader", LIST, &both()).await.problem(403, "forbidden");
    let said = ask_as(&deployer, "stranger", LIST, &both()).await.problem(403, "forbidden");
    assert!(
        !said.contains("dev,") && !said.contains("prod-cluster-1"),
        "it learns nothing: {said}"
    );
    let only_dev = body(&json!({"targets": ["dev"]}));
    deployer.clock.advance(Duration::from_secs(1));
    assert_eq!(ask_as(&deployer, "dev", LIST, &only_dev).await.status, 202);
    deployer.settle().await;
    deployer.clock.advance(Duration::from_secs(1));
    // What is no target of the app is answered with the targets that there are.
    for more in [json!({"targets": ["nowhere"]}), json!({"name": "nightly"})] {
        let said = ask_as(&deployer, "all", LIST, &body(&more)).await.problem(422, "unprocessable");
        let lists = said.contains("prod-cluster-1") || said.contains("production");
        assert!(lists, "{said}");
        let said = ask_as(&deployer, "dev", LIST, &body(&more)).await.problem(422, "unprocessable");
        assert!(!said.contains("prod"), "a token for one target learns no other: {said}");
    }
    let id =
        ask_as(&deployer, "all", LIST, &both()).await.json()["id"].as_str().unwrap().to_owned();

    let list = async |token: &str| ask_as(&deployer, token, LIST, &Value::Null).await.json();
    let count = |page: Value| page["rollouts"].as_array().unwrap().len();
    assert_eq!(count(list("all").await), 2);
    assert_eq!(count(list("reader").await), 2);
    assert_eq!(count(list("dev").await), 1, "not the one that is also for another target");
    assert_eq!(count(list("stranger").await), 0);
    let path = format!("{LIST}/{id}");
    for path in [path.clone(), format!("{path}/events")] {
        for token in ["dev", "stranger"] {
            ask_as(&deployer, token, &path, &Value::Null).await.problem(403, "forbidden");
        }
    }
    assert_eq!(ask_as(&deployer, "reader", &path, &Value::Null).await.status, 200);
    for act in ACTS {
        for token in ["dev", "reader", "stranger"] {
            let path = format!("{path}/{act}");
            let said = ask_as(&deployer, token, &path, &reason()).await.problem(403, "forbidden");
            assert!(token != "dev" || said.contains("prod-cluster-1"), "{act}: {said}");
        }
    }
    let shown = ask_as(&deployer, "all", &path, &Value::Null).await.json();
    assert_eq!(shown["version"], 0, "nobody has changed it");
    assert_eq!(ask_as(&deployer, "all", &format!("{path}/cancel"), &reason()).await.status, 200);
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn a_gate_with_a_team_is_for_its_members() {
    let mut deployer = Deployer::prepared().await;
    configure_people(&mut deployer);
    deployer.starts().await;
    commits(&deployer, "acme/shop");
    let github = &deployer.github;
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|login| github.token_of(login));
    github.lets("alice", "acme/shop", "push");
    github.lets("bob", "acme/shop", "pull");
    github.joins("bob", "acme/sre");
    github.joins("carol", "acme/sre");
    let named = body_for("acme/shop", &json!({"name": "production"}));
    post_as(&deployer, &bob, LIST, &named).await.problem(403, "forbidden");
    let said = post_as(&deployer, &carol, LIST, &named).await.problem(403, "forbidden");
    assert!(!said.contains("prod-cluster-1"), "{said}");
    let started = post_as(&deployer, &alice, LIST, &named).await;
    assert_eq!(
        (started.status, &started.json()["name"]),
        (StatusCode::ACCEPTED, &json!("production"))
    );
    let path = format!("{LIST}/{}", started.json()["id"].as_str().unwrap());
    deployer.works_for(MINUTE).await;
    let waiting = get_as(&deployer, &bob, &path).await.json();
    assert_eq!(
        (&waiting["index"], &waiting["steps"][1]["gate"]["team"]),
        (&json!(1), &json!("acme/sre"))
    );
    assert!(waiting["waits"][0]["what"].as_str().unwrap().contains("acme/sre"), "{waiting:#}");
    assert!(waiting["commands"][0]["command"].as_str().unwrap().contains("rollout approve"));

    let approve = format!("{path}/approve");
    let said = post_as(&deployer, &alice, &approve, &reason()).await.problem(403, "forbidden");
    assert!(said.contains("members of acme/sre") && said.contains("alice"), "{said}");
    post_as(&deployer, &carol, &approve, &reason()).await.problem(403, "forbidden");
    let pause = format!("{path}/pause");
    post_as(&deployer, &bob, &pause, &reason()).await.problem(403, "forbidden");
    assert_eq!(post_as(&deployer, &bob, &approve, &reason()).await.status, 200);
    deployer.settle().await;
    let done = get_as(&deployer, OURS, &path).await.json();
    assert_eq!(done["state"], "done", "{done:#}");
    let approval = &done["steps"][1]["gate"]["approval"];
    assert_eq!((&approval["by"], &approval["reason"]), (&json!("bob"), &json!("checkout fails")));
    deployer.settled().await;
}

#[tokio::test]
async fn whoever_loses_the_rights_in_the_middle_acts_no_more_and_the_rollout_goes_on() {
    let mut deployer = Deployer::prepared().await;
    configure_people(&mut deployer);
    deployer.starts().await;
    commits(&deployer, "acme/shop");
    let github = &deployer.github;
    let [alice, bob] = ["alice", "bob"].map(|login| github.token_of(login));
    github.lets("alice", "acme/shop", "push");
    github.lets("bob", "acme/shop", "push");
    github.joins("bob", "acme/sre");
    let named = body_for("acme/shop", &json!({"name": "production"}));
    let started = post_as(&deployer, &alice, LIST, &named).await;
    assert_eq!(started.status, StatusCode::ACCEPTED, "{started:?}");
    let path = format!("{LIST}/{}", started.json()["id"].as_str().unwrap());
    deployer.works_for(MINUTE).await;
    // Alice may only read now; what the service knows of her is no older than that.
    github.lets("alice", "acme/shop", "pull");
    deployer.clock.advance(Duration::from_hours(1));
    for act in ["pause", "resume", "cancel", "undo", "retry"] {
        let act = format!("{path}/{act}");
        post_as(&deployer, &alice, &act, &reason()).await.problem(403, "forbidden");
    }
    let approve = format!("{path}/approve");
    assert_eq!(post_as(&deployer, &bob, &approve, &reason()).await.status, 200);
    deployer.settle().await;
    let done = get_as(&deployer, &bob, &path).await.json();
    assert_eq!((&done["state"], &done["created_by"]), (&json!("done"), &json!("alice")));
    deployer.settled().await;
}

#[tokio::test]
async fn a_program_is_in_no_team_and_an_administrator_in_all() {
    let mut deployer = Deployer::prepared().await;
    tokens(&mut deployer, &[("ci", "scope: deploy"), ("operator", "scope: admin")]);
    deployer.starts().await;
    commits(&deployer, SHOP);
    let named = body(&json!({"name": "production"}));
    let id = ask_as(&deployer, "ci", LIST, &named).await.json()["id"].as_str().unwrap().to_owned();
    deployer.works_for(MINUTE).await;
    let approve = format!("{LIST}/{id}/approve");
    let said = ask_as(&deployer, "ci", &approve, &reason()).await.problem(403, "forbidden");
    assert!(said.contains("is no person"), "{said}");
    assert_eq!(ask_as(&deployer, "operator", &approve, &reason()).await.status, 200);
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn a_program_that_may_start_it_is_refused_at_no_target_that_is_for_a_team() {
    let mut deployer = Deployer::prepared().await;
    configure_people(&mut deployer);
    deployer.configure(|config| {
        let policies = "policies: {deploy_teams: [acme/release]}";
        format!(
            "{config}clusters:\n- {{name: dev, environment: development, domain: d.example.com}}\n\
             - {{name: prod-cluster-1, environment: development, domain: a.example.com, {policies}}}\n"
        )
    });
    deployer.starts().await;
    commits(&deployer, "acme/shop");
    let targets = json!({"targets": ["dev", "prod-*"]});
    let started = post_as(&deployer, OURS, LIST, &body_for("acme/shop", &targets)).await;
    assert_eq!(started.status, 202, "{started:?}");
    deployer.works_for(MINUTE).await;
    let path = format!("{LIST}/{}", started.json()["id"].as_str().unwrap());
    let done = get_as(&deployer, OURS, &path).await.json();
    assert_eq!(done["state"], "done", "{done:#}");
    deployer.settled().await;
}

#[tokio::test]
async fn a_stream_tells_each_state_and_ends_with_the_rollout() {
    let deployer = Deployer::start().await;
    commits(&deployer, SHOP);
    let id = starts(&deployer, &both()).await;
    let url = format!("{}{LIST}/{id}/events", deployer.url());
    let mut events = EventReader::new(client().get(&url).send().await.unwrap());
    let first = events.next().await.unwrap();
    assert_eq!(first.field("event"), "rollout");
    let data: Value = serde_json::from_str(first.field("data")).unwrap();
    assert_eq!((&data["state"], &data["id"]), (&json!("created"), &json!(id)));
    deployer.settle().await;
    let mut last = first;
    while let Some(event) = events.next().await {
        assert_ne!(event.field("id"), last.field("id"), "each is told once");
        last = event;
    }
    let data: Value = serde_json::from_str(last.field("data")).unwrap();
    assert_eq!(data["state"], "done");
    let again = client().get(&url).header("last-event-id", last.field("id")).send().await.unwrap();
    assert_eq!(again.status(), StatusCode::NO_CONTENT);
    deployer.settled().await;
}
