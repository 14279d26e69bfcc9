//! A pull request with another WAML, opened by the person's own GitHub token.
//!
//! ```text
//! the WAML on the default branch ─▶ edited ─▶ a branch ─▶ the file on it ─▶ a pull request
//! ```
//!
//! Nothing in the working folder changes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::cli::bart::deploy::github::GitHubSession;
use crate::cli::error::CliError;
use crate::cli::working_folder::WAML_FILE;
use crate::model::id::{AppName, RepoName};
use crate::support::clock;
use crate::support::percent::encode_path;
use crate::waml::app_files::path_of;
use crate::waml::extra_files::beside;

/// The WAML on the default branch of a repository.
#[derive(Debug)]
pub(super) struct DefaultBranchWaml<'a> {
    repository: &'a RepoName,
    /// The name of the branch.
    pub(super) branch: String,
    /// The path of the WAML.
    pub(super) path: String,
    /// The text of the WAML.
    pub(super) text: String,
    commit: String,
    blob: String,
}

/// A change of the WAML, for who reviews it.
#[derive(Debug)]
pub(super) struct ProposedWaml<'a> {
    /// The text.
    pub(super) text: &'a str,
    /// The begin of the new branch's name.
    pub(super) branch: String,
    /// The title, and the message of the commit.
    pub(super) title: String,
    /// The body.
    pub(super) body: String,
}

#[derive(Deserialize)]
struct Repository {
    default_branch: String,
}

#[derive(Deserialize)]
struct Branch {
    commit: Commit,
}

#[derive(Deserialize)]
struct Commit {
    sha: String,
}

#[derive(Deserialize)]
struct File {
    sha: String,
    content: String,
}

#[derive(Deserialize)]
struct PullRequest {
    html_url: String,
}

impl<'a> DefaultBranchWaml<'a> {
    /// Reads the WAML from GitHub.
    pub(super) async fn fetch(
        github: &GitHubSession,
        repository: &'a RepoName,
        app: Option<&AppName>,
    ) -> Result<Self, CliError> {
        let base: Repository = github.get(&format!("repos/{repository}")).await?;
        let branch = base.default_branch;
        // The commit first: the file is that of the commit from which the branch begins, or a newer one, which GitHub refuses.
        let head: Branch = github.get(&format!("repos/{repository}/branches/{branch}")).await?;
        let commit = head.commit.sha;
        let path = path_of(WAML_FILE, app);
        let (text, blob) = fetch_file(github, repository, &path, &commit).await?;
        Ok(Self { repository, branch, path, text, commit, blob })
    }

    /// Reads the text of another file of the same commit.
    pub(super) async fn fetch_beside(
        &self,
        github: &GitHubSession,
        path: &str,
    ) -> Result<String, CliError> {
        let place = beside(&self.path, path);
        Ok(fetch_file(github, self.repository, &place, &self.commit).await?.0)
    }

    /// Opens a pull request with another text, and returns its address.
    ///
    /// # Errors
    /// When GitHub refuses. A branch that was made for nothing is removed again.
    pub(super) async fn propose(
        &self,
        github: &GitHubSession,
        proposed: ProposedWaml<'_>,
    ) -> Result<String, CliError> {
        let repository = self.repository;
        let ProposedWaml { text, branch, title, body } = proposed;
        let branch = format!("{branch}-{}", clock::random_digits());
        let reference = json!({"ref": format!("refs/heads/{branch}"), "sha": self.commit});
        let _: Json =
            github.send(Method::POST, &format!("repos/{repository}/git/refs"), &reference).await?;
        let change = json!({
            "message": title, "content": STANDARD.encode(text), "sha": self.blob, "branch": branch,
        });
        let pull = json!({"title": title, "head": branch, "base": self.branch, "body": body});
        let opened = async {
            let file = format!("repos/{repository}/contents/{}", encode_path(&self.path));
            let _: Json = github.send(Method::PUT, &file, &change).await?;
            github.send(Method::POST, &format!("repos/{repository}/pulls"), &pull).await
        };
        match opened.await {
            Ok(PullRequest { html_url }) => Ok(html_url),
            Err(error) => {
                let path = format!("repos/{repository}/git/refs/heads/{branch}");
                if github.delete(&path).await.is_err() {
                    return Err(error.hint(format!("the branch {branch} is left: remove it")));
                }
                Err(error)
            }
        }
    }
}

/// Reads the text of a file at a commit, and the id of its object.
async fn fetch_file(
    github: &GitHubSession,
    repository: &RepoName,
    path: &str,
    commit: &str,
) -> Result<(String, String), CliError> {
    let path_text = encode_path(path);
    let file = format!("repos/{repository}/contents/{path_text}?ref={commit}");
    let File { sha, content } = github.get(&file).await?;
    Ok((decode(&content, path)?, sha))
}

/// Decodes a file as GitHub sends it: base64 in lines.
fn decode(content: &str, path: &str) -> Result<String, CliError> {
    let digits: String = content.chars().filter(|c| !c.is_whitespace()).collect();
    let bytes = STANDARD.decode(digits).ok();
    bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| CliError::refused(format!("GitHub does not send the text of {path}")))
}
