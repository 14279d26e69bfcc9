//! Follows the deployments to one cluster after the push: one process watches it, by a lease, and records
//! what it sees until each deployment has its end.
//!
//! What was seen and what is told about it are one transaction, fenced by the lease. Whoever lost the lease, or could
//! not record, drops all that it knows, and begins anew from the records.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::cluster::expected::ExpectedRevision;
use crate::cluster::record::ProgressRecord;
use crate::cluster::tracker::ProgressPatience;
use crate::cluster::view::{ClusterView, DeploymentNews};
use crate::cluster::watch::health::ClusterHealth;
use crate::cluster::watch::metrics::WatchMetrics;
use crate::cluster::watch::reflector::ClusterWatch;
use crate::cluster::watch::schedule::WatchLimits;
use crate::controller::cluster_news::{change_of, log_news, to_stored};
use crate::controller::cluster_source::{Arrivals, ClusterEvents};
use crate::controller::environments::{RefusalLog, environment_changes};
use crate::controller::held_commits::HeldCommits;
use crate::deployments::Deployments;
use crate::deployments::expected::commits_with;
use crate::deployments::outcome::DeployError;
use crate::deployments::watched_cluster::ClusterLink;
use crate::model::app_instance::AppInstance;
use crate::model::deployment::{ForgeState, State};
use crate::model::environment::EnvironmentRules;
use crate::model::id::{CommitSha, DeployId};
use crate::model::status::ForgeStatus;
use crate::store::{
    ClusterChange, ClusterFindings, ClusterLease, FailureUndo, LeaseState, PushedDeployment,
    StoreError, WorkloadRecord,
};
use crate::support::time::saturating_add;

/// The length of the lease on a cluster: when the process that watches it dies, another one does after so long.
pub(super) const LEASE: Duration = Duration::from_secs(15);
/// The interval at which pushes are looked for, and everything is judged by the time that has passed.
const TICK: Duration = Duration::from_secs(1);
/// The pause after an error, and between attempts to take a lease that another process has.
pub(super) const PAUSE: Duration = Duration::from_secs(2);
/// The number of apps whose manifests are read at the same time.
pub(super) const MAX_READS: usize = 4;
/// The pause until manifests that could not be read are read again.
const READ_AGAIN: SignedDuration = SignedDuration::from_secs(10);
/// The time for which another revision may be live before the deployment ends: a clone is half a minute behind at most.
const REPLACED_PATIENCE: SignedDuration = SignedDuration::from_mins(2);

/// The watch of one cluster, and what it needs.
#[derive(Clone)]
pub struct ClusterFollower {
    /// The use cases.
    pub deployments: Deployments,
    /// The way to the cluster.
    pub link: ClusterLink,
    /// The state of the watches, which probes and pages show too.
    pub health: ClusterHealth,
    /// The metrics of all clusters.
    pub metrics: WatchMetrics,
    /// The settings of the loop.
    pub settings: FollowerSettings,
}

/// The settings of the watch of one cluster.
#[derive(Debug, Clone)]
pub struct FollowerSettings {
    /// The name of this process.
    pub holder: String,
    /// The time after a workload's own deadline until the deployment fails.
    pub patience: Duration,
    /// The rules for workloads of others with the service's annotations; `None` where they are not watched.
    pub previews: Option<EnvironmentRules>,
    /// The limits of the watches: pauses, sizes and times.
    pub limits: WatchLimits,
}

/// The reason why a lease is not used any more.
enum FollowEnd {
    /// Another process has the cluster.
    LeaseLost,
    /// The service stops.
    Stopped,
    /// The database does not answer.
    Store(StoreError),
}

impl From<StoreError> for FollowEnd {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The state while the lease lasts.
struct Followed {
    view: ClusterView,
    lease: ClusterLease,
    /// Deployments whose manifests are read next.
    queue: VecDeque<PushedDeployment>,
    /// Manifests that are being read.
    reads: FuturesUnordered<BoxFuture<'static, ManifestRead>>,
    /// Deployments in `queue` and `reads`.
    queued: BTreeSet<DeployId>,
    /// Deployments that wait, and whose manifests could not be read so far.
    unread: BTreeMap<DeployId, UnreadDeployment>,
    /// The newest push to the manifest repository that the view knows of.
    newest_push: Option<Timestamp>,
    /// The workloads of others of which nothing is said.
    refusals: RefusalLog,
    /// The commits of others that hold a revision.
    held: HeldCommits,
    /// Commits that are being looked up.
    lookups: FuturesUnordered<BoxFuture<'static, CommitLookup>>,
}

/// A deployment, a commit of somebody else, and whether it holds the revision.
type CommitLookup = (DeployId, CommitSha, Result<Option<bool>, DeployError>);

/// A deployment, and the manifests that it should bring about.
type ManifestRead = (PushedDeployment, Result<Option<ExpectedRevision>, DeployError>);

/// A deployment whose manifests could not be read.
struct UnreadDeployment {
    /// The first time at which another revision was live in their place.
    replaced_since: Option<Timestamp>,
    /// The time of the next attempt.
    next: Timestamp,
}

/// Forgets what was seen when the lease is not used any more, also after a panic.
struct Sight<'a>(&'a ClusterFollower);

impl Drop for Sight<'_> {
    fn drop(&mut self) {
        self.0.health.reset();
        self.0.metrics.forget(self.0.health.cluster());
    }
}

impl ClusterFollower {
    /// Follows the cluster until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let cluster = self.health.cluster().clone();
        while !stop.is_cancelled() {
            let followed = AssertUnwindSafe(self.follow(&stop).boxed()).catch_unwind().await;
            match followed {
                Ok(FollowEnd::Stopped) => return,
                Ok(FollowEnd::LeaseLost) => {
                    tracing::warn!(%cluster, "another process watches the cluster now");
                }
                Ok(FollowEnd::Store(error)) => {
                    tracing::error!(%cluster, %error, "progress not recorded, the watch begins anew");
                }
                Err(_panic) => tracing::error!(%cluster, "the watch failed, and begins anew"),
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Takes the lease, and uses it until it is lost.
    async fn follow(&self, stop: &CancellationToken) -> FollowEnd {
        let lease = tokio::select! {
            lease = self.take_lease() => lease,
            () = stop.cancelled() => return FollowEnd::Stopped,
        };
        // Ends the watches with this function, also after a panic.
        let watching = stop.child_token();
        let guard = watching.clone().drop_guard();
        let sight = Sight(self);
        let keeping = self.keep_lease(&lease);
        let end = tokio::select! {
            biased;
            () = stop.cancelled() => FollowEnd::Stopped,
            () = keeping => FollowEnd::LeaseLost,
            end = self.watch(lease.clone(), &watching).boxed() => end,
        };
        drop((guard, sight));
        if !matches!(end, FollowEnd::LeaseLost) {
            let now = self.deployments.clock.now();
            let ending = self.deployments.store.end_cluster_lease(&lease, now);
            let _held = tokio::time::timeout(PAUSE, ending).await;
        }
        end
    }

    async fn take_lease(&self) -> ClusterLease {
        let (store, clock) = (&self.deployments.store, &self.deployments.clock);
        let holder = &self.settings.holder;
        loop {
            match store.lease_cluster(self.health.cluster(), holder, clock.now(), LEASE).await {
                Ok(Some(lease)) => return lease,
                Ok(None) => {}
                Err(error) => {
                    let cluster = self.health.cluster();
                    tracing::error!(%cluster, %error, "the lease of the cluster was not taken");
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Extends the lease until it is lost, or could not be extended for its whole length.
    async fn keep_lease(&self, lease: &ClusterLease) {
        let (store, clock) = (&self.deployments.store, &self.deployments.clock);
        let mut extended = tokio::time::Instant::now();
        loop {
            tokio::time::sleep(LEASE / 4).await;
            let request_time = tokio::time::Instant::now();
            let extending = store.extend_cluster_lease(lease, clock.now(), LEASE);
            match tokio::time::timeout(LEASE / 4, extending).await {
                Ok(Ok(LeaseState::Held)) => extended = request_time,
                Ok(Ok(LeaseState::Lost)) => return,
                Ok(Err(_)) | Err(_) if extended.elapsed() > LEASE => return,
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    async fn watch(&self, lease: ClusterLease, stop: &CancellationToken) -> FollowEnd {
        match self.begin(lease).await {
            Ok(mut followed) => match self.follow_events(&mut followed, stop).boxed().await {
                Ok(()) => FollowEnd::Stopped,
                Err(end) => end,
            },
            Err(end) => end,
        }
    }

    /// Reads the records, and what should be there.
    async fn begin(&self, lease: ClusterLease) -> Result<Followed, FollowEnd> {
        let store = &self.deployments.store;
        let cluster = self.health.cluster().clone();
        let stored = store.workload_records(&cluster).await?;
        // A record of a later version is not understood: what it is about is looked at anew.
        let records: Vec<ProgressRecord> =
            stored.iter().filter_map(|record| serde_json::from_str(record).ok()).collect();
        if records.len() < stored.len() {
            let unread = stored.len() - records.len();
            tracing::warn!(%cluster, unread, "records of workloads cannot be read, and are left out");
        }
        let after_deadline = SignedDuration::try_from(self.settings.patience);
        let patience = ProgressPatience {
            after_deadline: after_deadline.unwrap_or(SignedDuration::MAX),
            ..ProgressPatience::default()
        };
        let view = ClusterView::new(cluster.clone(), patience, records);
        let mut followed = Followed {
            view,
            lease,
            queue: VecDeque::new(),
            reads: FuturesUnordered::new(),
            queued: BTreeSet::new(),
            unread: BTreeMap::new(),
            newest_push: None,
            refusals: RefusalLog::default(),
            held: HeldCommits::default(),
            lookups: FuturesUnordered::new(),
        };
        for deployment in store.waiting_for_cluster(&cluster).await? {
            followed.read_later(deployment);
        }
        for deployment in store.newest_in_cluster(&cluster).await? {
            followed.read_later(deployment);
        }
        Ok(followed)
    }

    async fn follow_events(
        &self,
        followed: &mut Followed,
        stop: &CancellationToken,
    ) -> Result<(), FollowEnd> {
        let clock = &self.deployments.clock;
        let (begun, mut events) = (clock.now(), self.open_events(stop));
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.begin_reads(followed);
            tokio::select! {
                arrival = events.recv() => {
                    let Some(first) = arrival else { return Ok(()) };
                    // Not within the `select`: what it drops would be lost.
                    let arrivals = events.take(first, clock.now()).await;
                    followed.apply(arrivals, &self.health, clock.now());
                }
                Some(read) = followed.reads.next() => self.take_read(followed, read).await?,
                Some(lookup) = followed.lookups.next() => followed.take_lookup(lookup, clock.now()),
                _ = ticks.tick() => {
                    // What has happened is judged before what has not happened for too long.
                    let arrivals = events.drain(clock.now());
                    let is_behind = arrivals.is_behind;
                    followed.apply(arrivals, &self.health, clock.now());
                    self.look_for_pushes(followed).await;
                    self.metrics.observe(&self.health, begun, clock.now());
                    if !is_behind {
                        followed.view.tick(clock.now());
                    }
                }
            }
            self.record(followed).await?;
        }
    }

    /// Begins to watch the cluster, or to take the reports of its agent.
    fn open_events(&self, stop: &CancellationToken) -> ClusterEvents {
        let clock = &self.deployments.clock;
        let (health, metrics) =
            (self.health.clone(), self.metrics.of_cluster(self.health.cluster()));
        match &self.link {
            ClusterLink::Connection(connection) => {
                let watch = ClusterWatch {
                    connection: Arc::clone(connection),
                    previews: self.settings.previews.is_some(),
                    limits: self.settings.limits,
                    health,
                    metrics,
                    clock: clock.clone(),
                };
                ClusterEvents::Watches(watch.start(stop))
            }
            ClusterLink::Agent(inbox) => {
                ClusterEvents::of_agent(inbox.open(), health, metrics, clock.now())
            }
        }
    }

    /// Follows deployments that were pushed since, and no longer those that a push or a person ended.
    async fn look_for_pushes(&self, followed: &mut Followed) {
        let (store, now) = (&self.deployments.store, self.deployments.clock.now());
        let cluster = self.health.cluster();
        let waiting = match store.waiting_for_cluster(cluster).await {
            Ok(waiting) => waiting,
            Err(error) => {
                tracing::warn!(%cluster, %error, "deployments that wait for the cluster not read");
                return;
            }
        };
        let ids: BTreeSet<DeployId> = waiting.iter().map(|one| one.id.clone()).collect();
        let open: BTreeSet<DeployId> =
            followed.view.open().map(|expected| expected.deploy_id.clone()).collect();
        followed.unread.retain(|id, _| ids.contains(id));
        for deployment in waiting.iter().filter(|deployment| !open.contains(&deployment.id)) {
            let unread = followed.unread.get(&deployment.id);
            if unread.is_none_or(|unread| unread.next <= now) {
                followed.read_later(deployment.clone());
            }
        }
        followed.view.keep_open(&ids, now);
        followed.held.retain(&ids);
        self.look_for_commits(followed, &waiting).await;
        self.look_up_commits(followed, &waiting);
    }

    /// Looks up the commits that Argo CD names and that nobody here has pushed, beside the events.
    fn look_up_commits(&self, followed: &mut Followed, waiting: &[PushedDeployment]) {
        let now = self.deployments.clock.now();
        for (id, commit) in followed.view.unknown_commits() {
            let Some(deployment) = waiting.iter().find(|one| one.id == id) else { continue };
            if followed.lookups.len() >= MAX_READS {
                return;
            }
            let Some(commit) = followed.held.begin(&id, &commit, now) else { continue };
            let (deployments, deployment) = (self.deployments.clone(), deployment.clone());
            let lookup = async move {
                let is_held = deployments.commit_holds(&deployment, &commit).await;
                (id, commit, is_held)
            };
            followed.lookups.push(lookup.boxed());
        }
    }

    /// Tells the view which commits hold a revision by now: Argo CD names the newest.
    async fn look_for_commits(&self, followed: &mut Followed, waiting: &[PushedDeployment]) {
        let Some(since) = waiting.iter().map(|deployment| deployment.pushed_at).min() else {
            return;
        };
        let cluster = self.health.cluster();
        let Ok(newest) = self.deployments.newest_push(cluster).await else { return };
        if newest.is_none() || newest == followed.newest_push {
            return;
        }
        let Ok(pushes) = self.deployments.commits_since(cluster, since).await else { return };
        let open: Vec<ExpectedRevision> = followed.view.open().cloned().collect();
        for expected in open {
            let is_it = |deployment: &&PushedDeployment| deployment.id == expected.deploy_id;
            let Some(deployment) = waiting.iter().find(is_it) else { continue };
            let mut commits = commits_with(deployment, &pushes);
            commits.extend(followed.held.commits_of(&deployment.id));
            let now = self.deployments.clock.now();
            followed.view.expect(ExpectedRevision { commits, ..expected }, now);
        }
        followed.newest_push = newest;
    }

    /// Begins to read manifests, beside the events.
    fn begin_reads(&self, followed: &mut Followed) {
        while followed.reads.len() < MAX_READS
            && let Some(deployment) = followed.queue.pop_front()
        {
            let deployments = self.deployments.clone();
            let read = async move {
                let expected = deployments.expected_revision(&deployment).await;
                (deployment, expected)
            };
            followed.reads.push(read.boxed());
        }
    }

    /// Follows a deployment whose manifests were read. One whose place another revision has taken, and that no push
    /// has ended, ends here.
    async fn take_read(
        &self,
        followed: &mut Followed,
        (deployment, read): ManifestRead,
    ) -> Result<(), FollowEnd> {
        let now = self.deployments.clock.now();
        let is_waiting = matches!(deployment.state, State::Syncing | State::Progressing);
        followed.queued.remove(&deployment.id);
        let is_replaced = match read {
            Ok(Some(expected)) => {
                followed.unread.remove(&deployment.id);
                if is_waiting {
                    // It knows its own commit alone.
                    followed.newest_push = None;
                }
                followed.view.expect(expected, now);
                if deployment.is_announced {
                    let is_syncing = deployment.state == State::Syncing;
                    followed.view.mark_announced(&deployment.id, is_syncing);
                }
                return Ok(());
            }
            Ok(None) => true,
            Err(error) => {
                if !followed.unread.contains_key(&deployment.id) {
                    let (deployment, reason) = (&deployment.id, error.message);
                    tracing::warn!(%deployment, reason, "manifests not read, retry follows");
                }
                false
            }
        };
        if !is_waiting {
            return Ok(());
        }
        let next = saturating_add(now, READ_AGAIN);
        let unread = followed.unread.entry(deployment.id.clone());
        let unread = unread.or_insert(UnreadDeployment { replaced_since: None, next });
        unread.next = next;
        if !is_replaced {
            return Ok(());
        }
        let since = *unread.replaced_since.get_or_insert(now);
        if now >= saturating_add(since, REPLACED_PATIENCE) {
            let sentence = "another revision is live in the manifest repository";
            let status = ForgeStatus::new(ForgeState::Inactive, sentence);
            let change = ClusterChange::end(deployment.id, State::Superseded, status);
            let findings = ClusterFindings { changes: &[change], ..ClusterFindings::default() };
            self.store_findings(&followed.lease, findings).await?;
        }
        Ok(())
    }

    /// Stores the news, with the messages about it.
    async fn record(&self, followed: &mut Followed) -> Result<(), FollowEnd> {
        let clock = &self.deployments.clock;
        let news = followed.view.take_news(&self.health, clock.now());
        if news.is_empty() {
            return Ok(());
        }
        let mut logs = self.read_logs(&news).await;
        let records: Vec<WorkloadRecord> = news.records.iter().map(to_stored).collect();
        let change =
            |one: &DeploymentNews| change_of(one, logs.remove(&one.deploy_id).unwrap_or_default());
        let changes: Vec<ClusterChange> = news.deployments.iter().map(change).collect();
        let rules = self.settings.previews.as_ref();
        let (environments, refusals) = environment_changes(self.health.cluster(), &news, rules);
        let findings = ClusterFindings {
            workloads: &records,
            changes: &changes,
            undos: &self.plan_undos(&changes).await,
            marks: &news.marks,
            environments: &environments,
        };
        self.store_findings(&followed.lease, findings).await?;
        followed.refusals.log(self.health.cluster(), &refusals, clock.now());
        for news in &news.deployments {
            log_news(news);
        }
        Ok(())
    }

    /// Stores records, changes and marks, again and again while the database does not answer and the lease lasts.
    async fn store_findings(
        &self,
        lease: &ClusterLease,
        findings: ClusterFindings<'_>,
    ) -> Result<(), FollowEnd> {
        let (store, clock) = (&self.deployments.store, &self.deployments.clock);
        loop {
            let now = clock.now();
            match store.record_cluster_progress(lease, findings, now).await {
                Ok(LeaseState::Lost) => return Err(FollowEnd::LeaseLost),
                Ok(LeaseState::Held) => break,
                // The next watch draws another id.
                Err(error @ StoreError::IdTaken(_)) => return Err(FollowEnd::Store(error)),
                Err(error) => {
                    let cluster = self.health.cluster();
                    tracing::error!(%cluster, %error, "progress not recorded, retry follows");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        let ClusterFindings { changes, undos, environments, .. } = findings;
        if undos.iter().any(|(_, undo)| matches!(undo, FailureUndo::Rollback(_))) {
            self.deployments.wake.notify_all();
        } else if !environments.is_empty() || changes.iter().any(|change| change.status.is_some()) {
            self.deployments.wake.outbox();
        }
        Ok(())
    }
}

impl Followed {
    /// Queues the reading of a deployment's manifests.
    fn read_later(&mut self, deployment: PushedDeployment) {
        if self.queued.insert(deployment.id.clone()) {
            self.queue.push_back(deployment);
        }
    }

    /// Takes the result of a look-up. One that failed is tried again.
    fn take_lookup(&mut self, (id, commit, result): CommitLookup, now: Timestamp) {
        let is_held = result.unwrap_or_else(|error| {
            tracing::warn!(deployment = %id, %commit, reason = error.message, "commit not read, retry follows");
            None
        });
        if !self.held.end(&id, &commit, is_held, now) {
            return;
        }
        let expected = self.view.open().find(|expected| expected.deploy_id == id).cloned();
        if let Some(mut expected) = expected {
            expected.commits.push(commit.to_string());
            self.view.expect(expected, now);
        }
    }

    /// Applies the events, and answers questions by what is there then.
    fn apply(&mut self, arrivals: Arrivals, health: &ClusterHealth, now: Timestamp) {
        for event in arrivals.events {
            self.view.apply(event, health, now);
        }
        for (AppInstance { app, .. }, answer) in arrivals.questions {
            let snapshot =
                self.view.app_snapshot(app.namespace.as_str(), app.slug.as_str(), health);
            let _gone = answer.send(snapshot);
        }
    }
}
