//! The program with `devx/shop` deployed to a target, for who asks it to do something with that app.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use the_deployer::model::audit::{AuditRecord, Search};

use super::world::{Answer, request, send};
use crate::harness::deployer::Deployer;
use crate::harness::events::waml;

/// The target that the WAML knows.
pub(super) const TARGET: &str = "prod-cluster-1";

/// What is asked about the app begins with this.
pub(super) const SHOP: &str = "/api/v1/apps/prod-cluster-1/devx/shop";

/// The app's folder in the manifest repository.
pub(super) const FOLDER: &str = "manifests/prod-cluster-1/devx/shop";

/// Asks for a deployment of the shop that nothing was done about yet; GitHub's number of it.
pub(super) async fn asks(deployer: &Deployer, tag: &str) -> i64 {
    asks_with(deployer, tag, &waml("shop")).await
}

/// The same of another WAML.
pub(super) async fn asks_with(deployer: &Deployer, tag: &str, waml: &str) -> i64 {
    let repository = deployer.github.repository("example/shop");
    repository.commit(waml);
    // Ids of one moment are in no order.
    deployer.clock.advance(Duration::from_secs(1));
    repository.deploys(TARGET, tag).await
}

/// Deploys the shop to the end; the deploy id.
pub(super) async fn deploys(deployer: &Deployer, tag: &str) -> String {
    deploys_with(deployer, tag, &waml("shop")).await
}

/// The same of another WAML.
pub(super) async fn deploys_with(deployer: &Deployer, tag: &str, waml: &str) -> String {
    let number = asks_with(deployer, tag, waml).await;
    deployer.settle().await;
    deployer.clock.advance(Duration::from_secs(1));
    deployer.deployment(number).await.id.to_string()
}

/// Before it starts: only these tokens are good for something. Each reads as its name, and has the
/// rights that the configuration gives it: `"scope: deploy, targets: [prod]"`.
pub(super) fn tokens(deployer: &mut Deployer, tokens: &[(&str, &str)]) {
    let digest = |name: &str| hex::encode(Sha256::digest(name));
    let token = |(name, rights): &(&str, &str)| {
        format!("  - {{name: {name}, sha256: {}, {rights}}}\n", digest(name))
    };
    let all: String = tokens.iter().map(token).collect();
    deployer.configure(|config| format!("{config}auth:\n  tokens:\n{all}"));
}

/// The answer to the holder of a token: to a GET where there is no body, else to a POST.
pub(super) async fn ask_as(deployer: &Deployer, token: &str, path: &str, body: &Value) -> Answer {
    let method = if body.is_null() { Method::GET } else { Method::POST };
    let request = request(deployer, method, path).bearer_auth(token);
    send(if body.is_null() { request } else { request.json(body) }).await
}

/// What people did, newest first.
pub(super) async fn audited(deployer: &Deployer) -> Vec<AuditRecord> {
    let search = Search { limit: 100, ..Search::default() };
    deployer.stepped().store().audit_records(&search).await.unwrap().entries
}

/// Starts anew after the database was closed under it, and looks whether all is well.
pub(super) async fn recovers(mut deployer: Deployer) {
    deployer.dies();
    deployer.starts().await;
    deployer.settled().await;
}
