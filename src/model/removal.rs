//! A removal: an app taken off a target by a person, or by a rollout that goes back, with a reason. The act and its
//! record.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::audit::Principal;
use crate::model::facts::LiveObject;
use crate::model::id::{AppKey, CommitSha, DeployId, RepoName, RolloutId, TargetName};
use crate::model::revision::Digest;
use crate::support::text::refuse_invisible;

/// A request for a removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRemoval {
    /// The target to remove from.
    pub target: TargetName,
    /// The app to remove.
    pub app: AppKey,
    /// The principal that asks.
    pub by: Principal,
    /// The reason; not empty.
    pub reason: String,
    /// True if objects that keep data may be removed, too.
    pub with_data: bool,
    /// True if the request only asks what would be removed.
    pub dry_run: bool,
}

/// The order of a rollout that takes an app off a target where it was not before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalOrder {
    /// The id of the removal, drawn beforehand.
    pub id: DeployId,
    /// The rollout.
    pub rollout: RolloutId,
    /// The version of its record: once there is another one, the order does not count any more.
    pub version: i64,
}

/// The objects that a removal removes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedObjects {
    /// The paths in the manifest repository.
    pub files: Vec<String>,
    /// The objects that were live.
    pub objects: Vec<LiveObject>,
    /// The objects among them that keep data, or may keep data.
    pub keeps_data: Vec<LiveObject>,
    /// The digest of the live revision; `None` after a manual edit.
    pub digest: Option<Digest>,
    /// The repository that the app was deployed from, where its Application says so.
    pub repository: Option<RepoName>,
    /// The notes for the person, one sentence each.
    pub notes: Vec<String>,
}

/// The record of one removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalRecord {
    /// Names it in the commit (`Removal-Id`); has a deploy id's form.
    pub id: DeployId,
    /// The target.
    pub target: TargetName,
    /// The app.
    pub app: AppKey,
    /// The person who asked.
    pub actor: String,
    /// The reason.
    pub reason: String,
    /// The objects that it removes.
    pub taken: RemovedObjects,
    /// The time of the request.
    pub asked_at: Timestamp,
    /// The outcome, once it has ended.
    pub ended: Option<RemovalEnd>,
}

/// The outcome of a removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalEnd {
    /// The time of the end.
    pub at: Timestamp,
    /// The commit that took the app away; `None` if none was made.
    pub commit: Option<CommitSha>,
    /// The outcome, in one sentence for people.
    pub summary: String,
}

/// The summary of a removal that changed nothing, because its process died or the repository did not answer.
pub const INTERRUPTED: &str = "not done: the service stopped before the change";

impl RemovalEnd {
    /// Checks that nothing was changed and nothing was refused: it may be done again.
    pub fn is_interrupted(&self) -> bool {
        self.commit.is_none() && self.summary == INTERRUPTED
    }
}

/// The longest reason, in characters.
pub const REASON_LIMIT: usize = 500;

/// Writes the reason on one line, or describes the fault. People read it again later, so it must be what it looks like.
///
/// # Errors
/// A sentence for the caller.
pub fn reason(text: &str) -> Result<String, String> {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    refuse_invisible("the reason", &line)?;
    match line.chars().count() {
        0 => Err("say why: the reason is empty".to_owned()),
        n if n > REASON_LIMIT => {
            Err(format!("the reason has {n} characters; it may have {REASON_LIMIT}"))
        }
        _ => Ok(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_with_something_on_it() {
        assert_eq!(reason(" moved to\n another\tteam ").unwrap(), "moved to another team");
        for blank in ["", "  \n ", "\u{0}\u{1b}"] {
            assert!(reason(blank).unwrap_err().contains("empty"), "{blank:?}");
        }
        assert!(reason(&"é".repeat(REASON_LIMIT)).is_ok());
        for character in
            ['\u{202e}', '\u{2066}', '\u{200e}', '\u{61c}', '\u{200b}', '\u{2060}', '\u{feff}']
        {
            let message = reason(&format!("rolled back by ops{character} txt.exe")).unwrap_err();
            assert!(message.contains("invisible character (U+"), "{message}");
        }
        assert!(reason(&"é".repeat(REASON_LIMIT + 1)).is_err());
    }
}
