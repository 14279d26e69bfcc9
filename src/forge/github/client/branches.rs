//! Which branches a commit is on.
//!
//! GitHub has no question for that; it compares a branch with a commit: a commit that is behind the
//! branch, or the same, is on it. So each branch costs a request. Those that are named whole are
//! asked first, and the first hit ends it.

use futures::{StreamExt as _, TryStreamExt as _};
use reqwest::StatusCode;
use serde::Deserialize;

use crate::forge::branches::Wanted;
use crate::forge::error::ForgeError;
use crate::forge::github::auth::permission::Permission;
use crate::forge::github::client::GitHub;
use crate::forge::github::client::call::{About, Call};
use crate::forge::github::client::pages::{Next, PER_PAGE};
use crate::forge::github::client::wire::Outcome;
use crate::model::id::{CommitSha, RepoName};
use crate::support::percent::encode_path;

/// A comparison without its files is some 20 KiB.
const COMPARISON_BYTES: usize = 2 * 1024 * 1024;
/// Two thousand branches; beyond that the policy must name branches whole.
const PAGES: usize = 20;
/// The most branches that are compared by one glob or many: each costs a request.
const COMPARED: usize = 50;
/// GitHub asks for few at once.
const AT_ONCE: usize = 4;

impl GitHub {
    /// The first branch found that is meant and has the commit; empty if there is none.
    pub(in crate::forge) async fn branches_with(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        wanted: &Wanted,
    ) -> Result<Vec<String>, ForgeError> {
        let found = self.first_with(repository, commit, wanted.exact.clone()).await?;
        if found.is_some() || !wanted.has_globs() {
            return Ok(found.into_iter().collect());
        }
        let mut matching = self.branches(repository).await?;
        matching.retain(|branch| wanted.is_by_glob(branch));
        if matching.len() > COMPARED {
            return Err(self.too_many(repository, "match the policy's globs", COMPARED));
        }
        let found = self.first_with(repository, commit, matching).await?;
        Ok(found.into_iter().collect())
    }

    async fn first_with(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        branches: Vec<String>,
    ) -> Result<Option<String>, ForgeError> {
        let ask = |branch: String| async move {
            let has = self.has(repository, &branch, commit).await?;
            Ok::<_, ForgeError>(has.then_some(branch))
        };
        let hits = futures::stream::iter(branches).map(ask).buffered(AT_ONCE);
        let mut hits = std::pin::pin!(hits.try_filter_map(|hit| async { Ok(hit) }));
        hits.try_next().await
    }

    async fn has(
        &self,
        repository: &RepoName,
        branch: &str,
        commit: &CommitSha,
    ) -> Result<bool, ForgeError> {
        #[derive(Deserialize)]
        struct Comparison {
            status: String,
        }
        // The files are on the first page only, and of no interest.
        let route = format!(
            "/repos/{repository}/compare/{}...{commit}?per_page=1&page=2",
            encode_path(branch)
        );
        let about = About::Repository(repository);
        let call = Call::get(about, Permission::READ_CONTENTS, route);
        match self.call(call.at_most(COMPARISON_BYTES)).await? {
            Outcome::Success(success) => {
                let comparison: Comparison = self.wire.parsed(&success.body)?;
                Ok(matches!(comparison.status.as_str(), "behind" | "identical"))
            }
            // No such branch, or one that shares no history with the commit. That the commit is
            // there is known: the WAML was read from it. The repository may be gone since.
            Outcome::Failure(answer) if answer.status == StatusCode::NOT_FOUND => {
                if self.sees(repository).await? {
                    Ok(false)
                } else {
                    Err(self.error(answer, about))
                }
            }
            Outcome::Failure(answer) => Err(self.error(answer, about)),
            Outcome::TooLong => Err(self.wire.unreachable("a comparison is too long".to_owned())),
        }
    }

    async fn branches(&self, repository: &RepoName) -> Result<Vec<String>, ForgeError> {
        #[derive(Deserialize)]
        struct Branch {
            name: String,
        }
        let (mut names, mut read) = (Vec::new(), 0);
        let look = |page: Vec<Branch>| {
            read += 1;
            let full = page.len() == PER_PAGE;
            names.extend(page.into_iter().map(|branch| branch.name));
            if full && read == PAGES { Next::Enough(()) } else { Next::Page }
        };
        let route = format!("/repos/{repository}/branches");
        let about = (About::Repository(repository), Permission::READ_CONTENTS);
        match self.pages::<Vec<Branch>, ()>(about.into(), &route, PAGES, look).await? {
            None => Ok(names),
            Some(()) => Err(self.too_many(repository, "are there", PAGES * PER_PAGE)),
        }
    }

    fn too_many(&self, repository: &RepoName, what: &str, most: usize) -> ForgeError {
        ForgeError::TooManyBranches {
            host: self.wire.host.to_string(),
            repository: repository.clone(),
            what: what.to_owned(),
            most,
        }
    }
}
