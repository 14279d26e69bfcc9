//! What programs elsewhere are told of: the kinds of events, in the words of CDEvents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of event.
///
/// The words are CDEvents' subject and predicate: <https://cdevents.dev>.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum Announcement {
    /// A deployment was asked for, and waits.
    #[serde(rename = "pipelinerun.queued")]
    Queued,
    /// A worker has begun on it.
    #[serde(rename = "pipelinerun.started")]
    Started,
    /// It has ended: well, rejected, given up, or because a newer one came.
    #[serde(rename = "pipelinerun.finished")]
    Finished,
    /// An app is on a target where it was not before.
    #[serde(rename = "service.deployed")]
    Deployed,
    /// An app that was on the target is another there now.
    #[serde(rename = "service.upgraded")]
    Upgraded,
    /// An app went back to a former revision.
    #[serde(rename = "service.rolledback")]
    RolledBack,
    /// An app was taken off a target.
    #[serde(rename = "service.removed")]
    Removed,
}

impl Announcement {
    /// Every kind, in the order of a deployment's life.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Started,
        Self::Finished,
        Self::Deployed,
        Self::Upgraded,
        Self::RolledBack,
        Self::Removed,
    ];

    /// Subject and predicate.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "pipelinerun.queued",
            Self::Started => "pipelinerun.started",
            Self::Finished => "pipelinerun.finished",
            Self::Deployed => "service.deployed",
            Self::Upgraded => "service.upgraded",
            Self::RolledBack => "service.rolledback",
            Self::Removed => "service.removed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_in_a_configuration_as_it_is_called() {
        for kind in Announcement::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
