//! A rollback: `latest` becomes a former revision again, its bytes unchanged; and the hold that stops automation from
//! undoing it. [`live_history`](crate::model::live_history) decides which revision that is.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::id::{AppKey, DeployId, ImageTag, TargetName};
use crate::model::release::Release;

/// The data of a deployment that is a rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is an answer of its own, as it is stored")]
pub struct Rollback {
    /// The revision that becomes live again.
    pub to: DeployId,
    /// The revision that was live at the time of the request; `None` after a manual edit of `latest`.
    pub from: Option<DeployId>,
    /// The release of that, where it is known.
    pub away: Option<Release>,
    /// The git tree of the revision; `latest` becomes exactly this.
    pub tree: TreeId,
    /// The reason of the rollback.
    pub reason: String,
    /// True if automation is stopped from deploying over it.
    pub hold: bool,
    /// True if objects that keep data may be removed.
    #[serde(default)]
    pub with_data: bool,
    /// True if Kubernetes may go down to one pod until an autoscaler takes over.
    #[serde(default)]
    pub with_fewer_pods: bool,
    /// The deployment that failed in its cluster, and that the service takes back with this rollback; `None` where a
    /// person asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<DeployId>,
    /// The deployment or rollback that must still be the newest pushed one when this one begins to push; `None` where it
    /// replaces whatever is live. A rollout takes back what it deployed, and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<DeployId>,
    /// True if `from` must still be live when this one is pushed: the person named it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_from: bool,
}

/// A request for a rollback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollbackOrder {
    /// The target.
    pub target: TargetName,
    /// The app.
    pub app: AppKey,
    /// The revision to go back to; without one, the revision before the live one.
    pub to: Option<DeployId>,
    /// The revision that must be live; without one, any.
    pub live: Option<DeployId>,
    /// The reason; not empty.
    pub reason: String,
    /// True if objects that keep data may be removed.
    pub with_data: bool,
    /// True if Kubernetes may go down to one pod until an autoscaler takes over.
    pub with_fewer_pods: bool,
    /// True if the request only asks what would be done.
    pub dry_run: bool,
}

/// The name of a git tree: the content of a folder, byte for byte. Hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TreeId(pub String);

impl std::fmt::Display for TreeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A no to automation, on one app and target: by a rollback, or by a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The target.
    pub target: TargetName,
    /// The app.
    pub app: AppKey,
    /// The person who placed the hold.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// The start of the hold.
    pub since: Timestamp,
    /// The rollback that took it; `None` where a person did.
    pub rollback: Option<DeployId>,
    /// The release that was rolled back, where that is known.
    pub away: Option<Release>,
    /// The tag that was rolled back to.
    pub to: Option<ImageTag>,
}

impl Hold {
    /// Checks that it stops the deployment of a release; `automatic` is true where no person asked for it.
    pub fn stops(&self, holds: Holds, release: &Release, automatic: bool) -> bool {
        match holds {
            Holds::Off => false,
            Holds::Everybody => true,
            Holds::Automation => automatic || self.away.as_ref() == Some(release),
        }
    }

    /// Puts this one in the place of another: it keeps what that one knows of a rollback.
    #[must_use]
    pub fn with_rollback_of(self, before: Option<Self>) -> Self {
        match before.filter(|_| self.rollback.is_none()) {
            Some(Self { rollback, away, to, .. }) => Self { rollback, away, to, ..self },
            None => self,
        }
    }
}

/// The deployments that a hold stops on a target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Holds {
    /// Automation; a person's deployment of another release ends it.
    #[default]
    Automation,
    /// The hold stops everybody, until it is released.
    Everybody,
    /// The hold stops nobody: a rollback places none.
    Off,
}

/// The consequence of a failure in the cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// People are told.
    #[default]
    Report,
    /// People are told, and the service makes the last good revision live again.
    Rollback,
}

/// The consequence when Flagger has taken a canary back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnCanaryFailure {
    /// The service makes the last good revision live again, so that git says what serves.
    #[default]
    Rollback,
    /// The revision stays in git, and people are told.
    Keep,
}

/// Makes up the forge's number of a deployment that it does not have yet: below zero, where the
/// forge's own never are, and another for each id.
pub fn provisional_number(id: &DeployId) -> i64 {
    let digits = |text: &str, radix| i64::from_str_radix(text, radix).unwrap_or(0);
    let mut parts = id.as_str().split('-');
    let (day, time) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let random = digits(parts.next().unwrap_or_default(), 16) & 0xf_ffff;
    // Days since the year 2000 at most fit in 24 bits, milliseconds of a day in 27.
    let day = digits(day, 10) % 1_000_000;
    let time = digits(time, 10) % 240_000_000;
    -((day * 240_000_000 + time) * 0x2000 + (random & 0x1fff) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provisional_number_is_below_zero_and_its_own() {
        let ids =
            ["20261121-054812123-3f9a2c", "20261121-054812124-3f9a2c", "20991231-235959999-ffffff"];
        let numbers: std::collections::BTreeSet<_> =
            ids.map(|id| provisional_number(&DeployId::parse(id).unwrap())).into();
        assert_eq!(numbers.len(), 3);
        assert!(numbers.iter().all(|n| *n < 0), "{numbers:?}");
    }
}
