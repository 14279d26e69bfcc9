//! What planning for a deployment, a preview and a dry run share: the WAML read within its limits, and what
//! is live.

use crate::deployments::outcome::{Problem, Remedy};
use crate::deployments::{Deployments, problem};
use crate::git::layout;
use crate::model::deployment::{Deployment, State};
use crate::model::id::{AppKey, TargetName};
use crate::model::revision::ManifestFile;
use crate::model::violation::Rejection;
use crate::pipeline::all_violations;
use crate::store::Filter;
use crate::waml::Waml;
use crate::waml::yaml::Budget;

/// The live revision is among the newest that succeeded, unless somebody has edited it.
const LOOKED_BACK: u32 = 20;

impl Deployments {
    /// Reads a WAML, as large as is configured.
    pub(super) fn parse(&self, bytes: &[u8]) -> Result<Waml, Rejection> {
        let budget = Budget { bytes: self.waml.max_bytes, ..Budget::default() };
        Waml::parse_within(&self.waml.path, bytes, &budget)
    }

    /// All that is wrong with a WAML that [`Deployments::parse`] refuses: for a target, or all that it names.
    pub(super) fn all_violations(
        &self,
        rejection: Rejection,
        bytes: &[u8],
        target: Option<&TargetName>,
    ) -> Rejection {
        let budget = Budget { bytes: self.waml.max_bytes, ..Budget::default() };
        let draft = Waml::parse_draft(&self.waml.path, bytes, &budget);
        let templates = self.templates.now();
        all_violations::of_unnamed(rejection, draft.as_ref(), target, &templates, &self.clusters)
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
