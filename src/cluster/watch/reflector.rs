//! The watches of one cluster: one for each kind, whose changes go to one consumer in the order of each kind.
//!
//! ```text
//!          ┌─────────── 410, silence, half an hour ───────────┐
//!          ▼                                                  │
//!   list, page by page ──▶ watch from its version ──▶ ended ──┴─▶ watch from the last version
//!          │ RelistBegun, Listed…, RelistDone    │ Applied, Deleted
//!          └──────────────▶ channel ◀────────────┘
//! ```
//!
//! The loop is our own, over the client of kube: its `watcher` never lists again after a 410 that comes as a status,
//! hangs for ever on a list that does not end, asks a server that ends every watch at once a thousand times a second,
//! and cannot be told apart from one that works. What comes next, and when, is decided in `schedule`.
//!
//! Knows nothing of what objects mean, and keeps none.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use http::Request;
use jiff::Timestamp;
use kube::core::params::{ListParams, WatchParams};
use serde_json::Value as Json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cluster::connection::client::{ClusterClient, ClusterConnection};
use crate::cluster::connection::error::UNAUTHORIZED;
use crate::cluster::object::WatchedKind;
use crate::cluster::watch::event::ClusterEvent;
use crate::cluster::watch::health::{ClusterHealth, KindSight};
use crate::cluster::watch::metrics::KindMetrics;
use crate::cluster::watch::protocol::{
    ListPage, WatchLines, WatchMessage, WatchProblem, version_of,
};
use crate::cluster::watch::schedule::{
    Schedule, Start, WatchEnd, WatchEndCause, WatchLimits, WatchStep,
};
use crate::cluster::watched::WatchedObject;
use crate::support::clock::{Clock, random_digits};

/// As many changes wait for the consumer; then the watches wait, and the API server.
const WAITING_EVENTS: usize = 256;

/// What watches of one cluster are made of.
pub struct ClusterWatch {
    /// The way there.
    pub connection: Arc<ClusterConnection>,
    /// Whether workloads of others are watched.
    pub previews: bool,
    /// How often it is asked, and how much.
    pub limits: WatchLimits,
    /// Where it is written down what is seen.
    pub health: ClusterHealth,
    /// What Prometheus may ask.
    pub metrics: KindMetrics,
    /// For times that people are told.
    pub clock: Clock,
}

impl ClusterWatch {
    /// Starts the watches; they end with `stop`, or when nobody receives any more.
    pub fn start(self, stop: &CancellationToken) -> mpsc::Receiver<ClusterEvent> {
        let (sender, receiver) = mpsc::channel(WAITING_EVENTS);
        let shared = Arc::new(self);
        for kind in WatchedKind::ALL {
            let (watch, sender, stop) = (Arc::clone(&shared), sender.clone(), stop.clone());
            tokio::spawn(async move {
                let _stopped = stop.run_until_cancelled(supervise(watch, kind, sender)).await;
            });
        }
        receiver
    }
}

/// A bug in one kind's watch is no end of it.
async fn supervise(
    watch: Arc<ClusterWatch>,
    kind: WatchedKind,
    sender: mpsc::Sender<ClusterEvent>,
) {
    loop {
        let mut one = KindWatch::new(Arc::clone(&watch), kind, sender.clone());
        match AssertUnwindSafe(one.run()).catch_unwind().await {
            Ok(ConsumerGone) => return,
            Err(_panic) => {
                let _closed = one.mark_unseen("its watch failed: see the log".to_owned()).await;
                tokio::time::sleep(watch.limits.longest_pause).await;
            }
        }
    }
}

/// An event of an object.
type EventOf = fn(Box<WatchedObject>) -> ClusterEvent;

/// Nobody receives events any more.
struct ConsumerGone;

/// The watch of one kind.
struct KindWatch {
    cluster: Arc<ClusterWatch>,
    kind: WatchedKind,
    sender: mpsc::Sender<ClusterEvent>,
    schedule: Schedule,
    /// From where a watch goes on; none before the first list.
    version: Option<String>,
    /// When everything is listed again.
    relist_at: Instant,
    /// When the server was heard last.
    heard: Option<Timestamp>,
}

impl KindWatch {
    fn new(
        cluster: Arc<ClusterWatch>,
        kind: WatchedKind,
        sender: mpsc::Sender<ClusterEvent>,
    ) -> Self {
        let schedule = Schedule::new(cluster.limits);
        let relist_at = Instant::now();
        Self { cluster, kind, sender, schedule, version: None, relist_at, heard: None }
    }

    async fn run(&mut self) -> ConsumerGone {
        let mut start = Start::List;
        loop {
            let step = match (start, self.version.clone()) {
                (Start::Watch, Some(version)) => self.watch_once(version).await,
                (Start::List | Start::Watch, _) => self.list_once().await,
            };
            let Ok(WatchStep { start: next, pause }) = step else { return ConsumerGone };
            start = next;
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.sender.closed() => return ConsumerGone,
            }
        }
    }

    async fn list_once(&mut self) -> Result<WatchStep, ConsumerGone> {
        self.cluster.metrics.count_list(self.kind);
        let listed = match self.list().await {
            Ok(version) => {
                self.version = Some(version);
                self.relist_at = Instant::now() + self.schedule.relist_after(Self::chance());
                self.send(ClusterEvent::RelistDone(self.kind)).await?;
                self.mark_seen().await?;
                Ok(())
            }
            Err(ListEnd::Gone) => return Err(ConsumerGone),
            Err(ListEnd::Problem(problem)) => {
                self.version = None;
                self.report_problem(&problem).await?;
                Err(problem)
            }
        };
        Ok(self.schedule.after_list(listed.as_ref().err(), Self::chance()))
    }

    /// All pages; the version of the list.
    async fn list(&mut self) -> Result<String, ListEnd> {
        let client = self.client().await?;
        let (mut continuation, mut is_begun) = (None, false);
        loop {
            let request = self.list_request(continuation.take())?;
            let page = ListPage::fetch(&client.client, request, self.cluster.limits.page).await;
            let page = self.check_answer(&client, page).await?;
            let parts = page.parts()?;
            self.heard = Some(self.cluster.clock.now());
            if !is_begun {
                is_begun = true;
                self.send(ClusterEvent::RelistBegun(self.kind)).await?;
            }
            // One object lives at a time.
            for object in parts.objects() {
                if let Some(object) = self.read(&object) {
                    self.send(ClusterEvent::Listed(object)).await?;
                }
            }
            continuation = parts.continuation();
            if continuation.is_none() {
                return Ok(parts.metadata.resource_version.clone());
            }
        }
    }

    async fn watch_once(&mut self, version: String) -> Result<WatchStep, ConsumerGone> {
        let begun = Instant::now();
        let mut messages = 0;
        self.cluster.metrics.count_watch(self.kind);
        let cause = match self.watch(version, &mut messages).await {
            Ok(cause) => cause,
            Err(ListEnd::Gone) => return Err(ConsumerGone),
            Err(ListEnd::Problem(problem)) => WatchEndCause::Problem(problem),
        };
        let end = WatchEnd { messages, lasted: begun.elapsed(), cause };
        match &end.cause {
            // The list that follows tells whether anything is wrong.
            WatchEndCause::Closed
            | WatchEndCause::Due
            | WatchEndCause::Problem(WatchProblem::Expired | WatchProblem::Silent) => {}
            WatchEndCause::Problem(problem) => self.report_problem(problem).await?,
        }
        Ok(self.schedule.after_watch(&end, Self::chance()))
    }

    async fn watch(
        &mut self,
        version: String,
        messages: &mut u64,
    ) -> Result<WatchEndCause, ListEnd> {
        let client = self.client().await?;
        let request = self.watch_request(&version)?;
        let opened = WatchLines::open(&client.client, request).await;
        let mut lines = self.check_answer(&client, opened).await?;
        self.mark_seen().await?;
        // The server ends it before that, unless it is not there any more.
        let ends = Instant::now() + self.cluster.limits.watch + self.cluster.limits.grace;
        loop {
            let message = tokio::select! {
                message = tokio::time::timeout_at(ends, lines.next()) => message,
                () = tokio::time::sleep_until(self.relist_at) => return Ok(WatchEndCause::Due),
                () = self.sender.closed() => return Err(ListEnd::Gone),
            };
            let Some(message) = message.map_err(|_elapsed| WatchProblem::Silent)?? else {
                return Ok(WatchEndCause::Closed);
            };
            *messages += 1;
            self.heard = Some(self.cluster.clock.now());
            self.handle_message(message).await?;
        }
    }

    /// A version is taken only after the consumer has its event: what comes between is told again.
    async fn handle_message(&mut self, message: WatchMessage) -> Result<(), ConsumerGone> {
        let (object, event): (Json, Option<EventOf>) = match message {
            WatchMessage::Applied(object) => (object, Some(ClusterEvent::Applied)),
            WatchMessage::Deleted(object) => (object, Some(ClusterEvent::Deleted)),
            WatchMessage::Bookmark(object) => (object, None),
            WatchMessage::Unknown => return Ok(()),
        };
        if let Some(event) = event {
            self.cluster.metrics.count_event(self.kind);
            if let Some(object) = self.read(&object) {
                self.send(event(object)).await?;
            }
        }
        if let Some(version) = version_of(&object) {
            self.version = Some(version.to_owned());
        }
        Ok(())
    }

    fn read(&self, object: &Json) -> Option<Box<WatchedObject>> {
        match WatchedObject::read(self.kind, object) {
            Ok(object) => Some(Box::new(object)),
            Err(unreadable) => {
                let cluster = self.cluster.health.cluster().as_str();
                self.cluster.metrics.count_unreadable(self.kind);
                tracing::warn!(cluster, %unreadable, "an object of a cluster is left out");
                None
            }
        }
    }

    async fn client(&self) -> Result<ClusterClient, WatchProblem> {
        let client = self.cluster.connection.client().await;
        client.map_err(|error| WatchProblem::Failed(error.to_string()))
    }

    /// Has the connection made anew whose credentials are refused.
    async fn check_answer<A>(
        &self,
        client: &ClusterClient,
        answer: Result<A, WatchProblem>,
    ) -> Result<A, WatchProblem> {
        if matches!(answer, Err(WatchProblem::Unauthorized)) {
            self.cluster.connection.report_refusal(client);
        }
        answer.map_err(|problem| match problem {
            WatchProblem::Absent if !self.kind.is_custom() => WatchProblem::Failed(format!(
                "the server does not know {}: it is no API server of Kubernetes",
                self.kind.resource()
            )),
            problem => problem,
        })
    }

    fn list_request(&self, continuation: Option<String>) -> Result<Request<Vec<u8>>, WatchProblem> {
        let params = ListParams {
            label_selector: self.label_selector(),
            limit: Some(self.schedule.page_items()),
            continue_token: continuation,
            ..ListParams::default()
        };
        let request = kube::core::Request::new(self.kind.path()).list(&params);
        request.map_err(|error| WatchProblem::Failed(error.to_string()))
    }

    fn watch_request(&self, version: &str) -> Result<Request<Vec<u8>>, WatchProblem> {
        let timeout = u32::try_from(self.cluster.limits.watch.as_secs()).unwrap_or(u32::MAX);
        let params = WatchParams {
            label_selector: self.label_selector(),
            timeout: Some(timeout.max(1)),
            bookmarks: true,
            ..WatchParams::default()
        };
        let request = kube::core::Request::new(self.kind.path()).watch(&params, version);
        request.map_err(|error| WatchProblem::Failed(error.to_string()))
    }

    fn label_selector(&self) -> Option<String> {
        self.kind.label_selector(self.cluster.previews).map(str::to_owned)
    }

    /// Takes note of why nothing comes. A kind that is not there any more has no objects.
    async fn report_problem(&mut self, problem: &WatchProblem) -> Result<(), ConsumerGone> {
        let reason = match problem {
            WatchProblem::Absent => return self.mark_absent().await,
            // The smaller page that follows tells whether anything is wrong.
            WatchProblem::TooLarge if self.schedule.page_items() > 1 => return Ok(()),
            WatchProblem::Expired => "the server forgets lists before they end".to_owned(),
            WatchProblem::TooLarge => "an object is larger than the service reads".to_owned(),
            WatchProblem::Silent => "the server is silent".to_owned(),
            WatchProblem::Unauthorized => UNAUTHORIZED.to_owned(),
            WatchProblem::Forbidden(said) => {
                let resource = self.kind.resource();
                let reason = format!("{said}; grant `list` and `watch` on {resource}");
                return self.mark_forbidden(reason).await;
            }
            WatchProblem::Throttled(_, said) | WatchProblem::Failed(said) => said.clone(),
        };
        self.mark_unseen(reason).await
    }

    async fn mark_absent(&mut self) -> Result<(), ConsumerGone> {
        self.version = None;
        if self.cluster.health.set(self.kind, KindSight::Absent) {
            self.send(ClusterEvent::Unavailable(self.kind)).await?;
        }
        Ok(())
    }

    /// What was seen once stays known: an authorizer that is ill forbids everything for a while.
    async fn mark_forbidden(&mut self, reason: String) -> Result<(), ConsumerGone> {
        if self.heard.is_some() {
            return self.mark_unseen(reason).await;
        }
        self.cluster.metrics.set_seen(self.kind, false);
        if self.cluster.health.set(self.kind, KindSight::Unseen { since: None, reason }) {
            self.send(ClusterEvent::Unavailable(self.kind)).await?;
        }
        Ok(())
    }

    async fn mark_unseen(&mut self, reason: String) -> Result<(), ConsumerGone> {
        let (kind, since) = (self.kind, self.heard);
        self.cluster.metrics.set_seen(kind, false);
        if self.cluster.health.set(kind, KindSight::Unseen { since, reason: reason.clone() }) {
            self.send(ClusterEvent::Unseen { kind, since, reason }).await?;
        }
        Ok(())
    }

    async fn mark_seen(&mut self) -> Result<(), ConsumerGone> {
        self.heard = Some(self.cluster.clock.now());
        self.cluster.metrics.set_seen(self.kind, true);
        if self.cluster.health.set(self.kind, KindSight::Seen) {
            self.send(ClusterEvent::Seen(self.kind)).await?;
        }
        Ok(())
    }

    async fn send(&self, event: ClusterEvent) -> Result<(), ConsumerGone> {
        self.sender.send(event).await.map_err(|_closed| ConsumerGone)
    }

    /// Independent of that of other kinds, which fail at the same moment.
    fn chance() -> u32 {
        let digits = random_digits();
        let last = digits.get(10..).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        last.unwrap_or_default()
    }
}

/// Why a list did not end.
enum ListEnd {
    Gone,
    Problem(WatchProblem),
}

impl From<WatchProblem> for ListEnd {
    fn from(problem: WatchProblem) -> Self {
        Self::Problem(problem)
    }
}

impl From<ConsumerGone> for ListEnd {
    fn from(ConsumerGone: ConsumerGone) -> Self {
        Self::Gone
    }
}
