//! The source of a cluster's events, for the loop that follows it: the watches of this process, or the reports of an
//! agent inside the cluster.
//!
//! A report is answered when its events are with the loop, which applies them before it waits for anything. If the loop
//! ends then, so does what it knows of the session, and the agent tells everything anew.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};

use crate::cluster::live::AppSnapshot;
use crate::cluster::relay::receiver::ReportReceiver;
use crate::cluster::relay::report::{ClusterReport, ReportVerdict};
use crate::cluster::watch::event::ClusterEvent;
use crate::cluster::watch::health::ClusterHealth;
use crate::cluster::watch::metrics::{KindMetrics, ReportResult};
use crate::deployments::agent_inbox::InboxRequest;
use crate::model::app_instance::AppInstance;

/// The time for which other events are waited for before they are recorded together.
const GATHERED: Duration = Duration::from_millis(20);
/// The most events that are recorded together.
const MAX_EVENTS: usize = 1000;

/// The source of a cluster's events.
pub(super) enum ClusterEvents {
    /// The watches of this process.
    Watches(mpsc::Receiver<ClusterEvent>),
    /// The reports of an agent.
    Reports(Box<ReportedEvents>),
}

/// The reports of an agent, as far as they were taken.
pub(super) struct ReportedEvents {
    requests: mpsc::Receiver<InboxRequest>,
    receiver: ReportReceiver,
    health: ClusterHealth,
    metrics: KindMetrics,
}

/// What a source has, before it is taken.
pub(super) enum Arrival {
    /// An event of a watch.
    Event(ClusterEvent),
    /// A request of the inbox.
    Request(InboxRequest),
}

/// What has arrived.
#[derive(Default)]
pub(super) struct Arrivals {
    /// The events, in their order.
    pub(super) events: Vec<ClusterEvent>,
    /// There may be more.
    pub(super) is_behind: bool,
    /// Questions about apps, which are answered after the events.
    pub(super) questions: Vec<(AppInstance, oneshot::Sender<Option<AppSnapshot>>)>,
}

impl ClusterEvents {
    /// Takes the reports of an agent from now on.
    pub(super) fn of_agent(
        requests: mpsc::Receiver<InboxRequest>,
        health: ClusterHealth,
        metrics: KindMetrics,
        now: Timestamp,
    ) -> Self {
        let receiver = ReportReceiver::new(now);
        Self::Reports(Box::new(ReportedEvents { requests, receiver, health, metrics }))
    }

    /// Waits for what comes next; `None` at the end. Nothing is lost when the wait is dropped.
    pub(super) async fn recv(&mut self) -> Option<Arrival> {
        match self {
            Self::Watches(events) => events.recv().await.map(Arrival::Event),
            Self::Reports(reports) => reports.requests.recv().await.map(Arrival::Request),
        }
    }

    /// Takes it, with what follows at once.
    pub(super) async fn take(&mut self, first: Arrival, now: Timestamp) -> Arrivals {
        match (self, first) {
            (Self::Watches(events), Arrival::Event(first)) => {
                Arrivals { events: gather(first, events).await, ..Arrivals::default() }
            }
            (Self::Reports(reports), Arrival::Request(request)) => {
                let mut arrivals = Arrivals::default();
                reports.take(request, &mut arrivals, now);
                arrivals
            }
            (Self::Watches(_), Arrival::Request(_)) | (Self::Reports(_), Arrival::Event(_)) => {
                Arrivals::default()
            }
        }
    }

    /// Takes what has arrived, and judges silence.
    pub(super) fn drain(&mut self, now: Timestamp) -> Arrivals {
        match self {
            Self::Watches(events) => {
                let arrived = std::iter::from_fn(|| events.try_recv().ok());
                let events: Vec<ClusterEvent> = arrived.take(MAX_EVENTS).collect();
                let is_behind = events.len() == MAX_EVENTS;
                Arrivals { events, is_behind, ..Arrivals::default() }
            }
            Self::Reports(reports) => {
                let mut arrivals = Arrivals::default();
                while arrivals.events.len() < MAX_EVENTS
                    && let Ok(request) = reports.requests.try_recv()
                {
                    reports.take(request, &mut arrivals, now);
                }
                arrivals.is_behind = arrivals.events.len() >= MAX_EVENTS;
                arrivals.events.extend(reports.receiver.tick(&reports.health, now));
                // Shows in the metrics which kinds are seen.
                reports.metrics.set_sights(&reports.health);
                arrivals
            }
        }
    }
}

impl ReportedEvents {
    fn take(&mut self, request: InboxRequest, arrivals: &mut Arrivals, now: Timestamp) {
        match request {
            InboxRequest::Report(report, answer) => {
                let (verdict, events) = self.receive(*report, now);
                arrivals.events.extend(events);
                // An agent that has gone sends the report again, and it is known.
                let _gone = answer.send(verdict);
            }
            InboxRequest::AppState(instance, answer) => {
                arrivals.questions.push((instance, answer));
            }
        }
    }

    fn receive(
        &mut self,
        report: ClusterReport,
        now: Timestamp,
    ) -> (ReportVerdict, Vec<ClusterEvent>) {
        let agent = report.session.agent.clone();
        let reception = self.receiver.receive(report, &self.health, now);
        let cluster = self.health.cluster();
        let result = match reception.verdict {
            ReportVerdict::Accepted(_) => ReportResult::Accepted,
            ReportVerdict::Resync => ReportResult::Resync,
            ReportVerdict::OtherAgent => {
                tracing::warn!(%cluster, agent, "a second agent reports for the cluster, refused");
                ReportResult::Refused
            }
            ReportVerdict::Outdated => ReportResult::Refused,
        };
        self.metrics.count_report(result);
        if reception.unreadable > 0 {
            let unreadable = reception.unreadable;
            tracing::warn!(%cluster, unreadable, "objects of a report are left out");
        }
        for event in &reception.events {
            match event {
                ClusterEvent::RelistBegun(kind) => self.metrics.count_list(*kind),
                ClusterEvent::Applied(object) | ClusterEvent::Deleted(object) => {
                    self.metrics.count_event(object.kind());
                }
                _ => {}
            }
        }
        (reception.verdict, reception.events)
    }
}

/// Waits for the events that follow one at once.
async fn gather(
    first: ClusterEvent,
    events: &mut mpsc::Receiver<ClusterEvent>,
) -> Vec<ClusterEvent> {
    let mut gathered = vec![first];
    let until = tokio::time::Instant::now() + GATHERED;
    while gathered.len() < MAX_EVENTS
        && let Ok(Some(event)) = tokio::time::timeout_at(until, events.recv()).await
    {
        gathered.push(event);
    }
    gathered
}
