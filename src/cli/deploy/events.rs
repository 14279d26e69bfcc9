//! Server-sent events, read as they come (WHATWG HTML, 9.2.6).

use futures::StreamExt as _;
use secrecy::ExposeSecret as _;

use super::super::client::{self, Server};
use super::super::error::CliError;

/// No event of ours is larger; a stream without line ends would fill the memory.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Event {
    /// What it is of.
    pub(super) kind: String,
    /// What to resume after, if it says so.
    pub(super) id: Option<String>,
    /// What it says.
    pub(super) data: String,
}

/// A stream of events.
pub(super) struct Events {
    response: std::pin::Pin<Box<dyn futures::Stream<Item = reqwest::Result<Vec<u8>>> + Send>>,
    reader: Reader,
}

/// Opens a stream below the service's address, after that event; `None` where the service has no such stream.
///
/// # Errors
/// When the service is not reached, or refuses.
pub(super) async fn open(
    server: &Server,
    path: &str,
    after: Option<&str>,
) -> Result<Option<Events>, CliError> {
    let request = client::patient_client()?.get(server.address(path, &[])?);
    let mut request = request.header("accept", "text/event-stream");
    if let Some(after) = after {
        request = request.header("last-event-id", after);
    }
    if let Some(token) = server.bearer()? {
        request = request.bearer_auth(token.expose_secret());
    }
    let answer = request.send().await;
    let answer = answer.map_err(|error| client::unreachable(&server.server, &error))?;
    if matches!(answer.status().as_u16(), 404..=406 | 501) {
        return Ok(None);
    }
    if !answer.status().is_success() {
        return Err(CliError::io(format!("{} answers {}", server.server, answer.status())));
    }
    let kind = answer.headers().get("content-type").and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
        return Ok(None);
    }
    let response = answer.bytes_stream().map(|bytes| bytes.map(|bytes| bytes.to_vec()));
    Ok(Some(Events { response: Box::pin(response), reader: Reader::default() }))
}

impl Events {
    /// The next event; `None` at the end, however it came.
    pub(super) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.reader.event() {
                return Some(event);
            }
            let bytes = self.response.next().await?.ok()?;
            self.reader.push(&bytes)?;
        }
    }
}

/// Takes bytes, gives events. Pure.
#[derive(Debug, Default)]
struct Reader {
    bytes: Vec<u8>,
    event: Event,
    has_data: bool,
}

impl Reader {
    /// `None` when it is too much for a stream of events.
    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let fits = self.bytes.len() + self.event.data.len() + bytes.len() <= MOST_BYTES;
        fits.then(|| self.bytes.extend_from_slice(bytes))
    }

    /// The next whole event.
    fn event(&mut self) -> Option<Event> {
        while let Some(line) = self.line() {
            if line.is_empty() {
                let event = std::mem::take(&mut self.event);
                if std::mem::take(&mut self.has_data) {
                    return Some(event);
                }
            } else {
                self.field(&line);
            }
        }
        None
    }

    /// The next whole line, without its end.
    fn line(&mut self) -> Option<String> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n')?;
        let rest = self.bytes.split_off(end + 1);
        let line = std::mem::replace(&mut self.bytes, rest);
        let line = String::from_utf8_lossy(&line).into_owned();
        Some(line.trim_end_matches(['\n', '\r']).to_owned())
    }

    /// A line that begins with a colon is a sign of life.
    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => value.clone_into(&mut self.event.kind),
            "id" => self.event.id = Some(value.to_owned()),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.has_data = true;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(parts: &[&[u8]]) -> Vec<Event> {
        let mut reader = Reader::default();
        let mut all = Vec::new();
        for part in parts {
            reader.push(part).unwrap();
            all.extend(std::iter::from_fn(|| reader.event()));
        }
        all
    }

    fn event(kind: &str, id: Option<&str>, data: &str) -> Event {
        Event { kind: kind.to_owned(), id: id.map(str::to_owned), data: data.to_owned() }
    }

    #[test]
    fn events_are_read_wherever_the_network_cuts_them() {
        let text = b": hello\n\nevent: deployment\r\nid: 7\r\ndata: {\"a\":\ndata: 1}\n\n: alive\n\ndata:x\n\nevent: lost\n";
        let wanted = [event("deployment", Some("7"), "{\"a\":\n1}"), event("", None, "x")];
        assert_eq!(events(&[text]), wanted);
        let single: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(events(&single), wanted);
    }

    #[test]
    fn a_stream_that_never_ends_a_line_is_left() {
        let mut reader = Reader::default();
        let part = vec![b'x'; MOST_BYTES / 2];
        assert!(reader.push(&part).is_some() && reader.push(&part).is_some());
        assert!(reader.push(b"x").is_none());
    }
}
