//! The app, the service and the output format of a command. If no app is named, the app is that of the WAML and the git
//! remote in the working folder or above it.

use std::path::Path;
use std::sync::Arc;

use clap::Args;

use super::client::ServiceEndpoint;
use super::diagnostics::SourceTexts;
use super::error::CliError;
use super::extra_files;
use super::output::Format;
use super::repository_apps::{AppChoiceArg, AppFile, RepositoryApps};
use super::working_folder::{self, WAML_FILE};
use crate::model::id::{AppKey, AppName, Namespace, RepoName, Slug, TargetName};
use crate::waml::Waml;

/// The service, and the format of its answer.
#[derive(Debug, Args)]
pub(super) struct ServiceArgs {
    #[command(flatten)]
    pub(super) server: ServiceEndpoint,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    pub(super) output: Format,
}

/// The app of a command, its service, and the format of the answer.
#[derive(Debug, Args)]
pub(super) struct Context {
    #[command(flatten)]
    pub(super) about: AppSelector,
    #[command(flatten)]
    pub(super) server: ServiceEndpoint,
    /// The format of the result
    #[arg(long, short, value_enum, default_value_t)]
    pub(super) output: Format,
}

/// The app of a command.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct AppSelector {
    /// The app: NAMESPACE/SLUG, or SLUG with the namespace of the WAML. Default: the app of the WAML in
    /// the working folder or above it
    #[arg(long, value_name = "APP")]
    app: Option<String>,
    #[command(flatten)]
    selector: RepositorySelector,
}

/// The repository of a command.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct RepositorySelector {
    /// The service repository, OWNER/NAME. Default: the git remote `origin` of the working folder
    #[arg(long)]
    repository: Option<RepoName>,
}

/// The names that a command was given and that may be mistyped.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    pub(super) target: Option<TargetName>,
    pub(super) app: Option<AppKey>,
    pub(super) repository: Option<RepoName>,
    pub(super) owner: Option<String>,
}

/// An app that is named in part: the service may know the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PartialApp {
    /// An app of which the slug is known.
    Slug(Slug),
    /// An app of which the repository is known.
    Repository(RepoName),
}

impl AppSelector {
    /// Returns the named part of the app, if it is not the whole name; `None` if nothing is named or something is
    /// wrong.
    pub(super) fn partial(&self) -> Option<PartialApp> {
        match (&self.app, &self.selector.repository) {
            (Some(text), _) => Slug::parse(text.as_str()).ok().map(PartialApp::Slug),
            (None, Some(repository)) => Some(PartialApp::Repository(repository.clone())),
            (None, None) => None,
        }
    }

    /// Returns whether deployments are selected by the app, and not by its repository.
    pub(super) fn names_app(&self) -> bool {
        self.app.is_some()
    }

    /// Returns whether an argument names the app or repository.
    pub(super) fn is_given(&self) -> bool {
        self.app.is_some() || self.selector.repository.is_some()
    }

    /// Returns the names that arguments gave, with a target.
    pub(super) fn names(&self, target: Option<&TargetName>) -> Names {
        let app = self.app.as_ref().and_then(|text| key(text).ok());
        let repository = self.selector.repository.clone();
        Names { target: target.cloned(), app, repository, owner: None }
    }

    /// Returns the named app, or that of the WAML; an error if only a repository is named, because the WAML in the
    /// working folder may be another's.
    pub(super) fn app(&self) -> Result<AppKey, CliError> {
        match (&self.app, &self.selector.repository) {
            (Some(text), _) => key(text),
            (None, None) => Ok(waml()?.app.clone()),
            (None, Some(repository)) => {
                Err(CliError::usage(format!("which app of {repository} do you mean?"))
                    .hint("name the app with --app NAMESPACE/SLUG"))
            }
        }
    }

    /// Returns the query parameter that selects deployments: the repository where it is known, because it also selects
    /// those whose WAML has not been read yet; else the app.
    pub(super) fn parameter(&self) -> Result<(&'static str, String), CliError> {
        if self.app.is_some() {
            return Ok(("app", self.app()?.to_string()));
        }
        match self.repository() {
            Ok(repository) => Ok(("repository", repository.to_string())),
            Err(unknown) => self.app().map(|app| ("app", app.to_string())).map_err(|_| unknown),
        }
    }

    /// Returns the service repository, named or from the git remote.
    pub(super) fn repository(&self) -> Result<RepoName, CliError> {
        self.selector.repository()
    }
}

impl RepositorySelector {
    /// Selects a repository that is known.
    pub(super) fn of(repository: RepoName) -> Self {
        Self { repository: Some(repository) }
    }

    /// Returns whether an argument names the repository.
    pub(super) fn is_given(&self) -> bool {
        self.repository.is_some()
    }

    /// Returns the names that arguments gave, with a target.
    pub(super) fn names(&self, target: &TargetName) -> Names {
        Names {
            target: Some(target.clone()),
            repository: self.repository.clone(),
            ..Names::default()
        }
    }

    /// Returns the service repository, named or from the git remote.
    pub(super) fn repository(&self) -> Result<RepoName, CliError> {
        match &self.repository {
            Some(repository) => Ok(repository.clone()),
            None => remote(&working_folder::path()?),
        }
    }
}

/// Returns the host of the working folder's git remote, if it has one.
pub(super) fn remote_host() -> Option<String> {
    let (_, url) = origin(&working_folder::path().ok()?).ok()?;
    host(&url)
}

/// Reads the WAML of the working folder, or of the nearest folder above it that has one, within the git repository. Where
/// the repository has several apps, it fails.
pub(super) fn waml() -> Result<Arc<Waml>, CliError> {
    waml_of(&AppChoiceArg::default())
}

/// Reads the WAML of the chosen app.
pub(super) fn waml_of(app: &AppChoiceArg) -> Result<Arc<Waml>, CliError> {
    let (file, bytes) = waml_text(app)?;
    let name = file.path.display().to_string();
    let waml = Waml::parse(&name, &bytes).map_err(|rejection| {
        CliError::usage(format!("{name} cannot be read: {rejection}"))
            .hint("`bart validate` shows what is wrong where")
    })?;
    let folder = file.path.parent().unwrap_or(Path::new(""));
    Ok(Arc::new(extra_files::from_folder(waml, folder, &mut SourceTexts::default())))
}

/// Finds the same file and reads its bytes, even if its content is wrong.
pub(super) fn waml_text(app: &AppChoiceArg) -> Result<(AppFile, Vec<u8>), CliError> {
    let file = app.file()?;
    let bytes = working_folder::read(&file.path)?;
    Ok((file, bytes))
}

/// Returns the name of the chosen app for a request about a repository, which may be another one than that of the working
/// folder.
pub(super) fn request_app(
    choice: &AppChoiceArg,
    repository: &RepoName,
) -> Result<Option<AppName>, CliError> {
    let is_here =
        RepositorySelector::default().repository().is_ok_and(|here| here.is_same(repository));
    match (RepositoryApps::find().filter(|_| is_here), choice.name()) {
        (Some(apps), name) if apps.has_several() || name.is_some() => Ok(apps.choose(name)?.app),
        (_, Some(name)) => {
            AppName::parse(name).map(Some).map_err(|error| CliError::usage(error.to_string()))
        }
        (_, None) => Ok(None),
    }
}

/// Returns the commit that is checked out in the working folder, if there is one.
pub(super) fn head() -> Option<String> {
    let repository = git2::Repository::discover(working_folder::path().ok()?).ok()?;
    let commit = repository.head().ok()?.peel_to_commit().ok()?;
    Some(commit.id().to_string())
}

/// Reads an app's name; a bare slug takes the namespace of the WAML that is here.
pub(super) fn key(text: &str) -> Result<AppKey, CliError> {
    let wrong = |error: crate::model::id::IdError| CliError::usage(error.to_string());
    if let Some((namespace, slug)) = text.split_once('/') {
        let namespace = Namespace::parse(namespace).map_err(wrong)?;
        return Ok(AppKey { namespace, slug: Slug::parse(slug).map_err(wrong)? });
    }
    let slug = Slug::parse(text).map_err(wrong)?;
    let unknown = |why: String| {
        CliError::usage(format!("which namespace is {slug} in? {why}"))
            .hint(format!("write NAMESPACE/{slug}"))
    };
    let apps = RepositoryApps::find();
    if let Some(apps) = apps.filter(RepositoryApps::has_several) {
        let file = apps.choose(Some(text)).map_err(|error| unknown(error.to_string()))?;
        return file.key().ok_or_else(|| unknown(format!("{} cannot be read", file.name)));
    }
    let app = waml().map_err(|error| unknown(error.to_string()))?.app.clone();
    if app.slug != slug {
        return Err(unknown(format!("the {WAML_FILE} here is of {app}")));
    }
    Ok(app)
}

/// Finds the repository of the remote `origin`, or of the only remote.
fn remote(start: &Path) -> Result<RepoName, CliError> {
    let (name, url) = origin(start)?;
    if let (Some(host), Some(path)) = (host(&url), path_below_group(&url)) {
        // A part of the path is another repository's name, and its image would be another's.
        let why = format!("its remote {name} leads to {path} on {host}, which is not OWNER/NAME");
        return Err(unknown_context(why));
    }
    parse_repository(&url)
        .ok_or_else(|| unknown_context(format!("its remote {name} does not end with OWNER/NAME")))
}

/// Returns the path of an address at a host where it has more parts than an owner and a name, as subgroups of GitLab
/// have: `group/sub/project`.
fn path_below_group(url: &str) -> Option<String> {
    let path = if url.contains("://") {
        reqwest::Url::parse(url).ok()?.path().to_owned()
    } else {
        url.split_once(':')?.1.to_owned()
    };
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    (path.split('/').filter(|part| !part.is_empty()).count() > 2).then(|| path.to_owned())
}

fn unknown_context(why: impl std::fmt::Display) -> CliError {
    CliError::usage(format!("which repository is this? {why}"))
        .hint("name it with --repository OWNER/NAME")
}

/// Returns the name and the address of that remote.
fn origin(start: &Path) -> Result<(String, String), CliError> {
    let repository = git2::Repository::discover(start)
        .map_err(|_| unknown_context("the working folder is in no git repository"))?;
    let names = repository.remotes().map_err(|error| unknown_context(error.message()))?;
    let names: Vec<&str> = names.iter().filter_map(|name| name.ok().flatten()).collect();
    let name = match names.as_slice() {
        _ if names.contains(&"origin") => "origin",
        [only] => only,
        [] => return Err(unknown_context("the git repository has no remote")),
        _ => {
            return Err(unknown_context(format!(
                "none of its remotes {} is `origin`",
                names.join(", ")
            )));
        }
    };
    let remote = repository.find_remote(name).map_err(|e| unknown_context(e.message()))?;
    Ok((name.to_owned(), remote.url().unwrap_or_default().to_owned()))
}

/// Returns the host of an address as git takes it: a URL, or `[user@]host:path`.
fn host(url: &str) -> Option<String> {
    if url.contains("://") {
        return reqwest::Url::parse(url).ok()?.host_str().map(str::to_ascii_lowercase);
    }
    let (before, _path) = url.split_once(':').filter(|(before, _)| !before.contains('/'))?;
    let host = before.rsplit('@').next().filter(|host| !host.is_empty())?;
    Some(host.to_ascii_lowercase())
}

/// Parses `OWNER/NAME` at the end of an address: `git@host:OWNER/NAME.git`, `https://host/OWNER/NAME`, or a path.
fn parse_repository(url: &str) -> Option<RepoName> {
    let url = url.trim_end_matches('/');
    let url = url.strip_suffix(".git").unwrap_or(url);
    let (rest, name) = url.rsplit_once('/')?;
    let owner = rest.rsplit(['/', ':']).next()?;
    RepoName::parse(format!("{owner}/{name}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_names_its_repository() {
        for url in [
            "git@github.example.com:acme/shop.git",
            "ssh://git@github.example.com:22/acme/shop.git",
            "https://github.example.com/acme/shop",
            "https://user@github.example.com/acme/shop.git/",
            "/srv/repos/acme/shop.git",
        ] {
            assert_eq!(parse_repository(url).unwrap().as_str(), "acme/shop", "{url}");
        }
        for url in ["", "shop", "https:///"] {
            assert_eq!(parse_repository(url), None, "{url}");
        }
    }

    #[test]
    fn a_path_below_a_group_is_no_repository_by_its_end() {
        for (url, expected) in [
            ("git@gitlab.com:group/sub/proj.git", Some("group/sub/proj")),
            ("https://gitlab.com/group/sub/deep/proj", Some("group/sub/deep/proj")),
            ("ssh://git@gitlab.com:22/group/sub/proj.git/", Some("group/sub/proj")),
            ("git@github.com:acme/shop.git", None),
            ("https://github.com/acme/shop/", None),
        ] {
            assert_eq!(path_below_group(url).as_deref(), expected, "{url}");
        }
        let folder = tempfile::tempdir().unwrap();
        let repository = git2::Repository::init(folder.path()).unwrap();
        repository.remote("origin", "git@gitlab.com:group/sub/proj.git").unwrap();
        let message = remote(folder.path()).unwrap_err().whole();
        assert!(message.contains("group/sub/proj on gitlab.com"), "{message}");
        assert!(message.contains("--repository"), "{message}");
        repository.remote_set_url("origin", "/srv/deep/down/acme/shop.git").unwrap();
        assert_eq!(remote(folder.path()).unwrap().as_str(), "acme/shop");
    }

    #[test]
    fn a_remote_is_at_a_host_or_on_this_machine() {
        for (url, expected) in [
            ("git@GitHub.example.com:acme/shop.git", Some("github.example.com")),
            ("ssh://git@github.example.com:22/acme/shop.git", Some("github.example.com")),
            ("https://user@github.example.com/acme/shop.git", Some("github.example.com")),
            ("/srv/repos/acme/shop.git", None),
            ("./a:b/shop", None),
            (":x", None),
            ("", None),
        ] {
            assert_eq!(host(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn the_app_of_another_repository_is_not_the_one_that_is_here() {
        let repository = Some(RepoName::parse("acme/cart").unwrap());
        let about = AppSelector { app: None, selector: RepositorySelector { repository } };
        let message = format!("{:?}", about.app().unwrap_err());
        assert!(
            message.contains("which app of acme/cart") && message.contains("--app"),
            "{message}"
        );
        let about = AppSelector { app: Some("devx/cart".to_owned()), ..about };
        assert_eq!(about.app().unwrap().to_string(), "devx/cart");
    }
}
