//! Which branches a commit is on.
//!
//! GitHub has no question for that; it compares a branch with a commit: a commit that is behind the
//! branch, or the same, is on it. So each branch costs a request. Those that are named whole are
//! asked first, and the first hit ends it.

use futures::{StreamExt as _, TryStreamExt as _};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::forge::branches::Wanted;
use crate::forge::error::ForgeError;
use crate::forge::github::client::{GitHub, Outcome, escaped};
use crate::model::id::{CommitSha, RepoName};

/// A comparison without its files is some 20 KiB.
const COMPARISON_BYTES: usize = 2 * 1024 * 1024;
/// A hundred branches with what GitHub says of each.
const LIST_BYTES: usize = 2 * 1024 * 1024;
/// GitHub's most.
const PER_PAGE: usize = 100;
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
        let route =
            format!("/repos/{repository}/compare/{}...{commit}?per_page=1&page=2", escaped(branch));
        match self.get(route, HeaderMap::new(), COMPARISON_BYTES).await? {
            Outcome::Success(body) => {
                let comparison: Comparison = self.read(&body)?;
                Ok(matches!(comparison.status.as_str(), "behind" | "identical"))
            }
            // No such branch, or one that shares no history with the commit. That the commit is
            // there is known: the WAML was read from it. The repository may be gone since.
            Outcome::Failure(answer) if answer.status == StatusCode::NOT_FOUND => {
                if self.sees(repository).await? {
                    Ok(false)
                } else {
                    Err(answer.error(self.host(), repository))
                }
            }
            Outcome::Failure(answer) => Err(answer.error(self.host(), repository)),
            Outcome::TooLong => Err(self.unreadable("a comparison is too long")),
        }
    }

    async fn branches(&self, repository: &RepoName) -> Result<Vec<String>, ForgeError> {
        #[derive(Deserialize)]
        struct Branch {
            name: String,
        }
        let mut names = Vec::new();
        for page in 1..=PAGES {
            let route = format!("/repos/{repository}/branches?per_page={PER_PAGE}&page={page}");
            let branches: Vec<Branch> = match self.get(route, HeaderMap::new(), LIST_BYTES).await? {
                Outcome::Success(body) => self.read(&body)?,
                Outcome::Failure(answer) => return Err(answer.error(self.host(), repository)),
                Outcome::TooLong => return Err(self.unreadable("a list of branches is too long")),
            };
            let last = branches.len() < PER_PAGE;
            names.extend(branches.into_iter().map(|branch| branch.name));
            if last {
                return Ok(names);
            }
        }
        Err(self.too_many(repository, "are there", PAGES * PER_PAGE))
    }

    fn read<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, ForgeError> {
        serde_json::from_slice(body).map_err(|_| self.unreadable("its answer cannot be read"))
    }

    fn unreadable(&self, problem: &str) -> ForgeError {
        self.unreachable(problem.to_owned())
    }

    fn too_many(&self, repository: &RepoName, what: &str, most: usize) -> ForgeError {
        ForgeError::TooManyBranches {
            host: self.host().to_owned(),
            repository: repository.clone(),
            what: what.to_owned(),
            most,
        }
    }
}
