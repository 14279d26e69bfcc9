//! Live pages, by server-sent events: a page changes in place while it is open.
//!
//! ```text
//! GET /live/PATH?version=V    what PATH shows, from that version on
//!   alive                     every 15 s, and at once: a proxy that holds the stream back is found out
//!   page                      the whole page anew, with its version as id
//!   patch                     the cells of the grid that have changed, with the page's version as id
//!   stale                     load the page again, sometime soon
//!   end                       nothing will change any more
//! ```
//!
//! A page is rendered as for any request, with the caller's rights, and sent if its version is another one. What causes
//! that is read once for all open pages (`feeds.rs`): the grid, and the versions of records.

pub(crate) mod feeds; // what all open pages share
mod versions; // the versions of records

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderName, HeaderValue};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, Sleep};

use crate::deployments::overview::OverviewPlace;
use crate::model::app_instance::AppInstance;
use crate::model::audit::AuthMethod;
use crate::model::id::{DeployId, RolloutId};
use crate::server::call::{AuthenticatedRequest, PathParam, QueryPairs, bad};
use crate::server::pages::document::RenderedPage;
use crate::server::pages::grid::{GridEntry, GridQuery, GridSelection, GridSnapshot};
use crate::server::pages::live::versions::{LiveRecord, read_version};
use crate::server::pages::views;
use crate::server::problem::{Problem, ProblemKind};

/// The time between two words of a stream.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The time in which signals are answered by one look.
const TOGETHER: Duration = Duration::from_millis(50);
/// The shortest time between two looks that signals cause: in a busy process signals never cease.
const APART: Duration = Duration::from_millis(500);
/// The time for which a permission counts without a new check, and after which a page is rendered anew: some of it has
/// no version, such as the pods of a cluster.
const PERMISSION_LIFETIME: SignedDuration = SignedDuration::from_secs(60);

/// Tells a proxy of nginx's kind to pass the stream on as it comes.
static UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Streams the changes of the grid.
pub(super) async fn follow_grid(
    call: AuthenticatedRequest,
    QueryPairs(pairs): QueryPairs,
) -> Result<Response, Problem> {
    let (pairs, version) = take_version(pairs);
    let query = GridQuery::read(&pairs).map_err(bad)?;
    let slots = PageSlots::take(&call)?;
    let snapshot = call.shared.feeds.grid(call.deployments()).await?;
    let visible = visible(&call, &snapshot).await?;
    let selection = select(&snapshot, visible.as_ref(), &query);
    let is_current = selection.version() == version;
    let checked_at = call.deployments().clock.now();
    let grid = GridSubject { query, snapshot, visible, checked_at, selection };
    let mut stream = PageStream::new(call, PageSubject::Grid(Box::new(grid)), version, slots);
    if !is_current {
        stream.queue.push_back(stale());
    }
    Ok(stream.into_response())
}

/// Streams the changes of the list of deployments.
pub(super) async fn follow_deployments(
    call: AuthenticatedRequest,
    pairs: QueryPairs,
) -> Result<Response, Problem> {
    follow_record(call, LiveRecord::Deployments, pairs).await
}

/// Streams the changes of a deployment's page.
pub(super) async fn follow_deployment(
    call: AuthenticatedRequest,
    PathParam(id): PathParam<DeployId>,
    pairs: QueryPairs,
) -> Result<Response, Problem> {
    follow_record(call, LiveRecord::Deployment(id), pairs).await
}

/// Streams the changes of an app's page.
pub(super) async fn follow_app(
    call: AuthenticatedRequest,
    PathParam(instance): PathParam<AppInstance>,
    pairs: QueryPairs,
) -> Result<Response, Problem> {
    follow_record(call, LiveRecord::App(Box::new(instance)), pairs).await
}

/// Streams the changes of the list of rollouts.
pub(super) async fn follow_rollouts(
    call: AuthenticatedRequest,
    pairs: QueryPairs,
) -> Result<Response, Problem> {
    follow_record(call, LiveRecord::Rollouts, pairs).await
}

/// Streams the changes of a rollout's page.
pub(super) async fn follow_rollout(
    call: AuthenticatedRequest,
    PathParam(id): PathParam<RolloutId>,
    pairs: QueryPairs,
) -> Result<Response, Problem> {
    follow_record(call, LiveRecord::Rollout(id), pairs).await
}

async fn follow_record(
    call: AuthenticatedRequest,
    record: LiveRecord,
    QueryPairs(pairs): QueryPairs,
) -> Result<Response, Problem> {
    let (pairs, version) = take_version(pairs);
    let slots = PageSlots::take(&call)?;
    let rendered_at = call.deployments().clock.now();
    let record = RecordSubject { record, pairs, version: None, rendered_at };
    let mut stream = PageStream::new(call, PageSubject::Record(Box::new(record)), version, slots);
    // Checks the caller's rights, and that there is such a page.
    Box::pin(stream.refresh()).await?;
    Ok(stream.into_response())
}

/// Takes the version of the page that the browser has out of the parameters.
fn take_version(mut pairs: Vec<(String, String)>) -> (Vec<(String, String)>, String) {
    let version = pairs.iter().find(|(name, _)| name == "version").map(|(_, value)| value.clone());
    pairs.retain(|(name, _)| name != "version");
    (pairs, version.unwrap_or_default())
}

/// An open stream.
struct PageStream {
    call: AuthenticatedRequest,
    subject: PageSubject,
    /// The version of the page that the browser has.
    version: String,
    /// The events that are not sent yet.
    queue: VecDeque<Event>,
    /// True if nothing comes after these.
    is_ended: bool,
    bell: watch::Receiver<()>,
    /// The time until which signals cause no look.
    quiet: Pin<Box<Sleep>>,
    /// The time of the next word, whether there is something to say or not.
    next_word: Instant,
    since: Timestamp,
    _slots: PageSlots,
}

/// What a stream is about.
enum PageSubject {
    Grid(Box<GridSubject>),
    Record(Box<RecordSubject>),
}

struct GridSubject {
    query: GridQuery,
    snapshot: Arc<GridSnapshot>,
    /// The apps that the caller may see; `None` for all.
    visible: Option<BTreeSet<OverviewPlace>>,
    /// The time when that was found out.
    checked_at: Timestamp,
    /// What the browser shows.
    selection: GridSelection,
}

struct RecordSubject {
    record: LiveRecord,
    pairs: Vec<(String, String)>,
    /// The version of the record that was rendered last.
    version: Option<String>,
    rendered_at: Timestamp,
}

impl PageStream {
    fn new(
        call: AuthenticatedRequest,
        subject: PageSubject,
        version: String,
        slots: PageSlots,
    ) -> Self {
        let deployments = call.deployments();
        Self {
            bell: deployments.store.changes(),
            since: deployments.clock.now(),
            queue: VecDeque::from([alive()]),
            is_ended: false,
            quiet: Box::pin(tokio::time::sleep(APART)),
            next_word: Instant::now() + HEARTBEAT,
            subject,
            version,
            _slots: slots,
            call,
        }
    }

    fn into_response(self) -> Response {
        let events = futures::stream::unfold(self, |mut stream| async move {
            let event = stream.next().await?;
            Some((Ok::<_, Infallible>(event), stream))
        });
        let mut response = Sse::new(events).into_response();
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
        headers.insert(&UNBUFFERED, HeaderValue::from_static("no"));
        response
    }

    /// Returns the next event; `None` if the stream ends.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                self.next_word = Instant::now() + HEARTBEAT;
                return Some(event);
            }
            if self.is_ended || !self.wait().await {
                return None;
            }
            if Instant::now() >= self.next_word {
                self.queue.push_back(alive());
            }
            // What cannot be read now is read when the browser connects again.
            self.refresh().await.ok()?;
        }
    }

    /// Waits until there may be something to say; `false` when the stream must end.
    async fn wait(&mut self) -> bool {
        let now = self.call.deployments().clock.now();
        let age = Duration::try_from(now.duration_since(self.since)).unwrap_or_default();
        let limits = &self.call.shared.state.limits;
        if age >= limits.open_for {
            return false;
        }
        let ring = async {
            let _ = self.bell.changed().await;
            self.quiet.as_mut().await;
            tokio::time::sleep(TOGETHER).await;
            self.bell.mark_unchanged();
        };
        let until = self.next_word.min(Instant::now() + limits.page_look);
        tokio::select! {
            () = self.call.shared.state.closing.cancelled() => false,
            _ = tokio::time::timeout_at(until, ring) => {
                self.quiet = Box::pin(tokio::time::sleep(APART));
                true
            }
        }
    }

    /// Looks at what the page shows, and queues the events about what has changed.
    async fn refresh(&mut self) -> Result<(), Problem> {
        let limit = self.call.shared.state.limits.request_timeout;
        let refresh = async {
            match &mut self.subject {
                PageSubject::Grid(grid) => grid.refresh(&self.call, &mut self.version).await,
                PageSubject::Record(record) => record.refresh(&self.call, &mut self.version).await,
            }
        };
        let late = |_elapsed| {
            Err(Problem::new(ProblemKind::TookTooLong, "the page took too long; try again later"))
        };
        let (event, is_ended) = tokio::time::timeout(limit, refresh).await.unwrap_or_else(late)?;
        self.queue.extend(event);
        if is_ended {
            self.queue.push_back(Event::default().event("end").data(""));
            self.is_ended = true;
        }
        Ok(())
    }
}

/// An event, if there is one, and whether it is the last.
type RefreshResult = Result<(Option<Event>, bool), Problem>;

impl GridSubject {
    async fn refresh(
        &mut self,
        call: &AuthenticatedRequest,
        version: &mut String,
    ) -> RefreshResult {
        let snapshot = call.shared.feeds.grid(call.deployments()).await?;
        let now = call.deployments().clock.now();
        let is_checked = now.duration_since(self.checked_at) < PERMISSION_LIFETIME;
        if Arc::ptr_eq(&snapshot, &self.snapshot) && is_checked {
            return Ok((None, false));
        }
        if self.visible.is_some() || !is_checked {
            self.visible = visible(call, &snapshot).await?;
            self.checked_at = now;
        }
        self.snapshot = snapshot;
        let selection = select(&self.snapshot, self.visible.as_ref(), &self.query);
        let changes = selection.changes_since(&self.selection, now).map_err(super::fault)?;
        self.selection = selection;
        let event = match changes {
            None => stale(),
            Some(html) if html.is_empty() => return Ok((None, false)),
            Some(html) => {
                *version = self.selection.version();
                Event::default().event("patch").id(version.as_str()).data(html)
            }
        };
        Ok((Some(event), false))
    }
}

impl RecordSubject {
    async fn refresh(
        &mut self,
        call: &AuthenticatedRequest,
        version: &mut String,
    ) -> RefreshResult {
        let deployments = call.deployments();
        let read = read_version(deployments, &self.record);
        let record_version = call.shared.feeds.version(self.record.key(), read).await?;
        let now = call.deployments().clock.now();
        let is_fresh = now.duration_since(self.rendered_at) < PERMISSION_LIFETIME;
        if self.version.as_ref() == Some(&record_version) && is_fresh {
            return Ok((None, false));
        }
        let _turn = call.shared.feeds.take_turn().await;
        let page = self.render(call).await?;
        self.version = Some(record_version);
        self.rendered_at = now;
        let RenderedPage { html, version: page_version, is_live } = page;
        if *version == page_version && is_live {
            return Ok((None, false));
        }
        version.clone_from(&page_version);
        // A field of an event ends with a carriage return, too.
        let html = html.replace('\r', "&#13;");
        Ok((Some(Event::default().event("page").id(page_version).data(html)), !is_live))
    }

    async fn render(&self, call: &AuthenticatedRequest) -> Result<RenderedPage, Problem> {
        match &self.record {
            LiveRecord::Deployments => views::deployments(call, self.pairs.clone()).await,
            LiveRecord::Deployment(id) => views::deployment(call, id, &self.pairs).await,
            LiveRecord::App(instance) => views::app(call, instance, &self.pairs).await,
            LiveRecord::Rollouts => views::rollouts(call, self.pairs.clone()).await,
            LiveRecord::Rollout(id) => views::rollout(call, id, &self.pairs).await,
        }
    }
}

/// Returns the apps on targets that the caller may see; `None` for all.
async fn visible(
    call: &AuthenticatedRequest,
    snapshot: &GridSnapshot,
) -> Result<Option<BTreeSet<OverviewPlace>>, Problem> {
    let entries: Vec<&Arc<GridEntry>> = snapshot.entries.iter().collect();
    let visible = call.filter_visible(entries, |entry| entry.resource(&call.caller)).await?;
    let is_all = visible.len() == snapshot.entries.len();
    Ok((!is_all).then(|| visible.into_iter().map(|entry| entry.place.clone()).collect()))
}

fn select(
    snapshot: &GridSnapshot,
    visible: Option<&BTreeSet<OverviewPlace>>,
    query: &GridQuery,
) -> GridSelection {
    let Some(visible) = visible else { return GridSelection::new(&snapshot.entries, query) };
    let entries = snapshot.entries.iter().filter(|entry| visible.contains(&entry.place));
    GridSelection::new(&entries.cloned().collect::<Vec<_>>(), query)
}

fn alive() -> Event {
    Event::default().event("alive").data("")
}

fn stale() -> Event {
    Event::default().event("stale").data("")
}

/// The slots of an open page, until they are dropped.
struct PageSlots {
    _all: OwnedSemaphorePermit,
    _caller: Option<Arc<()>>,
}

impl PageSlots {
    /// Takes a slot among all open pages, and one among the caller's.
    fn take(call: &AuthenticatedRequest) -> Result<Self, Problem> {
        let limits = &call.shared.state.limits;
        let feeds = &call.shared.feeds;
        let full = || {
            tracing::warn!(limit = limits.open_pages, "limit of open pages reached");
            Problem::new(
                ProblemKind::Overloaded,
                "too many pages are open; reload this one by hand",
            )
        };
        let caller = if call.caller.via == AuthMethod::Loopback {
            None
        } else {
            let place = feeds.callers.open(call.caller.account(), limits.open_pages_of_one);
            Some(place.ok_or_else(|| {
                let detail = format!("{} has too many pages open", call.caller.name);
                Problem::new(ProblemKind::TooMany, detail)
            })?)
        };
        let all = feeds.pages.clone().try_acquire_owned().map_err(|_closed| full())?;
        Ok(Self { _all: all, _caller: caller })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_no_parameter_of_the_page() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let (pairs, version) = take_version(vec![pair("q", "x"), pair("version", "1f")]);
        assert_eq!((pairs, version.as_str()), (vec![pair("q", "x")], "1f"));
        assert_eq!(take_version(vec![]), (vec![], String::new()));
    }
}
