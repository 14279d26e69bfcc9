//! `/api/v1/apps`: what is where.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::world::{Fake, World, now, world, world_with};
use crate::model::id::{DeployId, ImageTag, RepoName, TargetName};
use crate::model::placed::{Placed, Spot};
use crate::model::target::{Clusters, Target};
use crate::server::Limits;
use crate::server::auth::{Token, Tokens};
use crate::server::ports::{AppLine, Apps, AppsPage, AppsQuery};

/// The apps `shop` and `cart` on `prod`, and `shop` on `dev`.
impl Apps for Fake {
    fn clusters(&self) -> &Clusters {
        static CLUSTERS: LazyLock<Clusters> = LazyLock::new(|| {
            let names = ["dev", "prod"].map(|name| TargetName::parse(name).unwrap());
            Clusters::Known(names.map(|name| (name.clone(), Target::unconfigured(name))).into())
        });
        &CLUSTERS
    }

    async fn apps(&self, query: &AppsQuery) -> Result<AppsPage, String> {
        self.trouble().await.map_err(|_| "m.git does not answer".to_owned())?;
        let spots = ["dev/devx/shop", "prod/devx/cart", "prod/devx/shop"];
        let spots = spots.map(|text| Spot::parse(text).unwrap()).into_iter();
        let spots = spots.filter(|spot| query.target.as_ref().is_none_or(|t| *t == spot.target));
        let spots = spots.filter(|spot| query.app.as_ref().is_none_or(|app| *app == spot.app));
        let mut spots: Vec<_> = spots.filter(|spot| Some(spot) > query.after.as_ref()).collect();
        let more = spots.len() > query.limit as usize;
        spots.truncate(query.limit as usize);
        let next = spots.last().filter(|_| more).cloned();
        let missing = [("far".to_owned(), "far.git cannot be reached".to_owned())];
        let missing = if query.target.is_none() { missing.into() } else { BTreeMap::new() };
        let line = |spot: Spot| AppLine {
            locked: spot.app.slug.as_str() == "cart",
            held: spot.target.as_str() == "dev",
            tag: (spot.app.slug.as_str() == "shop").then(|| ImageTag::parse("1.10").unwrap()),
            at: (spot.app.slug.as_str() == "shop").then(now),
            failed: (spot.app.slug.as_str() == "shop").then(|| {
                let id = DeployId::parse("20261121-064812123-3f9a2c").unwrap();
                (id, ImageTag::parse("1.11").unwrap())
            }),
            placed: placed(spot),
        };
        let in_state = |line: &AppLine| query.state.is_none_or(|state| line.is(state));
        let apps = spots.into_iter().map(line).filter(in_state).collect();
        Ok(AppsPage { apps, next, missing })
    }
}

/// `cart` was edited by hand, and has no Application.
fn placed(spot: Spot) -> Placed {
    let ours = spot.app.slug.as_str() == "shop";
    Placed {
        live: ours.then(|| DeployId::parse("20261121-054812123-3f9a2c").unwrap()),
        hosts: BTreeSet::from(["b.example.com".to_owned(), "a.example.com".to_owned()]),
        owner: ours.then(|| "squad@example.com".to_owned()),
        repository: ours.then(|| RepoName::parse("acme/shop").unwrap()),
        spot,
    }
}

async fn list(world: &World, query: &str) -> (Vec<String>, Value) {
    let answer = world.get(&format!("/api/v1/apps{query}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let json = answer.json();
    let spot = |one: &Value| {
        let text = |key: &str| one[key].as_str().unwrap().to_owned();
        format!("{}/{}/{}", text("target"), text("namespace"), text("app"))
    };
    (json["apps"].as_array().unwrap().iter().map(spot).collect(), json["next"].clone())
}

#[tokio::test]
async fn an_app_is_shown_with_what_is_live_where_it_is_reached_and_whose_it_is() {
    let json = world().get("/api/v1/apps?target=prod").await.json();
    let hosts = json!(["a.example.com", "b.example.com"]);
    assert_eq!(
        json,
        json!({"apps": [
            {"target": "prod", "namespace": "devx", "app": "cart", "live_revision": null,
             "tag": null, "at": null, "hosts": hosts, "owner": null, "repository": null, "locked": true, "held": false,
             "failed": null},
            {"target": "prod", "namespace": "devx", "app": "shop",
             "live_revision": "20261121-054812123-3f9a2c", "tag": "1.10",
             "at": "2026-11-21T05:48:12Z", "hosts": hosts,
             "owner": "squad@example.com", "repository": "acme/shop", "locked": false, "held": false,
             "failed": {"id": "20261121-064812123-3f9a2c", "tag": "1.11"}},
        ], "next": null, "missing": []})
    );
}

#[tokio::test]
async fn a_repository_that_cannot_be_read_is_named_beside_what_the_others_have() {
    let json = world().get("/api/v1/apps").await.json();
    assert_eq!(json["apps"].as_array().unwrap().len(), 3);
    let missing = json!([{"repository": "far", "why": "far.git cannot be reached"}]);
    assert_eq!(json["missing"], missing);
}

#[tokio::test]
async fn pages_follow_one_another_without_a_gap() {
    let world = world();
    let (mut all, mut query) = (vec![], "?limit=1".to_owned());
    loop {
        let (some, next) = list(&world, &query).await;
        all.extend(some);
        let Some(cursor) = next.as_str() else { break };
        query = format!("?limit=1&cursor={cursor}");
    }
    assert_eq!(all, ["dev/devx/shop", "prod/devx/cart", "prod/devx/shop"]);
    assert_eq!(list(&world, "?target=dev").await.0, ["dev/devx/shop"]);
    assert_eq!(list(&world, "?app=devx/shop").await.0, ["dev/devx/shop", "prod/devx/shop"]);
    assert_eq!(list(&world, "?state=edited").await.0, ["prod/devx/cart"]);
    assert_eq!(list(&world, "?target=test").await, (vec![], Value::Null));
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let world = world();
    let wrong = world.get("/api/v1/apps?sate=live").await;
    assert!(wrong.problem(400, "bad-request").contains("target, app, owner, state, limit, cursor"));
    world.fake.inner.lock().unwrap().broken = true;
    let away = world.get("/api/v1/apps").await;
    assert_eq!(away.problem(503, "unavailable"), "m.git does not answer");
}

#[tokio::test]
async fn it_is_behind_the_tokens_as_all_of_the_api() {
    let tokens = Tokens(vec![Token::of_text("ci", "t0ken-text")]);
    let answer = world_with(Limits::default(), tokens).get("/api/v1/apps").await;
    answer.problem(401, "unauthorized");
}
