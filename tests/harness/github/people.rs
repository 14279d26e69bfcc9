//! People: their tokens, what they may on repositories, their teams.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use crate::harness::github::World;
use crate::harness::github::answer::{Answer, Answered, ok};
use crate::harness::github::app::{Grant, Who};
use crate::harness::github::call::Call;
use crate::harness::github::state::{Level, State, user};

/// The login whose token the-deployer has: it may everything.
const DEPLOYER: &str = "deployer-bot";

/// What people may.
#[derive(Default)]
pub(super) struct People {
    /// `pull`, `triage` or `push`, by login and repository.
    levels: BTreeMap<(String, i64), &'static str>,
    /// Members by `organization/team`.
    teams: BTreeMap<String, BTreeSet<String>>,
    /// Tokens that may not show teams.
    without_org: BTreeSet<String>,
}

impl World {
    /// Somebody with a token of their own, which is returned; they may nothing yet.
    pub(crate) fn token_of(&self, login: &str) -> String {
        let token = format!("ghp_tokenOf{login}");
        let grant = Grant::Personal { login: login.to_owned() };
        let mut state = self.state();
        state.people.entry(login.to_owned()).or_default();
        state.grants.insert(token.clone(), grant);
        token
    }

    /// They may that on a repository from now on: `pull`, `triage` or `push`.
    pub(crate) fn lets(&self, login: &str, repository: &str, level: &'static str) {
        let id = self.repository(repository).id;
        self.state().access.levels.insert((login.to_owned(), id), level);
    }

    /// Everybody may read that repository from now on.
    pub(crate) fn publishes(&self, repository: &str) {
        let id = self.repository(repository).id;
        self.state().repo_mut(id).private = false;
    }

    /// They may nothing there any more.
    pub(crate) fn takes_back(&self, login: &str, repository: &str) {
        let id = self.repository(repository).id;
        self.state().access.levels.remove(&(login.to_owned(), id));
    }

    /// They are in a team, which comes to be if it is not there.
    pub(crate) fn joins(&self, login: &str, team: &str) {
        self.state().access.teams.entry(team.to_owned()).or_default().insert(login.to_owned());
    }

    /// The token lacks what it takes to show teams.
    pub(crate) fn shows_no_teams(&self, login: &str) {
        self.state().access.without_org.insert(login.to_owned());
    }

    /// Their tokens are good for nothing any more.
    pub(crate) fn revokes(&self, login: &str) {
        let of = |grant: &Grant| matches!(grant, Grant::Personal { login: one } if one == login);
        self.state().grants.retain(|_, grant| !of(grant));
    }
}

/// What somebody with a personal token may on a repository.
fn level(state: &State, login: &str, repo: i64) -> Option<&'static str> {
    let public = (!state.repo(repo).private).then_some("pull");
    match login {
        DEPLOYER => Some("push"),
        _ => state.access.levels.get(&(login.to_owned(), repo)).copied().or(public),
    }
}

/// Refuses a person what they may not.
pub(super) fn may(state: &State, login: &str, repo: i64, needs: Level) -> Result<(), Answer> {
    match (level(state, login, repo), needs) {
        (None, _) => Err(Answer::not_found()),
        (Some("push"), _) | (Some(_), Level::Read) => Ok(()),
        (Some(_), Level::Write) => {
            Err(Answer::refusal(403, "Must have admin rights to Repository."))
        }
    }
}

/// As they stand in a repository that a person asks for.
pub(super) fn permissions(state: &State, who: &Who, repo: i64) -> Option<Json> {
    let Who::Token(Grant::Personal { login }) = who else { return None };
    let level = level(state, login, repo).unwrap_or_default();
    let has = |one: &[&str]| one.contains(&level);
    Some(json!({
        "admin": false, "maintain": false, "push": has(&["push"]),
        "triage": has(&["push", "triage"]), "pull": !level.is_empty(),
    }))
}

/// `GET /repos/O/R/collaborators/LOGIN/permission`
pub(super) fn permission(
    state: &mut State,
    _call: &Call,
    _who: &Who,
    repo: i64,
    rest: &[&str],
) -> Answered {
    let login = rest.get(1).copied().unwrap_or_default();
    let (permission, role) = match level(state, login, repo) {
        Some("push") => ("write", "write"),
        Some("triage") => ("read", "triage"),
        Some(_) => ("read", "read"),
        None => ("none", "none"),
    };
    ok(&json!({"permission": permission, "role_name": role, "user": user(login)}))
}

/// `GET /user`
pub(super) fn this(who: &Who) -> Answered {
    match who {
        Who::Token(Grant::Personal { login }) => ok(&user(login)),
        Who::Token(Grant::Installation { .. }) => {
            Err(Answer::refusal(403, "Resource not accessible by integration"))
        }
        Who::Nobody | Who::App => Err(Answer::refusal(401, "Requires authentication")),
    }
}

/// `GET /orgs/O/teams/T/memberships/LOGIN`
pub(super) fn membership(state: &State, who: &Who, team: &str, login: &str) -> Answered {
    match who {
        Who::Token(Grant::Personal { login }) if state.access.without_org.contains(login) => {
            return Err(Answer::refusal(403, "Resource not accessible by personal access token"));
        }
        Who::Token(Grant::Installation { permissions, .. })
            if !permissions.contains_key("members") =>
        {
            return Err(Answer::refusal(403, "Resource not accessible by integration"));
        }
        Who::Token(_) => {}
        Who::Nobody | Who::App => return Err(Answer::not_found()),
    }
    let member = state.access.teams.get(team).is_some_and(|members| members.contains(login));
    if !member {
        return Err(Answer::not_found());
    }
    ok(&json!({"role": "member", "state": "active", "url": "https://api.github.com/x"}))
}
