//! A file at a commit, raw; asked for again only if it has changed.

use reqwest::StatusCode;
use reqwest::header::{ACCEPT, ETAG, HeaderValue, IF_NONE_MATCH};

use crate::forge::error::ForgeError;
use crate::forge::github::auth::permission::Permission;
use crate::forge::github::client::GitHub;
use crate::forge::github::client::call::{About, Call, SMALL};
use crate::forge::github::client::etag_cache::FileKey;
use crate::forge::github::client::wire::Outcome;
use crate::model::id::{CommitSha, RepoName};
use crate::support::percent::encode_path;

/// The file itself; without this it comes as base64, and not at all over 1 MB.
const RAW: HeaderValue = HeaderValue::from_static("application/vnd.github.raw+json");

impl GitHub {
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
        let about = About::Repository(repository);
        let route = format!("/repos/{repository}/contents/{}?ref={commit}", encode_path(path));
        let key = FileKey::new(repository, commit, path);
        let kept = self.files.get(&key).filter(|file| file.bytes.len() <= limit);
        let call =
            Call::get(about, Permission::READ_CONTENTS, route).header(ACCEPT, RAW).at_most(limit);
        let call = match &kept {
            Some(file) => call.header(IF_NONE_MATCH, file.tag.clone()),
            None => call,
        };
        let missing = match self.call(call).await? {
            Outcome::Success(success) => {
                self.files.put(key, success.headers.get(ETAG), &success.body);
                return Ok(success.body);
            }
            Outcome::TooLong => {
                let (repository, path) = (repository.clone(), path.to_owned());
                return Err(ForgeError::TooLarge { repository, path, limit });
            }
            Outcome::Failure(answer) => answer,
        };
        if let Some(file) = kept.filter(|_| missing.status == StatusCode::NOT_MODIFIED) {
            return Ok(file.bytes);
        }
        let not_found = missing.status == StatusCode::NOT_FOUND;
        let (named, commit) = (repository.clone(), commit.clone());
        if missing.says_no_commit() {
            Err(ForgeError::NoCommit { repository: named, commit })
        } else if not_found && self.sees(repository).await? {
            Err(ForgeError::NoFile { repository: named, commit, path: path.to_owned() })
        } else {
            Err(self.error(missing, about))
        }
    }

    /// Whether the repository is there for us: a 404 for a file does not say.
    pub(super) async fn sees(&self, repository: &RepoName) -> Result<bool, ForgeError> {
        let about = About::Repository(repository);
        let call = Call::get(about, Permission::METADATA, format!("/repos/{repository}"));
        match self.call(call.at_most(SMALL)).await? {
            Outcome::Success(_) | Outcome::TooLong => Ok(true),
            Outcome::Failure(answer) if answer.status == StatusCode::NOT_FOUND => Ok(false),
            Outcome::Failure(answer) => Err(self.error(answer, about)),
        }
    }
}
