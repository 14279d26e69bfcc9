//! The `OpenAPI` document: whole, kept as a snapshot, and true of what routes answer.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value as Json, json};

use super::records::{app_now, ended, id, spot};
use super::schema::wrong;
use super::world::{World, world, world_with};
use crate::server::Limits;
use crate::server::auth::{Token, Tokens};

async fn document(world: &World) -> Json {
    let answer = world.get("/api/v1/openapi.json").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["content-type"], "application/json");
    answer.json()
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
#[expect(clippy::disallowed_methods, reason = "snapshots are rewritten where a variable says so")]
async fn the_document_under_docs_is_the_one_that_is_served() {
    let served = world().get("/api/v1/openapi.json").await.text;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(path, &served).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap();
    assert_eq!(kept, served, "docs/openapi.json is out of date: run `just update-expected`");
}

#[tokio::test]
async fn it_has_what_openapi_asks_for() {
    let document = document(&world()).await;
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
    assert!(names.len() >= 9, "{names:?}");
}

#[tokio::test]
async fn every_reference_leads_somewhere_and_every_schema_is_used_and_explained() {
    let document = document(&world()).await;
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
    let tokens = Tokens(vec![Token::of_text("ci", "t0ken-text")]);
    let world = world_with(Limits::default(), tokens);
    let document = document(&world).await;
    let mut asked = 0;
    for (path, method, said) in operations(&document) {
        let open = said["security"].as_array().unwrap().is_empty();
        assert_eq!(open, path.ends_with("/openapi.json") || path.ends_with("/forge"), "{path}");
        if !open {
            let path = path.replace(['{', '}'], "");
            let request = Request::builder().method(method.to_uppercase().as_str()).uri(path);
            let answer = world.send(request.body(Body::empty()).unwrap()).await;
            answer.problem(401, "unauthorized");
            asked += 1;
        }
    }
    assert!(asked >= 8);
}

/// A world with a deployment that has everything, and an app that has.
async fn full() -> World {
    let world = world();
    assert_eq!(world.deliver("d-1", "prod").await.status, 202);
    assert_eq!(world.deliver("d-2", "prod").await.status, 202);
    let mut inner = world.fake.inner.lock().unwrap();
    let last = ended(inner.stored[0].1.clone());
    inner.stored[0].1 = last.clone();
    inner.app = Some(app_now(last));
    drop(inner);
    world
}

#[tokio::test]
async fn answers_are_what_the_document_says() {
    let world = full().await;
    let document = document(&world).await;
    let deployment = world.fake.inner.lock().unwrap().stored[0].1.id.to_string();
    let revision = id(7).to_string();
    let mut seen = BTreeSet::new();
    for (path, method, said) in operations(&document) {
        let content = &said["responses"]["200"]["content"]["application/json"];
        if method != "get" || content.is_null() {
            continue;
        }
        let real = path
            .replace("{id}", &deployment)
            .replace("{revision}", &revision)
            .replace("{target}", spot().target.as_str())
            .replace("{namespace}", spot().app.namespace.as_str())
            .replace("{app}", spot().app.slug.as_str());
        let query = match path.rsplit('/').next().unwrap() {
            "builds" => "?app=devx/my-app",
            "platform" => "?repository=acme/shop",
            _ => "",
        };
        let answer = world.get(&format!("{real}{query}")).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        let errors = wrong(&answer.json(), &content["schema"], &document);
        assert!(errors.is_empty(), "{path}:\n{}\n{}", errors.join("\n"), answer.text);
        seen.insert(path);
    }
    assert!(seen.len() >= 8, "{seen:?}");
    let gone = world.get("/api/v1/deployments/20261121-054812123-3f9a2c").await;
    let said = &document["paths"]["/api/v1/deployments/{id}"]["get"]["responses"]["404"];
    let schema = &said["content"]["application/problem+json"]["schema"];
    assert_eq!(wrong(&gone.json(), schema, &document), Vec::<String>::new());
    assert!(said["description"].as_str().unwrap().contains("urn:the-deployer:problem:not-found"));
}

#[tokio::test]
async fn acts_answer_as_the_document_says() {
    let world = full().await;
    let document = document(&world).await;
    let reason = json!({"reason": "it is over"});
    let only_say = json!({"reason": "it is over", "dry_run": true});
    let mut seen = 0;
    for (act, body, status) in [
        ("remove", &reason, "200"),
        ("rollback", &reason, "202"),
        ("rollback", &only_say, "200"),
        ("hold", &reason, "200"),
        ("release", &reason, "200"),
        ("release", &reason, "404"),
        ("hold", &json!({"raeson": "x"}), "422"),
    ] {
        let path = format!("/api/v1/apps/{{target}}/{{namespace}}/{{app}}/{act}");
        let said = &document["paths"][&path]["post"];
        let taken = &said["requestBody"]["content"]["application/json"]["schema"];
        assert_eq!(wrong(body, taken, &document).is_empty(), status != "422", "{act}");
        let request = Request::post(format!("/api/v1/apps/prod/devx/shop/{act}"))
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()));
        let answer = world.send(request.unwrap()).await;
        assert_eq!(answer.status.as_str(), status, "{act}: {answer:?}");
        let content = said["responses"][status]["content"].as_object().unwrap();
        let (_, content) = content.iter().next().unwrap();
        let errors = wrong(&answer.json(), &content["schema"], &document);
        assert!(errors.is_empty(), "{act}:\n{}\n{}", errors.join("\n"), answer.text);
        seen += 1;
    }
    assert_eq!(seen, 7);
}

#[tokio::test]
async fn an_app_is_shown_with_what_is_live_what_goes_on_and_what_stops_it() {
    let world = full().await;
    let app = world.get("/api/v1/apps/prod/devx/shop").await.json();
    assert_eq!(app["live"]["revision"], id(7).as_str());
    assert_eq!((&app["live"]["tag"], &app["live"]["commit"]), (&json!("1.10"), &json!(null)));
    assert_eq!(app["last"]["state"], "succeeded");
    let rollback = &app["live"]["rollback"];
    assert_eq!((&rollback["from"], &rollback["by"]), (&json!(id(8).as_str()), &json!("octo-dev")));
    assert_eq!((&app["hold"]["by"], &app["hold"]["to"]), (&json!("ann"), &json!("1.10")));
    let scopes: Vec<_> =
        app["locks"].as_array().unwrap().iter().map(|lock| lock["scope"].clone()).collect();
    let wanted = json!([
        {"everything": true},
        {"target": "prod"},
        {"owner": "squad@example.com"},
        {"target": "prod", "app": "devx/shop"},
    ]);
    assert_eq!(json!(scopes), wanted);
    assert_eq!(app["sync"], json!({"state": "given-up", "why": "no token", "told_at": null}));
    let history = world.get("/api/v1/apps/prod/devx/shop/revisions").await.json();
    assert_eq!(history["revisions"][0]["live"], true);
}

#[tokio::test]
async fn a_secret_in_a_revision_is_not_shown() {
    let world = full().await;
    let path = format!("/api/v1/apps/prod/devx/shop/revisions/{}", id(7));
    let answer = world.get(&path).await;
    assert!(!answer.text.contains("hunter2"));
    let files = answer.json()["files"].clone();
    assert_eq!(files[0], json!({"name": "secret.yaml", "text": null}));
    assert!(files[1]["text"].as_str().unwrap().starts_with("apiVersion: v1\nkind: Service"));
}

#[tokio::test]
async fn what_there_is_not_of_an_app_is_said() {
    let world = full().await;
    let other = world.get("/api/v1/apps/dev/devx/shop").await.problem(404, "not-found");
    assert_eq!(other, "there is no devx/shop on dev");
    world.get("/api/v1/apps/dev/devx/shop/revisions").await.problem(404, "not-found");
    let pruned = world.get(&format!("/api/v1/apps/prod/devx/shop/revisions/{}", id(1))).await;
    assert!(pruned.problem(404, "not-found").contains("five are kept"));
    world.get("/api/v1/apps/prod/devx/Shop").await.problem(400, "bad-request");
    world.get("/api/v1/apps/prod/devx/shop/revisions/x").await.problem(400, "bad-request");
    world.fake.inner.lock().unwrap().broken = true;
    world.get("/api/v1/apps/prod/devx/shop").await.problem(503, "unavailable");
}

#[tokio::test]
async fn a_body_that_is_no_map_is_refused_in_words_of_ours() {
    let world = full().await;
    let document = document(&world).await;
    let mut seen = 0;
    for (path, method, said) in operations(&document) {
        if method != "post" || said["requestBody"].is_null() {
            continue;
        }
        let real = path
            .replace("locks/{id}", "locks/0123abcd")
            .replace("{id}", id(7).as_str())
            .replace("{target}", "prod")
            .replace("{namespace}", "devx")
            .replace("{app}", "shop");
        let request = Request::post(real).header("content-type", "application/json");
        let answer = world.send(request.body(Body::from("\"x\"")).unwrap()).await;
        let told = answer.problem(422, "unprocessable");
        assert!(told.contains("expected a map") && !told.contains("struct"), "{path}: {told}");
        seen += 1;
    }
    assert!(seen >= 8, "{seen}");
}

#[tokio::test]
async fn what_targets_offer_is_not_sent_again_while_nothing_has_changed() {
    let world = full().await;
    let path = "/api/v1/platform?repository=acme/shop";
    let first = world.get(path).await;
    let tag = first.headers["etag"].to_str().unwrap().to_owned();
    world.fake.wait(std::time::Duration::from_hours(1));
    let request = Request::get(path).header("if-none-match", &tag);
    let again = world.send(request.body(Body::empty()).unwrap()).await;
    assert_eq!((again.status.as_u16(), again.text.as_str()), (304, ""));
}
