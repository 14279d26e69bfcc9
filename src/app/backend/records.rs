//! What happened, read from the store.

use tokio::sync::watch;

use crate::app::backend::{Backend, history};
use crate::dashboard::Places;
use crate::dashboard::deployment::Log;
use crate::git::revisions::Around;
use crate::model::deployment::Deployment;
use crate::model::id::DeployId;
use crate::pipeline::diff::Change;
use crate::server::ports::{self, Fault, Page, Query, StatusRecord};
use crate::store::{Filter, Told};

impl ports::Records for Backend {
    async fn deployments(&self, query: &Query) -> Result<Page, Fault> {
        let filter = Filter {
            state: query.state,
            target: query.target.clone(),
            repository: query.repository.clone(),
            app: query.app.clone(),
            actor: query.actor.clone(),
            tag: query.tag.clone(),
            forge_id: query.forge_id,
            since: query.since,
            until: query.until,
            unfinished: false,
        };
        let page = self.store.deployments(&filter, query.before.as_ref(), query.limit).await;
        let page = page.map_err(Fault::new)?;
        Ok(Page { deployments: page.deployments, next: page.next })
    }

    async fn deployment(
        &self,
        id: &DeployId,
    ) -> Result<Option<(Deployment, Vec<StatusRecord>)>, Fault> {
        let Some(found) = self.store.deployment(id).await.map_err(Fault::new)? else {
            return Ok(None);
        };
        let statuses = self.store.statuses(id).await.map_err(Fault::new)?;
        Ok(Some((found, statuses.into_iter().map(status).collect())))
    }

    async fn picture(&self, id: &DeployId) -> Result<Option<Deployment>, Fault> {
        self.store.deployment_picture(id).await.map_err(Fault::new)
    }

    async fn version(&self, id: &DeployId) -> Result<Option<String>, Fault> {
        self.store.deployment_version(id).await.map_err(Fault::new)
    }

    async fn changes(&self, deployment: &Deployment) -> Option<Vec<Change>> {
        let (Some(pushed), Some(app)) = (&deployment.pushed, &deployment.app) else { return None };
        if !pushed.changed {
            return Some(Vec::new());
        }
        let target = &deployment.request.target;
        let repository = &self.world.manifests_of(target).ok()?.repository;
        let around = repository.around(&pushed.commit, target, app).await;
        let around = around.inspect_err(|error| {
            tracing::warn!(deployment = %deployment.id, %error, "what it changed cannot be read");
        });
        let Around { before, after } = around.ok()??;
        history::changes(&before, &after)
    }

    fn page_of(&self, id: &DeployId) -> String {
        format!("{}/deployments/{id}", self.world.external_url)
    }

    fn bell(&self) -> watch::Receiver<()> {
        self.store.changes()
    }
}

impl ports::Logs for Backend {
    async fn log(&self, id: &DeployId) -> Result<Option<Log>, Fault> {
        let Some(deployment) = self.store.deployment(id).await.map_err(Fault::new)? else {
            return Ok(None);
        };
        let told = self.store.messages(id).await.map_err(Fault::new)?;
        let places =
            Places { forge: self.world.forge_url.clone(), waml: self.world.waml.path.clone() };
        Ok(Some(Log { deployment, told, places }))
    }
}

fn status(told: Told) -> StatusRecord {
    let Told { status, at, sent_at, parked, skipped, .. } = told;
    let description = status.description().to_owned();
    StatusRecord { state: status.state, description, at, sent_at, parked, skipped }
}
