//! Shared steps of deployments, previews and dry runs: reading the WAML within its limits, and
//! reading what is live.

use crate::deployments::Deployments;
use crate::deployments::outcome::DeployError;
use crate::forge::error::ForgeError;
use crate::git::layout;
use crate::model::deployment::Deployment;
use crate::model::facts::{FactRequests, Facts};
use crate::model::id::{AppKey, CommitSha, RepoName, TargetName};
use crate::model::revision::ManifestFile;
use crate::model::violation::Rejection;
use crate::pipeline::all_violations;
use crate::store::{Filter, StoreError};
use crate::waml::Waml;

/// The number of newest deployments that are searched for the live revision: it is among those that
/// succeeded, unless it was edited by hand.
const SEARCH_LIMIT: u32 = 20;

impl Deployments {
    /// Returns the bytes of the WAML at a commit, not more than the configured limit.
    pub(super) async fn read_waml(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
    ) -> Result<Vec<u8>, ForgeError> {
        self.forge.file(repository, commit, &self.waml.path, self.waml.budget.bytes).await
    }

    /// Parses a WAML within the configured limits.
    pub(super) fn parse(&self, bytes: &[u8]) -> Result<Waml, Rejection> {
        Waml::parse_within(&self.waml.path, bytes, &self.waml.budget)
    }

    /// Returns all violations of a WAML that [`Deployments::parse`] refuses: for one target, or all
    /// that it names.
    pub(super) fn all_violations(
        &self,
        rejection: Rejection,
        bytes: &[u8],
        target: Option<&TargetName>,
    ) -> Rejection {
        let draft = Waml::parse_draft(&self.waml.path, bytes, &self.waml.budget);
        let templates = self.templates.now();
        all_violations::of_unnamed(rejection, draft.as_ref(), target, &templates, &self.clusters)
    }

    /// Collects the facts for the questions; none where a rule refuses the WAML anyway.
    pub(super) async fn gather(&self, questions: Option<&FactRequests>) -> Facts {
        match questions {
            Some(questions) => self.facts.gather(questions, self.clusters.clone()).await,
            None => Facts::without_lookups(self.clock.now(), self.clusters.clone()),
        }
    }

    /// Returns the files of the app's `latest` on the target; empty where nothing is deployed.
    pub(super) async fn live(
        &self,
        app: &AppKey,
        target: &TargetName,
    ) -> Result<Vec<ManifestFile>, DeployError> {
        let folder = layout::latest_folder(target, app).to_string();
        Ok(self.manifests_of(target)?.repository.files(&folder).await?)
    }

    /// Returns the newest deployments of the app to the target that succeeded, newest first.
    pub(super) async fn recent_successes(
        &self,
        app: &AppKey,
        target: &TargetName,
    ) -> Result<Vec<Deployment>, StoreError> {
        let filter = Filter::pushed(target, app);
        Ok(self.store.deployments(&filter, None, SEARCH_LIMIT).await?.deployments)
    }
}
