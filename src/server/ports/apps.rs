//! What is where.

use jiff::Timestamp;

use crate::model::id::{AppKey, DeployId, ImageTag, TargetName};
use crate::model::placed::{Missing, Placed, Spot};
use crate::model::target::Clusters;

/// Which apps to list; what is absent does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppsQuery {
    /// On this target.
    pub target: Option<TargetName>,
    /// Of this name.
    pub app: Option<AppKey>,
    /// Of this owner, in either case of letters.
    pub owner: Option<String>,
    /// In this state.
    pub state: Option<AppState>,
    /// After this one, in the order of their spots.
    pub after: Option<Spot>,
    /// At most so many; at least 1.
    pub limit: u32,
}

/// How an app is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppState {
    /// A revision is live, as it was pushed.
    Live,
    /// Somebody edited what is live by hand.
    Edited,
    /// A lock stops deployments of it.
    Locked,
    /// Automation is held off it.
    Held,
}

impl AppState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Live, Self::Edited, Self::Locked, Self::Held];

    /// The word that callers write.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Edited => "edited",
            Self::Locked => "locked",
            Self::Held => "held",
        }
    }
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
    /// The tag of the revision that is live, where the database knows it.
    pub tag: Option<ImageTag>,
    /// When that revision was made; without the database, as its id says.
    pub at: Option<Timestamp>,
    /// The newest deployment, if it has failed: what is live is older.
    pub failed: Option<(DeployId, ImageTag)>,
}

impl AppLine {
    /// Whether it is in that state.
    pub fn is(&self, state: AppState) -> bool {
        match state {
            AppState::Live => self.placed.live.is_some(),
            AppState::Edited => self.placed.live.is_none(),
            AppState::Locked => self.locked,
            AppState::Held => self.held,
        }
    }
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
