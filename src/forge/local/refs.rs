//! What a branch, a tag or a commit's id leads to.

use git2::{Oid, Repository};

use crate::forge::error::ForgeError;
use crate::forge::local::{Local, Read};
use crate::model::id::{CommitSha, RepoName};

impl Local {
    /// The commit that a branch, a tag, or a whole commit id leads to; `None` where there is none. A branch
    /// goes before a tag of the same name.
    ///
    /// # Errors
    /// [`ForgeError`] where the repository cannot be read.
    pub async fn commit_of(
        &self,
        repository: &RepoName,
        git_ref: &str,
    ) -> Result<Option<CommitSha>, ForgeError> {
        let read = Read {
            root: self.root.clone(),
            repository: repository.clone(),
            commit: CommitSha::parse("0".repeat(40)).expect("forty digits are a commit id"),
            path: String::new(),
            limit: 0,
        };
        let (host, git_ref) = (self.root.display().to_string(), git_ref.to_owned());
        tokio::task::spawn_blocking(move || read.resolve(&git_ref))
            .await
            .map_err(|error| ForgeError::Unreachable { host, problem: error.to_string() })?
    }
}

impl Read {
    fn resolve(&self, git_ref: &str) -> Result<Option<CommitSha>, ForgeError> {
        let folder = self.folder()?;
        let git = Repository::open_bare(folder).map_err(|error| self.not_opened(&error))?;
        let names =
            [git_ref.to_owned(), format!("refs/heads/{git_ref}"), format!("refs/tags/{git_ref}")];
        // Only whole names: what is written like an expression would mean something else tomorrow.
        let by_name = names.iter().filter(|name| name.starts_with("refs/")).find_map(|name| {
            let found = git.find_reference(name).ok()?;
            found.peel_to_commit().ok()
        });
        let by_id = || {
            let id = (git_ref.len() == 40).then(|| Oid::from_str(git_ref).ok()).flatten()?;
            git.find_commit(id).ok()
        };
        let found = by_name.or_else(by_id).map(|commit| commit.id().to_string());
        Ok(found.and_then(|id| CommitSha::parse(id).ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn branches_tags_and_commits_are_found_by_their_whole_names() {
        let folder = tempfile::tempdir().unwrap();
        let git = Repository::init_bare(folder.path().join("acme/shop.git")).unwrap();
        let tree = git.find_tree(git.treebuilder(None).unwrap().write().unwrap()).unwrap();
        let who = git2::Signature::new("t", "t@example.com", &git2::Time::new(0, 0)).unwrap();
        let commit = git.commit(Some("refs/heads/main"), &who, &who, "m", &tree, &[]).unwrap();
        let object = git.find_object(commit, None).unwrap();
        git.tag("v1", &object, &who, "one", false).unwrap();
        let local = Local::new(folder.path());
        let shop = RepoName::parse("acme/shop").unwrap();
        let id = commit.to_string();
        for git_ref in ["main", "refs/heads/main", "v1", "refs/tags/v1", &id] {
            let found = local.commit_of(&shop, git_ref).await.unwrap();
            assert_eq!(found.unwrap().as_str(), id, "{git_ref}");
        }
        for git_ref in ["", "none", "main~1", "HEAD@{1}", "../x", &id[..12], &"1".repeat(40)] {
            assert_eq!(local.commit_of(&shop, git_ref).await.unwrap(), None, "{git_ref}");
        }
        let none = RepoName::parse("acme/none").unwrap();
        let refused = local.commit_of(&none, "main").await.unwrap_err();
        assert!(matches!(refused, ForgeError::NoRepository { .. }), "{refused}");
    }
}
