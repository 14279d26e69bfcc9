//! `/api/v1/deployments/{id}/events`: a deployment as it goes on.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::{Request, StatusCode};
use futures::StreamExt as _;
use serde_json::Value;
use tower::ServiceExt as _;

use super::admission::ALICE;
use super::records::ended;
use super::world::{World, world, world_with};
use crate::model::deployment::{Deployment, State};
use crate::model::person::OnRepository;
use crate::server::Limits;
use crate::server::auth::{Token, Tokens};

/// A stream of events, as a client reads it.
struct Stream(BodyDataStream);

/// An event of a deployment.
#[derive(Debug, PartialEq)]
struct Heard {
    id: String,
    state: String,
}

impl Stream {
    /// The next event; none at the end. Heartbeats are passed over.
    async fn next(&mut self) -> Option<Heard> {
        loop {
            let bytes = self.0.next().await?.unwrap();
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            if text.starts_with(':') {
                continue;
            }
            let field = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap_or_else(|| panic!("{text}")).trim().to_owned()
            };
            assert_eq!(field("event:"), "deployment");
            let data: Value = serde_json::from_str(&field("data:")).unwrap();
            assert!(data["stages"].is_array() && data["tag"] == "1.10", "{data}");
            let state = data["state"].as_str().unwrap().to_owned();
            return Some(Heard { id: field("id:"), state });
        }
    }
}

async fn open(world: &World, path: &str, last: Option<&str>) -> Result<Stream, StatusCode> {
    open_as(world, "", path, last).await
}

async fn open_as(
    world: &World,
    token: &str,
    path: &str,
    last: Option<&str>,
) -> Result<Stream, StatusCode> {
    let mut request = Request::get(path).header("authorization", format!("Bearer {token}"));
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let request = request.body(Body::empty()).unwrap();
    let response = world.router.clone().oneshot(request).await.unwrap();
    if response.status() != StatusCode::OK {
        return Err(response.status());
    }
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["cache-control"], "no-cache");
    Ok(Stream(response.into_body().into_data_stream()))
}

async fn with_one() -> (World, String) {
    of(world()).await
}

async fn of(world: World) -> (World, String) {
    assert_eq!(world.deliver("d-1", "prod").await.status, 202);
    let id = world.fake.inner.lock().unwrap().stored[0].1.id.to_string();
    (world, format!("/api/v1/deployments/{id}/events"))
}

/// Changes the record, and rings if asked to.
fn change(world: &World, ring: bool, change: impl FnOnce(&mut Deployment)) {
    change(&mut world.fake.inner.lock().unwrap().stored[0].1);
    if ring {
        world.fake.bell.send_replace(());
    }
}

#[tokio::test]
async fn each_change_is_told_once_until_the_end() {
    let (world, path) = with_one().await;
    let mut stream = open(&world, &path, None).await.unwrap();
    let first = stream.next().await.unwrap();
    assert_eq!(first.state, "queued");
    change(&world, true, |record| record.state = State::Running);
    let second = stream.next().await.unwrap();
    assert_eq!(second.state, "running");
    assert_ne!(first.id, second.id);
    // A bell for something else.
    world.fake.bell.send_replace(());
    change(&world, true, |record| *record = ended(record.clone()));
    assert_eq!(stream.next().await.unwrap().state, "succeeded");
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn what_another_replica_changed_is_found_without_a_bell() {
    let limits = Limits { look: Duration::from_millis(5), ..Limits::default() };
    let (world, path) = of(world_with(limits, Tokens::default())).await;
    let mut stream = open(&world, &path, None).await.unwrap();
    assert_eq!(stream.next().await.unwrap().state, "queued");
    change(&world, false, |record| record.state = State::Running);
    assert_eq!(stream.next().await.unwrap().state, "running");
}

#[tokio::test]
async fn who_comes_again_hears_nothing_twice_and_misses_nothing() {
    let (world, path) = with_one().await;
    let heard = open(&world, &path, None).await.unwrap().next().await.unwrap();
    let mut again = open(&world, &path, Some(&heard.id)).await.unwrap();
    change(&world, true, |record| record.state = State::Running);
    let running = again.next().await.unwrap();
    assert_eq!(running.state, "running", "what it had heard is not told again");
    drop(again);
    change(&world, true, |record| *record = ended(record.clone()));
    let mut late = open(&world, &path, Some(&running.id)).await.unwrap();
    let last = late.next().await.unwrap();
    assert_eq!(last.state, "succeeded");
    assert_eq!(late.next().await, None);
    let over = open(&world, &path, Some(&last.id)).await.err();
    assert_eq!(over, Some(StatusCode::NO_CONTENT), "which tells a browser not to come again");
    let mut strange = open(&world, &path, Some("another id")).await.unwrap();
    assert_eq!(strange.next().await, Some(last));
}

#[tokio::test]
async fn it_outlives_the_bound_on_requests_and_many_bells_and_ends_some_time() {
    let look = Duration::from_millis(5);
    let limits = Limits { look, request_timeout: look * 2, ..Limits::default() };
    let (world, path) = of(world_with(limits, Tokens::default())).await;
    let mut stream = open(&world, &path, None).await.unwrap();
    assert!(stream.next().await.is_some());
    for n in 0..10 {
        tokio::time::sleep(look).await;
        world.fake.wait(Duration::from_mins(5));
        change(&world, true, |record| record.summary = format!("look {n}"));
        assert!(stream.next().await.is_some());
    }
    world.fake.wait(Duration::from_mins(10));
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn who_may_not_see_it_any_more_hears_no_more() {
    let look = Duration::from_millis(5);
    let world = super::admission::at_github_within(Limits { look, ..Limits::default() });
    world.fake.lets(ALICE, "acme/shop", OnRepository::Read);
    let (world, path) = of(world).await;
    let mut stream = open_as(&world, ALICE, &path, None).await.unwrap();
    assert!(stream.next().await.is_some());
    world.fake.wait(Duration::from_secs(61));
    change(&world, true, |record| record.state = State::Running);
    assert_eq!(stream.next().await.unwrap().state, "running");
    world.fake.lets(ALICE, "acme/shop", OnRepository::Nothing);
    world.fake.wait(Duration::from_secs(61));
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn one_caller_has_so_many_open() {
    let tokens = Tokens(vec![Token::of_text("ci", "one"), Token::of_text("bart", "two")]);
    let limits = Limits { streams_of_one: 2, ..Limits::default() };
    let (world, path) = of(world_with(limits, tokens)).await;
    let first = open_as(&world, "one", &path, None).await.unwrap();
    let _second = open_as(&world, "one", &path, None).await.unwrap();
    let refused = open_as(&world, "one", &path, None).await.err();
    assert_eq!(refused, Some(StatusCode::TOO_MANY_REQUESTS));
    assert!(open_as(&world, "two", &path, None).await.is_ok(), "others have their own");
    drop(first);
    assert!(open_as(&world, "one", &path, None).await.is_ok());
}

#[tokio::test]
async fn a_server_that_stops_closes_what_is_open() {
    let (world, path) = with_one().await;
    let mut stream = open(&world, &path, None).await.unwrap();
    assert!(stream.next().await.is_some());
    world.closing.cancel();
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn there_is_a_bound_on_how_many_are_open() {
    let limits = Limits { streams: 1, ..Limits::default() };
    let (world, path) = of(world_with(limits, Tokens::default())).await;
    let first = open(&world, &path, None).await.unwrap();
    let refused = open(&world, &path, None).await.err();
    assert_eq!(refused, Some(StatusCode::SERVICE_UNAVAILABLE));
    drop(first);
    assert!(open(&world, &path, None).await.is_ok());
}

#[tokio::test]
async fn what_there_is_not_is_no_stream() {
    let (world, _) = with_one().await;
    let none = "/api/v1/deployments/20261121-054812123-3f9a2c/events";
    assert_eq!(open(&world, none, None).await.err(), Some(StatusCode::NOT_FOUND));
    let odd = "/api/v1/deployments/x/events";
    assert_eq!(open(&world, odd, None).await.err(), Some(StatusCode::BAD_REQUEST));
}
