//! The source of templates.

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::access::{GitAccess, RepositoryApp, RepositoryAuth};
use crate::config::credential::Secret;
use crate::config::resolver::Resolver;
use crate::config::ssh::Ssh;

/// The shortest refresh: fetching more often loads the host for nothing, since a push event refreshes at once.
const SHORTEST_REFRESH: Duration = Duration::from_secs(1);

/// The source of templates: at most one of the two. Default: the built-in ones.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Templates {
    /// A folder with `apps/TEMPLATE/VERSION/`.
    path: Option<String>,
    /// A git repository; the service follows its branch.
    repository: Option<TemplatesRepository>,
}

/// A repository with templates.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TemplatesRepository {
    /// An http or https address without credentials, `git@HOST:PATH` or `ssh://USER@HOST:PORT/PATH`,
    /// or a path.
    url: String,
    /// The branch. Default: `main`.
    #[serde(default)]
    branch: Option<String>,
    /// The folder in it that has `apps/`. Default: its root.
    #[serde(default)]
    path: Option<String>,
    /// The time between fetches without a push event, `1s` to a day. Default: `5m`.
    #[serde(default)]
    refresh: Option<String>,
    /// A token that may read. A file is read for each exchange, so that it may be renewed.
    #[serde(default)]
    token: Option<Secret>,
    /// The authentication without a token. Default: `app` if `forge.github.app` is set and the repository is on its
    /// host; otherwise `none`.
    #[serde(default)]
    auth: Option<RepositoryAuth>,
    /// The ssh credentials; only for an ssh `url`, which needs them.
    #[serde(default)]
    ssh: Option<Ssh>,
}

/// The source of templates.
#[derive(Debug, Clone)]
pub enum TemplatesSettings {
    /// The program itself.
    BuiltIn,
    /// A folder that has `apps/`.
    Folder(PathBuf),
    /// A branch of a repository.
    Repository(TemplatesBranch),
}

/// A branch of a repository with templates.
#[derive(Debug, Clone)]
pub struct TemplatesBranch {
    /// An http or https address without credentials, ssh's, or a path.
    pub url: String,
    /// The branch.
    pub branch: String,
    /// The folder in it that has `apps/`; empty for its root.
    pub path: String,
    /// The time between fetches without a push event.
    pub refresh: Duration,
    /// The credentials, which must be allowed to read.
    pub access: GitAccess,
    /// The folder of its clone.
    pub clone_dir: PathBuf,
}

impl Resolver<'_> {
    pub(super) fn templates(
        &mut self,
        templates: Templates,
        folder: &Path,
        app: &RepositoryApp,
    ) -> TemplatesSettings {
        let Templates { path, repository } = templates;
        match (path, repository) {
            (None, None) => TemplatesSettings::BuiltIn,
            (Some(path), None) => TemplatesSettings::Folder(PathBuf::from(path)),
            (None, Some(repository)) => {
                TemplatesSettings::Repository(self.templates_branch(repository, folder, app))
            }
            (Some(_), Some(_)) => {
                let message = "`path` and `repository` are both given";
                self.report.error("templates", message, "remove one of them");
                TemplatesSettings::BuiltIn
            }
        }
    }

    fn templates_branch(
        &mut self,
        repository: TemplatesRepository,
        folder: &Path,
        app: &RepositoryApp,
    ) -> TemplatesBranch {
        let TemplatesRepository { url, branch, path, refresh, token, auth, ssh } = repository;
        self.remote(
            "templates.repository.url",
            &url,
            "templates cannot be read from such an address",
        );
        let branch = branch.unwrap_or_else(|| "main".to_owned());
        self.branch("templates.repository.branch", &branch);
        let refresh = self.duration("templates.repository.refresh", refresh, 300);
        if refresh < SHORTEST_REFRESH {
            let message = "the repository would be fetched without pause";
            let help = "write `1s` or more; a push event refreshes at once";
            self.report.error("templates.repository.refresh", message, help);
        }
        let keys = folder.join("ssh").join("templates");
        let access = self.access("templates.repository", &url, (token, auth, ssh), app, keys);
        TemplatesBranch {
            path: self.inner_folder(path),
            clone_dir: folder.join("templates.git"),
            url,
            branch,
            refresh,
            access,
        }
    }

    fn inner_folder(&mut self, path: Option<String>) -> String {
        let path = path.unwrap_or_default();
        let trimmed = path.trim_matches('/');
        let inside = |part: &str| !matches!(part, "" | "." | "..");
        let legal = trimmed.is_empty() || trimmed.split('/').all(inside);
        if !legal || path.chars().any(char::is_control) {
            let message = "this is not a folder inside a repository";
            self.report.error(
                "templates.repository.path",
                message,
                "write it like deploy/templates",
            );
        }
        trimmed.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{loaded, refused};

    #[test]
    fn templates_come_from_a_repository_with_its_defaults() {
        let text = "templates: {repository: {url: 'https://git.example.com/t.git'}}";
        let TemplatesSettings::Repository(repository) = loaded(text).settings.templates else {
            panic!("repository")
        };
        assert_eq!((repository.branch.as_str(), repository.path.as_str()), ("main", ""));
        assert_eq!(
            (repository.refresh, matches!(repository.access, GitAccess::Anybody)),
            (Duration::from_mins(5), true)
        );
        assert_eq!(repository.clone_dir, Path::new(".the-deployer/templates.git"));
        let text = "templates:\n  repository: {url: /srv/t.git, branch: live, path: deploy/templates/, \
                    refresh: 30s, token: {env: TOKEN}}";
        let TemplatesSettings::Repository(repository) = loaded(text).settings.templates else {
            panic!("repository")
        };
        assert_eq!(
            (repository.branch.as_str(), repository.path.as_str()),
            ("live", "deploy/templates")
        );
        assert_eq!(
            (repository.refresh, matches!(repository.access, GitAccess::Token(_))),
            (Duration::from_secs(30), true)
        );
    }

    #[test]
    fn a_templates_repository_that_cannot_be_followed_is_told_at_its_place() {
        let message = refused("templates: {path: x, repository: {url: /srv/t.git}}\n");
        assert!(
            message.contains("config.yaml:1:1: `path` and `repository` are both given"),
            "{message}"
        );
        let lines = refused(
            "templates:\n  repository:\n    url: 'github.com:acme/templates.git'\n    \
             branch: a..b\n    path: ../x\n    refresh: 10ms\n    token: {env: NOWHERE}\n",
        );
        for expected in [
            "config.yaml:3:10: templates cannot be read from such an address",
            "config.yaml:4:13: this is not a branch's name",
            "config.yaml:5:11: this is not a folder inside a repository",
            "config.yaml:6:14: the repository would be fetched without pause",
            "config.yaml:7:",
        ] {
            assert!(lines.contains(expected), "{expected} in\n{lines}");
        }
    }
}
