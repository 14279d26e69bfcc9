//! Creates GitHub Deployments with the developer's own token.

use globset::Glob;
use reqwest::{Method, RequestBuilder, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::cli::client;
use crate::cli::error::CliError;
use crate::model::github_deployment::GitHubDeployment;
use crate::model::id::{AppName, ImageTag, RepoName, TargetName};
use crate::support::clock;

/// A GitHub with the developer's token.
#[derive(Debug)]
pub(in crate::cli::bart) struct GitHubSession {
    pub(super) api_url: String,
    pub(super) token: SecretString,
}

/// The way out where GitHub does not know the token.
const EXPIRED: &str =
    "the token has expired or was revoked: `bart login`, or set BART_GITHUB_TOKEN";

/// The release to deploy to every target.
#[derive(Debug)]
pub(super) struct ReleaseToDeploy<'a> {
    pub(super) repository: &'a RepoName,
    pub(super) git_ref: &'a str,
    /// The app, where the repository has several; all of them where it is absent.
    pub(super) app: Option<&'a AppName>,
    pub(super) tag: &'a ImageTag,
    pub(super) description: &'a str,
    /// The checks that must have succeeded; `None` means all checks of the commit.
    pub(super) contexts: Option<&'a [String]>,
    /// A glob over the targets that GitHub calls production environments.
    pub(super) production: &'a str,
}

#[derive(Deserialize)]
struct Deployment {
    id: i64,
    #[serde(default)]
    payload: Json,
}

/// Returns whether the glob matches the target.
fn production(glob: &str, target: &TargetName) -> Result<bool, CliError> {
    let glob = Glob::new(glob).map_err(|error| {
        CliError::usage(format!("--production: {error}")).hint("write it like `prod*`")
    })?;
    Ok(glob.compile_matcher().is_match(target.as_str()))
}

impl GitHubSession {
    /// Creates one deployment and returns its number. Nothing is merged, and nothing is created twice.
    pub(super) async fn create(
        &self,
        release: &ReleaseToDeploy<'_>,
        target: &TargetName,
    ) -> Result<i64, CliError> {
        let key = clock::random_digits();
        let deployment = GitHubDeployment {
            git_ref: release.git_ref,
            target,
            app: release.app,
            tag: release.tag,
            description: release.description,
            production: production(release.production, target)?,
            contexts: release.contexts,
            by: "bart",
            key: &key,
        };
        let find = || self.find(release.repository, &deployment);
        let path = format!("repos/{}/deployments", release.repository);
        let request = self.request(Method::POST, &path)?.json(&deployment.body());
        let answer = match request.send().await {
            Ok(answer) => answer,
            // The request may have arrived all the same.
            Err(error) => {
                let lost = client::unreachable(&self.api_url, &error);
                return find().await.ok().flatten().ok_or(lost);
            }
        };
        let status = answer.status();
        let text = client::read_body(&self.api_url, answer).await.unwrap_or_default();
        if status.is_server_error()
            && let Ok(Some(id)) = find().await
        {
            return Ok(id);
        }
        if status != StatusCode::CREATED {
            return Err(github_refusal(status, &text, release.repository, &deployment));
        }
        let created: Result<Deployment, _> = serde_json::from_slice(&text);
        created.map(|created| created.id).map_err(|_| client::not_github(&self.api_url))
    }

    /// Finds the deployment of this request, if it was created.
    async fn find(
        &self,
        repository: &RepoName,
        deployment: &GitHubDeployment<'_>,
    ) -> Result<Option<i64>, CliError> {
        let target = deployment.target;
        // A target's name has no character with a meaning in a query.
        let path = format!("repos/{repository}/deployments?environment={target}&per_page=30");
        let request = self.request(Method::GET, &path)?;
        let lost = |error| client::unreachable(&self.api_url, &error);
        let answer = request.send().await.map_err(lost)?;
        let deployments: Option<Vec<Deployment>> = client::read_json(&self.api_url, answer).await?;
        let deployments = deployments.ok_or_else(|| client::not_github(&self.api_url))?;
        let own = deployments.into_iter().find(|one| deployment.has_payload(&one.payload));
        Ok(own.map(|deployment| deployment.id))
    }

    /// Reads a resource.
    pub(in crate::cli::bart) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<T, CliError> {
        self.exchange(self.request(Method::GET, path)?).await
    }

    /// Creates or changes a resource.
    pub(in crate::cli::bart) async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &Json,
    ) -> Result<T, CliError> {
        self.exchange(self.request(method, path)?.json(body)).await
    }

    /// Deletes a resource.
    pub(in crate::cli::bart) async fn delete(&self, path: &str) -> Result<(), CliError> {
        let lost = |error| client::unreachable(&self.api_url, &error);
        let answer = self.request(Method::DELETE, path)?.send().await.map_err(lost)?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(plain_refusal(status, &[])) }
    }

    async fn exchange<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, CliError> {
        let lost = |error| client::unreachable(&self.api_url, &error);
        let answer = request.send().await.map_err(lost)?;
        let status = answer.status();
        let body = client::read_body(&self.api_url, answer).await?;
        if !status.is_success() {
            return Err(plain_refusal(status, &body));
        }
        serde_json::from_slice(&body).map_err(|_| client::not_github(&self.api_url))
    }

    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, CliError> {
        let request = client::client()?.request(method, format!("{}/{path}", self.api_url));
        let request = request
            .header("accept", "application/vnd.github+json")
            .header("x-github-api-version", "2022-11-28");
        Ok(request.bearer_auth(self.token.expose_secret()))
    }
}

/// Explains a refusal of something other than a deployment.
fn plain_refusal(status: StatusCode, body: &[u8]) -> CliError {
    let message = refusal_message(body);
    let refused = CliError::refused(format!("GitHub refuses ({status}): {message}"));
    match status {
        StatusCode::UNAUTHORIZED => refused.hint(EXPIRED),
        StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => refused
            .hint("the token must be allowed to read and write contents and pull requests of the repository"),
        StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY => {
            refused.hint("the branch may have changed meanwhile: try it again")
        }
        _ => CliError::io(format!("GitHub answers {status}: {message}")),
    }
}

/// Reads the message of a refusal, in one line.
fn refusal_message(body: &[u8]) -> String {
    let answer: Json = serde_json::from_slice(body).unwrap_or_default();
    let message = answer.get("message").and_then(Json::as_str).unwrap_or_default();
    message.chars().filter(|c| !c.is_control()).take(300).collect()
}

/// Explains GitHub's refusal, and what to do.
fn github_refusal(
    status: StatusCode,
    body: &[u8],
    repository: &RepoName,
    deployment: &GitHubDeployment<'_>,
) -> CliError {
    let answer: Json = serde_json::from_slice(body).unwrap_or_default();
    let message = refusal_message(body);
    let refusal =
        |hint: &str| CliError::refused(format!("GitHub refuses ({status}): {message}")).hint(hint);
    if status == StatusCode::UNAUTHORIZED {
        return refusal(EXPIRED);
    }
    let errors = answer.get("errors").unwrap_or(&Json::Null);
    match deployment.refusal_help(repository, "the token", (status.as_u16(), &message, errors)) {
        Some(help) => refusal(&help),
        None => CliError::io(format!("GitHub answers {status}: {message}"))
            .hint("nothing was created; try again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_says_what_to_do() {
        let repository = RepoName::parse("acme/shop").unwrap();
        let deployment = GitHubDeployment {
            git_ref: "main",
            target: &TargetName::parse("prod-1").unwrap(),
            app: None,
            tag: &ImageTag::parse("1.0").unwrap(),
            description: "",
            production: false,
            contexts: None,
            by: "bart",
            key: "r1",
        };
        for (status, answer, hint) in [
            (401, r#"{"message": "Bad credentials"}"#, "bart login"),
            (403, r#"{"message": "Resource not accessible"}"#, "deployments: write"),
            (409, r#"{"errors": [{"contexts": [{"context": "a", "state": "b"}]}]}"#, "a is b"),
            (422, r#"{"message": "No ref found for: main"}"#, "push it"),
            (422, "null", "compare"),
            (500, "{}", "try again"),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let error = github_refusal(status, answer.as_bytes(), &repository, &deployment);
            let text = format!("{error:?}");
            assert!(text.contains(hint), "{text}");
        }
    }

    #[test]
    fn production_targets_are_named_by_a_glob() {
        let target = TargetName::parse("prod-1").unwrap();
        assert!(production("prod*", &target).unwrap());
        assert!(!production("live*", &target).unwrap());
        assert!(production("[", &target).is_err());
    }
}
