//! The order in which an app's revisions were live, the ones that were rolled back or failed in their cluster, and the
//! choice of a rollback's revision.
//!
//! The history is built from the records of succeeded deployments, and [`AppFolders`] from the manifest repository.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::model::deployment::{Deployment, State};
use crate::model::id::DeployId;
use crate::model::revision::Digest;
use crate::model::rollback::TreeId;

/// The turns of an app's revisions on a target, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveHistory(Vec<LiveTurn>);

/// A revision that became live.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LiveTurn {
    revision: DeployId,
    /// The digest of its files: a deployment that changed nothing has the revision of an earlier one.
    digest: Option<Digest>,
    /// The revision that the rollback to this one took off, if this turn is a rollback.
    away: Option<RollbackMark>,
    /// The end in the cluster; `None` where there was none: another revision came before it.
    end: Option<RevisionEnd>,
}

/// The last end of a revision in its cluster. Where nothing watches the cluster, a push is a good end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RevisionEnd {
    /// Its pods ran.
    Ran,
    /// They did not.
    Failed(ClusterFailure),
}

/// The record that a revision failed in its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterFailure {
    /// The revision.
    pub revision: DeployId,
    /// The deployment of it that failed.
    pub deployment: DeployId,
    /// The cause, one sentence.
    pub summary: String,
    /// The time of the failure.
    pub at: Timestamp,
}

/// The record that a revision was rolled back: a person found it wanting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollbackMark {
    /// The revision.
    pub revision: DeployId,
    /// The rollback.
    pub rollback: DeployId,
    /// The person who rolled back.
    pub by: String,
    /// The reason of the rollback.
    pub reason: String,
    /// The time of the rollback.
    pub at: Timestamp,
}

impl LiveHistory {
    /// Collects the turns that these deployments made, which have succeeded; newest first, as they
    /// are listed.
    pub fn of(succeeded: &[Deployment]) -> Self {
        Self(succeeded.iter().rev().map(turn).collect())
    }

    /// Lists the revisions, the one that became live last first; one that was live twice is there
    /// twice.
    pub fn newest_first(&self) -> impl Iterator<Item = &DeployId> {
        self.0.iter().rev().map(|turn| &turn.revision)
    }

    /// Finds, of each kept revision, whether it was rolled back from and has not been made live
    /// again since. One with the same files is the same.
    pub fn rolled_back_from(&self, folders: &AppFolders) -> HashMap<TreeId, RollbackMark> {
        let trees = self.trees_by_digest(folders);
        let mut rollbacks = HashMap::new();
        for turn in &self.0 {
            if let Some(tree) = turn.tree(folders, &trees) {
                rollbacks.remove(tree);
            }
            if let Some(rolled_back) = &turn.away
                && let Some(tree) = folders.tree_of(&rolled_back.revision)
            {
                rollbacks.insert(tree.clone(), rolled_back.clone());
            }
        }
        rollbacks
    }

    /// Finds the last end of each kept revision in its cluster, where it had one. One with the same files is the same.
    pub fn last_ends(&self, folders: &AppFolders) -> HashMap<TreeId, RevisionEnd> {
        let trees = self.trees_by_digest(folders);
        let ends = self.0.iter().filter_map(|turn| {
            Some((turn.tree(folders, &trees)?.clone(), turn.end.as_ref()?.clone()))
        });
        ends.collect()
    }

    /// Finds the trees of the kept revisions by the digests of their files.
    fn trees_by_digest<'f>(&self, folders: &'f AppFolders) -> HashMap<&Digest, &'f TreeId> {
        let turns = self.0.iter();
        turns
            .filter_map(|turn| Some((turn.digest.as_ref()?, folders.tree_of(&turn.revision)?)))
            .collect()
    }
}

impl LiveTurn {
    /// Finds the tree of its revision, where that is kept.
    fn tree<'f>(
        &self,
        folders: &'f AppFolders,
        trees: &HashMap<&Digest, &'f TreeId>,
    ) -> Option<&'f TreeId> {
        let by_digest = || trees.get(self.digest.as_ref()?).copied();
        folders.tree_of(&self.revision).or_else(by_digest)
    }
}

fn turn(deployment: &Deployment) -> LiveTurn {
    let Deployment {
        id, request, rollback, received_at, finished_at, state, summary, pushed, ..
    } = deployment;
    let digest = pushed.as_ref().map(|pushed| pushed.digest.clone());
    let at = finished_at.unwrap_or(*received_at);
    let revision = rollback.as_ref().map_or(id, |rollback| &rollback.to).clone();
    let end = match state {
        State::Succeeded => Some(RevisionEnd::Ran),
        State::Failed => Some(RevisionEnd::Failed(ClusterFailure {
            revision: revision.clone(),
            deployment: id.clone(),
            summary: summary.clone(),
            at,
        })),
        State::Queued
        | State::Running
        | State::Pushing
        | State::Syncing
        | State::Progressing
        | State::Superseded
        | State::Cancelled => None,
    };
    let Some(rollback) = rollback else { return LiveTurn { revision, digest, away: None, end } };
    // Forward again says nothing against what it was before.
    let back = rollback.from.clone().filter(|from| rollback.to < *from);
    let away = back.map(|revision| RollbackMark {
        revision,
        rollback: id.clone(),
        by: request.actor.clone(),
        reason: rollback.reason.clone(),
        at,
    });
    LiveTurn { revision, digest, away, end }
}

/// An app's folders on a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppFolders {
    /// The revisions that are kept, newest first, each with its tree.
    pub revisions: Vec<(DeployId, TreeId)>,
    /// The tree of `latest`; `None` where there is none.
    pub latest: Option<TreeId>,
}

/// The revision that becomes live again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevisionChoice {
    /// The revision.
    pub to: DeployId,
    /// The tree of the revision.
    pub tree: TreeId,
    /// The one that is live now; `None` where `latest` was edited by hand.
    pub from: Option<DeployId>,
    /// The earlier rollback from this revision, if there was one. Only a named one may be such.
    pub warning: Option<RollbackMark>,
    /// Its failure in the cluster, if its last end there was one. Only a named one may be such.
    pub failure: Option<ClusterFailure>,
}

/// The revisions that are good enough to be chosen without a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultRevision {
    /// A person asks, who sees which one it is: one that neither was rolled back from nor failed in its cluster.
    NotBad,
    /// Nobody looks: of those only one whose last end in the cluster was a good one.
    Proven,
}

/// The reason why a revision is not chosen without a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RevisionFault {
    /// It was rolled back from.
    RolledBack(RollbackMark),
    /// It failed in its cluster.
    Failed(ClusterFailure),
    /// It was replaced before its pods ran, or its record is lost.
    Unproven(DeployId),
}

/// The reason why there is no such revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RevisionChoiceError {
    /// The target has no such app.
    NoApp,
    /// The named revision is the live one.
    Live(DeployId),
    /// The named revision is not among those that are kept.
    NotKept(DeployId),
    /// None was named, and there is none before the live one.
    NoneBefore(DeployId),
    /// None was named, and none of those that are kept before the live one is good: the fault of the newest.
    NoneGood(RevisionFault),
}

impl AppFolders {
    /// Finds the newest revision whose files `latest` has.
    pub fn live(&self) -> Option<&DeployId> {
        let latest = self.latest.as_ref()?;
        self.revisions.iter().find(|(_, tree)| tree == latest).map(|(id, _)| id)
    }

    /// Returns the tree of a revision, where it is kept.
    pub fn tree_of(&self, id: &DeployId) -> Option<&TreeId> {
        self.revisions.iter().find(|(revision, _)| revision == id).map(|(_, tree)| tree)
    }

    /// Chooses the named revision; without a name the one that was live before, with other files than those of
    /// `latest`, and a good one. After a manual edit of `latest`, that is the last live one.
    ///
    /// # Errors
    /// [`RevisionChoiceError`]
    pub fn choose(
        &self,
        to: Option<&DeployId>,
        past: &LiveHistory,
        default: DefaultRevision,
    ) -> Result<RevisionChoice, RevisionChoiceError> {
        if self.revisions.is_empty() && self.latest.is_none() {
            return Err(RevisionChoiceError::NoApp);
        }
        let live = self.live().cloned();
        let (mut rollbacks, mut ends) = (past.rolled_back_from(self), past.last_ends(self));
        let fault = |(id, tree): &(DeployId, TreeId)| match (rollbacks.get(tree), ends.get(tree)) {
            (Some(rollback), _) => Some(RevisionFault::RolledBack(rollback.clone())),
            (None, Some(RevisionEnd::Failed(failure))) => {
                // The deployment that failed may be another one of the same files.
                Some(RevisionFault::Failed(ClusterFailure {
                    revision: id.clone(),
                    ..failure.clone()
                }))
            }
            (None, None) if default == DefaultRevision::Proven => {
                Some(RevisionFault::Unproven(id.clone()))
            }
            (None, Some(RevisionEnd::Ran) | None) => None,
        };
        let choice = match to {
            Some(to) => self.find_restorable(to)?,
            None => self.previous(live.as_ref(), past, fault)?,
        };
        let (to, tree) = choice.clone();
        let warning = rollbacks.remove(&tree);
        let failure = ends.remove(&tree).and_then(|end| match end {
            RevisionEnd::Failed(failure) => Some(failure),
            RevisionEnd::Ran => None,
        });
        Ok(RevisionChoice { to, tree, from: live, warning, failure })
    }

    fn find_restorable(&self, to: &DeployId) -> Result<&(DeployId, TreeId), RevisionChoiceError> {
        match self.revisions.iter().find(|(id, _)| id == to) {
            None => Err(RevisionChoiceError::NotKept(to.clone())),
            Some((id, tree)) if Some(tree) == self.latest.as_ref() => {
                Err(RevisionChoiceError::Live(id.clone()))
            }
            Some(revision) => Ok(revision),
        }
    }

    fn previous(
        &self,
        live: Option<&DeployId>,
        past: &LiveHistory,
        fault: impl Fn(&(DeployId, TreeId)) -> Option<RevisionFault>,
    ) -> Result<&(DeployId, TreeId), RevisionChoiceError> {
        let older: Vec<_> = self
            .revisions
            .iter()
            .filter(|(id, tree)| {
                live.is_none_or(|live| id < live) && Some(tree) != self.latest.as_ref()
            })
            .collect();
        let is_good = |revision: &&(DeployId, TreeId)| fault(revision).is_none();
        let mut turns = past.newest_first();
        let was_live = turns.find_map(|turn| {
            older.iter().copied().find(|revision| revision.0 == *turn && is_good(revision))
        });
        // The times of the others are not known any more.
        if let Some(revision) = was_live.or_else(|| older.iter().copied().find(is_good)) {
            return Ok(revision);
        }
        let newest_fault = older.first().and_then(|revision| fault(revision));
        Err(match (newest_fault, live) {
            (Some(fault), _) => RevisionChoiceError::NoneGood(fault),
            (None, Some(live)) => RevisionChoiceError::NoneBefore(live.clone()),
            (None, None) => RevisionChoiceError::NoApp,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl LiveHistory {
        /// Builds turns by hand, oldest first: a revision, and the one that was rolled back with it.
        fn by_hand(turns: &[(DeployId, Option<DeployId>)]) -> Self {
            let turn = |(revision, away): &(DeployId, Option<DeployId>)| LiveTurn {
                revision: revision.clone(),
                digest: None,
                end: None,
                away: away.clone().map(|revision| RollbackMark {
                    revision,
                    rollback: DeployId::parse("20261121-060000000-ffffff").expect("it is one"),
                    by: "ada".to_owned(),
                    reason: "broken".to_owned(),
                    at: Timestamp::UNIX_EPOCH,
                }),
            };
            Self(turns.iter().map(turn).collect())
        }

        /// Adds a turn of a revision with these files, and its end in the cluster.
        fn ends(mut self, revision: u32, digest: &str, end: State) -> Self {
            let failure = ClusterFailure {
                revision: id(revision),
                deployment: id(revision),
                summary: "no pods".to_owned(),
                at: Timestamp::UNIX_EPOCH,
            };
            let end = match end {
                State::Failed => Some(RevisionEnd::Failed(failure)),
                State::Succeeded => Some(RevisionEnd::Ran),
                _ => None,
            };
            let digest = Some(Digest(digest.to_owned()));
            self.0.push(LiveTurn { revision: id(revision), digest, away: None, end });
            self
        }
    }

    fn id(n: u32) -> DeployId {
        DeployId::parse(format!("20261121-054812123-{n:06x}")).unwrap()
    }

    fn build_kept(trees: &[&str], latest: Option<&str>) -> AppFolders {
        let newest = u32::try_from(trees.len()).unwrap();
        let numbered = (1..=newest).rev().zip(trees);
        AppFolders {
            revisions: numbered.map(|(n, tree)| (id(n), TreeId((*tree).to_owned()))).collect(),
            latest: latest.map(|tree| TreeId(tree.to_owned())),
        }
    }

    fn to(folders: &AppFolders, revision: Option<u32>) -> Result<u32, RevisionChoiceError> {
        to_after(folders, revision, &[])
    }

    /// Finds the revision after these turns: the revisions that became live, each with the one that was rolled back.
    fn to_after(
        folders: &AppFolders,
        revision: Option<u32>,
        turns: &[(u32, Option<u32>)],
    ) -> Result<u32, RevisionChoiceError> {
        let turns: Vec<_> = turns.iter().map(|(to, from)| (id(*to), from.map(id))).collect();
        let past = LiveHistory::by_hand(&turns);
        let choice = folders.choose(revision.map(id).as_ref(), &past, DefaultRevision::NotBad)?;
        Ok((1..=9).find(|n| id(*n) == choice.to).unwrap())
    }

    #[test]
    fn without_a_name_it_is_the_one_before_the_live_one() {
        assert_eq!(to(&build_kept(&["c", "b", "a"], Some("c")), None), Ok(2));
        assert_eq!(to(&build_kept(&["c", "b", "a"], Some("b")), None), Ok(1), "after a rollback");
        assert_eq!(
            to(&build_kept(&["c", "b", "a"], Some("a")), None),
            Err(RevisionChoiceError::NoneBefore(id(1)))
        );
    }

    #[test]
    fn what_was_rolled_back_from_is_passed_over() {
        // 1.31, 1.32, back to 1.31 because 1.32 is broken, 1.33.
        let (three_revisions, turns) = (
            build_kept(&["c", "b", "a"], Some("c")),
            [(1, None), (2, None), (1, Some(2)), (3, None)],
        );
        assert_eq!(to_after(&three_revisions, None, &turns), Ok(1));
        let past = LiveHistory::by_hand(&[(id(1), Some(id(2)))]);
        let choice = three_revisions.choose(Some(&id(2)), &past, DefaultRevision::NotBad).unwrap();
        assert_eq!(choice.warning.unwrap().reason, "broken", "named, it may be, with a warning");
        // The same files under another name are the same release.
        let twice = build_kept(&["d", "b", "b", "a"], Some("d"));
        assert_eq!(to_after(&twice, None, &[(1, None), (3, None), (1, Some(3)), (4, None)]), Ok(1));
        // Made live again by a person who named it: it is good.
        let forward = [(1, None), (2, None), (1, Some(2)), (2, None), (3, None)];
        assert_eq!(to_after(&three_revisions, None, &forward), Ok(2));
        // Nothing else is left.
        let two_revisions = build_kept(&["c", "b"], Some("c"));
        let result = to_after(&two_revisions, None, &[(1, None), (0, Some(1)), (2, None)]);
        let is_rolled_back =
            matches!(result, Err(RevisionChoiceError::NoneGood(RevisionFault::RolledBack(_))));
        assert!(is_rolled_back, "{result:?}");
    }

    #[test]
    fn a_revision_that_failed_in_its_cluster_is_passed_over_unless_it_is_named() {
        use State::{Failed, Succeeded, Superseded};
        let three = build_kept(&["c", "b", "a"], Some("c"));
        let past = LiveHistory::default()
            .ends(1, "A", Succeeded)
            .ends(2, "B", Failed)
            .ends(3, "C", Superseded);
        let choose = |to: Option<DeployId>, past: &LiveHistory, default| {
            three.choose(to.as_ref(), past, default)
        };
        let chosen = choose(None, &past, DefaultRevision::NotBad).unwrap();
        assert_eq!((chosen.to, chosen.failure), (id(1), None));
        let named = choose(Some(id(2)), &past, DefaultRevision::NotBad).unwrap();
        assert_eq!(named.failure.unwrap().summary, "no pods", "named, it may be, with a warning");
        // Its last end counts: the same files ran since, under the id of a deployment that changed nothing.
        let again = past.clone().ends(7, "B", Succeeded);
        assert_eq!(choose(None, &again, DefaultRevision::NotBad).unwrap().to, id(2));
        let worse = again.ends(8, "B", Failed);
        assert_eq!(choose(None, &worse, DefaultRevision::NotBad).unwrap().to, id(1));
        // None is left.
        let none = worse.ends(1, "A", Failed);
        let result = choose(None, &none, DefaultRevision::NotBad);
        let Err(RevisionChoiceError::NoneGood(RevisionFault::Failed(failure))) = result else {
            panic!("{result:?}")
        };
        assert_eq!(failure.revision, id(2), "the newest of them");
    }

    #[test]
    fn what_was_replaced_before_its_pods_ran_is_chosen_by_a_person_alone() {
        use State::{Succeeded, Superseded};
        let three = build_kept(&["c", "b", "a"], Some("c"));
        let past = LiveHistory::default().ends(1, "A", Succeeded).ends(2, "B", Superseded).ends(
            3,
            "C",
            State::Failed,
        );
        let to = |past: &LiveHistory, default| three.choose(None, past, default).map(|one| one.to);
        assert_eq!(to(&past, DefaultRevision::NotBad), Ok(id(2)));
        assert_eq!(to(&past, DefaultRevision::Proven), Ok(id(1)));
        let lost = LiveHistory::default().ends(3, "C", State::Failed);
        let none = Err(RevisionChoiceError::NoneGood(RevisionFault::Unproven(id(2))));
        assert_eq!(to(&lost, DefaultRevision::Proven), none);
    }

    #[test]
    fn it_is_what_was_live_before_and_not_what_is_next_by_age() {
        // From 3 straight to 1, then 4: before 4, 1 was live.
        let four = build_kept(&["d", "c", "b", "a"], Some("d"));
        let turns = [(1, None), (2, None), (3, None), (1, Some(3)), (4, None)];
        assert_eq!(to_after(&four, None, &turns), Ok(1));
    }

    #[test]
    fn one_with_the_same_files_is_passed_over() {
        assert_eq!(to(&build_kept(&["b", "b", "a"], Some("b")), None), Ok(1));
    }

    #[test]
    fn where_latest_was_edited_by_hand_it_is_what_was_deployed_last() {
        let edited = build_kept(&["b", "a"], Some("x"));
        assert_eq!(to(&edited, None), Ok(2));
        let past = LiveHistory::default();
        assert_eq!(edited.choose(None, &past, DefaultRevision::NotBad).unwrap().from, None);
        let after = to_after(
            &build_kept(&["b", "a"], Some("x")),
            None,
            &[(1, None), (2, None), (1, Some(2))],
        );
        assert_eq!(after, Ok(1), "what was rolled back from does not come back by an edit");
        assert_eq!(to(&build_kept(&["b", "a"], None), None), Ok(2), "somebody deleted it");
    }

    #[test]
    fn a_named_one_must_be_kept_and_not_be_live() {
        let folders = build_kept(&["c", "b", "a"], Some("b"));
        assert_eq!(to(&folders, Some(3)), Ok(3), "forward again");
        assert_eq!(to(&folders, Some(2)), Err(RevisionChoiceError::Live(id(2))));
        assert_eq!(to(&folders, Some(7)), Err(RevisionChoiceError::NotKept(id(7))));
        assert_eq!(to(&AppFolders::default(), Some(1)), Err(RevisionChoiceError::NoApp));
    }
}
