//! What happened, read from the store.

use crate::app::backend::Backend;
use crate::dashboard::Places;
use crate::dashboard::deployment::Log;
use crate::model::deployment::Deployment;
use crate::model::id::DeployId;
use crate::server::ports::{self, Fault, Page, Query, StatusRecord};
use crate::store::{Filter, Told};

impl ports::Records for Backend {
    async fn deployments(&self, query: &Query) -> Result<Page, Fault> {
        let filter = Filter {
            state: query.state,
            target: query.target.clone(),
            repository: query.repository.clone(),
            app: None,
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
