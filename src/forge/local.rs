//! The local code host: bare repositories `<root>/<owner>/<name>.git`, read with libgit2.
//!
//! It is for trying the product out and for tests. It has no statuses; the database keeps them.

use std::path::{Component, Path, PathBuf};

use git2::{BranchType, Commit, ErrorClass, ErrorCode, ObjectType, Oid, Repository};

use crate::forge::branches::BranchQuery;
use crate::forge::error::ForgeError;
use crate::model::id::{CommitSha, RepoName};
use crate::support::disk;

/// A folder of bare repositories.
#[derive(Debug, Clone)]
pub struct LocalForge {
    root: PathBuf,
}

impl LocalForge {
    /// Opens the code host in that folder.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the bytes of a file at a commit, at most `limit` of them.
    pub(super) async fn file(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        path: &str,
        limit: usize,
    ) -> Result<Vec<u8>, ForgeError> {
        let (commit, path) = (commit.clone(), path.to_owned());
        self.read(repository, move |reader, git| reader.file(git, &commit, &path, limit)).await
    }

    /// Lists the names of the files in a folder at a commit; `None` where there is no such folder.
    pub(super) async fn file_names(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        folder: &str,
    ) -> Result<Option<Vec<String>>, ForgeError> {
        let (commit, folder) = (commit.clone(), folder.to_owned());
        self.read(repository, move |reader, git| reader.file_names(git, &commit, &folder)).await
    }

    /// Returns the wanted branches that have the commit, by name.
    pub(super) async fn branches_with(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        wanted: BranchQuery,
    ) -> Result<Vec<String>, ForgeError> {
        let commit = commit.clone();
        self.read(repository, move |reader, git| reader.branches(git, &commit, &wanted)).await
    }

    /// Returns the commit that a branch, a tag, or a whole commit id leads to; `None` where there is none. A branch
    /// goes before a tag of the same name.
    ///
    /// # Errors
    /// [`ForgeError`] where the repository cannot be read.
    pub async fn commit_of(
        &self,
        repository: &RepoName,
        git_ref: &str,
    ) -> Result<Option<CommitSha>, ForgeError> {
        let git_ref = git_ref.to_owned();
        self.read(repository, move |_, git| Ok(resolve(git, &git_ref))).await
    }

    async fn read<T: Send + 'static>(
        &self,
        repository: &RepoName,
        look: impl FnOnce(&Read, &Repository) -> Result<T, ForgeError> + Send + 'static,
    ) -> Result<T, ForgeError> {
        let host = self.root.display().to_string();
        let reader = Read { root: self.root.clone(), repository: repository.clone() };
        let reading = move || {
            let git = Repository::open_bare(reader.folder()?);
            look(&reader, &git.map_err(|error| reader.not_opened(&error))?)
        };
        tokio::task::spawn_blocking(reading)
            .await
            .map_err(|error| ForgeError::Unreachable { host, problem: error.to_string() })?
    }
}

/// One read of a repository, with the names for its errors.
struct Read {
    root: PathBuf,
    repository: RepoName,
}

impl Read {
    fn file(
        &self,
        git: &Repository,
        commit: &CommitSha,
        path: &str,
        limit: usize,
    ) -> Result<Vec<u8>, ForgeError> {
        let (repository, path_text) = (|| self.repository.clone(), || path.to_owned());
        let no_file = || ForgeError::NoFile {
            repository: repository(),
            commit: commit.clone(),
            path: path_text(),
        };
        let is_inside =
            Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        if path.is_empty() || !is_inside {
            return Err(no_file());
        }
        let tree = self.commit(git, commit)?.tree();
        let tree = tree.map_err(|error| self.no_commit(commit, &error))?;
        let blob = match tree.get_path(Path::new(path)) {
            // A symbolic link would be read as a file that holds a path.
            Ok(entry) if entry.filemode() == i32::from(git2::FileMode::Link) => {
                return Err(no_file());
            }
            Ok(entry) => entry.id(),
            Err(error) if is_absent(&error) => return Err(no_file()),
            Err(error) => return Err(self.corrupt(&error)),
        };
        let odb = git.odb().map_err(|error| self.corrupt(&error))?;
        // The header first: a huge file is refused without being read.
        let (size, kind) = odb.read_header(blob).map_err(|error| self.corrupt(&error))?;
        if kind != ObjectType::Blob {
            return Err(no_file());
        }
        if size > limit {
            return Err(ForgeError::TooLarge {
                repository: repository(),
                path: path_text(),
                limit,
            });
        }
        let object = odb.read(blob).map_err(|error| self.corrupt(&error))?;
        Ok(object.data().to_vec())
    }

    fn file_names(
        &self,
        git: &Repository,
        commit: &CommitSha,
        folder: &str,
    ) -> Result<Option<Vec<String>>, ForgeError> {
        let tree = self.commit(git, commit)?.tree();
        let tree = tree.map_err(|error| self.no_commit(commit, &error))?;
        let entry = match tree.get_path(Path::new(folder)) {
            Ok(entry) if entry.kind() == Some(ObjectType::Tree) => entry.id(),
            Ok(_) => return Ok(None),
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(self.corrupt(&error)),
        };
        let folder = git.find_tree(entry).map_err(|error| self.corrupt(&error))?;
        let is_file = |entry: &git2::TreeEntry<'_>| {
            entry.kind() == Some(ObjectType::Blob)
                && entry.filemode() != i32::from(git2::FileMode::Link)
        };
        let files = folder.iter().filter(is_file);
        Ok(Some(files.filter_map(|entry| entry.name().ok().map(str::to_owned)).collect()))
    }

    fn branches(
        &self,
        git: &Repository,
        commit: &CommitSha,
        query: &BranchQuery,
    ) -> Result<Vec<String>, ForgeError> {
        let commit = self.commit(git, commit)?.id();
        let corrupt = |error| self.corrupt(&error);
        let mut branches = Vec::new();
        for branch in git.branches(Some(BranchType::Local)).map_err(corrupt)? {
            let (branch, _) = branch.map_err(corrupt)?;
            let (Ok(Some(name)), Some(tip)) = (branch.name(), branch.get().target()) else {
                continue;
            };
            let is_on = || Ok(tip == commit || git.graph_descendant_of(tip, commit)?);
            if query.contains_branch(name) && is_on().map_err(corrupt)? {
                branches.push(name.to_owned());
            }
        }
        Ok(branches)
    }

    fn commit<'git>(
        &self,
        git: &'git Repository,
        commit: &CommitSha,
    ) -> Result<Commit<'git>, ForgeError> {
        let found_commit = Oid::from_str(commit.as_str()).and_then(|id| git.find_commit(id));
        found_commit.map_err(|error| self.no_commit(commit, &error))
    }

    fn no_commit(&self, commit: &CommitSha, error: &git2::Error) -> ForgeError {
        if is_absent(error) {
            ForgeError::NoCommit { repository: self.repository.clone(), commit: commit.clone() }
        } else {
            self.corrupt(error)
        }
    }

    /// Returns the folder of the repository. A link that leads out of the root is as good as not
    /// there.
    fn folder(&self) -> Result<PathBuf, ForgeError> {
        let (owner, name) = (self.repository.owner(), self.repository.name());
        let folder = self.root.join(owner).join(format!("{name}.git"));
        let root = self.root.canonicalize().map_err(|_| self.no_repository())?;
        let folder = folder.canonicalize().map_err(|_| self.no_repository())?;
        if folder.starts_with(&root) { Ok(folder) } else { Err(self.no_repository()) }
    }

    fn not_opened(&self, error: &git2::Error) -> ForgeError {
        match error.code() {
            ErrorCode::Owner => ForgeError::Unauthorized {
                host: self.root.display().to_string(),
                about: self.repository.to_string(),
                help: "the folder belongs to another user; add it to git's safe.directory".into(),
            },
            ErrorCode::NotFound => self.no_repository(),
            _ => self.corrupt(error),
        }
    }

    fn no_repository(&self) -> ForgeError {
        let folder = self.root.join(format!("{}.git", self.repository));
        ForgeError::NoRepository {
            repository: self.repository.clone(),
            help: format!("create it with `git clone --bare SOURCE {}`", folder.display()),
        }
    }

    fn corrupt(&self, error: &git2::Error) -> ForgeError {
        let (repository, problem) = (self.repository.clone(), error.message().to_owned());
        match disk::shortage_of_files(&self.root, &problem) {
            Some(problem) => ForgeError::OpenFiles { repository, problem },
            None => ForgeError::Corrupt { repository, problem },
        }
    }
}

/// Checks that the error means that the object does not exist, or is of another kind.
fn is_absent(error: &git2::Error) -> bool {
    matches!(error.code(), ErrorCode::NotFound | ErrorCode::InvalidSpec)
        || (error.class() == ErrorClass::Invalid && error.code() == ErrorCode::GenericError)
}

/// Resolves a name to a commit. Only whole names count: an expression would mean something else tomorrow.
fn resolve(git: &Repository, git_ref: &str) -> Option<CommitSha> {
    let names =
        [git_ref.to_owned(), format!("refs/heads/{git_ref}"), format!("refs/tags/{git_ref}")];
    let by_name = names
        .iter()
        .filter(|name| name.starts_with("refs/"))
        .find_map(|name| git.find_reference(name).ok()?.peel_to_commit().ok());
    let by_id = || {
        let id = (git_ref.len() == 40).then(|| Oid::from_str(git_ref).ok()).flatten()?;
        git.find_commit(id).ok()
    };
    let object = by_name.or_else(by_id)?;
    CommitSha::parse(object.id().to_string()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        folder: tempfile::TempDir,
        commit: CommitSha,
    }

    /// Builds `acme/shop` with `.weave.yaml`, a folder `sub` and a link.
    fn world() -> World {
        let folder = tempfile::tempdir().unwrap();
        let git = Repository::init_bare(folder.path().join("root/acme/shop.git")).unwrap();
        let file = git.blob(b"name: Shop\n").unwrap();
        let link = git.blob(b"/etc/passwd").unwrap();
        let mut tree = git.treebuilder(None).unwrap();
        tree.insert("inner", file, 0o100_644).unwrap();
        let sub = tree.write().unwrap();
        tree.remove("inner").unwrap();
        tree.insert(".weave.yaml", file, 0o100_644).unwrap();
        tree.insert("sub", sub, 0o040_000).unwrap();
        tree.insert("link", link, 0o120_000).unwrap();
        let tree = git.find_tree(tree.write().unwrap()).unwrap();
        let time = git2::Time::new(0, 0);
        let signature = git2::Signature::new("t", "t@example.com", &time).unwrap();
        let commit = git.commit(Some("HEAD"), &signature, &signature, "first", &tree, &[]).unwrap();
        World { folder, commit: CommitSha::parse(commit.to_string()).unwrap() }
    }

    impl World {
        async fn file(&self, repository: &str, path: &str) -> Result<Vec<u8>, ForgeError> {
            let local = LocalForge::new(self.folder.path().join("root"));
            local.file(&RepoName::parse(repository).unwrap(), &self.commit, path, 100).await
        }
    }

    #[tokio::test]
    async fn a_commit_is_on_the_branches_that_lead_back_to_it() {
        let world = world();
        let git = Repository::open_bare(world.folder.path().join("root/acme/shop.git")).unwrap();
        let first = git.find_commit(Oid::from_str(world.commit.as_str()).unwrap()).unwrap();
        let (signature, tree) = (first.author(), first.tree().unwrap());
        let second = git.commit(None, &signature, &signature, "second", &tree, &[&first]).unwrap();
        let other = git.commit(None, &signature, &signature, "other", &tree, &[]).unwrap();
        for (name, tip) in [("release/1", second), ("other", other), ("same", first.id())] {
            git.branch(name, &git.find_commit(tip).unwrap(), true).unwrap();
        }
        let branches_with = async |globs: &[&str], commit: Oid| {
            let globs: Vec<String> = globs.iter().map(|glob| (*glob).to_owned()).collect();
            let local = LocalForge::new(world.folder.path().join("root"));
            let commit = CommitSha::parse(commit.to_string()).unwrap();
            let shop = RepoName::parse("acme/shop").unwrap();
            local.branches_with(&shop, &commit, BranchQuery::of(&globs)).await
        };
        assert_eq!(
            branches_with(&["release/*", "other", "same"], first.id()).await.unwrap(),
            ["release/1", "same"]
        );
        assert_eq!(branches_with(&["**"], second).await.unwrap(), ["release/1"]);
        assert_eq!(branches_with(&["same", "none"], second).await.unwrap(), [""; 0]);
        let unknown_id = Oid::from_str(&"1".repeat(40)).unwrap();
        assert!(matches!(
            branches_with(&["**"], unknown_id).await,
            Err(ForgeError::NoCommit { .. })
        ));
    }

    #[tokio::test]
    async fn a_file_is_read_at_its_commit() {
        let world = world();
        assert_eq!(world.file("acme/shop", ".weave.yaml").await.unwrap(), b"name: Shop\n");
        assert_eq!(world.file("acme/shop", "sub/inner").await.unwrap(), b"name: Shop\n");
    }

    #[tokio::test]
    async fn what_is_missing_is_named_with_what_to_do() {
        let world = world();
        let message = |result: Result<Vec<u8>, ForgeError>| result.unwrap_err().to_string();
        let error = message(world.file("acme/none", ".weave.yaml").await);
        assert!(
            error.contains("acme/none is not there: create it with `git clone --bare"),
            "{error}"
        );
        for path in
            ["none", "sub", "link", "../shop.git/HEAD", "/etc/passwd", "", "sub/none", "a/b"]
        {
            let error = world.file("acme/shop", path).await.unwrap_err();
            assert!(matches!(error, ForgeError::NoFile { .. }), "{path}: {error}");
        }
    }

    #[tokio::test]
    async fn a_commit_that_is_not_there_or_no_commit_is_said_so() {
        let mut world = world();
        let blob = Oid::hash_object(ObjectType::Blob, b"name: Shop\n").unwrap().to_string();
        for id in ["0".repeat(40), "1".repeat(64), blob] {
            world.commit = CommitSha::parse(id).unwrap();
            let error = world.file("acme/shop", ".weave.yaml").await.unwrap_err();
            assert!(matches!(error, ForgeError::NoCommit { .. }), "{error}");
            assert_eq!(error.disposition(), crate::support::retry::Disposition::Stop);
        }
    }

    #[tokio::test]
    async fn a_file_over_the_limit_is_refused() {
        let world = world();
        let local = LocalForge::new(world.folder.path().join("root"));
        let repository = RepoName::parse("acme/shop").unwrap();
        let error = local.file(&repository, &world.commit, ".weave.yaml", 10).await.unwrap_err();
        assert!(matches!(error, ForgeError::TooLarge { limit: 10, .. }), "{error}");
        assert!(local.file(&repository, &world.commit, ".weave.yaml", 11).await.is_ok());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_link_out_of_the_root_leads_nowhere() {
        let world = world();
        let outside_repository = world.folder.path().join("outside.git");
        std::fs::rename(world.folder.path().join("root/acme/shop.git"), &outside_repository)
            .unwrap();
        let link = world.folder.path().join("root/acme/shop.git");
        std::os::unix::fs::symlink(&outside_repository, link).unwrap();
        let error = world.file("acme/shop", ".weave.yaml").await.unwrap_err();
        assert!(matches!(error, ForgeError::NoRepository { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_folder_that_is_no_repository_is_an_error() {
        let world = world();
        std::fs::create_dir(world.folder.path().join("root/acme/empty.git")).unwrap();
        let error = world.file("acme/empty", ".weave.yaml").await.unwrap_err();
        assert!(matches!(error, ForgeError::NoRepository { .. }), "{error}");
    }

    #[tokio::test]
    async fn branches_tags_and_commits_are_found_by_their_whole_names() {
        let folder = tempfile::tempdir().unwrap();
        let git = Repository::init_bare(folder.path().join("acme/shop.git")).unwrap();
        let tree = git.find_tree(git.treebuilder(None).unwrap().write().unwrap()).unwrap();
        let signature = git2::Signature::new("t", "t@example.com", &git2::Time::new(0, 0)).unwrap();
        let commit =
            git.commit(Some("refs/heads/main"), &signature, &signature, "m", &tree, &[]).unwrap();
        let object = git.find_object(commit, None).unwrap();
        git.tag("v1", &object, &signature, "one", false).unwrap();
        let local = LocalForge::new(folder.path());
        let shop = RepoName::parse("acme/shop").unwrap();
        let id = commit.to_string();
        for git_ref in ["main", "refs/heads/main", "v1", "refs/tags/v1", &id] {
            let commit_found = local.commit_of(&shop, git_ref).await.unwrap();
            assert_eq!(commit_found.unwrap().as_str(), id, "{git_ref}");
        }
        for git_ref in ["", "none", "main~1", "HEAD@{1}", "../x", &id[..12], &"1".repeat(40)] {
            assert_eq!(local.commit_of(&shop, git_ref).await.unwrap(), None, "{git_ref}");
        }
        let no_repository = RepoName::parse("acme/none").unwrap();
        let error = local.commit_of(&no_repository, "main").await.unwrap_err();
        assert!(matches!(error, ForgeError::NoRepository { .. }), "{error}");
    }
}
