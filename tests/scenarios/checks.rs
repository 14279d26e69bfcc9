//! Tests the check runs that say on GitHub why a commit was not deployed.

use serde_json::Value as Json;
use the_deployer::model::id::LockId;
use the_deployer::model::lock::{Lock, LockScope};
use the_deployer::model::notice::Sink;
use the_deployer::store::{LockPlacement, Reply};

use crate::harness::deployer::Deployer;
use crate::harness::events::waml;
use crate::harness::github::{Fault, Repository};
use crate::harness::requests::entry;

const TARGET: &str = "prod-cluster-1";

/// The program, as an App.
async fn start() -> Deployer {
    let mut deployer = Deployer::prepared().await;
    let app = deployer.github.app();
    let key = deployer.file("app.pem", &app.key);
    let credentials = format!("app: {{id: \"{}\", private_key: {{file: {key}}}}}", app.id);
    deployer.configure(|text| text.replace("token: {env: GITHUB_TOKEN}", &credentials));
    deployer.starts().await;
    deployer
}

/// A WAML with so many lines that are wrong, the first of them line 8.
fn broken(lines: usize) -> String {
    let wrong: String = (0..lines).map(|n| format!("    wrong{n}: 1\n")).collect();
    format!(
        "schema: \"2\"\nname: Shop\nslug: shop\nowner: squad@example.com\nnamespace: devx\n\
         deploy:\n  prod-cluster-1:\n{wrong}"
    )
}

/// Conclusion and title of each check run of a commit, oldest first.
fn checks(repository: &Repository<'_>, sha: &str) -> Vec<(String, String)> {
    let text = |json: &Json| json.as_str().unwrap().to_owned();
    let runs = repository.check_runs(sha).into_iter();
    runs.map(|run| (text(&run["conclusion"]), text(&run["output"]["title"]))).collect()
}

#[tokio::test]
async fn violations_are_read_at_their_lines() {
    let deployer = start().await;
    let shop = deployer.github.repository("example/shop");
    let sha = shop.commit(&broken(2));
    let id = shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    assert_eq!(deployer.github.told(id), ["queued", "in_progress", "failure"]);
    let title = "not deployed to prod-cluster-1: 2 violations".to_owned();
    assert_eq!(checks(&shop, &sha), [("failure".to_owned(), title)]);
    let run = shop.check_runs(&sha).pop().unwrap();
    let ours = deployer.deployment(id).await.id;
    assert_eq!(
        (&run["name"], &run["external_id"]),
        (&"deploy/prod-cluster-1".into(), &ours.to_string().into())
    );
    assert_eq!(run["details_url"], format!("https://deploy.example.com/deployments/{ours}"));
    let notes: Vec<_> = run["annotations"].as_array().unwrap().iter().collect();
    let lines: Vec<_> = notes.iter().map(|note| note["start_line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [8, 9], "{run:#}");
    assert!(notes.iter().all(|note| note["path"] == ".weave.yaml"), "{run:#}");
    deployer.settled().await;
}

#[tokio::test]
async fn what_is_too_much_for_github_is_cut_and_counted() {
    let deployer = start().await;
    let shop = deployer.github.repository("example/shop");
    let sha = shop.commit(&broken(130));
    shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    let run = shop.check_runs(&sha).pop().unwrap();
    assert_eq!(run["annotations"].as_array().unwrap().len(), 100);
    let summary = run["output"]["summary"].as_str().unwrap();
    assert!(summary.contains("[and 30 more](https://deploy.example.com/deployments/"), "{summary}");
    deployer.settled().await;
}

/// Nothing in the commit is at fault, so the same one can go well, and then says so.
#[tokio::test]
async fn a_success_of_the_same_commit_closes_a_failure_and_only_that() {
    let deployer = start().await;
    let shop = deployer.github.repository("example/shop");
    let sha = shop.commit(&waml("shop"));
    let (store, now) = (deployer.stepped().store(), deployer.clock.now());
    let lock = Lock {
        scope: LockScope::Everything,
        reason: "an incident".to_owned(),
        by: "jo".to_owned(),
        since: now,
        until: None,
    };
    let lock_id = LockId::parse("0000000a").unwrap();
    let placed =
        store.add_lock(&lock_id, &lock, &entry("lock", 1, "jo", "x", now), None).await.unwrap();
    assert_eq!(placed, LockPlacement::Yes);
    shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    let stopped = checks(&shop, &sha).pop().unwrap();
    assert_eq!(stopped.0, "action_required", "{stopped:?}");
    assert!(stopped.1.starts_with("not deployed to prod-cluster-1: "), "{stopped:?}");
    let _gone = store
        .remove_lock(&lock_id, &entry("unlock", 2, "jo", "over", now), &Reply::without_key())
        .await
        .unwrap();
    shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    let closed = ("success".to_owned(), "deployed to prod-cluster-1".to_owned());
    assert_eq!(checks(&shop, &sha), [stopped, closed]);
    shop.deploys(TARGET, "v2").await;
    deployer.settle().await;
    assert_eq!(checks(&shop, &sha).len(), 2, "there was no failure to close");
    deployer.settled().await;
}

#[tokio::test]
async fn without_the_permission_there_is_no_check_run_and_no_alarm() {
    let deployer = start().await;
    let shop = deployer.github.repository("example/shop");
    let sha = shop.commit(&broken(1));
    deployer.github.forbids("example", "checks");
    let id = shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    assert_eq!(deployer.github.told(id).last().unwrap(), "failure");
    assert_eq!(checks(&shop, &sha), []);
    let ours = deployer.deployment(id).await.id;
    let told = deployer.stepped().store().messages(&ours).await.unwrap();
    let check = told.iter().find(|told| told.sink == Sink::Check).unwrap();
    let reason = check.skipped.as_deref().unwrap_or_else(|| panic!("{check:?}"));
    assert!(reason.contains("checks: write"), "{reason}");
    deployer.settled().await;
}

#[tokio::test]
async fn a_check_run_that_may_be_there_is_looked_for() {
    let deployer = start().await;
    let shop = deployer.github.repository("example/shop");
    let sha = shop.commit(&broken(70));
    deployer.github.fails(1, "POST check-runs", Fault::CutAfter);
    shop.deploys(TARGET, "v1").await;
    deployer.settle().await;
    assert_eq!(checks(&shop, &sha).len(), 1);
    let run = shop.check_runs(&sha).pop().unwrap();
    assert_eq!(run["annotations"].as_array().unwrap().len(), 70, "and is completed");
    deployer.settled().await;
}
