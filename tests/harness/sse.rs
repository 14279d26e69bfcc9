//! A client of server-sent events.

use std::time::Duration;

use reqwest::Response;

/// Longer than anything takes, even where every core is busy.
const PATIENCE: Duration = Duration::from_mins(1);

/// A stream of server-sent events, as a client reads it.
#[derive(Debug)]
pub(crate) struct EventReader {
    response: Response,
    /// What came and was not read yet.
    rest: Vec<u8>,
}

/// An event.
#[derive(Debug)]
pub(crate) struct ServerEvent(String);

impl EventReader {
    pub(crate) fn new(response: Response) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, rest: Vec::new() }
    }

    /// The next event; `None` at the end. Heartbeats are passed over.
    pub(crate) async fn next(&mut self) -> Option<ServerEvent> {
        loop {
            let end = self.rest.windows(2).position(|two| two == b"\n\n");
            let Some(end) = end else {
                let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await;
                let chunk = chunk.expect("nothing comes").unwrap()?;
                self.rest.extend_from_slice(&chunk);
                continue;
            };
            let event: Vec<u8> = self.rest.drain(..end + 2).collect();
            let event = String::from_utf8(event).unwrap().trim_end().to_owned();
            if !event.starts_with(':') {
                return Some(ServerEvent(event));
            }
        }
    }
}

impl ServerEvent {
    /// All lines of its data.
    pub(crate) fn data(&self) -> String {
        let lines = self.0.lines().filter_map(|line| line.strip_prefix("data:"));
        lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n")
    }

    /// A field of the event, which has it: `id`.
    pub(crate) fn field(&self, name: &str) -> &str {
        let value = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("{} has no {name}", self.0)).trim()
    }
}
