//! Following a deployment: the service's stream of events, and whether the service is ready.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::client::{self, Overview, Server};
use super::error::CliError;
use crate::model::id::DeployId;

/// The service's heart beats four times as often.
const SILENCE: Duration = Duration::from_mins(1);
/// Before one comes again after a stream has ended.
const PAUSE: Duration = Duration::from_secs(1);
/// How often one comes again while nothing is heard.
const TRIES: u32 = 30;
/// No event is larger; in bytes.
const LARGEST: usize = 4 * 1024 * 1024;

/// Whether the service is ready, and what it waits for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Readiness {
    pub(super) ready: bool,
    pub(super) checks: Vec<Check>,
}

/// One thing that must work.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Check {
    pub(super) name: String,
    pub(super) ready: bool,
    pub(super) waiting_for: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
}

/// A stream of one deployment's events that comes again by itself where it breaks off.
pub(super) struct Following<'a> {
    server: &'a Server,
    path: String,
    last: Option<String>,
    open: Option<(reqwest::Response, Parser)>,
    tries: u32,
}

impl Server {
    /// Whether the service is ready; it answers with an error's status while it is not.
    pub(super) async fn ready(&self) -> Result<Readiness, CliError> {
        let request = client::service_client()?.get(self.address("/readyz", &[])?);
        let (_, body) = self.answer(request).await?;
        serde_json::from_slice(&body).map_err(|error| {
            CliError::io(format!("{} does not answer like the-deployer: {error}", self.server))
        })
    }

    /// Follows a deployment.
    pub(super) fn follow(&self, id: &DeployId) -> Following<'_> {
        let path = format!("/api/v1/deployments/{id}/events");
        Following { server: self, path, last: None, open: None, tries: TRIES }
    }
}

impl Following<'_> {
    /// The deployment as it is after the next change; `None` when nothing more will change.
    ///
    /// # Errors
    /// When the service refuses, or is silent for half a minute of tries.
    pub(super) async fn next(&mut self) -> Result<Option<Overview>, CliError> {
        loop {
            match self.hear().await {
                Ok(Heard::Event(event)) => {
                    self.tries = TRIES;
                    self.last = event.id;
                    return read(&event.data).map(Some);
                }
                Ok(Heard::Over) => return Ok(None),
                Ok(Heard::Broken) => self.again(None)?,
                Err(error) => self.again(Some(error))?,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// One try less.
    fn again(&mut self, error: Option<CliError>) -> Result<(), CliError> {
        self.open = None;
        match (self.tries.checked_sub(1), error) {
            (Some(left), error) if error.as_ref().is_none_or(CliError::is_passing) => {
                self.tries = left;
                Ok(())
            }
            (_, error) => Err(error.unwrap_or_else(|| {
                CliError::io(format!("{} breaks off again and again", self.server.server))
            })),
        }
    }

    async fn hear(&mut self) -> Result<Heard, CliError> {
        if self.open.is_none() {
            match self.connect().await? {
                Some(response) => self.open = Some((response, Parser::default())),
                None => return Ok(Heard::Over),
            }
        }
        let Some((response, parser)) = &mut self.open else { return Ok(Heard::Broken) };
        loop {
            if let Some(event) = parser.next() {
                return Ok(Heard::Event(event));
            }
            match tokio::time::timeout(SILENCE, response.chunk()).await {
                Ok(Ok(Some(bytes))) if parser.take(&bytes) => {}
                _ => return Ok(Heard::Broken),
            }
        }
    }

    async fn connect(&self) -> Result<Option<reqwest::Response>, CliError> {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        // No bound on the whole: it lasts as long as the deployment.
        let client = reqwest::Client::builder().connect_timeout(SILENCE).build();
        let client =
            client.map_err(|error| CliError::io(format!("cannot make a client: {error}")))?;
        let mut request = client.get(self.server.address(&self.path, &[])?);
        if let Some(last) = &self.last {
            request = request.header("last-event-id", last);
        }
        let asking = tokio::time::timeout(SILENCE, self.server.authorized(request)?.send()).await;
        let silent = || CliError::io(format!("{} does not answer", self.server.server)).passing();
        let response = asking.map_err(|_| silent())?;
        let response = response.map_err(|error| self.server.unreachable(&error).passing())?;
        let status = response.status();
        if status == reqwest::StatusCode::NO_CONTENT {
            return Ok(None);
        }
        if status.is_success() {
            return Ok(Some(response));
        }
        let body = response.bytes().await.map_err(|error| self.server.unreachable(&error))?;
        let error = self.server.refused(status, &body);
        Err(if status.is_server_error() { error.passing() } else { error })
    }
}

/// What a stream said.
enum Heard {
    Event(Event),
    /// Nothing more will come.
    Over,
    /// It broke off, or is silent.
    Broken,
}

fn read(data: &str) -> Result<Overview, CliError> {
    serde_json::from_str(data)
        .map_err(|error| CliError::io(format!("an event of the service cannot be read: {error}")))
}

/// One event.
#[derive(Debug, Default, PartialEq, Eq)]
struct Event {
    id: Option<String>,
    data: String,
}

/// Reads a stream of events as it comes in pieces
/// (<https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream>).
#[derive(Debug, Default)]
struct Parser {
    bytes: Vec<u8>,
    event: Event,
}

impl Parser {
    /// Takes a piece; `false` where an event is too large.
    fn take(&mut self, bytes: &[u8]) -> bool {
        self.bytes.extend_from_slice(bytes);
        self.bytes.len() + self.event.data.len() <= LARGEST
    }

    /// The next event that is whole.
    fn next(&mut self) -> Option<Event> {
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
                "id" => self.event.id = Some(value.to_owned()),
                "data" if self.event.data.is_empty() => self.event.data = value.to_owned(),
                "data" => self.event.data += &format!("\n{value}"),
                // A comment, or what we have no use for.
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_in_whatever_pieces_they_come() {
        let text = ": still here\n\nevent: deployment\nid: a1\nretry: 2000\ndata: {\"x\":\ndata: \"ü\"}\n\n\
                    id:b\r\ndata:last\r\n\r\ndata: not whole\n";
        let wanted = [("a1", "{\"x\":\n\"ü\"}"), ("b", "last")];
        for size in 1..text.len() {
            let mut parser = Parser::default();
            let mut heard = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                assert!(parser.take(piece));
                while let Some(event) = parser.next() {
                    heard.push((event.id.unwrap(), event.data));
                }
            }
            let heard: Vec<_> = heard.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            assert_eq!(heard, wanted, "in pieces of {size}");
        }
    }

    #[test]
    fn what_never_ends_is_not_kept() {
        let mut parser = Parser::default();
        assert!(parser.take(&vec![b'x'; LARGEST]));
        assert!(!parser.take(b"x"));
    }
}
