//! Deployments, and the statuses of deployments and of commits: listed, written, and found again.
//!
//! Nothing is written twice by itself: after an error that [may have arrived](ForgeError::may_have_arrived) the caller
//! looks first. The local host has no statuses: the database keeps the same.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::forge::error::ForgeError;
use crate::forge::github::client::{CreatedObject, PER_PAGE};
use crate::forge::github::permission::Permission;
use crate::forge::github::request::{ApiCall, RequestSubject};
use crate::forge::{CommitStatus, DeploymentStatus, Forge, ListedStatus, NewDeployment};
use crate::model::id::{CommitSha, RepoName};
use crate::model::status::ForgeStatus;
use crate::support::text::truncate_chars;

/// The limit of pages of statuses, for five hundred of them: a deployment has some five of the service, and others add
/// to it.
const STATUS_PAGES: usize = 5;
/// A thousand contexts at one commit.
const CONTEXT_PAGES: usize = 10;
/// The number of newest deployments that are searched for one that was just created.
const SEARCHED: u32 = 100;

/// A deployment status as GitHub sends it: its state is any word.
#[derive(Deserialize)]
struct SentStatus {
    state: String,
    description: Option<String>,
    log_url: Option<String>,
    creator: Option<Creator>,
}

#[derive(Deserialize)]
struct Creator {
    login: String,
}

/// The newest status of a context.
#[derive(Deserialize)]
struct SentOfCommit {
    state: Value,
    context: String,
    description: Option<String>,
    target_url: Option<String>,
}

impl Forge {
    /// Lists the newest deployments of a repository, newest first, each as GitHub sent it: as in an event's
    /// `deployment`.
    pub async fn recent_deployments(
        &self,
        repository: &RepoName,
        most: u32,
    ) -> Result<Vec<Value>, ForgeError> {
        let Self::GitHub(github) = self else { return Ok(Vec::new()) };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let (mut deployments, mut ids) = (Vec::new(), BTreeSet::new());
        let look = |page: Vec<Value>| {
            // A new one pushes the last of a page onto the next.
            let is_new =
                |deployment: &Value| deployment["id"].as_i64().is_none_or(|id| ids.insert(id));
            deployments.extend(page.into_iter().filter(is_new));
            if deployments.len() >= most {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let route = format!("/repos/{repository}/deployments");
        let list = ApiCall::get(
            RequestSubject::Repository(repository),
            Permission::READ_DEPLOYMENTS,
            route,
        );
        github.pages(list, most.div_ceil(PER_PAGE), look).await?;
        deployments.truncate(most);
        Ok(deployments)
    }

    /// Makes a deployment of one that began here, a rollback or a target of a rollout; its number. The local host has none.
    ///
    /// # Errors
    /// [`ForgeError`]; after [`ForgeError::Unreachable`] look with [`Forge::find_deployment`].
    pub async fn create_deployment(
        &self,
        new_deployment: &NewDeployment,
    ) -> Result<Option<i64>, ForgeError> {
        let Self::GitHub(github) = self else { return Ok(None) };
        let NewDeployment { id, release, target, description, production, rollout, task } =
            new_deployment;
        let body = json!({
            "ref": release.commit,
            "environment": target,
            "task": task,
            // A release that was deployed before needs no new checks.
            "required_contexts": [],
            // GitHub would merge the default branch into the ref.
            "auto_merge": false,
            "payload": without_nulls(json!({"tag": release.tag, "app": release.app, "deploy_id": id, "rollout": rollout})),
            "description": truncate_chars(description, ForgeStatus::LONGEST),
            "production_environment": production,
        });
        let subject = RequestSubject::Repository(&release.repository);
        let route = format!("/repos/{}/deployments", release.repository);
        let call =
            ApiCall::write(subject, Permission::WRITE_DEPLOYMENTS, Method::POST, route, &body);
        let CreatedObject { id } = github.read(call).await?;
        Ok(Some(id))
    }

    /// Returns the number of the deployment that was created from this one, which began at the service.
    pub async fn find_deployment(
        &self,
        new_deployment: &NewDeployment,
    ) -> Result<Option<i64>, ForgeError> {
        let deployments =
            self.recent_deployments(&new_deployment.release.repository, SEARCHED).await?;
        let is_same = |deployment: &&Value| {
            let id = deployment.pointer("/payload/deploy_id").and_then(Value::as_str);
            deployment["task"] == new_deployment.task && id == Some(new_deployment.id.as_str())
        };
        Ok(deployments.iter().find(is_same).and_then(|deployment| deployment["id"].as_i64()))
    }

    /// Writes the status of a deployment at the host.
    ///
    /// # Errors
    /// [`ForgeError`]; after [`ForgeError::Unreachable`] the host may have it nevertheless.
    pub async fn report(
        &self,
        repository: &RepoName,
        forge_id: i64,
        status: &DeploymentStatus,
    ) -> Result<(), ForgeError> {
        let Self::GitHub(github) = self else { return Ok(()) };
        let DeploymentStatus { state, description, log_url, environment_url } = status;
        let body = without_nulls(json!({
            "state": state.as_str(),
            "description": truncate_chars(description, ForgeStatus::LONGEST),
            "log_url": log_url,
            "environment_url": environment_url,
            // GitHub would make older ones of the environment inactive, whatever app they are of.
            "auto_inactive": false,
        }));
        let (subject, route) =
            (RequestSubject::Repository(repository), route(repository, forge_id));
        let call =
            ApiCall::write(subject, Permission::WRITE_DEPLOYMENTS, Method::POST, route, &body);
        github.done(call.yielding()).await
    }

    /// Checks that a deployment has that status: one with the same text that leads to the same page.
    pub async fn has_status(
        &self,
        repository: &RepoName,
        forge_id: i64,
        status: &DeploymentStatus,
    ) -> Result<bool, ForgeError> {
        let Self::GitHub(github) = self else { return Ok(true) };
        let is_match = |sent: &SentStatus| {
            let DeploymentStatus { state, description, log_url, environment_url: _ } = status;
            sent.state == state.as_str()
                && is_same_description(sent.description.as_deref(), description)
                && leads_to(sent.log_url.as_deref(), log_url.as_deref())
        };
        let look = |page: Vec<SentStatus>| {
            if page.iter().any(is_match) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        Ok(github.pages(statuses(repository, forge_id), STATUS_PAGES, look).await?.is_some())
    }

    /// Lists the statuses of a deployment, newest first; five hundred at most.
    pub async fn statuses(
        &self,
        repository: &RepoName,
        forge_id: i64,
    ) -> Result<Vec<ListedStatus>, ForgeError> {
        let Self::GitHub(github) = self else { return Ok(Vec::new()) };
        let statuses: Vec<SentStatus> =
            github.read_all(statuses(repository, forge_id), STATUS_PAGES).await?;
        let to_listed = |SentStatus { state, description, log_url, creator }| ListedStatus {
            state,
            description: description.unwrap_or_default(),
            log_url: log_url.filter(|url| !url.is_empty()),
            creator: creator.map(|creator: Creator| creator.login),
        };
        Ok(statuses.into_iter().map(to_listed).collect())
    }

    /// Writes the status of a commit at the host.
    ///
    /// # Errors
    /// [`ForgeError`]; after [`ForgeError::Unreachable`] the host may have it nevertheless.
    pub async fn commit_status(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        status: &CommitStatus,
    ) -> Result<(), ForgeError> {
        let Self::GitHub(github) = self else { return Ok(()) };
        let CommitStatus { context, state, description, target_url } = status;
        let body = without_nulls(json!({
            "state": state,
            "context": context,
            "description": truncate_chars(description, ForgeStatus::LONGEST),
            "target_url": target_url,
        }));
        let route = format!("/repos/{repository}/statuses/{commit}");
        let (subject, permission) =
            (RequestSubject::Repository(repository), Permission::WRITE_STATUSES);
        github
            .done(ApiCall::write(subject, permission, Method::POST, route, &body).yielding())
            .await
    }

    /// Checks that the newest status of that context at the commit has the same text.
    pub async fn has_commit_status(
        &self,
        repository: &RepoName,
        commit: &CommitSha,
        status: &CommitStatus,
    ) -> Result<bool, ForgeError> {
        let Self::GitHub(github) = self else { return Ok(true) };
        let CommitStatus { context, state, description, target_url } = status;
        let is_of_context =
            |status: &SentOfCommit| status.context.to_lowercase() == context.to_lowercase();
        let look = |page: Vec<SentOfCommit>| match page.into_iter().find(is_of_context) {
            Some(newest) => ControlFlow::Break(newest),
            None => ControlFlow::Continue(()),
        };
        let route = format!("/repos/{repository}/commits/{commit}/status");
        let list =
            ApiCall::get(RequestSubject::Repository(repository), Permission::READ_STATUSES, route);
        let newest = github.pages(list.yielding(), CONTEXT_PAGES, look).await?;
        Ok(newest.is_some_and(|status| {
            status.state == json!(state)
                && is_same_description(status.description.as_deref(), description)
                && leads_to(status.target_url.as_deref(), target_url.as_deref())
        }))
    }
}

fn route(repository: &RepoName, forge_id: i64) -> String {
    format!("/repos/{repository}/deployments/{forge_id}/statuses")
}

/// Builds the request for statuses: they are only shown to people, so it gives way to deployments.
fn statuses(repository: &RepoName, forge_id: i64) -> ApiCall<'_> {
    let (subject, permission) =
        (RequestSubject::Repository(repository), Permission::READ_DEPLOYMENTS);
    ApiCall::get(subject, permission, route(repository, forge_id)).yielding()
}

/// Returns whether the description is that one, cut as it was sent.
fn is_same_description(sent: Option<&str>, expected: &str) -> bool {
    sent.unwrap_or_default() == truncate_chars(expected, ForgeStatus::LONGEST)
}

/// Returns whether both lead to the same page, or to none: GitHub sends an empty text for none.
fn leads_to(sent: Option<&str>, expected: Option<&str>) -> bool {
    sent.unwrap_or_default() == expected.unwrap_or_default()
}

/// Removes the fields that are null, so that they are not sent.
fn without_nulls(mut body: Value) -> Value {
    if let Some(fields) = body.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    body
}
