//! Shared steps of deployments, previews and dry runs: reading the WAML within its limits, and
//! reading what is live.

use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::deployments::Deployments;
use crate::deployments::app_files::WamlText;
use crate::deployments::outcome::DeployError;
use crate::forge::Forge;
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
use crate::waml::extra_files::{ExtraFiles, MAX_FILE_BYTES, beside, describe_too_large};

/// The number of newest deployments that are searched for the live revision: it is among those that
/// succeeded, unless it was edited by hand.
const SEARCH_LIMIT: u32 = 20;
/// The number of files of one WAML that are fetched at the same time.
const FILES_AT_ONCE: usize = 4;

impl Deployments {
    /// Puts the files that the WAML names for a target into it, as they are at the commit of the WAML.
    pub(super) async fn with_extra_files(
        &self,
        waml: Waml,
        target: &TargetName,
        repository: &RepoName,
        commit: &CommitSha,
    ) -> Result<Waml, ForgeError> {
        let paths = waml.extra_paths_of(target);
        let commit = (repository, commit);
        let files = fetch_extra_files(&self.forge, waml.file(), paths, commit).await?;
        Ok(waml.with_extra_files(files))
    }

    /// Parses a WAML within the configured limits.
    pub(super) fn parse(&self, text: &WamlText) -> Result<Waml, Rejection> {
        Waml::parse_within(&text.path, &text.bytes, &self.waml.budget)
    }

    /// Returns all violations of a WAML that [`Deployments::parse`] refuses: for one target, or all
    /// that it names.
    pub(super) fn all_violations(
        &self,
        rejection: Rejection,
        text: &WamlText,
        target: Option<&TargetName>,
    ) -> Rejection {
        let draft = Waml::parse_draft(&text.path, &text.bytes, &self.waml.budget);
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

/// Fetches the files that a WAML names, at the commit of the WAML. A file that is not there is none to fail for: the rule
/// `manifests` says it.
pub(crate) async fn fetch_extra_files(
    forge: &Forge,
    waml_path: &str,
    paths: Vec<String>,
    (repository, commit): (&RepoName, &CommitSha),
) -> Result<ExtraFiles, ForgeError> {
    let read_file = |path: String| async move {
        let place = beside(waml_path, &path);
        match forge.file(repository, commit, &place, MAX_FILE_BYTES).await {
            Ok(bytes) => Ok((path, Ok(bytes))),
            Err(ForgeError::NoFile { .. }) => {
                let why = format!("{repository} has no file {place} at {}", commit.short());
                Ok((path, Err(why)))
            }
            Err(ForgeError::TooLarge { .. }) => Ok((path, Err(describe_too_large()))),
            Err(error) => Err(error),
        }
    };
    let requests: Vec<_> = paths.into_iter().map(read_file).collect();
    let files = stream::iter(requests).buffered(FILES_AT_ONCE).try_collect::<Vec<_>>();
    Ok(ExtraFiles::of_bytes(files.await?))
}
