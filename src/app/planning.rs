//! What planning for a deployment, a preview and a dry run share: the WAML read within its limits, what
//! is live, and an end to whatever a template computes.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::app::outside::World;
use crate::app::problem;
use crate::controller::outside::{Problem, Remedy};
use crate::git::layout;
use crate::model::deployment::{Deployment, State};
use crate::model::id::{AppKey, TargetName};
use crate::model::revision::ManifestFile;
use crate::model::violation::Rejection;
use crate::store::Filter;
use crate::waml::Waml;
use crate::waml::yaml::Budget;

/// Rendering is milliseconds of work; a template that takes this long does not end.
const LONGEST_PLAN: Duration = Duration::from_secs(30);

/// Who may compute now: as many at once as there are processors. More would not be done sooner, and
/// would take the processors from those who answer events.
#[derive(Clone)]
pub(crate) struct Planners {
    all: Arc<Semaphore>,
    dry_runs: Arc<Semaphore>,
}

/// So many dry runs are made at once: each may ask the code host, registries and the repository, and
/// deployments come first.
const DRY_RUNS: usize = 4;

/// The live revision is among the newest that succeeded, unless somebody has edited it.
const LOOKED_BACK: u32 = 20;

impl Planners {
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let places = |n| Arc::new(Semaphore::new(n));
        Self { all: places(processors), dry_runs: places(DRY_RUNS) }
    }

    /// A place for a dry run, if there is one now: nobody waits for it.
    pub(super) fn dry_run(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.dry_runs).try_acquire_owned().ok()
    }

    /// Runs a part of planning on a thread of its own, no longer than it may take: what a template
    /// computes cannot be interrupted.
    pub(super) async fn beside<T: Send + 'static>(
        &self,
        part: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        // Nobody closes it; without a place the part would run all the same.
        let _place = self.all.acquire().await;
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

    /// What the app's `latest` holds on the target; empty where nothing is deployed.
    pub(super) async fn live(
        &self,
        app: &AppKey,
        target: &TargetName,
    ) -> Result<Vec<ManifestFile>, Problem> {
        let folder = layout::latest_folder(target, app).to_string();
        let files = self.manifests_of(target)?.repository.files(&folder).await;
        files.map_err(|error| problem::of_write(&error))
    }

    /// The newest deployments of the app to the target that succeeded, newest first.
    pub(super) async fn succeeded(
        &self,
        app: &AppKey,
        target: &TargetName,
    ) -> Result<Vec<Deployment>, Problem> {
        let filter = Filter {
            state: Some(State::Succeeded),
            target: Some(target.clone()),
            app: Some(app.clone()),
            ..Filter::default()
        };
        let page = self.store.deployments(&filter, None, LOOKED_BACK).await;
        let page = page.map_err(|error| Problem {
            remedy: Remedy::Retry { after: None },
            message: error.to_string(),
        })?;
        Ok(page.deployments)
    }
}

/// What will not pass by itself.
pub(super) fn given_up(message: String) -> Problem {
    Problem { remedy: Remedy::GiveUp, message }
}
