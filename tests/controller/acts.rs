//! The acts of people in these stories, and the checks after them.

use reqwest::Method;
use serde_json::{Value as Json, json};
use the_deployer::model::deployment::Deployment;

use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::github::{Fault, Repository};
use crate::harness::process::client;

/// What the forge is told of a deployment that goes well.
pub(super) const WELL: [&str; 3] = ["queued", "in_progress", "success"];

/// The target that the WAMLs here know.
pub(super) const TARGET: &str = "prod-cluster-1";

/// While it plans, the program asks GitHub which branch the commit is on.
pub(super) fn asks_for_branches(deployer: &mut Deployer) {
    deployer.configure(|config| {
        format!(
            "{config}clusters:\n- {{name: {TARGET}, environment: production, domain: example.com, \
             policies: {{branches: [main]}}}}\n"
        )
    });
}

/// Planning asks for this.
pub(super) const PLANS: &str = "GET compare";

/// An app with a WAML on `main`.
pub(super) fn app<'d>(deployer: &'d Deployer, name: &str) -> Repository<'d> {
    let repository = deployer.github.repository(&format!("example/{name}"));
    repository.commit(&waml(name));
    repository
}

/// Something happens while an attempt waits for GitHub's answer to such a request.
pub(super) async fn meanwhile(deployer: &Deployer, words: &str, what: impl AsyncFnOnce()) {
    deployer.github.fails(1, words, Fault::Held);
    let met = deployer.github.met(words);
    let (attempted, ()) = tokio::join!(deployer.stepped().step(), async {
        met.await;
        what().await;
        deployer.github.lets_go();
    });
    assert!(attempted.unwrap(), "there was nothing to do");
}

/// The status and the JSON of an answer of the API.
pub(super) async fn ask(
    deployer: &Deployer,
    method: Method,
    path: &str,
    body: &Json,
) -> (u16, Json) {
    let request = client().request(method, format!("{}/api/v1{path}", deployer.url()));
    let answer = request.json(body).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

/// Somebody locks the target; the lock.
pub(super) async fn locks(deployer: &Deployer, reason: &str) -> String {
    let lock = json!({"scope": {"target": TARGET}, "reason": reason});
    let (status, said) = ask(deployer, Method::POST, "/locks", &lock).await;
    assert!((200..300).contains(&status), "{said}");
    said["id"].as_str().unwrap().to_owned()
}

/// Somebody takes the lock away.
pub(super) async fn unlocks(deployer: &Deployer, lock: &str) {
    let (path, reason) = (format!("/locks/{lock}/remove"), json!({"reason": "it is over"}));
    let (status, said) = ask(deployer, Method::POST, &path, &reason).await;
    assert_eq!(status, 200, "{said}");
}

/// Somebody asks to stop a deployment.
pub(super) async fn cancels(deployer: &Deployer, one: &Deployment, reason: &str) -> (u16, Json) {
    let path = format!("/deployments/{}/cancel", one.id);
    ask(deployer, Method::POST, &path, &json!({"reason": reason})).await
}

/// Somebody rolls an app back to what was live before; the record, which waits for its turn.
pub(super) async fn rolls_back(deployer: &Deployer, app: &str, reason: &str) -> Deployment {
    let path = format!("/apps/{TARGET}/devx/{app}/rollback");
    let (status, said) = ask(deployer, Method::POST, &path, &json!({"reason": reason})).await;
    assert_eq!(status, 202, "{said}");
    let newest = deployer.deployments().await.pop().unwrap();
    assert!(newest.rollback.is_some(), "{newest:?}");
    newest
}

/// The record of a deployment as it is now.
pub(super) async fn now(deployer: &Deployer, one: &Deployment) -> Deployment {
    deployer.stepped().store().deployment(&one.id).await.unwrap().unwrap()
}

/// The deployments and rollbacks whose commits are in the manifest repository, oldest first.
pub(super) fn pushed(deployer: &Deployer) -> Vec<String> {
    let bare = deployer.manifests();
    if bare.commits() == 0 {
        return Vec::new();
    }
    let format = "--format=%(trailers:key=Deploy-Id,key=Rollback-Id,valueonly,separator=%x20)";
    let log = bare.run(&["log", "--reverse", format, "main"]);
    log.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// The same by GitHub's numbers.
pub(super) async fn pushes(deployer: &Deployer) -> Vec<i64> {
    let all = deployer.deployments().await;
    let number = |id: &String| all.iter().find(|one| one.id.as_str() == id).unwrap();
    pushed(deployer).iter().map(|id| number(id).request.forge_id).collect()
}
