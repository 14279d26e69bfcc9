//! The code host: which one it is, deployments where it has none of its own, and builds.

use jiff::Timestamp;

use crate::app::backend::Backend;
use crate::app::builds;
use crate::clock;
use crate::controller::inbox::{AuditContext, Received};
use crate::forge::Forge;
use crate::forge::error::ForgeError;
use crate::model::audit::By;
use crate::model::event::DeploymentRequest;
use crate::model::id::{AppKey, DeliveryId, DeployId, TargetName};
use crate::model::release::Release;
use crate::server::ports::{
    self, AppImage, Builds, BuildsOfWaml, BuildsPage, BuildsQuery, CodeHost, CreatedDeployment,
    Fault, NoBuilds, NotAsked, Wanted,
};
use crate::store::Reply;
use crate::support::retry::Disposition;

/// How often a number is drawn that nobody has yet: they have a millisecond and three digits.
const DRAWS: usize = 3;

impl ports::Host for Backend {
    fn code_host(&self) -> CodeHost {
        self.code_host.clone()
    }

    async fn ask(
        &self,
        wanted: Wanted,
        by: By,
        reply: &Reply<CreatedDeployment>,
    ) -> Result<CreatedDeployment, NotAsked> {
        let local = match (&self.world.forge, &self.code_host) {
            (Forge::Local(local), _) => local,
            (Forge::GitHub(_), CodeHost::GitHub { api_url, .. }) => {
                return Err(elsewhere(api_url, &wanted));
            }
            (Forge::GitHub(_), CodeHost::Local) => return Err(elsewhere("GitHub", &wanted)),
        };
        let Wanted { repository, git_ref, tag, target, description, actor } = wanted;
        let commit = local.commit_of(&repository, &git_ref).await.map_err(|e| not_found(&e))?;
        let commit = commit.ok_or_else(|| {
            NotAsked::Unknown(format!(
                "{repository} has no branch, tag or commit {git_ref}: push it, then deploy again"
            ))
        })?;
        let release = Release { repository, commit, tag };
        let app = self.app_of(&release).await;
        for _ in 0..DRAWS {
            let forge_id = number(self.world.clock.now());
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
            };
            let delivery = DeliveryId::parse(format!("api-{forge_id}")).map_err(Fault::new)?;
            let answer =
                |id: &DeployId| reply.answer(&CreatedDeployment { id: id.clone(), forge_id });
            let received = self
                .inbox
                .deploy(&delivery, &request, AuditContext { by: &by, app: app.as_ref() }, &answer)
                .await;
            let received = received.map_err(Fault::new)?;
            if let Received::New(id) = received {
                return Ok(CreatedDeployment { id, forge_id });
            }
        }
        Err(Fault::new("no number of a deployment is free").into())
    }

    async fn built_for(&self, query: &BuildsQuery) -> Result<TargetName, NoBuilds> {
        Ok(builds::newest(&self.world, query).await?.request.target)
    }

    async fn find_image(&self, query: &BuildsQuery) -> Result<AppImage, NoBuilds> {
        builds::find_image(&self.world, query).await
    }

    async fn find_image_of_waml(&self, request: BuildsOfWaml) -> Result<AppImage, NoBuilds> {
        builds::find_image_of_waml(&self.world, request).await
    }

    async fn list_builds(
        &self,
        image: &AppImage,
        visible: &[TargetName],
        page: BuildsPage,
    ) -> Result<Builds, NoBuilds> {
        builds::list(&self.world, image, visible, page).await
    }
}

impl Backend {
    /// The app that the WAML of a commit is of, for the audit log. The deployment itself says what is wrong with one
    /// that cannot be read.
    async fn app_of(&self, release: &Release) -> Option<AppKey> {
        let Release { repository, commit, tag: _ } = release;
        let (path, limit) = (&self.world.waml.path, self.world.waml.max_bytes);
        let bytes = self.world.forge.file(repository, commit, path, limit).await.ok()?;
        let this = self.world.clone();
        let waml = self.world.planners.beside(move || this.parse(&bytes)).await.ok()?;
        Some(waml.ok()?.app.clone())
    }
}

fn elsewhere(api: &str, wanted: &Wanted) -> NotAsked {
    let repository = &wanted.repository;
    NotAsked::Elsewhere(format!(
        "deployments are asked for on GitHub, and come here by its event: \
         POST {api}/repos/{repository}/deployments, or `bart deploy`"
    ))
}

fn not_found(error: &ForgeError) -> NotAsked {
    match error.disposition() {
        Disposition::Doubt | Disposition::Stop => NotAsked::Unknown(error.to_string()),
        Disposition::Retry { .. } => Fault::new(error.to_string()).into(),
    }
}

/// A number that nobody has, in place of GitHub's: later ones are greater, because a lane goes by them, and
/// every reader of JSON can hold it.
fn number(now: Timestamp) -> i64 {
    let digits = clock::random_digits();
    let digits = digits.get(digits.len().saturating_sub(4)..).unwrap_or_default();
    let random = i64::from_str_radix(digits, 16).unwrap_or(0) % 1000;
    now.as_millisecond() * 1000 + random
}
