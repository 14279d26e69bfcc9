//! What is live on a target, as the write path knows it: `latest` in the manifest repository, beside the newest
//! deployment on record. The decision is pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::deployments::history::{HistoryError, repository_error};
use crate::deployments::{BackendError, Deployments};
use crate::model::app_instance::AppInstance;
use crate::model::deployment::Deployment;
use crate::model::id::DeployId;
use crate::model::live_history::AppFolders;
use crate::model::revision::Digest;
use crate::rollout::facts::LiveFact;
use crate::support::time::saturating_add;

/// The time for one look at a manifest repository.
const DEADLINE: Duration = Duration::from_secs(10);

/// The difference between the clocks of replicas, at most: a push and a removal within it may be in either order.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(1);

/// What is on record of an app on a target.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InstanceRecords<'a> {
    /// The newest deployment that was pushed.
    pub(super) newest: Option<&'a Deployment>,
    /// The time of the last removal.
    pub(super) removed_at: Option<Timestamp>,
}

/// The revisions of an app on a target, and which of them is live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LiveState {
    /// The live revision.
    pub(super) live: LiveFact,
    /// The revisions that are kept; empty where they could not be read.
    pub(super) folders: AppFolders,
}

impl Deployments {
    /// Finds out what is live; `is_ours` says whether a deployment belongs to the rollout.
    pub(super) async fn read_live(
        &self,
        instance: &AppInstance,
        records: InstanceRecords<'_>,
        is_ours: &(dyn Fn(&DeployId) -> bool + Sync),
    ) -> LiveState {
        let read = tokio::time::timeout(DEADLINE, self.look_at_live(instance, records, is_ours));
        let unknown = |reason: String| {
            let live = LiveFact::Unknown(format!("word of what is live there: {reason}"));
            LiveState { live, folders: AppFolders::default() }
        };
        match read.await {
            Ok(Ok(state)) => state,
            Ok(Err(error)) => unknown(error.to_string()),
            Err(_elapsed) => unknown("the manifest repository does not answer in time".to_owned()),
        }
    }

    async fn look_at_live(
        &self,
        instance: &AppInstance,
        records: InstanceRecords<'_>,
        is_ours: &(dyn Fn(&DeployId) -> bool + Sync),
    ) -> Result<LiveState, HistoryError> {
        let newest = records.newest;
        let AppInstance { target, app } = instance;
        if self.fleets.is_fleet(target) {
            return self.look_at_fleet(instance, newest, is_ours).await;
        }
        let Some((repository, branch)) = self.repository(instance).await? else {
            let reason = format!("no manifest repository is configured for {target}");
            return Err(HistoryError::Repository(reason));
        };
        // Another replica may have taken the app away: what was read a moment ago would still have it.
        if !records.is_removed() {
            let folders = match repository.revisions(target, app).await {
                // The server has no branch: nothing was ever pushed.
                Err(_) if !branch => AppFolders::default(),
                result => result.map_err(|error| repository_error(&error))?,
            };
            let digest = self.digest_of(&folders, newest).await?;
            if let Some(live) = decide(&folders, newest, digest.as_ref(), is_ours) {
                return Ok(LiveState { live, folders });
            }
        }
        // What was read may be of a moment ago.
        let folders =
            repository.history(target, app).await.map_err(|error| repository_error(&error))?;
        let digest = self.digest_of(&folders, newest).await?;
        let live = decide(&folders, newest, digest.as_ref(), is_ours);
        let is_absent = folders.latest.is_none();
        let live = live.unwrap_or(if is_absent { LiveFact::Absent } else { LiveFact::Edited });
        Ok(LiveState { live, folders })
    }

    /// Returns the digest of the live revision, by the record of its deployment; `None` where it decides nothing.
    async fn digest_of(
        &self,
        folders: &AppFolders,
        newest: Option<&Deployment>,
    ) -> Result<Option<Digest>, HistoryError> {
        let (Some(newest), Some(revision)) = (newest, folders.live()) else { return Ok(None) };
        if folders.tree_of(revision_of(newest)) == folders.latest.as_ref() {
            return Ok(None);
        }
        let record = self.store.deployment_picture(revision).await;
        let record = record.map_err(|error| HistoryError::Fault(BackendError::new(error)))?;
        Ok(record.and_then(|record| record.pushed).map(|pushed| pushed.digest))
    }
}

impl InstanceRecords<'_> {
    /// Returns true if the app may have been removed since its newest deployment.
    fn is_removed(&self) -> bool {
        let pushed_at = self.newest.and_then(|newest| newest.finished_at);
        match (self.removed_at, pushed_at) {
            (Some(removed_at), Some(pushed_at)) => {
                saturating_add(removed_at, CLOCK_SKEW) >= pushed_at
            }
            (Some(_), None) => true,
            (None, _) => false,
        }
    }
}

/// Returns the revision that a deployment made live: that of a rollback is the one that it restored.
pub(super) fn revision_of(deployment: &Deployment) -> &DeployId {
    deployment.rollback.as_ref().map_or(&deployment.id, |rollback| &rollback.to)
}

/// Decides what is live; `digest` is that of the live revision's files. `None` where the folders do not have what the
/// newest record says: they may be older than it, or were changed by hand.
fn decide(
    folders: &AppFolders,
    newest: Option<&Deployment>,
    digest: Option<&Digest>,
    is_ours: &(dyn Fn(&DeployId) -> bool + Sync),
) -> Option<LiveFact> {
    let fact = |revision: &DeployId, by: &DeployId| {
        let (revision, by) = (revision.clone(), by.clone());
        Some(LiveFact::Revision { is_ours: is_ours(&by), revision, by })
    };
    let (latest, live) = (folders.latest.as_ref(), folders.live());
    let Some(newest) = newest else {
        return match (latest, live) {
            (_, Some(live)) => fact(live, live),
            (None, None) => Some(LiveFact::Absent),
            (Some(_), None) => Some(LiveFact::Edited),
        };
    };
    let (latest, live) = (latest?, live?);
    let revision = revision_of(newest);
    if folders.tree_of(revision) == Some(latest) {
        return fact(revision, &newest.id);
    }
    let newest_digest = newest.pushed.as_ref().map(|pushed| &pushed.digest);
    if digest.is_some() && newest_digest == digest {
        // It changed nothing: its files were live before.
        return fact(live, &newest.id);
    }
    // A later push is not on record yet.
    if *live > newest.id { fact(live, live) } else { None }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::model::deployment::Pushed;
    use crate::model::event::{DeploymentRequest, Recipient};
    use crate::model::id::{AppKey, CommitSha};
    use crate::model::release::Release;
    use crate::model::rollback::{Rollback, TreeId};
    use crate::store::NewRollback;

    fn id(n: u8) -> DeployId {
        DeployId::parse(format!("20261121-054812123-00000{n}")).unwrap()
    }

    fn tree(n: u8) -> TreeId {
        TreeId(format!("{n}").repeat(40))
    }

    /// The record of deployment `n`, of the rollback to a revision if there is one, with files of that digest.
    fn record(n: u8, back_to: Option<u8>, digest: &str) -> Deployment {
        let commit = CommitSha::parse("a".repeat(40)).unwrap();
        let (repository, tag) = ("acme/shop".parse().unwrap(), "v2".parse().unwrap());
        let request = DeploymentRequest {
            forge_id: 7,
            release: Release { repository, app: None, commit: commit.clone(), tag },
            target: "prod".parse().unwrap(),
            git_ref: "main".to_owned(),
            actor: "ann".to_owned(),
            description: String::new(),
            production: false,
            automatic: false,
            recipient: Recipient::Actor,
            identity: None,
            requested_at: None,
        };
        let rollback = Rollback {
            to: id(back_to.unwrap_or(1)),
            from: None,
            away: None,
            tree: tree(1),
            reason: String::new(),
            hold: true,
            with_data: false,
            with_fewer_pods: false,
            undoes: None,
            replaces: None,
            only_from: false,
        };
        let app = AppKey { namespace: "devx".parse().unwrap(), slug: "shop".parse().unwrap() };
        let new = NewRollback {
            id: id(n),
            request,
            app,
            rollback,
            template: None,
            contact: None,
            address: None,
            rollout: None,
        };
        let mut record = new.deployment(Timestamp::UNIX_EPOCH);
        record.rollback = record.rollback.filter(|_| back_to.is_some());
        let digest = Digest(digest.to_owned());
        record.pushed = Some(Pushed { commit, changed: true, digest, files: Vec::new() });
        record
    }

    /// What is decided where revisions 1 and 3 are kept, `latest` has the tree of a number, and 3 is of the rollout.
    fn live(latest: Option<u8>, newest: Option<&Deployment>) -> Option<LiveFact> {
        let revisions = vec![(id(3), tree(3)), (id(1), tree(1))];
        let folders = AppFolders { revisions, latest: latest.map(tree) };
        let digest = Digest(format!("sha256:{}", latest.unwrap_or_default()));
        decide(&folders, newest, Some(&digest), &|by| *by == id(3))
    }

    #[expect(clippy::unnecessary_wraps, reason = "it is compared with what may be absent")]
    fn revision(revision: u8, by: u8, is_ours: bool) -> Option<LiveFact> {
        Some(LiveFact::Revision { revision: id(revision), by: id(by), is_ours })
    }

    #[test]
    fn a_removal_after_the_newest_push_is_looked_for_in_the_repository_itself() {
        let second = |seconds: i64| Timestamp::from_second(1_763_703_492 + seconds).unwrap();
        let mut pushed = record(3, None, "sha256:3");
        let mut is_removed = |pushed_at: Option<i64>, removed_at: Option<i64>| {
            pushed.finished_at = pushed_at.map(second);
            let (newest, removed_at) = (Some(&pushed), removed_at.map(second));
            InstanceRecords { newest, removed_at }.is_removed()
        };
        assert!(is_removed(Some(100), Some(101)));
        assert!(is_removed(Some(100), Some(50)), "clocks of replicas differ");
        assert!(is_removed(None, Some(50)), "it is being pushed");
        assert!(!is_removed(Some(100), Some(39)) && !is_removed(Some(100), None));
        let removed_at = Some(second(0));
        assert!(InstanceRecords { newest: None, removed_at }.is_removed(), "nothing is on record");
    }

    #[test]
    fn the_newest_record_made_live_what_is_there() {
        assert_eq!(live(Some(3), Some(&record(3, None, "sha256:3"))), revision(3, 3, true));
        assert_eq!(live(Some(1), Some(&record(5, Some(1), "sha256:1"))), revision(1, 5, false));
        let unchanged = record(5, None, "sha256:3");
        assert_eq!(live(Some(3), Some(&unchanged)), revision(3, 5, false), "it changed nothing");
    }

    #[test]
    fn a_push_that_is_not_on_record_yet_is_its_own() {
        assert_eq!(live(Some(3), Some(&record(1, None, "sha256:1"))), revision(3, 3, true));
    }

    #[test]
    fn what_contradicts_the_record_is_looked_at_again() {
        let newest = record(3, None, "sha256:3");
        for latest in [Some(1), Some(9), None] {
            assert_eq!(live(latest, Some(&newest)), None, "{latest:?}");
        }
        let rollback = record(5, Some(1), "sha256:1");
        assert_eq!(live(Some(3), Some(&rollback)), None, "an older state of the folders");
    }

    #[test]
    fn without_a_record_the_folders_are_all_there_is() {
        assert_eq!(live(Some(1), None), revision(1, 1, false));
        assert_eq!(live(Some(9), None), Some(LiveFact::Edited));
        assert_eq!(live(None, None), Some(LiveFact::Absent));
    }
}
