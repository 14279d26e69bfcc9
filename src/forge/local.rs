//! The local code host: bare repositories `<root>/<owner>/<name>.git`, read with libgit2.
//!
//! For trying the product out and for tests; nobody is told of statuses, the store shows them.

mod refs; // branches and tags by their names

use std::path::{Component, Path, PathBuf};

use git2::{BranchType, ErrorClass, ErrorCode, ObjectType, Oid, Repository};

use crate::forge::branches::Wanted;
use crate::forge::error::ForgeError;
use crate::model::id::{CommitSha, RepoName};
use crate::support::disk;

/// A folder of bare repositories.
#[derive(Debug, Clone)]
pub struct Local {
    root: PathBuf,
}

impl Local {
    /// The code host in that folder.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The bytes of a file at a commit, at most `limit` of them.
    ///
    /// # Errors
    /// [`ForgeError`] says what is missing.
    pub async fn file(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        path: &str,
        limit: usize,
    ) -> Result<Vec<u8>, ForgeError> {
        let read = Read {
            root: self.root.clone(),
            repository: repository.clone(),
            commit: commit.clone(),
            path: path.to_owned(),
            limit,
        };
        let host = self.root.display().to_string();
        tokio::task::spawn_blocking(move || read.run())
            .await
            .map_err(|error| ForgeError::Unreachable { host, problem: error.to_string() })?
    }
}

impl Local {
    /// The branches that are meant and have the commit, by name.
    pub(super) async fn branches_with(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        wanted: Wanted,
    ) -> Result<Vec<String>, ForgeError> {
        let read = Read {
            root: self.root.clone(),
            repository: repository.clone(),
            commit: commit.clone(),
            path: String::new(),
            limit: 0,
        };
        let host = self.root.display().to_string();
        tokio::task::spawn_blocking(move || read.branches(&wanted))
            .await
            .map_err(|error| ForgeError::Unreachable { host, problem: error.to_string() })?
    }
}

/// One reading, with everything that its errors name.
struct Read {
    root: PathBuf,
    repository: RepoName,
    commit: CommitSha,
    path: String,
    limit: usize,
}

impl Read {
    fn run(&self) -> Result<Vec<u8>, ForgeError> {
        let folder = self.folder()?;
        let git = Repository::open_bare(folder).map_err(|error| self.not_opened(&error))?;
        let blob = self.blob(&git)?;
        let odb = git.odb().map_err(|error| self.corrupt(&error))?;
        // The header first: a huge file is refused without being read.
        let (size, kind) = odb.read_header(blob).map_err(|error| self.corrupt(&error))?;
        if kind != ObjectType::Blob {
            return Err(self.no_file());
        }
        if size > self.limit {
            return Err(self.too_large());
        }
        let object = odb.read(blob).map_err(|error| self.corrupt(&error))?;
        Ok(object.data().to_vec())
    }

    fn branches(&self, wanted: &Wanted) -> Result<Vec<String>, ForgeError> {
        let folder = self.folder()?;
        let git = Repository::open_bare(folder).map_err(|error| self.not_opened(&error))?;
        let commit = Oid::from_str(self.commit.as_str()).map_err(|_| self.no_commit())?;
        match git.find_commit(commit) {
            Ok(_) => {}
            Err(error) if is_absent(&error) => return Err(self.no_commit()),
            Err(error) => return Err(self.corrupt(&error)),
        }
        let corrupt = |error| self.corrupt(&error);
        let mut found = Vec::new();
        for branch in git.branches(Some(BranchType::Local)).map_err(corrupt)? {
            let (branch, _) = branch.map_err(corrupt)?;
            let (Ok(Some(name)), Some(tip)) = (branch.name(), branch.get().target()) else {
                continue;
            };
            let is_on = || Ok(tip == commit || git.graph_descendant_of(tip, commit)?);
            if wanted.has(name) && is_on().map_err(corrupt)? {
                found.push(name.to_owned());
            }
        }
        Ok(found)
    }

    /// Where the repository is. A link that leads out of the root is as good as not there.
    fn folder(&self) -> Result<PathBuf, ForgeError> {
        let (owner, name) = (self.repository.owner(), self.repository.name());
        let folder = self.root.join(owner).join(format!("{name}.git"));
        let root = self.root.canonicalize().map_err(|_| self.no_repository())?;
        let folder = folder.canonicalize().map_err(|_| self.no_repository())?;
        if folder.starts_with(&root) { Ok(folder) } else { Err(self.no_repository()) }
    }

    fn blob(&self, git: &Repository) -> Result<Oid, ForgeError> {
        let path = Path::new(&self.path);
        let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        if self.path.is_empty() || !inside {
            return Err(self.no_file());
        }
        let id = Oid::from_str(self.commit.as_str()).map_err(|_| self.no_commit())?;
        let tree = match git.find_commit(id).and_then(|commit| commit.tree()) {
            Ok(tree) => tree,
            Err(error) if is_absent(&error) => return Err(self.no_commit()),
            Err(error) => return Err(self.corrupt(&error)),
        };
        match tree.get_path(path) {
            // A symbolic link would be read as a file that holds a path.
            Ok(entry) if entry.filemode() == i32::from(git2::FileMode::Link) => Err(self.no_file()),
            Ok(entry) => Ok(entry.id()),
            Err(error) if is_absent(&error) => Err(self.no_file()),
            Err(error) => Err(self.corrupt(&error)),
        }
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
            help: format!("make it with `git clone --bare SOURCE {}`", folder.display()),
        }
    }

    fn no_commit(&self) -> ForgeError {
        ForgeError::NoCommit { repository: self.repository.clone(), commit: self.commit.clone() }
    }

    fn no_file(&self) -> ForgeError {
        ForgeError::NoFile {
            repository: self.repository.clone(),
            commit: self.commit.clone(),
            path: self.path.clone(),
        }
    }

    fn too_large(&self) -> ForgeError {
        let (repository, path) = (self.repository.clone(), self.path.clone());
        ForgeError::TooLarge { repository, path, limit: self.limit }
    }

    fn corrupt(&self, error: &git2::Error) -> ForgeError {
        let (repository, problem) = (self.repository.clone(), error.message().to_owned());
        match disk::shortage_of_files(&self.root, &problem) {
            Some(problem) => ForgeError::OpenFiles { repository, problem },
            None => ForgeError::Corrupt { repository, problem },
        }
    }
}

/// Not there, or there as another kind of object.
fn is_absent(error: &git2::Error) -> bool {
    matches!(error.code(), ErrorCode::NotFound | ErrorCode::InvalidSpec)
        || (error.class() == ErrorClass::Invalid && error.code() == ErrorCode::GenericError)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        folder: tempfile::TempDir,
        commit: CommitSha,
    }

    /// `acme/shop` with `.weave.yaml`, a folder `sub` and a link.
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
        let who = git2::Signature::new("t", "t@example.com", &time).unwrap();
        let commit = git.commit(Some("HEAD"), &who, &who, "first", &tree, &[]).unwrap();
        World { folder, commit: CommitSha::parse(commit.to_string()).unwrap() }
    }

    impl World {
        async fn file(&self, repository: &str, path: &str) -> Result<Vec<u8>, ForgeError> {
            let local = Local::new(self.folder.path().join("root"));
            local.file(&RepoName::parse(repository).unwrap(), &self.commit, path, 100).await
        }
    }

    #[tokio::test]
    async fn a_commit_is_on_the_branches_that_lead_back_to_it() {
        let world = world();
        let git = Repository::open_bare(world.folder.path().join("root/acme/shop.git")).unwrap();
        let first = git.find_commit(Oid::from_str(world.commit.as_str()).unwrap()).unwrap();
        let (who, tree) = (first.author(), first.tree().unwrap());
        let second = git.commit(None, &who, &who, "second", &tree, &[&first]).unwrap();
        let other = git.commit(None, &who, &who, "other", &tree, &[]).unwrap();
        for (name, tip) in [("release/1", second), ("other", other), ("same", first.id())] {
            git.branch(name, &git.find_commit(tip).unwrap(), true).unwrap();
        }
        let on = async |globs: &[&str], commit: Oid| {
            let globs: Vec<String> = globs.iter().map(|glob| (*glob).to_owned()).collect();
            let local = Local::new(world.folder.path().join("root"));
            let commit = CommitSha::parse(commit.to_string()).unwrap();
            let shop = RepoName::parse("acme/shop").unwrap();
            local.branches_with(&shop, &commit, Wanted::of(&globs)).await
        };
        assert_eq!(
            on(&["release/*", "other", "same"], first.id()).await.unwrap(),
            ["release/1", "same"]
        );
        assert_eq!(on(&["**"], second).await.unwrap(), ["release/1"]);
        assert_eq!(on(&["same", "none"], second).await.unwrap(), [""; 0]);
        let none = Oid::from_str(&"1".repeat(40)).unwrap();
        assert!(matches!(on(&["**"], none).await, Err(ForgeError::NoCommit { .. })));
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
        let none = message(world.file("acme/none", ".weave.yaml").await);
        assert!(none.contains("acme/none is not there: make it with `git clone --bare"), "{none}");
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
        let local = Local::new(world.folder.path().join("root"));
        let repository = RepoName::parse("acme/shop").unwrap();
        let error = local.file(&repository, &world.commit, ".weave.yaml", 10).await.unwrap_err();
        assert!(matches!(error, ForgeError::TooLarge { limit: 10, .. }), "{error}");
        assert!(local.file(&repository, &world.commit, ".weave.yaml", 11).await.is_ok());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_link_out_of_the_root_leads_nowhere() {
        let world = world();
        let outside = world.folder.path().join("outside.git");
        std::fs::rename(world.folder.path().join("root/acme/shop.git"), &outside).unwrap();
        let link = world.folder.path().join("root/acme/shop.git");
        std::os::unix::fs::symlink(&outside, link).unwrap();
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
}
