//! Who may call, and what they may do.
//!
//! ```text
//! token ─▶ one of ours? ─────────────▶ Rights: scope, targets, apps      (rights)
//!       └▶ like GitHub's? ─ GitHub ──▶ Person                            (people, kept)
//! Caller + Scope + Subject ─▶ may ─▶ Rights, or what GitHub says of the repository and its teams
//! ```
//!
//! A text that is none of ours and does not look like GitHub's is shown to nobody: it may be one of
//! ours with a slip in it.

mod caller; // who calls
mod rights; // what a token of the configuration is good for
mod kept; // what GitHub said, for a short while
mod people; // what GitHub says of people
mod may; // what callers may do
mod rate_limit; // how often each caller may come
mod whence; // where a request comes from
mod open; // what each caller has open
mod site; // which names are ours
mod admit; // from a request to a caller

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

pub use crate::model::callers::{ApiToken, GitHubTeams, Pages, Rights, Scope};
use crate::model::id::{TargetName, TeamName};
pub(super) use crate::server::auth::admit::{Door, Gate, admitted};
pub(super) use crate::server::auth::caller::{Caller, Subject};
pub use crate::server::auth::kept::PrintKey;
pub(super) use crate::server::auth::open::{Open, Opened};
pub(super) use crate::server::auth::people::People;
pub use crate::server::auth::site::Site;
pub use crate::server::auth::whence::Proxies;
pub(super) use crate::server::auth::whence::{peer, subscriber};

impl ApiToken {
    /// The token of that text, good for everything.
    pub fn of_text(name: impl Into<String>, text: &str) -> Self {
        let sha256 = Sha256::digest(text).into();
        Self { name: name.into(), sha256, rights: Arc::default() }
    }
}

/// All tokens that may call the API.
#[derive(Debug, Clone, Default)]
pub struct Tokens(pub Vec<ApiToken>);

/// What else is asked of callers than a token of ours.
#[derive(Debug)]
pub struct Admission {
    /// The people who may come with a GitHub token, if they may.
    pub github: Option<GitHubTeams>,
    /// The targets whose deployers must be in one of these teams.
    pub deploy_teams: BTreeMap<TargetName, Vec<TeamName>>,
    /// Proxies that are believed where a request comes from.
    pub proxies: Proxies,
    /// Our names, where nobody is asked for a token.
    pub site: Site,
    /// How many requests a caller may make in a minute.
    pub requests_per_minute: u32,
    /// What GitHub tokens are known by in memory.
    pub key: PrintKey,
}

impl Admission {
    /// Tokens of ours only, at the usual pace, with that key.
    pub fn new(key: PrintKey) -> Self {
        let (github, deploy_teams, proxies) = (None, BTreeMap::new(), Proxies::default());
        let site = Site::default();
        Self { github, deploy_teams, proxies, site, requests_per_minute: 1200, key }
    }
}

impl Tokens {
    /// Compares with every token, whichever matches, so that time tells nothing.
    fn holder(&self, text: &str) -> Option<&ApiToken> {
        let hash: [u8; 32] = Sha256::digest(text).into();
        self.0.iter().fold(
            None,
            |found, token| {
                if same(&token.sha256, &hash) { Some(token) } else { found }
            },
        )
    }
}

/// Looks at every byte, whatever the first ones say.
fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    let difference = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Tokens {
        Tokens(vec![ApiToken::of_text("ci", "one"), ApiToken::of_text("bart", "two")])
    }

    #[test]
    fn a_tokens_holder_is_found_by_its_hash() {
        let tokens = tokens();
        let holder = |text: &str| tokens.holder(text).map(|token| token.name.as_str());
        assert_eq!(holder("two"), Some("bart"));
        assert_eq!(holder("three"), None);
        assert_eq!(holder(""), None);
    }
}
