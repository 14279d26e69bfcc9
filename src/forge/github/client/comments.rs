//! Comments on pull requests: written, changed in place, and found again by a mark in their text.
//!
//! A mark alone does not make a comment the service's: anybody can copy it. Only comments that the service's own account
//! wrote are found, and no other one is ever changed.

use std::ops::ControlFlow;

use http::Method;
use reqwest::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::forge::Forge;
use crate::forge::error::ForgeError;
use crate::forge::github::client::{CreatedObject, GitHubClient};
use crate::forge::github::permission::Permission;
use crate::forge::github::request::{ApiCall, RequestSubject};
use crate::model::id::{CommitSha, RepoName};

/// GitHub takes 2,500 comments on a pull request.
const PAGES: usize = 25;

/// The state of a pull request, as far as a comment needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullRequestState {
    /// There is none of that number.
    Missing,
    /// It is closed.
    Closed,
    /// It is open.
    Open {
        /// Its newest commit.
        head: CommitSha,
    },
}

#[derive(Deserialize)]
struct SentComment {
    id: i64,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    user: Option<Author>,
    #[serde(default)]
    performed_via_github_app: Option<AuthorApp>,
}

#[derive(Deserialize)]
struct Author {
    login: String,
}

#[derive(Deserialize)]
struct AuthorApp {
    id: i64,
    #[serde(default)]
    client_id: Option<String>,
}

/// The account that writes the service's comments.
enum Writer {
    /// An App, by its number or client id.
    App(String),
    /// The owner of a token.
    Person(String),
}

impl Forge {
    /// Reads a pull request. The local host has none.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn pull_request(
        &self,
        repository: &RepoName,
        number: i64,
    ) -> Result<PullRequestState, ForgeError> {
        #[derive(Deserialize)]
        struct PullRequestBody {
            state: String,
            head: Head,
        }
        #[derive(Deserialize)]
        struct Head {
            sha: CommitSha,
        }
        let Self::GitHub(github) = self else { return Ok(PullRequestState::Missing) };
        let subject = RequestSubject::Repository(repository);
        let route = format!("/repos/{repository}/pulls/{number}");
        let call = ApiCall::get(subject, Permission::READ_PULL_REQUESTS, route).yielding();
        let request = github.find::<PullRequestBody>(call).await?;
        Ok(match request {
            None => PullRequestState::Missing,
            Some(request) if request.state != "open" => PullRequestState::Closed,
            Some(request) => PullRequestState::Open { head: request.head.sha },
        })
    }

    /// Checks that a commit is the head of a pull request, or one before it. The local host has no pull requests.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn is_ancestor(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        head: &CommitSha,
    ) -> Result<bool, ForgeError> {
        let Self::GitHub(github) = self else { return Ok(false) };
        Ok(head == commit || github.contains_commit(repository, head.as_str(), commit).await?)
    }

    /// Finds the comment of the service's own account that contains the mark; the first one, if there are several.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn find_comment(
        &self,
        repository: &RepoName,
        number: i64,
        mark: &str,
    ) -> Result<Option<i64>, ForgeError> {
        let Self::GitHub(github) = self else { return Ok(None) };
        let writer = github.writer().await?;
        let look = |page: Vec<SentComment>| {
            let is_match = |comment: &SentComment| {
                writer.has_written(comment)
                    && comment.body.as_deref().is_some_and(|body| body.contains(mark))
            };
            match page.iter().find(|comment| is_match(comment)) {
                Some(comment) => ControlFlow::Break(comment.id),
                None => ControlFlow::Continue(()),
            }
        };
        let route = format!("/repos/{repository}/issues/{number}/comments");
        let subject = RequestSubject::Repository(repository);
        let list = ApiCall::get(subject, Permission::READ_PULL_REQUESTS, route);
        github.pages(list.yielding(), PAGES, look).await
    }

    /// Writes a comment on a pull request; its number. The local host has none.
    ///
    /// # Errors
    /// [`ForgeError`]; after [`ForgeError::Unreachable`] look with [`Forge::find_comment`].
    pub async fn create_comment(
        &self,
        repository: &RepoName,
        number: i64,
        body: &str,
    ) -> Result<i64, ForgeError> {
        let Self::GitHub(github) = self else { return Ok(0) };
        let route = format!("/repos/{repository}/issues/{number}/comments");
        let call = write(repository, Method::POST, route, &json!({ "body": body }));
        Ok(github.read::<CreatedObject>(call).await?.id)
    }

    /// Changes the text of a comment; false where it is not there any more.
    ///
    /// # Errors
    /// [`ForgeError`]
    pub async fn update_comment(
        &self,
        repository: &RepoName,
        comment: i64,
        body: &str,
    ) -> Result<bool, ForgeError> {
        let Self::GitHub(github) = self else { return Ok(true) };
        let route = format!("/repos/{repository}/issues/comments/{comment}");
        let call = write(repository, Method::PATCH, route, &json!({ "body": body }));
        let subject = call.subject;
        match github.call(call).await? {
            Ok(_) => Ok(true),
            Err(answer) if answer.status == StatusCode::NOT_FOUND => Ok(false),
            Err(answer) => Err(github.error(answer, subject)),
        }
    }
}

impl GitHubClient {
    async fn writer(&self) -> Result<Writer, ForgeError> {
        if let Some(id) = self.auth.app_id() {
            return Ok(Writer::App(id.to_owned()));
        }
        let subject = RequestSubject::Anything("the owner of the token");
        let call = ApiCall::get(subject, Permission::METADATA, "/user".to_owned());
        let Author { login } = self.read(call.yielding()).await?;
        Ok(Writer::Person(login))
    }
}

impl Writer {
    fn has_written(&self, comment: &SentComment) -> bool {
        match (self, &comment.performed_via_github_app, &comment.user) {
            (Self::App(id), Some(app), _) => {
                app.id.to_string() == *id || app.client_id.as_deref() == Some(id)
            }
            (Self::Person(login), _, Some(author)) => author.login.eq_ignore_ascii_case(login),
            (Self::App(_), None, _) | (Self::Person(_), _, None) => false,
        }
    }
}

fn write<'a>(repository: &'a RepoName, method: Method, route: String, body: &Value) -> ApiCall<'a> {
    let subject = RequestSubject::Repository(repository);
    ApiCall::write(subject, Permission::WRITE_PULL_REQUESTS, method, route, body).yielding()
}
