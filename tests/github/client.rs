//! The real client as an App, as short as a test wants it.

use std::time::Duration;

use the_deployer::forge::check::{CheckRun, Conclusion};
use the_deployer::forge::error::ForgeError;
use the_deployer::forge::github::auth::key::AppCredentials;
use the_deployer::forge::github::client::{Credentials, GitHubClient, GitHubSettings};
use the_deployer::forge::{CommitState, CommitStatus, DeploymentStatus, Forge};
use the_deployer::model::deployment::ForgeState;
use the_deployer::model::id::{CommitSha, RepoName};
use the_deployer::support::clock::Clock;
use the_deployer::support::http::OutboundHttp;

use crate::harness::github::World;
use crate::harness::requests::at;

/// Long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A GitHub with `acme/web`, its WAML's commit, and the App that comes to it.
pub(super) struct Stage {
    pub(super) world: World,
    pub(super) clock: Clock,
    pub(super) github: Forge,
    pub(super) commit: CommitSha,
}

impl Stage {
    pub(super) async fn new() -> Self {
        let clock = Clock::manual(at(0));
        let world = World::start(&clock).await;
        let commit = world.repository("acme/web").commit("slug: web\n");
        let github = as_app(&world, &clock, &world.api_url(), &world.app().key);
        Self { world, clock, github, commit: CommitSha::parse(commit).unwrap() }
    }

    pub(super) async fn waml(&self) -> Result<Vec<u8>, ForgeError> {
        self.github.file(&web(), &self.commit, ".weave.yaml", 1000).await
    }

    /// What knows tokens for git.
    pub(super) fn app(&self) -> &GitHubClient {
        let Forge::GitHub(github) = &self.github else { panic!("it is GitHub") };
        github
    }

    pub(super) fn minted(&self) -> usize {
        self.world.count("POST access_tokens")
    }

    /// How many requests were answered so.
    pub(super) fn answered(&self, status: u16) -> usize {
        self.world.seen().iter().filter(|seen| seen.status == status).count()
    }
}

/// The App with that key, at that address.
pub(super) fn as_app(world: &World, clock: &Clock, api_url: &str, key: &str) -> Forge {
    let key = AppCredentials::parse(&world.app().id.to_string(), &key.into()).unwrap();
    at_github(api_url, Credentials::App(key, clock.clone()))
}

pub(super) fn at_github(api_url: &str, credentials: Credentials) -> Forge {
    the_deployer::support::http::install_tls_provider();
    let settings = GitHubSettings { api_url: api_url.to_owned(), credentials, timeout: PATIENCE };
    let http = OutboundHttp::default().client_without_redirects(PATIENCE).unwrap();
    Forge::GitHub(Box::new(GitHubClient::new(settings, http).unwrap()))
}

pub(super) fn web() -> RepoName {
    RepoName::parse("acme/web").unwrap()
}

pub(super) fn success() -> DeploymentStatus {
    DeploymentStatus {
        state: ForgeState::Success,
        description: "deployed".to_owned(),
        log_url: Some("https://deployer.example.com/x".to_owned()),
        environment_url: None,
    }
}

pub(super) fn commit_status() -> CommitStatus {
    CommitStatus {
        context: "deploy/prod".to_owned(),
        state: CommitState::Pending,
        description: "waits".to_owned(),
        target_url: None,
    }
}

pub(super) fn check(head: &CommitSha) -> CheckRun {
    CheckRun {
        name: "deploy/prod".to_owned(),
        head: head.clone(),
        external_id: "of-ours".to_owned(),
        conclusion: Some(Conclusion::Failure),
        title: "3 violations".to_owned(),
        summary: "They are shown at their lines.".to_owned(),
        text: None,
        details_url: None,
        annotations: Vec::new(),
    }
}
