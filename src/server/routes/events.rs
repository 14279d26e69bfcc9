//! `/api/v1/deployments/{id}/events` and `/api/v1/rollouts/{id}/events`: progress, as server-sent events
//! (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).
//!
//! An event carries the whole state, and its id is a digest of it: a client that connects again with the last id hears
//! nothing twice, and misses nothing that still counts. Changes of this process send a signal; those of other replicas
//! are found by reading each second. A stream may stay open for longer than other requests. So there is a limit on the
//! number of streams, of one caller and of all, each ends some time, and the caller's permission is checked again each
//! minute.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Sleep;

use crate::api::deployments::DeploymentPicture;
use crate::api::rollouts::RolloutDetail;
use crate::model::audit::AuthMethod;
use crate::model::callers::Scope;
use crate::model::id::{DeployId, RolloutId};
use crate::server::auth::Resource;
use crate::server::call::{AuthenticatedRequest, PathParam, no_deployment, unavailable};
use crate::server::openapi::{Form, Parameter};
use crate::server::problem::{Problem, ProblemKind};
use crate::server::routes::rollouts;

/// The time in which signals are answered by one read.
const TOGETHER: Duration = Duration::from_millis(50);
/// The shortest time between two reads that signals cause: in a busy process signals never cease.
const APART: Duration = Duration::from_millis(500);
/// The time for which a permission counts without a new check.
pub(super) const PERMISSION_LIFETIME: SignedDuration = SignedDuration::from_secs(60);
/// The time between two comments that keep a stream open: proxies close one that is silent for a minute.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);
/// The time after which a client connects again.
const COME_AGAIN: Duration = Duration::from_secs(2);

pub(super) const RESUME: &[Parameter] = &[Parameter::text(
    "Last-Event-ID",
    Form::NAME,
    "The id of the last event received; the service does not send that event again.",
)];

/// The record that a stream follows.
#[derive(Debug, Clone)]
enum StreamSubject {
    Deployment(DeployId),
    Rollout(RolloutId),
}

/// Streams one deployment until it has ended.
pub(super) async fn follow_deployment(
    call: AuthenticatedRequest,
    PathParam(id): PathParam<DeployId>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    follow(call, StreamSubject::Deployment(id), &headers).await
}

/// Streams one rollout until it has ended.
pub(super) async fn follow_rollout(
    call: AuthenticatedRequest,
    PathParam(id): PathParam<RolloutId>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    follow(call, StreamSubject::Rollout(id), &headers).await
}

async fn follow(
    call: AuthenticatedRequest,
    subject: StreamSubject,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let bell = call.deployments().store.changes();
    // Before the state is read: a change between the two is read again.
    let version = subject.version(&call).await?;
    let picture = subject.load(&call).await?;
    picture.authorize(&call).await?;
    let last_sent = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    if picture.is_final && last_sent == Some(picture.version.as_str()) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let slots = take_stream_slots(&call, StreamKind::Deployment)?;
    let now = call.deployments().clock.now();
    let following = Following {
        subject,
        bell,
        version,
        last_sent: last_sent.map(str::to_owned),
        waiting: Some(picture),
        quiet: Box::pin(tokio::time::sleep(Duration::ZERO)),
        since: now,
        checked_at: now,
        _slots: slots,
        call,
    };
    let events = futures::stream::unfold(Some(following), |following| async {
        let (event, following) = next(following?).await?;
        Some((Ok::<_, Infallible>(event), following))
    });
    let alive = KeepAlive::new().interval(HEARTBEAT).text("still here");
    Ok(Sse::new(events).keep_alive(alive).into_response())
}

/// The kinds of streams, which are counted each for itself: logs take no slot from deployments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamKind {
    Deployment,
    Log,
}

/// The slots of a stream, until they are dropped.
pub(super) struct StreamSlots {
    _all: OwnedSemaphorePermit,
    _log: Option<OwnedSemaphorePermit>,
    _caller: Option<Arc<()>>,
}

/// Takes a slot among all streams, one among those of a log, and one among the caller's.
pub(super) fn take_stream_slots(
    call: &AuthenticatedRequest,
    kind: StreamKind,
) -> Result<StreamSlots, Problem> {
    let caller = open_stream(call, kind)?;
    let full = |_error| {
        tracing::warn!(
            ?kind,
            limit = call.shared.state.limits.streams,
            "limit of concurrent event streams reached"
        );
        let detail =
            "too many deployments, rollouts and logs are followed at once; try again later";
        Problem::new(ProblemKind::Overloaded, detail)
    };
    let log = match kind {
        StreamKind::Deployment => None,
        StreamKind::Log => Some(call.shared.logs.clone().try_acquire_owned().map_err(full)?),
    };
    let all = call.shared.streams.clone().try_acquire_owned().map_err(full)?;
    Ok(StreamSlots { _all: all, _log: log, _caller: caller })
}

/// Takes a place among the caller's streams. Callers without a token are not counted.
fn open_stream(call: &AuthenticatedRequest, kind: StreamKind) -> Result<Option<Arc<()>>, Problem> {
    if call.caller.via == AuthMethod::Loopback {
        return Ok(None);
    }
    let (limit, what) = match kind {
        StreamKind::Deployment => (&call.shared.streams_of_callers, "deployments"),
        StreamKind::Log => (&call.shared.logs_of_callers, "logs"),
    };
    let (account, most) = (call.caller.account(), call.shared.state.limits.streams_of_one);
    let place = limit.open(account, most).ok_or_else(|| {
        tracing::warn!(
            caller = call.caller.account(),
            ?kind,
            most,
            "limit of a caller's event streams reached"
        );
        let detail = format!("{} follows {most} {what} already", call.caller.name);
        Problem::new(ProblemKind::TooMany, detail).after(COME_AGAIN)
    });
    place.map(Some)
}

/// An open stream.
struct Following {
    call: AuthenticatedRequest,
    subject: StreamSubject,
    bell: watch::Receiver<()>,
    /// The version of the record that was read last.
    version: String,
    /// The version of the state that was sent last.
    last_sent: Option<String>,
    /// The state that was read and not sent yet.
    waiting: Option<VersionedPicture>,
    /// The time until which signals cause no read.
    quiet: Pin<Box<Sleep>>,
    /// The time when the stream was opened.
    since: Timestamp,
    /// The time of the last check of the caller's permission.
    checked_at: Timestamp,
    _slots: StreamSlots,
}

/// One state of the record, and its version.
struct VersionedPicture {
    version: String,
    /// The name of its event.
    event: &'static str,
    data: String,
    /// True if it is the last one.
    is_final: bool,
    /// The resources that a caller must be allowed to see.
    resources: Vec<Resource>,
}

/// Returns the next event, and the stream after it unless it ends.
async fn next(mut following: Following) -> Option<(Event, Option<Following>)> {
    loop {
        if let Some(picture) = following.waiting.take() {
            let is_final = picture.is_final;
            if following.last_sent.as_deref() != Some(picture.version.as_str()) {
                following.last_sent = Some(picture.version.clone());
                return Some((picture.event(), (!is_final).then_some(following)));
            }
            if is_final {
                return None;
            }
        }
        if !following.wait().await {
            return None;
        }
        // A client reads a state that cannot be read now when it connects again.
        let version = following.subject.version(&following.call).await.ok()?;
        following.quiet = Box::pin(tokio::time::sleep(APART));
        if version == following.version && following.age(following.checked_at) < PERMISSION_LIFETIME
        {
            continue;
        }
        following.version = version;
        let picture = following.subject.load(&following.call).await.ok()?;
        following.check_permission(&picture).await.ok()?;
        following.waiting = Some(picture);
    }
}

impl Following {
    /// Waits until the state may have changed; `false` when the stream must end.
    async fn wait(&mut self) -> bool {
        let age = Duration::try_from(self.age(self.since)).unwrap_or_default();
        if age >= self.call.shared.state.limits.open_for {
            return false;
        }
        let ring = async {
            let _ = self.bell.changed().await;
            self.quiet.as_mut().await;
            tokio::time::sleep(TOGETHER).await;
            self.bell.mark_unchanged();
        };
        tokio::select! {
            () = self.call.shared.state.closing.cancelled() => false,
            _ = tokio::time::timeout(self.call.shared.state.limits.look, ring) => true,
        }
    }

    /// Checks the caller's permission again after a while.
    async fn check_permission(&mut self, picture: &VersionedPicture) -> Result<(), Problem> {
        if self.age(self.checked_at) < PERMISSION_LIFETIME {
            return Ok(());
        }
        self.checked_at = self.call.deployments().clock.now();
        picture.authorize(&self.call).await
    }

    fn age(&self, since: Timestamp) -> SignedDuration {
        self.call.deployments().clock.now().duration_since(since)
    }
}

impl VersionedPicture {
    /// Makes the picture of a state. Equal states have the same version in every replica.
    fn new(
        event: &'static str,
        state: &impl Serialize,
        is_final: bool,
        resources: Vec<Resource>,
    ) -> Self {
        let data = serde_json::to_string(state).unwrap_or_default();
        let digest = Sha256::digest(&data);
        let version = hex::encode(digest.get(..8).unwrap_or_default());
        Self { version, event, data, is_final, resources }
    }

    fn event(self) -> Event {
        let Self { version, event, data, .. } = self;
        Event::default().event(event).id(version).retry(COME_AGAIN).data(data)
    }

    /// Fails unless the caller may see the record.
    async fn authorize(&self, call: &AuthenticatedRequest) -> Result<(), Problem> {
        for resource in &self.resources {
            call.authorize(Scope::Read, resource.clone()).await?;
        }
        Ok(())
    }
}

impl StreamSubject {
    /// Reads the record as it is now.
    async fn load(&self, call: &AuthenticatedRequest) -> Result<VersionedPicture, Problem> {
        match self {
            Self::Deployment(id) => {
                let record = call.deployments().store.deployment_picture(id).await;
                let record = record.map_err(|error| unavailable(&error))?;
                let record = record.ok_or_else(|| no_deployment(id))?;
                let (is_final, resource) =
                    (record.state.is_final(), call.caller.resource_of(&record));
                let parts = call.deployments().store.fleet_parts(id).await;
                let parts = parts.map_err(|error| unavailable(&error))?;
                let apps = call.deployments().apps_of(&record).await;
                let apps = apps.map_err(|error| unavailable(&error))?;
                let picture = DeploymentPicture::new(record, parts, apps);
                Ok(VersionedPicture::new("deployment", &picture, is_final, vec![resource]))
            }
            Self::Rollout(id) => {
                let rollout = rollouts::load(call, id).await?;
                let resources = rollouts::resources(call, &rollout).collect();
                let is_final = rollout.record.state.is_final();
                let detail = RolloutDetail::from(rollout);
                Ok(VersionedPicture::new("rollout", &detail, is_final, resources))
            }
        }
    }

    /// Reads the version of the record, which costs less.
    async fn version(&self, call: &AuthenticatedRequest) -> Result<String, Problem> {
        let store = &call.deployments().store;
        match self {
            Self::Deployment(id) => {
                let version = store.deployment_version(id).await;
                let version = version.map_err(|error| unavailable(&error))?;
                version.ok_or_else(|| no_deployment(id))
            }
            Self::Rollout(id) => {
                let version = store.rollout_version(id).await;
                let version = version.map_err(|error| rollouts::unavailable(&error))?;
                version.ok_or_else(|| rollouts::no_rollout(id))
            }
        }
    }
}
