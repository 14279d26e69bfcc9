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
//! and cannot be told apart from one that works. `schedule` decides the next request and its time.
//!
//! It knows nothing of the meaning of objects, and keeps none.

use std::collections::HashSet;
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
use crate::cluster::watch::canary_events::{MAX_REPORTS, add_report};
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

/// The number of changes that wait for the consumer; then the watches wait, and the API server.
const WAITING_EVENTS: usize = 256;

/// A watch with more lines that are no events ends as failed.
const MAX_UNREADABLE: u64 = 100;

/// A list with more pages is given up: it would be one of a million objects.
const MAX_PAGES: usize = 20_000;

/// The parts of the watches of one cluster.
pub struct ClusterWatch {
    /// The connection to its API server.
    pub connection: Arc<ClusterConnection>,
    /// True if workloads of others are watched, too.
    pub previews: bool,
    /// The limits of lists and watches.
    pub limits: WatchLimits,
    /// The record of the kinds that are seen and those that are not.
    pub health: ClusterHealth,
    /// The metrics.
    pub metrics: KindMetrics,
    /// The clock for times that are shown.
    pub clock: Clock,
}

impl ClusterWatch {
    /// Starts the watches; they end with `stop`, or when the receiver is dropped.
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

/// Runs one kind's watch, again after a panic.
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

/// The receiver of the events is dropped.
struct ConsumerGone;

/// The watch of one kind.
struct KindWatch {
    cluster: Arc<ClusterWatch>,
    kind: WatchedKind,
    sender: mpsc::Sender<ClusterEvent>,
    schedule: Schedule,
    /// The version from which a watch continues; none before the first list.
    version: Option<String>,
    /// The time of the next list if nothing asks for one before.
    relist_at: Instant,
    /// The time of the server's last answer.
    last_answer: Option<Timestamp>,
    /// True while watches fail: a list alone does not make the kind seen.
    has_failing_watch: bool,
}

/// The progress of one watch.
#[derive(Default)]
struct WatchProgress {
    /// The time at which the head of the answer came.
    opened: Option<Instant>,
    messages: u64,
    unreadable: u64,
}

impl KindWatch {
    fn new(
        cluster: Arc<ClusterWatch>,
        kind: WatchedKind,
        sender: mpsc::Sender<ClusterEvent>,
    ) -> Self {
        let schedule = Schedule::new(cluster.limits);
        let relist_at = Instant::now();
        Self {
            cluster,
            kind,
            sender,
            schedule,
            version: None,
            relist_at,
            last_answer: None,
            has_failing_watch: false,
        }
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
                if !self.has_failing_watch {
                    self.mark_seen().await?;
                }
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

    /// Lists all pages; returns the version of the list.
    async fn list(&mut self) -> Result<String, ListEnd> {
        let client = self.client().await?;
        let mut pages = PageTokens::default();
        let mut reports = 0;
        loop {
            let request = self.list_request(pages.next.clone())?;
            let page = ListPage::fetch(&client.client, request, self.cluster.limits.page).await;
            let page = self.check_answer(&client, page)?;
            let parts = page.parts()?;
            self.last_answer = Some(self.cluster.clock.now());
            if pages.next.is_none() {
                self.send(ClusterEvent::RelistBegun(self.kind)).await?;
            }
            // One object lives at a time.
            for object in parts.objects() {
                if let Some(mut object) = self.read(&object) {
                    if reports < MAX_REPORTS && add_report(&client.client, &mut object).await {
                        reports += 1;
                    }
                    self.send(ClusterEvent::Listed(object)).await?;
                }
            }
            if !pages.advance(parts.continuation())? {
                return Ok(parts.metadata.resource_version.clone());
            }
        }
    }

    async fn watch_once(&mut self, version: String) -> Result<WatchStep, ConsumerGone> {
        let mut progress = WatchProgress::default();
        self.cluster.metrics.count_watch(self.kind);
        let cause = match self.watch(version, &mut progress).await {
            Ok(cause) => cause,
            Err(ListEnd::Gone) => return Err(ConsumerGone),
            Err(ListEnd::Problem(problem)) => WatchEndCause::Problem(problem),
        };
        let lasted = progress.opened.map(|opened| opened.elapsed()).unwrap_or_default();
        let end = WatchEnd { messages: progress.messages, lasted, cause };
        match &end.cause {
            // The list that follows shows the state of the server.
            WatchEndCause::Closed
            | WatchEndCause::Due
            | WatchEndCause::Problem(WatchProblem::Expired | WatchProblem::Silent) => {}
            WatchEndCause::Problem(problem) => {
                self.has_failing_watch = true;
                self.report_problem(problem).await?;
            }
        }
        Ok(self.schedule.after_watch(&end, Self::chance()))
    }

    async fn watch(
        &mut self,
        version: String,
        progress: &mut WatchProgress,
    ) -> Result<WatchEndCause, ListEnd> {
        let client = self.client().await?;
        let request = self.watch_request(&version)?;
        let opened = WatchLines::open(&client.client, request).await;
        let mut lines = self.check_answer(&client, opened)?;
        let opened = Instant::now();
        progress.opened = Some(opened);
        self.has_failing_watch = false;
        self.mark_seen().await?;
        // The server ends it before that, unless it is not there any more.
        let ends = opened + self.cluster.limits.watch + self.cluster.limits.grace;
        loop {
            let message = tokio::select! {
                message = tokio::time::timeout_at(ends, lines.next()) => message,
                () = tokio::time::sleep_until(self.relist_at) => return Ok(WatchEndCause::Due),
                () = self.sender.closed() => return Err(ListEnd::Gone),
            };
            match message.map_err(|_elapsed| WatchProblem::Silent)?? {
                None if progress.messages == 0 && progress.unreadable > 0 => {
                    return Err(WatchProblem::no_events().into());
                }
                None => return Ok(WatchEndCause::Closed),
                Some(WatchMessage::Unreadable) => self.skip_line(progress)?,
                Some(message) => {
                    progress.messages += 1;
                    self.last_answer = Some(self.cluster.clock.now());
                    self.handle_message(message, &client).await?;
                }
            }
        }
    }

    /// Leaves out a line that cannot be read: a list soon brings the object's state.
    fn skip_line(&mut self, progress: &mut WatchProgress) -> Result<(), WatchProblem> {
        progress.unreadable += 1;
        self.cluster.metrics.count_unreadable(self.kind);
        if progress.unreadable == 1 {
            let (cluster, resource) =
                (self.cluster.health.cluster().as_str(), self.kind.resource());
            tracing::warn!(cluster, resource, "a line of a watch is no event and is left out");
        }
        self.relist_at = self.relist_at.min(Instant::now() + self.schedule.relist_soon());
        if progress.unreadable > MAX_UNREADABLE { Err(WatchProblem::no_events()) } else { Ok(()) }
    }

    /// Sends the message's event. The version moves only after the consumer has the event, so that none is lost.
    async fn handle_message(
        &mut self,
        message: WatchMessage,
        client: &ClusterClient,
    ) -> Result<(), ConsumerGone> {
        let (object, event): (Json, Option<EventOf>) = match message {
            WatchMessage::Applied(object) => (object, Some(ClusterEvent::Applied)),
            WatchMessage::Deleted(object) => (object, Some(ClusterEvent::Deleted)),
            WatchMessage::Bookmark(object) => (object, None),
            WatchMessage::Unknown | WatchMessage::Unreadable => return Ok(()),
        };
        if let Some(event) = event {
            self.cluster.metrics.count_event(self.kind);
            if let Some(mut object) = self.read(&object) {
                add_report(&client.client, &mut object).await;
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

    /// Reports credentials that the server refuses to the connection, which then makes another client.
    fn check_answer<A>(
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

    /// Records the reason why no changes arrive. A kind that is not installed any more has no objects.
    async fn report_problem(&mut self, problem: &WatchProblem) -> Result<(), ConsumerGone> {
        let reason = match problem {
            WatchProblem::Absent => return self.mark_absent().await,
            // The smaller page that follows shows the state of the server.
            WatchProblem::TooLarge if self.schedule.page_items() > 1 => return Ok(()),
            WatchProblem::Expired => "the server forgets lists before they end".to_owned(),
            WatchProblem::TooLarge => "an object is larger than the service reads".to_owned(),
            WatchProblem::Silent => "the server is silent".to_owned(),
            WatchProblem::Unauthorized => UNAUTHORIZED.to_owned(),
            WatchProblem::Forbidden(refusal) => {
                let resource = self.kind.resource();
                let reason = format!("{refusal}; grant `list` and `watch` on {resource}");
                return self.mark_forbidden(reason).await;
            }
            WatchProblem::Throttled(_, reason) | WatchProblem::Failed(reason) => reason.clone(),
        };
        self.mark_unseen(reason).await
    }

    async fn mark_absent(&mut self) -> Result<(), ConsumerGone> {
        self.version = None;
        self.cluster.metrics.set_seen(self.kind, false);
        if self.cluster.health.set(self.kind, KindSight::Absent) {
            self.send(ClusterEvent::Unavailable(self.kind)).await?;
        }
        Ok(())
    }

    /// Records that the service may not list or watch the kind. Objects that were listed before stay: an authorizer
    /// that is ill forbids everything for a while.
    async fn mark_forbidden(&mut self, reason: String) -> Result<(), ConsumerGone> {
        if self.last_answer.is_some() {
            return self.mark_unseen(reason).await;
        }
        self.cluster.metrics.set_seen(self.kind, false);
        if self.cluster.health.set(self.kind, KindSight::Unseen { since: None, reason }) {
            self.send(ClusterEvent::Unavailable(self.kind)).await?;
        }
        Ok(())
    }

    async fn mark_unseen(&mut self, reason: String) -> Result<(), ConsumerGone> {
        let (kind, since) = (self.kind, self.last_answer);
        self.cluster.metrics.set_seen(kind, false);
        if self.cluster.health.set(kind, KindSight::Unseen { since, reason: reason.clone() }) {
            self.send(ClusterEvent::Unseen { kind, since, reason }).await?;
        }
        Ok(())
    }

    async fn mark_seen(&mut self) -> Result<(), ConsumerGone> {
        self.last_answer = Some(self.cluster.clock.now());
        self.cluster.metrics.set_seen(self.kind, true);
        if self.cluster.health.set(self.kind, KindSight::Seen) {
            self.send(ClusterEvent::Seen(self.kind)).await?;
        }
        Ok(())
    }

    async fn send(&self, event: ClusterEvent) -> Result<(), ConsumerGone> {
        self.sender.send(event).await.map_err(|_closed| ConsumerGone)
    }

    /// Draws a random number for a pause, so that kinds that fail together do not come back together.
    fn chance() -> u32 {
        let digits = random_digits();
        let last = digits.get(10..).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        last.unwrap_or_default()
    }
}

/// The tokens of a list's pages: a server that gives one twice would be asked for ever.
#[derive(Default)]
struct PageTokens {
    /// The token of the next page; none for the first.
    next: Option<String>,
    used: HashSet<String>,
}

impl PageTokens {
    /// Moves to the next page; returns false after the last one.
    fn advance(&mut self, token: Option<String>) -> Result<bool, WatchProblem> {
        if let Some(token) = &token
            && (self.used.len() >= MAX_PAGES || !self.used.insert(token.clone()))
        {
            let problem = "the server's list does not end: it repeats pages, or has too many";
            return Err(WatchProblem::Failed(problem.to_owned()));
        }
        self.next = token;
        Ok(self.next.is_some())
    }
}

/// The reason why a list or a watch ended early.
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
