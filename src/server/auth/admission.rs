//! What is asked of callers, and what is known of them now.

use std::collections::BTreeMap;
use std::sync::Mutex;

use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::deployments::Deployments;
use crate::forge::github::webhook::rules::Repositories;
use crate::model::callers::{ApiToken, GitHubTeams};
use crate::model::id::{TargetName, TeamName};
use crate::server::auth::client_ip::Proxies;
use crate::server::auth::host_guard::Site;
use crate::server::auth::rate_limit::CallerLimits;
use crate::server::auth::token_cache::{FingerprintKey, TokenCache};

/// How many wrong tokens a minute are looked at from one address.
const FAILURES_PER_MINUTE: u32 = 30;
/// How many strangers' tokens GitHub is asked about at once: fewer than may ask it at all, so that
/// those who are known need not wait for them.
pub(super) const STRANGERS: usize = 8;

/// What is asked of callers, as configured.
#[derive(Debug)]
pub struct Admission {
    /// All tokens that may call the API; with none, and no people, everybody may who can reach the listener.
    pub tokens: Vec<ApiToken>,
    /// The people who may come with a GitHub token, if they may.
    pub github: Option<GitHubTeams>,
    /// The targets whose deployers must be in one of these teams.
    pub deploy_teams: BTreeMap<TargetName, Vec<TeamName>>,
    /// The repositories that may be deployed, and so asked about.
    pub repositories: Repositories,
    /// Proxies that are believed where a request comes from.
    pub proxies: Proxies,
    /// Our names, where nobody is asked for a token.
    pub site: Site,
    /// How many requests a caller may make in a minute.
    pub requests_per_minute: u32,
    /// What GitHub tokens are known by in memory.
    pub key: FingerprintKey,
}

/// Decides who may call, and what they may do.
pub(crate) struct Authenticator {
    pub(crate) admission: Admission,
    pub(super) deployments: Deployments,
    pub(super) people: Mutex<TokenCache>,
    /// How often callers come.
    pub(super) calls: Mutex<CallerLimits>,
    /// How often addresses come with a wrong token.
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

/// Compares with every token, whichever matches, so that time tells nothing.
pub(super) fn holder<'t>(tokens: &'t [ApiToken], text: &str) -> Option<&'t ApiToken> {
    let hash: [u8; 32] = Sha256::digest(text).into();
    tokens
        .iter()
        .fold(None, |found, token| if same(&token.sha256, &hash) { Some(token) } else { found })
}

/// Looks at every byte, whatever the first ones say.
fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    let difference = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
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
