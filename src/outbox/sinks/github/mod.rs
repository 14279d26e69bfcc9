//! Sends the statuses of a deployment to the code host, the commit status beside them, and the
//! check run that shows violations at their lines.
//!
//! A message in doubt is searched for and not written a second time. The content is composed at the
//! time of sending: a commit shows the newest deployment that it has on a target.

mod words; // the texts of check runs, pure

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::deployments::outcome::{DeployError, Remedy};
use crate::forge::check::CheckRun;
use crate::forge::error::ForgeError;
use crate::forge::{
    APP_TASK, CommitState, CommitStatus, DeploymentStatus, NewDeployment, ROLLBACK_TASK,
    ROLLOUT_TASK,
};
use crate::model::deployment::{Deployment, ForgeState};
use crate::model::event::DeploymentRequest;
use crate::outbox::delivery::{Delivered, DeliveryFailure, EndCheck};
use crate::outbox::sinks::Sinks;
use crate::store::{OutboxMessage, StoreError};
use crate::support::time::saturating_add;

/// The time after which a commit that GitHub does not know never comes: GitHub's own parts agree
/// within minutes.
const COMMIT_DEADLINE: SignedDuration = SignedDuration::from_mins(2);
/// The delay for a repository that was renamed: its next event has its present name, and wakes the
/// messages that wait for it.
const RENAME_DELAY: Duration = Duration::from_mins(10);
/// The delay after refused credentials. They are refused for all requests: one message tries again
/// after this, and the others wait for it.
const CREDENTIALS: Duration = Duration::from_mins(5);

/// The reason why the code host did not get a status.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReportError {
    /// The code host did not accept it.
    #[error(transparent)]
    Forge(#[from] ForgeError),
    /// The database did not return the status to send: nothing was sent.
    #[error("the status to send cannot be read: {0}")]
    Store(#[from] StoreError),
}

impl From<ReportError> for DeliveryFailure {
    fn from(error: ReportError) -> Self {
        match &error {
            ReportError::Forge(error) => delivery_problem(error),
            ReportError::Store(_) => DeployError::retry(error.to_string()).into(),
        }
    }
}

impl Sinks {
    /// Defers messages that wait for the present name of a repository that was renamed, or for an
    /// account.
    ///
    /// An App has an account at each owner: an account that GitHub limits delays no other. The
    /// client holds the account's requests back meanwhile. Every other refusal of GitHub's delays all
    /// messages.
    pub(super) fn defer_limited_account<T>(
        &self,
        outcome: Result<T, ReportError>,
        now: Timestamp,
        later: impl FnOnce(Timestamp) -> T,
    ) -> Result<T, DeliveryFailure> {
        let wait = match &outcome {
            Err(ReportError::Forge(ForgeError::RateLimited { retry_after, .. }))
                if self.deployments.forge.knows_deliveries() =>
            {
                *retry_after
            }
            Err(ReportError::Forge(ForgeError::Renamed { .. })) => RENAME_DELAY,
            _ => return outcome.map_err(DeliveryFailure::from),
        };
        let reason = outcome.err().map(|error| error.to_string());
        tracing::debug!(reason, "message waits");
        Ok(later(saturating_add(now, wait)))
    }

    /// Sends the next status of a deployment.
    pub(super) async fn deployment_status(
        &self,
        message: &OutboxMessage,
    ) -> Result<Delivered, ReportError> {
        let (forge, repository) = (&self.deployments.forge, &message.repository);
        let Some(forge_id) = self.number(message).await? else {
            return Ok(Delivered::Nothing("the code host has no deployments".to_owned()));
        };
        let status = self.compose_deployment_status(message);
        if !message.unsure || !forge.has_status(repository, forge_id, &status).await? {
            forge.report(repository, forge_id, &status).await?;
        }
        Ok(Delivered::Yes { reference: None })
    }

    /// Sends the final status of a deployment again, if the newest status of this service is
    /// another one. Statuses of other programs after it stay.
    pub(super) async fn confirm_deployment_status(
        &self,
        message: &OutboxMessage,
    ) -> Result<EndCheck, ReportError> {
        let (forge, repository) = (&self.deployments.forge, &message.repository);
        let record = self.deployments.store.deployment(&message.deployment).await?;
        let Some(forge_id) = record.and_then(|record| record.request.number()) else {
            return Ok(EndCheck::Shown);
        };
        let page = self.deployments.page_of(&message.deployment);
        let statuses = forge.statuses(repository, forge_id).await?;
        let own_status =
            statuses.iter().find(|status| status.log_url.as_deref() == Some(page.as_str()));
        if own_status.is_none_or(|newest| newest.state == message.status.state.as_str()) {
            return Ok(EndCheck::Shown);
        }
        let status = self.compose_deployment_status(message);
        forge.report(repository, forge_id, &status).await?;
        Ok(EndCheck::Retold)
    }

    fn compose_deployment_status(&self, message: &OutboxMessage) -> DeploymentStatus {
        DeploymentStatus {
            state: message.status.state,
            description: message.status.description().to_owned(),
            log_url: Some(self.deployments.page_of(&message.deployment)),
            environment_url: message.address.clone(),
        }
    }

    /// Returns the code host's number of the deployment. A deployment that began in this service is
    /// created there with its first status; where it may exist already, it is searched for first.
    async fn number(&self, message: &OutboxMessage) -> Result<Option<i64>, ReportError> {
        let (forge, store) = (&self.deployments.forge, &self.deployments.store);
        if message.forge_id > 0 {
            return Ok(Some(message.forge_id));
        }
        let Some(record) = store.deployment(&message.deployment).await? else { return Ok(None) };
        if let Some(number) = record.request.number() {
            return Ok(Some(number));
        }
        let deployment = build_deployment(record);
        let existing = if message.attempts > 1 || message.seq > 1 {
            forge.find_deployment(&deployment).await?
        } else {
            None
        };
        let number = match existing {
            Some(number) => Some(number),
            None => forge.create_deployment(&deployment).await?,
        };
        if let Some(number) = number {
            store.number_rollback(&message.deployment, number).await?;
        }
        Ok(number)
    }

    /// Sends the commit status `deploy/<target>` beside a deployment's status: the state of the
    /// commit on that target.
    pub(super) async fn commit_status(
        &self,
        message: &OutboxMessage,
    ) -> Result<Delivered, ReportError> {
        if let Some(delivery) = self.newer_deployment_reason(message).await? {
            return Ok(delivery);
        }
        let OutboxMessage { repository, commit, unsure, .. } = message;
        let (forge, status) = (&self.deployments.forge, self.compose_commit_status(message));
        if *unsure && forge.has_commit_status(repository, commit, &status).await? {
            return Ok(Delivered::Yes { reference: None });
        }
        let is_old = || self.deployments.clock.now().duration_since(message.at) > COMMIT_DEADLINE;
        match forge.commit_status(repository, commit, &status).await {
            Ok(()) => Ok(Delivered::Yes { reference: None }),
            Err(error) if has_no_commit(&error) && is_old() => {
                Ok(Delivered::Nothing(format!("GitHub knows no commit {commit}")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Sends the final status of a commit again, if its newest status of that context is another
    /// one.
    pub(super) async fn confirm_commit_status(
        &self,
        message: &OutboxMessage,
    ) -> Result<EndCheck, ReportError> {
        if self.newer_deployment_reason(message).await?.is_some() {
            return Ok(EndCheck::Shown);
        }
        let OutboxMessage { repository, commit, .. } = message;
        let (forge, status) = (&self.deployments.forge, self.compose_commit_status(message));
        if forge.has_commit_status(repository, commit, &status).await? {
            return Ok(EndCheck::Shown);
        }
        forge.commit_status(repository, commit, &status).await?;
        Ok(EndCheck::Retold)
    }

    fn compose_commit_status(&self, message: &OutboxMessage) -> CommitStatus {
        CommitStatus {
            context: context(message),
            state: commit_state(message.status.state),
            description: message.status.description().to_owned(),
            target_url: Some(self.deployments.page_of(&message.deployment)),
        }
    }

    /// Returns the reason why a commit needs no status of this deployment: a newer deployment's
    /// status has the state of the commit.
    async fn newer_deployment_reason(
        &self,
        message: &OutboxMessage,
    ) -> Result<Option<Delivered>, StoreError> {
        let newer = self.deployments.store.newer_of_commit(message).await?;
        Ok(newer.map(|newer| {
            Delivered::Nothing(format!(
                "deployment {newer} is a newer one of the same commit to {}",
                message.target
            ))
        }))
    }

    /// Sends the check run of a deployment that has ended: the reason why it was not deployed, and
    /// that it was later.
    pub(super) async fn check_run(
        &self,
        message: &OutboxMessage,
    ) -> Result<Delivered, ReportError> {
        if let Some(delivery) = self.newer_deployment_reason(message).await? {
            return Ok(delivery);
        }
        let Some(run) = self.compose_check_run(message).await? else {
            return Ok(Delivered::Nothing("there is no failed check run to close".to_owned()));
        };
        match self.write_check_run(message, &run).await {
            Ok(id) => Ok(Delivered::Yes { reference: Some(id.to_string()) }),
            // The App lacks the permission, which is the operator's choice and no alarm.
            Err(error @ (ForgeError::MissingPermission { .. } | ForgeError::NeedsApp { .. })) => {
                Ok(Delivered::Nothing(error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn compose_check_run(
        &self,
        message: &OutboxMessage,
    ) -> Result<Option<CheckRun>, StoreError> {
        let (store, failures) = (&self.deployments.store, [ForgeState::Failure, ForgeState::Error]);
        let state = message.status.state;
        // A success is shown only where a failure is: the commit status shows it anyway.
        let closes = state == ForgeState::Success
            && store.last_check(message).await?.is_some_and(|earlier| failures.contains(&earlier));
        if !closes && !failures.contains(&state) {
            return Ok(None);
        }
        let Some(deployment) = store.deployment(&message.deployment).await? else {
            return Ok(None);
        };
        let page = self.deployments.page_of(&message.deployment);
        let words::CheckText { conclusion, title, summary, annotations } = if closes {
            words::success_text(&deployment, &page)
        } else {
            let path = self.deployments.waml_path(deployment.request.release.app.as_ref());
            words::failure_text(&deployment, &page, &path)
        };
        Ok(Some(CheckRun {
            name: context(message),
            head: message.commit.clone(),
            external_id: deployment.id.to_string(),
            conclusion: Some(conclusion),
            title,
            summary,
            text: None,
            details_url: Some(page),
            annotations,
        }))
    }

    /// Writes the check run, or completes the one that an earlier attempt wrote.
    async fn write_check_run(
        &self,
        message: &OutboxMessage,
        run: &CheckRun,
    ) -> Result<i64, ForgeError> {
        let OutboxMessage { repository, commit, unsure, .. } = message;
        let forge = &self.deployments.forge;
        if *unsure
            && let Some(id) =
                forge.find_check(repository, commit, &run.name, &run.external_id).await?
        {
            forge.update_check(repository, id, run).await?;
            return Ok(id);
        }
        forge.create_check(repository, run).await
    }
}

/// Returns the context of statuses and check runs: one for each target and app, so that they replace each other
/// where these are the same. The only app of a repository has no name, and all apps together have none either.
fn context(message: &OutboxMessage) -> String {
    let OutboxMessage { target, app_name, .. } = message;
    match app_name.as_str() {
        "" | "*" => format!("deploy/{target}"),
        app => format!("deploy/{target}/{app}"),
    }
}

fn build_deployment(record: Deployment) -> NewDeployment {
    let (task, verb) = match (&record.rollback, &record.parent) {
        (Some(_), _) => (ROLLBACK_TASK, "rolled back"),
        (None, Some(_)) => (APP_TASK, "deployed with all apps"),
        (None, None) => (ROLLOUT_TASK, "rolled out"),
    };
    let DeploymentRequest { release, target, production, description, actor, .. } = record.request;
    let description = format!("{verb} by {actor}: {description}");
    let (id, rollout) = (record.id, record.rollout);
    NewDeployment { id, release, target, description, production, rollout, task }
}

/// Returns true for GitHub's error `No commit found for SHA: …`.
pub(in crate::outbox) fn has_no_commit(error: &ForgeError) -> bool {
    match error {
        ForgeError::NoCommit { .. } => true,
        ForgeError::Refused { status: 422, message, .. } => message.contains("No commit found"),
        _ => false,
    }
}

/// Returns the commit status of a deployment's state. A commit status has no `inactive`. A
/// deployment that was superseded before it was deployed gets an end that is no success: the commit
/// is not on the target.
fn commit_state(state: ForgeState) -> CommitState {
    match state {
        ForgeState::Queued | ForgeState::InProgress => CommitState::Pending,
        ForgeState::Success => CommitState::Success,
        ForgeState::Failure => CommitState::Failure,
        ForgeState::Error | ForgeState::Inactive => CommitState::Error,
    }
}

/// Returns the problem of an error. Without an answer the message is in doubt. A thing that the
/// code host does not find may appear: its own parts agree late, and rights are granted late. What
/// it understands and refuses, it will refuse the next time.
pub(in crate::outbox) fn delivery_problem(error: &ForgeError) -> DeliveryFailure {
    let DeployError { remedy, message } = DeployError::from(error);
    let remedy = match error {
        ForgeError::BadCredentials { .. } => Remedy::Retry { after: Some(CREDENTIALS) },
        ForgeError::Archived { .. } => Remedy::Reject,
        ForgeError::Refused { status, message, .. } if is_permanent(*status, message) => {
            Remedy::Reject
        }
        _ if remedy == Remedy::Reject => Remedy::GiveUp,
        _ => remedy,
    };
    DeliveryFailure { problem: DeployError { remedy, message }, unsure: error.may_have_arrived() }
}

/// Returns true for a request that is wrong in itself, and not too early: GitHub may not know the
/// commit yet. It gives the same answer to requests that it takes for spam, which passes.
fn is_permanent(status: u16, message: &str) -> bool {
    let passes = ["No commit found", "spammed", "abuse"];
    status == 422 && !passes.iter().any(|text| message.contains(text))
}
