//! What a deployment would do. Who stops waiting ends it.

use crate::app::backend::Backend;
use crate::app::plan;
use crate::server::ports::{self, NotPlanned, Plan, PlanRequest};

impl ports::Plans for Backend {
    async fn plan(&self, request: PlanRequest) -> Result<Plan, NotPlanned> {
        plan::plan(&self.world, request).await
    }
}
