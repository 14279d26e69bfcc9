//! Tests the obstacles of an App: each message says what to do, and the obstacle is over as soon as that is done.

use std::time::Duration;

use the_deployer::forge::error::ForgeError;
use the_deployer::forge::github::client::Credentials;
use the_deployer::model::id::RepoName;
use the_deployer::support::retry::Disposition;

use super::client::{Stage, as_app, at_github, check, success, web};
use crate::harness::github::Fault;

const KEY_OF_ANOTHER: &str = include_str!("../../src/forge/github/auth/tests/app.pem");

fn page_of(error: &ForgeError) -> bool {
    error.to_string().contains("https://github.com/organizations/acme/settings/installations/")
}

#[tokio::test]
async fn a_suspended_installation_is_said_so_and_works_again_at_once() {
    let stage = Stage::new().await;
    for known in [false, true] {
        stage.world.suspended("acme", true);
        let error = stage.waml().await.unwrap_err();
        assert!(matches!(error, ForgeError::Suspended { .. }), "{known}: {error}");
        assert!(page_of(&error), "{error}");
        assert_eq!(error.disposition(), Disposition::Stop);
        let again = stage.waml().await.unwrap_err();
        assert!(matches!(again, ForgeError::Suspended { .. }), "{again}");
        stage.world.suspended("acme", false);
        stage.waml().await.unwrap();
    }
    stage.world.settled();
}

#[tokio::test]
async fn a_missing_permission_is_named_and_stops_nothing_else() {
    let stage = Stage::new().await;
    let id = stage.world.repository("acme/web").deploys("prod", "v1").await;
    for known in [false, true] {
        stage.world.forbids("acme", "checks");
        for _ in 0..2 {
            let checked = stage.github.create_check(&web(), &check(&stage.commit)).await;
            let error = checked.unwrap_err();
            let ForgeError::MissingPermission { permission, .. } = &error else {
                panic!("{known}: {error}")
            };
            assert_eq!(permission, "checks: write");
            assert!(page_of(&error), "{error}");
        }
        stage.github.report(&web(), id, &success()).await.unwrap();
        stage.world.allows("acme", "checks", "write");
        stage.github.create_check(&web(), &check(&stage.commit)).await.unwrap();
        // A token keeps what it was made with.
        stage.clock.advance(Duration::from_hours(1));
    }
    stage.world.settled();
}

#[tokio::test]
async fn a_permission_to_read_only_is_no_permission_to_write() {
    let stage = Stage::new().await;
    let id = stage.world.repository("acme/web").deploys("prod", "v1").await;
    stage.world.allows("acme", "deployments", "read");
    let error = stage.github.report(&web(), id, &success()).await.unwrap_err();
    assert!(error.to_string().contains("lacks the permission `deployments: write`"), "{error}");
    assert!(!error.may_have_arrived());
    assert!(!stage.github.has_status(&web(), id, &success()).await.unwrap());
    stage.world.settled();
}

#[tokio::test]
async fn an_app_that_is_not_installed_says_where_to_install_it() {
    let stage = Stage::new().await;
    stage.waml().await.unwrap();
    stage.world.uninstalled("acme");
    for repository in ["acme/web", "acme/none"] {
        let repository = RepoName::parse(repository).unwrap();
        let read = stage.github.file(&repository, &stage.commit, ".weave.yaml", 10).await;
        let error = read.unwrap_err();
        assert!(matches!(error, ForgeError::NotInstalled { .. }), "{error}");
        let page = "https://github.com/apps/the-deployer/installations/new";
        assert!(error.to_string().contains(page), "{error}");
    }
    stage.world.settled();
}

#[tokio::test]
async fn a_key_of_another_app_is_told_to_whom_it_concerns() {
    let stage = Stage::new().await;
    let api_url = stage.world.api_url();
    let stranger = as_app(&stage.world, &stage.clock, &api_url, KEY_OF_ANOTHER);
    let read = stranger.file(&web(), &stage.commit, ".weave.yaml", 10).await;
    let error = read.unwrap_err();
    assert!(matches!(error, ForgeError::BadCredentials { .. }), "{error}");
    assert!(error.to_string().contains("check forge.github.app.id"), "{error}");
    let since = stage.clock.now();
    let error = stranger.failed_deliveries(since, 10).await.unwrap_err();
    assert!(error.to_string().contains("check forge.github.app.id"), "{error}");
    stage.world.settled();
}

#[tokio::test]
async fn what_was_done_and_not_answered_may_have_arrived_and_can_be_looked_for() {
    let stage = Stage::new().await;
    let id = stage.world.repository("acme/web").deploys("prod", "v1").await;
    stage.waml().await.unwrap();
    stage.world.fails(1, "POST statuses", Fault::CutAfter);
    let error = stage.github.report(&web(), id, &success()).await.unwrap_err();
    assert!(error.may_have_arrived(), "{error}");
    assert!(stage.github.has_status(&web(), id, &success()).await.unwrap());
    assert_eq!(stage.world.told(id), ["success"], "once");
    stage.world.settled();
}

#[tokio::test]
async fn what_kept_a_token_from_being_made_kept_the_status_from_being_sent() {
    let stage = Stage::new().await;
    let id = stage.world.repository("acme/web").deploys("prod", "v1").await;
    for fault in [Fault::BadGateway, Fault::CutAfter, Fault::CutBefore] {
        for words in ["POST access_tokens", "GET installation"] {
            stage.world.fails(1, words, fault);
            let told = stage.github.report(&web(), id, &success()).await;
            let error = told.unwrap_err();
            assert!(!error.may_have_arrived(), "{words} {fault:?}: {error}");
            assert_eq!(error.disposition(), Disposition::Retry { after: None }, "{error}");
            // What was made unheard is not known; what is known is used.
            stage.world.revokes_tokens();
            stage.clock.advance(Duration::from_hours(2));
        }
    }
    assert_eq!(stage.world.told(id).len(), 0);
    stage.world.settled();
}

#[tokio::test]
async fn a_storm_on_a_github_that_is_down_asks_it_once() {
    let stage = Stage::new().await;
    stage.world.fails(1, "GET installation", Fault::BadGateway);
    let all = futures::future::join_all((0..30).map(|_| stage.waml())).await;
    assert!(all.into_iter().all(|read| read.is_err()));
    assert_eq!(stage.world.seen().len(), 1);
    stage.waml().await.unwrap();
    stage.world.settled();
}

#[tokio::test]
async fn limits_are_obeyed_and_remembered() {
    let stage = Stage::new().await;
    assert_eq!(stage.github.budget(), None);
    stage.waml().await.unwrap();
    let budget = stage.github.budget().unwrap();
    assert_eq!((budget.limit, budget.remaining), (5000, 4999), "the App's own are not counted");
    stage.waml().await.unwrap();
    assert_eq!(stage.answered(304), 1);
    assert_eq!(stage.github.budget().unwrap().remaining, 4999, "what has not changed is free");
    for (fault, wait) in [(Fault::Wait(403, 17), 17), (Fault::Wait(429, 5), 5)] {
        stage.world.fails(1, "GET contents", fault);
        let error = stage.waml().await.unwrap_err();
        let wait = Duration::from_secs(wait);
        assert_eq!(error.disposition(), Disposition::Retry { after: Some(wait) }, "{error}");
        stage.clock.advance(wait);
    }
    stage.world.fails(1, "GET contents", Fault::UsedUp);
    let Disposition::Retry { after: Some(wait) } = stage.waml().await.unwrap_err().disposition()
    else {
        panic!("a limit")
    };
    assert_eq!(stage.github.budget().unwrap().remaining, 0);
    stage.clock.advance(wait);
    assert_eq!(stage.github.budget(), None, "that hour is over");
    stage.waml().await.unwrap();
    stage.world.settled();
}

#[tokio::test]
async fn a_token_cannot_write_check_runs_and_says_what_can() {
    let stage = Stage::new().await;
    let token = Credentials::Token(stage.world.token().into());
    let github = at_github(&stage.world.api_url(), token);
    let error = github.create_check(&web(), &check(&stage.commit)).await.unwrap_err();
    assert!(matches!(error, ForgeError::NeedsApp { .. }), "{error}");
    assert_eq!(github.budget().unwrap().limit, 5000);
    stage.world.settled();
}
