//! Tokens that nobody knows, many at once; lists for people; names that lead to this machine.

use axum::body::Body;
use axum::http::Request;

use super::admission::{ALICE, LIST, admission, at_github};
use super::world::{World, world, world_for, world_with};
use crate::model::person::{NotKnown, OnRepository};
use crate::server::Limits;
use crate::server::auth::{Pages, Token, Tokens};

#[tokio::test]
async fn strangers_wait_for_nobody_and_keep_nobody_waiting() {
    let world = at_github(admission());
    assert_eq!(world.from("192.0.2.9", ALICE).await.status, 200);
    world.fake.asked();
    world.fake.callers(|callers| callers.stuck = true);
    let one = |n: usize| {
        let world = world.clone();
        tokio::spawn(async move { world.from("192.0.2.1", &format!("ghp_{n}")).await })
    };
    let stuck: Vec<_> = (0..8).map(one).collect();
    while world.fake.callers(|callers| callers.asked.len()) < 8 {
        tokio::task::yield_now().await;
    }
    let answer = world.from("192.0.2.2", "ghp_another").await;
    answer.problem(429, "too-many-requests");
    assert_eq!(answer.headers["retry-after"], "1");
    assert_eq!(world.from("192.0.2.9", ALICE).await.status, 200, "who is known goes on");
    assert_eq!(world.from("192.0.2.1", "our-token").await.status, 200);
    // Each has paid before it was looked at, and who goes gets nothing back.
    for one in stuck {
        one.abort();
        assert!(one.await.unwrap_err().is_cancelled());
    }
    for _ in 0..22 {
        world.from("192.0.2.1", "a-guess").await.problem(401, "unauthorized");
    }
    world.from("192.0.2.1", "a-guess").await.problem(429, "too-many-requests");
}

#[tokio::test]
async fn whom_github_knows_pays_for_nothing() {
    let world = at_github(admission());
    for n in 0..40 {
        let token = format!("ghp_{n}");
        world.fake.person(&token, &token);
        assert_eq!(world.from("192.0.2.1", &token).await.status, 200);
    }
    world.in_trouble(NotKnown::Down("no route".to_owned()));
    for _ in 0..40 {
        world.from("192.0.2.1", "ghp_new").await.problem(503, "unavailable");
    }
}

#[tokio::test]
async fn of_a_list_each_repository_is_asked_about_once_and_hidden_teams_too() {
    let world = at_github(admission());
    world.fake.lets(ALICE, "acme/shop", OnRepository::Read);
    world.fake.owns("acme/shop", "dev", "devx/shop");
    for (delivery, target) in [("d-1", "prod"), ("d-2", "dev"), ("d-3", "staging")] {
        assert_eq!(world.deliver(delivery, target).await.status, 202);
    }
    let list = world.get_as(ALICE, LIST).await.json();
    assert_eq!(list["deployments"].as_array().unwrap().len(), 3);
    assert_eq!(world.fake.asked(), ["who", "acme/platform", "acme/developers", "acme/shop"]);
    world.fake.callers(|callers| callers.hidden = true);
    world.fake.wait(std::time::Duration::from_secs(11));
    for _ in 0..3 {
        assert_eq!(world.get_as(ALICE, LIST).await.status, 200);
    }
    assert_eq!(world.fake.asked(), ["acme/platform", "acme/developers"]);
}

async fn named(world: &World, path: &str, host: &str) -> super::world::Answer {
    world.send(Request::get(path).header("host", host).body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn where_nobody_is_asked_for_a_token_only_our_own_names_are_answered() {
    let open = world_for(Limits::default(), Tokens::default(), Pages::Open);
    for (world, path) in [(&world(), LIST), (&world(), "/"), (&open, "/")] {
        for host in ["localhost:8080", "127.0.0.1", "[::1]:8080"] {
            assert_eq!(named(world, path, host).await.status, 200, "{host}");
        }
        let said = named(world, path, "evil.example.net:8080").await.problem(403, "forbidden");
        assert!(said.contains("server.external_url"), "{said}");
    }
    assert_eq!(named(&world(), "/healthz", "evil.example.net").await.status, 200);
    let asked = world_with(Limits::default(), Tokens(vec![Token::of_text("ci", "one")]));
    named(&asked, LIST, "evil.example.net").await.problem(401, "unauthorized");
}
