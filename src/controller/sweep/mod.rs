//! Recovery of missed events: sweeps find failed deliveries and unanswered deployments, and take them in as if
//! their event had arrived.
//!
//! ```text
//! deliveries   the App's failed deliveries ─▶ webhook::parse ──┐
//! deployments  a repository's newest deployments ─▶ listed ────┴▶ taken in, as by a webhook
//! ```
//!
//! A run is short: it goes on where the last one stopped, spends a small part of the host's hourly limit, and
//! stops at a bound of its own. Of several processes one sweeps at a time. The store deduplicates what is found
//! as always, so a sweep may be wrong about what was lost.

mod decide; // which events are recovered, pure
mod deliveries; // failed deliveries
mod deployments; // deployments without an answer

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tokio_util::sync::CancellationToken;

use crate::controller::sweep::decide::DeploymentStanding;
use crate::deployments::Deployments;
use crate::deployments::accept::Acceptance;
use crate::deployments::outcome::{DeployError, Remedy};
use crate::forge::DeploymentStatus;
use crate::forge::github::webhook::rules::Rules;
use crate::model::deployment::ForgeState;
use crate::model::event::{EventRefusal, WebhookEvent};
use crate::model::id::{DeliveryId, RepoName};
use crate::model::words::words;
use crate::store::{LeaseState, LongestRests, NextSweep, Store, StoreError, Sweeping};
use crate::support::clock::Clock;
use crate::support::retry::LONGEST_RETRY_AFTER;
use crate::support::sync::lock;
use crate::support::telemetry::export_zeros;
use crate::support::time::saturating_add;

/// The kind of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SweepKind {
    /// Deliveries that failed by the code host's account. Only an App can list them.
    Deliveries,
    /// Deployments without an answer.
    Deployments,
}

impl SweepKind {
    /// Returns the word that is stored, counted and logged.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deliveries => "deliveries",
            Self::Deployments => "deployments",
        }
    }
}

/// The settings of sweeps.
#[derive(Debug, Clone)]
pub struct SweepSettings {
    /// The name of this process.
    pub name: String,
    /// The kinds of sweeps to run.
    pub kinds: Vec<SweepKind>,
    /// The interval between two runs.
    pub every: Duration,
    /// The rules for which events this service uses.
    pub rules: Rules,
    /// The public address of this service; its statuses link to pages under it.
    pub our_address: String,
}

words! {
    /// The outcome of a run, by the word that the metric counts.
    pub enum SweepOutcome {
        /// The run did its work.
        Done = "done",
        /// The code host asked to wait; the next run goes on.
        Limited = "limited",
        /// The code host did not answer; the next run goes on.
        Unreachable = "unreachable",
        /// The code host does not allow the requests.
        Refused = "refused",
    }
}

/// The report of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepReport {
    /// The outcome.
    pub outcome: SweepOutcome,
    /// The number of lost deployments that were taken in.
    pub healed: u64,
    /// The number of deployments that got a status with the reason why they cannot be used.
    pub refused: u64,
    /// The number of deliveries or repositories left for the next run.
    pub waiting: usize,
}

/// The metrics of the sweeps. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct SweepMetrics {
    runs: Family<RunLabels, Counter>,
    healed: Family<SweepLabel, Counter>,
    refused: Family<SweepLabel, Counter>,
    last: Family<SweepLabel, Gauge>,
    waiting: Family<SweepLabel, Gauge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunLabels {
    sweep: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SweepLabel {
    sweep: &'static str,
}

impl RunLabels {
    fn of(kind: SweepKind, outcome: SweepOutcome) -> Self {
        Self { sweep: kind.as_str(), outcome: outcome.as_str() }
    }
}

impl SweepLabel {
    fn of(kind: SweepKind) -> Self {
        Self { sweep: kind.as_str() }
    }
}

impl SweepMetrics {
    /// Creates the metrics of these sweeps and registers them.
    pub fn new(registry: &mut Registry, kinds: &[SweepKind]) -> Self {
        let new = Self::default();
        let Self { runs, healed, refused, last, waiting } = new.clone();
        for &kind in kinds {
            export_zeros(&runs, SweepOutcome::ALL.map(|outcome| RunLabels::of(kind, outcome)));
            export_zeros(&healed, [SweepLabel::of(kind)]);
            export_zeros(&refused, [SweepLabel::of(kind)]);
        }
        registry.register("sweep_runs", "Runs of the search for missed events, by outcome", runs);
        registry.register("sweep_healed", "Missed deployments that were recovered", healed);
        let help = "Deployments that got a status with the reason why they cannot be used";
        registry.register("sweep_refused", help, refused);
        let help = "Time of the last search for missed events";
        registry.register_with_unit("sweep_last_timestamp", help, Unit::Seconds, last);
        let help = "Deliveries or repositories left for the next run";
        registry.register("sweep_waiting", help, waiting);
        new
    }

    fn count(&self, kind: SweepKind, is_round: bool, report: SweepReport, at: Timestamp) {
        let SweepReport { outcome, healed, refused, waiting } = report;
        let label = || SweepLabel::of(kind);
        self.runs.get_or_create(&RunLabels::of(kind, outcome)).inc();
        self.healed.get_or_create(&label()).inc_by(healed);
        self.refused.get_or_create(&label()).inc_by(refused);
        if is_round {
            self.last.get_or_create(&label()).set(at.as_second());
            self.waiting.get_or_create(&label()).set(i64::try_from(waiting).unwrap_or(i64::MAX));
        }
    }
}

/// The time after which a run begins nothing new; with the bound of one call it ends well within
/// its lease.
const LONGEST_RUN_MICROS: u64 = 3 * 60 * 1_000_000;
const LEASE: Duration = Duration::from_mins(10);
/// The interval at which the loop checks whether a run is due.
const POLL: Duration = Duration::from_secs(30);
/// The delay before a hint is followed: GitHub's API is seconds behind its events at most, as a
/// rule.
const HINT_DELAY: Duration = Duration::from_secs(5);
/// The least time between two runs for hints, so that a flood of unusable events costs little.
const HINT_PAUSE: Duration = Duration::from_mins(1);
/// The most refusals of one run: GitHub takes 80 writes a minute from the whole service.
const MAX_REFUSED: u64 = 20;
/// The most repositories that are remembered as logged.
const MAX_TROUBLED: usize = 1000;

/// All sweeps of this process.
pub struct Sweeps {
    store: Store,
    clock: Clock,
    deployments: Deployments,
    settings: SweepSettings,
    metrics: SweepMetrics,
    /// The repositories that the code host lists, and the time of that list.
    installed: Mutex<Option<(Timestamp, Vec<RepoName>)>>,
    /// The repositories that could not be swept; each is logged once.
    troubled: Mutex<BTreeSet<RepoName>>,
}

/// The part of its work that a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// The next part of the round.
    Round,
    /// Only the repositories of hints.
    Hints,
}

/// The progress of a run.
struct Progress {
    position: Option<String>,
    healed: u64,
    refused: u64,
    waiting: usize,
    stopped: Option<DeployError>,
}

impl Sweeps {
    /// Creates sweeps that take missed events in; nothing runs before [`Sweeps::run`].
    pub fn new(deployments: Deployments, settings: SweepSettings, metrics: SweepMetrics) -> Self {
        let (store, clock) = (deployments.store.clone(), deployments.clock.clone());
        let (installed, troubled) = (Mutex::default(), Mutex::default());
        Self { store, clock, deployments, settings, metrics, installed, troubled }
    }

    /// Sweeps at the start and whenever a run is due, until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let mut is_requested = true;
        while !stop.is_cancelled() {
            self.bring_down_times().await;
            for kind in &self.settings.kinds {
                self.turn(*kind, Scope::Round, is_requested, &stop).await;
            }
            is_requested = false;
            let poll = tokio::time::sleep(POLL.min(self.settings.every));
            tokio::select! {
                () = stop.cancelled() => return,
                () = poll => {}
                () = self.deployments.hints.wait() => self.follow_hints_soon(&stop).await,
            }
        }
    }

    /// Returns the kinds of sweeps.
    pub fn kinds(&self) -> &[SweepKind] {
        &self.settings.kinds
    }

    /// Sweeps once, now, due or not; `None` where another process sweeps or the code host asked to
    /// wait.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn sweep_now(&self, kind: SweepKind) -> Result<Option<SweepReport>, StoreError> {
        self.sweep(kind, Scope::Round, true, &CancellationToken::new()).await
    }

    /// Sweeps the repositories of the hints, now.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn follow_hints(&self) -> Result<Option<SweepReport>, StoreError> {
        let stop = CancellationToken::new();
        self.sweep(SweepKind::Deployments, Scope::Hints, true, &stop).await
    }
}

impl Sweeps {
    async fn follow_hints_soon(&self, stop: &CancellationToken) {
        let pause = async |time| {
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(time) => {}
            }
        };
        pause(HINT_DELAY).await;
        if self.settings.kinds.contains(&SweepKind::Deployments) && !stop.is_cancelled() {
            self.turn(SweepKind::Deployments, Scope::Hints, true, stop).await;
        }
        pause(HINT_PAUSE).await;
    }

    async fn bring_down_times(&self) {
        let every = self.settings.every;
        let longest = LongestRests { lease: LEASE, wait: LONGEST_RETRY_AFTER, every };
        if let Err(error) = self.store.bring_down_sweeps(longest, self.clock.now()).await {
            tracing::warn!(%error, "sweep times that lie too far ahead could not be corrected");
        }
    }

    async fn turn(
        &self,
        kind: SweepKind,
        scope: Scope,
        is_requested: bool,
        stop: &CancellationToken,
    ) {
        if let Err(error) = self.sweep(kind, scope, is_requested, stop).await {
            tracing::error!(sweep = kind.as_str(), %error, "sweep failed");
        }
    }

    async fn sweep(
        &self,
        kind: SweepKind,
        scope: Scope,
        is_requested: bool,
        stop: &CancellationToken,
    ) -> Result<Option<SweepReport>, StoreError> {
        let (name, now) = (kind.as_str(), self.clock.now());
        let run =
            self.store.begin_sweep(name, &self.settings.name, now, LEASE, is_requested).await?;
        let Some(run) = run else { return Ok(None) };
        let result = match kind {
            SweepKind::Deliveries => self.deliveries(&run, stop).await,
            SweepKind::Deployments => self.deployments(&run, scope, stop).await,
        };
        // A database that failed in the middle may take the end: then another run need not wait.
        let progress = match result {
            Ok(progress) => progress,
            Err(error) => {
                let unfinished = Progress::new(&run);
                let _held = self.end(&run, scope, &unfinished).await?;
                return Err(error);
            }
        };
        if self.end(&run, scope, &progress).await? == LeaseState::Lost {
            tracing::warn!(sweep = name, "another process took over this sweep");
        }
        let report = progress.report();
        self.log(kind, &progress, report);
        self.metrics.count(kind, scope == Scope::Round, report, self.clock.now());
        Ok(Some(report))
    }

    async fn end(
        &self,
        run: &Sweeping,
        scope: Scope,
        progress: &Progress,
    ) -> Result<LeaseState, StoreError> {
        let now = self.clock.now();
        let not_before = match progress.stopped.as_ref().map(|problem| problem.remedy) {
            Some(Remedy::Retry { after: Some(wait) }) => {
                Some(saturating_add(now, wait.min(LONGEST_RETRY_AFTER)))
            }
            _ => None,
        };
        let due_at = match scope {
            Scope::Round => saturating_add(now, self.settings.every),
            Scope::Hints => run.due_at,
        };
        let next = NextSweep { position: progress.position.clone(), due_at, not_before };
        self.store.end_sweep(run, &next).await
    }

    fn log(&self, kind: SweepKind, progress: &Progress, report: SweepReport) {
        let SweepReport { healed, refused, waiting, .. } = report;
        let (sweep, every) = (kind.as_str(), self.settings.every.as_secs());
        if healed > 0 {
            tracing::warn!(sweep, healed, "missed events recovered");
        }
        if let Some(DeployError { message, .. }) = &progress.stopped {
            let outcome = report.outcome.as_str();
            tracing::warn!(
                sweep,
                outcome,
                reason = message,
                every,
                "sweep interrupted, continues later"
            );
        }
        tracing::debug!(sweep, healed, refused, waiting, "swept");
    }
}

impl Progress {
    fn new(run: &Sweeping) -> Self {
        let position = run.position.clone();
        Self { position, healed: 0, refused: 0, waiting: 0, stopped: None }
    }

    fn stopped(self, problem: DeployError) -> Self {
        Self { stopped: Some(problem), ..self }
    }

    fn report(&self) -> SweepReport {
        let outcome = match self.stopped.as_ref().map(|problem| problem.remedy) {
            None => SweepOutcome::Done,
            Some(Remedy::Retry { after: Some(_) }) => SweepOutcome::Limited,
            Some(Remedy::Retry { after: None }) => SweepOutcome::Unreachable,
            Some(_) => SweepOutcome::Refused,
        };
        let Self { healed, refused, waiting, .. } = *self;
        SweepReport { outcome, healed, refused, waiting }
    }
}

/// The result of taking an event in.
enum IngestResult {
    /// The event needs no second look; the word is the reason.
    Settled(&'static str),
    /// The code host cannot be asked now.
    Deferred(DeployError),
}

impl Sweeps {
    /// Takes an event in as a webhook would, unless it has been answered meanwhile.
    async fn ingest(
        &self,
        delivery: &DeliveryId,
        event: &WebhookEvent,
        progress: &mut Progress,
    ) -> Result<IngestResult, StoreError> {
        match event {
            WebhookEvent::Deployment(request) => {
                let repository = &request.release.repository;
                match self.still_open(repository, request.forge_id).await {
                    Ok(()) => self.receive(delivery, event, progress).await,
                    Err(result) => Ok(result),
                }
            }
            WebhookEvent::Rollout(trigger) => {
                match self.still_open(&trigger.release.repository, trigger.forge_id).await {
                    Ok(()) => self.receive(delivery, event, progress).await,
                    Err(result) => Ok(result),
                }
            }
            WebhookEvent::Refused(refusal) => Ok(self.refuse(refusal, progress).await),
            WebhookEvent::Push(push) => {
                self.deployments.notice_push(push);
                self.receive(delivery, event, progress).await
            }
            // A stored pull request is recognized by the code host's own time.
            WebhookEvent::PullRequest(_) => self.receive(delivery, event, progress).await,
            // The person who pressed the button sees that nothing follows.
            WebhookEvent::Ping | WebhookEvent::Rerun(_) | WebhookEvent::Ignored { .. } => {
                Ok(IngestResult::Settled("not_ours"))
            }
        }
    }

    async fn receive(
        &self,
        delivery: &DeliveryId,
        event: &WebhookEvent,
        progress: &mut Progress,
    ) -> Result<IngestResult, StoreError> {
        Ok(IngestResult::Settled(match self.deployments.receive(delivery, event).await? {
            Some(Acceptance::New(deployment)) => {
                progress.healed += 1;
                tracing::info!(%deployment, %delivery, "missed deployment recovered");
                "healed"
            }
            Some(Acceptance::Duplicate(_)) => "known",
            None => "handed_on",
        }))
    }

    async fn refuse(&self, refusal: &EventRefusal, progress: &mut Progress) -> IngestResult {
        let EventRefusal { repository, forge_id, field, problem } = refusal;
        if let Err(result) = self.still_open(repository, *forge_id).await {
            return result;
        }
        let status = DeploymentStatus {
            state: ForgeState::Error,
            description: format!("{field}: {problem}"),
            // There is no page about it; but by this link the next sweep knows that the service has answered.
            log_url: Some(self.deployments.external_url.clone()),
            environment_url: None,
        };
        match self.deployments.forge.report(repository, *forge_id, &status).await {
            Ok(()) => {
                progress.refused += 1;
                tracing::info!(%repository, forge_id, field, "missed deployment refused, its status says why");
                IngestResult::Settled("refused")
            }
            Err(error) => self.defer_or_settle(repository, error.into()),
        }
    }

    /// Succeeds if the deployment is still open; otherwise returns the result that ends its
    /// recovery.
    async fn still_open(&self, repository: &RepoName, forge_id: i64) -> Result<(), IngestResult> {
        match self.deployments.forge.statuses(repository, forge_id).await {
            Ok(statuses) => {
                match decide::deployment_standing(&statuses, &self.settings.our_address) {
                    DeploymentStanding::Open => Ok(()),
                    DeploymentStanding::Answered => Err(IngestResult::Settled("told")),
                    DeploymentStanding::Closed => Err(IngestResult::Settled("closed")),
                }
            }
            Err(error) => Err(self.defer_or_settle(repository, error.into())),
        }
    }

    fn defer_or_settle(&self, repository: &RepoName, problem: DeployError) -> IngestResult {
        if problem.remedy.may_pass() {
            return IngestResult::Deferred(problem);
        }
        self.log_problem(repository, &problem);
        IngestResult::Settled("not_for_us")
    }

    /// Logs the problem of a repository, once while it lasts.
    fn log_problem(&self, repository: &RepoName, problem: &DeployError) {
        let mut troubled = lock(&self.troubled);
        if troubled.len() < MAX_TROUBLED && troubled.insert(repository.clone()) {
            let reason = &problem.message;
            tracing::warn!(%repository, reason, "repository could not be swept");
        }
    }
}
