//! Creates GitHub Deployments with the developer's own token.

use globset::Glob;
use reqwest::{Method, RequestBuilder, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::cli::client;
use crate::cli::error::CliError;
use crate::model::id::{ImageTag, RepoName, TargetName};
use crate::model::status::ForgeStatus;
use crate::support::clock;
use crate::support::text::truncate_chars;

/// A GitHub with the developer's token.
#[derive(Debug)]
pub(super) struct GitHubSession {
    pub(super) api_url: String,
    pub(super) token: SecretString,
}

/// The release to deploy to every target.
#[derive(Debug)]
pub(super) struct ReleaseToDeploy<'a> {
    pub(super) repository: &'a RepoName,
    pub(super) git_ref: &'a str,
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
        // A unique key: by it a deployment is found whose creation was not answered.
        let key = clock::random_digits();
        let find = || self.find(release.repository, target, &key);
        let body = body(release, target, production(release.production, target)?, &key);
        let path = format!("repos/{}/deployments", release.repository);
        let request = self.request(Method::POST, &path)?.json(&body);
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
            return Err(github_refusal(status, &text, release));
        }
        let created: Result<Deployment, _> = serde_json::from_slice(&text);
        created.map(|created| created.id).map_err(|_| client::not_github(&self.api_url))
    }

    /// Finds the deployment of this request, if it was created.
    async fn find(
        &self,
        repository: &RepoName,
        target: &TargetName,
        key: &str,
    ) -> Result<Option<i64>, CliError> {
        // A target's name has no character with a meaning in a query.
        let path = format!("repos/{repository}/deployments?environment={target}&per_page=30");
        let request = self.request(Method::GET, &path)?;
        let lost = |error| client::unreachable(&self.api_url, &error);
        let answer = request.send().await.map_err(lost)?;
        let deployments: Option<Vec<Deployment>> = client::read_json(&self.api_url, answer).await?;
        let deployments = deployments.ok_or_else(|| client::not_github(&self.api_url))?;
        let own = deployments.into_iter().find(|deployment| {
            deployment.payload.get("request").is_some_and(|request| request == key)
        });
        Ok(own.map(|deployment| deployment.id))
    }

    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, CliError> {
        let request = client::client()?.request(method, format!("{}/{path}", self.api_url));
        let request = request
            .header("accept", "application/vnd.github+json")
            .header("x-github-api-version", "2022-11-28");
        Ok(request.bearer_auth(self.token.expose_secret()))
    }
}

/// Returns the request's body. `auto_merge` is off: GitHub deploys the commit as it is and merges nothing into it. The
/// contexts are named, because without them GitHub requires every status on the commit to be green, this service's of
/// an earlier failure among them.
fn body(release: &ReleaseToDeploy<'_>, target: &TargetName, production: bool, key: &str) -> Json {
    let ReleaseToDeploy { repository: _, git_ref, tag, description, contexts, production: _ } =
        release;
    let description = truncate_chars(description, ForgeStatus::LONGEST);
    let mut body = json!({
        "ref": git_ref,
        "environment": target,
        "task": "deploy",
        "auto_merge": false,
        "description": description,
        "production_environment": production,
        "payload": {"tag": tag, "by": "bart", "request": key},
    });
    if let (Some(contexts), Some(map)) = (contexts, body.as_object_mut()) {
        map.insert("required_contexts".to_owned(), json!(contexts));
    }
    body
}

/// Explains GitHub's refusal, and what to do.
fn github_refusal(status: StatusCode, body: &[u8], release: &ReleaseToDeploy<'_>) -> CliError {
    let answer: Json = serde_json::from_slice(body).unwrap_or_default();
    let message = answer.get("message").and_then(Json::as_str).unwrap_or_default();
    let message: String = message.chars().filter(|c| !c.is_control()).take(300).collect();
    let ReleaseToDeploy { repository, git_ref, .. } = release;
    let refusal =
        |hint: &str| CliError::refused(format!("GitHub refuses ({status}): {message}")).hint(hint);
    match status.as_u16() {
        401 => {
            refusal("the token has expired or was revoked: `bart login`, or set BART_GITHUB_TOKEN")
        }
        403 => refusal(&format!("the token needs `deployments: write` on {repository}")),
        404 => refusal(&format!(
            "the token does not see {repository}, or may not deploy it: it needs `deployments: write` there"
        )),
        409 => refusal(&format!(
            "the required checks have not succeeded on {git_ref}{}",
            contexts(&answer)
        )),
        422 if message.contains("No ref found") => {
            refusal(&format!("{git_ref} is not at GitHub: push it, then deploy again"))
        }
        422 => refusal("compare the request with GitHub's message"),
        _ => CliError::io(format!("GitHub answers {status}: {message}"))
            .hint("nothing was created; try again"),
    }
}

/// Lists the checks of a conflict with their states.
fn contexts(answer: &Json) -> String {
    let errors = answer.get("errors").and_then(Json::as_array).into_iter().flatten();
    let contexts = errors.filter_map(|error| error.get("contexts")?.as_array()).flatten();
    let name = |context: &Json| {
        let text = |key| context.get(key).and_then(Json::as_str).unwrap_or("?").to_owned();
        format!("{} is {}", text("context"), text("state"))
    };
    let contexts: Vec<String> = contexts.take(10).map(name).collect();
    if contexts.is_empty() { String::new() } else { format!(": {}", contexts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(contexts: Option<&[String]>, work: impl FnOnce(&ReleaseToDeploy<'_>) -> T) -> T {
        work(&ReleaseToDeploy {
            repository: &RepoName::parse("acme/shop").unwrap(),
            git_ref: "main",
            tag: &ImageTag::parse("1.0").unwrap(),
            description: &"x".repeat(200),
            contexts,
            production: "prod*",
        })
    }

    #[test]
    fn nothing_is_merged_and_contexts_are_chosen_on_purpose() {
        let target = TargetName::parse("prod-1").unwrap();
        let body = |release: &ReleaseToDeploy<'_>| body(release, &target, true, "r1");
        let none = with(Some(&[]), body);
        assert_eq!((&none["auto_merge"], &none["required_contexts"]), (&json!(false), &json!([])));
        assert_eq!(none["payload"], json!({"tag": "1.0", "by": "bart", "request": "r1"}));
        assert_eq!(none["description"].as_str().unwrap().chars().count(), 140);
        let with_context = with(Some(&["build".to_owned()]), body);
        assert_eq!(with_context["required_contexts"], json!(["build"]));
        assert!(with(None, body).get("required_contexts").is_none(), "GitHub asks for all");
    }

    #[test]
    fn every_refusal_says_what_to_do() {
        let conflict = json!({"message": "Conflict: Commit status checks failed for main.", "errors": [
            {"contexts": [{"context": "build", "state": "pending"}], "field": "required_contexts"}]});
        for (status, answer, hint) in [
            (401, json!({"message": "Bad credentials"}), "bart login"),
            (403, json!({"message": "Resource not accessible"}), "deployments: write"),
            (404, json!({"message": "Not Found"}), "does not see acme/shop"),
            (409, conflict, "have not succeeded on main: build is pending"),
            (422, json!({"message": "No ref found for: main"}), "push it"),
            (422, json!(null), "compare"),
            (500, json!({}), "try again"),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let error = with(None, |release| {
                github_refusal(status, answer.to_string().as_bytes(), release)
            });
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
