//! Which commit a branch or a tag stands for.

use reqwest::StatusCode;
use serde::Deserialize;

use crate::forge::error::ForgeError;
use crate::forge::github::auth::permission::Permission;
use crate::forge::github::client::GitHub;
use crate::forge::github::client::call::{About, Call};
use crate::forge::github::client::wire::Outcome;
use crate::model::id::{CommitSha, RepoName};
use crate::support::percent::encode_segment;

impl GitHub {
    /// The commit that a branch, a tag or a commit's own id stands for now.
    ///
    /// # Errors
    /// [`ForgeError::NoRef`] where there is none of that name.
    pub async fn commit_of(
        &self,
        repository: &RepoName,
        git_ref: &str,
    ) -> Result<CommitSha, ForgeError> {
        #[derive(Deserialize)]
        struct Commit {
            sha: CommitSha,
        }
        // Its files are on the first page only, and of no interest.
        let named = encode_segment(git_ref);
        let route = format!("/repos/{repository}/commits/{named}?per_page=1&page=2");
        let about = About::Repository(repository);
        match self.call(Call::get(about, Permission::READ_CONTENTS, route)).await? {
            Outcome::Success(success) => Ok(self.wire.parsed::<Commit>(&success.body)?.sha),
            Outcome::TooLong => Err(self.wire.unreachable("a commit is too long".to_owned())),
            Outcome::Failure(answer) => {
                let missing = [StatusCode::NOT_FOUND, StatusCode::UNPROCESSABLE_ENTITY]
                    .contains(&answer.status);
                if missing && self.sees(repository).await? {
                    let (repository, git_ref) = (repository.clone(), git_ref.to_owned());
                    return Err(ForgeError::NoRef { repository, git_ref });
                }
                Err(self.error(answer, about))
            }
        }
    }
}
