//! Git over https: a git host beside it lets in whom this GitHub would.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::harness::git_host::{Access, GitHost};
use crate::harness::github::World;
use crate::harness::github::app::{Grant, Who, may};
use crate::harness::github::state::{Level, State};

impl World {
    /// One more personal token; it may what `token()` may.
    pub(crate) fn accepts(&self, token: &str) {
        let grant = Grant::Personal { login: "deployer-bot".to_owned() };
        self.state().grants.insert(token.to_owned(), grant);
    }

    /// That host is where this GitHub's repositories are for git, by the same names.
    ///
    /// An App's token that may more than what it is used for is an offence.
    pub(crate) fn guards(&self, host: &GitHost) {
        let state = Arc::clone(&self.hub.state);
        host.guarded_by(move |token, name, access| {
            judge(&mut state.lock().unwrap(), token, name, access)
        });
    }
}

fn judge(state: &mut State, token: &str, name: &str, access: Access) -> u16 {
    let Some(grant) = state.grants.get(token).cloned() else { return 401 };
    let Some(repo) = state.by_name(name) else { return 404 };
    let level = match access {
        Access::Fetch => Level::Read,
        Access::Push => Level::Write,
    };
    if let Grant::Installation { permissions, repositories, expires_at, .. } = &grant {
        if *expires_at <= state.now() {
            return 401;
        }
        let names: BTreeSet<&str> = permissions.keys().map(String::as_str).collect();
        let narrow = names == BTreeSet::from(["contents", "metadata"])
            && *repositories == Some([repo].into());
        if !narrow {
            let offence = format!("git in {name} with a token for more than that: {names:?}");
            state.limits.offences.push(offence);
        }
    }
    match may(state, &Who::Token(grant), repo, ("contents", level)) {
        Ok(()) => 200,
        Err(refusal) => refusal.status,
    }
}
