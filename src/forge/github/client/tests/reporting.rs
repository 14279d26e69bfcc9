//! Statuses of deployments and of commits: written, and found again.

use axum::extract::RawQuery;

use super::*;
use crate::forge::{CommitState, CommitStatus, ListedStatus};

type List = Arc<Mutex<Vec<Value>>>;

/// Starts a GitHub that keeps the statuses of deployment 5 and of [`SHA`], newest first.
async fn serve_statuses() -> (Forge, List) {
    let list = List::default();
    let write = async |State(list): State<List>, Json(body): Json<Value>| {
        list.lock().unwrap().insert(0, body);
        (Code::CREATED, Json(json!({"id": 1})))
    };
    let list_statuses = async |State(list): State<List>, RawQuery(query): RawQuery| {
        Json(page_of(&list.lock().unwrap(), &query.unwrap()))
    };
    let combined = async |State(list): State<List>, RawQuery(query): RawQuery| {
        let statuses = page_of(&list.lock().unwrap(), &query.unwrap());
        Json(json!({"state": "pending", "statuses": statuses}))
    };
    let router = Router::new()
        .route("/api/v3/repos/acme/shop/deployments/5/statuses", get(list_statuses).post(write))
        .route(&format!("/api/v3/repos/acme/shop/statuses/{SHA}"), post(write))
        .route(&format!("/api/v3/repos/acme/shop/commits/{SHA}/status"), get(combined))
        .with_state(list.clone());
    (serve(router, TOKEN).await, list)
}

#[tokio::test]
async fn a_status_that_was_written_is_found_and_one_that_says_something_else_is_not() {
    let (github, _) = serve_statuses().await;
    let status = DeploymentStatus { description: "ü".repeat(200), ..success() };
    assert!(!github.has_status(&shop(), 5, &status).await.unwrap());
    github.report(&shop(), 5, &status).await.unwrap();
    assert!(github.has_status(&shop(), 5, &status).await.unwrap());
    let elsewhere = || Some("https://deployer.example.com/y".to_owned());
    for other in [
        DeploymentStatus { state: ForgeState::Failure, ..status.clone() },
        DeploymentStatus { description: "deployed".to_owned(), ..status.clone() },
        DeploymentStatus { log_url: elsewhere(), ..status.clone() },
        DeploymentStatus { log_url: None, ..status.clone() },
    ] {
        assert!(!github.has_status(&shop(), 5, &other).await.unwrap(), "{other:?}");
    }
    let status = DeploymentStatus { log_url: None, ..success() };
    github.report(&shop(), 5, &status).await.unwrap();
    assert!(github.has_status(&shop(), 5, &status).await.unwrap());
}

#[tokio::test]
async fn statuses_with_words_that_we_do_not_know_are_listed_over_three_pages() {
    let (github, list) = serve_statuses().await;
    let odd = json!({"state": "waiting", "description": null, "log_url": "", "creator": null});
    let own_status = json!({"state": "success", "description": "deployed",
        "log_url": "https://deployer.example.com/x", "creator": {"login": "deployer[bot]"}});
    *list.lock().unwrap() = vec![odd; 250];
    list.lock().unwrap().push(own_status);
    let statuses = github.statuses(&shop(), 5).await.unwrap();
    assert_eq!(statuses.len(), 251);
    let bare_status = ListedStatus {
        state: "waiting".to_owned(),
        description: String::new(),
        log_url: None,
        creator: None,
    };
    assert_eq!(statuses[0], bare_status);
    assert_eq!(statuses[250].creator.as_deref(), Some("deployer[bot]"));
    assert!(github.has_status(&shop(), 5, &success()).await.unwrap(), "on the third page");
}

fn deploy(state: CommitState) -> CommitStatus {
    CommitStatus {
        context: "deploy/prod".to_owned(),
        state,
        description: "ü".repeat(200),
        target_url: Some("https://deployer.example.com/x".to_owned()),
    }
}

#[tokio::test]
async fn the_newest_commit_status_of_a_context_counts_whatever_its_capitals() {
    let (github, list) = serve_statuses().await;
    let (pending, success) = (deploy(CommitState::Pending), deploy(CommitState::Success));
    assert!(!github.has_commit_status(&shop(), &commit(), &pending).await.unwrap());
    github.commit_status(&shop(), &commit(), &pending).await.unwrap();
    assert!(github.has_commit_status(&shop(), &commit(), &pending).await.unwrap());
    let other = json!({"state": "error", "context": "ci", "description": null, "target_url": null});
    list.lock().unwrap()[0]["context"] = json!("Deploy/Prod");
    list.lock().unwrap().splice(0..0, vec![other; 120]);
    assert!(github.has_commit_status(&shop(), &commit(), &pending).await.unwrap());
    github.commit_status(&shop(), &commit(), &success).await.unwrap();
    assert!(!github.has_commit_status(&shop(), &commit(), &pending).await.unwrap());
    assert!(github.has_commit_status(&shop(), &commit(), &success).await.unwrap());
    let status = list.lock().unwrap()[0].clone();
    assert_eq!(status["description"].as_str().unwrap().chars().count(), 140);
}
