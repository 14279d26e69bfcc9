//! What a token that is for some apps or targets is told of the others.

use axum::body::Body;
use axum::http::Method;
use serde_json::json;

use super::admission::{ALICE, admission, at_github, limited, request};
use super::world::world_with_admission;
use crate::model::person::OnRepository;
use crate::server::Limits;
use crate::server::auth::{Pages, Scope, Token, Tokens};

#[tokio::test]
async fn a_plan_shows_no_app_that_the_token_is_not_for() {
    let tokens = Tokens(vec![
        limited("devx", Scope::Read, &["*"], &["devx/*"]),
        limited("pay", Scope::Read, &["*"], &["pay/*"]),
        Token::of_text("all", "all"),
    ]);
    let world = world_with_admission(Limits::default(), tokens, Pages::Token, admission());
    world.fake.owns("acme/shop", "prod", "devx/shop");
    world.fake.owns("acme/shop", "prod", "pay/web");
    let plan = async |token: &str| {
        let body = json!({"repository": "acme/shop", "target": "prod", "waml": "pay/web"});
        let request = request(Method::POST, "/api/v1/plan", token);
        world.send(request.body(Body::from(body.to_string())).unwrap()).await
    };
    let said = plan("devx").await.problem(403, "forbidden");
    assert!(said.contains("pay/web on prod"), "{said}");
    assert_eq!(plan("pay").await.status, 200);
    assert_eq!(plan("all").await.status, 200);
}

#[tokio::test]
async fn builds_tell_who_may_not_see_an_app_neither_that_it_is_nor_where() {
    let tokens = Tokens(vec![
        limited("prod", Scope::Read, &["prod"], &["devx/*"]),
        limited("dev", Scope::Read, &["dev"], &["devx/*"]),
        Token::of_text("all", "all"),
    ]);
    let world = world_with_admission(Limits::default(), tokens, Pages::Token, admission());
    let builds = async |token: &str, slug: &str, rest: &str| {
        world.get_as(token, &format!("/api/v1/builds?app=devx/{slug}{rest}")).await
    };
    let there = builds("dev", "shop", "").await.problem(403, "forbidden");
    let nowhere = builds("dev", "new", "").await.problem(403, "forbidden");
    assert_eq!(there.replace("devx/shop", "devx/new"), nowhere);
    builds("all", "new", "").await.problem(404, "not-found");
    for (token, rest, live) in [
        ("prod", "", json!(["prod"])),
        ("dev", "&target=dev", json!([])),
        ("all", "", json!(["prod"])),
    ] {
        let answer = builds(token, "shop", rest).await.json();
        assert_eq!(answer["builds"][0]["live"], live, "{token}");
        assert_eq!(answer["notes"].to_string().contains("on prod"), token != "dev", "{token}");
    }
}

#[tokio::test]
async fn targets_are_listed_as_far_as_a_token_is_for_them() {
    let tokens = Tokens(vec![
        limited("dev", Scope::Read, &["dev*"], &["devx/*"]),
        Token::of_text("all", "all"),
    ]);
    let world = world_with_admission(Limits::default(), tokens, Pages::Token, admission());
    let target = |name: &str| json!({"name": name, "environment": "development"});
    for (token, wanted) in [
        ("dev", json!({"targets": [target("dev")], "any": false, "complete": false})),
        (
            "all",
            json!({"targets": [target("dev"), target("prod")], "any": false, "complete": true}),
        ),
    ] {
        assert_eq!(world.get_as(token, "/api/v1/targets").await.json(), wanted, "{token}");
    }
}

#[tokio::test]
async fn builds_of_a_waml_are_for_who_may_see_its_repository_and_its_app() {
    let tokens = Tokens(vec![
        limited("devx", Scope::Read, &["*"], &["devx/*"]),
        limited("dev", Scope::Read, &["dev"], &["*"]),
        Token::of_text("all", "all"),
    ]);
    let world = world_with_admission(Limits::default(), tokens, Pages::Token, admission());
    world.fake.owns("acme/shop", "prod", "devx/shop");
    let builds = async |token: &str, body: serde_json::Value| {
        let request = request(Method::POST, "/api/v1/builds", token);
        world.send(request.body(Body::from(body.to_string())).unwrap()).await
    };
    let of = |app: &str| json!({"repository": "acme/shop", "target": "prod", "waml": app});
    assert_eq!(builds("devx", of("devx/shop")).await.status, 200);
    let said = builds("devx", of("pay/web")).await.problem(403, "forbidden");
    assert!(said.contains("pay/web"), "{said}");
    builds("dev", of("devx/shop")).await.problem(403, "forbidden");
    assert_eq!(builds("all", of("devx/shop")).await.json()["builds"][0]["live"], json!(["prod"]));
    let wrong = json!({"repository": "acme/shop", "waml": "devx/shop", "cursor": "x"});
    builds("all", wrong).await.problem(422, "unprocessable");
}

#[tokio::test]
async fn a_posted_waml_lists_another_image_only_for_callers_who_may_deploy_it() {
    let tokens = Tokens(vec![
        limited("reader", Scope::Read, &["*"], &["*"]),
        limited("deployer", Scope::Deploy, &["*"], &["*"]),
    ]);
    let world = world_with_admission(Limits::default(), tokens, Pages::Token, admission());
    let builds = async |token: &str, repository: &str| {
        let body = json!({"repository": repository, "waml": "devx/shop"});
        let request = request(Method::POST, "/api/v1/builds", token);
        world.send(request.body(Body::from(body.to_string())).unwrap()).await
    };
    // The image of every WAML here is `ghcr.io/acme/shop`.
    assert_eq!(builds("reader", "acme/shop").await.status, 200);
    assert_eq!(builds("deployer", "acme/mine").await.status, 200);
    let said = builds("reader", "acme/mine").await.problem(403, "forbidden");
    assert_eq!(
        said,
        "ghcr.io/acme/shop is not named like acme/mine: its builds are listed for callers who may deploy from there"
    );
}

#[tokio::test]
async fn a_person_is_told_nothing_of_an_app_that_a_posted_waml_merely_names() {
    let world = at_github(admission());
    world.fake.owns("acme/till", "prod", "pay/till");
    world.fake.lets(ALICE, "acme/shop", OnRepository::Read);
    let builds = async |app: &str| {
        let body = json!({"repository": "acme/shop", "waml": app});
        let request = request(Method::POST, "/api/v1/builds", ALICE);
        world.send(request.body(Body::from(body.to_string())).unwrap()).await.json()
    };
    let own = builds("devx/shop").await;
    assert_eq!(own["builds"][0]["live"], json!(["prod"]));
    let other = builds("pay/till").await;
    assert_eq!((&other["builds"][0]["live"], &other["notes"]), (&json!([]), &json!([])));
}
