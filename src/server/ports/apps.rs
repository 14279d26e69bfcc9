//! What is where.

use crate::model::id::{AppKey, TargetName};
use crate::model::placed::{Missing, Placed, Spot};
use crate::model::target::Clusters;

/// Which apps to list; what is absent does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppsQuery {
    /// On this target.
    pub target: Option<TargetName>,
    /// Of this name.
    pub app: Option<AppKey>,
    /// After this one, in the order of their spots.
    pub after: Option<Spot>,
    /// At most so many; at least 1.
    pub limit: u32,
}

/// An app in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppLine {
    /// What the manifest repository has of it.
    pub placed: Placed,
    /// Whether a lock stops deployments of it.
    pub locked: bool,
    /// Whether automation is held off it.
    pub held: bool,
}

/// One page of apps, in the order of their spots.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppsPage {
    /// The apps.
    pub apps: Vec<AppLine>,
    /// The `after` of the next page, if there is one.
    pub next: Option<Spot>,
    /// Where there may be more apps: repositories that cannot be read now.
    pub missing: Missing,
}

/// What is where.
pub trait Apps: Send + Sync + 'static {
    /// The clusters of the configuration.
    fn clusters(&self) -> &Clusters;

    /// One page of apps, as the manifest repositories have them. The error's text is for callers.
    fn apps(&self, query: &AppsQuery) -> impl Future<Output = Result<AppsPage, String>> + Send;
}
