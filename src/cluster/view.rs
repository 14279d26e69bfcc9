//! The view of one cluster: its objects, the records of its workloads, and the deployments that wait for it.
//!
//! Events, times and word of pushes go in; what must be stored and told comes out of [`ClusterView::take_news`], once.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use crate::cluster::argocd::ArgoApplication;
use crate::cluster::expected::ExpectedRevision;
use crate::cluster::failure::{CauseKind, FailureCause};
use crate::cluster::index::ClusterIndex;
use crate::cluster::live::{AppSnapshot, LiveReadError, UnreadKind, snapshot};
use crate::cluster::marks::{cluster_marks, mark_of};
use crate::cluster::object::{ObjectKey, WatchedKind};
use crate::cluster::progress::ReplicaCounts;
use crate::cluster::record::{ClockTime, ProgressRecord};
use crate::cluster::summary::{DeploymentProgress, DeploymentState, summarize};
use crate::cluster::tracker::{ProgressPatience, ProgressTracker};
use crate::cluster::watch::event::ClusterEvent;
use crate::cluster::watch::health::{ClusterHealth, ClusterUnseen, KindSight};
use crate::cluster::watched::WatchedObject;
use crate::model::canary::CanaryStatus;
use crate::model::deploy_clock::{DeployMark, DeployMarks, MarkTime};
use crate::model::id::{DeployId, TargetName};
use crate::model::waiting::WaitingOn;
use crate::support::time::saturating_add;

/// One cluster, and the deployments that wait for it.
#[derive(Debug)]
pub struct ClusterView {
    index: ClusterIndex,
    tracker: ProgressTracker,
    open: BTreeMap<DeployId, OpenDeployment>,
    /// The deployments whose marks are looked for: those without an end, and those that Argo CD may still be syncing.
    clocks: BTreeMap<DeployId, FollowedClock>,
    /// The causes that the process before has told, of deployments that are not followed yet.
    announced_causes: BTreeMap<DeployId, BTreeSet<CauseKind>>,
    /// The records that are not given out yet.
    records: Vec<ProgressRecord>,
}

/// A deployment without an end.
#[derive(Debug)]
struct OpenDeployment {
    expected: ExpectedRevision,
    /// The progress that was given out last.
    shown: Option<DeploymentProgress>,
    announced: Announced,
}

/// The clock of a deployment, as far as its cluster shows it.
#[derive(Debug)]
struct FollowedClock {
    expected: ExpectedRevision,
    /// The marks that were given out.
    marks: DeployMarks,
}

/// The time after the push for which marks are looked for once the deployment has ended: the pods may be there before
/// Argo CD has ended its sync.
const FOLLOWED_AFTER_PUSH: SignedDuration = SignedDuration::from_mins(30);

/// The facts that people were told: each cause once, each step of a canary, and neither counts of pods nor that a cause
/// is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Announced {
    is_syncing: bool,
    causes: BTreeSet<CauseKind>,
    /// How far the canaries were; `None` before this process has looked, so that a restart repeats nothing.
    canaries: Option<Vec<CanaryMark>>,
}

/// How far a canary is, as far as people are told of it: a share of the traffic, and the failed checks with their reason.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CanaryMark {
    workload: String,
    weight: u32,
    failed_checks: u32,
    has_reason: bool,
}

impl CanaryMark {
    fn of(canary: &CanaryStatus) -> Self {
        Self {
            workload: canary.workload.clone(),
            weight: canary.weight,
            failed_checks: canary.failed_checks,
            has_reason: canary.reason.is_some(),
        }
    }
}

impl Announced {
    /// Notes how far canaries are; returns true if one has got further, or a check has failed, since the look before.
    fn note_canaries(&mut self, canaries: &[CanaryStatus]) -> bool {
        let marks: Vec<CanaryMark> = canaries.iter().map(CanaryMark::of).collect();
        let has_changed = self.canaries.as_ref().is_some_and(|former| *former != marks);
        let is_under_way = !marks.is_empty();
        self.canaries = Some(marks);
        has_changed && is_under_way
    }
}

/// The news that is to be stored and told, in one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use = "news is given out once: store and tell it"]
pub struct ClusterNews {
    /// Records of workloads.
    pub records: Vec<ProgressRecord>,
    /// Changes of deployments.
    pub deployments: Vec<DeploymentNews>,
    /// New marks of deployments, also of some that have ended. Marks may be given out again after a restart.
    pub marks: Vec<(DeployId, Vec<MarkTime>)>,
    /// Workloads of others that are gone, or name no commit any more.
    pub vanished: Vec<ObjectKey>,
}

/// A change of a deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeploymentNews {
    /// The deployment.
    pub deploy_id: DeployId,
    /// Its progress.
    pub progress: DeploymentProgress,
    /// People are to hear of it: it has ended, begun to run, something else is wrong with it than before, or its canary has
    /// got further or has failed a check.
    pub is_announced: bool,
    /// The workload that cannot run, and why, where people were not told of this cause before.
    pub failure: Option<(ObjectKey, FailureCause)>,
}

impl ClusterNews {
    /// Checks that there is nothing to store.
    pub fn is_empty(&self) -> bool {
        let Self { records, deployments, marks, vanished } = self;
        records.is_empty() && deployments.is_empty() && marks.is_empty() && vanished.is_empty()
    }
}

impl ClusterView {
    /// Makes the view of a cluster of which nothing but these records is known.
    pub fn new(
        cluster: TargetName,
        patience: ProgressPatience,
        records: Vec<ProgressRecord>,
    ) -> Self {
        let mut announced_causes: BTreeMap<DeployId, BTreeSet<CauseKind>> = BTreeMap::new();
        for record in records.iter().filter(|record| record.is_open()) {
            if let Some(id) = &record.key.deploy_id {
                announced_causes.entry(id.clone()).or_default().extend(&record.told_causes);
            }
        }
        let tracker = ProgressTracker::new(cluster, patience, records);
        let (open, clocks, records) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let index = ClusterIndex::new();
        Self { index, tracker, open, clocks, announced_causes, records }
    }

    /// Applies an event of the watches, whose state tells a kind that is not there from one that may not be seen.
    pub fn apply(&mut self, event: ClusterEvent, health: &ClusterHealth, now: Timestamp) {
        let changes = match event {
            ClusterEvent::Unavailable(kind)
                if health.kinds().get(&kind) != Some(&KindSight::Absent) =>
            {
                self.index.hide(kind)
            }
            ClusterEvent::Unseen { kind, .. } => {
                self.index.interrupt(kind);
                return;
            }
            ClusterEvent::Seen(kind) => {
                self.index.resume(kind);
                return;
            }
            event => event.apply_to(&mut self.index),
        };
        for change in changes {
            let observations = self.tracker.follow(&change, &self.index, now);
            self.records.extend(observations.into_iter().map(|observation| observation.record));
        }
    }

    /// Judges what changes by time alone. What is not seen at present does not stand still.
    pub fn tick(&mut self, now: Timestamp) {
        let observations = self.tracker.tick(&self.index, now);
        self.records.extend(observations.into_iter().map(|observation| observation.record));
    }

    /// Takes word of a pushed revision; one that awaits an end is followed from now on.
    pub fn expect(&mut self, expected: ExpectedRevision, now: Timestamp) {
        let observations = self.tracker.expect(expected.clone(), &self.index, now);
        self.records.extend(observations.into_iter().map(|observation| observation.record));
        self.follow_clock(&expected, now);
        if !expected.awaiting {
            self.open.remove(&expected.deploy_id);
            return;
        }
        let deployment = self.open.entry(expected.deploy_id.clone());
        match deployment {
            Entry::Occupied(mut open) => open.get_mut().expected = expected,
            Entry::Vacant(place) => {
                // Its push was told, and what the process before has recorded.
                let causes = self.announced_causes.remove(&expected.deploy_id).unwrap_or_default();
                let announced = Announced { is_syncing: true, causes, canaries: None };
                place.insert(OpenDeployment { expected, shown: None, announced });
            }
        }
    }

    /// Follows the clock of a deployment, in place of those before it: their revisions are in no later commit.
    fn follow_clock(&mut self, expected: &ExpectedRevision, now: Timestamp) {
        let (app, id) = (&expected.app, &expected.deploy_id);
        let is_newer =
            |clock: &FollowedClock| clock.expected.app == *app && clock.expected.deploy_id > *id;
        if self.clocks.values().any(is_newer) {
            return;
        }
        self.clocks.retain(|other, clock| clock.expected.app != *app || other == id);
        if let Some(clock) = self.clocks.get_mut(id) {
            clock.expected = expected.clone();
        } else if expected.awaiting || is_recent(expected, now) {
            let clock = FollowedClock { expected: expected.clone(), marks: DeployMarks::default() };
            self.clocks.insert(id.clone(), clock);
        }
    }

    /// Notes that people were told how a deployment stands, by the process that watched before.
    pub fn mark_announced(&mut self, id: &DeployId, is_syncing: bool) {
        if let Some(deployment) = self.open.get_mut(id) {
            deployment.announced.is_syncing = is_syncing;
        }
    }

    /// Returns the present workloads and pods of an app; `None` while no kind of them is seen.
    pub fn app_snapshot(
        &self,
        namespace: &str,
        slug: &str,
        health: &ClusterHealth,
    ) -> Option<AppSnapshot> {
        // A cluster without Flagger may refuse to say so, and an Application is not shown.
        let is_part = |kind| !matches!(kind, WatchedKind::Application | WatchedKind::Canary);
        let kinds = health.kinds().into_iter().filter(|(kind, _)| is_part(*kind));
        let mut seen = 0_usize;
        let mut unread = Vec::new();
        for (kind, sight) in kinds {
            let reason = match sight {
                KindSight::Seen | KindSight::Absent => {
                    seen += 1;
                    continue;
                }
                KindSight::Starting => "it is not listed yet".to_owned(),
                KindSight::Unseen { reason, .. } => reason,
            };
            unread.push(UnreadKind { kind, error: LiveReadError::Unavailable(reason) });
        }
        let is_cut = self.index.left_out() > 0;
        let app = || AppSnapshot { unread, ..snapshot(&self.index, namespace, slug, is_cut) };
        (seen > 0).then(app)
    }

    /// Returns the revisions that are followed.
    pub fn open(&self) -> impl Iterator<Item = &ExpectedRevision> {
        self.open.values().map(|deployment| &deployment.expected)
    }

    /// Lists the commits that Argo CD names for followed deployments, and that are not known to hold their revisions: a
    /// removal, a person or another tool may have pushed them.
    pub fn unknown_commits(&self) -> Vec<(DeployId, String)> {
        let mut commits = Vec::new();
        for (id, OpenDeployment { expected, .. }) in &self.open {
            let key = expected.application.as_ref();
            let object = key.and_then(|key| self.index.get(key));
            let Some(application) = object.and_then(WatchedObject::application) else { continue };
            let is_unknown =
                |commit: &&str| !expected.commits.iter().any(|one| one.as_str() == *commit);
            let named = application.named_commits().into_iter().filter(is_unknown);
            commits.extend(named.map(|commit| (id.clone(), commit.to_owned())));
        }
        commits
    }

    /// Ends the following of deployments that are not among these: a newer push or a person ended them.
    pub fn keep_open(&mut self, ids: &BTreeSet<DeployId>, now: Timestamp) {
        let is_ended = |id: &&DeployId| !ids.contains(*id);
        let ended: Vec<DeployId> = self.open.keys().filter(is_ended).cloned().collect();
        for id in ended {
            let Some(deployment) = self.open.remove(&id) else { continue };
            self.expect(ExpectedRevision { awaiting: false, ..deployment.expected }, now);
            self.clocks.remove(&id);
        }
    }

    /// Returns what has changed since the last call.
    pub fn take_news(&mut self, health: &ClusterHealth, now: Timestamp) -> ClusterNews {
        let vanished = self.tracker.take_vanished();
        let mut records = newest_of_each(std::mem::take(&mut self.records));
        // What the tracker has forgotten, the store must not keep either.
        records.retain(|record| {
            let workload = &record.key.workload;
            let is_kept = |one: &ProgressRecord| one.key == record.key;
            !vanished.contains(workload) || self.tracker.records_of(workload).iter().any(is_kept)
        });
        let (index, tracker) = (&self.index, &self.tracker);
        let has_no_argo_cd = index.is_unavailable(WatchedKind::Application);
        let mut deployments = Vec::new();
        // Collected once, for the state of a deployment and for its clock.
        let mut open_records = BTreeMap::new();
        for (id, deployment) in &mut self.open {
            let expected = &deployment.expected;
            let parts = expected.parts();
            let records: &[_] = open_records.entry(id).or_insert(records_of(tracker, expected));
            let mut progress = summarize(expected, records, tracker.sync_wait(expected));
            if parts.is_empty() || (expected.workloads.is_empty() && has_no_argo_cd) {
                progress = end_at_push(expected);
            }
            let is_unseen = |kind: &WatchedKind| !index.sees(*kind) || index.is_interrupted(*kind);
            let kinds: BTreeSet<WatchedKind> = parts.iter().map(|key| key.kind).collect();
            if kinds.iter().any(is_unseen)
                && let Some(unseen) = health.unseen()
            {
                wait_for_sight(&mut progress, &unseen);
            }
            if index.left_out() > 0 && progress.waiting.is_some() {
                progress.sentence.push_str("; the cluster has more objects than the service keeps");
            }
            if deployment.shown.as_ref() == Some(&progress) {
                continue;
            }
            let failure = find_failure(expected, &progress, records);
            let is_end = progress.waiting.is_none();
            let is_syncing = progress.state == DeploymentState::Syncing;
            let announced = &mut deployment.announced;
            let has_begun = std::mem::replace(&mut announced.is_syncing, is_syncing) && !is_syncing;
            let failure =
                failure.filter(|(_, cause)| announced.causes.insert(cause.kind) || is_end);
            let has_stepped = announced.note_canaries(&progress.canaries);
            let is_announced = is_end || has_begun || has_stepped || failure.is_some();
            deployment.shown = Some(progress.clone());
            let deploy_id = id.clone();
            deployments.push(DeploymentNews { deploy_id, progress, is_announced, failure });
        }
        let finished = deployments.iter().filter_map(|news| match news.progress.state {
            DeploymentState::Finished { at } => Some((&news.deploy_id, at)),
            _ => None,
        });
        let finished: BTreeMap<&DeployId, ClockTime> = finished.collect();
        let mut marks = Vec::new();
        // A clock that shows no more is forgotten.
        self.clocks.retain(|id, clock| {
            let finished_at = finished.get(id).copied();
            let is_open = open_records.contains_key(id) && finished_at.is_none();
            let records = open_records.remove(id);
            let records = records.unwrap_or_else(|| records_of(tracker, &clock.expected));
            let application = clock.expected.application.as_ref().and_then(|key| index.get(key));
            let application = application.and_then(WatchedObject::application);
            let times = clock.take_marks(application, &records, finished_at, now);
            if !times.is_empty() {
                marks.push((id.clone(), times));
            }
            is_open || (application.is_some() && clock.may_sync(now))
        });
        let has_ended = |news: &&DeploymentNews| news.progress.waiting.is_none();
        for ended in deployments.iter().filter(has_ended) {
            let Some(deployment) = self.open.remove(&ended.deploy_id) else { continue };
            // Its workloads stay known.
            self.expect(ExpectedRevision { awaiting: false, ..deployment.expected }, now);
            if !matches!(ended.progress.state, DeploymentState::Finished { .. }) {
                self.clocks.remove(&ended.deploy_id);
            }
        }
        ClusterNews { records, deployments, marks, vanished }
    }
}

impl FollowedClock {
    /// Returns the marks that are new.
    fn take_marks(
        &mut self,
        application: Option<&ArgoApplication>,
        records: &[&ProgressRecord],
        finished_at: Option<ClockTime>,
        now: Timestamp,
    ) -> Vec<MarkTime> {
        let mut times = cluster_marks(&self.expected, application, records, now);
        times.extend(finished_at.map(|at| mark_of(DeployMark::Finished, at, now)));
        times.retain(|time| self.marks.get(time.mark).is_none());
        for time in &times {
            self.marks.insert(*time);
        }
        times
    }

    /// Checks that Argo CD may sync the revision yet.
    fn may_sync(&self, now: Timestamp) -> bool {
        let is_synced = self.marks.get(DeployMark::Synced).is_some();
        self.expected.changed && !is_synced && is_recent(&self.expected, now)
    }
}

/// Checks that a deployment was pushed a short time ago.
fn is_recent(expected: &ExpectedRevision, now: Timestamp) -> bool {
    now < saturating_add(expected.pushed_at, FOLLOWED_AFTER_PUSH)
}

/// Returns the newest of the records of each key, in the order of their last changes.
fn newest_of_each(records: Vec<ProgressRecord>) -> Vec<ProgressRecord> {
    let mut keys = BTreeSet::new();
    let mut newest: Vec<ProgressRecord> =
        records.into_iter().rev().filter(|record| keys.insert(record.key.clone())).collect();
    newest.reverse();
    newest
}

/// Returns the progress of a revision of which the cluster shows nothing: the push was its end.
fn end_at_push(expected: &ExpectedRevision) -> DeploymentProgress {
    DeploymentProgress {
        state: DeploymentState::Finished { at: ClockTime::of_service(expected.pushed_at) },
        counts: ReplicaCounts::default(),
        sentence: "it is pushed; no workload of it and no Argo CD can be seen in the cluster"
            .to_owned(),
        waiting: None,
        canaries: Vec::new(),
    }
}

/// Says that nothing is known of the cluster at present, where the deployment has no end.
fn wait_for_sight(progress: &mut DeploymentProgress, unseen: &ClusterUnseen) {
    let Some(waiting) = &progress.waiting else { return };
    let what = format!("the API server of the cluster ({})", unseen.reason);
    progress.sentence = format!("waiting for {what}");
    progress.waiting = Some(WaitingOn {
        what,
        since: unseen.since.unwrap_or(waiting.since),
        // What is not seen does not stand still.
        gives_up_at: None,
        ..waiting.clone()
    });
}

/// Returns the records of all that tells how a deployment stands.
fn records_of<'a>(
    tracker: &'a ProgressTracker,
    expected: &ExpectedRevision,
) -> Vec<&'a ProgressRecord> {
    expected.watched_objects().into_iter().flat_map(|key| tracker.records_of(key)).collect()
}

/// Finds the workload that cannot run, and why.
fn find_failure(
    expected: &ExpectedRevision,
    progress: &DeploymentProgress,
    records: &[&ProgressRecord],
) -> Option<(ObjectKey, FailureCause)> {
    match &progress.state {
        DeploymentState::Failed { workload, cause } => Some((workload.clone(), cause.clone())),
        DeploymentState::Syncing | DeploymentState::Progressing => {
            let is_its = |record: &&ProgressRecord| {
                record.key.deploy_id.as_ref() == Some(&expected.deploy_id)
            };
            let records = records.iter().copied().filter(is_its);
            let mut open = records.filter(|record| record.is_open());
            open.find_map(|record| {
                Some((record.key.workload.clone(), record.failing.as_ref()?.cause.clone()))
            })
        }
        DeploymentState::Finished { .. } | DeploymentState::Superseded => None,
    }
}
