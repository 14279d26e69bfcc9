//! Where templates come from.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::file;
use crate::config::resolve::Resolver;
use crate::config::resolve::access::App;
use crate::config::settings::{Templates, TemplatesRepository};

/// More often is a load on the host for nothing: a push event comes at once.
const SHORTEST_REFRESH: Duration = Duration::from_secs(1);

impl Resolver<'_> {
    pub(super) fn templates(
        &mut self,
        templates: file::Templates,
        folder: &Path,
        app: &App,
    ) -> Templates {
        let file::Templates { path, repository } = templates;
        match (path, repository) {
            (None, None) => Templates::BuiltIn,
            (Some(path), None) => Templates::Folder(PathBuf::from(path)),
            (None, Some(repository)) => {
                Templates::Repository(self.followed(repository, folder, app))
            }
            (Some(_), Some(_)) => {
                let message = "`path` and `repository` are both given";
                self.report.wrong("templates", message, "remove one of them");
                Templates::BuiltIn
            }
        }
    }

    fn followed(
        &mut self,
        repository: file::TemplatesRepository,
        folder: &Path,
        app: &App,
    ) -> TemplatesRepository {
        let file::TemplatesRepository { url, branch, path, refresh, token, auth, ssh } = repository;
        self.remote(
            "templates.repository.url",
            &url,
            "templates cannot be read from such an address",
        );
        let branch = branch.unwrap_or_else(|| "main".to_owned());
        self.branch("templates.repository.branch", &branch);
        let refresh = self.duration("templates.repository.refresh", refresh, 300);
        if refresh < SHORTEST_REFRESH {
            let message = "the repository would be asked without pause";
            let help = "write `1s` or more; a push event refreshes at once";
            self.report.wrong("templates.repository.refresh", message, help);
        }
        let keys = folder.join("ssh").join("templates");
        let access = self.access("templates.repository", &url, (token, auth, ssh), app, keys);
        TemplatesRepository {
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
            self.report.wrong(
                "templates.repository.path",
                message,
                "write it like deploy/templates",
            );
        }
        trimmed.to_owned()
    }
}
