//! People who come with tokens of their own, asked about at a GitHub with state.

use std::time::Duration;

use secrecy::SecretString;
use the_deployer::model::id::TeamName;
use the_deployer::model::person::{IdentityError, RepoPermission};

use crate::github::client::{Stage, web};
use crate::harness::github::Fault;

fn secret(token: &str) -> SecretString {
    token.into()
}

#[tokio::test]
async fn a_person_is_who_github_says_and_may_what_it_says() {
    let stage = Stage::new().await;
    let alice = secret(&stage.world.token_of("alice"));
    assert_eq!(stage.github.person(&alice).await.unwrap().login, "alice");
    let level = async || stage.github.on_repository(&alice, &web()).await.unwrap();
    assert_eq!(level().await, RepoPermission::Nothing);
    for (word, expected) in [
        ("pull", RepoPermission::Read),
        ("triage", RepoPermission::Read),
        ("push", RepoPermission::Push),
    ] {
        stage.world.lets("alice", "acme/web", word);
        assert_eq!(level().await, expected);
    }
    let team = TeamName::parse("acme/platform").unwrap();
    let member = async || stage.github.is_member(&alice, "alice", &team).await;
    assert!(!member().await.unwrap());
    stage.world.joins("alice", "acme/platform");
    assert!(member().await.unwrap());
    stage.world.shows_no_teams("alice");
    assert!(matches!(member().await.unwrap_err(), IdentityError::Forbidden(_)));
    stage.world.settled();
}

#[tokio::test]
async fn a_renamed_repository_is_the_same() {
    let stage = Stage::new().await;
    let alice = secret(&stage.world.token_of("alice"));
    stage.world.lets("alice", "acme/web", "push");
    stage.world.repository("acme/web").renamed_to("acme/website");
    let level = stage.github.on_repository(&alice, &web()).await.unwrap();
    assert_eq!(level, RepoPermission::Push);
    stage.world.settled();
}

#[tokio::test]
async fn a_token_that_is_none_and_one_of_a_job_are_told_apart() {
    let stage = Stage::new().await;
    let stranger = stage.github.person(&secret("ghp_nobody")).await;
    assert_eq!(stranger.unwrap_err(), IdentityError::InvalidToken);
    let token = stage.world.token_of("alice");
    stage.world.revokes("alice");
    assert_eq!(
        stage.github.person(&secret(&token)).await.unwrap_err(),
        IdentityError::InvalidToken
    );
    let access = the_deployer::forge::github::permission::AccessLevel::Read;
    let job = stage.app().git_token(&web(), access).await.unwrap();
    let error = stage.github.person(&job).await.unwrap_err();
    assert!(
        matches!(&error, IdentityError::Forbidden(why) if why.contains("API token")),
        "{error}"
    );
    stage.world.settled();
}

#[tokio::test]
async fn a_github_that_is_down_or_wants_to_be_left_alone_is_told_so() {
    let stage = Stage::new().await;
    let alice = secret(&stage.world.token_of("alice"));
    stage.world.fails(1, "GET user", Fault::BadGateway);
    let down = stage.github.person(&alice).await.unwrap_err();
    assert!(matches!(&down, IdentityError::Unavailable(why) if why.contains("502")), "{down}");
    stage.world.hourly(0);
    let limited = stage.github.person(&alice).await.unwrap_err();
    assert_eq!(limited, IdentityError::RateLimited(Duration::from_hours(1)));
    // That one person is told to wait holds nobody else up.
    stage.world.hourly(5_000);
    assert!(stage.waml().await.is_ok());
    stage.world.settled();
}

#[tokio::test]
async fn teams_are_asked_about_as_the_app_if_it_may() {
    let stage = Stage::new().await;
    stage.world.joins("alice", "acme/release");
    let team = TeamName::parse("acme/release").unwrap();
    let has = async |login: &str| {
        stage.github.is_in_one(&web(), login, std::slice::from_ref(&team)).await
    };
    let error = has("alice").await.unwrap_err();
    assert!(error.to_string().contains("`members: read`"), "{error}");
    stage.world.allows("acme", "members", "read");
    stage.clock.advance(Duration::from_mins(10));
    assert!(has("alice").await.unwrap() && !has("bob").await.unwrap());
    stage.world.settled();
}

#[tokio::test]
async fn an_accounts_permission_is_asked_about_as_the_app() {
    let stage = Stage::new().await;
    let level = async |login: &str| stage.github.permission_of(&web(), login).await.unwrap();
    for (login, word) in [("alice", "push"), ("bob", "triage"), ("carol", "pull")] {
        stage.world.lets(login, "acme/web", word);
    }
    let levels = [level("alice").await, level("bob").await, level("carol").await];
    assert_eq!(levels, [RepoPermission::Push, RepoPermission::Read, RepoPermission::Read]);
    assert_eq!(level("dave").await, RepoPermission::Nothing);
    // Everybody reads what is public.
    stage.world.publishes("acme/web");
    assert_eq!(level("bob").await, RepoPermission::Read);
    for login in ["carol", "dave"] {
        assert_eq!(level(login).await, RepoPermission::Nothing, "{login}");
    }
    stage.world.settled();
}
