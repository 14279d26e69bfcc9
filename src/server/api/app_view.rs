//! One app and its revisions as callers see them.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::model::deployment::Deployment;
use crate::model::live_history::RolledBackFrom;
use crate::model::placed::Spot;
use crate::model::revision::ManifestFile;
use crate::model::rollback::Rollback;
use crate::pipeline::diff::{self, Change};
use crate::server::api::locks;
use crate::server::api::rollback::HoldView;
use crate::server::api::view::{self, Overview};
use crate::server::ports::{AppNow, History, Revision, RevisionFiles, Synced};

/// An app on a target, now.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "App")]
pub(super) struct AppView {
    /// The cluster.
    target: String,
    /// Its namespace.
    namespace: String,
    /// Its slug.
    app: String,
    /// The service's repository.
    repository: Option<String>,
    /// The owning team's e-mail address.
    owner: Option<String>,
    /// The hosts that it is reached at.
    hosts: Vec<String>,
    /// The revision that is live; null where there is none, or somebody edited it by hand.
    live: Option<LiveView>,
    /// Whether somebody edited what the cluster syncs by hand.
    hand_edited: bool,
    /// Deployments that have not ended, newest first.
    under_way: Vec<Overview>,
    /// The newest deployment, whatever became of it.
    last: Option<Overview>,
    /// The locks that stop it, oldest first.
    locks: Vec<locks::View>,
    /// What keeps automation off it; null where nothing does.
    hold: Option<HoldView>,
    /// Whether Argo CD knows of the newest push.
    sync: SyncView,
}

/// What is live.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Live")]
struct LiveView {
    /// The deploy id that names the revision.
    revision: String,
    /// The image tag.
    tag: Option<String>,
    /// The commit that its WAML was read at.
    commit: Option<String>,
    /// When the revision was made.
    at: Option<Timestamp>,
    /// Who asked for it.
    actor: Option<String>,
    /// The rollback that made it live again; null where none did.
    rollback: Option<LiveRollbackView>,
}

/// A rollback that made a revision live again.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LiveRollback")]
struct LiveRollbackView {
    /// The deployment that it is.
    id: String,
    /// The revision that was live before; null where somebody had edited it by hand.
    from: Option<String>,
    /// Who rolled back.
    by: String,
    /// Why.
    reason: String,
    /// When it was done.
    at: Option<Timestamp>,
}

/// Whether Argo CD knows of the newest push.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Sync")]
struct SyncView {
    /// `told`, `waiting` (to be told), `given-up` or `by-itself`: nobody tells it, it looks every few
    /// minutes.
    state: &'static str,
    /// Why it was not told.
    why: Option<String>,
    /// When it was told.
    told_at: Option<Timestamp>,
}

/// An app's history on a target.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "History")]
pub(super) struct HistoryView {
    /// Newest first.
    revisions: Vec<RevisionView>,
    /// Whether somebody edited what the cluster syncs by hand; then no revision is live.
    hand_edited: bool,
}

/// An entry of an app's history.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Revision")]
pub(super) struct RevisionView {
    /// Its deploy id.
    id: String,
    /// The id of its tree in git: equal for equal files.
    tree: String,
    /// Whether it is live.
    live: bool,
    /// The image tag.
    tag: Option<String>,
    /// The commit that its WAML was read at.
    commit: Option<String>,
    /// The service's repository.
    repository: Option<String>,
    /// Who asked for it.
    actor: Option<String>,
    /// Why, if they said.
    reason: Option<String>,
    /// When it was made.
    at: Option<Timestamp>,
    /// The template and its version.
    template: Option<String>,
    /// The digest of its files, as each workload carries it.
    digest: Option<String>,
    /// That it was rolled back from; null where it was not, or is live again since.
    rolled_back: Option<RolledBackView>,
}

/// That a revision was rolled back from.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RolledBack")]
pub(super) struct RolledBackView {
    /// The rollback.
    rollback: String,
    /// Who did it.
    by: String,
    /// Why.
    reason: String,
    /// When.
    at: Timestamp,
}

impl From<RolledBackFrom> for RolledBackView {
    fn from(from: RolledBackFrom) -> Self {
        let RolledBackFrom { revision: _, rollback, by, reason, at } = from;
        Self { rollback: rollback.into(), by, reason, at }
    }
}

/// A revision with its files.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RevisionDetail")]
pub(super) struct RevisionFilesView {
    #[serde(flatten)]
    revision: RevisionView,
    /// By name; those of more than a mebibyte are left out.
    files: Vec<FileView>,
    /// What would change if it were live, object by object; null where a file is not one that we
    /// wrote.
    changes: Option<Vec<Change>>,
}

/// A file of a revision.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "File")]
struct FileView {
    /// Its name.
    name: String,
    /// Its text; null where it holds a Secret, or is not one that we wrote.
    text: Option<String>,
}

impl AppView {
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
            live: live.map(|live| LiveView::new(live, rollback)),
            hand_edited,
            under_way: under_way.into_iter().map(view::overview).collect(),
            last: last.map(view::overview),
            locks: locks.into_iter().map(|(id, lock)| locks::view(&id, lock)).collect(),
            hold: hold.map(HoldView::of),
            sync: sync.into(),
        }
    }
}

impl LiveView {
    fn new(revision: Revision, rollback: Option<Deployment>) -> Self {
        let Revision { id, tag, commit, at, actor, .. } = revision;
        Self {
            revision: id.into(),
            tag: tag.map(String::from),
            commit: commit.map(String::from),
            at,
            actor,
            rollback: rollback.and_then(LiveRollbackView::of),
        }
    }
}

impl LiveRollbackView {
    /// None of a deployment that is no rollback.
    fn of(deployment: Deployment) -> Option<Self> {
        let Deployment { id, request, rollback, finished_at, .. } = deployment;
        let Rollback { from, reason, .. } = rollback?;
        let from = from.map(String::from);
        Some(Self { id: id.into(), from, by: request.actor, reason, at: finished_at })
    }
}

impl From<Synced> for SyncView {
    fn from(sync: Synced) -> Self {
        let (state, why, told_at) = match sync {
            Synced::Told(at) => ("told", None, Some(at)),
            Synced::Waiting => ("waiting", None, None),
            Synced::GivenUp(why) => ("given-up", Some(why), None),
            Synced::ByItself => ("by-itself", None, None),
        };
        Self { state, why, told_at }
    }
}

impl From<History> for HistoryView {
    fn from(history: History) -> Self {
        let History { revisions, hand_edited } = history;
        Self { revisions: revisions.into_iter().map(Into::into).collect(), hand_edited }
    }
}

impl From<Revision> for RevisionView {
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

impl From<RevisionFiles> for RevisionFilesView {
    fn from(found: RevisionFiles) -> Self {
        let RevisionFiles { revision, files, changes } = found;
        let files = files.into_iter().map(Into::into).collect();
        Self { revision: revision.into(), files, changes }
    }
}

impl From<ManifestFile> for FileView {
    fn from(file: ManifestFile) -> Self {
        let text = diff::shown_text(&file);
        Self { name: file.name, text }
    }
}
