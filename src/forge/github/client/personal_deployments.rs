//! Deployments that people create at GitHub with their own tokens, so that GitHub decides whether they may. GitHub's event
//! starts them at the service, as those of any other program.
//!
//! A deployment has a key in its payload: by it one is found whose creation was not answered, so that none is created
//! twice.

use http::Method;
use reqwest::StatusCode;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value as Json;

use crate::forge::Forge;
use crate::forge::error::ForgeError;
use crate::forge::github::answer::ErrorAnswer;
use crate::forge::github::client::{GitHubClient, PER_PAGE};
use crate::forge::github::permission::Permission;
use crate::forge::github::request::{ApiCall, RequestCredential, RequestSubject};
use crate::forge::github::wire::RequestOutcome;
use crate::model::github_deployment::GitHubDeployment;
use crate::model::id::{CommitSha, RepoName};
use crate::model::person::IdentityError;

/// A deployment that GitHub has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonalDeployment {
    /// GitHub's number of it.
    pub number: i64,
    /// The commit that it deploys; `None` where GitHub says none that can be one.
    pub commit: Option<CommitSha>,
}

/// The reason why a person's deployment was not created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PersonalDeploymentError {
    /// GitHub does not answer to the token, or not now. Nothing was created.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// GitHub refuses it; nothing was created.
    #[error("GitHub refuses the deployment ({status}): {message}")]
    Refused {
        /// The status of its answer.
        status: u16,
        /// GitHub's own words, cut.
        message: String,
        /// The way out.
        help: String,
    },
    /// GitHub's answer did not come. It may have been created: whoever asks again under the same key finds it.
    #[error("GitHub did not answer to the creation of the deployment ({0})")]
    Unanswered(String),
}

/// A deployment as GitHub lists it.
#[derive(Deserialize)]
struct ListedDeployment {
    id: i64,
    #[serde(default)]
    sha: String,
    #[serde(default)]
    payload: Json,
}

impl Forge {
    /// Creates a deployment with a person's own token, or finds the one that was created under its key before.
    ///
    /// # Errors
    /// [`PersonalDeploymentError`]
    pub async fn create_personal_deployment(
        &self,
        token: &SecretString,
        repository: &RepoName,
        deployment: &GitHubDeployment<'_>,
    ) -> Result<PersonalDeployment, PersonalDeploymentError> {
        let Self::GitHub(github) = self else {
            let detail = "a local forge has no deployments of people".to_owned();
            return Err(IdentityError::Forbidden(detail).into());
        };
        if let Some(earlier) = github.find_personal(token, repository, deployment).await? {
            return Ok(earlier);
        }
        let body = deployment.body();
        let call = ApiCall::write(
            RequestSubject::Repository(repository),
            Permission::WRITE_DEPLOYMENTS,
            Method::POST,
            route(repository),
            &body,
        );
        let lost = match github.send_personal(token, &call).await {
            Ok(Ok(success)) => match github.visitors.parsed::<ListedDeployment>(&success) {
                Ok(created) => return Ok(created.into()),
                Err(error) => problem_of(error),
            },
            Ok(Err(answer)) if !answer.status.is_server_error() => {
                return Err(refusal(&answer, repository, deployment));
            }
            Ok(Err(answer)) => format!("it answers {}", answer.status),
            Err(error) if error.may_have_arrived() => problem_of(error),
            Err(error) => return Err(IdentityError::Unavailable(problem_of(error)).into()),
        };
        // The request may have arrived all the same.
        let earlier = github.find_personal(token, repository, deployment).await.ok().flatten();
        earlier.ok_or(PersonalDeploymentError::Unanswered(lost))
    }
}

impl GitHubClient {
    /// Finds the deployment with that key among the newest of its environment.
    async fn find_personal(
        &self,
        token: &SecretString,
        repository: &RepoName,
        deployment: &GitHubDeployment<'_>,
    ) -> Result<Option<PersonalDeployment>, PersonalDeploymentError> {
        // A target's name has no character with a meaning in a query.
        let target = deployment.target;
        let route = format!("{}?environment={target}&per_page={PER_PAGE}", route(repository));
        let subject = RequestSubject::Repository(repository);
        let call = ApiCall::get(subject, Permission::READ_DEPLOYMENTS, route);
        let unavailable =
            |error| PersonalDeploymentError::from(IdentityError::Unavailable(problem_of(error)));
        let success = match self.send_personal(token, &call).await.map_err(unavailable)? {
            Ok(success) => success,
            Err(answer) if answer.status.is_server_error() => {
                let detail = format!("it answers {}", answer.status);
                return Err(IdentityError::Unavailable(detail).into());
            }
            Err(answer) => return Err(refusal(&answer, repository, deployment)),
        };
        let listed: Vec<ListedDeployment> = self.visitors.parsed(&success).map_err(unavailable)?;
        let own = listed.into_iter().find(|one| deployment.has_payload(&one.payload));
        Ok(own.map(PersonalDeployment::from))
    }

    async fn send_personal(
        &self,
        token: &SecretString,
        call: &ApiCall<'_>,
    ) -> Result<RequestOutcome, ForgeError> {
        let pass = RequestCredential { token: token.clone(), account: None };
        self.visitors.send(call, &pass).await
    }
}

impl From<ListedDeployment> for PersonalDeployment {
    fn from(ListedDeployment { id, sha, payload: _ }: ListedDeployment) -> Self {
        Self { number: id, commit: CommitSha::parse(sha).ok() }
    }
}

fn route(repository: &RepoName) -> String {
    format!("/repos/{repository}/deployments")
}

/// Explains GitHub's refusal, and what to do.
fn refusal(
    answer: &ErrorAnswer,
    repository: &RepoName,
    deployment: &GitHubDeployment<'_>,
) -> PersonalDeploymentError {
    if let Some(wait) = answer.time_to_wait() {
        return IdentityError::RateLimited(wait).into();
    }
    if answer.status == StatusCode::UNAUTHORIZED {
        return IdentityError::InvalidToken.into();
    }
    let ErrorAnswer { status, message, errors, .. } = answer;
    let status = status.as_u16();
    let help = match answer.sign_on() {
        Some(url) => format!("authorize your GitHub token for single sign-on at {url}"),
        None => deployment
            .refusal_help(repository, "your GitHub token", (status, message, errors))
            .unwrap_or_else(|| "compare the request with GitHub's message".to_owned()),
    };
    PersonalDeploymentError::Refused { status, message: message.clone(), help }
}

/// Returns the fault without the sentence that it will be tried again, which holds for the service's own requests.
fn problem_of(error: ForgeError) -> String {
    match error {
        ForgeError::NotSent { problem, .. } | ForgeError::Unreachable { problem, .. } => problem,
        other => other.to_string(),
    }
}
