//! `/api/v1/deployments/{id}/events`: a deployment as it goes on, as server-sent events
//! (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).
//!
//! An event carries the whole picture, and its id is a digest of it: who comes again with the last one
//! hears nothing twice, and misses nothing that still counts. Changes of this process ring a bell;
//! other replicas' are found by looking each second. A stream may be open for longer than other
//! requests, so that there is a bound of its own on how many are, of one caller and of all, each ends
//! some time, and whether the caller may see it is asked again each minute.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Sleep;

use crate::api::deployments::DeploymentPicture;
use crate::model::audit::AuthMethod;
use crate::model::callers::Scope;
use crate::model::deployment::Deployment;
use crate::model::id::DeployId;
use crate::server::call::{AuthenticatedRequest, InPath, no_deployment, unavailable};
use crate::server::openapi::{Form, Parameter};
use crate::server::problem::{Problem, ProblemKind};

/// Bells that ring together are answered by one look.
const TOGETHER: Duration = Duration::from_millis(50);
/// Between two looks that bells cause: in a busy process they never cease.
const APART: Duration = Duration::from_millis(500);
/// How long a caller is believed to have the rights that they had.
const BELIEVED: SignedDuration = SignedDuration::from_secs(60);
/// Proxies close what is silent for a minute.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// When a client comes again after the end.
const COME_AGAIN: Duration = Duration::from_secs(2);

pub(super) const RESUME: &[Parameter] = &[Parameter::text(
    "Last-Event-ID",
    Form::NAME,
    "The id of the last event received; the service does not send that event again.",
)];

/// Tells of one deployment until it has ended.
pub(super) async fn follow(
    call: AuthenticatedRequest,
    InPath(id): InPath<DeployId>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let bell = call.deployments().store.changes();
    // Before the picture: what changes between the two is looked at again.
    let version = version(&call, &id).await?;
    let record = load_picture(&call, &id).await?;
    call.authorize(Scope::Read, call.caller.resource_of(&record)).await?;
    let heard = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let (first, ended) = (render_picture(&record), record.state.is_final());
    if ended && heard == Some(first.version.as_str()) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let opened = opened(&call)?;
    let Ok(slot) = call.shared.streams.clone().try_acquire_owned() else {
        tracing::warn!(
            limit = call.shared.state.limits.streams,
            "limit of concurrent event streams reached"
        );
        let detail = "too many deployments are followed at once; try again later";
        return Err(Problem::new(ProblemKind::Overloaded, detail));
    };
    let now = call.deployments().clock.now();
    let following = Following {
        id,
        bell,
        version,
        heard: heard.map(str::to_owned),
        waiting: Some((first, ended)),
        quiet: Box::pin(tokio::time::sleep(Duration::ZERO)),
        since: now,
        asked: now,
        _slots: (slot, opened),
        call,
    };
    let events = futures::stream::unfold(Some(following), |following| async {
        let (event, following) = next(following?).await?;
        Some((Ok::<_, Infallible>(event), following))
    });
    let alive = KeepAlive::new().interval(HEARTBEAT).text("still here");
    Ok(Sse::new(events).keep_alive(alive).into_response())
}

/// A place among those that a caller may have open. Who is asked for nothing is not counted.
fn opened(call: &AuthenticatedRequest) -> Result<Option<Arc<()>>, Problem> {
    if call.caller.via == AuthMethod::Loopback {
        return Ok(None);
    }
    let (account, most) = (call.caller.account(), call.shared.state.limits.streams_of_one);
    let opened = call.shared.streams_of_callers.open(account, most).ok_or_else(|| {
        tracing::warn!(
            caller = call.caller.account(),
            most,
            "limit of a caller's event streams reached"
        );
        let detail = format!("{} follows {most} deployments already", call.caller.name);
        Problem::new(ProblemKind::TooMany, detail).after(COME_AGAIN)
    });
    opened.map(Some)
}

/// A stream that is open.
struct Following {
    call: AuthenticatedRequest,
    id: DeployId,
    bell: watch::Receiver<()>,
    /// The version of the record that was looked up last.
    version: String,
    /// The version of the picture that was told last.
    heard: Option<String>,
    /// What was looked up and not told yet, and whether that is the end.
    waiting: Option<(Told, bool)>,
    /// Until bells cause another look.
    quiet: Pin<Box<Sleep>>,
    /// When it was opened.
    since: Timestamp,
    /// When it was asked whether the caller may see it.
    asked: Timestamp,
    _slots: (OwnedSemaphorePermit, Option<Arc<()>>),
}

/// One picture, and what it is known by.
struct Told {
    version: String,
    data: String,
}

/// The next event, and the stream after it if it goes on.
async fn next(mut following: Following) -> Option<(Event, Option<Following>)> {
    loop {
        if let Some((told, ended)) = following.waiting.take() {
            if following.heard.as_deref() != Some(told.version.as_str()) {
                following.heard = Some(told.version.clone());
                return Some((told.event(), (!ended).then_some(following)));
            }
            if ended {
                return None;
            }
        }
        if !following.wait().await {
            return None;
        }
        // What cannot be read now is asked for again by who comes again.
        let version = version(&following.call, &following.id).await.ok()?;
        following.quiet = Box::pin(tokio::time::sleep(APART));
        if version == following.version && following.age(following.asked) < BELIEVED {
            continue;
        }
        following.version = version;
        let record = load_picture(&following.call, &following.id).await.ok()?;
        following.may_see(&record).await.ok()?;
        following.waiting = Some((render_picture(&record), record.state.is_final()));
    }
}

impl Following {
    /// Waits until there may be something new; `false` when the stream is to end.
    async fn wait(&mut self) -> bool {
        let open = Duration::try_from(self.age(self.since)).unwrap_or_default();
        if open >= self.call.shared.state.limits.open_for {
            return false;
        }
        let rung = async {
            let _ = self.bell.changed().await;
            self.quiet.as_mut().await;
            tokio::time::sleep(TOGETHER).await;
            self.bell.mark_unchanged();
        };
        tokio::select! {
            () = self.call.shared.state.closing.cancelled() => false,
            _ = tokio::time::timeout(self.call.shared.state.limits.look, rung) => true,
        }
    }

    /// Checks again after a while that the caller may see the deployment.
    async fn may_see(&mut self, record: &Deployment) -> Result<(), Problem> {
        if self.age(self.asked) < BELIEVED {
            return Ok(());
        }
        self.asked = self.call.deployments().clock.now();
        self.call.authorize(Scope::Read, self.call.caller.resource_of(record)).await
    }

    fn age(&self, since: Timestamp) -> SignedDuration {
        self.call.deployments().clock.now().duration_since(since)
    }
}

impl Told {
    fn event(self) -> Event {
        let Self { version, data } = self;
        Event::default().event("deployment").id(version).retry(COME_AGAIN).data(data)
    }
}

/// Renders the picture of a record. Equal pictures have the same version, whoever draws them.
fn render_picture(record: &Deployment) -> Told {
    let data = serde_json::to_string(&DeploymentPicture::from(record.clone())).unwrap_or_default();
    let digest = Sha256::digest(&data);
    Told { version: hex::encode(digest.get(..8).unwrap_or_default()), data }
}

async fn load_picture(call: &AuthenticatedRequest, id: &DeployId) -> Result<Deployment, Problem> {
    let found = call.deployments().store.deployment_picture(id).await;
    let found = found.map_err(|error| unavailable(&error))?;
    found.ok_or_else(|| no_deployment(id))
}

async fn version(call: &AuthenticatedRequest, id: &DeployId) -> Result<String, Problem> {
    let found = call.deployments().store.deployment_version(id).await;
    let found = found.map_err(|error| unavailable(&error))?;
    found.ok_or_else(|| no_deployment(id))
}
