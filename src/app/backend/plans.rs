//! What a deployment would do. Who stops waiting ends it.

use crate::app::backend::Backend;
use crate::app::plan;
use crate::model::id::AppKey;
use crate::server::ports::{self, NotPlanned, Plan, PlanRequest};

impl ports::Plans for Backend {
    async fn plan(
        &self,
        request: PlanRequest,
        seen: impl Fn(&AppKey) -> bool + Send + Sync,
    ) -> Result<Plan, NotPlanned> {
        plan::plan(&self.world, request, seen).await
    }
}
