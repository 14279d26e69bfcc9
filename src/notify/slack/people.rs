//! The Slack user of a person at the code host: by the configuration, or by an e-mail address.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value as Json, json};

use crate::notify::message::UserId;
use crate::notify::slack::SlackClient;
use crate::notify::slack::error::SlackError;
use crate::support::cache::BoundedCache;
use crate::support::sync::lock;
use crate::support::time::saturating_add;

/// The configuration of people.
#[derive(Debug, Clone, Default)]
pub struct PeopleSettings {
    /// The configured people by login, in lower case.
    pub people: BTreeMap<String, PersonName>,
    /// A text with `{login}` in it that makes e-mail addresses.
    pub email: Option<String>,
}

/// A person, as the configuration names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersonName {
    /// Slack's user id.
    User(UserId),
    /// An e-mail address.
    Email(String),
}

/// Finds people, and caches the result. Clones share the cache.
#[derive(Debug, Clone)]
pub struct PeopleDirectory {
    settings: Arc<PeopleSettings>,
    slack: SlackClient,
    remembered: Arc<Mutex<BoundedCache<String, Option<UserId>>>>,
}

/// People change their addresses, but not by the hour.
const LIFETIME: SignedDuration = SignedDuration::from_hours(24);
/// The time for which an unknown user is cached: they may join.
const UNKNOWN: SignedDuration = SignedDuration::from_hours(1);
/// The limit of cached users: more than any company has developers.
const MAX: usize = 10_000;
/// GitHub's own bound for a login is 39; a person of an Enterprise has an underscore in it.
const LONGEST_LOGIN: usize = 60;

const LOOKUP: &str = "users.lookupByEmail";

impl PeopleDirectory {
    /// Builds the lookup of people in that Slack.
    pub fn new(settings: PeopleSettings, slack: SlackClient) -> Self {
        let remembered = Arc::new(Mutex::new(BoundedCache::new(MAX)));
        Self { settings: Arc::new(settings), slack, remembered }
    }

    /// Finds the Slack user of a login; `None` when there is none. `profile` is read for the e-mail address of the
    /// profile at the code host, if it comes to that.
    ///
    /// # Errors
    /// [`SlackError`] when the lookup failed and may be retried.
    pub async fn find(
        &self,
        login: &str,
        profile: impl AsyncFnOnce() -> Option<String>,
        now: Timestamp,
    ) -> Result<Option<UserId>, SlackError> {
        let login = login.to_lowercase();
        let email = match self.settings.people.get(&login) {
            Some(PersonName::User(user)) => return Ok(Some(user.clone())),
            Some(PersonName::Email(email)) => Some(email.clone()),
            None => None,
        };
        if !self.slack.is_bot() || (email.is_none() && !is_person(&login)) {
            return Ok(None);
        }
        if let Some(user) = lock(&self.remembered).get(&login, now) {
            return Ok(user);
        }
        let user = self.look_up(&login, email, profile, now).await?;
        let life = if user.is_some() { LIFETIME } else { UNKNOWN };
        lock(&self.remembered).put(login, user.clone(), saturating_add(now, life));
        Ok(user)
    }

    async fn look_up(
        &self,
        login: &str,
        configured: Option<String>,
        profile: impl AsyncFnOnce() -> Option<String>,
        now: Timestamp,
    ) -> Result<Option<UserId>, SlackError> {
        if let Some(email) = configured {
            return self.by_email(&email, now).await;
        }
        let email = self.settings.email.as_ref().map(|form| form.replace("{login}", login));
        if let Some(email) = email
            && let Some(user) = self.by_email(&email, now).await?
        {
            return Ok(Some(user));
        }
        match profile().await.filter(|email| is_email(email)) {
            Some(email) => self.by_email(&email, now).await,
            None => Ok(None),
        }
    }

    async fn by_email(&self, email: &str, now: Timestamp) -> Result<Option<UserId>, SlackError> {
        let reply = self.slack.call(LOOKUP, LOOKUP, &json!({"email": email}), now).await;
        let problem = match reply {
            Ok(reply) => {
                let id = reply.pointer("/user/id").and_then(Json::as_str);
                return Ok(id.and_then(UserId::parse));
            }
            Err(SlackError::Nobody | SlackError::Place { .. }) => return Ok(None),
            Err(
                error @ (SlackError::Unreachable(_)
                | SlackError::Wait { .. }
                | SlackError::Credentials { .. }),
            ) => return Err(error),
            // A question that was perhaps heard and not answered can be asked again.
            Err(SlackError::NoAnswer(detail)) => return Err(SlackError::Unreachable(detail)),
            Err(problem) => problem,
        };
        tracing::warn!(error = %problem, "Slack user lookup failed, names are used instead");
        Ok(None)
    }
}

/// Checks that a login is a person's. Programs have logins with brackets; and a text that is no login must not become
/// part of an address.
fn is_person(login: &str) -> bool {
    (1..=LONGEST_LOGIN).contains(&login.len())
        && login.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

fn is_email(text: &str) -> bool {
    text.len() <= 254
        && text.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty())
        && !text.chars().any(|c| c.is_control() || c.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_junk_are_not_looked_up() {
        assert!(is_person("octocat") && is_person("jane-doe_acme"));
        for login in ["github-actions[bot]", "", "a@b", "a b", "🦀", &"a".repeat(61)] {
            assert!(!is_person(login), "{login}");
        }
    }
}
