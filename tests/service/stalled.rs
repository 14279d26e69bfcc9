//! A replica stands still, or has lost the way to the database, while a change of its own waits for
//! the push budget. Another takes the work over and goes on. When the first is awake again, what it
//! still has in its queue is the past: it pushes nothing of that.

use reqwest::Method;
use serde_json::json;

use crate::harness::events::{Event, waml};
use crate::harness::process::{Home, Process};
use crate::harness::tap::Tap;
use crate::service::replicas::Shared;

const TARGET: &str = "prod-cluster-1";
/// Five revisions are kept, so that nothing in the repository tells of the second by then.
const LAST: i64 = 8;

/// The service repositories, and the commits of two apps.
struct Apps {
    forge: Home,
    shop: String,
    other: String,
}

impl Apps {
    fn new() -> Self {
        let forge = Home::embedded();
        let shop = forge.commit("example/shop", &waml("shop"));
        let other = forge.commit("example/other", &waml("other"));
        Self { forge, shop, other }
    }

    fn shop(&self, number: i64) -> Event {
        Event::new(number, "shop", &self.shop)
    }

    fn other(&self, number: i64) -> Event {
        Event::new(number, "other", &self.other)
    }
}

/// Deploys, and waits for the end; the id.
async fn deployed(process: &Process, event: Event) -> String {
    let id = event.accepted(process).await;
    let done = process.ended(&id).await;
    assert_eq!(done["state"], "succeeded", "{done}\n{}", process.log());
    id
}

/// The first deployment of the other app uses up the budget, so that one of the shop waits for the
/// next push: both ids.
async fn one_waits(process: &Process, apps: &Apps) -> [String; 2] {
    let first = deployed(process, apps.other(1)).await;
    let waits = apps.shop(2).accepted(process).await;
    process.when(&waits, "the begin of its push", |one| one["state"] == "pushing").await;
    [first, waits]
}

/// Another replica takes it over, and deploys newer ones of the shop: all ids.
async fn others_go_on(process: &Process, apps: &Apps, before: [String; 2]) -> Vec<String> {
    let done = process.ended(&before[1]).await;
    assert_eq!((&done["state"], &done["attempts"]), (&json!("succeeded"), &json!(2)), "{done}");
    let mut ids = before.to_vec();
    for number in 3..=LAST {
        ids.push(deployed(process, apps.shop(number)).await);
    }
    ids
}

/// What it had in its queue before has been before this one.
async fn it_works_again(slow: &Process, other: &Process, apps: &Apps) -> String {
    other.pause();
    slow.go_on();
    let id = deployed(slow, apps.other(LAST + 1)).await;
    other.go_on();
    id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_stood_still_does_not_deploy_the_past() {
    let Some(shared) = Shared::start().await else { return };
    let apps = Apps::new();
    let homes = [shared.slow_beside(&apps.forge, &shared.database, 10), shared.beside(&apps.forge)];
    let slow = homes[0].start().await;
    let before = one_waits(&slow, &apps).await;
    slow.pause();
    let other = homes[1].start().await;
    let mut ids = others_go_on(&other, &apps, before).await;
    ids.push(it_works_again(&slow, &other, &apps).await);
    assert_eq!(shared.written(), ids, "each once, and none over a newer one\n{}", slow.log());
    let folder = format!("manifests/{TARGET}/devx/shop");
    let newest = shared.bare.object(&format!("{folder}/{}", ids[7]));
    assert_eq!(shared.bare.object(&format!("{folder}/latest")), newest);
    shared.bare.assert_sound();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_stood_still_brings_no_removed_app_back() {
    let Some(shared) = Shared::start().await else { return };
    let apps = Apps::new();
    let homes = [shared.slow_beside(&apps.forge, &shared.database, 10), shared.beside(&apps.forge)];
    let slow = homes[0].start().await;
    let [first, waits] = one_waits(&slow, &apps).await;
    slow.pause();
    let other = homes[1].start().await;
    assert_eq!(other.ended(&waits).await["state"], "succeeded");
    let path = format!("/api/v1/apps/{TARGET}/devx/shop/remove");
    let asked = other.request(Method::POST, &path).json(&json!({"reason": "moved"}));
    assert_eq!(asked.send().await.unwrap().status(), 200);
    let last = it_works_again(&slow, &other, &apps).await;
    assert_eq!(shared.written(), [first, waits, last], "{}", slow.log());
    assert!(!shared.bare.files().keys().any(|path| path.contains("shop")), "{}", slow.log());
    shared.bare.assert_sound();
}

/// It is awake all the time, and reaches the manifest repository: only the database is out of reach.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_without_the_database_stops_pushing_before_another_takes_over() {
    let Some(shared) = Shared::start().await else { return };
    let apps = Apps::new();
    let tap = Tap::before(&shared.database);
    let homes = [shared.slow_beside(&apps.forge, &tap.url, 6), shared.beside(&apps.forge)];
    let [slow, other] = [homes[0].start().await, homes[1].start().await];
    other.pause();
    let before = one_waits(&slow, &apps).await;
    tap.cut();
    other.go_on();
    let ids = others_go_on(&other, &apps, before).await;
    let over = async || {
        let refused = slow.log().contains("lease ended, change not pushed");
        (refused || shared.written().len() > ids.len()).then_some(())
    };
    slow.until("the end of what waits there", over).await;
    shared.host.idle().await;
    assert_eq!(shared.written(), ids, "each once, and none over a newer one\n{}", slow.log());
    shared.bare.assert_sound();
}
