//! What pages show, read from the store.

use crate::app::backend::Backend;
use crate::dashboard::Places;
use crate::dashboard::deployment::Log;
use crate::model::id::DeployId;
use crate::server::ports::{self, Fault};

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
