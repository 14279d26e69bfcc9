//! The identity and permissions of people.
//!
//! For a caller with a token of their own the client asks GitHub with that token, so that they learn no more here than
//! at GitHub itself. The local host knows no people.

use reqwest::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;

use crate::forge::Forge;
use crate::forge::error::ForgeError;
use crate::forge::github::answer::ErrorAnswer;
use crate::forge::github::client::GitHubClient;
use crate::forge::github::permission::Permission;
use crate::forge::github::request::{ApiCall, RequestCredential, RequestSubject};
use crate::forge::github::wire::Success;
use crate::model::id::{RepoName, TeamName};
use crate::model::person::{IdentityError, Person, RepoPermission};
use crate::support::percent::encode_segment;

/// A page about one person or one repository.
const LIMIT: usize = 256 * 1024;
/// The header with the scopes of a classic token, in every answer of GitHub.
const SCOPES: &str = "x-oauth-scopes";

#[derive(Deserialize)]
struct Repository {
    private: bool,
    #[serde(default)]
    permissions: Permissions,
}

/// The permissions of the token's owner; a missing word is a no.
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

/// An account's permission on a repository.
#[derive(Deserialize)]
struct Collaborator {
    /// `maintain` counts as `write` here, `triage` as `read`.
    permission: String,
    /// The role itself, also one that the organization has defined.
    #[serde(default)]
    role_name: String,
}

impl Collaborator {
    /// Returns the level; `None` for readers, whom everybody is among where the repository is public.
    fn level(&self) -> Option<RepoPermission> {
        match (self.permission.as_str(), self.role_name.as_str()) {
            ("admin" | "write", _) => Some(RepoPermission::Push),
            ("read", "" | "read") => None,
            ("read", _) => Some(RepoPermission::Read),
            (_, _) => Some(RepoPermission::Nothing),
        }
    }
}

impl Forge {
    /// Fetches the person who has that token.
    ///
    /// # Errors
    /// [`IdentityError`]; so for the next two.
    pub async fn person(&self, token: &SecretString) -> Result<Person, IdentityError> {
        #[derive(Deserialize)]
        struct User {
            login: String,
            #[serde(rename = "type", default)]
            kind: String,
        }
        let github = self.asked_by_visitors()?;
        let success = github
            .visitor(token, "/user".to_owned())
            .await?
            .map_err(|answer| identity_error(&answer))?;
        let User { login, kind } = github.parse(&success)?;
        if kind != "User" {
            let why = format!("{login} is no person; programs use an API token of the-deployer");
            return Err(IdentityError::Forbidden(why));
        }
        Ok(Person { login })
    }

    /// Fetches the permission on a repository of the person who has that token. That a repository
    /// is not there and that they may not see it is the same to GitHub.
    pub async fn on_repository(
        &self,
        token: &SecretString,
        repository: &RepoName,
    ) -> Result<RepoPermission, IdentityError> {
        let github = self.asked_by_visitors()?;
        match github.visitor(token, format!("/repos/{repository}")).await? {
            Ok(success) => {
                let scopes = success.headers.get(SCOPES).and_then(|value| value.to_str().ok());
                let scopes = scopes.filter(|_| has_scopes(token));
                Ok(level(&github.parse(&success)?, scopes))
            }
            Err(answer) if is_nothing(&answer) => Ok(RepoPermission::Nothing),
            Err(answer) => Err(identity_error(&answer)),
        }
    }

    /// Checks that the person who has that token, under that name, is in a team, or in one below it.
    pub async fn is_member(
        &self,
        token: &SecretString,
        login: &str,
        team: &TeamName,
    ) -> Result<bool, IdentityError> {
        let github = self.asked_by_visitors()?;
        match github.visitor(token, membership(team, login)).await? {
            Ok(success) => Ok(github.parse::<Membership>(&success)?.state == "active"),
            Err(answer) if is_nothing(&answer) => Ok(false),
            Err(answer) => Err(identity_error(&answer)),
        }
    }

    /// Returns true if the host has teams.
    pub fn knows_people(&self) -> bool {
        matches!(self, Self::GitHub(_))
    }

    /// Checks that a person is in one of the teams, or in one below it; with the credentials for that repository, whose
    /// owner must have the team.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn is_in_one(
        &self,
        repository: &RepoName,
        login: &str,
        teams: &[TeamName],
    ) -> Result<bool, ForgeError> {
        let Self::GitHub(github) = self else { return Ok(false) };
        let subject = RequestSubject::Repository(repository);
        for team in teams {
            let call = ApiCall::get(subject, Permission::READ_MEMBERS, membership(team, login));
            let membership: Option<Membership> = github.find(call.at_most(LIMIT)).await?;
            if membership.is_some_and(|membership| membership.state == "active") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Fetches the permission of an account on a repository, with the service's own credentials.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn permission_of(
        &self,
        repository: &RepoName,
        login: &str,
    ) -> Result<RepoPermission, ForgeError> {
        let Self::GitHub(github) = self else { return Ok(RepoPermission::Nothing) };
        let subject = RequestSubject::Repository(repository);
        let login = encode_segment(login);
        let route = format!("/repos/{repository}/collaborators/{login}/permission");
        let call = ApiCall::get(subject, Permission::METADATA, route).at_most(LIMIT);
        let collaborator: Option<Collaborator> = github.find(call).await?;
        let Some(level) = collaborator.map(|one| one.level()) else {
            return Ok(RepoPermission::Nothing);
        };
        if let Some(level) = level {
            return Ok(level);
        }
        let route = format!("/repos/{repository}");
        let call = ApiCall::get(subject, Permission::METADATA, route).at_most(LIMIT);
        let repository: Option<Repository> = github.find(call).await?;
        let is_private = repository.is_some_and(|repository| repository.private);
        Ok(if is_private { RepoPermission::Read } else { RepoPermission::Nothing })
    }

    /// Returns a person's public e-mail address; `None` where there is none, or no such person.
    pub async fn email_of(&self, login: &str) -> Result<Option<String>, ForgeError> {
        #[derive(Deserialize)]
        struct User {
            #[serde(default)]
            email: Option<String>,
        }
        let Self::GitHub(github) = self else { return Ok(None) };
        let subject = RequestSubject::Anything("a person's e-mail address");
        let route = format!("/users/{}", encode_segment(login));
        let call = ApiCall::get(subject, Permission::METADATA, route).at_most(LIMIT);
        let email = github.find(call).await?.and_then(|user: User| user.email);
        Ok(email.filter(|email| email.contains('@')))
    }

    fn asked_by_visitors(&self) -> Result<&GitHubClient, IdentityError> {
        match self {
            Self::GitHub(github) => Ok(github),
            Self::Local(_) => {
                let why = "a local forge knows no people; use an API token".to_owned();
                Err(IdentityError::Forbidden(why))
            }
        }
    }
}

impl GitHubClient {
    async fn visitor(
        &self,
        token: &SecretString,
        route: String,
    ) -> Result<Result<Success, ErrorAnswer>, IdentityError> {
        let call = ApiCall::get(RequestSubject::Anything("who calls"), Permission::METADATA, route);
        let pass = RequestCredential { token: token.clone(), account: None };
        match self.visitors.send(&call.at_most(LIMIT), &pass).await {
            Ok(Ok(success)) if success.body.is_none() => {
                Err(IdentityError::Unavailable("its answer is too long".to_owned()))
            }
            Ok(outcome) => Ok(outcome),
            Err(ForgeError::NotSent { problem, .. } | ForgeError::Unreachable { problem, .. }) => {
                Err(IdentityError::Unavailable(problem))
            }
            Err(other) => Err(IdentityError::Unavailable(other.to_string())),
        }
    }

    fn parse<T: serde::de::DeserializeOwned>(&self, success: &Success) -> Result<T, IdentityError> {
        let unavailable = |error: ForgeError| IdentityError::Unavailable(error.to_string());
        self.visitors.parsed(success).map_err(unavailable)
    }
}

fn membership(team: &TeamName, login: &str) -> String {
    let [organization, slug, login] = [team.organization(), team.slug(), login].map(encode_segment);
    format!("/orgs/{organization}/teams/{slug}/memberships/{login}")
}

/// Returns the permission of a token's owner: everybody may see a public repository, and a classic token without the
/// scope may write nothing there, whatever its owner may do.
fn level(repository: &Repository, scopes: Option<&str>) -> RepoPermission {
    let Repository { private, permissions: Permissions { push, triage, pull } } = repository;
    let has_scope = |name: &str| {
        scopes.is_none_or(|scopes| scopes.split(',').any(|scope| scope.trim() == name))
    };
    let may_write = has_scope("repo") || (!private && has_scope("public_repo"));
    match (push, *pull && *private) {
        (true, _) if may_write => RepoPermission::Push,
        (true, _) | (_, true) => RepoPermission::Read,
        (false, false) if *triage => RepoPermission::Read,
        (false, false) => RepoPermission::Nothing,
    }
}

/// Checks for tokens with scopes: classic ones and those of OAuth apps; for others GitHub sends no scopes, or an empty
/// list.
fn has_scopes(token: &SecretString) -> bool {
    let token = token.expose_secret();
    token.starts_with("ghp_") || token.starts_with("gho_")
}

/// Checks that a repository cannot be seen; 451 is GitHub's status for one that a court has closed.
fn is_nothing(answer: &ErrorAnswer) -> bool {
    matches!(answer.status.as_u16(), 404 | 410 | 451)
}

fn identity_error(answer: &ErrorAnswer) -> IdentityError {
    if let Some(wait) = answer.time_to_wait() {
        return IdentityError::RateLimited(wait);
    }
    match (answer.status, answer.sign_on(), &answer.message) {
        (StatusCode::UNAUTHORIZED, _, _) => IdentityError::InvalidToken,
        (StatusCode::FORBIDDEN, Some(url), _) => IdentityError::Forbidden(format!(
            "GitHub wants the token authorized for the organization's single sign-on at {url}"
        )),
        (StatusCode::FORBIDDEN, None, message) if message.contains("by integration") => {
            let help = "programs use an API token of the-deployer, people a token of their own";
            IdentityError::Forbidden(format!(
                "GitHub does not answer to an App's token here: {help}"
            ))
        }
        (status, _, message) if status.is_client_error() => {
            IdentityError::Forbidden(format!("GitHub refuses the token ({status}): {message}"))
        }
        (status, _, _) => IdentityError::Unavailable(format!("it answers {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RepoPermission::{Nothing, Push, Read};

    fn on(private: bool, words: &str, scopes: Option<&str>) -> RepoPermission {
        let has_word = |word| words.split(' ').any(|listed| listed == word);
        let permissions = Permissions {
            push: has_word("push"),
            triage: has_word("triage"),
            pull: has_word("pull"),
        };
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
        let permissions = "pull triage push";
        for (private, scopes, level) in [
            (false, "", Read),
            (false, "read:org", Read),
            (false, "public_repo, read:org", Push),
            (false, "read:org, repo", Push),
            (true, "public_repo", Read),
            (true, "repo", Push),
            (true, "repo:status", Read),
        ] {
            assert_eq!(on(private, permissions, Some(scopes)), level, "{private} {scopes}");
        }
    }

    #[test]
    fn a_reader_is_everybody_and_a_role_is_not() {
        for (permission, role, level) in [
            ("admin", "admin", Some(Push)),
            ("write", "maintain", Some(Push)),
            ("write", "write", Some(Push)),
            ("read", "triage", Some(Read)),
            ("read", "security-reviewer", Some(Read)),
            ("read", "read", None),
            ("read", "", None),
            ("none", "none", Some(Nothing)),
            ("surprise", "read", Some(Nothing)),
        ] {
            let (permission, role_name) = (permission.to_owned(), role.to_owned());
            let collaborator = Collaborator { permission, role_name };
            assert_eq!(collaborator.level(), level, "{role}");
        }
    }

    #[test]
    fn permissions_that_are_not_told_are_none() {
        let repository = r#"{"private": true, "full_name": "acme/web"}"#;
        assert_eq!(level(&serde_json::from_str(repository).unwrap(), None), Nothing);
    }
}
