//! The App: its key, its installations, its tokens; and personal tokens.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value as Json, json};

use crate::harness::github::answer::{Answer, Answered, created, ok};
use crate::harness::github::call::Call;
use crate::harness::github::state::{Level, Needs, State};
use crate::harness::github::{jwt, people};

/// What an installation token is good for.
const TOKEN_LIFE: SignedDuration = SignedDuration::from_hours(1);
/// What one may narrow a token to at most.
const MAX_REPOSITORIES: usize = 500;

/// What an App's operator has of it.
#[derive(Debug, Clone)]
pub(crate) struct Credentials {
    pub(crate) id: u64,
    /// The private key, as PEM.
    pub(crate) key: String,
}

pub(super) struct App {
    pub(super) id: u64,
    /// Its keys were deleted: nothing that they sign is taken.
    pub(super) without_keys: bool,
    pub(super) installations: BTreeMap<i64, Installation>,
}

/// The App at one organisation.
#[derive(Debug, Clone)]
pub(super) struct Installation {
    pub(super) id: i64,
    pub(super) account: String,
    pub(super) suspended: bool,
    pub(super) permissions: BTreeMap<String, Level>,
    /// The repositories by number; absent: all of the account's.
    pub(super) selected: Option<BTreeSet<i64>>,
}

/// What a token may do.
#[derive(Debug, Clone)]
pub(super) enum Grant {
    /// A person's: what that person may, but for what only Apps may.
    Personal { login: String },
    /// An installation's, as narrow as was asked.
    Installation {
        id: i64,
        permissions: BTreeMap<String, Level>,
        repositories: Option<BTreeSet<i64>>,
        expires_at: Timestamp,
    },
}

/// Who asks.
#[derive(Debug, Clone)]
pub(super) enum Who {
    Nobody,
    /// The App itself, by a signature.
    App,
    Token(Grant),
}

impl Who {
    /// Whose limits these are.
    pub(super) fn key(&self) -> String {
        match self {
            Self::Nobody => "nobody".to_owned(),
            Self::App => "the App".to_owned(),
            Self::Token(Grant::Personal { login }) => format!("user {login}"),
            Self::Token(Grant::Installation { id, .. }) => format!("installation {id}"),
        }
    }

    pub(super) fn login(&self) -> String {
        match self {
            Self::Token(Grant::Personal { login }) => login.clone(),
            Self::Token(Grant::Installation { .. }) => "the-deployer[bot]".to_owned(),
            Self::Nobody | Self::App => "ghost".to_owned(),
        }
    }
}

impl App {
    pub(super) fn new() -> Self {
        Self { id: 424_242, without_keys: false, installations: BTreeMap::new() }
    }

    pub(super) fn at(&self, account: &str) -> Option<&Installation> {
        self.installations.values().find(|one| one.account.eq_ignore_ascii_case(account))
    }
}

/// Everything that the-deployer can use.
pub(super) fn all_permissions() -> BTreeMap<String, Level> {
    let (read, write) = (Level::Read, Level::Write);
    let permissions = [
        ("metadata", read),
        ("contents", write),
        ("deployments", write),
        ("statuses", write),
        ("checks", write),
        ("pull_requests", write),
    ];
    permissions.map(|(name, level)| (name.to_owned(), level)).into()
}

impl Installation {
    pub(super) fn has(&self, state: &State, repo: i64) -> bool {
        let own = state.repo(repo).owner().eq_ignore_ascii_case(&self.account);
        own && self.selected.as_ref().is_none_or(|selected| selected.contains(&repo))
    }

    fn json(&self) -> Json {
        json!({
            "id": self.id, "app_id": 424_242, "app_slug": "the-deployer",
            "account": {"login": self.account, "type": "Organization"},
            "html_url": format!(
                "https://github.com/organizations/{}/settings/installations/{}",
                self.account, self.id
            ),
            "repository_selection": if self.selected.is_some() { "selected" } else { "all" },
            "permissions": permissions_json(&self.permissions), "events": ["deployment"],
            "suspended_at": self.suspended.then_some("2026-11-20T00:00:00Z"),
        })
    }
}

fn permissions_json(permissions: &BTreeMap<String, Level>) -> Json {
    permissions.iter().map(|(name, level)| (name.clone(), json!(level.as_str()))).collect()
}

/// Who asks, or how GitHub refuses one that it does not know.
pub(super) fn identify(state: &State, call: &Call) -> Result<Who, Answer> {
    let Some(credential) = call.credential() else { return Ok(Who::Nobody) };
    let bad = || Answer::refusal(401, "Bad credentials");
    if call.path.first().is_some_and(|part| part == "app")
        || call.path.last().is_some_and(|part| part == "installation")
    {
        if state.app.without_keys {
            return Err(Answer::refusal(401, "A JSON web token could not be decoded"));
        }
        return jwt::verify(credential, state.app.id, state.now()).map(|()| Who::App);
    }
    match state.grants.get(credential) {
        Some(Grant::Installation { expires_at, .. }) if *expires_at <= state.now() => Err(bad()),
        Some(grant) => Ok(Who::Token(grant.clone())),
        None => Err(bad()),
    }
}

/// Refuses who may not do that to the repository, as GitHub does.
pub(super) fn may(state: &State, who: &Who, repo: i64, (name, level): Needs) -> Result<(), Answer> {
    let private = state.repo(repo).private;
    let public_read = !private && level == Level::Read;
    match who {
        Who::Nobody | Who::App if public_read => Ok(()),
        Who::Nobody | Who::App => Err(Answer::not_found()),
        Who::Token(Grant::Personal { .. }) if name == "checks" && level == Level::Write => {
            Err(Answer::refusal(403, "You must authenticate via a GitHub App."))
        }
        Who::Token(Grant::Personal { login }) => people::may(state, login, repo, level),
        Who::Token(Grant::Installation { id, permissions, repositories, .. }) => {
            let Some(installation) = state.app.installations.get(id) else {
                return Err(Answer::refusal(401, "Bad credentials"));
            };
            if installation.suspended {
                return Err(suspended());
            }
            let listed = repositories.as_ref().is_none_or(|these| these.contains(&repo));
            let seen = listed && installation.has(state, repo);
            if !seen && private {
                return Err(Answer::not_found());
            }
            let allowed = seen && permissions.get(name).is_some_and(|given| *given >= level);
            let not_given = || Answer::refusal(403, "Resource not accessible by integration");
            if allowed || public_read { Ok(()) } else { Err(not_given()) }
        }
    }
}

pub(super) fn suspended() -> Answer {
    Answer::refusal(403, "This installation has been suspended")
}

pub(super) fn as_app(who: &Who) -> Result<(), Answer> {
    let needed = || Answer::refusal(401, "A JSON web token could not be decoded");
    matches!(who, Who::App).then_some(()).ok_or_else(needed)
}

/// `GET /app`
pub(super) fn this(state: &State, call: &Call) -> Answered {
    let registered = state.registration.app.as_ref();
    let permissions = match registered {
        Some(app) => app.manifest["default_permissions"].clone(),
        None => permissions_json(&all_permissions()),
    };
    let events =
        registered.map_or(json!(["deployment"]), |app| app.manifest["default_events"].clone());
    let web = match registered {
        Some(_) => call.base.trim_end_matches("/api/v3"),
        None => "https://github.com",
    };
    ok(&json!({
        "id": state.app.id, "slug": "the-deployer", "name": "the-deployer",
        "html_url": format!("{web}/apps/the-deployer"),
        "permissions": permissions, "events": events,
        "installations_count": state.app.installations.len(),
    }))
}

/// `GET /app/installations`
pub(super) fn installations(state: &State, call: &Call) -> Answered {
    let all: Vec<Json> = state.app.installations.values().map(Installation::json).collect();
    call.page(&all)
}

/// `GET /repos/O/R/installation`
pub(super) fn installation_of(state: &State, repo: i64) -> Answered {
    let found = state.app.installations.values().find(|one| one.has(state, repo));
    ok(&found.ok_or_else(Answer::not_found)?.json())
}

/// `GET /installation/repositories`
pub(super) fn repositories(state: &State, call: &Call, who: &Who) -> Answered {
    let Who::Token(Grant::Installation { id, repositories, .. }) = who else {
        return Err(Answer::refusal(
            403,
            "You must authenticate with an installation access token",
        ));
    };
    let installation = state.app.installations.get(id).ok_or_else(Answer::not_found)?;
    if installation.suspended {
        return Err(suspended());
    }
    let listed = |id: &i64| repositories.as_ref().is_none_or(|these| these.contains(id));
    let all = state.repositories.values();
    let all = all.filter(|repo| installation.has(state, repo.id) && listed(&repo.id));
    let all: Vec<Json> = all.map(|repo| repo.json(&call.base)).collect();
    call.page_in("repositories", &all)
}

/// `POST /app/installations/ID/access_tokens`
pub(super) fn access_token(state: &mut State, call: &Call, id: &str) -> Answered {
    let found = id.parse().ok().and_then(|id: i64| state.app.installations.get(&id));
    let installation = found.ok_or_else(Answer::not_found)?.clone();
    if installation.suspended {
        return Err(suspended());
    }
    let permissions = narrowed_permissions(&installation, &call.body["permissions"])?;
    let repositories = narrowed_repositories(state, &installation, &call.body)?;
    let expires_at = state.now() + TOKEN_LIFE;
    let number = state.next_id();
    let token = token_text(number);
    let body = json!({
        "token": token, "expires_at": expires_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "permissions": permissions_json(&permissions),
        "repository_selection": if repositories.is_some() { "selected" } else { "all" },
    });
    let grant = Grant::Installation { id: installation.id, permissions, repositories, expires_at };
    state.grants.insert(token, grant);
    created(&body)
}

fn narrowed_permissions(
    installation: &Installation,
    asked: &Json,
) -> Result<BTreeMap<String, Level>, Answer> {
    let Some(asked) = asked.as_object() else { return Ok(installation.permissions.clone()) };
    let mut narrowed = BTreeMap::from([("metadata".to_owned(), Level::Read)]);
    for (name, level) in asked {
        let level = level.as_str().and_then(Level::parse);
        let given = installation.permissions.get(name).copied();
        let says = "The permissions requested are not granted to this installation.";
        let refused = || Answer::refusal(422, says);
        narrowed
            .insert(name.clone(), level.filter(|level| given >= Some(*level)).ok_or_else(refused)?);
    }
    Ok(narrowed)
}

fn narrowed_repositories(
    state: &State,
    installation: &Installation,
    body: &Json,
) -> Result<Option<BTreeSet<i64>>, Answer> {
    let names = body["repositories"].as_array();
    let ids = body["repository_ids"].as_array();
    if names.is_none() && ids.is_none() {
        return Ok(None);
    }
    let by_name = |name: &Json| {
        let name = format!("{}/{}", installation.account, name.as_str()?);
        state.by_name(&name)
    };
    let by_names = names.into_iter().flatten().map(by_name);
    let numbered = ids.into_iter().flatten().map(Json::as_i64);
    let had = |id: &i64| state.repositories.contains_key(id) && installation.has(state, *id);
    let found: Option<BTreeSet<i64>> = by_names.chain(numbered).map(|id| id.filter(had)).collect();
    let says = "There is at least one repository that does not exist or is not accessible to the parent installation.";
    let found = found.filter(|found| found.len() <= MAX_REPOSITORIES);
    found.map(Some).ok_or_else(|| Answer::refusal(422, says))
}

/// The shape of 2026: some 520 characters, with two dots.
fn token_text(number: i64) -> String {
    let part = |length: usize| "aZ0_".repeat(length / 4);
    format!("ghs_{number}_{}.{}.{}", part(120), part(240), part(148))
}
