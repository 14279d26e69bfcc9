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
    rest: String,
}

/// An event.
#[derive(Debug)]
pub(crate) struct ServerEvent(String);

impl EventReader {
    pub(crate) fn new(response: Response) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, rest: String::new() }
    }

    /// The next event; `None` at the end. Heartbeats are passed over.
    pub(crate) async fn next(&mut self) -> Option<ServerEvent> {
        loop {
            let Some((event, rest)) = self.rest.split_once("\n\n") else {
                let chunk = tokio::time::timeout(PATIENCE, self.response.chunk()).await;
                let chunk = chunk.expect("nothing comes").unwrap()?;
                self.rest.push_str(std::str::from_utf8(&chunk).unwrap());
                continue;
            };
            let (event, rest) = (event.to_owned(), rest.to_owned());
            self.rest = rest;
            if !event.starts_with(':') {
                return Some(ServerEvent(event));
            }
        }
    }
}

impl ServerEvent {
    /// A field of the event, which has it: `id`.
    pub(crate) fn field(&self, name: &str) -> &str {
        let value = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("{} has no {name}", self.0)).trim()
    }
}
