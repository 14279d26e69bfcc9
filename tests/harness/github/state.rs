//! Everything there is in this GitHub.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value as Json, json};
use the_deployer::support::clock::Clock;

use crate::harness::events::number_of;
use crate::harness::github::answer::Answer;
use crate::harness::github::app::{App, Grant, Who};
use crate::harness::github::call::Call;
use crate::harness::github::checks::CheckRun;
use crate::harness::github::comments::Comment;
use crate::harness::github::deliveries::{Delivery, Hook};
use crate::harness::github::deployments::Deployment;
use crate::harness::github::faults::Faults;
use crate::harness::github::limits::Limits;
use crate::harness::github::oauth::OAuth;
use crate::harness::github::people::People;
use crate::harness::github::pulls::Pull;
use crate::harness::github::registration::Registration;
use crate::harness::github::repositories::Commit;
use crate::harness::github::statuses::CommitStatus;

pub(super) struct State {
    pub(super) clock: Clock,
    last_id: i64,
    pub(super) repositories: BTreeMap<i64, Repo>,
    /// Names that repositories had once, in lower case.
    pub(super) former_names: BTreeMap<String, i64>,
    /// Public e-mail addresses by login.
    pub(super) people: BTreeMap<String, Option<String>>,
    /// What people may.
    pub(super) access: People,
    /// People who sign in with a browser.
    pub(super) oauth: OAuth,
    /// Apps that are made of manifests.
    pub(super) registration: Registration,
    pub(super) app: App,
    pub(super) grants: BTreeMap<String, Grant>,
    pub(super) hook: Option<Hook>,
    pub(super) deliveries: Vec<Delivery>,
    pub(super) faults: Faults,
    pub(super) limits: Limits,
    pub(super) seen: Vec<Seen>,
    /// What is worked on late: when, what, and as whom.
    pub(super) late_calls: Vec<(Timestamp, Call, Option<Who>)>,
    /// Deployments that a test expects to stay without an end.
    pub(super) left_open: BTreeSet<i64>,
    /// How often a new commit or deployment is not found at first.
    pub(super) late: u32,
}

/// A request that was answered.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// `POST repos/acme/web/deployments/7/statuses`.
    pub(crate) line: String,
    pub(crate) status: u16,
    pub(crate) at: Timestamp,
}

/// A repository with everything in it.
pub(super) struct Repo {
    pub(super) id: i64,
    pub(super) full_name: String,
    pub(super) private: bool,
    pub(super) archived: bool,
    pub(super) commits: BTreeMap<String, Commit>,
    pub(super) branches: BTreeMap<String, String>,
    pub(super) deployments: Vec<Deployment>,
    pub(super) statuses: Vec<CommitStatus>,
    pub(super) checks: Vec<CheckRun>,
    pub(super) pulls: Vec<Pull>,
    pub(super) comments: Vec<Comment>,
}

impl State {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            last_id: 1_000,
            repositories: BTreeMap::new(),
            former_names: BTreeMap::new(),
            people: BTreeMap::from([("octocat".to_owned(), None)]),
            access: People::default(),
            oauth: OAuth::default(),
            registration: Registration::default(),
            app: App::new(),
            grants: BTreeMap::new(),
            hook: None,
            deliveries: Vec::new(),
            faults: Faults::default(),
            limits: Limits::default(),
            seen: Vec::new(),
            late_calls: Vec::new(),
            left_open: BTreeSet::new(),
            late: 0,
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A number that nothing had before; greater ones are newer.
    pub(super) fn next_id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn by_name(&self, full_name: &str) -> Option<i64> {
        let same = |repo: &&Repo| repo.full_name.eq_ignore_ascii_case(full_name);
        self.repositories.values().find(same).map(|repo| repo.id)
    }

    pub(super) fn repo(&self, id: i64) -> &Repo {
        &self.repositories[&id]
    }

    pub(super) fn repo_mut(&mut self, id: i64) -> &mut Repo {
        self.repositories.get_mut(&id).unwrap()
    }

    /// The repository that a deployment is of.
    pub(super) fn repo_of(&self, deployment: i64) -> &Repo {
        let has = |repo: &&Repo| repo.deployments.iter().any(|one| one.id == deployment);
        let found = self.repositories.values().find(has);
        found.unwrap_or_else(|| panic!("there is no deployment {deployment}"))
    }
}

impl Repo {
    pub(super) fn owner(&self) -> &str {
        self.full_name.split_once('/').unwrap().0
    }

    pub(super) fn name(&self) -> &str {
        self.full_name.split_once('/').unwrap().1
    }

    pub(super) fn json(&self, base: &str) -> Json {
        let (owner, name) = (self.owner(), self.name());
        json!({
            "id": self.id, "node_id": "R_kgDO", "name": name, "full_name": self.full_name,
            "private": self.private,
            "owner": {"login": owner, "id": number_of(owner), "type": "Organization"},
            "html_url": format!("https://github.com/{}", self.full_name),
            "url": format!("{base}/repos/{}", self.full_name),
            "default_branch": "main", "fork": false, "archived": self.archived, "topics": [],
            "license": null, "visibility": if self.private { "private" } else { "public" },
        })
    }
}

pub(super) fn user(login: &str) -> Json {
    let kind = if login.ends_with("[bot]") { "Bot" } else { "User" };
    json!({
        "login": login, "id": 583_231, "node_id": "MDQ6VXNlcjU4MzIzMQ==", "type": kind,
        "url": format!("https://api.github.com/users/{login}"), "site_admin": false,
    })
}

/// `GET /users/LOGIN`
pub(super) fn person(state: &State, login: &str) -> Result<Json, Answer> {
    let email = state.people.get(login).ok_or_else(Answer::not_found)?;
    let mut person = user(login);
    person["email"] = json!(email);
    person["name"] = Json::Null;
    Ok(person)
}

/// What a request may do; `Write` may also read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Read,
    Write,
}

impl Level {
    pub(super) fn parse(word: &str) -> Option<Self> {
        match word {
            "read" => Some(Self::Read),
            "write" => Some(Self::Write),
            _ => None,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// What a route asks for: `("deployments", Write)`.
pub(super) type Needs = (&'static str, Level);
