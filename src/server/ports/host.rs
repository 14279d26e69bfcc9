//! The code host: which one it is, deployments where it has none of its own, and the builds of an app.

use jiff::Timestamp;

use crate::model::audit::By;
use crate::model::id::{AppKey, DeployId, ImageTag, RepoName, TargetName};
use crate::model::release::Release;
use crate::server::ports::Fault;
use crate::store::Reply;

/// Where service repositories are, as far as callers need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeHost {
    /// Bare repositories in a folder of ours: deployments are asked for here.
    Local,
    /// GitHub: deployments are asked for there.
    GitHub {
        /// The API's address, without a slash at its end.
        api_url: String,
        /// Where people look at it.
        web_url: String,
        /// What people log in with from a terminal, if that was set up.
        client_id: Option<String>,
    },
}

/// A deployment that somebody asks us for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The service's repository.
    pub repository: RepoName,
    /// A branch, a tag or a commit of it.
    pub git_ref: String,
    /// The image tag.
    pub tag: ImageTag,
    /// Where to.
    pub target: TargetName,
    /// Why, if they said; at most 500 characters.
    pub description: String,
    /// Who asks.
    pub actor: String,
}

/// A deployment that was asked for, and is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedDeployment {
    /// Its id.
    pub id: DeployId,
    /// The number that stands for GitHub's.
    pub forge_id: i64,
}

/// Why there is no deployment.
#[derive(Debug, thiserror::Error)]
pub enum NotAsked {
    /// They are asked for elsewhere; says where.
    #[error("{0}")]
    Elsewhere(String),
    /// There is no such repository, branch, tag or commit.
    #[error("{0}")]
    Unknown(String),
    /// Something of ours does not work.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Whose builds are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildsQuery {
    /// The app.
    pub app: AppKey,
    /// The target whose section of the WAML names the image; any, where none is named.
    pub target: Option<TargetName>,
    /// The page of the list.
    pub page: BuildsPage,
}

/// Builds of the app of a WAML, which may never have been deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildsOfWaml {
    /// The service's repository.
    pub repository: RepoName,
    /// The text of the WAML.
    pub waml: String,
    /// The target whose section names the image; the first of the WAML, where none is named.
    pub target: Option<TargetName>,
    /// The page of the list.
    pub page: BuildsPage,
}

/// The image of an app, found before a registry or a manifest repository is asked about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppImage {
    /// The app of the WAML that names the image.
    pub app: AppKey,
    /// The target whose section of the WAML names the image.
    pub target: TargetName,
    /// The targets of the WAML, where the app may be live.
    pub targets: Vec<TargetName>,
    /// The release that the WAML is of.
    pub release: Release,
    /// The image without a tag: `ghcr.io/acme/shop`.
    pub image: String,
}

impl AppImage {
    /// Whether the image's name is that of the repository, or lies below it: `ghcr.io/acme/shop/worker` of `acme/shop`.
    pub fn is_named_like_its_repository(&self) -> bool {
        let repository = self.release.repository.as_str().to_ascii_lowercase();
        let name = self.image.split_once('/').map_or("", |(_, name)| name);
        let below = name.strip_prefix(&repository);
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// One page of a list of builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildsPage {
    /// At most so many; at least 1.
    pub limit: u32,
    /// After so many of the newest.
    pub after: u32,
}

/// Builds of an app's image, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Builds {
    /// The image, without a tag.
    pub image: String,
    /// The builds: of the first page the newest, and beyond the limit those that are live; of others the next ones.
    pub builds: Vec<Build>,
    /// The `after` of the next page, if there is one.
    pub next: Option<u32>,
    /// How many tags the registry lists.
    pub tags: usize,
    /// Whether all of them were looked at; if not, newer ones may be missing.
    pub complete: bool,
    /// Where it could not be found out what is live, and why, for people.
    pub unknown: Vec<(TargetName, String)>,
    /// What else could not be found out, for people.
    pub notes: Vec<String>,
}

/// One build, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Build {
    /// The tag.
    pub tag: String,
    /// `sha256:…`
    pub digest: Option<String>,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// The commit that it was made of, as the image says.
    pub commit: Option<String>,
    /// The targets where it is live.
    pub live: Vec<TargetName>,
}

/// Why there is no list of builds.
#[derive(Debug, thiserror::Error)]
pub enum NoBuilds {
    /// The app was never deployed, so nobody knows its image.
    #[error("{0}")]
    Unknown(String),
    /// What is known of the app names no image that may be asked for.
    #[error("{0}")]
    NoImage(String),
    /// The registry or the code host does not say; for the caller too.
    #[error("{0}")]
    NotKnown(String),
    /// Something of ours does not work.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// The code host, and what is built from it.
pub trait Host: Send + Sync + 'static {
    /// Which one it is.
    fn code_host(&self) -> CodeHost;

    /// Asks for a deployment where the code host has none, and notes who did.
    fn ask(
        &self,
        wanted: Wanted,
        by: By,
        reply: &Reply<CreatedDeployment>,
    ) -> impl Future<Output = Result<CreatedDeployment, NotAsked>> + Send;

    /// The target of the app's newest deployment, whose WAML names the image.
    fn built_for(
        &self,
        query: &BuildsQuery,
    ) -> impl Future<Output = Result<TargetName, NoBuilds>> + Send;

    /// The image of an app that was deployed.
    fn find_image(
        &self,
        query: &BuildsQuery,
    ) -> impl Future<Output = Result<AppImage, NoBuilds>> + Send;

    /// The image of the app of a WAML.
    fn find_image_of_waml(
        &self,
        request: BuildsOfWaml,
    ) -> impl Future<Output = Result<AppImage, NoBuilds>> + Send;

    /// The newest builds of an image; what is live is looked up on the visible targets alone.
    fn list_builds(
        &self,
        image: &AppImage,
        visible: &[TargetName],
        page: BuildsPage,
    ) -> impl Future<Output = Result<Builds, NoBuilds>> + Send;
}
