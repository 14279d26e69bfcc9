//! What the code host knows of events that were lost.

use jiff::Timestamp;
use serde_json::Value;

use crate::deployments::outcome::Problem;
use crate::deployments::{Deployments, problem};
use crate::forge::delivery::{DeliveryContent, HookDelivery};
use crate::forge::{ListedStatus, Status};
use crate::model::deployment::ForgeState;
use crate::model::event::{NamedRepository, Refusal};
use crate::model::id::RepoName;

impl Deployments {
    /// Events since then of which no delivery arrived, newest first, at most so many.
    pub(crate) async fn failed_deliveries(
        &self,
        since: Timestamp,
        most: u32,
    ) -> Result<Vec<HookDelivery>, Problem> {
        let failed = self.forge.failed_deliveries(since, most).await;
        failed.map_err(|error| problem::of_forge(&error))
    }

    /// What one of them carried.
    pub(crate) async fn delivery_content(&self, id: i64) -> Result<DeliveryContent, Problem> {
        self.forge.delivery(id).await.map_err(|error| problem::of_forge(&error))
    }

    /// Repositories that the host lets us see beside those that we know, at most so many.
    pub(crate) async fn installed_repositories(&self, most: u32) -> Result<Vec<RepoName>, Problem> {
        let installed = self.forge.installed_repositories(most).await;
        installed.map_err(|error| problem::of_forge(&error))
    }

    /// The newest deployments of a repository, newest first, each as the host lists it.
    pub(crate) async fn recent_deployments(
        &self,
        repository: &RepoName,
        most: u32,
    ) -> Result<Vec<Value>, Problem> {
        let recent = self.forge.recent_deployments(repository, most).await;
        recent.map_err(|error| problem::of_forge(&error))
    }

    /// The repository's present name, with the host's own numbers; none where the host has none.
    pub(crate) async fn named_repository(
        &self,
        repository: &RepoName,
    ) -> Result<Option<NamedRepository>, Problem> {
        let named = self.forge.named_repository(repository, self.clock.now()).await;
        named.map_err(|error| problem::of_forge(&error))
    }

    /// The statuses of a deployment, newest first.
    pub(crate) async fn deployment_statuses(
        &self,
        repository: &RepoName,
        forge_id: i64,
    ) -> Result<Vec<ListedStatus>, Problem> {
        let statuses = self.forge.statuses(repository, forge_id).await;
        statuses.map_err(|error| problem::of_forge(&error))
    }

    /// Shows at the host why nothing can be made of a deployment.
    pub(crate) async fn show_refusal(&self, refusal: &Refusal) -> Result<(), Problem> {
        let Refusal { repository, forge_id, field, problem } = refusal;
        let status = Status {
            state: ForgeState::Error,
            description: format!("{field}: {problem}"),
            // There is no page about it; but the next sweep knows by this that we have answered.
            log_url: Some(self.external_url.clone()),
            environment_url: None,
        };
        let told = self.forge.report(repository, *forge_id, &status).await;
        told.map_err(|error| problem::of_forge(&error))
    }
}
