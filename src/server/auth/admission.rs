//! The configuration of authentication, and the [`Authenticator`] that is made from it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tokio::sync::Semaphore;

use crate::deployments::Deployments;
use crate::forge::github::webhook::rules::Repositories;
use crate::model::callers::{AgentToken, ApiToken, GitHubTeams};
use crate::model::id::{TargetName, TeamName};
use crate::server::auth::account_cache::AccountCache;
use crate::server::auth::client_ip::Proxies;
use crate::server::auth::configured_tokens::AgentTokens;
use crate::server::auth::host_guard::AllowedHosts;
use crate::server::auth::rate_limit::CallerLimits;
use crate::server::auth::session_settings::{BrowserSessions, SessionSettings};
use crate::server::auth::token_cache::{FingerprintKey, TokenCache};

/// The number of wrong tokens that are checked in a minute from one address.
const FAILURES_PER_MINUTE: u32 = 30;
/// The number of unknown tokens that GitHub is asked about at once: fewer than GitHub takes requests at all, so that
/// known callers need not wait for them.
pub(super) const STRANGERS: usize = 8;

/// The configuration of authentication.
#[derive(Debug)]
pub struct Admission {
    /// All tokens that may call the API; without tokens and without people, everybody may call who can reach the
    /// listener.
    pub tokens: Vec<ApiToken>,
    /// The tokens of the agents of clusters. They open no route but that of their reports.
    pub agents: Vec<AgentToken>,
    /// The people who may call with a GitHub token, if any may.
    pub github: Option<GitHubTeams>,
    /// The targets whose deployers must be in one of these teams.
    pub deploy_teams: BTreeMap<TargetName, Vec<TeamName>>,
    /// The repositories that the service deploys, and that GitHub is asked about.
    pub repositories: Repositories,
    /// The proxies whose word on the origin of a request is believed.
    pub proxies: Proxies,
    /// The host names of the service, checked if no token is needed.
    pub site: AllowedHosts,
    /// The number of requests that a caller may make in a minute.
    pub requests_per_minute: u32,
    /// The key of the fingerprints of GitHub tokens in memory.
    pub key: FingerprintKey,
    /// The sessions of browsers.
    pub sessions: SessionSettings,
}

/// The authentication of callers and the authorization of what they do.
pub(crate) struct Authenticator {
    pub(crate) admission: Admission,
    /// The tokens of the agents, as they are now.
    pub(super) agents: AgentTokens,
    pub(super) deployments: Deployments,
    pub(super) people: Mutex<TokenCache>,
    /// Answers about accounts without a token.
    pub(super) accounts: AccountCache,
    /// The rate limits of callers.
    pub(super) calls: Mutex<CallerLimits>,
    /// The rate limits of addresses that send wrong tokens.
    pub(super) failures: Mutex<CallerLimits>,
    pub(super) strangers: Semaphore,
    pub(super) sessions: BrowserSessions,
}

impl Authenticator {
    pub(crate) fn new(admission: Admission, deployments: Deployments) -> Self {
        Self {
            agents: AgentTokens::new(admission.agents.clone()),
            people: Mutex::default(),
            accounts: AccountCache::default(),
            calls: Mutex::new(CallerLimits::new(admission.requests_per_minute)),
            failures: Mutex::new(CallerLimits::new(FAILURES_PER_MINUTE)),
            strangers: Semaphore::new(STRANGERS),
            sessions: BrowserSessions::new(admission.sessions.clone()),
            admission,
            deployments,
        }
    }
}
