//! Which revision of an app was live after which, and which of them was rolled back from.
//!
//! Made of the records of what succeeded. Says nothing of what is kept: that is in the manifest repository
//! ([`Kept`]).

use std::collections::HashMap;

use jiff::Timestamp;

use crate::model::deployment::Deployment;
use crate::model::id::DeployId;
use crate::model::rollback::{Kept, TreeId};

/// The turns of an app's revisions on a target, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveHistory(Vec<LiveTurn>);

/// A revision that became live.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LiveTurn {
    revision: DeployId,
    /// What was rolled back from with it.
    away: Option<RolledBackFrom>,
}

/// That a revision was rolled back from: somebody found it wanting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolledBackFrom {
    /// The revision.
    pub revision: DeployId,
    /// The rollback.
    pub rollback: DeployId,
    /// Who did it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

impl LiveHistory {
    /// The turns that these deployments made, which have succeeded; newest first, as they are listed.
    pub fn of(succeeded: &[Deployment]) -> Self {
        Self(succeeded.iter().rev().map(turn).collect())
    }

    /// The revisions, the one that became live last first; one that was live twice is there twice.
    pub fn newest_first(&self) -> impl Iterator<Item = &DeployId> {
        self.0.iter().rev().map(|turn| &turn.revision)
    }

    /// Of each kept revision, whether it was rolled back from and has not been made live again since. One with
    /// the same files is the same.
    pub fn rolled_back_from(&self, kept: &Kept) -> HashMap<TreeId, RolledBackFrom> {
        let tree_of = |id: &DeployId| {
            kept.revisions.iter().find(|(one, _)| one == id).map(|(_, tree)| tree.clone())
        };
        let mut found = HashMap::new();
        for LiveTurn { revision, away } in &self.0 {
            if let Some(tree) = tree_of(revision) {
                found.remove(&tree);
            }
            if let Some(away) = away
                && let Some(tree) = tree_of(&away.revision)
            {
                found.insert(tree, away.clone());
            }
        }
        found
    }
}

fn turn(deployment: &Deployment) -> LiveTurn {
    let Deployment { id, request, rollback, received_at, finished_at, .. } = deployment;
    let Some(rollback) = rollback else { return LiveTurn { revision: id.clone(), away: None } };
    // Forward again says nothing against what it was before.
    let back = rollback.from.clone().filter(|from| rollback.to < *from);
    let away = back.map(|revision| RolledBackFrom {
        revision,
        rollback: id.clone(),
        by: request.actor.clone(),
        reason: rollback.reason.clone(),
        at: finished_at.unwrap_or(*received_at),
    });
    LiveTurn { revision: rollback.to.clone(), away }
}

#[cfg(test)]
impl LiveHistory {
    /// Turns by hand, oldest first: a revision, and what was rolled back from with it.
    pub(crate) fn by_hand(turns: &[(DeployId, Option<DeployId>)]) -> Self {
        let turn = |(revision, away): &(DeployId, Option<DeployId>)| LiveTurn {
            revision: revision.clone(),
            away: away.clone().map(|revision| RolledBackFrom {
                revision,
                rollback: DeployId::parse("20261121-060000000-ffffff").expect("it is one"),
                by: "ada".to_owned(),
                reason: "broken".to_owned(),
                at: Timestamp::UNIX_EPOCH,
            }),
        };
        Self(turns.iter().map(turn).collect())
    }
}
