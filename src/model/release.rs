//! A release: the app, commit and image tag to deploy, independent of the target.

use serde::{Deserialize, Serialize};

use crate::model::id::{AppName, CommitSha, ImageTag, RepoName};

/// One build of one app of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Release {
    /// The service's repository; its WAML is read there.
    pub repository: RepoName,
    /// The app, where the repository has several; `None` is the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<AppName>,
    /// The commit that the WAML is read at.
    pub commit: CommitSha,
    /// The image tag that goes into the manifests.
    pub tag: ImageTag,
}
