//! Open pages: what changes in place, and when they load themselves again.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::json;
use the_deployer::server::ServerLimits;

use super::pages::{browse, page};
use super::reading::asking_for;
use super::shop::{TARGET, asks, asks_with, deploys};
use super::world::post;
use crate::harness::deployer::Deployer;
use crate::harness::process::client;
use crate::harness::sse::{EventReader, ServerEvent};

/// What a page says of its stream: the address, with the version of what it shows.
async fn stream_of(deployer: &Deployer, path: &str) -> String {
    let shown = browse(deployer, path, None).await;
    let text = page(&shown, 200);
    let attribute = |name: &str| {
        let (_, rest) = text.split_once(&format!(" data-{name}=\"")).expect("it is live");
        rest.split_once('"').unwrap().0.replace("&#38;", "&")
    };
    let (stream, version) = (attribute("live"), attribute("version"));
    let mark = if stream.contains('?') { '&' } else { '?' };
    format!("{stream}{mark}version={version}")
}

async fn open(deployer: &Deployer, stream: &str) -> Result<EventReader, StatusCode> {
    let response = client().get(format!("{}{stream}", deployer.url())).send().await.unwrap();
    if response.status() != StatusCode::OK {
        return Err(response.status());
    }
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    assert_eq!(response.headers()["cache-control"], "no-store, no-transform");
    let mut events = EventReader::new(response);
    assert_eq!(events.next().await.unwrap().field("event"), "alive", "at once");
    Ok(events)
}

/// The next event that says something.
async fn next(events: &mut EventReader) -> Option<ServerEvent> {
    loop {
        let event = events.next().await?;
        if event.field("event") != "alive" {
            return Some(event);
        }
    }
}

#[tokio::test]
async fn an_open_deployment_is_shown_anew_until_nothing_changes_any_more() {
    let deployer = Deployer::start().await;
    asks(&deployer, "v1").await;
    let id = deployer.deployments().await.pop().unwrap().id;
    let path = format!("/deployments/{id}");
    let stream = stream_of(&deployer, &path).await;
    let mut events = open(&deployer, &stream).await.unwrap();
    deployer.settle().await;
    let mut last = String::new();
    loop {
        let event = next(&mut events).await.expect("it has an end");
        if event.field("event") == "end" {
            break;
        }
        assert_eq!(event.field("event"), "page");
        last = event.data();
    }
    assert!(last.contains(">succeeded</span>") && !last.contains("data-live"), "{last}");
    assert_eq!(last.trim_end(), browse(&deployer, &path, None).await.text.trim_end());
    assert!(next(&mut events).await.is_none());
    // Who comes again with what was shown before gets the page, and the end.
    let mut again = open(&deployer, &stream).await.unwrap();
    assert_eq!(next(&mut again).await.unwrap().data(), last);
    assert_eq!(next(&mut again).await.unwrap().field("event"), "end");
    assert_eq!(open(&deployer, "/live/deployments/x").await.unwrap_err(), 400);
    let unknown = "/live/deployments/20200101-000000000-000000";
    assert_eq!(open(&deployer, unknown).await.unwrap_err(), 404);
    deployer.settled().await;
}

#[tokio::test]
async fn the_grid_changes_by_its_cells_and_is_loaded_again_where_others_are_shown() {
    let deployer = Deployer::start().await;
    deploys(&deployer, "v1").await;
    let stream = stream_of(&deployer, "/").await;
    let filtered = stream_of(&deployer, "/?state=live&q=shop").await;
    assert!(filtered.starts_with("/live/?q=shop&state=live&version="), "{filtered}");
    let mut events = open(&deployer, &stream).await.unwrap();
    let mut of_filtered = open(&deployer, &filtered).await.unwrap();
    let scope = json!({"target": TARGET, "app": "devx/shop"});
    let lock = json!({"scope": scope, "reason": "the sale"});
    assert_eq!(post(&deployer, "/api/v1/locks", &lock).await.status, 201);
    let event = next(&mut events).await.unwrap();
    assert_eq!(event.field("event"), "patch");
    let (patch, version) = (event.data(), event.field("id").to_owned());
    assert!(patch.starts_with("<td class=\"good\">") && patch.contains("<i>locked</i>"), "{patch}");
    assert!(patch.contains("<p id=\"counts\" class=\"quiet\">1 app · 1 locked</p>"), "{patch}");
    assert!(!patch.contains("<script"), "{patch}");
    assert_eq!(next(&mut of_filtered).await.unwrap().field("event"), "patch");
    assert!(stream_of(&deployer, "/").await.ends_with(&version), "the page says the same");
    // A WAML that cannot be read is a failure of the app before.
    deployer.clock.advance(Duration::from_secs(1));
    asks_with(&deployer, "v2", "slug: [").await;
    deployer.settle().await;
    let failed = deployer.deployments().await.pop().unwrap().id;
    let patch = next(&mut events).await.unwrap().data();
    assert!(patch.starts_with("<td class=\"bad\">"), "{patch}");
    let word =
        format!("href=\"/deployments/{failed}\">failed</a> <i>locked</i> <i>WAML unreadable</i>");
    assert!(patch.contains("href=\"/assets/icon-bad.svg\">"), "{patch}");
    assert!(patch.contains(&word) && patch.contains("1 app · 1 failed · 1 locked"), "{patch}");
    // Another app is another row.
    let cart = deployer.github.repository("example/cart");
    cart.commit(&crate::harness::events::waml("cart"));
    cart.deploys(TARGET, "v1").await;
    deployer.works().await;
    loop {
        let event = next(&mut events).await.unwrap();
        if event.field("event") == "stale" {
            break;
        }
    }
    // Who comes with an old version is told so.
    let mut old = open(&deployer, &stream).await.unwrap();
    assert_eq!(next(&mut old).await.unwrap().field("event"), "stale");
    deployer.settle().await;
    deployer.settled().await;
}

#[tokio::test]
async fn an_open_page_says_that_it_is_alive_and_there_are_only_so_many() {
    let mut deployer = Deployer::prepared().await;
    deployer.limit(ServerLimits { open_pages: 1, ..ServerLimits::default() });
    deployer.starts().await;
    let stream = stream_of(&deployer, "/deployments").await;
    let held = open(&deployer, &stream).await.unwrap();
    assert_eq!(open(&deployer, &stream).await.unwrap_err(), 503);
    drop(held);
    // The slot is free once the server has noticed.
    let free = async {
        while open(&deployer, &stream).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), free).await.expect("it is never free");
    deployer.settled().await;
}

#[tokio::test]
async fn a_stream_is_for_who_may_see_the_page() {
    let closed = asking_for("t0ken", "token").await;
    assert_eq!(open(&closed, "/live/").await.unwrap_err(), 401);
    let public = asking_for("t0ken", "open").await;
    asks(&public, "v1").await;
    let id = public.deployments().await.pop().unwrap().id;
    assert!(open(&public, &format!("/live/deployments/{id}")).await.is_ok());
    public.settle().await;
    for deployer in [closed, public] {
        deployer.settled().await;
    }
}
