//! Who somebody is.

use reqwest::StatusCode;
use serde::Deserialize;

use crate::forge::error::ForgeError;
use crate::forge::github::auth::permission::Permission;
use crate::forge::github::client::GitHub;
use crate::forge::github::client::call::{About, Call};
use crate::forge::github::client::wire::Outcome;
use crate::model::id::{RepoName, TeamName};
use crate::support::percent::encode_segment;

/// A page about one person.
const LIMIT: usize = 256 * 1024;

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    email: Option<String>,
}

#[derive(Deserialize)]
struct Membership {
    state: String,
}

impl GitHub {
    /// Whether somebody is in a team, or in one below it; asked as who we are on that repository,
    /// whose owner must have the team.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn team_has(
        &self,
        repository: &RepoName,
        team: &TeamName,
        login: &str,
    ) -> Result<bool, ForgeError> {
        let (organization, slug) =
            (encode_segment(team.organization()), encode_segment(team.slug()));
        let login = encode_segment(login);
        let route = format!("/orgs/{organization}/teams/{slug}/memberships/{login}");
        let about = About::Repository(repository);
        let call = Call::get(about, Permission::READ_MEMBERS, route);
        match self.call(call.at_most(LIMIT)).await? {
            Outcome::Success(success) => {
                let Membership { state } = self.wire.parsed(&success.body)?;
                Ok(state == "active")
            }
            Outcome::TooLong => Ok(false),
            Outcome::Failure(answer) if answer.status == StatusCode::NOT_FOUND => Ok(false),
            Outcome::Failure(answer) => Err(self.error(answer, about)),
        }
    }

    /// Somebody's public e-mail address; `None` where there is none, or no such person.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn email_of(&self, login: &str) -> Result<Option<String>, ForgeError> {
        let about = About::Anything("a person's e-mail address");
        let route = format!("/users/{}", encode_segment(login));
        let call = Call::get(about, Permission::METADATA, route);
        match self.call(call.at_most(LIMIT)).await? {
            Outcome::Success(success) => {
                let User { email } = self.wire.parsed(&success.body)?;
                Ok(email.filter(|email| email.contains('@')))
            }
            Outcome::TooLong => Ok(None),
            Outcome::Failure(answer) if answer.status == StatusCode::NOT_FOUND => Ok(None),
            Outcome::Failure(answer) => Err(self.error(answer, about)),
        }
    }
}
