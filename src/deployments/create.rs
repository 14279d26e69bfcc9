//! Creates a deployment that a caller requests from this service: here, where the code host has no deployments of its own,
//! and otherwise at GitHub, with the caller's own token.

use std::time::Duration;

use jiff::Timestamp;
use secrecy::SecretString;
use sha2::{Digest as _, Sha256};

use crate::deployments::accept::{Acceptance, AuditContext};
use crate::deployments::{BackendError, CodeHost, Deployments};
use crate::forge::Forge;
use crate::forge::error::ForgeError;
use crate::forge::github::client::personal_deployments::{
    PersonalDeployment, PersonalDeploymentError,
};
use crate::model::audit::{AuditRecord, Principal};
use crate::model::event::DeploymentRequest;
use crate::model::github_deployment::{GitHubDeployment, RequiredChecks};
use crate::model::id::{AppKey, AppName, DeliveryId, DeployId, ImageTag, RepoName, TargetName};
use crate::model::release::Release;
use crate::model::target::Clusters;
use crate::store::{IdempotencyKey, KeyLease, Reply, StoreError};
use crate::support::clock;
use crate::support::retry::Disposition;

/// A deployment that a caller requests from this service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentToCreate {
    /// The service's repository.
    pub repository: RepoName,
    /// The app, where the repository has several; all of them where it is absent.
    pub app: Option<AppName>,
    /// A branch, a tag or a commit of it.
    pub git_ref: String,
    /// The image tag.
    pub tag: ImageTag,
    /// The target.
    pub target: TargetName,
    /// The reason, if there is one; at most 500 characters.
    pub description: String,
    /// The person or program that requests it.
    pub actor: String,
    /// The checks of the commit that must have succeeded; only GitHub knows any.
    pub checks: RequiredChecks,
}

/// A deployment that was requested and is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedDeployment {
    /// Its id; `None` before GitHub's event has arrived.
    pub id: Option<DeployId>,
    /// GitHub's number, or the one that stands in for it.
    pub forge_id: i64,
}

/// The reason why no deployment was created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// Deployments are created at another place; the text names it.
    #[error("{0}")]
    Elsewhere(String),
    /// There is no such repository, branch, tag or commit.
    #[error("{0}")]
    Unknown(String),
    /// GitHub did not create it.
    #[error(transparent)]
    Refused(#[from] PersonalDeploymentError),
    /// GitHub has created it, and the service could not record that.
    #[error("deployment {number} was created at GitHub, and could not be recorded: {cause}")]
    Unrecorded {
        /// GitHub's number.
        number: i64,
        /// The cause.
        cause: StoreError,
    },
    /// A part of the service does not work.
    #[error(transparent)]
    Fault(#[from] BackendError),
}

/// The longest wait for the WAML of a deployment that was created: its app is only noted.
const APP_WAIT: Duration = Duration::from_secs(2);
/// The length of a deployment's key at GitHub, in characters.
const KEY_CHARACTERS: usize = 32;
/// The attempts at drawing a free number: numbers have a millisecond and three digits.
const DRAWS: usize = 3;

impl Deployments {
    /// Creates a deployment where the code host has none, and records the actor.
    pub(crate) async fn create_deployment(
        &self,
        new_deployment: DeploymentToCreate,
        by: Principal,
        reply: &Reply<CreatedDeployment>,
    ) -> Result<CreatedDeployment, CreateError> {
        let Forge::Local(local) = &self.forge else {
            return Err(self.elsewhere_error(&new_deployment));
        };
        let DeploymentToCreate {
            repository,
            app: app_name,
            git_ref,
            tag,
            target,
            description,
            actor,
            checks,
        } = new_deployment;
        if checks != RequiredChecks::None {
            let detail = "the code host has no checks of commits: require none";
            return Err(CreateError::Unknown(detail.to_owned()));
        }
        let commit = local.commit_of(&repository, &git_ref).await.map_err(|e| not_found(&e))?;
        let commit = commit.ok_or_else(|| {
            CreateError::Unknown(format!(
                "{repository} has no branch, tag or commit {git_ref}: push it, then deploy again"
            ))
        })?;
        let release = Release { repository, app: app_name, commit, tag };
        let app = self.app_of(&release).await;
        for _ in 0..DRAWS {
            let forge_id = draw_number(self.clock.now());
            let request = DeploymentRequest {
                forge_id,
                release: release.clone(),
                target: target.clone(),
                git_ref: git_ref.clone(),
                actor: actor.clone(),
                description: description.clone(),
                production: false,
                automatic: false,
                recipient: by.recipient(),
                identity: None,
                requested_at: None,
            };
            let delivery =
                DeliveryId::parse(format!("api-{forge_id}")).map_err(BackendError::new)?;
            let answer =
                |id: &DeployId| reply.answer(&CreatedDeployment { id: Some(id.clone()), forge_id });
            let acceptance = self
                .record_direct(
                    &delivery,
                    &request,
                    AuditContext { by: &by, app: app.as_ref() },
                    &answer,
                )
                .await;
            let acceptance = acceptance.map_err(BackendError::new)?;
            if let Acceptance::New(id) = acceptance {
                return Ok(CreatedDeployment { id: Some(id), forge_id });
            }
        }
        Err(BackendError::new("no number of a deployment is free").into())
    }

    /// Creates a deployment at GitHub with a person's own token, and records the act. GitHub's event starts it here.
    pub(crate) async fn create_personal_deployment(
        &self,
        new_deployment: DeploymentToCreate,
        (by, token): (Principal, &SecretString),
        reply: &Reply<CreatedDeployment>,
    ) -> Result<CreatedDeployment, CreateError> {
        let DeploymentToCreate {
            repository,
            app: app_name,
            git_ref,
            tag,
            target,
            description,
            actor,
            checks,
        } = new_deployment;
        let key = request_key(reply.lease());
        let deployment = GitHubDeployment {
            git_ref: &git_ref,
            target: &target,
            app: app_name.as_ref(),
            tag: &tag,
            description: &description,
            production: self.is_called_production(&target),
            contexts: checks.contexts(),
            by: "the-deployer",
            key: &key,
        };
        let PersonalDeployment { number, commit } =
            self.forge.create_personal_deployment(token, &repository, &deployment).await?;
        tracing::info!(
            number, %repository, %target, %tag, actor, "deployment created at GitHub by a person"
        );
        let (app, at) = match commit {
            Some(commit) => {
                let at = format!(" at {}", commit.short());
                let (repository, tag) = (repository.clone(), tag.clone());
                let release = Release { repository, app: app_name, commit, tag };
                let app = tokio::time::timeout(APP_WAIT, self.app_of(&release)).await;
                (app.ok().flatten(), at)
            }
            None => (None, String::new()),
        };
        let entry = AuditRecord {
            target: Some(target),
            app,
            subject: format!("GitHub deployment {number} of {repository}:{tag}{at} ({git_ref})"),
            outcome: "created".to_owned(),
            ..self.ledger.entry("deploy", description, by)
        };
        let created = CreatedDeployment { id: None, forge_id: number };
        let recorded = self.store.audit_act(&entry, reply.answer(&created).as_ref()).await;
        recorded.map_err(|cause| CreateError::Unrecorded { number, cause })?;
        Ok(created)
    }

    /// Returns true if GitHub is to call the target a production environment: as configured, and otherwise by its name, as
    /// `bart deploy` does.
    fn is_called_production(&self, target: &TargetName) -> bool {
        match &self.clusters {
            Clusters::Any(_) => target.as_str().starts_with("prod"),
            Clusters::Known(_) => self.is_production(target),
        }
    }

    fn elsewhere_error(&self, new_deployment: &DeploymentToCreate) -> CreateError {
        let api = match &self.code_host {
            CodeHost::GitHub { api_url, .. } => api_url.as_str(),
            CodeHost::Local => "GitHub",
        };
        let repository = &new_deployment.repository;
        CreateError::Elsewhere(format!(
            "deployments are created on GitHub, whose event starts them here: \
             POST {api}/repos/{repository}/deployments, or `bart deploy`; with a GitHub token of your own the service \
             creates one in your name"
        ))
    }

    /// Returns the app of the WAML at a commit, for the audit log. The deployment itself reports
    /// what is wrong with a WAML that cannot be read.
    async fn app_of(&self, release: &Release) -> Option<AppKey> {
        let Release { repository, app, commit, tag: _ } = release;
        let text = self.read_waml(repository, app.as_ref(), commit).await.ok()?;
        let deployments = self.clone();
        let waml = self.cpu_pool.run_blocking(move || deployments.parse(&text)).await.ok()?;
        Some(waml.ok()?.app.clone())
    }
}

/// Returns the key of a deployment at GitHub: the same for each repeat of a request.
fn request_key(lease: Option<&KeyLease>) -> String {
    let Some(lease) = lease else { return clock::random_digits() };
    let IdempotencyKey { caller, key, .. } = lease.key();
    let digest =
        Sha256::new().chain_update(caller).chain_update(b"\0").chain_update(key).finalize();
    hex::encode(digest).chars().take(KEY_CHARACTERS).collect()
}

fn not_found(error: &ForgeError) -> CreateError {
    match error.disposition() {
        Disposition::Doubt | Disposition::Stop => CreateError::Unknown(error.to_string()),
        Disposition::Retry { .. } => BackendError::new(error.to_string()).into(),
    }
}

/// Returns a number in place of GitHub's: later numbers are greater, because a lane is ordered by
/// them, and every reader of JSON can hold them.
fn draw_number(now: Timestamp) -> i64 {
    let digits = clock::random_digits();
    let digits = digits.get(digits.len().saturating_sub(4)..).unwrap_or_default();
    let random = i64::from_str_radix(digits, 16).unwrap_or(0) % 1000;
    now.as_millisecond() * 1000 + random
}
