//! Reads the working folder's git repository: the commit to deploy, and whether it was pushed.

use std::path::Path;

use git2::{Oid, Repository, StatusOptions};

use crate::cli::error::CliError;
use crate::cli::extra_files;
use crate::cli::output::short;
use crate::cli::repository_apps::choose_app;
use crate::cli::working_folder::WAML_FILE;
use crate::model::id::AppName;
use crate::waml::Waml;
use crate::waml::app_files::{AppChoice, AppFiles, app_of, folder_of};
use crate::waml::extra_files::ExtraFiles;

/// The largest number of branches that are searched: a repository has some hundred, and more would take too long.
const MAX_BRANCHES: usize = 500;

/// The commit to deploy, as far as this machine has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli::bart) struct Tree {
    /// The ref for the code host: a commit's id, or the value of `--ref`.
    pub(in crate::cli::bart) git_ref: String,
    /// The app, where the repository has several and one was chosen.
    pub(in crate::cli::bart) app: Option<AppName>,
    /// The WAMLs of the deployed apps in that commit, if the commit is on this machine.
    pub(in crate::cli::bart) wamls: Vec<TreeWaml>,
    /// Warnings for the person before the deployment.
    pub(in crate::cli::bart) warnings: Vec<String>,
}

/// A WAML of the commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli::bart) struct TreeWaml {
    /// Its path in the repository.
    pub(in crate::cli::bart) path: String,
    pub(in crate::cli::bart) bytes: Vec<u8>,
    /// The files that it names, as the commit has them.
    pub(in crate::cli::bart) extra_files: ExtraFiles,
}

/// Reads the working folder, for the app of that name or for all. A ref that is not on this machine is no error: the code host decides whether it exists.
pub(in crate::cli::bart) fn read_tree(
    folder: &Path,
    git_ref: Option<&str>,
    app: Option<&str>,
) -> Result<Tree, CliError> {
    let unknown = |reason: String| {
        CliError::usage(format!("which commit is to be deployed? {reason}"))
            .hint("name a branch, a tag or a commit with --ref")
    };
    let repository = Repository::discover(folder);
    match (repository, git_ref) {
        (Ok(git), Some(git_ref)) => of_ref(&git, git_ref, app),
        (Ok(git), None) => {
            let head = git.head().and_then(|head| head.peel_to_commit());
            let head = head.map_err(|error| unknown(error.message().to_owned()))?;
            let warnings = warnings_of(&git, &head, app);
            let warnings = warnings.map_err(|error| unknown(error.message().to_owned()))?;
            let tree = tree_of(&git, &head, head.id().to_string(), app)?;
            Ok(Tree { warnings, ..tree })
        }
        (Err(_), Some(git_ref)) => unknown_ref(git_ref, app),
        (Err(_), None) => Err(unknown("the working folder is in no git repository".to_owned())),
    }
}

fn unknown_ref(git_ref: &str, app: Option<&str>) -> Result<Tree, CliError> {
    let warnings =
        vec![format!("{git_ref} is not on this machine, so its {WAML_FILE} is not checked here")];
    let app = app.map(AppName::parse).transpose();
    let app = app.map_err(|error| CliError::usage(error.to_string()))?;
    Ok(Tree { git_ref: git_ref.to_owned(), app, wamls: Vec::new(), warnings })
}

/// Resolves a branch, tag or commit on this machine; a remote's branch goes before a local one of the same name,
/// because the code host has that one.
fn of_ref(git: &Repository, git_ref: &str, app: Option<&str>) -> Result<Tree, CliError> {
    let names = [format!("refs/remotes/origin/{git_ref}"), git_ref.to_owned()];
    let commit =
        names.iter().find_map(|name| git.revparse_single(name).ok()?.peel_to_commit().ok());
    let Some(commit) = commit else { return unknown_ref(git_ref, app) };
    tree_of(git, &commit, git_ref.to_owned(), app)
}

/// Returns what the person should know of the commit that is checked out.
fn warnings_of(
    git: &Repository,
    commit: &git2::Commit<'_>,
    app: Option<&str>,
) -> Result<Vec<String>, git2::Error> {
    let id = commit.id();
    let full_id = id.to_string();
    let short = short(&full_id);
    let mut warnings = Vec::new();
    if !is_pushed(git, id)? {
        warnings.push(format!("{short} was not pushed yet, as far as this machine knows"));
    }
    let files = changed_files(git)?;
    if let Some(waml) = changed_waml(&files, app) {
        warnings.push(format!(
            "{waml} has changes that are not committed: {short} is deployed, without them"
        ));
    } else if !files.is_empty() {
        warnings.push(format!(
            "{} {} not committed: {short} is deployed, without {}",
            files.len(),
            if files.len() == 1 { "file is" } else { "files are" },
            if files.len() == 1 { "it" } else { "them" },
        ));
    }
    Ok(warnings)
}

/// Finds a changed file that is the app's WAML, or that of any app.
fn changed_waml<'f>(files: &'f [String], app: Option<&str>) -> Option<&'f str> {
    let is_waml = |file: &&String| {
        app_of(WAML_FILE, file).is_some_and(|name| app.is_none_or(|app| name.as_str() == app))
    };
    files.iter().find(is_waml).map(String::as_str)
}

/// Reads the WAMLs of a commit: of the chosen app, or of all.
fn tree_of(
    git: &Repository,
    commit: &git2::Commit<'_>,
    git_ref: String,
    app: Option<&str>,
) -> Result<Tree, CliError> {
    let files = files_of(git, commit);
    let path_of = |app: &AppName| files.path_of(app);
    let read = |path: &str| read_waml(git, commit, path);
    let key_of = |app: &AppName| {
        let waml = read(&path_of(app))?;
        Some(Waml::parse(&waml.path, &waml.bytes).ok()?.app)
    };
    if files.apps().is_empty() {
        // The code host says that there is none.
        return Ok(Tree { git_ref, app: None, wamls: Vec::new(), warnings: Vec::new() });
    }
    let (app, paths) = match choose_app(&files, app, key_of)? {
        AppChoice::Only => (None, vec![WAML_FILE.to_owned()]),
        AppChoice::One(app) => (Some(app.clone()), vec![path_of(&app)]),
        AppChoice::All(apps) => (None, apps.iter().map(path_of).collect()),
    };
    let wamls = paths.iter().filter_map(|path| read(path)).collect();
    Ok(Tree { git_ref, app, wamls, warnings: Vec::new() })
}

fn files_of(git: &Repository, commit: &git2::Commit<'_>) -> AppFiles {
    let tree = commit.tree().ok();
    let is_file = |path: &str| {
        let entry = tree.as_ref()?.get_path(Path::new(path)).ok()?;
        (entry.kind() == Some(git2::ObjectType::Blob)).then_some(())
    };
    let folder = folder_of(WAML_FILE).and_then(|folder| {
        let entry = tree.as_ref()?.get_path(Path::new(folder)).ok()?;
        git.find_tree(entry.id()).ok()
    });
    let names: Vec<String> = folder
        .iter()
        .flat_map(git2::Tree::iter)
        .filter(|entry| entry.kind() == Some(git2::ObjectType::Blob))
        .filter_map(|entry| entry.name().ok().map(str::to_owned))
        .collect();
    let names = names.iter().map(String::as_str);
    AppFiles::of_names(WAML_FILE, is_file(WAML_FILE).is_some(), names)
}

/// Reads a WAML of a commit, and the files that it names.
fn read_waml(git: &Repository, commit: &git2::Commit<'_>, path: &str) -> Option<TreeWaml> {
    let id = commit.tree().ok()?.get_path(Path::new(path)).ok()?.id();
    let bytes = git.find_blob(id).ok()?.content().to_owned();
    let waml = Waml::parse(path, &bytes).ok();
    let files = waml.map(|waml| extra_files::from_commit(&waml, git, commit));
    Some(TreeWaml { path: path.to_owned(), bytes, extra_files: files.unwrap_or_default() })
}

/// Returns whether a remote branch has the commit, as of the last fetch.
fn is_pushed(git: &Repository, id: Oid) -> Result<bool, git2::Error> {
    for branch in git.branches(Some(git2::BranchType::Remote))?.take(MAX_BRANCHES) {
        let (branch, _) = branch?;
        let Some(tip) = branch.get().resolve()?.target() else { continue };
        if tip == id || git.graph_descendant_of(tip, id)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Lists the tracked files that differ from the commit.
fn changed_files(git: &Repository) -> Result<Vec<String>, git2::Error> {
    if git.is_bare() {
        return Ok(Vec::new());
    }
    let mut options = StatusOptions::new();
    options.include_untracked(false).include_ignored(false).exclude_submodules(true);
    let statuses = git.statuses(Some(&mut options))?;
    Ok(statuses.iter().filter_map(|entry| Some(entry.path().ok()?.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository with a commit; the folder, and the commit's id.
    fn repository() -> (tempfile::TempDir, Repository, Oid) {
        let folder = tempfile::tempdir().unwrap();
        let git = Repository::init(folder.path()).unwrap();
        std::fs::write(folder.path().join(WAML_FILE), "first").unwrap();
        std::fs::write(folder.path().join("main.rs"), "").unwrap();
        let id = commit(&git);
        (folder, git, id)
    }

    fn text(tree: &Tree) -> &str {
        let [waml] = tree.wamls.as_slice() else { panic!("{tree:?}") };
        std::str::from_utf8(&waml.bytes).unwrap()
    }

    fn commit(git: &Repository) -> Oid {
        let mut index = git.index().unwrap();
        index.add_all(["."], git2::IndexAddOption::DEFAULT, None).unwrap();
        index.write().unwrap();
        let tree = git.find_tree(index.write_tree().unwrap()).unwrap();
        let signature = git2::Signature::new("t", "t@example.com", &git2::Time::new(0, 0)).unwrap();
        let parent = git.head().ok().and_then(|head| head.peel_to_commit().ok());
        git.commit(
            Some("HEAD"),
            &signature,
            &signature,
            "m",
            &tree,
            &parent.iter().collect::<Vec<_>>(),
        )
        .unwrap()
    }

    #[test]
    fn the_commit_is_deployed_and_what_it_lacks_is_told() {
        let (folder, git, id) = repository();
        let tree = read_tree(folder.path(), None, None).unwrap();
        assert_eq!((tree.git_ref.as_str(), text(&tree)), (id.to_string().as_str(), "first"));
        assert!(tree.warnings[0].contains("was not pushed yet"), "{:?}", tree.warnings);
        git.reference("refs/remotes/origin/main", id, true, "").unwrap();
        assert_eq!(read_tree(folder.path(), None, None).unwrap().warnings, Vec::<String>::new());
        std::fs::write(folder.path().join("notes.txt"), "not followed").unwrap();
        assert_eq!(read_tree(folder.path(), None, None).unwrap().warnings, Vec::<String>::new());
        std::fs::write(folder.path().join("main.rs"), "changed").unwrap();
        let warnings = read_tree(folder.path(), None, None).unwrap().warnings;
        assert!(warnings[0].starts_with("1 file is not committed"), "{warnings:?}");
        std::fs::write(folder.path().join(WAML_FILE), "second").unwrap();
        let tree = read_tree(folder.path(), None, None).unwrap();
        assert!(tree.warnings[0].contains("without them"), "{:?}", tree.warnings);
        assert_eq!(text(&tree), "first", "the commit's counts");
    }

    #[test]
    fn a_ref_is_what_the_remote_has_of_it() {
        let (folder, git, first) = repository();
        std::fs::write(folder.path().join(WAML_FILE), "second").unwrap();
        let second = commit(&git);
        git.reference("refs/remotes/origin/topic", first, true, "").unwrap();
        git.reference("refs/heads/topic", second, true, "").unwrap();
        let waml = |git_ref: &str| {
            text(&read_tree(folder.path(), Some(git_ref), None).unwrap()).to_owned()
        };
        assert_eq!(waml("topic"), "first");
        assert_eq!(waml(&second.to_string()), "second");
        let unknown = read_tree(folder.path(), Some("none"), None).unwrap();
        assert_eq!((unknown.git_ref.as_str(), unknown.wamls), ("none", Vec::new()));
        assert!(unknown.warnings[0].contains("is not on this machine"), "{:?}", unknown.warnings);
    }

    #[test]
    fn one_of_several_apps_is_chosen_and_all_without_a_name() {
        let (folder, git, _) = repository();
        std::fs::create_dir(folder.path().join(".weave")).unwrap();
        std::fs::write(folder.path().join(".weave/worker.yaml"), "third").unwrap();
        let id = commit(&git);
        git.reference("refs/remotes/origin/main", id, true, "").unwrap();
        let tree = read_tree(folder.path(), None, Some("worker")).unwrap();
        assert_eq!((text(&tree), tree.app.as_ref().unwrap().as_str()), ("third", "worker"));
        let all = read_tree(folder.path(), None, None).unwrap();
        let paths: Vec<&str> = all.wamls.iter().map(|waml| waml.path.as_str()).collect();
        assert_eq!((paths, all.app), (vec![WAML_FILE, ".weave/worker.yaml"], None));
        let error = read_tree(folder.path(), None, Some("wokrer")).unwrap_err().whole();
        assert!(error.contains("`.weave.yaml` and `worker`"), "{error}");
        std::fs::write(folder.path().join(".weave/worker.yaml"), "other").unwrap();
        let warnings = read_tree(folder.path(), None, Some("worker")).unwrap().warnings;
        assert!(warnings[0].starts_with(".weave/worker.yaml has changes"), "{warnings:?}");
    }

    #[test]
    fn without_a_repository_a_ref_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let message = read_tree(folder.path(), None, None).unwrap_err().to_string();
        assert!(message.contains("in no git repository"), "{message}");
        assert!(read_tree(folder.path(), Some("main"), None).is_ok());
        Repository::init(folder.path()).unwrap();
        assert!(read_tree(folder.path(), None, None).is_err(), "no commit yet");
    }
}
