//! `/api/v1/apps`: what is where.

use std::time::Duration;

use serde_json::{Value, json};

use super::shop::{TARGET, asks_with};
use super::world::{get, post};
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;

/// Deploys an app to a target that its WAML has to the end; the deploy id.
async fn deploys_to(deployer: &Deployer, app: &str, target: &str, tag: &str) -> String {
    let repository = deployer.github.repository(&format!("example/{app}"));
    repository.commit(&waml(app).replace("deploy:\n", "deploy:\n  dev: {}\n"));
    // Ids of one moment are in no order.
    deployer.clock.advance(Duration::from_secs(1));
    let number = repository.deploys(target, tag).await;
    deployer.settle().await;
    deployer.deployment(number).await.id.to_string()
}

async fn list(deployer: &Deployer, query: &str) -> (Vec<String>, Value) {
    let answer = get(deployer, &format!("/api/v1/apps{query}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let json = answer.json();
    let spot = |one: &Value| {
        let text = |key: &str| one[key].as_str().unwrap().to_owned();
        format!("{}/{}/{}", text("target"), text("namespace"), text("app"))
    };
    (json["apps"].as_array().unwrap().iter().map(spot).collect(), json["next"].clone())
}

#[tokio::test]
async fn apps_are_shown_with_what_is_live_where_they_are_reached_and_whose_they_are() {
    let deployer = Deployer::start().await;
    deploys_to(&deployer, "shop", "dev", "v1").await;
    deploys_to(&deployer, "cart", TARGET, "v1").await;
    let two_hosts = waml("shop").replace(
        "deploy:\n",
        "- match: \"*\"\n  ingress:\n  - {hostPrefix: shop, public: true, paths: [{path: /, servicePort: 8000}]}\n  \
         - {hostPrefix: buy, public: true, paths: [{path: /, servicePort: 8000}]}\ndeploy:\n",
    );
    let number = asks_with(&deployer, "v1", &two_hosts).await;
    let at = deployer.clock.now();
    deployer.settle().await;
    let live = deployer.deployment(number).await.id;
    asks_with(&deployer, "v2", "schema: \"2\"\n").await;
    deployer.settle().await;
    let broken = two_hosts.replace("number: 8000", "number: 80000");
    let number = asks_with(&deployer, "v3", &broken).await;
    deployer.settle().await;
    let failed = deployer.deployment(number).await.id;
    let edited = format!("manifests/{TARGET}/devx/cart/latest/more.yaml");
    deployer.manifests().somebody_writes(&edited, "by: hand\n");
    let lock = json!({"scope": {"target": TARGET, "app": "devx/cart"}, "reason": "the books"});
    assert_eq!(post(&deployer, "/api/v1/locks", &lock).await.status, 201);

    let json = get(&deployer, &format!("/api/v1/apps?target={TARGET}")).await.json();
    let repository = |app: &str| format!("example/{app}");
    assert_eq!(
        json,
        json!({"apps": [
            {"target": TARGET, "namespace": "devx", "app": "cart", "live_revision": null,
             "tag": null, "at": null, "hosts": ["cart.prod-cluster-1.internal"],
             "owner": "squad@example.com", "repository": repository("cart"), "locked": true,
             "held": false, "failed": null},
            {"target": TARGET, "namespace": "devx", "app": "shop", "live_revision": live,
             "tag": "v1", "at": at,
             "hosts": ["buy.prod-cluster-1.internal", "shop.prod-cluster-1.internal"],
             "owner": "squad@example.com", "repository": repository("shop"), "locked": false,
             "held": false, "failed": {"id": failed, "tag": "v3"}},
        ], "next": null, "missing": []})
    );

    // Pages follow one another without a gap.
    let (mut all, mut query) = (vec![], "?limit=1".to_owned());
    loop {
        let (some, next) = list(&deployer, &query).await;
        all.extend(some);
        let Some(cursor) = next.as_str() else { break };
        query = format!("?limit=1&cursor={cursor}");
    }
    let [dev, cart, shop] =
        ["dev/devx/shop", "prod-cluster-1/devx/cart", "prod-cluster-1/devx/shop"]
            .map(str::to_owned);
    assert_eq!(all, [dev.clone(), cart.clone(), shop.clone()]);
    assert_eq!(list(&deployer, "?target=dev").await.0, ["dev/devx/shop"]);
    assert_eq!(list(&deployer, "?app=devx/shop").await.0, [dev, shop]);
    assert_eq!(list(&deployer, "?state=edited").await.0, [cart]);
    assert_eq!(list(&deployer, "?target=test").await, (vec![], Value::Null));
    let wrong = get(&deployer, "/api/v1/apps?sate=live").await.problem(400, "bad-request");
    assert!(wrong.contains("target, app, owner, state, limit, cursor"), "{wrong}");
    deployer.settled().await;
}
