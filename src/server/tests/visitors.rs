//! The fake forge's people, whose apps are, what was noted and what was answered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use secrecy::{ExposeSecret, SecretString};

use tokio::sync::Notify;

use super::world::{Fake, now};
use crate::model::audit::{Found, Search, Written};
use crate::model::id::{AppKey, Namespace, RepoName, Slug, TargetName, TeamName};
use crate::model::person::{NotKnown, OnRepository, Person};
use crate::server::ports::{AuditLog, Fault, IdempotencyKeys, Visitors};
use crate::store::{Begin, IdempotencyKey, KeyLease, StoredAnswer};

/// What is known of callers, and what they did.
#[derive(Debug, Default)]
pub(super) struct Callers {
    /// Since the one time there is.
    pub(super) later: SignedDuration,
    /// Logins by token.
    pub(super) people: BTreeMap<String, String>,
    /// By token and repository; what is not there is nothing.
    pub(super) levels: BTreeMap<(String, String), OnRepository>,
    /// Login and team.
    pub(super) members: BTreeSet<(String, String)>,
    /// Target, app, repository.
    pub(super) owners: Vec<(TargetName, AppKey, RepoName)>,
    /// What the forge was asked, in order.
    pub(super) asked: Vec<String>,
    /// It shows no team.
    pub(super) hidden: bool,
    /// It does not answer who somebody is.
    pub(super) stuck: bool,
    /// What it answers to everything instead.
    pub(super) trouble: Option<NotKnown>,
    pub(super) entries: Vec<Written>,
    pub(super) answers: BTreeMap<String, (IdempotencyKey, Option<StoredAnswer>)>,
    /// What an act waits for in its middle, and who waits until it is there.
    hold: Option<Hold>,
    /// Told of each answer that is kept.
    kept: Arc<Notify>,
}

/// An act that stops in its middle until it is let go.
#[derive(Debug, Clone, Default)]
pub(super) struct Hold {
    there: Arc<Notify>,
    go: Arc<Notify>,
}

impl Hold {
    pub(super) async fn reached(&self) {
        self.there.notified().await;
    }

    pub(super) fn let_go(&self) {
        self.go.notify_one();
    }
}

pub(super) fn app(text: &str) -> AppKey {
    let (namespace, slug) = text.split_once('/').unwrap();
    AppKey { namespace: Namespace::parse(namespace).unwrap(), slug: Slug::parse(slug).unwrap() }
}

impl Fake {
    pub(super) fn callers<T>(&self, of: impl FnOnce(&mut Callers) -> T) -> T {
        of(&mut self.inner.lock().unwrap().callers)
    }

    pub(super) fn wait(&self, time: Duration) {
        self.callers(|callers| callers.later += SignedDuration::try_from(time).unwrap());
    }

    /// Somebody with that token.
    pub(super) fn person(&self, token: &str, login: &str) {
        self.callers(|callers| callers.people.insert(token.to_owned(), login.to_owned()));
    }

    pub(super) fn lets(&self, token: &str, repository: &str, level: OnRepository) {
        let key = (token.to_owned(), repository.to_owned());
        self.callers(|callers| callers.levels.insert(key, level));
    }

    pub(super) fn member(&self, login: &str, team: &str) {
        self.callers(|callers| callers.members.insert((login.to_owned(), team.to_owned())));
    }

    pub(super) fn owns(&self, repository: &str, target: &str, key: &str) {
        let (target, repository) = (TargetName::parse(target), RepoName::parse(repository));
        let owner = (target.unwrap(), app(key), repository.unwrap());
        self.callers(|callers| callers.owners.push(owner));
    }

    pub(super) fn asked(&self) -> Vec<String> {
        self.callers(|callers| std::mem::take(&mut callers.asked))
    }

    /// The next act stops in its middle.
    pub(super) fn hold_removals(&self) -> Hold {
        let hold = Hold::default();
        self.callers(|callers| callers.hold = Some(hold.clone()));
        hold
    }

    pub(super) async fn held(&self) {
        if let Some(hold) = self.callers(|callers| callers.hold.take()) {
            hold.there.notify_one();
            hold.go.notified().await;
        }
    }

    /// Until an answer is kept.
    pub(super) async fn answered(&self) {
        let kept = self.callers(|callers| Arc::clone(&callers.kept));
        kept.notified().await;
    }

    fn ask(&self, line: String) -> Result<(), NotKnown> {
        self.callers(|callers| {
            callers.asked.push(line);
            callers.trouble.clone().map_or(Ok(()), Err)
        })
    }
}

impl Visitors for Fake {
    fn now(&self) -> Timestamp {
        now() + self.callers(|callers| callers.later)
    }

    async fn person(&self, token: &SecretString) -> Result<Person, NotKnown> {
        self.ask("who".to_owned())?;
        if self.callers(|callers| callers.stuck) {
            std::future::pending::<()>().await;
        }
        let found = self.callers(|callers| callers.people.get(token.expose_secret()).cloned());
        found.map(|login| Person { login }).ok_or(NotKnown::Rejected)
    }

    async fn on_repository(
        &self,
        token: &SecretString,
        repository: &RepoName,
    ) -> Result<OnRepository, NotKnown> {
        self.ask(repository.to_string())?;
        let key = (token.expose_secret().to_owned(), repository.to_string());
        let level = self.callers(|callers| callers.levels.get(&key).copied());
        Ok(level.unwrap_or(OnRepository::Nothing))
    }

    async fn is_member(
        &self,
        _: &SecretString,
        login: &str,
        team: &TeamName,
    ) -> Result<bool, NotKnown> {
        self.ask(team.to_string())?;
        if self.callers(|callers| callers.hidden) {
            return Err(NotKnown::Refused("no scope".to_owned()));
        }
        let key = (login.to_owned(), team.to_string());
        Ok(self.callers(|callers| callers.members.contains(&key)))
    }

    async fn repository_of(
        &self,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<Option<RepoName>, Fault> {
        self.trouble().await?;
        Ok(self.callers(|callers| {
            let mut owners = callers.owners.iter();
            let found = owners.find(|(at, key, _)| at == target && key == app);
            found.map(|(_, _, repository)| repository.clone())
        }))
    }

    async fn deployed(&self, repository: &RepoName) -> Result<Vec<(TargetName, AppKey)>, Fault> {
        self.trouble().await?;
        Ok(self.callers(|callers| {
            let owners = callers.owners.iter().filter(|(_, _, one)| one == repository);
            owners.map(|(target, app, _)| (target.clone(), app.clone())).collect()
        }))
    }
}

impl AuditLog for Fake {
    async fn audited(&self, search: &Search) -> Result<Found, Fault> {
        self.trouble().await?;
        let fits = |entry: &Written| search.by.as_ref().is_none_or(|by| *by == entry.by.name);
        let entries = self.callers(|callers| callers.entries.clone());
        Ok(Found { entries: entries.into_iter().filter(fits).collect(), next: None })
    }
}

fn name(key: &IdempotencyKey) -> String {
    format!("{} {} {}", key.caller, key.route, key.key)
}

impl IdempotencyKeys for Fake {
    async fn begin(&self, key: &IdempotencyKey) -> Result<Begin, Fault> {
        Ok(self.callers(|callers| match callers.answers.get(&name(key)) {
            None => {
                callers.answers.insert(name(key), (key.clone(), None));
                Begin::Started(KeyLease::of(key.clone()))
            }
            Some((first, _)) if first.digest != key.digest => Begin::KeyReused,
            Some((_, Some(answer))) => Begin::Replay(answer.clone()),
            Some((_, None)) => Begin::InProgress,
        }))
    }

    async fn keep(&self, lease: &KeyLease, answer: &StoredAnswer) -> Result<(), Fault> {
        let kept = (lease.key().clone(), Some(answer.clone()));
        self.callers(|callers| {
            callers.answers.insert(name(lease.key()), kept);
            callers.kept.notify_one();
        });
        Ok(())
    }

    async fn release_key(&self, lease: &KeyLease) -> Result<(), Fault> {
        self.callers(|callers| callers.answers.remove(&name(lease.key())));
        Ok(())
    }
}
