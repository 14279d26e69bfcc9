//! A pull request with other weights, opened by the person's own GitHub token.
//!
//! ```text
//! the WAML on the default branch ─▶ edited ─▶ a branch ─▶ the file on it ─▶ a pull request
//! ```
//!
//! Nothing in the working folder changes, and what is there is not read: others may have changed the weights since.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::cli::bart::deploy::github::GitHubSession;
use crate::cli::context::WAML_FILE;
use crate::cli::error::CliError;
use crate::model::id::{RepoName, TargetName};
use crate::pipeline::weights::{EditedLine, VersionWeight, set_weights};
use crate::support::clock;
use crate::waml::Waml;

/// The weights that are proposed.
#[derive(Debug)]
pub(super) struct WeightProposal<'a> {
    pub(super) repository: &'a RepoName,
    pub(super) target: &'a TargetName,
    pub(super) weights: &'a [VersionWeight],
    /// The reason, for who reviews it.
    pub(super) reason: Option<&'a str>,
}

/// What has become of a proposal.
#[derive(Debug)]
pub(super) struct Proposed {
    /// The lines that change; none where the default branch has these weights already.
    pub(super) lines: Vec<EditedLine>,
    /// The address of the pull request.
    pub(super) url: Option<String>,
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

impl WeightProposal<'_> {
    /// Opens the pull request, or only computes its lines.
    ///
    /// # Errors
    /// When GitHub refuses, or the WAML cannot have these weights. A branch that was made for nothing is removed again.
    pub(super) async fn open(
        &self,
        github: &GitHubSession,
        dry_run: bool,
    ) -> Result<Proposed, CliError> {
        let repository = self.repository;
        let base: Repository = github.get(&format!("repos/{repository}")).await?;
        let base = base.default_branch;
        // The commit first: the file is that of the commit from which the branch begins, or a newer one, which GitHub refuses.
        let head: Branch = github.get(&format!("repos/{repository}/branches/{base}")).await?;
        let commit = head.commit.sha;
        let file = format!("repos/{repository}/contents/{WAML_FILE}");
        let File { sha, content } = github.get(&format!("{file}?ref={commit}")).await?;
        let text = decode(&content)?;
        let waml = Waml::parse(WAML_FILE, text.as_bytes()).map_err(|rejection| {
            CliError::refused(format!("{WAML_FILE} on {base} cannot be read: {rejection}"))
        })?;
        let edit = set_weights(&text, &waml, self.target, self.weights)
            .map_err(|error| CliError::refused(error.message).hint(error.help))?;
        if dry_run || edit.lines.is_empty() {
            return Ok(Proposed { lines: edit.lines, url: None });
        }
        let branch = format!("traffic-{}-{}", self.target, clock::random_digits());
        let reference = json!({"ref": format!("refs/heads/{branch}"), "sha": commit});
        let _: Json =
            github.send(Method::POST, &format!("repos/{repository}/git/refs"), &reference).await?;
        let title = self.title(&waml);
        let change = json!({
            "message": title, "content": STANDARD.encode(&edit.text), "sha": sha, "branch": branch,
        });
        let pull = json!({
            "title": title, "head": branch, "base": base, "body": self.reason.unwrap_or_default(),
        });
        let opened = async {
            let _: Json = github.send(Method::PUT, &file, &change).await?;
            github.send(Method::POST, &format!("repos/{repository}/pulls"), &pull).await
        };
        match opened.await {
            Ok(PullRequest { html_url }) => Ok(Proposed { lines: edit.lines, url: Some(html_url) }),
            Err(error) => {
                let path = format!("repos/{repository}/git/refs/heads/{branch}");
                if github.delete(&path).await.is_err() {
                    return Err(error.hint(format!("the branch {branch} is left: remove it")));
                }
                Err(error)
            }
        }
    }

    fn title(&self, waml: &Waml) -> String {
        let weight = |one: &VersionWeight| format!("{}={}", one.version, one.percent);
        let weights: Vec<String> = self.weights.iter().map(weight).collect();
        format!("Traffic of {} on {}: {}", waml.app, self.target, weights.join(" "))
    }
}

/// Decodes a file as GitHub sends it: base64 in lines.
fn decode(content: &str) -> Result<String, CliError> {
    let digits: String = content.chars().filter(|c| !c.is_whitespace()).collect();
    let bytes = STANDARD.decode(digits).ok();
    bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| CliError::refused(format!("GitHub does not send the text of {WAML_FILE}")))
}
