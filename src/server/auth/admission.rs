//! The configuration of authentication, and the [`Authenticator`] that is made from it.

use std::collections::BTreeMap;
use std::sync::Mutex;

use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::deployments::Deployments;
use crate::forge::github::webhook::rules::Repositories;
use crate::model::callers::{AgentToken, ApiToken, GitHubTeams};
use crate::model::id::{TargetName, TeamName};
use crate::server::auth::client_ip::Proxies;
use crate::server::auth::host_guard::AllowedHosts;
use crate::server::auth::rate_limit::CallerLimits;
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
}

/// The authentication of callers and the authorization of what they do.
pub(crate) struct Authenticator {
    pub(crate) admission: Admission,
    pub(super) deployments: Deployments,
    pub(super) people: Mutex<TokenCache>,
    /// The rate limits of callers.
    pub(super) calls: Mutex<CallerLimits>,
    /// The rate limits of addresses that send wrong tokens.
    pub(super) failures: Mutex<CallerLimits>,
    pub(super) strangers: Semaphore,
}

impl Authenticator {
    pub(crate) fn new(admission: Admission, deployments: Deployments) -> Self {
        Self {
            people: Mutex::default(),
            calls: Mutex::new(CallerLimits::new(admission.requests_per_minute)),
            failures: Mutex::new(CallerLimits::new(FAILURES_PER_MINUTE)),
            strangers: Semaphore::new(STRANGERS),
            admission,
            deployments,
        }
    }
}

/// Compares with every token, whichever matches, so that the time reveals nothing.
pub(super) fn holder<'t>(tokens: &'t [ApiToken], text: &str) -> Option<&'t ApiToken> {
    find_digest(tokens, text, |token| &token.sha256)
}

/// Does the same with the tokens of agents.
pub(super) fn agent_of<'t>(tokens: &'t [AgentToken], text: &str) -> Option<&'t AgentToken> {
    find_digest(tokens, text, |token| &token.sha256)
}

fn find_digest<'t, T>(
    tokens: &'t [T],
    text: &str,
    digest: impl Fn(&T) -> &[u8; 32],
) -> Option<&'t T> {
    let hash: [u8; 32] = Sha256::digest(text).into();
    tokens.iter().fold(
        None,
        |holder, token| {
            if digests_equal(digest(token), &hash) { Some(token) } else { holder }
        },
    )
}

/// Compares every byte, whatever the first ones are.
fn digests_equal(a: &[u8; 32], b: &[u8; 32]) -> bool {
    let difference = a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b));
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_tokens_holder_is_found_by_its_hash() {
        let token = |name: &str, text: &str| ApiToken {
            name: name.to_owned(),
            sha256: Sha256::digest(text).into(),
            rights: Arc::default(),
        };
        let tokens = [token("ci", "one"), token("bart", "two")];
        let holder = |text: &str| holder(&tokens, text).map(|token| token.name.as_str());
        assert_eq!(holder("two"), Some("bart"));
        assert_eq!(holder("three"), None);
        assert_eq!(holder(""), None);
    }
}
