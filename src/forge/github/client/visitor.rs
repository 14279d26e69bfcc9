//! Who somebody is that comes with a token of their own, and what they may. Asked with that token,
//! so that nobody learns more here than at GitHub itself.
//!
//! Such requests have turns of their own: whoever calls us often keeps no deployment waiting.

use std::sync::Arc;
use std::time::Duration;

use reqwest::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use tokio::sync::Semaphore;

use crate::forge::error::ForgeError;
use crate::forge::github::auth::permission::Permission;
use crate::forge::github::client::GitHub;
use crate::forge::github::client::answer::Answer;
use crate::forge::github::client::budget::Budgets;
use crate::forge::github::client::call::{About, Call};
use crate::forge::github::client::closed::Closed;
use crate::forge::github::client::wire::{Outcome, Pass, Success, Wire};
use crate::model::id::{RepoName, TeamName};
use crate::model::person::{NotKnown, OnRepository, Person};
use crate::support::percent::encode_segment;

/// So many are asked about at once.
const AT_ONCE: usize = 16;
/// Somebody waits for the answer, and for no longer than a request of ours may take.
const TIMEOUT: Duration = Duration::from_secs(4);
/// A page about one person or one repository.
const LIMIT: usize = 256 * 1024;
/// What a classic token may, as GitHub says with every answer.
const SCOPES: &str = "x-oauth-scopes";

#[derive(Deserialize)]
struct User {
    login: String,
    #[serde(rename = "type", default)]
    kind: String,
}

#[derive(Deserialize)]
struct Repository {
    private: bool,
    #[serde(default)]
    permissions: Permissions,
}

/// What the token's owner may; a word that is missing is a no.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Permissions {
    push: bool,
    triage: bool,
    pull: bool,
}

#[derive(Deserialize)]
struct Membership {
    state: String,
}

/// The same GitHub, for those who come with a token of their own.
pub(super) fn wire(ours: &Wire) -> Wire {
    Wire {
        timeout: TIMEOUT.min(ours.timeout),
        budgets: Budgets::default(),
        closed: Closed::default(),
        at_once: Arc::new(Semaphore::new(AT_ONCE)),
        ..ours.clone()
    }
}

impl GitHub {
    /// Who has that token.
    ///
    /// # Errors
    /// [`NotKnown`]
    pub async fn person(&self, token: &SecretString) -> Result<Person, NotKnown> {
        let success = self.visitor(token, "/user".to_owned()).await?.map_err(refused)?;
        let User { login, kind } = self.heard(&success)?;
        if kind != "User" {
            let why = format!("{login} is no person; programs use an API token of ours");
            return Err(NotKnown::Refused(why));
        }
        Ok(Person { login })
    }

    /// What who has that token may on a repository. That a repository is not there and that they may
    /// not see it is the same to GitHub.
    ///
    /// # Errors
    /// [`NotKnown`]
    pub async fn on_repository(
        &self,
        token: &SecretString,
        repository: &RepoName,
    ) -> Result<OnRepository, NotKnown> {
        let route = format!("/repos/{repository}");
        match self.visitor(token, route).await? {
            Ok(success) => {
                let scopes = success.headers.get(SCOPES).and_then(|value| value.to_str().ok());
                let scopes = scopes.filter(|_| has_scopes(token));
                Ok(level(&self.heard(&success)?, scopes))
            }
            Err(answer) if is_nothing(&answer) => Ok(OnRepository::Nothing),
            Err(answer) => Err(refused(answer)),
        }
    }

    /// Whether who has that token, under that name, is in a team, or in one below it.
    ///
    /// # Errors
    /// [`NotKnown`]
    pub async fn is_member(
        &self,
        token: &SecretString,
        login: &str,
        team: &TeamName,
    ) -> Result<bool, NotKnown> {
        let (organization, slug) =
            (encode_segment(team.organization()), encode_segment(team.slug()));
        let login = encode_segment(login);
        let route = format!("/orgs/{organization}/teams/{slug}/memberships/{login}");
        match self.visitor(token, route).await? {
            Ok(success) => Ok(self.heard::<Membership>(&success)?.state == "active"),
            Err(answer) if is_nothing(&answer) => Ok(false),
            Err(answer) => Err(refused(answer)),
        }
    }

    async fn visitor(
        &self,
        token: &SecretString,
        route: String,
    ) -> Result<Result<Success, Answer>, NotKnown> {
        let call = Call::get(About::Anything("who calls"), Permission::METADATA, route);
        let pass = Pass { token: token.clone(), account: None };
        match self.visitors.send(&call.at_most(LIMIT), &pass).await {
            Ok(Outcome::Success(success)) => Ok(Ok(success)),
            Ok(Outcome::TooLong) => Err(NotKnown::Down("its answer is too long".to_owned())),
            Ok(Outcome::Failure(answer)) => Ok(Err(answer)),
            Err(ForgeError::NotSent { problem, .. } | ForgeError::Unreachable { problem, .. }) => {
                Err(NotKnown::Down(problem))
            }
            Err(other) => Err(NotKnown::Down(other.to_string())),
        }
    }

    fn heard<T: serde::de::DeserializeOwned>(&self, success: &Success) -> Result<T, NotKnown> {
        let down = |error: ForgeError| NotKnown::Down(error.to_string());
        self.visitors.parsed(&success.body).map_err(down)
    }
}

/// Of a public repository everybody may know what it is, and a classic token without the scope may
/// write nothing there, whatever its owner may.
fn level(repository: &Repository, scopes: Option<&str>) -> OnRepository {
    let Repository { private, permissions: Permissions { push, triage, pull } } = repository;
    let scope = |name: &str| scopes.is_none_or(|all| all.split(',').any(|one| one.trim() == name));
    let writes = scope("repo") || (!private && scope("public_repo"));
    match (push, *pull && *private) {
        (true, _) if writes => OnRepository::Push,
        (true, _) | (_, true) => OnRepository::Read,
        (false, false) if *triage => OnRepository::Read,
        (false, false) => OnRepository::Nothing,
    }
}

/// Classic tokens and those of OAuth apps; of others GitHub sends no scopes, or an empty list.
fn has_scopes(token: &SecretString) -> bool {
    let token = token.expose_secret();
    token.starts_with("ghp_") || token.starts_with("gho_")
}

/// 451 is GitHub's word for one that a court has closed.
fn is_nothing(answer: &Answer) -> bool {
    matches!(answer.status.as_u16(), 404 | 410 | 451)
}

fn refused(answer: Answer) -> NotKnown {
    if let Some(wait) = answer.limited() {
        return NotKnown::Wait(wait);
    }
    let Answer { status, headers, message, .. } = answer;
    let sign_on = headers.get("x-github-sso").and_then(|value| value.to_str().ok());
    match (status, sign_on.and_then(|value| value.split_once("url="))) {
        (StatusCode::UNAUTHORIZED, _) => NotKnown::Rejected,
        (StatusCode::FORBIDDEN, Some((_, url))) => NotKnown::Refused(format!(
            "GitHub wants the token authorized for the organization's single sign-on at {url}"
        )),
        (StatusCode::FORBIDDEN, None) if message.contains("by integration") => {
            let help = "programs use an API token of ours, people a token of their own";
            NotKnown::Refused(format!("GitHub does not answer to an App's token here: {help}"))
        }
        (status, _) if status.is_client_error() => {
            NotKnown::Refused(format!("GitHub refuses the token ({status}): {message}"))
        }
        (status, _) => NotKnown::Down(format!("it answers {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OnRepository::{Nothing, Push, Read};

    fn on(private: bool, words: &str, scopes: Option<&str>) -> OnRepository {
        let has = |word| words.split(' ').any(|one| one == word);
        let permissions =
            Permissions { push: has("push"), triage: has("triage"), pull: has("pull") };
        level(&Repository { private, permissions }, scopes)
    }

    #[test]
    fn what_somebody_may_on_a_repository_is_what_not_everybody_may() {
        for (private, words, level) in [
            (true, "pull", Read),
            (true, "pull triage", Read),
            (true, "pull triage push", Push),
            (true, "", Nothing),
            (false, "pull", Nothing),
            (false, "pull triage", Read),
            (false, "pull triage push", Push),
        ] {
            assert_eq!(on(private, words, None), level, "{private} {words}");
        }
    }

    #[test]
    fn a_classic_token_does_not_more_than_its_scopes_say() {
        let all = "pull triage push";
        for (private, scopes, level) in [
            (false, "", Read),
            (false, "read:org", Read),
            (false, "public_repo, read:org", Push),
            (false, "read:org, repo", Push),
            (true, "public_repo", Read),
            (true, "repo", Push),
            (true, "repo:status", Read),
        ] {
            assert_eq!(on(private, all, Some(scopes)), level, "{private} {scopes}");
        }
    }

    #[test]
    fn permissions_that_are_not_told_are_none() {
        let sent = r#"{"private": true, "full_name": "acme/web"}"#;
        assert_eq!(level(&serde_json::from_str(sent).unwrap(), None), Nothing);
    }
}
