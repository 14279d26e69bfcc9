//! The apps of the repository that the working folder is in: one with a WAML at the root, or several, one a file.

use std::path::{Path, PathBuf};

use clap::Args;

use super::error::CliError;
use super::working_folder::{self, WAML_FILE};
use crate::model::id::{AppKey, AppName};
use crate::waml::Waml;
use crate::waml::app_files::{AppChoice, AppFiles, describe_choice, folder_of};
use crate::waml::suggest;

/// The largest number of names that are read of a folder.
const MAX_NAMES: usize = 1000;

/// The app of a command, where the repository has several.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct AppChoiceArg {
    /// The app, where the repository has several: the name of its file under `.weave/` without the ending, or its slug
    #[arg(long = "app", id = "app", value_name = "NAME")]
    name: Option<String>,
}

/// The apps of a repository, as its working folder has them.
#[derive(Debug, Clone)]
pub(super) struct RepositoryApps {
    root: PathBuf,
    files: AppFiles,
}

/// The WAML of an app in the working folder.
#[derive(Debug, Clone)]
pub(super) struct AppFile {
    /// The app, where the repository has several; `None` is the only one.
    pub(super) app: Option<AppName>,
    /// Its path from the root of the repository.
    pub(super) name: String,
    /// Its path on this machine.
    pub(super) path: PathBuf,
}

impl AppChoiceArg {
    /// Chooses the file of that app.
    pub(super) fn of_key(app: &AppKey) -> Self {
        Self { name: Some(app.to_string()) }
    }

    /// Returns the name that was given.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the WAML of the chosen app, or of the only one.
    pub(super) fn file(&self) -> Result<AppFile, CliError> {
        let apps = RepositoryApps::find().ok_or_else(missing)?;
        apps.choose(self.name())
    }
}

impl RepositoryApps {
    /// Finds the WAMLs in the working folder, or in the nearest folder above it that has one, within the git repository.
    pub(super) fn find() -> Option<Self> {
        Self::nearest(&working_folder::path().ok()?)
    }

    /// Returns the WAMLs of the working folder itself, with paths from there.
    pub(super) fn read_current() -> Self {
        Self::at(Path::new(""))
    }

    fn nearest(start: &Path) -> Option<Self> {
        for folder in start.ancestors() {
            let apps = Self::at(folder);
            if !apps.files.apps().is_empty() || !apps.files.problems().is_empty() {
                return Some(apps);
            }
            if folder.join(".git").exists() {
                return None;
            }
        }
        None
    }

    fn at(root: &Path) -> Self {
        let folder = folder_of(WAML_FILE).unwrap_or_default();
        let place = root.join(folder);
        let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
        let is_file =
            |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
        let mut names: Vec<String> = entries
            .filter(is_file)
            .filter_map(|entry| entry.file_name().into_string().ok())
            .take(MAX_NAMES)
            .collect();
        names.sort();
        let has_root = root.join(WAML_FILE).is_file();
        let names = names.iter().map(String::as_str);
        Self { root: root.to_owned(), files: AppFiles::of_names(WAML_FILE, has_root, names) }
    }

    /// Returns the folder that the paths of the files begin at.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the files as a set.
    pub(super) fn files(&self) -> &AppFiles {
        &self.files
    }

    /// Checks that it has more than the one at the root.
    pub(super) fn has_several(&self) -> bool {
        self.files.has_folder()
    }

    /// Lists the WAMLs of all apps.
    pub(super) fn list(&self) -> Vec<AppFile> {
        if !self.has_several() {
            return vec![self.only()];
        }
        self.files.apps().iter().map(|app| self.file_of(app)).collect()
    }

    /// Reads the WAMLs of all apps that can be read.
    pub(super) fn wamls(&self) -> Vec<Waml> {
        self.list().iter().filter_map(AppFile::read).collect()
    }

    /// Returns the WAML of the app of that name, or of the only one.
    pub(super) fn choose(&self, name: Option<&str>) -> Result<AppFile, CliError> {
        match choose_app(&self.files, name, |app| self.file_of(app).key())? {
            AppChoice::Only => Ok(self.only()),
            AppChoice::One(app) => Ok(self.file_of(&app)),
            AppChoice::All(apps) => {
                Err(CliError::usage(describe_choice(&apps)).hint("name the app with --app NAME"))
            }
        }
    }

    fn only(&self) -> AppFile {
        AppFile { app: None, name: WAML_FILE.to_owned(), path: self.root.join(WAML_FILE) }
    }

    fn file_of(&self, app: &AppName) -> AppFile {
        let name = self.files.path_of(app);
        AppFile { app: Some(app.clone()), path: self.root.join(&name), name }
    }
}

impl AppFile {
    /// Reads the WAML, without the files that it names; `None` where it cannot be read.
    pub(super) fn read(&self) -> Option<Waml> {
        Waml::parse(&self.name, &working_folder::read(&self.path).ok()?).ok()
    }

    /// Returns the app as its file calls it; `None` where that cannot be read.
    pub(super) fn key(&self) -> Option<AppKey> {
        Some(self.read()?.app)
    }
}

/// Chooses among the apps of a repository: by the name of a file, or by the app that it describes.
///
/// # Errors
/// Where there is no app of that name, with those that there are.
pub(super) fn choose_app(
    files: &AppFiles,
    name: Option<&str>,
    key_of: impl Fn(&AppName) -> Option<AppKey>,
) -> Result<AppChoice, CliError> {
    let Some(name) = name else { return files.choose(None).map_err(CliError::usage) };
    let apps = files.apps();
    if let Some(app) = apps.iter().find(|app| app.as_str() == name) {
        return Ok(choice_of(files, app));
    }
    let keys: Vec<(&AppName, AppKey)> =
        apps.iter().filter_map(|app| Some((app, key_of(app)?))).collect();
    let is_named =
        |(_, key): &&(&AppName, AppKey)| key.slug.as_str() == name || key.to_string() == name;
    let matching: Vec<&(&AppName, AppKey)> = keys.iter().filter(is_named).collect();
    if let [(app, _)] = matching.as_slice() {
        return Ok(choice_of(files, app));
    }
    let names = apps.iter().map(AppName::as_str);
    let slugs = keys.iter().map(|(_, key)| key.slug.as_str());
    let hint = suggest::hint(name, names.clone().chain(slugs).collect::<Vec<_>>());
    let message =
        format!("--app: the repository has no app `{name}`, but {}", suggest::list(names));
    Err(CliError::usage(message).hint(hint))
}

/// Returns the choice of an app: the only one of a repository has no name.
fn choice_of(files: &AppFiles, app: &AppName) -> AppChoice {
    if files.has_folder() { AppChoice::One(app.clone()) } else { AppChoice::Only }
}

fn missing() -> CliError {
    CliError::usage(format!("there is no {WAML_FILE} here, nor above")).hint(
        "run the command in a service's repository, or name the app with --app NAMESPACE/SLUG",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, slug: &str) {
        let text = format!(
            "schema: \"2\"\nname: A\nslug: {slug}\nowner: a@b.ch\nnamespace: devx\ndeploy: {{t: {{}}}}\n"
        );
        std::fs::create_dir_all(root.join(".weave")).unwrap();
        std::fs::write(root.join(file), text).unwrap();
    }

    #[test]
    fn a_waml_is_looked_for_up_to_the_root_of_the_repository() {
        let folder = tempfile::tempdir().unwrap();
        let (root, deep) = (folder.path().join("repo"), folder.path().join("repo/src/deep"));
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(folder.path().join(WAML_FILE), "").unwrap();
        std::fs::create_dir(root.join(".git")).unwrap();
        assert!(RepositoryApps::nearest(&deep).is_none(), "the one outside is another's");
        std::fs::write(root.join(WAML_FILE), "").unwrap();
        let file = RepositoryApps::nearest(&deep).unwrap().choose(None).unwrap();
        assert_eq!((file.app, file.path), (None, root.join(WAML_FILE)));
    }

    #[test]
    fn one_of_several_apps_is_named_by_its_file_or_its_slug() {
        let folder = tempfile::tempdir().unwrap();
        for (file, slug) in
            [(WAML_FILE, "shop"), (".weave/worker.yaml", "shop-worker"), (".weave/web.yaml", "web")]
        {
            write(folder.path(), file, slug);
        }
        let apps = RepositoryApps::nearest(folder.path()).unwrap();
        for (name, path) in [
            ("worker", ".weave/worker.yaml"),
            ("shop-worker", ".weave/worker.yaml"),
            ("devx/web", ".weave/web.yaml"),
            ("shop", WAML_FILE),
            (WAML_FILE, WAML_FILE),
        ] {
            assert_eq!(apps.choose(Some(name)).unwrap().name, path, "{name}");
        }
        let error = apps.choose(None).unwrap_err().whole();
        assert!(error.contains("`.weave.yaml`, `web` and `worker`"), "{error}");
        let error = apps.choose(Some("wokrer")).unwrap_err().whole();
        assert!(error.contains("has no app `wokrer`") && error.contains("`worker`?"), "{error}");
    }

    #[test]
    fn the_only_app_needs_no_name_and_may_have_one() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), WAML_FILE, "shop");
        let apps = RepositoryApps::nearest(folder.path()).unwrap();
        assert_eq!(apps.choose(Some("shop")).unwrap().app, None);
        std::fs::rename(folder.path().join(WAML_FILE), folder.path().join(".weave/shop.yaml"))
            .unwrap();
        let apps = RepositoryApps::nearest(folder.path()).unwrap();
        assert_eq!(apps.choose(None).unwrap().name, ".weave/shop.yaml");
    }
}
