//! Who somebody is that comes with a token of their own. The local host knows nobody.

use secrecy::SecretString;

use crate::forge::Forge;
use crate::model::id::{RepoName, TeamName};
use crate::model::person::{NotKnown, OnRepository, Person};

impl Forge {
    /// Who has that token.
    ///
    /// # Errors
    /// [`NotKnown`]; so for all that follow.
    pub async fn person(&self, token: &SecretString) -> Result<Person, NotKnown> {
        match self {
            Self::Local(_) => Err(nobody()),
            Self::GitHub(github) => github.person(token).await,
        }
    }

    /// What who has that token may on a repository.
    pub async fn on_repository(
        &self,
        token: &SecretString,
        repository: &RepoName,
    ) -> Result<OnRepository, NotKnown> {
        match self {
            Self::Local(_) => Err(nobody()),
            Self::GitHub(github) => github.on_repository(token, repository).await,
        }
    }

    /// Whether who has that token, under that name, is in a team.
    pub async fn is_member(
        &self,
        token: &SecretString,
        login: &str,
        team: &TeamName,
    ) -> Result<bool, NotKnown> {
        match self {
            Self::Local(_) => Err(nobody()),
            Self::GitHub(github) => github.is_member(token, login, team).await,
        }
    }
}

fn nobody() -> NotKnown {
    NotKnown::Refused("a local forge knows no people; use an API token".to_owned())
}
