//! What is known of an app and its revisions becomes answers of the API.

use crate::api::apps::{AppDetail, LiveRevision, LiveRollback, SyncSummary};
use crate::api::locks::LockSummary;
use crate::api::revisions::{
    RevisionDetail, RevisionFile, RevisionList, RevisionRollback, RevisionSummary,
};
use crate::api::rollbacks::HoldSummary;
use crate::deployments::app_state::{AppNow, Synced};
use crate::deployments::history::{History, Revision, RevisionFiles};
use crate::manifests::diff;
use crate::model::deployment::Deployment;
use crate::model::live_history::RolledBackFrom;
use crate::model::placed::Spot;
use crate::model::revision::ManifestFile;
use crate::model::rollback::Rollback;
use crate::server::api::view;

impl From<RolledBackFrom> for RevisionRollback {
    fn from(from: RolledBackFrom) -> Self {
        let RolledBackFrom { revision: _, rollback, by, reason, at } = from;
        Self { rollback: rollback.into(), by, reason, at }
    }
}

impl AppDetail {
    /// Takes the answer apart; a new field asks here whether it is to be seen.
    pub(super) fn new(spot: Spot, now: AppNow) -> Self {
        let AppNow { placed, live, rollback, hand_edited, under_way, last, locks, hold, sync } =
            now;
        let of_last = |last: &Deployment| {
            let owner = last.contact.as_ref().map(|contact| contact.owner.clone());
            (Some(last.request.release.repository.clone()), owner)
        };
        let (said_repository, said_owner) = last.as_ref().map(of_last).unwrap_or_default();
        let (hosts, owner, repository) = placed
            .map(|placed| (placed.hosts, placed.owner, placed.repository))
            .unwrap_or_default();
        Self {
            target: spot.target.into(),
            namespace: spot.app.namespace.into(),
            app: spot.app.slug.into(),
            repository: repository.or(said_repository).map(String::from),
            owner: owner.or(said_owner),
            hosts: hosts.into_iter().collect(),
            live: live.map(|live| LiveRevision::new(live, rollback)),
            hand_edited,
            under_way: under_way.into_iter().map(view::overview).collect(),
            last: last.map(view::overview),
            locks: locks.into_iter().map(|(id, lock)| LockSummary::new(&id, lock)).collect(),
            hold: hold.map(HoldSummary::from),
            sync: sync.into(),
        }
    }
}

impl LiveRevision {
    fn new(revision: Revision, rollback: Option<Deployment>) -> Self {
        let Revision { id, tag, commit, at, actor, .. } = revision;
        Self {
            revision: id.into(),
            tag: tag.map(String::from),
            commit: commit.map(String::from),
            at,
            actor,
            rollback: rollback.and_then(LiveRollback::of),
        }
    }
}

impl LiveRollback {
    /// None of a deployment that is no rollback.
    fn of(deployment: Deployment) -> Option<Self> {
        let Deployment { id, request, rollback, finished_at, .. } = deployment;
        let Rollback { from, reason, .. } = rollback?;
        let from = from.map(String::from);
        Some(Self { id: id.into(), from, by: request.actor, reason, at: finished_at })
    }
}

impl From<Synced> for SyncSummary {
    fn from(sync: Synced) -> Self {
        let (state, why, told_at) = match sync {
            Synced::Told(at) => ("told", None, Some(at)),
            Synced::Waiting => ("waiting", None, None),
            Synced::GivenUp(why) => ("given-up", Some(why), None),
            Synced::ByItself => ("by-itself", None, None),
        };
        Self { state: state.to_owned(), why, told_at }
    }
}

impl From<History> for RevisionList {
    fn from(history: History) -> Self {
        let History { revisions, hand_edited } = history;
        Self { revisions: revisions.into_iter().map(Into::into).collect(), hand_edited }
    }
}

impl From<Revision> for RevisionSummary {
    fn from(revision: Revision) -> Self {
        let Revision {
            id,
            tree,
            live,
            tag,
            commit,
            repository,
            actor,
            reason,
            at,
            template,
            digest,
            rolled_back,
        } = revision;
        Self {
            id: id.into(),
            tree,
            live,
            tag: tag.map(String::from),
            commit: commit.map(String::from),
            repository: repository.map(String::from),
            actor,
            reason,
            at,
            template,
            digest: digest.map(|digest| digest.0),
            rolled_back: rolled_back.map(Into::into),
        }
    }
}

impl From<RevisionFiles> for RevisionDetail {
    fn from(found: RevisionFiles) -> Self {
        let RevisionFiles { revision, files, changes } = found;
        let files = files.into_iter().map(Into::into).collect();
        Self { summary: revision.into(), files, changes }
    }
}

impl From<ManifestFile> for RevisionFile {
    fn from(file: ManifestFile) -> Self {
        let text = diff::shown_text(&file);
        Self { name: file.name, text }
    }
}
