//! An App's installations and tokens: narrow, kept, renewed, one at a time.

use std::time::Duration;

use secrecy::ExposeSecret as _;
use the_deployer::forge::error::ForgeError;
use the_deployer::forge::github::permission::AccessLevel;
use the_deployer::model::id::{CommitSha, RepoName};
use tracing::Level;

use super::client::{Stage, as_app, check, commit_status, success, web};
use crate::harness::log::CapturedLog;
use crate::harness::process::client;

#[tokio::test]
async fn one_token_does_everything_that_a_deployment_needs() {
    let stage = Stage::new().await;
    let id = stage.world.repository("acme/web").deploys("prod", "v1").await;
    let github = &stage.github;
    assert_eq!(stage.waml().await.unwrap(), b"slug: web\n");
    github.report(&web(), id, &success()).await.unwrap();
    github.commit_status(&web(), &stage.commit, &commit_status()).await.unwrap();
    let run = github.create_check(&web(), &check(&stage.commit)).await.unwrap();
    let found = github.find_check(&web(), &stage.commit, "deploy/prod", "of-ours").await;
    assert_eq!(found.unwrap(), Some(run));
    assert_eq!(stage.world.told(id), ["success"]);
    assert_eq!((stage.minted(), stage.world.count("GET installation")), (1, 1));
    stage.world.settled();
}

#[tokio::test]
async fn fifty_calls_at_once_mint_one_token() {
    let stage = Stage::new().await;
    let all = futures::future::join_all((0..50).map(|_| stage.waml())).await;
    assert!(all.into_iter().all(|read| read.unwrap() == b"slug: web\n"));
    assert_eq!((stage.minted(), stage.world.count("GET installation")), (1, 1));
    stage.world.settled();
}

#[tokio::test]
async fn a_token_is_renewed_before_it_ends() {
    let stage = Stage::new().await;
    for (minutes, minted) in [(0, 1), (54, 1), (1, 2), (54, 2), (59, 3), (600, 4)] {
        stage.clock.advance(Duration::from_mins(minutes));
        stage.waml().await.unwrap();
        assert_eq!(stage.minted(), minted, "after {minutes} more minutes");
    }
    assert_eq!(stage.answered(401), 0);
    stage.world.settled();
}

#[tokio::test]
async fn while_no_token_can_be_made_the_old_one_is_used_to_its_end() {
    let stage = Stage::new().await;
    stage.waml().await.unwrap();
    stage.clock.advance(Duration::from_mins(57));
    stage.world.fails(1, "POST access_tokens", crate::harness::github::Fault::BadGateway);
    stage.waml().await.unwrap();
    assert_eq!(stage.minted(), 2);
    stage.clock.advance(Duration::from_mins(3));
    stage.world.fails(1, "POST access_tokens", crate::harness::github::Fault::BadGateway);
    let error = stage.waml().await.unwrap_err();
    assert!(matches!(error, ForgeError::NotSent { .. }), "{error}");
    stage.waml().await.unwrap();
    stage.world.settled();
}

#[tokio::test]
async fn a_token_that_is_refused_is_made_anew_once() {
    let stage = Stage::new().await;
    let id = stage.world.repository("acme/web").deploys("prod", "v1").await;
    stage.waml().await.unwrap();
    stage.world.revokes_tokens();
    stage.github.report(&web(), id, &success()).await.unwrap();
    assert_eq!(stage.world.told(id), ["success"], "once");
    assert_eq!((stage.minted(), stage.answered(401)), (2, 1));
    let refuses = crate::harness::github::Fault::BadCredentials;
    stage.world.fails(2, "GET contents", refuses);
    let error = stage.waml().await.unwrap_err();
    assert!(matches!(error, ForgeError::BadCredentials { .. }), "{error}");
    assert_eq!((stage.minted(), stage.answered(401)), (3, 3), "and not for ever");
    stage.world.settled();
}

#[tokio::test]
async fn a_token_is_for_one_repository_and_one_purpose() {
    let stage = Stage::new().await;
    stage.world.repository("acme/shop");
    let ask = async |access: AccessLevel, method: reqwest::Method, path: &str| {
        let token = stage.app().git_token(&web(), access).await.unwrap();
        assert!(token.expose_secret().len() > 500);
        let url = format!("{}{path}", stage.world.api_url());
        let request = client().request(method, url).bearer_auth(token.expose_secret());
        request.header("user-agent", "a-test").send().await.unwrap().status().as_u16()
    };
    let (get, post) = (reqwest::Method::GET, reqwest::Method::POST);
    let waml = "/repos/acme/web/contents/.weave.yaml";
    assert_eq!(ask(AccessLevel::Read, get.clone(), waml).await, 200);
    assert_eq!(ask(AccessLevel::Write, get.clone(), waml).await, 200);
    assert_eq!(ask(AccessLevel::Read, get.clone(), "/repos/acme/shop").await, 404);
    assert_eq!(ask(AccessLevel::Write, post, "/repos/acme/web/deployments").await, 403);
    assert_eq!(ask(AccessLevel::Read, get, "/repos/acme/web/deployments").await, 403);
    assert_eq!(stage.minted(), 2);
    let refused = stage.app().git_token(&web(), AccessLevel::Read).await.unwrap();
    stage.app().git_token_refused(&web(), AccessLevel::Read, &refused).await;
    let another = stage.app().git_token(&web(), AccessLevel::Read).await.unwrap();
    assert_ne!(another.expose_secret(), refused.expose_secret());
    stage.clock.advance(Duration::from_mins(46));
    stage.app().git_token(&web(), AccessLevel::Read).await.unwrap();
    assert_eq!(stage.minted(), 4, "a clone takes its time");
    stage.world.settled();
}

#[tokio::test]
async fn a_renamed_repository_is_followed_by_its_old_name() {
    let stage = Stage::new().await;
    let repository = stage.world.repository("acme/web");
    let id = repository.deploys("prod", "v1").await;
    repository.renamed_to("acme/site");
    assert_eq!(stage.waml().await.unwrap(), b"slug: web\n");
    stage.github.report(&web(), id, &success()).await.unwrap();
    assert_eq!(stage.world.told(id), ["success"]);
    assert_eq!((stage.minted(), stage.answered(422)), (1, 0), "by its number");
    stage.world.settled();
}

#[tokio::test]
async fn a_repository_that_is_renamed_later_is_found_again() {
    let stage = Stage::new().await;
    let repository = stage.world.repository("acme/web");
    let id = repository.deploys("prod", "v1").await;
    stage.waml().await.unwrap();
    repository.renamed_to("acme/site");
    stage.github.report(&web(), id, &success()).await.unwrap();
    stage.clock.advance(Duration::from_mins(56));
    stage.waml().await.unwrap();
    let token = stage.app().git_token(&web(), AccessLevel::Read).await;
    token.unwrap();
    assert_eq!(stage.world.told(id), ["success"]);
    stage.world.settled();
}

#[tokio::test]
async fn github_com_and_an_enterprise_server_are_the_same_but_for_the_address() {
    let stage = Stage::new().await;
    let world = &stage.world;
    let root = world.api_url().replace("/api/v3", "");
    for api_url in [world.api_url(), root, format!("{}/", world.api_url())] {
        let github = as_app(world, &stage.clock, &api_url, &world.app().key);
        let read = github.file(&web(), &stage.commit, ".weave.yaml", 1000).await;
        assert_eq!(read.unwrap(), b"slug: web\n", "{api_url}");
        assert_eq!(github.installed_repositories(10).await.unwrap(), [web()]);
    }
    stage.world.settled();
}

#[tokio::test]
async fn repositories_are_those_of_all_installations_over_several_pages() {
    let stage = Stage::new().await;
    for n in 0..230 {
        stage.world.repository(&format!("acme/s{n}"));
    }
    stage.world.repository("octo/cat");
    stage.world.repository("gone/x");
    stage.world.suspended("gone", true);
    let all = stage.github.installed_repositories(1000).await.unwrap();
    assert_eq!(all.len(), 232);
    assert!(all.contains(&RepoName::parse("octo/cat").unwrap()));
    assert_eq!(stage.github.installed_repositories(150).await.unwrap().len(), 150);
    stage.world.settled();
}

#[tokio::test]
async fn neither_a_token_nor_the_apps_signature_is_in_any_log() {
    let log = CapturedLog::of("", Level::TRACE);
    let stage = Stage::new().await;
    stage.world.forbids("acme", "checks");
    stage.waml().await.unwrap();
    let error = stage.github.create_check(&web(), &check(&stage.commit)).await.unwrap_err();
    let text = log.text();
    assert!(text.contains("/repos/acme/web/installation"), "something is logged: {text}");
    let shown = format!("{text} {:?} {error} {error:?}", stage.github);
    let token = stage.app().git_token(&web(), AccessLevel::Read).await.unwrap();
    let begins: String = token.expose_secret().chars().take(6).collect();
    assert!(begins.starts_with("ghs_"));
    assert!(!shown.contains("ghs_") && !shown.contains("eyJ"), "{shown}");
    stage.world.settled();
}

#[tokio::test]
async fn a_commit_that_is_not_there_is_told_apart_from_a_file_and_a_repository() {
    let stage = Stage::new().await;
    let none = CommitSha::parse("0".repeat(40)).unwrap();
    let error = stage.github.file(&web(), &none, ".weave.yaml", 10).await.unwrap_err();
    assert!(matches!(error, ForgeError::NoCommit { .. }), "{error}");
    let error = stage.github.file(&web(), &stage.commit, "none", 10).await.unwrap_err();
    assert!(matches!(error, ForgeError::NoFile { .. }), "{error}");
    stage.world.settled();
}
