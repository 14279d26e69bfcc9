//! GitHub's answers about accounts without a token, for a short while.

use std::sync::Mutex;

use crate::model::id::{RepoName, TeamName};
use crate::model::person::RepoPermission;
use crate::support::cache::BoundedCache;

/// The number of answers, of some hundred bytes each.
const MAX: usize = 5000;

/// GitHub's answers about accounts.
#[derive(Debug)]
pub(super) struct AccountCache {
    /// The permissions of logins on repositories.
    pub(super) permissions: AccountAnswers<(RepoName, String), RepoPermission>,
    /// The memberships of logins in teams, as the owner of a repository sees them.
    pub(super) memberships: AccountAnswers<(TeamName, RepoName, String), bool>,
}

/// Answers by question, each until its time.
pub(super) type AccountAnswers<K, V> = Mutex<BoundedCache<K, V>>;

impl Default for AccountCache {
    fn default() -> Self {
        let (permissions, memberships) = (BoundedCache::new(MAX), BoundedCache::new(MAX));
        Self { permissions: Mutex::new(permissions), memberships: Mutex::new(memberships) }
    }
}
