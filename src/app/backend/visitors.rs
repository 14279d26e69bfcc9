//! Who calls: asked of the forge, and of the record of whose apps are.

use jiff::Timestamp;
use secrecy::SecretString;

use crate::app::backend::Backend;
use crate::model::id::{AppKey, RepoName, TargetName, TeamName};
use crate::model::person::{NotKnown, OnRepository, Person};
use crate::server::ports::{self, Fault};

impl ports::Visitors for Backend {
    fn now(&self) -> Timestamp {
        self.world.clock.now()
    }

    async fn person(&self, token: &SecretString) -> Result<Person, NotKnown> {
        self.world.forge.person(token).await
    }

    async fn on_repository(
        &self,
        token: &SecretString,
        repository: &RepoName,
    ) -> Result<OnRepository, NotKnown> {
        self.world.forge.on_repository(token, repository).await
    }

    async fn is_member(
        &self,
        token: &SecretString,
        login: &str,
        team: &TeamName,
    ) -> Result<bool, NotKnown> {
        self.world.forge.is_member(token, login, team).await
    }

    async fn repository_of(
        &self,
        target: &TargetName,
        app: &AppKey,
    ) -> Result<Option<RepoName>, Fault> {
        Ok(self.store.ownership(target, app).await.map_err(Fault::new)?.app)
    }

    async fn deployed(&self, repository: &RepoName) -> Result<Vec<(TargetName, AppKey)>, Fault> {
        self.store.owned_by(repository).await.map_err(Fault::new)
    }
}
