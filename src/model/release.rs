//! A release: the repository, commit and image tag to deploy, independent of the target.

use serde::{Deserialize, Serialize};

use crate::model::id::{CommitSha, ImageTag, RepoName};

/// One build of one repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Release {
    /// The service's repository; its WAML is read there.
    pub repository: RepoName,
    /// The commit that the WAML is read at.
    pub commit: CommitSha,
    /// The image tag that goes into the manifests.
    pub tag: ImageTag,
}
