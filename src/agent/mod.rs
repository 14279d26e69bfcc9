//! THE CLUSTER AGENT: watches the cluster that it is in with the service's own watches, and reports to the service,
//! which cannot reach that cluster.
//!
//! ```text
//! cluster::watch ─▶ cluster::relay::sender ─▶ client ─▶ POST /api/v1/clusters/{name}/observations
//!                          ▲ accepted, or from the beginning ◀────────────┘
//! pod_logs ◀─ GET …/log-requests    and the lines ─▶ POST …/logs/{id}
//! ```
//!
//! Nothing is stored: an agent that starts anew lists its cluster and tells everything. While the service does not
//! answer, the present objects are all that is remembered.

mod client; // requests and answers
mod failure_logs; // the ends of logs of containers that fail
mod pod_logs; // logs that callers read

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

pub use crate::agent::client::{ReportClient, ReportTarget};
use crate::agent::client::{ReportOutcome, ServiceTrouble};
use crate::agent::failure_logs::FailureLogs;
use crate::cluster::connection::client::ClusterConnection;
use crate::cluster::relay::report::ReportedLog;
use crate::cluster::relay::sender::{ReportLimits, ReportSender};
use crate::cluster::watch::health::{ClusterHealth, KindSight};
use crate::cluster::watch::metrics::WatchMetrics;
use crate::cluster::watch::reflector::ClusterWatch;
use crate::cluster::watch::schedule::WatchLimits;
use crate::model::id::TargetName;
use crate::support::clock::{Clock, random_digits};
use crate::support::retry::backoff;

/// The most events that are taken between two looks at the time.
const MAX_EVENTS: usize = 1000;
/// The number of replicas that are asked in vain before that is logged.
const USUAL_MISDIRECTIONS: u32 = 8;
/// The interval of looks at pods that run and are not ready: after the time of their probes their logs are read.
const OVERDUE_INTERVAL: Duration = Duration::from_secs(1);
/// The time for a report at the end: a pod has half a minute.
const LAST_REPORT: Duration = Duration::from_secs(5);

/// The times of an agent.
#[derive(Debug, Clone, Copy)]
pub struct AgentTimes {
    /// The time for which further changes are waited for before they are reported together.
    pub gather: Duration,
    /// The shortest time from one report to the next, unless there is more than one has room for.
    pub gap: Duration,
    /// The time without changes after which a report says that the agent lives.
    pub heartbeat: Duration,
    /// The pause after a report that did not arrive; each is twice as long as the one before. It is a fifth of that
    /// where another replica of the service is to be asked.
    pub first_pause: Duration,
    /// No pause is longer.
    pub longest_pause: Duration,
    /// The same for a report that the service refuses: a person must change something.
    pub longest_refused_pause: Duration,
}

impl Default for AgentTimes {
    fn default() -> Self {
        Self {
            gather: Duration::from_millis(20),
            gap: Duration::from_millis(100),
            heartbeat: Duration::from_secs(10),
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(5),
            longest_refused_pause: Duration::from_secs(30),
        }
    }
}

/// The agent of one cluster.
pub struct ClusterAgent {
    /// The cluster's name, as the configuration of the service has it.
    pub cluster: TargetName,
    /// The connection to its API server.
    pub connection: ClusterConnection,
    /// True if workloads of others are watched, too.
    pub previews: bool,
    /// True if the ends of logs of containers that fail are reported, too.
    pub failure_logs: bool,
    /// True if callers of the service may read logs of the apps that it deployed.
    pub pod_logs: bool,
    /// How often and how much the API server is asked.
    pub limits: WatchLimits,
    /// How much a report has.
    pub report_limits: ReportLimits,
    /// When reports are sent.
    pub times: AgentTimes,
    /// The way to the service.
    pub client: ReportClient,
    /// The clock for times that are shown.
    pub clock: Clock,
}

/// The state of an agent that runs.
struct RunningAgent {
    sender: ReportSender,
    health: ClusterHealth,
    times: AgentTimes,
    client: ReportClient,
    /// The report on its way.
    sending: Option<BoxFuture<'static, ReportOutcome>>,
    /// No report is sent before.
    not_before: Instant,
    /// A report is sent at the latest.
    heartbeat_at: Instant,
    failures: u32,
    /// The trouble that was logged last.
    trouble: Option<String>,
    /// True once it was logged that there are too many objects.
    is_crowded: bool,
}

impl ClusterAgent {
    /// Watches and reports until `stop`.
    pub async fn run(self, stop: CancellationToken) {
        let Self { cluster, previews, limits, report_limits, times, client, clock, .. } = self;
        let connection = Arc::new(self.connection);
        if self.pod_logs {
            let (connection, client) = (Arc::clone(&connection), client.clone());
            tokio::spawn(pod_logs::serve_logs(connection, client, stop.clone()));
        }
        let mut logs = self.failure_logs.then(|| FailureLogs::new(Arc::clone(&connection)));
        let agent_clock = clock.clone();
        let health = ClusterHealth::new(cluster.clone());
        let watch = ClusterWatch {
            connection,
            previews,
            limits,
            health: health.clone(),
            metrics: WatchMetrics::default().of_cluster(&cluster),
            clock,
        };
        let mut events = watch.start(&stop);
        let now = Instant::now();
        let sender = ReportSender::new(random_digits(), report_limits);
        let mut overdue = tokio::time::interval(OVERDUE_INTERVAL);
        overdue.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut agent = RunningAgent {
            sender: if logs.is_some() { sender.with_logs() } else { sender },
            health,
            times,
            client,
            sending: None,
            not_before: now,
            heartbeat_at: now,
            failures: 0,
            trouble: None,
            is_crowded: false,
        };
        loop {
            let due = agent.send_if_due();
            tokio::select! {
                () = stop.cancelled() => break,
                event = events.recv() => {
                    let Some(event) = event else { break };
                    if !agent.sender.has_work() {
                        agent.not_before = agent.not_before.max(Instant::now() + times.gather);
                    }
                    agent.sender.apply(event, &agent.health);
                    let more = std::iter::from_fn(|| events.try_recv().ok());
                    for event in more.take(MAX_EVENTS) {
                        agent.sender.apply(event, &agent.health);
                    }
                    if let Some(logs) = &mut logs {
                        logs.read(agent.sender.failing_containers(false, agent_clock.now()));
                    }
                }
                _ = overdue.tick(), if logs.is_some() => {
                    if let Some(logs) = &mut logs {
                        logs.read(agent.sender.failing_containers(true, agent_clock.now()));
                    }
                }
                log = next_log(&mut logs) => agent.sender.add_log(log),
                outcome = wait_for(&mut agent.sending) => agent.take_outcome(outcome),
                () = tokio::time::sleep_until(due) => {}
            }
        }
        agent.say_goodbye().await;
    }
}

/// Waits for the answer to the report on its way; for ever if there is none.
async fn wait_for(sending: &mut Option<BoxFuture<'static, ReportOutcome>>) -> ReportOutcome {
    match sending {
        Some(report) => {
            let outcome = report.await;
            *sending = None;
            outcome
        }
        None => std::future::pending().await,
    }
}

/// Waits for the next log; for ever where none are read.
async fn next_log(logs: &mut Option<FailureLogs>) -> ReportedLog {
    match logs {
        Some(logs) => logs.next().await,
        None => std::future::pending().await,
    }
}

impl RunningAgent {
    /// Sends a report if one is due; returns the time of the next look.
    fn send_if_due(&mut self) -> Instant {
        let now = Instant::now();
        if self.sending.is_some() {
            return now + self.times.heartbeat;
        }
        let due = if self.sender.has_work() { self.not_before } else { self.heartbeat_at };
        if due.max(self.not_before) > now {
            return due.max(self.not_before);
        }
        self.sending = Some(self.client.send(self.sender.next_report(false)).boxed());
        self.not_before = now + self.times.gap;
        self.heartbeat_at = now + self.times.heartbeat;
        now + self.times.heartbeat
    }

    fn take_outcome(&mut self, outcome: ReportOutcome) {
        let is_misdirected = matches!(outcome, Err(ServiceTrouble::Misdirected(_)));
        let (longest, wanted, trouble) = match outcome {
            Ok(verdict) => {
                let before = self.sender.generation();
                self.sender.take_verdict(verdict);
                if self.sender.generation() == before {
                    self.recover();
                    return;
                }
                // At once the first time: the service was started anew.
                if self.failures == 0 {
                    self.failures = 1;
                    return;
                }
                let trouble = "the service does not know the session again and again".to_owned();
                (self.times.longest_pause, None, trouble)
            }
            // Other replicas are tried one after the other.
            Err(ServiceTrouble::Misdirected(trouble)) => {
                (self.times.longest_pause / 4, None, trouble)
            }
            Err(ServiceTrouble::Failed(trouble, after)) => {
                (self.times.longest_pause, after, trouble)
            }
            Err(ServiceTrouble::Refused(trouble)) => {
                (self.times.longest_refused_pause, None, trouble)
            }
        };
        let first = self.times.first_pause;
        let first = if is_misdirected { first / 5 } else { first };
        let pause = backoff(first, longest, self.failures);
        let pause =
            jitter(pause).max(wanted.unwrap_or_default().min(self.times.longest_refused_pause));
        self.not_before = Instant::now() + pause;
        // Heartbeats wait no longer than changes.
        self.heartbeat_at = self.not_before;
        self.failures = self.failures.saturating_add(1);
        let cluster = self.health.cluster();
        // Behind a load balancer that is as it should be.
        let is_usual = is_misdirected && self.failures <= USUAL_MISDIRECTIONS;
        if is_usual || self.trouble.as_ref() == Some(&trouble) {
            tracing::debug!(%cluster, reason = trouble, "report still not taken");
        } else {
            tracing::warn!(%cluster, reason = trouble, "report not taken, retry follows");
            self.trouble = Some(trouble);
        }
    }

    fn recover(&mut self) {
        self.failures = 0;
        if self.trouble.take().is_some() || self.sender.is_first() {
            let (cluster, objects) = (self.health.cluster(), self.sender.len());
            let kinds = self.health.kinds();
            let seen = kinds.values().filter(|sight| **sight == KindSight::Seen).count();
            tracing::info!(%cluster, objects, kinds = seen, "reports are taken");
        }
        let left_out = self.sender.left_out();
        if left_out > 0 && !self.is_crowded {
            let cluster = self.health.cluster();
            tracing::warn!(%cluster, left_out, "the cluster has more objects than the agent keeps");
        }
        self.is_crowded = left_out > 0;
    }

    /// Says that the agent stops, so that the one that follows it need not wait.
    async fn say_goodbye(mut self) {
        self.sending = None;
        let report = self.client.send(self.sender.next_report(true));
        if tokio::time::timeout(LAST_REPORT, report).await.is_err() {
            tracing::debug!("last report not answered");
        }
    }
}

/// Shortens a pause by up to half of it, by chance: agents that failed together do not come back together.
fn jitter(pause: Duration) -> Duration {
    let digits = random_digits();
    let chance = digits.get(10..).and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let part = f64::from(chance.unwrap_or_default()) / f64::from(1_u32 << 24);
    pause.mul_f64(0.5 + part / 2.0)
}
