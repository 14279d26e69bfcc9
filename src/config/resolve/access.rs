//! As whom we come to a git repository.

use crate::config::file;
use crate::config::resolve::Resolver;
use crate::config::settings::GitAccess;

impl Resolver<'_> {
    pub(super) fn access(&mut self, path: &str, token: Option<file::Secret>) -> GitAccess {
        let token = token.and_then(|token| self.credential(&format!("{path}.token"), token));
        token.map_or(GitAccess::Anybody, GitAccess::Token)
    }
}
