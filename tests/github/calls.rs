//! Tests the App's requests, page by page.

use std::time::Duration;

use the_deployer::forge::check::{Annotation, CheckRun, Level};

use super::client::{Stage, check, commit_status, web};
use crate::harness::github::Webhooks;

const NOBODY: &str = "http://127.0.0.1:1/webhooks/github";

#[tokio::test]
async fn a_file_that_was_read_is_not_sent_again() {
    let stage = Stage::new().await;
    for _ in 0..3 {
        assert_eq!(stage.waml().await.unwrap(), b"slug: web\n");
    }
    assert_eq!((stage.world.count("GET contents"), stage.answered(304)), (3, 2));
    // Who may not see it any more does not get what we kept.
    stage.world.uninstalled("acme");
    stage.waml().await.unwrap_err();
    stage.world.settled();
}

#[tokio::test]
async fn deployments_come_newest_first_over_three_pages() {
    let stage = Stage::new().await;
    let repository = stage.world.repository("acme/web");
    let mut ids = Vec::new();
    for n in 0..230 {
        ids.insert(0, repository.deploys("prod", &format!("v{n}")).await);
    }
    let found = stage.github.recent_deployments(&web(), 1000).await.unwrap();
    let found: Vec<i64> = found.iter().map(|one| one["id"].as_i64().unwrap()).collect();
    assert_eq!(found, ids);
    let few = stage.github.recent_deployments(&web(), 7).await.unwrap();
    assert_eq!(few.len(), 7);
    assert_eq!(few[0]["payload"]["tag"], "v229");
    stage.world.settled();
}

#[tokio::test]
async fn events_that_were_lost_are_listed_until_one_attempt_arrives() {
    let stage = Stage::new().await;
    let repository = stage.world.repository("acme/web");
    stage.world.hooks_to(NOBODY, "secret");
    stage.world.webhooks(Webhooks::Lost);
    let old = repository.deploys("prod", "v0").await;
    stage.clock.advance(Duration::from_mins(10));
    let since = stage.clock.now();
    let mut lost = Vec::new();
    for n in 1..=120 {
        lost.insert(0, repository.deploys("prod", &format!("v{n}")).await);
    }
    let found = stage.github.failed_deliveries(since, 1000).await.unwrap();
    assert_eq!(found.len(), 120, "over two pages, and none from before");
    assert!(found.iter().all(|one| one.event == "deployment" && one.delivered_at >= since));
    assert_eq!(stage.github.failed_deliveries(since, 30).await.unwrap(), found[..30]);
    let content = stage.github.delivery(found[0].id).await.unwrap();
    let payload: serde_json::Value = serde_json::from_slice(&content.payload).unwrap();
    assert_eq!(
        (content.guid.as_str(), payload["deployment"]["id"].as_i64()),
        (found[0].guid.as_str(), lost.first().copied(),)
    );
    for id in lost.into_iter().chain([old]) {
        stage.world.left_open(id);
    }
    stage.world.settled();
}

#[tokio::test]
async fn a_pull_request_is_looked_through_and_a_person_looked_up() {
    let stage = Stage::new().await;
    let repository = stage.world.repository("acme/web");
    let files = [(".weave.yaml", "slug: other\n"), ("src/main.rs", "fn main() {}\n")];
    let number = repository.opens_pull_request("change", &files).await;
    let touches = async |path: &str| {
        let files = stage.github.pull_request_files(&web(), number, |file| file == path).await;
        files.unwrap().contains(path)
    };
    assert!(touches(".weave.yaml").await);
    assert!(!touches("README.md").await);
    let shop = web();
    let of_code = stage.github.pull_request_files(&shop, number, |path| path.contains("main"));
    assert_eq!(of_code.await.unwrap().into_iter().collect::<Vec<_>>(), ["src/main.rs"]);
    repository.renames_in_pull_request(number, "README.md", "READ.md");
    assert!(touches("README.md").await, "it was moved away");
    stage.world.person("octocat", Some("octo@example.com"));
    stage.world.person("shy", None);
    let email = async |login| stage.github.email_of(login).await.unwrap();
    assert_eq!(email("octocat").await.as_deref(), Some("octo@example.com"));
    assert_eq!((email("shy").await, email("nobody").await), (None, None));
    stage.world.settled();
}

#[tokio::test]
async fn annotations_in_any_number_are_written_once() {
    let stage = Stage::new().await;
    let annotation = |line| Annotation {
        path: ".weave.yaml".to_owned(),
        line,
        level: Level::Failure,
        title: "ports".to_owned(),
        message: format!("line {line} is wrong"),
    };
    let annotations = (1..=130).map(annotation).collect();
    let run = CheckRun { annotations, ..check(&stage.commit) };
    let id = stage.github.create_check(&web(), &run).await.unwrap();
    stage.github.update_check(&web(), id, &run).await.unwrap();
    let more = CheckRun { title: "all".to_owned(), ..run };
    stage.github.update_check(&web(), id, &more).await.unwrap();
    let runs = stage.world.repository("acme/web").check_runs(stage.commit.as_str());
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0]["annotations"].as_array().unwrap().len(), 130);
    assert_eq!(runs[0]["output"]["title"], "all");
    stage.world.settled();
}

#[tokio::test]
async fn a_commit_has_the_newest_status_of_each_context() {
    let stage = Stage::new().await;
    let (github, commit) = (&stage.github, &stage.commit);
    let status = commit_status();
    github.commit_status(&web(), commit, &status).await.unwrap();
    assert!(github.has_commit_status(&web(), commit, &status).await.unwrap());
    let newer = the_deployer::forge::CommitStatus { description: "done".to_owned(), ..status };
    assert!(!github.has_commit_status(&web(), commit, &newer).await.unwrap());
    stage.world.settled();
}
