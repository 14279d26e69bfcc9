//! Who calls, as far as others know it.

use jiff::Timestamp;
use secrecy::SecretString;

use crate::model::id::{AppKey, RepoName, TargetName, TeamName};
use crate::model::person::{NotKnown, OnRepository, Person};
use crate::server::ports::Fault;

/// Who calls, as the forge and our own records know it.
pub trait Visitors: Send + Sync + 'static {
    /// What time it is.
    fn now(&self) -> Timestamp;

    /// Who has that token at the forge.
    fn person(&self, token: &SecretString)
    -> impl Future<Output = Result<Person, NotKnown>> + Send;

    /// What they may on a repository.
    fn on_repository(
        &self,
        token: &SecretString,
        repository: &RepoName,
    ) -> impl Future<Output = Result<OnRepository, NotKnown>> + Send;

    /// Whether they, under that name, are in a team.
    fn is_member(
        &self,
        token: &SecretString,
        login: &str,
        team: &TeamName,
    ) -> impl Future<Output = Result<bool, NotKnown>> + Send;

    /// The repository that an app on a target is deployed from, as far as is known.
    fn repository_of(
        &self,
        target: &TargetName,
        app: &AppKey,
    ) -> impl Future<Output = Result<Option<RepoName>, Fault>> + Send;

    /// What is deployed from a repository, and where, as far as is known.
    fn deployed(
        &self,
        repository: &RepoName,
    ) -> impl Future<Output = Result<Vec<(TargetName, AppKey)>, Fault>> + Send;
}
