//! What GitHub says of people, asked with their own tokens and kept for a short while.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret, SecretString};

use crate::model::id::{RepoName, TeamName};
use crate::model::person::{NotKnown, OnRepository, Person};
use crate::server::Shared;
use crate::server::auth::kept::{Answer, Kept, Known, Print, decide};

/// Tokens whose owners GitHub told to wait.
const MOST_WAITING: usize = 10_000;

/// What is known of people now.
#[derive(Debug)]
pub(in crate::server) struct People {
    kept: Mutex<Kept<Question, Said>>,
    waiting: Mutex<BTreeMap<Print, Timestamp>>,
}

/// What is asked about whoever has a token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    Who,
    On(RepoName),
    /// And under which name.
    In(TeamName, String),
}

/// What GitHub said.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    /// `None`: it does not know the token.
    Is(Option<Person>),
    May(OnRepository),
    IsMember(bool),
    /// The token cannot show it, for this reason.
    Hidden(String),
}

impl Answer for Said {
    fn is_yes(&self) -> bool {
        match self {
            Self::Is(person) => person.is_some(),
            Self::May(level) => *level > OnRepository::Nothing,
            Self::IsMember(is) => *is,
            Self::Hidden(_) => false,
        }
    }
}

impl People {
    pub(in crate::server) fn new() -> Self {
        Self { kept: Mutex::new(Kept::new()), waiting: Mutex::default() }
    }

    fn known(&self, print: &Print, question: &Question, now: Timestamp) -> Known<Said> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).known(print, question, now)
    }

    fn waits(&self, print: &Print, now: Timestamp) -> Option<Duration> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let left = waiting.get(print)?.duration_since(now);
        left.try_into().ok().filter(|left: &Duration| !left.is_zero())
    }

    /// Keeps what was said; what is no answer is kept as far as it says something.
    fn hear(
        &self,
        print: &Print,
        question: Question,
        said: &Result<Said, NotKnown>,
        now: Timestamp,
    ) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        match said {
            Ok(answer) => kept.keep(print, question, answer.clone(), now),
            Err(NotKnown::Rejected) => {
                kept.forget(print);
                kept.keep(print, Question::Who, Said::Is(None), now);
            }
            Err(NotKnown::Wait(wait)) => self.wait(print, *wait, now),
            // That teams are not shown is as good as a no, and is asked again as soon.
            Err(NotKnown::Refused(why)) if matches!(question, Question::In(..)) => {
                kept.keep(print, question, Said::Hidden(why.clone()), now);
            }
            Err(NotKnown::Refused(_) | NotKnown::Down(_)) => {}
        }
    }

    fn wait(&self, print: &Print, wait: Duration, now: Timestamp) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= MOST_WAITING {
            waiting.retain(|_, until| *until > now);
        }
        let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::from_mins(1));
        if waiting.len() < MOST_WAITING {
            waiting.insert(print.clone(), now.checked_add(wait).unwrap_or(now));
        }
    }
}

impl Shared {
    /// Whether GitHub knew that token now or a little earlier.
    pub(super) fn known_person(&self, token: &SecretString) -> bool {
        let print = self.print(token);
        let known = self.people.known(&print, &Question::Who, self.state.deployments.clock.now());
        matches!(known, Known::Fresh(said) | Known::Stale(said) if said.is_yes())
    }

    /// Who has that token.
    pub(super) async fn person(&self, token: &SecretString) -> Result<Person, NotKnown> {
        match self.ask(token, Question::Who).await? {
            Said::Is(Some(person)) => Ok(person),
            Said::Is(None) | Said::May(_) | Said::IsMember(_) | Said::Hidden(_) => {
                Err(NotKnown::Rejected)
            }
        }
    }

    /// What they may on a repository.
    pub(super) async fn on_repository(
        &self,
        token: &SecretString,
        repository: &RepoName,
    ) -> Result<OnRepository, NotKnown> {
        match self.ask(token, Question::On(repository.clone())).await? {
            Said::May(level) => Ok(level),
            Said::Is(_) | Said::IsMember(_) | Said::Hidden(_) => Ok(OnRepository::Nothing),
        }
    }

    /// Whether they, under that name, are in one of the teams.
    pub(super) async fn is_in_one(
        &self,
        token: &SecretString,
        login: &str,
        teams: &[TeamName],
    ) -> Result<bool, NotKnown> {
        let mut refused = None;
        for team in teams {
            match self.ask(token, Question::In(team.clone(), login.to_owned())).await {
                Ok(Said::IsMember(true)) => return Ok(true),
                // Of another organization it may be shown.
                Ok(Said::Hidden(why)) | Err(NotKnown::Refused(why)) => refused = Some(why),
                Ok(_) => {}
                Err(other) => return Err(other),
            }
        }
        refused.map_or(Ok(false), |why| Err(NotKnown::Refused(why)))
    }

    async fn ask(&self, token: &SecretString, question: Question) -> Result<Said, NotKnown> {
        let print = self.print(token);
        let now = self.state.deployments.clock.now();
        let before = match self.people.known(&print, &question, now) {
            Known::Fresh(said) => return Ok(said),
            Known::Stale(said) => Some(said),
            Known::Nothing => None,
        };
        let said = match self.people.waits(&print, now) {
            Some(left) => Err(NotKnown::Wait(left)),
            None => self.asked(token, &question).await,
        };
        self.people.hear(&print, question, &said, now);
        decide(said, before)
    }

    async fn asked(&self, token: &SecretString, question: &Question) -> Result<Said, NotKnown> {
        let forge = &self.state.deployments.forge;
        match question {
            Question::Who => forge.person(token).await.map(|person| Said::Is(Some(person))),
            Question::On(repository) => forge.on_repository(token, repository).await.map(Said::May),
            Question::In(team, login) => {
                forge.is_member(token, login, team).await.map(Said::IsMember)
            }
        }
    }

    fn print(&self, token: &SecretString) -> Print {
        self.state.admission.key.print(token.expose_secret())
    }
}
