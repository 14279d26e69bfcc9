//! The commits of others that hold a followed revision: Argo CD names the newest commit of the branch, which a removal, a
//! person or another tool may have pushed. Each is looked up once in the manifest repository.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::model::id::{CommitSha, DeployId};
use crate::support::time::saturating_add;

/// The most commits that are remembered for a deployment: Argo CD names one or two at a time.
const MAX_COMMITS: usize = 100;
/// The pause until a commit that is not there is looked up again: a clone may be behind.
const RETRY_AFTER: SignedDuration = SignedDuration::from_secs(10);

/// What is known of the commits of others, by deployment.
#[derive(Debug, Default)]
pub(super) struct HeldCommits(BTreeMap<DeployId, BTreeMap<CommitSha, CommitFinding>>);

/// What is known of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommitFinding {
    /// It is being looked up.
    Pending,
    /// It was not there, and is looked up again at that time.
    Absent(Timestamp),
    /// It is known whether it holds the revision.
    Judged { is_held: bool },
}

impl HeldCommits {
    /// Returns the commit to look up, if the text is one and it is due; it counts as being looked up from now on.
    pub(super) fn begin(
        &mut self,
        deployment: &DeployId,
        commit: &str,
        now: Timestamp,
    ) -> Option<CommitSha> {
        let commit = CommitSha::parse(commit).ok()?;
        let findings = self.0.entry(deployment.clone()).or_default();
        match findings.get(&commit) {
            Some(CommitFinding::Absent(next)) if *next > now => return None,
            Some(CommitFinding::Pending | CommitFinding::Judged { .. }) => return None,
            Some(CommitFinding::Absent(_)) | None => {}
        }
        // Whoever can write an Application names as many as he likes. One that is forgotten is looked up again.
        if findings.len() >= MAX_COMMITS {
            let mut settled = findings.iter().filter(|(_, one)| **one != CommitFinding::Pending);
            let forgotten = settled.next().map(|(commit, _)| commit.clone())?;
            findings.remove(&forgotten);
        }
        findings.insert(commit.clone(), CommitFinding::Pending);
        Some(commit)
    }

    /// Takes the result of a look-up; `None` where the commit is not there. Returns true if the commit holds the revision.
    pub(super) fn end(
        &mut self,
        deployment: &DeployId,
        commit: &CommitSha,
        is_held: Option<bool>,
        now: Timestamp,
    ) -> bool {
        let findings = self.0.get_mut(deployment);
        let Some(finding) = findings.and_then(|findings| findings.get_mut(commit)) else {
            return false;
        };
        *finding = match is_held {
            Some(is_held) => CommitFinding::Judged { is_held },
            None => CommitFinding::Absent(saturating_add(now, RETRY_AFTER)),
        };
        is_held == Some(true)
    }

    /// Lists the commits of others that hold a deployment's revision.
    pub(super) fn commits_of(&self, deployment: &DeployId) -> impl Iterator<Item = String> {
        let findings = self.0.get(deployment).into_iter().flatten();
        let held = findings.filter(|(_, one)| **one == CommitFinding::Judged { is_held: true });
        held.map(|(commit, _)| commit.to_string())
    }

    /// Forgets deployments that are not among these.
    pub(super) fn retain(&mut self, deployments: &BTreeSet<DeployId>) {
        self.0.retain(|id, _| deployments.contains(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_commit_is_looked_up_once_and_one_that_is_not_there_again_later() {
        let id = DeployId::parse("20261121-054812123-0a1b2c").unwrap();
        let (start, mut held) = (Timestamp::UNIX_EPOCH, HeldCommits::default());
        let digits = "ab".repeat(20);
        let commit = held.begin(&id, &digits, start).expect("it is not known");
        assert_eq!(held.begin(&id, &digits, start), None, "it is being looked up");
        assert!(!held.end(&id, &commit, None, start));
        assert_eq!(held.begin(&id, &digits, start), None, "not at once again");
        let later = start + SignedDuration::from_secs(10);
        assert_eq!(held.begin(&id, &digits, later).as_ref(), Some(&commit));
        assert!(held.end(&id, &commit, Some(true), later));
        assert_eq!(held.begin(&id, &digits, later), None, "a commit does not change");
        assert_eq!(held.commits_of(&id).collect::<Vec<_>>(), [digits]);
        assert_eq!(held.begin(&id, "main", later), None, "this is no commit");
        for n in 0..200 {
            if let Some(commit) = held.begin(&id, &format!("{n:040}"), later) {
                held.end(&id, &commit, Some(false), later);
            }
        }
        assert_eq!(held.0[&id].len(), MAX_COMMITS);
        assert!(held.begin(&id, &"cd".repeat(20), later).is_some(), "an older one is forgotten");
        held.retain(&BTreeSet::new());
        assert_eq!(held.commits_of(&id).count(), 0);
    }
}
