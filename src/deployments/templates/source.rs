//! Loads a set of templates from its place: the program, a folder, or a branch of a repository.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::git::clone::tracked_branch::{FollowError, RemoteSettings, TrackedBranch};
use crate::git::snapshot::{Content, Snapshot, SnapshotEntry, SnapshotLimits};
use crate::model::event::BranchPush;
use crate::model::id::CommitSha;
use crate::model::template::TemplateSources;
use crate::model::violation::Rejection;
use crate::templates::set::TemplateSet;
use crate::templates::sources;
use crate::templates::sources::repository::{FolderItem, Folders};
use crate::templates::sources::{APPS, COMPONENTS, CatalogueError, POLICIES};

const LIMITS: SnapshotLimits =
    SnapshotLimits { files: sources::MAX_FILES, bytes: sources::LARGEST, depth: sources::DEPTH };

/// The place of the templates.
pub(crate) enum TemplatesSource {
    /// The program itself.
    BuiltIn,
    /// A folder that has `apps/`.
    Folder(PathBuf),
    /// A branch of a repository.
    Repository {
        /// The branch, and the settings of its remote.
        git: Box<RemoteSettings>,
        /// The folder in it that has `apps/`; empty for its root.
        path: String,
        /// The poll interval, without a push event.
        refresh: Duration,
    },
}

/// The reason why there is no set to start with.
#[derive(Debug, thiserror::Error)]
pub enum TemplatesError {
    /// The folder or repository of the templates cannot be used.
    #[error(transparent)]
    Unusable(Box<dyn std::error::Error>),
    /// They are broken.
    #[error("the templates are broken: {0}")]
    Broken(Rejection),
}

/// The reason why a commit gives no set of templates.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    /// Its files could not be read.
    #[error(transparent)]
    Read(#[from] FollowError),
    /// The files are not templates.
    #[error(transparent)]
    Files(#[from] CatalogueError),
    /// The templates are broken.
    #[error("{0}")]
    Broken(Rejection),
    /// The service is stopping, or a fault ended the compilation.
    #[error(
        "compiling the templates stopped in the middle: the service is stopping, or its log has the fault"
    )]
    Stopped,
}

/// The repository that templates come from.
pub(super) struct Repository {
    tracked_branch: TrackedBranch,
    url: String,
    branch: String,
    path: String,
    /// The poll interval.
    pub(super) refresh: Duration,
}

impl Repository {
    pub(super) async fn open(
        git: RemoteSettings,
        path: String,
        refresh: Duration,
    ) -> Result<Self, TemplatesError> {
        let (url, branch) = (git.url.clone(), git.branch.clone());
        let tracked_branch = TrackedBranch::open(git).await;
        let tracked_branch =
            tracked_branch.map_err(|error| TemplatesError::Unusable(Box::new(error)))?;
        Ok(Self { tracked_branch, url, branch, path, refresh })
    }

    /// Fetches the tip of the branch.
    pub(super) async fn fetch_tip(&self) -> Result<CommitSha, FollowError> {
        self.tracked_branch.fetch_tip().await
    }

    /// Removes the copy of the remote's key from this disk, once the branch is not polled any more.
    pub(super) async fn close(&self) {
        self.tracked_branch.close().await;
    }

    /// Loads the set of a commit.
    pub(super) async fn load(&self, commit: &CommitSha) -> Result<TemplateSet, LoadError> {
        let read_folder = async |name| {
            let folder = within(&self.path, name);
            Ok::<_, FollowError>(folder_items(
                self.tracked_branch.folder(commit, &folder, LIMITS).await?,
            ))
        };
        let folders = Folders {
            apps: read_folder(APPS).await?,
            components: read_folder(COMPONENTS).await?,
            policies: read_folder(POLICIES).await?,
        };
        let origin = format!("{} {}", self.url, self.branch);
        let sources = sources::repository::sources(origin, commit.clone(), &self.path, folders)?;
        compile(sources).await
    }

    /// Loads the set that was used last, without the host; `None` when there is none, or it
    /// cannot be loaded any more.
    pub(super) async fn load_last_good(&self) -> Option<TemplateSet> {
        let commit = self.tracked_branch.accepted_commit().await.ok()??;
        match self.load(&commit).await {
            Ok(templates) => Some(templates),
            Err(error) => {
                tracing::error!(commit = %commit, %error, "last good templates refused");
                None
            }
        }
    }

    /// Stores the set for a start without the host.
    pub(super) async fn remember(&self, templates: &TemplateSet) {
        let Some(commit) = &templates.commit else { return };
        if let Err(error) = self.tracked_branch.record_accepted(commit).await {
            tracing::warn!(%error, "templates could not be stored for a start without their host");
        }
    }

    /// Returns true if a push is to the followed branch.
    pub(super) fn is_of(&self, push: &BranchPush) -> bool {
        push.branch == self.branch && is_address_of(&self.url, push.repository.as_str())
    }
}

/// Returns true if an address ends in the repository's name, `owner/name`, as code hosts write it.
fn is_address_of(url: &str, name: &str) -> bool {
    let url = url.trim_end_matches('/').to_ascii_lowercase();
    let path = url.strip_suffix(".git").unwrap_or(&url);
    path.strip_suffix(&name.to_ascii_lowercase()).is_some_and(|prefix| prefix.ends_with(['/', ':']))
}

fn within(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

fn folder_items(entries: Vec<SnapshotEntry>) -> Vec<FolderItem> {
    let to_item = |SnapshotEntry { path, content }| {
        let content = match content {
            Content::File(bytes) => Ok(bytes),
            Content::Link => Err("a symbolic link"),
            Content::Submodule => Err("a submodule"),
        };
        FolderItem { path, content }
    };
    entries.into_iter().map(to_item).collect()
}

async fn compile(sources: TemplateSources) -> Result<TemplateSet, LoadError> {
    let compile = move || TemplateSet::compile(&sources).map_err(LoadError::Broken);
    tokio::task::spawn_blocking(compile).await.map_err(|_| LoadError::Stopped)?
}

/// Returns the built-in set, which is compiled once.
pub(super) async fn built_in() -> Result<Arc<TemplateSet>, TemplatesError> {
    static COMPILED: OnceCell<Arc<TemplateSet>> = OnceCell::const_new();
    COMPILED.get_or_try_init(|| compile_at_start(sources::built_in())).await.cloned()
}

/// Compiles the set in a folder; it stays as it was at the start.
pub(super) async fn load_folder(folder: &Path) -> Result<Arc<TemplateSet>, TemplatesError> {
    let sources = sources::folder(folder);
    compile_at_start(sources.map_err(|error| TemplatesError::Unusable(Box::new(error)))?).await
}

async fn compile_at_start(sources: TemplateSources) -> Result<Arc<TemplateSet>, TemplatesError> {
    compile(sources).await.map(Arc::new).map_err(|error| match error {
        LoadError::Broken(rejection) => TemplatesError::Broken(rejection),
        other => TemplatesError::Unusable(Box::new(other)),
    })
}

/// Loads the templates in a repository of this machine at a revision: a commit, a branch, `HEAD~1`.
///
/// # Errors
/// A sentence that names what is missing, or why it is no set of templates.
pub fn at_revision(
    repository: &Path,
    revision: &str,
    path: &str,
) -> Result<TemplateSources, String> {
    let snapshot = Snapshot::open(repository, revision)?;
    let read_folder =
        |name| Ok::<_, String>(folder_items(snapshot.folder(&within(path, name), LIMITS)?));
    let folders = Folders {
        apps: read_folder(APPS)?,
        components: read_folder(COMPONENTS)?,
        policies: read_folder(POLICIES)?,
    };
    let origin = format!("{} at {revision}", repository.display());
    sources::repository::sources(origin, snapshot.commit(), path, folders)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_is_known_by_the_end_of_the_address() {
        for url in [
            "https://github.com/acme/templates.git",
            "https://github.com/Acme/Templates",
            "http://127.0.0.1:8080/acme/templates.git/",
            "/srv/git/acme/templates.git",
            "git@github.com:acme/templates.git",
            "ssh://git@github.com:22/acme/templates.git",
        ] {
            assert!(is_address_of(url, "acme/templates"), "{url}");
        }
        for url in
            ["https://github.com/acme/templates-2.git", "https://github.com/notacme/templates"]
        {
            assert!(!is_address_of(url, "acme/templates"), "{url}");
        }
    }
}
