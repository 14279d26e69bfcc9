//! Follows a deployment or a rollout by the service's stream of events.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde::de::DeserializeOwned;

use super::client::{self, ServiceEndpoint};
use super::error::{CliError, CliErrorKind};
use super::verbatim::Verbatim;
use crate::api::deployments::{DeploymentPicture, DeploymentSummary};
use crate::api::rollouts::RolloutDetail;
use crate::model::id::{DeployId, RolloutId};

/// The pause before the next connection after a stream has ended.
const PAUSE: Duration = Duration::from_secs(1);
/// The number of connections in a row without an event, after which following ends.
const TRIES: u32 = 30;
/// The largest event, in bytes.
const LARGEST: usize = 4 * 1024 * 1024;
const STREAM: &str = "text/event-stream";

/// The state of a deployment in an event.
pub(super) type Picture = DeploymentPicture<Verbatim<DeploymentSummary>>;

/// The kind of record that a stream follows.
pub(super) struct RecordKind<P> {
    /// The name of its events.
    event: &'static str,
    /// Returns a text that is the same as long as nothing of interest has changed.
    fingerprint: fn(&P) -> String,
    /// Returns whether nothing changes any more.
    is_final: fn(&P) -> bool,
}

/// A stream of one record's events that reconnects by itself. A service without such streams is polled.
pub(super) struct Following<'a, P> {
    server: &'a ServiceEndpoint,
    path: String,
    kind: RecordKind<P>,
    last: Option<String>,
    way: Way,
    tries: u32,
}

/// The way to read the record's progress.
enum Way {
    /// No stream is open now.
    Closed,
    Stream(Box<(reqwest::Response, Parser)>),
    /// The service is polled; with the fingerprint of the last answer, if there was one.
    Asking(Option<String>),
}

impl ServiceEndpoint {
    /// Follows a deployment.
    pub(super) fn follow(&self, id: &DeployId) -> Following<'_, Picture> {
        let kind = RecordKind {
            event: "deployment",
            fingerprint: |Picture { summary: overview, stages, clusters, apps }: &Picture| {
                let clusters = clusters.iter().map(|part| (part.state, &part.summary));
                let apps = apps.iter().map(|part| (part.state, &part.summary));
                let parts = clusters.chain(apps);
                let parts = parts.map(|(state, summary)| format!(" {} {summary}", state.as_str()));
                let parts = parts.collect::<String>();
                format!("{} {} {}{parts}", overview.state.as_str(), stages.len(), overview.summary)
            },
            is_final: |picture: &Picture| picture.summary.state.is_final(),
        };
        self.follow_record(format!("/api/v1/deployments/{id}"), kind)
    }

    /// Follows a rollout.
    pub(super) fn follow_rollout(&self, id: &RolloutId) -> Following<'_, Verbatim<RolloutDetail>> {
        let kind = RecordKind {
            event: "rollout",
            fingerprint: |rollout: &Verbatim<RolloutDetail>| {
                serde_json::to_string(rollout).unwrap_or_default()
            },
            is_final: |rollout: &Verbatim<RolloutDetail>| rollout.summary.state.is_end(),
        };
        self.follow_record(format!("/api/v1/rollouts/{id}"), kind)
    }

    fn follow_record<P>(&self, path: String, kind: RecordKind<P>) -> Following<'_, P> {
        Following { server: self, path, kind, last: None, way: Way::Closed, tries: TRIES }
    }
}

impl<P: DeserializeOwned> Following<'_, P> {
    /// Returns the record after the next change; `None` when nothing more will change. Half a minute without an
    /// answer is an error.
    pub(super) async fn next(&mut self) -> Result<Option<P>, CliError> {
        loop {
            match self.next_event().await {
                Ok(StreamEvent::Picture(picture)) => {
                    self.tries = TRIES;
                    return Ok(Some(*picture));
                }
                Ok(StreamEvent::Nothing) => self.tries = TRIES,
                Ok(StreamEvent::Over) => return Ok(None),
                Err(error) => {
                    if let Way::Stream(_) = self.way {
                        self.way = Way::Closed;
                    }
                    match self.tries.checked_sub(1) {
                        Some(left) if error.kind == CliErrorKind::Passing => self.tries = left,
                        _ => return Err(error),
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn next_event(&mut self) -> Result<StreamEvent<P>, CliError> {
        if let Way::Closed = self.way {
            self.way = match self.connect().await? {
                Some(way) => way,
                None => return Ok(StreamEvent::Over),
            };
        }
        match &mut self.way {
            Way::Stream(open) => {
                let (response, parser) = &mut **open;
                let event = listen(response, parser, self.kind.event).await.ok_or_else(|| {
                    CliError::io(format!(
                        "the connection to {} broke repeatedly",
                        self.server.url()
                    ))
                    .passing()
                })?;
                self.last = event.id.or(self.last.take());
                read(&event.data).map(|picture| StreamEvent::Picture(Box::new(picture)))
            }
            Way::Asking(before) => ask(self.server, &self.path, &self.kind, before).await,
            Way::Closed => Ok(StreamEvent::Nothing),
        }
    }

    /// Connects to the stream from now on; `None` if it has ended. The service, or a proxy before it, may not support
    /// streams.
    async fn connect(&self) -> Result<Option<Way>, CliError> {
        let address = self.server.address(&format!("{}/events", self.path), &[])?;
        let mut request = client::patient_client()?.get(address).header(ACCEPT, STREAM);
        if let Some(last) = &self.last {
            request = request.header("last-event-id", last);
        }
        let result = self.server.authorize(request)?.send().await;
        let response = result.map_err(|error| self.server.unreachable(&error))?;
        let status = response.status();
        match status.as_u16() {
            204 => return Ok(None),
            300..400 => return Err(self.server.redirect_error(&response)),
            200..300 if is_stream(&response) => {
                return Ok(Some(Way::Stream(Box::new((response, Parser::default())))));
            }
            200..300 | 404..=406 | 501 => return Ok(Some(Way::Asking(None))),
            _ => {}
        }
        let body = client::read_body(self.server.url(), response).await?;
        let error = self.server.problem_error(status, &body);
        // This passes soon: other requests of the same caller have used up the rate limit.
        Err(if status == StatusCode::TOO_MANY_REQUESTS { error.passing() } else { error })
    }
}

/// An event of the stream.
enum StreamEvent<P> {
    Picture(Box<P>),
    /// Nothing has changed.
    Nothing,
    /// The stream has ended for good.
    Over,
}

fn is_stream(response: &reqwest::Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with(STREAM))
}

/// Reads the next event of that kind; `None` if the stream breaks off.
async fn listen(
    response: &mut reqwest::Response,
    parser: &mut Parser,
    kind: &str,
) -> Option<Event> {
    loop {
        while let Some(event) = parser.next() {
            if event.kind.is_empty() || event.kind == kind {
                return Some(event);
            }
        }
        let bytes = response.chunk().await.ok()??;
        parser.take(&bytes).then_some(())?;
    }
}

/// Polls the service for a change since the last answer.
async fn ask<P: DeserializeOwned>(
    server: &ServiceEndpoint,
    path: &str,
    kind: &RecordKind<P>,
    before: &mut Option<String>,
) -> Result<StreamEvent<P>, CliError> {
    let picture: P = server.get(path, &[]).await?;
    let now = Some((kind.fingerprint)(&picture));
    let event = match (now == *before, (kind.is_final)(&picture)) {
        (true, true) => StreamEvent::Over,
        (true, false) => StreamEvent::Nothing,
        (false, _) => StreamEvent::Picture(Box::new(picture)),
    };
    *before = now;
    Ok(event)
}

fn read<P: DeserializeOwned>(data: &str) -> Result<P, CliError> {
    serde_json::from_str(data)
        .map_err(|error| CliError::io(format!("an event of the service cannot be read: {error}")))
}

/// One event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    kind: String,
    id: Option<String>,
    pub(super) data: String,
}

/// A parser of a stream of events in pieces
/// (<https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream>).
#[derive(Debug, Default)]
pub(super) struct Parser {
    bytes: Vec<u8>,
    event: Event,
}

impl Parser {
    /// Adds a piece; `false` if an event is too large.
    pub(super) fn take(&mut self, bytes: &[u8]) -> bool {
        self.bytes.extend_from_slice(bytes);
        self.bytes.len() + self.event.data.len() <= LARGEST
    }

    /// Returns the next complete event.
    pub(super) fn next(&mut self) -> Option<Event> {
        while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            if line.is_empty() {
                let event = std::mem::take(&mut self.event);
                if !event.data.is_empty() {
                    return Some(event);
                }
                continue;
            }
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "event" => value.clone_into(&mut self.event.kind),
                "id" => self.event.id = Some(value.to_owned()),
                "data" if self.event.data.is_empty() => value.clone_into(&mut self.event.data),
                "data" => self.event.data += &format!("\n{value}"),
                // A comment, or a field without a use here.
                _ => {}
            }
        }
        None
    }
}

/// Checks that any stream can be read, and that its division into pieces changes nothing.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz(data: &[u8]) {
    let Some((size, stream)) = data.split_first() else { return };
    let events = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let (mut parser, mut events) = (Parser::default(), Vec::new());
        for piece in pieces {
            if !parser.take(piece) {
                break;
            }
            events.extend(std::iter::from_fn(|| parser.next()));
        }
        events
    };
    let expected = events(&mut std::iter::once(stream));
    assert_eq!(events(&mut stream.chunks(usize::from(*size).max(1))), expected);
    for event in expected {
        let _ = read::<Picture>(&event.data);
        let _ = read::<Verbatim<RolloutDetail>>(&event.data);
    }
}

#[cfg(test)]
mod tests;
