//! What planning for a deployment and for a preview share: the WAML read within its limits, and an
//! end to whatever a template computes.

use std::time::Duration;

use crate::app::outside::World;
use crate::controller::outside::{Problem, Remedy};
use crate::model::violation::Rejection;
use crate::waml::Waml;
use crate::waml::yaml::Budget;

/// Rendering is milliseconds of work; a template that takes this long does not end.
const LONGEST_PLAN: Duration = Duration::from_secs(30);

impl World {
    /// Reads a WAML, as large as is configured.
    pub(super) fn parse(&self, bytes: &[u8]) -> Result<Waml, Rejection> {
        let budget = Budget { bytes: self.waml.max_bytes, ..Budget::default() };
        Waml::parse_within(&self.waml.path, bytes, &budget)
    }
}

/// Runs a part of planning on a thread of its own, no longer than it may take: what a template
/// computes cannot be interrupted.
pub(super) async fn beside<T: Send + 'static>(
    part: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    match tokio::time::timeout(LONGEST_PLAN, tokio::task::spawn_blocking(part)).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(_fault)) => Err(given_up(
            "planning failed by a fault in the-deployer itself; its log has the details".to_owned(),
        )),
        Err(_elapsed) => Err(given_up(format!(
            "planning took longer than {} s: a template does not end; tell the operator",
            LONGEST_PLAN.as_secs()
        ))),
    }
}

/// What will not pass by itself.
pub(super) fn given_up(message: String) -> Problem {
    Problem { remedy: Remedy::GiveUp, message }
}
