//! `/api/v1/deployments/{id}/events`: a deployment as it goes on.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use the_deployer::server::ServerLimits;
use the_deployer::store::{Claim, Filter, LeaseState, Store};

use super::admission::configure_people;
use super::shop::{TARGET, asks, tokens};
use super::world::post;
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::github::Fault;
use crate::harness::process::client;
use crate::harness::sse::EventReader;

/// Longer than anything takes, even where every core is busy.
const PATIENCE: Duration = Duration::from_mins(1);
/// How often a stream looks by itself, for a test that waits for that.
const LOOK: Duration = Duration::from_millis(5);

/// The stream of a deployment's events.
struct Stream(EventReader);

/// An event of a deployment.
#[derive(Debug, PartialEq)]
struct Heard {
    id: String,
    state: String,
}

impl Stream {
    async fn open(url: &str, token: &str, last: Option<&str>) -> Result<Self, StatusCode> {
        let mut request = client().get(url).bearer_auth(token);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().await.unwrap();
        if response.status() != StatusCode::OK {
            return Err(response.status());
        }
        assert_eq!(response.headers()["cache-control"], "no-cache");
        Ok(Self(EventReader::new(response)))
    }

    /// The next event; none at the end.
    async fn next(&mut self) -> Option<Heard> {
        let event = self.0.next().await?;
        assert_eq!(event.field("event"), "deployment");
        let data: Value = serde_json::from_str(event.field("data")).unwrap();
        assert!(data["stages"].is_array() && data["tag"] == "v1", "{data}");
        let state = data["state"].as_str().unwrap().to_owned();
        Some(Heard { id: event.field("id").to_owned(), state })
    }

    /// The state in the next event.
    async fn state(&mut self) -> String {
        self.next().await.expect("it goes on").state
    }
}

async fn open(deployer: &Deployer, path: &str, last: Option<&str>) -> Result<Stream, StatusCode> {
    open_as(deployer, "", path, last).await
}

async fn open_as(
    deployer: &Deployer,
    token: &str,
    path: &str,
    last: Option<&str>,
) -> Result<Stream, StatusCode> {
    Stream::open(&format!("{}{path}", deployer.url()), token, last).await
}

/// A deployment that waits; the path of its events.
async fn one_waits(deployer: &Deployer) -> String {
    asks(deployer, "v1").await;
    path_of_newest(deployer).await
}

async fn path_of_newest(deployer: &Deployer) -> String {
    let id = deployer.deployments().await.pop().unwrap().id;
    format!("/api/v1/deployments/{id}/events")
}

async fn with_one() -> (Deployer, String) {
    let deployer = Deployer::start().await;
    let path = one_waits(&deployer).await;
    (deployer, path)
}

async fn within(limits: ServerLimits) -> (Deployer, String) {
    let mut deployer = Deployer::prepared().await;
    deployer.limit(limits);
    deployer.starts().await;
    let path = one_waits(&deployer).await;
    (deployer, path)
}

/// A worker takes it.
async fn begins(deployer: &Deployer, store: &Store) -> Claim {
    let now = deployer.clock.now();
    store.claim("a worker", now, Duration::from_secs(30)).await.unwrap().expect("one waits")
}

/// The worker gives it back.
async fn gives_back(deployer: &Deployer, claim: &Claim) {
    let held = deployer.stepped().store().release(claim, deployer.clock.now()).await.unwrap();
    assert_eq!(held, LeaseState::Held);
}

/// A person cancels it.
async fn cancels(deployer: &Deployer, path: &str) {
    let path = path.replace("/events", "/cancel");
    let answer = post(deployer, &path, &json!({"reason": "the wrong tag"})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// Everything comes to its end.
async fn ends(deployer: &Deployer) {
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn each_change_is_told_once_until_the_end() {
    let (deployer, path) = with_one().await;
    let mut stream = open(&deployer, &path, None).await.unwrap();
    let first = stream.next().await.unwrap();
    assert_eq!(first.state, "queued");
    let _cancelled = begins(&deployer, deployer.stepped().store()).await;
    let second = stream.next().await.unwrap();
    assert_eq!(second.state, "running");
    assert_ne!(first.id, second.id);
    // A bell for something else.
    let cart = deployer.github.repository("example/cart");
    cart.commit(&waml("cart"));
    cart.deploys(TARGET, "v2").await;
    cancels(&deployer, &path).await;
    assert_eq!(stream.state().await, "cancelled");
    assert_eq!(stream.next().await, None);
    ends(&deployer).await;
}

#[tokio::test]
async fn what_another_replica_changed_is_found_without_a_bell() {
    let (deployer, path) = within(ServerLimits { look: LOOK, ..ServerLimits::default() }).await;
    let mut stream = open(&deployer, &path, None).await.unwrap();
    assert_eq!(stream.state().await, "queued");
    let of_another = Store::open(&deployer.settings().storage.url).await.unwrap();
    let claim = begins(&deployer, &of_another).await;
    assert_eq!(stream.state().await, "running");
    of_another.close().await;
    gives_back(&deployer, &claim).await;
    ends(&deployer).await;
}

#[tokio::test]
async fn who_comes_again_hears_nothing_twice_and_misses_nothing() {
    let (deployer, path) = with_one().await;
    let heard = open(&deployer, &path, None).await.unwrap().next().await.unwrap();
    let mut again = open(&deployer, &path, Some(&heard.id)).await.unwrap();
    let _cancelled = begins(&deployer, deployer.stepped().store()).await;
    let running = again.next().await.unwrap();
    assert_eq!(running.state, "running", "what it had heard is not told again");
    drop(again);
    cancels(&deployer, &path).await;
    let mut late = open(&deployer, &path, Some(&running.id)).await.unwrap();
    let last = late.next().await.unwrap();
    assert_eq!(last.state, "cancelled");
    assert_eq!(late.next().await, None);
    let over = open(&deployer, &path, Some(&last.id)).await.err();
    assert_eq!(over, Some(StatusCode::NO_CONTENT), "which tells a browser not to come again");
    let mut strange = open(&deployer, &path, Some("another id")).await.unwrap();
    assert_eq!(strange.next().await, Some(last));
    ends(&deployer).await;
}

#[tokio::test]
async fn it_outlives_the_bound_on_requests_and_many_bells_and_ends_some_time() {
    let (mut deployer, path) = with_one().await;
    deployer.dies();
    deployer.limit(ServerLimits {
        look: LOOK,
        request_timeout: LOOK * 2,
        ..ServerLimits::default()
    });
    deployer.starts().await;
    let mut stream = open(&deployer, &path, None).await.unwrap();
    assert_eq!(stream.state().await, "queued");
    for _ in 0..5 {
        deployer.clock.advance(Duration::from_mins(5));
        let claim = begins(&deployer, deployer.stepped().store()).await;
        assert_eq!(stream.state().await, "running");
        tokio::time::sleep(LOOK).await;
        deployer.clock.advance(Duration::from_mins(5));
        gives_back(&deployer, &claim).await;
        assert_eq!(stream.state().await, "queued");
    }
    deployer.clock.advance(Duration::from_mins(10));
    assert_eq!(stream.next().await, None);
    ends(&deployer).await;
}

#[tokio::test]
async fn who_may_not_see_it_any_more_hears_no_more() {
    let mut deployer = Deployer::prepared().await;
    deployer.limit(ServerLimits { look: LOOK, ..ServerLimits::default() });
    configure_people(&mut deployer);
    deployer.starts().await;
    let shop = deployer.github.repository("acme/shop");
    shop.commit(&waml("shop"));
    shop.deploys(TARGET, "v1").await;
    let path = path_of_newest(&deployer).await;
    let alice = deployer.github.token_of("alice");
    assert_eq!(open_as(&deployer, &alice, &path, None).await.err(), Some(StatusCode::FORBIDDEN));
    deployer.github.lets("alice", "acme/shop", "pull");
    // What GitHub has said is believed for a minute.
    deployer.clock.advance(Duration::from_secs(61));
    let mut stream = open_as(&deployer, &alice, &path, None).await.unwrap();
    assert_eq!(stream.state().await, "queued");
    deployer.clock.advance(Duration::from_secs(61));
    let claim = begins(&deployer, deployer.stepped().store()).await;
    assert_eq!(stream.state().await, "running");
    deployer.github.takes_back("alice", "acme/shop");
    deployer.clock.advance(Duration::from_secs(61));
    assert_eq!(stream.next().await, None);
    gives_back(&deployer, &claim).await;
    ends(&deployer).await;
}

/// Until the service has noticed that another one is closed.
async fn opens(deployer: &Deployer, token: &str, path: &str) -> Stream {
    let opening = async {
        loop {
            if let Ok(stream) = open_as(deployer, token, path, None).await {
                return stream;
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(PATIENCE, opening).await.expect("no place becomes free")
}

#[tokio::test]
async fn one_caller_has_so_many_open() {
    let mut deployer = Deployer::prepared().await;
    deployer.limit(ServerLimits { streams_of_one: 2, ..ServerLimits::default() });
    tokens(&mut deployer, &[("one", "scope: read"), ("two", "scope: read")]);
    deployer.starts().await;
    let path = one_waits(&deployer).await;
    let first = open_as(&deployer, "one", &path, None).await.unwrap();
    let _second = open_as(&deployer, "one", &path, None).await.unwrap();
    let refused = open_as(&deployer, "one", &path, None).await.err();
    assert_eq!(refused, Some(StatusCode::TOO_MANY_REQUESTS));
    assert!(open_as(&deployer, "two", &path, None).await.is_ok(), "others have their own");
    drop(first);
    opens(&deployer, "one", &path).await;
    ends(&deployer).await;
}

#[tokio::test]
async fn there_is_a_bound_on_how_many_are_open() {
    let (deployer, path) = within(ServerLimits { streams: 1, ..ServerLimits::default() }).await;
    let none = "/api/v1/deployments/20261121-054812123-3f9a2c/events";
    assert_eq!(open(&deployer, none, None).await.err(), Some(StatusCode::NOT_FOUND));
    let odd = "/api/v1/deployments/x/events";
    assert_eq!(open(&deployer, odd, None).await.err(), Some(StatusCode::BAD_REQUEST));
    let first = open(&deployer, &path, None).await.unwrap();
    let refused = open(&deployer, &path, None).await.err();
    assert_eq!(refused, Some(StatusCode::SERVICE_UNAVAILABLE));
    drop(first);
    opens(&deployer, "", &path).await;
    ends(&deployer).await;
}

#[tokio::test]
async fn a_server_that_stops_closes_what_is_open() {
    let mut deployer = Deployer::prepared().await;
    let shop = deployer.github.repository("example/shop");
    shop.commit(&waml("shop"));
    deployer.github.fails(1, "GET contents", Fault::Held);
    let running = deployer
        .runs_with(|settings| settings.server.shutdown_grace = Duration::from_millis(100))
        .await;
    let number = shop.deploys(TARGET, "v1").await;
    let page = running.store.deployments(&Filter::default(), None, 1).await.unwrap();
    let id = &page.deployments[0].id;
    let url = format!("http://{}/api/v1/deployments/{id}/events", running.address);
    let mut stream = Stream::open(&url, "", None).await.unwrap();
    while stream.state().await != "running" {}
    running.stop.cancel();
    assert_eq!(stream.next().await, None);
    running.ended().await;
    deployer.github.lets_go();
    deployer.starts().await;
    deployer.settle().await;
    assert_eq!(deployer.github.told(number).last().unwrap(), "success");
    deployer.settled().await;
}
