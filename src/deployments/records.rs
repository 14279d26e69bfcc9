//! Reads the records of deployments from the store.

use crate::deployments::{BackendError, Deployments, history};
use crate::git::history::revisions::LatestChange;
use crate::manifests::diff::Change;
use crate::model::deployment::Deployment;
use crate::model::id::{DeployId, RolloutId};
use crate::store::{Notification, StoreError};

impl Deployments {
    /// Returns one deployment with its statuses, oldest first.
    pub(crate) async fn deployment(
        &self,
        id: &DeployId,
    ) -> Result<Option<(Deployment, Vec<Notification>)>, BackendError> {
        let Some(deployment) = self.store.deployment(id).await.map_err(BackendError::new)? else {
            return Ok(None);
        };
        let statuses = self.store.statuses(id).await.map_err(BackendError::new)?;
        Ok(Some((deployment, statuses)))
    }

    /// Returns the deployments of the apps of one that deploys all; none of any other.
    pub(crate) async fn apps_of(
        &self,
        deployment: &Deployment,
    ) -> Result<Vec<Deployment>, StoreError> {
        if !deployment.all_apps {
            return Ok(Vec::new());
        }
        self.store.deployments_of_apps(&deployment.id).await
    }

    /// Returns the changes of a deployment in its app's `latest`; `None` where they cannot be
    /// determined, or not any more.
    pub(crate) async fn changes(&self, deployment: &Deployment) -> Option<Vec<Change>> {
        let (Some(pushed), Some(app)) = (&deployment.pushed, &deployment.app) else { return None };
        if !pushed.changed {
            return Some(Vec::new());
        }
        let target = &deployment.request.target;
        let repository = &self.manifests_of(target).ok()?.repository;
        let contents = repository.read_latest_change(&pushed.commit, target, app).await;
        let contents = contents.inspect_err(|error| {
            tracing::warn!(deployment = %deployment.id, %error, "changes of a deployment cannot be read");
        });
        let LatestChange { before, after } = contents.ok()??;
        history::changes(&before, &after)
    }

    /// Returns the address of a deployment's page.
    pub(crate) fn page_of(&self, id: &DeployId) -> String {
        format!("{}/deployments/{id}", self.external_url)
    }

    /// Returns the address of a rollout's page.
    pub(crate) fn rollout_page_of(&self, id: &RolloutId) -> String {
        format!("{}/rollouts/{id}", self.external_url)
    }

    /// Returns one deployment with all messages about it, in every state, and its parts: on the clusters of a fleet, or
    /// one for each of several apps.
    pub(crate) async fn log(
        &self,
        id: &DeployId,
    ) -> Result<Option<(Deployment, Vec<Notification>, Vec<Deployment>)>, StoreError> {
        let Some(deployment) = self.store.deployment(id).await? else { return Ok(None) };
        let messages = self.store.messages(id).await?;
        let parts = if deployment.all_apps {
            self.store.deployments_of_apps(id).await?
        } else {
            self.store.fleet_parts(id).await?
        };
        Ok(Some((deployment, messages, parts)))
    }
}
