//! What planning for a deployment and for a preview share: the WAML read within its limits, and an
//! end to whatever a template computes.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::app::outside::World;
use crate::controller::outside::{Problem, Remedy};
use crate::model::violation::Rejection;
use crate::waml::Waml;
use crate::waml::yaml::Budget;

/// Rendering is milliseconds of work; a template that takes this long does not end.
const LONGEST_PLAN: Duration = Duration::from_secs(30);

/// Who may compute now: as many at once as there are processors. More would not be done sooner, and
/// would take the processors from those who answer events.
#[derive(Clone)]
pub(crate) struct Planners(Arc<Semaphore>);

impl Planners {
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self(Arc::new(Semaphore::new(processors)))
    }

    /// Runs a part of planning on a thread of its own, no longer than it may take: what a template
    /// computes cannot be interrupted.
    pub(super) async fn beside<T: Send + 'static>(
        &self,
        part: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        // Nobody closes it; without a place the part would run all the same.
        let _place = self.0.acquire().await;
        match tokio::time::timeout(LONGEST_PLAN, tokio::task::spawn_blocking(part)).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(_fault)) => Err(given_up(
                "planning failed by a fault in the-deployer itself; its log has the details"
                    .to_owned(),
            )),
            Err(_elapsed) => Err(given_up(format!(
                "planning took longer than {} s: a template does not end; tell the operator",
                LONGEST_PLAN.as_secs()
            ))),
        }
    }
}

impl World {
    /// Reads a WAML, as large as is configured.
    pub(super) fn parse(&self, bytes: &[u8]) -> Result<Waml, Rejection> {
        let budget = Budget { bytes: self.waml.max_bytes, ..Budget::default() };
        Waml::parse_within(&self.waml.path, bytes, &budget)
    }
}

/// What will not pass by itself.
pub(super) fn given_up(message: String) -> Problem {
    Problem { remedy: Remedy::GiveUp, message }
}
