//! Reads of repositories: a file at a commit, commits, branches, pull requests, and the installations of the service's
//! App.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, ETAG, HeaderValue, IF_NONE_MATCH};
use serde::Deserialize;

use crate::forge::Forge;
use crate::forge::branches::BranchQuery;
use crate::forge::delivery::{RateLimited, RequestBudget};
use crate::forge::error::ForgeError;
use crate::forge::github::auth::Installation;
use crate::forge::github::client::etag_cache::FileKey;
use crate::forge::github::client::{GitHubClient, PER_PAGE};
use crate::forge::github::permission::Permission;
use crate::forge::github::request::{ApiCall, RequestSubject, SMALL};
use crate::model::event::{NamedRepository, RepositoryIdentity};
use crate::model::id::{CommitSha, RepoName};
use crate::support::percent::{encode_path, encode_segment};

/// The media type for the file itself; without it the file comes as base64, and not at all over 1 MB.
const RAW: HeaderValue = HeaderValue::from_static("application/vnd.github.raw+json");
/// An entry of a folder is some 1.5 KiB: several hundred of them.
const FOLDER_BYTES: usize = 1024 * 1024;
/// A comparison without its files is some 20 KiB.
const COMPARISON_BYTES: usize = 2 * 1024 * 1024;
/// Two thousand branches; beyond that the policy must name branches whole.
const BRANCH_PAGES: usize = 20;
/// The most branches that are compared by one glob or many: each costs a request.
const COMPARED: usize = 50;
/// The limit of requests at once: GitHub wants few.
const AT_ONCE: usize = 4;
/// GitHub lists no more than three thousand files.
const FILE_PAGES: usize = 30;
/// A thousand accounts.
const INSTALLATION_PAGES: usize = 10;

impl Forge {
    /// Returns the bytes of a file at a commit, at most `limit` of them. GitHub sends it again only if it has changed.
    ///
    /// # Errors
    /// [`ForgeError`] says what is missing, and by its disposition whether to try again.
    pub async fn file(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        path: &str,
        limit: usize,
    ) -> Result<Vec<u8>, ForgeError> {
        let github = match self {
            Self::Local(local) => return local.file(repository, commit, path, limit).await,
            Self::GitHub(github) => github,
        };
        let subject = RequestSubject::Repository(repository);
        let route = format!("/repos/{repository}/contents/{}?ref={commit}", encode_path(path));
        let key = FileKey::new(repository, commit, path);
        let cached = github.files.get(&key).filter(|file| file.bytes.len() <= limit);
        let mut call = ApiCall::get(subject, Permission::READ_CONTENTS, route)
            .header(ACCEPT, RAW)
            .at_most(limit);
        if let Some(file) = &cached {
            call = call.header(IF_NONE_MATCH, file.tag.clone());
        }
        let missing = match github.call(call).await? {
            Ok(success) => {
                let (repository, path) = (repository.clone(), path.to_owned());
                let too_large = ForgeError::TooLarge { repository, path, limit };
                let bytes = success.body.ok_or(too_large)?;
                github.files.put(key, success.headers.get(ETAG), &bytes);
                return Ok(bytes);
            }
            Err(answer) => answer,
        };
        if let Some(file) = cached.filter(|_| missing.status == StatusCode::NOT_MODIFIED) {
            return Ok(file.bytes);
        }
        let not_found = missing.status == StatusCode::NOT_FOUND;
        let (repository_name, commit) = (repository.clone(), commit.clone());
        if missing.says_no_commit() {
            Err(ForgeError::NoCommit { repository: repository_name, commit })
        } else if not_found && github.can_see(repository).await? {
            Err(ForgeError::NoFile { repository: repository_name, commit, path: path.to_owned() })
        } else {
            Err(github.error(missing, subject))
        }
    }

    /// Lists the names of the files in a folder at a commit, without those in folders of it; `None` where there is no such
    /// folder, or the service may not see the repository: a read of a file says which.
    pub async fn file_names(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        folder: &str,
    ) -> Result<Option<Vec<String>>, ForgeError> {
        #[derive(Deserialize)]
        struct Entry {
            name: String,
            #[serde(rename = "type")]
            kind: String,
        }
        let github = match self {
            Self::Local(local) => return local.file_names(repository, commit, folder).await,
            Self::GitHub(github) => github,
        };
        let subject = RequestSubject::Repository(repository);
        let route = format!("/repos/{repository}/contents/{}?ref={commit}", encode_path(folder));
        let call = ApiCall::get(subject, Permission::READ_CONTENTS, route).at_most(FOLDER_BYTES);
        match github.call(call).await? {
            Ok(success) if success.body.is_none() => {
                let (repository, path) = (repository.clone(), folder.to_owned());
                Err(ForgeError::TooLarge { repository, path, limit: FOLDER_BYTES })
            }
            Ok(success) => match github.wire.parsed::<serde_json::Value>(&success)? {
                // A file of that name.
                serde_json::Value::Object(_) => Ok(None),
                list => {
                    let entries = serde_json::from_value::<Vec<Entry>>(list).map_err(|error| {
                        github.wire.unreachable(format!("its list of a folder is none: {error}"))
                    })?;
                    let files = entries.into_iter().filter(|entry| entry.kind == "file");
                    Ok(Some(files.map(|entry| entry.name).collect()))
                }
            },
            Err(answer) if answer.says_no_commit() => {
                let (repository, commit) = (repository.clone(), commit.clone());
                Err(ForgeError::NoCommit { repository, commit })
            }
            Err(answer) if answer.status == StatusCode::NOT_FOUND => Ok(None),
            Err(answer) => Err(github.error(answer, subject)),
        }
    }

    /// Returns the commit that a branch, a tag or a commit's own id stands for now.
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
        let no_ref = || {
            let (repository, git_ref) = (repository.clone(), git_ref.to_owned());
            ForgeError::NoRef { repository, git_ref }
        };
        let github = match self {
            Self::Local(local) => {
                return local.commit_of(repository, git_ref).await?.ok_or_else(no_ref);
            }
            Self::GitHub(github) => github,
        };
        // Its files are on the first page only, and of no interest.
        let encoded_ref = encode_segment(git_ref);
        let route = format!("/repos/{repository}/commits/{encoded_ref}?per_page=1&page=2");
        let subject = RequestSubject::Repository(repository);
        match github.call(ApiCall::get(subject, Permission::READ_CONTENTS, route)).await? {
            Ok(success) => Ok(github.wire.parsed::<Commit>(&success)?.sha),
            Err(answer) => {
                let missing = [StatusCode::NOT_FOUND, StatusCode::UNPROCESSABLE_ENTITY]
                    .contains(&answer.status);
                if missing && github.can_see(repository).await? {
                    return Err(no_ref());
                }
                Err(github.error(answer, subject))
            }
        }
    }

    /// Returns the branches among those that match the globs that have the commit: one at least, if there is one. The
    /// search ends with the first.
    ///
    /// A glob is one of globset's, in which `*` also stands for a slash.
    ///
    /// # Errors
    /// [`ForgeError`] when the lookup fails.
    pub async fn branches_with(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        globs: &[String],
    ) -> Result<Vec<String>, ForgeError> {
        let query = BranchQuery::of(globs);
        let github = match self {
            Self::Local(local) => return local.branches_with(repository, commit, query).await,
            Self::GitHub(github) => github,
        };
        let branches = github.first_with(repository, commit, query.exact.clone()).await?;
        if branches.is_some() || !query.has_globs() {
            return Ok(branches.into_iter().collect());
        }
        let mut matching = github.branches(repository).await?;
        matching.retain(|branch| query.is_by_glob(branch));
        if matching.len() > COMPARED {
            return Err(github.too_many(repository, "match the policy's globs", COMPARED));
        }
        let branches = github.first_with(repository, commit, matching).await?;
        Ok(branches.into_iter().collect())
    }

    /// Returns the repository's present name, which GitHub gives for a former one too, and its present numbers; none
    /// where the host has no numbers.
    pub async fn named_repository(
        &self,
        repository: &RepoName,
        now: Timestamp,
    ) -> Result<Option<NamedRepository>, ForgeError> {
        #[derive(Deserialize)]
        struct Repository {
            id: i64,
            full_name: String,
            owner: Owner,
        }
        #[derive(Deserialize)]
        struct Owner {
            id: i64,
        }
        let Self::GitHub(github) = self else { return Ok(None) };
        let subject = RequestSubject::Repository(repository);
        let call = ApiCall::get(subject, Permission::METADATA, format!("/repos/{repository}"));
        let Repository { id, full_name, owner } = github.read(call).await?;
        let name = RepoName::parse(full_name).map_err(|error| {
            github.wire.unreachable(format!("it gives the repository a name that is none: {error}"))
        })?;
        let identity = RepositoryIdentity { repository: id, owner: Some(owner.id), at: Some(now) };
        Ok(Some(NamedRepository { name, identity }))
    }

    /// Lists the repositories that the service's App is installed on, without those that cannot deploy: archived ones,
    /// and those of suspended installations. Without an App the list is empty.
    pub async fn installed_repositories(&self, most: u32) -> Result<Vec<RepoName>, ForgeError> {
        let Self::GitHub(github) = self else { return Ok(Vec::new()) };
        if !github.auth.is_app() {
            return Ok(Vec::new());
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let route = "/app/installations".to_owned();
        let list = ApiCall::get(
            RequestSubject::App("the App's installations"),
            Permission::METADATA,
            route,
        );
        let installations: Vec<Installation> = github.read_all(list, INSTALLATION_PAGES).await?;
        let mut repositories = Vec::new();
        for installation in installations.iter().filter(|candidate| !candidate.is_suspended()) {
            if repositories.len() >= most {
                break;
            }
            github.repositories_of(installation.id, most, &mut repositories).await?;
        }
        repositories.truncate(most);
        Ok(repositories)
    }

    /// Lists the files that a pull request changes, moves or removes: of those that may be of interest.
    pub async fn pull_request_files(
        &self,
        repository: &RepoName,
        number: i64,
        is_of_interest: impl Fn(&str) -> bool,
    ) -> Result<BTreeSet<String>, ForgeError> {
        #[derive(Deserialize)]
        struct Changed {
            filename: String,
            #[serde(default)]
            previous_filename: Option<String>,
        }
        let mut files = BTreeSet::new();
        let Self::GitHub(github) = self else { return Ok(files) };
        let route = format!("/repos/{repository}/pulls/{number}/files");
        let subject = RequestSubject::Repository(repository);
        let look = |page: Vec<Changed>| {
            let names =
                page.into_iter().flat_map(|file| [Some(file.filename), file.previous_filename]);
            files.extend(names.flatten().filter(|name| is_of_interest(name)));
            ControlFlow::<()>::Continue(())
        };
        let list = ApiCall::get(subject, Permission::READ_PULL_REQUESTS, route);
        github.pages(list, FILE_PAGES, look).await?;
        Ok(files)
    }

    /// Returns the number of requests left, by the last answer that had it; of an App's installations the smallest one.
    /// `None` where no answer had it, as on an Enterprise Server without limits. Sends no request.
    pub fn budget(&self) -> Option<RequestBudget> {
        let Self::GitHub(github) = self else { return None };
        github.wire.limits.tightest(github.auth.now())
    }

    /// Returns the time until which the host wants no requests, as far as it said; sends no request.
    pub fn rate_limited(&self) -> RateLimited {
        let Self::GitHub(github) = self else { return RateLimited::default() };
        let clock = github.wire.clock.as_ref();
        clock.map(|clock| github.wire.limits.rate_limited(clock.now())).unwrap_or_default()
    }

    /// Returns whether the host names limits: an Enterprise Server without them does not.
    pub fn names_limits(&self) -> bool {
        matches!(self, Self::GitHub(github) if github.wire.limits.is_known())
    }
}

impl GitHubClient {
    /// Checks that the service may see the repository: a 404 for a file does not say.
    async fn can_see(&self, repository: &RepoName) -> Result<bool, ForgeError> {
        let subject = RequestSubject::Repository(repository);
        let call = ApiCall::get(subject, Permission::METADATA, format!("/repos/{repository}"));
        match self.call(call.at_most(SMALL)).await? {
            Ok(_) => Ok(true),
            Err(answer) if answer.status == StatusCode::NOT_FOUND => Ok(false),
            Err(answer) => Err(self.error(answer, subject)),
        }
    }

    async fn first_with(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        branches: Vec<String>,
    ) -> Result<Option<String>, ForgeError> {
        let ask = |branch: String| async move {
            let is_contained = self.contains_commit(repository, &branch, commit).await?;
            Ok::<_, ForgeError>(is_contained.then_some(branch))
        };
        let hits = futures::stream::iter(branches).map(ask).buffered(AT_ONCE);
        let mut hits = std::pin::pin!(hits.try_filter_map(|hit| async { Ok(hit) }));
        hits.try_next().await
    }

    /// Checks that a commit is on a branch. GitHub has no request for that; it compares a branch with a commit: a
    /// commit that is behind the branch, or the same, is on it. So each branch costs a request. Branches with whole
    /// names come first, and the first hit ends the search.
    pub(super) async fn contains_commit(
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
        let subject = RequestSubject::Repository(repository);
        let call = ApiCall::get(subject, Permission::READ_CONTENTS, route);
        match self.call(call.at_most(COMPARISON_BYTES)).await? {
            Ok(success) => {
                let comparison: Comparison = self.wire.parsed(&success)?;
                Ok(matches!(comparison.status.as_str(), "behind" | "identical"))
            }
            // No such branch, or one that shares no history with the commit. That the commit is
            // there is known: the WAML was read from it. The repository may be gone since.
            Err(answer)
                if answer.status == StatusCode::NOT_FOUND && self.can_see(repository).await? =>
            {
                Ok(false)
            }
            Err(answer) => Err(self.error(answer, subject)),
        }
    }

    async fn branches(&self, repository: &RepoName) -> Result<Vec<String>, ForgeError> {
        #[derive(Deserialize)]
        struct Branch {
            name: String,
        }
        let (mut names, mut pages) = (Vec::new(), 0);
        let look = |page: Vec<Branch>| {
            pages += 1;
            let full = page.len() == PER_PAGE;
            names.extend(page.into_iter().map(|branch| branch.name));
            if full && pages == BRANCH_PAGES {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let route = format!("/repos/{repository}/branches");
        let list =
            ApiCall::get(RequestSubject::Repository(repository), Permission::READ_CONTENTS, route);
        match self.pages(list, BRANCH_PAGES, look).await? {
            None => Ok(names),
            Some(()) => Err(self.too_many(repository, "are there", BRANCH_PAGES * PER_PAGE)),
        }
    }

    fn too_many(&self, repository: &RepoName, what: &str, most: usize) -> ForgeError {
        let (host, repository) = (self.wire.host.to_string(), repository.clone());
        ForgeError::TooManyBranches { host, repository, what: what.to_owned(), most }
    }

    /// Adds those of one installation, until there are as many as wanted.
    async fn repositories_of(
        &self,
        id: u64,
        most: usize,
        repositories: &mut Vec<RepoName>,
    ) -> Result<(), ForgeError> {
        #[derive(Deserialize)]
        struct Repository {
            full_name: String,
            #[serde(default)]
            archived: bool,
            #[serde(default)]
            disabled: bool,
        }
        let subject = RequestSubject::Installation(id, "the App's repositories");
        let pages = (most - repositories.len()).div_ceil(PER_PAGE).saturating_add(1);
        let look = |page: Vec<Repository>| {
            let live =
                page.into_iter().filter(|repository| !repository.archived && !repository.disabled);
            repositories
                .extend(live.filter_map(|repository| RepoName::parse(repository.full_name).ok()));
            if repositories.len() >= most {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let route = "/installation/repositories".to_owned();
        let list = ApiCall::get(subject, Permission::METADATA, route);
        self.pages(list, pages, look).await.map(|_| ())
    }
}
