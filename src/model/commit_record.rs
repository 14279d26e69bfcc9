//! The acts on a manifest repository, as its commits record them: for a service that has lost its database.

use jiff::{SignedDuration, Timestamp};

use crate::model::deployment::Pushed;
use crate::model::id::{AppKey, CommitSha, DeployId, TargetName};
use crate::model::release::Release;
use crate::model::removal::RemovalRecord;
use crate::model::rollback::Rollback;

/// A deployment or a rollback that was pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastDeployment {
    /// The deploy id.
    pub id: DeployId,
    /// The app.
    pub app: AppKey,
    /// The target.
    pub target: TargetName,
    /// The repository, its commit and the image tag.
    pub release: Release,
    /// The forge's number of the repository, where the commit says it.
    pub repository_number: Option<i64>,
    /// The person or program that asked.
    pub actor: String,
    /// The reason; empty where none was given.
    pub reason: String,
    /// The template and its version.
    pub template: Option<String>,
    /// The commit of the templates, where they came from a repository.
    pub templates_commit: Option<CommitSha>,
    /// The commit with the record, and its result.
    pub pushed: Pushed,
    /// The rollback's data, if it is one. Its commit does not have the revision that was rolled back, nor the hold.
    pub rollback: Option<Rollback>,
    /// The deployment to a fleet that this one is a part of, and the fleet.
    pub fleet: Option<(DeployId, TargetName)>,
    /// The time of the request.
    pub received_at: Timestamp,
    /// The time of the commit.
    pub finished_at: Timestamp,
}

/// The record in one commit of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitRecord {
    /// A deployment, or a rollback.
    Deployment(Box<PastDeployment>),
    /// An app was taken off a target.
    Removal(Box<RemovalRecord>),
}

/// The code host's number of a deployment, and the data that only the code host has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgeNumber {
    /// The number.
    pub forge_id: i64,
    /// The requested branch or tag.
    pub git_ref: String,
    /// True if the code host calls the environment a production one.
    pub production: bool,
}

/// Reads when the deployment of an id was accepted; its first two parts say it.
pub fn time_of(id: &DeployId) -> Option<Timestamp> {
    let millis = id.as_str().get(15..18)?.parse().ok()?;
    id.time()?.checked_add(SignedDuration::from_millis(millis)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_when_it_was_made() {
        let time = |id: &str| time_of(&DeployId::parse(id).unwrap()).map(|time| time.to_string());
        assert_eq!(time("20261121-054812123-3f9a2c").unwrap(), "2026-11-21T05:48:12.123Z");
        assert_eq!(time("20261321-054812123-3f9a2c"), None, "there is no thirteenth month");
    }
}
