//! Reads the working folder's git repository: the commit to deploy, and whether it was pushed.

use std::path::Path;

use git2::{Oid, Repository, StatusOptions};

use crate::cli::context::WAML_FILE;
use crate::cli::error::CliError;
use crate::cli::extra_files;
use crate::cli::output::short;
use crate::waml::Waml;
use crate::waml::extra_files::ExtraFiles;

/// The largest number of branches that are searched: a repository has some hundred, and more would take too long.
const MAX_BRANCHES: usize = 500;

/// The commit to deploy, as far as this machine has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli::bart) struct Tree {
    /// The ref for the code host: a commit's id, or the value of `--ref`.
    pub(in crate::cli::bart) git_ref: String,
    /// The WAML of that commit, if the commit is on this machine.
    pub(in crate::cli::bart) waml: Option<Vec<u8>>,
    /// The files that the WAML names, as the commit has them.
    pub(in crate::cli::bart) extra_files: ExtraFiles,
    /// Warnings for the person before the deployment.
    pub(in crate::cli::bart) warnings: Vec<String>,
}

/// Reads the working folder. A ref that is not on this machine is no error: the code host decides whether it exists.
pub(in crate::cli::bart) fn read_tree(
    folder: &Path,
    git_ref: Option<&str>,
) -> Result<Tree, CliError> {
    let unknown = |reason: String| {
        CliError::usage(format!("which commit is to be deployed? {reason}"))
            .hint("name a branch, a tag or a commit with --ref")
    };
    let repository = Repository::discover(folder);
    match (repository, git_ref) {
        (Ok(git), Some(git_ref)) => Ok(of_ref(&git, git_ref)),
        (Ok(git), None) => of_head(&git).map_err(|error| unknown(error.message().to_owned())),
        (Err(_), Some(git_ref)) => Ok(unknown_ref(git_ref)),
        (Err(_), None) => Err(unknown("the working folder is in no git repository".to_owned())),
    }
}

fn unknown_ref(git_ref: &str) -> Tree {
    let warnings =
        vec![format!("{git_ref} is not on this machine, so its {WAML_FILE} is not checked here")];
    Tree { git_ref: git_ref.to_owned(), waml: None, extra_files: ExtraFiles::default(), warnings }
}

/// Resolves a branch, tag or commit on this machine; a remote's branch goes before a local one of the same name,
/// because the code host has that one.
fn of_ref(git: &Repository, git_ref: &str) -> Tree {
    let names = [format!("refs/remotes/origin/{git_ref}"), git_ref.to_owned()];
    let commit =
        names.iter().find_map(|name| git.revparse_single(name).ok()?.peel_to_commit().ok());
    let Some(commit) = commit else { return unknown_ref(git_ref) };
    let (waml, extra_files) = waml_of(git, &commit);
    Tree { git_ref: git_ref.to_owned(), waml, extra_files, warnings: Vec::new() }
}

fn of_head(git: &Repository) -> Result<Tree, git2::Error> {
    let commit = git.head()?.peel_to_commit()?;
    let id = commit.id();
    let full_id = id.to_string();
    let short = short(&full_id);
    let mut warnings = Vec::new();
    if !is_pushed(git, id)? {
        warnings.push(format!("{short} was not pushed yet, as far as this machine knows"));
    }
    match changed_files(git)?.as_slice() {
        [] => {}
        files if files.iter().any(|file| file == WAML_FILE) => warnings.push(format!(
            "{WAML_FILE} has changes that are not committed: {short} is deployed, without them"
        )),
        files => warnings.push(format!(
            "{} {} not committed: {short} is deployed, without {}",
            files.len(),
            if files.len() == 1 { "file is" } else { "files are" },
            if files.len() == 1 { "it" } else { "them" },
        )),
    }
    let (waml, extra_files) = waml_of(git, &commit);
    Ok(Tree { git_ref: full_id, waml, extra_files, warnings })
}

/// Reads the WAML of a commit, and the files that it names.
fn waml_of(git: &Repository, commit: &git2::Commit<'_>) -> (Option<Vec<u8>>, ExtraFiles) {
    let read = || {
        let id = commit.tree().ok()?.get_name(WAML_FILE)?.id();
        Some(git.find_blob(id).ok()?.content().to_owned())
    };
    let bytes: Option<Vec<u8>> = read();
    let waml = bytes.as_ref().and_then(|bytes| Waml::parse(WAML_FILE, bytes).ok());
    let files = waml.map(|waml| extra_files::from_commit(&waml, git, commit));
    (bytes, files.unwrap_or_default())
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
        let tree = read_tree(folder.path(), None).unwrap();
        assert_eq!((tree.git_ref, tree.waml.unwrap()), (id.to_string(), b"first".to_vec()));
        assert!(tree.warnings[0].contains("was not pushed yet"), "{:?}", tree.warnings);
        git.reference("refs/remotes/origin/main", id, true, "").unwrap();
        assert_eq!(read_tree(folder.path(), None).unwrap().warnings, Vec::<String>::new());
        std::fs::write(folder.path().join("notes.txt"), "not followed").unwrap();
        assert_eq!(read_tree(folder.path(), None).unwrap().warnings, Vec::<String>::new());
        std::fs::write(folder.path().join("main.rs"), "changed").unwrap();
        let warnings = read_tree(folder.path(), None).unwrap().warnings;
        assert!(warnings[0].starts_with("1 file is not committed"), "{warnings:?}");
        std::fs::write(folder.path().join(WAML_FILE), "second").unwrap();
        let tree = read_tree(folder.path(), None).unwrap();
        assert!(tree.warnings[0].contains("without them"), "{:?}", tree.warnings);
        assert_eq!(tree.waml.unwrap(), b"first", "the commit's counts");
    }

    #[test]
    fn a_ref_is_what_the_remote_has_of_it() {
        let (folder, git, first) = repository();
        std::fs::write(folder.path().join(WAML_FILE), "second").unwrap();
        let second = commit(&git);
        git.reference("refs/remotes/origin/topic", first, true, "").unwrap();
        git.reference("refs/heads/topic", second, true, "").unwrap();
        let waml = |git_ref: &str| read_tree(folder.path(), Some(git_ref)).unwrap().waml.unwrap();
        assert_eq!(waml("topic"), b"first");
        assert_eq!(waml(&second.to_string()), b"second");
        let unknown = read_tree(folder.path(), Some("none")).unwrap();
        assert_eq!((unknown.git_ref.as_str(), unknown.waml), ("none", None));
        assert!(unknown.warnings[0].contains("is not on this machine"), "{:?}", unknown.warnings);
    }

    #[test]
    fn without_a_repository_a_ref_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let message = read_tree(folder.path(), None).unwrap_err().to_string();
        assert!(message.contains("in no git repository"), "{message}");
        assert!(read_tree(folder.path(), Some("main")).is_ok());
        Repository::init(folder.path()).unwrap();
        assert!(read_tree(folder.path(), None).is_err(), "no commit yet");
    }
}
