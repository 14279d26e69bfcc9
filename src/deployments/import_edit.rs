//! Imports a manual edit into a WAML: collects the edited files, the release and the facts, and lets the pipeline find the
//! change of the WAML that gives the same. Changes nothing anywhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::deployments::app_files::WamlText;
use crate::deployments::history::HistoryError;
use crate::deployments::outcome::DeployError;
use crate::deployments::{BackendError, Deployments, history};
use crate::git::history::revisions::EditedFiles;
use crate::manifests::parse;
use crate::model::app_instance::AppInstance;
use crate::model::facts::{Fact, Facts};
use crate::model::hand_edit::EditCommit;
use crate::model::id::{AppName, CommitSha, DeployId};
use crate::model::release::Release;
use crate::model::violation::Rejection;
use crate::pipeline::import_edit::{EditImport, EditedWaml, ImportError, import_edit};
use crate::pipeline::{Input, fact_requests};
use crate::store::Filter;
use crate::waml::extra_files::ExtraFiles;

/// The request to import a manual edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditImportInput {
    /// The text of the WAML that is edited.
    pub waml: String,
    /// The app, where the repository has several.
    pub app: Option<AppName>,
    /// The texts of the files that it names, by their paths.
    pub manifests: BTreeMap<String, String>,
    /// The deployment that replaced the edit; `None`: the present edit, or else the newest that was replaced.
    pub deployment: Option<DeployId>,
}

/// The imported edit, with its context.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedEdit {
    /// The result.
    pub import: EditImport,
    /// The revision that was edited.
    pub revision: DeployId,
    /// The deployment that replaced the edit; `None` for one that is still there.
    pub replaced_by: Option<DeployId>,
    /// The commit of the edit, where it can be found.
    pub commit: Option<EditCommit>,
    /// Remarks, one sentence each.
    pub notes: Vec<String>,
}

/// The reason why an edit is not imported.
#[derive(Debug, thiserror::Error)]
pub enum EditImportError {
    /// All places for such computations are taken.
    #[error("the service computes too many plans at once: ask again in a moment")]
    Busy,
    /// There is no edit.
    #[error("{0}")]
    NoEdit(String),
    /// The WAML or the edit cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// Rules refuse the WAML as it is.
    #[error("{0}")]
    Refused(Rejection),
    /// A service that must be asked does not answer now; the text is for the caller too.
    #[error("{0}")]
    Unavailable(String),
    /// A part of the service does not work.
    #[error(transparent)]
    Fault(#[from] BackendError),
}

/// The number of newest deployments among which one that replaced an edit is searched.
const SEARCH_LIMIT: u32 = 20;
/// The longest search for the change, in microseconds. It holds the place of one processor, and the caller gets an answer
/// of the server in nine seconds.
const LONGEST_SEARCH: u64 = 5_000_000;

impl Deployments {
    /// Imports a manual edit of an app's manifests into a WAML.
    pub(crate) async fn import_edit(
        &self,
        instance: &AppInstance,
        request: EditImportInput,
    ) -> Result<ImportedEdit, EditImportError> {
        let cpu_pool = self.cpu_pool.for_dry_run().ok_or(EditImportError::Busy)?;
        let (EditedFiles { edit, before, after }, replaced_by) =
            self.find_edit(instance, request.deployment.as_ref()).await?;
        let AppInstance { target, app } = instance;
        let no_base = || {
            EditImportError::NoEdit(format!("{app} on {target} has no revision that was edited"))
        };
        let revision = edit.base.clone().ok_or_else(no_base)?;
        let release = self.release_of(instance, &revision).await?;
        let (deployments, text) = (self.clone(), request.waml);
        let path = self.waml_path(request.app.as_ref());
        let file = WamlText { app: request.app, path, bytes: text.clone().into_bytes() };
        let parse = move || {
            let waml = deployments.parse(&file);
            waml.map_err(|rejection| {
                EditImportError::Refused(deployments.all_violations(rejection, &file, None))
            })
        };
        let waml = cpu_pool.run_blocking(parse).await??;
        if waml.app != *app {
            let message = format!("the WAML is of {}, and the edit of {app}", waml.app);
            return Err(EditImportError::Unusable(message));
        }
        let mut notes = self.notes_of_edit(instance, &revision, replaced_by.as_ref()).await?;
        notes.extend(self.note_of_waml(&release, &text).await);
        let files = request.manifests.into_iter();
        let files = files.map(|(path, text)| (path, Ok(text.into_bytes())));
        let input = Input {
            waml: Arc::new(waml.with_extra_files(ExtraFiles::of_bytes(files))),
            target: target.clone(),
            fleet: None,
            release,
            templates: self.templates.now(),
        };
        let clusters = self.clusters.clone();
        let collect = move || {
            let questions = fact_requests::collect_questions(&input, &clusters);
            (input, questions)
        };
        let (input, questions) = cpu_pool.run_blocking(collect).await?;
        let gathered = self.gather(questions.as_ref()).await;
        // Only what the manifests depend on: nothing is deployed, so locks, holds and branches do not matter.
        let facts = Facts {
            images: gathered.images,
            live: Fact::Known { value: parse::live_app(&before).0, at: gathered.taken_at },
            ..Facts::without_lookups(gathered.taken_at, gathered.clusters.without_windows(target))
        };
        let budget = self.waml.budget;
        let clock = self.clock.clone();
        let import = move || {
            let waml = EditedWaml { text: &text, budget, input: &input, facts: &facts };
            let stopwatch = clock.stopwatch();
            import_edit(&waml, &before, &after, &|| stopwatch.micros() < LONGEST_SEARCH)
        };
        let import = cpu_pool.run_blocking(import).await?.map_err(|error| match error {
            ImportError::Unusable(message) => EditImportError::Unusable(message),
            ImportError::Refused(rejection) => EditImportError::Refused(rejection),
        })?;
        if import.is_other_base {
            notes.push(
                "without the edit, this WAML and the templates of today do not give the revision that was edited: a \
                 deployment changes more than the edit, `bart plan` shows what"
                    .to_owned(),
            );
        }
        Ok(ImportedEdit { import, revision, replaced_by, commit: edit.commit, notes })
    }

    /// Finds the edit that is meant, and the deployment that replaced it.
    async fn find_edit(
        &self,
        instance: &AppInstance,
        deployment: Option<&DeployId>,
    ) -> Result<(EditedFiles, Option<DeployId>), EditImportError> {
        let AppInstance { target, app } = instance;
        let Some((repository, _)) = self.repository(instance).await? else {
            let message = format!("{target} has no manifest repository");
            return Err(EditImportError::NoEdit(message));
        };
        let read = async |replaced_by: Option<&DeployId>| {
            let files = repository.read_edited_files(target, app, replaced_by).await;
            files.map_err(|error| EditImportError::from(history::repository_error(&error)))
        };
        if let Some(id) = deployment {
            let files = read(Some(id)).await?.ok_or_else(|| {
                EditImportError::NoEdit(format!(
                    "deployment {id} replaced no edit of {app} on {target}, or the clone does not go back so far"
                ))
            })?;
            return Ok((files, Some(id.clone())));
        }
        if let Some(files) = read(None).await? {
            return Ok((files, None));
        }
        let filter = Filter::pushed(target, app);
        let page = self.store.deployments(&filter, None, SEARCH_LIMIT).await;
        for listed in page.map_err(BackendError::new)?.deployments {
            // Lists are without edits.
            let record = self.store.deployment(&listed.id).await.map_err(BackendError::new)?;
            let edit = record.and_then(|record| record.hand_edit);
            if edit.is_some_and(|edit| edit.replaced)
                && let Some(files) = read(Some(&listed.id)).await?
            {
                return Ok((files, Some(listed.id)));
            }
        }
        Err(EditImportError::NoEdit(format!("nothing of {app} on {target} was edited by hand")))
    }

    /// Returns the release of a revision, from its record or its commit.
    async fn release_of(
        &self,
        instance: &AppInstance,
        revision: &DeployId,
    ) -> Result<Release, EditImportError> {
        if let Some(record) = self.store.deployment(revision).await.map_err(BackendError::new)? {
            return Ok(record.request.release);
        }
        let history = self.history_of(instance).await?;
        let entry = history.revisions.into_iter().find(|entry| entry.id == *revision);
        let release = entry.and_then(|entry| {
            let (repository, commit) = (entry.repository?, entry.commit?);
            Some(Release { repository, app: entry.app_name, commit, tag: entry.tag? })
        });
        release.ok_or_else(|| {
            let message = format!("the release of revision {revision} is not known any more");
            EditImportError::Unusable(message)
        })
    }

    /// Writes notes about what happened since the edit.
    async fn notes_of_edit(
        &self,
        instance: &AppInstance,
        revision: &DeployId,
        replaced_by: Option<&DeployId>,
    ) -> Result<Vec<String>, EditImportError> {
        let filter = Filter::pushed(&instance.target, &instance.app);
        let page = self.store.deployments(&filter, None, 1).await.map_err(BackendError::new)?;
        let newest = page.deployments.into_iter().next();
        let mut notes = Vec::new();
        if let Some(id) = replaced_by {
            notes.push(format!("deployment {id} has replaced the edit"));
        }
        let is_newer = |id: &DeployId| Some(id) != replaced_by && id.as_str() > revision.as_str();
        if let Some(newest) = newest.filter(|newest| is_newer(&newest.id)) {
            let tag = &newest.request.release.tag;
            let id = &newest.id;
            notes.push(format!(
                "the edit is of revision {revision}, and deployment {id} ({tag}) is newer: look whether the edit is still \
                 what you want"
            ));
        }
        Ok(notes)
    }

    /// Writes a note where the WAML is not the one that was deployed.
    async fn note_of_waml(&self, release: &Release, text: &str) -> Option<String> {
        let Release { repository, commit, .. } = release;
        let deployed = self.read_release_waml(release).await;
        let is_other = deployed.ok()?.bytes != text.as_bytes();
        let short = CommitSha::short(commit);
        is_other.then(|| {
            format!("the WAML is not the one that was deployed, which is that of {short} in {repository}")
        })
    }
}

impl From<HistoryError> for EditImportError {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Repository(detail) => Self::Unavailable(detail),
            HistoryError::Fault(error) => Self::Fault(error),
        }
    }
}

impl From<DeployError> for EditImportError {
    fn from(error: DeployError) -> Self {
        Self::Unavailable(error.message)
    }
}
