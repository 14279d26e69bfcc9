//! The WAMLs of a service repository: which of them a request is for, their texts, and whether two are of one app.

use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::deployments::Deployments;
use crate::deployments::outcome::{DeployError, PlanError, Remedy};
use crate::forge::Forge;
use crate::forge::error::ForgeError;
use crate::model::event::DeploymentRequest;
use crate::model::id::{AppKey, AppName, CommitSha, RepoName, TargetName};
use crate::model::release::Release;
use crate::model::violation::{Position, Rejection, Violation};
use crate::waml::Waml;
use crate::waml::app_files::{
    AppChoice, AppFiles, describe_choice, describe_unknown, duplicate, find_duplicates, folder_of,
    path_of, place_of,
};
use crate::waml::suggest;

/// The number of WAMLs of one repository that are fetched at the same time.
const WAMLS_AT_ONCE: usize = 4;

/// A WAML as it was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WamlText {
    /// The app; `None` is the only one of its repository.
    pub app: Option<AppName>,
    /// The path of the file.
    pub path: String,
    /// Its bytes, not more than the configured limit.
    pub bytes: Vec<u8>,
}

/// The WAML that a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestedWaml {
    /// This one.
    One(WamlText),
    /// Any of these: the request names no app.
    Several(AppFiles),
}

/// The reason why there is no WAML.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WamlError {
    /// The code host does not give it.
    #[error(transparent)]
    Forge(#[from] ForgeError),
    /// The repository has several apps and the request names none, or it has not the one that is named.
    #[error("{message}")]
    App {
        /// The fault and the way out, one sentence for people.
        message: String,
        /// The answer of the code host where the file is not there: it may lag behind.
        missing: Option<ForgeError>,
    },
}

impl From<WamlError> for DeployError {
    fn from(error: WamlError) -> Self {
        match error {
            WamlError::Forge(error) => error.into(),
            WamlError::App { message, missing } => {
                let remedy = missing.map(|error| Self::from(error).remedy);
                Self { remedy: remedy.unwrap_or(Remedy::Reject), message }
            }
        }
    }
}

impl Deployments {
    /// Returns the path of an app's WAML.
    pub(crate) fn waml_path(&self, app: Option<&AppName>) -> String {
        path_of(&self.waml.path, app)
    }

    /// Lists the apps of a repository at a commit.
    pub(crate) async fn list_apps(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
    ) -> Result<AppFiles, ForgeError> {
        let (root, names) = self.read_places(repository, commit).await;
        self.sort_files(&root, &names?)
    }

    /// Returns the WAML of an app at a commit.
    ///
    /// # Errors
    /// Without a name, [`WamlError::App`] where the repository has several.
    pub(crate) async fn read_waml(
        &self,
        repository: &RepoName,
        app: Option<&AppName>,
        commit: &CommitSha,
    ) -> Result<WamlText, WamlError> {
        match self.find_waml(repository, app, commit).await? {
            RequestedWaml::One(text) => Ok(text),
            RequestedWaml::Several(files) => {
                Err(WamlError::App { message: describe_choice(files.apps()), missing: None })
            }
        }
    }

    /// Returns the WAML of a release that was deployed, or is to be: its app is decided on.
    pub(crate) async fn read_release_waml(
        &self,
        release: &Release,
    ) -> Result<WamlText, ForgeError> {
        let Release { repository, app, commit, tag: _ } = release;
        self.file_of(repository, commit, app.as_ref()).await
    }

    /// Finds the WAML at a commit that a request is for.
    pub(crate) async fn find_waml(
        &self,
        repository: &RepoName,
        app: Option<&AppName>,
        commit: &CommitSha,
    ) -> Result<RequestedWaml, WamlError> {
        let Some(app) = app else { return self.find_only_waml(repository, commit).await };
        let error = match self.file_of(repository, commit, Some(app)).await {
            Ok(text) => return Ok(RequestedWaml::One(text)),
            Err(error @ ForgeError::NoFile { .. }) => error,
            Err(error) => return Err(error.into()),
        };
        let files = self.list_apps(repository, commit).await?;
        if files.apps().is_empty() {
            return Err(error.into());
        }
        let message = describe_unknown(app.as_str(), files.apps());
        Err(WamlError::App { message, missing: Some(error) })
    }

    async fn find_only_waml(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
    ) -> Result<RequestedWaml, WamlError> {
        let (root, names) = self.read_places(repository, commit).await;
        let names = names?;
        if names.is_empty() {
            return Ok(RequestedWaml::One(root?));
        }
        let files = self.sort_files(&root, &names)?;
        if !files.problems().is_empty() {
            return Ok(RequestedWaml::Several(files));
        }
        match files.choose(None) {
            Ok(AppChoice::One(app)) => {
                let text = self.file_of(repository, commit, Some(&app)).await?;
                Ok(RequestedWaml::One(text))
            }
            Ok(AppChoice::All(_)) => Ok(RequestedWaml::Several(files)),
            // The folder has other files alone.
            Ok(AppChoice::Only) | Err(_) => Ok(RequestedWaml::One(root?)),
        }
    }

    pub(super) async fn file_of(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        app: Option<&AppName>,
    ) -> Result<WamlText, ForgeError> {
        let path = self.waml_path(app);
        let bytes = self.forge.file(repository, commit, &path, self.waml.budget.bytes).await?;
        Ok(WamlText { app: app.cloned(), path, bytes })
    }

    async fn folder_names(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
    ) -> Result<Vec<String>, ForgeError> {
        let Some(folder) = folder_of(&self.waml.path) else { return Ok(Vec::new()) };
        Ok(self.forge.file_names(repository, commit, folder).await?.unwrap_or_default())
    }

    /// Reads the file at the root and the names in the folder beside it, at the same time.
    async fn read_places(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
    ) -> (Result<WamlText, ForgeError>, Result<Vec<String>, ForgeError>) {
        tokio::join!(self.file_of(repository, commit, None), self.folder_names(repository, commit))
    }

    fn sort_files(
        &self,
        root: &Result<WamlText, ForgeError>,
        names: &[String],
    ) -> Result<AppFiles, ForgeError> {
        let has_root = match root {
            Ok(_) | Err(ForgeError::TooLarge { .. }) => true,
            Err(ForgeError::NoFile { .. }) => false,
            Err(error) => return Err(error.clone()),
        };
        Ok(AppFiles::of_names(&self.waml.path, has_root, names.iter().map(String::as_str)))
    }

    /// Decides which apps a deployment that names none deploys: those of the repository that deploy to its target. A file
    /// that cannot be read is one of them: its own deployment says what is wrong with it.
    pub(crate) async fn choose_deployed_apps(
        &self,
        request: &DeploymentRequest,
        files: &AppFiles,
    ) -> Result<Vec<AppName>, PlanError> {
        if !files.problems().is_empty() {
            return Err(reject(files.problems().to_vec()));
        }
        let Release { repository, commit, .. } = &request.release;
        let heads = self.read_heads(repository, commit, files).await?;
        let readable = heads.iter().filter_map(|(_, head)| head.as_ref());
        let duplicates =
            find_duplicates(readable.map(|head| (head.app.clone(), head.place.clone())));
        if !duplicates.is_empty() {
            return Err(reject(duplicates));
        }
        let target = &request.target;
        let is_deployed = |head: &Option<AppHead>| {
            head.as_ref().is_none_or(|head| !head.is_complete || head.targets.contains(target))
        };
        let apps: Vec<AppName> = heads
            .iter()
            .filter(|(_, head)| is_deployed(head))
            .map(|(app, _)| app.clone())
            .collect();
        if !apps.is_empty() {
            return Ok(apps);
        }
        let targets = heads.iter().filter_map(|(_, head)| head.as_ref());
        let targets: std::collections::BTreeSet<&str> =
            targets.flat_map(|head| &head.targets).map(TargetName::as_str).collect();
        let hint = suggest::hint(target.as_str(), targets);
        let message = format!("no app of the repository deploys to `{target}`: {hint}");
        Err(DeployError::reject(message).into())
    }

    /// Reads what each file says of its app; `None` for one that cannot be read.
    pub(super) async fn read_heads(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        files: &AppFiles,
    ) -> Result<Vec<(AppName, Option<AppHead>)>, DeployError> {
        let read_head = |app: AppName| async move {
            let text = match self.file_of(repository, commit, Some(&app)).await {
                Ok(text) => text,
                Err(ForgeError::TooLarge { .. } | ForgeError::NoFile { .. }) => {
                    return Ok((app, None));
                }
                Err(error) => return Err(DeployError::from(error)),
            };
            let deployments = self.clone();
            let head =
                self.cpu_pool.run_blocking(move || deployments.parse(&text).ok().map(AppHead::of));
            Ok((app, head.await?))
        };
        let requests: Vec<_> = files.apps().iter().cloned().map(read_head).collect();
        stream::iter(requests).buffered(WAMLS_AT_ONCE).try_collect().await
    }

    /// Refuses the app of a WAML that another file of the commit describes, too, and from which the target was deployed.
    /// Where the other file is gone, or of another app by now, the app has moved.
    pub(super) async fn check_other_file(
        &self,
        request: &DeploymentRequest,
        waml: &Waml,
    ) -> Result<(), PlanError> {
        let Release { repository, app, commit, .. } = &request.release;
        let newest = self.store.newest_app_name(repository, (&request.target, &waml.app)).await;
        let Some(other) = newest.map_err(DeployError::from)?.filter(|other| other != app) else {
            return Ok(());
        };
        let path = self.waml_path(other.as_ref());
        if path == waml.file() {
            return Ok(());
        }
        let bytes = self.forge.file(repository, commit, &path, self.waml.budget.bytes).await;
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(ForgeError::NoFile { .. } | ForgeError::TooLarge { .. }) => return Ok(()),
            Err(error) => return Err(DeployError::from(error).into()),
        };
        let (deployments, text) = (self.clone(), WamlText { app: other, path, bytes });
        let head = self
            .cpu_pool
            .run_blocking(move || deployments.parse(&text).ok().map(AppHead::of))
            .await?;
        match head {
            Some(head) if head.app == waml.app => {
                Err(reject(vec![duplicate(&waml.app, place_of(waml), &[head.place])]))
            }
            _ => Ok(()),
        }
    }
}

/// What a WAML says of its app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AppHead {
    pub(super) app: AppKey,
    /// The place where it names the app.
    pub(super) place: Position,
    pub(super) targets: Vec<TargetName>,
    /// The files that it names.
    pub(super) extra_paths: Vec<String>,
    /// False where `deploy` cannot be read, or has more targets than these.
    is_complete: bool,
}

impl AppHead {
    fn of(waml: Waml) -> Self {
        Self {
            place: place_of(&waml),
            targets: waml.targets().into_iter().cloned().collect(),
            extra_paths: waml.extra_paths(),
            is_complete: waml.has_readable_targets(),
            app: waml.app,
        }
    }
}

fn reject(violations: Vec<Violation>) -> PlanError {
    PlanError::Rejected {
        rejection: Rejection { violations },
        app: None,
        template: None,
        templates_commit: None,
        contact: None,
    }
}

/// Returns the error where a file is missing in a repository of this machine, which never lags behind its events.
pub(super) fn without_lag(error: DeployError, forge: &Forge) -> DeployError {
    match (error, forge) {
        (DeployError { remedy: Remedy::Late { .. }, message }, Forge::Local(_)) => {
            DeployError::reject(message)
        }
        (error, _) => error,
    }
}
