//! The client against a small GitHub with state, on loopback.

mod reads; // deployments, pull requests, people
mod branches; // which branches a commit is on
mod checks; // check runs
mod reporting; // statuses of deployments and commits

use std::sync::{Arc, Mutex};

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap as Headers, StatusCode as Code};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tracing::Level;

use super::*;
use crate::forge::error::ForgeError;
use crate::forge::{DeploymentStatus, Forge};
use crate::model::deployment::ForgeState;
use crate::model::id::{CommitSha, RepoName};
use crate::support::log::CapturedLog;
use crate::support::retry::Disposition;

const SHA: &str = "a84d88e7554fc1fa21bcbc4efae3c782a70d2b9d";
/// Long enough for a busy machine; a test of silence takes less.
const PATIENCE: Duration = Duration::from_secs(20);
const TOKEN: &str = "ghs_good.token_1";

/// A GitHub with one repository, one commit, one file.
#[derive(Default)]
struct World {
    statuses: Vec<(String, i64, Value)>,
    trouble: Option<Trouble>,
    requests: usize,
    /// The comparison of the commit with each branch.
    branches: Vec<(String, &'static str)>,
}

#[derive(Clone, Copy)]
enum Trouble {
    Limited,
    Silent,
    BadGateway,
}

type Shared = Arc<Mutex<World>>;

async fn stand_in() -> (Forge, Shared) {
    stand_in_with(TOKEN).await
}

async fn stand_in_with(token: &str) -> (Forge, Shared) {
    let world = Shared::default();
    let router = Router::new()
        .route("/api/v3/repos/{owner}/{name}", get(repository))
        .route("/api/v3/repos/{owner}/{name}/contents/{*path}", get(contents))
        .route("/api/v3/repos/{owner}/{name}/deployments/{id}/statuses", post(status))
        .route("/api/v3/repos/{owner}/{name}/compare/{*basehead}", get(branches::compare))
        .route("/api/v3/repos/{owner}/{name}/branches", get(branches::list))
        .with_state(world.clone());
    (serve(router, token).await, world)
}

/// Starts the router, and builds a client for it.
async fn serve(router: Router, token: &str) -> Forge {
    crate::support::http::install_tls_provider();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let api_url = format!("http://{}/api/v3", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let credentials = Credentials::Token(token.into());
    let settings = GitHubSettings { api_url, credentials, timeout: PATIENCE };
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
    client(settings, http.build().unwrap())
}

fn client(settings: GitHubSettings, http: reqwest::Client) -> Forge {
    Forge::GitHub(Box::new(GitHubClient::new(settings, http).unwrap()))
}

/// Builds a client that waits no longer than that for an answer.
fn within(forge: Forge, timeout: Duration) -> Forge {
    let Forge::GitHub(mut github) = forge else { panic!("it is GitHub") };
    github.wire.timeout = timeout;
    Forge::GitHub(github)
}

/// Returns the requested page of a list.
fn page_of(list: &[Value], query: &str) -> Vec<Value> {
    let number = |key: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| *name == key).unwrap().1.parse::<usize>().unwrap()
    };
    let (size, page) = (number("per_page"), number("page"));
    assert!(size <= 100, "GitHub gives no more");
    list.iter().skip(size * (page - 1)).take(size).cloned().collect()
}

/// Checks the token and the headers before a request is answered, and makes the trouble that a test
/// wants.
async fn gate(world: &Shared, headers: &Headers) -> Result<(), Response> {
    let trouble = {
        let mut world = world.lock().unwrap();
        world.requests += 1;
        world.trouble
    };
    assert_eq!(headers["x-github-api-version"], API_VERSION);
    let agents: Vec<_> = headers.get_all("user-agent").iter().collect();
    assert_eq!(agents, [AGENT], "it says who we are, once");
    match trouble {
        Some(Trouble::Silent) => std::future::pending().await,
        Some(Trouble::BadGateway) => Err(Code::BAD_GATEWAY.into_response()),
        Some(Trouble::Limited) => {
            let message = Json(json!({"message": "You have exceeded a secondary rate limit"}));
            Err((Code::FORBIDDEN, [("retry-after", "7")], message).into_response())
        }
        None if headers["authorization"] != format!("Bearer {TOKEN}").as_str() => {
            let message = Json(json!({"message": "Bad credentials"}));
            Err((Code::UNAUTHORIZED, message).into_response())
        }
        None => Ok(()),
    }
}

fn not_found(message: &str) -> Response {
    (Code::NOT_FOUND, Json(json!({"message": message}))).into_response()
}

async fn repository(
    State(world): State<Shared>,
    Path((owner, name)): Path<(String, String)>,
    headers: Headers,
) -> Result<Response, Response> {
    gate(&world, &headers).await?;
    if (owner.as_str(), name.as_str()) != ("acme", "shop") {
        return Err(not_found("Not Found"));
    }
    Ok(Json(json!({"full_name": "acme/shop"})).into_response())
}

async fn contents(
    State(world): State<Shared>,
    Path((owner, name, path)): Path<(String, String, String)>,
    Query(query): Query<std::collections::HashMap<String, String>>,
    headers: Headers,
) -> Result<Response, Response> {
    gate(&world, &headers).await?;
    assert_eq!(headers["accept"], "application/vnd.github.raw+json");
    if (owner.as_str(), name.as_str()) != ("acme", "shop") {
        return Err(not_found("Not Found"));
    }
    if query["ref"] != SHA {
        return Err(not_found(&format!("No commit found for the ref {}", query["ref"])));
    }
    match path.as_str() {
        ".weave.yaml" => Ok("name: Shop\n".into_response()),
        "a folder/ä.yaml" => Ok("escaped".into_response()),
        _ => Err(not_found("Not Found")),
    }
}

async fn status(
    State(world): State<Shared>,
    Path((owner, name, id)): Path<(String, String, i64)>,
    headers: Headers,
    Json(body): Json<Value>,
) -> Result<Response, Response> {
    gate(&world, &headers).await?;
    if body["description"].as_str().unwrap().chars().count() > 140 {
        let message = Json(json!({"message": "description is too long"}));
        return Err((Code::UNPROCESSABLE_ENTITY, message).into_response());
    }
    if id != 5 {
        return Err(not_found("Not Found"));
    }
    world.lock().unwrap().statuses.push((format!("{owner}/{name}"), id, body));
    Ok((Code::CREATED, Json(json!({"id": 1}))).into_response())
}

fn shop() -> RepoName {
    RepoName::parse("acme/shop").unwrap()
}

fn commit() -> CommitSha {
    CommitSha::parse(SHA).unwrap()
}

async fn weave(github: &Forge) -> Result<Vec<u8>, ForgeError> {
    github.file(&shop(), &commit(), ".weave.yaml", 100).await
}

fn success() -> DeploymentStatus {
    DeploymentStatus {
        state: ForgeState::Success,
        description: "deployed".to_owned(),
        log_url: Some("https://deployer.example.com/x".to_owned()),
        environment_url: None,
    }
}

#[tokio::test]
async fn a_file_is_read_raw_at_its_commit() {
    let (github, _) = stand_in().await;
    assert_eq!(weave(&github).await.unwrap(), b"name: Shop\n");
    let odd = github.file(&shop(), &commit(), "a folder/ä.yaml", 100).await;
    assert_eq!(odd.unwrap(), b"escaped");
}

#[tokio::test]
async fn a_404_is_told_apart_into_repository_commit_and_file() {
    let (github, _) = stand_in().await;
    let other = RepoName::parse("acme/none").unwrap();
    let error = github.file(&other, &commit(), ".weave.yaml", 100).await.unwrap_err();
    assert!(matches!(error, ForgeError::NoRepository { .. }), "{error}");
    let unknown_commit = CommitSha::parse("0".repeat(40)).unwrap();
    let error = github.file(&shop(), &unknown_commit, ".weave.yaml", 100).await.unwrap_err();
    assert!(matches!(error, ForgeError::NoCommit { .. }), "{error}");
    let error = github.file(&shop(), &commit(), "none", 100).await.unwrap_err();
    assert!(matches!(error, ForgeError::NoFile { .. }), "{error}");
    assert_eq!(error.disposition(), Disposition::Stop);
}

#[tokio::test]
async fn a_file_over_the_limit_is_not_read_to_its_end() {
    let (github, _) = stand_in().await;
    let error = github.file(&shop(), &commit(), ".weave.yaml", 10).await.unwrap_err();
    assert!(matches!(error, ForgeError::TooLarge { limit: 10, .. }), "{error}");
}

#[tokio::test]
async fn a_wrong_token_stops_and_is_not_shown() {
    let (github, _) = stand_in_with("ghp_wrong").await;
    let error = weave(&github).await.unwrap_err();
    assert!(matches!(error, ForgeError::BadCredentials { .. }), "{error}");
    assert_eq!(error.disposition(), Disposition::Stop);
    assert!(!format!("{error} {error:?} {github:?}").contains("ghp_wrong"));
}

#[tokio::test]
async fn the_token_is_in_no_log_however_much_is_logged() {
    let log = CapturedLog::of("", Level::TRACE);
    let (github, _) = stand_in().await;
    weave(&github).await.unwrap();
    github.report(&shop(), 5, &success()).await.unwrap();
    let text = log.text();
    assert!(text.contains("/repos/acme/shop"), "something is logged: {text}");
    assert!(!text.contains(TOKEN), "{text}");
}

#[tokio::test]
async fn a_limit_is_obeyed_as_long_as_it_says() {
    let (github, world) = stand_in().await;
    world.lock().unwrap().trouble = Some(Trouble::Limited);
    let error = weave(&github).await.unwrap_err();
    assert_eq!(error.disposition(), Disposition::Retry { after: Some(Duration::from_secs(7)) });
    weave(&github).await.unwrap_err();
    assert_eq!(world.lock().unwrap().requests, 2, "without a clock nobody is held back");
}

#[tokio::test]
async fn silence_and_bad_gateways_are_worth_another_try_later_and_none_at_once() {
    let (github, world) = stand_in().await;
    let github = within(github, Duration::from_millis(300));
    for trouble in [Trouble::Silent, Trouble::BadGateway] {
        *world.lock().unwrap() = World { trouble: Some(trouble), ..World::default() };
        let error = github.report(&shop(), 5, &success()).await.unwrap_err();
        assert_eq!(error.disposition(), Disposition::Retry { after: None }, "{error}");
        assert!(error.may_have_arrived(), "{error}");
        assert_eq!(world.lock().unwrap().requests, 1);
    }
}

#[tokio::test]
async fn nobody_listening_is_worth_another_try() {
    crate::support::http::install_tls_provider();
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let api_url = format!("http://{}", closed.local_addr().unwrap());
    drop(closed);
    let credentials = Credentials::Token(TOKEN.into());
    let settings = GitHubSettings { api_url, credentials, timeout: Duration::from_secs(5) };
    let github = client(settings, reqwest::Client::new());
    let error = weave(&github).await.unwrap_err();
    assert_eq!(error.disposition(), Disposition::Retry { after: None });
    assert!(error.to_string().contains("refused"), "{error}");
    assert!(!github.report(&shop(), 5, &success()).await.unwrap_err().may_have_arrived());
}

#[tokio::test]
async fn a_status_carries_what_it_has_and_a_long_description_is_cut() {
    let (github, world) = stand_in().await;
    github.report(&shop(), 5, &success()).await.unwrap();
    let long = DeploymentStatus { description: "ü".repeat(500), ..success() };
    github.report(&shop(), 5, &long).await.unwrap();
    let error = github.report(&shop(), 6, &success()).await.unwrap_err();
    assert!(matches!(error, ForgeError::NoRepository { .. }), "{error}");
    let world = world.lock().unwrap();
    let (repository, id, body) = &world.statuses[0];
    assert_eq!((repository.as_str(), *id), ("acme/shop", 5));
    let log_url = "https://deployer.example.com/x";
    let expected = json!({
        "state": "success", "description": "deployed", "log_url": log_url, "auto_inactive": false,
    });
    assert_eq!(*body, expected);
    let description = world.statuses[1].2["description"].as_str().unwrap();
    assert_eq!(description, format!("{}…", "ü".repeat(139)));
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused() {
    let settings_error = |api_url: &str, token: &str| {
        let credentials = Credentials::Token(token.into());
        let timeout = Duration::from_secs(1);
        let settings = GitHubSettings { api_url: api_url.to_owned(), credentials, timeout };
        GitHubClient::new(settings, reqwest::Client::new()).unwrap_err()
    };
    crate::support::http::install_tls_provider();
    for url in ["", "api.github.com", "ftp://x/", "https://user:pw@x/", "https://x/?a=b"] {
        assert!(matches!(settings_error(url, TOKEN), GitHubSettingsError::Url { .. }), "{url}");
    }
    for token in ["", "a b", "a\nb", "ä"] {
        assert!(
            matches!(settings_error(GITHUB_API, token), GitHubSettingsError::Token),
            "{token:?}"
        );
    }
}
