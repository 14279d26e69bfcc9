//! Creates a deployment that a caller requests from this service, where the code host has no
//! deployments of its own.

use jiff::Timestamp;

use crate::deployments::accept::{Acceptance, AuditContext};
use crate::deployments::{BackendError, CodeHost, Deployments};
use crate::forge::Forge;
use crate::forge::error::ForgeError;
use crate::model::audit::Principal;
use crate::model::event::DeploymentRequest;
use crate::model::id::{AppKey, DeliveryId, DeployId, ImageTag, RepoName, TargetName};
use crate::model::release::Release;
use crate::store::Reply;
use crate::support::clock;
use crate::support::retry::Disposition;

/// A deployment that a caller requests from this service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentToCreate {
    /// The service's repository.
    pub repository: RepoName,
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
}

/// A deployment that was requested and is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedDeployment {
    /// Its id.
    pub id: DeployId,
    /// The number that stands in for GitHub's.
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
    /// A part of the service does not work.
    #[error(transparent)]
    Fault(#[from] BackendError),
}

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
        let DeploymentToCreate { repository, git_ref, tag, target, description, actor } =
            new_deployment;
        let commit = local.commit_of(&repository, &git_ref).await.map_err(|e| not_found(&e))?;
        let commit = commit.ok_or_else(|| {
            CreateError::Unknown(format!(
                "{repository} has no branch, tag or commit {git_ref}: push it, then deploy again"
            ))
        })?;
        let release = Release { repository, commit, tag };
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
                |id: &DeployId| reply.answer(&CreatedDeployment { id: id.clone(), forge_id });
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
                return Ok(CreatedDeployment { id, forge_id });
            }
        }
        Err(BackendError::new("no number of a deployment is free").into())
    }

    fn elsewhere_error(&self, new_deployment: &DeploymentToCreate) -> CreateError {
        let api = match &self.code_host {
            CodeHost::GitHub { api_url, .. } => api_url.as_str(),
            CodeHost::Local => "GitHub",
        };
        let repository = &new_deployment.repository;
        CreateError::Elsewhere(format!(
            "deployments are created on GitHub, whose event starts them here: \
             POST {api}/repos/{repository}/deployments, or `bart deploy`"
        ))
    }

    /// Returns the app of the WAML at a commit, for the audit log. The deployment itself reports
    /// what is wrong with a WAML that cannot be read.
    async fn app_of(&self, release: &Release) -> Option<AppKey> {
        let Release { repository, commit, tag: _ } = release;
        let bytes = self.read_waml(repository, commit).await.ok()?;
        let deployments = self.clone();
        let waml = self.cpu_pool.run_blocking(move || deployments.parse(&bytes)).await.ok()?;
        Some(waml.ok()?.app.clone())
    }
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
