//! Follows the deployments to one cluster after the push: one process watches it, by a lease, and records
//! what it sees until each deployment has its end.
//!
//! What was seen and what is told about it are one transaction, fenced by the lease. Whoever lost the lease, or could
//! not record, drops all that it knows, and begins anew from the records.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::cluster::connection::client::ClusterConnection;
use crate::cluster::expected::ExpectedRevision;
use crate::cluster::failure::FailureCause;
use crate::cluster::logs;
use crate::cluster::record::ProgressRecord;
use crate::cluster::summary::DeploymentState;
use crate::cluster::tracker::ProgressPatience;
use crate::cluster::view::{ClusterNews, ClusterView, DeploymentNews};
use crate::cluster::watch::event::ClusterEvent;
use crate::cluster::watch::health::ClusterHealth;
use crate::cluster::watch::metrics::WatchMetrics;
use crate::cluster::watch::reflector::ClusterWatch;
use crate::cluster::watch::schedule::WatchLimits;
use crate::deployments::Deployments;
use crate::deployments::expected::commits_with;
use crate::model::deployment::{ForgeState, State};
use crate::model::id::DeployId;
use crate::model::status::{ForgeStatus, one_line};
use crate::store::{
    ClusterChange, ClusterLease, LeaseState, PushedDeployment, StoreError, WorkloadRecord,
};

/// The length of the lease on a cluster: when the process that watches it dies, another one does after so long.
const LEASE: Duration = Duration::from_secs(15);
/// The interval at which pushes are looked for, and everything is judged by the time that has passed.
const TICK: Duration = Duration::from_secs(1);
/// The time for which other events are waited for before they are recorded together.
const GATHERED: Duration = Duration::from_millis(20);
/// The most events that are recorded together.
const MOST_EVENTS: usize = 1000;
/// The pause after an error, and between attempts to take a lease that another process has.
const PAUSE: Duration = Duration::from_secs(2);
/// The number of logs that are read at the same time.
const MOST_LOGS: usize = 8;
/// The time for all logs of one recording: news is told without them rather than late.
const LOGS_DEADLINE: Duration = Duration::from_secs(5);
/// The number of lines of a log that are kept.
const LOG_LINES: usize = 20;
/// The interval at which deployments of clusters that are no longer watched are ended. A new replica, which watches
/// them, has had time to take their lease.
const UNWATCHED_INTERVAL: Duration = Duration::from_mins(1);
/// The longest summary, in characters.
const LONGEST_SUMMARY: usize = 2000;

/// The watch of one cluster, and what it needs.
#[derive(Clone)]
pub struct ClusterFollower {
    /// The use cases.
    pub deployments: Deployments,
    /// The way to the cluster.
    pub connection: Arc<ClusterConnection>,
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
    /// True if workloads of others with the service's annotations are watched.
    pub previews: bool,
    /// How often and how much the API server is asked.
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

/// What is known while the lease lasts.
struct Followed {
    view: ClusterView,
    lease: ClusterLease,
    /// Deployments whose manifests could not be read yet.
    unread: BTreeSet<DeployId>,
    /// The newest push to the manifest repository that the view knows of.
    newest_push: Option<(Timestamp, String)>,
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
        let keeping = self.keep_lease(&lease);
        let end = tokio::select! {
            biased;
            () = stop.cancelled() => FollowEnd::Stopped,
            () = keeping => FollowEnd::LeaseLost,
            end = self.watch(lease.clone(), &watching).boxed() => end,
        };
        drop(guard);
        self.health.reset();
        if !matches!(end, FollowEnd::LeaseLost) {
            let ending = self.deployments.store.end_cluster_lease(&lease);
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
            let asked = tokio::time::Instant::now();
            let extending = store.extend_cluster_lease(lease, clock.now(), LEASE);
            match tokio::time::timeout(LEASE / 4, extending).await {
                Ok(Ok(LeaseState::Held)) => extended = asked,
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
        let (store, clock) = (&self.deployments.store, &self.deployments.clock);
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
        let mut followed = Followed { view, lease, unread: BTreeSet::new(), newest_push: None };
        for deployment in store.newest_in_cluster(&cluster).await? {
            self.expect(&mut followed, &deployment, clock.now()).await;
        }
        self.look_for_pushes(&mut followed).await?;
        Ok(followed)
    }

    async fn follow_events(
        &self,
        followed: &mut Followed,
        stop: &CancellationToken,
    ) -> Result<(), FollowEnd> {
        let clock = &self.deployments.clock;
        let watch = ClusterWatch {
            connection: Arc::clone(&self.connection),
            previews: self.settings.previews,
            limits: self.settings.limits,
            health: self.health.clone(),
            metrics: self.metrics.of_cluster(self.health.cluster()),
            clock: clock.clone(),
        };
        let (begun, mut events) = (clock.now(), watch.start(stop));
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                gathered = gather(&mut events) => {
                    let ControlFlow::Continue(gathered) = gathered else { return Ok(()) };
                    let now = clock.now();
                    for event in gathered {
                        followed.view.apply(event, &self.health, now);
                    }
                }
                _ = ticks.tick() => {
                    self.look_for_pushes(followed).await?;
                    self.metrics.observe(&self.health, begun, clock.now());
                    followed.view.tick(clock.now());
                }
            }
            self.record(followed).await?;
        }
    }

    /// Follows deployments that were pushed since, and no longer those that a push or a person ended.
    async fn look_for_pushes(&self, followed: &mut Followed) -> Result<(), FollowEnd> {
        let (store, clock) = (&self.deployments.store, &self.deployments.clock);
        let waiting = store.waiting_for_cluster(self.health.cluster()).await?;
        let ids: BTreeSet<DeployId> = waiting.iter().map(|one| one.id.clone()).collect();
        let known: BTreeSet<DeployId> =
            followed.view.open().map(|expected| expected.deploy_id.clone()).collect();
        followed.unread.retain(|id| ids.contains(id));
        for deployment in waiting.iter().filter(|deployment| !known.contains(&deployment.id)) {
            self.expect(followed, deployment, clock.now()).await;
        }
        followed.view.keep_open(&ids, clock.now());
        self.look_for_commits(followed, &waiting).await;
        Ok(())
    }

    /// Tells the view which commits hold a revision by now: Argo CD names the newest.
    async fn look_for_commits(&self, followed: &mut Followed, waiting: &[PushedDeployment]) {
        let Some(since) = waiting.iter().map(|deployment| deployment.pushed_at).min() else {
            return;
        };
        let cluster = self.health.cluster();
        let Ok(pushes) = self.deployments.commits_since(cluster, since).await else { return };
        let newest = pushes.first().cloned();
        if newest == followed.newest_push {
            return;
        }
        let open: Vec<ExpectedRevision> = followed.view.open().cloned().collect();
        for expected in open {
            let is_it = |deployment: &&PushedDeployment| deployment.id == expected.deploy_id;
            let Some(deployment) = waiting.iter().find(is_it) else { continue };
            let commits = commits_with(deployment, &pushes);
            let now = self.deployments.clock.now();
            followed.view.expect(ExpectedRevision { commits, ..expected }, now);
        }
        followed.newest_push = newest;
    }

    async fn expect(&self, followed: &mut Followed, deployment: &PushedDeployment, now: Timestamp) {
        match self.deployments.expected_revision(deployment).await {
            Ok(Some(expected)) => {
                followed.unread.remove(&deployment.id);
                followed.view.expect(expected, now);
                if deployment.is_announced {
                    let is_syncing = deployment.state == State::Syncing;
                    followed.view.mark_announced(&deployment.id, is_syncing);
                }
            }
            // A newer push is about to end it.
            Ok(None) => {}
            Err(problem) => {
                if followed.unread.insert(deployment.id.clone()) {
                    let (deployment, reason) = (&deployment.id, problem.message);
                    tracing::warn!(%deployment, reason, "its manifests cannot be read, tried again");
                }
            }
        }
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
        let now = clock.now();
        let store = &self.deployments.store;
        let recorded = store.record_cluster_progress(&followed.lease, &records, &changes, now);
        match recorded.await? {
            LeaseState::Lost => return Err(FollowEnd::LeaseLost),
            LeaseState::Held => {}
        }
        for news in &news.deployments {
            log_news(news);
        }
        if changes.iter().any(|change| change.status.is_some()) {
            self.deployments.wake.outbox();
        }
        Ok(())
    }

    /// Reads the ends of the logs that say more about new causes. A log that does not come in time is left out.
    async fn read_logs(&self, news: &ClusterNews) -> BTreeMap<DeployId, Vec<String>> {
        let mut logs = BTreeMap::new();
        let room = Semaphore::new(MOST_LOGS);
        let mut reading = futures::stream::FuturesUnordered::new();
        for news in &news.deployments {
            if let Some((workload, cause)) = &news.failure
                && cause.has_log()
            {
                let (tail, room) = (self.read_log(&workload.namespace, cause), &room);
                reading.push(async move {
                    let _place = room.acquire().await;
                    (news.deploy_id.clone(), tail.await)
                });
            }
        }
        let reading = async {
            while let Some((id, lines)) = reading.next().await {
                logs.insert(id, lines);
            }
        };
        let _in_time = tokio::time::timeout(LOGS_DEADLINE, reading).await;
        logs
    }

    /// Reads the end of a container's log, or of the run before where the present one has said nothing yet.
    async fn read_log(&self, namespace: &str, cause: &FailureCause) -> Vec<String> {
        let Some(pod) = &cause.pod else { return Vec::new() };
        for previous in [false, true] {
            let container = cause.container.as_deref();
            let tail =
                logs::tail(&self.connection, namespace, pod, container, previous, LOG_LINES).await;
            match tail {
                Ok(tail) if !tail.lines().is_empty() => return tail.lines().to_vec(),
                Ok(_) => {}
                Err(error) => {
                    let cluster = self.health.cluster();
                    tracing::debug!(%cluster, pod, previous, %error, "log not read");
                }
            }
        }
        Vec::new()
    }
}

/// Ends deployments of clusters that are no longer watched, now and again until `stop`.
pub async fn keep_unwatched_ended(deployments: Deployments, stop: CancellationToken) {
    loop {
        if let Err(error) = end_unwatched(&deployments).await {
            tracing::warn!(%error, "deployments of clusters that are no longer watched have no end yet");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(UNWATCHED_INTERVAL) => {}
        }
    }
}

/// Ends deployments of clusters that are no longer watched; returns their number.
pub async fn end_unwatched(deployments: &Deployments) -> Result<usize, StoreError> {
    let (watched, now) = (deployments.watches.keys().collect::<Vec<_>>(), deployments.clock.now());
    let interval = SignedDuration::try_from(UNWATCHED_INTERVAL).unwrap_or(SignedDuration::ZERO);
    let before = now.saturating_sub(interval).unwrap_or(now);
    let count = deployments.store.end_unwatched(&watched, before, now).await?;
    if count > 0 {
        tracing::warn!(
            count,
            "deployments ended at their push, because their cluster is not watched"
        );
        deployments.wake.outbox();
    }
    Ok(count)
}

/// Waits for an event, and takes those that follow it at once.
async fn gather(events: &mut mpsc::Receiver<ClusterEvent>) -> ControlFlow<(), Vec<ClusterEvent>> {
    let Some(first) = events.recv().await else { return ControlFlow::Break(()) };
    let mut gathered = vec![first];
    let until = tokio::time::Instant::now() + GATHERED;
    while gathered.len() < MOST_EVENTS
        && let Ok(Some(event)) = tokio::time::timeout_at(until, events.recv()).await
    {
        gathered.push(event);
    }
    ControlFlow::Continue(gathered)
}

fn to_stored(record: &ProgressRecord) -> WorkloadRecord {
    let key = &record.key;
    WorkloadRecord {
        workload: format!("{}/{}/{}", key.workload.kind, key.workload.namespace, key.workload.name),
        uid: key.uid.to_string(),
        sequence: key.sequence,
        deployment: key.deploy_id.clone(),
        record: serde_json::to_string(record).expect("records have string keys alone"),
    }
}

/// Decides what is stored and told of a change.
fn change_of(news: &DeploymentNews, log_tail: Vec<String>) -> ClusterChange {
    let progress = &news.progress;
    let (state, forge) = match &progress.state {
        DeploymentState::Syncing => (State::Syncing, ForgeState::InProgress),
        DeploymentState::Progressing => (State::Progressing, ForgeState::InProgress),
        DeploymentState::Finished { .. } => (State::Succeeded, ForgeState::Success),
        DeploymentState::Failed { .. } => (State::Failed, ForgeState::Failure),
        DeploymentState::Superseded => (State::Superseded, ForgeState::Inactive),
    };
    let sentence = &progress.sentence;
    ClusterChange {
        deployment: news.deploy_id.clone(),
        state,
        summary: one_line(sentence, LONGEST_SUMMARY),
        waiting: progress.waiting.clone(),
        log_tail,
        status: news.is_announced.then(|| ForgeStatus::new(forge, sentence)),
    }
}

fn log_news(news: &DeploymentNews) {
    let (deployment, sentence) = (&news.deploy_id, &news.progress.sentence);
    match &news.progress.state {
        DeploymentState::Finished { .. } => {
            tracing::info!(%deployment, summary = sentence, "deployment runs in the cluster");
        }
        DeploymentState::Failed { .. } => {
            tracing::warn!(%deployment, summary = sentence, "deployment failed in the cluster");
        }
        DeploymentState::Superseded => {
            tracing::info!(%deployment, "deployment superseded in the cluster");
        }
        DeploymentState::Syncing | DeploymentState::Progressing => {
            tracing::debug!(%deployment, summary = sentence, "deployment progresses in the cluster");
        }
    }
}
